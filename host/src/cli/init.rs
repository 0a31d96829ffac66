//! `toolgate init`: finds the servers of MCP clients, writes them to one configuration, and lets a client use it.

mod client_edit;
mod survey;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use crate::config;
use crate::config::client_files::{ClientScope, client_files};
use crate::config::import::ImportClient;
use crate::config::loosened::find_loosened;
use crate::config::model::{Config, ServerAuth};
use crate::config::resolve::{env_file_digests, known_secrets};
use crate::config::search::{self, SearchResult};
use crate::config::secrets::Secrets;
use crate::config::trust::TrustStore;
use crate::config::variables::Variables;
use crate::lock::lock;
use crate::private_files;
use serde::Serialize;

use super::error::CliError;
use super::files::client_parser;
use super::printer::Printer;
use super::{style, table};
use client_edit::{ClientChange, ClientEdit};
use survey::{FileReport, Survey};

/// The arguments of `toolgate init`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The toolgate.yaml to write; by default, the one in your configuration folder
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Replace a file that exists; with --undo, also one that has changed since
    #[arg(long)]
    force: bool,
    /// Let this client use toolgate: put one entry into its file, and keep a backup
    #[arg(long, value_name = "CLIENT", value_parser = client_parser())]
    client: Option<ImportClient>,
    /// Change the client's file in the working directory instead of your own
    #[arg(long, requires = "client")]
    project: bool,
    /// Also take the servers that toolgate.yaml has out of the client's file
    #[arg(long, requires = "client")]
    replace: bool,
    /// Put the backup of the client's file back
    #[arg(long, requires = "client", conflicts_with_all = ["out", "replace", "dry_run"])]
    undo: bool,
    /// Show what would be written, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What was found and written, in JSON.
#[derive(Serialize)]
struct InitReport<'a> {
    /// The configuration.
    file: String,
    /// Whether the configuration was written; `false` if it was there already, or with `--dry-run`.
    written: bool,
    /// The ids of its servers.
    servers: Vec<String>,
    /// The paths of the values in it that are secrets in plain text.
    secrets: &'a [String],
    /// The files of clients.
    found: &'a [FileReport],
    /// What happened to the file of `--client`.
    client: Option<&'a ClientChange>,
}

