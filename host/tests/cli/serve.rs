//! Tests `toolgate serve` from the sides of its client and of the person who starts it.

use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::place::{Place, Ran, TOOLGATE, and, demo, fixture, fixture_with};
use crate::serving::{LONG, Serving, Web, appears, hello};

/// The messages of a client that says hello and calls a tool, one a line.
fn greeting_and_call(name: &str, arguments: Value) -> String {
    let params = json!({"name": name, "arguments": arguments});
    let messages = [
        json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello()}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}),
    ];
    messages.map(|message| format!("{message}\n")).concat()
}

/// The answer to a request among all that was printed.
fn answer(ran: &Ran, id: u64) -> Value {
    let mut messages = ran.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    messages.find(|message| message["id"] == id).unwrap_or_else(|| panic!("no answer to {id} in {ran:#?}"))
}

#[test]
fn what_was_asked_is_answered_though_the_input_has_ended() {
    let place = Place::with(json!({"demo": demo()}));
    let ran = place.feed(&["serve"], &greeting_and_call("demo__sleep", json!({"seconds": 0.2}))).ends(0);
    assert_eq!(answer(&ran, 0)["result"]["serverInfo"]["name"], "toolgate");
    assert_eq!(answer(&ran, 1)["result"]["content"][0]["text"], "slept for 0.2 seconds");
}

#[test]
fn a_tool_that_is_new_is_logged_by_default_and_once() {
    let place = Place::with(json!({"a": fixture("grows")}));
    let mut serving = Serving::greet(&place, &[]);
    assert_eq!(serving.tools(), ["a__grow"]);
    assert_eq!(serving.call("a__grow")["result"]["content"][0]["text"], "grown_1");
    serving.told("notifications/tools/list_changed");
    assert!(serving.tools().contains(&"a__grown_1".to_owned()));
    serving.logged(&["tool \"grown_1\" is new", "a"]);
    serving.end();

    // Each client has a view of its own, and all of them see the same tools.
    let tokens = json!([{"principal": "ann", "token": ANN}, {"principal": "bob", "token": BOB, "servers": ["a"]}]);
    let place = Place::configured(&json!({"servers": {"a": fixture("grows")}, "gateway": {"tokens": tokens}}));
    let serving = Serving::start(&place, &["--http", "127.0.0.1:0"]);
    let address = serving.address();
    let clients = [ANN, BOB].map(|token| {
        let mut client = Web { address: &address, token: Some(token), session: None };
        client.greet();
        assert_eq!(client.tools().unwrap(), ["a__grow"]);
        client
    });
    let grow = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "a__grow"}});
    for tool in ["grown_1", "grown_2"] {
        assert_eq!(clients[0].post(&grow).status, 200);
        for client in &clients {
            let since = Instant::now();
            while !client.tools().unwrap().contains(&format!("a__{tool}")) {
                assert!(since.elapsed() < LONG, "{tool} is not listed");
            }
        }
        serving.logged(&[&format!("tool \"{tool}\" is new")]);
    }
    let later = serving.logged_so_far();
    assert!(!later.iter().any(|line| line.contains("is new")), "{later:#?}");
}

const ANN: &str = "ann-0123456789abcdef";
const BOB: &str = "bob-0123456789abcdef";

#[test]
fn what_takes_longer_than_the_grace_is_cancelled_and_says_so() {
    let place = Place::configured(&json!({"gateway": {"grace": "300ms"}, "servers": {"demo": demo()}}));
    let ran = place.feed(&["serve"], &greeting_and_call("demo__sleep", json!({"seconds": 500}))).ends(0);
    assert_eq!(answer(&ran, 1)["result"]["isError"], true, "{ran:#?}");
}

#[test]
fn a_signal_lets_the_calls_of_its_client_finish() {
    let folder = Place::new();
    let (begun, go) = (folder.path("begun"), folder.path("go"));
    let habit = fixture_with("holds", &[begun.to_str().unwrap(), go.to_str().unwrap()]);
    let place = Place::with(json!({"slow": habit}));
    let mut serving = Serving::greet(&place, &[]);
    let id = serving.begin("tools/call", json!({"name": "slow__do", "arguments": {}}));
    appears(&begun);
    serving.signal(Signal::TERM);
    std::fs::write(&go, "").unwrap();
    assert_eq!(serving.answer(id)["result"]["content"][0]["text"], "done");
    assert_eq!(serving.ended().code(), Some(130));
}

