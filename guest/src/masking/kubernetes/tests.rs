//! Secrets in every place where they have been seen.

use proptest::prelude::*;

use super::{block, find, flow};

/// The text with each value found replaced by `MASK`.
fn masked(text: &str) -> String {
    let mut spans = Vec::new();
    find(text, &mut |span| spans.push(span));
    let mut out = String::new();
    let mut copied = 0;
    for span in crate::masking::merge(spans) {
        out.push_str(&text[copied..span.start]);
        out.push_str(if span.quoted.is_some() { "\"MASK\"" } else { "MASK" });
        copied = span.end;
    }
    out + &text[copied..]
}

fn check(rows: &[(&str, &str)]) {
    for (text, expected) in rows {
        assert_eq!(masked(text), *expected, "\n{text}");
        // A second scan sees masks where values were; it must find the same places and no others.
        assert_eq!(masked(expected), *expected, "\nmasked twice: {text}");
    }
}

/// Pieces of manifests, whole and broken off.
const PIECES: &[&str] = &[
    "kind: Secret\n",
    "type: Opaque\n",
    "type: kubernetes.io/tls\n",
    "apiVersion: v1\n",
    "data: {a: x}\n",
    "data:\n  a: x\n",
    "kind",
    "kind: ",
    "\"kind\":",
    "Secret",
    "\"Secret\"",
    "Sec",
    "SecretList",
    "apiVersion: ",
    "'api_version':",
    "v1",
    "type: ",
    "Opaque",
    "kubernetes.io/tls",
    "data:",
    "\"data\":",
    "stringData: ",
    "items:",
    "a: x",
    "\"a\":\"x\"",
    "- ",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "'",
    "#",
    " # a comment that is longer than all of the rest of the text is, and then some",
    "\n",
    "\r\n",
    "\n  ",
    " ",
    "\t",
    "\u{a0}",
    "\0",
    "\\",
    "é",
    "---\n",
    "Secrets",
];

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(10_000) })]

    #[test]
    fn a_text_that_is_not_scanned_has_no_secret(pieces in prop::collection::vec(prop::sample::select(PIECES), 0..24)) {
        let text = pieces.concat();
        let mut found = Vec::new();
        find(&text, &mut |span| found.push(span));
        let scanned: Vec<_> = flow::scan(&text).into_iter().chain(block::scan(&text)).collect();
        // Without these words a text is no manifest.
        if ["kind", "apiVersion", "type"].iter().any(|word| text.contains(word)) {
            prop_assert_eq!(found, scanned, "{:?}", text);
        }
    }
}

