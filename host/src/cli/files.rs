//! `toolgate trust`, `schema` and `import`: commands about configuration files.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::config;
use crate::config::import::ImportClient;
use crate::config::search::{self, SearchResult};
use crate::config::trust::TrustStore;
use crate::config::variables::Variables;
use crate::private_files;

use super::error::CliError;
use super::printer::print_plain;
use super::style;

/// The arguments of `toolgate trust`.
#[derive(clap::Args)]
pub struct TrustArgs {
    /// The file; by default, the one in the working directory
    file: Option<PathBuf>,
}

/// Trusts a configuration file as it is now.
pub fn trust(args: &TrustArgs, flag: Option<&Path>) -> Result<ExitCode, CliError> {
    let variables = Variables::from_process();
    let found = match &args.file {
        Some(file) => search::find_named(file, "the argument", &variables),
        None => search::find(flag, &variables),
    };
    let path = match found.map_err(|error| CliError::Usage(error.to_string()))? {
        SearchResult::File { path, .. } => path,
        SearchResult::Nothing { .. } => {
            return Err(CliError::Usage("there is no configuration file to trust in this folder".to_owned()));
        }
    };
    let usage = |error: config::ConfigError| CliError::Usage(error.to_string());
    let text = config::read_text(&path).map_err(usage)?;
    let config = config::parse(&text, &path).map_err(usage)?;
    TrustStore::user(&variables).trust(&path, text.as_bytes())?;
    let count = config.servers.len();
    style::write_stderr(format_args!(
        "trusted {} with {count} server{}",
        style::clean(&path.display().to_string()),
        if count == 1 { "" } else { "s" }
    ));
    Ok(ExitCode::SUCCESS)
}

/// Prints the JSON Schema of `toolgate.yaml`.
pub fn schema() -> Result<ExitCode, CliError> {
    let schema = serde_json::to_string_pretty(&config::schema::schema()).expect("a JSON value is always JSON");
    print_plain(format!("{schema}\n").as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// The arguments of `toolgate import`.
#[derive(clap::Args)]
pub struct ImportArgs {
    /// The client that the file belongs to
    #[arg(long, value_enum, value_name = "CLIENT")]
    from: ImportFrom,
    /// The file to import
    file: PathBuf,
    /// Write the toolgate.yaml to this new file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// The clients whose files can be imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum ImportFrom {
    ClaudeDesktop,
    ClaudeCode,
    Vscode,
    Cursor,
    Gemini,
    Codex,
}

/// Converts the file of a client to a `toolgate.yaml`.
pub fn import(args: &ImportArgs) -> Result<ExitCode, CliError> {
    let client = match args.from {
        ImportFrom::ClaudeDesktop => ImportClient::ClaudeDesktop,
        ImportFrom::ClaudeCode => ImportClient::ClaudeCode,
        ImportFrom::Vscode => ImportClient::VsCode,
        ImportFrom::Cursor => ImportClient::Cursor,
        ImportFrom::Gemini => ImportClient::Gemini,
        ImportFrom::Codex => ImportClient::Codex,
    };
    let usage = |error: config::ConfigError| CliError::Usage(error.to_string());
    let text = config::read_text(&args.file).map_err(usage)?;
    let imported = config::import::import(client, &text, &args.file).map_err(usage)?;
    for notice in &imported.notices {
        style::write_stderr(format_args!(
            "{}: {}",
            style::stderr().yellow("notice"),
            style::clean(&notice.to_string())
        ));
    }
    match &args.out {
        None => print_plain(imported.yaml.as_bytes())?,
        Some(out) => {
            // It may contain the secrets of the imported file.
            let mut file = private_files::create_file(out)
                .map_err(|error| CliError::Usage(format!("{} cannot be written: {error}", out.display())))?;
            file.write_all(imported.yaml.as_bytes())?;
            let folder =
                |path: &Path| std::path::absolute(path).ok().and_then(|path| path.parent().map(Path::to_owned));
            if folder(out) != folder(&args.file) {
                style::write_stderr(format_args!(
                    "{}: relative paths in {} now start at its own folder",
                    style::stderr().yellow("notice"),
                    out.display()
                ));
            }
            style::write_stderr(format_args!("wrote {}", out.display()));
        }
    }
    Ok(ExitCode::SUCCESS)
}
