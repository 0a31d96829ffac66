//! Tests who may change a gateway without tokens, which origins may send requests, and which headers are trusted.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{Gateway, ask, echo, socket, tcp, unix};
use crate::place::{Place, demo};
use crate::serving::Web;

/// What changes something, with what it brings.
const CHANGES: [(&str, &str); 4] = [
    ("POST /api/v1/servers/demo/disable", ""),
    ("POST /api/v1/servers/demo/reconnect", ""),
    ("POST /api/v1/servers/demo/enable", ""),
    ("POST /api/v1/mcp/call", r#"{"name":"demo__echo","arguments":{"text":"hi"}}"#),
];

/// The state of the demo server.
fn state(web: &Web<'_>) -> String {
    let page = web.request("GET /api/v1/servers", "localhost", &[], "");
    let page: Value = serde_json::from_str(&page.body).unwrap_or_else(|_| panic!("{page:?}"));
    page["servers"][0]["state"].as_str().unwrap().to_owned()
}

#[test]
fn who_shows_no_token_may_look_and_call_and_changes_nothing() {
    let gateway = Gateway::start(json!({}));
    let web = gateway.web(None);
    for token in [None, Some("a-token-that-nobody-has")] {
        for (line, body) in CHANGES {
            let reply = gateway.web(token).request(line, "localhost", &[], body);
            assert!(reply.status == 401 && reply.body.contains("gateway.tokens"), "{line}: {reply:?}");
        }
    }
    assert_eq!((state(&web).as_str(), gateway.calls(None)), ("dormant", 0));
    let session = gateway.session("2025-06-18", None);
    assert_eq!(session.tools().unwrap().len(), 6);
    assert_eq!(session.post(&echo(1)).status, 200);
    assert_eq!(gateway.calls(None), 1);
    // The user who runs it may do everything, through its socket.
    let head = "HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";
    let reply = ask(unix(&gateway.socket()), &format!("POST /api/v1/servers/demo/disable {head}\r\n"));
    assert_eq!((reply.status, state(&web).as_str()), (200, "disabled"));
}

#[test]
fn a_page_of_another_origin_can_do_nothing() {
    let gateway = Gateway::start(json!({"origins": ["http://localhost:4000"]}));
    let (web, own) = (gateway.web(None), format!("Origin: http://{}", gateway.address));
    let call = echo(1).to_string();
    let port = gateway.address.rsplit(':').next().unwrap();
    let foreign = [
        "Origin: http://localhost:5173".to_owned(),
        "Origin: http://127.0.0.1:5173".to_owned(),
        "Origin: http://localhost".to_owned(),
        format!("Origin: https://127.0.0.1:{port}"),
        format!("Origin: http://127.0.0.2:{port}"),
        "Origin: http://localhost:4001".to_owned(),
        "Origin: null".to_owned(),
        "Sec-Fetch-Site: cross-site".to_owned(),
        "Sec-Fetch-Site: same-site".to_owned(),
        format!("{own}\r\nSec-Fetch-Site: cross-site"),
    ];
    for origin in &foreign {
        for (line, body) in CHANGES.into_iter().chain([
            ("POST /mcp", call.as_str()),
            ("GET /api/v1/mcp/tools", ""),
            ("GET /api/v1/events", ""),
            ("OPTIONS /mcp", ""),
            ("GET /", ""),
        ]) {
            let reply = web.request(line, "localhost", &[origin, "Access-Control-Request-Method: POST"], body);
            assert_eq!(reply.status, 403, "{line} with {origin}: {reply:?}");
            assert!(!reply.head.contains("access-control"), "{reply:?}");
        }
    }
    assert_eq!((state(&web).as_str(), gateway.calls(None)), ("dormant", 0));
    let listed = web.request("GET /api/v1/servers", "localhost", &["Origin: http://localhost:4000"], "");
    assert!(listed.status == 200 && listed.head.contains("access-control-allow-origin: http://localhost:4000"));
    let same = [own.as_str(), "Sec-Fetch-Site: same-origin"];
    assert_eq!(web.request("GET /api/v1/servers", "localhost", &same, "").status, 200);
    let visit = ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"];
    assert_eq!(web.request("GET /", "localhost", &visit, "").status, 200, "a link may lead to the dashboard");
}

#[test]
fn what_a_form_can_send_is_not_taken() {
    let gateway = Gateway::start(json!({}));
    for (line, body) in CHANGES.into_iter().chain([("POST /mcp", "{}")]) {
        for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"] {
            let head = format!("{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAccept: */*\r\n");
            let request = format!("{head}Content-Type: {kind}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            assert_eq!(ask(tcp(&gateway.address), &request).status, 415, "{line} as {kind}");
        }
    }
}

#[test]
fn what_says_who_asks_or_what_for_is_said_once() {
    let token = |name: &str| json!({"principal": name, "token": format!("{name}-0123456789abcdef"), "admin": true});
    let gateway = Gateway::start(json!({"tokens": [token("ann"), token("bob")]}));
    let (ann, bob) = ("ann-0123456789abcdef", "bob-0123456789abcdef");
    let call = echo(1).to_string();
    let first = Some(ann);
    for (token, header) in [
        (first, format!("Authorization: Bearer {bob}")),
        (first, format!("Authorization: Bearer {ann}")),
        (first, "Authorization: Bearer nobody".to_owned()),
        (first, "Authorization: Basic Og==".to_owned()),
        (None, format!("Authorization: Bearer {ann}, Bearer {bob}")),
        (None, format!("Authorization: Bearer {ann},Bearer {bob}")),
        (None, format!("Authorization: Bearer {ann} {bob}")),
        (first, "Host: localhost".to_owned()),
        (first, "Content-Type: application/json".to_owned()),
        (first, "Mcp-Session-Id: 1\r\nMcp-Session-Id: 1".to_owned()),
        (first, "MCP-Protocol-Version: 2025-06-18\r\nMCP-Protocol-Version: 2026-07-28".to_owned()),
        (first, format!("Origin: http://{0}\r\nOrigin: http://{0}", gateway.address)),
    ] {
        for line in ["POST /mcp", "GET /api/v1/servers", "GET /health", "POST /api/v1/servers/demo/disable"] {
            let reply = gateway.web(token).request(line, "localhost", &[&header], &call);
            assert_eq!(reply.status, 400, "{line} with {header}: {reply:?}");
        }
    }
    assert_eq!(state(&gateway.web(first)), "dormant");
    let head = format!("POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {ann}\r\nConnection: close\r\n");
    let lengths = "Content-Length: 2\r\nContent-Length: 3";
    assert_eq!(ask(tcp(&gateway.address), &format!("{head}{lengths}\r\n\r\n{{}}")).status, 400);
    let open = Gateway::start(json!({}));
    let twice = ["Authorization: Bearer one", "Authorization: Bearer two"];
    assert_eq!(open.web(None).request("GET /api/v1/servers", "localhost", &twice, "").status, 400);
}

/// A gateway at a terminal. Nothing tells it to end but its own process id.
struct AtTerminal {
    child: Child,
    pid: i32,
}

impl Drop for AtTerminal {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_raw(self.pid).unwrap(), Signal::KILL);
        let _ = self.child.wait();
    }
}

