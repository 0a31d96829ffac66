//! Tests that one client with many open connections does not lock out others.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use serde_json::json;

use super::{Gateway, tcp};

/// Opens a stream of news, and says with which status it begins.
fn listen(gateway: &Gateway, token: &str) -> (u16, TcpStream) {
    let mut stream = tcp(&gateway.address);
    let head = format!("GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line).unwrap();
    (line.split(' ').nth(1).unwrap().parse().unwrap(), stream)
}

fn three_principals() -> serde_json::Value {
    let token = |name: &str| json!({"principal": name, "token": format!("{name}-0123456789abcdef")});
    json!({"max_connections": 40, "tokens": [token("ann"), token("bob"), token("cid")]})
}

#[test]
fn streams_of_one_principal_leave_room_for_the_others_and_for_health() {
    let gateway = Gateway::start(three_principals());
    let (ann, bob, cid) = ("ann-0123456789abcdef", "bob-0123456789abcdef", "cid-0123456789abcdef");
    let mut streams: Vec<_> = (0..60).map(|_| listen(&gateway, ann)).collect();
    let open = streams.iter().filter(|(status, _)| *status == 200).count();
    assert!((20..40).contains(&open), "{open} of 40 connections tell news to one principal");
    assert_eq!(gateway.web(None).request("GET /health", "localhost", &[], "").status, 200);
    streams.extend((0..60).map(|_| listen(&gateway, bob)));
    assert!(streams.last().unwrap().0 == 200 || streams.iter().skip(60).any(|(status, _)| *status == 200));
    for _ in 0..3 {
        assert_eq!(gateway.web(None).request("GET /health", "localhost", &[], "").status, 200);
        assert_eq!(gateway.web(None).request("GET /ready", "localhost", &[], "").status, 200);
        assert_eq!(gateway.web(Some(cid)).modern_tools().map(|tools| tools.len()), Ok(6));
        assert_eq!(gateway.web(Some(bob)).modern_tools().map(|tools| tools.len()), Ok(6));
    }
    let (status, _stream) = listen(&gateway, cid);
    assert_eq!(status, 200, "who has no stream gets one");
}

#[test]
fn silent_sockets_keep_nobody_out() {
    for settings in [three_principals(), json!({"max_connections": 40})] {
        let gateway = Gateway::start(settings);
        let token = Some("ann-0123456789abcdef");
        let mut silent: Vec<_> = (0..300).map(|_| tcp(&gateway.address)).collect();
        for (at, stream) in silent.iter_mut().enumerate().filter(|(at, _)| at % 2 == 0) {
            // One that was closed to make room takes no more.
            let _ = stream.write_all(if at % 4 == 0 { b"GET /mcp HTTP/1.1\r\nHost: loc" } else { b"\x16" });
        }
        for _ in 0..3 {
            assert_eq!(gateway.web(None).request("GET /health", "localhost", &[], "").status, 200);
            assert_eq!(gateway.web(token).modern_tools().map(|tools| tools.len()), Ok(6));
        }
    }
}

#[test]
fn streams_without_a_token_leave_room_for_requests() {
    let gateway = Gateway::start(json!({"max_connections": 8}));
    let streams: Vec<_> = (0..20).map(|_| listen(&gateway, "none")).collect();
    assert_eq!(streams.iter().filter(|(status, _)| *status == 200).count(), 6);
    assert_eq!(gateway.web(None).request("GET /health", "localhost", &[], "").status, 200);
    assert_eq!(gateway.web(None).modern_tools().map(|tools| tools.len()), Ok(6));
}
