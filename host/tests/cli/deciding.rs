//! Tests what admins see in the place of another principal, and resources and prompts in the API.

use std::time::Instant;

use serde_json::{Value, json};

use crate::place::{Place, and, demo, each, fixture};
use crate::serving::{LONG, Serving, Web};

fn token(who: &str) -> String {
    format!("{who}-0123456789-token")
}

/// A gateway with the admin `bob`, and `ann`, who may use some tools of one server.
fn served() -> (Place, Serving, String) {
    let principal = |name: &str, more: Value| and(json!({"principal": name, "token": token(name)}), more);
    let place = Place::configured(&json!({
        "servers": {
            "demo": and(demo(), json!({"ask": ["echo"]})), "other": fixture("ok"),
            "own": and(fixture("ok"), json!({"eager": true, "shared": false})),
        },
        "rules": [
            {"name": "budget", "tools": ["demo.add"], "limit": {"calls": 1, "per": "1h"}},
        ],
        "gateway": {"tokens": [
            principal("ann", json!({"servers": {"demo": ["add", "echo"], "own": ["do"]}})),
            principal("bob", json!({"admin": true})),
        ]},
    }));
    let serving = Serving::start(&place, &["--http", "127.0.0.1:0"]);
    let address = serving.address();
    (place, serving, address)
}

fn ask(address: &str, who: &str, line: &str, body: &Value) -> (u16, Value) {
    let token = token(who);
    let web = Web { address, token: Some(&token), session: None };
    let (method, path) = line.split_once(' ').unwrap();
    let body = if method == "GET" { String::new() } else { body.to_string() };
    let reply = web.request(&format!("{method} /api/v1/{path}"), "localhost", &[], &body);
    (reply.status, serde_json::from_str(&reply.body).unwrap_or_else(|_| panic!("{reply:?}")))
}

