//! Tests clients that share a server: its logs and questions reach only the client that it works for.

use std::path::Path;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::task::JoinHandle;
use toolgate::config;
use toolgate::gateway::client::{ClientFactory, ClientHandler, ClientMessage, ClientSink, Principal, SinkError};
use toolgate::gateway::{Gateway, GatewayOptions, Relay};
use toolgate::registry::{self, Registry};

use super::fixtures;
use crate::fixtures::{LONG, component, until};

/// What a client is sent, answers aside.
#[derive(Default)]
pub(super) struct Heard(pub(super) Mutex<Vec<Value>>);

impl ClientSink for Heard {
    fn send(&self, text: String) -> Result<(), SinkError> {
        self.0.lock().unwrap().push(serde_json::from_str(&text).expect("a message is JSON"));
        Ok(())
    }
}

/// A client of the initialize era.
pub(super) struct Guest {
    client: Arc<dyn ClientHandler>,
    heard: Arc<Heard>,
}

pub(super) fn gateway(config: config::model::Config) -> Arc<Gateway> {
    gateway_with(config, GatewayOptions::default())
}

pub(super) fn gateway_with(config: config::model::Config, options: GatewayOptions) -> Arc<Gateway> {
    let relay = Arc::new(Relay::default());
    let of_registry = registry::RegistryOptions { handler: Arc::clone(&relay) as _, ..Default::default() };
    let registry = Registry::new(&component(), config, of_registry).expect("the component starts");
    Arc::new(Gateway::new(registry, relay, options))
}

impl Guest {
    pub(super) async fn open(gateway: &Gateway, name: &str, capabilities: Value) -> Self {
        Self::open_with(gateway, name, capabilities, json!({})).await
    }

    /// Opens a session with this `_meta` in its first request.
    pub(super) async fn open_with(gateway: &Gateway, name: &str, capabilities: Value, meta: Value) -> Self {
        let heard = Arc::new(Heard::default());
        let principal = Principal { name: name.to_owned(), admin: false };
        let client = gateway.open_client(&principal, name, Arc::clone(&heard) as _).expect("it may come in");
        let guest = Guest { client, heard };
        let client = json!({"name": "t", "version": "1"});
        let hello =
            json!({"protocolVersion": "2025-06-18", "capabilities": capabilities, "clientInfo": client, "_meta": meta});
        guest.ask("initialize", hello).await;
        guest.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        guest
    }

    /// Goes on with the session of this guest at another gateway.
    pub(super) fn resume(&self, gateway: &Gateway, name: &str) -> Self {
        let heard = Arc::new(Heard::default());
        let principal = Principal { name: name.to_owned(), admin: false };
        let terms = self.client.terms().expect("it was initialized");
        let client = gateway.resume_client(&principal, name, &terms, Arc::clone(&heard) as _);
        Guest { client: client.expect("it may go on"), heard }
    }

    pub(super) async fn send(&self, message: Value) -> Option<Value> {
        let sink = Arc::clone(&self.heard) as _;
        let incoming = ClientMessage { message: message.to_string().into(), headers: None, sink, batch: None };
        let answer = Arc::clone(&self.client).handle(incoming).await?;
        Some(serde_json::from_str(&answer.text).expect("an answer is JSON"))
    }

    pub(super) async fn ask(&self, method: &str, params: Value) -> Value {
        let message = json!({"jsonrpc": "2.0", "id": method, "method": method, "params": params});
        self.send(message).await.expect("a request has an answer")
    }

    /// Calls a tool, and does not wait for the answer; none is null.
    pub(super) fn call(&self, id: &str, tool: &str, arguments: Value) -> JoinHandle<Value> {
        let params = json!({"name": tool, "arguments": arguments});
        let text = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string();
        let incoming =
            ClientMessage { message: text.into(), headers: None, sink: Arc::clone(&self.heard) as _, batch: None };
        let answer = Arc::clone(&self.client).handle(incoming);
        tokio::spawn(async move {
            answer.await.map_or(Value::Null, |answer| serde_json::from_str(&answer.text).expect("it is JSON"))
        })
    }

