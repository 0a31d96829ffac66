use std::fmt::Write as _;

use super::*;

/// Formats the tree as one line, with `line:column` before each key and value.
fn show(node: &Node, out: &mut String) {
    write!(out, "{}:{}", node.place.line, node.place.column).unwrap();
    match &node.value {
        NodeValue::Scalar(scalar) => write!(out, " {:?} {:?}", scalar.kind, scalar.text).unwrap(),
        NodeValue::List(items) => {
            out.push_str(" [");
            for item in items {
                show(item, out);
                out.push_str(", ");
            }
            out.push(']');
        }
        NodeValue::Map(entries) => {
            out.push_str(" {");
            for entry in entries {
                write!(out, "{}:{} {} = ", entry.place.line, entry.place.column, entry.key).unwrap();
                show(&entry.value, out);
                out.push_str(", ");
            }
            out.push('}');
        }
    }
}

fn check(file: &str, text: &str, expected: &str) {
    let found = match read(text, &Arc::from(Path::new(file))) {
        Ok(document) => {
            let mut out = String::new();
            show(&document.root, &mut out);
            out
        }
        Err(error) => error.to_string(),
    };
    let head: String = text.chars().take(100).collect();
    assert_eq!(found, expected, "{file}: {head}");
}

#[test]
fn every_format_gives_one_tree_with_places() {
    let rows = [
        (
            "a.yaml",
            "a: 1\nb: [x, 'y']\n",
            r#"1:1 {1:1 a = 1:4 Number "1", 2:1 b = 2:4 [2:5 Text "x", 2:8 Text "y", ], }"#,
        ),
        ("a.yml", "é: {ü: no}", r#"1:1 {1:1 é = 1:4 {1:5 ü = 1:8 Text "no", }, }"#),
        (
            "a.yaml",
            "a: 1.10\nb: ~\nc: !!str 5\nd: True",
            r#"1:1 {1:1 a = 1:4 Number "1.10", 2:1 b = 2:4 Null "", 3:1 c = 3:4 Text "5", 4:1 d = 4:4 Bool "True", }"#,
        ),
        (
            "a.json",
            "{\"a\": 1, // one\n \"b\": [true, null,],}",
            r#"1:1 {1:2 a = 1:7 Number "1", 2:2 b = 2:7 [2:8 Bool "true", 2:14 Null "", ], }"#,
        ),
        ("a.json", "\u{feff}{\"é\": \"\\u00fc\"}", r#"1:1 {1:2 é = 1:7 Text "ü", }"#),
        (
            "a.toml",
            "x = 1\n[t.u]\ny = [\"é\", true]\n",
            r#"1:1 {1:1 x = 1:5 Number "1", 2:2 t = 2:2 {2:4 u = 2:1 {3:1 y = 3:5 [3:6 Text "é", 3:11 Bool "true", ], }, }, }"#,
        ),
        ("a.toml", "[[l]]\na = 1.5\n[[l]]\n", r#"1:1 {1:3 l = 1:1 [1:1 {2:1 a = 2:5 Number "1.5", }, 3:1 {}, ], }"#),
    ];
    for (file, text, expected) in rows {
        check(file, text, expected);
    }
}

#[test]
fn without_a_known_extension_the_text_says_the_format() {
    let rows = [
        ("{\"a\": 1}", FileFormat::Json),
        ("// c\n{}", FileFormat::Json),
        ("# c\n\n[mcp_servers.x]\ncommand = \"a\"", FileFormat::Toml),
        ("[[a]] # c\n", FileFormat::Toml),
        ("[{\"name\": \"a\"}]", FileFormat::Json),
        ("[\n{\"name\": \"a\"}]", FileFormat::Json),
        ("model = \"x\"\n", FileFormat::Toml),
        ("servers:\n  a: {command: x=y}\n", FileFormat::Yaml),
        ("- name: a", FileFormat::Yaml),
        ("", FileFormat::Yaml),
    ];
    for (text, expected) in rows {
        assert_eq!(guess(text), expected, "{text}");
    }
}

#[test]
fn merge_keys_and_aliases_are_followed() {
    check(
        "a.yaml",
        "b: &b {x: 1, y: 2}\nc: {<<: *b, y: 3}\nd: *b",
        r#"1:1 {1:1 b = 1:4 {1:8 x = 1:11 Number "1", 1:14 y = 1:17 Number "2", }, 2:1 c = 2:4 {2:13 y = 2:16 Number "3", 1:8 x = 1:11 Number "1", }, 3:1 d = 1:4 {1:8 x = 1:11 Number "1", 1:14 y = 1:17 Number "2", }, }"#,
    );
    check(
        "a.yaml",
        "a: &a {x: 1}\nb: &b {x: 2, z: 3}\nc:\n  <<: [*a, *b]\n",
        r#"1:1 {1:1 a = 1:4 {1:8 x = 1:11 Number "1", }, 2:1 b = 2:4 {2:8 x = 2:11 Number "2", 2:14 z = 2:17 Number "3", }, 3:1 c = 4:3 {1:8 x = 1:11 Number "1", 2:14 z = 2:17 Number "3", }, }"#,
    );
}

#[test]
fn what_breaks_the_grammar_is_said_with_its_place() {
    let bomb: String = (0..30).map(|n| format!("a{}: &a{} [*a{n}, *a{n}]\n", n + 1, n + 1)).collect();
    let rows = [
        ("a.yaml", "a: 1\nb: 2\na: 3".to_owned(), r#"a.yaml:3:1: key "a" is given twice; first at line 1, column 1"#),
        ("a.toml", "a = 1\na = 2".to_owned(), "a.toml:2:1: not valid TOML: duplicate key"),
        ("a.json", "{\"a\": 1\n\"b\": 2}".to_owned(), "a.json:1:8: not valid JSON: expected comma"),
        ("a.json", "{\"a\": ".to_owned(), "a.json:1:7: not valid JSON: expected value after colon in object property"),
        (
            "a.yaml",
            "a: {{.TOKEN}}".to_owned(),
            "a.yaml:1:5: a key must be text; put quotes around a value that begins with `{` or `[`",
        ),
        (
            "a.yaml",
            "a: 1\n---\nb: 2".to_owned(),
            "a.yaml:2:1: a second document begins here; a configuration is one document",
        ),
        ("a.yaml", "a: &a [*a]".to_owned(), "a.yaml:1:8: this alias is inside the value that it refers to"),
        (
            "a.yaml",
            "a: !secret b".to_owned(),
            "a.yaml:1:4: the tag !secret is not supported; write the value itself, or a variable such as ${NAME}",
        ),
        ("a.yaml", "a: {<<: 3}".to_owned(), "a.yaml:1:9: `<<` merges maps; name one with an alias such as `*base`"),
        ("a.yaml", format!("a0: &a0 x\n{bomb}"), "a.yaml:18:18: more than 500000 values, aliases included"),
        ("a.yaml", "[".repeat(100), "a.yaml:1:65: nested deeper than 64 levels"),
        ("a.yaml", "[".repeat(100_000), "a.yaml:1:256: not valid YAML: recursion limit exceeded"),
        ("a.yaml", "- ".repeat(5000), "a.yaml:1:129: nested deeper than 64 levels"),
        ("a.json", "[".repeat(100), "a.json:1:100: not valid JSON: unterminated array"),
        (
            "a.json",
            format!("{}{}", "[".repeat(600), "]".repeat(600)),
            "a.json:1:513: not valid JSON: maximum nesting depth exceeded",
        ),
        (
            "a.yaml",
            "# nothing\n".to_owned(),
            "a.yaml: the file is empty; begin with `servers:`, or see `toolgate schema`",
        ),
        ("a.json", " \n".to_owned(), "a.json: the file is empty; begin with `servers:`, or see `toolgate schema`"),
        ("a.toml", String::new(), "a.toml: the file is empty; begin with `servers:`, or see `toolgate schema`"),
    ];
    for (file, text, expected) in rows {
        check(file, &text, expected);
    }
}

#[test]
fn what_is_wrong_in_one_part_of_json_leaves_the_rest() {
    let deep = format!("{{\"a\": {}1{}, \"b\": 2}}", "[".repeat(100), "]".repeat(100));
    let rows = [
        (
            "{\"a\": {\"x\": 1,\n \"x\": 2}, \"b\": 3}",
            r#"1:1 {1:2 a = 1:7 {2:2 x = 2:7 Number "2", }, 2:11 b = 2:16 Number "3", }"#,
            Some((r#"2:2 key "x" is given twice; first at line 1, column 8; the last one counts"#, "a")),
        ),
        (
            r#"{"a": "é \ud83d!", "b": "\ud83d\ude00 \\ud83d"}"#,
            r#"1:1 {1:2 a = 1:7 Text "é �!", 1:20 b = 1:25 Text "😀 \\ud83d", }"#,
            Some(("1:10 half of a surrogate pair is not a character; read as U+FFFD", "a")),
        ),
        (r#"{"a": "\ude00"}"#, r#"1:1 {1:2 a = 1:7 Text "�", }"#, Some(("1:8 half of a surrogate pair", "a"))),
        (deep.as_str(), "", Some(("1:71 nested deeper than 64 levels; ignored", "a"))),
        (r#"{"a": "\u00fc"}"#, r#"1:1 {1:2 a = 1:7 Text "ü", }"#, None),
    ];
    for (text, tree, fault) in rows {
        let document = read(text, &Arc::from(Path::new("a.json"))).unwrap();
        let mut shown = String::new();
        show(&document.root, &mut shown);
        assert!(tree.is_empty() || shown == tree, "{shown} for {text}");
        assert!(document.root.at("a").is_some(), "{text}");
        let told: Vec<_> = document
            .faults
            .iter()
            .map(|fault| {
                let DocumentFault { place: position, text, top_key, .. } = fault;
                (format!("{}:{} {text}", position.line, position.column), top_key.as_deref())
            })
            .collect();
        match fault {
            None => assert!(told.is_empty(), "{told:?}"),
            Some((words, under)) => {
                assert!(told.len() == 1 && told[0].0.starts_with(words) && told[0].1 == Some(under), "{told:?}");
            }
        }
    }
}
