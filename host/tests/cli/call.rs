//! Tests `toolgate call`: how it takes arguments, what it prints, and all its exit codes.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::place::{Place, and, demo, each, fixture};

#[test]
fn the_text_of_the_answer_is_all_that_is_printed() {
    let ran = Place::new().run(&["call", "demo.echo", "text: hello"]).ends(0).says("built-in demo server");
    assert_eq!(ran.stdout, "hello\n");
    let ran = Place::with(json!({"demo": demo()})).run(&["call", "demo.picture"]).ends(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("[image image/png, 1 KB]\n", ""));
}

#[test]
fn json_is_the_whole_result() {
    let ran = Place::with(json!({"demo": demo()})).run(&["call", "demo__add", "--json", "a: 1, b: 2"]).ends(0);
    let result = ran.json();
    let keys: Vec<_> = result.as_object().unwrap().keys().map(String::as_str).collect();
    let mut expected = vec!["call_id", "name", "server", "tool", "text", "content", "structured", "is_error"];
    expected.extend(["more", "code", "attempts", "truncated", "latency_ms", "trace"]);
    expected.sort_unstable();
    assert_eq!(keys, expected);
    for (key, value) in [
        ("name", json!("demo__add")),
        ("server", json!("demo")),
        ("tool", json!("add")),
        ("text", json!("3")),
        ("content", json!([{"type": "text", "text": "3"}])),
        ("structured", json!({"sum": 3})),
        (
            "more",
            json!({"_meta": {"io.modelcontextprotocol/serverInfo": {"name": "toolgate-demo", "version": env!("CARGO_PKG_VERSION")}}}),
        ),
        ("is_error", json!(false)),
        ("code", json!("ok")),
        ("attempts", json!(1)),
        ("truncated", json!(false)),
    ] {
        assert_eq!(result[key], value, "{key}");
    }
    assert_eq!(ran.stderr, "");
}

#[test]
fn a_failed_call_is_json_too() {
    let place = Place::with(json!({"demo": demo()}));
    for (arguments, exit, code, server) in [
        (["demo.fail", "message: no"], 1, "tool-error", json!("demo")),
        (["demo.nope", ""], 5, "unknown-tool", Value::Null),
        (["demo.add", "a: 1"], 2, "invalid-arguments", json!("demo")),
    ] {
        let ran = place.run(&["call", arguments[0], arguments[1], "--json"]).ends(exit);
        let result = ran.json();
        assert_eq!((&result["code"], &result["is_error"]), (&json!(code), &json!(true)), "{ran:?}");
        if !server.is_null() {
            assert_eq!(result["server"], server, "{ran:?}");
        }
        assert_eq!(ran.stderr, "");
    }
}

