//! Tests calls that need approval, for clients of both eras over both listeners.
#![expect(deprecated, reason = "older servers and clients have it")]

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientConfig, ElicitRequestParams, ElicitResult, ErrorData, ListRootsResult,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ClientHandler, RoleClient};
use serde_json::{Value, json};
use tokio::io::BufReader;
use tokio::sync::Notify;
use toolgate::config;
use toolgate::demo::InProcessDemo;
use toolgate::gateway::GatewayOptions;
use toolgate::gateway::http::Tokens;
use toolgate::transport::Connect;

use super::{Lines, client_of, http_client_of, serve_http_over, serve_over};
use crate::fixtures::LONG;
use crate::record::replay;

/// A client whose person gives this answer to what the gateway asks, or none; all that is asked is kept.
#[derive(Clone)]
pub(super) struct Person {
    capabilities: Value,
    says: Option<Value>,
    asked: Arc<Mutex<Vec<String>>>,
    /// Rings when the client hears that its tools changed.
    pub(super) changed: Arc<Notify>,
}

impl Person {
    pub(super) fn who(capabilities: Value, says: Option<Value>) -> Self {
        Person { capabilities, says, asked: Arc::default(), changed: Arc::default() }
    }

    pub(super) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn of<T: serde::de::DeserializeOwned>(json: Value) -> T {
    serde_json::from_value(json).expect("it has the shape of the protocol")
}

impl ClientHandler for Person {
    async fn create_elicitation(
        &self,
        question: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let question = serde_json::to_value(question).unwrap();
        if question["requestedSchema"]["properties"]["approve"].is_null() {
            return Ok(of(json!({"action": "accept", "content": {"name": "Ada"}})));
        }
        self.asked.lock().unwrap().push(question["message"].as_str().unwrap().to_owned());
        match &self.says {
            Some(answer) => Ok(of(answer.clone())),
            None => std::future::pending().await,
        }
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Ok(of(json!({"roots": [{"uri": "file:///home/Ada"}]})))
    }

