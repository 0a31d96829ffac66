//! `toolgate replay`: replays recorded calls, as they were or with a candidate.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use crate::calendar::Utc;
use crate::config::model::Config;
use crate::config::secrets::Secrets;
use crate::config::variables::Variables;
use crate::logic::InstanceLimits;
use crate::record::difference::DifferenceKind;
use crate::record::directive::RecordedDirective;
use crate::record::{
    Backtest, BacktestError, BacktestReport, CallExample, Candidate, DifferenceGroup, RecordFilter, ReplayMismatch,
    UnusableServer, folder,
};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use super::configured_records::ConfiguredRecords;
use super::context::{self, ConfigFallback, ConfigFile};
use super::error::{self, CliError};
use super::logic_args::{LogicArgs, component_options};
use super::printer::Printer;
use super::style;
use super::table::{self, count_of, cut};

/// The arguments of `toolgate replay`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The folder of the records; those of several folders are replayed together, in the order of time. Default: the
    /// one that the configuration records in, or that of the configuration in use if --config has recorded nothing
    #[arg(value_name = "DIR")]
    dirs: Vec<PathBuf>,
    /// Only calls since then: an age such as 7d or 12h, or a date or time (UTC) such as 2026-11-15T17:30:00Z
    #[arg(long, value_name = "TIME", value_parser = context::since)]
    since: Option<SystemTime>,
    /// Only calls of this tool, including refused ones: any form of its name, or a glob
    #[arg(long, value_name = "TOOL")]
    tool: Option<String>,
    /// Only calls of this principal
    #[arg(long, value_name = "NAME")]
    principal: Option<String>,
    /// Exit with 1 if a call differs in one of these ways: denied, allowed, asked, rerouted, arguments, masking, retry,
    /// unread, result, trace
    #[arg(long, value_name = "WAYS", value_delimiter = ',', value_parser = kind)]
    fail_on: Vec<DifferenceKind>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The help text after the options.
pub(super) const HELP: &str = "\
Without --logic and --config, every call must come out exactly as recorded. With either, calls are tried on that \
component or configuration, and differences are listed by tool and principal. No server is started and no tool \
is called.

Exit codes: 0 no differences, or none that --fail-on names · 1 a call did not come out as recorded, a record is \
damaged or incomplete, the component crashed, or --fail-on found a difference that it names, a call that cannot be \
judged, or no calls at all · 2 usage or configuration";

/// Replays the records and prints what differs.
pub(super) fn run(
    logic: &LogicArgs,
    config: Option<&Path>,
    args: &Args,
    secrets: &Arc<Mutex<Secrets>>,
) -> Result<ExitCode, CliError> {
    let printer = Printer(Arc::clone(secrets));
    let load = |file| context::load_config(Some(file), &Variables::from_process(), ConfigFallback::Fail);
    let candidate = config.map(load).transpose()?;
    let dirs = match args.dirs.as_slice() {
        [] => vec![default_dir(candidate.as_ref())?],
        dirs => folder::distinct(dirs),
    };
    let config = candidate.map(|(config, _)| config);
    // A candidate that loops or wastes memory is stopped early, as a shadow is; the options can lower the limits
    // further.
    let (asked, most) = (logic.limits(), crate::shadow::limits());
    let limits = InstanceLimits {
        fuel: [asked.fuel, most.fuel].into_iter().flatten().min(),
        memory_bytes: asked.memory_bytes.min(most.memory_bytes),
    };
    let component = if logic.logic.is_some() { Some(logic.component(limits)?) } else { None };
    let backtest = Backtest {
        dirs,
        candidate: Candidate { component, config: config.map(Arc::new) },
        filter: RecordFilter {
            since: args.since.map(|since| Utc::from(since).to_string()),
            tool: args.tool.clone(),
            principal: args.principal.clone(),
        },
        options: component_options(logic.limits()),
        threads: std::thread::available_parallelism().map_or(1, usize::from),
    };
    let bar = bar(backtest.bytes());
    let report = backtest.run(&|bytes| bar.set_position(bytes));
    bar.finish_and_clear();
    let report = report.map_err(|error| match error {
        BacktestError::Logic(error) => CliError::Logic(error),
        other => CliError::Usage(crate::failure::format_chain(&other)),
    })?;
    // Without a candidate, every call must come out the same, so there is nothing to judge.
    let is_unjudged = |kind: &DifferenceKind| !backtest.candidate.is_same() && report.is_unjudged(*kind);
    let unjudged: Vec<&str> = args.fail_on.iter().filter(|kind| is_unjudged(kind)).map(|kind| kind.name()).collect();
    // A filter with a mistake in it must not let everything pass.
    let empty = report.compared() == 0 && !args.fail_on.is_empty();
    let differs = args.fail_on.iter().any(|kind| report.of_kind(*kind) > 0);
    let wrong = differs || !unjudged.is_empty() || empty || !report.is_sound();
    if args.json {
        printer.print_json(&to_json(&report, &backtest.candidate, !wrong))?;
    } else {
        print(&printer, &report, &backtest)?;
        if empty {
            printer.warn("no call was compared, so --fail-on does not pass");
        } else if !unjudged.is_empty() {
            let ways = unjudged.join(",");
            printer.warn(&format!("not all calls could be judged, so this does not pass: --fail-on {ways}"));
        }
    }
    Ok(ExitCode::from(if wrong { error::REFUSED } else { 0 }))
}

