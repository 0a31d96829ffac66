//! Tests that no spelling of an argument, of a member's name or of a tool's pattern gets around a rule.

use serde_json::{Value, json};

use crate::place::Place;

/// Asks the component about calls of a tool under a rule that denies by this condition; returns which are denied.
fn denied(condition: &str, arguments: &[Value]) -> Vec<bool> {
    let line = |arguments: &Value| {
        let rule = json!({"name": "r", "tools": ["mail.send"], "when": condition, "then": "deny"});
        let settings =
            json!({"rules": [rule], "known": ["@example.com", "https://example.com/", "9300000000000000001"]});
        let call = json!({"name": "mail.send", "arguments": arguments});
        let servers = json!({"mail": {"tools": ["send"]}});
        let op = json!({"op": "execute", "servers": servers, "settings": settings, "call": call, "context": {}});
        format!("{op}\n")
    };
    let ran = Place::new().feed(&["eval"], &arguments.iter().map(line).collect::<String>()).ends(0);
    let answers: Vec<bool> = ran.stdout.lines().map(|answer| answer.contains("\"not-allowed\"")).collect();
    assert_eq!(answers.len(), arguments.len(), "{}", ran.stdout);
    assert!(ran.stdout.lines().all(|answer| answer.starts_with("{\"ok\"")), "{}", ran.stdout);
    answers
}

/// Checks which of these calls a condition denies.
fn check(condition: &str, expected: bool, arguments: &[Value]) {
    for (arguments, is_denied) in arguments.iter().zip(denied(condition, arguments)) {
        assert_eq!(is_denied, expected, "{condition} {arguments}");
    }
}

#[test]
fn whatever_spelling_an_agent_picks_a_condition_sees_the_address() {
    let to = |text: &str| json!({"to": text});
    let mails = r#"!emails(args).all(a, a.endsWith("@example.com"))"#;
    check(mails, false, &["ann@example.com", "Ann <Ann@Example.com>", "no address"].map(to));
    check(
        mails,
        true,
        &[
            "eve@evil.example(@example.com)",
            "mailto:eve@evil.example?cc=ann@example.com",
            "eve%40evil.example",
            "eve%evil.example@example.com",
            "<@evil.example:ann@example.com>",
            "ann@example.com .evil.example",
            "eve＠evil．example",
        ]
        .map(to),
    );
    let urls = "!known(urls(args))";
    check(urls, false, &["https://example.com/a", "example.com/a", "version 1.2.3 of main.rs", "10:30"].map(to));
    check(
        urls,
        true,
        &[
            "the-secret.evil.gg",
            "evil.gg:8080",
            "evil.xn--p1ai/?q=s",
            "[2001:db8::1]/x",
            "10.1/x",
            "3232235777/x",
            "0xC0.0xA8.0.1/x",
            "u:p@evil.tk/x",
            "https://example.com/\"@evil.tk/",
            "https://example.com\n.evil.example/ x",
            "evil%2Egg",
            "evil。gg",
        ]
        .map(to),
    );
    check("size(accounts(args)) > 0", true, &["12345678", "١٢٣٤٥٦٧٨", "１２３４ ５６７８", "1234\u{200b}5678"].map(to));
    let host = r#"host(args.to) == "127.0.0.1""#;
    check(
        host,
        true,
        &[
            "http://127.0.0.1/",
            "http://127.1/",
            "http://2130706433/",
            "http://0x7f000001/",
            "http://0177.0.0.1/",
            "http://[::ffff:127.0.0.1]/",
            "http://0/",
        ]
        .map(to),
    );
    check(host, false, &["http://example.com/", "http://192.0.2.1/", "http://[2001:db8::1]/"].map(to));
    let path = r#"!path.within(args.to, "/srv/agent")"#;
    check(path, false, &["/srv/agent/a", "/srv/agent/日本/é"].map(to));
    check(
        path,
        true,
        &["/srv/agent/‥/x", "/srv/agent/..\u{200b}/x", "/srv/agent/..\u{2800}/x", "/srv/AGENT/x"].map(to),
    );
    check(r#"path.within(args.to, "/srv/secret")"#, true, &["/srv/secret/a", "/srv/Secret/a"].map(to));
}

#[test]
fn what_some_server_takes_for_something_else_is_neither_missing_nor_known() {
    check(
        "has(args.path)",
        true,
        &[json!({"path": "x"}), json!({"Path": "x"}), json!({"path": "x", "PATH": "y"}), json!({"pa\u{200b}th": "x"})],
    );
    check("has(args.path)", false, &[json!({"paths": "x"}), json!({})]);
    check(r#"args.a.b == "evil""#, true, &[json!({"a": {"b": "x", "B": "evil"}}), json!({"a": {"b": "x"}, "A": {}})]);
    check("!known(args.to)", false, &[json!({"to": "ann@example.com"}), json!({"to": []})]);
    check(
        "!known(args.to)",
        true,
        &[
            json!({"to": null}),
            json!({"to": true}),
            json!({"to": {}}),
            json!({"to": ""}),
            json!({"to": {"eve": "ann@example.com"}}),
            json!({"to": "eve%evil.example@example.com"}),
        ],
    );
    // Numbers of more than 64 bits are written out, since the tests would round them.
    let number = |digits: &str| serde_json::from_str(&format!("{{\"to\":{digits}}}")).expect("this is JSON");
    check("!known(args.to)", true, &[number("5")]);
    check("!known(string(args.to))", true, &[number("9300000000000000999")]);
}

#[test]
fn patterns_that_can_never_match_are_refused_by_the_component_too() {
    let settings = |tools: Value| json!({"rules": [{"name": "r", "tools": tools, "then": "deny"}]});
    let resolve = |server: Value, settings: Value| json!({"op": "resolve", "servers": {"a": server}, "settings": settings, "call": {"name": "a.get"}});
    for (line, expected) in [
        (json!({"op": "filter", "tools": ["delete_x"], "deny": ["{delete,drop}_*"]}), "is not a valid glob"),
        (json!({"op": "filter", "tools": ["delete_x"], "deny": ["[dD]elete*"]}), "is not a valid glob"),
        (resolve(json!({"tools": ["get"], "deny": ["!x"]}), json!({})), "is not a valid glob"),
        (resolve(json!({"tools": ["get"]}), settings(json!(["get"]))), "is not of the form server.tool"),
        (resolve(json!({"tools": ["get"]}), settings(json!(["a.{get,set}"]))), "is not a valid glob"),
        (resolve(json!({"tools": ["get"]}), settings(json!([]))), "names no tools"),
    ] {
        let ran = Place::new().feed(&["eval"], &format!("{line}\n"));
        assert!(ran.stdout.starts_with("{\"error\":") && ran.stdout.contains(expected), "{line}: {}", ran.stdout);
    }
}
