//! The context of commands that talk to servers: a configuration, a gate, and a printer that hides secrets.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use crate::calendar;
use crate::config;
use crate::config::duration::{self, DurationUnit};
use crate::config::lineage::{self, Role};
use crate::config::model::Config;
use crate::config::nearest;
use crate::config::resolve::env_file_digests;
use crate::config::search::{self, ConfigLocation, SearchResult};
use crate::config::secrets::Secrets;
use crate::config::variables::Variables;
use crate::gate::{Gate, GateView};
use crate::logic::types::execution::Code;
use crate::logic::types::filtering::SelectedServer;
use crate::registry::{Lease, Link, Registry, RegistryLifetime, RegistryOptions, Unavailable};
use crate::session::{DecliningHandler, Topics};

use super::error::CliError;
use super::logic_args::LogicArgs;
use super::printer::Printer;
use super::signals::Signals;
use super::style;
use super::terminal::{self, TerminalPrompter, WaitingLine};
use super::trust;

/// Which servers to use, how long to wait, and how to print.
#[derive(clap::Args, Clone, Debug, Default)]
pub(super) struct ServerArgs {
    /// Only this server; can be repeated
    #[arg(long, value_name = "ID")]
    pub server: Vec<String>,
    /// How long a server may take to start, and then to answer, such as 30s or 2m; progress does not extend it
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub timeout: Option<Duration>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

impl ServerArgs {
    /// Merges these options with others, which fill in what is missing here.
    pub(super) fn or(mut self, other: &ServerArgs) -> Self {
        self.server.extend(other.server.iter().cloned());
        self.timeout = self.timeout.or(other.timeout);
        self.json |= other.json;
        self
    }

    /// Sets the servers' timeouts to `--timeout`, if it is given.
    pub(super) fn apply_timeout(&self, config: &mut Config) {
        let Some(timeout) = self.timeout else { return };
        for server in &mut config.servers {
            server.timeouts.list = timeout;
            server.timeouts.initialize = timeout;
            server.timeouts.reinitialize = timeout;
            server.timeouts.total = timeout;
        }
    }
}

/// What to do if no configuration is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConfigFallback {
    /// Use the built-in demo server.
    Demo,
    /// Fail, and list the places that were searched.
    Fail,
}

/// How to open the context of a command.
pub(super) struct ContextOptions<'a> {
    /// The component to load.
    pub logic: &'a LogicArgs,
    /// The configuration file, if one was named.
    pub config: Option<&'a Path>,
    /// The servers to use.
    pub servers: ServerArgs,
    /// What to do without a configuration.
    pub fallback: ConfigFallback,
    /// The secrets to hide, which grow with the configuration.
    pub secrets: &'a Arc<Mutex<Secrets>>,
    /// The view of the gate.
    pub view: GateView,
    /// The folder to record calls in.
    pub record: Option<&'a Path>,
    /// The topics to declare to servers, which may show more to such a client; every question is declined.
    pub topics: Topics,
}

/// An open gate over the configured servers, and a printer.
pub(super) struct CliContext {
    /// The gate over the selected servers.
    pub gate: Gate,
    /// The selected servers; empty means all.
    only: Vec<String>,
    printer: Printer,
}

/// A configuration file that was read.
#[derive(Clone, Debug)]
pub(super) struct ConfigFile {
    /// The file, as an absolute path.
    pub path: PathBuf,
    /// Where it was found.
    pub found_in: ConfigLocation,
    /// Its text.
    pub text: String,
}

/// Finds and reads the configuration, and also returns its file, which can be read again later.
pub(super) fn load_config(
    flag: Option<&Path>,
    variables: &Variables,
    fallback: ConfigFallback,
) -> Result<(Config, Option<ConfigFile>), CliError> {
    find_config(flag, variables, fallback, true)
}

/// Finds and reads the configuration for a command that starts no program and sends nothing. Such a command needs no
/// trust, unless values of the file may run commands.
pub(super) fn load_config_to_read(
    flag: Option<&Path>,
    variables: &Variables,
    fallback: ConfigFallback,
) -> Result<(Config, Option<ConfigFile>), CliError> {
    find_config(flag, variables, fallback, false)
}

