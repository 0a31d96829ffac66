//! Runs the client scenarios of the conformance suite with nothing but the library: `conformance_client URL`.
//!
//! The environment names the scenario and its context.

#[path = "../conformance/person.rs"]
mod person;
#[path = "../conformance/scenario.rs"]
mod scenario;

use std::error::Error;

use scenario::Stage;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).ok_or("usage: conformance_client URL")?;
    let scenario = std::env::var("MCP_CONFORMANCE_SCENARIO")?;
    let context = std::env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_else(|_| "{}".to_owned());
    let stage = Stage::open(&url, &scenario, serde_json::from_str(&context)?)?;
    let played = stage.play(&scenario).await;
    stage.close().await;
    played
}
