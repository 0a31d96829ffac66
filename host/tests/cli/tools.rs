//! Tests `toolgate tools`: the table, the JSON, and the form for a model's API.

use serde_json::{Value, json};

use crate::place::{Place, and, demo, each, fixture};

const DEMO: [&str; 6] = ["demo__echo", "demo__add", "demo__sleep", "demo__picture", "demo__fail", "demo__forecast"];

#[test]
fn without_a_configuration_the_demo_server_is_listed() {
    let ran = Place::new().run(&["tools"]).ends(0).says("no configuration found, so this is the built-in demo server");
    let first: Vec<_> = ran.stdout.lines().map(|line| line.split_whitespace().next().unwrap_or_default()).collect();
    assert_eq!(first, [&["TOOL"], &DEMO[..]].concat(), "the table stands alone on standard output");
    assert!(!ran.stdout.contains('\u{1b}'), "no colour without a terminal");
}

#[cfg(unix)]
#[test]
fn a_terminal_that_does_not_know_its_size_has_eighty_columns() {
    let ran = Place::new().run_at_terminal(&["tools"], "").ends(0);
    ran.prints("demo__forecast  Tells the weather of the coming days.");
}

#[cfg(unix)]
#[test]
fn on_a_terminal_the_tools_of_a_server_appear_when_it_answers() {
    // Longer than the other ones take to start on a busy machine.
    let hangs = and(fixture("hangs"), json!({"timeouts": {"initialize": "4s"}}));
    let place = Place::with(json!({"slow": hangs, "one": demo(), "two": demo()})).set("TERM", "xterm");
    let shown = place.run_at_terminal(&["tools"], "").ends(0).stdout;
    let at = |text: &str| shown.find(text).unwrap_or_else(|| panic!("{text} is missing: {shown:?}"));
    let (one, two) = (at("one__forecast"), at("two__forecast"));
    assert!(one.max(two) < at("server \"slow\""), "{shown:?}");
    assert!(shown.contains("waiting for slow"), "{shown:?}");
    assert_eq!(shown.matches("WHAT IT DOES").count(), 1, "{shown:?}");
    let piped = place.run(&["tools"]).ends(0);
    assert!(piped.stdout.find("one__echo") < piped.stdout.find("two__echo"), "{piped:?}");
}

#[test]
fn json_has_all_that_a_server_says_of_a_tool() {
    let ran = Place::with(json!({"demo": demo()})).run(&["tools", "--json"]).ends(0);
    assert_eq!(ran.stderr, "");
    let listed = ran.json();
    assert_eq!(each(&listed["tools"], "/name"), DEMO);
    assert_eq!(listed["failed"], json!([]));
    let add = &listed["tools"][1];
    assert_eq!((&add["server"], &add["tool"]), (&json!("demo"), &json!("add")));
    assert_eq!(add["inputSchema"]["required"], json!(["a", "b"]));
    assert_eq!(add["outputSchema"]["required"], json!(["sum"]));
    assert_eq!(add["annotations"], json!({"readOnlyHint": true}));
}

#[cfg(unix)]
#[test]
fn a_server_whose_tools_change_all_the_time_is_no_reason_to_complain_at_the_end() {
    let script = r#"read -r line; echo '{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"?"}}'
        read -r line; echo '{"jsonrpc":"2.0","id":2,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}}}}'
        read -r line; id=3
        while read -r line; do
            echo '{"jsonrpc":"2.0","id":'$id',"result":{"tools":[{"name":"a","inputSchema":{"type":"object"}}]}}'
            echo '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'
            id=$((id + 1))
        done"#;
    let place = Place::with(json!({"s": {"command": "sh", "args": ["-c", script]}}));
    for _ in 0..5 {
        let ran = place.run(&["tools"]).ends(0);
        assert_eq!(ran.stderr, "");
    }
}