#[test]
fn a_client_has_all_servers_behind_one_and_its_end_is_the_end() {
    let place = Place::with(json!({"demo": demo(), "other": fixture("ok")}));
    let mut serving = Serving::greet(&place, &[]);
    let tools = serving.tools();
    assert_eq!(tools.first().map(String::as_str), Some("demo__echo"));
    assert_eq!(tools[tools.len() - 2..], ["other__do", "other__look"]);
    let called = serving.ask("tools/call", json!({"name": "demo__add", "arguments": {"a": 1, "b": 2}}));
    assert_eq!(called["result"]["structuredContent"], json!({"sum": 3}), "{called}");
    assert_eq!(serving.call("other__do")["result"]["content"][0]["text"], "done");
    assert_eq!(serving.call("other__nothing")["error"]["code"], -32602);
    assert_eq!(serving.end().code(), Some(0));
}

#[test]
fn a_server_that_cannot_start_is_told_of_once_with_the_reason() {
    let unset = json!({"command": "${TOOLGATE_TEST_UNSET}"});
    let place = Place::with(json!({"absent": {"command": "/no/such/program"}, "unset": unset, "demo": demo()}));
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"});
    let again = json!({"jsonrpc": "2.0", "id": 3, "method": "resources/list"});
    let feed = format!("{}{list}\n{again}\n", greeting_and_call("absent__x", json!({})));
    let ran = place.feed(&["serve"], &feed).ends(0);
    for why in ["/no/such/program\" was not found", "TOOLGATE_TEST_UNSET"] {
        let told = ran.stderr.lines().filter(|line| line.contains(why)).count();
        assert_eq!(told, 1, "{why}: {ran:#?}");
    }
}

#[test]
fn a_server_that_is_restarted_since_it_does_not_answer_is_told_of_with_the_reason() {
    let keys = json!({"timeouts": {"call": "200ms"}, "probe_timeout": "50ms", "grace": "100ms"});
    let server = and(fixture_with("holds", &["/dev/null", "/no/such/file"]), keys);
    let place = Place::with(json!({"a": server}));
    let mut serving = Serving::greet(&place, &[]);
    assert_eq!(serving.call("a__do")["result"]["isError"], true);
    serving.logged(&["WARN", "the server does not answer; restarting it: no answer to ping within 50ms"]);
    assert_eq!(serving.end().code(), Some(0));
}

#[test]
fn an_exposed_server_keeps_its_names() {
    let place = Place::with(json!({"demo": demo(), "other": fixture("ok")}));
    let mut serving = Serving::greet(&place, &["--expose", "other"]);
    assert_eq!(serving.tools(), ["do", "look"]);
    assert_eq!(serving.call("do")["result"]["content"][0]["text"], "done");
}

#[test]
fn names_are_as_the_command_line_says() {
    let place = Place::with(json!({"other": fixture("ok")}));
    assert_eq!(Serving::greet(&place, &["--names", "dot"]).tools(), ["other.do", "other.look"]);
    place.run(&["serve", "--names", "loud"]).ends(2).says("write one of: dot, double-underscore");
}

