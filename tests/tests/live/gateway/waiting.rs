//! Tests servers that hang or never start: calls to other servers do not wait for them.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolgate::config;
use toolgate::gateway::GatewayOptions;

use super::{Lines, serve_over};

/// A plain server between one that never comes up and one that does not answer requests with these words.
fn config(deaf_to: &[&str]) -> config::model::Config {
    let fixture = env!("CARGO_BIN_EXE_fixture");
    let words: String = deaf_to.iter().map(|word| format!(" -e {word}")).collect();
    let script = format!("grep --line-buffered -v{words} | {fixture} plain");
    let yaml = format!(
        "servers:\n  never: {{command: sleep, args: ['1000']}}\n  deaf: {{command: sh, args: [-c, {script:?}]}}\n  \
         well: {{command: {fixture:?}, args: [chatty]}}\n"
    );
    config::parse(&yaml, Path::new("toolgate.yaml")).expect("the test's configuration is right")
}

/// What a list of an answer names.
fn names(answer: &Value, list: &str) -> Vec<String> {
    let items = answer["result"][list].as_array().unwrap_or_else(|| panic!("{answer}"));
    items.iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect()
}

/// Asks, and says how long the answer took.
async fn timed(lines: &mut Lines, method: &str, params: Value) -> (Value, Duration) {
    let began = Instant::now();
    let (answer, _) = lines.ask(method, method, params).await;
    (answer, began.elapsed())
}

#[tokio::test]
async fn a_server_that_hangs_keeps_nobody_waiting_for_another() {
    let config = config(&["resources/list", "resources/templates/list", "prompts/list"]);
    let (stream, _served) = serve_over(config, HashMap::new(), GatewayOptions::default());
    let mut lines = Lines::greet(stream, json!({})).await;
    // Less than any limit that would be waited for.
    let soon = Duration::from_secs(5);
    for _ in 0..2 {
        let (answer, took) = timed(&mut lines, "resources/read", json!({"uri": "chatty://secret"})).await;
        assert!(answer["result"]["contents"][0]["text"].is_string(), "{answer}");
        assert!(took < soon, "{took:?}");
        let (answer, took) = timed(&mut lines, "prompts/get", json!({"name": "well__big"})).await;
        assert!(answer["result"]["messages"].is_array(), "{answer}");
        assert!(took < soon, "{took:?}");
    }
    let (answer, _) = timed(&mut lines, "resources/read", json!({"uri": "chatty://of/anything"})).await;
    assert_eq!(answer["error"]["message"], "no such thing", "its template fits");
    // The first list waits as long as that of tools does, and the next ones do not.
    let (answer, took) = timed(&mut lines, "prompts/list", json!({})).await;
    assert_eq!(names(&answer, "prompts"), ["well__big"]);
    assert!(took < Duration::from_secs(25), "{took:?}");
    let (answer, took) = timed(&mut lines, "prompts/list", json!({})).await;
    assert_eq!(names(&answer, "prompts"), ["well__big"]);
    assert!(took < soon, "{took:?}");
}

#[tokio::test]
async fn a_server_that_cannot_start_keeps_no_list_waiting_and_is_told_of_when_it_can() {
    let fixture = env!("CARGO_BIN_EXE_fixture");
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    // Nobody listens here any more.
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let yaml = format!(
        "servers:\n  absent: {{command: /no/such/program}}\n  \
         unset: {{command: '${{TOOLGATE_TEST_UNSET}}'}}\n  \
         dead: {{command: {fixture:?}, args: [dies-before]}}\n  \
         refused: {{url: 'http://{closed}/mcp'}}\n  \
         late: {{command: {program:?}, args: [plain], restart_delays: [100ms]}}\n  \
         well: {{command: {fixture:?}, args: [chatty]}}\n"
    );
    let config = config::parse(&yaml, Path::new("toolgate.yaml")).expect("the test's configuration is right");
    let (stream, _served) = serve_over(config, HashMap::new(), GatewayOptions::default());
    let mut lines = Lines::greet(stream, json!({})).await;
    let soon = Duration::from_secs(5);
    for round in 0..2 {
        for (method, list, first) in [
            ("tools/list", "tools", "well__say"),
            ("prompts/list", "prompts", "well__big"),
            ("resources/list", "resources", "chatty://big"),
        ] {
            let (answer, took) = timed(&mut lines, method, json!({})).await;
            assert!(took < soon, "{round} {method} {took:?}");
            assert_eq!(names(&answer, list)[0], first, "{round}");
        }
    }
    for (server, why) in [("absent", "was not found"), ("unset", "TOOLGATE_TEST_UNSET")] {
        let (answer, took) = timed(&mut lines, "tools/call", json!({"name": format!("{server}__x")})).await;
        let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"));
        assert!(text.contains(why), "{text}");
        assert!(took < soon, "{server} {took:?}");
    }
    std::os::unix::fs::symlink(fixture, &program).unwrap();
    while lines.next().await["method"] != "notifications/resources/list_changed" {}
    let (answer, _) = timed(&mut lines, "prompts/list", json!({})).await;
    assert_eq!(names(&answer, "prompts").len(), 2, "{answer}");
    let (answer, _) = timed(&mut lines, "resources/list", json!({})).await;
    assert_eq!(names(&answer, "resources").len(), 3, "{answer}");
}

#[tokio::test]
async fn a_server_that_passes_over_what_it_does_not_know_is_in_the_first_list() {
    let config = super::fixtures(&[("deaf", "silent-discover")], "");
    let (stream, _served) = serve_over(config, HashMap::new(), GatewayOptions::default());
    let mut lines = Lines::greet(stream, json!({})).await;
    let (answer, _) = timed(&mut lines, "tools/list", json!({})).await;
    assert_eq!(names(&answer, "tools"), ["deaf__echo", "deaf__add"]);
}

#[tokio::test]
async fn a_list_that_comes_late_is_told_of() {
    let fixture = env!("CARGO_BIN_EXE_fixture");
    let yaml = format!(
        "servers:\n  slow: {{command: {fixture:?}, args: [slow-start, '14']}}\n  well: {{command: {fixture:?}, args: [chatty]}}\n"
    );
    let config = config::parse(&yaml, Path::new("toolgate.yaml")).expect("the test's configuration is right");
    let (stream, _served) = serve_over(config, HashMap::new(), GatewayOptions::default());
    let mut lines = Lines::greet(stream, json!({})).await;
    let (answer, _) = timed(&mut lines, "resources/list", json!({})).await;
    assert_eq!(answer["result"]["resources"].as_array().unwrap().len(), 2, "{answer}");
    while lines.next().await["method"] != "notifications/resources/list_changed" {}
    let (answer, _) = timed(&mut lines, "resources/list", json!({})).await;
    assert_eq!(answer["result"]["resources"].as_array().unwrap().len(), 3, "{answer}");
}
