//! Tokens with something in them, values in lists, elements and members, and what every group finds.

use super::*;

const GITHUB: &str = "ghp_abcdefghijklmnopqrstuvwxyz0123456789";

/// All patterns but `hidden`, which would take out what the others must see through.
fn secrets_only() -> Masker {
    let patterns: Vec<&str> = pattern_names().into_iter().filter(|name| *name != HIDDEN).collect();
    masker(&[], &patterns, &[]).unwrap()
}

#[test]
fn a_token_is_found_whatever_stands_in_it_or_before_it() {
    let things = [
        "\0",
        "\x01",
        "\x07",
        "\x08",
        "\x0b",
        "\x0c",
        "\x1b",
        "\x7f",
        "\u{80}",
        "\u{9b}",
        "\x1b[31m",
        "\x1b[01;31m\x1b[K",
        "\x1b[m\x1b[K",
        "\x1b]0;title\x07",
        "\x1b]8;;http://x\x1b\\",
        "\x1b(B",
        "\u{9b}1m",
        "\u{200b}",
        "\u{ad}",
        "\u{202e}",
        "\u{2066}",
        "\u{e0041}",
        "\u{fe0f}",
        "\u{e0100}",
        "\u{feff}",
        "\u{34f}",
        "\u{3164}",
        "\u{180e}",
        "\u{61c}",
    ];
    for masker in [secrets_only(), masker(&["all"], &[], &[]).unwrap(), masker(&["basic"], &[], &[]).unwrap()] {
        for thing in things {
            let spread: String = GITHUB.chars().flat_map(|letter| [letter.to_string(), thing.to_owned()]).collect();
            for token in [format!("{thing}{GITHUB}"), format!("gh{thing}p_{thing}{}", &GITHUB[4..]), spread] {
                for text in [format!("a {token} b"), format!("x{token}")] {
                    let masked = masker.mask(&text);
                    assert!(masked.contains("[MASKED_GITHUB_TOKEN]") && !masked.contains("9"), "{text:?}: {masked:?}");
                    assert_eq!(masker.mask(&masked), masked, "twice: {text:?}");
                    let json = format!("{{\"a\":{}}}", json::Value::string(&*text).to_json());
                    let masked = masker.mask_json(&json);
                    assert!(masked.contains("[MASKED_GITHUB_TOKEN]") && !masked.contains("9"), "{json}: {masked}");
                    assert!(json::parse(&masked).is_ok(), "{masked}");
                    assert_eq!(masker.mask_json(&masked), masked, "twice: {json}");
                }
            }
            for text in [
                format!("pass{thing}word{thing}: {thing}hunter2-Tr0ub4dor{thing}"),
                format!("{thing}password:{thing} hunter2-Tr0{thing}ub4dor"),
            ] {
                let masked = masker.mask(&text);
                assert!(!masked.contains("Tr0") && !masked.contains("ub4dor"), "{text:?}: {masked:?}");
            }
        }
        // UTF-16 that was read as UTF-8.
        let wide: String = format!("password={GITHUB}\n").chars().flat_map(|letter| [letter, '\0']).collect();
        assert!(!masker.mask(&wide).contains('9'), "{wide:?}");
        // As tags, written as escapes.
        let json = r#"{"a":"gh\udb40\udc41p_abcdefghijklmnopqrstuvwxyz0123456789"}"#;
        assert!(!masker.mask_json(json).contains("xyz"), "{json}");
    }
}

