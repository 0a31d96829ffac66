//! Tests that a person sees and approves the `_meta` of a call too, and that an answer is an object.

use super::*;

/// A gateway in front of a server that notes its calls, and the file with the notes.
fn noting_gateway(place: &Place) -> (Serving, PathBuf) {
    let (server, file) = noting(place);
    place.file(FILE, json!({"servers": {"x": server}}).to_string());
    (Serving::start(place, &["--config", &place.path(FILE).display().to_string()]), file)
}

fn with_meta(mut call: Value, name: &str, value: &str) -> Value {
    call["_meta"][name] = value.into();
    call
}

#[test]
fn a_yes_holds_for_the_meta_that_the_person_saw() {
    let place = Place::new();
    let (mut serving, file) = noting_gateway(&place);
    let plain = modern_call("x__do", &json!({"n": 1}));
    let call = with_meta(plain.clone(), "tenant", "A");
    let traced = |call: &Value, id: &str| with_meta(call.clone(), "traceparent", id);
    let asked = serving.ask("tools/call", traced(&call, "00-1"))["result"].clone();
    let question = message(&asked);
    assert!(question.ends_with("With this _meta:\n```\n{\"tenant\":\"A\"}\n```"), "{question}");
    for other in [plain.clone(), with_meta(plain.clone(), "tenant", "B"), with_meta(call.clone(), "more", "x")] {
        let again = serving.ask("tools/call", answered(&other, &asked, &yes()));
        assert_eq!(again["result"]["resultType"], "input_required", "{again}");
    }
    assert!(calls(&file).is_empty());
    let made = serving.ask("tools/call", traced(&answered(&call, &asked, &yes()), "00-2"));
    assert_eq!(made["result"]["content"][0]["text"], "done", "{made}");
    assert_eq!(calls(&file).len(), 1);

    // What only links a call to a trace is not shown, unless it is more than a text.
    let asked = serving.ask("tools/call", traced(&plain, "00-3"))["result"].clone();
    assert!(!message(&asked).contains("_meta"), "{asked}");
    let mut odd = plain.clone();
    odd["_meta"]["baggage"] = json!({"tenant": "A"});
    let asked = serving.ask("tools/call", odd)["result"].clone();
    assert!(message(&asked).contains("tenant"), "{asked}");
}

#[test]
fn a_person_at_a_client_with_a_session_sees_the_meta() {
    let place = Place::new();
    let (server, _) = noting(&place);
    place.file(FILE, json!({"servers": {"x": server}}).to_string());
    let mut serving = greeted(&place, &["--config", &place.path(FILE).display().to_string()]);
    let call =
        json!({"name": "x__do", "arguments": {}, "_meta": {"b": "\u{202e}2", "a": {"tenant": 1}, "progressToken": 7}});
    serving.begin("tools/call", call);
    let question = serving.told("elicitation/create")["params"]["message"].as_str().unwrap().to_owned();
    let shown = r#"With this _meta:
```
{"a":{"tenant":1},"b":"\u{202e}2"}
```"#;
    assert!(question.ends_with(shown), "{question}");
}

#[test]
fn a_meta_that_is_too_long_to_be_shown_ends_the_call() {
    let place = Place::new();
    let (mut serving, file) = noting_gateway(&place);
    let call = with_meta(modern_call("x__do", &json!({})), "tenant", &"x".repeat(64 * 1024));
    let refused = serving.ask("tools/call", call);
    assert_eq!(refused["result"]["isError"], true, "{refused}");
    assert!(refused["result"]["content"][0]["text"].as_str().unwrap().contains("ask_max_bytes: 65536"), "{refused}");
    assert!(calls(&file).is_empty());
}

#[test]
fn a_list_is_no_yes() {
    let place = Place::new();
    let (mut serving, file) = noting_gateway(&place);
    let call = modern_call("x__do", &json!({}));
    for answer in
        [json!(["accept"]), json!(["accept", {"approve": true}]), json!({"action": "accept", "content": [true]})]
    {
        let asked = serving.ask("tools/call", call.clone())["result"].clone();
        let declined = serving.ask("tools/call", answered(&call, &asked, &answer));
        assert_eq!(declined["result"]["isError"], true, "{answer}: {declined}");
    }
    assert!(calls(&file).is_empty());
}
