//! Secrets apart from their names, and names that are not written as they are seen.

use super::*;

#[test]
fn a_value_apart_from_its_name_is_masked() {
    let masker = masker(&["all"], &[], &[]).unwrap();
    check(
        &masker,
        &[
            // On the next line.
            ("password:\nhunter2hunter2\n", "password:\n[MASKED_PASSWORD]\n"),
            ("Your password:\r\n\r\n  hunter2!\r\nbye", "Your password:\r\n\r\n  [MASKED_PASSWORD]\r\nbye"),
            ("**API key:**\n`abcd1234efgh5678`\n", "**API key:**\n`[MASKED_API_KEY]`\n"),
            ("DB_PASSWORD=\ncorrecthorsebattery", "DB_PASSWORD=\n[MASKED_PASSWORD]"),
            (r#"{"text":"token:\nabc123def456"}"#, r#"{"text":"token:\n[MASKED_TOKEN]"}"#),
            // In an entry.
            (
                r#"{"name":"password","type":"x","value":"opensesame"}"#,
                r#"{"name":"password","type":"x","value":"[MASKED_PASSWORD]"}"#,
            ),
            (
                r#"[{"Value":"opensesame","Name":"DB_PASSWORD"}]"#,
                r#"[{"Value":"[MASKED_PASSWORD]","Name":"DB_PASSWORD"}]"#,
            ),
            (r#"{"k":"token","v":1234567890}"#, r#"{"k":"token","v":"[MASKED_TOKEN]"}"#),
            (
                r#"{"key":"password","n":{"a":[1]},"value":"cut of"#,
                r#"{"key":"password","n":{"a":[1]},"value":"[MASKED_PASSWORD]"#,
            ),
            ("{'key': 'api_key', 'value': 'abcd1234efgh5678'}", "{'key': 'api_key', 'value': '[MASKED_API_KEY]'}"),
            (
                r#"{"text":"[{\"value\":\"opensesame\",\"name\":\"password\"}]"}"#,
                r#"{"text":"[{\"value\":\"[MASKED_PASSWORD]\",\"name\":\"password\"}]"}"#,
            ),
            // In a pair and in rows.
            (r#"["password", "hunter2hunter2"]"#, r#"["password", "[MASKED_PASSWORD]"]"#),
            (
                r#"{"env":[["USER","bob"],["DB_PASSWORD","hunter2!"]]}"#,
                r#"{"env":[["USER","bob"],["DB_PASSWORD","[MASKED_PASSWORD]"]]}"#,
            ),
            ("[('user', 'bob'), ('password', 'hunter2')]", "[('user', 'bob'), ('password', '[MASKED_PASSWORD]')]"),
            (
                r#"[["user","password"],["bob","hunter2"],["eve","s3cret-7"]]"#,
                r#"[["user","password"],["bob","[MASKED_PASSWORD]"],["eve","[MASKED_PASSWORD]"]]"#,
            ),
            (
                r#"{"columns":["id","token"],"rows":[[1,"abc123def456"],[2,12345678901]]}"#,
                r#"{"columns":["id","token"],"rows":[[1,"[MASKED_TOKEN]"],[2,"[MASKED_TOKEN]"]]}"#,
            ),
            // In a table.
            (
                "user,password\nbob,opensesame\neve,s3cret-7\n",
                "user,password\nbob,[MASKED_PASSWORD]\neve,[MASKED_PASSWORD]\n",
            ),
            ("\"user\";\"password\"\n\"bob\";\"hunter22\"", "\"user\";\"password\"\n\"bob\";\"[MASKED_PASSWORD]\""),
            ("id\tapi_key\n1\tabcd1234efgh5678", "id\tapi_key\n1\t[MASKED_API_KEY]"),
            (
                "| user | password |\n|---|---|\n| bob | hunter22 |",
                "| user | password |\n|---|---|\n| bob | [MASKED_PASSWORD] |",
            ),
            (
                " user | password \n------+----------\n bob  | opensesame",
                " user | password \n------+----------\n bob  | [MASKED_PASSWORD]",
            ),
        ],
    );
}

#[test]
fn a_name_is_known_as_it_is_seen() {
    // What is invisible stays without the group `hidden`.
    let masker = masker(&[], &["password", "github_token"], &[]).unwrap();
    check(
        &masker,
        &[
            ("pass\u{200b}word: hunter2hunter2", "pass\u{200b}word: [MASKED_PASSWORD]"),
            ("p\u{ad}a\u{2060}ssword=\u{feff}hunter2hunter2 x", "p\u{ad}a\u{2060}ssword=\u{feff}[MASKED_PASSWORD] x"),
            ("ｐａｓｓｗｏｒｄ: hunter2hunter2", "ｐａｓｓｗｏｒｄ: [MASKED_PASSWORD]"),
            ("{\"𝐩assword\":\"hunter2hunter2\"}", "{\"𝐩assword\":\"[MASKED_PASSWORD]\"}"),
            ("gh\u{200d}p_abcdefghijklmnopqrstuvwxyz0123456789", "[MASKED_GITHUB_TOKEN]"),
        ],
    );
    for key in [r"pass\u200bword", r"\uff50\uff41\uff53\uff53word", r"p\u0061ss\uFEFFword"] {
        let json = format!(r#"{{"{key}":"hunter2hunter2","a":["{key}","hunter2hunter2"]}}"#);
        let masked = masker.mask_json(&json);
        assert!(!masked.contains("hunter2") && json::parse(&masked).is_ok(), "{masked}");
        assert_eq!(masker.mask_json(&masked), masked);
    }
}

#[test]
fn a_token_in_pieces_is_found_by_how_it_begins() {
    let masker = masker(&["all"], &[], &[]).unwrap();
    for (text, expected) in [
        ("key gh\np_abcdefghij\nklmnopqrstuv \nmore text", "key [MASKED_GITHUB_TOKEN] \nmore text"),
        ("AKIAIOSF\nODNN7EXAMPLE", "[MASKED_AWS_ACCESS_KEY]"),
    ] {
        assert_eq!(masker.mask_across_lines(text), expected);
        assert_eq!(masker.mask_across_lines(expected), expected);
    }
    let prose = "see http://host:80\nme@example.org and MyComponent2\nOtherThing3 bearer\nabcdefghijklmnopqrstuvwxyz";
    assert_eq!(masker.mask_across_lines(prose), prose);
}
