//! Where masks begin and end: next to other masks, to escapes and to the quotes of JSON, and at the largest text.

use super::*;

#[test]
fn the_more_rules_there_are_the_smaller_is_the_largest_text() {
    let custom: Vec<(&str, &str)> = ["a", "b", "c", "d"].map(|pattern| (pattern, "x")).into();
    for (rules, largest) in [(1, MAX_BYTES), (2, MAX_BYTES), (3, MAX_WORK / 3), (4, MAX_WORK / 4)] {
        let masker = masker(&[], &[], &custom[..rules]).unwrap();
        assert!(!masker.is_too_large(largest) && masker.is_too_large(largest + 1), "{rules} rules");
    }
    let both = masker(&["basic"], &[], &custom).unwrap();
    assert_eq!((both.readers, both.is_too_large(MAX_WORK / 9), both.is_too_large(MAX_WORK / 8)), (9, false, true));
}

#[test]
fn a_text_that_is_too_large_is_redacted_whatever_it_is() {
    let masker = masker(&["all"], &[], &[]).unwrap();
    let blanks = " ".repeat(MAX_WORK / masker.finders.len() + 1);
    let json = format!("{{}}{blanks}");
    assert_eq!(masker.mask(&json), REDACTED);
    assert_eq!(masker.mask_json(&json), format!("\"{REDACTED}\""));
    assert_eq!(masker.mask_parsed(&json), format!("\"{REDACTED}\""));
    let pieces = format!("AKIAIOSF\nODNN7EXAMPLE{blanks}");
    assert!(masker.mask_across_lines(&pieces) == pieces, "the lines of it have been redacted already");
}

#[test]
fn a_secret_between_two_masks_is_masked() {
    check(
        &masker(&["basic"], &[], &[(r"\d{3}-\d{4}", "<000-0000>")]).unwrap(),
        &[
            (
                "password: [MASKED_PASSWORD] password: hunter2hunter2 password: [MASKED_PASSWORD]",
                "password: [MASKED_PASSWORD] password: [MASKED_PASSWORD] password: [MASKED_PASSWORD]",
            ),
            ("abc<000-0000> 555-1234", "abc<000-0000> <000-0000>"),
        ],
    );
}

#[test]
fn what_is_masked_is_left_as_it_is_and_neighbours_stay_two() {
    for (custom, text, expected) in [
        ((r"\[[A-Z_]+\]", "***"), "[MASKED_EMAIL] [OTHER]", "[MASKED_EMAIL] ***"),
        ((r"\]\[", "] ["), "[MASKED_EMAIL][MASKED_TOKEN]", "[MASKED_EMAIL] [MASKED_TOKEN]"),
        ((r"\d{3}", "#"), "123456", "##"),
    ] {
        check(&masker(&[], &[], &[custom]).unwrap(), &[(text, expected)]);
    }
}

