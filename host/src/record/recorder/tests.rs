//! Tests of the recorder, and a finished call for other tests.

use super::*;
use crate::logic::types::execution::ToolCall;
use crate::logic::{CallHistory, OfferedTools};

const SETTINGS: &str = r#"{
    "policy":{"servers":[],"selection":null,"read_only":false,"destructive":"allow","capabilities":null},
    "style":"dot","bare_names":false,"describe_server":false,"check_arguments":true,"retry":"safe",
    "masking":{"groups":[],"patterns":[],"custom":[]},"server_settings":[],"form":"text","max_result_bytes":0,
    "spill":false,"summarize_above_tokens":null,"ask_max_bytes":0}"#;

/// Returns a finished call without any steps.
pub(crate) fn finished(arguments: String) -> Arc<FinishedCall> {
    let history = CallHistory {
        settings: Arc::new(serde_json::from_str(SETTINGS).unwrap()),
        call: ToolCall { id: "1".to_owned(), name: "a.x".to_owned(), arguments },
        offers: OfferedTools::default(),
        events: Vec::new(),
        directives: Vec::new(),
    };
    let (at, latency) = (std::time::SystemTime::now(), Duration::ZERO);
    Arc::new(FinishedCall { history, at, latency, principal: None, answer: None, limit: None })
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
