//! Tests what a gateway tells a client first, and what a client may choose for its session.

use serde_json::{Value, json};

use crate::place::{Place, and, demo, fixture, fixture_with};
use crate::serving::{Serving, Web, hello, names};

fn initialize(serving: &mut Serving, selection: Value) -> Value {
    let params = and(hello(), json!({"_meta": {"toolgate/selection": selection}}));
    serving.ask("initialize", params)
}

#[test]
fn the_first_answer_has_the_notes_on_tools_and_the_servers_that_failed() {
    let place = Place::with(json!({
        "noted": and(demo(), json!({"tools": {"echo": {"note": "Say it twice."}}})),
        "named": and(demo(), json!({"instructions": "Be brief."})),
        "broken": {"command": "no-such-program-of-toolgate"},
    }));
    let mut serving = Serving::start(&place, &[]);
    let answer = serving.ask("initialize", hello());
    let text = answer["result"]["instructions"].as_str().unwrap_or_else(|| panic!("{answer}"));
    for expected in [
        "##### Tool: noted__echo\nSay it twice.",
        "#### MCP Server: named\nBe brief.",
        "## Unavailable MCP Servers",
        "- **broken**: ",
        "no-such-program-of-toolgate",
        "Do not attempt to use tools from these servers.",
    ] {
        assert!(text.contains(expected), "{expected:?} is not in {text}");
    }
}

#[test]
fn each_session_has_its_own_id() {
    let place = Place::new();
    let folder = place.path("home/sessions");
    std::fs::create_dir(&folder).unwrap();
    let notes = format!("{}/{{{{.SESSION_ID}}}}", folder.display());
    let place = place.and_configured(&json!({"servers": {"a": fixture_with("notes-calls", &[&notes])}}));
    for _ in 0..2 {
        let mut serving = Serving::greet(&place, &[]);
        assert_eq!(serving.call("a__do")["result"]["content"][0]["text"], "done");
        serving.call("a__do");
    }
    let ids: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(ids.len() == 2 && ids.iter().all(|id| id.len() == 32), "{ids:?}");
}

#[test]
fn a_client_chooses_servers_and_tools_for_its_session() {
    let place = Place::with(json!({"a": fixture("ok"), "b": fixture("ok")}));
    let mut serving = Serving::start(&place, &[]);
    let answer = initialize(&mut serving, json!({"b": ["look"]}));
    assert_eq!(answer["result"]["serverInfo"]["name"], "toolgate", "{answer}");
    assert_eq!(serving.tools(), ["b__look"]);
    assert_eq!(serving.call("b__look")["result"]["content"][0]["text"], "done");
    for hidden in ["b__do", "a__do"] {
        let refused = serving.call(hidden);
        assert!(refused.to_string().contains("is not available"), "{hidden}: {refused}");
    }
    let late = serving.ask("tools/list", json!({"_meta": {"toolgate/selection": ["a"]}}));
    assert_eq!(late["error"]["code"], -32602, "{late}");
}

#[test]
fn a_choice_that_cannot_be_had_is_an_error() {
    let place = Place::with(json!({"a": fixture("ok"), "off": and(fixture("ok"), json!({"enabled": false}))}));
    for (choice, why) in [
        (json!(["nobody"]), "server \"nobody\" is not available"),
        (json!(["off"]), "server \"off\" is not available"),
        (json!([]), "names no server"),
        (json!(7), "neither a list"),
    ] {
        let mut serving = Serving::start(&place, &[]);
        let answer = initialize(&mut serving, choice);
        let message = answer["error"]["message"].as_str().unwrap_or_else(|| panic!("{answer}"));
        assert!(message.contains(why), "{message}");
    }
}

#[test]
fn a_choice_never_adds_to_what_a_principal_may_use() {
    const SECRET: &str = "a-secret-of-sixteen";
    let token = json!({"principal": "ann", "token": SECRET, "servers": {"a": ["do"], "b": ["*"]}});
    let place = Place::configured(&json!({
        "gateway": {"tokens": [token]},
        "servers": {"a": fixture("ok"), "b": fixture("ok"), "c": fixture("ok")},
    }));
    let serving = Serving::start(&place, &["--http", "127.0.0.1:0"]);
    let address = serving.address();
    let web = Web { address: &address, token: Some(SECRET), session: None };
    let modern = |selection: &str| {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}});
        let selection = format!("Toolgate-Selection: {selection}");
        let headers = ["MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/list", &selection];
        let reply = web.request("POST /mcp", "localhost", &headers, &message.to_string());
        let body: Value = serde_json::from_str(&reply.body).unwrap_or_default();
        if reply.status == 200 { Ok(names(&body)) } else { Err((reply.status, body["error"]["message"].clone())) }
    };
    assert_eq!(modern("a"), Ok(vec!["a__do".to_owned()]));
    assert_eq!(modern("a/*, b/look"), Ok(vec!["a__do".to_owned(), "b__look".to_owned()]));
    assert_eq!(modern("a/look"), Ok(Vec::new()));
    let (status, message) = modern("c").unwrap_err();
    assert!(status == 403 && message.to_string().contains("is not available"), "{status} {message}");
    assert_eq!(modern(",").unwrap_err().0, 400);

    let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello()}).to_string();
    let reply = web.request("POST /mcp", "localhost", &["Toolgate-Selection: b/do"], &initialize);
    let id = reply.head.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).map(str::to_owned);
    let session = Web { session: id, ..web };
    assert_eq!(session.tools(), Ok(vec!["b__do".to_owned()]));
}