/// Finds servers, writes the configuration, and puts the entry into a client's file.
pub(super) fn run(args: &Args, flag: Option<&Path>, secrets: &Arc<Mutex<Secrets>>) -> Result<ExitCode, CliError> {
    let variables = Variables::from_process();
    let printer = Printer(Arc::clone(secrets));
    let client_file = args.client.map(|client| client_file(client, args.project, &variables)).transpose()?;
    if args.undo
        && let Some(file) = &client_file
    {
        let undone = client_edit::undo(file, args.force)?;
        match args.json {
            true => printer.print_json(&undone)?,
            false => printer.print(&style::clean(&undone.describe()))?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    let out = destination(args, flag, &variables)?;
    let is_there = std::fs::symlink_metadata(&out).is_ok();
    let is_kept = is_there && !args.force;
    let survey = Survey::new(&out, &variables);
    // A configuration that is used as it is need not have what was found.
    if !(args.json || is_kept && args.client.is_some()) {
        printer.print_colored(&survey.describe())?;
        survey.files.iter().flat_map(|file| &file.notices).for_each(|notice| style::write_notice(notice));
    }
    if is_kept && args.client.is_none() {
        return Err(CliError::Usage(format!(
            "{} is there already; --client CLIENT lets a client use it, --out FILE writes another, and --force replaces it with \
             what is found now, without the rules that you wrote",
            out.display()
        )));
    }
    if !is_kept && survey.merge.ids().is_empty() {
        return Err(CliError::Usage(survey.describe_nothing(&variables)));
    }
    let (yaml, plain) =
        if is_kept { (config::read_text(&out).map_err(CliError::usage)?, Vec::new()) } else { survey.merge.write() };
    let parsed = config::parse(&yaml, &out).map_err(|error| match is_kept {
        true => CliError::usage(error),
        false => CliError::Usage(format!("these servers cannot be in one file: {error}")),
    })?;
    // The values that were just copied must not be shown.
    lock(secrets).merge(&secrets_of(&parsed, &variables));
    let edit = match &client_file {
        Some(file) => Some(ClientEdit::new(file, &out, &parsed, args.replace, &variables)?),
        None => None,
    };
    if !args.dry_run && !is_kept {
        write(&out, &yaml, &parsed, args.out.is_none(), &variables)?;
    }
    let change = edit.map(|edit| if args.dry_run { Ok(edit.planned()) } else { edit.apply() }).transpose()?;
    if args.json {
        let servers = parsed.servers.iter().map(|server| server.id.clone()).collect();
        let (file, written) = (out.display().to_string(), !is_kept && !args.dry_run);
        let client = change.as_ref();
        printer.print_json(&InitReport { file, written, servers, secrets: &plain, found: &survey.files, client })?;
        return Ok(ExitCode::SUCCESS);
    }
    printer.print(&describe_config(&out, &yaml, &parsed, &plain, is_kept, args))?;
    if let Some(change) = &change {
        printer.print(&style::clean(&change.describe(&out)))?;
    }
    advise(&out, args, &variables);
    Ok(ExitCode::SUCCESS)
}

/// Returns the secrets of all servers. Nothing is filled into the values of disabled ones, because their file may not be
/// trusted, and filling in reads files.
fn secrets_of(config: &Config, variables: &Variables) -> Secrets {
    let (enabled, disabled): (Vec<_>, Vec<_>) = config.servers.iter().cloned().partition(|server| server.enabled);
    let mut secrets = known_secrets(&Config { servers: enabled, ..config.clone() }, variables);
    for server in &disabled {
        server.env.iter().for_each(|(name, value)| secrets.add_env(name, &value.text));
        server.headers.iter().for_each(|(name, value)| secrets.add_header(name, &value.text));
        server.url.iter().for_each(|url| secrets.add_address(&url.text));
        let args: Vec<&str> = server.args.iter().map(|arg| arg.text.as_str()).collect();
        for (at, arg) in args.iter().enumerate() {
            secrets.add_argument(at.checked_sub(1).map(|before| args[before]), arg);
        }
        if let ServerAuth::Bearer(token) = &server.auth {
            secrets.add(&token.text);
        }
    }
    secrets
}

/// Returns the file of a client where the entry belongs.
fn client_file(
    client: ImportClient,
    project: bool,
    variables: &Variables,
) -> Result<config::client_files::ClientFile, CliError> {
    let scope = if project { ClientScope::Project } else { ClientScope::User };
    let found = client_files(variables).into_iter().find(|file| file.client == client && file.scope == scope);
    found.ok_or_else(|| {
        let what = if project { "has no file for this folder" } else { "has no file without a home folder; set HOME" };
        CliError::Usage(format!("{} {what}", client.title()))
    })
}

/// Returns the path of the configuration to write, or to use if it is there.
fn destination(args: &Args, flag: Option<&Path>, variables: &Variables) -> Result<PathBuf, CliError> {
    let path = match (flag, &args.out) {
        (Some(_), Some(_)) => return Err(CliError::usage("give --config or --out, not both")),
        (Some(_), None) if args.client.is_none() || args.force => {
            return Err(CliError::usage(
                "name the file to write with --out; --config names one for --client to use as it is",
            ));
        }
        (Some(file), None) => match search::find(Some(file), variables).map_err(CliError::usage)? {
            SearchResult::File { path, .. } => path,
            SearchResult::Nothing { .. } => return Err(CliError::usage("there is no such file")),
        },
        (None, Some(out)) => variables.workspace.join(out),
        (None, None) => search::user_file(variables)
            .ok_or_else(|| CliError::usage("you have no configuration folder; set HOME, or give --out FILE"))?,
    };
    let is_yaml = path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml");
    if flag.is_none() && !path.exists() && !is_yaml {
        return Err(CliError::Usage(format!("{}: give it a name that ends with .yaml", path.display())));
    }
    Ok(path.components().collect())
}

/// Writes the configuration for the user alone, and trusts it. A file that it replaces is kept.
fn write(out: &Path, yaml: &str, new: &Config, is_default: bool, variables: &Variables) -> Result<(), CliError> {
    let failed = |error| CliError::Usage(format!("{} cannot be written: {error}", out.display()));
    if let (true, Some(folder)) = (is_default, out.parent()) {
        private_files::create_folder(folder).map_err(failed)?;
    }
    if std::fs::symlink_metadata(out).is_ok() {
        // A device would be replaced, and a pipe read without end.
        if !std::fs::metadata(out).map_err(failed)?.is_file() {
            return Err(failed(io::Error::other("it is not a regular file; name another one with --out")));
        }
        let before = std::fs::read(out).map_err(failed)?;
        let kept = client_edit::keep(out, &before, yaml.as_bytes()).map_err(failed)?;
        let real = std::fs::canonicalize(out).map_err(failed)?;
        private_files::replace(&real, yaml.as_bytes()).map_err(failed)?;
        style::write_note(&format!("{} is the file as it was", kept.display()));
        let old = String::from_utf8(before).ok().and_then(|text| config::parse(&text, out).ok());
        for lost in old.iter().flat_map(|old| find_loosened(old, new)) {
            style::write_warning(&style::clean(&format!("a rule is looser than before: {lost}")));
        }
        let is_new = |id: &str| new.servers.iter().any(|server| server.id == id);
        let lost: Vec<_> =
            old.iter().flat_map(|old| &old.servers).map(|server| &*server.id).filter(|id| !is_new(id)).collect();
        if !lost.is_empty() {
            style::write_warning(&style::clean(&format!("servers that only that file has: {}", lost.join(", "))));
        }
    } else {
        private_files::create_file(out).and_then(|mut file| file.write_all(yaml.as_bytes())).map_err(failed)?;
    }
    trust(out, yaml, variables);
    Ok(())
}

/// Trusts a configuration that was written for the user just now.
pub(super) fn trust(file: &Path, text: &str, variables: &Variables) {
    let config = config::parse(text, file);
    let env_files = config.map(|config| env_file_digests(&config, variables)).unwrap_or_default();
    if let Err(error) = TrustStore::user(variables).trust(file, text.as_bytes(), &env_files) {
        style::write_warning(&style::clean(&format!("{} is not trusted: {error}", file.display())));
    }
}

/// Says what the configuration is, and where it has secrets.
fn describe_config(out: &Path, yaml: &str, config: &Config, plain: &[String], is_kept: bool, args: &Args) -> String {
    let disabled = config.servers.iter().filter(|server| !server.enabled).count();
    let mut servers = table::count_of(config.servers.len() as u64, "server");
    if disabled > 0 {
        servers += &format!(" ({disabled} disabled)");
    }
    let shown = style::clean(&out.display().to_string());
    let mut text = match (is_kept, args.dry_run) {
        (true, _) => format!("{shown} is used as it is, with {servers}\n"),
        (false, true) => format!("would write {shown} with {servers}:\n{}", style::clean(yaml)),
        (false, false) => format!("wrote {shown} with {servers}; only you can read it\n"),
    };
    if !plain.is_empty() {
        text +=
            &format!("secrets in it, in plain text as your clients had them: {}\n", style::clean(&plain.join(", ")));
    }
    text
}

/// Says what could go wrong next, and what to do next.
fn advise(out: &Path, args: &Args, variables: &Variables) {
    let shown = out.display();
    let mut named = String::new();
    match search::find(None, variables) {
        Ok(SearchResult::File { path, .. }) if path == out => {}
        Ok(SearchResult::File { path, .. }) => {
            named = format!(" --config {shown}");
            style::write_note(&format!(
                "here, toolgate finds {} first, so name the new file with --config",
                path.display()
            ));
        }
        _ => named = format!(" --config {shown}"),
    }
    if args.dry_run {
        return;
    }
    if args.client.is_some() {
        let path = variables.non_empty("PATH").unwrap_or_default();
        let in_path = std::env::split_paths(path).any(|folder| folder.join("toolgate").is_file());
        if let (false, Ok(this)) = (in_path, std::env::current_exe()) {
            style::write_warning(&style::clean(&format!(
                "toolgate is not in PATH, where the client looks for it: put it there, or write {:?} as the command",
                this.display().to_string()
            )));
        }
    } else {
        style::write_note(&format!(
            "`toolgate check{named}` connects them all; `toolgate init --client CLIENT` lets a client use them"
        ));
    }
}
