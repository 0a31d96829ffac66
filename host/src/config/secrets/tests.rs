use super::*;

fn secrets(values: &[&str]) -> Secrets {
    let mut secrets = Secrets::default();
    values.iter().for_each(|value| secrets.add(value));
    secrets
}

#[track_caller]
fn check(values: &[&str], text: &str, expected: &str) {
    assert_eq!(secrets(values).redact(text), expected);
}

#[test]
fn every_occurrence_of_every_secret_goes() {
    check(&["hunter22"], "hunter22, hunter22hunter22.", "[REDACTED], [REDACTED][REDACTED].");
    check(&["token", "token-abc", "abc-token-abc-x"], "token-abc and abc-token-abc-x", "[REDACTED] and [REDACTED]");
    check(&["abcd-efgh", "efgh-ijkl"], "(abcd-efgh-ijkl)", "([REDACTED])");
    check(&["a1a1"], "ba1a1a1a1b", "b[REDACTED]b");
    check(&["  padded-value \n"], "padded-value", "[REDACTED]");
    check(&["pässwörd"], "das pässwörd!", "das [REDACTED]!");
}

#[test]
fn a_short_word_is_not_found_within_a_longer_one() {
    check(&["east"], "northeast, easter, east-1, \"east\"", "northeast, easter, [REDACTED]-1, \"[REDACTED]\"");
    check(&["opensesame"], "myopensesames", "my[REDACTED]s");
    check(&["east1"], "northeast1", "north[REDACTED]");
    assert!(matches!(secrets(&["east"]).redact("northeast"), Cow::Borrowed(_)));
}

#[test]
fn a_text_without_secrets_is_not_copied() {
    assert!(matches!(secrets(&["hunter22"]).redact("nothing here"), Cow::Borrowed("nothing here")));
    assert!(matches!(Secrets::default().redact("nothing here"), Cow::Borrowed(_)));
    assert!(matches!(
        secrets(&["abc", "true", "8080", "localhost"]).redact("abc true 8080 localhost"),
        Cow::Borrowed(_)
    ));
}

