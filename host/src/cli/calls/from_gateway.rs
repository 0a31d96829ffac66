//! The calls of a running gateway: those that it remembers and records, and each new one as it ends.

use std::collections::HashSet;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::Value;
use url::form_urlencoded;

use super::{Args, CallList};
use crate::cli::error::CliError;
use crate::cli::printer;
use crate::cli::remote::RemoteGateway;
use crate::cli::table::count_of;
use crate::failure::Failure;
use crate::gateway::CallFilter;
use crate::record::folder;
use crate::web::body;

/// A page of calls, newest first.
#[derive(Deserialize)]
struct CallsPage {
    calls: Vec<Value>,
    /// The number after which the next page begins.
    #[serde(default)]
    last: u64,
    /// How many calls the gateway has forgotten in between.
    #[serde(default)]
    lost: u64,
    #[serde(default)]
    problems: Vec<Problem>,
}

/// Something that keeps recorded calls from being listed.
#[derive(Deserialize)]
struct Problem {
    folder: Option<String>,
    text: String,
}

/// Prints the newest calls, and goes on with new ones if that is asked for.
pub(super) async fn run(
    remote: &RemoteGateway,
    filter: &CallFilter,
    args: &Args,
    list: &mut CallList,
) -> Result<(), CliError> {
    // Opened first, so that no call ends unnoticed in between.
    let changes = match args.follow {
        true => Some(remote.operator.listen("api/v1/events").await.map_err(|failed| remote.failure(&failed))?),
        false => None,
    };
    let CallsPage { mut calls, mut last, .. } = get(remote, filter, &[("limit", args.limit.to_string())]).await?;
    let recent: HashSet<String> = calls.iter().map(id).collect();
    let recorded = recorded(remote, filter, args.limit, list).await?;
    calls.extend(recorded.into_iter().filter(|call| !recent.contains(&id(call))));
    // Pages begin with the newest call. Calls that ended in the same millisecond keep their order.
    calls.reverse();
    let at = |call: &Value| call["at"].as_str().unwrap_or_default().to_owned();
    calls.sort_by_key(at);
    calls.drain(..calls.len().saturating_sub(args.limit));
    list.print(&calls)?;
    let Some(mut changes) = changes else { return Ok(()) };
    // A call that was recorded meanwhile is among the new ones too.
    let listed: HashSet<String> = calls.iter().map(id).collect();
    while printer::stdout_is_open() {
        // What has changed does not matter, since a question about new calls costs little.
        if !matches!(body::next(&mut changes).await, Ok(Some(_))) {
            return Err(CliError::Unavailable("the gateway has stopped".to_owned()));
        }
        loop {
            let more = [("limit", MOST.to_string()), ("after", last.to_string())];
            let mut page = get(remote, filter, &more).await?;
            if page.lost > 0 {
                let count = count_of(page.lost, "call");
                list.printer.warn(&format!("{count} ended faster than the gateway could tell of them"));
            }
            let is_last = page.calls.len() < MOST;
            page.calls.retain(|call| !listed.contains(&id(call)));
            page.calls.reverse();
            list.print(&page.calls)?;
            last = page.last;
            if is_last {
                break;
            }
        }
    }
    Ok(())
}

/// Returns the folders that the newest calls of a gateway are recorded in; none if it records nothing.
pub(in crate::cli) async fn record_folders(remote: &RemoteGateway) -> Vec<PathBuf> {
    let path = path(&CallFilter::default(), &[("limit", MOST.to_string()), ("recorded", "true".to_owned())]);
    let page = remote.operator.get(&path).await.ok().and_then(|page| read(remote, &page).ok());
    let calls = page.map(|page| page.calls).unwrap_or_default();
    let folders = calls.iter().filter_map(|call| Some(PathBuf::from(call["folder"].as_str()?)));
    folder::distinct(&folders.collect::<Vec<_>>())
}

/// Returns the calls that the gateway and its replicas have recorded, if they record calls.
async fn recorded(
    remote: &RemoteGateway,
    filter: &CallFilter,
    limit: usize,
    list: &CallList,
) -> Result<Vec<Value>, CliError> {
    let path = path(filter, &[("limit", limit.to_string()), ("recorded", "true".to_owned())]);
    let page = match remote.operator.get(&path).await {
        Ok(page) => read(remote, &page)?,
        Err(failed) => {
            match &failed.failure {
                // It records nothing.
                Failure::Http(error) if error.status == 404 => {}
                _ => list.printer.warn(&format!("recorded calls are not listed: {failed}")),
            }
            return Ok(Vec::new());
        }
    };
    for Problem { folder, text } in page.problems {
        let folder = folder.map(|folder| format!("{folder}: ")).unwrap_or_default();
        list.printer.warn(&format!("{folder}{text}"));
    }
    Ok(page.calls)
}

async fn get(
    remote: &RemoteGateway,
    filter: &CallFilter,
    more: &[(&'static str, String)],
) -> Result<CallsPage, CliError> {
    read(remote, &remote.get(&path(filter, more)).await?)
}

fn read(remote: &RemoteGateway, page: &str) -> Result<CallsPage, CliError> {
    serde_json::from_str(page).map_err(|error| remote.unexpected_answer(&error))
}

/// Returns the path of the page with these calls.
fn path(filter: &CallFilter, more: &[(&'static str, String)]) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(filter.parameters()).extend_pairs(more);
    format!("api/v1/calls?{}", query.finish())
}

fn id(call: &Value) -> String {
    call["id"].as_str().unwrap_or_default().to_owned()
}

/// How many new calls are asked for at a time.
const MOST: usize = 500;
