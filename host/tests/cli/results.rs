//! Tests what one server's settings do to its results.

use serde_json::{Value, json};

use crate::place::{Place, and, demo};

/// A program that writes these words, whatever it reads.
fn writes(words: &str) -> Value {
    json!({"command": ["sh", "-c", format!("cat >/dev/null; echo {words}")]})
}

#[test]
fn a_server_can_have_its_own_summarizer_and_its_own_limit() {
    let place = Place::configured(&json!({
        "summarizer": writes("shared"),
        "summarize_above_tokens": 10,
        "servers": {
            "shared": demo(),
            "own": and(demo(), json!({"summarizer": writes("own")})),
            "patient": and(demo(), json!({"summarize_above_tokens": 1000})),
            "off": and(demo(), json!({"summarizer": false})),
        },
    }));
    let text = "x".repeat(100);
    for (server, expected) in [
        ("shared", "shared\n\n[SUMMARIZED — Original size: 100B]\n"),
        ("own", "own\n\n[SUMMARIZED — Original size: 100B]\n"),
        ("patient", &*format!("{text}\n")),
        ("off", &*format!("{text}\n")),
    ] {
        let ran = place.run(&["call", &format!("{server}.echo"), &format!("text: {text}")]).ends(0);
        assert_eq!(ran.stdout, expected, "{server}");
    }
}

#[test]
fn a_summarizer_of_one_server_needs_no_other() {
    let server = and(demo(), json!({"summarizer": writes("own"), "summarize_above_tokens": 10}));
    let place = Place::with(json!({"own": server, "other": demo()}));
    let text = format!("text: {}", "x".repeat(100));
    place.run(&["call", "own.echo", &text]).ends(0).prints("[SUMMARIZED");
    let other = place.run(&["call", "other.echo", &text]).ends(0);
    assert!(!other.stdout.contains("SUMMARIZED"), "{}", other.stdout);
}

#[test]
fn the_full_text_of_a_summary_is_kept() {
    let place = Place::new();
    let folder = place.path("home/kept");
    let place = place.and_configured(&json!({
        "summarizer": writes("short"),
        "summarize_above_tokens": 10,
        "spill": {"dir": folder},
        "servers": {"demo": demo()},
    }));
    let text = "y".repeat(100);
    let ran = place.run(&["call", "demo.echo", &format!("text: {text}")]).ends(0);
    let path = ran.stdout.split("[FULL TEXT: ").nth(1).and_then(|rest| rest.split(']').next());
    let path = path.unwrap_or_else(|| panic!("no path in {}", ran.stdout));
    assert_eq!(std::fs::read_to_string(path).unwrap(), text);
}

#[test]
fn text_that_is_json_becomes_structured_content_where_the_server_asks_for_it() {
    let place = Place::with(json!({"plain": demo(), "read": and(demo(), json!({"structured_text": true}))}));
    let said = json!({"text": r#"{"n": 1.10}"#}).to_string();
    let structured = |server: &str| {
        let ran = place.run(&["call", "--json", &format!("{server}.echo"), &said]).ends(0);
        (ran.json()["structured"].clone(), ran.json()["text"].clone())
    };
    assert_eq!(structured("read"), (json!({"n": 1.10}), json!(r#"{"n": 1.10}"#)));
    assert_eq!(structured("plain").0, Value::Null);
}

#[test]
fn tools_can_be_named_with_single_underscores() {
    let place = Place::configured(&json!({"names": "mcp-underscore", "servers": {"demo": demo()}}));
    place.run(&["tools"]).ends(0).prints("mcp_demo_echo");
    assert_eq!(place.run(&["call", "mcp_demo_echo", "text: hi"]).ends(0).stdout, "hi\n");
}

#[test]
fn a_model_that_cannot_read_resources_can_get_tools_for_it() {
    let place = Place::configured(&json!({"resource_tools": true, "servers": {"demo": demo()}}));
    place.run(&["tools"]).ends(0).prints("toolgate__list_resources").prints("toolgate__read_resource");
    let listed = place.run(&["call", "toolgate__list_resources"]).ends(0);
    assert!(listed.stdout.contains("demo: demo://readme ("), "{}", listed.stdout);
    let read = place.run(&["call", "toolgate__read_resource", "uri: demo://readme"]).ends(0);
    assert_eq!(read.stdout, place.run(&["resources", "read", "demo://readme"]).ends(0).stdout);
    let missing = place.run(&["call", "toolgate__read_resource", "uri: demo://nothing"]).ends(1);
    assert!(missing.stdout.contains("no server has \"demo://nothing\""), "{}", missing.stdout);
    // Naming the server does not make it answer for what it does not list.
    for uri in ["file:///etc/passwd".to_owned(), "x".repeat(9000)] {
        let arguments = json!({"uri": uri, "server": "demo"}).to_string();
        let refused = place.run(&["call", "toolgate__read_resource", &arguments]).ends(1);
        let said = refused.stdout.contains("no server has \"file:///etc/passwd\"")
            || refused.stdout.contains("has 9000 bytes");
        assert!(said, "{}", refused.stdout);
    }
    place.run(&["call", "toolgate__read_resource"]).ends(2).says("missing required property \"uri\"");

    let without = Place::with(json!({"demo": demo()}));
    let tools = without.run(&["tools"]).ends(0);
    assert!(!tools.stdout.contains("list_resources"), "{}", tools.stdout);
}

#[test]
fn a_server_is_told_the_id_of_the_session() {
    let place = Place::with(json!({"a": crate::place::fixture_with("measures", &["{{.SESSION_ID}}"])}));
    assert_eq!(place.run(&["call", "a.do"]).ends(0).stdout, "32 letters\n");
}

#[test]
fn access_lists_the_tools_that_read_resources() {
    let token = |name: &str, servers: Value| json!({"principal": name, "token": format!("{name}-secret-of-sixteen"), "servers": servers});
    let place = Place::configured(&json!({
        "resource_tools": true,
        "gateway": {"tokens": [token("ann", json!({"a": ["echo"]}))]},
        "servers": {"a": demo(), "b": demo()},
    }));
    let rows = place.run(&["access", "--principal", "ann", "--csv"]).ends(0).stdout;
    for tool in ["list_resources", "read_resource"] {
        let row = rows.lines().find(|row| row.contains(tool)).unwrap_or_else(|| panic!("no {tool} in {rows}"));
        assert!(row.contains("allow"), "{row}");
    }
}