#[test]
fn an_admin_sees_what_another_principal_would_see_and_be_told_and_nothing_happens() {
    let (_place, _serving, address) = served();
    let decide = |name: &str, arguments: Value| {
        let (status, told) =
            ask(&address, "bob", "POST mcp/decide", &json!({"name": name, "arguments": arguments, "as": "ann"}));
        assert_eq!(status, 200, "{told}");
        told
    };
    let state = |server: &str| {
        let (_, told) = ask(&address, "bob", "GET servers", &Value::Null);
        let all = told["servers"].as_array().unwrap();
        all.iter().find(|one| one["server"] == server).unwrap()["state"].as_str().unwrap().to_owned()
    };
    let since = Instant::now();
    while state("own") != "ready" {
        assert!(since.elapsed() < LONG, "it starts with the gateway");
        std::thread::yield_now();
    }
    let told = decide("demo__add", json!({"a": 1, "b": 2}));
    assert_eq!(told["code"], "server-unavailable", "a question connects nothing: {told}");
    assert!(told["text"].as_str().unwrap().contains("has not listed its tools yet"), "{told}");
    let (_, seen) = ask(&address, "bob", "GET mcp/tools?as=ann", &Value::Null);
    assert_eq!(seen["tools"], json!([]), "nor does a list: {seen}");
    assert_eq!(
        (state("demo"), state("own")),
        ("dormant".to_owned(), "ready".to_owned()),
        "not for this principal either"
    );
    let (_, own) = ask(&address, "bob", "GET mcp/tools", &Value::Null);
    assert_eq!(own["principals"], json!(["ann", "bob", "local"]));
    assert!(own["tools"].as_array().unwrap().len() > 4, "{own}");

    let (_, seen) = ask(&address, "bob", "GET mcp/tools?as=ann", &Value::Null);
    assert_eq!(each(&seen["tools"], "/name"), ["demo__echo", "demo__add"]);
    let (_, found) = ask(&address, "bob", "GET mcp/tools/search?query=add&as=ann", &Value::Null);
    assert_eq!(each(&found["tools"], "/name"), ["demo__add"]);
    // More often than the limit allows: none of these counts.
    for _ in 0..3 {
        let told = decide("demo__add", json!({"a": "1", "b": 2}));
        assert_eq!((&told["decision"], &told["arguments"]), (&json!("call"), &json!({"a": 1, "b": 2})), "{told}");
        assert!(!told["trace"].as_array().unwrap().is_empty() && told["as"] == "ann");
    }
    let large = r#"{"name": "demo__add", "arguments": "a: 12345678901234567890123, b: 1", "as": "ann"}"#;
    let bob = token("bob");
    let web = Web { address: &address, token: Some(&bob), session: None };
    let told = web.request("POST /api/v1/mcp/decide", "localhost", &[], large).body;
    assert!(told.contains(r#""a":12345678901234567890123,"#), "no digit is lost: {told}");
    let told = decide("demo__echo", json!({"text": "<b>\u{202e}"}));
    assert_eq!(
        (&told["decision"], &told["approval"]),
        (&json!("ask"), &json!("needs approval: matches `ask: echo`")),
        "{told}"
    );
    for name in ["demo__sleep", "other__do", "nothing"] {
        let told = decide(name, json!({}));
        assert!(told["decision"] == "refuse" && told["text"].is_string() && told["arguments"].is_null(), "{told}");
    }
    let (_, calls) = ask(&address, "bob", "GET calls", &Value::Null);
    assert_eq!(calls["calls"], json!([]));
    // The one call of the hour is still there.
    let mine = json!({"name": "demo__add", "arguments": {"a": 1, "b": 2}});
    assert_eq!(ask(&address, "bob", "POST mcp/call", &mine).1["code"], "ok");

    for (who, line, expected) in [
        ("bob", "GET mcp/tools?as=eve", 404),
        ("ann", "GET mcp/tools?as=bob", 403),
        ("ann", "GET mcp/tools/search?query=add&as=bob", 403),
        ("ann", "POST mcp/decide", 403),
        ("bob", "GET mcp/tools?as=a&as=b", 400),
    ] {
        assert_eq!(ask(&address, who, line, &mine).0, expected, "{who} {line}");
    }
    let as_other = and(mine, json!({"as": "ann"}));
    assert_eq!(ask(&address, "bob", "POST mcp/call", &as_other).0, 400, "nobody acts as another");
}

#[test]
fn resources_and_prompts_are_listed_for_all_and_read_by_admins() {
    let (_place, _serving, address) = served();
    let (_, listed) = ask(&address, "bob", "GET mcp/resources", &Value::Null);
    assert!(each(&listed["resources"], "/uri").contains(&"demo://readme"), "{listed}");
    assert_eq!(listed["resources"][0]["server"], "demo");
    assert_eq!(each(&listed["templates"], "/uriTemplate"), ["demo://square/{number}"]);
    let (_, listed) = ask(&address, "bob", "GET mcp/prompts", &Value::Null);
    assert_eq!((&listed["prompts"][0]["server"], &listed["prompts"][0]["name"]), (&json!("demo"), &json!("greet")));
    // A grant of single tools does not cover the rest of a server.
    assert_eq!(ask(&address, "ann", "GET mcp/resources", &Value::Null).1["resources"], json!([]));
    assert_eq!(ask(&address, "ann", "GET mcp/prompts", &Value::Null).1["prompts"], json!([]));

    let post = |who: &str, path: &str, body: Value| ask(&address, who, &format!("POST mcp/{path}"), &body);
    let (_, read) = post("bob", "resources/read", json!({"uri": "demo://square/12"}));
    assert_eq!((&read["server"], &read["result"]["contents"][0]["text"]), (&json!("demo"), &json!("144")));
    let greet = json!({"server": "demo", "name": "greet", "arguments": {"name": "<b>Ada"}});
    let (_, got) = post("bob", "prompts/get", greet.clone());
    assert_eq!(got["result"]["messages"][0]["content"]["text"], "Greet <b>Ada in one friendly sentence.");
    for (who, path, body, expected) in [
        ("bob", "resources/read", json!({"uri": "demo://nowhere"}), 404),
        ("bob", "resources/read", json!({"uri": "x".repeat(9000)}), 400),
        ("bob", "resources/read", json!({}), 400),
        ("bob", "prompts/get", json!({"server": "demo", "name": "greet"}), 502),
        ("bob", "prompts/get", json!({"server": "gone", "name": "greet"}), 404),
        ("ann", "prompts/get", greet, 403),
        ("ann", "resources/read", json!({"uri": "demo://readme"}), 403),
    ] {
        let (status, said) = post(who, path, body.clone());
        assert_eq!(status, expected, "{who} {path} {body}: {said}");
    }
}
