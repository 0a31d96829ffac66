//! Calls told as stories: which directive follows which event.

mod answers;
mod condensing;
mod failures;
mod finding;
mod gate;
mod masked;
mod refusing;
mod rules;

use super::*;
use crate::filtering::{DestructivePolicy, SelectedServer};
use crate::types::{Annotations, HttpFailure, RpcFailure, Tool};

const ANSWER: &str = r#"{"content":[{"type":"text","text":"pod-1"}]}"#;
const SCHEMA: &str = r#"{"type":"object","properties":{"namespace":{"type":"string"},"limit":{"type":"integer"}},
    "required":["namespace"]}"#;

fn tool(name: &str, read_only: bool) -> Tool {
    let annotations = Annotations { read_only: Some(read_only), ..Annotations::default() };
    Tool { name: name.into(), annotations, ..Tool::default() }
}

fn settings() -> Settings {
    Settings::new(["k8s".to_owned(), "lazy".to_owned()])
}

/// A gate whose server `k8s` has offered `get` (read-only), `set` (not) and `find` (with a schema); `lazy` is silent.
fn gate(settings: Settings) -> Gate {
    let gate = Gate::new(settings).unwrap();
    let find = Tool { input_schema: Some(SCHEMA.into()), ..tool("find", true) };
    gate.offer("k8s", vec![tool("get", true), tool("set", false), find]);
    gate
}

fn call(name: &str, arguments: &str) -> ToolCall {
    ToolCall { id: "1".into(), name: name.into(), arguments: arguments.into() }
}

fn failed(failure: Failure, phase: Phase) -> Event {
    Event::Failed(Failed { failure, phase })
}

fn http(status: u16) -> Failure {
    Failure::Http(HttpFailure { status, session: false, challenge: false, retry_after_ms: None })
}

/// Plays a call, and gives what was said: each directive in a word, the last one with its code.
fn play(gate: &Gate, call: ToolCall, events: Vec<Event>) -> (String, Directive) {
    let (mut execution, mut directive) = gate.begin(call);
    let mut said = vec![word(&directive)];
    for event in events {
        directive = execution.next(event);
        said.push(word(&directive));
    }
    (said.join(" "), directive)
}

fn word(directive: &Directive) -> String {
    match directive {
        Directive::Connect(servers) => format!("connect:{}", servers.join("+")),
        Directive::Request(_) => "request".into(),
        Directive::Reconnect(_) => "reconnect".into(),
        Directive::Reauthenticate(_) => "reauthenticate".into(),
        Directive::Wait(_) => "wait".into(),
        Directive::Circumstances(_) => "circumstances".into(),
        Directive::Count(rules) => format!("count:{}", rules.join("+")),
        Directive::Ask(_) => "ask".into(),
        Directive::Condense(oversize) => {
            let asked = [("spill", oversize.spill), ("summarize", oversize.summarize)];
            let asked = asked.into_iter().filter(|(_, yes)| *yes).map(|(word, _)| word);
            format!("condense:{}", asked.collect::<Vec<_>>().join("+"))
        }
        Directive::Done(result) => format!("{:?}", result.code),
    }
}

fn result(directive: Directive) -> ToolResult {
    match directive {
        Directive::Done(result) => result,
        other => panic!("not done: {other:?}"),
    }
}

