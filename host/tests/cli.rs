//! The binary as a person or a script meets it: what it prints where, and how it ends.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs the binary with a cache of its own test run.
fn toolgate(arguments: &[&str], input: &str) -> Output {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache");
    let mut child = Command::new(env!("CARGO_BIN_EXE_toolgate"))
        .args(arguments)
        .env("TOOLGATE_CACHE_DIR", cache)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    // A command that reads nothing may have ended already.
    let _ = child.stdin.take().expect("stdin is piped").write_all(input.as_bytes());
    child.wait_with_output().expect("the binary ends")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("it prints UTF-8")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("it prints UTF-8")
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("it is not killed")
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
    assert_eq!((code(&output), stderr(&output).as_str()), (0, ""));
    let text = stdout(&output);
    let answers: Vec<&str> = text.lines().collect();
    assert_eq!(answers.len(), 8, "{answers:?}");
    assert_eq!(answers[0], r#"{"ok":"a.b"}"#);
    assert!(answers[1..7].iter().all(|answer| answer.starts_with("{\"error\":\"")), "{answers:?}");
    assert_eq!(answers[7], r#"{"ok":{"server":"a","tool":"b"}}"#);
}

#[test]
fn route_shows_an_example_where_nothing_is_asked() {
    let output = toolgate(&["route"], "");
    assert_eq!(code(&output), 0);
    assert!(
        stdout(&output).starts_with("demo__forecast  → tool \"forecast\" of server \"demo\"\n"),
        "{}",
        stdout(&output)
    );
    assert!(stderr(&output).contains("built-in demo server"), "{}", stderr(&output));
    assert!(!stdout(&output).contains('\u{1b}'), "no colour without a terminal");
}

#[test]
fn route_answers_programs_in_json() {
    let output = toolgate(&["route", "mcp__demo__add", "a: 1, b: 2.50", "--json", "--target", "gemini"], "");
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let text = stdout(&output);
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
        (&["route", "a.y", "--servers", &servers], 5, "deny: \"y\" keeps it out"),
        (&["route", "demo.add", "a: 1"], 2, "missing required property \"b\""),
        (&["route", "a.x", "--servers", &bad], 2, "unknown field `tols`"),
        (&["route", "a.x", "--servers", "/nowhere"], 2, "/nowhere"),
        (&["route", "--servers", &servers], 2, "NAME is missing"),
        (&["route", "a.x", "--target", "nobody"], 2, "possible values: openai, anthropic, gemini, cursor, mcp"),
        (&["frobnicate"], 2, "unrecognized subcommand"),
    ] {
        let output = toolgate(arguments, "");
        assert_eq!(code(&output), expected, "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(says), "{arguments:?}: {}", stderr(&output));
        assert_eq!(stdout(&output), "", "{arguments:?}");
    }
}

#[test]
fn a_schema_of_ones_own_decides() {
    let schema = file("schema.json", r#"{"type":"object","properties":{"text":{"type":"integer"}}}"#);
    let output = toolgate(&["route", "demo.echo", "text: 42", "--schema", &schema, "--json"], "");
    assert!(stdout(&output).contains(r#""arguments":{"text":42}"#), "{}", stdout(&output));
    let output = toolgate(&["route", "demo.echo", "text: 42", "--json"], "");
    assert!(stdout(&output).contains(r#""arguments":{"text":"42"}"#), "{}", stdout(&output));
}

#[test]
fn names_of_servers_cannot_steer_a_terminal() {
    let servers = file("hostile.json", r#"{"a":{"tools":["x\u001b[31m","\u202ey"]}}"#);
    let output = toolgate(&["route", "a.z\u{1b}[2J", "--servers", &servers], "");
    assert_eq!(code(&output), 5);
    assert!(!stderr(&output).contains(['\u{1b}', '\u{202e}']), "{:?}", stderr(&output));
}

#[test]
fn the_component_can_be_taken_out_and_put_in_again() {
    let wasm = file("logic.wasm", "");
    assert_eq!(code(&toolgate(&["component", "--out", &wasm], "")), 0);
    let output = toolgate(&["eval", "--logic", &wasm], "{\"op\":\"backoff\",\"attempt\":3}\n");
    assert_eq!((stdout(&output).as_str(), stderr(&output).as_str()), ("{\"ok\":5000}\n", ""));
    let output = toolgate(&["component", "--wit"], "");
    assert!(stdout(&output).starts_with("package toolgate:logic@0.1.0;\n"));
    let output = toolgate(&["component", "--json"], "");
    assert!(stdout(&output).starts_with("{\"world\":\"toolgate:logic/logic@0.1.0\",\"bytes\":"));
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
        let error = stderr(&output);
        assert_eq!(code(&output), 2, "{error}");
        assert_eq!(error.matches(says).count(), 1, "{error}");
        assert!(error.starts_with("error: "), "{error}");
    }
}

#[test]
fn limits_are_settings() {
    let line = format!(
        "{{\"op\":\"arguments\",\"text\":\"{}\"}}\n{{\"op\":\"backoff\",\"attempt\":1}}\n",
        "x".repeat(8_000_000)
    );
    let output = toolgate(&["eval", "--max-memory", "8"], &line);
    let text = stdout(&output);
    let answers: Vec<&str> = text.lines().collect();
    assert!(answers[0].contains("memory"), "{}", &answers[0][..answers[0].len().min(300)]);
    assert_eq!(answers[1], "{\"ok\":1000}");
    let output = toolgate(&["eval", "--max-fuel", "1"], &line);
    assert!(stdout(&output).lines().next().unwrap().contains("fuel"), "{}", &stdout(&output)[..200]);
}

#[test]
fn help_and_completions_are_there() {
    let help = stdout(&toolgate(&["--help"], ""));
    for word in ["route", "eval", "component", "completions", "Examples:", "--logic"] {
        assert!(help.contains(word), "{word} is missing in:\n{help}");
    }
    assert!(stdout(&toolgate(&["eval", "--help"], "")).contains("{\"op\":\"lifecycle\""));
    for shell in ["bash", "zsh", "fish"] {
        assert!(stdout(&toolgate(&["completions", shell], "")).contains("toolgate"));
    }
}
