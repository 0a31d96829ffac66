//! Tests a gateway with a shadow policy as its operator sees it: the log, the pages, and a policy that changes.

use serde_json::{Value, json};

use crate::place::{Place, and, demo};
use crate::serving::{LONG, Serving, Web};

const TOKEN: &str = "ann-0123456789-token";
const SECRET: &str = "s3cret-0123456789-planted";

/// The configuration in use, with this in the shade.
fn config(shadow: Value) -> Value {
    json!({
        "version": 1,
        "servers": {"demo": and(demo(), json!({"env": {"KEY": "${KEY}"}}))},
        "gateway": {"tokens": [{"principal": "ann", "token": "${TOKEN}", "admin": true}]},
        "shadow": shadow,
    })
}

/// A candidate that keeps this out.
fn candidate(deny: &str) -> String {
    let mut config = config(Value::Null);
    config["servers"]["demo"]["deny"] = json!([deny]);
    config.to_string()
}

fn place(shadow: Value) -> Place {
    Place::configured(&config(shadow)).set("KEY", SECRET).set("TOKEN", TOKEN)
}

fn call(web: &Web<'_>, tool: &str) -> Value {
    let params = json!({"name": tool, "arguments": {"text": SECRET, "a": 1, "b": 2}});
    let reply = web.post(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}));
    serde_json::from_str(&reply.body).unwrap_or_else(|_| panic!("{reply:?}"))
}

fn shadow(web: &Web<'_>) -> Value {
    let reply = web.request("GET /api/v1/shadow", "localhost", &[], "");
    assert!(!reply.body.contains(SECRET) && !reply.body.contains(TOKEN), "{reply:?}");
    serde_json::from_str::<Value>(&reply.body).unwrap_or_else(|_| panic!("{reply:?}"))["shadow"].take()
}

#[test]
fn what_the_candidate_would_decide_is_logged_and_shown_and_follows_its_file() {
    let place = place(json!({"config": "next.yaml", "sample": 1.0}));
    let next = place.file("home/next.yaml", candidate("echo"));
    let serving = Serving::start(&place, &["--http", "127.0.0.1:0"]);
    // The gateway does not wait for it.
    let address = serving.address();
    let line = serving.logged(&[", 100 % of calls"]);
    assert!(line.contains("with next.yaml"), "{line}");
    let mut web = Web { address: &address, token: Some(TOKEN), session: None };
    assert_eq!(web.greet().status, 200);
    assert_eq!(call(&web, "demo__echo")["result"]["content"][0]["text"], "[REDACTED]", "the call is made");
    let line = serving.logged(&["the shadow policy would decide \"demo__echo\" differently"]);
    for part in ["denied by `deny: echo`", "principal=\"ann\"", "kind=\"denied\"", "call=\""] {
        assert!(line.contains(part), "no {part} in {line}");
    }
    assert!(!line.contains(SECRET), "{line}");
    let shown = shadow(&web);
    assert_eq!(
        (&shown["running"], &shown["different"], &shown["kinds"]["denied"]),
        (&json!(true), &json!(1), &json!(1))
    );
    let metrics = web.request("GET /metrics", "localhost", &[], "").body;
    assert!(metrics.contains("toolgate_shadow_divergences_total{kind=\"denied\"} 1\n"), "{metrics}");
    assert!(web.request("GET /", "localhost", &[], "").body.contains("id=\"shadow-view\""));

    // Another candidate begins at nothing.
    std::fs::write(&next, candidate("add")).unwrap();
    serving.logged(&[", 100 % of calls"]);
    assert_eq!(shadow(&web)["different"], 0);
    assert_eq!(call(&web, "demo__add")["result"]["structuredContent"]["sum"], 3);
    serving.logged(&["the shadow policy would decide \"demo__add\" differently"]);

    // A server that cannot be used is told of, and counts as gone.
    std::fs::write(&next, candidate("add").replace("\"deny\"", "\"denny\"")).unwrap();
    serving.logged(&["the shadow policy cannot use this server", "unknown key \"denny\"", "server=\"demo\""]);
    serving.logged(&[", 100 % of calls"]);
    assert_eq!(call(&web, "demo__add")["result"]["structuredContent"]["sum"], 3);
    serving.logged(&["the shadow policy would decide \"demo__add\" differently", "kind=\"denied\""]);

    // One that does not read is told, and the gateway goes on.
    std::fs::write(&next, "servers: [").unwrap();
    serving.logged(&["the shadow policy is off, and the gateway runs without it", "next.yaml"]);
    let shown = shadow(&web);
    assert_eq!(shown["running"], false);
    assert!(shown["off"].as_str().unwrap().contains("next.yaml"), "{shown}");
    assert_eq!(call(&web, "demo__add")["result"]["structuredContent"]["sum"], 3);

    // And none is none.
    place.file("home/servers.yaml", config(Value::Null).to_string());
    serving.logged(&["shadow policy off"]);
    assert_eq!(shadow(&web), Value::Null);
}

