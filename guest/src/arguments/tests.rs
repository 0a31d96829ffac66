//! Texts and what they mean as arguments.

use super::*;
use proptest::prelude::*;

fn read(text: &str, schema: Option<&str>) -> (String, Stage, Vec<String>) {
    let schema = schema.map(|schema| Document::new(json::parse(schema).unwrap()));
    let parsed = parse(text, schema.as_ref()).unwrap();
    let notes = parsed.notes.into_iter().map(|note| format!("{:?}: {}", note.kind, note.text)).collect();
    (parsed.arguments, parsed.stage, notes)
}

#[test]
fn the_schema_decides_whether_brackets_are_text() {
    let schema = r#"{"properties":{"query":{"type":"string"},"labels":{"type":"array","items":{"type":"string"}}}}"#;
    for (text, arguments, stage) in [
        (r#"query: {app="nginx"}"#, r#"{"query":"{app=\"nginx\"}"}"#, Stage::KeyValue),
        ("query: {\"a\": 1}", r#"{"query":"{\"a\": 1}"}"#, Stage::KeyValue),
        ("query: [a, b]", r#"{"query":"[a, b]"}"#, Stage::KeyValue),
        ("labels: [a, b], query: x", r#"{"labels":["a","b"],"query":"x"}"#, Stage::KeyValue),
        ("labels: [a, b]", r#"{"labels":["a","b"]}"#, Stage::Yaml),
    ] {
        let (read, read_as, _) = read(text, Some(schema));
        assert_eq!((read.as_str(), read_as), (arguments, stage), "{text}");
    }
    assert_eq!(read(r#"query: {app="nginx"}"#, None).0, r#"{"query":"{app=\"nginx\"}"}"#);
}

#[test]
fn the_first_reading_that_succeeds_wins() {
    use Stage::*;
    for (text, arguments, stage) in [
        ("", "{}", Empty),
        ("   \n  ", "{}", Empty),
        ("\u{feff}", "{}", Empty),
        ("```json\n```", "{}", Empty),
        (r#"{"namespace": "default", "limit": 10}"#, r#"{"namespace":"default","limit":10}"#, Json),
        (r#"{"filter": {"app": "nginx"}, "n": "p"}"#, r#"{"filter":{"app":"nginx"},"n":"p"}"#, Json),
        ("\u{feff}{\"key\": \"value\"}", r#"{"key":"value"}"#, Json),
        (r#"{"id": 12345678901234567890123}"#, r#"{"id":12345678901234567890123}"#, Json),
        (r#"["pod1", "pod2"]"#, r#"{"input":["pod1","pod2"]}"#, JsonValue),
        ("\"hello world\"", r#"{"input":"hello world"}"#, JsonValue),
        ("42", r#"{"input":42}"#, JsonValue),
        ("true", r#"{"input":true}"#, JsonValue),
        ("false", r#"{"input":false}"#, JsonValue),
        ("null", r#"{"input":null}"#, JsonValue),
        ("{'a': True,}", r#"{"a":true}"#, JsonRepaired),
        ("[1, 2,]", r#"{"input":[1,2]}"#, JsonRepaired),
        ("```json\n{\"a\": 1}\n```", r#"{"a":1}"#, JsonRepaired),
        ("Here it is:\n```\n{a: 1}\n```\nDone.", r#"{"a":1}"#, JsonRepaired),
        ("```\n42\n```", r#"{"input":42}"#, JsonRepaired),
        ("a:\n  - b\n  - c\nd: e=f", r#"{"a":["b","c"],"d":"e=f"}"#, Yaml),
        ("```yaml\na:\n  b: c\n```", r#"{"a":{"b":"c"}}"#, Yaml),
        ("{a: [b, c]}", r#"{"a":["b","c"]}"#, Yaml),
        ("namespace: default", r#"{"namespace":"default"}"#, KeyValue),
        ("namespace=default", r#"{"namespace":"default"}"#, KeyValue),
        ("namespace: default\nlimit: 10", r#"{"namespace":"default","limit":10}"#, KeyValue),
        ("query: up{a=\"b\",c=\"d\"}", r#"{"query":"up{a=\"b\",c=\"d\"}"}"#, KeyValue),
        ("```\na: 1\n```", r#"{"a":1}"#, KeyValue),
        ("get all pods", r#"{"input":"get all pods"}"#, Raw),
        ("default", r#"{"input":"default"}"#, Raw),
        ("https://e.com/x", r#"{"input":"https://e.com/x"}"#, Raw),
        ("note: a, b", r#"{"input":"note: a, b"}"#, Raw),
        ("```sh\nls -l\n```", r#"{"input":"ls -l"}"#, Raw),
        ("See:\n```\nls\n```", r#"{"input":"See:\n```\nls\n```"}"#, Raw),
        ("- a\n- b", r#"{"input":"- a\n- b"}"#, Raw),
        ("{\0", r#"{"input":"{\u0000"}"#, Raw),
    ] {
        let (found, by, _) = read(text, None);
        assert_eq!((found.as_str(), by), (arguments, stage), "{text}");
    }
}

#[test]
fn the_schema_decides() {
    const SCHEMA: &str = r#"{"type":"object","properties":{"id":{"type":"string"},"n":{"type":"integer"},
        "on":{"type":"boolean"},"filter":{"type":"object"},"tags":{"type":"array","items":{"type":"string"}}}}"#;
    for (text, arguments, notes) in [
        ("id: 007, n: 12", r#"{"id":"007","n":12}"#, vec![]),
        ("id: 1.10\non: TRUE", r#"{"id":"1.10","on":true}"#, vec![]),
        ("id: None", r#"{"id":"None"}"#, vec![]),
        ("id: [1]", r#"{"id":"[1]"}"#, vec![]),
        ("id=[1]", r#"{"id":"[1]"}"#, vec![]),
        ("id: True\ntags:\n  - 1.0\n  - no", r#"{"id":"True","tags":["1.0","no"]}"#, vec![]),
        ("tags: True", r#"{"tags":["True"]}"#, vec![r#"Coercion: "tags": read string "True" as array"#]),
        (r#"{"n":"12"}"#, r#"{"n":12}"#, vec![r#"Coercion: "n": read string "12" as integer 12"#]),
        (r#"{"id":7}"#, r#"{"id":"7"}"#, vec![r#"Coercion: "id": read integer 7 as string "7""#]),
        (r#"{"id":"{\"a\":1}"}"#, r#"{"id":"{\"a\":1}"}"#, vec![]),
        (
            r#"{'filter':'{"a":"1"}','n':'x'}"#,
            r#"{"filter":{"a":"1"},"n":"x"}"#,
            vec![
                "Repair: replaced single or typographic quotes by double quotes",
                r#"Coercion: "filter": read string "{\"a\":\"1\"}" as object"#,
                r#"Problem: "n": expected integer, found string "x""#,
            ],
        ),
        (r#"{"id":null}"#, r#"{"id":null}"#, vec![r#"Problem: "id": expected string, found null"#]),
        (
            r#""{\"n\":\"1\"}""#,
            r#"{"n":1}"#,
            vec!["Coercion: opened the object in quotes", r#"Coercion: "n": read string "1" as integer 1"#],
        ),
        (
            "n: 1, n: 2",
            r#"{"n":2}"#,
            vec!["Repair: some keys were given more than once: the last value of each counts"],
        ),
        ("Look:\n```\n{\"x\":1}\n```", r#"{"input":"Look:\n```\n{\"x\":1}\n```"}"#, vec![]),
    ] {
        let (found, _, said) = read(text, Some(SCHEMA));
        assert_eq!((found.as_str(), said), (arguments, notes.iter().map(|note| note.to_string()).collect()), "{text}");
    }
}

#[test]
fn a_bare_value_goes_to_the_one_property_that_wants_it() {
    let one = r#"{"properties":{"text":{"type":"string"},"n":{"type":"integer"}},"required":["text"]}"#;
    let taken = r#"Coercion: took the value as "text""#;
    for (text, schema, arguments, notes) in [
        ("get all pods", one, r#"{"text":"get all pods"}"#, vec![]),
        ("\"get all pods\"", one, r#"{"text":"get all pods"}"#, vec![taken]),
        ("42", one, r#"{"text":"42"}"#, vec![taken, r#"Coercion: "text": read integer 42 as string "42""#]),
        ("[1]", one, r#"{"input":[1]}"#, vec![r#"Problem: missing required property "text""#]),
        ("", one, "{}", vec![r#"Problem: missing required property "text""#]),
        ("a b", r#"{"properties":{"x":{"type":"integer"}}}"#, r#"{"input":"a b"}"#, vec![]),
        ("a b", r#"{"properties":{"x":{"type":"string"}}}"#, r#"{"x":"a b"}"#, vec![]),
        ("\"a\"", r#"{"properties":{"input":{"type":"string"}}}"#, r#"{"input":"a"}"#, vec![]),
        ("a b", "true", r#"{"input":"a b"}"#, vec![]),
    ] {
        let (found, _, said) = read(text, Some(schema));
        assert_eq!((found.as_str(), said), (arguments, notes.iter().map(|note| note.to_string()).collect()), "{text}");
    }
}

#[test]
fn a_text_that_begins_as_a_json_object_is_never_taken_for_a_plain_text() {
    let schema = r#"{"properties":{"city":{"type":"string"},"days":{"type":"integer"}},"required":["city"]}"#;
    let removed = "Repair: removed the words after the object";
    // An object and words after it: the object.
    for (text, arguments, notes) in [
        (r#"{"city": "Paris"} please"#, r#"{"city":"Paris"}"#, vec![removed]),
        ("{\"city\": \"Paris\"}\n\nThis gets the weather of \"Paris\".", r#"{"city":"Paris"}"#, vec![removed]),
        (r#"{"city": "Paris"}</tool_call>"#, r#"{"city":"Paris"}"#, vec![removed]),
        (
            "{'city': 'Paris', days: 2,}} thanks",
            r#"{"city":"Paris","days":2}"#,
            vec![
                removed,
                "Repair: replaced single or typographic quotes by double quotes",
                "Repair: put bare keys into quotes",
                "Repair: removed trailing commas",
                "Repair: removed closing brackets that close nothing",
            ],
        ),
    ] {
        let notes = notes.iter().map(|note| note.to_string()).collect();
        assert_eq!(read(text, Some(schema)), (arguments.to_owned(), Stage::JsonRepaired, notes), "{text}");
    }
    // Half an object, or two: nothing is certain, and the note is a problem, which ends a call.
    let cut = "is cut off: send it whole";
    let more = "goes on with other text: send the object alone";
    for (text, problem) in [
        (r#"{"city": "Par"#, cut),
        (r#"{"city": "Paris""#, cut),
        (r#"{"city": "Paris", "days": "#, cut),
        (r#"{"ci"#, cut),
        ("{'city': 'Par", cut),
        ("{city: \"Par", cut),
        ("{“city”: “Par", cut),
        ("{\n  \"city\": \"Paris\",\n", cut),
        ("{", cut),
        (r#"[{"city": "Par"#, cut),
        (r#""{\"city\": \"Par"#, cut),
        ("```json\n{\"city\": \"Par\n```", cut),
        ("```json\n{\"city\": \"Par", cut),
        (r#"{"city": "Par" "days": 2}"#, "is broken at byte 15: send correct JSON"),
        (r#"{"city": Par(is)}"#, "is broken at byte 16: send correct JSON"),
        (r#"{"city": "Paris"} or {"city": "Rome"}"#, more),
        (r#"{"city": "Paris"}, "days": 2}"#, more),
        (r#"{"town": "Paris"} please"#, more),
        (r#"[{"city": "Paris"}] please"#, more),
    ] {
        let (arguments, stage, notes) = read(text, Some(schema));
        let expected = format!("Problem: the text begins as a JSON object that {problem}");
        assert!(notes.contains(&expected), "{text}: {arguments} {stage:?} {notes:?}");
    }
    // What only has a brace is a text.
    for text in
        ["{app=\"nginx\"}", "{} apples", "{{ city }}", "{ first: user(id: 1) { name } }", "[x](y)", "a {\"b\": 1"]
    {
        let expected = Value::Object([(Cow::Borrowed("city"), Value::string(text))].into_iter().collect());
        assert_eq!(read(text, Some(schema)), (expected.to_json(), Stage::Raw, vec![]), "{text}");
    }
    // Without a schema as well.
    assert_eq!(
        read(r#"{"a": 1} and more"#, None),
        (r#"{"a":1}"#.to_owned(), Stage::JsonRepaired, vec![removed.to_owned()])
    );
    assert_eq!(read(r#"{"a": "b"#, None).2, [format!("Problem: the text begins as a JSON object that {cut}")]);
}

#[test]
fn a_key_that_is_given_twice_gets_a_note_wherever_it_is() {
    let twice = "Repair: some keys were given more than once: the last value of each counts".to_owned();
    for (text, arguments) in [
        (r#"{"a":1,"a":2}"#, r#"{"a":2}"#),
        (r#"{"a":1,"\u0061":2}"#, r#"{"a":2}"#),
        (r#"{"a":1,"b":3,"a":1}"#, r#"{"a":1,"b":3}"#),
        (r#"{"x":[{"y":{"a":1,"a":2}}]}"#, r#"{"x":[{"y":{"a":2}}]}"#),
        (r#"[{"a":1,"a":2}]"#, r#"{"input":[{"a":2}]}"#),
        ("{'a':1,'a':2}", r#"{"a":2}"#),
        ("```json\n{\"a\":1,\"a\":2}\n```", r#"{"a":2}"#),
        (r#"{"a":1,"a":2} please"#, r#"{"a":2}"#),
    ] {
        let (found, _, notes) = read(text, None);
        assert_eq!((found.as_str(), notes.contains(&twice)), (arguments, true), "{text} {notes:?}");
    }
    assert_eq!(read(r#"{"a":{"b":1},"b":1}"#, None).2, Vec::<String>::new());
}

/// The tool that writes a file: both of its texts are required, and it takes nothing else.
const FILE: &str = r#"{"properties":{"path":{"type":"string"},"content":{"type":"string"},"mode":{"type":"integer"}},
    "required":["path","content"],"additionalProperties":false}"#;

const JOINED: &str = "Repair: some commas or newlines were read as part of the value before them";

#[test]
fn a_text_that_begins_with_the_one_property_is_that_pair() {
    let only = r#"{"properties":{"text":{"type":"string"}}}"#;
    let required = r#"{"properties":{"query":{"type":"string"},"limit":{"type":"integer"}},"required":["query"]}"#;
    let odd = r#"{"properties":{"ein Wort":{"type":"string"}}}"#;
    for (text, schema, arguments) in [
        ("text: Hello, world", only, r#"{"text":"Hello, world"}"#),
        ("text=Hello,\n\n  world,", only, r#"{"text":"Hello,\n\n  world"}"#),
        ("text : \"Hello\", he said", only, r#"{"text":"\"Hello\", he said"}"#),
        ("text: the '90s, and (more, n: 3", only, r#"{"text":"the '90s, and (more","n":3}"#),
        ("query: select a, b from t", required, r#"{"query":"select a, b from t"}"#),
        (
            "query: select a, b from t where c = 1, limit: 5",
            required,
            r#"{"query":"select a, b from t where c = 1","limit":5}"#,
        ),
        ("query: up, limit: 5, please", required, r#"{"query":"up, limit: 5, please"}"#),
        ("ein Wort: Hallo, Welt", odd, r#"{"ein Wort":"Hallo, Welt"}"#),
    ] {
        let expected = (arguments.to_owned(), Stage::KeyValue, vec![JOINED.to_owned()]);
        assert_eq!(read(text, Some(schema)), expected, "{text}");
    }
    assert_eq!(read("ein Wort: \"Hallo\"", Some(odd)).0, r#"{"ein Wort":"Hallo"}"#);
    for text in ["text://a, b", "texts: a, b", "text, and: more", "text a: b, c", "Hello, text: a"] {
        let (found, stage, notes) = read(text, Some(only));
        let expected = Value::Object([(Cow::Borrowed("text"), Value::string(text))].into_iter().collect());
        assert_eq!((found, stage, notes), (expected.to_json(), Stage::Raw, vec![]), "{text}");
    }
}

#[test]
fn what_is_no_pair_of_the_tool_belongs_to_the_text_before_it() {
    let open = &FILE.replace("false", "true");
    for (text, schema, arguments) in [
        ("path: n.txt, content: Dear Bob, and more", FILE, r#"{"path":"n.txt","content":"Dear Bob, and more"}"#),
        ("path: n.txt, content: Dear Bob, and more", open, r#"{"path":"n.txt","content":"Dear Bob, and more"}"#),
        ("content: a, b,, c, mode: 1, path: n", FILE, r#"{"content":"a, b,, c","mode":1,"path":"n"}"#),
        (
            "path: n\ncontent:\nDear Bob,\n\nall is well.\n",
            FILE,
            r#"{"path":"n","content":"Dear Bob,\n\nall is well."}"#,
        ),
        ("path: n\r\ncontent: a\r\n  b", FILE, r#"{"path":"n","content":"a\r\n  b"}"#),
        ("path: n, content: Dear Bob, todo: buy milk", FILE, r#"{"path":"n","content":"Dear Bob, todo: buy milk"}"#),
        ("path: n\ncontent: Dear Bob\nPS: a=b\nmode=2", FILE, r#"{"path":"n","content":"Dear Bob\nPS: a=b","mode":2}"#),
        (
            "path: n, content: sad :-(, but well, mode: 1",
            FILE,
            r#"{"path":"n","content":"sad :-(, but well","mode":1}"#,
        ),
    ] {
        let expected = (arguments.to_owned(), Stage::KeyValue, vec![JOINED.to_owned()]);
        assert_eq!(read(text, Some(schema)), expected, "{text}");
    }
    // A tool that takes other keys too may mean them, and a closed quote ends its value.
    for (text, schema, arguments) in [
        (
            "path: n, content: Dear Bob, todo: buy milk",
            &**open,
            r#"{"path":"n","content":"Dear Bob","todo":"buy milk"}"#,
        ),
        ("path: n, content: \"Dear Bob\", todo: 1", FILE, r#"{"path":"n","content":"Dear Bob","todo":1}"#),
        ("path: n, content: c, mode: 1, todo: 2", FILE, r#"{"path":"n","content":"c","mode":1,"todo":2}"#),
        // Who misspelt a key is told so.
        ("path: n, content: c, mod: 1", FILE, r#"{"path":"n","content":"c","mod":1}"#),
        ("path: n, contnet: c", FILE, r#"{"path":"n","contnet":"c"}"#),
    ] {
        let (found, stage, notes) = read(text, Some(schema));
        assert_eq!((found.as_str(), stage), (arguments, Stage::KeyValue), "{text}");
        assert!(!notes.contains(&JOINED.to_owned()), "{text}");
    }
    // There is no text before it, or nobody knows whose the text is.
    let lists = r#"{"properties":{"a":{"type":["string","array"]},"b":{}}}"#;
    for (text, schema) in [
        ("path: n, mode: 1, and more", Some(FILE)),
        ("file: n, content: Dear Bob, and more", Some(FILE)),
        ("path: n, file: x, and more", Some(&**open)),
        ("a: x, y", Some(lists)),
        ("b: x, y", Some(lists)),
        ("path: n.txt, content: Dear Bob, and more", None),
    ] {
        assert_eq!(read(text, schema).1, Stage::Raw, "{text}");
    }
}

#[test]
fn a_block_of_text_makes_a_mapping_of_what_the_tool_knows() {
    for (text, arguments) in [
        ("path: x\ncontent: |\n  first\n  second", r#"{"path":"x","content":"first\nsecond\n"}"#),
        ("content: |\n  a: 1\n\n  - b, c\npath: x", r#"{"content":"a: 1\n\n- b, c\n","path":"x"}"#),
        ("path: 007\ncontent: >-\n  one\n  line\nmode: 1", r#"{"path":"007","content":"one line","mode":1}"#),
    ] {
        assert_eq!(read(text, Some(FILE)), (arguments.to_owned(), Stage::Yaml, vec![]), "{text}");
    }
    for (text, schema) in [
        ("path: x\ncontent: |\n  first\n  second", None),
        ("path: x\ncontent: |\n  first\n  second", Some(r#"{"properties":{"path":{"type":"integer"}}}"#)),
        ("path: x\ncontent: |\n  first\n  second", Some("{}")),
    ] {
        assert_eq!(read(text, schema).1, Stage::Raw, "{text}");
    }
}

#[test]
fn what_is_beyond_a_limit_is_refused_in_clear_words() {
    let deep = "arguments nested deeper than 256 levels: flatten them";
    for (text, refusal) in [
        ("[".repeat(100_000), deep),
        (format!("{}{}", "[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH)), deep),
        (format!("a:\n  {}x", "- ".repeat(1000)), deep),
        (
            format!("[{}0]", "0,".repeat(MAX_VALUES)),
            "arguments with more than 250000 JSON values: split them over several calls",
        ),
        (" ".repeat(MAX_TEXT + 1), "arguments larger than 16777216 bytes: send less in one call, or refer to the data"),
    ] {
        assert_eq!(parse(&text, None).unwrap_err().to_string(), refusal);
    }
}

/// Pieces that the stages look for, so that random texts get past their first letters.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            "{", "}", "[", "]", ":", ",", "=", "\"", "'", "\\", "\n", " ", "  ", "- ", "a", "b: ", "c=", "1", "0", "-",
            ".5", "true", "None", "```", "~~~", "json\n", "//", "/*", "*/", "#", "&x ", "*x", "|\n", "“", "”",
            "\u{feff}", "\0", "\\u0041", "\\ud800", "<<: ", "? ", "!!str ", "NaN", "é", "://", "(", ")",
        ]),
        prop::sample::select(vec!["\"a\": ", "\"b\": 2", "{\"a\": 1}", "key: value", "\n  - x", "[1, 2]", "---\n"]),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

fn any_value() -> impl Strategy<Value = Value<'static>> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        "-?(0|[1-9][0-9]{0,25})(\\.[0-9]{1,9})?([eE][+-]?[0-9]{1,3})?".prop_map(|digits| Value::Number(digits.into())),
        any::<String>().prop_map(Value::string),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
            prop::collection::vec((any::<String>().prop_map(Cow::Owned), inner), 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_text_becomes_an_object(text in prop_oneof![any::<String>(), pieces()], with_schema: bool) {
        let schema = json::parse(
            r##"{"properties":{"a":{"type":"string"},"b":{"type":"integer"},"c":{"items":{"$ref":"#"}},
                 "key":{"anyOf":[{"type":"array"},{"type":"object","required":["a"]}]}},"required":["a"]}"##,
        ).unwrap();
        let schema = Document::new(schema);
        let parsed = parse(&text, with_schema.then_some(&schema)).unwrap();
        prop_assert!(json::parse(&parsed.arguments).unwrap().as_object().is_some());
    }

    #[test]
    fn a_json_object_comes_back_as_it_was(value in any_value()) {
        let object = Value::Object([(Cow::Borrowed("k"), value)].into_iter().collect());
        let parsed = parse(&object.to_json(), None).unwrap();
        prop_assert_eq!(parsed.stage, Stage::Json);
        prop_assert_eq!(json::parse(&parsed.arguments).unwrap(), object);
    }
}
