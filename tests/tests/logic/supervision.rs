//! Tests components that crash: the error is clear, a new instance takes over, and other calls continue.

use std::path::PathBuf;

use toolgate::decide::{Decide, ExecutionId, GateId};
use toolgate::logic::types::execution::{Code, Directive, Event, Summary, ToolCall, ToolResult};
use toolgate::logic::types::{Annotations, Tool};
use toolgate::logic::{Allocation, Cache, Component, ComponentOptions, InstanceLimits, LogicError, Supervisor};

fn faulty() -> PathBuf {
    toolgate_tests::faulty(env!("CARGO_TARGET_TMPDIR"))
}

fn faulty_supervisor(limits: InstanceLimits) -> Supervisor {
    let options = ComponentOptions { limits, ..ComponentOptions::default() };
    Supervisor::new(Component::from_file(faulty(), &options).expect("it fits the world")).expect("it starts")
}

/// Every fault, and what is said of it.
fn break_it(logic: &mut Supervisor) {
    let mut broken = 0;
    for (fault, reason) in [
        ("panic", "the gate is stuck"),
        ("chatter", "chatter"),
        ("exit", "exit"),
        ("recurse", "wasm trap"),
        ("loop", "fuel"),
        ("grow", "memory"),
    ] {
        let error = logic.normalize(fault).unwrap_err();
        assert!(error.to_string().contains(reason), "{fault}: {error}");
        assert!(error.to_string().len() < 6_000, "{fault}: {} bytes", error.to_string().len());
        broken += 1;
        assert_eq!(logic.replacements(), broken, "{fault}");
        assert_eq!(logic.normalize("fine").unwrap(), "fine", "after {fault}");
    }
}

const SMALL: InstanceLimits = InstanceLimits { fuel: Some(50_000_000), memory_bytes: 32 << 20 };

#[test]
fn each_fault_is_an_error_with_its_reason_and_the_next_call_works() {
    break_it(&mut faulty_supervisor(SMALL));
}

#[test]
fn the_same_holds_on_a_worker_of_an_async_runtime() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let mut logic = faulty_supervisor(SMALL);
    runtime.block_on(async { tokio::spawn(async move { break_it(&mut logic) }).await }).unwrap();
}

#[test]
fn other_gates_do_not_notice() {
    let options =
        ComponentOptions { limits: SMALL, allocation: Allocation::Pooled { instances: 2 }, cache: Cache::None };
    let component = Component::from_file(faulty(), &options).unwrap();
    let mut one = Supervisor::new(component.clone()).unwrap();
    let mut other = Supervisor::new(component).unwrap();
    assert!(matches!(one.normalize("panic"), Err(LogicError::Trap { .. })));
    assert_eq!(other.normalize("fine").unwrap(), "fine");
    assert_eq!(other.replacements(), 0);
    assert_eq!(one.normalize("fine").unwrap(), "fine", "its own place in a full pool is free again");
}

/// The real component with so little fuel that a large answer is too much for it, and with masks if wanted.
fn starved(masks: &[&str], fuel: u64) -> (Supervisor, GateId) {
    let limits = InstanceLimits { fuel: Some(fuel), ..InstanceLimits::default() };
    let options = ComponentOptions {
        limits,
        cache: toolgate_tests::component().options().cache.clone(),
        ..ComponentOptions::default()
    };
    let mut logic = Supervisor::new(Component::embedded(&options).unwrap()).unwrap();
    let mut settings = logic.default_settings(&["a".to_owned(), "lazy".to_owned()]).unwrap();
    settings.masks.groups = masks.iter().map(|&group| group.to_owned()).collect();
    settings.max_result_bytes = 0;
    let gate = logic.open_gate(&settings).unwrap().unwrap();
    logic.offer(gate, "a", &[tool("x"), tool("y")]).unwrap();
    (logic, gate)
}

fn tool(name: &str) -> Tool {
    let annotations = Annotations { read_only: None, destructive: None, idempotent: None, open_world: None };
    Tool { name: name.to_owned(), description: None, input_schema: None, annotations }
}

fn begin(logic: &mut Supervisor, gate: GateId, name: &str) -> (ExecutionId, Directive) {
    let call = ToolCall { id: "7".to_owned(), name: name.to_owned(), arguments: String::new() };
    logic.begin(gate, call).unwrap()
}

