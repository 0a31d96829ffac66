//! Texts that are too long: when the host is asked to keep or summarize them, and what the result says then.

use super::*;
use crate::json::Value;
use proptest::prelude::*;

/// An answer of one text block.
fn answer(text: &str) -> Event {
    Event::Answered(format!(r#"{{"content":[{{"type":"text","text":{}}}]}}"#, Value::string(text).to_json()))
}

fn condensed(kept: Option<&str>, summary: Option<&str>) -> Event {
    Event::Condensed(Condensed { kept: kept.map(str::to_owned), summary: summary.map(str::to_owned) })
}

fn limits(max_result_bytes: u64, spill: bool, summarize_above_tokens: Option<u64>) -> Settings {
    Settings { max_result_bytes, spill, summarize_above_tokens, ..settings() }
}

fn masking(settings: Settings) -> Settings {
    Settings { masks: Masks { groups: vec!["basic".into()], ..Masks::default() }, ..settings }
}

fn ended(settings: Settings, events: Vec<Event>) -> ToolResult {
    result(play(&gate(settings), call("k8s.get", ""), events).1)
}

#[test]
fn the_host_is_asked_for_what_the_settings_say_and_for_nothing_else() {
    use ResultForm::{PassThrough, Text};
    for (form, max, spill, above, bytes, story) in [
        (Text, 20, false, None, 21, "request Ok"),
        (Text, 20, true, None, 20, "request Ok"),
        (Text, 20, true, None, 21, "request condense:spill"),
        (Text, 0, true, None, 9000, "request Ok"),
        (Text, 0, false, Some(5), 20, "request Ok"),
        (Text, 0, false, Some(5), 21, "request condense:summarize"),
        (Text, 0, false, Some(0), 0, "request Ok"),
        (Text, 0, false, Some(0), 1, "request condense:summarize"),
        (Text, 0, false, Some(u64::MAX), 9000, "request Ok"),
        (Text, 30, true, Some(5), 21, "request condense:spill+summarize"),
        (Text, 30, false, Some(5), 21, "request condense:summarize"),
        (Text, 30, true, Some(5), 31, "request condense:spill+summarize"),
        (Text, 30, true, Some(50), 31, "request condense:spill"),
        (PassThrough, 20, true, None, 21, "request condense:spill"),
        (PassThrough, 20, true, Some(1), 21, "request condense:spill+summarize"),
        (PassThrough, 20, true, Some(5), 20, "request Ok"),
        (PassThrough, 0, true, Some(1), 9000, "request condense:spill+summarize"),
    ] {
        let settings = Settings { form, ..limits(max, spill, above) };
        let (said, last) = play(&gate(settings), call("k8s.get", ""), vec![answer(&"x".repeat(bytes))]);
        assert_eq!(said, story, "{form:?}, at most {max} bytes, above {above:?} tokens, of {bytes} bytes");
        if let Directive::Condense(oversize) = last {
            assert_eq!((oversize.tool, oversize.text), (ToolRef::new("k8s", "get"), "x".repeat(bytes)));
        }
    }
}

#[test]
fn the_result_says_what_became_of_its_text() {
    const CUT: &str = "line 1\n\n[TRUNCATED: result exceeded the size limit — Original size: 20B, limit: 10B]";
    let text = "line 1\nline 2\nline 3";
    let both = limits(10, true, Some(2));
    let (spill, summarize) = (limits(10, true, None), limits(0, false, Some(2)));
    for (settings, event, expected) in [
        (&spill, condensed(Some("/tmp/a b"), None), format!("{CUT}\n[FULL TEXT: /tmp/a b]")),
        (&spill, condensed(None, None), CUT.to_owned()),
        (&spill, condensed(None, Some("unasked")), CUT.to_owned()),
        (&spill, failed(Failure::Timeout, Phase::NotSent), CUT.to_owned()),
        (&summarize, condensed(None, Some("3 lines")), "3 lines\n\n[SUMMARIZED — Original size: 20B]".to_owned()),
        (&summarize, condensed(Some("/unasked"), Some("3")), "3\n\n[SUMMARIZED — Original size: 20B]".to_owned()),
        (&summarize, condensed(None, Some("\n 3 \n")), "3\n\n[SUMMARIZED — Original size: 20B]".to_owned()),
        (&summarize, condensed(None, Some(" \n")), text.to_owned()),
        (&summarize, condensed(None, None), text.to_owned()),
        (&summarize, failed(Failure::Closed, Phase::Sent), text.to_owned()),
        (
            &both,
            condensed(Some("/k"), Some("3 lines")),
            "3 lines\n\n[SUMMARIZED — Original size: 20B]\n[FULL TEXT: /k]".to_owned(),
        ),
        (
            &both,
            condensed(Some("/k"), Some("there are 3 lines")),
            "there are \n\n[TRUNCATED: result exceeded the size limit — Original size: 17B, limit: 10B]\n\n\
             [SUMMARIZED — Original size: 20B]\n[FULL TEXT: /k]"
                .to_owned(),
        ),
        (&both, condensed(Some("/k"), Some("")), format!("{CUT}\n[FULL TEXT: /k]")),
        (&both, failed(Failure::Timeout, Phase::Sent), CUT.to_owned()),
    ] {
        let result = ended(settings.clone(), vec![answer(text), event.clone()]);
        assert_eq!((result.code, result.text.as_str()), (Code::Ok, expected.as_str()), "{event:?}");
        assert_eq!(result.truncated, expected != text, "{event:?}");
        let block = format!(r#"{{"type":"text","text":{}}}"#, Value::string(expected).to_json());
        assert_eq!(result.content, [block], "{event:?}");
    }
}

#[test]
fn an_error_of_the_tool_is_condensed_and_stays_one() {
    let answer = Event::Answered(r#"{"isError":true,"content":[{"type":"text","text":"no such pod"}]}"#.into());
    let result = ended(limits(5, true, None), vec![answer, condensed(Some("/k"), None)]);
    assert_eq!((result.code, result.is_error), (Code::ToolError, true));
    assert!(result.text.ends_with("\n[FULL TEXT: /k]"), "{}", result.text);
}

#[test]
fn what_is_no_answer_of_a_tool_is_not_condensed() {
    let everything = limits(20, true, Some(0));
    let long = Failure::Rpc(RpcFailure { code: 1, message: "x".repeat(100) });
    for (events, story) in [
        (vec![failed(long, Phase::Sent)], "request RpcError"),
        (vec![Event::Answered("no json".into())], "request RpcError"),
        (vec![Event::Answered("[".repeat(300))], "request ResultTooLarge"),
        (vec![Event::Forwarded(Summary { is_error: false })], "request Ok"),
    ] {
        assert_eq!(play(&gate(everything.clone()), call("k8s.get", ""), events).0, story);
    }
    let mut spoilt = everything;
    spoilt.masks.custom = vec![crate::masking::CustomMask { pattern: "[{}\"]+".into(), replacement: "\"".into() }];
    assert_eq!(play(&gate(spoilt), call("k8s.get", ""), vec![answer("text")]).0, "request MaskingFailed");
}

#[test]
fn a_call_that_is_being_condensed_can_be_cancelled_and_hears_nothing_else() {
    for (name, event, story) in [
        ("k8s.get", Event::Cancelled, "Cancelled"),
        ("k8s.set", Event::Cancelled, "Cancelled"),
        ("k8s.get", failed(Failure::Cancelled, Phase::Sent), "Cancelled"),
        ("k8s.get", Event::Waited, "Internal"),
        ("k8s.get", answer("again"), "Internal"),
        ("k8s.set", Event::Connected, "OutcomeUnknown"),
    ] {
        let (said, _) = play(&gate(limits(3, true, None)), call(name, ""), vec![answer("text"), event]);
        assert_eq!(said, format!("request condense:spill {story}"));
    }
    let (said, _) = play(&gate(limits(3, true, None)), call("k8s.get", ""), vec![condensed(None, None)]);
    assert_eq!(said, "request Internal", "before there is an answer");
}

#[test]
fn an_answer_that_is_passed_through_names_the_place_in_its_one_text_block() {
    let answer = r#"{"content":[{"type":"text","text":"line 1"},{"type":"image","data":"AAAA","mimeType":"a/b"},{"type":"text","text":"password: hunter2hunter2"}],"_meta":{"n":1.10}}"#;
    let settings = Settings { form: ResultForm::PassThrough, ..masking(limits(10, true, None)) };
    let (mut execution, _) = gate(settings).begin(call("k8s.get", ""));
    let Directive::Condense(oversize) = execution.next(Event::Answered(answer.into())) else { panic!() };
    assert_eq!(oversize.text, "line 1\n[image a/b, 3 B]\npassword: [MASKED_PASSWORD]");
    let result = result(execution.next(condensed(Some("/k"), Some("unasked"))));
    let text =
        r"line 1\n\n[TRUNCATED: result exceeded the size limit — Original size: 51B, limit: 10B]\n[FULL TEXT: /k]";
    let expected = format!(
        r#"{{"content":[{{"type":"text","text":"{text}"}},{{"type":"image","data":"AAAA","mimeType":"a/b"}}],"_meta":{{"n":1.10}}}}"#
    );
    assert_eq!((result.answer.as_deref(), result.text.as_str()), (Some(expected.as_str()), ""));
    assert!(result.truncated);
}

#[test]
fn an_answer_that_is_passed_through_has_its_summary_in_its_one_text_block() {
    let answer = r#"{"content":[{"type":"text","text":"line 1"},{"type":"image","data":"AAAA","mimeType":"a/b"},{"type":"text","text":"line 2"}],"structuredContent":{"n":1.10},"_meta":{"n":1.10}}"#;
    let settings = Settings { form: ResultForm::PassThrough, ..masking(limits(0, true, Some(1))) };
    let (mut execution, _) = gate(settings).begin(call("k8s.get", ""));
    let Directive::Condense(oversize) = execution.next(Event::Answered(answer.into())) else { panic!() };
    assert_eq!((oversize.spill, oversize.summarize), (true, true));
    let result = result(execution.next(condensed(None, Some("password: hunter2hunter2"))));
    let text = r"password: [MASKED_PASSWORD]\n\n[SUMMARIZED — Original size: 30B]";
    let expected = format!(
        r#"{{"content":[{{"type":"text","text":"{text}"}},{{"type":"image","data":"AAAA","mimeType":"a/b"}}],"structuredContent":{{"n":1.10}},"_meta":{{"n":1.10}}}}"#
    );
    assert_eq!((result.answer.as_deref(), result.text.as_str()), (Some(expected.as_str()), ""));
    assert!(result.truncated);
}

#[test]
fn structured_content_is_dropped_by_its_own_size_and_said_to_be() {
    let answer = |text| Event::Answered(format!(r#"{{"content":{text},"structuredContent":{{"n":123456789}}}}"#));
    let silent = ended(limits(0, false, Some(1)), vec![answer("[]"), condensed(None, Some("a number"))]);
    assert_eq!(silent.text, "a number\n\n[SUMMARIZED — Original size: 15B]");
    assert_eq!(silent.structured.as_deref(), Some(r#"{"n":123456789}"#));
    let spoken = answer(r#"[{"type":"text","text":"the text"}]"#);
    let dropped = ended(limits(10, false, Some(1)), vec![spoken, condensed(Some("/unasked"), Some("short"))]);
    assert_eq!(
        dropped.text,
        "short\n\n[TRUNCATED: structured content exceeded the size limit]\n\n[SUMMARIZED — Original size: 8B]"
    );
    assert_eq!(dropped.structured, None);
}

#[test]
fn only_an_answer_to_which_nothing_happens_is_forwarded_unread() {
    use ResultForm::{PassThrough, Text};
    for (form, max, spill, above, expected) in [
        (Text, 0, false, None, u64::MAX),
        (Text, 0, true, None, u64::MAX),
        (Text, 100, true, None, 100),
        (Text, 100, false, Some(20), 80),
        (Text, 100, false, Some(30), 100),
        (Text, 0, false, Some(20), 80),
        (Text, 0, false, Some(0), 0),
        (Text, 0, false, Some(u64::MAX), u64::MAX),
        (PassThrough, 100, true, Some(20), 80),
        (PassThrough, 0, true, Some(20), 80),
    ] {
        let settings = Settings { form, ..limits(max, spill, above) };
        let Directive::Request(request) = gate(settings.clone()).begin(call("k8s.get", "")).1 else { panic!() };
        assert_eq!(request.forward.unwrap().up_to, expected, "{form:?}, at most {max} bytes, above {above:?} tokens");
        let Directive::Request(request) = gate(masking(settings)).begin(call("k8s.get", "")).1 else { panic!() };
        assert_eq!(request.forward, None, "with masks");
    }
}

#[test]
fn each_step_leaves_a_note() {
    let notes = |event: Event| {
        let result = ended(limits(10, true, Some(2)), vec![answer("line 1\nline 2"), event]);
        let at = result.trace.iter().position(|note| note == "result: 13 bytes of text").unwrap();
        result.trace[at + 1..].join("; ")
    };
    let asked = "saving the full text; summarizing the text";
    for (event, expected) in [
        (condensed(Some("/k"), Some("two")), "full text saved; summarized to 3 bytes"),
        (condensed(Some("/k"), Some("two lines, in all")), "full text saved; summarized to 17 bytes; cut to 10 bytes"),
        (condensed(None, None), "full text not saved; not summarized; cut to 10 bytes"),
        (
            failed(Failure::Timeout, Phase::Sent),
            "condensing failed; full text not saved; not summarized; cut to 10 bytes",
        ),
    ] {
        assert_eq!(notes(event), format!("{asked}; {expected}"));
    }
    let (mut execution, _) = gate(limits(10, true, None)).begin(call("k8s.get", ""));
    execution.next(answer("line 1\nline 2"));
    assert_eq!(execution.trace().last().unwrap(), "saving the full text", "while it is being kept");
}

#[test]
fn a_condensed_result_is_said_again_after_done() {
    for form in [ResultForm::Text, ResultForm::PassThrough] {
        let settings = Settings { form, ..masking(limits(10, true, Some(1))) };
        let (mut execution, _) = gate(settings).begin(call("k8s.get", ""));
        execution.next(answer("password: hunter2hunter2"));
        let first = execution.next(condensed(Some("/k"), Some("password: hunter2hunter2")));
        assert!(matches!(first, Directive::Done(_)), "{first:?}");
        assert_eq!(execution.next(Event::Waited), first);
        assert_eq!(execution.next(condensed(None, None)), first);
    }
}

#[test]
fn a_gate_masks_any_json_of_a_server_with_the_masks_of_that_server() {
    let masks = |group: &str| Masks { groups: vec![group.into()], ..Masks::default() };
    let server_settings =
        vec![ServerSettings { server: "k8s".into(), masks: masks("security"), ..ServerSettings::default() }];
    let gate = gate(Settings { masks: masks("basic"), server_settings, ..settings() });
    let both = r#"{"password":"hunter2hunter2","from":"a@example.com"}"#;
    for (server, json, expected) in [
        ("k8s", both, r#"{"password":"[MASKED_PASSWORD]","from":"[MASKED_EMAIL]"}"#),
        ("lazy", both, r#"{"password":"[MASKED_PASSWORD]","from":"a@example.com"}"#),
        ("unknown", both, r#"{"password":"[MASKED_PASSWORD]","from":"a@example.com"}"#),
        ("k8s", "{\"n\": 1.10}", "{\"n\": 1.10}"),
        ("k8s", "no JSON", "\"[REDACTED: data masking failure — tool result could not be safely processed]\""),
    ] {
        assert_eq!(gate.mask_json(server, json), expected, "{server}: {json}");
    }
    assert_eq!(self::gate(settings()).mask_json("k8s", both), both, "without masks");
}

const SECRET: &str = "hunter2hunter2";

/// Text with a secret somewhere in it.
fn leaky() -> impl Strategy<Value = String> {
    let secret = prop::sample::select(vec![
        format!("password: {SECRET}"),
        format!("{{\"password\": \"{SECRET}\"}}"),
        format!("see postgres://user:{SECRET}@db/x"),
        format!("--password={SECRET}"),
    ]);
    ("[ -~é\n]{0,40}", secret, "[ -~é\n]{0,40}")
        .prop_map(|(before, secret, after)| format!("{before}\n{secret}\n{after}"))
}

fn leaky_answer() -> impl Strategy<Value = Event> {
    (prop::collection::vec(leaky(), 0..4), any::<bool>(), any::<bool>()).prop_map(|(texts, structured, is_error)| {
        let block = |text: &String| format!(r#"{{"type":"text","text":{}}}"#, Value::string(&**text).to_json());
        let blocks: Vec<String> = texts.iter().map(block).collect();
        let structured = match structured {
            true => format!(r#","structuredContent":{{"password":"{SECRET}"}}"#),
            false => String::new(),
        };
        Event::Answered(format!(r#"{{"content":[{}],"isError":{is_error}{structured}}}"#, blocks.join(",")))
    })
}

fn leaky_event() -> impl Strategy<Value = Event> {
    let summary = (any::<bool>(), prop::option::of(leaky()))
        .prop_map(|(kept, summary)| Event::Condensed(Condensed { kept: kept.then(|| "/k".into()), summary }));
    let failure = leaky().prop_map(|message| failed(Failure::Rpc(RpcFailure { code: 1, message }), Phase::Sent));
    prop_oneof![4 => summary, 2 => failure, 1 => leaky_answer(), 1 => Just(Event::Cancelled), 1 => Just(Event::Waited)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn with_masks_no_directive_carries_a_secret_and_the_same_events_say_the_same(
        through in any::<bool>(),
        max in 0_u64..80,
        spill in any::<bool>(),
        above in prop::option::of(0_u64..30),
        first in leaky_answer(),
        events in prop::collection::vec(leaky_event(), 1..4),
    ) {
        let form = if through { ResultForm::PassThrough } else { ResultForm::Text };
        let gate = gate(Settings { form, ..masking(limits(max, spill, above)) });
        let play = || {
            let (mut execution, directive) = gate.begin(call("k8s.get", ""));
            let events = std::iter::once(first.clone()).chain(events.clone());
            let directives: Vec<Directive> =
                std::iter::once(directive).chain(events.map(|event| execution.next(event))).collect();
            (directives, execution.trace())
        };
        let said = play();
        prop_assert!(!format!("{said:?}").contains(SECRET), "{said:#?}");
        prop_assert_eq!(said, play());
    }
}

/// An answer of a text block and an embedded resource.
fn with_resource(text: &str, resource: &str) -> Event {
    let [text, resource] = [text, resource].map(|text| Value::string(text.to_owned()).to_json());
    Event::Answered(format!(
        r#"{{"content":[{{"type":"text","text":{text}}},{{"type":"resource","resource":{{"uri":"a:b","text":{resource}}}}}]}}"#
    ))
}

#[test]
fn embedded_resources_count_against_the_size_limit() {
    // The text is "1234567890\n[resource a:b]", which has 25 bytes.
    let text = "1234567890";
    let fits = ended(limits(30, false, None), vec![with_resource(text, "12345")]);
    assert!(!fits.truncated && fits.content[1].contains(r#""text":"12345""#), "{fits:?}");

    let cut = ended(limits(30, false, None), vec![with_resource(text, "123456")]);
    assert!(cut.truncated);
    assert_eq!(cut.text, "1234567890\n[resource a:b]\n\n[TRUNCATED: embedded resources exceeded the size limit]");
    assert!(
        cut.content[1].contains("12345\\n\\n[TRUNCATED: result exceeded the size limit — Original size: 6B"),
        "{cut:?}"
    );

    let through = Settings { form: ResultForm::PassThrough, ..limits(20, false, None) };
    let cut = ended(through, vec![with_resource(&"x".repeat(40), "secret rest")]);
    let answer = cut.answer.unwrap();
    assert!(cut.truncated && !answer.contains("secret rest") && answer.contains(r#""uri":"a:b""#), "{answer}");
}

#[test]
fn embedded_resources_are_kept_and_summarized_with_the_text_and_masked() {
    let settings = masking(limits(30, true, Some(2)));
    let answer = with_resource("some text", "password: hunter2hunter2");
    let (story, directive) = play(&gate(settings.clone()), call("k8s.get", ""), vec![answer.clone()]);
    assert_eq!(story, "request condense:spill+summarize");
    let Directive::Condense(oversize) = directive else { panic!("{directive:?}") };
    assert_eq!(oversize.text, "some text\n[resource a:b]\n\npassword: [MASKED_PASSWORD]");
    let ended = ended(settings, vec![answer, condensed(Some("/k"), Some("short"))]);
    assert_eq!(ended.text, "short\n\n[SUMMARIZED — Original size: 51B]\n[FULL TEXT: /k]");
    assert!(ended.content[1].contains(r#""text":"[SUMMARIZED]""#), "a summary stands for the resource: {ended:?}");
}

#[test]
fn a_server_can_have_its_own_limit_for_summaries() {
    for (gates, servers, story) in [
        (Some(5), None, "request condense:summarize"),
        (Some(5), Some(6), "request Ok"),
        (Some(5), Some(u64::MAX), "request Ok"),
        (None, Some(5), "request condense:summarize"),
        (Some(50), Some(5), "request condense:summarize"),
    ] {
        let own = ServerSettings { server: "k8s".into(), summarize_above_tokens: servers, ..ServerSettings::default() };
        let settings = Settings { server_settings: vec![own], ..limits(0, false, gates) };
        let (said, _) = play(&gate(settings), call("k8s.get", ""), vec![answer(&"x".repeat(21))]);
        assert_eq!(said, story, "{gates:?} for all servers, {servers:?} for this one");
    }
}

#[test]
fn a_full_text_is_named_only_in_a_result_that_has_less() {
    let ended = ended(limits(100, true, Some(2)), vec![answer("line 1\nline 2"), condensed(Some("/k"), None)]);
    assert_eq!((ended.text.as_str(), ended.truncated), ("line 1\nline 2", false));
}

#[test]
fn json_text_becomes_structured_content_where_the_settings_ask_for_it() {
    use ResultForm::{PassThrough, Text};
    let own = ServerSettings { server: "k8s".into(), structured_text: true, ..ServerSettings::default() };
    let asked = Settings { server_settings: vec![own], ..settings() };
    for (form, text, expected) in [
        (Text, " {\"n\": 1.10,\n \"big\": 12345678901234567890}\n", Some(r#"{"n":1.10,"big":12345678901234567890}"#)),
        (Text, "[1, 2]", Some("[1,2]")),
        (Text, "7", None),
        (Text, "\"word\"", None),
        (Text, "{not json", None),
        (PassThrough, "{\"n\":1}", Some(r#"{"n":1}"#)),
        (PassThrough, "[1, 2]", None),
    ] {
        let ended = ended(Settings { form, ..asked.clone() }, vec![answer(text)]);
        match form {
            Text => assert_eq!((ended.structured.as_deref(), ended.text.as_str()), (expected, text), "{text}"),
            PassThrough => {
                let answer = ended.answer.unwrap();
                let member = expected.map(|json| format!(r#""structuredContent":{json}"#));
                let found = answer.contains("structuredContent");
                assert!(member.as_ref().is_some_and(|member| answer.contains(member)) || !found, "{answer}");
                assert_eq!(found, member.is_some(), "{answer}");
            }
        }
        assert!(!ended.truncated);
    }
    let plain = ended(settings(), vec![answer("{}")]);
    assert_eq!(plain.structured, None);
    let theirs =
        Event::Answered(r#"{"content":[{"type":"text","text":"{\"n\":1}"}],"structuredContent":{"m":2}}"#.into());
    assert_eq!(ended(asked.clone(), vec![theirs]).structured.as_deref(), Some(r#"{"m":2}"#));
    let several = r#"{"content":[{"type":"text","text":"{}"},{"type":"text","text":"{}"}]}"#;
    assert_eq!(ended(asked, vec![Event::Answered(several.into())]).structured, None);
}
