//! The definitions of the tools by which a model reads resources.

use std::sync::{Arc, LazyLock};

use serde_json::json;

use super::ToolList;
use crate::json::to_raw;
use crate::session::Listing;

/// Returns the tools that list and read resources.
pub(crate) fn resource_tools() -> Arc<ToolList> {
    static TOOLS: LazyLock<Arc<ToolList>> = LazyLock::new(|| {
        let server = json!({"type": "string", "description": "The id of the server; default: all servers."});
        let harmless = json!({"readOnlyHint": true, "openWorldHint": false});
        let list = json!({
            "name": "list_resources",
            "description": "Lists the resources that can be read, each with its server and URI, and URI templates.",
            "inputSchema": {"type": "object", "properties": {"server": server}},
            "annotations": harmless,
        });
        let read = json!({
            "name": "read_resource",
            "description": "Reads a resource, as listed by list_resources or with a URI that fits a listed template.",
            "inputSchema": {
                "type": "object",
                "properties": {"uri": {"type": "string", "description": "The URI of the resource."}, "server": server},
                "required": ["uri"],
            },
            "annotations": harmless,
        });
        let items = vec![to_raw(&list).into(), to_raw(&read).into()];
        Arc::new(ToolList::read(Arc::new(Listing { items, ..Listing::default() }), 1))
    });
    Arc::clone(&TOOLS)
}