#[test]
fn a_candidate_that_is_not_there_keeps_no_gateway_from_starting() {
    for (shadow, why) in [
        (json!({"config": "./none.yaml"}), "none.yaml"),
        (json!({"logic": "./none.wasm"}), "none.wasm"),
        (json!({"logic": "servers.yaml"}), "not a WebAssembly component"),
    ] {
        let place = place(shadow);
        let mut serving = Serving::greet(&place, &[]);
        let line = serving.logged(&["the shadow policy is off, and the gateway runs without it", why]);
        assert!(line.matches("os error").count() <= 1, "{line}");
        assert_eq!(serving.tools().len(), 6);
    }
    let place = place(json!({"sample": 0.5}));
    place.run(&["serve"]).ends(2).says("shadow: needs a candidate");
}

#[test]
fn a_component_of_its_own_is_tried_beside_the_built_in_one() {
    let place = place(json!({"logic": "other.wasm", "config": "next.yaml"}));
    place.run(&["component", "--out", place.path("home/other.wasm").to_str().unwrap()]).ends(0);
    place.file("home/next.yaml", candidate("fail"));
    let mut serving = Serving::greet(&place, &[]);
    serving.logged(&["shadow policy on", "with next.yaml"]);
    let answer = serving.ask("tools/call", json!({"name": "demo__fail", "arguments": {"message": "no luck"}}));
    assert_eq!(answer["result"]["content"][0]["text"], "no luck");
    serving.logged(&[
        "the shadow policy would decide \"demo__fail\" differently",
        "denied by `deny: fail`",
        "principal=\"local\"",
    ]);
}

#[test]
fn a_candidate_that_is_still_being_compiled_is_shown() {
    let place = place(json!({"logic": "other.wasm"}));
    let other = place.path("home/other.wasm");
    place.run(&["component", "--out", other.to_str().unwrap()]).ends(0);
    // A section of its own makes it one that nobody has compiled before.
    let mark = place.path("").display().to_string();
    let mut bytes = std::fs::read(&other).unwrap();
    let length = |text: &str| u8::try_from(text.len()).unwrap();
    assert!(mark.len() < 120, "one byte says how long it is");
    bytes.extend([&[0, length(&mark) + 1, length(&mark)], mark.as_bytes()].concat());
    std::fs::write(&other, bytes).unwrap();
    let serving = Serving::start(&place, &["--http", "127.0.0.1:0"]);
    let address = serving.address();
    let web = Web { address: &address, token: Some(TOKEN), session: None };
    let since = std::time::Instant::now();
    loop {
        let shown = shadow(&web);
        if shown["running"] == true {
            break;
        }
        assert_eq!((&shown["running"], &shown["off"]), (&json!(false), &json!("it is being prepared")), "{shown}");
        assert!(shown["about"].as_str().unwrap().contains("other.wasm"), "{shown}");
        assert!(since.elapsed() < LONG, "it is never ready");
    }
}