fn answer(text: &str) -> Event {
    Event::Answered(format!(r#"{{"content":[{{"type":"text","text":"{text}"}}]}}"#))
}

/// Too much for the fuel of [`starved`], with masks and without.
fn huge() -> Event {
    answer(&"password: hunter2hunter2 ".repeat(400_000))
}

fn done(directive: Directive) -> ToolResult {
    match directive {
        Directive::Done(result) => result,
        other => panic!("not done: {other:?}"),
    }
}

#[test]
fn a_call_that_breaks_the_component_twice_ends_and_the_others_go_on() {
    let (mut logic, gate) = starved(&[], 8_000_000);
    let (bystander, _) = begin(&mut logic, gate, "a.x");
    let (culprit, _) = begin(&mut logic, gate, "a.y");
    let result = done(logic.next(culprit, huge()).unwrap());
    assert_eq!((result.code, result.is_error), (Code::Internal, true));
    assert_eq!((result.call_id.as_str(), result.name.as_str(), result.attempts), ("7", "a.y", 1));
    assert!(result.text.contains("the tool ran, but its answer could not be read"), "{}", result.text);
    assert_eq!(logic.replacements(), 2);
    assert!(matches!(logic.take_fault(), Some(LogicError::Fuel { .. })));
    assert!(logic.take_fault().is_none());
    let result = done(logic.next(bystander, answer("hello")).unwrap());
    assert_eq!((result.code, result.text.as_str()), (Code::Ok, "hello"));
    assert_eq!(done(begin(&mut logic, gate, "a.nope").1).code, Code::UnknownTool);
}

#[test]
fn a_forwarded_result_ends_a_call_as_the_component_would() {
    let (mut logic, gate) = starved(&[], 8_000_000);
    let (call, directive) = begin(&mut logic, gate, "a.x");
    let Directive::Request(request) = directive else { panic!("{directive:?}") };
    let forwarded = |is_error| Event::Forwarded(Summary { is_error });
    let ended = done(logic.next(call, forwarded(false)).unwrap());
    assert_eq!((ended.code, ended.call_id.as_str(), ended.attempts), (Code::Ok, "7", 1));
    assert_eq!((ended.tool, request.forward.is_some()), (Some(request.tool), true));
    assert!(ended.trace.last().is_some_and(|note| note.contains("passed through")), "{:?}", ended.trace);
    assert!(logic.trace(call).is_err(), "it is over");
    // The component ends a call whose result is an error.
    let (call, _) = begin(&mut logic, gate, "a.x");
    assert_eq!(done(logic.next(call, forwarded(true)).unwrap()).code, Code::ToolError);
}

#[test]
fn an_answer_that_could_not_be_masked_is_redacted() {
    let (mut logic, gate) = starved(&["basic"], 500_000_000);
    let (call, _) = begin(&mut logic, gate, "a.x");
    let result = done(logic.next(call, huge()).unwrap());
    assert_eq!(result.code, Code::MaskingFailed);
    assert_eq!(result.text, "[REDACTED: data masking failure — tool result could not be safely processed]");
    assert!(!format!("{result:?}").contains("hunter2"));
}

#[test]
fn a_call_is_fed_what_was_offered_when_it_began() {
    let (mut logic, gate) = starved(&[], 8_000_000);
    // One call has begun on an offer that is gone, one waits for a server that has spoken since.
    let (old, _) = begin(&mut logic, gate, "a.x");
    let (waiting, directive) = begin(&mut logic, gate, "lazy.run");
    assert_eq!(directive, Directive::Connect(vec!["lazy".to_owned()]));
    logic.offer(gate, "a", &[tool("y")]).unwrap();
    logic.offer(gate, "lazy", &[tool("run")]).unwrap();
    let (culprit, _) = begin(&mut logic, gate, "a.y");
    done(logic.next(culprit, huge()).unwrap());
    assert_eq!(logic.replacements(), 2);
    assert_eq!(done(logic.next(old, answer("old")).unwrap()).text, "old");
    let Directive::Request(request) = logic.next(waiting, Event::Connected).unwrap() else { panic!("no request") };
    assert_eq!(
        (request.tool.server.as_str(), request.tool.tool.as_str(), request.arguments.as_str()),
        ("lazy", "run", "{}")
    );
    assert_eq!(done(begin(&mut logic, gate, "a.x").1).code, Code::UnknownTool);
}

#[test]
fn an_offer_that_breaks_the_component_is_not_taken() {
    let (mut logic, gate) = starved(&[], 8_000_000);
    let (call, _) = begin(&mut logic, gate, "a.x");
    let flood: Vec<Tool> = (0..100_000).map(|n| tool(&format!("tool_{n}"))).collect();
    assert!(matches!(logic.offer(gate, "lazy", &flood), Err(LogicError::Fuel { .. })));
    assert_eq!(done(logic.next(call, answer("hello")).unwrap()).text, "hello");
    assert!(matches!(begin(&mut logic, gate, "a.y").1, Directive::Request(_)));
}

#[test]
fn what_breaks_while_its_fate_is_open_is_outcome_unknown() {
    let (mut logic, gate) = starved(&[], 8_000_000);
    let (call, _) = begin(&mut logic, gate, "a.x");
    let message = "x".repeat(30_000_000);
    let failure = toolgate::logic::types::Failure::Protocol(message);
    let phase = toolgate::logic::types::Phase::Sent;
    let event = Event::Failed(toolgate::logic::types::execution::Failed { failure, phase });
    let result = done(logic.next(call, event).unwrap());
    assert_eq!(result.code, Code::OutcomeUnknown);
    assert!(result.text.contains("the tool may have run"), "{}", &result.text[..200]);
}

#[test]
fn what_is_over_is_forgotten() {
    let (mut logic, gate) = starved(&[], 8_000_000);
    let (call, _) = begin(&mut logic, gate, "a.x");
    done(logic.next(call, answer("hello")).unwrap());
    assert!(matches!(logic.next(call, answer("again")), Err(LogicError::ForeignHandle)));
    logic.close_gate(gate).unwrap();
    assert!(logic.offer(gate, "a", &[]).is_err());
}
