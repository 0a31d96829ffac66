//! Tests of the line of a record, and a record for other tests.

use super::super::directive::{RecordedRequest, RecordedResult};
use super::super::steps::ForwardedAnswer;
use super::*;
use crate::logic::types::execution::{Code, Event, Summary};

/// Returns the record of a small call.
pub fn record() -> Record {
    let tool = || ToolRef { server: "demo".to_owned(), tool: "add".to_owned() };
    let sent = RecordedRequest {
        tool: tool(),
        arguments: r#"{"a":1,"b":2}"#.to_owned(),
        forward_up_to: Some(1_048_576),
        learned: None,
    };
    let ended = RecordedResult {
        code: Code::Ok,
        tool: Some(tool()),
        text: None,
        content: None,
        attempts: 1,
        truncated: false,
        trace: vec![
            "name \"demo__add\" is exactly that of a tool".to_owned(),
            "arguments: read as key-value".to_owned(),
            "request 1 to server \"demo\"".to_owned(),
            "result passed through (nothing to mask)".to_owned(),
        ],
        learned: None,
    };
    let digest = ContentDigest::of(r#"{"content":[{"type":"text","text":"3"}]}"#);
    Record {
        v: VERSION,
        id: "0123456789abcdef".to_owned(),
        at: "2026-11-15T16:18:54.123Z".to_owned(),
        ms: 1.234,
        principal: Some("ann".to_owned()),
        approver: None,
        component: FIRST.to_owned(),
        settings: FIRST.to_owned(),
        catalog: FIRST.to_owned(),
        name: "demo__add".to_owned(),
        arguments: "a: 1, b: 2".to_owned(),
        steps: vec![
            RecordedStep { event: None, forwarded: None, catalog: None, directive: RecordedDirective::Request(sent) },
            RecordedStep {
                event: Some(Event::Forwarded(Summary { is_error: false })),
                forwarded: Some(ForwardedAnswer { digest, answer: None }),
                catalog: None,
                directive: RecordedDirective::Done(Box::new(ended)),
            },
        ],
        result: Some(ContentDigest::of("3")),
        limit: None,
        masked: Vec::new(),
        unreplayable: None,
        run: None,
    }
}

#[test]
fn a_record_of_a_small_call_is_small_and_reads_as_it_was() {
    let mut line = Vec::new();
    let digest = record().seal(FIRST, &mut line);
    assert!(line.len() <= 2048, "{} bytes", line.len());
    assert!(!line.contains(&b'\n'));
    assert_eq!(read(&line), Ok(record()));
    let seal = LineSeal::find(&line).unwrap();
    assert_eq!((seal.after, seal.digest), (FIRST, digest.as_str()));
}

#[test]
fn a_line_names_its_run_at_its_end_and_nowhere_else() {
    let run_of = |record: &mut Record| {
        let mut line = Vec::new();
        record.seal(FIRST, &mut line);
        assert!(read(&line).is_ok());
        LineSeal::find(&line).unwrap().run.map(str::to_owned)
    };
    assert_eq!(run_of(&mut record()), None);
    assert_eq!(run_of(&mut Record { run: Some("beef".to_owned()), ..record() }).as_deref(), Some("beef"));
    let named = r#"x","run":"beef"#.to_owned();
    assert_eq!(run_of(&mut Record { unreplayable: Some(named), ..record() }), None);
}

#[test]
fn arguments_that_are_sent_as_the_model_wrote_them_stand_in_the_line_once() {
    let mut record = record();
    record.arguments = r#"{"a":1,"b":2}"#.to_owned();
    let mut line = Vec::new();
    record.clone().seal(FIRST, &mut line);
    let text = String::from_utf8(line.clone()).unwrap();
    assert_eq!((text.matches(r#""arguments":"#).count(), text.matches(r#"\"b\":2"#).count()), (1, 1), "{text}");
    assert_eq!(read(&line), Ok(record));
}

#[test]
fn every_byte_that_is_changed_is_noticed() {
    let mut line = Vec::new();
    record().seal(FIRST, &mut line);
    for at in 0..line.len() {
        let mut changed = line.clone();
        changed[at] ^= 1;
        assert!(read(&changed).is_err(), "byte {at}");
        assert_eq!(read(&line[..at]), Err(LineDamage::Torn), "only {at} bytes");
    }
}

#[test]
fn a_record_says_which_tool_was_meant() {
    let mut record = record();
    let meant = ToolRef { server: "demo".to_owned(), tool: "add".to_owned() };
    assert_eq!(record.tool(), Some(&meant));
    record.steps.pop();
    assert_eq!(record.tool(), Some(&meant));
    record.steps.clear();
    assert_eq!(record.tool(), None);
}
