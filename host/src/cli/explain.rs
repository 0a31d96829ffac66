//! `toolgate explain`: explains one recorded call, step by step.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::config::secrets::Secrets;
use crate::gateway::CallFilter;
use crate::logic::types::execution::Event;
use crate::logic::types::rules::Circumstances;
use crate::logic::types::{Failure, Phase, WaitRange};
use crate::record::compare::describe_end;
use crate::record::directive::RecordedDirective;
use crate::record::line::MaskedPart;
use crate::record::{self, ForwardedAnswer, FoundRecord, FoundRecords, LongerId, folder};
use serde_json::{Value, json};

use super::calls::{from_gateway, recorded};
use super::configured_records::{ConfiguredRecords, check_folders};
use super::error::CliError;
use super::printer::Printer;
use super::remote::{RemoteGateway, RunningGateways};
use super::{style, table};

/// The arguments of `toolgate explain`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The id of the call, as `calls`, the log and `call --json` show it, or its beginning; `last` is the newest call
    #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new())]
    id: String,
    /// The folder of the records, if not that of the configuration; repeat it for several folders
    #[arg(long, value_name = "DIR")]
    record: Vec<PathBuf>,
    /// Print the record as JSON
    #[arg(long)]
    json: bool,
}

/// Finds the record and prints it.
pub(super) fn run(config: Option<&Path>, args: &Args, secrets: &Arc<Mutex<Secrets>>) -> Result<ExitCode, CliError> {
    let printer = Printer(Arc::clone(secrets));
    let dirs = match args.record.as_slice() {
        [] => default_dirs(config, secrets)?,
        dirs => folder::distinct(dirs),
    };
    let (id, FoundRecords { records, damaged, .. }) = find(&dirs, &args.id, &printer)?;
    let mut distrusted =
        damaged.iter().map(|(spot, damage)| format!("the record of call {id:?} cannot be trusted: {spot}: {damage}"));
    let Some((newest, others)) = records.split_first() else {
        return Err(distrusted
            .next()
            .map(CliError::ServerError)
            .unwrap_or_else(|| CliError::NotFound(format!("no call {id:?} is recorded in {}", list(dirs.iter())))));
    };
    distrusted.for_each(|text| printer.warn(&text));
    if !others.is_empty() {
        let places = list(records.iter().map(|found| &found.dir));
        printer.warn(&format!("call {id:?} is recorded in {} folders: {places}", records.len()));
    }
    if args.json {
        let mut json = to_json(newest);
        if !others.is_empty() {
            json["others"] = others.iter().map(to_json).collect();
        }
        printer.print_json(&json)?;
    } else {
        let stories: Vec<_> = records.iter().map(|found| format_record(found, dirs.len() > 1)).collect();
        printer.print(&style::clean(&stories.join("\n")))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the folder of the configuration or, if nothing is recorded there, those of the only running gateway with that
/// configuration, which may have been started with `--record`.
fn default_dirs(config: Option<&Path>, secrets: &Arc<Mutex<Secrets>>) -> Result<Vec<PathBuf>, CliError> {
    let records = ConfiguredRecords::find(config)?;
    if records.has_records() {
        return Ok(vec![records.dir]);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let found = runtime.block_on(async {
        let running = RemoteGateway::find_only(Some(&records.file), LIMIT, secrets).await?;
        let RunningGateways::One(remote, pid) = running else { return Ok(None) };
        Ok::<_, CliError>(Some((from_gateway::record_folders(&remote).await, pid)))
    })?;
    let Some((dirs, pid)) = found.filter(|(dirs, _)| !dirs.is_empty()) else { return Err(records.nothing()) };
    style::write_note(&format!("using the records of the running gateway, process {pid}: {}", list(dirs.iter())));
    Ok(dirs)
}

/// Finds the records of the call with this id or beginning of an id, or of the newest call, and returns its id.
fn find(dirs: &[PathBuf], wanted: &str, printer: &Printer) -> Result<(String, FoundRecords), CliError> {
    let find = |id: &str| {
        let found = record::find(dirs, id);
        found.map_err(|error| CliError::Usage(crate::failure::format_chain(&error)))
    };
    if wanted == LAST {
        check_folders(dirs, true)?;
        let id = newest_id(dirs, printer)?;
        return Ok((id.clone(), find(&id)?));
    }
    let found = find(wanted)?;
    if !found.records.is_empty() || !found.damaged.is_empty() {
        return Ok((wanted.to_owned(), found));
    }
    match found.longer.len() {
        0 => Ok((wanted.to_owned(), found)),
        1 => {
            let id = found.longer.into_keys().next().unwrap_or_default();
            let found = find(&id)?;
            Ok((id, found))
        }
        _ => Err(CliError::Usage(ambiguous(wanted, found.longer))),
    }
}

/// Returns the id of the newest recorded call.
fn newest_id(dirs: &[PathBuf], printer: &Printer) -> Result<String, CliError> {
    let (calls, problems) = recorded::newest(dirs, &CallFilter::default(), 1);
    problems.iter().for_each(|problem| printer.warn(problem));
    let id = calls.into_iter().next().and_then(|call| Some(call["id"].as_str()?.to_owned()));
    id.ok_or_else(|| CliError::ServerError(format!("no record in {} can be read", list(dirs.iter()))))
}

/// Says that several ids begin so, and lists the newest of them.
fn ambiguous(wanted: &str, longer: BTreeMap<String, LongerId>) -> String {
    let mut calls: Vec<_> = longer.into_iter().collect();
    let began = |found: &LongerId| match found {
        LongerId::Call { at, .. } => at.clone(),
        LongerId::Damaged => String::new(),
    };
    calls.sort_by_key(|(_, found)| Reverse(began(found)));
    let left = calls.len().saturating_sub(MOST_CANDIDATES);
    let mut text = format!("several ids begin with {wanted:?}; write more of the one that you mean:");
    for (id, found) in calls.into_iter().take(MOST_CANDIDATES) {
        let about = match found {
            LongerId::Call { at, name } => format!("{at}, {}", table::cut(&name, MOST_NAME)),
            LongerId::Damaged => "its record is damaged".to_owned(),
        };
        text += &format!("\n{id}  {about}");
    }
    if left > 0 {
        text += &format!("\nand {left} more");
    }
    text
}

fn list<'a>(dirs: impl Iterator<Item = &'a PathBuf>) -> String {
    dirs.map(|dir| dir.display().to_string()).collect::<Vec<_>>().join(", ")
}

fn to_json(found: &FoundRecord) -> Value {
    let FoundRecord { dir, spot, record } = found;
    json!({
        "folder": dir.display().to_string(), "file": spot.file.display().to_string(), "line": spot.line,
        "record": record,
    })
}

/// Formats the record of a call for people, with its folder if there are several.
fn format_record(found: &FoundRecord, of_several: bool) -> String {
    let FoundRecord { dir, spot, record } = found;
    let mut text = String::new();
    let who = record.principal.as_ref().map(|principal| format!(" by {principal}")).unwrap_or_default();
    let mut line = |line: String| writeln!(text, "{line}").expect("a string takes all that is written");
    line(format!("call {}{who}, {}, {} ms", record.id, record.at, record.ms));
    if of_several {
        line(format!("  folder:    {}", dir.display()));
    }
    line(format!("  name:      {}", record.name));
    let arguments = if record.arguments.is_empty() { "none" } else { &record.arguments };
    line(format!("  arguments: {}", cut(arguments)));
    line(String::new());
    for (number, step) in record.steps.iter().enumerate() {
        if let Some(event) = &step.event {
            let catalog = step.catalog.as_ref().map(|_| ", with a new list of tools").unwrap_or_default();
            line(format!(
                "   ← {}{catalog}",
                describe_event(event, step.forwarded.as_ref(), record.approver.as_deref())
            ));
        }
        line(format!("{:>2}. → {}", number + 1, describe_directive(&step.directive)));
    }
    if !matches!(record.steps.last().map(|step| &step.directive), Some(RecordedDirective::Done(_))) {
        line("   ← the caller no longer waited for the answer".to_owned());
    }
    if let Some(RecordedDirective::Done(ended)) = record.steps.last().map(|step| &step.directive)
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
    let short = record::short;
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
            format!("call {:?} of server {:?} with {}", sent.tool.tool, sent.tool.server, cut(&sent.arguments))
        }
        RecordedDirective::Reconnect(server) => format!("open a new session with server {server:?}"),
        RecordedDirective::Reauthenticate(server) => format!("get a new authorization for server {server:?}"),
        RecordedDirective::Wait(WaitRange { min_ms, max_ms }) => format!("wait between {min_ms} and {max_ms} ms"),
        RecordedDirective::Circumstances(true) => "say who calls, and what the agent has seen and knows".to_owned(),
        RecordedDirective::Circumstances(false) => "say who calls, and what the agent has seen".to_owned(),
        RecordedDirective::Count(rules) => format!("count the call for {}", rules.join(", ")),
        RecordedDirective::Ask(asked) => {
            let (tool, server, arguments) = (&asked.tool.tool, &asked.tool.server, cut(&asked.arguments));
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
fn describe_event(event: &Event, forwarded: Option<&ForwardedAnswer>, approver: Option<&str>) -> String {
    match event {
        Event::Connected => "connected".to_owned(),
        Event::Answered(answer) => format!("answered: {}", cut(answer)),
        Event::Forwarded(summary) => {
            let failed = if summary.is_error { ", an error" } else { "" };
            let bytes = forwarded.map_or(0, |forwarded| forwarded.digest.bytes);
            format!("result of {bytes} bytes passed through{failed}")
        }
        Event::Failed(failed) => {
            let sent = match (failed.phase, &failed.failure) {
                (Phase::Sent, _) => "after the request was sent",
                (Phase::NotSent, Failure::Http(_)) => "before the server took the request",
                (Phase::NotSent, _) => "before anything was sent",
            };
            format!("failed {sent}: {}", describe_failure(&failed.failure))
        }
        Event::Reconnected => "a new session is open".to_owned(),
        Event::Authenticated => "a new authorization was obtained".to_owned(),
        Event::Waited => "the wait is over".to_owned(),
        Event::Circumstances(seen) => describe_circumstances(seen),
        Event::Counted(counts) => {
            let counts: Vec<_> = counts.iter().map(|count| count.calls.to_string()).collect();
            format!("call number {} in the time of each limit", counts.join(", "))
        }
        Event::Approved(approved) => {
            let who = approver.map_or_else(|| "a person".to_owned(), |admin| format!("the admin {admin:?}"));
            format!("{who} {} the call", if *approved { "approved" } else { "declined" })
        }
        Event::Unasked => "no person could be asked for approval".to_owned(),
        Event::Condensed(condensed) => match (&condensed.kept, &condensed.summary) {
            (Some(kept), Some(summary)) => format!("kept in {kept} and summarized: {summary}"),
            (Some(kept), None) => format!("kept in {kept}"),
            (None, Some(summary)) => format!("summarized: {summary}"),
            (None, None) => "neither kept nor summarized".to_owned(),
        },
        Event::Cancelled => "the caller cancelled".to_owned(),
    }
}

/// Describes who called, and what the agent had seen.
fn describe_circumstances(seen: &Circumstances) -> String {
    let who = seen.caller.principal.as_deref().unwrap_or("nobody known");
    let client = match seen.caller.client.as_str() {
        "" => String::new(),
        client => format!(" with client {client:?}"),
    };
    let labels = match seen.context.labels.as_slice() {
        [] => "no labels".to_owned(),
        labels => format!("labels {}", labels.join(", ")),
    };
    let known = match seen.context.known.len() {
        0 => String::new(),
        known => format!(", knows {known} values"),
    };
    format!("called by {who}{client}; the agent has {labels}{known}")
}

fn describe_failure(failure: &Failure) -> String {
    match failure {
        Failure::Cancelled => "the caller cancelled".to_owned(),
        Failure::Timeout => "no answer in time".to_owned(),
        Failure::Connect(why) => format!("cannot connect: {why}"),
        Failure::Closed => "the connection was closed".to_owned(),
        Failure::Exited(Some(code)) => format!("the server's process ended with exit code {code}"),
        Failure::Exited(None) => "the server's process was killed".to_owned(),
        Failure::Http(failure) => format!("HTTP status {}", failure.status),
        Failure::Rpc(error) => format!("error {}: {}", error.code, error.message),
        Failure::Protocol(why) => format!("the server broke the protocol: {why}"),
        Failure::QueueFull(why) => format!("too many calls are waiting: {why}"),
        Failure::NeedsAuth(why) => format!("the server needs authorization: {why}"),
        Failure::RestartInProgress => "the server is being restarted".to_owned(),
        Failure::RestartFailed(why) => format!("the server could not be restarted: {why}"),
        Failure::RulesUnavailable(why) => format!("the rules could not be applied: {why}"),
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
/// How long a gateway may take to say where it records calls.
const LIMIT: Duration = Duration::from_secs(10);
/// Stands for the newest call.
const LAST: &str = "last";
/// How many calls are named of those that may be meant.
const MOST_CANDIDATES: usize = 5;
const MOST_NAME: usize = 60;