#[test]
fn values_in_lists_are_found_by_the_name_of_the_list() {
    let masker = masker(&["all"], &[], &[]).unwrap();
    let p = "[MASKED_PASSWORD]";
    for (text, expected) in [
        (
            r#"{"password": ["hunter22", "opensesame"], "a": ["plain-text"]}"#,
            format!(r#"{{"password": ["{p}", "{p}"], "a": ["plain-text"]}}"#),
        ),
        (r#"{"passwords":["hunter22"]}"#, format!(r#"{{"passwords":["{p}"]}}"#)),
        (r#"{"password":[["hunter22"],[12345678]]}"#, format!(r#"{{"password":[["{p}"],["{p}"]]}}"#)),
        (r#"{"text":"{\"password\": [\"hunter22\"]}"}"#, format!(r#"{{"text":"{{\"password\": [\"{p}\"]}}"}}"#)),
        (r#"{"password": ["hunter22", "cut of"#, format!(r#"{{"password": ["{p}", "{p}"#)),
        ("password: [hunter22, 'open-sesame1']", format!("password: [{p}, '{p}']")),
        ("passwords = [\"hunter22\"]", format!("passwords = [\"{p}\"]")),
        ("connect(password=['hunter22'])", format!("connect(password=['{p}'])")),
        (
            "db_password:\n  - hunter22\n  - \"open sesame\"\nuser: bob\n",
            format!("db_password:\n  - {p}\n  - \"{p}\"\nuser: bob\n"),
        ),
        ("- passwords:\n  - hunter22\n", format!("- passwords:\n  - {p}\n")),
        (r#"{"Authorization":["abcdef123456"]}"#, r#"{"Authorization":["[MASKED_TOKEN]"]}"#.to_owned()),
    ] {
        check(&masker, &[(text, &expected)]);
    }
    let many: Vec<String> = (0..500).map(|n| format!("hunter22-{n}")).collect();
    let text = json::Value::Object(
        [("password".into(), json::Value::Array(many.iter().map(|one| json::Value::string(&**one)).collect()))]
            .into_iter()
            .collect(),
    )
    .to_json();
    assert!(!masker.mask(&text).contains("hunter"));
}

#[test]
fn values_in_members_are_found_by_the_name_around_them() {
    let masker = masker(&["all"], &[], &[]).unwrap();
    let p = "[MASKED_PASSWORD]";
    for (text, expected) in [
        (r#"{"password": {"value": "hunter22"}}"#, format!(r#"{{"password": {{"value": "{p}"}}}}"#)),
        (
            r#"{"db_password":{"type":"string","sensitive":true,"value":"open sesame"}}"#,
            format!(r#"{{"db_password":{{"type":"string","sensitive":true,"value":"{p}"}}}}"#),
        ),
        (r#"{"password":[{"value":"hunter22"}]}"#, format!(r#"{{"password":[{{"value":"{p}"}}]}}"#)),
        (r#"{"password":{"value":{"value":"hunter22"}}}"#, format!(r#"{{"password":{{"value":{{"value":"{p}"}}}}}}"#)),
        (r#"{"name":"password","value":["hunter22"]}"#, format!(r#"{{"name":"password","value":["{p}"]}}"#)),
        (r#"{"values":["hunter22"],"name":"password"}"#, format!(r#"{{"values":["{p}"],"name":"password"}}"#)),
        (
            r#"{"key":"password","value":{"stringValue":"hunter22"}}"#,
            format!(r#"{{"key":"password","value":{{"stringValue":"{p}"}}}}"#),
        ),
        ("password: {value: 'hunter22'}", format!("password: {{value: '{p}'}}")),
        ("password:\n  value: hunter22\n", format!("password:\n  value: {p}\n")),
    ] {
        check(&masker, &[(text, &expected)]);
    }
}

#[test]
fn values_in_elements_are_found_by_the_name_of_the_element() {
    let masker = masker(&["all"], &[], &[]).unwrap();
    let p = "[MASKED_PASSWORD]";
    for (text, expected) in [
        ("<password>hunter22</password>", format!("<password>{p}</password>")),
        ("<password><![CDATA[hunter22]]></password>", format!("<password><![CDATA[{p}]]></password>")),
        ("<password><![CDATA[hunter22", format!("<password><![CDATA[{p}")),
        (
            "<db:password type=\"plain\">open sesame 7</db:password>",
            format!("<db:password type=\"plain\">{p}</db:password>"),
        ),
        ("<password>\n  hunter22\n</password>", format!("<password>\n  {p}\n</password>")),
        ("<password><value>hunter22</value></password>", format!("<password><value>{p}</value></password>")),
        (
            "<password>\n<value><![CDATA[hunter22]]></value>\n<value>open-sesame</value></password>",
            format!("<password>\n<value><![CDATA[{p}]]></value>\n<value>{p}</value></password>"),
        ),
        ("<entry key=\"password\">hunter22</entry>", format!("<entry key=\"password\">{p}</entry>")),
        ("<property name='db.password' value='hunter22'/>", format!("<property name='db.password' value='{p}'/>")),
        ("<add value=\"hunter22\" key=\"Password\" />", format!("<add value=\"{p}\" key=\"Password\" />")),
        ("<key>password</key>\n<string>hunter22</string>", format!("<key>password</key>\n<string>{p}</string>")),
        (
            r#"{"text":"<password kind=\"x\">hunter22</password>"}"#,
            format!(r#"{{"text":"<password kind=\"x\">{p}</password>"}}"#),
        ),
    ] {
        check(&masker, &[(text, &expected)]);
    }
}

#[test]
fn lists_and_elements_of_ordinary_words_stay() {
    let alone = [
        r#"{"required":["password","token"],"type":["string","null"]}"#,
        r#"{"tokens":["hello","identifier","expression"],"secrets":["db-credentials","tls-files"]}"#,
        r#"{"password":{"type":"string","description":"the password of the user","minLength":12}}"#,
        r#"{"name":"colour","values":["ultramarine","vermilion"],"password":{"hint":"colours"}}"#,
        "Password: [forgot-it](https://example.com/reset)",
        "passwords:\n- must be long\n- must be changed every 90 days\n",
        "tokens:\n  - identifier\n  - expression\n",
        "replace <token> with the one that you got, and <password> too, <b>now</b>",
        "<label for=\"password\">Choose a long one</label><th>Password</th><td>see below</td>",
        "<h2 id=\"token\">How tokens work in this language</h2>",
        "secrets:\n  db_password:\n    external: true\n",
    ];
    check(&masker(&["all"], &[], &[]).unwrap(), &alone.map(|text| (text, text)));
}

#[test]
fn every_group_masks_tokens_that_cannot_be_mistaken() {
    let tokens = [
        (GITHUB, "[MASKED_GITHUB_TOKEN]"),
        ("AKIAIOSFODNN7EXAMPLE", "[MASKED_AWS_ACCESS_KEY]"),
        ("xoxb-123456789012-abcdefghijkl", "[MASKED_SLACK_TOKEN]"),
        ("sk_live_abcdefghijklmnop1234", "[MASKED_API_KEY]"),
        ("AIzaSyA-abcdefghijklmnopqrstuvwxyz01234", "[MASKED_API_KEY]"),
        ("glpat-abcdefghijklmnop1234", "[MASKED_TOKEN]"),
    ];
    for group in group_names().into_iter().filter(|group| *group != HIDDEN) {
        let masker = masker(&[group], &[], &[]).unwrap();
        for (token, mask) in tokens {
            check(&masker, &[(token, mask), (&format!("a {token}, b"), &format!("a {mask}, b"))]);
        }
        let key = format!("ssh-rsa {} me", "AAAAB3NzaC1yc2EAAAADAQABAAABgQ");
        assert_eq!(masker.mask(&key) == key, !matches!(group, "security" | "all"), "{group}");
    }
    for masker in [masker(&[HIDDEN], &[], &[]).unwrap(), masker(&[], &["password"], &[]).unwrap()] {
        assert_eq!(masker.mask(GITHUB), GITHUB);
    }
}

#[test]
fn the_group_hidden_is_in_each_group_with_what_is_basic() {
    let text = "a\u{200b}b\x1b[31mc";
    for (group, expected) in [
        ("basic", "abc"),
        ("secrets", "abc"),
        ("security", "abc"),
        ("kubernetes", "abc"),
        ("hidden", "abc"),
        ("all", "abc"),
        ("cloud", text),
    ] {
        let masker = masker(&[group], &[], &[]).unwrap();
        assert_eq!(masker.mask(text), expected, "{group}");
        assert_eq!(masker.count_hidden(text).is_empty(), group == "cloud");
        assert!(masker.find_nothing(r#"{"t":"a\nb"}"#, "a\nb"));
        assert_eq!(masker.find_nothing("{\"t\":\"a\\n\u{200b}b\"}", "a\n\u{200b}b"), group == "cloud");
    }
    assert!(!masker(&["hidden"], &[], &[]).unwrap().is_empty());
    let custom = masker(&["hidden"], &[], &[("id-\\d+", "\x1b[1mid\u{200b}")]).unwrap();
    check(&custom, &[("id-7", "id"), (r#"{"a":"id-7\u00ad"}"#, r#"{"a":"id"}"#)]);
}