#[test]
fn a_call_is_routed_sent_and_answered() {
    let gate = gate(settings());
    let (mut execution, directive) = gate.begin(call("k8s__find", "namespace: default"));
    let Directive::Request(request) = directive else { panic!("{directive:?}") };
    assert_eq!(request.tool, ToolRef::new("k8s", "find"));
    assert_eq!(request.arguments, r#"{"namespace":"default"}"#);
    assert_eq!(request.forward.map(|forward| forward.up_to), Some(1 << 20));
    let result = result(execution.next(Event::Answered(ANSWER.into())));
    assert_eq!((result.code, result.text.as_str(), result.attempts), (Code::Ok, "pod-1", 1));
    assert_eq!(result.content, [r#"{"type":"text","text":"pod-1"}"#]);
    assert_eq!(result.tool, Some(ToolRef::new("k8s", "find")));
    assert!(result.trace.iter().any(|note| note == "arguments: read as key-value"), "{:?}", result.trace);
    assert_eq!(word(&execution.next(Event::Waited)), "Ok", "what is done stays done");
}

#[test]
fn the_trace_of_a_forwarded_result_is_known_when_the_request_is_sent() {
    let masked = Settings { masks: Masks { groups: vec!["basic".to_owned()], ..Masks::default() }, ..settings() };
    let asked = Settings { policy: Policy { destructive: DestructivePolicy::Ask, ..settings().policy }, ..settings() };
    let mut forwarded = 0;
    for settings in [settings(), masked, asked] {
        let gate = gate(settings);
        for (name, arguments) in [
            ("k8s.find", "namespace: default"),
            ("k8s.find", r#"{"namespace":"default","limit":"5\n"}"#),
            ("k8s.get", ""),
            ("k8s.set", "a=1"),
        ] {
            let (mut execution, directive) = gate.begin(call(name, arguments));
            let Directive::Request(Request { tool, forward: Some(forward), .. }) = directive else { continue };
            let ended = result(execution.next(Event::Forwarded(Summary { is_error: false })));
            assert_eq!((ended.trace, ended.tool), (forward.trace, Some(tool)), "{name} {arguments}");
            assert_eq!((ended.code, ended.attempts, ended.text.as_str()), (Code::Ok, 1, ""));
            forwarded += 1;
        }
    }
    assert_eq!(forwarded, 7);
}

#[test]
fn a_second_request_knows_the_trace_of_both() {
    let (mut execution, _) = gate(settings()).begin(call("k8s.find", "namespace: default"));
    let closed = Event::Failed(Failed { failure: Failure::Closed, phase: Phase::Sent });
    assert_eq!(word(&execution.next(closed)), "wait");
    assert_eq!(word(&execution.next(Event::Waited)), "reconnect");
    let Directive::Request(request) = execution.next(Event::Reconnected) else { panic!("no second request") };
    let ended = result(execution.next(Event::Forwarded(Summary { is_error: false })));
    assert_eq!((ended.attempts, ended.trace), (2, request.forward.unwrap().trace));
}

#[test]
fn each_failure_has_its_story() {
    use Phase::{NotSent, Sent};
    let connect = || Failure::Connect("refused".into());
    for (name, events, story) in [
        (
            "k8s.get",
            vec![failed(Failure::Closed, Sent), Event::Waited, Event::Reconnected, Event::Answered(ANSWER.into())],
            "request wait reconnect request Ok",
        ),
        ("k8s.set", vec![failed(Failure::Closed, Sent)], "request OutcomeUnknown"),
        (
            "k8s.set",
            vec![failed(Failure::Closed, NotSent), Event::Waited, Event::Reconnected, failed(Failure::Closed, Sent)],
            "request wait reconnect request OutcomeUnknown",
        ),
        (
            "k8s.set",
            vec![failed(connect(), NotSent), Event::Waited, failed(connect(), NotSent)],
            "request wait reconnect ServerUnavailable",
        ),
        ("k8s.get", vec![failed(Failure::Timeout, Sent)], "request Timeout"),
        ("k8s.set", vec![failed(Failure::Timeout, Sent)], "request OutcomeUnknown"),
        (
            "k8s.set",
            vec![failed(http(429), NotSent), Event::Waited, Event::Answered(ANSWER.into())],
            "request wait request Ok",
        ),
        (
            "k8s.set",
            vec![failed(http(429), NotSent), Event::Waited, failed(http(429), NotSent)],
            "request wait request ServerUnavailable",
        ),
        (
            "k8s.set",
            vec![failed(http(401), NotSent), Event::Authenticated, Event::Answered(ANSWER.into())],
            "request reauthenticate request Ok",
        ),
        ("k8s.set", vec![failed(http(401), NotSent), failed(connect(), NotSent)], "request reauthenticate NeedsAuth"),
        // What a transport says it sent is not sent again, although the server says that it turned it away.
        ("k8s.set", vec![failed(connect(), Sent)], "request OutcomeUnknown"),
        ("k8s.set", vec![failed(http(429), Sent)], "request OutcomeUnknown"),
        ("k8s.set", vec![failed(http(401), Sent)], "request OutcomeUnknown"),
        ("k8s.get", vec![failed(connect(), Sent), Event::Waited], "request wait reconnect"),
        ("k8s.get", vec![failed(http(429), Sent), Event::Waited], "request wait request"),
        ("k8s.set", vec![failed(http(500), Sent)], "request OutcomeUnknown"),
        ("k8s.get", vec![failed(http(418), Sent)], "request RpcError"),
        (
            "k8s.set",
            vec![failed(Failure::Rpc(RpcFailure { code: -32602, message: "no".into() }), Sent)],
            "request RpcError",
        ),
        ("k8s.set", vec![failed(Failure::QueueFull(String::new()), NotSent)], "request QueueFull"),
        ("k8s.set", vec![failed(Failure::RestartInProgress, NotSent)], "request RestartInProgress"),
        ("k8s.set", vec![failed(Failure::RestartFailed("x".into()), NotSent)], "request RestartFailed"),
        ("k8s.set", vec![Event::Cancelled], "request Cancelled"),
        ("k8s.set", vec![Event::Answered("no json".into())], "request OutcomeUnknown"),
        ("k8s.get", vec![Event::Answered("no json".into())], "request RpcError"),
        ("k8s.get", vec![Event::Waited], "request Internal"),
        ("k8s.set", vec![Event::Waited], "request OutcomeUnknown"),
    ] {
        let (said, _) = play(&gate(settings()), call(name, ""), events);
        assert_eq!(said, story, "{name}");
    }
}

#[test]
fn with_always_an_unsafe_tool_is_repeated_and_its_doubt_remembered() {
    let always = Settings { retry: RetryPolicy::Always, ..settings() };
    let closed = failed(Failure::Closed, Phase::Sent);
    let refused = failed(Failure::Connect("refused".into()), Phase::NotSent);
    let (said, last) = play(&gate(always), call("k8s.set", ""), vec![closed, Event::Waited, refused]);
    assert_eq!(said, "request wait reconnect OutcomeUnknown");
    assert!(result(last).text.contains("the tool may have run"));
}

#[test]
fn names_that_lead_nowhere_are_results() {
    for (name, code) in [
        ("k8s.nope", Code::UnknownTool),
        ("nope.get", Code::UnknownServer),
        ("nope", Code::InvalidName),
        ("", Code::InvalidName),
    ] {
        let (_, directive) = gate(settings()).begin(call(name, ""));
        let result = result(directive);
        assert_eq!((result.code, result.is_error), (code, true), "{name}");
    }
}

#[test]
fn what_the_rules_keep_out_is_neither_listed_nor_called() {
    let mut settings = settings();
    settings.policy.servers[0].rules.deny = vec!["set".into()];
    let gate = gate(settings);
    let names: Vec<String> = gate.tools(&NamingStyle::Dot, None).into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["k8s.get", "k8s.find"]);
    let result = result(gate.begin(call("k8s.set", "")).1);
    assert_eq!(result.code, Code::NotAllowed);
    assert_eq!(
        result.text,
        "tool \"set\" is not available on server \"k8s\". Available tools: get, find (denied by `deny: set`)"
    );
    assert_eq!(result.tool, Some(ToolRef::new("k8s", "set")));
    assert_eq!(result.trace, ["denied by `deny: set`"]);
}

#[test]
fn a_server_outside_the_selection_is_not_named() {
    let mut settings = settings();
    settings.policy.selection = Some(vec![SelectedServer { id: "lazy".into(), tools: vec![] }]);
    let result = result(gate(settings).begin(call("k8s.get", "")).1);
    assert_eq!((result.code, result.tool), (Code::UnknownServer, None));
    assert_eq!(result.text, "MCP server \"k8s\" is not available for this execution. Available servers: lazy");
}

#[test]
fn a_person_is_asked_once_and_before_anything_is_sent() {
    let mut settings = settings();
    settings.policy.destructive = DestructivePolicy::Ask;
    for (event, story) in [
        (Event::Approved(true), "ask request"),
        (Event::Approved(false), "ask Declined"),
        (Event::Unasked, "ask Declined"),
    ] {
        let (said, _) = play(&gate(settings.clone()), call("k8s.set", ""), vec![event]);
        assert_eq!(said, story);
    }
    let (_, last) = play(&gate(settings), call("k8s.set", ""), vec![Event::Unasked]);
    assert!(result(last).text.contains("could not ask its user"));
}

#[test]
fn arguments_that_do_not_satisfy_the_schema_are_named() {
    let result = result(gate(settings()).begin(call("k8s.find", "{}")).1);
    assert_eq!(result.code, Code::InvalidArguments);
    assert!(result.text.contains("\"namespace\""), "{}", result.text);
    let lenient = Settings { check_arguments: false, ..settings() };
    assert_eq!(word(&gate(lenient).begin(call("k8s.find", "{}")).1), "request");
}

#[test]
fn a_silent_server_is_connected_first() {
    let gate = gate(settings());
    let (mut execution, directive) = gate.begin(call("lazy.run", ""));
    assert_eq!(directive, Directive::Connect(vec!["lazy".into()]));
    gate.offer("lazy", vec![tool("run", false)]);
    assert_eq!(word(&execution.next(Event::Connected)), "request");

    let (said, _) = play(&self::gate(settings()), call("lazy.run", ""), vec![Event::Connected]);
    assert_eq!(said, "connect:lazy UnknownTool");
    let needs_auth = failed(Failure::NeedsAuth("log in".into()), Phase::NotSent);
    let (said, _) = play(&self::gate(settings()), call("lazy.run", ""), vec![needs_auth]);
    assert_eq!(said, "connect:lazy NeedsAuth");
}

#[test]
fn later_offers_do_not_touch_a_call_that_has_begun() {
    let gate = gate(settings());
    let (mut execution, _) = gate.begin(call("k8s.get", ""));
    gate.withdraw("k8s");
    assert_eq!(word(&execution.next(Event::Answered(ANSWER.into()))), "Ok");
    assert_eq!(word(&gate.begin(call("k8s.get", "")).1), "connect:k8s");
}

#[test]
fn a_tool_that_says_it_failed_is_a_tool_error() {
    let answer = r#"{"isError":true,"content":[{"type":"text","text":"something went wrong"}]}"#;
    let (said, last) = play(&gate(settings()), call("k8s.get", ""), vec![Event::Answered(answer.into())]);
    assert_eq!(said, "request ToolError");
    assert_eq!(result(last).text, "something went wrong");
}

#[test]
fn answers_and_failures_are_masked_and_cut() {
    let mut settings = settings();
    settings.masks.groups = vec!["basic".into()];
    let secret = "password: \\\"hunter2hunter2\\\"";
    let answer = format!(
        r#"{{"content":[{{"type":"text","text":"{secret}"}}],"structuredContent":{{"password":"hunter2hunter2"}}}}"#
    );
    let (_, last) = play(&gate(settings.clone()), call("k8s.get", ""), vec![Event::Answered(answer)]);
    let result = result(last);
    assert_eq!(result.text, "password: \"[MASKED_PASSWORD]\"");
    assert!(!format!("{result:?}").contains("hunter2"), "{result:?}");

    let error = Failure::Rpc(RpcFailure { code: 1, message: "bad password: hunter2hunter2".into() });
    let (_, last) = play(&gate(settings), call("k8s.get", ""), vec![failed(error, Phase::Sent)]);
    assert!(!self::result(last).text.contains("hunter2"));
}

#[test]
fn what_is_said_before_a_tool_is_known_is_masked_too() {
    let mut settings = settings();
    settings.masks.groups = vec!["basic".into()];
    let failure = Failure::Connect("password: hunter2hunter2 refused".into());
    let (said, last) = play(&gate(settings.clone()), call("lazy.run", ""), vec![failed(failure, Phase::NotSent)]);
    assert_eq!(said, "connect:lazy ServerUnavailable");
    let text = result(last).text;
    assert_eq!(text, "cannot connect to server \"lazy\": password: [MASKED_PASSWORD] refused");
    let refused =
        result(gate(settings).begin(call("k8s.find", "{\"namespace\": {\"password\": \"hunter2hunter2\"}}")).1);
    assert!(!format!("{refused:?}").contains("hunter2"), "{refused:?}");
}

#[test]
fn a_caller_who_gave_up_is_heard_in_every_state() {
    let cancelled = || failed(Failure::Cancelled, Phase::NotSent);
    for (name, story) in [("lazy.run", "connect:lazy Cancelled"), ("k8s.set", "request Cancelled")] {
        assert_eq!(play(&gate(settings()), call(name, ""), vec![cancelled()]).0, story);
    }
}

#[test]
fn a_long_answer_is_cut_in_text_blocks_and_answer_alike() {
    let long = "line\n".repeat(100);
    let answer = format!(
        r#"{{"content":[{{"type":"text","text":{}}},{{"type":"image","data":"AAAA","mimeType":"image/png"}}],"_meta":{{"n":12345678901234567890}}}}"#,
        crate::json::Value::string(&*long).to_json()
    );
    let small = Settings { max_result_bytes: 50, ..settings() };
    let (_, last) = play(&gate(small.clone()), call("k8s.get", ""), vec![Event::Answered(answer.clone())]);
    let text = result(last.clone());
    assert!(text.truncated && text.text.contains("[TRUNCATED: "), "{}", text.text);
    assert_eq!(text.content.len(), 2);
    assert!(text.content[0].len() < 200, "{}", text.content[0]);

    let through = Settings { form: ResultForm::PassThrough, ..small };
    let (mut execution, directive) = gate(through).begin(call("k8s.get", ""));
    let Directive::Request(request) = directive else { panic!("{directive:?}") };
    assert_eq!(request.forward.map(|forward| forward.up_to), Some(50));
    let answer = result(execution.next(Event::Answered(answer))).answer.unwrap();
    assert!(answer.ends_with(r#""_meta":{"n":12345678901234567890}}"#), "{answer}");
    assert!(answer.len() < 400, "{answer}");
}

#[test]
fn what_needs_no_reading_may_be_forwarded_unread() {
    let through = Settings { form: ResultForm::PassThrough, ..settings() };
    let (mut execution, directive) = gate(through.clone()).begin(call("k8s.get", ""));
    let Directive::Request(request) = directive else { panic!("{directive:?}") };
    assert_eq!(request.forward.map(|forward| forward.up_to), Some(1 << 20));
    assert_eq!(word(&execution.next(Event::Forwarded(Summary { is_error: true }))), "ToolError");

    let whole = Settings { max_result_bytes: 0, ..settings() };
    let (_, directive) = gate(whole).begin(call("k8s.get", ""));
    assert!(
        matches!(directive, Directive::Request(request) if request.forward.as_ref().is_some_and(|forward| forward.up_to == u64::MAX))
    );

    let mut masked = through;
    masked.server_settings = vec![ServerSettings {
        server: "k8s".into(),
        masks: Masks { groups: vec!["basic".into()], ..Masks::default() },
        ..ServerSettings::default()
    }];
    let (mut execution, directive) = gate(masked).begin(call("k8s.get", ""));
    let Directive::Request(request) = directive else { panic!("{directive:?}") };
    assert_eq!(request.forward, None);
    let result = result(execution.next(Event::Answered(r#"{"content":[],"x":{"password":"hunter2hunter2"}}"#.into())));
    assert_eq!(result.answer.as_deref(), Some(r#"{"content":[],"x":{"password":"[MASKED_PASSWORD]"}}"#));
}

#[test]
fn settings_that_cannot_be_used_say_why() {
    let mut unknown = settings();
    unknown.server_settings = vec![ServerSettings { server: "nope".into(), ..ServerSettings::default() }];
    assert_eq!(Gate::new(unknown).unwrap_err(), SettingsError::UnknownServer("nope".into()));
    let mut bad = settings();
    bad.masks.groups = vec!["nope".into()];
    assert!(matches!(Gate::new(bad).unwrap_err(), SettingsError::Masks(_)));
}

#[test]
fn a_server_may_be_named_in_descriptions() {
    let gate = gate(Settings { describe_server: true, ..settings() });
    let tools = gate.tools(&NamingStyle::DoubleUnderscore, None);
    assert_eq!(tools[0].description.as_deref(), Some("[MCP:k8s]"));
}

#[test]
fn after_done_it_says_the_same_again() {
    let masks = Masks { groups: vec!["basic".into()], ..Masks::default() };
    for settings in [
        settings(),
        Settings { form: ResultForm::PassThrough, ..settings() },
        Settings { masks, max_result_bytes: 30, ..settings() },
    ] {
        for event in [
            Event::Answered(r#"{"content":[],"structuredContent":{"password": "hunter22","n":1}}"#.into()),
            Event::Answered("[]".into()),
            Event::Forwarded(Summary { is_error: true }),
            Event::Cancelled,
        ] {
            let (mut execution, _) = gate(settings.clone()).begin(call("k8s__get", "{}"));
            let first = execution.next(event);
            assert!(matches!(first, Directive::Done(_)), "{first:?}");
            assert_eq!(execution.next(Event::Waited), first);
            assert_eq!(execution.next(Event::Cancelled), first);
        }
    }
}

#[test]
fn a_question_of_the_server_passes_through_masked_and_with_its_state_as_it_was() {
    let question = r#"{"resultType":"input_required","inputRequests":{"k 1":{"method":"elicitation/create","params":{"message":"password: hunter2hunter2"}}},"requestState":"password: hunter2hunter2 \u00e9","x":1.10}"#;
    let masks = crate::masking::Masks { groups: vec!["basic".into()], ..Default::default() };
    let through = |settings: Settings| Settings { form: ResultForm::PassThrough, ..settings };
    let ask = |settings: Settings| {
        let (said, done) = play(&gate(settings), call("k8s.set", ""), vec![Event::Answered(question.into())]);
        assert!(said.starts_with("request "), "{said}");
        result(done)
    };
    let plain = ask(through(settings()));
    assert_eq!((plain.code, plain.answer.as_deref()), (Code::Ok, Some(question)));
    let masked = ask(through(Settings { masks, ..settings() }));
    let expected = r#"{"resultType":"input_required","inputRequests":{"k 1":{"method":"elicitation/create","params":{"message":"password: [MASKED_PASSWORD]"}}},"x":1.10,"requestState":"password: hunter2hunter2 é"}"#;
    assert_eq!((masked.code, masked.answer.as_deref()), (Code::Ok, Some(expected)));
    let long = ask(through(Settings { max_result_bytes: 20, ..settings() }));
    assert_eq!((long.code, long.answer), (Code::ResultTooLarge, None));
    // A model cannot be asked in this way.
    assert_eq!(ask(settings()).code, Code::OutcomeUnknown);
}

#[test]
fn members_that_nobody_knows_are_kept_and_masked() {
    let masks = crate::masking::Masks { groups: vec!["basic".into()], ..Default::default() };
    let ask = |settings: Settings, answer: &str| {
        result(play(&gate(settings), call("k8s.get", ""), vec![Event::Answered(answer.into())]).1)
    };
    let answer = r#"{"content":[],"_meta":{"n":1.10},"resultType":"complete","isError":false,"x":{"password":"hunter2hunter2"}}"#;
    assert_eq!(
        ask(Settings { masks, ..settings() }, answer).more.as_deref(),
        Some(r#"{"_meta":{"n":1.10},"x":{"password":"[MASKED_PASSWORD]"}}"#)
    );
    assert_eq!(ask(settings(), ANSWER).more, None);
    let long = ask(Settings { max_result_bytes: 20, ..settings() }, answer);
    assert_eq!((long.more, long.truncated), (None, true));
}
