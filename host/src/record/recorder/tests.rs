//! Tests of the recorder, and a finished call for other tests.

use super::*;
use crate::decide::Decide;
use crate::logic::types::execution::{Directive, Event, ResultForm, ToolCall};
use crate::logic::types::{Annotations, Tool};
use crate::logic::{CallHistory, ComponentOptions, OfferedTools, Supervisor};

const SETTINGS: &str = r#"{
    "policy":{"servers":[],"selection":null,"read_only":false,"destructive":"allow","capabilities":null},
    "style":"dot","bare_names":false,"describe_server":false,"check_arguments":true,"retry":"safe",
    "masking":{"groups":[],"patterns":[],"custom":[]},"server_settings":[],"form":"text","max_result_bytes":0,
    "spill":false,"summarize_above_tokens":null,"ask_max_bytes":0}"#;

/// Returns a finished call without any steps.
pub(crate) fn finished(arguments: String) -> Arc<FinishedCall> {
    of_history(CallHistory {
        settings: Arc::new(serde_json::from_str(SETTINGS).unwrap()),
        call: ToolCall { id: "1".to_owned(), name: "a.x".to_owned(), arguments },
        offers: OfferedTools::default(),
        events: Vec::new(),
        directives: Vec::new(),
    })
}

fn of_history(history: CallHistory) -> Arc<FinishedCall> {
    let (at, latency) = (std::time::SystemTime::now(), Duration::ZERO);
    Arc::new(FinishedCall { history, at, latency, principal: None, approver: None, answer: None, limit: None })
}

/// Returns a call of a gate with all masks that got this result.
fn answered(component: &Component, answer: &str) -> Arc<FinishedCall> {
    let mut logic = Supervisor::new(component.clone()).unwrap();
    let mut settings = logic.default_settings(&["a".to_owned()]).unwrap();
    settings.masks.groups.push("all".to_owned());
    settings.form = ResultForm::PassThrough;
    let gate = logic.open_gate(&settings).unwrap().unwrap();
    let annotations = Annotations { read_only: None, destructive: None, idempotent: None, open_world: None };
    let tool = Tool { name: "x".to_owned(), description: None, input_schema: None, annotations };
    logic.offer(gate, "a", std::slice::from_ref(&tool)).unwrap();
    let call = ToolCall { id: "1".to_owned(), name: "a.x".to_owned(), arguments: "{}".to_owned() };
    let (execution, first) = logic.begin(gate, call.clone()).unwrap();
    let event = Event::Answered(answer.to_owned());
    let last = logic.next(execution, event.clone()).unwrap();
    let offers: OfferedTools = Arc::new(vec![("a".to_owned(), Arc::from([tool]))]);
    let events = vec![(Arc::clone(&offers), event)];
    of_history(CallHistory { settings: Arc::new(settings), call, offers, events, directives: vec![first, last] })
}

/// Returns a recorder without a thread.
fn stuck() -> Recorder {
    Recorder { shared: Arc::default(), options: RecordOptions::new("nowhere".into()) }
}

#[test]
fn that_nothing_can_be_written_is_told_once_and_that_it_can_again_with_what_was_lost() {
    let (mut told, start) = (ReportedLosses::default(), Instant::now());
    let at = |millis| start + Duration::from_millis(millis);
    assert_eq!(told.note_success(at(0)), None);
    assert!(told.note_failure(3, at(0)));
    assert_eq!(told.note_success(at(100)), None, "it is not steady");
    assert!(!told.note_failure(2, at(200)));
    assert_eq!(told.note_success(at(1200)), Some(5));
    assert_eq!(told.note_success(at(1300)), None);
    assert!(told.note_failure(1, at(1400)), "it is news again");
    assert_eq!(were(5), "5 calls were");
}

#[test]
fn calls_that_come_too_fast_are_dropped_and_counted_and_none_waits() {
    let recorder = stuck();
    (0..MOST_CALLS + 5).for_each(|_| recorder.take(finished(String::new())));
    assert_eq!(recorder.stats(), RecordStats { dropped: 5, ..RecordStats::default() });
    assert!(!recorder.flush(Duration::ZERO), "they are not in a file");
    let recorder = stuck();
    (0..5).for_each(|_| recorder.take(finished("x".repeat(MOST_BYTES / 4))));
    assert_eq!(recorder.stats().dropped, 2);
}

#[test]
fn what_a_caller_must_get_unmasked_is_masked_in_its_record() {
    let component = Component::embedded(&ComponentOptions::default()).unwrap();
    let secret = "Zm9vYmFyMTIzNDU2Nzg5MDEyMzQ1Njc4OTA";
    for answer in [
        format!(r#"{{"resultType":"input_required","inputRequests":{{}},"requestState":"password={secret}"}}"#),
        format!(r#"{{"content":[{{"type":"image","mimeType":"image/png","data":"{secret}"}}]}}"#),
    ] {
        let text = recorded(&component, answered(&component, &answer));
        assert!(text.contains("MASKED") && !text.contains(secret), "{text}");
    }
}

#[test]
fn a_clean_answer_says_nothing_about_one_before_it() {
    let component = Component::embedded(&ComponentOptions::default()).unwrap();
    let mut call = (*answered(&component, r#"{"content":[{"type":"text","text":"coffee"}]}"#)).clone();
    let CallHistory { events, directives, .. } = &mut call.history;
    assert!(matches!(directives.last(), Some(Directive::Done(result)) if result.clean));
    let before = r#"["password: hunter2hunter2"]"#.to_owned();
    events.insert(0, (Arc::clone(&events[0].0), Event::Answered(before)));
    directives.insert(0, directives[0].clone());
    let text = recorded(&component, Arc::new(call));
    assert!(text.contains("coffee") && text.contains("MASKED") && !text.contains("hunter2"), "{text}");
}

/// Returns the line that a recorder writes for a call.
fn recorded(component: &Component, call: Arc<FinishedCall>) -> String {
    let dir = tempfile::tempdir().unwrap();
    let options = RecordOptions::new(dir.path().join("records"));
    let recorder = Recorder::start(options, component, &Arc::default()).unwrap();
    recorder.take(call);
    assert!(recorder.flush(Duration::from_secs(60)));
    assert_eq!(recorder.stats().written, 1);
    let segment = crate::record::folder::segments(&dir.path().join("records")).unwrap().remove(0);
    std::fs::read_to_string(segment.path).unwrap()
}
