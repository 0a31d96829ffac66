//! `toolgate trust`, `schema` and `import`: commands about configuration files.

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::config;
use crate::config::import::ImportClient;
use crate::config::resolve::env_file_digests;
use crate::config::search::{self, SearchResult};
use crate::config::trust::TrustStore;
use crate::config::variables::Variables;
use crate::private_files;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::error::CliError;
use super::printer::print_plain;
use super::{init, style, table};

/// The arguments of `toolgate trust`.
#[derive(clap::Args)]
pub(super) struct TrustArgs {
    /// The file; by default, the one in the working directory
    file: Option<PathBuf>,
}

/// Trusts a configuration file as it is now.
pub(super) fn trust(args: &TrustArgs, flag: Option<&Path>) -> Result<ExitCode, CliError> {
    let variables = Variables::from_process();
    let found = match &args.file {
        Some(file) => search::find_named(file, "the argument", &variables),
        None => search::find(flag, &variables),
    };
    let SearchResult::File { path, .. } = found.map_err(CliError::usage)? else {
        return Err(CliError::usage("there is no configuration file to trust in this folder"));
    };
    let text = config::read_text(&path).map_err(CliError::usage)?;
    let config = config::parse(&text, &path).map_err(CliError::usage)?;
    let env_files = env_file_digests(&config, &variables);
    TrustStore::user(&variables).trust(&path, text.as_bytes(), &env_files)?;
    let servers = table::count_of(config.servers.len() as u64, "server");
    style::write_stderr(format_args!("trusted {} with {servers}", style::clean(&path.display().to_string())));
    Ok(ExitCode::SUCCESS)
}

/// Prints the JSON Schema of `toolgate.yaml`.
pub(super) fn schema() -> Result<ExitCode, CliError> {
    let schema = serde_json::to_string_pretty(&config::schema::schema()).expect("a JSON value is always JSON");
    print_plain(format!("{schema}\n").as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// The arguments of `toolgate import`.
#[derive(clap::Args)]
pub(super) struct ImportArgs {
    /// The client that the file belongs to
    #[arg(long, value_name = "CLIENT", value_parser = client_parser())]
    from: ImportClient,
    /// The file to import
    file: PathBuf,
    /// Write the toolgate.yaml to this new file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Parses the name of a client whose files can be imported.
pub(super) fn client_parser() -> impl TypedValueParser<Value = ImportClient> {
    let names = PossibleValuesParser::new(ImportClient::ALL.map(|(name, _)| name));
    names.map(|name| ImportClient::from_name(&name).expect("only the names of clients pass"))
}

/// Converts the file of a client to a `toolgate.yaml`.
pub(super) fn import(args: &ImportArgs) -> Result<ExitCode, CliError> {
    let text = config::read_text(&args.file).map_err(CliError::usage)?;
    let imported = config::import::import(args.from, &text, &args.file).map_err(CliError::usage)?;
    imported.notices.iter().for_each(|notice| style::write_notice(&notice.to_string()));
    if imported.is_empty {
        return Err(CliError::Usage(format!("{}: there is no server in it that can be imported", args.file.display())));
    }
    match &args.out {
        None => print_plain(imported.yaml.as_bytes())?,
        Some(out) => {
            // It may contain the secrets of the imported file.
            let mut file = private_files::create_file(out).map_err(|error| match error.kind() {
                ErrorKind::AlreadyExists => CliError::Usage(format!(
                    "{} exists already; choose another name, or remove it first",
                    out.display()
                )),
                _ => CliError::Usage(format!("{} cannot be written: {error}", out.display())),
            })?;
            file.write_all(imported.yaml.as_bytes())?;
            init::trust(out, &imported.yaml, &Variables::from_process());
            let folder =
                |path: &Path| std::path::absolute(path).ok().and_then(|path| path.parent().map(Path::to_owned));
            if folder(out) != folder(&args.file) {
                style::write_notice(&format!("relative paths in {} now start at its own folder", out.display()));
            }
            style::write_stderr(format_args!("wrote {}", out.display()));
        }
    }
    Ok(ExitCode::SUCCESS)
}
