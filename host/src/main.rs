//! The `toolgate` binary.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
