//! The command line: what can be asked for, and how each command ends.

mod component;
mod failure;
mod route;
mod style;

use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use toolgate::eval;
use toolgate::logic::{Cache, Component, Limits, Options, Supervisor};

use failure::Failure;

/// One gate between an AI agent and the tools of many MCP servers.
///
/// Every decision — which tool a name means, what free-text arguments mean, who may call what, whether a failure may be
/// retried, what must be masked — is made by a pure WebAssembly component. These commands let you ask it.
#[derive(Parser)]
#[command(name = "toolgate", version, max_term_width = 100, subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  toolgate route                                       what a decision looks like, on the built-in demo server
  toolgate route demo__add 'a: 1, b: 2'                which tool, which arguments, and why
  echo '{\"op\":\"normalize\",\"name\":\"a__b\"}' | toolgate eval
  toolgate component --out logic.wasm                  the component, to embed it elsewhere

Exit codes: 0 ok · 2 usage · 5 no such tool, or not allowed · 70 internal")]
struct Cli {
    #[command(flatten)]
    logic: LogicArgs,
    #[command(subcommand)]
    command: Command,
}

/// Which component decides, and within which limits.
#[derive(clap::Args)]
#[command(next_help_heading = "Options for every command")]
struct LogicArgs {
    /// Use this component in place of the built-in one; it must implement world `logic`
    #[arg(long, global = true, value_name = "FILE")]
    logic: Option<PathBuf>,
    /// The most memory that the component may use, in MiB
    #[arg(long, global = true, value_name = "MIB", default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..=4096))]
    max_memory: u16,
    /// The most fuel that one question may use, in millions of instructions; 0 means no limit
    #[arg(long, global = true, value_name = "MILLIONS", default_value_t = 20_000)]
    max_fuel: u64,
}

#[derive(Subcommand)]
enum Command {
    /// Show which tool a name means, how its arguments are read, and why
    Route(route::Args),
    /// Answer questions, one JSON object a line, from standard input
    #[command(after_help = eval::HELP)]
    Eval,
    /// Describe the built-in component, or write it and its WIT
    Component(component::Args),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// Runs the command that the arguments ask for.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(cli) {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}

fn run(cli: Cli) -> Result<ExitCode, Failure> {
    match cli.command {
        Command::Route(args) => route::run(&mut cli.logic.supervisor()?, &args),
        Command::Eval => {
            let mut logic = cli.logic.supervisor()?;
            eval::run(&mut logic, std::io::stdin().lock(), BufWriter::new(std::io::stdout().lock()))?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Component(args) => component::run(&args),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "toolgate", &mut script);
            std::io::stdout().write_all(&script)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

impl LogicArgs {
    /// The component that was asked for, running.
    fn supervisor(&self) -> Result<Supervisor, Failure> {
        let limits = Limits {
            fuel: (self.max_fuel > 0).then(|| self.max_fuel.saturating_mul(1_000_000)),
            memory_bytes: usize::from(self.max_memory) << 20,
        };
        let options = Options { limits, cache: Cache::user(), ..Options::default() };
        let component = match &self.logic {
            Some(file) => Component::from_file(file, &options)?,
            None => Component::embedded(&options)?,
        };
        if let Some(warning) = component.warning() {
            eprintln!("{}: {warning}", style::stderr().yellow("warning"));
        }
        Ok(Supervisor::new(component)?)
    }
}
