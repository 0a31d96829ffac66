//! Tests how a gateway over HTTP leaves its load balancer when signals end it.

use std::io::{Read, Write};
use std::net::TcpStream;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::place::{Place, demo, fixture_with};
use crate::serving::{LONG, Serving, Web, appears};
use crate::signals::until;

/// A gateway with this drain delay.
fn gateway(drain_delay: &str) -> Place {
    Place::configured(&json!({"gateway": {"drain_delay": drain_delay, "grace": "10s"}, "servers": {"demo": demo()}}))
}

/// What `/ready` says to whoever shows no token and names this host.
fn ready(address: &str, host: &str) -> (u16, Value) {
    let reply = Web { address, token: None, session: None }.request("GET /ready", host, &[], "");
    (reply.status, serde_json::from_str(&reply.body).unwrap_or_else(|_| panic!("{reply:?}")))
}

/// Calls a tool over a connection that the client would keep, and gives the response when the gateway has closed it.
fn call_and_wait_for_the_end(address: &str) -> String {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({"name": "demo__echo", "arguments": {"text": "hello"}, "_meta": meta});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(LONG)).unwrap();
    let length = body.len();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\n\
         Mcp-Name: demo__echo\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("it answers");
    text
}

/// Checks a gateway that has got SIGTERM: it is not ready, serves, and ends with the next signal.
fn check_draining(place: &Place, mut serving: Serving, address: &str, last: Signal) {
    until("draining gateway", || (ready(address, "localhost").0 == 503).then_some(()));
    assert_eq!(ready(address, "10.1.2.3:8899"), (503, json!({"ready": false, "draining": true})));
    let (status, details) = ready(address, "localhost");
    assert_eq!((status, &details["ready"], &details["draining"]), (503, &json!(false), &json!(true)), "{details}");
    assert!(details["waits_for"].is_array() && details["warnings"].is_array(), "{details}");
    let health = Web { address, token: None, session: None }.request("GET /health", "10.1.2.3:8899", &[], "");
    assert_eq!(health.status, 200);
    for _ in 0..2 {
        let reply = call_and_wait_for_the_end(address);
        assert!(reply.starts_with("HTTP/1.1 200 ") && reply.contains("hello"), "{reply}");
        assert!(reply.to_ascii_lowercase().contains("\r\nconnection: close\r\n"), "{reply}");
    }
    place.run(&["status"]).ends(0).prints(" is draining ");
    let status = place.run(&["status", "--json"]).ends(0).json();
    assert_eq!((&status["gateway"]["draining"], &status["ready"]), (&json!(true), &json!(false)), "{status}");
    serving.signal(last);
    assert_eq!(serving.ended().code(), Some(0));
}

#[test]
fn after_sigterm_it_serves_on_until_another_signal() {
    for last in [Signal::TERM, Signal::INT] {
        let place = gateway("1h");
        let serving = Serving::start(&place, &["--http", "127.0.0.1:0"]);
        let address = serving.address();
        assert_eq!(ready(&address, "10.1.2.3:8899"), (200, json!({"ready": true, "waits_for": 0})));
        serving.signal(Signal::TERM);
        check_draining(&place, serving, &address, last);
    }
}

#[test]
#[cfg(target_os = "linux")]
fn where_interrupts_are_ignored_it_is_the_same() {
    let place = gateway("1h");
    let serving = Serving::start_under_nohup(&place, &["--http", "127.0.0.1:0"]);
    let address = serving.address();
    serving.signal(Signal::INT);
    serving.signal(Signal::TERM);
    check_draining(&place, serving, &address, Signal::TERM);
}

#[test]
fn an_interrupt_ends_it_without_delay_and_a_delay_ends_by_itself() {
    for (drain_delay, signal) in [("1h", Signal::INT), ("50ms", Signal::TERM), ("off", Signal::TERM)] {
        let place = gateway(drain_delay);
        let mut serving = Serving::start(&place, &["--http", "127.0.0.1:0"]);
        serving.address();
        serving.signal(signal);
        assert_eq!(serving.ended().code(), Some(0), "{drain_delay}");
    }
}

#[test]
fn on_standard_input_and_output_there_is_no_delay() {
    let place = gateway("1h");
    let mut serving = Serving::greet(&place, &[]);
    serving.signal(Signal::TERM);
    assert_eq!(serving.ended().code(), Some(130));
}

#[test]
fn a_reload_changes_the_delay() {
    let place = gateway("1h");
    let mut serving = Serving::start(&place, &["--http", "127.0.0.1:0", "-v"]);
    serving.address();
    let config = json!({"version": 1, "gateway": {"drain_delay": "50ms"}, "servers": {"demo": demo()}});
    place.file("home/servers.yaml", config.to_string());
    serving.signal(Signal::HUP);
    serving.logged(&["the configuration was reloaded"]);
    serving.signal(Signal::TERM);
    assert_eq!(serving.ended().code(), Some(0));
}

#[test]
fn a_call_that_outlasts_the_grace_is_answered_by_whether_it_may_have_run() {
    for (tool, is_unknown) in [("do", true), ("look", false)] {
        let folder = Place::new();
        let begun = folder.path("begun");
        let slow = fixture_with("holds", &[begun.to_str().unwrap(), "/no/such/file"]);
        let place = Place::configured(&json!({
            "gateway": {"grace": "200ms", "drain_delay": "50ms"}, "servers": {"slow": slow},
        }));
        let mut serving = Serving::start(&place, &["--http", "127.0.0.1:0"]);
        let address = serving.address();
        let mut web = Web { address: &address, token: None, session: None };
        assert_eq!(web.greet().status, 200);
        let params = json!({"name": format!("slow__{tool}")});
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let reply = std::thread::scope(|scope| {
            let call = scope.spawn(|| web.post(&call));
            appears(&begun);
            serving.signal(Signal::TERM);
            call.join().unwrap()
        });
        assert_eq!(reply.status, 200, "{reply:?}");
        let answer: Value = serde_json::from_str(&reply.body).unwrap_or_else(|_| panic!("{reply:?}"));
        assert_eq!((&answer["id"], &answer["result"]["isError"]), (&json!(1), &json!(true)), "{answer}");
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.ends_with("(the gateway was stopped)"), "{text}");
        assert_eq!(text.contains("outcome unknown"), is_unknown, "{text}");
        assert_eq!(serving.ended().code(), Some(0));
    }
}
