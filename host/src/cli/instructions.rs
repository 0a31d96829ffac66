//! `toolgate instructions`: prints the instructions of all servers for a model.

use std::process::ExitCode;

use serde::Serialize;

use super::context::{CliContext, ServerArgs};
use super::error::CliError;

#[derive(Serialize)]
struct InstructionsOutput {
    instructions: String,
}

/// Prints the instructions of all servers, notes on their tools, and which servers cannot be used.
pub(super) async fn run(context: &CliContext, args: &ServerArgs) -> Result<ExitCode, CliError> {
    let instructions = context.gate.instructions().await?;
    if args.json {
        context.print_json(&InstructionsOutput { instructions })?;
    } else {
        context.print(&instructions)?;
    }
    Ok(ExitCode::SUCCESS)
}
