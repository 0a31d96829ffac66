//! Texts, and the calls in them.

use super::*;
use crate::json::{MAX_DEPTH, MAX_VALUES};
use proptest::prelude::*;

const WEATHER: &str = r#"{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"},
    "tags":{"type":"array","items":{"type":"string"}}},"required":["city"]}"#;
const TOOLS: [(&str, Option<&str>); 5] = [
    ("weather", Some(WEATHER)),
    ("now", Some(r#"{"type":"object","properties":{}}"#)),
    ("free", None),
    ("get-file", Some(r#"{"properties":{"path":{"type":"string"}},"required":["path"]}"#)),
    ("put", Some(r#"{"properties":{"body":{"type":"object"},"b":{"type":"integer"}},"required":["b"]}"#)),
];

/// Reads a text with the tools of these tests, or with none.
fn read(text: &str, known: bool) -> Result<Vec<ReadCall>, ReadingError> {
    let schemas = TOOLS.map(|(_, schema)| schema.map(|schema| json::parse(schema).unwrap()));
    let tools: Vec<KnownTool<'_>> = TOOLS
        .iter()
        .zip(&schemas)
        .map(|((name, _), schema)| KnownTool { name, input_schema: schema.as_ref() })
        .collect();
    read_calls(text, if known { &tools } else { &[] }, true)
}

/// Returns how each call of a text stands and its name, and the names of those that are found without `loose`.
fn stands(text: &str) -> (Vec<String>, Vec<String>) {
    let tools: Vec<(String, Option<String>)> =
        TOOLS.iter().map(|(name, schema)| (name.to_string(), schema.map(str::to_owned))).collect();
    let loose = read_calls_of(text, &tools, true).unwrap_or_default();
    let strict = read_calls_of(text, &tools, false).unwrap();
    let stands = loose.iter().map(|call| format!("{:?} {}", call.standing, call.name)).collect();
    (stands, strict.into_iter().map(|call| call.name).collect())
}

/// Writes calls as `form name arguments`, one per line, after checking that they are in order and in the text.
fn shown(text: &str, read: Result<Vec<ReadCall>, ReadingError>) -> String {
    let calls = match read {
        Ok(calls) => calls,
        Err(ReadingError::Ambiguous(call)) => {
            return format!("ambiguous at {}: {} or {}", call.at, call.one, call.other);
        }
        Err(ReadingError::Unnamed(call)) => return format!("unnamed at {}: {} {}", call.at, call.tool, call.position),
        Err(error) => return format!("{error:?}"),
    };
    let mut end = 0;
    for call in &calls {
        assert!(call.start >= end && call.end > call.start, "{text}: {calls:?}");
        assert!(text.get(call.start..call.end).is_some(), "{text}: {calls:?}");
        assert!(matches!(json::parse(&call.arguments), Ok(Value::Object(_))), "{text}: {calls:?}");
        end = call.end;
    }
    let lines: Vec<String> =
        calls.iter().map(|call| format!("{} {} {}", name_of(call.form), call.name, call.arguments)).collect();
    lines.join("\n")
}

/// Returns the name of a form in the WIT.
fn name_of(form: CallForm) -> String {
    let mut name = String::new();
    for letter in format!("{form:?}").chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

/// Checks rows of a text and its calls, with the tools known.
fn check(rows: &[(&str, &str)]) {
    for (text, expected) in rows {
        assert_eq!(shown(text, read(text, true)), *expected, "{text}");
    }
}

/// Checks rows of a text and its calls, with no tool known.
fn check_unknown(rows: &[(&str, &str)]) {
    for (text, expected) in rows {
        assert_eq!(shown(text, read(text, false)), *expected, "{text}");
    }
}

const P: &str = r#"python weather {"city":"P"}"#;

#[test]
fn python_calls_are_read_wherever_they_stand() {
    let two = &*format!("{P}\npython weather {{\"city\":\"Q\"}}");
    check(&[
        ("weather(city='P')", P),
        ("[weather(city='P'), weather(city='Q')]", two),
        ("[\n  weather(city='P'),  # one\n  weather(\n city = 'Q',\n),\n]", two),
        ("[weather(city='P'), weather(city='Q')", two),
        ("[weather(city='P'), weather(city='Q']", two),
        ("weather(city='P')\nweather(city='Q')", two),
        ("weather(city='P'); weather(city='Q')", two),
        ("weather(city='P'), weather(city='Q')", two),
        ("weather(city='P'),\nweather(city='Q')", two),
        ("weather('P')\nweather(**{'city': 'Q'})", two),
        ("r = weather(city='P')\nprint(await weather(city='Q'))", two),
        ("- weather(city='P')\n2. `weather(city='Q')`", two),
        ("Here:\n```python\n# first\nweather(city='P')\n\nweather(city='Q')\n```\nDone.", two),
        ("```\nweather(city='P')\n```\nand\n```\nweather(city='Q')\n```", two),
        ("```weather(city='P')``` and `weather(city='Q')`", two),
        ("```python\nimport x\nr = weather(city='P')\nweather(city='Q')\nuse(r)\n```", two),
        ("I call weather(city='P') and then weather(city=\"Q\").", two),
        ("functions.weather(city='P')\ndefault_api.weather(city='Q')", two),
        ("weather({\"city\": \"P\"})\nweather(city: \"Q\")", two),
        ("weather(city=“P”)", P),
        ("get-file(path='x')", r#"python get-file {"path":"x"}"#),
        ("home.weather('P', 2)", r#"python home.weather {"city":"P","days":2}"#),
        ("home__weather('P')", r#"python home__weather {"city":"P"}"#),
        ("now()", "python now {}"),
        ("now({})", "python now {}"),
        ("put({'b': 1})", r#"python put {"b":1}"#),
        ("put({'x': 1})", r#"python put {"body":{"x":1}}"#),
        ("free(a=1, a=1)", r#"python free {"a":1}"#),
        ("weather(town='P')", r#"python weather {"town":"P"}"#),
        ("wether(city='P')", r#"python wether {"city":"P"}"#),
        ("Sure. [wether(city='P')]", r#"python wether {"city":"P"}"#),
    ]);
    check_unknown(&[
        ("weather(city='P')", P),
        ("get\\_it(user\\_id=1)", r#"python get_it {"user_id":1}"#),
        ("I call it:\nweather(city='P')\nDone.", P),
        ("Now: [a.b(c=1)].", r#"python a.b {"c":1}"#),
        ("```\nweather(city='P')\n```", P),
    ]);
}

#[test]
fn python_values_are_read_as_python_reads_them() {
    for (value, json) in [
        ("True", "true"),
        ("false", "false"),
        ("None", "null"),
        ("-5", "-5"),
        ("+5", "5"),
        ("1_000", "1000"),
        ("1.50", "1.50"),
        (".5", "0.5"),
        ("5.", "5.0"),
        ("1e3", "1e3"),
        ("1_0.5E-3", "10.5E-3"),
        ("123456789012345678901234567890", "123456789012345678901234567890"),
        ("(1, 'a')", r#"[1,"a"]"#),
        ("(1,)", "[1]"),
        ("()", "[]"),
        ("(1)", "1"),
        ("[1, [2, (3,)], ]", "[1,[2,[3]]]"),
        ("{'a': {\"b\": [None]}, 1: 2,}", r#"{"a":{"b":[null]},"1":2}"#),
        ("[ # one\n 1,\n # two\n 2 ]", "[1,2]"),
        (r"'it\'s'", r#""it's""#),
        (r#""a\n\x41\u00e9\U0001F600\101\q""#, r#""a\nAé😀A\\q""#),
        (r"'\ud83d\ude00 \ud83d'", "\"😀 \u{fffd}\""),
        (r"r'\d+\'x'", r#""\\d+\\'x""#),
        ("u'x'", r#""x""#),
        ("'a' \"b\"\n 'c'", r#""abc""#),
        ("\"\"\"a\n\"b\" 'c'\"\"\"", r#""a\n\"b\" 'c'""#),
        ("'''it's'''", r#""it's""#),
        ("'x) g(a=1'", r#""x) g(a=1""#),
        ("'é\\\nü'", r#""éü""#),
    ] {
        let text = format!("free(a={value}, b=1)");
        assert_eq!(shown(&text, read(&text, true)), format!(r#"python free {{"a":{json},"b":1}}"#), "{text}");
    }
}

#[test]
fn what_would_have_to_be_computed_is_no_value() {
    for value in [
        "x",
        "g(x=1)",
        "1 + 1",
        "1j",
        "007",
        "5m",
        "b'x'",
        "f'{x}'",
        "f'x'",
        "0x1F",
        "1_.5",
        "(1 2)",
        "'\\N{DASH}'",
        "x.y",
        "[x]",
        "{x: 1}",
        "{1, 2}",
        "lambda: 1",
        "not True",
        "'a' + 'b'",
        "'a",
        "[1",
        "2024-01-01",
        "...",
        "*a",
        "'\\x4'",
        "1__0",
        "0x",
        "-",
        "1e",
    ] {
        let text = format!("free(a={value})");
        assert_eq!(shown(&text, read(&text, true)), "", "{text}");
    }
    check(&[
        ("weather('P').text", ""),
        ("weather('P')[0]", ""),
        ("[weather('P'), weather(x)]", ""),
        ("x(weather('P'))", ""),
    ]);
}

#[test]
fn json_calls_are_read_in_every_shape() {
    let json = r#"json weather {"city":"P"}"#;
    let open_ai = r#"open-ai weather {"city":"P"}"#;
    let anthropic = r#"anthropic weather {"city":"P"}"#;
    let rows = [
        (r#"{"name": "weather", "arguments": {"city": "P"}}"#, json),
        (r#"Yes: {"name": "weather", "arguments": {"city": "P"}} - now."#, json),
        (r#"{"type":"function","name":"weather","parameters":{"city":"P"}}"#, json),
        (r#"{"tool":"weather","args":{"city":"P"}}"#, json),
        (r#"{"tool_name":"weather","kwargs":{"city":"P"}}"#, json),
        (r#"{"function":"weather","input":{"city":"P"}}"#, json),
        (r#"{"thought":"x","action":"weather","action_input":{"city":"P"}}"#, json),
        (r#"{"name":"weather","arguments":"{\"city\":\"P\"}"}"#, json),
        (r#"{"name":"weather","arguments":{"city":"P"},"parameters":{"city":"P"}}"#, json),
        (r#"{"name":"functions.weather","arguments":{"city":"P"}}"#, json),
        (
            r#"{"name":"f","arguments":{"type":"object","properties":{}}}"#,
            r#"json f {"type":"object","properties":{}}"#,
        ),
        ("{'name': 'weather', 'arguments': {'city': 'P',},}", json),
        ("{name: weather, arguments: {city: P}} // call", json),
        ("{“name”: “weather”, “arguments”: {“city”: “P”}}", json),
        (r#"{"name":"weather","arguments":{"city":"P"}"#, json),
        ("```json\n[{\"name\":\"weather\",\"arguments\":{\"city\":\"P\"}\n```", json),
        (r#"{"name":"weather","arguments":{"city":"P"}}}}"#, json),
        ("```json\n[{\"name\": \"weather\",\n \"arguments\": {\"city\": \"P\"}}]\n```", json),
        (r#"{"function":{"name":"weather","arguments":{"city":"P"}}}"#, open_ai),
        (r#"{"id":"1","type":"function","function":{"name":"weather","arguments":"{\"city\":\"P\"}"}}"#, open_ai),
        (
            r#"{"content":"f(a=1)","tool_calls":[{"function":{"name":"weather","arguments":"{\"city\":\"P\"}"}}]}"#,
            open_ai,
        ),
        (r#"{"function_call":{"name":"weather","arguments":"{\"city\":\"P\"}"}}"#, open_ai),
        (r#"{"type":"tool_use","id":"1","name":"weather","input":{"city":"P"}}"#, anthropic),
        (
            r#"{"content":[{"type":"text","text":"weather('x')"},{"type":"tool_use","name":"weather","input":{"city":"P"}}]}"#,
            anthropic,
        ),
    ];
    check(&rows);
    check_unknown(&rows);
    check(&[
        (r#"{"weather": {"city": "P"}}"#, json),
        (r#"{"weather": {"city": "P"}, "now": {}}"#, &format!("{json}\njson now {{}}")),
        (r#"[{"weather": {"city": "P"}}, {"now": {}}]"#, &format!("{json}\njson now {{}}")),
        (r#"{"tool": "weather", "city": "P"}"#, json),
        (r#"{"name": "now"}"#, "json now {}"),
        (r#"{"name": "now", "arguments": null}"#, "json now {}"),
        (r#"{"name": "weather", "arguments": "P"}"#, json),
        (r#"{"action": "run", "tool": "weather", "arguments": {"city": "P"}}"#, json),
    ]);
    let two = "{\"name\":\"a\",\"arguments\":{}}\n{\"name\":\"b\",\"arguments\":{\"x\":{\"name\":\"c\",\"args\":{}}}}";
    check_unknown(&[(two, "json a {}\njson b {\"x\":{\"name\":\"c\",\"args\":{}}}")]);
}

#[test]
fn tags_and_marks_are_read() {
    let object = r#"{"name": "weather", "arguments": {"city": "P"}}"#;
    let tag = r#"tool-call-tag weather {"city":"P"}"#;
    for text in [
        format!("<tool_call>\n{object}\n</tool_call>"),
        format!("Well.\n<tool_call>{object}"),
        format!("<tool_call>{object}</tool_call></tool_call>"),
        format!("<tool_call>\n```json\n{object}\n```\n</tool_call>"),
        format!("<tool_call>[{object}]</tool_call>"),
        format!("<function_call>{}", &object[..object.len() - 1]),
        "<tool_call>weather(city='P')</tool_call>".into(),
        "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>P</arg_value>\n</tool_call>".into(),
        "```tool_call\nweather(city='P')\n```".into(),
    ] {
        assert_eq!(shown(&text, read(&text, true)), tag, "{text}");
        assert_eq!(shown(&text, read(&text, false)), tag, "{text}");
    }
    let text = format!("<tool_call>{object}\n{object}</tool_call>");
    assert_eq!(shown(&text, read(&text, false)), format!("{tag}\n{tag}"));
    let rows = [
        ("<function=weather>{\"city\": \"P\"}</function>", r#"function-tag weather {"city":"P"}"#),
        ("<function=weather>{\"city\": \"P\"}", r#"function-tag weather {"city":"P"}"#),
        ("<function=weather>{\"city\": \"P\"}<function>", r#"function-tag weather {"city":"P"}"#),
        (
            "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"weather\">\n<｜DSML｜parameter name=\"city\" string=\"true\">5</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
            r#"invoke weather {"city":"5"}"#,
        ),
        (
            "<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{\"city\":\"P\"}<|call|>",
            r#"bar-mark weather {"city":"P"}"#,
        ),
        (
            "<|start|>assistant to=functions.weather<|channel|>commentary json<|message|>{\"city\":\"P\"}<|call|>",
            r#"bar-mark weather {"city":"P"}"#,
        ),
        (
            "<tool_call>{\"name\":\"free\",\"arguments\":{\"type\":\"object\",\"properties\":{}}}</tool_call>",
            r#"tool-call-tag free {"type":"object","properties":{}}"#,
        ),
        (
            "<tool_call>\n<function=weather>\n<parameter=city>\nP\n</parameter>\n</function>\n</tool_call>",
            r#"function-tag weather {"city":"P"}"#,
        ),
        ("<function=weather><parameter=city>P</parameter></tool_call>", r#"function-tag weather {"city":"P"}"#),
        ("<invoke name=\"weather\"><parameter name=\"city\">P</parameter></invoke>", r#"invoke weather {"city":"P"}"#),
        (
            "<a:function_calls>\n<a:invoke name='weather'>\n<a:parameter name='city'>P</a:parameter>\n</a:invoke>\n</a:function_calls>",
            r#"invoke weather {"city":"P"}"#,
        ),
        (
            "[TOOL_CALLS] [{\"name\":\"weather\",\"arguments\":{\"city\":\"P\"}}]",
            r#"tool-calls-mark weather {"city":"P"}"#,
        ),
        (
            "[TOOL_CALLS]weather[ARGS]{\"city\":\"P\"}now[CALL_ID]x1[ARGS]{}",
            "tool-calls-mark weather {\"city\":\"P\"}\ntool-calls-mark now {}",
        ),
        ("<|python_tag|>weather(city='P')<|eom_id|>", r#"python-tag weather {"city":"P"}"#),
        ("<|python_tag|>{\"name\":\"weather\",\"parameters\":{\"city\":\"P\"}}", r#"python-tag weather {"city":"P"}"#),
        (
            "<|tool_call|>[{\"name\":\"weather\",\"arguments\":{\"city\":\"P\"}}]<|/tool_call|>",
            r#"bar-mark weather {"city":"P"}"#,
        ),
        ("<|tool_call_start|>[weather(city='P')]<|tool_call_end|>", r#"bar-mark weather {"city":"P"}"#),
        (
            "<|tool_call_begin|>functions.weather:0<|tool_call_argument_begin|>{\"city\":\"P\"}<|tool_call_end|>",
            r#"bar-mark weather {"city":"P"}"#,
        ),
        (
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```json\n{\"city\":\"P\"}\n```<｜tool▁call▁end｜>",
            r#"bar-mark weather {"city":"P"}"#,
        ),
        ("<tool_code>print(weather(city='P'))</tool_code>", r#"tool-code weather {"city":"P"}"#),
        ("```tool_code\nprint(default_api.weather(city='P'))\n```", r#"tool-code weather {"city":"P"}"#),
    ];
    check(&rows);
    check_unknown(&rows);
}

#[test]
fn the_schema_decides_the_types_of_parameters() {
    let parameters =
        "<parameter=city>12</parameter><parameter=days> 3\n</parameter><parameter=tags>['a', 'b']</parameter>";
    let text = format!("<function=weather>{parameters}</function>");
    check(&[(&text, r#"function-tag weather {"city":"12","days":3,"tags":["a","b"]}"#)]);
    let rest = "<parameter=a>true</parameter><parameter=b>[1]</parameter><parameter=c>null</parameter>\
        <parameter=d>\n a &lt; b \n</parameter><parameter=e><b>&lt;</b></parameter><parameter=f>\"x\"</parameter>";
    let text = format!("<function=any>{rest}</function>");
    let read = r#"function-tag any {"a":true,"b":[1],"c":"null","d":" a < b ","e":"<b>&lt;</b>","f":"\"x\""}"#;
    check_unknown(&[(&text, read)]);
}

#[test]
fn react_is_read_as_arguments_are() {
    let json = r#"react weather {"city":"P"}"#;
    check(&[
        ("Thought: x\nAction: weather\nAction Input: {\"city\": \"P\"}\nObservation: y", json),
        ("Action: weather\nActionInput: {'city': 'P',}", json),
        ("**Action:** `weather`\n**Action Input:** city: P\n\nThought: next", json),
        ("Action 1: weather\nAction Input 1: P", json),
        ("Action: weather\nAction Input:\n```json\n{\"city\": \"P\"}\n```\nObservation:", json),
        ("```\nAction: weather\nAction Input: P\n```\nWait.", json),
        ("Action: weather Action Input: P", json),
        ("Action: weather\nAction Input: {\"city\": \"P\"}\n\nI wait for the answer.", json),
        ("Action: weather[P]", json),
        ("Action: [weather]\nAction Input: P", json),
        ("Action: now\nObservation: 12:00", "react now {}"),
        ("Action: weather(city='P')", P),
        (
            "Action:\n```json\n{\"action\": \"weather\", \"action_input\": {\"city\": \"P\"}}\n```",
            r#"json weather {"city":"P"}"#,
        ),
        (
            "Action: weather\nAction Input: P\nObservation: x\nAction: now\nAction Input:\n",
            &format!("{json}\nreact now {{}}"),
        ),
        (
            "Action: weather\nAction Input: call now() and <tool_call>",
            r#"react weather {"city":"call now() and <tool_call>"}"#,
        ),
        ("Action: None\nAction Input: None", ""),
        ("Action: weather\nThat is all.", ""),
        ("Action: search the web\nAction Input: x", ""),
        ("The Action: weather\nAction Input: P", ""),
    ]);
    check_unknown(&[("Action: look\nAction Input: a, b", r#"react look {"input":"a, b"}"#), ("Action: look[up]", "")]);
}

#[test]
fn labels_may_be_in_any_case_and_none_is_no_argument() {
    check(&[
        ("action: weather\naction_input: {\"city\": \"P\"}", r#"react weather {"city":"P"}"#),
        ("thought: x\naction: weather\naction input: P\nobservation: y", r#"react weather {"city":"P"}"#),
        ("ACTION: weather\nACTION INPUT: P\nOBSERVATION: y", r#"react weather {"city":"P"}"#),
        ("action: weather action_input: P", r#"react weather {"city":"P"}"#),
        ("- action: weather\n- action_input: P", r#"react weather {"city":"P"}"#),
        // In a capitalized text, a line in lower case is part of the input.
        ("Action: free\nAction Input: a: 1\nquestion: y", r#"react free {"a":1,"question":"y"}"#),
        ("Action: now\nAction Input: None", "react now {}"),
        ("Action: now\nAction Input: `N/A`.", "react now {}"),
        ("Action: now\nAction Input: \"\"", "react now {}"),
        ("action: now\naction_input: none\nobservation: 12:00", "react now {}"),
        ("Action: weather\nAction Input: None", r#"react weather {"city":"None"}"#),
        ("action: run the tests\nthen go", ""),
    ]);
}

#[test]
fn a_name_is_found_if_only_one_tool_can_be_meant() {
    let json = |name: &str| format!(r#"{{"name": "{name}", "arguments": {{"path": "x"}}}}"#);
    for name in [
        "get-file",
        "get_file",
        "Get File",
        "GET-FILE",
        "get.file",
        " get-file ",
        "`get_file`",
        "functions.get_file",
        "default_api.Get-File",
        "**get-file**",
    ] {
        let text = json(name);
        assert_eq!(shown(&text, read(&text, true)), r#"json get-file {"path":"x"}"#, "{name}");
    }
    check(&[
        ("Weather(city='P')", P),
        ("[WEATHER(city='P')]", P),
        ("home.Weather(city='P')", r#"python home.weather {"city":"P"}"#),
        ("Action: get file\nAction Input: x", r#"react get-file {"path":"x"}"#),
        (
            "<tool_call>{\"name\": \"Get_File\", \"arguments\": {\"path\": \"x\"}}</tool_call>",
            r#"tool-call-tag get-file {"path":"x"}"#,
        ),
        // A program and a sentence have many words.
        ("I see Weather(city='P').", ""),
        ("```python\nimport x\nWeather(city='P')\n```", ""),
        (&json("getfile"), r#"json getfile {"path":"x"}"#),
    ]);
    let both: Vec<(String, Option<String>)> =
        [("a-b", None), ("a_b", None)].map(|(name, none)| (name.to_owned(), none)).to_vec();
    for (name, expected) in [("a_b", "a_b"), ("a-b", "a-b"), ("A_B", "A_B"), ("a b", "")] {
        let text = format!(r#"{{"name": "{name}", "arguments": {{}}}}"#);
        let found = read_calls_of(&text, &both, false).unwrap();
        let names: Vec<&str> = found.iter().map(|call| &*call.name).collect();
        assert_eq!(names.join(" "), expected, "two tools could be meant by {name}");
    }
}

#[test]
fn what_a_text_only_mentions_or_quotes_is_not_found_unless_it_is_asked_for() {
    let tag = r#"<tool_call>{"name": "weather", "arguments": {"city": "P"}}</tool_call>"#;
    let json = r#"{"name": "weather", "arguments": {"city": "P"}}"#;
    let call = "weather(city='P')";
    for text in [
        format!("Do NOT call {call}."),
        format!("I already called {call}, and it rained."),
        format!("{call} is what I would call."),
        format!("First {call} and then rest."),
        format!("Never run `{call}` again."),
        format!("The page says: {tag}"),
        format!("The page has {tag} in it, which I ignore."),
        format!("\"{tag}\""),
        format!("“{tag}”"),
        format!("The page says \"Hello!\n{tag}\nBye!\" and no more."),
        format!("> {tag}"),
        format!("> {call}"),
        format!("> Do this:\n> {json}"),
        format!("> ```\n> {call}\n> ```"),
        format!("<blockquote>\n{tag}\n</blockquote>"),
        format!("<BLOCKQUOTE cite=\"x\">\n<p>\n{call}\n</p>\n</blockquote>"),
        format!("<tool_response>\n{tag}\n</tool_response>\nThat is odd."),
        format!("<document>\n{call}"),
        format!("<!-- \n{call}\n-->"),
        format!("Observation: the page says\n{tag}\nThought: I ignore it"),
        format!("Yes: {json} - now."),
        format!("- [x] {call}"),
        format!("| {call} | done |"),
        format!("# {call}"),
        format!("So I call [{call}]."),
        "> Action: weather\n> Action Input: P".to_owned(),
        "The page says: <function=weather>{\"city\": \"P\"}</function>".to_owned(),
        "It ends with [TOOL_CALLS]weather[ARGS]{\"city\": \"P\"} there".to_owned(),
        // What is only mentioned is no error either.
        "Do not write weather('P', city='Q') here.".to_owned(),
        "The page says: <tool_call>{\"name\": \"weather\", \"argu".to_owned(),
        "> <tool_call>{\"name\": \"weather\", \"argu".to_owned(),
        "Not {\"name\": \"weather\", \"arguments\": {\"city\": \"P\", \"city\": \"Q\"}}".to_owned(),
    ] {
        let (loose, strict) = stands(&text);
        assert_eq!(strict, Vec::<String>::new(), "{text}");
        assert!(loose.iter().all(|one| one.starts_with("Inline ") || one.starts_with("Quoted ")), "{text}: {loose:?}");
    }
    let (loose, _) = stands(&format!("Do NOT call {call}, nor `{call}`.\n> {call}\n\n{call}"));
    assert_eq!(loose, ["Inline weather", "Quoted weather", "Quoted weather", "OwnLine weather"]);
}

#[test]
fn a_call_stands_for_itself_on_its_lines_in_a_fence_and_after_a_mark() {
    let tag = r#"<tool_call>{"name": "weather", "arguments": {"city": "P"}}</tool_call>"#;
    let json = r#"{"name": "weather", "arguments": {"city": "P"}}"#;
    let call = "weather(city='P')";
    for (text, standing) in [
        (format!("I look.\n{call}\nThen I answer."), "OwnLine"),
        (format!("  - `{call}`"), "OwnLine"),
        (format!("2. **{call}**"), "OwnLine"),
        (format!("• {call}"), "OwnLine"),
        (format!("[{call}]"), "OwnLine"),
        (format!("r = {call}  # first"), "OwnLine"),
        (format!("print(await {call})"), "OwnLine"),
        (format!("{json},"), "OwnLine"),
        (format!("[\n  {json}\n]"), "OwnLine"),
        (format!("{json} // call"), "OwnLine"),
        (format!("{json}}}}}"), "OwnLine"),
        (format!("{{\"content\": \"I call now().\", \"tool_calls\": [{json}]}}"), "OwnLine"),
        (format!("Action: {call}"), "OwnLine"),
        (format!("<answer>{call}</answer>"), "OwnLine"),
        (format!("<think>Not now().</think>{call}"), "OwnLine"),
        (format!("I'd say now().\n</think>{call}"), "OwnLine"),
        (format!("It is \"so\".\n\nI said \"{{\n\n{call}\n\n\""), "OwnLine"),
        (format!("Observation: 12:00\nThought: on\n{call}"), "OwnLine"),
        (format!("<blockquote>x</blockquote>\n{call}"), "OwnLine"),
        (format!("Use the <code> tag.\n{call}"), "OwnLine"),
        (format!("Here:\n```python\n{call}\n```\nDone."), "Fenced"),
        (format!("```json\n{json}\n```"), "Fenced"),
        (format!("```json {json}```"), "Fenced"),
        (format!("```{call}```"), "Fenced"),
        (format!("```\nimport x\nr = {call}\nuse(r)\n```"), "Fenced"),
        (format!("```tool_code\nprint({call})\n```"), "Fenced"),
        (format!("```\n{tag}\n```"), "Fenced"),
        (format!("I look.\n{tag}"), "Marked"),
        (format!("<tool_call>\n{json}\n</tool_call>\nand more"), "Marked"),
        ("Thought: x\nAction: weather\nAction Input: P\nObservation: y".to_owned(), "Marked"),
        ("**Action:** weather\n**Action Input:** P".to_owned(), "Marked"),
        ("<s>[TOOL_CALLS]weather[ARGS]{\"city\": \"P\"}</s>".to_owned(), "Marked"),
        ("<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{\"city\":\"P\"}<|call|>".to_owned(), "Marked"),
        ("<|start|>assistant to=functions.weather<|channel|>commentary json<|message|>{\"city\":\"P\"}<|call|>".to_owned(), "Marked"),
        ("<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```json\n{\"city\":\"P\"}\n```<｜tool▁call▁end｜>".to_owned(), "Marked"),
    ] {
        let (loose, strict) = stands(&text);
        assert_eq!(loose, [format!("{standing} weather")], "{text}");
        assert_eq!(strict, ["weather"], "{text}");
    }
    for text in [
        format!("{call}; {call}"),
        format!("[{json}, {json}]"),
        format!("{json} {json}"),
        format!("{tag}{tag}"),
        format!("{tag}\n{tag}"),
    ] {
        assert_eq!(stands(&text).1, ["weather", "weather"], "{text}");
    }
    assert_eq!(stands(&format!("{json} and {json}")).1, Vec::<String>::new());
}

#[test]
fn thoughts_are_skipped() {
    check(&[
        ("<think>weather('Q') {\"name\":</think>weather('P')", P),
        ("<thinking>\nweather('Q')\n</thinking>\n\nweather('P')", P),
        ("<reasoning>I'd call weather(city='Q')</reasoning>\n[weather('P')]", P),
        ("I'd call weather('Q', city='R').\n```\n</think>\n\nweather('P')", P),
        ("<think>\nweather('Q')", ""),
        ("[THINK]I'd call weather('Q').[/THINK]weather('P')", P),
        ("<|START_THINKING|>I'd call weather('Q').<|END_THINKING|>weather('P')", P),
        (
            "<|channel|>analysis<|message|>weather('Q')<|end|><|start|>assistant<|channel|>final<|message|>weather('P')",
            P,
        ),
        ("<scratch_pad>\n- weather('Q')\n</scratch_pad>\nweather('P')", P),
        ("Write <think> first.\nweather('P')", P),
        ("weather(city='</think>')", r#"python weather {"city":"</think>"}"#),
    ]);
}

#[test]
fn what_only_looks_like_a_call_is_none() {
    let rows = [
        "",
        "I will call print(1) now.",
        "You can use now() to get the time.",
        "The weather (city) is fine; see weather(city) and weather(city=...).",
        "def weather(city='P'):\n    return 1",
        "```python\nimport os\nos.remove(path='x')\n```",
        "```python\nx = [Foo(a=1), Bar(b=2)]\nuse(x)\n```",
        "```python\nfor x in y(\n    1\n):\n    weather(city='P')\n\n    weather(city='Q')\nif x: weather(city='R')\n```",
        "```python\nx = \"I call weather(city='P')\"  # or weather(city='Q')\nuse(x)\n```",
        "```bash\ncurl -d '{\"name\": \"Bob\", \"input\": {\"a\": 1}}' https://example.com\n```",
        "| name | arguments |\n|---|---|\n| weather | {city} |",
        "{\"title\": \"weather\", \"data\": {\"name\": \"x\", \"arguments\": 1}}",
        "{\"user\": {\"name\": \"Bob\", \"age\": 5}}",
        "{\"name\": \"Bob\", \"action\": \"run\", \"input\": \"x\"}",
        "{\"name\": \"Bob Smith\", \"input\": {\"a\": 1}}",
        "{\"name\": \"w\", \"description\": \"x\", \"parameters\": {\"type\": \"object\", \"properties\": {}}}",
        "{\"name\": \"w\", \"description\": \"x\", \"parameters\": {\"city\": {\"type\": \"string\"}}}",
        "{\"action\": \"Final Answer\", \"action_input\": \"It is fine.\"}",
        "{\"text\": \"weather(city='P')\"}",
        "[\"weather(city='P')\", \"I call weather(city='P')\"]",
        "the text \"weather(city='P')\" is code",
        "[main()](https://example.com/weather)",
        "See [printf(3)] and f(x) = {x : x > 0}.",
        "\\frac{a}{b} and {{ template }} and {x}",
        "Use the <tool_call> tag or <function=name> tags, please.",
        "if (a) { weather(\"P\" + city); }",
        "Run callTool({\"name\": \"weather\", \"arguments\": {\"city\": \"P\"}})",
        "{\"name\": \"weather\", \"arguments\": {\"city\": oh \"no\", \"x\": {\"name\": \"now\", \"arguments\": {}}}}",
        "print('hello')",
        "$ weather(",
        "a == weather",
        "1. One\n2. Two (or so)",
    ];
    for text in rows {
        assert_eq!(shown(text, read(text, true)), "", "{text}");
        assert_eq!(shown(text, read(text, false)), "", "{text}");
    }
    check_unknown(&[
        ("{\"weather\": {\"city\": \"P\"}}", ""),
        ("I call weather(city='P').", ""),
        ("weather(city=x)", ""),
    ]);
    check(&[
        ("I call weather(town='P').", ""),
        ("I call weather(days=1).", ""),
        ("Some prose.\nrequests.post(url='x')", ""),
    ]);
}

#[test]
fn what_has_two_meanings_is_an_error_with_both() {
    check(&[
        ("weather(city='P', city='Q')", r#"ambiguous at 0: {"city":"P"} or {"city":"Q"}"#),
        ("Ok: weather('P', city='Q')", r#"ambiguous at 4: {"city":"P"} or {"city":"Q"}"#),
        (
            r#"{"name":"weather","arguments":{"city":"P"},"parameters":{"city":"Q"}}"#,
            r#"ambiguous at 0: {"city":"P"} or {"city":"Q"}"#,
        ),
        (r#"{"name":"weather","tool":"now","arguments":{}}"#, r#"ambiguous at 0: "weather" or "now""#),
        (
            "put({'body': {}, 'b': 1, 'body': {}})\nput({'body': {}})",
            r#"ambiguous at 38: {"body":{}} or {"body":{"body":{}}}"#,
        ),
        (
            "<function=weather><parameter=city>P</parameter><parameter=city>Q</parameter></function>",
            r#"ambiguous at 0: {"city":"P"} or {"city":"Q"}"#,
        ),
        ("weather('P', 1, [], 2)", "unnamed at 0: weather 4"),
        ("free(1)", "unnamed at 0: free 1"),
    ]);
    // A key that an object has twice has two meanings, however the object is written.
    let twice = r#"{"city":"P"} or {"city":"Q"}"#;
    let city = r#"{"city": "P", "city": "Q"}"#;
    let single = "{'city': 'P', 'city': 'Q'}";
    for text in [
        format!(r#"{{"name": "weather", "arguments": {city}}}"#),
        format!(r#"{{"name": "weather", "arguments": {single}}}"#),
        format!("<function=weather>{city}</function>"),
        format!("<tool_call>{{\"name\": \"weather\", \"arguments\": {city}}}</tool_call>"),
        format!("[TOOL_CALLS]weather[ARGS]{city}"),
        format!("Action: weather\nAction Input: {city}"),
        format!("weather({city})"),
        format!("weather(**{single})"),
        r#"{"name": "weather", "arguments": "{\"city\": \"P\", \"city\": \"Q\"}"}"#.to_owned(),
        format!("<function=free><parameter=a>{city}</parameter></function>"),
    ] {
        let found = shown(&text, read(&text, true));
        assert!(found.starts_with("ambiguous at ") && found.ends_with(twice), "{text}: {found}");
    }
    check(&[
        (
            r#"{"name": "now", "name": "weather", "arguments": {"city": "P"}}"#,
            r#"ambiguous at 0: {"name":"now"} or {"name":"weather"}"#,
        ),
        (r#"{"name": "weather", "arguments": {"city": "P", "city": "P"}}"#, r#"json weather {"city":"P"}"#),
    ]);
    check_unknown(&[("[a(x=1), b(2)]", "unnamed at 9: b 1"), ("<tool_call>b(2)</tool_call>", "unnamed at 11: b 1")]);
}

#[test]
fn a_marked_call_that_breaks_off_is_an_error() {
    for text in [
        "<tool_call>{\"name\": \"weather\", \"argu",
        "<tool_call>{\"name\": \"weather\", \"arguments\": {\"city\": \"P",
        "<tool_call>weather(city='P",
        "<function=weather><parameter=city>P",
        "<function=weather><parameter=city>P</parameter>",
        "<invoke name=\"weather\"><parameter name=\"city\">P</parameter>\n",
        "[TOOL_CALLS]weather[ARGS]{\"city\": ",
        "<|tool_call_begin|>weather<|tool_sep|>{\"city\": \"P\"",
    ] {
        assert_eq!(read(text, true), Err(ReadingError::Incomplete(0)), "{text}");
        assert_eq!(read(text, false), Err(ReadingError::Incomplete(0)), "{text}");
    }
}

#[test]
fn half_an_object_is_no_argument() {
    for (text, expected) in [
        ("Action: weather\nAction Input: {\"city\": \"Par", Err(ReadingError::Malformed(0))),
        (r#"{"name": "weather", "arguments": "{\"city\": \"Par"}"#, Err(ReadingError::Malformed(0))),
        ("Go.\nAction: weather\nAction Input: {\"city\": \"P\"} or {\"city\": \"Q\"}", Err(ReadingError::Malformed(4))),
    ] {
        assert_eq!(read(text, true), expected, "{text}");
    }
    check(&[("Action: weather\nAction Input: {\"city\": \"P\"} as asked", r#"react weather {"city":"P"}"#)]);
}

#[test]
fn a_text_that_is_a_call_of_its_own_tool_gives_the_arguments() {
    let schema = json::parse(WEATHER).unwrap();
    for (text, expected) in [
        ("weather(city='P')", Some(r#"{"city":"P"}"#)),
        ("home.weather('P', 2)", Some(r#"{"city":"P","days":2}"#)),
        ("```python\nhome__weather(city='P')\n```", Some(r#"{"city":"P"}"#)),
        ("[weather(city='P')]", Some(r#"{"city":"P"}"#)),
        (r#"{"name": "weather", "arguments": {"city": "P"}}"#, Some(r#"{"city":"P"}"#)),
        ("<tool_call>{\"name\":\"weather\",\"arguments\":{\"city\":\"P\"}}</tool_call>", Some(r#"{"city":"P"}"#)),
        ("Action: weather\nAction Input: P", Some(r#"{"city":"P"}"#)),
        ("I call weather(city='P')", None),
        ("weather(town='P')", None),
        ("weather(days=1)", None),
        ("weather(city='P'), weather(city='Q')", None),
        ("other(city='P')", None),
        ("xweather(city='P')", None),
        ("print(1)", None),
        (r#"{"city": "P"}"#, None),
        ("weather('P', 1, [], 2)", None),
        ("", None),
    ] {
        assert_eq!(as_own_call(text, "weather", Some(&schema)).as_deref(), expected, "{text}");
    }
    assert_eq!(as_own_call("f(a=1)", "f", None).as_deref(), Some(r#"{"a":1}"#));
    assert_eq!(as_own_call("print(1)", "run_python", None), None);
    let relay = json::parse(r#"{"properties":{"name":{},"arguments":{}}}"#).unwrap();
    assert_eq!(as_own_call(r#"{"name":"relay","arguments":{"name":"x"}}"#, "relay", Some(&relay)), None);
}

#[test]
fn limits_hold() {
    let deep = |open: &str, close: &str| open.repeat(100_000) + &close.repeat(100_000);
    let too_deep = Err(ReadingError::TooDeep(MAX_DEPTH as u64));
    assert_eq!(read(&format!("free(a={})", deep("[", "]")), true), too_deep);
    assert_eq!(read(&format!("free(a={})", deep("(", ")")), true), too_deep);
    assert_eq!(read(&format!("{{\"a\":{}}}", deep("[", "]")), true), too_deep);
    assert_eq!(read(&format!("{{'a':{}}}", deep("{'a':", "}")), true), too_deep);
    let many = "0,".repeat(MAX_VALUES);
    let too_many = Err(ReadingError::TooManyValues(MAX_VALUES as u64));
    assert_eq!(read(&format!("free(a=[{many}])"), true), too_many);
    assert_eq!(read(&format!("{{\"name\":\"free\",\"arguments\":{{\"a\":[{many}0]}}}}"), true), too_many);
    assert_eq!(read(&" ".repeat(MAX_TEXT + 1), true), Err(ReadingError::TooLarge(MAX_TEXT as u64)));
}

#[test]
fn hostile_texts_come_to_an_end() {
    let largest = ["(((((", "{\"name\":", "{", "<tool_call>", "Action:", "``` ", "free(a=[", "{a:'b\n\n"];
    let units = [
        "free(",
        "free(a=",
        "free(a='",
        "[free(a=1),",
        "[",
        "{\"a\":[",
        "{a:'b ",
        "{\"tool_calls\":[",
        "[\"",
        "<tool_call>{",
        "<tool_call>free(",
        "<function=f>",
        "<function=f><parameter=a>",
        "<|tool_call_begin|>",
        "[TOOL_CALLS]",
        "x <think> ",
        "free(a=1,a=2)</think>",
        "Action: now\n",
        "Action: now\nAction Input:\n",
        "```\nfree(a=\n",
        "#",
        "{/*",
        "\n",
        "“",
        "a-",
        "free(a='x'\n",
        "x(\n\n{\"a\":\"",
        "```json\n{\"a\":'",
        "<",
        "</think>",
        "&",
        "\\",
    ];
    let all = largest.iter().map(|unit| (unit, 10 << 20)).chain(units.iter().map(|unit| (unit, 1 << 20)));
    for (unit, size) in all {
        let text = unit.repeat(size / unit.len());
        for known in [true, false] {
            // A reader that looks at the rest of the text from each place would take hours.
            let _ = read(&text, known);
        }
    }
}

/// Pieces of texts in all forms, to be cut and joined.
const PIECES: [&str; 24] = [
    "weather(city='P', days=3)",
    "[weather(\"é\"), now()]",
    "{\"name\": \"weather\", \"arguments\": {\"city\": \"P\\u00e9\"}}",
    "{'tool': 'now', 'args': {}}",
    "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>",
    "<function=weather><parameter=city>ü</parameter></function>",
    "<invoke name=\"weather\"><parameter name=\"city\">P</parameter></invoke>",
    "[TOOL_CALLS]weather[ARGS]{\"city\": \"P\"}",
    "<｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n```json\n{}\n```<｜tool▁call▁end｜>",
    "\nAction: weather\nAction Input: {\"city\": \"P\"}\nObservation: x\n",
    "<|python_tag|>",
    "```python\n",
    "\n```\n",
    "<think>",
    "</think>",
    "“”‘’😀\u{a0}",
    "free(a='''x\\",
    "r = await print(free(**{'a': [1, (2,), {3: 4}]}))",
    "{\"tool_calls\": [{\"function\": {\"name\": \"now\", \"arguments\": \"{}\"}}]}",
    "<tool_call>now<arg_key>a</arg_key><arg_value>1</arg_value></tool_call>",
    ", ",
    "\n\n",
    "it's {so: \"odd\" (",
    "free(a=\"\\ud83d\\ude00\", b=-1_0, c=1.)",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    #[test]
    fn cut_and_joined_texts_are_read_or_refused(
        parts in proptest::collection::vec((0..PIECES.len(), 0..80_usize, 0..80_usize), 1..6),
        known in any::<bool>(),
    ) {
        let mut text = String::new();
        for (piece, from, length) in parts {
            // Mostly whole pieces, else any part of one.
            let letters = PIECES[piece].chars();
            let from = from.saturating_sub(60);
            text.extend(letters.skip(from).take(if length > 40 { usize::MAX } else { length }));
        }
        let loose = read(&text, known);
        shown(&text, loose.clone());
        let tools: Vec<(String, Option<String>)> = Vec::new();
        if let (false, Ok(loose), Ok(strict)) = (known, loose, read_calls_of(&text, &tools, false)) {
            prop_assert_eq!(strict, loose.into_iter().filter(|call| call.standing.is_for_itself()).collect::<Vec<_>>());
        }
        let schema = json::parse(WEATHER).unwrap();
        as_own_call(&text, "weather", Some(&schema));
    }
}
