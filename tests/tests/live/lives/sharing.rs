//! Tests which gates share a connection.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future::join_all;
use serde_json::json;
use toolgate::gate::{CloseMode, Gate, GateView};
use toolgate::logic::types::execution::Code;
use toolgate::logic::types::lifecycle::State;
use toolgate::registry::{Registry, RegistryOptions};

use super::{World, assert_code, assert_ok, begin, call, ended, lives, until_dead};
use crate::fixtures::component;
use crate::web::server::{Answer, Server};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_gates_that_want_a_cold_server_at_once_start_one_process() {
    let world = World::of_one("");
    let gates: Vec<_> = (0..50).map(|_| world.gate()).collect();
    let calls: Vec<_> = gates.iter().map(|gate| begin(gate, "a.look", r#"{"text":"x"}"#)).collect();
    for call in calls {
        assert_ok(&ended(call).await, "x");
    }
    assert_eq!(world.processes("a"), [world.pid("a")]);
    let status = world.status("a");
    assert_eq!((status.calls.calls, status.calls.ok, status.restarts, status.users), (50, 50, 0, 0));
    assert_eq!((status.state, status.era, status.tools), (State::Ready, Some("legacy"), Some(5)));
    assert_eq!((status.version.as_deref(), status.name.as_deref()), (Some("2025-11-25"), Some("fixture")));
    assert!(status.started_in.is_some_and(|took| !took.is_zero()));
    assert_eq!((status.last_error, status.problem), (None, None));
}

#[tokio::test]
async fn a_server_that_is_not_shared_has_a_process_for_each_gate_which_ends_with_it() {
    let world = World::of_one(", shared: false");
    let gates: Vec<_> = (0..4).map(|_| world.gate()).collect();
    for word in ["one", "two"] {
        join_all(gates.iter().map(|gate| async { assert_ok(&call(gate, "a.note", word).await, word) })).await;
    }
    let pid = |gate: &Gate| gate.link("a").unwrap().status().pid.unwrap();
    let pids: Vec<u32> = gates.iter().map(|gate| pid(gate)).collect();
    assert_eq!(BTreeSet::from_iter(pids.clone()), BTreeSet::from_iter(world.processes("a")));
    assert_eq!(BTreeSet::from_iter(pids.clone()).len(), 4);
    assert_eq!(world.status("a").pid, None, "the one that nobody uses was not started");
    let mut gates = gates.into_iter();
    gates.next().unwrap().close(CloseMode::Cancel).await;
    assert!(!lives(pids[0]), "it outlives its gate");
    drop(gates.next());
    until_dead(&pids[1..2]).await;
    for gate in gates {
        assert_ok(&call(&gate, "a.note", "three").await, "three");
    }
    assert_eq!(world.processes("a").len(), 4);
}

#[tokio::test]
async fn the_end_of_one_gate_is_nothing_to_those_who_share_its_server() {
    let world = World::of_one("");
    let (first, second) = (world.gate(), world.gate());
    assert_ok(&call(&first, "a.note", "one").await, "one");
    let running = begin(&second, "a.hold", &world.held("two"));
    world.wrote("a", "began two", 1).await;
    first.close(CloseMode::Cancel).await;
    drop(first);
    world.release("two");
    assert_ok(&ended(running).await, "two");
    assert_eq!(world.processes("a").len(), 1);
}

#[tokio::test]
async fn a_switch_reaches_the_connections_of_all_gates_and_statuses_count_them() {
    let world = World::of_one(", shared: false");
    let gates = [world.gate(), world.gate()];
    for gate in &gates {
        assert_ok(&call(gate, "a.note", "one").await, "one");
    }
    let status = || world.registry.status("a").unwrap();
    let before = status();
    assert_eq!((before.state, before.ready, before.connections, before.calls.ok), (State::Ready, true, 2, 2));
    assert!(before.pid.is_some_and(|pid| world.processes("a").contains(&pid)), "{before:?}");
    assert!(world.registry.disable("a"));
    until_dead(&world.processes("a")).await;
    let off = status();
    assert_eq!((off.state, off.ready, off.connections), (State::Disabled, false, 0));
    // Who comes meanwhile finds it switched off too.
    for gate in gates.iter().chain([&world.gate()]) {
        assert_code(&call(gate, "a.note", "two").await, Code::ServerUnavailable);
    }
    assert!(world.registry.enable("a"));
    let late = world.gate();
    for gate in gates.iter().chain([&late]) {
        assert_ok(&call(gate, "a.note", "three").await, "three");
    }
    assert_eq!((status().connections, status().calls.ok, status().calls.failures), (3, 5, 3));
    let pids = world.processes("a");
    assert!(world.registry.reconnect("a"));
    until_dead(&pids).await;
    assert_eq!(world.registry.statuses().len(), 1);
    assert!(!world.registry.disable("b") && !world.registry.enable("b") && !world.registry.reconnect("b"));
}

/// A legacy server with sessions of its own.
async fn site() -> Server {
    Server::start(|seen| match (seen.verb.as_str(), seen.method()) {
        ("POST", "initialize") => {
            let result = json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}});
            let session = format!("Mcp-Session-Id: for-{}", seen.header("x-agent"));
            Answer::json(json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": result})).with(&session)
        }
        ("POST", "tools/list") => {
            let tools = json!({"tools": [{"name": "who", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}}]});
            Answer::json(json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": tools}))
        }
        ("POST", "tools/call") => {
            let said = format!("{} in {}", seen.header("x-agent"), seen.header("mcp-session-id"));
            let result = json!({"content": [{"type": "text", "text": said}]});
            Answer::json(json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": result}))
        }
        ("POST", _) => Answer::status("202 Accepted"),
        ("DELETE", _) => Answer::status("200 OK"),
        _ => Answer::status("405 Method Not Allowed"),
    })
    .await
}

#[tokio::test]
async fn a_session_id_in_a_header_gives_each_session_one_connection() {
    let site = site().await;
    let folder = tempfile::tempdir().unwrap();
    let yaml = format!(
        "servers:\n  a: {{url: \"{}\", protocol: legacy, headers: {{X-Agent: \"{{{{.SESSION_ID}}}}\"}}}}\n",
        site.url()
    );
    let config = super::config_in(folder.path(), &yaml);
    let registry = Registry::new(&component(), config, RegistryOptions::default()).unwrap();
    let gate = |session: &str| {
        let view = GateView { session: Some(session.to_owned()), ..GateView::default() };
        Arc::new(Gate::open(&registry, view).unwrap())
    };
    let gates = [gate("one"), gate("two"), gate("one")];
    for _ in 0..2 {
        for (gate, said) in gates.iter().zip(["one in for-one", "two in for-two", "one in for-one"]) {
            assert_ok(&call(gate, "a.who", "x").await, said);
        }
    }
    assert_eq!(site.count("initialize"), 2);
    let deleted = |session: &str| {
        site.seen().iter().filter(|seen| seen.verb == "DELETE" && seen.header("mcp-session-id") == session).count()
    };
    let [first, second, third] = gates;
    first.close(CloseMode::Cancel).await;
    drop(first);
    assert_eq!(deleted("for-one"), 0, "another gate uses it");
    assert_ok(&call(&third, "a.who", "x").await, "one in for-one");
    assert_eq!(site.count("initialize"), 2);
    third.close(CloseMode::Cancel).await;
    assert_eq!((deleted("for-one"), deleted("for-two")), (1, 0));
    assert_ok(&call(&second, "a.who", "x").await, "two in for-two");
    registry.close().await;
    assert_eq!(deleted("for-two"), 1);
}
