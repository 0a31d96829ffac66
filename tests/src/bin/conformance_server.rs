//! An MCP server for both eras, built with the official SDK, with everything that the conformance suite needs.
//!
//! It listens on a free port of 127.0.0.1 and prints its address on standard output.

#[path = "../conformance/everything.rs"]
mod everything;
#[path = "../conformance/input.rs"]
mod input;
#[path = "../conformance/offers.rs"]
mod offers;
#[path = "../conformance/rounds.rs"]
mod rounds;
#[path = "../conformance/tools.rs"]
mod tools;

use std::sync::Arc;

use everything::{Everything, Shared};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let shared = Arc::new(Shared::default());
    let service = StreamableHttpService::new(
        move || Ok(Everything::new(Arc::clone(&shared))),
        Arc::new(LocalSessionManager::default()),
        StreamableHttpServerConfig::default(),
    );
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("listening on http://{}/mcp", listener.local_addr()?);
    axum::serve(listener, axum::Router::new().route_service("/mcp", service)).await
}
