//! `toolgate component`: writes or describes the built-in components and their WIT, for other hosts.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::extension::{CLIENT, CLIENT_DIGEST};
use crate::logic::{EMBEDDED, EMBEDDED_DIGEST, precompile};
use crate::wit;

use super::error::CliError;
use super::printer::print_plain;
use super::style;

/// The arguments of `toolgate component`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Which component: `logic` only decides, `client` calls tools over a transport of yours
    #[arg(long, value_enum, default_value_t)]
    world: World,
    /// Write to this file; `-` means standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write the WIT package instead of the component
    #[arg(long)]
    wit: bool,
    /// Write the machine code of the built-in component into this folder, for a build that includes it
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["world", "out", "wit", "json"])]
    compiled: Option<PathBuf>,
    /// Describe the component as one JSON object
    #[arg(long, conflicts_with_all = ["out", "wit"])]
    json: bool,
}

/// The worlds with a built-in component.
#[derive(Clone, Copy, Default, clap::ValueEnum)]
enum World {
    #[default]
    Logic,
    Client,
}

impl World {
    fn name(self) -> &'static str {
        match self {
            World::Logic => "toolgate:logic/logic@0.1.0",
            World::Client => "toolgate:client/client@0.1.0",
        }
    }

    fn component(self) -> (&'static [u8], &'static str) {
        match self {
            World::Logic => (&EMBEDDED, EMBEDDED_DIGEST),
            World::Client => (&CLIENT, CLIENT_DIGEST),
        }
    }

    fn wit(self) -> String {
        match self {
            World::Logic => wit::package(),
            World::Client => wit::client_package(),
        }
    }

    /// Returns the option that selects the world, and the base name of its files.
    fn spelling(self) -> (&'static str, &'static str) {
        match self {
            World::Logic => ("", "logic"),
            World::Client => (" --world client", "client"),
        }
    }
}

/// Writes or describes the component.
pub(super) fn run(args: &Args) -> Result<ExitCode, CliError> {
    let world = args.world;
    if let Some(folder) = &args.compiled {
        // The name says which component it is, so that no build takes another one's.
        write(&folder.join(format!("{EMBEDDED_DIGEST}.cwasm")), &precompile()?)?;
        return Ok(ExitCode::SUCCESS);
    }
    match (&args.out, args.wit) {
        (Some(file), true) => write(file, world.wit().as_bytes())?,
        (Some(file), false) => write(file, world.component().0)?,
        (None, true) => print_plain(world.wit().as_bytes())?,
        (None, false) => describe(world, args.json)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn write(file: &Path, bytes: &[u8]) -> Result<(), CliError> {
    if file == Path::new("-") {
        return print_plain(bytes);
    }
    std::fs::write(file, bytes).map_err(|error| CliError::Usage(format!("{}: {error}", file.display())))?;
    style::write_stderr(format_args!(
        "{}",
        style::stderr().dim(&format!("wrote {} bytes to {}", bytes.len(), file.display()))
    ));
    Ok(())
}

fn describe(world: World, json: bool) -> Result<(), CliError> {
    let (bytes, digest) = world.component();
    let (name, size) = (world.name(), bytes.len());
    if json {
        return print_plain(format!("{{\"world\":\"{name}\",\"bytes\":{size},\"sha256\":\"{digest}\"}}\n").as_bytes());
    }
    let style = style::stdout();
    let (option, file) = world.spelling();
    let lines = [
        style.bold(name),
        format!("  {} {} KiB", style.dim("size  "), size.div_ceil(1024)),
        format!("  {} {digest}", style.dim("sha256")),
        format!("  {} toolgate component{option} --out {file}.wasm", style.dim("file  ")),
        format!("  {} toolgate component{option} --wit --out {file}.wit", style.dim("wit   ")),
    ];
    print_plain((lines.join("\n") + "\n").as_bytes())
}