#[test]
fn other_forms_go_too() {
    check(&["a b/c&d"], "https://x/?q=a%20b%2Fc%26d", "https://x/?q=[REDACTED]");
    check(&["a\"b\\c"], r#"{"x":"a\"b\\c"}"#, r#"{"x":"[REDACTED]"}"#);
    check(&["s3cr3t-value"], "czNjcjN0LXZhbHVl", "[REDACTED]");
    check(&["Planted-Env-1"], "http://planted-env-1.invalid/mcp", "http://[REDACTED].invalid/mcp");
    check(&["Two Words"], "two words", "two words");
}

#[test]
fn lines_of_a_key_go_alone_too() {
    let key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\nAQEFAASCBKcwggSjAgEAAoIB\nshOrt1=\n-----END PRIVATE KEY-----\n";
    check(&[key], "bad line: AQEFAASCBKcwggSjAgEAAoIB!", "bad line: [REDACTED]!");
    check(&[key], "last line: shOrt1=!", "last line: [REDACTED]!");
    check(&[key], key.trim(), "[REDACTED]");
    check(&[key], "-----BEGIN PRIVATE KEY----- expected", "-----BEGIN PRIVATE KEY----- expected");
    check(&[key], &serde_json::to_string(&[key.trim()]).unwrap(), "[\"[REDACTED]\"]");
}

#[test]
fn words_of_a_file_with_many_lines_stay() {
    let file = "apiVersion: v1\nkind: Config\nclusters:\n- cluster1\nPORT=8080\ns3cr3tTail\n";
    check(&[file], "kind: Config, clusters: PORT=8080 v1", "kind: Config, clusters: PORT=8080 v1");
    check(&[file], "s3cr3tTail", "[REDACTED]");
}

#[test]
fn json_stays_json() {
    for (value, text, expected) in [
        ("12345678", r#"{"id":12345678,"x":"12345678"}"#, r#"{"id":"[REDACTED]","x":"[REDACTED]"}"#),
        ("nothing1", r#"["line\nothing1"]"#, r#"["line[REDACTED]"]"#),
        ("00e9abcd", r#"["\u00e9abcd"]"#, r#"["[REDACTED]"]"#),
        ("9abc-xyz", r#"["\u00e9abc-xyz"]"#, r#"["[REDACTED]"]"#),
        ("00-abcd", r#"["x\ud83d\ude00-abcd"]"#, r#"["x[REDACTED]"]"#),
        ("end\\ud83d", r#"["end\ud83d\ude00x"]"#, r#"["[REDACTED]x"]"#),
        ("tail\\", r#"["tail\" x"]"#, r#"["[REDACTED] x"]"#),
        ("tail\\", r#"["tail\\"]"#, r#"["[REDACTED]"]"#),
        ("tail\\", r#"["tail\u0041x"]"#, r#"["[REDACTED]x"]"#),
        (r#"{"key":"abc"}"#, r#"{"a":{"key":"abc"}}"#, r#"{"a":"[REDACTED]"}"#),
        (r#"a","b"#, r#"["a","b"]"#, r#"["[REDACTED]"]"#),
        (r#"xa","b"#, r#"{"k":"xa","b":1}"#, r#""[REDACTED]""#),
        ("ends\\u00", r#"["ends\u0041x"]"#, r#"["[REDACTED]x"]"#),
    ] {
        assert!(serde_json::from_str::<serde_json::Value>(text).is_ok(), "{text}");
        assert_eq!(secrets(&[value]).redact(text), expected, "{value} in {text}");
        assert!(serde_json::from_str::<serde_json::Value>(expected).is_ok(), "{expected}");
    }
    check(&["12345678"], "{\"a\":12345678}\n{\"a\":2}\n", "{\"a\":\"[REDACTED]\"}\n{\"a\":2}\n");
    check(&["12345678"], "[12345678] started", "[[REDACTED]] started");
}

#[test]
fn an_ordinary_word_is_a_secret_where_its_name_tells() {
    let rows = [
        ("DBNAME", "orders", false),
        ("STAGE", "function", false),
        ("E_1", "plain", false),
        ("HOME", "s3cret-1", false),
        ("DB_PASSWORD", "orders", true),
        ("GH_PAT", "orders", true),
        ("DBNAME", "orders-7f3a", true),
        ("DBNAME", "abcdefghijklmnop", true),
    ];
    for (name, value, hidden) in rows {
        let mut secrets = Secrets::default();
        secrets.add_variable(name, value);
        let text = format!(r#"{{"name":"list_{value}","properties":{{"{value}_id":"{value}"}}}}"#);
        let expected = if hidden { text.replace(value, REDACTED) } else { text.clone() };
        assert_eq!(secrets.redact(&text), expected, "{name}={value}");
    }
    let mut secrets = Secrets::default();
    secrets.add_header("X-Tenant", "orders");
    secrets.add_header("X-Api-Key", "opensesame");
    assert_eq!(secrets.redact("orders opensesame"), "orders [REDACTED]");
}

#[test]
fn headers_give_their_credentials() {
    let mut secrets = Secrets::default();
    secrets.add_header("Authorization", "Bearer tok-1234");
    secrets.add_header("Proxy-Authorization", "Basic dXNlcjpwYXNzd29yZDE=");
    secrets.add_header("X-Api-Key", "key-12345");
    secrets.add_header("Cookie", "a=cookie-a; b=cookie-b");
    secrets.add_header("Accept", "application/x-thing");
    let text = "Bearer tok-1234 dXNlcjpwYXNzd29yZDE= password1 key-12345 cookie-a cookie-b application/x-thing";
    let expected = "Bearer [REDACTED] [REDACTED] [REDACTED] [REDACTED] [REDACTED] [REDACTED] application/x-thing";
    assert_eq!(secrets.redact(text), expected);
}

#[test]
fn arguments_and_addresses_give_what_looks_secret() {
    let mut secrets = Secrets::default();
    let args = [
        "--api-key",
        "sk-first",
        "--token=sk-second",
        "-e",
        "DB_PASSWORD=sk-third",
        "--header",
        "Authorization: Bearer sk-fourth",
    ];
    let more = [
        "postgres://me:sk-f%40fth@host/db",
        "https://sk-sixth@host/?q=1&api_key=sk-seventh#x",
        "--header=X-Api-Key: sk-eighth",
        "--env=A_TOKEN=sk-ninth",
        "plain-word",
        "--verbose",
    ];
    let args = [&args[..], &more[..]].concat();
    for (n, arg) in args.iter().enumerate() {
        secrets.add_argument(n.checked_sub(1).map(|before| args[before]), arg);
    }
    for secret in [
        "sk-first",
        "sk-second",
        "sk-third",
        "sk-fourth",
        "sk-f%40fth",
        "sk-f@fth",
        "sk-sixth",
        "sk-seventh",
        "sk-eighth",
        "sk-ninth",
    ] {
        assert_eq!(secrets.redact(secret), REDACTED, "{secret}");
    }
    for word in ["plain-word", "--verbose", "Authorization", "Bearer", "host/db", "q=1"] {
        assert_eq!(secrets.redact(word), word);
    }
}

#[test]
fn a_key_file_gives_the_key_within() {
    let key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\n-----END KEY-----";
    let file = serde_json::json!({ "type": "account", "private_key": key, "more": [{ "token": "tok-1234" }] });
    let secrets = secrets(&[&serde_json::to_string_pretty(&file).unwrap()]);
    assert_eq!(secrets.redact("MIIEvQIBADANBgkqhkiG9w0B tok-1234 type"), "[REDACTED] [REDACTED] type");
    let mut secrets = Secrets::default();
    secrets.add_argument(Some("--config"), r#"{"apiKey":"sk-12345","mode":"fast-one"}"#);
    assert_eq!(secrets.redact("sk-12345 fast-one"), "[REDACTED] fast-one");
}

#[test]
fn debug_shows_a_count_and_merging_adds() {
    let mut all = secrets(&["first-value"]);
    assert_eq!(all.redact("second-value"), "second-value");
    all.merge(&secrets(&["second-value"]));
    assert_eq!(all.redact("first-value second-value"), "[REDACTED] [REDACTED]");
    assert_eq!(format!("{all:?}"), "Secrets(2)");
    assert!(!all.is_empty() && Secrets::default().is_empty());
}

#[test]
fn a_hundred_secrets_leave_a_long_text_as_it_is_but_for_them() {
    let values: Vec<String> = (0..100).map(|n| format!("secret-value-number-{n:03}-{n:x}")).collect();
    let secrets = secrets(&values.iter().map(String::as_str).collect::<Vec<_>>());
    let line = "the quick brown fox jumps over the lazy dog, secret-value-numb\n";
    let text = line.repeat((1 << 20) / line.len());
    assert!(matches!(secrets.redact(&text), Cow::Borrowed(_)));
    let with = format!("{text}{}{text}", values[42]);
    assert_eq!(secrets.redact(&with), format!("{text}{REDACTED}{text}"));
}
