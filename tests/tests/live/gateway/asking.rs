//! Tests questions that servers ask during a call, for clients of both eras over both listeners.
#![expect(deprecated, reason = "older servers and clients have it")]

use std::collections::HashMap;
use std::sync::Mutex;

use rmcp::model::{
    CallToolRequestParams, ClientConfig, CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams,
    ElicitResult, ErrorData, GetPromptRequestParams, ListRootsResult, ReadResourceRequestParams,
};
use rmcp::service::{RequestContext, RunningService};
use rmcp::{ClientHandler, RoleClient, ServiceError};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use toolgate::gateway::GatewayOptions;
use toolgate::gateway::http::Tokens;

use super::super::web::answers::legacy;
use super::super::web::server::{Answer, Feed, Server};
use super::{Lines, client_of, fixtures, http_client_of, serve_http_over, serve_over};
use crate::fixtures::until;

/// A client with a person of this name, roots and a model.
#[derive(Clone)]
struct Person(&'static str);

fn of<T: serde::de::DeserializeOwned>(json: Value) -> T {
    serde_json::from_value(json).expect("it has the shape of the protocol")
}

impl ClientHandler for Person {
    async fn create_elicitation(
        &self,
        _: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        Ok(of(json!({"action": "accept", "content": {"name": self.0}})))
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Ok(of(json!({"roots": [{"uri": format!("file:///home/{}", self.0)}]})))
    }

    async fn create_message(
        &self,
        _: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        Ok(of(json!({"role": "assistant", "content": {"type": "text", "text": "rain"}, "model": "m"})))
    }

    fn get_info(&self) -> ClientConfig {
        of(json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {"elicitation": {"form": {}}, "roots": {}, "sampling": {}},
            "clientInfo": {"name": "t", "version": "1"},
        }))
    }
}

/// A client of this era behind this door of a gateway, and what keeps the gateway.
async fn client(
    servers: &[(&str, &str)],
    era: &str,
    door: &str,
) -> (RunningService<RoleClient, Person>, Option<tokio::sync::oneshot::Sender<()>>) {
    let config = fixtures(servers, "");
    if door == "stdio" {
        let (stream, _served) = serve_over(config, HashMap::new(), GatewayOptions::default());
        return (client_of(Person("Ada"), stream, era).await, None);
    }
    let (url, stop) = serve_http_over(config, HashMap::new(), GatewayOptions::default(), Tokens::default()).await;
    (http_client_of(Person("Ada"), &url, None, era).await, Some(stop))
}

const WAYS: [(&str, &str); 4] = [("legacy", "stdio"), ("modern", "stdio"), ("legacy", "http"), ("modern", "http")];

#[tokio::test]
async fn input_that_a_modern_server_wants_comes_from_clients_of_both_eras_through_both_doors() {
    for (era, door) in WAYS {
        let (client, _stop) = client(&[("asks", "mrtr 2")], era, door).await;
        let heard = json!({"input 2": {"roots": [{"uri": "file:///home/Ada"}]}});
        let check = |text: &str, arguments: Value| {
            let said: Value = serde_json::from_str(text).unwrap_or_else(|_| panic!("{era} {door}: {text}"));
            assert_eq!(said, json!({"rounds": 2, "arguments": arguments, "inputResponses": heard}), "{era} {door}");
        };
        let arguments = json!({"n": 1}).as_object().cloned().unwrap();
        let called = client.call_tool(CallToolRequestParams::new("asks__input").with_arguments(arguments)).await;
        check(&called.unwrap().content[0].as_text().unwrap().text, json!({"n": 1}));

        let read = client.read_resource(ReadResourceRequestParams::new("fixture://note")).await.unwrap();
        let read = serde_json::to_value(&read.contents[0]).unwrap();
        check(read["text"].as_str().unwrap(), Value::Null);

        let arguments = json!({"what": "this"}).as_object().cloned().unwrap();
        let got = client.get_prompt(GetPromptRequestParams::new("asks__ask").with_arguments(arguments)).await.unwrap();
        let got = serde_json::to_value(&got.messages[0]).unwrap();
        check(got["content"]["text"].as_str().unwrap(), json!({"what": "this"}));
    }
}

/// `_meta` of a client of 2026-07-28 with these capabilities.
fn modern(capabilities: Value) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    })
}

