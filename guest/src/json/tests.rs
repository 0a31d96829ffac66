//! What JSON is read, what is refused, and what comes back.

use super::*;
use proptest::prelude::*;

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

/// A string as it was written letter by letter.
fn written_letter_by_letter(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0'..='\x1f' => out.push_str(&format!("\\u{:04x}", u32::from(letter))),
            other => out.push(other),
        }
    }
    out + "\""
}

proptest! {
    #[test]
    fn runs_are_written_like_letters_and_read_back(text in r#"([ -~]|[\x00-\x1f"\\\\]|[é漢😀\x7f\u{80}]){0,64}"#) {
        for (start, _) in text.char_indices() {
            let text = &text[start..];
            let json = Value::string(text).to_json();
            prop_assert_eq!(&json, &written_letter_by_letter(text));
            prop_assert_eq!(parse(&json), Ok(Value::string(text)));
        }
    }

    #[test]
    fn a_string_ends_at_its_quote_or_breaks_off_where_it_breaks(before in "[a-zé漢]{0,20}", after in "[g-z]{0,20}") {
        let start = before.len() + 1;
        let parsed = parse(&format!("[\"{before}\",\"{after}\"]")).map(|value| value.to_json());
        prop_assert_eq!(parsed, Ok(format!("[\"{before}\",\"{after}\"]")));
        for (middle, at) in [("\n", start), ("\0", start), ("\\x", start), ("\\u12", start), ("\\t\x1f", start + 2)] {
            let broken = parse(&format!("\"{before}{middle}{after}!\"")).map(|value| value.to_json());
            prop_assert_eq!(broken, Err(Error::Syntax("the end of a string", at)));
        }
        let open = parse(&format!("\"{before}{after}")).map(|value| value.to_json());
        prop_assert_eq!(open, Err(Error::Syntax("the end of a string", start + after.len())));
    }
}