#[test]
fn each_format_has_the_shape_of_its_api() {
    let place = Place::with(json!({"demo": demo()}));
    for (format, list, name, schema) in [
        ("openai", "", "/function/name", "/function/parameters"),
        ("anthropic", "", "/name", "/input_schema"),
        ("gemini", "/0/functionDeclarations", "/name", "/parameters"),
        ("mcp", "/tools", "/name", "/inputSchema"),
    ] {
        let answer = place.run(&["tools", "--format", format]).ends(0).json();
        let tools = answer.pointer(list).unwrap();
        assert_eq!(each(tools, name), DEMO, "{format}");
        assert_eq!(tools[1].pointer(schema).unwrap()["required"], json!(["a", "b"]), "{format}");
    }
    let openai = place.run(&["tools", "--format", "openai"]).json();
    assert_eq!(each(&openai, "/type"), ["function"; 6]);
    let own = place.run(&["tools", "--format", "mcp"]).json();
    assert_eq!(own["tools"][5]["outputSchema"]["type"], "object", "a server's own definition stays whole");
}

#[test]
fn names_and_schemas_keep_the_rules_of_the_api() {
    let place = Place::with(json!({"odd": fixture("odd-names")}));
    for (format, list, name) in
        [("openai", "", "/function/name"), ("anthropic", "", "/name"), ("gemini", "/0/functionDeclarations", "/name")]
    {
        let answer = place.run(&["tools", "--format", format]).ends(0).json();
        let names = each(answer.pointer(list).unwrap(), name);
        assert_eq!(names.len(), 3);
        for name in names {
            let fits = |letter: char| letter.is_ascii_alphanumeric() || "_-".contains(letter);
            let (most, dots) = (if format == "anthropic" { 128 } else { 64 }, format == "gemini");
            assert!(name.len() <= most, "{format}: {name}");
            assert!(name.chars().all(|letter| fits(letter) || dots && letter == '.'), "{format}: {name}");
        }
    }
    let gemini = place.run(&["tools", "--format", "gemini"]).json();
    let parameters = &gemini[0]["functionDeclarations"][2]["parameters"];
    assert_eq!(parameters["properties"]["n"], json!({"type": "integer", "nullable": true}));
    assert_eq!((&parameters["$schema"], &parameters["additionalProperties"]), (&Value::Null, &Value::Null));
}

#[test]
fn names_that_were_made_to_fit_can_be_called() {
    let place = Place::with(json!({"odd": fixture("odd-names")}));
    let answer = place.run(&["tools", "--format", "openai"]).json();
    for name in each(&answer, "/function/name") {
        place.run(&["call", name]).ends(0).prints("done\n");
    }
}

#[test]
fn only_the_servers_that_were_asked_for_are_listed() {
    let place = Place::with(json!({"one": demo(), "two": demo(), "away": {"command": "no-such-program-here"}}));
    let ran = place.run(&["tools", "--server", "two", "--json"]).ends(0);
    assert!(each(&ran.json()["tools"], "/server").iter().all(|server| *server == "two"));
    assert_eq!(ran.stderr, "", "the others are not even started");
    let both = place.run(&["tools", "--server=two", "--server=one", "--json"]).ends(0).json();
    assert_eq!(both["tools"].as_array().unwrap().len(), 12);
    let ran = place.run(&["tools", "--server", "three"]).ends(5).says("no server \"three\" is configured");
    assert!(ran.stderr.contains("there are: away, one, two") && ran.stdout.is_empty(), "{ran:?}");
}

#[test]
fn servers_that_are_down_are_warned_of() {
    let place = Place::with(json!({"away": {"command": "no-such-program-here"}, "demo": demo()}));
    let warning = "warning: server \"away\": cannot connect: \"no-such-program-here\" was not found";
    place.run(&["tools"]).ends(0).says(warning).prints("demo__echo");
    place.run(&["tools", "--strict"]).ends(3).says(warning).prints("demo__echo");
    let listed = place.run(&["tools", "--json"]).ends(0).json();
    assert_eq!(each(&listed["failed"], "/server"), ["away"]);
    assert_eq!(listed["tools"].as_array().unwrap().len(), 6);
    let ran = place.run(&["tools", "--server", "away"]).ends(3).says(warning);
    assert_eq!(ran.stdout, "");
    place.run(&["tools", "--server", "away", "--format", "openai"]).ends(3).prints("[]\n");
}