#[test]
fn refused_calls_and_calls_of_servers_that_are_down_are_counted_for_their_tool_and_their_caller() {
    let place = Place::with(json!({
        "a": and(fixture("ok"), json!({"deny": ["do"]})),
        "down": {"command": "no-such-program-of-toolgate"},
    }));
    let serving = Serving::start(&place, &["--http", "127.0.0.1:0"]);
    let address = serving.address();
    let mut web = Web { address: &address, token: None, session: None };
    web.greet();
    let call = |name: &str| {
        web.post(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": {}}}))
    };
    ["a__look", "a__do", "a__do", "down__thing"].iter().for_each(|name| assert_eq!(call(name).status, 200));
    let page = |path: &str| web.request(&format!("GET {path}"), "localhost", &[], "").body;
    let metrics = page("/metrics");
    for expected in [
        r#"toolgate_calls_total{server="a",tool="look",code="ok",principal="local"} 1"#,
        r#"toolgate_calls_total{server="a",tool="do",code="not-allowed",principal="local"} 2"#,
        r#"toolgate_calls_total{server="down",tool="thing",code="server-unavailable",principal="local"} 1"#,
    ] {
        assert!(metrics.contains(expected), "{expected} is not in {metrics}");
    }
    let calls: Value = serde_json::from_str(&page("/api/v1/calls")).unwrap();
    let tools: Vec<_> =
        calls["calls"].as_array().unwrap().iter().map(|call| (&call["server"], &call["tool"])).collect();
    assert_eq!(tools[0], (&json!("down"), &json!("thing")), "{calls}");
    assert_eq!(tools[1], (&json!("a"), &json!("do")), "{calls}");
    let servers: Value = serde_json::from_str(&page("/api/v1/servers")).unwrap();
    let (a, down) = (&servers["servers"][0], &servers["servers"][1]);
    assert_eq!((&a["calls"]["denied"], &a["calls"]["ok"]), (&json!(2), &json!(1)), "{a}");
    assert_eq!((&down["calls"]["failures"], &down["calls"]["denied"]), (&json!(1), &json!(0)), "{down}");
}

#[test]
fn the_status_of_a_server_has_its_version_its_tools_and_its_scope() {
    let place = Place::with(json!({
        "demo": and(demo(), json!({"description": "For a first look."})),
        "own": and(demo(), json!({"shared": false})),
        "named": and(demo(), json!({"env": {"SESSION": "{{.SESSION_ID}}"}})),
    }));
    let serving = Serving::start(&place, &["--http", "127.0.0.1:0"]);
    let address = serving.address();
    let mut web = Web { address: &address, token: None, session: None };
    web.greet();
    web.tools().unwrap();
    let page = web.request("GET /api/v1/servers", "localhost", &[], "").body;
    let page: Value = serde_json::from_str(&page).unwrap();
    let server = &page["servers"][0];
    assert_eq!(server["software"], format!("toolgate-demo {}", env!("CARGO_PKG_VERSION")), "{server}");
    assert_eq!((&server["description"], &server["scope"]), (&json!("For a first look."), &json!("shared")));
    let tools = server["tool_names"].as_array().unwrap();
    assert!(tools.contains(&json!("echo")) && tools.len() as u64 == server["tools"].as_u64().unwrap(), "{server}");
    assert!(server["source"].as_str().is_some_and(|source| source.contains("servers.yaml:")), "{server}");
    let scopes: Vec<_> = page["servers"].as_array().unwrap().iter().map(|server| &server["scope"]).collect();
    assert_eq!(scopes, [&json!("shared"), &json!("session"), &json!("gate")]);
}

#[test]
fn a_principal_learns_nothing_of_a_server_that_it_may_not_use() {
    const SECRET: &str = "a-secret-of-sixteen";
    let token = json!({"principal": "ann", "token": SECRET, "capabilities": ["server:a"]});
    let place = Place::configured(&json!({
        "gateway": {"tokens": [token]},
        "servers": {"a": fixture("ok"), "payroll": {"command": "no-such-program-of-toolgate"}},
    }));
    let serving = Serving::start(&place, &["--http", "127.0.0.1:0"]);
    let address = serving.address();
    let web = Web { address: &address, token: Some(SECRET), session: None };
    let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello()}).to_string();
    let first = web.request("POST /mcp", "localhost", &[], &initialize);
    assert!(first.status == 200 && !first.body.contains("payroll"), "{first:?}");
    let chosen = |server: &str| {
        let header = format!("Toolgate-Selection: {server}");
        web.request("POST /mcp", "localhost", &[&header], &initialize).body.replace(server, "SERVER")
    };
    assert_eq!(chosen("payroll"), chosen("nobody"));
    assert!(chosen("payroll").contains("is not available"));
}

#[test]
fn an_exposed_server_has_its_own_tools_and_no_others() {
    let place = Place::configured(&json!({"resource_tools": true, "servers": {"a": fixture("ok")}}));
    let mut serving = Serving::greet(&place, &["--expose", "a"]);
    assert_eq!(serving.tools(), ["do", "look"]);
}
