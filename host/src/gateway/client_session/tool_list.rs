//! `tools/list`: the tools of all servers, in configuration order, page by page.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::ClientSession;
use super::era::{CacheControl, finish_cacheable};
use super::request_context::RequestContext;
use super::shown_tools::ShownTools;
use crate::failure::RpcError;
use crate::json;
use crate::lock::lock;
use crate::logic::types::execution::Settings;
use crate::rpc::code::{HEADER_MISMATCH, INVALID_PARAMS};
use crate::session::{Era, ToolHeaders};

/// What the client was last shown.
#[derive(Default)]
pub(super) struct ToolListCache(Mutex<Option<LastShown>>);

#[derive(Clone)]
struct LastShown {
    snapshot: ToolSnapshot,
    /// The arguments that headers repeat, by the tool names that the client sees.
    headers: Arc<ToolHeaders>,
    /// The list that the client reads page by page, and the registry's count of tool changes when that began. Only for
    /// a list that depends on the caller, which would otherwise be made again for each page.
    rest: Option<(u64, Arc<ShownTools>)>,
}

impl ToolListCache {
    /// Reports whether the client would now see other tools than it was last shown.
    pub(super) fn have_changed(&self, client: &ClientSession) -> bool {
        self.last().is_none_or(|shown| shown.snapshot.changed(client).is_some())
    }

    /// Checks that the headers of a call match its arguments, based on the tools that the client was last shown.
    pub(super) fn check_headers(
        &self,
        tool: &str,
        arguments: Option<&str>,
        given: &[(String, String)],
    ) -> Result<(), RpcError> {
        let Some(last) = self.last() else { return Ok(()) };
        last.headers.check(tool, arguments, given).map_err(|text| RpcError::new(HEADER_MISMATCH, text))
    }

    /// Forgets what the client was shown, because it may see other tools now.
    pub(super) fn forget(&self) {
        *lock(&self.0) = None;
    }

    fn last(&self) -> Option<LastShown> {
        lock(&self.0).clone()
    }
}

/// The tools at one moment.
#[derive(Clone)]
pub(super) struct ToolSnapshot {
    /// The registry's version of the set of servers.
    roster: u64,
    /// The digest of all tools as shown, with those that rules hide; `None` if they could not be rendered.
    digest: Option<[u8; 32]>,
    /// The settings whose rules may hide some of them.
    rules: Option<Arc<Settings>>,
}

impl ToolSnapshot {
    /// Takes a snapshot of the current tools.
    pub(super) fn now(client: &ClientSession) -> Self {
        let (roster, backend) = (client.gateway.registry.servers_version(), client.gate.sync());
        let shown = client.gateway.tool_lists.of_backend(client, &backend);
        let rules = backend.has_rules().then(|| Arc::clone(backend.settings()));
        ToolSnapshot { roster, digest: shown.ok().map(|shown| shown.digest), rules }
    }

    /// Returns a new snapshot if the tools have changed. What rules hide depends on more than the tools, so a client with
    /// rules hears of every change of those that it may use without them.
    pub(super) fn changed(&self, client: &ClientSession) -> Option<Self> {
        let now = ToolSnapshot::now(client);
        let same_rules = match (&now.rules, &self.rules) {
            (Some(now), Some(before)) => Arc::ptr_eq(now, before) || now.rules == before.rules,
            (now, before) => now.is_none() && before.is_none(),
        };
        let differs = now.digest.is_some() && (now.digest != self.digest || !same_rules);
        // Servers that were added since and have not listed their tools yet.
        let newcomers = || client.gate.links().iter().any(|link| link.known_tools().is_none() && !link.is_disabled());
        (differs || (now.roster != self.roster && newcomers())).then_some(now)
    }
}

/// Handles `tools/list`. The first list, and the first after servers were added or removed, connects all servers with a
/// time limit; clients are notified of tools that come later.
pub(super) async fn tools(context: &RequestContext<'_>) -> Result<String, RpcError> {
    let client = context.client;
    let last = client.sent.tools.last();
    let roster = client.gateway.registry.servers_version();
    if last.as_ref().is_none_or(|last| last.snapshot.roster != roster) {
        // Servers that fail or take too long are logged and left out.
        let _ = tokio::time::timeout(FIRST_LIST, client.gate.refresh()).await;
    }
    let seen = client.gateway.registry.tools_count();
    // Taken first, so that the client hears of what changes while the list is made.
    let snapshot = ToolSnapshot { roster, ..ToolSnapshot::now(client) };
    let cursor = read_cursor(context.request.params())?;
    let rest = last.and_then(|last| last.rest).filter(|(began, _)| cursor.is_some() && *began == seen);
    let shown = match rest {
        Some((_, shown)) => shown,
        None => {
            let (name, trace) = (context.client_name(), context.trace_id());
            client.gateway.tool_lists.of_caller(client, name.as_deref(), trace.as_deref())?
        }
    };
    let items = match context.era {
        Era::Legacy => &shown.legacy_items,
        Era::Modern => &shown.items,
    };
    let page = page_from("tools", items, cursor)?;
    let is_last = cursor.unwrap_or_default() + PAGE >= items.len();
    let rest = (snapshot.rules.is_some() && !is_last).then(|| (seen, Arc::clone(&shown)));
    *lock(&client.sent.tools.0) = Some(LastShown { snapshot, headers: Arc::clone(&shown.headers), rest });
    Ok(finish_cacheable(context.era, page, cache_control(client)))
}

