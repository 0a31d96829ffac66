//! `toolgate explain`: explains one recorded call, step by step.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use crate::config::resolve::resolve_record_dir;
use crate::config::secrets::Secrets;
use crate::config::variables::Variables;
use crate::record::compare::describe_end;
use crate::record::directive::RecordedDirective;
use crate::record::event::{RecordedEvent, RecordedFailure};
use crate::record::line::{MaskedPart, Record};
use crate::record::{self, BacktestError, LinePosition, folder};
use serde_json::json;

use super::context::{self, ConfigFallback};
use super::error::CliError;
use super::printer::Printer;
use super::style;

/// The arguments of `toolgate explain`.
#[derive(clap::Args)]
pub struct Args {
    /// The id of the call, as the log, `call --json` and `/api/v1/calls` show it
    id: String,
    /// The folder of the records, if not the configured one
    #[arg(long, value_name = "DIR")]
    record: Option<PathBuf>,
    /// Print the record as JSON
    #[arg(long)]
    json: bool,
}

/// Finds the record and prints it.
pub fn run(config: Option<&Path>, args: &Args, secrets: &Arc<Mutex<Secrets>>) -> Result<ExitCode, CliError> {
    let printer = Printer(Arc::clone(secrets));
    let dir = match &args.record {
        Some(dir) => dir.clone(),
        None => {
            let variables = Variables::from_process();
            let (config, _) = context::load_config(config, &variables, ConfigFallback::Fail)?;
            let dir = resolve_record_dir(&config, &variables).map_err(CliError::usage)?;
            dir.unwrap_or_else(|| folder::default_dir(&variables))
        }
    };
    let found = record::find(&dir, &args.id).map_err(|error| match error {
        BacktestError::Damaged { spot, damage } => {
            CliError::ServerError(format!("the record of call {:?} cannot be trusted: {spot}: {damage}", args.id))
        }
        other => CliError::Usage(crate::failure::format_chain(&other)),
    })?;
    let Some((spot, record)) = found else {
        return Err(CliError::NotFound(format!("no call {:?} is recorded in {}", args.id, dir.display())));
    };
    if args.json {
        let record = json!({"file": spot.file.display().to_string(), "line": spot.line, "record": record});
        printer.print_json(&record)?;
    } else {
        printer.print(&style::clean(&format_record(&record, &spot)))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Formats the record of a call for people.
fn format_record(record: &Record, spot: &LinePosition) -> String {
    let mut text = String::new();
    let who = record.principal.as_ref().map(|principal| format!(" by {principal}")).unwrap_or_default();
    let mut line = |line: String| writeln!(text, "{line}").expect("a string takes all that is written");
    line(format!("call {}{who}, {}, {} ms", record.id, record.at, record.ms));
    line(format!("  name:      {}", record.name));
    let arguments = if record.arguments.is_empty() { "none" } else { &record.arguments };
    line(format!("  arguments: {}", cut(arguments)));
    line(String::new());
    for (number, step) in record.steps.iter().enumerate() {
        if let Some(event) = &step.event {
            let catalog = step.catalog.as_ref().map(|_| ", with a new list of tools").unwrap_or_default();
            line(format!("   ← {}{catalog}", describe_event(event)));
        }
        line(format!("{:>2}. → {}", number + 1, describe_directive(&step.say)));
    }
    if !matches!(record.steps.last().map(|step| &step.say), Some(RecordedDirective::Done(_))) {
        line("   ← the caller no longer waited for the answer".to_owned());
    }
    if let Some(RecordedDirective::Done(ended)) = record.steps.last().map(|step| &step.say)
        && !ended.trace.is_empty()
    {
        line("\nwhy:".to_owned());
        ended.trace.iter().for_each(|note| line(format!("  {note}")));
    }
    if !record.masked.is_empty() {
        let hidden: Vec<&str> = record.masked.iter().map(|hidden| describe_hidden(*hidden)).collect();
        line(format!("\nmasked here: {}", hidden.join(", ")));
    }
    if let Some(why) = &record.unreplayable {
        line(format!("this call cannot be replayed: {why}"));
    }
    let short = record::compare::short;
    line(format!(
        "\ndecided by component {} with settings {} and catalog {}\nrecorded in {spot}",
        short(&record.component),
        short(&record.settings),
        short(&record.catalog)
    ));
    text
}

/// Describes what the component told the host to do.
fn describe_directive(directive: &RecordedDirective) -> String {
    match directive {
        RecordedDirective::Connect(servers) => format!("connect {}", servers.join(", ")),
        RecordedDirective::Request(sent) => {
            format!("call {:?} of server {:?} with {}", sent.tool, sent.server, cut(&sent.arguments.0))
        }
        RecordedDirective::Reconnect(server) => format!("open a new session with server {server:?}"),
        RecordedDirective::Reauthenticate(server) => format!("get a new authorization for server {server:?}"),
        RecordedDirective::Wait { min_ms, max_ms } => format!("wait between {min_ms} and {max_ms} ms"),
        RecordedDirective::Ask(asked) => {
            let (tool, server, arguments) = (&asked.tool, &asked.server, cut(&asked.arguments.0));
            format!("ask a person whether to call {tool:?} of server {server:?} with {arguments} ({})", asked.reason)
        }
        RecordedDirective::Condense(long) => match (long.spill, long.summarize) {
            (true, true) => format!("keep and summarize a text of {} bytes", long.text.bytes),
            (true, false) => format!("keep a text of {} bytes", long.text.bytes),
            (false, _) => format!("summarize a text of {} bytes", long.text.bytes),
        },
        RecordedDirective::Done(ended) => format!("done: {}", describe_end(ended)),
    }
}

/// Describes what happened.
fn describe_event(event: &RecordedEvent) -> String {
    match event {
        RecordedEvent::Connected => "connected".to_owned(),
        RecordedEvent::Answered(answer) => format!("answered: {}", cut(&answer.0)),
        RecordedEvent::Forwarded(forwarded) => {
            let failed = if forwarded.is_error { ", an error" } else { "" };
            format!("result of {} bytes passed through{failed}", forwarded.bytes)
        }
        RecordedEvent::Failed(failed) => {
            let sent = if failed.sent { "after the request was sent" } else { "before anything was sent" };
            format!("failed {sent}: {}", describe_failure(&failed.failure))
        }
        RecordedEvent::Reconnected => "a new session is open".to_owned(),
        RecordedEvent::Authenticated => "a new authorization was obtained".to_owned(),
        RecordedEvent::Waited => "the wait is over".to_owned(),
        RecordedEvent::Approved(true) => "a person approved the call".to_owned(),
        RecordedEvent::Approved(false) => "a person declined the call".to_owned(),
        RecordedEvent::Unasked => "no person could be asked for approval".to_owned(),
        RecordedEvent::Condensed(condensed) => match (&condensed.kept, &condensed.summary) {
            (Some(kept), Some(summary)) => format!("kept in {kept} and summarized: {summary}"),
            (Some(kept), None) => format!("kept in {kept}"),
            (None, Some(summary)) => format!("summarized: {summary}"),
            (None, None) => "neither kept nor summarized".to_owned(),
        },
        RecordedEvent::Cancelled => "the caller cancelled".to_owned(),
    }
}

fn describe_failure(failure: &RecordedFailure) -> String {
    match failure {
        RecordedFailure::Cancelled => "the caller cancelled".to_owned(),
        RecordedFailure::Timeout => "no answer in time".to_owned(),
        RecordedFailure::Connect(why) => format!("cannot connect: {why}"),
        RecordedFailure::Closed => "the connection was closed".to_owned(),
        RecordedFailure::Exited(Some(code)) => format!("the server's process ended with exit code {code}"),
        RecordedFailure::Exited(None) => "the server's process was killed".to_owned(),
        RecordedFailure::Http { status, .. } => format!("HTTP status {status}"),
        RecordedFailure::Rpc { code, message } => format!("error {code}: {message}"),
        RecordedFailure::Protocol(why) => format!("the server broke the protocol: {why}"),
        RecordedFailure::QueueFull(why) => format!("too many calls are waiting: {why}"),
        RecordedFailure::NeedsAuth(why) => format!("the server needs authorization: {why}"),
        RecordedFailure::RestartInProgress => "the server is being restarted".to_owned(),
        RecordedFailure::RestartFailed(why) => format!("the server could not be restarted: {why}"),
    }
}

/// Cuts a text to a readable length; the record has all of it.
fn cut(text: &str) -> String {
    match text.char_indices().nth(MOST_TEXT) {
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
        None => text.to_owned(),
    }
}

fn describe_hidden(hidden: MaskedPart) -> &'static str {
    match hidden {
        MaskedPart::Name => "the name",
        MaskedPart::Arguments => "arguments",
        MaskedPart::Answer => "the answer",
        MaskedPart::Catalog => "the tools that servers offered",
    }
}

const MOST_TEXT: usize = 1000;