#[test]
fn arguments_may_be_written_in_many_ways() {
    let place = Place::with(json!({"demo": demo()}));
    place.file("work/arguments.json", r#"{"a": 40, "b": 2}"#);
    for arguments in [
        &["a: 40, b: 2"][..],
        &["a=40", "b=2"],
        &["a:40", "b:2"],
        &[r#"{"a": 40, "b": 2}"#],
        &["```json\n{\"a\": 40, \"b\": 2,}\n```"],
        &["a: 40\nb: 2\n"],
        &["@arguments.json"],
        &["a: 40, b: 2", "--timeout", "20s"],
    ] {
        let ran = place.run(&[&["call", "demo.add"], arguments].concat()).ends(0);
        assert_eq!(ran.stdout, "42\n", "{arguments:?}");
    }
    let big = place.run(&["call", "demo.add", "a: 9007199254740993, b: 1"]).ends(0);
    assert_eq!(big.stdout, "9007199254740994\n", "every digit counts");
}

#[test]
fn words_are_a_text_where_the_tool_takes_one() {
    let place = Place::with(json!({"demo": demo()}));
    place.run(&["call", "demo.echo", "hello"]).ends(0).prints("hello\n");
    place.run(&["call", "demo.echo", "hello", "big", "world"]).ends(0).prints("hello big world\n");
    place.run(&["call", "demo.echo", "@@name"]).ends(0).prints("@name\n");
    let ran = place.run(&["call", "demo.echo", "text:", "a=b"]).ends(0);
    assert_eq!(ran.stdout, "a=b\n");
    let ran = place.run(&["call", "demo.forecast", "city:", "Zürich", "days:", "2", "--json"]).ends(0).json();
    assert_eq!(
        (&ran["structured"]["city"], &ran["structured"]["days"].as_array().map(Vec::len)),
        (&json!("Zürich"), &Some(2))
    );
}

#[test]
fn arguments_may_come_from_standard_input() {
    let place = Place::with(json!({"demo": demo()}));
    let ran = place.feed(&["call", "demo.echo", "-"], r#"{"text": "two\nlines"}"#).ends(0);
    assert_eq!(ran.stdout, "two\nlines\n");
    place.run(&["call", "demo.add", "@nowhere.json"]).ends(2).says("nowhere.json");
}

#[test]
fn what_has_no_end_or_is_no_text_is_refused() {
    let place = Place::with(json!({"demo": demo()}));
    place.file("work/bytes", b"text: \xff\xfe");
    for (arguments, told) in [
        (&["call", "demo.echo", "@/dev/zero"][..], "the arguments in /dev/zero cannot be read: not a regular file"),
        (&["call", "demo.echo", "@bytes"], "it is not UTF-8 text: byte 7 belongs to no character"),
        (&["call", "--text", "/dev/zero"], "the text in /dev/zero cannot be read: not a regular file"),
        (&["read", "/dev/zero"], "not a regular file"),
        (
            &["route", "demo.add", "1", "--servers", "/dev/zero"],
            "the servers in /dev/zero cannot be read: not a regular file",
        ),
        (
            &["route", "demo.add", "1", "--schema", "/dev/zero"],
            "the schema in /dev/zero cannot be read: not a regular file",
        ),
    ] {
        place.run(arguments).ends(2).says(told);
    }
    let ran = place.run(&["call", "demo.add", r#"{"a": 1,"#]).ends(2);
    ran.says("the arguments look like JSON, but end early");
}

#[test]
fn a_call_ends_with_a_code_for_each_way_to_fail() {
    let place = Place::with(json!({
        "demo": demo(),
        "dies": fixture("dies"),
        "wipes": and(fixture("destructive"), json!({"ask": ["wipe"]})),
        "refuses": fixture("rpc-error"),
        "slow": and(fixture("hangs-in-call"), json!({"timeouts": {"call": "100ms"}})),
        "away": {"command": "no-such-program-here"},
        "unset": {"command": "python3", "args": ["${NOT_SET_HERE}"]},
    }));
    for (arguments, expected, says) in [
        (&["demo.add", "a: 1"][..], 2, "invalid-arguments: invalid arguments for tool \"add\""),
        (&["demo.nope"], 5, "Available tools: echo, add, sleep, picture, fail, forecast"),
        (&["nobody.add"], 5, "Available servers: away, demo, dies"),
        (&["demo"], 5, "invalid-name: "),
        (&["dies.do", "--server", "demo"], 5, "Available servers: demo"),
        (&["wipes.wipe"], 5, "declined: "),
        (&["refuses.do"], 1, "rpc-error: MCP tool execution failed: the back end is away"),
        (&["away.do"], 3, "\"no-such-program-here\" was not found in PATH"),
        (&["unset.do"], 2, "variable \"NOT_SET_HERE\" is not set"),
        (&["dies.do"], 4, "outcome unknown"),
        (&["slow.do"], 4, "outcome unknown: no answer from server \"slow\" in time"),
        (&["slow.look"], 6, "timeout: "),
        (&["demo.echo", "x", "--timeout", "soon"], 2, "expected a duration such as"),
    ] {
        let ran = place.run(&[&["call"], arguments].concat()).ends(expected).says(says);
        assert_eq!(ran.stdout, "", "{arguments:?}");
    }
    let ran = place.run(&["call", "demo.fail", "message: not today"]).ends(1);
    let (stdout, stderr) = (ran.stdout.as_str(), ran.stderr.as_str());
    assert_eq!((stdout, stderr), ("not today\n", ""), "what a tool says is its answer, also where it failed");
}

#[test]
fn an_error_is_shown_with_all_that_the_server_says_of_it() {
    let server =
        and(fixture("wants-a-visit"), json!({"env": {"GIVEN": "${GIVEN_KEY}"}, "masking": {"groups": ["all"]}}));
    let place = Place::with(json!({"visit": server})).set("GIVEN_KEY", "s3cret-given-here");
    let ran = place.run(&["call", "visit.do", "--json"]).ends(1);
    assert!(ran.stdout.contains(r#""url": "https://consent.invalid/?n=12345678901234567890123""#), "{ran:?}");
    let error = &ran.json()["error"];
    assert_eq!((&error["code"], &error["message"]), (&json!(-32042), &json!("URL elicitation required")));
    assert_eq!(error["data"]["key"], "[REDACTED]");
    assert!(!ran.stdout.contains("ada@example.com"), "it is masked as answers are: {ran:?}");
    let ran = place.run(&["call", "visit.do"]).ends(1).says("https://consent.invalid/").says("rpc-error: ");
    assert!(ran.stdout.is_empty() && !ran.stderr.contains("s3cret") && !ran.stderr.contains("ada@"), "{ran:?}");
}

#[test]
fn a_tool_that_fails_without_a_word_is_said_to_have_failed() {
    let ran = Place::with(json!({"mute": fixture("fails-silently")})).run(&["call", "mute.do"]).ends(1);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", "tool-error: the tool failed without a message\n"));
}

#[test]
fn progress_does_not_extend_the_time_that_was_given() {
    let place = Place::with(json!({"demo": demo()}));
    let started = Instant::now();
    place.run(&["call", "demo.sleep", "seconds: 60", "--timeout", "2s"]).ends(6).says("timeout: ");
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
}

#[cfg(unix)]
#[test]
fn missing_arguments_are_asked_for_at_a_terminal_and_nowhere_else() {
    let place = Place::with(json!({"demo": demo()}));
    // Wrong types are asked for again, and Enter leaves an optional argument out.
    let ran = place.run_at_terminal(&["call", "-i", "demo.add"], "one\n1\n2\n").ends(0);
    let ran = ran.prints("a (number, required): ").prints("write a number").prints("b (number, required): ");
    assert!(ran.stdout.trim_end().ends_with('3'), "{ran:?}");
    let forecast = ["call", "-i", "demo.forecast", "city: Bern"];
    let ran =
        place.run_at_terminal(&forecast, "\n").ends(0).prints("Enter leaves it out").prints("The weather in Bern");
    assert!(!ran.stdout.contains("city ("), "what was given is not asked for: {ran:?}");
    place.run(&["call", "-i", "demo.add"]).ends(2).says("-i asks for arguments on a terminal, and there is none");
}

#[test]
fn a_name_that_is_nearly_right_gets_a_suggestion() {
    let place = Place::with(json!({"demo": demo()}));
    for (name, near) in [("demo.ecko", "demo.echo"), ("demo__forcast", "demo.forecast"), ("dema.echo", "demo.echo")] {
        for command in ["call", "route"] {
            place.run(&[command, name, "text: x"]).ends(5).says(&format!("did you mean {near:?}?"));
        }
    }
    assert!(!place.run(&["call", "demo.nothing-like-it"]).ends(5).stderr.contains("did you mean"));
}

#[cfg(unix)]
#[test]
fn a_person_at_a_terminal_is_asked_where_a_rule_says_so() {
    let place = Place::with(json!({"wipes": and(fixture("destructive"), json!({"ask": ["wipe"]}))}));
    let place = place.set("TERM", "dumb");
    place.run_at_terminal(&["call", "wipes.wipe"], "y\n").ends(0).prints("wipe").prints("[y/N]").prints("done");
    place.run_at_terminal(&["call", "wipes.wipe"], "n\n").ends(5).prints("declined");
}

#[test]
fn a_tool_that_says_it_only_reads_is_asked_again_and_no_other() {
    let place = Place::with(json!({"dies": fixture("dies")}));
    let attempts = |tool, code| place.run(&["call", tool, "--json"]).ends(code).json()["attempts"].as_u64();
    assert_eq!(attempts("dies.do", 4), Some(1));
    assert!(attempts("dies.look", 3) > Some(1));
}

#[test]
fn a_long_answer_is_cut_where_asked() {
    let place = Place::with(json!({"demo": demo()}));
    place.file("work/long", "x".repeat(5000));
    let ran = place.run(&["call", "demo.echo", "@long", "--max-result-bytes", "200B", "--json"]).ends(0);
    let result = ran.json();
    assert_eq!(result["truncated"], true);
    let text = result["text"].as_str().unwrap();
    assert!(text.len() < 400 && text.contains("[TRUNCATED"), "{result}");
    let ran = place.run(&["call", "demo.echo", "@long", "--max-result-bytes", "0"]).ends(0);
    assert_eq!(ran.stdout.len(), 5001);
}

#[test]
fn a_line_of_the_log_names_its_server_once() {
    let place = Place::with(json!({"weak": fixture("dies")}));
    // A tool that only looks is called once more, on a connection that the end of the first one begins.
    let ran = place.run(&["call", "weak.look", "-vvv", "--log-format", "json"]).ends(3);
    let mut seen = 0;
    for line in ran.stderr.lines().filter(|line| line.starts_with('{')) {
        let count = line.matches(r#""server":"weak""#).count();
        let spans = serde_json::from_str::<Value>(line).unwrap()["spans"].as_array().map_or(0, Vec::len);
        // The formatter names the innermost span twice, once by itself.
        assert!(count <= 1 + usize::from(spans > 0) && spans <= 1, "{line}");
        seen += usize::from(spans == 1);
    }
    assert!(seen > 0, "{}", ran.stderr);
}

#[test]
fn a_call_and_a_start_are_logged_with_their_time() {
    let place = Place::with(json!({"demo": demo()}));
    let ran = place.run(&["-vv", "call", "demo.echo", "text: hello"]).ends(0);
    let line = |words: &[&str]| {
        let found = ran.stderr.lines().find(|line| words.iter().all(|word| line.contains(word)));
        found.unwrap_or_else(|| panic!("no line with {words:?} in {}", ran.stderr)).to_owned()
    };
    line(&["the server has started", "server=\"demo\"", "took="]);
    line(&["the server has listed its tools", "tools=6"]);
    line(&["the call ended", "server=\"demo\"", "tool=\"echo\"", "code=\"ok\"", "took="]);
    assert!(!place.run(&["call", "demo.echo", "text: hello"]).ends(0).stderr.contains("the call ended"));
}

/// The messages in a log in JSON, with their directions.
fn logged_messages(stderr: &str) -> Vec<(String, String)> {
    let lines = stderr.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let field = |line: &Value, name| line["fields"][name].as_str().map(str::to_owned);
    lines.filter_map(|line| Some((field(&line, "direction")?, field(&line, "message")?))).collect()
}

#[test]
fn a_servers_messages_are_in_the_log_at_its_highest_level() {
    let place = Place::with(json!({"demo": demo()}));
    let call = ["call", "demo.echo", "text: a word", "--log-format", "json"];
    let ran = place.run(&[&call[..], &["-vvv"]].concat()).ends(0);
    let messages = logged_messages(&ran.stderr);
    let position = |direction: &str, words: &str| {
        let found = messages.iter().position(|(known, text)| known == direction && text.contains(words));
        found.unwrap_or_else(|| panic!("no {words:?} was {direction}: {messages:#?}"))
    };
    assert!(position("sent", r#""method":"tools/call""#) < position("received", r#""text":"a word""#));
    let line = ran.stderr.lines().find(|line| line.contains("direction")).unwrap();
    let line: Value = serde_json::from_str(line).unwrap();
    assert_eq!((&line["level"], &line["span"]["server"]), (&json!("TRACE"), &json!("demo")), "{line}");
    assert_eq!(logged_messages(&place.run(&[&call[..], &["-vv"]].concat()).ends(0).stderr), []);

    // A level alone is for toolgate: a log with every frame of every connection helps nobody.
    let place = place.set("TOOLGATE_LOG", "trace");
    place.file("work/long", "x".repeat(50_000));
    let ran = place.run(&["call", "demo.echo", "@long", "--log-format", "json", "-vv"]).ends(0);
    for line in ran.stderr.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        assert!(line["target"].as_str().unwrap().starts_with("toolgate"), "{line}");
    }
    let messages = logged_messages(&ran.stderr);
    assert!(messages.iter().any(|(_, text)| text.contains("xxxx")) && ran.stderr.contains(r#""bytes":50"#));
    assert!(messages.iter().all(|(_, text)| text.len() < 5000), "long messages are cut");
}

#[test]
fn messages_in_the_log_have_neither_secrets_nor_what_masks_hide() {
    let with =
        |more| Place::with(json!({"demo": and(and(demo(), json!({"env": {"A_TOKEN": "planted-9c41e7"}})), more)}));
    let place = with(json!({"masking": {"groups": ["basic"]}}));
    let call = ["call", "demo.echo", r#"{"text": "planted-9c41e7, password: hunter2hunter2"}"#, "-vvv"];
    let call = [&call[..], &["--log-format", "json"]].concat();
    let ran = place.run(&call).ends(0);
    let hidden = logged_messages(&ran.stderr).into_iter().filter(|(_, text)| text.contains("[MASKED_PASSWORD]"));
    assert_eq!(hidden.map(|(direction, _)| direction).collect::<Vec<_>>(), ["sent", "received"], "{ran:#?}");
    for secret in ["planted-9c41e7", "hunter2"] {
        assert!(!ran.stderr.contains(secret), "{ran:#?}");
    }
    let ran = with(json!({})).run(&call).ends(0).says("hunter2");
    assert!(!ran.stderr.contains("planted-9c41e7"), "{ran:#?}");
}

#[test]
fn calls_in_a_text_are_made_in_order_with_an_observation_of_each() {
    let place = Place::with(json!({"demo": demo()}));
    let text = "I add them first.\n\n```python\nadd(a=1, b=2)\ndemo__echo(text='done')\n```\n";
    let ran = place.feed(&["call", "--text", "-"], text).ends(0);
    assert_eq!(ran.stdout, "Observation: 3\nObservation: done\n");
    let json = place.feed(&["call", "--text", "-", "--json"], text).ends(0).json();
    assert_eq!(each(&json, "/name"), ["demo__add", "demo__echo"]);
    let failing =
        "<tool_call>{\"name\": \"demo.fail\", \"arguments\": {\"message\": \"no luck\"}}</tool_call>\nadd(1, 2)";
    let ran = place.feed(&["call", "--text", "-"], failing).ends(1);
    assert!(ran.stdout.starts_with("Observation: ") && ran.stdout.ends_with("\nObservation: 3\n"), "{}", ran.stdout);
    let ran = place.feed(&["call", "--text", "-"], "The sum is 3.").ends(0).says("the text calls no tool");
    assert_eq!(ran.stdout, "");
    let unread = place.feed(&["call", "--text", "-"], "add(a=1, b=2)\n<tool_call>{\"name\": \"add\", \"arg").ends(2);
    assert_eq!(unread.stdout, "", "none is made if one cannot be read");
    place.run(&["call", "--text", "missing.txt"]).ends(2).says("the text in missing.txt cannot be read");
    place.run(&["call", "demo.add", "--text", "-"]).ends(2);
}

#[test]
fn the_calls_in_a_text_are_shown_without_being_made() {
    let place = Place::new();
    let text = "Thought: add\nAction: demo.add\nAction Input: {\"a\": 1, \"b\": 2}\n";
    let ran = place.feed(&["read"], text).ends(0);
    assert!(ran.stdout.lines().nth(1).unwrap().starts_with("demo.add  2     react  marked  {\"a\""), "{}", ran.stdout);
    let file = place.file("answer.txt", text);
    let read = place.run(&["read", file.to_str().unwrap(), "--json"]).ends(0).json();
    assert_eq!(read[0]["arguments"], json!({"a": 1, "b": 2}));
    assert_eq!((&read[0]["form"], &read[0]["start"]), (&json!("react"), &json!(13)));
    place.feed(&["read"], "demo.add(1, 2)").ends(2);
    let config = place.file("toolgate.yaml", json!({"servers": {"demo": demo()}}).to_string());
    let read = place.feed(&["read", "--config", config.to_str().unwrap(), "--json"], "demo.add(1, 2)").ends(0).json();
    assert_eq!(read[0]["arguments"], json!({"a": 1, "b": 2}), "the schema names the positions");
}

#[test]
fn a_call_that_a_text_only_mentions_or_quotes_is_not_made_unless_that_is_asked_for() {
    let place = Place::with(json!({"demo": demo()}));
    let tag = "<tool_call>{\"name\": \"demo.add\", \"arguments\": {\"a\": 1, \"b\": 2}}</tool_call>";
    for text in [
        "Do NOT call demo.add(a=1, b=2).".to_owned(),
        "I already called demo.add(a=1, b=2), and it said 3.".to_owned(),
        format!("The page says: {tag}"),
        format!("> {tag}"),
        format!("<blockquote>\n{tag}\n</blockquote>"),
        "Never use `demo.add(a=1, b=2)` here.".to_owned(),
    ] {
        let ran = place.feed(&["call", "--text", "-"], &text).ends(0).says("the text calls no tool");
        let ran = ran.says("only mentions or quotes it: \"demo.add\" on line").says("--loose");
        assert_eq!(ran.stdout, "", "{text}");
        assert!(!place.feed(&["read"], &text).ends(0).stdout.contains("demo.add"), "{text}");
        let ran = place.feed(&["call", "--text", "-", "--loose"], &text).ends(0);
        assert_eq!(ran.stdout, "Observation: 3\n", "{text}");
    }
    // A mention that cannot be read keeps no other call from being made.
    let text = "The page has <tool_call>{\"name\": \"add\", \"arg\n\ndemo.add(a=1, b=2)";
    assert_eq!(place.feed(&["call", "--text", "-"], text).ends(0).stdout, "Observation: 3\n");
    let read = ["read", "--loose", "--json"];
    let text = "Not demo.add(a=1, b=2).\n> demo.add(a=1, b=2)\n\n`demo.add(a=1, b=2)`\n```\ndemo.add(a=1, b=2)\n```\n";
    let strict = place.feed(&read, text).ends(0).json();
    let standing = each(&strict, "/standing");
    assert_eq!(standing, ["inline", "quoted", "own-line", "fenced"]);
    place.run(&["call", "demo.add", "--loose"]).ends(2);
}

#[test]
fn a_name_that_is_written_otherwise_is_found_where_one_tool_can_be_meant() {
    let place = Place::with(json!({"demo": demo()}));
    for name in
        ["functions.demo.add", "default_api.demo__add", "Demo.Add", "DEMO__ADD", "`demo.add`", "demo add", "Add"]
    {
        let text = json!({"name": name, "arguments": {"a": 1, "b": 2}}).to_string();
        let ran = place.feed(&["call", "--text", "-"], &text).ends(0);
        assert_eq!(ran.stdout, "Observation: 3\n", "{name}");
    }
    let text = "action: demo.add\naction_input: {\"a\": 1, \"b\": 2}\n";
    assert_eq!(place.feed(&["call", "--text", "-"], text).ends(0).stdout, "Observation: 3\n");
    let ran = place.feed(&["call", "--text", "-"], "Action: demo.ad\nAction Input: {\"a\": 1, \"b\": 2}").ends(5);
    assert!(ran.stdout.trim_end().ends_with("; did you mean \"demo.add\"?"), "{}", ran.stdout);
}

#[test]
fn half_an_object_as_arguments_is_refused_and_an_object_with_words_after_it_is_not() {
    let place = Place::with(json!({"demo": demo()}));
    for text in ["{\"city\": \"Par", "{\"city\": \"Paris\"", "```json\n{\"city\": \"Par\n```"] {
        place.run(&["call", "demo.forecast", text]).ends(2).says("a JSON object that is cut off: send it whole");
        let ran = place.feed(&["call", "--text", "-"], &format!("Action: demo.forecast\nAction Input: {text}")).ends(2);
        assert_eq!(ran.stdout, "", "{text}");
    }
    let ran = place.run(&["call", "demo.forecast", "{\"city\": \"Bern\"} please"]).ends(0);
    ran.prints("The weather in Bern");
}
