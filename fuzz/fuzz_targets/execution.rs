//! A call is played with any settings against any host: no rule is broken, and nothing unsafe is sent twice in doubt.

#![no_main]

use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use toolgate_fuzz::session::{self, SERVERS, TOOLS};
use toolgate_guest::execution::{Code, Directive, Event, Gate, Settings, ToolCall};
use toolgate_guest::filtering::{Access, Verdict};
use toolgate_guest::json;
use toolgate_guest::recovery::RetryPolicy;
use toolgate_guest::types::{Tool, ToolRef};

fuzz_target!(|data: &[u8]| {
    play(&mut Unstructured::new(data)).expect("drawing goes on with zeros where the input ends");
});

fn play(dice: &mut Unstructured<'_>) -> Result<()> {
    let settings = session::settings(dice)?;
    let offers = session::offers(dice)?;
    let Ok(gate) = Gate::new(settings.clone()) else { return Ok(()) };
    let (mut offered, mut silent) = (Vec::new(), Vec::new());
    for offer in offers {
        if dice.ratio(3, 4)? { offered.push(offer) } else { silent.push(offer) }
    }
    offered.iter().for_each(|(server, tools)| _ = gate.offer(server, tools.clone()));
    let call = ToolCall { id: "1".into(), name: session::name(dice)?, arguments: session::arguments(dice)? };
    let (mut execution, mut directive) = gate.begin(call);
    let (mut requests, mut approved, mut in_doubt) = (0, false, false);
    while !matches!(directive, Directive::Done(_)) && !dice.is_empty() {
        if let (Directive::Request(_), Some(tool)) = (&directive, requested(&directive)) {
            requests += 1;
            let (verdict, is_safe) = judge(&settings, &offered, &tool);
            assert!(verdict == Verdict::Allow || verdict == Verdict::Ask && approved, "{verdict:?}: {tool:?}");
            assert!(!in_doubt || is_safe || settings.retry == RetryPolicy::Always, "sent twice: {tool:?}");
            assert!(requests <= if settings.retry == RetryPolicy::Never { 1 } else { 2 });
        }
        let event = session::event(dice)?;
        match (&directive, &event) {
            (Directive::Connect(servers), Event::Connected) => {
                let connected = silent.extract_if(.., |(server, _)| servers.iter().any(|id| id == server));
                offered.extend(connected.inspect(|(server, tools)| _ = gate.offer(server, tools.clone())));
            }
            (Directive::Request(_), event) => in_doubt |= session::may_have_run(event),
            (Directive::Ask(_), Event::Approved(yes)) => approved |= *yes,
            _ => {}
        }
        directive = execution.next(event);
    }
    if let Directive::Done(result) = &directive {
        assert_eq!((result.attempts, result.is_error), (requests, result.code != Code::Ok));
        for _ in 0..4 {
            assert_eq!(execution.next(session::event(dice)?), directive, "done is done");
        }
    }
    silent.into_iter().for_each(|(server, tools)| _ = gate.offer(server, tools));
    what_is_listed_is_callable(&gate, &settings);
    Ok(())
}

/// With every server connected, what is listed is asked about or sent when called, and nothing else is.
fn what_is_listed_is_callable(gate: &Gate, settings: &Settings) {
    let called =
        |name: &str| requested(&gate.begin(ToolCall { id: "2".into(), name: name.into(), arguments: "{}".into() }).1);
    let listed = gate.tools(&settings.style, None);
    for exposed in &listed {
        assert_eq!(called(&exposed.name).as_ref(), Some(&exposed.tool), "listed as {:?}", exposed.name);
    }
    for tool in SERVERS.iter().flat_map(|server| TOOLS.map(|tool| ToolRef::new(*server, tool))) {
        let is_listed = listed.iter().any(|exposed| exposed.tool == tool);
        assert_eq!(called(&format!("{}.{}", tool.server, tool.tool)), is_listed.then_some(tool));
    }
}

/// The tool that is to be called, perhaps once a person has agreed.
fn requested(directive: &Directive) -> Option<ToolRef> {
    match directive {
        Directive::Ask(question) => Some(question.tool.clone()),
        Directive::Request(request) => {
            json::parse(&request.arguments).expect("arguments are JSON");
            Some(request.tool.clone())
        }
        _ => None,
    }
}

/// What the rules say of a tool, and whether it is declared safe to repeat.
fn judge(settings: &Settings, offered: &[(&str, Vec<Tool>)], tool: &ToolRef) -> (Verdict, bool) {
    let find = |server: &str, name: &str| {
        let (_, tools) = offered.iter().find(|(id, _)| *id == server)?;
        tools.iter().find(|tool| tool.name == name)
    };
    let mut access = Access::new(&settings.policy).expect("the gate took the policy");
    access.learn(|server, name| find(server, name).is_some());
    let said = find(&tool.server, &tool.tool).expect("only what was offered is called").annotations;
    let annotations = access.annotations(&tool.server, &tool.tool, said);
    let is_safe = annotations.read_only == Some(true) || annotations.idempotent == Some(true);
    (access.verdict(&tool.server, &tool.tool, said), is_safe)
}
