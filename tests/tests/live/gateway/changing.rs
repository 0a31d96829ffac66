//! Tests a gateway whose configuration and rights change while clients use it.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use toolgate::config;
use toolgate::config::model::Config;
use toolgate::demo::InProcessDemo;
use toolgate::gate::GateView;
use toolgate::gateway::client::{ClientFactory, ClientMessage, ClientSink, Principal, SinkError};
use toolgate::gateway::{CallFilter, Gateway, GatewayOptions, Relay};
use toolgate::logic::types::filtering::SelectedServer;
use toolgate::registry::{self, Registry};
use toolgate::transport::Connect;

use crate::fixtures::{component, until};

/// A configuration with these demo servers.
fn config(servers: &[&str]) -> Config {
    let servers: Vec<_> = servers.iter().map(|id| format!("{id}: {{command: none}}")).collect();
    config::parse(&format!("servers: {{{}}}", servers.join(", ")), Path::new("toolgate.yaml")).expect("it is right")
}

fn gateway(servers: &[&str], options: GatewayOptions) -> Arc<Gateway> {
    let transports = ["one", "two", "three"].map(|id| (id.to_owned(), Arc::new(InProcessDemo) as Arc<dyn Connect>));
    let relay = Arc::new(Relay::default());
    let transports = HashMap::from(transports);
    let of_registry = registry::RegistryOptions { handler: Arc::clone(&relay) as _, transports, ..Default::default() };
    let registry = Registry::new(&component(), config(servers), of_registry).expect("the component starts");
    Arc::new(Gateway::new(registry, relay, options))
}

/// Each principal may use the tool `add` of its servers.
fn views(all: &[(&str, &[&str])]) -> GatewayOptions {
    let only = |servers: &[&str]| {
        let selected = servers.iter().map(|id| SelectedServer { id: (*id).to_owned(), tools: vec!["add".to_owned()] });
        GateView { selection: Some(selected.collect()), ..GateView::default() }
    };
    let views = all.iter().map(|(name, servers)| ((*name).to_owned(), only(servers))).collect();
    GatewayOptions { views, ..GatewayOptions::default() }
}

fn principal(name: &str) -> Principal {
    Principal { name: name.to_owned(), admin: false }
}

/// What is sent beside an answer, kept.
#[derive(Default)]
struct Heard(std::sync::Mutex<Vec<String>>);

impl ClientSink for Heard {
    fn send(&self, text: String) -> Result<(), SinkError> {
        self.0.lock().unwrap().push(text);
        Ok(())
    }
}

pub(super) fn modern(method: &str, params: Value) -> ClientMessage {
    let mut params = params;
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let text = json!({"jsonrpc": "2.0", "id": method, "method": method, "params": params}).to_string();
    ClientMessage { message: text.into(), headers: None, sink: Arc::new(Heard::default()), batch: None }
}

/// The names of the tools that a principal is shown.
async fn tools(gateway: &Arc<Gateway>, name: &str) -> Result<Vec<String>, String> {
    let client = gateway.stateless_client(&principal(name), None).map_err(|error| error.to_string())?;
    let answer = client.handle(modern("tools/list", json!({}))).await.expect("an answer").text;
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let tools = answer["result"]["tools"].as_array().unwrap_or_else(|| panic!("{answer}"));
    Ok(tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect())
}

#[tokio::test]
async fn a_server_that_is_exposed_is_not_for_who_may_not_use_it() {
    let options =
        GatewayOptions { expose: Some("one".to_owned()), ..views(&[("ann", &["one", "two"]), ("bob", &["two"])]) };
    let gateway = gateway(&["one", "two"], options);
    assert_eq!(tools(&gateway, "ann").await.unwrap(), ["add"]);
    assert_eq!(tools(&gateway, "bob").await.unwrap(), Vec::<String>::new());
    assert!(tools(&gateway, "anybody").await.unwrap().len() > 1);
}

