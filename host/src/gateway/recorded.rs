//! Calls from the records of this gateway and of others, for operators.

use std::cmp::Reverse;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::Gateway;
use super::api::{ApiResponse, call_json, error};
use super::call_filter::CallFilter;
use super::client::Principal;
use super::recent::{MOST, MOST_BYTES, RecentCall};
use crate::calendar;
use crate::gate::AdminDecision;
use crate::logic::types::execution::{Code, Event};
use crate::record::directive::RecordedDirective;
use crate::record::line::Record;
use crate::record::{NewestRecords, ReadBudget, ReadProblem, RecordedStep, folder};

impl Gateway {
    /// Lists the calls that are recorded in all folders, newest first: the principal's own, or all for admins.
    ///
    /// A folder that cannot be read is reported beside the calls of the others.
    pub async fn recorded_calls(
        &self,
        principal: &Principal,
        filter: CallFilter,
        most: usize,
    ) -> Result<ApiResponse, ApiResponse> {
        let dirs = self.record_folders().ok_or_else(|| error(404, NO_RECORDS))?;
        let principal = principal.clone();
        let query = move || {
            let dirs = dirs.existing();
            let budget = ReadBudget { bytes: MOST_READ, until: Instant::now() + READ };
            list(&dirs, &principal, &filter, &ListLimits { most, calls: MOST, bytes: MOST_BYTES }, budget)
        };
        let body = self.record_queries.run(query).await?;
        Ok(self.redacted(&body.to_string()))
    }

    /// Returns the folders with records of this gateway and of others; `None` if it records nothing and knows none.
    pub(super) fn record_folders(&self) -> Option<RecordFolders> {
        let own = self.registry().recorder().map(|recorder| recorder.options().dir.clone());
        let others = self.state.active().options.records.clone();
        (own.is_some() || !others.is_empty()).then_some(RecordFolders { own, others })
    }
}

/// The folders with records of a gateway and of others.
pub(super) struct RecordFolders {
    own: Option<PathBuf>,
    others: Vec<PathBuf>,
}

impl RecordFolders {
    /// Returns each folder once. The gateway's own folder is created when the first call is recorded.
    pub(super) fn existing(&self) -> Vec<PathBuf> {
        let own = self.own.iter().filter(|dir| !is_missing(dir));
        folder::distinct(&own.chain(&self.others).cloned().collect::<Vec<_>>())
    }
}

/// Lets one query at a time read records, on a thread that may block.
pub(super) struct RecordQueries(Arc<Semaphore>);

impl Default for RecordQueries {
    fn default() -> Self {
        RecordQueries(Arc::new(Semaphore::new(1)))
    }
}

impl RecordQueries {
    /// Runs a query after the one before it; fails if it has to wait or runs for too long.
    async fn run<T: Send + 'static>(&self, query: impl FnOnce() -> T + Send + 'static) -> Result<T, ApiResponse> {
        let busy = || error(503, "another query is reading the records: try again in a moment");
        let permit = timeout(QUEUE, Arc::clone(&self.0).acquire_owned()).await;
        let permit = permit.map_err(|_| busy())?.map_err(|_| busy())?;
        let query = spawn_blocking(move || {
            // A query goes on when its client no longer waits, and the next one waits for its end all the same.
            let _permit = permit;
            query()
        });
        // The query itself stops in time, unless the file system blocks.
        let outcome =
            timeout(READ + QUEUE, query).await.map_err(|_| error(503, "reading the records takes too long"))?;
        outcome.map_err(|_| error(500, "the records could not be read: this is a bug in toolgate"))
    }
}

/// How many calls are listed.
pub(crate) struct ListLimits {
    /// How many are asked for.
    pub most: usize,
    /// The most calls of any list.
    pub calls: usize,
    /// The most bytes of any list.
    pub bytes: usize,
}

