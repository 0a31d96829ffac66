//! Tests notifications to clients: those that are not read at once arrive later, and every client gets them.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use toolgate::gateway::Gateway;
use toolgate::gateway::client::{ClientFactory, ClientHandler, ClientMessage, ClientSink, Principal, SinkError};
use toolgate::transport::BoxFuture;

use super::changing::modern;
use super::fixtures;
use super::sharing::gateway;
use crate::fixtures::{LONG, until};

/// A way to a client that takes nothing while it is full.
#[derive(Default)]
struct Narrow {
    heard: Mutex<Vec<Value>>,
    full: AtomicBool,
    refused: AtomicUsize,
    room: Notify,
}

impl ClientSink for Narrow {
    fn send(&self, text: String) -> Result<(), SinkError> {
        if self.full.load(Ordering::SeqCst) {
            self.refused.fetch_add(1, Ordering::SeqCst);
            return Err(SinkError::Full(text));
        }
        self.heard.lock().unwrap().push(serde_json::from_str(&text).expect("a message is JSON"));
        Ok(())
    }

    fn wait_for_room(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.room.notified())
    }
}

impl Narrow {
    fn close(&self) {
        self.refused.store(0, Ordering::SeqCst);
        self.full.store(true, Ordering::SeqCst);
    }

    fn open(&self) {
        self.full.store(false, Ordering::SeqCst);
        self.room.notify_waiters();
    }

    fn has_refused(&self) -> bool {
        self.refused.load(Ordering::SeqCst) > 0
    }

    fn count(&self, method: &str) -> usize {
        self.heard.lock().unwrap().iter().filter(|message| message["method"] == method).count()
    }
}

fn ann() -> Principal {
    Principal { name: "ann".to_owned(), admin: false }
}

/// A client of the initialize era that is told things on this way.
struct Old {
    client: Arc<dyn ClientHandler>,
    outlet: Arc<Narrow>,
}

impl Old {
    async fn open(gateway: &Gateway) -> Self {
        let outlet = Arc::new(Narrow::default());
        let client = gateway.open_client(&ann(), "session", Arc::clone(&outlet) as _).expect("it may come in");
        let old = Old { client, outlet };
        let hello =
            json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        old.ask("initialize", hello).await;
        old.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        old
    }

    async fn send(&self, message: Value) -> Option<String> {
        let sink = Arc::clone(&self.outlet) as _;
        let incoming = ClientMessage { message: message.to_string().into(), headers: None, sink, batch: None };
        let answer = tokio::time::timeout(LONG, Arc::clone(&self.client).handle(incoming)).await.expect("an end");
        answer.map(|answer| answer.text)
    }

    async fn ask(&self, method: &str, params: Value) -> String {
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        self.send(message).await.expect("a request has an answer")
    }

    async fn call(&self, tool: &str, arguments: Value) {
        self.ask("tools/call", json!({"name": tool, "arguments": arguments})).await;
    }
}

const TOOLS: &str = "notifications/tools/list_changed";
const UPDATED: &str = "notifications/resources/updated";
const LOG: &str = "notifications/message";

#[tokio::test]
async fn who_does_not_read_for_a_while_hears_afterwards_what_has_changed() {
    let folder = tempfile::tempdir().unwrap();
    let watched = format!("watched {}", folder.path().join("diary").display());
    let gateway = gateway(fixtures(&[("l", "list-changed"), ("w", &watched), ("c", "chatty")], ""));
    let old = Old::open(&gateway).await;
    let outlet = &old.outlet;
    old.ask("tools/list", json!({})).await;
    old.ask("logging/setLevel", json!({"level": "debug"})).await;
    old.ask("resources/subscribe", json!({"uri": "dir://a"})).await;
    for round in 1..=2 {
        let before = outlet.count(LOG);
        outlet.close();
        old.call("c__later", json!({})).await;
        until("a line finds no room", || outlet.has_refused()).await;
        outlet.close();
        old.call("l__grow", json!({})).await;
        old.call("w__touch", json!({"uri": "dir://a"})).await;
        until("a change finds no room", || outlet.has_refused()).await;
        outlet.open();
        until("the new tool", || outlet.count(TOOLS) == round).await;
        until("the new content", || outlet.count(UPDATED) == round).await;
        old.call("c__later", json!({})).await;
        until("the next line", || outlet.count(LOG) > before).await;
        assert_eq!(outlet.count(LOG), before + 1, "a line that found no room is lost");
        assert!(old.ask("tools/list", json!({})).await.contains(&format!("grown_{round}")));
    }
    gateway.registry().close().await;
}

