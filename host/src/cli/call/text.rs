//! The calls in the text of a model, made one after the other, with an observation of each for the conversation.

use std::process::ExitCode;

use serde::Serialize;
use serde_json::value::RawValue;

use super::{Args, WrittenCall, exit_code, make, make_at_gateway};
use crate::cli::context::CliContext;
use crate::cli::error::{self, CliError};
use crate::cli::printer::Printer;
use crate::cli::read::{CallableTools, find_calls};
use crate::cli::remote::RemoteGateway;
use crate::cli::requests::ServerResults;
use crate::cli::style;
use crate::cli::tools::gateway_tools;
use crate::json::to_raw;
use crate::logic::Supervisor;
use crate::logic::types::reading::ReadCall;
use crate::session::Session;

/// Makes the calls in a text.
pub(super) async fn run(
    context: &CliContext,
    args: &Args,
    text: &str,
    logic: &mut Supervisor,
) -> Result<ExitCode, CliError> {
    // Their schemas say what positions and texts mean.
    ServerResults::new(context, context.connect_all().await);
    let mut observations = Observations::new(context, args);
    for call in calls(text, args, &CallableTools::of(&context.gate)?, logic)? {
        let called = make(context, args, call).await?;
        observations.add(exit_code(&called), &called.result.text, &called.as_json())?;
    }
    observations.end()
}

/// Makes the calls in a text through a gateway.
pub(super) async fn run_at_gateway(
    remote: &RemoteGateway,
    session: &Session,
    args: &Args,
    text: &str,
    logic: &mut Supervisor,
) -> Result<ExitCode, CliError> {
    let mut observations = Observations::new(&remote.printer, args);
    for call in calls(text, args, &gateway_tools(remote).await?, logic)? {
        let answered = make_at_gateway(remote, session, args, call, logic).await?;
        observations.add(error::exit_code(answered.code), &answered.text, &answered.to_json())?;
    }
    observations.end()
}

/// Reads the calls in a text; none is made if one of them cannot be read.
fn calls(text: &str, args: &Args, tools: &CallableTools, logic: &mut Supervisor) -> Result<Vec<WrittenCall>, CliError> {
    let calls = find_calls(text, &tools.known, args.loose, logic)?;
    if calls.is_empty() {
        style::write_note("the text calls no tool");
    }
    let written = |call: ReadCall| WrittenCall { name: tools.name_of(call.name), arguments: call.arguments };
    Ok(calls.into_iter().map(written).collect())
}

/// What calls came to, printed as it is known, or as one list of JSON at the end.
struct Observations<'a> {
    printer: &'a Printer,
    json: Option<Vec<Box<RawValue>>>,
    /// The exit code of the first call that failed.
    code: u8,
}

impl<'a> Observations<'a> {
    fn new(printer: &'a Printer, args: &Args) -> Self {
        Observations { printer, json: args.servers.json.then(Vec::new), code: 0 }
    }

    fn add(&mut self, code: u8, text: &str, json: &impl Serialize) -> Result<(), CliError> {
        if self.code == 0 {
            self.code = code;
        }
        match &mut self.json {
            Some(all) => all.push(to_raw(json)),
            None => self.printer.print(&format!("Observation: {}", text.trim_end()))?,
        }
        Ok(())
    }

    fn end(self) -> Result<ExitCode, CliError> {
        if let Some(all) = &self.json {
            self.printer.print_json(all)?;
        }
        Ok(ExitCode::from(self.code))
    }
}