/// Returns the folder that `--config` records in; a candidate that never ran has recorded nothing, so then it is that
/// of the configuration in use.
fn default_dir(candidate: Option<&(Config, Option<ConfigFile>)>) -> Result<PathBuf, CliError> {
    let own = candidate.map(|(config, file)| ConfiguredRecords::of(config, file.as_ref())).transpose()?;
    let dir = match own {
        Some(own) if own.has_records() => own.dir,
        Some(own) => match ConfiguredRecords::find(None) {
            Ok(in_use) if in_use.has_records() => in_use.dir,
            _ => return Err(own.nothing()),
        },
        None => ConfiguredRecords::find(None)?.dir_with_records()?,
    };
    style::write_note(&format!("replaying the calls that are recorded in {}", dir.display()));
    Ok(dir)
}

/// Creates a progress bar, which only a terminal shows.
fn bar(bytes: u64) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(bytes);
    if let Ok(style) = ProgressStyle::with_template("replaying [{bar:30}] {percent}% of {total_bytes}, {eta} left") {
        bar.set_style(style);
    }
    bar
}

fn print(printer: &Printer, report: &BacktestReport, backtest: &Backtest) -> Result<(), CliError> {
    let warn = |text: String| printer.warn(&text);
    for UnusableServer { server, reason } in &report.unusable {
        warn(format!("server {server:?}: {reason} (treated as removed)"));
    }
    if report.unfinished > 0 {
        let are = if report.unfinished == 1 { "is" } else { "are" };
        let first = report.first_unfinished.as_ref().map(|first| format!(", first at {first}")).unwrap_or_default();
        warn(format!("{} {are} incomplete and {are} skipped{first}", count_of(report.unfinished, "record")));
    }
    if report.unreplayable > 0 {
        let count = count_of(report.unreplayable, "call");
        warn(format!("{count} cannot be replayed: the outcome depends on something that the record masks"));
    }
    if report.unjudged > 0 {
        warn(format!(
            "the answers of {} are stored masked, and the candidate masks less: what it would show is unknown, so \
             --fail-on masking does not pass; `record: {{raw: true}}` stores answers whole",
            count_of(report.unjudged, "call")
        ));
    }
    for (spot, damage) in &report.damaged {
        warn(format!("{spot}: {damage}"));
    }
    let more = report.damages - report.damaged.len() as u64;
    if more > 0 {
        let are = if more == 1 { "is" } else { "are" };
        warn(format!("{} {are} damaged", count_of(more, "more record")));
    }
    for (why, group) in &report.crashed {
        let first = group.examples.values().next().map(|first| format!(", first at {}", first.id)).unwrap_or_default();
        warn(format!("the component crashed at {}{first}: {why}", count_of(group.count, "call")));
    }
    if report.stopped {
        warn("the component crashed so often that the other records were not tried".to_owned());
    }
    for (what, count) in &report.missing {
        warn(format!("{} not replayed: {what}", count_of(*count, "call")));
    }
    let mut text = head(report, backtest);
    if let Some(first) = &report.first {
        text.push_str(&mismatch(first, report.mismatches));
    }
    if !report.groups.is_empty() {
        text.push('\n');
        text.push_str(&groups(report));
    }
    printer.print_colored(&text)
}

/// Formats the differences, the most serious and most frequent first; differences in traces alone are cut.
fn groups(report: &BacktestReport) -> String {
    let mut all: Vec<_> = report.groups.iter().collect();
    all.sort_by_key(|((kind, ..), group)| (*kind, Reverse(group.count)));
    let reasons = all.iter().position(|((kind, ..), _)| *kind == DifferenceKind::Trace).unwrap_or(all.len());
    let left = all.len().saturating_sub(reasons + MOST_REASONS);
    all.truncate(reasons + MOST_REASONS);
    let rows = all.into_iter().map(|((kind, tool, principal), group)| {
        let example = group.examples.values().next().map(example).unwrap_or_default();
        let principal = if principal.is_empty() { "–".to_owned() } else { cut(principal, MOST_NAME) };
        [kind.title().to_owned(), cut(tool, MOST_NAME), principal, group.count.to_string(), example]
    });
    let mut text = table::draw_figures(&["CHANGE", "TOOL", "PRINCIPAL", "CALLS", "EXAMPLE"], rows);
    if left > 0 {
        let groups = if left == 1 { "1 more group differs" } else { &format!("{left} more groups differ") };
        text.push_str(&format!("{groups} only in reasons; --json lists all\n"));
    }
    text
}

