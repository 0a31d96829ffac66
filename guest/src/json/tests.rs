//! What JSON is read, what is refused, and what comes back.

use super::*;

#[test]
fn values_come_back_as_they_were() {
    for text in [
        r#"{"b":1,"a":[true,false,null,"x"],"c":{}}"#,
        "123456789012345678901234567890",
        "[1.10,-0,1e400,2E-7]",
        r#""a\"\\\n\r\t\u0001é😀""#,
        "[]",
    ] {
        assert_eq!(parse(text).unwrap().to_json(), text);
    }
}

#[test]
fn what_is_not_json_is_refused() {
    for text in [
        "",
        " ",
        "{",
        "[1,]",
        "{\"a\":1,}",
        "{a:1}",
        "01",
        "1.",
        ".5",
        "+1",
        "1e",
        "tru",
        "nul",
        "\"a",
        "\"\n\"",
        "[1 2]",
        "{\"a\" 1}",
        "1 2",
        "\"\\x\"",
        "\"\\u12\"",
        "'a'",
        "NaN",
    ] {
        assert!(matches!(parse(text), Err(Error::Syntax(..))), "{text}");
    }
}

#[test]
fn escapes_are_read() {
    assert_eq!(parse(r#""\u0041\ud83d\ude00\/""#).unwrap(), Value::string("A😀/"));
    assert_eq!(parse(r#""\ud800""#).unwrap(), Value::string("\u{fffd}"));
    assert_eq!(parse(r#""\ud800\u0041""#).unwrap(), Value::string("\u{fffd}A"));
    assert_eq!(parse(r#""\udc00x""#).unwrap(), Value::string("\u{fffd}x"));
}

#[test]
fn of_equal_keys_the_last_value_stands_in_the_first_place() {
    assert_eq!(parse(r#"{"a":1,"b":2,"a":3,"a":4}"#).unwrap().to_json(), r#"{"a":4,"b":2}"#);
}

#[test]
fn limits_hold() {
    let deep = |n: usize| "[".repeat(n) + &"]".repeat(n);
    assert!(parse(&deep(MAX_DEPTH)).is_ok());
    assert_eq!(parse(&deep(100_000)), Err(Error::TooDeep));
    let wide = format!("[{}0]", "0,".repeat(MAX_VALUES));
    assert_eq!(parse(&wide), Err(Error::TooManyValues));
}

#[test]
fn kinds_are_those_of_json_schema() {
    for (text, kind) in
        [("1", "integer"), ("1.0", "integer"), ("1.5", "number"), ("1e3", "integer"), ("1e-3", "number")]
    {
        assert_eq!(parse(text).unwrap().kind(), kind, "{text}");
    }
}
