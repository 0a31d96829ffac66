//! `tools/list`: the tools of all servers, in configuration order, page by page.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::ClientSession;
use super::era::{CacheControl, finish_cacheable};
use super::request_context::RequestContext;
use crate::failure::RpcError;
use crate::json::{self, JsonObject};
use crate::lock::lock;
use crate::logic::LogicError;
use crate::logic::types::Annotations;
use crate::rpc::code::{HEADER_MISMATCH, INTERNAL_ERROR, INVALID_PARAMS};
use crate::session::{self, Era, ToolHeaders};
use crate::sha256::Sha256;

/// The tools that the client was last shown, ready to be sent again.
#[derive(Default)]
pub(super) struct ToolListCache(Mutex<Option<CachedTools>>);

#[derive(Clone)]
struct CachedTools {
    /// The registry's count of tool changes at that time.
    seen: u64,
    snapshot: ToolSnapshot,
    items: Arc<[Box<RawValue>]>,
    /// The tools in a form that clients before 2026-07-28 can read.
    legacy_items: Arc<[Box<RawValue>]>,
    /// The arguments that headers repeat, by the tool names that the client sees.
    headers: Arc<ToolHeaders>,
}

impl ToolListCache {
    /// Reports whether the client would now see other tools than it was last shown.
    pub(super) fn have_changed(&self, client: &ClientSession) -> bool {
        self.cached().is_none_or(|shown| shown.snapshot.changed(client).is_some())
    }

    /// Checks that the headers of a call match its arguments, based on the tools that the client was last shown.
    pub(super) fn check_headers(
        &self,
        tool: &str,
        arguments: Option<&str>,
        given: &[(String, String)],
    ) -> Result<(), RpcError> {
        let Some(kept) = self.cached() else { return Ok(()) };
        kept.headers.check(tool, arguments, given).map_err(|text| RpcError::new(HEADER_MISMATCH, text))
    }

    /// Forgets what the client was shown, because it may see other tools now.
    pub(super) fn forget(&self) {
        *lock(&self.0) = None;
    }

    fn cached(&self) -> Option<CachedTools> {
        lock(&self.0).clone()
    }
}

/// The tools at one moment.
#[derive(Clone, Copy)]
pub(super) struct ToolSnapshot {
    /// The registry's version of the set of servers.
    roster: u64,
    /// The digest of all tools as shown; `None` if they could not be rendered.
    digest: Option<[u8; 32]>,
}

impl ToolSnapshot {
    /// Takes a snapshot of the current tools.
    pub(super) fn now(client: &ClientSession) -> Self {
        let roster = client.gateway.registry.servers_version();
        ToolSnapshot { roster, digest: render(client, None, None).ok().map(|items| digest(&items)) }
    }

    /// Returns a new snapshot if the tools have changed.
    pub(super) fn changed(&self, client: &ClientSession) -> Option<Self> {
        let now = ToolSnapshot::now(client);
        let differs = now.digest.is_some() && now.digest != self.digest;
        // Servers that were added since and have not listed their tools yet.
        let newcomers = || client.gate.links().iter().any(|link| link.known_tools().is_none() && !link.is_disabled());
        (differs || (now.roster != self.roster && newcomers())).then_some(now)
    }
}

fn digest(items: &[Box<RawValue>]) -> [u8; 32] {
    let mut digest = Sha256::new();
    for item in items {
        digest.update(item.get());
        // A separator that cannot occur in JSON.
        digest.update([0]);
    }
    digest.finish()
}

/// Handles `tools/list`. The first list, and the first after servers were added or removed, connects all servers with a
/// time limit; clients are notified of tools that come later.
pub(super) async fn tools(context: &RequestContext<'_>) -> Result<String, RpcError> {
    let client = context.client;
    let kept = client.sent.tools.cached();
    let roster = client.gateway.registry.servers_version();
    if kept.as_ref().is_none_or(|kept| kept.snapshot.roster != roster) {
        // Servers that fail or take too long are logged and left out.
        let _ = tokio::time::timeout(FIRST_LIST, client.gate.refresh()).await;
    }
    let seen = client.gateway.registry.tools_count();
    let shown = match kept {
        // What rules hide may change with each call.
        Some(kept) if kept.seen == seen && kept.snapshot.roster == roster && !client.gate.has_rules() => kept,
        _ => {
            let (name, trace) = (context.client_name(), context.trace_id());
            let items: Arc<[_]> = render(client, name.as_deref(), trace.as_deref())?.into();
            let (legacy_items, headers) = (for_legacy(&items), headers(&items));
            let snapshot = ToolSnapshot { roster, digest: Some(digest(&items)) };
            let shown = CachedTools { seen, snapshot, items, legacy_items, headers };
            *lock(&client.sent.tools.0) = Some(shown.clone());
            shown
        }
    };
    let items = match context.era {
        Era::Legacy => shown.legacy_items,
        Era::Modern => shown.items,
    };
    let page = page("tools", &items, context.request.params())?;
    Ok(finish_cacheable(context.era, page, cache_control(client)))
}