fn head(report: &BacktestReport, backtest: &Backtest) -> String {
    let BacktestReport { records, same, span, .. } = report;
    let Backtest { dirs, candidate, .. } = backtest;
    let mut when = span.as_ref().map(|(first, last)| format!(" of {first} to {last}")).unwrap_or_default();
    if dirs.len() > 1 {
        when.push_str(&format!(" in {} folders", dirs.len()));
    }
    let left = match report.skipped {
        0 => String::new(),
        count => format!(" ({count} skipped)"),
    };
    let compared = report.compared();
    let all = if compared == *records { "all".to_owned() } else { format!("all {compared} that could be compared") };
    let outcome = match (*same == compared, candidate.is_same()) {
        _ if compared == 0 => "no call was compared".to_owned(),
        (true, true) => format!("{all} came out the same"),
        (true, false) => format!("{all} would be decided the same way"),
        (false, true) => format!("{same} came out the same"),
        (false, false) => format!("{same} would be decided the same way"),
    };
    let masks = match report.unjudged {
        0 => String::new(),
        count => format!(", but what is masked in {count} of them cannot be judged"),
    };
    format!("{}{when}{left}: {outcome}{masks}\n", count_of(*records, "call"))
}

fn mismatch(first: &ReplayMismatch, count: u64) -> String {
    let say = |directive: &Option<RecordedDirective>| match directive {
        Some(directive) => serde_json::to_string(directive).unwrap_or_default(),
        None => "nothing".to_owned(),
    };
    let ReplayMismatch { spot, id, step, was, now } = first;
    let text = format!(
        "{} did not come out as recorded; the first is call {id} ({spot}), directive {}:\n  then: {}\n  now:  {}\n",
        count_of(count, "call"),
        step + 1,
        say(was),
        say(now)
    );
    style::clean(&text)
}

fn example(example: &CallExample) -> String {
    let CallExample { id, was, now, .. } = example;
    format!("{}: {} → {}", cut(id, MOST_NAME), cut(was, MOST_SAID), cut(now, MOST_SAID))
}

fn to_json(report: &BacktestReport, candidate: &Candidate, ok: bool) -> Value {
    let first = report.first.as_ref().map(|first| {
        json!({
            "id": first.id, "file": first.spot.file.display().to_string(), "line": first.spot.line,
            "directive": first.step + 1, "was": first.was, "now": first.now,
        })
    });
    let group = |((kind, tool, principal), group): (&(DifferenceKind, String, String), &DifferenceGroup)| {
        let examples = group.examples.iter().map(|(spot, one)| {
            json!({
                "id": one.id, "file": spot.file.display().to_string(), "line": spot.line, "at": one.at, "was": one.was,
                "now": one.now,
            })
        });
        json!({
            "change": kind.name(), "tool": tool, "principal": (!principal.is_empty()).then_some(principal),
            "calls": group.count, "examples": examples.collect::<Vec<_>>(),
        })
    };
    let damaged = report.damaged.iter().map(|(spot, damage)| {
        json!({"file": spot.file.display().to_string(), "line": spot.line, "damage": damage.to_string()})
    });
    let unusable = report.unusable.iter().map(|one| json!({"server": one.server, "reason": one.reason}));
    let broken = report.crashed.iter().map(|(why, group)| {
        let ids: Vec<_> = group.examples.values().map(|one| &one.id).collect();
        json!({"reason": why, "calls": group.count, "examples": ids})
    });
    let counts: BTreeMap<&str, u64> = DifferenceKind::ALL
        .iter()
        .map(|(kind, name, _)| (*name, report.of_kind(*kind)))
        .filter(|(_, count)| *count > 0)
        .collect();
    json!({
        "ok": ok,
        "unusable_servers": unusable.collect::<Vec<_>>(),
        "backtest": !candidate.is_same(),
        "calls": report.records,
        "compared": report.compared(),
        "same": report.same,
        "left_out": report.skipped,
        "unreplayable": report.unreplayable,
        "rules_unjudged": report.rules_unjudged,
        "masking_unjudged": report.unjudged,
        "unfinished": report.unfinished,
        "since": report.span.as_ref().map(|(first, _)| first),
        "until": report.span.as_ref().map(|(_, last)| last),
        "mismatches": report.mismatches,
        "first_mismatch": first,
        "damaged": report.damages,
        "damaged_records": damaged.collect::<Vec<_>>(),
        "missing": report.missing,
        "broken": report.crashes(),
        "broken_calls": broken.collect::<Vec<_>>(),
        "stopped": report.stopped,
        "changes": counts,
        "groups": report.groups.iter().map(group).collect::<Vec<_>>(),
    })
}

/// Parses a way in which a call can differ.
fn kind(text: &str) -> Result<DifferenceKind, String> {
    let known = || DifferenceKind::ALL.map(|(_, name, _)| name).join(", ");
    DifferenceKind::parse(text.trim()).ok_or_else(|| format!("write one of: {}", known()))
}

const MOST_NAME: usize = 60;
const MOST_SAID: usize = 120;
const MOST_REASONS: usize = 5;
