//! Completion in shells: the script for a shell, and the answers to it: commands, options, and names of servers and tools.
//!
//! The script runs the program while somebody types. So nothing is started, nobody is asked for anything, and every wait
//! is short: a name that cannot be found at once is left out.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use crate::config::search::{self, SearchResult};
use crate::config::variables::Variables;
use crate::eval::EvalServers;
use crate::gateway::socket;
use crate::{config, demo};
use clap::{Arg, Command};
use clap_complete::env::Shells;
use clap_complete::{ArgValueCompleter, CompleteEnv, CompletionCandidate, Shell};
use serde::Deserialize;

use super::error::CliError;
use super::printer::print_plain;
use super::remote::RemoteGateway;

/// Prints the script that makes a shell complete command lines.
pub(super) fn print_script(shell: Shell) -> Result<ExitCode, CliError> {
    let shells = Shells::builtins();
    let known = shells.completer(&shell.to_string()).expect("each shell that can be named has a script");
    let mut script = Vec::new();
    known.write_registration(ASKING, PROGRAM, PROGRAM, PROGRAM, &mut script)?;
    if shell == Shell::Zsh {
        script.extend_from_slice(AUTOLOADED.as_bytes());
    }
    print_plain(&script)?;
    Ok(ExitCode::SUCCESS)
}

/// Answers the script of a shell and ends the process, if it was such a script that started it.
pub(super) fn answer_shell(command: fn() -> Command) {
    CompleteEnv::with_factory(|| with_names(command())).var(ASKING).complete();
}

/// Makes the arguments of a command, and of those below it, that name servers and tools complete those names.
fn with_names(command: Command) -> Command {
    let calls = matches!(command.get_name(), "call" | "route" | "explain");
    let with_completer = |arg: Arg| match arg.get_id().as_str() {
        "server" | "expose" => arg.add(ArgValueCompleter::new(complete_server)),
        "tool" => arg.add(ArgValueCompleter::new(complete_tool)),
        "name" if calls => arg.add(ArgValueCompleter::new(complete_tool)),
        _ => arg,
    };
    command.mut_args(with_completer).mut_subcommands(with_names)
}

fn complete_server(typed: &OsStr) -> Vec<CompletionCandidate> {
    candidates(typed, known_servers().into_iter().map(|known| known.server))
}

fn complete_tool(typed: &OsStr) -> Vec<CompletionCandidate> {
    // A tool is named in the form in which its name begins.
    let typed_text = typed.to_string_lossy();
    let separator = if typed_text.contains('.') && !typed_text.contains("__") { "." } else { "__" };
    let names = known_servers().into_iter().flat_map(|KnownServer { server, tool_names }| {
        tool_names.into_iter().map(move |tool| format!("{server}{separator}{tool}"))
    });
    candidates(typed, names)
}

fn candidates(typed: &OsStr, names: impl Iterator<Item = String>) -> Vec<CompletionCandidate> {
    let typed = typed.to_string_lossy();
    // Servers choose the names of their tools, and shells insert some characters so that they would be executed.
    let is_harmless = |name: &str| {
        name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-./".contains(&byte)) && !name.starts_with('-')
    };
    names.filter(|name| name.starts_with(&*typed) && is_harmless(name)).map(CompletionCandidate::new).collect()
}

/// A server, with the tools that are known without asking it.
#[derive(Deserialize)]
struct KnownServer {
    server: String,
    #[serde(default)]
    tool_names: Vec<String>,
}

/// Returns the servers that the command line is about: of a running gateway, the configuration, or the demo. The
/// tools of configured servers are known only if a gateway that runs has them.
fn known_servers() -> Vec<KnownServer> {
    let variables = Variables::from_process();
    let typed = TypedOptions::read(std::env::args_os());
    match typed.gateway.as_deref() {
        // To complete a name must not send a token over a network.
        Some(url) if url.contains("://") => return Vec::new(),
        Some(gateway) => return ask_gateways(&variables, gateway),
        None => {}
    }
    let mut known = match search::find(typed.config.as_deref(), &variables) {
        Ok(SearchResult::File { path, .. }) => configured_servers(&path).unwrap_or_default(),
        Ok(SearchResult::Nothing { .. }) => return demo_server(),
        Err(_) => Vec::new(),
    };
    for running in ask_gateways(&variables, "") {
        if let Some(known) = known.iter_mut().find(|known| known.server == running.server) {
            known.tool_names.extend(running.tool_names);
        }
    }
    for KnownServer { tool_names, .. } in &mut known {
        tool_names.sort();
        tool_names.dedup();
    }
    known
}

/// The options on the command line that say where servers come from.
#[derive(Debug, Default, PartialEq)]
struct TypedOptions {
    config: Option<PathBuf>,
    gateway: Option<String>,
}