#[test]
fn the_token_of_the_dashboard_is_told_to_a_terminal_and_to_nothing_else() {
    let place = Place::with(json!({"demo": demo()}));
    let mut command = place.at_terminal(&["serve", "--http", "127.0.0.1:0", "-vvv"]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let path = socket(&place);
    let pid = path.file_stem().unwrap().to_str().unwrap().parse().unwrap();
    let at_terminal = AtTerminal { child, pid };
    let link = lines.find(|line| line.contains("#token=")).expect("a link");
    let (address, token) = link.trim().split_once("http://").unwrap().1.split_once("/#token=").unwrap();
    assert!(token.len() == 64 && token.bytes().all(|byte| byte.is_ascii_hexdigit()), "{link}");

    let web = Web { address, token: Some(token), session: None };
    for (line, body) in CHANGES {
        assert_eq!(web.request(line, "localhost", &[], body).status, 200, "{line}");
    }
    assert_eq!(Web { token: None, ..web }.request(CHANGES[0].0, "localhost", &[], "").status, 401);
    let web = Web { address, token: Some(token), session: None };
    assert_eq!(
        web.request("GET /api/v1/servers?token=x", "localhost", &["Origin: http://localhost:1"], "").status,
        403
    );
    drop(at_terminal);
    let later: Vec<_> = lines.collect();
    assert!(!later.iter().any(|line| line.contains(token)), "{later:#?}");

    let gateway = Gateway::start(json!({}));
    gateway.web(None).request("GET /", "localhost", &[], "");
    let log = gateway.serving.logged_so_far();
    assert!(!log.iter().any(|line| line.contains("token")), "{log:#?}");
}

#[test]
fn the_socket_can_be_turned_off() {
    let gateway = Gateway::start(json!({"socket": false}));
    assert_eq!(gateway.session("2025-06-18", None).tools().unwrap().len(), 6);
    assert!(!gateway.place.path("run/toolgate").exists());
    gateway.place.run(&["status"]).ends(3).says("no gateway of yours is running");
    let url = format!("--gateway=http://{}", gateway.address);
    gateway.place.run(&["status", &url]).ends(0);
    gateway.place.run(&["call", "demo.echo", "hi", &url]).ends(0);
}