    /// What it heard of this method.
    pub(super) fn of(&self, method: &str) -> Vec<Value> {
        let heard = self.heard.0.lock().unwrap();
        heard.iter().filter(|message| message["method"] == method).cloned().collect()
    }

    /// Waits until it hears of this method.
    pub(super) async fn hears(&self, method: &str) -> Value {
        until(method, || !self.of(method).is_empty()).await;
        self.of(method).remove(0)
    }

    /// The data of the lines of logs that it heard.
    fn logs(&self) -> Vec<Value> {
        self.of("notifications/message").into_iter().map(|mut line| line["params"]["data"].take()).collect()
    }
}

pub(super) async fn ended(call: JoinHandle<Value>) -> Value {
    tokio::time::timeout(LONG, call).await.expect("the call ends").expect("nothing panics")
}

#[tokio::test]
async fn what_is_logged_during_a_call_is_for_its_caller_alone() {
    let gateway = gateway(fixtures(&[("c", "chatty")], ""));
    let (ann, bob) = (Guest::open(&gateway, "ann", json!({})).await, Guest::open(&gateway, "bob", json!({})).await);
    for guest in [&ann, &bob] {
        guest.ask("logging/setLevel", json!({"level": "debug"})).await;
    }
    ended(ann.call("1", "c__say", json!({}))).await;
    assert_eq!(ann.logs().len(), 3, "{:?}", ann.logs());
    // What comes after the lines has reached the other one, and the lines have not.
    ended(ann.call("2", "c__change", json!({}))).await;
    bob.hears("notifications/resources/list_changed").await;
    assert_eq!(bob.logs(), [Value::Null; 0]);
    gateway.registry().close().await;
}

#[tokio::test]
async fn what_is_logged_while_several_principals_wait_is_for_none_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let (diary, go) = (folder.path().join("diary"), folder.path().join("go"));
    let gateway = gateway(fixtures(&[("w", &format!("works {}", diary.display()))], ""));
    let (ann, bob) = (Guest::open(&gateway, "ann", json!({})).await, Guest::open(&gateway, "bob", json!({})).await);
    for guest in [&ann, &bob] {
        guest.ask("logging/setLevel", json!({"level": "debug"})).await;
    }
    let began = |text: &str| {
        let line = format!("began {text}");
        let diary = diary.clone();
        move || std::fs::read_to_string(&diary).unwrap_or_default().contains(&line)
    };
    let hold = |text: &str| json!({"text": text, "until": go});
    let of_ann = ann.call("1", "w__hold", hold("a"));
    until("the line of the first call", || !ann.logs().is_empty()).await;
    let of_bob = bob.call("1", "w__hold", hold("b"));
    until("the second call", began("b")).await;
    std::fs::write(&go, "").unwrap();
    ended(of_ann).await;
    ended(of_bob).await;
    assert_eq!((ann.logs(), bob.logs()), (vec![json!({"began": "a"})], vec![]));
    gateway.registry().close().await;
}

#[tokio::test]
async fn what_is_logged_after_a_call_was_given_up_is_for_its_principal_alone() {
    let folder = tempfile::tempdir().unwrap();
    let diary = folder.path().join("diary");
    let gateway = gateway(fixtures(&[("w", &format!("works {}", diary.display()))], ""));
    let (ann, bob) = (Guest::open(&gateway, "ann", json!({})).await, Guest::open(&gateway, "bob", json!({})).await);
    let also_ann = Guest::open(&gateway, "ann", json!({})).await;
    for guest in [&ann, &bob, &also_ann] {
        guest.ask("logging/setLevel", json!({"level": "debug"})).await;
    }
    let call = ann.call("mine", "w__hold", json!({"text": "a"}));
    until("the line of the call", || ann.logs() == [json!({"began": "a"})]).await;
    ann.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "mine"}})).await;
    ended(call).await;
    let line = json!({"cancelled": "a"});
    until("the line after it", || ann.logs().last() == Some(&line) && also_ann.logs() == [line.clone()]).await;
    assert_eq!((ann.logs().len(), bob.logs().len()), (2, 0));
    gateway.registry().close().await;
}

