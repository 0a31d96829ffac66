//! Calls from records: the newest ones, and each new one as it is recorded.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Args, CallList};
use crate::cli::error::CliError;
use crate::cli::printer;
use crate::gateway::CallFilter;
use crate::gateway::client::Principal;
use crate::gateway::recorded::{ListLimits, RecordedCall, list};
use crate::record::{ReadBudget, RecordFollower};

/// Prints the newest calls, and goes on with new ones if that is asked for.
pub(super) async fn run(
    dirs: &[PathBuf],
    filter: &CallFilter,
    args: &Args,
    calls: &mut CallList,
) -> Result<(), CliError> {
    // Its start is fixed first, so that no call is recorded unnoticed in between.
    let follower = if args.follow { Some(RecordFollower::new(dirs)?) } else { None };
    // Who follows may be earlier than the first call.
    let there: Vec<_> = dirs.iter().filter(|dir| dir.exists()).cloned().collect();
    let (mut listed, problems) = newest(&there, filter, args.limit);
    problems.iter().for_each(|problem| calls.printer.warn(problem));
    listed.reverse();
    calls.print(&listed)?;
    let Some(mut follower) = follower else { return Ok(()) };
    // A call that was recorded meanwhile is among the new ones too.
    let listed: HashSet<&str> = listed.iter().filter_map(|call| call["id"].as_str()).collect();
    while printer::stdout_is_open() {
        let mut new = Vec::new();
        for line in follower.look()? {
            match line.record {
                Ok(record) => {
                    let call = RecordedCall::new(line.folder, record);
                    if filter.matches(&call.call) && !listed.contains(call.call.id.as_str()) {
                        new.push(call.to_json(Some(dirs[line.folder].display().to_string())));
                    }
                }
                Err(damage) => {
                    calls.printer.warn(&format!("{}: a new record is damaged: {damage}", line.file.display()))
                }
            }
        }
        calls.print(&new)?;
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

/// Returns the newest calls that the filter lets through, newest first and each once, and what kept others from being
/// listed.
pub(in crate::cli) fn newest(dirs: &[PathBuf], filter: &CallFilter, most: usize) -> (Vec<Value>, Vec<String>) {
    let limits = ListLimits { most, calls: usize::MAX, bytes: usize::MAX };
    let budget = ReadBudget { bytes: u64::MAX, until: Instant::now() + READ };
    let mut page = list(dirs, &Principal::local(), filter, &limits, budget);
    let mut known = HashSet::new();
    let Value::Array(mut calls) = page["calls"].take() else { return (Vec::new(), Vec::new()) };
    // A folder and its copy have the same calls.
    calls.retain(|call| known.insert(call["id"].as_str().unwrap_or_default().to_owned()));
    let problem = |problem: &Value| {
        let folder = problem["folder"].as_str().map(|folder| format!("{folder}: ")).unwrap_or_default();
        format!("{folder}{}", problem["text"].as_str().unwrap_or_default())
    };
    let problems = page["problems"].as_array().into_iter().flatten().map(problem).collect();
    (calls, problems)
}

/// How often to look for new records. A look lists the folders and asks for the size of each file; events of file
/// systems get lost on network file systems and in containers.
const PAUSE: Duration = Duration::from_millis(250);
/// How long reading may take; Ctrl-C ends it earlier.
const READ: Duration = Duration::from_secs(24 * 60 * 60);
