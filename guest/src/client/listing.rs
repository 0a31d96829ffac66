//! The tools of a server, page by page.

use std::collections::BTreeSet;

use super::Transport;
use crate::execution::Failed;
use crate::json::{self, Value};
use crate::types::{Annotations, Failure, Phase, Tool};

/// Asks a server for all its tools; a server that does not know the method has none.
pub(super) async fn fetch(transport: &impl Transport, server: &str) -> Result<Vec<Tool>, Failed> {
    let mut tools = Vec::new();
    let mut cursors = BTreeSet::new();
    let mut params = "{}".to_owned();
    for _ in 0..MAX_PAGES {
        let page = match transport.request(server, METHOD, params).await {
            Ok(page) => page,
            Err(Failed { failure: Failure::Rpc(error), .. }) if error.code == METHOD_NOT_FOUND => return Ok(tools),
            Err(failed) => return Err(failed),
        };
        let page =
            json::parse(&page).map_err(|error| broken(format!("the result of {METHOD} is unreadable: {error}")))?;
        if page.as_object().is_none() {
            return Err(broken(format!("the result of {METHOD} is not an object")));
        }
        if page.get("resultType").is_some_and(|kind| kind.as_str() != Some("complete")) {
            return Err(broken(format!("the result of {METHOD} has an unknown resultType")));
        }
        tools.extend(page.get("tools").and_then(Value::as_array).unwrap_or_default().iter().filter_map(read));
        if tools.len() > MAX_TOOLS {
            return Err(broken(format!("{METHOD} lists more than {MAX_TOOLS} tools")));
        }
        match page.get("nextCursor") {
            None | Some(Value::Null) => return Ok(tools),
            Some(cursor) if cursor.as_str() == Some("") => return Ok(tools),
            Some(cursor) => {
                let cursor = cursor.to_json();
                params = format!(r#"{{"cursor":{cursor}}}"#);
                // The cursor repeats, so all pages have been read.
                if !cursors.insert(cursor) {
                    return Ok(tools);
                }
            }
        }
    }
    Err(broken(format!("{METHOD} has more than {MAX_PAGES} pages")))
}

/// Reads a tool from its server's list; an entry without a name is skipped, and hints of a wrong type are ignored.
fn read(item: &Value<'_>) -> Option<Tool> {
    let hint = |name: &str| item.get("annotations")?.get(name)?.as_bool();
    Some(Tool {
        name: item.get("name")?.as_str()?.to_owned(),
        description: item.get("description").and_then(Value::as_str).map(str::to_owned),
        input_schema: item.get("inputSchema").map(Value::to_json),
        annotations: Annotations {
            read_only: hint("readOnlyHint"),
            destructive: hint("destructiveHint"),
            idempotent: hint("idempotentHint"),
            open_world: hint("openWorldHint"),
        },
    })
}

fn broken(how: String) -> Failed {
    Failed { failure: Failure::Protocol(how), phase: Phase::Sent }
}

const METHOD: &str = "tools/list";
/// The JSON-RPC code for an unknown method.
const METHOD_NOT_FOUND: i64 = -32601;
const MAX_PAGES: usize = 1_000;
const MAX_TOOLS: usize = 100_000;
