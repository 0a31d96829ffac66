//! Tests `toolgate resources`, `toolgate prompts` and `toolgate instructions`.

use serde_json::json;

use crate::place::{Place, and, demo, each, fixture};

#[test]
fn resources_are_listed_with_their_templates() {
    let place = Place::with(json!({"demo": demo(), "away": {"command": "no-such-program-here"}}));
    let ran = place.run(&["resources"]).ends(0).says("warning: server \"away\"");
    let rows: Vec<Vec<&str>> = ran.stdout.lines().map(|line| line.split("  ").map(str::trim).collect()).collect();
    assert_eq!(rows[0][0], "RESOURCE");
    assert_eq!((rows[1][0], rows[1].last()), ("demo://readme", Some(&"What the demo server offers.")));
    assert_eq!(rows[2][0], "demo://square/{number}");
    let listed = place.run(&["resources", "--json"]).ends(0).json();
    assert_eq!(each(&listed["resources"], "/uri"), ["demo://readme"]);
    assert_eq!(each(&listed["templates"], "/uriTemplate"), ["demo://square/{number}"]);
    assert_eq!(each(&listed["resources"], "/server"), ["demo"]);
    assert_eq!(each(&listed["failed"], "/server"), ["away"]);
    place.run(&["resources", "--server", "away"]).ends(3);
}

#[test]
fn a_resource_is_read_from_the_server_that_has_it() {
    let place = Place::with(json!({"demo": demo(), "other": fixture("ok"), "third": fixture("ok")}));
    let ran = place.run(&["resources", "read", "demo://readme"]).ends(0).prints("# The demo server of toolgate\n");
    assert_eq!(ran.stderr, "");
    let ran = place.run(&["resources", "read", "demo://square/12"]).ends(0);
    assert_eq!(ran.stdout, "144\n", "a template fits");
    let ran = place.run(&["resources", "read", "mem://page", "--server", "other", "--json"]).ends(0);
    assert_eq!(
        ran.json(),
        json!({"server": "other", "contents": [{"uri": "mem://page", "text": "this is mem://page"}]})
    );
    let ran = place.run(&["resources", "--server", "other", "read", "mem://blob"]).ends(0);
    assert_eq!(ran.stdout, "[image/png of about 6 bytes at mem://blob; --json prints it in base64]\n");
    place.run(&["resources", "read", "mem://page"]).ends(2).says("choose one with --server: other, third");
    place.run(&["resources", "read", "mem://nowhere"]).ends(5).says("no server lists \"mem://nowhere\"");
    place.run(&["resources", "read", "demo://nowhere", "--server", "demo"]).ends(1).says("no such resource");
}

#[test]
fn prompts_are_listed_and_got() {
    let place = Place::with(json!({"demo": demo(), "other": fixture("ok"), "third": fixture("ok")}));
    let ran = place.run(&["prompts"]).ends(0).prints("demo__greet  name").prints("other__ask");
    assert_eq!(ran.stderr, "");
    let listed = place.run(&["prompts", "--json"]).ends(0).json();
    assert_eq!(each(&listed["prompts"], "/server"), ["demo", "other", "third"]);
    assert_eq!(each(&listed["prompts"], "/name"), ["greet", "ask", "ask"]);
    for name in ["demo.greet", "demo__greet", "greet"] {
        let ran = place.run(&["prompts", "get", name, "name: Ada"]).ends(0);
        assert_eq!(ran.stdout, "user: Greet Ada in one friendly sentence.\n");
    }
    let ran = place.run(&["prompts", "get", "greet", "name=42", "--json"]).ends(0);
    let got = ran.json();
    assert_eq!(got["server"], "demo");
    assert_eq!(got["messages"][0]["content"]["text"], "Greet 42 in one friendly sentence.");
    place.run(&["prompts", "get", "ask"]).ends(2).says("write one of: other__ask, third__ask");
    place.run(&["prompts", "get", "nothing"]).ends(5).says("no prompt \"nothing\"");
    place.run(&["prompts", "get", "greet"]).ends(1).says("the argument \"name\" is missing");
    place.run(&["prompts", "get", "greet", "--server", "other"]).ends(5);
}

#[test]
fn a_prompt_gets_its_arguments_as_they_were_written() {
    let place = Place::with(json!({"demo": demo()}));
    for (written, sent) in [
        (&["name: 12345678901234567890123"][..], "12345678901234567890123"),
        (&["name: 1.10"], "1.10"),
        (&["name=1e5"], "1e5"),
        (&["name: None"], "None"),
        (&["name: True"], "True"),
        (&["name: Ada, Countess"], "Ada, Countess"),
        (&["Bob"], "Bob"),
        (&["Ada", "King"], "Ada King"),
        (&[r#"{"name": 1.10}"#], "1.10"),
    ] {
        let ran = place.run(&[&["prompts", "get", "demo.greet"], written].concat()).ends(0);
        assert_eq!(ran.stdout, format!("user: Greet {sent} in one friendly sentence.\n"), "{written:?}");
    }
}

#[test]
fn what_is_no_text_in_a_prompt_leaves_a_line() {
    let ran = Place::with(json!({"pictures": fixture("pictures")})).run(&["prompts", "get", "ask"]).ends(0);
    assert_eq!(ran.stdout, "user: [image image/png, 3 B]\nuser: [resource mem://blob]\nuser: This is a page.\n");
}

#[test]
fn instructions_are_one_text_for_a_model() {
    let place = Place::with(json!({
        "demo": and(demo(), json!({"tools": {"add": {"note": "Use it for sums."}}})),
        "other": and(fixture("ok"), json!({"instructions": "Ask before you use it."})),
        "away": {"command": "no-such-program-here"},
    }));
    let ran = place.run(&["instructions"]).ends(0);
    let expected = [
        "#### MCP Server: demo\nA server for trying things.",
        "##### Tool: demo__add\nUse it for sums.",
        "#### MCP Server: other\nAsk before you use it.",
        "## Unavailable MCP Servers",
        "- **away**: cannot connect: \"no-such-program-here\" was not found",
        "Do not attempt to use tools from these servers.",
    ];
    let mut rest = ran.stdout.as_str();
    for text in expected {
        let place = rest.find(text).unwrap_or_else(|| panic!("no {text:?}, or out of order, in {ran:#?}"));
        rest = &rest[place + text.len()..];
    }
    let json = place.run(&["instructions", "--json"]).ends(0).json();
    assert_eq!(json["instructions"].as_str().map(str::trim_end), Some(ran.stdout.trim_end()));
}

#[test]
fn commands_that_need_a_configuration_say_where_one_is_looked_for() {
    let place = Place::new();
    for command in [&["check"][..], &["resources"], &["prompts"], &["instructions"], &["resources", "read", "x:y"]] {
        let ran = place.run(command).ends(2).says("error: no configuration found; give one with --config");
        for name in ["work/toolgate.yaml", "work/.mcp.json", "work/mcp.json", "home/.config/toolgate/toolgate.yaml"] {
            assert!(ran.stderr.contains(&format!("  {}\n", place.path(name).display())), "{ran:?}");
        }
        assert_eq!(ran.stdout, "");
    }
}
