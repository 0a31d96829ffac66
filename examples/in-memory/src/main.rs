//! A host with its own transport: the server is a struct in the same process.

use wasmtime::component::{Component, Linker, ResourceAny};
use wasmtime::{Config, Engine, Error, Result, Store, StoreLimits, StoreLimitsBuilder};

use logic::exports::toolgate::logic::execution::{Condensed, Directive, Event, Failed, Guest, ToolCall, ToolResult};
use logic::exports::toolgate::logic::types::{Annotations, Failure, Phase, Tool};

#[allow(missing_docs, reason = "the documentation is in the WIT")]
mod logic {
    wasmtime::component::bindgen!({ path: "../../wit", world: "logic" });
}

/// The fuel for one question, about one unit per instruction.
const FUEL: u64 = 20_000_000_000;

/// A server with one tool, whose connection breaks now and then.
#[derive(Default)]
struct Clock {
    requests: u32,
}

impl Clock {
    fn call(&mut self, tool: &str, arguments: &str) -> Event {
        self.requests += 1;
        // No byte of the second request was sent, so the component may retry.
        if self.requests == 2 {
            return Event::Failed(Failed { failure: Failure::Closed, phase: Phase::NotSent });
        }
        println!("  the clock is asked {tool} {arguments}");
        Event::Answered(r#"{"content":[{"type":"text","text":"half past nine"}]}"#.to_owned())
    }
}

fn main() -> Result<()> {
    let file = std::env::args().nth(1).ok_or_else(|| Error::msg("which component? give the file, logic.wasm"))?;
    let engine = Engine::new(Config::new().consume_fuel(true))?;
    let component = Component::from_file(&engine, file)?;
    let mut linker = Linker::new(&engine);
    // Rust's standard library imports these, and calls them only to report a panic.
    linker.define_unknown_imports_as_traps(&component)?;
    let mut store = Store::new(&engine, StoreLimitsBuilder::new().memory_size(256 << 20).build());
    store.limiter(|limits| limits);
    store.set_fuel(FUEL)?;
    let logic = logic::Logic::instantiate(&mut store, &component, &linker)?;
    let logic = logic.toolgate_logic_execution();

    let settings = logic.call_default_settings(&mut store, &["clock".to_owned()])?;
    let gate = logic.gate().call_constructor(&mut store, &settings)?.map_err(|bad| Error::msg(format!("{bad:?}")))?;
    let annotations = Annotations { read_only: Some(true), destructive: None, idempotent: None, open_world: None };
    let schema = r#"{"type":"object","properties":{"zone":{"type":"string"}}}"#;
    let tool = Tool { name: "tell".into(), description: None, input_schema: Some(schema.into()), annotations };
    logic.gate().call_offer(&mut store, gate, "clock", &[tool])?;

    let mut clock = Clock::default();
    for (name, arguments) in [("clock__tell", ""), ("clock.tell", "zone: Bern"), ("clock.set", "hour: 7")] {
        let call = ToolCall { id: "1".into(), name: name.into(), arguments: arguments.into() };
        let result = run(&mut store, logic, gate, &call, &mut clock)?;
        println!("{name}: {:?} after {} request(s): {}", result.code, result.attempts, result.text);
    }
    Ok(())
}

/// The whole loop: the component says what to do, and the host does it and reports.
fn run(
    store: &mut Store<StoreLimits>,
    logic: &Guest,
    gate: ResourceAny,
    call: &ToolCall,
    clock: &mut Clock,
) -> Result<ToolResult> {
    store.set_fuel(FUEL)?;
    let started = logic.gate().call_begin(&mut *store, gate, call)?;
    let mut directive = started.directive;
    loop {
        let event = match directive {
            Directive::Request(request) => clock.call(&request.tool.tool, &request.arguments),
            Directive::Connect(_) => Event::Connected,
            Directive::Reconnect(_) => Event::Reconnected,
            Directive::Reauthenticate(_) => Event::Authenticated,
            Directive::Wait(range) => {
                std::thread::sleep(std::time::Duration::from_millis(range.min_ms));
                Event::Waited
            }
            // The settings have no rules, so nothing is asked about the surroundings of a call.
            Directive::Circumstances(_) | Directive::Count(_) => Event::Cancelled,
            Directive::Ask(_) => Event::Unasked,
            Directive::Condense(_) => Event::Condensed(Condensed { kept: None, summary: None }),
            Directive::Done(result) => return started.execution.resource_drop(store).map(|()| result),
        };
        store.set_fuel(FUEL)?;
        directive = logic.execution().call_next(&mut *store, started.execution, &event)?;
    }
}
