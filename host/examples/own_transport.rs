//! A server that is reached in a way of one's own: here, a function in the same process.
//!
//! Run with `cargo run -p toolgate --example own_transport`.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use toolgate::config;
use toolgate::failure::RequestError;
use toolgate::gate::{CallOptions, CloseMode, Gate, GateView};
use toolgate::logic::types::execution::ToolCall;
use toolgate::logic::{self, Component};
use toolgate::registry::{Registry, RegistryOptions};
use toolgate::transport::{BoxFuture, Connect, Delivery, Outgoing, Receive, Transport};

/// Opens connections to the clock.
struct Clock;

impl Connect for Clock {
    fn connect(&self, receiver: Arc<dyn Receive>) -> BoxFuture<'_, Result<Arc<dyn Transport>, RequestError>> {
        Box::pin(async move { Ok(Arc::new(Wire { receiver }) as Arc<dyn Transport>) })
    }
}

/// One connection: whatever is sent is answered at once.
struct Wire {
    receiver: Arc<dyn Receive>,
}

impl Transport for Wire {
    fn send(&self, message: Outgoing) -> BoxFuture<'_, Result<Delivery, RequestError>> {
        let message: Value = serde_json::from_str(&message.text).unwrap_or_default();
        if let (Some(method), false) = (message["method"].as_str(), message["id"].is_null()) {
            let answer = match method {
                "initialize" => json!({"result": {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "clock", "version": "1"},
                }}),
                "tools/list" => json!({"result": {"tools": [{
                    "name": "tell",
                    "description": "Tells the time.",
                    "inputSchema": {"type": "object"},
                    "annotations": {"readOnlyHint": true},
                }]}}),
                "tools/call" => json!({"result": {"content": [{"type": "text", "text": "half past nine"}]}}),
                _ => json!({"error": {"code": -32601, "message": "no such method"}}),
            };
            let mut answer = answer;
            answer["jsonrpc"] = "2.0".into();
            answer["id"] = message["id"].clone();
            self.receiver.receive(answer.to_string().into(), None);
        }
        Box::pin(async { Ok(Delivery::Written) })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let component =
        Component::embedded(&logic::ComponentOptions { cache: logic::Cache::user(), ..Default::default() })?;
    // The command is never run: the transport below takes its place.
    let config = config::parse("servers: {clock: {command: none}}", Path::new("toolgate.yaml"))?;
    let transports: HashMap<_, Arc<dyn Connect>> = HashMap::from([("clock".to_owned(), Arc::new(Clock) as _)]);
    let registry = Registry::new(&component, config, RegistryOptions { transports, ..RegistryOptions::default() })?;
    let gate = Gate::open(&registry, GateView::default())?;

    let call = ToolCall { id: "1".to_owned(), name: "clock.tell".to_owned(), arguments: String::new() };
    let called = gate.call(call, &CallOptions::default()).await?;
    println!("{}", called.result.text);

    gate.close(CloseMode::Cancel).await;
    registry.close().await;
    Ok(())
}
