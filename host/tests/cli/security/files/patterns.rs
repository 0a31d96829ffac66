//! Tests that a rule without effect is reported: after a typing error, nobody should believe that a tool is denied.

use serde_json::{Value, json};

use crate::place::{Place, Ran, and, fixture_with};
use crate::serving::{Serving, Web};

const TOOLS: [&str; 3] = ["git_reset", "git_log", "add"];
const HINT: &str = "deny: \"git_reste\" matches none of its 3 tools; did you mean \"git_reset\"?";
const ADMIN: &str = "0123456789abcdef0123456789abcdef";
const READER: &str = "fedcba9876543210fedcba9876543210";

fn server(rules: Value) -> Value {
    and(fixture_with("names", &TOOLS), rules)
}

fn run(config: &Value, arguments: &[&str]) -> Ran {
    Place::configured(config).run(arguments)
}

#[test]
fn a_pattern_that_fits_no_tool_is_a_warning_with_the_nearest_name() {
    let config = json!({"servers": {"git": server(json!({"deny": ["git_reste", "git_l*"], "ask": ["ADD"]}))}});
    let ran = run(&config, &["check"]).ends(0);
    assert!(ran.stdout.contains("✓ git") && ran.stdout.contains(&format!("    warning: {HINT}\n")), "{ran:#?}");
    assert_eq!(ran.stdout.matches("warning").count(), 1, "{ran:#?}");
    let json = run(&config, &["check", "--json"]).ends(0).json();
    assert_eq!(json["servers"][0]["warnings"], json!([HINT]));
    run(&config, &["access"]).ends(0).says(HINT);
    assert_eq!(
        run(&config, &["access", "--json"]).ends(0).json()["warnings"],
        json!([{"server": "git", "text": HINT}])
    );
    run(&config, &["tools"]).ends(0).says("WARN").says(HINT);
}

#[test]
fn every_list_about_tools_is_looked_at() {
    let rules = json!({"allow": ["ad"], "tools": {"git_lgo": {"requires": ["x"]}}, "tool_queues": {"git-l?g?": "q"}});
    let config = json!({
        "gateway": {"tokens": [
            {"principal": "ci", "token": ADMIN, "servers": {"git": ["git__add"]}},
            {"principal": "cd", "token": READER, "capabilities": ["tool:git/git-log"]},
        ]},
        "queues": {"q": 1},
        "servers": {"git": server(rules)},
    });
    let warnings = run(&config, &["check", "--json"]).ends(0).json()["servers"][0]["warnings"].clone();
    assert_eq!(
        warnings,
        json!([
            "allow: \"ad\" matches none of its 3 tools; did you mean \"add\"?",
            "tools: \"git_lgo\" matches none of its 3 tools; did you mean \"git_log\"?",
            "token of \"ci\": servers: \"git__add\" matches none of its 3 tools; did you mean \"add\"?",
            "token of \"cd\": capabilities: \"tool:git/git-log\" matches none of its 3 tools; did you mean \"git_log\"?",
            "tool_queues: \"git-l?g?\" matches none of its 3 tools; did you mean \"git_log\"?",
        ])
    );
}

#[test]
fn rules_that_fit_are_not_warned_of() {
    let rules = json!({"allow": ["*"], "deny": ["GIT_RESET"], "ask": ["?dd"], "tools": {" Add ": {"requires": []}}});
    let ran = run(&json!({"servers": {"git": server(rules)}}), &["check"]).ends(0);
    assert!(!ran.stdout.contains("warning") && ran.stderr.is_empty(), "{ran:#?}");
}

#[test]
fn a_broken_glob_is_an_error_with_its_place() {
    for (key, glob) in [("deny", "["), ("allow", "get_{a,b}"), ("ask", "!x"), ("disabledTools", "a\\*"), ("deny", " ")]
    {
        let place = Place::new();
        let text = format!("servers:\n  git:\n    command: x\n    {key}: [ok, '{glob}']\n");
        let file = place.file("home/toolgate.yaml", text);
        let ran = place.run(&["check", "--config", file.to_str().unwrap()]).ends(2);
        let column = 12 + key.len();
        let at = format!("toolgate.yaml:4:{column}: servers.git.");
        assert!(ran.stdout.contains("✗ git") && ran.stdout.contains(&at), "{at} {glob:?} {ran:#?}");
    }
    let tokens = json!([{"principal": "a", "token": ADMIN, "servers": {"git": ["[a-z]"]}}]);
    let config = json!({"gateway": {"tokens": tokens}, "servers": {"git": server(json!({}))}});
    run(&config, &["check"]).ends(2).says("servers.yaml:1:").says("is not a valid glob");
}