    fn get_info(&self) -> ClientConfig {
        of(json!({
            "protocolVersion": "2025-11-25",
            "capabilities": self.capabilities,
            "clientInfo": {"name": "t", "version": "1"},
        }))
    }
}

/// The demo server behind a gateway, of whose tools a person must see some.
fn guarded(more: &str, settings: &str) -> (config::model::Config, HashMap<String, Arc<dyn Connect>>) {
    let yaml = format!("{settings}\nservers:\n  one: {{command: none, ask: [echo, sleep]{more}}}\n");
    let config = config::parse(&yaml, Path::new("toolgate.yaml")).expect("the test's configuration is right");
    (config, HashMap::from([("one".to_owned(), Arc::new(InProcessDemo) as Arc<dyn Connect>)]))
}

/// What a call of this tool comes to for this person, who is behind a client of this era at this door.
async fn call(
    person: &Person,
    (era, door): (&str, &str),
    (config, transports): (config::model::Config, HashMap<String, Arc<dyn Connect>>),
    name: &'static str,
    arguments: Value,
) -> CallToolResult {
    let params = CallToolRequestParams::new(name).with_arguments(arguments.as_object().cloned().unwrap());
    let called = async {
        if door == "stdio" {
            let (stream, served) = serve_over(config, transports, GatewayOptions::default());
            let client = client_of(person.clone(), stream, era).await;
            let called = client.call_tool(params).await.unwrap();
            client.cancel().await.unwrap();
            served.await.unwrap();
            return called;
        }
        let (url, _stop) = serve_http_over(config, transports, GatewayOptions::default(), Tokens::default()).await;
        let client = http_client_of(person.clone(), &url, None, era).await;
        client.call_tool(params).await.unwrap()
    };
    tokio::time::timeout(LONG, called).await.expect("the call ends")
}

fn text(called: &CallToolResult) -> &str {
    &called.content[0].as_text().unwrap().text
}

pub(super) const WAYS: [(&str, &str); 4] =
    [("legacy", "stdio"), ("modern", "stdio"), ("legacy", "http"), ("modern", "http")];
const DECLINED: &str = "needs a person's approval, but a person declined it";
const NOBODY: &str = "needs a person's approval, but the client could not ask its user";

#[tokio::test]
async fn the_person_of_the_client_says_yes_or_no() {
    let rows = [
        (json!({"action": "accept", "content": {"approve": true}}), true),
        (json!({"action": "accept"}), true),
        (json!({"action": "accept", "content": {"approve": false}}), false),
        (json!({"action": "decline"}), false),
        (json!({"action": "cancel"}), false),
    ];
    for (way, (says, yes)) in WAYS.into_iter().flat_map(|way| rows.clone().map(|row| (way, row))) {
        let person = Person::who(json!({"elicitation": {"form": {}}}), Some(says.clone()));
        let words = json!({"text": "password: hunter2hunter2"});
        let called = call(&person, way, guarded("", "masking: {groups: [basic]}"), "one__echo", words).await;
        let expected = if yes { "password: [MASKED_PASSWORD]" } else { DECLINED };
        assert!(text(&called).contains(expected), "{way:?} {says}: {called:?}");
        assert_eq!(called.is_error == Some(true), !yes, "{way:?} {says}");
        let asked = person.asked();
        assert_eq!(asked.len(), 1, "{way:?} {says}: {asked:?}");
        // The masks are for what servers answer: here they would hide what is going to run.
        for words in ["\"echo\"", "\"one\"", "{\"text\":\"password: hunter2hunter2\"}", "ask"] {
            assert!(asked[0].contains(words), "{way:?}: {}", asked[0]);
        }
    }
}

#[tokio::test]
async fn a_client_that_shows_no_forms_is_not_asked() {
    for (way, can) in
        WAYS.into_iter().flat_map(|way| [json!({}), json!({"elicitation": {"url": {}}})].map(|can| (way, can)))
    {
        let person = Person::who(can.clone(), Some(json!({"action": "accept"})));
        let called = call(&person, way, guarded("", ""), "one__echo", json!({"text": "x"})).await;
        assert!(text(&called).contains(NOBODY), "{way:?} {can}: {called:?}");
        assert_eq!(person.asked().len(), 0, "{way:?} {can}");
    }
}

#[tokio::test]
async fn what_no_rule_guards_is_called_unasked() {
    for way in WAYS {
        let person = Person::who(json!({"elicitation": {}}), None);
        let called = call(&person, way, guarded("", ""), "one__add", json!({"a": 1, "b": 2})).await;
        assert_eq!((text(&called), person.asked().len()), ("3", 0), "{way:?}");
    }
}

#[tokio::test]
async fn a_person_who_says_nothing_within_the_time_of_the_call_has_not_approved_it() {
    let hasty = || guarded(", timeouts: {call: 100ms, total: 200ms}", "");
    let person = Person::who(json!({"elicitation": {}}), None);
    let called = call(&person, ("legacy", "http"), hasty(), "one__echo", json!({"text": "x"})).await;
    assert!(text(&called).contains(NOBODY) && person.asked().len() == 1, "{called:?}");

    let (config, transports) = hasty();
    let (stream, _served) = serve_over(config, transports, GatewayOptions::default());
    let mut lines = Lines::greet(stream, json!({"elicitation": {}})).await;
    let params = json!({"name": "one__echo", "arguments": {"text": "x"}});
    let (answer, before) = lines.ask("a", "tools/call", params).await;
    assert!(answer["result"]["content"][0]["text"].as_str().unwrap().contains(NOBODY), "{answer}");
    let [question, withdrawn] = before.as_slice() else { panic!("{before:?}") };
    assert_eq!(question["method"], "elicitation/create");
    assert_eq!(withdrawn["method"], "notifications/cancelled");
    assert_eq!(withdrawn["params"]["requestId"], question["id"]);
}

#[tokio::test]
async fn the_time_that_a_person_takes_is_not_the_servers() {
    let (config, transports) = guarded(", timeouts: {call: 1s, total: 20s}", "");
    let (stream, _served) = serve_over(config, transports, GatewayOptions::default());
    let mut lines = Lines::greet(stream, json!({"elicitation": {}})).await;
    let params = json!({"name": "one__sleep", "arguments": {"seconds": 0.3}});
    lines.send(json!({"jsonrpc": "2.0", "id": "a", "method": "tools/call", "params": params})).await;
    let question = lines.next().await;
    assert_eq!(question["method"], "elicitation/create", "{question}");
    // Longer than the server has for an answer, by the clock of all that waits.
    tokio::time::pause();
    tokio::time::advance(Duration::from_millis(1100)).await;
    tokio::time::resume();
    let yes = json!({"action": "accept", "content": {"approve": true}});
    lines.send(json!({"jsonrpc": "2.0", "id": question["id"], "result": yes})).await;
    assert_eq!(lines.next().await["result"]["content"][0]["text"], "slept for 0.3 seconds");
}

#[tokio::test]
async fn a_call_that_is_cancelled_while_a_person_thinks_is_not_made() {
    let (config, transports) = guarded("", "");
    let (stream, _served) = serve_over(config, transports, GatewayOptions::default());
    let mut lines = Lines::greet(stream, json!({"elicitation": {}})).await;
    let params = json!({"name": "one__echo", "arguments": {"text": "x"}});
    lines.send(json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params})).await;
    let question = lines.next().await;
    assert_eq!(question["method"], "elicitation/create", "{question}");
    lines.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}})).await;
    let withdrawn = lines.next().await;
    assert_eq!(
        (&withdrawn["method"], &withdrawn["params"]["requestId"]),
        (&json!("notifications/cancelled"), &question["id"])
    );
    // What is cancelled has no answer.
    let (_, before) = lines.ask("after", "ping", json!({})).await;
    assert!(before.is_empty(), "{before:?}");
}

