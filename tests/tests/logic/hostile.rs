//! Tests hostile input: every line gets an answer, and so does the next one.

use serde_json::json;
use toolgate::decide::Decide;
use toolgate::eval;
use toolgate::logic::Supervisor;

fn ask(logic: &mut Supervisor, question: &serde_json::Value) -> String {
    let answer = eval::answer(logic, &question.to_string());
    assert_eq!(logic.replacements(), 0, "the component crashed: {}", &answer[..answer.len().min(500)]);
    answer
}

fn arguments(logic: &mut Supervisor, text: &str) -> String {
    ask(logic, &json!({"op": "arguments", "text": text}))
}

#[test]
fn deep_nesting_is_refused() {
    let logic = &mut toolgate_tests::supervisor();
    for text in ["[", "{\"a\":", "{a: ", "- ", "? ", "\"", "[{", "(((", "```\n", "&a [", "a: {"] {
        let answer = arguments(logic, &text.repeat(100_000));
        assert!(answer.starts_with("{\"ok\"") || answer.contains("nested deeper than"), "{}", &answer[..200]);
    }
    for text in ["[", "{\"a\":", "{a: "] {
        assert!(arguments(logic, &text.repeat(100_000)).contains("nested deeper than"), "{text}");
    }
    let closed = "[".repeat(100_000) + &"]".repeat(100_000);
    assert!(arguments(logic, &closed).contains("nested deeper than"));
    let line = format!(r#"{{"op":"extract","result":{closed}}}"#);
    assert!(eval::answer(logic, &line).contains("nested deeper than"));
    assert_eq!(logic.replacements(), 0);
}

#[test]
fn alias_bombs_stay_small() {
    let logic = &mut toolgate_tests::supervisor();
    let mut bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
    for n in 1..30 {
        let alias = format!("*a{}", n - 1);
        bomb += &format!("a{n}: &a{n} [{}]\n", vec![alias; 10].join(","));
    }
    let answer = arguments(logic, &bomb);
    assert!(answer.len() < 100_000, "{} bytes", answer.len());
}

#[test]
fn ten_megabytes_in_few_values_are_read() {
    let logic = &mut toolgate_tests::supervisor();
    let text = "x".repeat(10_000_000);
    for (text, stage) in [
        (format!("{{\"text\":\"{text}\"}}"), "json"),
        (format!("{{'text':'{text}'}}"), "json-repaired"),
        (format!("text: {text}"), "key-value"),
        (text.clone(), "raw"),
    ] {
        let answer = arguments(logic, &text);
        assert!(answer.contains(&format!("\"stage\":\"{stage}\"")), "{stage}: {}", &answer[..200]);
        assert!(answer.len() > 10_000_000);
    }
}

#[test]
fn too_many_values_and_too_many_bytes_are_refused() {
    let logic = &mut toolgate_tests::supervisor();
    let many = format!("[{}0]", "0,".repeat(300_000));
    assert!(arguments(logic, &many).contains("more than 250000 JSON values"));
    assert!(arguments(logic, &format!("{{\"a\":{many}")).contains("more than 250000 JSON values"));
    assert!(arguments(logic, &"k: 1\n".repeat(300_000)).contains("more than 250000 JSON values"));
    assert!(arguments(logic, &"x".repeat(20 << 20)).contains("larger than"));
    let huge = format!(
        "{{\"op\":\"arguments\",\"text\":\"{}\"}}\n{{\"op\":\"backoff\",\"attempt\":3}}\n",
        "x".repeat(100_000_000)
    );
    let mut output = Vec::new();
    eval::run(logic, huge.as_bytes(), &mut output).unwrap();
    let output = String::from_utf8(output).unwrap();
    let answers: Vec<&str> = output.lines().collect();
    let refused = r#"{"error":"the line is longer than 67108864 bytes","code":"invalid-line","trace":[]}"#;
    assert_eq!(answers, [refused, r#"{"ok":5000}"#]);
}

#[test]
fn masks_hold_against_long_lines_and_odd_bytes() {
    let logic = &mut toolgate_tests::supervisor();
    let unfriendly = [
        "a".repeat(1_000_000),
        "password".repeat(125_000),
        "\"password\":".repeat(90_000),
        "a@".repeat(500_000),
        "eyJ".repeat(300_000),
        "-----BEGIN ".repeat(90_000),
        "-".repeat(1_000_000),
        "kind: Secret\n".repeat(70_000),
        "{\"data\":".repeat(100_000),
        "\u{0}\u{1}\u{7f}".repeat(300_000),
        "\\\"".repeat(500_000),
        " ".repeat(1_000_000),
        "token: ".repeat(140_000),
        "data:\n  a: b\n".repeat(70_000),
    ];
    for text in &unfriendly {
        let answer = ask(logic, &json!({"op": "mask", "groups": ["all"], "text": text}));
        assert!(answer.starts_with("{\"ok\""), "{}", &answer[..200]);
    }
}

#[test]
fn odd_characters_pass_through() {
    let logic = &mut toolgate_tests::supervisor();
    // A NUL that is not escaped is no JSON, and is mended like any control character.
    assert_eq!(
        eval::answer(logic, r#"{"op":"arguments","text":"{\"a\":\"\u0000\"}"}"#),
        r#"{"ok":{"arguments":{"a":"\u0000"},"stage":"json-repaired","notes":["escaped raw newlines or control characters in strings"]}}"#
    );
    let lone = eval::answer(logic, r#"{"op":"extract","result":{"content":[{"type":"text","text":"a\ud800b"}]}}"#);
    assert_eq!(lone, "{\"ok\":{\"content\":\"a\u{fffd}b\",\"is_error\":false}}");
    assert!(
        eval::answer(logic, "{\"op\":\"arguments\",\"text\":\"{\\\"a\\\":\\\"\\\\ud800\\\"}\"}").contains('\u{fffd}')
    );
    for name in ["\u{0}", "a\u{0}.b", "😀.😀", "\u{202e}a.b", &"_".repeat(1_000_000), &".".repeat(1_000_000)] {
        let servers = json!({"a": {"tools": ["b"]}});
        let answer = ask(logic, &json!({"op": "resolve", "servers": servers, "call": {"name": name}}));
        assert!(answer.starts_with("{\"error\""), "{answer}");
        assert!(answer.len() < 2_000, "an error must stay readable: {} bytes", answer.len());
    }
}

#[test]
fn ten_thousand_tools_are_listed_and_routed() {
    let logic = &mut toolgate_tests::supervisor();
    let tools: Vec<String> = (0..10_000).map(|n| format!("tool_{n}_{}", "x".repeat(n % 90))).collect();
    let servers = json!({"a": {"tools": tools}});
    let last = json!({"op": "resolve", "servers": servers, "call": {"name": format!("a__{}", tools[9_999])}});
    assert!(ask(logic, &last).starts_with("{\"ok\""));
    let typo = json!({"op": "resolve", "servers": servers, "call": {"name": "a__tool_77x"}});
    let answer = ask(logic, &typo);
    assert!(answer.contains("tool_77") && answer.contains("more)") && answer.len() < 5_000, "{answer}");
    let candidates: Vec<_> = tools.iter().map(|tool| json!({"server": "a", "tool": tool})).collect();
    let fitted = ask(logic, &json!({"op": "fit", "target": "cursor", "tools": candidates}));
    assert!(fitted.starts_with("{\"ok\""), "{}", &fitted[..200]);
    assert_eq!(logic.normalize("a__b").unwrap(), "a.b");
}

#[test]
fn a_thousand_tools_fit_into_eight_megabytes() {
    let logic = &mut toolgate_tests::supervisor();
    let before = logic.memory_bytes();
    let mut settings = logic.default_settings(&["a".to_owned()]).unwrap();
    settings.masks.groups = vec!["all".to_owned()];
    let gate = logic.open_gate(&settings).unwrap().unwrap();
    let description = "d".repeat(470);
    let schema = format!(r#"{{"type":"object","description":"{description}"}}"#);
    assert!(schema.len() >= 500);
    let tool = |n: usize| toolgate::logic::types::Tool {
        name: format!("tool_{n}"),
        description: None,
        input_schema: Some(schema.clone()),
        annotations: toolgate::logic::types::Annotations {
            read_only: None,
            destructive: None,
            idempotent: None,
            open_world: None,
        },
    };
    let tools: Vec<_> = (0..1_000).map(tool).collect();
    logic.offer(gate, "a", &tools).unwrap();
    let call = toolgate::logic::types::execution::ToolCall {
        id: String::new(),
        name: "a__tool_7".to_owned(),
        arguments: String::new(),
    };
    logic.begin(gate, call).unwrap();
    let used = logic.memory_bytes();
    assert!(used <= 8 << 20, "{used} bytes, {before} of them before the first tool");
}