#[test]
fn a_list_that_would_name_no_tool_disables_the_server() {
    for (list, told) in [
        ("true", "does not say which tools"),
        ("yes", "does not say which tools"),
        ("'None'", "does not say which tools"),
        ("[add, true]", "expected the name of a tool, found true"),
        ("'add, git_reset'", "not a valid glob"),
        ("'add|git_reset'", "not a valid glob"),
        ("'^(add)$'", "not a valid glob"),
        ("\"add\\u200b\"", "not a valid glob"),
        ("git__git_reset", "write \"git_reset\""),
        ("[add, git.git_reset]", "write \"git_reset\""),
        ("' Git__git_reset'", "write \"git_reset\""),
    ] {
        for key in ["deny", "ask", "allow"] {
            let place = Place::new();
            let text = format!("servers:\n  git:\n    command: x\n    {key}: {list}\n");
            let file = place.file("home/toolgate.yaml", text);
            let ran = place.run(&["check", "--config", file.to_str().unwrap()]).ends(2);
            assert!(ran.stdout.contains("✗ git") && ran.stdout.contains(told), "{key}: {list} {ran:#?}");
        }
    }
}

#[test]
fn a_condition_on_a_label_that_nothing_gives_is_warned_of() {
    let rule =
        |label: &str| json!({"name": "r", "tools": ["*"], "when": format!("\"{label}\" in labels"), "then": "deny"});
    let config = json!({
        "results": {"git.*": {"labels": ["untrusted"]}},
        "rules": [
            rule("untrustd"),
            {"name": "gives", "tools": ["git.add"], "then": {"label": ["seen"]}},
            {"name": "asks", "tools": ["*"], "when": "\"seen\" in labels || \"untrusted\" in labels", "then": "ask"},
        ],
        "servers": {"git": server(json!({}))},
    });
    let warning = "rule \"r\": no result and no rule gives the label \"untrustd\"; did you mean \"untrusted\"?";
    let warnings = run(&config, &["check", "--json"]).ends(0).json()["warnings"].clone();
    assert!(warnings[0].as_str().unwrap().ends_with(warning), "{warnings}");
    assert_eq!(warnings.as_array().unwrap().len(), 1);
}

#[test]
fn a_gateway_warns_when_tools_become_known_and_when_rules_change() {
    let config = |deny: &str, selected: &str| {
        json!({
            "gateway": {"tokens": [
                {"principal": "boss", "token": ADMIN, "admin": true},
                {"principal": "reader", "token": READER, "servers": {"git": [selected]}},
            ]},
            "servers": {"git": server(json!({"deny": [deny]}))},
        })
    };
    let place = Place::configured(&config("git_reste", "git_log"));
    let serving = Serving::start(&place, &["--http", "127.0.0.1:0"]);
    let address = serving.address();
    let web = |token| Web { address: &address, token: Some(token), session: None };
    assert!(web(ADMIN).modern_tools().is_ok());
    assert!(serving.logged(&[HINT]).contains("WARN"));
    let warnings = |token| -> Vec<Value> {
        let reply = web(token).request("GET /api/v1/servers", "localhost", &[], "");
        let body: Value = serde_json::from_str(&reply.body).unwrap();
        body["warnings"].as_array().unwrap().iter().map(|warning| warning["text"].clone()).collect()
    };
    assert_eq!(warnings(ADMIN), [HINT]);
    // A token that selects nothing is told to the admin, when the file is read again.
    place.file("home/servers.yaml", config("git_reste", "git_lgo").to_string());
    serving.logged(&["token of \"reader\": servers: \"git_lgo\" matches none"]);
    assert_eq!(warnings(ADMIN).len(), 2);
    // What was mended is no warning any more.
    place.file("home/servers.yaml", config("git_reset", "git_log").to_string());
    serving.logged(&["was reloaded", "updated git"]);
    assert!(web(ADMIN).modern_tools().is_ok());
    assert!(warnings(ADMIN).is_empty());
    assert!(serving.logged_so_far().iter().all(|line| !line.contains("matches none")));
}
