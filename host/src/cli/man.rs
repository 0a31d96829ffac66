//! `toolgate man`: prints the manual page, or writes one for each command.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Command;
use clap_mangen::Man;

use super::error::CliError;
use super::printer::print_plain;

/// The arguments of `toolgate man`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Write a page for each command into this folder, such as toolgate-call.1
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Prints the page of the program, or writes all pages.
pub(super) fn run(args: &Args, command: Command) -> Result<ExitCode, CliError> {
    match &args.out {
        None => {
            let mut page = Vec::new();
            Man::new(command).render(&mut page)?;
            print_plain(&page)?;
        }
        Some(folder) => {
            let written = std::fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(command, folder));
            written.map_err(|error| CliError::Usage(format!("{}: {error}", folder.display())))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