impl TypedOptions {
    /// Reads them from what the script passed on: the command line that is being typed stands after `--`.
    fn read(arguments: impl Iterator<Item = OsString>) -> Self {
        let mut typed = TypedOptions::default();
        // Bash makes `=` a word of its own.
        let mut words = arguments.skip_while(|word| word != "--").skip(1).filter(|word| word != "=");
        while let Some(word) = words.next() {
            let word = word.to_string_lossy();
            match word.split_once('=').unwrap_or((&*word, "")) {
                ("--config", "") => typed.config = words.next().map(PathBuf::from),
                ("--config", file) => typed.config = Some(PathBuf::from(file)),
                ("--gateway", gateway) => typed.gateway = Some(gateway.to_owned()),
                _ => {}
            }
        }
        typed
    }
}

/// Returns the servers in this configuration, if it can be read; none of them is started, so it need not be trusted.
fn configured_servers(file: &Path) -> Option<Vec<KnownServer>> {
    let config = config::parse(&config::read_text(file).ok()?, file).ok()?;
    let known = config.servers.into_iter().map(|server| KnownServer { server: server.id, tool_names: Vec::new() });
    Some(known.collect())
}

fn demo_server() -> Vec<KnownServer> {
    let servers: EvalServers = serde_json::from_str(demo::SERVERS).expect("the demo catalog has the shape of eval");
    let known = servers.0.iter().map(|(id, server)| KnownServer {
        server: id.clone(),
        tool_names: server.tools().into_iter().map(|tool| tool.name).collect(),
    });
    known.collect()
}

/// Asks this user's gateways, or the one with this process id or socket, which servers and tools they know.
fn ask_gateways(variables: &Variables, which: &str) -> Vec<KnownServer> {
    let ask = async |path: &Path| {
        let gateway = RemoteGateway::open_socket(path, PATIENCE, &Arc::default()).await.ok()?;
        serde_json::from_str::<ServersPage>(&gateway.get("api/v1/servers").await.ok()?).ok()
    };
    let ask_all = async {
        let which = which.strip_prefix("unix:").unwrap_or(which);
        let sockets = match which {
            path if path.contains('/') => vec![PathBuf::from(path)],
            pid => {
                let running = socket::find_running(&socket::folder(variables)).await.unwrap_or_default();
                let asked = running.into_iter().filter(|running| pid.is_empty() || running.pid.to_string() == pid);
                asked.map(|running| running.path).collect()
            }
        };
        futures_util::future::join_all(sockets.iter().map(|path| ask(path))).await
    };
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return Vec::new() };
    let pages = runtime.block_on(async { tokio::time::timeout(PATIENCE, ask_all).await.unwrap_or_default() });
    pages.into_iter().flatten().flat_map(|page| page.servers).collect()
}

#[derive(Deserialize)]
struct ServersPage {
    servers: Vec<KnownServer>,
}

const PROGRAM: &str = "toolgate";
/// The variable by which a script says that it asks, and which shell it is for.
const ASKING: &str = "TOOLGATE_COMPLETE";
/// How long somebody who types may wait for gateways that do not answer.
const PATIENCE: Duration = Duration::from_millis(300);
/// Makes the script answer at once when zsh loads it as the function `_toolgate` because somebody asks.
const AUTOLOADED: &str = "[[ $funcstack[1] == _toolgate ]] && _clap_dynamic_completer_toolgate \"$@\"\ntrue\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_the_line_that_is_typed_are_found_in_each_form() {
        for (line, config, gateway) in [
            ("toolgate -- toolgate call x", None, None),
            ("toolgate --config a -- toolgate call --config b.yaml", Some("b.yaml"), None),
            ("toolgate -- toolgate --config=b.yaml --gateway", Some("b.yaml"), Some("")),
            ("toolgate -- toolgate --config = b.yaml --gateway=12", Some("b.yaml"), Some("12")),
            ("toolgate -- toolgate tools --config", None, None),
        ] {
            let typed = TypedOptions::read(line.split(' ').map(OsString::from));
            let expected = TypedOptions { config: config.map(PathBuf::from), gateway: gateway.map(str::to_owned) };
            assert_eq!(typed, expected, "{line}");
        }
    }

    #[test]
    fn a_name_that_a_shell_would_execute_is_not_offered() {
        let names = ["a__b", "a__$(touch x)", "a__b;c", "a__`c`", "a__b c", "-a", "a__é", "b__c", "a__b.c/d-e"];
        let found = candidates(OsStr::new("a"), names.into_iter().map(str::to_owned));
        let found: Vec<_> = found.iter().map(|found| found.get_value().to_str().unwrap()).collect();
        assert_eq!(found, ["a__b", "a__b.c/d-e"]);
    }
}