fn find_config(
    flag: Option<&Path>,
    variables: &Variables,
    fallback: ConfigFallback,
    starts_programs: bool,
) -> Result<(Config, Option<ConfigFile>), CliError> {
    match search::find(flag, variables).map_err(CliError::usage)? {
        SearchResult::File { path, found_in } => {
            // Read the file once, so that the text that is checked is the text that is used.
            let text = config::read_text(&path).map_err(CliError::usage)?;
            let mut config = config::parse(&text, &path).map_err(CliError::usage);
            // An unreadable file runs nothing; the error of reading it comes below.
            let runs = starts_programs || config.as_ref().is_ok_and(|found| found.settings.allow_commands);
            if found_in == ConfigLocation::WorkingDirectory && runs {
                let env_files = config.as_ref().map(|found| env_file_digests(found, variables)).unwrap_or_default();
                trust::check(&path, &text, &env_files, variables)?;
                if let Ok(config) = &mut config {
                    config.trusted_env_files = Some(env_files);
                }
            }
            if found_in != ConfigLocation::Flag {
                style::write_note(&format!("using {}", path.display()));
            }
            let config = config?;
            config.notices.iter().for_each(|notice| style::write_notice(&notice.to_string()));
            Ok((config, Some(ConfigFile { path, found_in, text })))
        }
        SearchResult::Nothing { .. } if fallback == ConfigFallback::Demo => {
            style::write_note("no configuration found, so this is the built-in demo server (see `toolgate --help`)");
            let binary = std::env::current_exe()?;
            Ok((config::demo(binary.to_string_lossy().into_owned()), None))
        }
        SearchResult::Nothing { searched } => {
            let looked: Vec<_> = searched.iter().map(|path| format!("  {}", path.display())).collect();
            Err(CliError::Usage(format!(
                "no configuration found; give one with --config, or write one of:\n{}",
                looked.join("\n")
            )))
        }
    }
}

/// Adds this process to the lineage that the programs it starts inherit, so that a gateway cannot start itself again.
pub(super) fn enter_lineage(
    variables: &mut Variables,
    origin: Option<&ConfigFile>,
    role: Role,
) -> Result<(), CliError> {
    let config = origin.map(|origin| (origin.path.as_path(), origin.text.as_str()));
    lineage::enter(variables, config, role).map_err(CliError::usage)
}

impl CliContext {
    /// Opens a gate over the servers that were asked for.
    fn open(options: ContextOptions<'_>) -> Result<Self, CliError> {
        let ContextOptions { logic, config, servers, fallback, secrets, mut view, record, topics } = options;
        let mut variables = Variables::from_process();
        variables.prompter = Arc::new(TerminalPrompter::default());
        let (mut config, origin) = load_config(config, &variables, fallback)?;
        enter_lineage(&mut variables, origin.as_ref(), Role::Command)?;
        servers.server.iter().try_for_each(|id| check_configured(&config, id))?;
        if !servers.server.is_empty() {
            // Keep the other servers in the configuration: what belongs to them must not reach the selected ones.
            for server in &mut config.servers {
                server.enabled &= servers.server.contains(&server.id);
            }
            // A record of the call then shows that the others were left out on purpose.
            let usable = config.servers.iter().filter(|server| server.enabled && config::is_id(&server.id));
            let selected = usable.map(|server| SelectedServer { id: server.id.clone(), tools: Vec::new() });
            view.selection = Some(selected.collect());
        }
        servers.apply_timeout(&mut config);
        let options = RegistryOptions {
            variables,
            handler: Arc::new(DecliningHandler(topics)),
            secrets: Arc::clone(secrets),
            lifetime: RegistryLifetime::OneShot,
            record: record.map(Path::to_owned),
            ..RegistryOptions::default()
        };
        let registry = Registry::new(&logic.component(logic.limits())?, config, options)?;
        let gate = Gate::open(&registry, view.in_new_session())?;
        Ok(CliContext { gate, only: servers.server, printer: Printer(Arc::clone(secrets)) })
    }