#[tokio::test]
async fn what_a_principal_may_use_changes_with_the_configuration_and_who_goes_hears_no_more() {
    let gateway = gateway(&["one", "two"], views(&[("ann", &["one"]), ("bob", &["one", "two"])]));
    let tools = async |name: &str| tools(&gateway, name).await;
    assert_eq!(tools("ann").await.unwrap(), ["one__add"]);
    assert_eq!(tools("bob").await.unwrap(), ["one__add", "two__add"]);
    let filter = json!({"notifications": {"toolsListChanged": true}});
    let listen = |name: &str, outlet: &Arc<Heard>| {
        let client = gateway.stateless_client(&principal(name), None).expect("it may");
        let message = ClientMessage { sink: Arc::clone(outlet) as _, ..modern("subscriptions/listen", filter.clone()) };
        tokio::spawn(client.handle(message))
    };
    let (of_ann, of_bob) = (Arc::new(Heard::default()), Arc::new(Heard::default()));
    let (ann, bob) = (listen("ann", &of_ann), listen("bob", &of_bob));
    let heard = |outlet: &Arc<Heard>, what: &str| outlet.0.lock().unwrap().iter().any(|text| text.contains(what));
    until("both listen", || heard(&of_ann, "acknowledged") && heard(&of_bob, "acknowledged")).await;
    let gone = tokio::spawn(async move { ann.await.unwrap().expect("an answer").text });

    let three = config(&["one", "two", "three"]);
    let changes = gateway.reload(three, &BTreeSet::new(), views(&[("bob", &["two", "three"])])).unwrap();
    assert_eq!((changes.added, changes.unchanged.len()), (vec!["three".to_owned()], 2));
    let ended = tokio::time::timeout(Duration::from_secs(30), gone).await.expect("her subscription ends").unwrap();
    assert!(ended.contains("result"), "{ended}");
    assert!(tools("ann").await.unwrap_err().contains("was revoked"));
    until("he hears of it", || heard(&of_bob, "tools/list_changed")).await;
    assert_eq!(tools("bob").await.unwrap(), ["two__add", "three__add"]);
    assert!(!bob.is_finished());

    // A view that cannot be had changes nothing, so that nobody keeps more than it is to have.
    let wrong = gateway.reload(config(&["one", "two"]), &BTreeSet::new(), views(&[("bob", &["three"])])).unwrap_err();
    assert!(wrong.to_string().contains("three"), "{wrong}");
    assert_eq!(tools("bob").await.unwrap(), ["two__add", "three__add"]);
    gateway.registry().close().await;
}

