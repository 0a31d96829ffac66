//! Tests sessions and gates over the network: Streamable HTTP, the older HTTP with SSE, and WebSocket.

pub mod answers;
mod cancelling;
mod keeping;
mod losing;
mod probing;
pub mod server;
mod streams;
mod watching;
mod websocket;

use std::path::Path;
use std::time::Duration;

use toolgate::config;
use toolgate::config::secrets::Secrets;
use toolgate::config::variables::Variables;
use toolgate::gate::{CallOptions, CallOutcome, Gate, GateView};
use toolgate::logic::types::execution::ToolCall;
use toolgate::registry::{self, Registry, RegistryLifetime};
use toolgate::session::{Session, SessionOptions};
use toolgate::transport::endpoint::{Endpoint, RemoteSite, Tls};

use crate::fixtures::component;

/// A place on the network with nothing to prove.
fn site(url: &str) -> RemoteSite {
    RemoteSite {
        url: url.to_owned(),
        socket: None,
        headers: Vec::new(),
        tls: Tls::default(),
        max_message_bytes: 1 << 20,
        connect_timeout: Duration::from_secs(10),
        secrets: Secrets::default(),
        authorize: None,
    }
}

/// A session with the server at this address, which must come about.
async fn open(url: &str) -> Session {
    open_with(url, &SessionOptions::default()).await
}

async fn open_with(url: &str, options: &SessionOptions) -> Session {
    match Session::open(&Endpoint::Http(site(url)), options).await {
        Ok(session) => session,
        Err(failed) => panic!("{failed:?}"),
    }
}

/// A gate with the server `a` at this address; `more` are further lines of its configuration.
fn gate(url: &str, more: &str) -> Gate {
    gate_over(config_of(url, more), Variables::from_process())
}

fn config_of(url: &str, more: &str) -> config::model::Config {
    let yaml = format!("servers:\n  a:\n    url: {url}\n{more}");
    let config = config::parse(&yaml, Path::new("toolgate.yaml")).expect("the test's configuration is right");
    assert!(config.notices.is_empty(), "{:?}", config.notices);
    config
}

fn gate_over(config: config::model::Config, variables: Variables) -> Gate {
    let options = registry::RegistryOptions {
        variables,
        lifetime: RegistryLifetime::OneShot,
        ..registry::RegistryOptions::default()
    };
    let registry = Registry::new(&component(), config, options).expect("the component starts");
    Gate::open(&registry, GateView::default()).expect("the gate opens")
}

/// Calls a tool of `a` with a text.
async fn call(gate: &Gate, tool: &str, text: &str) -> CallOutcome {
    let arguments = format!(r#"{{"text":"{text}"}}"#);
    let call = ToolCall { id: "1".to_owned(), name: format!("a.{tool}"), arguments };
    gate.call(call, &CallOptions::default()).await.expect("the component answers")
}
