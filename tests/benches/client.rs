//! World `client`: its throughput on one instance, and what it costs a host that has an engine already.
//!
//! Run with `cargo bench -p toolgate-tests --bench client`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use toolgate::decide::Decide;
use toolgate::logic::types::execution::{Code, Directive, Event, Settings};
use toolgate::logic::types::{Annotations, Tool};
use toolgate::logic::{Cache, Component, ComponentOptions, InstanceLimits, Supervisor};
use toolgate_tests::client::{House, Wish, Wishes, call};
use toolgate_tests::race::{base, race, report};
use wasmtime::component::Linker;
use wasmtime::{Engine, Store};

fn main() {
    throughput();
    starting();
}

/// So many calls are under way at a time.
const CALLS: usize = 64;
const ANSWER: &str = r#"{"content":[{"type":"text","text":"pod-1 Running, pod-2 Running"}],"isError":false}"#;
const ARGUMENTS: &str = r#"{"namespace":"default","limit":10}"#;

/// 64 calls at once with a transport that answers at once: the component's own loop against that of a host of world `logic`.
/// Neither counts fuel, which a host may choose.
fn throughput() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime can be had");
    let (mut logic, settings) = supervisor();
    let gate = logic.open_gate(&settings).expect("it answers").expect("good settings");
    let annotations = Annotations { read_only: None, destructive: None, idempotent: None, open_world: None };
    let tool = Tool { name: "find".into(), description: None, input_schema: None, annotations };
    logic.offer(gate, "k8s", &[tool]).expect("it answers");
    let mut native = || {
        let mut running: Vec<_> = (0..CALLS)
            .map(|n| logic.begin(gate, call(&n.to_string(), "k8s__find", ARGUMENTS)).expect("it answers"))
            .collect();
        for (execution, directive) in running.drain(..) {
            assert!(matches!(directive, Directive::Request(_)));
            match logic.next(execution, Event::Answered(ANSWER.to_owned())).expect("it answers") {
                Directive::Done(result) => assert_eq!(result.code, Code::Ok),
                other => panic!("not done: {other:?}"),
            }
        }
    };

    let wishes: Wishes = Arc::new(|wish| {
        let list = matches!(&wish, Wish::Request { method, .. } if method == "tools/list");
        let answer = if list { r#"{"tools":[{"name":"find"}]}"# } else { ANSWER };
        Box::pin(std::future::ready(Ok(answer.to_owned())))
    });
    let (mut store, client) = runtime.block_on(House::new(None).open(wishes));
    let executor = client.toolgate_client_tool_executor();
    let configured =
        runtime.block_on(store.run_concurrent(async |store| executor.call_configure(store, settings).await));
    configured.and_then(|configured| configured).expect("it does not trap").expect("good settings");
    let mut component = || {
        let run = store.run_concurrent(async |store| {
            let calls = (0..CALLS).map(|n| executor.call_execute(store, call(&n.to_string(), "k8s__find", ARGUMENTS)));
            join_all(calls).await
        });
        for result in runtime.block_on(run).expect("it does not trap") {
            assert_eq!(result.expect("it does not trap").code, Code::Ok);
        }
    };

    let [native, component] = race(25, 20, [&mut native, &mut component]);
    let each = |time: Duration| time / CALLS as u32;
    base("a call in the native loop, 64 at a time", each(native));
    report("the same in world client, on one instance", each(component), each(native), 2.0);
}

/// A host has an engine, and the component was compiled before: how long until it is loaded, and the first instance stands.
fn starting() {
    let engine = Engine::default();
    // The first time compiles, and keeps what came of it.
    toolgate_tests::client::compiled(&engine);
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime can be had");
    let (mut loading, mut linking): (Vec<Duration>, Vec<Duration>) = (0..25)
        .map(|_| {
            let begun = Instant::now();
            let component = toolgate_tests::client::compiled(&engine);
            let loaded = begun.elapsed();
            let begun = Instant::now();
            let mut linker = Linker::<View>::new(&engine);
            toolgate::add_to_linker(&mut linker).expect("the names are free");
            linker.define_unknown_imports_as_traps(&component).expect("the rest is WASI");
            let mut store = Store::new(&engine, View(toolgate::ToolgateCtx::new()));
            let started = runtime.block_on(linker.instantiate_async(&mut store, &component));
            started.expect("it starts");
            (loaded, begun.elapsed())
        })
        .unzip();
    let median = |times: &mut Vec<Duration>| {
        times.sort_unstable();
        times[times.len() / 2]
    };
    base("the compiled component from the cache", median(&mut loading));
    let linking = median(&mut linking);
    let verdict = if linking < Duration::from_millis(5) { "ok" } else { "TOO SLOW" };
    println!("{:<58} {linking:>10.2?}  (less than 5 ms) {verdict}", "add_to_linker and the first instance");
}

struct View(toolgate::ToolgateCtx);

impl toolgate::ToolgateView for View {
    fn toolgate(&mut self) -> &mut toolgate::ToolgateCtx {
        &mut self.0
    }
}

fn supervisor() -> (Supervisor, Settings) {
    let folder = std::env::temp_dir().join("toolgate-figures");
    let limits = InstanceLimits { fuel: None, ..InstanceLimits::default() };
    let options = ComponentOptions { limits, cache: Cache::Dir(folder), ..ComponentOptions::default() };
    let component = Component::embedded(&options).expect("the component loads");
    let mut logic = Supervisor::new(component).expect("it starts");
    let settings = logic.default_settings(&["k8s".to_owned()]).expect("it answers");
    (logic, settings)
}