    /// Returns the selected servers, each by the connection that calls would use: only the gate knows the session.
    pub(super) fn requested_links(&self) -> Vec<Arc<Link>> {
        let mut links = Vec::new();
        for link in self.gate.registry().links().iter() {
            if !self.only.is_empty() && !self.only.iter().any(|only| only == link.id()) {
                continue;
            }
            let of_gate = if link.server().enabled { self.gate.link(link.id()) } else { None };
            links.push(of_gate.unwrap_or_else(|| Arc::clone(link)));
        }
        links
    }

    /// Returns the selected servers that are enabled.
    pub(super) fn enabled_links(&self) -> Vec<Arc<Link>> {
        let mut links = self.requested_links();
        links.retain(|link| link.server().enabled);
        links
    }

    /// Connects to all selected servers concurrently, and returns each outcome.
    pub(super) async fn connect_all(&self) -> Vec<(Arc<Link>, Result<Lease, Unavailable>)> {
        self.connect_each(|_, _| {}).await
    }

    /// Connects to all selected servers concurrently, and returns each outcome; tells of each that can be used as soon as
    /// it is connected.
    pub(super) async fn connect_each(
        &self,
        connected: impl Fn(&Link, &WaitingLine),
    ) -> Vec<(Arc<Link>, Result<Lease, Unavailable>)> {
        let links = self.enabled_links();
        let waiting = WaitingLine::new(links.iter().map(|link| link.id()));
        let connect = links.into_iter().map(|link| {
            let (waiting, connected) = (&waiting, &connected);
            async move {
                let lease = self.gate.connect(&link).await;
                waiting.answered(link.id());
                if lease.is_ok() {
                    connected(&link, waiting);
                }
                (link, lease)
            }
        });
        futures_util::future::join_all(connect).await
    }

    /// Suggests what a name that leads to no tool was probably meant to be.
    pub(super) fn suggest(&self, name: &str) -> Option<String> {
        let plain = name.strip_prefix("mcp__").unwrap_or(name).replacen("__", ".", 1);
        let tools = self.gate.tools(&self.gate.style()).ok()?;
        let names: Vec<String> = tools.iter().map(|tool| format!("{}.{}", tool.tool.server, tool.tool.tool)).collect();
        let tool = nearest::nearest(&plain, names.iter().map(String::as_str)).map(str::to_owned);
        // A server that was not asked for its tools may have this one.
        let of_server = || {
            let (server, tool) = plain.split_once('.')?;
            let links = self.enabled_links();
            let known = links.iter().map(|link| link.id()).filter(|id| *id != server);
            Some(format!("{}.{tool}", nearest::nearest(server, known)?))
        };
        tool.or_else(of_server)
    }

    /// Prints a note with what an unknown name was probably meant to be, unless the error says so itself.
    pub(super) fn note_suggestion(&self, code: Code, name: &str, error: &str) {
        if code == Code::UnknownServer
            && let Some(server) = self.disabled_server(name)
        {
            style::write_note(&format!("server {server:?} is disabled in the configuration"));
        } else if matches!(code, Code::InvalidName | Code::UnknownServer | Code::UnknownTool)
            && let Some(near) = self.suggest(name)
            && !error.ends_with(&format!("did you mean {near:?}?"))
        {
            style::write_note(&format!("did you mean {near:?}?"));
        }
    }

    /// Returns the disabled server that a name means.
    fn disabled_server(&self, name: &str) -> Option<String> {
        let plain = name.strip_prefix("mcp__").unwrap_or(name).replacen("__", ".", 1);
        let (server, _) = plain.split_once('.')?;
        let mut disabled = self.requested_links().into_iter().filter(|link| !link.server().enabled);
        disabled.find(|link| link.id() == server).map(|link| link.id().to_owned())
    }