#[tokio::test]
async fn what_the_client_answers_reaches_the_server_byte_for_byte() {
    let folder = tempfile::tempdir().unwrap();
    let heard = folder.path().join("heard");
    let script = format!("tee {} | {} mrtr 1", heard.display(), env!("CARGO_BIN_EXE_fixture"));
    for masks in ["", "masking: {groups: [basic]}\n"] {
        let yaml = format!("{masks}servers:\n  asks: {{command: sh, args: [-c, {script:?}]}}\n");
        let config = toolgate::config::parse(&yaml, std::path::Path::new("toolgate.yaml")).unwrap();
        let (stream, _served) = serve_over(config, HashMap::new(), GatewayOptions::default());
        let mut stream = BufReader::new(stream);
        let meta = modern(json!({"elicitation": {}}));
        let mut ask = async |more: &str| {
            let line = format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"asks__input","arguments":{{}},"_meta":{meta}{more}}}}}"#
            );
            stream.get_mut().write_all(format!("{line}\n").as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_line(&mut answer).await.unwrap();
            answer
        };
        let question = ask("").await;
        let read: Value = serde_json::from_str(&question).unwrap();
        assert_eq!(read["result"]["resultType"], "input_required", "{question}");
        assert_eq!(read["result"]["inputRequests"]["input 1"]["method"], "elicitation/create");
        // As the fixture wrote it, and not only a text that means the same; what is masked is written anew.
        let state = r#""1 \u00e9 é \ud83d\ude00 😀 \/ / \\ \" \u0000 \u001f \u007f \u2028 \t {\"a\": 1.0} +%2B==""#;
        assert!(!masks.is_empty() || question.contains(state), "{question}");
        assert_eq!(read["result"]["requestState"], serde_json::from_str::<Value>(state).unwrap());
        let responses = r#"{ "input 1":{"action":"accept","content":{"name":"\u00e9","n":1.10}} }"#;
        let given = format!(r#","inputResponses":{responses},"requestState":{state}"#);
        let answer: Value = serde_json::from_str(&ask(&given).await).unwrap();
        assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
        assert_eq!(answer["result"]["isError"], Value::Null, "{answer}");
        // The file may hear of it a little later than the server.
        let all = |line: &str| line.contains(responses) && line.contains(state);
        until("it arrives as it was written", || std::fs::read_to_string(&heard).unwrap().lines().any(all)).await;
    }
}

