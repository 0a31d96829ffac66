//! What an answer comes to: which of it is kept, byte by byte, and up to which size.

use super::*;
use crate::content::MAX_RESULT;

fn ended(settings: Settings, answer: &str) -> ToolResult {
    result(play(&gate(settings), call("k8s.get", ""), vec![Event::Answered(answer.to_owned())]).1)
}

fn through(settings: Settings) -> Settings {
    Settings { form: ResultForm::PassThrough, ..settings }
}

fn masking(settings: Settings) -> Settings {
    Settings { masks: Masks { groups: vec!["basic".into()], ..Masks::default() }, ..settings }
}

#[test]
fn an_answer_to_which_nothing_happens_is_passed_through_byte_by_byte() {
    let answer = "{ \"content\" : [ {\"text\":\"caf\\u00e9\", \"type\":\"text\"} ],\n \"n\":1.10 }";
    let passed = ended(through(settings()), answer);
    assert_eq!((passed.answer.as_deref(), passed.text.as_str()), (Some(answer), ""));
    let plain = "{ \"content\" : [ {\"text\":\"coffee\", \"type\":\"text\"} ],\n \"n\":1.10 }";
    assert_eq!(ended(through(masking(settings())), plain).answer.as_deref(), Some(plain), "masks find nothing in it");
}

#[test]
fn what_has_as_many_bytes_as_the_limit_says_is_kept() {
    let answer = r#"{"content":[{"type":"text","text":"ten bytes!"}],"structuredContent":{"n":1234},"_meta":[1]}"#;
    for (limit, structured, more) in [
        (10, Some(r#"{"n":1234}"#), None),
        (9, None, None),
        (13, Some(r#"{"n":1234}"#), Some(r#"{"_meta":[1]}"#)),
        (12, Some(r#"{"n":1234}"#), None),
    ] {
        let kept = ended(Settings { max_result_bytes: limit, ..settings() }, answer);
        assert_eq!((kept.structured.as_deref(), kept.more.as_deref()), (structured, more), "at most {limit} bytes");
        assert_eq!(kept.truncated, structured.is_none() || more.is_none(), "at most {limit} bytes");
    }
}

#[test]
fn a_question_without_a_state_passes_through_masked_and_leaves_a_note() {
    let question = r#"{"resultType":"input_required","message":"password: hunter2hunter2"}"#;
    let masked = r#"{"resultType":"input_required","message":"password: [MASKED_PASSWORD]"}"#;
    for (settings, expected) in [(settings(), question), (masking(settings()), masked)] {
        let asked = ended(through(settings), question);
        assert_eq!((asked.code, asked.answer.as_deref()), (Code::Ok, Some(expected)));
        assert_eq!(asked.trace.last().unwrap(), "result: the server asks for input");
    }
}

#[test]
fn a_question_may_be_as_large_as_any_answer_and_no_larger() {
    let unlimited = || through(Settings { max_result_bytes: 0, ..settings() });
    let question = |bytes: usize| {
        let (start, end) = (r#"{"resultType":"input_required","requestState":""#, r#""}"#);
        [start, &"x".repeat(bytes - start.len() - end.len()), end].concat()
    };
    let largest = ended(unlimited(), &question(MAX_RESULT));
    assert_eq!((largest.code, largest.answer.map(|answer| answer.len())), (Code::Ok, Some(MAX_RESULT)));
    let larger = ended(unlimited(), &question(MAX_RESULT + 1));
    assert_eq!((larger.code, larger.answer), (Code::ResultTooLarge, None));
}

#[test]
fn an_answer_is_clean_if_masks_looked_at_all_of_it_and_found_nothing() {
    for (answer, is_clean) in [
        (r#"{"content":[{"type":"text","text":"coffee"}]}"#, true),
        (r#"{"content":[{"type":"text","text":"password: hunter2hunter2"}]}"#, false),
        (r#"{"content":[{"type":"text","text":"password:"},{"type":"text","text":"hunter2hunter2"}]}"#, false),
        (r#"{"content":[{"type":"image","data":"aGVsbG8=","mimeType":"image/png"}]}"#, false),
        (r#"{"resultType":"input_required","requestState":"abc"}"#, false),
    ] {
        assert_eq!(ended(through(masking(settings())), answer).clean, is_clean, "{answer}");
    }
    assert!(!ended(settings(), r#"{"content":[]}"#).clean, "there are no masks");
}