    /// Prints a note that says why there is nothing to list, unless warnings about servers have said so.
    pub(super) fn note_nothing(&self, what: &str, any_failed: bool) {
        let links = self.requested_links();
        let ids: Vec<_> = links.iter().map(|link| link.id()).collect();
        if ids.is_empty() {
            style::write_note("the configuration has no servers");
        } else if self.enabled_links().is_empty() {
            style::write_note(&format!("no {what}: disabled in the configuration: {}", ids.join(", ")));
        } else if !any_failed {
            style::write_note(&format!("no {what}: the servers offer none that the configuration allows"));
        }
    }

    /// Prints a warning about a server that cannot be used.
    pub(super) fn warn_unusable(&self, link: &Link, why: &Unavailable) {
        self.warn(&format!("server {:?}: {why}", link.id()));
    }

    /// Prints a server's answer, cut to the size limit for tool results.
    pub(super) fn print_answer(&self, text: &str) -> Result<(), CliError> {
        self.print(&self.gate.cut(text)?)
    }
}

impl Deref for CliContext {
    type Target = Printer;

    /// Gives access to the printer's methods.
    fn deref(&self) -> &Printer {
        &self.printer
    }
}

/// Runs a command in its context until it ends or a signal arrives, and then stops all servers.
pub(super) fn run(
    options: ContextOptions<'_>,
    command: impl AsyncFnOnce(&CliContext) -> Result<ExitCode, CliError>,
) -> Result<ExitCode, CliError> {
    let context = CliContext::open(options)?;
    run_until_signal(command(&context), context.gate.registry().close())
}

/// Runs a command until it ends or a signal arrives, and then runs `leave`.
pub(super) fn run_until_signal(
    work: impl Future<Output = Result<ExitCode, CliError>>,
    leave: impl Future<Output = ()>,
) -> Result<ExitCode, CliError> {
    let signals = Signals::new()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(async {
        let outcome = tokio::select! {
            outcome = work => outcome,
            () = signals.interrupted() => Err(CliError::Interrupted),
        };
        leave.await;
        outcome
    });
    // Do not wait for a prompt that nobody answers.
    runtime.shutdown_background();
    terminal::restore_echo();
    outcome
}

/// Runs a command until it ends or a signal arrives. A signal is a normal end of a command that goes on until somebody
/// stops it.
pub(super) fn run_until_stopped(
    is_endless: bool,
    work: impl Future<Output = Result<ExitCode, CliError>>,
) -> Result<ExitCode, CliError> {
    match run_until_signal(work, async {}) {
        Err(CliError::Interrupted) if is_endless => Ok(ExitCode::SUCCESS),
        outcome => outcome,
    }
}

/// Returns an error if no server with this id is configured.
pub(super) fn check_configured(config: &Config, id: &str) -> Result<(), CliError> {
    let known: Vec<_> = config.servers.iter().map(|server| server.id.as_str()).collect();
    if known.contains(&id) {
        return Ok(());
    }
    let hint = nearest::hint(id, known.iter().copied());
    Err(CliError::NotFound(format!("no server {id:?} is configured; there are: {}{hint}", known.join(", "))))
}

/// Parses a time in the past: an age, or a date or time.
pub(super) fn since(text: &str) -> Result<SystemTime, String> {
    let ago = duration::parse(text, DurationUnit::Seconds).ok().flatten().filter(|ago| !ago.is_zero());
    let then = ago.and_then(|ago| SystemTime::now().checked_sub(ago));
    then.or_else(|| calendar::parse(text)).ok_or_else(|| {
        "write how long ago, such as 7d or 12h, or when, such as 2026-11-15 or 2026-11-15T17:30:00Z".to_owned()
    })
}

/// Parses a time span such as `30s`.
pub(super) fn time(text: &str) -> Result<Duration, String> {
    match duration::parse(text, DurationUnit::Seconds) {
        Ok(Some(time)) if !time.is_zero() => Ok(time),
        Ok(_) => Err("without any time nothing can answer; write a time such as 30s, 500ms or 2m".to_owned()),
        Err(why) => Err(why),
    }
}