/// A server that asks during a call, with a file of all that it was sent.
fn asking(folder: &Path, more: &str) -> (Arc<Gateway>, impl Fn(&str) -> usize + use<>) {
    let file = folder.join("heard");
    let script = format!("tee -a {} | {} asks", file.display(), env!("CARGO_BIN_EXE_fixture"));
    let yaml = format!("servers:\n  old: {{command: sh, args: [-c, {script:?}]{more}}}\n");
    let config = config::parse(&yaml, Path::new("toolgate.yaml")).expect("the test's configuration is right");
    (gateway(config), move |words| std::fs::read_to_string(&file).unwrap_or_default().matches(words).count())
}

fn all() -> Value {
    json!({"roots": {}, "sampling": {}, "elicitation": {}})
}

#[tokio::test]
async fn a_server_hears_that_nobody_knows_whom_it_asks() {
    let folder = tempfile::tempdir().unwrap();
    let (gateway, heard) = asking(folder.path(), "");
    let (ann, bob) = (Guest::open(&gateway, "ann", all()).await, Guest::open(&gateway, "bob", all()).await);
    let of_ann = ann.call("1", "old__ask", json!({}));
    let question = ann.hears("roots/list").await;
    let of_bob = bob.call("1", "old__ask", json!({}));
    until("the second call", || heard("tools/call") == 2).await;
    ann.send(json!({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": []}})).await;
    let answer = ended(of_ann).await;
    let said: Value = serde_json::from_str(answer["result"]["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(said["roots/list"]["result"], json!({"roots": []}));
    for method in ["sampling/createMessage", "elicitation/create"] {
        let error = said[method]["error"]["message"].as_str().unwrap_or_else(|| panic!("{said}"));
        assert!(error.contains("shared: false"), "{error}");
        assert!(ann.of(method).is_empty() && bob.of(method).is_empty());
    }
    of_bob.abort();
    gateway.registry().close().await;
}

#[tokio::test]
async fn clients_with_servers_of_their_own_are_each_asked() {
    let folder = tempfile::tempdir().unwrap();
    let (gateway, _) = asking(folder.path(), ", shared: false");
    let (ann, bob) = (Guest::open(&gateway, "ann", all()).await, Guest::open(&gateway, "bob", all()).await);
    let calls = [ann.call("1", "old__ask", json!({})), bob.call("1", "old__ask", json!({}))];
    for method in ["roots/list", "sampling/createMessage", "elicitation/create"] {
        for guest in [&ann, &bob] {
            let question = guest.hears(method).await;
            guest.send(json!({"jsonrpc": "2.0", "id": question["id"], "result": {}})).await;
        }
    }
    for call in calls {
        assert_eq!(ended(call).await["result"]["isError"], Value::Null);
    }
    gateway.registry().close().await;
}

#[tokio::test]
async fn a_question_is_void_once_its_caller_has_gone() {
    let folder = tempfile::tempdir().unwrap();
    let (gateway, heard) = asking(folder.path(), "");
    let void = r#""id":"question elicitation/create","result":{"action":"cancel"}"#;
    let ann = Guest::open(&gateway, "ann", json!({"elicitation": {}})).await;
    let call = ann.call("mine", "old__ask", json!({}));
    let question = ann.hears("elicitation/create").await;
    ann.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "mine"}})).await;
    until("that the server is told", || heard(void) == 1).await;
    assert_eq!(ann.hears("notifications/cancelled").await["params"]["requestId"], question["id"]);
    assert_eq!(ended(call).await, Value::Null, "who cancels wants no answer");
    // A client that leaves takes its questions with it.
    let bob = Guest::open(&gateway, "bob", json!({"elicitation": {}})).await;
    let call = bob.call("1", "old__ask", json!({}));
    bob.hears("elicitation/create").await;
    Arc::clone(&bob.client).close().await;
    until("that the server is told again", || heard(void) == 2).await;
    ended(call).await;
    gateway.registry().close().await;
}
