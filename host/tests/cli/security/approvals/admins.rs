//! Tests that an admin other than the caller decides a waiting call, and that nothing else opens it.

use std::fs::File;
use std::io::Write;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{FILE, answered, calls, modern_call, noting, stream_of, yes};
use crate::place::{Place, and};
use crate::serving::{LONG, Serving, Web};

/// A gateway with an agent `ann`, a reader `rea`, and the admins `bob` and `carl`.
struct Gateway {
    place: Place,
    serving: Serving,
    api: Api,
    /// Where the server notes its calls.
    file: PathBuf,
    server: Value,
}

impl Gateway {
    fn open(approvers: &str, more: Value) -> Self {
        let place = Place::new();
        let (server, file) = noting(&place);
        let server = and(server, more);
        place.file(FILE, config(&server, approvers).to_string());
        let path = place.path(FILE).display().to_string();
        let serving = Serving::start(&place, &["--http", "127.0.0.1:0", "--config", &path]);
        let api = Api { address: serving.address() };
        Gateway { place, serving, api, file, server }
    }

    fn reload(&self, approvers: &str, more: &Value) {
        self.place.file(FILE, config(&and(self.server.clone(), more.clone()), approvers).to_string());
        self.serving.logged(&["was reloaded"]);
    }
}

/// What its clients reach, also from several threads.
struct Api {
    address: String,
}

impl std::ops::Deref for Gateway {
    type Target = Api;

    fn deref(&self) -> &Api {
        &self.api
    }
}

impl Api {
    fn web(&self, who: &str) -> Web<'_> {
        Web { address: &self.address, token: token(who), session: None }
    }

    /// Asks the API.
    fn api(&self, who: &str, line: &str, body: &str) -> (u16, Value) {
        let (method, path) = line.split_once(' ').unwrap();
        let reply = self.web(who).request(&format!("{method} /api/v1/{path}"), "localhost", &[], body);
        (reply.status, serde_json::from_str(&reply.body).unwrap_or_else(|_| panic!("{reply:?}")))
    }

    fn decide(&self, who: &str, id: &Value, approve: bool) -> (u16, Value) {
        let id = id.as_str().unwrap();
        self.api(who, &format!("POST approvals/{id}"), &json!({"approve": approve}).to_string())
    }

    /// Waits until so many calls wait for an admin.
    fn waiting(&self, count: usize) -> Vec<Value> {
        let since = Instant::now();
        loop {
            let (status, listed) = self.api("carl", "GET approvals", "");
            assert_eq!(status, 200, "{listed}");
            let calls = listed["approvals"].as_array().unwrap().clone();
            if calls.len() == count {
                return calls;
            }
            assert!(since.elapsed() < LONG, "{count} calls should wait: {listed}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Calls the tool as a client of 2026-07-28, and returns the result or the error.
    fn modern(&self, who: &str, params: &Value) -> Value {
        let headers = ["MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: x__do"];
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let reply = self.web(who).request("POST /mcp", "localhost", &headers, &message.to_string());
        let text = reply.body.lines().filter_map(|line| line.strip_prefix("data: ")).next_back().unwrap_or(&reply.body);
        let answer: Value = serde_json::from_str(text).unwrap_or_else(|_| panic!("{reply:?}"));
        if answer["error"].is_null() { answer["result"].clone() } else { answer["error"].clone() }
    }

    /// Opens a session whose client can do this.
    fn session(&self, who: &str, capabilities: &Value) -> Web<'_> {
        self.session_of(who, "2025-06-18", capabilities)
    }

    fn session_of(&self, who: &str, version: &str, capabilities: &Value) -> Web<'_> {
        let mut web = self.web(who);
        let hello = json!({
            "protocolVersion": version, "capabilities": capabilities,
            "clientInfo": {"name": "t", "version": "1"},
        });
        let reply = web.post(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}));
        web.session = reply.head.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).map(str::to_owned);
        web
    }
}

fn config(server: &Value, approvers: &str) -> Value {
    let principal = |name: &str, admin: bool| json!({"principal": name, "token": token(name), "admin": admin});
    json!({
        "servers": {"x": server}, "record": {"dir": "records"},
        "gateway": {
            "approvers": approvers, "drain_delay": "off",
            "tokens": [principal("ann", false), principal("rea", false), principal("bob", true), principal("carl", true)],
        },
    })
}