/// A client of 2026-07-28 that listens to changes of tools on this way.
fn listen(gateway: &Gateway, outlet: &Arc<Narrow>) -> JoinHandle<()> {
    let client = gateway.stateless_client(&ann(), None).expect("it may come in");
    let filter = json!({"notifications": {"toolsListChanged": true}});
    let message = ClientMessage { sink: Arc::clone(outlet) as _, ..modern("subscriptions/listen", filter) };
    tokio::spawn(async move { drop(client.handle(message).await) })
}

/// Asks as another client of 2026-07-28 of the same principal.
async fn ask(gateway: &Gateway, method: &str, params: Value) -> String {
    let client = gateway.stateless_client(&ann(), None).expect("it may come in");
    tokio::time::timeout(LONG, client.handle(modern(method, params))).await.expect("an end").expect("an answer").text
}

const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";

#[tokio::test]
async fn a_listener_hears_what_has_changed_though_another_client_was_shown_it() {
    let gateway = gateway(fixtures(&[("l", "list-changed")], ""));
    ask(&gateway, "tools/list", json!({})).await;
    let outlet = Arc::new(Narrow::default());
    outlet.close();
    let listening = listen(&gateway, &outlet);
    until("nothing can be told", || outlet.has_refused()).await;
    outlet.open();
    until("it listens", || outlet.count(ACKNOWLEDGED) == 1).await;
    for round in 1..=3 {
        ask(&gateway, "tools/call", json!({"name": "l__grow", "arguments": {}})).await;
        let grown = format!("grown_{round}");
        while !ask(&gateway, "tools/list", json!({})).await.contains(&grown) {
            tokio::task::yield_now().await;
        }
        until("the listener hears", || outlet.count(TOOLS) == round).await;
    }
    listening.abort();
    gateway.registry().close().await;
}

#[tokio::test]
async fn a_line_that_is_logged_while_two_calls_of_a_principal_run_is_for_both() {
    let folder = tempfile::tempdir().unwrap();
    let (diary, go) = (folder.path().join("diary"), folder.path().join("go"));
    let gateway = gateway(fixtures(&[("w", &format!("works {}", diary.display()))], ""));
    let call = |text: &str| {
        let outlet = Arc::new(Narrow::default());
        let client = gateway.stateless_client(&ann(), None).expect("it may come in");
        let mut message = modern("tools/call", json!({"name": "w__hold", "arguments": {"text": text, "until": go}}));
        message.message = message
            .message
            .text()
            .replacen(
                r#""io.modelcontextprotocol/clientInfo""#,
                r#""io.modelcontextprotocol/logLevel":"debug","io.modelcontextprotocol/clientInfo""#,
                1,
            )
            .into();
        let message = ClientMessage { sink: Arc::clone(&outlet) as _, ..message };
        (outlet, tokio::spawn(client.handle(message)))
    };
    let lines = |outlet: &Narrow| -> Vec<Value> {
        let heard = outlet.heard.lock().unwrap();
        heard
            .iter()
            .filter(|message| message["method"] == LOG)
            .map(|line| line["params"]["data"]["began"].clone())
            .collect()
    };
    let (first, of_first) = call("first");
    until("the first line", || lines(&first) == ["first"]).await;
    let (second, of_second) = call("second");
    until("the second line", || lines(&second) == ["second"]).await;
    until("it may be of either", || lines(&first) == ["first", "second"]).await;
    std::fs::write(&go, "").unwrap();
    for call in [of_first, of_second] {
        tokio::time::timeout(LONG, call).await.expect("it ends").unwrap();
    }
    gateway.registry().close().await;
}