/// Returns how long the list may be cached, and by whom; not at all while a server has yet to list its tools, or if there
/// are rules that may hide some of them.
fn cache_control(client: &ClientSession) -> CacheControl {
    if client.gate.has_rules() {
        return CacheControl { ttl_ms: 0, private: true };
    }
    let links = client.gate.links();
    let known = links.iter().filter(|link| !link.is_disabled()).map(|link| link.known_tools());
    let parts = known.filter_map(|known| match known {
        Some(tools) => {
            let listing = tools.listing();
            // A server without tools does not limit the caching.
            (listing.ttl.is_some() || !listing.items.is_empty()).then(|| CacheControl::of(listing))
        }
        None => Some(CacheControl { ttl_ms: 0, private: false }),
    });
    CacheControl::of_parts(parts).for_client(client)
}

/// Returns one page of a list as the text of a result.
pub(super) fn page(name: &str, items: &[Box<RawValue>], params: &str) -> Result<String, RpcError> {
    page_from(name, items, read_cursor(params)?)
}

/// Returns the place in a list that the cursor in the params of a request means, if there is a cursor.
fn read_cursor(params: &str) -> Result<Option<usize>, RpcError> {
    #[derive(Deserialize)]
    struct Params<'a> {
        #[serde(default, borrow)]
        cursor: Option<&'a RawValue>,
    }
    let bad = |error| RpcError::new(INVALID_PARAMS, format!("the params of a list cannot be read: {error}"));
    let Some(cursor) = json::read_object::<Params>(params).map_err(bad)?.cursor else { return Ok(None) };
    // Ignoring a cursor of another type would return the first page again and again.
    let place = json::string_value(cursor).and_then(|cursor| cursor.parse::<usize>().ok());
    place.filter(|place| *place > 0).map(Some).ok_or_else(unknown_cursor)
}

/// Returns the page that begins at this place of a list, the first one without a place.
fn page_from(name: &str, items: &[Box<RawValue>], place: Option<usize>) -> Result<String, RpcError> {
    let (start, total) = (place.unwrap_or_default(), items.len());
    if place.is_some() && start >= total {
        return Err(unknown_cursor());
    }
    let end = total.min(start + PAGE);
    let items: Vec<_> = items[start..end].iter().map(|item| item.get()).collect();
    let next = if end < total { format!(r#","nextCursor":"{end}""#) } else { String::new() };
    Ok(format!(r#"{{"{name}":[{}]{next}}}"#, items.join(",")))
}

fn unknown_cursor() -> RpcError {
    RpcError::new(INVALID_PARAMS, "unknown cursor: it does not belong to this list".to_owned())
}

/// The maximum number of items on a page.
const PAGE: usize = 1000;
/// The maximum time that a list waits for servers.
pub(super) const FIRST_LIST: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_comes_in_pages_and_loses_nothing() {
        let items: Vec<_> = (0..2 * PAGE + 1).map(|n| crate::json::to_raw(&n)).collect();
        let mut params = "{}".to_owned();
        let mut seen = Vec::new();
        for pages in 1.. {
            let text = page("things", &items, &params).unwrap();
            let read: serde_json::Value = serde_json::from_str(&text).unwrap();
            seen.extend(read["things"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()));
            match read["nextCursor"].as_str() {
                Some(cursor) => params = format!(r#"{{"cursor":"{cursor}"}}"#),
                None => {
                    assert_eq!(pages, 3);
                    break;
                }
            }
        }
        assert_eq!(seen, (0..=2 * PAGE as u64).collect::<Vec<_>>());
        for cursor in ["\"x\"", "\"0\"", "\"99999\"", "\"-1\"", "1000", "{}"] {
            let error = page("things", &items, &format!(r#"{{"cursor":{cursor}}}"#)).unwrap_err();
            assert_eq!(error.code, INVALID_PARAMS, "{cursor}");
        }
        assert!(page("things", &items, r#"{"cursor":null}"#).is_ok());
    }
}