#[tokio::test]
async fn a_server_is_told_what_the_client_can_be_asked_and_asks_for_nothing_else() {
    let config = fixtures(&[("asks", "mrtr 1"), ("meta", "meta-modern")], "");
    let (stream, _served) = serve_over(config, HashMap::new(), GatewayOptions::default());
    let mut lines = Lines(BufReader::new(stream));
    let can = json!({"roots": {"x": 1}, "extensions": {"io.modelcontextprotocol/tasks": {}}});
    let params = json!({"name": "meta__meta", "arguments": {}, "_meta": modern(can.clone())});
    let (answer, _) = lines.ask("a", "tools/call", params).await;
    let told: Value = serde_json::from_str(answer["result"]["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(told["io.modelcontextprotocol/clientCapabilities"], json!({"roots": {"x": 1}}));
    let params = json!({"name": "asks__input", "arguments": {}, "_meta": modern(can)});
    let (answer, _) = lines.ask("b", "tools/call", params).await;
    assert_eq!(answer["error"]["code"], -32021, "{answer}");
    assert_eq!(answer["error"]["data"], json!({"requiredCapabilities": {"elicitation": {}}}));
}

#[tokio::test]
async fn a_modern_client_of_an_older_server_that_asks_gets_an_error_that_says_why() {
    for door in ["stdio", "http"] {
        let (client, _stop) = client(&[("old", "asks")], "modern", door).await;
        let failed = client.call_tool(CallToolRequestParams::new("old__ask")).await.unwrap_err();
        let ServiceError::McpError(error) = failed else { panic!("{door}: {failed}") };
        assert_eq!(error.code.0, -32603);
        for words in ["\"old\"", "sampling/createMessage", "2026-07-28", "initialize"] {
            assert!(error.message.contains(words), "{door}: {}", error.message);
        }
        let data = error.data.unwrap();
        assert_eq!((&data["server"], &data["asked"]), (&json!("old"), &json!("sampling/createMessage")));
        // The server was told no, and went on.
        let heard: Value = serde_json::from_str(data["answer"]["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(heard["elicitation/create"]["result"]["action"], "decline");
        assert_eq!(heard["sampling/createMessage"]["error"]["code"], -32601);
        assert_eq!(heard["roots/list"]["error"]["code"], -32601);
    }
}

#[tokio::test]
async fn an_older_server_asks_an_older_client() {
    for door in ["stdio", "http"] {
        let (client, _stop) = client(&[("old", "asks")], "legacy", door).await;
        let called = client.call_tool(CallToolRequestParams::new("old__ask")).await.unwrap();
        let heard: Value = serde_json::from_str(&called.content[0].as_text().unwrap().text).unwrap();
        assert_eq!(heard["elicitation/create"]["result"], json!({"action": "accept", "content": {"name": "Ada"}}));
        assert_eq!(heard["roots/list"]["result"]["roots"][0]["uri"], "file:///home/Ada");
        assert_eq!(heard["sampling/createMessage"]["result"]["content"]["text"], "rain");
    }
}

#[tokio::test]
async fn two_clients_at_a_time_are_each_asked_for_their_own_call() {
    let config = fixtures(&[("asks", "mrtr 2")], "");
    let (url, _stop) = serve_http_over(config, HashMap::new(), GatewayOptions::default(), Tokens::default()).await;
    let call = async |name: &'static str, era: &str| {
        let client = http_client_of(Person(name), &url, None, era).await;
        for _ in 0..5 {
            let called = client.call_tool(CallToolRequestParams::new("asks__input")).await.unwrap();
            let text = &called.content[0].as_text().unwrap().text;
            assert!(text.contains(&format!("file:///home/{name}")), "{name}: {text}");
        }
    };
    tokio::join!(call("Ada", "legacy"), call("Bob", "legacy"), call("Eve", "modern"));
}

#[tokio::test]
async fn a_question_on_the_stream_of_a_call_finds_the_client_of_that_call() {
    // Asks on the streams of all three calls once all are there, and answers each with what it heard there.
    let calls = Mutex::new(HashMap::<String, (Feed, Value)>::new());
    let server = Server::start(move |seen| match (seen.verb.as_str(), seen.method()) {
        ("POST", "tools/call") => {
            let (mut calls, feed) = (calls.lock().unwrap(), Feed::default());
            let answer = feed.answer();
            let who = seen.body["params"]["arguments"]["text"].as_str().unwrap().to_owned();
            calls.insert(who, (feed, seen.body["id"].clone()));
            for (who, (feed, _)) in calls.iter().filter(|_| calls.len() == 3) {
                let params =
                    json!({"mode": "form", "message": "who?", "requestedSchema": {"type": "object", "properties": {}}});
                feed.send(&json!({"jsonrpc": "2.0", "id": who, "method": "elicitation/create", "params": params}));
            }
            answer
        }
        ("POST", "") => {
            let calls = calls.lock().unwrap();
            let (feed, id) = &calls[seen.body["id"].as_str().unwrap()];
            let heard = seen.body["result"].to_string();
            let result = json!({"content": [{"type": "text", "text": heard}]});
            feed.send(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
            feed.end();
            Answer::status("202 Accepted")
        }
        _ => legacy(seen),
    })
    .await;
    let yaml = format!("servers:\n  a: {{url: {:?}}}\n", server.url());
    let config = toolgate::config::parse(&yaml, std::path::Path::new("toolgate.yaml")).unwrap();
    let (url, _stop) = serve_http_over(config, HashMap::new(), GatewayOptions::default(), Tokens::default()).await;
    let call = async |name: &'static str, era: &str| {
        let client = http_client_of(Person(name), &url, None, era).await;
        let arguments = json!({"text": name}).as_object().cloned().unwrap();
        client.call_tool(CallToolRequestParams::new("a__echo").with_arguments(arguments)).await
    };
    let (ada, bob, eve) = tokio::join!(call("Ada", "legacy"), call("Bob", "legacy"), call("Eve", "modern"));
    for (name, called) in [("Ada", ada), ("Bob", bob)] {
        let heard: Value = serde_json::from_str(&called.unwrap().content[0].as_text().unwrap().text).unwrap();
        assert_eq!(heard["content"]["name"], name, "{heard}");
    }
    let ServiceError::McpError(error) = eve.unwrap_err() else { panic!("no error of the protocol") };
    assert_eq!(error.data.unwrap()["asked"], "elicitation/create");
}
