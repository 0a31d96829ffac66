//! Tests the commands that use only the component, such as `eval`, `route` and `component`.

use std::path::Path;

use serde_json::json;

use crate::place::{Place, Ran, and, demo};

fn toolgate(arguments: &[&str], input: &str) -> Ran {
    Place::new().feed(arguments, input)
}

fn file(name: &str, content: impl AsRef<[u8]>) -> String {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, content).expect("the folder for tests is writable");
    path.to_str().expect("the path is UTF-8").to_owned()
}

#[test]
fn eval_answers_each_line_and_goes_on_after_errors() {
    let lines = "{\"op\":\"normalize\",\"name\":\"a__b\"}\nnonsense\n\n[1]\n{}\n{\"op\":\"what\"}\n\
                 {\"op\":\"split\",\"name\":\"a.b\",\"more\":1}\n{\"op\":\"split\",\"name\":\"a.b\"}";
    let output = toolgate(&["eval"], lines);
    assert_eq!((output.code, output.stderr.as_str()), (0, ""));
    let text = output.stdout;
    let answers: Vec<&str> = text.lines().collect();
    assert_eq!(answers.len(), 8, "{answers:?}");
    assert_eq!(answers[0], r#"{"ok":"a.b"}"#);
    assert!(answers[1..7].iter().all(|answer| answer.starts_with("{\"error\":\"")), "{answers:?}");
    assert_eq!(answers[7], r#"{"ok":{"server":"a","tool":"b"}}"#);
}

#[test]
fn eval_errors_have_a_code_and_the_trace_of_the_decision() {
    for (line, code, trace) in [
        ("nonsense", "invalid-line", ""),
        ("{\"op\":\"what\"}", "invalid-line", ""),
        ("{\"op\":\"fit\",\"target\":\"no\",\"tools\":[]}", "invalid-line", ""),
        (r#"{"op":"mask","groups":["no"],"text":"x"}"#, "invalid-masks", ""),
        (r#"{"op":"extract","result":[]}"#, "unreadable-result", ""),
        (r#"{"op":"read-calls","text":"f(1)","tools":[{"name":"f"}]}"#, "unreadable-text", ""),
        (
            r#"{"op":"resolve","servers":{"a":{"tools":["x"]}},"selection":{"servers":[]},"call":{"name":"a.x"}}"#,
            "invalid-settings",
            "",
        ),
        (r#"{"op":"resolve","servers":{"a":{"tools":["x"]}},"call":{"name":"b.x"}}"#, "unknown-server", "b.x"),
        (
            r#"{"op":"resolve","servers":{"a":{"tools":["x"],"deny":["x"]}},"call":{"name":"a.x"}}"#,
            "not-allowed",
            "denied by",
        ),
    ] {
        let answer = toolgate(&["eval"], line).json();
        assert!(answer["error"].is_string(), "{answer}");
        assert_eq!(answer["code"], code, "{answer}");
        let notes: Vec<&str> = answer["trace"].as_array().unwrap().iter().map(|note| note.as_str().unwrap()).collect();
        assert!(notes.join(" ").contains(trace), "{answer}");
        assert_eq!(notes.is_empty(), trace.is_empty(), "{answer}");
    }
}

#[test]
fn route_shows_an_example_where_nothing_is_asked() {
    let output = toolgate(&["route"], "");
    assert_eq!(output.code, 0);
    assert!(output.stdout.starts_with("demo__forecast  → tool \"forecast\" of server \"demo\"\n"), "{}", output.stdout);
    assert!(output.stderr.contains("built-in demo server"), "{}", output.stderr);
    assert!(!output.stdout.contains('\u{1b}'), "no colour without a terminal");
}

#[test]
fn route_answers_programs_in_json() {
    let output = toolgate(&["route", "mcp__demo__add", "a: 1, b: 2.50", "--json", "--target", "gemini"], "");
    assert_eq!(output.code, 0, "{}", output.stderr);
    let text = output.stdout;
    assert!(text.contains(r#""server":"demo","tool":"add","arguments":{"a":1,"b":2.50}"#), "{text}");
    assert!(text.contains(r#""fitted":{"target":"gemini","name":"demo__add""#), "{text}");
    assert_eq!(text.lines().count(), 1);
}

#[test]
fn route_ends_with_a_code_for_each_kind_of_failure() {
    let servers = file("servers.json", r#"{"a":{"tools":["x","y"],"deny":["y"]}}"#);
    let bad = file("bad.json", "{\"a\":{\"tols\":[]}}");
    for (arguments, expected, says) in [
        (&["route", "nope.x"][..], 5, "Available servers: demo"),
        (&["route", "demo.nope"], 5, "Available tools: echo, add, sleep, picture, fail, forecast"),
        (&["route", "a.y", "--servers", &servers], 5, "denied by `deny: y`"),
        (&["route", "demo.add", "a: 1"], 2, "missing required property \"b\""),
        (&["route", "a.x", "--servers", &bad], 2, "unknown field `tols`"),
        (&["route", "a.x", "--servers", "/nowhere"], 2, "/nowhere"),
        (&["route", "--servers", &servers], 2, "NAME is missing"),
        (&["route", "a.x", "--target", "nobody"], 2, "possible values: openai, anthropic, gemini, cursor, mcp"),
        (&["frobnicate"], 2, "unrecognized subcommand"),
    ] {
        let output = toolgate(arguments, "");
        assert_eq!(output.code, expected, "{arguments:?}: {}", output.stderr);
        assert!(output.stderr.contains(says), "{arguments:?}: {}", output.stderr);
        assert_eq!(output.stdout, "", "{arguments:?}");
    }
}

#[test]
fn route_decides_on_the_configured_servers() {
    let entry = and(demo(), json!({"allow": ["echo", "add"]}));
    let place = Place::with(json!({"mine": entry, "away": {"command": "no-such-program-here"}}));
    let ran = place.run(&["route", "mine__add", "a: 1, b: 2", "--json"]).ends(0);
    assert_eq!((&ran.json()["server"], ran.stderr.as_str()), (&json!("mine"), ""), "only what is needed is started");
    let ran = place.run(&["route", "mine.add", "a: 1, b: 2", "--json", "--target", "openai"]).ends(0);
    assert_eq!(ran.json()["fitted"]["name"], "mine__add");
    place.run(&["route", "mine.fail", "x"]).ends(5).says("allow");
    place.run(&["route", "mine.add", "a: 1"]).ends(2).says("missing required property \"b\"");
    place.run(&["route", "away.add"]).ends(3).says("no-such-program-here");
}

#[test]
fn route_takes_arguments_as_call_does() {
    let place = Place::with(json!({"demo": demo()}));
    place.file("work/arguments.json", r#"{"text": "hi"}"#);
    for (arguments, input) in [
        (&["-"][..], "text: hi"),
        (&["@arguments.json"], ""),
        (&["text:", "hi"], ""),
        (&["text=hi"], ""),
        (&["hi"], ""),
    ] {
        let ran = place.feed(&[&["route", "demo.echo", "--json"], arguments].concat(), input).ends(0);
        assert_eq!(ran.json()["arguments"], json!({"text": "hi"}), "{arguments:?}");
    }
    place.run(&["route", "demo.add", "@nowhere.json"]).ends(2).says("nowhere.json");
}

#[test]
fn a_schema_of_ones_own_decides() {
    let schema = file("schema.json", r#"{"type":"object","properties":{"text":{"type":"integer"}}}"#);
    let output = toolgate(&["route", "demo.echo", "text: 42", "--schema", &schema, "--json"], "");
    assert!(output.stdout.contains(r#""arguments":{"text":42}"#), "{}", output.stdout);
    let output = toolgate(&["route", "demo.echo", "text: 42", "--json"], "");
    assert!(output.stdout.contains(r#""arguments":{"text":"42"}"#), "{}", output.stdout);
}

#[test]
fn names_of_servers_cannot_steer_a_terminal() {
    let servers = file("hostile.json", r#"{"a":{"tools":["x\u001b[31m","\u202ey"]}}"#);
    let output = toolgate(&["route", "a.z\u{1b}[2J", "--servers", &servers], "");
    assert_eq!(output.code, 5);
    assert!(!output.stderr.contains(['\u{1b}', '\u{202e}']), "{:?}", output.stderr);
}

#[test]
fn the_component_can_be_taken_out_and_put_in_again() {
    let wasm = file("logic.wasm", "");
    assert_eq!(toolgate(&["component", "--out", &wasm], "").code, 0);
    let output = toolgate(&["eval", "--logic", &wasm], "{\"op\":\"backoff\",\"attempt\":3}\n");
    assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("{\"ok\":5000}\n", ""));
    let output = toolgate(&["component", "--wit"], "");
    assert!(output.stdout.starts_with("package toolgate:logic@0.1.0;\n"));
    let output = toolgate(&["component", "--json"], "");
    assert!(output.stdout.starts_with("{\"world\":\"toolgate:logic/logic@0.1.0\",\"bytes\":"));
}

#[test]
fn the_component_of_world_client_can_be_taken_out_with_its_contract() {
    let wasm = file("client.wasm", "");
    assert_eq!(toolgate(&["component", "--world", "client", "--out", &wasm], "").code, 0);
    assert!(std::fs::read(&wasm).unwrap().starts_with(b"\0asm\x0d\0\x01\0"));
    let output = toolgate(&["component", "--world", "client", "--wit"], "");
    assert!(output.stdout.starts_with("package toolgate:client@0.1.0;\n"));
    assert!(output.stdout.contains("\npackage toolgate:logic@0.1.0 {\n"));
    let output = toolgate(&["component", "--world", "client", "--json"], "");
    assert!(output.stdout.starts_with("{\"world\":\"toolgate:client/client@0.1.0\",\"bytes\":"));
    let output = toolgate(&["component", "--world", "server"], "");
    assert!(output.code == 2 && output.stderr.contains("logic, client"), "{}", output.stderr);
}

#[test]
fn a_component_that_does_not_fit_is_refused_once_and_clearly() {
    for (content, says) in [
        (&b""[..], "the file is empty"),
        (b"#!/bin/sh", "does not begin like a WebAssembly binary"),
        (b"\0asm\x01\0\0\0", "it is a core module"),
        (b"\0asm\x0d\0\x01\0", "toolgate:logic/execution@0.1.0"),
    ] {
        let wasm = file(&format!("broken-{}.wasm", content.len()), content);
        let output = toolgate(&["eval", "--logic", &wasm], "{}\n");
        let error = output.stderr;
        assert_eq!(output.code, 2, "{error}");
        assert_eq!(error.matches(says).count(), 1, "{error}");
        assert!(error.starts_with(&format!("error: cannot use {wasm}: ")), "{error}");
    }
}

#[test]
fn a_component_of_the_other_world_is_known_for_what_it_is() {
    let wasm = file("other-world.wasm", "");
    assert_eq!(toolgate(&["component", "--world", "client", "--out", &wasm], "").code, 0);
    let error = toolgate(&["eval", "--logic", &wasm], "{}\n").ends(2).stderr;
    assert!(error.contains("other-world.wasm: this is a component of world toolgate:client/client;"), "{error}");
    assert!(error.contains("toolgate:logic/logic is needed"), "{error}");
}

#[test]
fn limits_are_settings() {
    let line = format!(
        "{{\"op\":\"arguments\",\"text\":\"{}\"}}\n{{\"op\":\"backoff\",\"attempt\":1}}\n",
        "x".repeat(8_000_000)
    );
    let output = toolgate(&["eval", "--max-memory", "8"], &line);
    let text = output.stdout;
    let answers: Vec<&str> = text.lines().collect();
    assert!(answers[0].contains("memory"), "{}", &answers[0][..answers[0].len().min(300)]);
    assert_eq!(answers[1], "{\"ok\":1000}");
    let output = toolgate(&["eval", "--max-fuel", "1"], &line);
    assert!(output.stdout.lines().next().unwrap().contains("fuel"), "{}", &output.stdout[..200]);
}

#[test]
fn only_options_for_a_gateway_stand_under_its_heading() {
    for command in ["tools", "call", "status"] {
        let help = toolgate(&[command, "--help"], "").stdout;
        let (_, gateway) = help.split_once("Options for a running gateway:\n").expect("it has the heading");
        let (gateway, _) = gateway.split_once("\n\nOptions for every command:").expect("these come last");
        let options: Vec<&str> = gateway.lines().map(str::trim).filter(|line| line.starts_with("--")).collect();
        assert_eq!(options, ["--gateway[=<URL>]", "--token-file <FILE>", "--ca <FILE>"], "{command}");
    }
}

#[test]
fn help_and_completions_are_there() {
    let help = toolgate(&["--help"], "").stdout;
    let commands = ["tools", "call", "resources", "prompts", "instructions", "check", "route", "eval", "component"];
    let others =
        ["trust", "schema", "import", "demo-server", "completions", "Examples:", "Exit codes:", "--logic", "--config"];
    for word in commands.into_iter().chain(others) {
        assert!(help.contains(word), "{word} is missing in:\n{help}");
    }
    assert!(toolgate(&["eval", "--help"], "").stdout.contains("{\"op\":\"lifecycle\""));
    for command in [&["--help"][..], &["access", "--help"], &["replay", "--help"]] {
        let help = toolgate(command, "").stdout;
        let examples = help.lines().filter(|line| line.starts_with("  toolgate "));
        assert_eq!(examples.filter(|line| line.chars().count() > 80).collect::<Vec<_>>(), [""; 0], "{command:?}");
        // A paragraph is wrapped where the terminal ends, and nowhere else.
        let lines: Vec<&str> = help.lines().collect();
        for pair in lines.windows(2).filter(|pair| pair.iter().all(|line| line.starts_with(char::is_alphanumeric))) {
            let next = pair[1].split(' ').next().unwrap_or_default();
            assert!(pair[0].chars().count() + 1 + next.chars().count() > 100, "{command:?}: {pair:?}");
        }
    }
    for shell in ["bash", "zsh", "fish"] {
        assert!(toolgate(&["completions", shell], "").stdout.contains("toolgate"));
    }
}