/// Returns the tools in a form that clients before 2026-07-28 can read.
fn for_legacy(items: &Arc<[Box<RawValue>]>) -> Arc<[Box<RawValue>]> {
    let others: Vec<_> = items.iter().map(|item| session::strip_output_schema(item)).collect();
    if others.iter().all(Option::is_none) {
        return Arc::clone(items);
    }
    items.iter().zip(others).map(|(item, other)| other.unwrap_or_else(|| item.clone())).collect()
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

/// Collects the arguments that the tools' schemas want repeated in headers.
fn headers(items: &[Box<RawValue>]) -> Arc<ToolHeaders> {
    let headers = ToolHeaders::default();
    // Skips the parsing of most tools, which want none.
    let marked = items.iter().filter(|item| json::SHOWN.is_in(item.get()));
    for tool in marked.filter_map(|item| JsonObject::read(item.get())) {
        if let Some(name) = tool.get("name").and_then(json::string_value) {
            // Clients must ignore a tool with invalid marks, so nothing needs to be checked for it.
            let _ = headers.learn(&name, tool.get("inputSchema"));
        }
    }
    Arc::new(headers)
}

/// Returns the definitions of the tools that a client may use, with this client program and this trace id.
fn render(client: &ClientSession, name: Option<&str>, trace: Option<&str>) -> Result<Vec<Box<RawValue>>, RpcError> {
    let failed = |error: LogicError| RpcError::new(INTERNAL_ERROR, error.to_string());
    let tools = client.gate.tools_for(&client.style(), name, trace).map_err(failed)?;
    let shown = tools.into_iter().map(|tool| {
        let definition = client.gate.definition(&tool.tool);
        let mut object = definition.and_then(|raw| JsonObject::read(raw.get())).unwrap_or_default();
        object.set("name", if client.exposed().is_some() { &tool.tool.tool } else { &tool.name });
        // Keep the server's own spelling unless the component changed the text.
        let written = object.get("description").and_then(json::string_value);
        if let Some(description) = tool.description.filter(|description| written.as_ref() != Some(description)) {
            object.set("description", &description);
        }
        if tool.tool.server.is_empty() {
            object.set("annotations", &annotations(tool.annotations));
        }
        if let Some(schema) = tool.input_schema.and_then(|schema| RawValue::from_string(schema).ok()) {
            object.set("inputSchema", &schema);
        }
        (tool.tool.server, object)
    });
    let mut shown: Vec<(String, JsonObject)> = shown.collect();
    client.gate.mask_descriptions(&mut shown).map_err(failed)?;
    Ok(shown.iter().map(|(_, tool)| json::to_raw(tool)).collect())
}

/// Returns the annotations of one of the gate's own tools.
fn annotations(said: Annotations) -> serde_json::Value {
    serde_json::json!({
        "readOnlyHint": said.read_only,
        "destructiveHint": said.destructive,
        "idempotentHint": said.idempotent,
        "openWorldHint": said.open_world,
    })
}

/// Returns one page of a list as the text of a result.
pub(super) fn page(name: &str, items: &[Box<RawValue>], params: &str) -> Result<String, RpcError> {
    #[derive(Deserialize)]
    struct Params<'a> {
        #[serde(default, borrow)]
        cursor: Option<&'a RawValue>,
    }
    let read = serde_json::from_str::<Params>(params);
    let bad = |text: String| RpcError::new(INVALID_PARAMS, text);
    let start = match read.map_err(|error| bad(format!("the params of a list cannot be read: {error}")))?.cursor {
        None => 0,
        Some(cursor) => {
            // Ignoring a cursor of another type would return the first page again and again.
            let start = json::string_value(cursor).and_then(|cursor| cursor.parse::<usize>().ok());
            let start = start.filter(|start| *start > 0 && *start < items.len());
            start.ok_or_else(|| bad("unknown cursor: it does not belong to this list".to_owned()))?
        }
    };
    let total = items.len();
    let end = total.min(start + PAGE);
    let items: Vec<_> = items[start..end].iter().map(|item| item.get()).collect();
    let next = if end < total { format!(r#","nextCursor":"{end}""#) } else { String::new() };
    Ok(format!(r#"{{"{name}":[{}]{next}}}"#, items.join(",")))
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
