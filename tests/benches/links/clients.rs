//! Clients of one server: ours with the component, ours without, and the official SDK's.

use std::hint::black_box;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{CallToolRequestParams, ProtocolVersion};
use rmcp::service::{ClientLifecycleMode, ClientServiceExt, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::{RoleClient, ServiceExt};
use serde_json::Value;
use tokio::process::{Child, Command};
use toolgate::config;
use toolgate::gate::{CallOptions, Gate, GateView};
use toolgate::logic::types::execution::{Code, ToolCall};
use toolgate::registry::{Registry, RegistryOptions};
use toolgate::session::{RequestTimeouts, Session, SessionRequest};

/// Clients of one server, each with a connection of its own.
pub struct Clients {
    gate: Gate,
    bare: Gate,
    session: Arc<Session>,
    rmcp: RunningService<RoleClient, ()>,
    /// The process of the SDK's client, which ends with it.
    _child: Option<Child>,
}

impl Clients {
    /// Clients of a program, in the way of the initialize era.
    pub async fn of_program(program: &str) -> Self {
        let mut command = Command::new(program);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn().expect("the server starts");
        let transport = child.stdout.take().zip(child.stdin.take()).expect("both are pipes");
        let rmcp = async { ().serve(transport).await.expect("the server shakes hands") };
        let clients = Self::of(&format!("{{command: {program}, protocol: legacy}}"), rmcp).await;
        Clients { _child: Some(child), ..clients }
    }

    /// Clients of an address.
    pub async fn of_site(url: &str, era: &str) -> Self {
        let lifecycle = match era {
            "legacy" => ClientLifecycleMode::Initialize,
            _ => ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] },
        };
        let rmcp = async {
            let transport = StreamableHttpClientTransport::from_uri(url);
            ().serve_with_lifecycle(transport, lifecycle).await.expect("the server shakes hands")
        };
        Self::of(&format!("{{url: \"{url}\", protocol: {era}}}"), rmcp).await
    }

    async fn of(server: &str, rmcp: impl Future<Output = RunningService<RoleClient, ()>>) -> Self {
        let yaml = format!("max_result_bytes: 0\nservers:\n  it: {server}\n");
        let (gate, bare) = (gate(&yaml), gate(&yaml));
        let session = bare.registry().links()[0].session().await.expect("the server shakes hands");
        // After ours, which chooses the cryptography for all of the process.
        Clients { gate, bare, session, rmcp: rmcp.await, _child: None }
    }

    /// Calls a tool so many times, as an agent's program would.
    pub async fn through_gate(&self, calls: u32, tool: &str, arguments: &str) {
        let options = CallOptions::default();
        for _ in 0..calls {
            let call = ToolCall { id: "1".to_owned(), name: format!("it__{tool}"), arguments: arguments.to_owned() };
            let called = self.gate.call(call, &options).await.expect("the component answers");
            assert_eq!(called.result.code, Code::Ok, "{}", called.result.text);
            black_box(called);
        }
    }

    /// Calls a tool so many times, with nobody to decide anything.
    pub async fn through_session(&self, calls: u32, tool: &str, arguments: &str) {
        for _ in 0..calls {
            let params = format!(r#"{{"name":"{tool}","arguments":{arguments}}}"#);
            let timeouts = RequestTimeouts::of(Duration::from_secs(60));
            let request = SessionRequest { method: "tools/call", params: &params, timeouts, progress: None };
            black_box(self.session.request(request).await.expect("the server answers"));
        }
    }

    /// Calls a tool so many times, with the official SDK's client.
    pub async fn through_rmcp(&self, calls: u32, tool: &str, arguments: &str) {
        for _ in 0..calls {
            let Ok(Value::Object(arguments)) = serde_json::from_str(arguments) else {
                panic!("no object: {arguments}")
            };
            let call = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
            black_box(self.rmcp.call_tool(call).await.expect("the server answers"));
        }
    }

    /// Ends all connections.
    pub async fn close(self) {
        self.gate.registry().close().await;
        self.bare.registry().close().await;
        self.rmcp.cancel().await.expect("the client ends");
    }
}

fn gate(yaml: &str) -> Gate {
    let config = config::parse(yaml, Path::new("toolgate.yaml")).expect("the bench's configuration is right");
    assert!(config.notices.is_empty(), "{:?}", config.notices);
    let registry =
        Registry::new(&toolgate_tests::component(), config, RegistryOptions::default()).expect("the component starts");
    Gate::open(&registry, GateView::default()).expect("the gate opens")
}
