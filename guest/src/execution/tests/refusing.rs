//! Calls that somebody who watches over them stops.

use super::*;
use crate::masking::CustomMask;
use crate::rules::{CallCount, CallLimit, Effect, LimitScope, Rule};

/// What a result says to programs about a refusal; nothing if it is none.
fn refusal(result: &ToolResult) -> String {
    let Some(more) = &result.more else { return String::new() };
    let whole = more.strip_prefix(r#"{"_meta":{"toolgate/refusal":"#).and_then(|rest| rest.strip_suffix("}}"));
    whole.unwrap_or_else(|| panic!("{more}")).to_owned()
}

/// A rule for `k8s.set` that holds for every call.
fn rule(name: &str, effect: Effect, limit: Option<CallLimit>) -> Rule {
    let tools = vec!["k8s.set".to_owned()];
    Rule { name: name.to_owned(), tools, condition: None, effect, limit, because: None }
}

#[test]
fn a_program_learns_the_code_and_the_rule_of_a_refusal_without_reading_its_text() {
    let limit = CallLimit { calls: 1, per_ms: 60_000, by: LimitScope::Principal };
    let circumstances = || Event::Circumstances(crate::rules::Circumstances::default());
    let counted = |calls| Event::Counted(vec![CallCount { calls, ends_in_ms: 1_500 }]);
    let none = || failed(Failure::RulesUnavailable("no store".into()), Phase::NotSent);
    let full = || failed(Failure::QueueFull("jobs".into()), Phase::NotSent);
    let lost = || failed(Failure::Closed, Phase::Sent);
    for (rules, events, expected) in [
        (vec![rule("never", Effect::Deny, None)], vec![circumstances()], r#"{"code":"not-allowed","rule":"never"}"#),
        (
            vec![rule("often", Effect::Deny, Some(limit))],
            vec![circumstances(), counted(2)],
            r#"{"code":"not-allowed","rule":"often","retryAfterMs":1500}"#,
        ),
        (
            vec![rule("often", Effect::Ask, Some(limit))],
            vec![circumstances(), counted(2), Event::Approved(false)],
            r#"{"code":"declined","rule":"often","retryAfterMs":1500}"#,
        ),
        (
            vec![rule("first", Effect::Ask, None), rule("often", Effect::Deny, Some(limit))],
            vec![circumstances(), Event::Approved(true), counted(2)],
            r#"{"code":"not-allowed","rule":"often","retryAfterMs":1500}"#,
        ),
        (
            vec![rule("first", Effect::Ask, None)],
            vec![circumstances(), Event::Unasked],
            r#"{"code":"declined","rule":"first"}"#,
        ),
        // The rule that a person was asked for is not the reason.
        (
            vec![rule("first", Effect::Ask, None)],
            vec![circumstances(), Event::Approved(true), full()],
            r#"{"code":"queue-full"}"#,
        ),
        (
            vec![rule("first", Effect::Ask, None)],
            vec![circumstances(), Event::Approved(true), none()],
            r#"{"code":"not-allowed"}"#,
        ),
        (vec![rule("first", Effect::Ask, None)], vec![circumstances(), Event::Approved(true), lost()], ""),
        (vec![rule("first", Effect::Label(vec!["seen".into()]), None)], vec![circumstances(), lost()], ""),
    ] {
        for form in [ResultForm::Text, ResultForm::PassThrough] {
            let mut settings = Settings { form, ..settings() };
            settings.rules.lists = vec![rules.clone()];
            let (_, directive) = play(&gate(settings), call("k8s.set", "{}"), events.clone());
            assert_eq!(refusal(&result(directive)), expected, "{rules:?} {form:?}");
        }
    }
    let mut filtered = settings();
    filtered.policy.servers[0].rules.deny = vec!["set".into()];
    let refused = |settings: Settings, name: &str| refusal(&result(gate(settings).begin(call(name, "{}")).1));
    assert_eq!(refused(filtered, "k8s.set"), r#"{"code":"not-allowed"}"#);
    assert_eq!(refused(settings(), "k8s.find"), r#"{"code":"invalid-arguments"}"#);
    assert_eq!(refused(settings(), "k8s.nothing"), "");
}

#[test]
fn the_name_of_a_rule_is_masked_where_programs_read_it_too() {
    let custom = vec![CustomMask { pattern: "hunter2".into(), replacement: "***".into() }];
    let mut settings = Settings { masks: Masks { custom, ..Masks::default() }, ..settings() };
    settings.rules.lists = vec![vec![rule("of hunter2", Effect::Deny, None)]];
    let circumstances = Event::Circumstances(crate::rules::Circumstances::default());
    let refused = result(play(&gate(settings), call("k8s.set", "{}"), vec![circumstances]).1);
    assert_eq!(refusal(&refused), r#"{"code":"not-allowed","rule":"of ***"}"#);
    assert!(!format!("{refused:?}").contains("hunter2 "), "{refused:?}");
}

#[test]
fn a_tool_of_a_server_that_was_not_given_is_answered_like_one_that_does_not_exist() {
    let given = |settings: &mut Settings| {
        settings.bare_names = true;
        settings.policy.selection = Some(vec![SelectedServer { id: "lazy".into(), tools: vec![] }]);
    };
    let granted = |settings: &mut Settings| {
        settings.bare_names = true;
        settings.policy.capabilities = Some(vec!["server:lazy".into()]);
    };
    for limit in [given as fn(&mut Settings), granted] {
        let (mut with, mut without) = (settings(), Settings::new(["lazy".to_owned()]));
        limit(&mut with);
        limit(&mut without);
        let (with, without) = (gate(with), Gate::new(without).unwrap());
        for gate in [&with, &without] {
            gate.offer("lazy", vec![tool("run", false)]);
        }
        for name in
            ["k8s.set", "k8s__set", "mcp__k8s__set", "mcp_k8s_set", "set", "k8s.nothing", "k8s.", "mcp_k8s_nothing"]
        {
            let ended = [&with, &without].map(|gate| result(gate.begin(call(name, "{}")).1));
            assert_eq!(ended[0], ended[1], "{name}");
            assert_eq!(ended[0].tool, None, "{name}");
        }
        // It does not stand in the way of a tool that was given, either.
        with.offer("lazy", vec![tool("set", true)]);
        assert_eq!(word(&with.begin(call("set", "{}")).1), "request");
    }
}

#[test]
fn a_text_says_that_the_execution_failed_only_if_a_server_may_have_seen_the_call() {
    use Phase::{NotSent, Sent};
    let connect = || Failure::Connect("refused".into());
    for (name, events, was_sent) in [
        ("lazy.run", vec![failed(connect(), NotSent)], false),
        ("lazy.run", vec![Event::Cancelled], false),
        ("k8s.get", vec![failed(Failure::QueueFull(String::new()), NotSent)], false),
        ("k8s.get", vec![failed(Failure::NeedsAuth("log in".into()), NotSent)], false),
        ("k8s.get", vec![failed(connect(), NotSent), Event::Waited, failed(connect(), NotSent)], false),
        ("k8s.get", vec![failed(Failure::Closed, Sent), Event::Waited, failed(connect(), NotSent)], true),
        ("k8s.get", vec![failed(Failure::Timeout, Sent)], true),
        ("k8s.get", vec![failed(Failure::Cancelled, NotSent)], false),
        ("k8s.get", vec![failed(Failure::Cancelled, Sent)], true),
        ("k8s.get", vec![Event::Cancelled], true),
        ("k8s.get", vec![failed(Failure::Rpc(RpcFailure { code: 1, message: "no".into() }), Sent)], true),
        ("k8s.get", vec![Event::Answered("no json".into())], true),
    ] {
        let (said, last) = play(&gate(settings()), call(name, "{}"), events);
        let text = result(last).text;
        assert_eq!(text.starts_with("MCP tool execution failed: "), was_sent, "{said}: {text}");
    }
}

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
    assert_eq!(refused.text, r#"tool "set" of server "k8s" is refused: not on a Sunday"#);
    assert_eq!(refusal(&refused), r#"{"code":"not-allowed"}"#);
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
        "tool \"set\" of server \"k8s\" needs a person's approval, but its arguments have 10 bytes, more than a person is \
         shown (ask_max_bytes: 9)"
    );
    settings.policy.destructive = DestructivePolicy::Allow;
    assert_eq!(word(&gate(settings).begin(call("k8s.set", r#"{"a":"12"}"#)).1), "request");
}