#[test]
fn the_data_of_a_json_secret_is_found() {
    check(&[
        (r#"{"kind":"Secret","data":{"a":"eA==","b":""}}"#, r#"{"kind":"Secret","data":{"a":"MASK","b":""}}"#),
        (
            r#"{"data":{"a":"eA=="},"stringData":{"b":"x"},"kind":"Secret"}"#,
            r#"{"data":{"a":"MASK"},"stringData":{"b":"MASK"},"kind":"Secret"}"#,
        ),
        (
            r#"[{"kind":"Secret","data":{"a":"x"}},{"kind":"ConfigMap","data":{"a":"x"}}]"#,
            r#"[{"kind":"Secret","data":{"a":"MASK"}},{"kind":"ConfigMap","data":{"a":"x"}}]"#,
        ),
        (
            r#"{"kind":"List","items":[{"data":{"a":"x"},"kind":"Secret"}]}"#,
            r#"{"kind":"List","items":[{"data":{"a":"MASK"},"kind":"Secret"}]}"#,
        ),
        (
            r#"{"items":[{"metadata":{},"data":{"a":"x"}}],"kind":"SecretList"}"#,
            r#"{"items":[{"metadata":{},"data":{"a":"MASK"}}],"kind":"SecretList"}"#,
        ),
        (
            r#"{"kind":"Secret","data":{"a":1,"b":{"c":"x"},"d":null,"e":[1]}}"#,
            r#"{"kind":"Secret","data":{"a":"MASK","b":"MASK","d":null,"e":"MASK"}}"#,
        ),
        (
            r#"{"status":"ok","data":{"kind":"Secret","data":{"a":"x"}}}"#,
            r#"{"status":"ok","data":{"kind":"Secret","data":{"a":"MASK"}}}"#,
        ),
        (
            r#"Here it is, 5" wide: {"kind": "Secret", "data": {"a": "x"}} and more"#,
            r#"Here it is, 5" wide: {"kind": "Secret", "data": {"a": "MASK"}} and more"#,
        ),
        (
            r#"{'api_version': 'v1', 'data': {'a': 'x'}, 'kind': 'Secret'}"#,
            r#"{'api_version': 'v1', 'data': {'a': 'MASK'}, 'kind': 'Secret'}"#,
        ),
        (
            r#"{"metadata":{"name":"x"},"type":"Opaque","data":{"a":"x"}}"#,
            r#"{"metadata":{"name":"x"},"type":"Opaque","data":{"a":"MASK"}}"#,
        ),
        (
            "{\n  \"kind\": \"Secret\",\n  \"data\": {\n    \"a\": \"x\",\n    \"n\": 1,\n    \"b\": \"y\"\n  },\n  \"type\": \"Opaque\"\n}\n",
            "{\n  \"kind\": \"Secret\",\n  \"data\": {\n    \"a\": \"MASK\",\n    \"n\": \"MASK\",\n    \"b\": \"MASK\"\n  },\n  \"type\": \"Opaque\"\n}\n",
        ),
        (
            r#"{"kind":"Secret","kind":"ConfigMap","data":{"a":"x"}}"#,
            r#"{"kind":"Secret","kind":"ConfigMap","data":{"a":"MASK"}}"#,
        ),
        (r#"{"kind":"Secret","data":{"a":"x\" y","b":"z"}}"#, r#"{"kind":"Secret","data":{"a":"MASK","b":"MASK"}}"#),
        (
            r#"{"a":1} 'tis {"kind":"Secret","data":{"a":"it's x"}}"#,
            r#"{"a":1} 'tis {"kind":"Secret","data":{"a":"MASK"}}"#,
        ),
        (
            "\"kind\": \"Secret\",\n\"data\": {\n  \"n\": 12,\n  \"a\": \"x\"\n}\n",
            "\"kind\": \"Secret\",\n\"data\": {\n  \"n\": \"MASK\",\n  \"a\": \"MASK\"\n}\n",
        ),
        (
            "{ unclosed\n{\"kind\":\"Secret\",\"data\":{\"a\":\"x\"}}",
            "{ unclosed\n{\"kind\":\"Secret\",\"data\":{\"a\":\"MASK\"}}",
        ),
    ]);
}

#[test]
fn the_data_of_a_yaml_secret_is_found() {
    check(&[
        ("kind: Secret\ndata:\n  a: x\n# why\n  b: y\n", "kind: Secret\ndata:\n  a: MASK\n# why\n  b: MASK\n"),
        (
            "apiVersion: v1\nkind: Secret\ndata:\n  a: eA==\n  b: \"eA==\"\ntype: Opaque\n",
            "apiVersion: v1\nkind: Secret\ndata:\n  a: MASK\n  b: \"MASK\"\ntype: Opaque\n",
        ),
        ("data:\n    a: x # why\nkind: \"Secret\" # yes\n", "data:\n    a: MASK # why\nkind: \"Secret\" # yes\n"),
        (
            "kind: Secret\nstringData:\n  a: |\n    one\n\n    two: three\n  b: x\n",
            "kind: Secret\nstringData:\n  a: MASK\n  b: MASK\n",
        ),
        ("kind: Secret\ndata: {a: x, \"b\": 'y'}\n", "kind: Secret\ndata: {a: \"MASK\", \"b\": 'MASK'}\n"),
        ("kind: Secret\r\ndata:\r\n  a: x\r\n", "kind: Secret\r\ndata:\r\n  a: MASK\r\n"),
        (
            "kind: ConfigMap\ndata:\n  a: x\n---\nkind: Secret\ndata:\n  a: x\n---\nkind: Pod\n",
            "kind: ConfigMap\ndata:\n  a: x\n---\nkind: Secret\ndata:\n  a: MASK\n---\nkind: Pod\n",
        ),
        (
            "kind: List\nitems:\n- kind: Secret\n  data:\n    a: x\n- data:\n    a: x\n  kind: ConfigMap\n",
            "kind: List\nitems:\n- kind: Secret\n  data:\n    a: MASK\n- data:\n    a: x\n  kind: ConfigMap\n",
        ),
        (
            "items:\n  - metadata:\n      name: n\n    data:\n      a: x\nkind: SecretList\n",
            "items:\n  - metadata:\n      name: n\n    data:\n      a: MASK\nkind: SecretList\n",
        ),
        (
            "The secret:\n\n    kind: Secret\n    data:\n      a: x\n\nThat was it: done\n",
            "The secret:\n\n    kind: Secret\n    data:\n      a: MASK\n\nThat was it: done\n",
        ),
        (
            "kind: Secret\ndata:\n  a: x\nkind: ConfigMap\ndata:\n  a: x\n",
            "kind: Secret\ndata:\n  a: MASK\nkind: ConfigMap\ndata:\n  a: x\n",
        ),
        (
            "kind: Secret\ndata:\n  a: x\nmetadata:\n  annotations:\n    last: |\n      {\"kind\":\"Secret\",\"data\":{\"a\":\"x\"}}\n",
            "kind: Secret\ndata:\n  a: MASK\nmetadata:\n  annotations:\n    last: |\n      {\"kind\":\"Secret\",\"data\":{\"a\":\"MASK\"}}\n",
        ),
        (
            "kind: ConfigMap\ndata:\n  manifest: |\n    kind: Secret\n    data:\n      a: x\n",
            "kind: ConfigMap\ndata:\n  manifest: |\n    kind: Secret\n    data:\n      a: MASK\n",
        ),
        ("data:\n  kind: Secret\n  data:\n    a: x\n", "data:\n  kind: Secret\n  data:\n    a: MASK\n"),
        (
            "kind: Secret\ndata:\n  a:\n    x\n  b:\n  c: null\n",
            "kind: Secret\ndata:\n  a:\n    MASK\n  b:\n  c: null\n",
        ),
    ]);
}

#[test]
fn the_lines_of_a_value_belong_to_it_and_no_others() {
    check(&[
        (
            "kind: Secret\nstringData:\n  a: 'it''s'\n  b: \"say \\\"x\\\" y\"\n  c: 'a\\'\n",
            "kind: Secret\nstringData:\n  a: 'MASK'\n  b: \"MASK\"\n  c: 'MASK'\n",
        ),
        (
            "kind: Secret\nstringData:\n  a: |\n    one\n    ---\n  b: y\n",
            "kind: Secret\nstringData:\n  a: MASK\n  b: MASK\n",
        ),
        (
            "kind: Secret\ndata:\n  a: |\n    x\n  # why\n  b: y\n",
            "kind: Secret\ndata:\n  a: MASK\n  # why\n  b: MASK\n",
        ),
        ("kind: Secret\ndata:\n  a: |\n    x\n# why\n    y\n  b: z\n", "kind: Secret\ndata:\n  a: MASK\n  b: MASK\n"),
        ("kind: Secret\ndata: &d\n  a: x\n", "kind: Secret\ndata: &d\n  a: MASK\n"),
        ("kind: Secret\ndata: {a: x:y}\n", "kind: Secret\ndata: {a: \"MASK\"}\n"),
        ("kind: Secret\ndata: abc\n", "kind: Secret\ndata: MASK\n"),
    ]);
}

#[test]
fn a_manifest_ends_where_the_next_one_begins() {
    check(&[
        ("kind: Secret\ndata:\n  a: x\n...\ndata:\n  a: y\n", "kind: Secret\ndata:\n  a: MASK\n...\ndata:\n  a: y\n"),
        ("kind: Secret\ndata:\n  a: x\n---\ndata:\n  a: y\n", "kind: Secret\ndata:\n  a: MASK\n---\ndata:\n  a: y\n"),
        (
            "apiVersion: v1\nkind: Secret\ndata:\n  a: x\napiVersion: v1\ndata:\n  b: y\nkind: ConfigMap\n",
            "apiVersion: v1\nkind: Secret\ndata:\n  a: MASK\napiVersion: v1\ndata:\n  b: y\nkind: ConfigMap\n",
        ),
        ("kind: Secret\nsome prose\ndata:\n  a: x\n", "kind: Secret\nsome prose\ndata:\n  a: MASK\n"),
        ("kind:\ndata:\n  a: x\nkind: Secret\n", "kind:\ndata:\n  a: MASK\nkind: Secret\n"),
        ("items:\n- data:\n    a: x\nkind: SecretList\n", "items:\n- data:\n    a: MASK\nkind: SecretList\n"),
        ("-  kind: Secret\n   data:\n     a: x\n", "-  kind: Secret\n   data:\n     a: MASK\n"),
    ]);
}

#[test]
fn a_secret_that_breaks_off_is_found() {
    check(&[
        (
            "data:\n  a: x\nkind: Sec  # with a comment that has more letters than a name and its quotes could ever have",
            "data:\n  a: MASK\nkind: Sec  # with a comment that has more letters than a name and its quotes could ever have",
        ),
        (r#"{"kind":"Secret","data":{"a":"eA=="#, r#"{"kind":"Secret","data":{"a":"MASK"#),
        (r#"{"apiVersion":"v1","data":{"a":"x","b":"y"#, r#"{"apiVersion":"v1","data":{"a":"MASK","b":"MASK"#),
        (
            r#"{"apiVersion":"v1","items":[{"apiVersion":"v1","data":{"a":"x"},"ki"#,
            r#"{"apiVersion":"v1","items":[{"apiVersion":"v1","data":{"a":"MASK"},"ki"#,
        ),
        (r#"{"data":{"a":"x"},"kind":"Sec"#, r#"{"data":{"a":"MASK"},"kind":"Sec"#),
        (r#"{"kind":"SecretList","items":[{"data":{"a":"x"#, r#"{"kind":"SecretList","items":[{"data":{"a":"MASK"#),
        ("apiVersion: v1\ndata:\n  a: x\n  b: eA", "apiVersion: v1\ndata:\n  a: MASK\n  b: MASK"),
        ("apiVersion: v1\ndata:\n  a: x\n  b: \"eA", "apiVersion: v1\ndata:\n  a: MASK\n  b: \"MASK"),
        ("data:\n  a: x\nkind: Secr", "data:\n  a: MASK\nkind: Secr"),
        (
            "items:\n- apiVersion: v1\n  data:\n    a: x\n\n[TRUNCATED: too long]",
            "items:\n- apiVersion: v1\n  data:\n    a: MASK\n\n[TRUNCATED: too long]",
        ),
        ("kind: Secret\ndata: {a: eA", "kind: Secret\ndata: {a: \"MASK\""),
    ]);
}

#[test]
fn everything_else_is_left_alone() {
    let alone = [
        "",
        "This is a Secret message about data and its kind: something",
        "apiVersion: v1\nkind: ConfigMap\ndata:\n  a: x\n",
        "apiVersion: external-secrets.io/v1\nkind: SecretStore\nspec: {}\ndata:\n  a: x\n",
        r#"{"kind":"Pod","data":{"a":"x"}}"#,
        r#"{"data":{"a":"x"}}"#,
        "kind: Sec\ndata:\n  a: x\n",
        r#"{"kind":"Sec","data":{"a":"x"}}"#,
        r#"{"kind":"SecretList","items":[{"kind":"ConfigMap","data":{"a":"x"}}]}"#,
        r#"{"data":{"users":[{"kind":"admin","name":"x"}]}}"#,
        r#"{"involvedObject":{"kind":"Secret","name":"x"},"message":"data"}"#,
        r#"{"apiVersion":"v1","data":{"a":"x"}}"#,
        "{\n  \"apiVersion\": \"v1\",\n  \"data\": {\n    \"a\": \"x\"\n  }\n}",
    ];
    check(&alone.map(|text| (text, text)));
}

#[test]
fn values_in_braces_within_lines_of_yaml_are_found_once_and_to_their_end() {
    check(&[
        ("kind: Secret\ndata: [a, b]\n", "kind: Secret\ndata: \"MASK\"\n"),
        ("kind: Secret\ndata: {a: x},\n", "kind: Secret\ndata: {a: \"MASK\"},\n"),
        ("kind: Secret\ndata: {a: x} # {b: y}\n", "kind: Secret\ndata: {a: \"MASK\"} # {b: y}\n"),
        ("kind: Secret\ndata:\n  a: [x, y]\n  b: {c: z}\n", "kind: Secret\ndata:\n  a: MASK\n  b: MASK\n"),
        (
            "kind: Secret\nmetadata: {name: x}\ndata: {a: y}\n",
            "kind: Secret\nmetadata: {name: x}\ndata: {a: \"MASK\"}\n",
        ),
        ("kind: Secret\nspec: {data: {a: x}}\n", "kind: Secret\nspec: {data: {a: x}}\n"),
        ("kind: Secret\ndata: x\n", "kind: Secret\ndata: MASK\n"),
        ("kind: Secret\ndata: &a\n  b: x\n", "kind: Secret\ndata: &a\n  b: MASK\n"),
        ("kind: Secret\ndata: !!map\n  b: x\n", "kind: Secret\ndata: !!map\n  b: MASK\n"),
        ("kind: Secret\nspec: x\n", "kind: Secret\nspec: x\n"),
        ("kind: Secret\n\"data\":\n  \"a\": 12\n  b: 12\n", "kind: Secret\n\"data\":\n  \"a\": \"MASK\"\n  b: MASK\n"),
        ("kind: Secret\n\"data\":\n  \"a\":\n    x\n", "kind: Secret\n\"data\":\n  \"a\":\n    MASK\n"),
        ("kind: Secret\ndata:\n  a: ~\n  b: null\n  c: x\n", "kind: Secret\ndata:\n  a: ~\n  b: null\n  c: MASK\n"),
        (r#"{5" x "kind":"Secret","data":{"b":"y"}}"#, r#"{5" x "kind":"Secret","data":{"b":"MASK"}}"#),
        (r#"{"kind":"Secret","data":{"b":["x:y"]}}"#, r#"{"kind":"Secret","data":{"b":"MASK"}}"#),
        (r#"{"kind":"Secret","data":["b" : "y"]}"#, r#"{"kind":"Secret","data":"MASK"}"#),
    ]);
}
