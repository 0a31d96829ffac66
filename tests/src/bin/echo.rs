//! A correct MCP server built with the official Rust SDK, for benches: `echo [--http ADDRESS [--json]]`.
//!
//! It speaks both eras over stdio or Streamable HTTP. Over HTTP it keeps sessions and answers with events; with
//! `--json` it keeps no sessions and answers with JSON. It prints its address first.

use std::error::Error;
use std::sync::Arc;

use axum::serve::ListenerExt;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, JsonObject, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt, transport};
use serde_json::{Value, json};

/// The server's answers, built once.
#[derive(Clone)]
struct Echo {
    tools: Vec<Tool>,
    table: Arc<Value>,
}

impl Default for Echo {
    fn default() -> Self {
        Echo { tools: tools(), table: Arc::new(table()) }
    }
}

impl ServerHandler for Echo {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools.clone()))
    }

    async fn call_tool(
        &self,
        call: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let mut arguments = call.arguments.unwrap_or_default();
        let missing = |what| ErrorData::invalid_params(what, None);
        let text = match &*call.name {
            "echo" => match arguments.remove("text") {
                Some(Value::String(text)) => text,
                _ => return Err(missing("text must be a string")),
            },
            "payload" => match arguments.get("bytes").and_then(Value::as_u64) {
                Some(bytes) => payload(bytes as usize),
                None => return Err(missing("bytes must be a number")),
            },
            "table" => {
                let mut result = CallToolResult::success(vec![ContentBlock::text("a table")]);
                result.structured_content = Some(Value::clone(&self.table));
                return Ok(result.into());
            }
            _ => return Err(missing("there are echo, payload and table")),
        };
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => runtime(1)?.block_on(stdio()),
        ["--http", address] => runtime(2)?.block_on(http(address, StreamableHttpServerConfig::default())),
        ["--http", address, "--json"] => {
            let config = StreamableHttpServerConfig::default();
            let config = config.with_legacy_session_mode(false).with_json_response(true).with_sse_keep_alive(None);
            runtime(2)?.block_on(http(address, config))
        }
        _ => Err("usage: echo [--http ADDRESS [--json]]".into()),
    }
}

fn runtime(threads: usize) -> std::io::Result<tokio::runtime::Runtime> {
    match threads {
        1 => tokio::runtime::Builder::new_current_thread().enable_all().build(),
        _ => tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build(),
    }
}

async fn stdio() -> Result<(), Box<dyn Error>> {
    let service = Echo::default().serve(transport::io::stdio_pipes()).await?;
    service.waiting().await?;
    Ok(())
}

async fn http(address: &str, config: StreamableHttpServerConfig) -> Result<(), Box<dyn Error>> {
    let echo = Echo::default();
    let sessions = Arc::<transport::streamable_http_server::session::local::LocalSessionManager>::default();
    let service = StreamableHttpService::new(move || Ok(echo.clone()), sessions, config);
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("{}", listener.local_addr()?);
    let listener = listener.tap_io(|stream| {
        // Without this, some answers would wait for an acknowledgement.
        let _ = stream.set_nodelay(true);
    });
    axum::serve(listener, axum::Router::new().nest_service("/mcp", service)).await?;
    Ok(())
}

fn tools() -> Vec<Tool> {
    let tool = |name: &'static str, about: &'static str, schema: Value| Tool::new(name, about, object(schema));
    vec![
        tool(
            "echo",
            "Returns the text",
            json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}),
        ),
        tool(
            "payload",
            "Returns so many bytes of text",
            json!({"type": "object", "properties": {"bytes": {"type": "integer", "minimum": 0}}, "required": ["bytes"]}),
        ),
        tool("table", "Returns 26 KB of structured content", json!({"type": "object"})),
    ]
}

fn object(schema: Value) -> JsonObject {
    match schema {
        Value::Object(object) => object,
        _ => JsonObject::new(),
    }
}

/// Returns text in which some characters must be escaped in JSON.
fn payload(bytes: usize) -> String {
    let line = "a line of \"text\" that a server may well return, such as 0123456789\n";
    let mut text = line.repeat(bytes.div_ceil(line.len()));
    text.truncate(bytes);
    text
}

/// Returns rows as a database would.
fn table() -> Value {
    let row = |n: usize| {
        json!({
            "id": n, "name": format!("ticket number {n}"), "score": n as f64 / 8.0, "open": n.is_multiple_of(2),
            "tags": ["bug", "backend", format!("team-{}", n % 7)], "closed_at": null,
        })
    };
    let mut rows = Vec::new();
    let mut size = 0;
    while size < TABLE {
        let row = row(rows.len());
        size += row.to_string().len() + 1;
        rows.push(row);
    }
    json!({ "rows": rows })
}

const TABLE: usize = 26 << 10;
