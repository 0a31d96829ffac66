//! Calls that somebody who watches over them stops.

use super::*;
use crate::masking::CustomMask;

#[test]
fn what_a_call_is_about_to_do_is_known_before_anything_is_sent() {
    let mut settings = settings();
    settings.policy.servers[0].ask = vec!["set".into()];
    let gate = gate(settings);
    let (execution, directive) = gate.begin(call("k8s__set", "a: 1"));
    assert_eq!(word(&directive), "ask");
    let intent = execution.intent().unwrap();
    assert_eq!((intent.tool, intent.arguments), (ToolRef::new("k8s", "set"), r#"{"a":1}"#));
    assert_eq!(intent.annotations.read_only, Some(false));
    assert_eq!(gate.begin(call("lazy.x", "")).0.intent(), None, "a server has not spoken yet");
    assert_eq!(gate.begin(call("k8s.find", "")).0.intent(), None, "a property is missing");
}

#[test]
fn what_the_configuration_says_of_a_tool_counts_before_what_its_server_says() {
    let mut settings = settings();
    let annotations = Annotations { read_only: Some(false), ..Annotations::default() };
    settings.policy.servers[0].tools =
        vec![crate::filtering::ToolRules { tool: "get".into(), annotations, requires: Vec::new() }];
    let (execution, _) = gate(settings).begin(call("k8s.get", ""));
    assert_eq!(execution.intent().unwrap().annotations.read_only, Some(false));
}

#[test]
fn a_refused_request_is_not_counted_and_the_call_stays_over() {
    let (mut execution, directive) = gate(settings()).begin(call("k8s.set", ""));
    assert_eq!(word(&directive), "request");
    let refused = result(execution.refuse("not on a Sunday"));
    assert_eq!((refused.code, refused.attempts, refused.is_error), (Code::NotAllowed, 0, true));
    assert_eq!(refused.text, r#"MCP tool execution failed: tool "set" of server "k8s" is refused: not on a Sunday"#);
    assert_eq!(refused.trace.last().unwrap(), "not on a Sunday");
    assert!(!refused.trace.iter().any(|note| note.starts_with("request")), "{:?}", refused.trace);
    assert_eq!(result(execution.next(Event::Answered(ANSWER.into()))), refused);
    assert_eq!(result(execution.refuse("again")), refused);
}

#[test]
fn a_reason_is_masked() {
    let masks =
        Masks { custom: vec![CustomMask { pattern: "hunter2".into(), replacement: "***".into() }], ..Masks::default() };
    let (mut execution, _) = gate(Settings { masks, ..settings() }).begin(call("k8s.set", ""));
    let refused = result(execution.refuse("hunter2 is a secret"));
    assert!(refused.text.ends_with("*** is a secret"), "{}", refused.text);
    assert_eq!(refused.trace.last().unwrap(), "*** is a secret");
}

#[test]
fn a_second_request_that_is_refused_does_not_hide_that_the_first_may_have_run() {
    let gate = gate(Settings { retry: RetryPolicy::Always, ..settings() });
    let (mut execution, _) = gate.begin(call("k8s.set", ""));
    for event in [failed(Failure::Closed, Phase::Sent), Event::Waited, Event::Reconnected] {
        execution.next(event);
    }
    let refused = result(execution.refuse("enough"));
    assert_eq!((refused.code, refused.attempts), (Code::OutcomeUnknown, 1));
}

#[test]
fn a_person_is_not_asked_about_more_than_can_be_shown() {
    let mut settings = Settings { ask_max_bytes: 9, ..settings() };
    settings.policy.destructive = DestructivePolicy::Ask;
    let begin = |arguments: &str| gate(settings.clone()).begin(call("k8s.set", arguments)).1;
    assert_eq!(word(&begin(r#"{"a":"12"}"#)), "Declined");
    assert_eq!(word(&begin(r#"{"a":"1"}"#)), "ask");
    let result = result(begin(r#"{"a":"12"}"#));
    assert_eq!(
        result.text,
        "MCP tool execution failed: tool \"set\" of server \"k8s\" needs a person's approval, but its arguments have 10 \
         bytes, more than a person is shown (ask_max_bytes: 9)"
    );
    settings.policy.destructive = DestructivePolicy::Allow;
    assert_eq!(word(&gate(settings).begin(call("k8s.set", r#"{"a":"12"}"#)).1), "request");
}