#[tokio::test]
async fn who_may_use_nothing_but_what_is_switched_off_is_shown_nothing() {
    let yaml = |off: bool| {
        let token = "{principal: ann, token: a-long-token-for-ann, servers: [one]}";
        let text = format!(
            "gateway: {{tokens: [{token}]}}\nservers: {{one: {{command: none, disabled: {off}}}, two: {{command: none}}}}"
        );
        config::parse(&text, Path::new("toolgate.yaml")).expect("it is right")
    };
    let options = |off| GatewayOptions {
        views: toolgate::gate::views(&yaml(off)).into_iter().collect(),
        ..GatewayOptions::default()
    };
    let none = Vec::<String>::new();
    let gateway = gateway(&["one", "two"], options(true));
    gateway.reload(yaml(true), &BTreeSet::new(), options(true)).unwrap();
    assert_eq!(tools(&gateway, "ann").await.unwrap(), none);
    let called = gateway
        .stateless_client(&principal("ann"), None)
        .unwrap()
        .handle(modern("tools/call", json!({"name": "two__add"})));
    assert!(called.await.expect("an answer").text.contains("error"));
    gateway.reload(yaml(false), &BTreeSet::new(), options(false)).unwrap();
    assert_eq!(tools(&gateway, "ann").await.unwrap().len(), 6);
    let changes = gateway.reload(yaml(true), &BTreeSet::new(), options(true)).unwrap();
    assert_eq!(changes.updated, ["one"]);
    assert_eq!(tools(&gateway, "ann").await.unwrap(), none);
    assert_eq!(gateway.registry().status("two").unwrap().connections, 0, "nobody wants it");
    // What cannot be used at all names whom that is for.
    let views = HashMap::from([("bob".to_owned(), views(&[("bob", &["gone"])]).views.remove("bob").unwrap())]);
    let options = GatewayOptions { views, ..GatewayOptions::default() };
    let wrong = gateway.reload(yaml(true), &BTreeSet::new(), options).unwrap_err();
    assert!(wrong.to_string().contains("bob") && wrong.to_string().contains("gone"), "{wrong}");
    gateway.registry().close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_go_on_while_configurations_come_and_go() {
    let fewer = || (config(&["one"]), views(&[("bob", &["one"])]));
    let more = || (config(&["two", "one"]), views(&[("bob", &["two", "one"]), ("cat", &["one"])]));
    let gateway = gateway(&["one"], fewer().1);
    let (over, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let clients = (0..4).map(|_| {
        let (gateway, over, calls) = (Arc::clone(&gateway), Arc::clone(&over), Arc::clone(&calls));
        tokio::spawn(async move {
            while !over.load(Ordering::SeqCst) {
                let client = gateway.stateless_client(&principal("bob"), None).expect("he may");
                let params = json!({"name": "one__add", "arguments": {"a": 1, "b": 2}});
                let answer = client.handle(modern("tools/call", params)).await.expect("an answer").text;
                assert!(answer.contains(r#""sum":3"#), "{answer}");
                calls.fetch_add(1, Ordering::SeqCst);
            }
        })
    });
    let clients: Vec<_> = clients.collect();
    for round in 0..60 {
        let (config, options) = if round % 2 == 0 { more() } else { fewer() };
        let changes = gateway.reload(config, &BTreeSet::new(), options).unwrap();
        assert_eq!(changes.unchanged, ["one"]);
        // Some calls see each of them.
        let before = calls.load(Ordering::SeqCst);
        while calls.load(Ordering::SeqCst) < before + 8 && !clients.iter().any(|client| client.is_finished()) {
            tokio::task::yield_now().await;
        }
    }
    over.store(true, Ordering::SeqCst);
    for client in clients {
        tokio::time::timeout(Duration::from_secs(30), client).await.expect("every call ends").unwrap();
    }
    let status = gateway.registry().status("one").unwrap();
    assert_eq!((status.calls.ok, status.calls.failures), (calls.load(Ordering::SeqCst) as u64, 0));
    gateway.registry().close().await;
}

#[tokio::test]
async fn the_pages_show_a_principal_its_own_servers_and_calls() {
    // The view of the admin cannot be opened, and an admin sees all the same how things are.
    let gateway = gateway(&["one", "two"], views(&[("ann", &["one"]), ("bob", &["one", "two"]), ("root", &["gone"])]));
    for (name, tool) in [("ann", "one__add"), ("bob", "two__add")] {
        let client = gateway.stateless_client(&principal(name), None).unwrap();
        let call = modern("tools/call", json!({"name": tool, "arguments": {"a": 1, "b": 2}}));
        assert!(client.handle(call).await.expect("an answer").text.contains('3'));
    }
    let seen = |principal: &Principal| {
        let read = |body: &str, list: &str, member: &str| {
            let body: Value = serde_json::from_str(body).unwrap();
            let items = body[list].as_array().unwrap().iter();
            items.map(|item| item[member].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let servers = read(&gateway.servers(principal).body, "servers", "server");
        (servers, read(&gateway.calls(principal, &CallFilter::default(), None, 10).body, "calls", "name"))
    };
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    assert_eq!(seen(&principal("ann")), (texts(&["one"]), texts(&["one__add"])));
    assert_eq!(seen(&principal("bob")), (texts(&["one", "two"]), texts(&["two__add"])));
    let admin = Principal { name: "root".to_owned(), admin: true };
    assert_eq!(seen(&admin), (texts(&["one", "two"]), texts(&["two__add", "one__add"])));
    for (who, shown) in [(principal("ann"), [true, false]), (principal("bob"), [true, true]), (admin, [true, true])] {
        let figures = gateway.metrics(&who);
        for (server, shown) in ["one", "two"].into_iter().zip(shown) {
            let of_calls = format!("toolgate_calls_total{{server=\"{server}\",tool=\"add\"");
            assert_eq!(figures.contains(&of_calls), shown, "{}: {figures}", who.name);
            assert_eq!(figures.contains(&format!("server=\"{server}\"")), shown, "{}: {figures}", who.name);
        }
    }
}