/// Reads the newest calls of these folders that the filter lets through: the principal's own, or all for admins.
pub(crate) fn list(
    dirs: &[PathBuf],
    principal: &Principal,
    filter: &CallFilter,
    limits: &ListLimits,
    budget: ReadBudget,
) -> Value {
    let mut records = NewestRecords::of(dirs, (!principal.admin).then_some(&principal.name), budget);
    let (mut calls, mut bytes, mut is_cut) = (Vec::new(), 0, false);
    while calls.len() < limits.most
        && let Some((folder, record)) = records.next()
    {
        let call = RecordedCall::new(folder, record);
        if filter.since.is_some_and(|since| call.call.at + DISORDER < since) {
            break;
        }
        if !filter.matches(&call.call) {
            continue;
        }
        bytes += call.call.size();
        is_cut = calls.len() == limits.calls || bytes > limits.bytes;
        if is_cut {
            break;
        }
        calls.push(call);
    }
    // Calls that end at about the same time may be recorded in another order.
    calls.sort_by_key(|call| Reverse(call.call.at));
    // Where the gateway has its files is for admins.
    let path = |folder: usize| principal.admin.then(|| dirs[folder].display().to_string());
    let problem = |ReadProblem { folder, text }| json!({"folder": folder.and_then(path), "text": text});
    let mut problems: Vec<_> = records.into_problems().into_iter().map(problem).collect();
    if is_cut {
        problems.push(json!({"folder": null, "text": format!("only the newest {} calls are listed", calls.len())}));
    }
    let calls: Vec<_> = calls.iter().map(|call| call.to_json(path(call.folder))).collect();
    json!({"calls": calls, "problems": problems})
}

/// Reports whether a folder does not exist.
fn is_missing(dir: &Path) -> bool {
    dir.metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// A call from a record.
pub(crate) struct RecordedCall {
    /// The index of the folder.
    folder: usize,
    /// Whether the record names a principal.
    is_named: bool,
    /// The call, cut as recent calls are.
    pub call: RecentCall,
}

impl RecordedCall {
    /// Reads the call from a record in the folder with this index.
    pub(crate) fn new(folder: usize, record: Record) -> Self {
        let (tool, is_named) = (record.tool().cloned(), record.principal.is_some());
        let requests = record.directives().filter(|directive| directive.kind() == "request").count();
        let Record { id, at, ms, principal, approver, name, mut steps, .. } = record;
        let latency = Duration::try_from_secs_f64(ms / 1000.0).unwrap_or_default();
        let decided = approver.and_then(|admin| decision(&steps, admin));
        let (code, attempts, mut trace) = match steps.pop().map(|step| step.directive) {
            Some(RecordedDirective::Done(ended)) => (ended.code, ended.attempts, ended.trace),
            // The caller no longer waited for the answer.
            _ => (Code::Cancelled, u32::try_from(requests).unwrap_or(u32::MAX), Vec::new()),
        };
        trace.extend(decided.map(|decided| decided.note()));
        // A record has the time at which its call began.
        let at = calendar::parse(&at).unwrap_or(SystemTime::UNIX_EPOCH) + latency;
        let principal = principal.unwrap_or_default();
        let call = RecentCall { id, at, principal, name, tool, code, attempts, latency, trace };
        RecordedCall { folder, is_named, call: call.shortened() }
    }

    /// Describes the call as a recent call is described, with the path of its folder.
    pub(crate) fn to_json(&self, path: Option<String>) -> Value {
        let mut json = call_json(&self.call);
        if !self.is_named {
            json["principal"] = Value::Null;
        }
        json["folder"] = path.into();
        json
    }
}

/// Returns what the admin decided about a recorded call.
fn decision(steps: &[RecordedStep], admin: String) -> Option<AdminDecision> {
    let approved = steps.iter().find_map(|step| match step.event {
        Some(Event::Approved(approved)) => Some(approved),
        _ => None,
    })?;
    Some(AdminDecision { admin: admin.into(), approved })
}

/// The error of a gateway without records.
const NO_RECORDS: &str = "this gateway knows no records: set `record: true`, or start it with --record DIR";
/// How long a query waits for the one before it.
const QUEUE: Duration = Duration::from_secs(5);
/// How long a query reads.
const READ: Duration = Duration::from_secs(5);
/// How much earlier than the calls before it in a file a call may have ended, since calls are not recorded at once.
pub(super) const DISORDER: Duration = Duration::from_secs(60);
/// How much a query reads.
const MOST_READ: u64 = 64 << 20;

#[cfg(test)]
mod tests;