#[tokio::test]
async fn a_server_that_wants_input_gets_it_after_the_approval() {
    for way in WAYS {
        let program = env!("CARGO_BIN_EXE_fixture");
        let yaml = format!("servers:\n  asks: {{command: {program:?}, args: [mrtr, \"2\"], ask: [input]}}\n");
        let config = config::parse(&yaml, Path::new("toolgate.yaml")).unwrap();
        let can = json!({"elicitation": {"form": {}}, "roots": {}});
        let person = Person::who(can, Some(json!({"action": "accept", "content": {"approve": true}})));
        let called = call(&person, way, (config, HashMap::new()), "asks__input", json!({"n": 1})).await;
        let said: Value = serde_json::from_str(text(&called)).unwrap_or_else(|_| panic!("{way:?}: {called:?}"));
        let heard = json!({"input 2": {"roots": [{"uri": "file:///home/Ada"}]}});
        assert_eq!(said, json!({"rounds": 2, "arguments": {"n": 1}, "inputResponses": heard}), "{way:?}");
        assert_eq!(person.asked().len(), 1, "{way:?}: once for all rounds");
    }
}

#[tokio::test]
async fn an_approval_is_for_one_call_with_its_arguments() {
    let (config, transports) = guarded("", "");
    let (stream, _served) = serve_over(config, transports, GatewayOptions::default());
    let mut lines = Lines(BufReader::new(stream));
    let key = Mutex::new(String::new());
    let mut ask = async |text: &str, state: Option<&Value>, says: Value| {
        let mut params = json!({"name": "one__echo", "arguments": {"text": text}, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
        }});
        if let Some(state) = state {
            params["requestState"] = state.clone();
            params["inputResponses"] = json!({ key.lock().unwrap().as_str(): says });
        }
        lines.ask("a", "tools/call", params).await.0["result"].clone()
    };
    let yes = json!({"action": "accept", "content": {"approve": true}});
    let question = ask("x", None, Value::Null).await;
    assert_eq!(question["resultType"], "input_required", "{question}");
    let (name, asked) = question["inputRequests"].as_object().unwrap().iter().next().unwrap();
    key.lock().unwrap().clone_from(name);
    assert_eq!((&asked["method"], &asked["params"]["mode"]), (&json!("elicitation/create"), &json!("form")), "{asked}");
    let state = &question["requestState"];
    let forged = json!("toolgate/x/approved/1/9999/AAAA/");
    for (text, state) in [("y", state.clone()), ("x", forged), ("x", json!("foreign"))] {
        let again = ask(text, Some(&state), yes.clone()).await;
        assert_eq!(again["resultType"], "input_required", "{text} {state}: {again}");
    }
    let called = ask("x", Some(state), yes.clone()).await;
    assert_eq!((&called["resultType"], &called["content"][0]["text"]), (&json!("complete"), &json!("x")), "{called}");
    let again = ask("x", Some(state), yes.clone()).await;
    assert_eq!(again["resultType"], "input_required", "one yes, one call: {again}");
    let declined = ask("x", Some(&again["requestState"]), json!({"action": "decline"})).await;
    assert!(declined["content"][0]["text"].as_str().unwrap().contains(DECLINED), "{declined}");
    let late = ask("x", Some(&again["requestState"]), yes.clone()).await;
    assert_eq!(late["resultType"], "input_required", "who said no has answered: {late}");
}

#[tokio::test]
async fn each_of_two_gateways_in_a_row_asks_once_and_hears_its_own_answer() {
    // The inner one asks, or both do.
    for (outer, asks) in [("", 1), ("ask: ['*echo'], ", 2)] {
        for way in WAYS {
            let (config, transports) = guarded("", "");
            let (url, _stop) = serve_http_over(config, transports, GatewayOptions::default(), Tokens::default()).await;
            let yaml = format!("servers:\n  in: {{{outer}url: \"{url}/mcp\"}}\n");
            let config = config::parse(&yaml, Path::new("toolgate.yaml")).expect("the test's configuration is right");
            let yes = json!({"action": "accept", "content": {"approve": true}});
            let person = Person::who(json!({"elicitation": {"form": {}}}), Some(yes));
            let called = call(&person, way, (config, HashMap::new()), "in__one__echo", json!({"text": "x"})).await;
            assert_eq!(text(&called), "x", "{way:?}: {called:?}");
            assert_eq!(person.asked().len(), asks, "{way:?}: {:?}", person.asked());
        }
    }
}

#[tokio::test]
async fn calls_that_a_person_saw_replay_as_they_were() {
    for way in [("legacy", "stdio"), ("modern", "stdio")] {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("records");
        let person = Person::who(json!({"elicitation": {}}), Some(json!({"action": "accept"})));
        let recorded = guarded("", &format!("record: {{dir: {dir:?}}}"));
        let called = call(&person, way, recorded, "one__echo", json!({"text": "x"})).await;
        assert_eq!(text(&called), "x");
        let report = replay(&dir);
        assert!(report.is_sound(), "{way:?}: {report:?}");
        assert_eq!((report.records, report.same), (1, 1), "{way:?}: {report:?}");
    }
}
