//! Tests what one server's settings do to its results.

use serde_json::{Value, json};

use crate::place::{Place, and, demo, fixture_with};
#[cfg(unix)]
use crate::serving::Serving;

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

#[cfg(unix)]
#[test]
fn what_is_nested_too_deep_is_never_forwarded_unread() {
    let place = Place::with(json!({"deep": fixture_with("deep", &["500000"]), "flat": fixture_with("deep", &["100"])}));
    let mut serving = Serving::greet(&place, &[]);
    let refused = serving.call("deep__do");
    let text = refused["result"]["content"][0]["text"].as_str().unwrap_or_default();
    assert!(text.contains("nested deeper than 256 levels"), "{refused}");
    let failed = serving.call("deep__look").to_string();
    assert!(failed.len() < 1000 && failed.contains("nested deeper than 256 levels"), "{failed}");
    let read = serving.ask("resources/read", json!({"uri": "mem://page"})).to_string();
    assert!(read.len() < 1000, "{}", &read[..1000]);
    let passed = serving.call("flat__do").to_string();
    assert!(passed.contains(&"[".repeat(100)), "{passed}");
    let ran = place.run(&["call", "--json", "deep.do"]);
    assert_eq!(ran.json()["code"], "result-too-large");
}

#[cfg(unix)]
#[test]
fn content_that_is_no_list_breaks_the_protocol_with_and_without_masks() {
    for masking in [json!({}), json!({"groups": ["basic"]})] {
        for content in [r#""text""#, r#"{"type":"text","text":"text"}"#] {
            let server = fixture_with("answers-with", &[&format!(r#"{{"content":{content}}}"#)]);
            let place = Place::configured(&json!({"masking": masking, "servers": {"s": server}}));
            let answer = Serving::greet(&place, &[]).call("s__do").to_string();
            assert!(answer.contains("expected a list as"), "{answer}");
            let ran = place.run(&["call", "--json", "s.do"]);
            assert!(ran.stdout.contains("expected a list as"), "{ran:?}");
        }
    }
}

#[test]
fn structured_content_that_breaks_its_schema_is_told_in_the_trace_and_passed_on() {
    let told = "structured content does not satisfy the outputSchema of its tool: ";
    for (structured, problem) in [
        (r#"{"n":1}"#, None),
        (r#"{"n":"many"}"#, Some("\"n\": expected integer")),
        (r#"{"n":"1"}"#, Some("\"n\": ")),
        (r#"{"m":1}"#, Some("missing required property")),
    ] {
        for masking in [json!({}), json!({"groups": ["basic"]})] {
            let result = format!(r#"{{"content":[{{"type":"text","text":"a"}}],"structuredContent":{structured}}}"#);
            let server = fixture_with("answers-with", &[&result]);
            let place = Place::configured(&json!({"masking": masking, "servers": {"s": server}}));
            let ran = place.run(&["call", "--json", "s.do"]).ends(0);
            let json = ran.json();
            assert_eq!(json["structured"], serde_json::from_str::<Value>(structured).unwrap());
            let trace = json["trace"].as_array().unwrap();
            let note = trace.iter().filter_map(Value::as_str).find(|note| note.starts_with(told));
            assert_eq!(note.is_some(), problem.is_some(), "{trace:?}");
            assert!(note.unwrap_or_default().contains(problem.unwrap_or_default()), "{trace:?}");
        }
    }
}

#[test]
fn the_group_hidden_takes_out_what_no_reader_sees_and_says_so() {
    let text = "\u{1b}[31mred\u{1b}[0m in\u{200b}visible";
    for (masking, shown, told) in [
        (json!({}), text, false),
        (json!({"groups": ["hidden"]}), "red invisible", true),
        (json!({"groups": ["basic"]}), "red invisible", true),
    ] {
        let place = Place::configured(&json!({"masking": masking, "servers": {"demo": demo()}}));
        let ran = place.run(&["call", "--json", "demo.echo", &json!({"text": text}).to_string()]).ends(0);
        let json = ran.json();
        assert_eq!(json["text"], shown);
        let note = json!("taken out as hidden: 2 terminal sequences, 1 zero-width character");
        assert_eq!(json["trace"].as_array().unwrap().contains(&note), told, "{json}");
    }
}
