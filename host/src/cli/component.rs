//! `toolgate component`: the built-in component and its contract, for other hosts.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use toolgate::logic::{EMBEDDED, EMBEDDED_DIGEST};
use toolgate::wit;

use super::failure::Failure;
use super::style;

/// What to write, and where.
#[derive(clap::Args)]
pub struct Args {
    /// Write to this file; `-` means standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write the WIT package in place of the component
    #[arg(long)]
    wit: bool,
    /// Describe the component as one JSON object
    #[arg(long, conflicts_with_all = ["out", "wit"])]
    json: bool,
}

/// Writes what was asked for, or describes it.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    match (&args.out, args.wit) {
        (Some(file), true) => write(file, wit::package().as_bytes())?,
        (Some(file), false) => write(file, EMBEDDED)?,
        (None, true) => std::io::stdout().write_all(wit::package().as_bytes())?,
        (None, false) => describe(args.json)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn write(file: &Path, bytes: &[u8]) -> Result<(), Failure> {
    if file == Path::new("-") {
        return Ok(std::io::stdout().write_all(bytes)?);
    }
    std::fs::write(file, bytes).map_err(|error| Failure::Usage(format!("{}: {error}", file.display())))?;
    style::say(format_args!("{}", style::stderr().dim(&format!("wrote {} bytes to {}", bytes.len(), file.display()))));
    Ok(())
}

fn describe(json: bool) -> Result<(), Failure> {
    let mut out = std::io::stdout();
    if json {
        let size = EMBEDDED.len();
        writeln!(out, r#"{{"world":"toolgate:logic/logic@0.1.0","bytes":{size},"sha256":"{EMBEDDED_DIGEST}"}}"#)?;
        return Ok(());
    }
    let style = style::stdout();
    writeln!(out, "{}", style.bold("toolgate:logic/logic@0.1.0"))?;
    writeln!(out, "  {} {} KiB", style.dim("size  "), EMBEDDED.len().div_ceil(1024))?;
    writeln!(out, "  {} {EMBEDDED_DIGEST}", style.dim("sha256"))?;
    writeln!(out, "  {} toolgate component --out logic.wasm", style.dim("file  "))?;
    writeln!(out, "  {} toolgate component --wit --out logic.wit", style.dim("wit   "))?;
    Ok(())
}