#[test]
fn what_cannot_be_served_is_said_before_anything_is_started() {
    let place = Place::with(json!({"demo": demo(), "other": fixture("ok")}));
    place.run(&["serve", "--expose", "nope"]).ends(5).says(r#"no server "nope" is configured; there are: demo, other"#);
    place
        .run(&["serve", "--http", "nowhere"])
        .ends(2)
        .says(r#""nowhere" is not an address; write it as 127.0.0.1:8808"#);
    place
        .run(&["serve", "--http", "0.0.0.0:0"])
        .ends(2)
        .says("so clients need tokens: add gateway.tokens, or listen on 127.0.0.1 or [::1]");
    place.file("home/servers.yaml", "servers:\n  a: {comand: x}\nserver: {}\n");
    place.run(&["serve"]).ends(2).says("servers.yaml:3:1").says("did you mean \"servers\"?");
    Place::new().run(&["serve"]).ends(2).says("no configuration found");
}

#[test]
fn over_http_it_serves_until_it_is_told_to_stop() {
    let place = Place::configured(&json!({"gateway": {"drain_delay": "off"}, "servers": {"other": fixture("ok")}}));
    let mut serving = Serving::start(&place, &["--http", "127.0.0.1:0"]);
    let address = serving.address();
    let mut web = Web { address: &address, token: None, session: None };
    assert_eq!(web.greet().status, 200);
    assert_eq!(web.tools(), Ok(vec!["other__do".to_owned(), "other__look".to_owned()]));
    assert_eq!(web.request("GET /health", "localhost", &[], "").status, 200);
    serving.signal(Signal::TERM);
    assert_eq!(serving.ended().code(), Some(0));
}

#[test]
fn a_gateway_does_not_start_itself_again_by_whatever_name() {
    let place = Place::new();
    let config = place.path("home/servers.yaml").display().to_string();
    let started = place.path("started").display().to_string();
    std::os::unix::fs::symlink(TOOLGATE, place.path("gate")).unwrap();
    // A wrapper is seen by nobody before it runs, and may pass on nothing but what it must.
    let wrapper = format!("#!/bin/sh\necho x >> '{started}'\nexec '{TOOLGATE}' --config '{config}' serve\n");
    let wrapper = place.file("wrapper", wrapper);
    std::fs::set_permissions(&wrapper, std::fs::Permissions::from_mode(0o755)).unwrap();
    let servers = json!({
        "linked": {"command": place.path("gate"), "args": ["--config", config, "serve"]},
        "wrapped": {"command": wrapper, "inherit_env": "minimal"},
        "well": fixture("ok"),
    });
    place.file("home/servers.yaml", json!({"version": 1, "servers": servers}).to_string());
    let ran = place.run(&["tools", "--config", &config]).ends(0).prints("well__look");
    let ran = ran.says("is toolgate itself, which would start itself in an endless loop");
    ran.says("is served already by the toolgate that started this one");
    let count = std::fs::read_to_string(&started).unwrap().lines().count();
    assert!(count <= 2, "the wrapper was started {count} times");
}

#[test]
fn a_gateway_may_stand_in_front_of_another_one() {
    let place = Place::new();
    let inner = place.file("inner.yaml", json!({"servers": {"other": fixture("ok")}}).to_string());
    let servers = json!({"inner": {"command": TOOLGATE, "args": ["serve", "--config", inner]}});
    let outer = place.file("outer.yaml", json!({"servers": servers}).to_string());
    let mut serving = Serving::greet(&place, &["--config", outer.to_str().unwrap()]);
    assert_eq!(serving.tools(), ["inner__other__do", "inner__other__look"]);
    assert_eq!(serving.call("inner__other__do")["result"]["content"][0]["text"], "done");
}

#[test]
fn pages_have_heads_and_say_which_methods_they_know() {
    let place = Place::with(json!({"other": fixture("ok")}));
    let serving = Serving::start(&place, &["--http", "127.0.0.1:0"]);
    let address = serving.address();
    let web = Web { address: &address, token: None, session: None };
    for path in ["/", "/health", "/ready", "/metrics", "/api/v1/servers"] {
        let head = web.request(&format!("HEAD {path}"), "localhost", &[], "");
        let whole = web.request(&format!("GET {path}"), "localhost", &[], "");
        assert_eq!((head.status, head.body.as_str()), (whole.status, ""), "{path}: {head:?}");
        let refused = web.request(&format!("DELETE {path}"), "localhost", &[], "");
        assert!(refused.status == 405 && refused.head.contains("allow: GET, HEAD"), "{path}: {refused:?}");
    }
    assert_eq!(web.request("POST /health", "localhost", &[], "{}").status, 405);
    let refused = web.request("GET /api/v1/servers/other/disable", "localhost", &[], "");
    assert!(refused.status == 405 && refused.head.contains("allow: POST"), "{refused:?}");
}

#[test]
fn a_health_probe_of_any_host_hears_no_more_than_one_without_a_token() {
    let tokens = json!([{"principal": "ops", "token": "ops-0123456789-token", "admin": true}]);
    let place =
        Place::configured(&json!({"version": 1, "servers": {"other": fixture("ok")}, "gateway": {"tokens": tokens}}));
    let serving = Serving::start(&place, &["--http", "127.0.0.1:0"]);
    let address = serving.address();
    let ask =
        |token, line: &str, host: &str| Web { address: &address, token, session: None }.request(line, host, &[], "");
    let ops = Some("ops-0123456789-token");
    for line in ["GET /ready", "GET /health"] {
        let plain = ask(None, line, "localhost");
        for token in [None, ops] {
            let foreign = ask(token, line, "10.1.2.3:8899");
            assert_eq!((foreign.status, &foreign.body), (200, &plain.body), "{line}");
        }
    }
    assert!(ask(ops, "GET /ready", "localhost").body.contains("warnings"));
    assert_eq!(ask(ops, "GET /api/v1/servers", "10.1.2.3:8899").status, 403);
}

#[test]
fn errors_of_the_api_are_json_with_one_text_whoever_asks() {
    let (ann, ops) = ("ann-0123456789-token", "ops-0123456789-token");
    let tokens = json!([
        {"principal": "ann", "token": ann},
        {"principal": "ops", "token": ops, "admin": true},
    ]);
    let place =
        Place::configured(&json!({"version": 1, "servers": {"other": fixture("ok")}, "gateway": {"tokens": tokens}}));
    let serving = Serving::start(&place, &["--http", "127.0.0.1:0"]);
    let address = serving.address();
    let error = |token: Option<&str>, line: &str, body: &str, status: u16| -> (String, String) {
        let web = Web { address: &address, token, session: None };
        let reply = web.request(line, "localhost", &[], body);
        let json: Value = serde_json::from_str(&reply.body).unwrap_or_else(|_| panic!("{line}: {reply:?}"));
        assert_eq!((reply.status, json.as_object().unwrap().len()), (status, 1), "{line}: {reply:?}");
        (json["error"].as_str().unwrap_or_else(|| panic!("{line}: {reply:?}")).to_owned(), reply.head)
    };
    for token in [Some(ann), Some(ops)] {
        for line in
            ["GET /api/v1", "GET /api/v1/nothing", "GET /api/v1/servers/other", "POST /api/v1/servers/other/stop"]
        {
            assert!(error(token, line, "", 404).0.contains("mcp/tools"), "{line}");
        }
        error(token, "GET /api/v2/servers", "", 404);
        for line in ["POST /api/v1/servers", "PUT /api/v1/calls", "OPTIONS /api/v1/mcp/tools"] {
            assert!(error(token, line, "", 405).1.contains("allow: GET, HEAD"), "{line}");
        }
        for line in ["GET /api/v1/mcp/call", "DELETE /api/v1/servers/other/enable"] {
            assert!(error(token, line, "", 405).1.contains("allow: POST"), "{line}");
        }
        for (path, words) in [
            ("calls?limit=abc", r#"limit must be a whole number such as 100, not "abc""#),
            ("shadow?limit=-1", r#"not "-1""#),
            ("calls?limit=", r#"not """#),
            ("calls?limt=5", r#"unknown parameter "limt": this page takes limit"#),
            ("calls?limit=5&limit=6", "limit is repeated"),
            ("servers?limit=5", r#"unknown parameter "limit": this page takes none"#),
            ("mcp/tools?x", r#"unknown parameter "x""#),
            ("metrics?x=1", r#"unknown parameter "x""#),
        ] {
            let said = error(token, &format!("GET /api/v1/{path}"), "", 400).0;
            assert!(said.contains(words), "{path}: {said}");
        }
    }
    for (token, status) in [(None, 401), (Some("a-wrong-token-0123456789"), 401), (Some(ann), 403)] {
        for line in ["POST /api/v1/servers/other/disable", "POST /api/v1/mcp/call"] {
            error(token, line, "{}", status);
        }
    }
    for line in ["GET /api/v1/servers", "GET /api/v1/nothing", "GET /metrics"] {
        assert!(error(None, line, "", 401).1.contains("www-authenticate: Bearer"), "{line}");
    }
    error(Some(ops), "POST /api/v1/servers/nobody/disable", "", 404);
    error(Some(ops), "POST /api/v1/servers/other/disable?now", "", 400);
    for body in ["", "{", "[]", r#"{"name":7}"#] {
        error(Some(ops), "POST /api/v1/mcp/call", body, 400);
    }

    let page = |token, path: &str| {
        let reply = Web { address: &address, token, session: None }.request(path, "localhost", &[], "");
        assert_eq!(reply.status, 200, "{path}: {reply:?}");
        reply.body
    };
    for path in ["GET /health?x=1", "GET /ready?x=1", "GET /metrics?x=1", "GET /api/v1/calls?limit=%35&"] {
        page(Some(ann), path);
    }
    for (token, name, admin) in [(ann, "ann", false), (ops, "ops", true)] {
        let page: Value = serde_json::from_str(&page(Some(token), "GET /api/v1/servers")).unwrap();
        assert_eq!(page["gateway"]["principal"], json!({"name": name, "admin": admin}));
    }
}