#[test]
fn a_list_without_tools_says_why_and_so_does_a_call() {
    let place = Place::with(json!({"demo": and(demo(), json!({"enabled": false}))}));
    place.run(&["tools"]).ends(0).says("no tools: disabled in the configuration: demo");
    let shown = place.run_at_terminal(&["tools"], "").ends(0).stdout;
    assert!(shown.contains("disabled in the configuration: demo"), "{shown}");
    let called = place.run(&["call", "demo.echo", "x"]).ends(5);
    called.says("server \"demo\" is disabled in the configuration");
    let place = Place::with(json!({"demo": and(demo(), json!({"deny": ["*"]}))}));
    place.run(&["tools"]).ends(0).says("no tools: the servers offer none that the configuration allows");
    Place::with(json!({})).run(&["tools"]).ends(0).says("the configuration has no servers");
}

#[test]
fn what_may_not_be_called_is_not_listed() {
    let place = Place::with(json!({
        "few": and(demo(), json!({"allow": ["e*", "add"], "deny": ["echo"]})),
        "off": and(demo(), json!({"enabled": false})),
    }));
    let ran = place.run(&["tools"]).ends(0);
    assert_eq!(ran.stdout.lines().skip(1).count(), 1, "{ran:?}");
    assert!(ran.stdout.contains("few__add") && ran.stderr.is_empty(), "{ran:?}");
    place.run(&["call", "few.echo", "x"]).ends(5).says("not-allowed");
    place.run(&["call", "off.echo", "x"]).ends(5).says("Available servers: few");
}

#[test]
fn a_search_finds_tools_by_what_they_do_and_says_why() {
    let denied = and(demo(), json!({"deny": ["add"]}));
    let place = Place::with(json!({"demo": demo(), "half": denied}));
    let ran = place.run(&["tools", "--search", "weather of tomorrow"]).ends(0);
    let mut lines = ran.stdout.lines();
    assert!(lines.next().unwrap().ends_with("WHY"), "{}", ran.stdout);
    assert!(lines.next().unwrap().starts_with("demo__forecast  Tells the weather"), "{}", ran.stdout);
    let found = place.run(&["tools", "--search", "add", "--json"]).ends(0).json();
    assert_eq!(each(&found["tools"], "/name")[0], "demo__add");
    assert!(!each(&found["tools"], "/name").contains(&"half__add"), "what may not be called is not found");
    assert!(
        found["tools"][0]["score"].as_f64().unwrap() > 0.0 && !found["tools"][0]["why"].as_str().unwrap().is_empty()
    );
    let openai = place.run(&["tools", "--search", "demo__add", "--format", "openai"]).ends(0).json();
    assert_eq!(openai[0]["function"]["name"], "demo__add");
    let ran = place.run(&["tools", "--search", "zzzzqqqq"]).ends(0).says("no tool fits these words");
    assert_eq!(ran.stdout, "");
}

#[test]
fn the_cost_of_definitions_is_what_they_take_and_what_filters_and_search_save() {
    let place = Place::with(json!({"demo": demo(), "half": and(demo(), json!({"allow": ["add"]}))}));
    let all = Place::with(json!({"demo": demo()})).run(&["tools", "--cost", "--json"]).ends(0).json();
    let cost = place.run(&["tools", "--cost", "--json"]).ends(0).json();
    assert_eq!(each(&cost["servers"], "/server"), ["demo", "half"], "the most expensive first");
    assert_eq!((&cost["tools"], &cost["filters"]["tools"]), (&json!(7), &json!(5)));
    assert_eq!(each(&cost["servers"][1]["tools"], "/name"), ["half__add"]);
    let sum = |value: &Value| value.as_u64().unwrap();
    assert_eq!(sum(&cost["tokens"]), sum(&all["tokens"]) + sum(&cost["servers"][1]["tokens"]));
    assert_eq!(cost["search"]["tools"], 2, "find_tools and call_tool");
    let ran = place.run(&["tools", "--cost"]).ends(0);
    ran.prints("Filters leave out 5 tools").prints("All 7 tools take about");
    place.run(&["tools", "--cost", "--search", "x"]).ends(2);
}