#[test]
fn an_escape_is_never_cut_in_two() {
    for (custom, text, expected) in [
        ((r"\\", "/"), r"\temp", r"\temp"),
        ((r"\\", "/"), r"C:\temp", r"C:\temp"),
        ((r"b\\", "X"), r#"{"a":"ab\nc"}"#, r#"{"a":"aX\nc"}"#),
        ((r"[a-z0-9]+@example.com", "X"), r#"{"a":"\u00e9bob@example.com"}"#, r#"{"a":"\u00e9X"}"#),
        ((r"\w+@example.com", "X"), r#"{"a":"\nbob@example.com"}"#, r#"{"a":"\nX"}"#),
    ] {
        check(&masker(&[], &[], &[custom]).unwrap(), &[(text, expected)]);
    }
}

#[test]
fn a_number_of_json_becomes_a_string_as_a_whole() {
    let masker = masker(&[], &[], &[(r"\d{4}", "0")]).unwrap();
    for (json, expected) in [
        (r#"{"n": 1234}"#, r#"{"n": "0"}"#),
        (r#"{"n": 123456}"#, r#"{"n": "0"}"#),
        (r#"[1234,"1234",12]"#, r#"["0","0",12]"#),
    ] {
        assert_eq!(masker.mask_json(json), expected);
    }
}

#[test]
fn a_key_at_the_end_of_a_json_string_has_no_value_behind_its_quote() {
    let maskers = [masker(&["basic"], &[], &[]).unwrap(), masker(&[], &["password"], &[]).unwrap()];
    for (json, expected) in [
        (
            r#"{"a":"password:'","password":"hunter2-Tr0ub4dor&3","b":1}"#,
            r#"{"a":"password:'","password":"[MASKED_PASSWORD]","b":1}"#,
        ),
        (
            r#"{"a":"password: 'x","password":"hunter2-Tr0ub4dor&3"}"#,
            r#"{"a":"password: '[MASKED_PASSWORD]","password":"[MASKED_PASSWORD]"}"#,
        ),
        (r#"["password='","--password=hunter2-Tr0ub4dor&3"]"#, r#"["password='","--password=[MASKED_PASSWORD]"]"#),
        (r#"["password:","ordinary"]"#, r#"["password:","ordinary"]"#),
        (r#"{"a":"the password:","b":1}"#, r#"{"a":"the password:","b":1}"#),
    ] {
        assert!(maskers.iter().all(|masker| masker.mask_json(json) == expected), "{json}");
    }
}

#[test]
fn a_span_does_not_begin_within_an_escape_nor_end_in_one() {
    for (text, span, expected) in [
        (r"a\nbob", 2..6, "bob"),
        (r"a\u00e9bob", 2..10, "bob"),
        (r"a\u00bob", 2..8, "ob"),
        (r"a\u00", 2..5, ""),
        (r"a\xbob", 2..6, "xbob"),
        (r"abob\\", 1..6, "bob"),
        (r"\\", 0..2, ""),
        ("bob", 0..3, "bob"),
    ] {
        let mut kept = Span::new(span.start, span.end);
        keep_escapes(text, &mut kept);
        assert_eq!(&text[kept.start..kept.end], expected, "{text}");
    }
}

#[test]
fn a_custom_rule_may_match_beyond_a_json_string() {
    for (custom, json, expected) in
        [((r#"a","b"#, "X"), r#"["a","b"]"#, r#"["X"]"#), ((r#","b""#, ""), r#"["a","b"]"#, r#"["a"]"#)]
    {
        for groups in [&[][..], &["basic"]] {
            assert_eq!(masker(groups, &[], &[custom]).unwrap().mask_json(json), expected);
        }
    }
}

#[test]
fn an_object_in_the_data_of_a_secret_becomes_a_string_of_json() {
    let masker = masker(&["all"], &[], &[]).unwrap();
    let json = |value: &str| format!(r#"{{"kind":"Secret","data":{{"a":"x","b":{value},"c":{value}}}}}"#);
    for value in [r#"{"d":"x"}"#, "[1]", "12"] {
        let text = json(value);
        let masked = masker.mask_json(&text);
        assert!(!masked.contains(value) && masked.matches(r#":"[MASKED_"#).count() == 3, "{masked}");
    }
}

#[test]
fn what_may_be_a_value_depends_on_its_key() {
    check(
        &masker(&["all"], &[], &[]).unwrap(),
        &[
            (r#"{"name":"api_key","value":"abcdef123456789"}"#, r#"{"name":"api_key","value":"abcdef123456789"}"#),
            (r#"{"name":"api_key","value":"abcdef1234567890"}"#, r#"{"name":"api_key","value":"[MASKED_API_KEY]"}"#),
            (r#"{"name":"page_token","value":"abcdef123456"}"#, r#"{"name":"page_token","value":"abcdef123456"}"#),
            (r#"["password", "process.env.DB1X"]"#, r#"["password", "process.env.DB1X"]"#),
            (r#"["password", "process_env_DB1X"]"#, r#"["password", "[MASKED_PASSWORD]"]"#),
            (r#"Authorization: "Bearer abcdef 123456""#, r#"Authorization: "Bearer [MASKED_TOKEN]""#),
            ("Authorization: Bearer abcdef123456 next", "Authorization: Bearer [MASKED_TOKEN] next"),
            ("token::abcdef123456", "token::abcdef123456"),
            ("password::hunter2hunter2", "password:[MASKED_PASSWORD]"),
            ("pwd=/home/user1", "pwd=/home/user1"),
            ("pwd=~/user1x", "pwd=~/user1x"),
            ("pwd=hunter2hunter2", "pwd=[MASKED_PASSWORD]"),
            ("password=/hunter2hunter2", "password=[MASKED_PASSWORD]"),
            ("password=getPassword[", "password=getPassword["),
            (r#"password="getPassword[""#, r#"password="[MASKED_PASSWORD]""#),
            (r#"password="process.env.PASSWORD""#, r#"password="[MASKED_PASSWORD]""#),
            (r#"token="a b password=hunter2hunter2""#, r#"token="[MASKED_TOKEN]""#),
            (r#"password="${A} password=hunter2hunter2"#, r#"password="[MASKED_PASSWORD]"#),
            (r#"page_token="x password=hunter2hunter2""#, r#"page_token="x password=[MASKED_PASSWORD]""#),
            (r#"page_token="x token=abcdef123456""#, r#"page_token="x token=[MASKED_TOKEN]""#),
        ],
    );
}

#[test]
fn secrets_in_and_around_long_strings_with_escapes_are_masked() {
    let masker = masker(&["all"], &[], &[]).unwrap();
    let lines = r"a line of text\n".repeat(200);
    let masked = |json: String| masker.mask_json(&json).into_owned();
    let whole = masked(format!(r#"{{"password":"hunter2 {lines}"}}"#));
    assert_eq!(whole, r#"{"password":"[MASKED_PASSWORD]"}"#);
    for (before, secret, after) in [
        // In a string: at its beginning, in its middle and at its end.
        (r#"{"text":""#.to_owned(), "password=hunter2hunter2", format!(r#"\n{lines}"}}"#)),
        (format!(r#"{{"text":"{lines}"#), "password=hunter2hunter2", format!(r#"\n{lines}"}}"#)),
        (format!(r#"{{"text":"{lines}"#), r#"{\"password\": \"hunter2hunter2\"}"#, format!(r#"\n{lines}"}}"#)),
        (format!(r#"{{"text":"{lines}"#), "password=hunter2hunter2", r#""}"#.to_owned()),
        // After a string, under a name that is there, or at the end of it.
        (format!(r#"{{"text":"{lines}","#), r#""password":"hunter2hunter2""#, "}".to_owned()),
        (format!(r#"{{"{lines}password":"#), r#""hunter2hunter2""#, "}".to_owned()),
        (format!(r#"["{lines}mysql --password","#), r#""hunter2hunter2""#, "]".to_owned()),
    ] {
        let end = masked(format!("{before}{secret}{after}"));
        assert!(!end.contains("hunter2") && end.contains("[MASKED_PASSWORD]"), "{secret}: {end}");
        assert!(end.contains(&lines), "only the secret is masked");
    }
}