fn token(who: &str) -> Option<&'static str> {
    match who {
        "ann" => Some("ann-0123456789-token"),
        "rea" => Some("rea-0123456789-token"),
        "bob" => Some("bob-0123456789-token"),
        "carl" => Some("carl-0123456789-token"),
        _ => None,
    }
}

fn legacy_call(n: u64) -> String {
    json!({"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": {"name": "x__do", "arguments": {"n": n}}})
        .to_string()
}

/// A call of a client that cannot show forms.
fn formless(arguments: &Value) -> Value {
    let mut call = modern_call("x__do", arguments);
    call["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    call
}

#[test]
fn an_admin_who_is_not_the_caller_decides_a_call_of_either_era() {
    let gateway = Gateway::open("admins", json!({}));
    let hostile = json!({"text": "<img src=x onerror=alert(1)>\u{202e}\u{1b}[2J", "n": 12345678901234567890u64});
    std::thread::scope(|scope| {
        let api = &gateway.api;
        let called = scope.spawn(|| api.modern("ann", &modern_call("x__do", &hostile)));
        let listed = gateway.waiting(1);
        let [call] = listed.as_slice() else { panic!("{listed:?}") };
        assert_eq!((&call["principal"], &call["server"], &call["tool"]), (&json!("ann"), &json!("x"), &json!("do")));
        assert_eq!(
            (&call["rule"], &call["own"]),
            (&json!("needs approval: matches `ask: do`"), &json!(false)),
            "{call}"
        );
        let sent = call["arguments"].as_str().unwrap();
        assert!(
            sent.contains(r"<img src=x onerror=alert(1)>\u{202e}\u001b[2J") && sent.contains("12345678901234567890"),
            "{sent}"
        );
        for (who, expected) in [("nobody", 401), ("ann", 403), ("rea", 403)] {
            assert_eq!(gateway.api(who, "GET approvals", "").0, expected, "{who}");
            assert_eq!(gateway.decide(who, &call["id"], true).0, expected, "{who}");
        }
        for body in ["", "{}", r#"{"approve":"yes"}"#, r#"{"approve":true,"as":"carl"}"#] {
            let line = format!("POST approvals/{}", call["id"].as_str().unwrap());
            assert_eq!(gateway.api("bob", &line, body).0, 400, "{body}");
        }
        assert_eq!(gateway.decide("bob", &json!("0"), true).0, 404);
        assert_eq!(gateway.decide("bob", &call["id"], true).0, 200);
        assert_eq!(gateway.decide("carl", &call["id"], false).0, 404, "the first decision counts");
        assert_eq!(called.join().unwrap()["isError"], json!(null));
        let logged = gateway.serving.logged(&["an admin decided the call"]);
        assert!(logged.contains("bob") && logged.contains("ann"), "{logged}");

        let called = scope.spawn(|| {
            let call = serde_json::from_str(&legacy_call(2)).unwrap();
            api.session("ann", &json!({"elicitation": {}})).post(&call).body
        });
        let listed = gateway.waiting(1);
        assert_eq!(gateway.decide("carl", &listed[0]["id"], false).0, 200);
        let answer = called.join().unwrap();
        assert!(answer.contains("a person declined it") && !answer.contains("elicitation"), "{answer}");
    });
    assert_eq!(calls(&gateway.file).len(), 1);
    let (_, recent) = gateway.api("ann", "GET calls", "");
    let traces = recent["calls"].to_string();
    assert!(traces.contains(r#"the admin \"bob\" approved the call"#), "{traces}");
    assert!(traces.contains(r#"the admin \"carl\" declined the call"#), "{traces}");
}

#[test]
fn nobody_decides_a_call_of_its_own() {
    let gateway = Gateway::open("admins", json!({}));
    std::thread::scope(|scope| {
        let api = &gateway.api;
        let called = scope.spawn(|| api.modern("bob", &formless(&json!({}))));
        let listed = gateway.waiting(1);
        let (_, own) = gateway.api("bob", "GET approvals", "");
        assert_eq!((&own["approvals"][0]["own"], &own["approvers"]), (&json!(true), &json!("admins")));
        for approve in [true, false] {
            let (status, refused) = gateway.decide("bob", &listed[0]["id"], approve);
            assert!(status == 403 && refused["error"].as_str().unwrap().contains("another name"), "{status} {refused}");
        }
        // Not on the page either.
        let tried = scope.spawn(|| api.api("bob", "POST mcp/call", r#"{"name":"x__do","ask":true}"#));
        let listed = gateway.waiting(2);
        assert!(calls(&gateway.file).is_empty());
        for call in &listed {
            assert_eq!(gateway.decide("carl", &call["id"], true).0, 200);
        }
        assert_eq!(called.join().unwrap()["isError"], json!(null));
        assert_eq!(tried.join().unwrap().1["code"], "ok");
    });
    assert_eq!(calls(&gateway.file).len(), 2);
}

#[test]
fn a_call_waits_for_as_long_as_its_caller_and_its_rules() {
    let gateway = Gateway::open("admins", json!({}));
    let client = gateway.session("ann", &json!({}));
    let events = stream_of(&client, &legacy_call(1));
    gateway.waiting(1);
    client.post(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}));
    gateway.waiting(0);
    drop(events);
    // A client that hangs up is gone, since it has no event id to come back with.
    drop({
        let events = stream_of(&client, &legacy_call(2));
        gateway.waiting(1);
        events
    });
    gateway.waiting(0);
    let client = gateway.session_of("ann", "2025-11-25", &json!({}));
    let mut stream = TcpStream::connect(&gateway.address).unwrap();
    let message = legacy_call(3);
    write!(
        stream,
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nAuthorization: Bearer {}\r\n\
         MCP-Protocol-Version: 2025-11-25\r\nMcp-Session-Id: {}\r\nContent-Length: {}\r\n\r\n{message}",
        token("ann").unwrap(),
        client.session.as_ref().unwrap(),
        message.len()
    )
    .unwrap();
    gateway.waiting(1);
    drop(stream);
    gateway.waiting(0);
    // So is one without a session.
    let message =
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": formless(&json!({}))}).to_string();
    let mut stream = TcpStream::connect(&gateway.address).unwrap();
    write!(
        stream,
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nAuthorization: Bearer {}\r\n\
         MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: x__do\r\n\
         Content-Length: {}\r\n\r\n{message}",
        token("ann").unwrap(),
        message.len()
    )
    .unwrap();
    gateway.waiting(1);
    drop(stream);
    gateway.waiting(0);

    std::thread::scope(|scope| {
        let api = &gateway.api;
        let called = scope.spawn(|| api.modern("ann", &formless(&json!({}))));
        let old = gateway.waiting(1).remove(0);
        // The same rule with another reason: what was shown counts no more, and the call is shown again.
        gateway.reload("admins", &json!({"ask": ["d*"]}));
        let new = gateway.waiting(1).remove(0);
        assert_ne!(old["id"], new["id"]);
        assert_eq!(new["rule"], "needs approval: matches `ask: d*`");
        assert_eq!(gateway.decide("bob", &old["id"], true).0, 404);
        assert!(calls(&gateway.file).is_empty());
        // By the new rules, nobody is asked.
        gateway.reload("admins", &json!({"deny": ["do"]}));
        gateway.waiting(0);
        let denied = called.join().unwrap();
        assert_eq!(denied["_meta"]["toolgate/refusal"], json!({"code": "not-allowed"}), "{denied}");
        assert_eq!((&denied["isError"], &denied["resultType"]), (&json!(true), &json!("complete")), "{denied}");
    });
    assert!(calls(&gateway.file).is_empty());
}

#[test]
fn a_call_that_waited_for_its_server_is_decided_by_the_rules_that_hold_then() {
    let gateway = Gateway::open("admins", json!({}));
    let pipe = gateway.place.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // The server starts when there is a line in the pipe.
    let mut args = vec![json!("-c"), json!("read line < \"$0\"; exec \"$@\""), json!(pipe)];
    args.push(gateway.server["command"].clone());
    args.extend(gateway.server["args"].as_array().unwrap().iter().cloned());
    let late = json!({"command": "sh", "args": args});
    gateway.reload("admins", &late);
    let since = Instant::now();
    let in_time = || assert!(since.elapsed() < LONG);
    std::thread::scope(|scope| {
        let api = &gateway.api;
        let called = scope.spawn(|| api.modern("ann", &formless(&json!({}))));
        while api.api("carl", "GET servers", "").1["servers"][0]["state"] != "connecting" {
            in_time();
            std::thread::yield_now();
        }
        gateway.reload("admins", &and(late, json!({"deny": ["do"]})));
        let mut pipe = File::options().read(true).write(true).open(pipe).unwrap();
        pipe.write_all(b"\n\n\n").unwrap();
        while !called.is_finished() {
            in_time();
            assert!(gateway.waiting(0).is_empty(), "nobody is asked by rules that hold no more");
        }
        let denied = called.join().unwrap();
        assert_eq!(denied["_meta"]["toolgate/refusal"], json!({"code": "not-allowed"}), "{denied}");
        assert_eq!((&denied["isError"], &denied["resultType"]), (&json!(true), &json!("complete")), "{denied}");
    });
    assert!(calls(&gateway.file).is_empty());
}

#[test]
fn a_call_that_waits_is_not_made_for_a_caller_who_lost_its_token_meanwhile() {
    let gateway = Gateway::open("admins", json!({}));
    let client = gateway.session("ann", &json!({}));
    let mut events = stream_of(&client, &legacy_call(1));
    gateway.waiting(1);
    // By the new rules nobody would be asked, but ann is not known any more.
    let mut config = config(&and(gateway.server.clone(), json!({"ask": []})), "admins");
    config["gateway"]["tokens"].as_array_mut().unwrap().retain(|token| token["principal"] != "ann");
    gateway.place.file(FILE, config.to_string());
    gateway.serving.logged(&["was reloaded"]);
    if let Some(refused) = events.next() {
        assert!(refused["error"]["message"].as_str().is_some_and(|why| why.contains("was revoked")), "{refused}");
    }
    assert_eq!(gateway.modern("bob", &formless(&json!({})))["isError"], json!(null));
    assert_eq!(calls(&gateway.file).len(), 1, "that of bob");
}

#[test]
fn a_call_that_nobody_decides_in_time_is_not_made() {
    let gateway = Gateway::open("admins", json!({"timeouts": {"call": "100ms", "total": "300ms"}}));
    let called = gateway.modern("ann", &modern_call("x__do", &json!({})));
    let text = called["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("no admin decided it within 300ms"), "{called}");
    assert!(gateway.waiting(0).is_empty() && calls(&gateway.file).is_empty());
}

#[test]
fn either_the_client_or_an_admin_decides_and_the_first_answer_counts() {
    let gateway = Gateway::open("either", json!({}));
    let client = gateway.session("ann", &json!({"elicitation": {}}));
    // The admin is first: the question is withdrawn.
    let mut events = stream_of(&client, &legacy_call(1));
    let question = events.next().unwrap();
    assert_eq!(question["method"], "elicitation/create");
    let listed = gateway.waiting(1);
    assert_eq!(gateway.decide("bob", &listed[0]["id"], true).0, 200);
    let withdrawn = events.next().unwrap();
    assert_eq!(
        (&withdrawn["method"], &withdrawn["params"]["requestId"]),
        (&json!("notifications/cancelled"), &question["id"])
    );
    assert_eq!(events.next().unwrap()["id"], 1);
    // The client is first: the call waits no more.
    let mut events = stream_of(&client, &legacy_call(2));
    let question = events.next().unwrap();
    gateway.waiting(1);
    client.post(&json!({"jsonrpc": "2.0", "id": question["id"], "result": yes()}));
    assert_eq!(events.next().unwrap()["id"], 2);
    gateway.waiting(0);
    assert_eq!(calls(&gateway.file).len(), 2);
    // A client of 2026-07-28 that shows forms is asked alone; for another one, an admin decides.
    let call = modern_call("x__do", &json!({"n": 3}));
    let asked = gateway.modern("ann", &call);
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    gateway.waiting(0);
    assert_eq!(gateway.modern("ann", &answered(&call, &asked, &yes()))["resultType"], "complete");
    std::thread::scope(|scope| {
        let api = &gateway.api;
        let called = scope.spawn(|| api.modern("ann", &formless(&json!({"n": 4}))));
        let listed = gateway.waiting(1);
        assert_eq!(gateway.decide("bob", &listed[0]["id"], true).0, 200);
        assert_eq!(called.join().unwrap()["resultType"], "complete");
    });
    assert_eq!(calls(&gateway.file).len(), 4);
}

#[test]
fn without_the_key_no_call_waits_for_an_admin() {
    let gateway = Gateway::open("client", json!({}));
    let called = gateway.modern("ann", &formless(&json!({})));
    assert!(called["content"][0]["text"].as_str().unwrap().contains("could not ask its user"), "{called}");
    let (status, listed) = gateway.api("bob", "GET approvals", "");
    assert_eq!((status, listed), (200, json!({"approvers": "client", "approvals": []})));
}

#[test]
fn the_list_is_bounded_and_a_call_beyond_it_is_refused() {
    let gateway = Gateway::open("admins", json!({}));
    let client = gateway.session("ann", &json!({}));
    let waiting: Vec<_> = (0..25).map(|n| stream_of(&client, &legacy_call(n + 1))).collect();
    gateway.waiting(25);
    let called = gateway.modern("ann", &formless(&json!({})));
    let text = called["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("too many calls of this principal wait"), "{called}");
    assert!(calls(&gateway.file).is_empty());
    drop(waiting);
    gateway.waiting(0);
}

#[test]
fn a_record_tells_who_decided_and_replays() {
    let mut gateway = Gateway::open("admins", json!({}));
    for approve in [true, false] {
        let api = &gateway.api;
        std::thread::scope(|scope| {
            scope.spawn(|| api.modern("ann", &formless(&json!({"n": 1}))));
            let listed = gateway.waiting(1);
            assert_eq!(gateway.decide("bob", &listed[0]["id"], approve).0, 200);
        });
    }
    gateway.serving.signal(rustix::process::Signal::TERM);
    gateway.serving.ended();
    let records = gateway.place.path("home/records").display().to_string();
    let bare = Place::new();
    let report = bare.run(&["replay", &records, "--json"]).ends(0).json();
    assert_eq!((&report["ok"], &report["same"]), (&json!(true), &json!(2)), "{report}");
    bare.run(&["explain", "last", "--record", &records]).ends(0).prints("← the admin \"bob\" declined the call");
    let listed = bare.run(&["calls", "--record", &records, "--json"]).ends(0).stdout;
    assert!(listed.contains(r#"the admin \"bob\" approved the call"#), "{listed}");
}

#[test]
fn who_tries_a_tool_is_asked_and_its_answer_starts_one_call() {
    let gateway = Gateway::open("client", json!({}));
    let ask = |who: &str, body: Value| gateway.api(who, "POST mcp/call", &body.to_string());
    let call = json!({"name": "x__do", "arguments": {"text": "<b>\u{202e}"}, "ask": true});
    let (_, asked) = ask("bob", call.clone());
    let question = &asked["approval"];
    assert_eq!(
        (&question["tool"], &question["arguments"]),
        (&json!("do"), &json!(r#"{"text":"<b>\u{202e}"}"#)),
        "{asked}"
    );
    let given = |approve: bool| json!({"state": question["state"], "approve": approve});
    let other = and(call.clone(), json!({"arguments": {"text": "other"}, "approval": given(true)}));
    for (who, body) in [
        ("bob", other),
        ("carl", and(call.clone(), json!({"approval": given(true)}))),
        ("bob", and(call.clone(), json!({"approval": {"state": "toolgate/x/asked/1/1/AA/", "approve": true}}))),
    ] {
        assert!(ask(who, body.clone()).1["approval"]["state"].is_string(), "{who} {body}");
    }
    assert!(calls(&gateway.file).is_empty());
    let yes = and(call.clone(), json!({"approval": given(true)}));
    assert_eq!(ask("bob", yes.clone()).1["code"], "ok");
    assert!(ask("bob", yes).1["approval"].is_object(), "one answer starts one call");
    let (_, asked) = ask("bob", call.clone());
    let no = and(call.clone(), json!({"approval": {"state": asked["approval"]["state"], "approve": false}}));
    assert_eq!(ask("bob", no).1["code"], "declined");
    // Who cannot ask a person is declined, and who may not call is refused.
    assert_eq!(ask("bob", json!({"name": "x__do"})).1["code"], "declined");
    assert_eq!(ask("ann", call).0, 403);
    assert_eq!(calls(&gateway.file).len(), 1);
}
