//! How far references and choices are followed, how deep schemas may lie, and how much may be written twice.

use super::super::facts::cost;
use super::super::gemini::keeps;
use super::*;

#[test]
fn gemini_keeps_a_keyword_only_in_a_schema_of_its_kind_and_with_its_value() {
    for (key, value, kinds) in [
        ("title", r#""t""#, &["string", "number", "integer", "boolean", "object", "array"][..]),
        ("description", "1", &[]),
        ("default", "1", &["string", "number", "integer", "boolean", "object", "array"]),
        ("format", r#""date-time""#, &["string"]),
        ("format", r#""double""#, &["number"]),
        ("format", r#""int32""#, &["integer"]),
        ("pattern", r#""a""#, &["string"]),
        ("pattern", "1", &[]),
        ("minLength", "1", &["string"]),
        ("maxLength", r#""1""#, &[]),
        ("minimum", "1", &["number", "integer"]),
        ("maximum", r#""1""#, &[]),
        ("minItems", "1", &["array"]),
        ("maxItems", r#""1""#, &[]),
        ("minProperties", "1", &["object"]),
        ("maxProperties", r#""1""#, &[]),
        ("multipleOf", "1", &[]),
    ] {
        let parsed = json::parse(value).unwrap();
        let all = ["string", "number", "integer", "boolean", "object", "array"];
        let kept: Vec<&str> = all.into_iter().filter(|kind| keeps(key, &parsed, kind)).collect();
        assert_eq!(kept, kinds, "{key}: {value}");
    }
}

#[test]
fn what_is_written_is_counted_in_values_and_in_lines_of_text() {
    let (short, long) = ("x".repeat(63), "x".repeat(130));
    for (value, expected) in [
        ("null".to_owned(), 1),
        (format!("\"{short}\""), 1),
        (format!("\"{short}x\""), 2),
        (format!("\"{long}\""), 3),
        ("[]".to_owned(), 1),
        ("[1,[2,3]]".to_owned(), 5),
        (r#"{"a":1,"b":{"c":true}}"#.to_owned(), 4),
        (format!(r#"{{"{long}":1}}"#), 4),
        ("1".repeat(64), 2),
    ] {
        assert_eq!(weight(&json::parse(&value).unwrap()), expected, "{value}");
    }
}

#[test]
fn a_keyword_costs_what_is_taken_in_with_it() {
    for (key, value, expected) in [
        ("enum", "[[1,2],3]", 5),
        ("const", r#"{"a":[1]}"#, 3),
        ("default", "[[1]]", 3),
        ("anyOf", r#"[{"a":1},{"b":2}]"#, 3),
        ("required", r#"["a"]"#, 2),
        ("properties", r#"{"a":{"enum":[1,2,3]},"b":{}}"#, 3),
        ("items", r#"{"a":{},"b":{}}"#, 1),
        ("minLength", "1", 1),
    ] {
        assert_eq!(cost(key, &json::parse(value).unwrap()), expected, "{key}: {value}");
    }
    let text = Value::string("x".repeat(128));
    for (key, expected) in [("title", 3), ("description", 3), ("pattern", 3), ("format", 1)] {
        assert_eq!(cost(key, &text), expected, "{key}");
    }
}

/// The properties of a schema, as JSON.
fn properties(schema: &str) -> String {
    json::parse(schema).unwrap().get("properties").unwrap().to_json()
}

#[test]
fn references_are_followed_to_a_depth_and_no_further() {
    for (steps, reached) in [(1, true), (MAX_DEPTH, true), (MAX_DEPTH + 1, false)] {
        let defs: Vec<String> = (1..steps).map(|n| format!(r##""d{n}":{{"$ref":"#/$defs/d{}"}}"##, n + 1)).collect();
        let end = format!(r#""d{steps}":{{"properties":{{"end":{{}}}}}}"#);
        let defs = defs.into_iter().chain([end]).collect::<Vec<_>>().join(",");
        let schema = format!(r##"{{"$ref":"#/$defs/d1","$defs":{{{defs}}}}}"##);
        let lowered = lower(Some(&schema), Target::Openai).unwrap();
        assert_eq!(properties(&lowered).contains("end"), reached, "{steps}: {lowered}");
        assert_eq!(lower(Some(&schema), Target::Gemini).unwrap().contains("end"), reached, "{steps}");
    }
}

#[test]
fn choices_in_choices_are_merged_to_a_depth_and_no_further() {
    for (levels, reached) in [(1, true), (2, true), (MAX_DEPTH + 1, true), (MAX_DEPTH + 2, false)] {
        let (open, close) = (r#"{"anyOf":[{},"#.repeat(levels), "]}".repeat(levels));
        let schema = format!(r#"{open}{{"properties":{{"end":{{}}}}}}{close}"#);
        let lowered = lower(Some(&schema), Target::Openai).unwrap();
        assert_eq!(lowered.contains("end"), reached, "{levels} levels: {lowered}");
    }
}

#[test]
fn a_schema_that_lies_too_deep_for_gemini_is_a_bare_object() {
    // The property `p` lies at depth 1, and each list or object around it makes it one deeper.
    let lists = (r#"{"type":"array","items":"#, "}");
    let objects = (r#"{"type":"object","properties":{"o":"#, "}}");
    let two = r#"{"anyOf":[{"type":"string"},{"type":"number"}]}"#;
    let bare = r#"{"type":"object"}"#;
    for (depth, schema, expected) in [
        (MAX_DEPTH - 1, r#"{"type":"string"}"#, r#"{"type":"string"}"#),
        (MAX_DEPTH, r#"{"type":"string"}"#, bare),
        (MAX_DEPTH, r#"{"type":["string","number"],"description":"d"}"#, bare),
        (MAX_DEPTH - 2, r#"{"type":["string","number"]}"#, two),
        (MAX_DEPTH - 1, r#"{"type":["string","number"]}"#, bare),
        (MAX_DEPTH - 2, two, two),
        (MAX_DEPTH - 1, two, bare),
        (MAX_DEPTH - 2, r#"{"type":"array"}"#, r#"{"type":"array","items":{"type":"string"}}"#),
        (MAX_DEPTH - 1, r#"{"type":"array"}"#, r#"{"type":"array","items":{"type":"object"}}"#),
    ] {
        for (open, close) in [lists, objects] {
            let (open, close) = (open.repeat(depth - 1), close.repeat(depth - 1));
            check_gemini(&[(&format!("{open}{schema}{close}"), &format!("{open}{expected}{close}"))]);
        }
    }
}

#[test]
fn a_definition_that_is_met_twice_is_paid_for_once() {
    let level =
        |n: usize| format!(r##""d{n}":{{"allOf":[{{"$ref":"#/$defs/d{0}"}},{{"$ref":"#/$defs/d{0}"}}]}}"##, n + 1);
    let levels: Vec<String> = (0..20).map(level).collect();
    let schema = format!(
        r##"{{"allOf":[{{"$ref":"#/$defs/d0"}},{{"$ref":"#/$defs/late"}}],"$defs":{{{},"d20":{{}},"late":{{"properties":{{"found":{{"type":"string"}}}}}}}}}}"##,
        levels.join(",")
    );
    let lowered = lower(Some(&schema), Target::Gemini).unwrap();
    assert!(lowered.contains(r#""properties":{"found":{"type":"string"}}"#), "{lowered}");
}

/// A text that takes all that may be written more than once.
fn all_room() -> String {
    "x".repeat(64 * ROOM)
}

#[test]
fn once_nothing_more_may_be_written_twice_the_rest_of_a_definition_is_left_out() {
    for (text, reached) in [(String::new(), true), (all_room(), false)] {
        let schema = format!(
            r##"{{"$ref":"#/$defs/x","$defs":{{"x":{{"allOf":[{{"title":"{text}"}},{{"properties":{{"late":{{}}}}}}]}}}}}}"##
        );
        let lowered = lower(Some(&schema), Target::Openai).unwrap();
        assert_eq!(properties(&lowered).contains("late"), reached, "{}", properties(&lowered));
    }
}

#[test]
fn once_nothing_more_may_be_written_twice_no_reference_is_followed() {
    for (text, expected) in [
        ("short".to_owned(), r##""b":{"type":"object","description":"root"}}}"##),
        (all_room(), r#""b":{"type":"object"}}}"#),
    ] {
        let schema = format!(
            r##"{{"description":"root","$defs":{{"big":{{"type":"string","title":"{text}"}}}},"type":"object","properties":{{"a":{{"$ref":"#/$defs/big"}},"b":{{"$ref":"#"}}}}}}"##
        );
        let lowered = lower(Some(&schema), Target::Gemini).unwrap();
        assert!(lowered.ends_with(expected), "{}", &lowered[lowered.len() - 60..]);
    }
}

#[test]
fn once_nothing_more_may_be_written_twice_no_definition_is_moved() {
    for (text, moved) in [(String::new(), 2), (all_room(), 1)] {
        let schema = format!(
            r##"{{"anyOf":[{{"x":{{"a":{{"title":"{text}"}},"b":{{"title":"{text}"}}}}}},{{"properties":{{"a":{{"$ref":"#/anyOf/0/x/a"}},"b":{{"$ref":"#/anyOf/0/x/b"}}}}}}]}}"##
        );
        let lowered = lower(Some(&schema), Target::Openai).unwrap();
        assert_eq!(lowered.matches("#/$defs/moved_").count(), moved);
        assert_eq!(lowered.matches("#/anyOf/0/x/").count(), 2 - moved, "the others stay as they are");
    }
}

#[test]
fn what_stands_beside_a_choice_is_copied_into_its_branches_while_there_is_room() {
    let pattern = "x".repeat(64 * ROOM / 10);
    let branches: Vec<String> = (0..20).map(|n| format!(r#"{{"minLength":{n}}}"#)).collect();
    let schema = format!(
        r#"{{"type":"object","properties":{{"p":{{"type":"string","pattern":"{pattern}","anyOf":[{}]}}}}}}"#,
        branches.join(",")
    );
    let lowered = lower(Some(&schema), Target::Gemini).unwrap();
    assert_eq!(lowered.matches("pattern").count(), 10);
    assert_eq!(lowered.matches(r#""type":"string""#).count(), 20, "their kind is kept");
}
