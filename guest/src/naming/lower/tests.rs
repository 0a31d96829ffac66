//! What goes in and what comes out, row by row.

mod limits;
mod properties;

use super::*;

fn check(target: Target, rows: &[(&str, &str)]) {
    for (schema, expected) in rows {
        let lowered = lower(Some(schema), target).unwrap();
        assert_eq!(lowered, *expected, "{target:?} of {schema}");
        assert_eq!(lower(Some(&lowered), target).unwrap(), lowered, "{target:?} of {schema}, again");
    }
}

const NOTHING: &str = r#"{"type":"object","properties":{}}"#;

#[test]
fn a_missing_schema_takes_no_arguments() {
    for target in Target::ALL {
        let expected = if target == Target::Gemini { r#"{"type":"object"}"# } else { NOTHING };
        for schema in [None, Some("true"), Some("false"), Some("[]"), Some("7")] {
            assert_eq!(lower(schema, target).unwrap(), expected, "{target:?} of {schema:?}");
        }
        assert!(lower(Some("{"), target).is_err());
    }
}

#[test]
fn mcp_clients_get_the_schema_as_it_is() {
    check(
        Target::Mcp,
        &[
            (r#"{ "x-a": 1.50, "type": "object", "anyOf": [] }"#, r#"{"x-a":1.50,"type":"object","anyOf":[]}"#),
            (r##"{"$ref":"#/$defs/a"}"##, r##"{"$ref":"#/$defs/a","type":"object"}"##),
        ],
    );
}

#[test]
fn a_plain_object_keeps_everything() {
    let rich = concat!(
        r##"{"$schema":"s","type":"object","additionalProperties":false,"properties":{"big":{"const":"##,
        r##"12345678901234567890.10},"n":{"oneOf":[{"$ref":"#/$defs/a"},{"type":["string","null"]}]}},"##,
        r##""required":["n"],"$defs":{"a":{"not":{}}}}"##
    );
    for target in [Target::Anthropic, Target::Openai, Target::Cursor, Target::Mcp] {
        check(target, &[(rich, rich)]);
    }
}

#[test]
fn the_top_becomes_one_object() {
    check(
        Target::Openai,
        &[
            ("{}", NOTHING),
            (r#"{"type":"string"}"#, NOTHING),
            (r#"{"anyOf":[{"type":"string"},{"type":"null"}]}"#, NOTHING),
            (r#"{"enum":["a"]}"#, NOTHING),
            (r#"{"type":["object","null"],"properties":7}"#, NOTHING),
            (r#"{"description":"d"}"#, r#"{"description":"d","type":"object","properties":{}}"#),
            (
                r#"{"allOf":[{"properties":{"a":{"type":"string"}},"required":["a"]},{"properties":{"b":true},"required":["b","a"]}],"title":"t"}"#,
                r#"{"title":"t","properties":{"a":{"type":"string"},"b":true},"required":["a","b"],"type":"object"}"#,
            ),
            (
                r#"{"oneOf":[{"properties":{"k":{"const":1},"a":{}},"required":["k","a"]},{"properties":{"k":{"const":2},"b":{}},"required":["b","k"]},{"type":"string"}]}"#,
                r#"{"type":"object","properties":{"k":{"anyOf":[{"const":1},{"const":2}]},"a":{},"b":{}},"required":["k"]}"#,
            ),
            (
                r#"{"type":"object","properties":{"a":{"type":"string"}},"anyOf":[{"required":["a"]},{"properties":{"a":{"minLength":1}}}],"not":{}}"#,
                r#"{"type":"object","properties":{"a":{"type":"string"}}}"#,
            ),
            (
                r#"{"allOf":[{"properties":{"a":{"minimum":1}}},{"properties":{"a":{"maximum":5}}}]}"#,
                r#"{"properties":{"a":{"allOf":[{"minimum":1},{"maximum":5}]}},"type":"object"}"#,
            ),
            (
                r##"{"$ref":"#/definitions/A%20b~1c","definitions":{"A b/c":{"$id":"x","type":"object","properties":{"a":{"$ref":"#/definitions/A%20b~1c"}}}}}"##,
                r##"{"definitions":{"A b/c":{"$id":"x","type":"object","properties":{"a":{"$ref":"#/definitions/A%20b~1c"}}}},"type":"object","properties":{"a":{"$ref":"#/definitions/A%20b~1c"}}}"##,
            ),
            (r##"{"$ref":"#"}"##, NOTHING),
            (r#"{"$ref":"https://example.com/s"}"#, NOTHING),
        ],
    );
}

#[test]
fn a_reference_into_a_merged_choice_still_leads_somewhere() {
    check(
        Target::Anthropic,
        &[
            (
                r##"{"anyOf":[{"properties":{"a":{"type":"string"}}},{"properties":{"b":{"$ref":"#/anyOf/0/properties/a"},"c":{"$ref":"#/gone"}}}]}"##,
                r##"{"type":"object","properties":{"a":{"type":"string"},"b":{"$ref":"#/$defs/moved_1"},"c":{"$ref":"#/gone"}},"$defs":{"moved_1":{"type":"string"}}}"##,
            ),
            (
                r##"{"anyOf":[{"properties":{"a":{"type":"string"}}},{"properties":{"b":{"allOf":[{"$ref":"#/anyOf/0/properties/a"}]}}}]}"##,
                r##"{"type":"object","properties":{"a":{"type":"string"},"b":{"allOf":[{"$ref":"#/$defs/moved_1"}]}},"$defs":{"moved_1":{"type":"string"}}}"##,
            ),
        ],
    );
}

/// Rows of one property's schema before and after.
fn check_gemini(rows: &[(&str, &str)]) {
    for (schema, expected) in rows {
        let wrap = |inner: &str| format!(r#"{{"type":"object","properties":{{"p":{inner}}}}}"#);
        check(Target::Gemini, &[(&wrap(schema), &wrap(expected))]);
    }
}

const ANY: &str = r#"{"anyOf":[{"type":"string"},{"type":"number"},{"type":"boolean"},{"type":"object"},{"type":"array","items":{"type":"string"}}]}"#;

#[test]
fn gemini_gets_only_words_it_knows() {
    check_gemini(&[
        (
            r#"{"type":"string","$id":"x","$comment":"c","examples":["a"],"x-y":1,"title":"t"}"#,
            r#"{"type":"string","title":"t"}"#,
        ),
        (r#"{"type":"object","additionalProperties":false,"properties":{},"required":[]}"#, r#"{"type":"object"}"#),
        (
            r#"{"type":"object","properties":{"a":{"type":"boolean"}},"required":["b","a","a"]}"#,
            r#"{"type":"object","properties":{"a":{"type":"boolean"}},"required":["a"]}"#,
        ),
        (
            r#"{"type":"object","if":{},"then":{},"not":{},"properties":{"a":false},"required":["a"]}"#,
            r#"{"type":"object"}"#,
        ),
        (
            r#"{"type":"string","properties":{"a":{}},"items":{},"minimum":1,"minLength":2}"#,
            r#"{"type":"string","minLength":2}"#,
        ),
        (
            r#"{"type":"integer","minimum":1.0,"exclusiveMaximum":5,"format":"int64"}"#,
            r#"{"type":"integer","minimum":1.0,"format":"int64"}"#,
        ),
        (r#"{"type":"string","format":"uri","description":5}"#, r#"{"type":"string"}"#),
        (
            r#"{"type":"string","format":"date-time","pattern":"^a"}"#,
            r#"{"type":"string","format":"date-time","pattern":"^a"}"#,
        ),
        (r#"{"type":"array"}"#, r#"{"type":"array","items":{"type":"string"}}"#),
        (
            r#"{"prefixItems":[{"type":"string"},{"type":"number"}],"items":false}"#,
            r#"{"items":{"anyOf":[{"type":"string"},{"type":"number"}]},"type":"array"}"#,
        ),
        (
            r#"{"prefixItems":[{"type":"string"}],"items":{"type":"number"}}"#,
            r#"{"items":{"anyOf":[{"type":"string"},{"type":"number"}]},"type":"array"}"#,
        ),
        (
            r#"{"allOf":[{"items":{"type":"string"}},{"items":{"minLength":1}}]}"#,
            r#"{"items":{"type":"string","minLength":1},"type":"array"}"#,
        ),
        (
            r#"{"description":"d","properties":{"a":{"type":"string"}},"propertyOrdering":["a","b"]}"#,
            r#"{"description":"d","properties":{"a":{"type":"string"}},"propertyOrdering":["a"],"type":"object"}"#,
        ),
    ]);
    check(
        Target::Gemini,
        &[(
            r#"{"$schema":"s","description":"d","additionalProperties":true}"#,
            r#"{"description":"d","type":"object"}"#,
        )],
    );
}

#[test]
fn gemini_gets_one_type_per_schema() {
    check_gemini(&[
        (r#"{"type":["string","null"],"description":"d"}"#, r#"{"type":"string","description":"d","nullable":true}"#),
        (
            r#"{"type":["integer","string"],"minimum":1,"minLength":2,"description":"d"}"#,
            r#"{"anyOf":[{"type":"integer","minimum":1,"description":"d"},{"type":"string","minLength":2}]}"#,
        ),
        (r#"{"type":["integer","number"]}"#, r#"{"type":"number"}"#),
        (r#"{"allOf":[{"type":"number"},{"type":"integer"}]}"#, r#"{"type":"integer"}"#),
        (r#"{"allOf":[{"type":["string","number"]},{"type":["string","boolean"]}]}"#, r#"{"type":"string"}"#),
        (r#"{"allOf":[{"type":"string"},{"type":"boolean"}]}"#, r#"{"type":"string"}"#),
        (r#"{"type":"null"}"#, r#"{"type":"string","nullable":true}"#),
        (r#"{"items":{"type":"integer"}}"#, r#"{"items":{"type":"integer"},"type":"array"}"#),
        (r#"{"minLength":1}"#, r#"{"minLength":1,"type":"string"}"#),
        ("{}", ANY),
        ("true", ANY),
    ]);
}

#[test]
fn gemini_gets_enums_of_strings_and_the_rest_in_words() {
    check_gemini(&[
        (r#"{"const":"a"}"#, r#"{"type":"string","enum":["a"]}"#),
        (r#"{"enum":["a","b",null],"title":"t"}"#, r#"{"enum":["a","b"],"title":"t","type":"string","nullable":true}"#),
        (
            r#"{"type":"integer","enum":[1,2,3],"description":"How many."}"#,
            r#"{"type":"integer","description":"How many. Allowed values: 1, 2, 3."}"#,
        ),
        (r#"{"enum":[null]}"#, r#"{"type":"string","nullable":true}"#),
        (r#"{"enum":[]}"#, ANY),
        (r#"{"type":"integer","enum":["a"]}"#, r#"{"type":"integer","description":"Allowed values: \"a\"."}"#),
        (r#"{"type":["string","integer"],"enum":["a"]}"#, r#"{"type":"string","enum":["a"]}"#),
        (
            r#"{"type":["number","string"],"enum":[1,"a"]}"#,
            r#"{"anyOf":[{"type":"number","description":"Allowed values: 1."},{"type":"string","enum":["a"]}]}"#,
        ),
        (r#"{"const":true}"#, r#"{"type":"boolean","description":"Allowed values: true."}"#),
        (
            r#"{"enum":["a",1]}"#,
            r#"{"anyOf":[{"enum":["a"],"type":"string"},{"type":"integer","description":"Allowed values: 1."}]}"#,
        ),
        (r#"{"type":"string","enum":["","a"]}"#, r#"{"type":"string","description":"Allowed values: \"\", \"a\"."}"#),
        (r#"{"allOf":[{"enum":["a","b"]},{"enum":["b","c"]}]}"#, r#"{"enum":["b"],"type":"string"}"#),
    ]);
}

#[test]
fn gemini_gets_choices_that_stand_alone() {
    check_gemini(&[
        (
            r#"{"anyOf":[{"type":"string","description":"inner"},{"type":"null"}],"default":null,"description":"outer"}"#,
            r#"{"default":null,"description":"outer","type":"string","nullable":true}"#,
        ),
        (
            r#"{"oneOf":[{"type":"string"},{"type":"integer","description":"n"}],"title":"t"}"#,
            r#"{"anyOf":[{"type":"string"},{"type":"integer","description":"n"}]}"#,
        ),
        (
            r#"{"description":"d","anyOf":[{"type":"string","description":"s"},{"type":"integer"},{"const":null}]}"#,
            r#"{"anyOf":[{"description":"d s","type":"string","nullable":true},{"type":"integer","nullable":true}]}"#,
        ),
        (
            r#"{"anyOf":[{"anyOf":[{"type":"string"},{"type":"number"}]},{"type":"string"}]}"#,
            r#"{"anyOf":[{"type":"string"},{"type":"number"}]}"#,
        ),
        (
            r#"{"type":"string","maxLength":9,"anyOf":[{"pattern":"a"},{"minLength":2}]}"#,
            r#"{"anyOf":[{"type":"string","maxLength":9,"pattern":"a"},{"type":"string","maxLength":9,"minLength":2}]}"#,
        ),
        (r#"{"enum":["a","b"],"anyOf":[{"minLength":1},{"maxLength":2}]}"#, r#"{"enum":["a","b"],"type":"string"}"#),
        (
            r#"{"items":{"type":"string"},"anyOf":[{"minItems":1},{"maxItems":2}]}"#,
            r#"{"items":{"type":"string"},"type":"array"}"#,
        ),
        (
            r#"{"properties":{"a":{"type":"string"}},"oneOf":[{"properties":{"b":{"type":"number"}},"required":["a","b"]},{"required":["a"]}]}"#,
            r#"{"properties":{"a":{"type":"string"},"b":{"type":"number"}},"type":"object","required":["a"]}"#,
        ),
        (
            r#"{"allOf":[{"type":"object","properties":{"a":{"type":"string"}}},{"properties":{"a":{"minLength":1}},"required":["a"]}]}"#,
            r#"{"type":"object","properties":{"a":{"type":"string","minLength":1}},"required":["a"]}"#,
        ),
    ]);
}

#[test]
fn gemini_gets_references_written_out() {
    check(
        Target::Gemini,
        &[
            (
                r##"{"properties":{"a":{"$ref":"#/$defs/x~1y","description":"mine"},"b":{"$ref":"http://x/y"},"c":{"$ref":"#/no","type":"string"}},"$defs":{"x/y":{"type":"string","description":"its"}}}"##,
                r#"{"properties":{"a":{"description":"mine","type":"string"},"b":{"type":"object"},"c":{"type":"string"}},"type":"object"}"#,
            ),
            (
                r##"{"properties":{"tree":{"$ref":"#/$defs/node"},"all":{"$ref":"#"}},"$defs":{"node":{"type":"object","description":"A node.","properties":{"left":{"$ref":"#/$defs/node"}}}}}"##,
                r#"{"properties":{"tree":{"type":"object","description":"A node.","properties":{"left":{"type":"object","description":"A node."}}},"all":{"type":"object"}},"type":"object"}"#,
            ),
            (
                r##"{"allOf":[{"$ref":"#/$defs/a"},{"properties":{"up":{"$ref":"#/$defs/a"}}}],"$defs":{"a":{"properties":{"n":{"type":"number"}}}}}"##,
                r#"{"properties":{"n":{"type":"number"},"up":{"properties":{"n":{"type":"number"}},"type":"object"}},"type":"object"}"#,
            ),
        ],
    );
}

#[test]
fn a_property_may_be_called_like_a_keyword() {
    let odd = r#"{"type":"object","properties":{"$ref":{"type":"string"},"type":{"type":"number"},"properties":{"type":"boolean"},"anyOf":{"type":"string"}},"required":["$ref","properties"]}"#;
    for target in Target::ALL {
        check(target, &[(odd, odd)]);
    }
}

#[test]
fn bombs_stay_small() {
    let chain = |inner: &dyn Fn(usize) -> String| {
        let defs: Vec<String> = (0..60).map(|n| format!(r#""d{n}":{}"#, inner(n + 1))).collect();
        format!(r##"{{"$ref":"#/$defs/d0","$defs":{{{},"d60":{{}}}}}}"##, defs.join(","))
    };
    let twice = |n| format!(r##"{{"$ref":"#/$defs/d{n}"}},{{"$ref":"#/$defs/d{n}"}}"##);
    let long = "x".repeat(1000);
    let bombs = [
        chain(&|n| format!(r#"{{"allOf":[{}]}}"#, twice(n))),
        chain(&|n| format!(r#"{{"description":"{long}","anyOf":[{}]}}"#, twice(n))),
        chain(&|n| format!(r##"{{"properties":{{"a":{{"$ref":"#/$defs/d{n}"}},"b":{{"$ref":"#/$defs/d{n}"}}}}}}"##)),
        chain(&|n| format!(r#"{{"properties":{{"a":{{"description":"{long}","oneOf":[{}]}}}}}}"#, twice(n))),
        format!(r#"{{"properties":{{"a":{}1{}}}}}"#, r#"{"items":"#.repeat(200), "}".repeat(200)),
        format!(r#"{{"properties":{{"a":{}1{}}}}}"#, r#"{"minLength":1,"anyOf":[{},"#.repeat(100), "]}".repeat(100)),
    ];
    for bomb in &bombs {
        for target in Target::ALL {
            let once = lower(Some(bomb), target).unwrap();
            assert!(once.len() < 2 * bomb.len() + 1_000_000, "{target:?}: {} of {}", once.len(), bomb.len());
            assert_eq!(lower(Some(&once), target).unwrap(), once);
        }
    }
}
