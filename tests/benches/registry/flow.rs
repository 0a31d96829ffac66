//! Small calls on one server that all gates share: one after the other, and side by side.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::runtime::Runtime;
use toolgate::gate::Gate;
use toolgate::logic::types::execution::Code;
use toolgate::logic::{Cache, Component, ComponentOptions, InstanceLimits};
use toolgate::registry::Registry;
use toolgate::session::{RequestTimeouts, SessionRequest};
use toolgate_tests::bare::Pipe;
use toolgate_tests::race::{base, compare, race, report, verdict};

use super::{ECHO, TEXT, call, gate, narrow_runtime, registry, runtime, tell};

/// Compares with the bare wire.
pub fn flow() {
    let (narrow, wide) = (narrow_runtime(), runtime());
    let component = toolgate_tests::component();
    let (on_narrow, on_wide) = (Side::new(&narrow, &component), Side::new(&wide, &component));
    let unmetered = Side::new(&narrow, &unmetered());
    let arguments = format!(r#"{{"text":"{TEXT}"}}"#);
    let mut pipe = Pipe::open(ECHO, &[]);

    let [bare, gate, unmetered_gate, session] = race(
        ROUNDS,
        1,
        [
            &mut || (0..IN_A_ROW).for_each(|_| pipe.call("echo", &arguments)),
            &mut || narrow.block_on(on_narrow.in_a_row(IN_A_ROW, &arguments)),
            &mut || narrow.block_on(unmetered.in_a_row(IN_A_ROW, &arguments)),
            &mut || narrow.block_on(on_narrow.without_a_gate(IN_A_ROW, &arguments)),
        ],
    )
    .map(|time| time / IN_A_ROW as u32);
    base("small call over stdio, bare", bare);
    report("small call over stdio, gate on a shared connection", gate, bare, 1.4);
    compare("small call over stdio, gate without fuel", unmetered_gate, bare);
    compare("small call over stdio, session without a gate", session, bare);

    let [bare, gate, wide_gate] = race(
        ROUNDS,
        1,
        [
            &mut || pipe.call_side_by_side(SIDE_BY_SIDE, AT_A_TIME, "echo", &arguments),
            &mut || narrow.block_on(on_narrow.side_by_side(SIDE_BY_SIDE, &arguments)),
            &mut || wide.block_on(on_wide.side_by_side(SIDE_BY_SIDE, &arguments)),
        ],
    )
    .map(rate);
    tell(&format!("calls a second, {AT_A_TIME} at a time, bare"), format!("{bare:.0}"));
    let ratio = gate / bare;
    verdict(
        &format!("calls a second, {AT_A_TIME} at a time, gate on one thread"),
        &format!("{gate:.0}"),
        &format!("{ratio:.2} ×, at least 0.6 ×"),
        ratio >= 0.6,
    );
    tell("the same on a thread for each core", format!("{wide_gate:.0}"));
    narrow.block_on(on_narrow.registry.close());
    narrow.block_on(unmetered.registry.close());
    wide.block_on(on_wide.registry.close());
}

/// The component, which nobody stops however long it takes.
fn unmetered() -> Component {
    let limits = InstanceLimits { fuel: None, ..InstanceLimits::default() };
    let cache = Cache::Dir(std::env::temp_dir().join("toolgate-bench-unmetered"));
    Component::embedded(&ComponentOptions { limits, cache, ..ComponentOptions::default() }).expect("it loads")
}

fn rate(time: Duration) -> f64 {
    SIDE_BY_SIDE as f64 / time.as_secs_f64()
}

/// A registry of its own, and gates that share its server.
struct Side {
    registry: Arc<Registry>,
    gates: Vec<Arc<Gate>>,
}

impl Side {
    fn new(runtime: &Runtime, component: &Component) -> Side {
        runtime.block_on(async {
            let server = format!("it: {{command: {ECHO}, protocol: legacy}}");
            let registry = registry(component, &[server]);
            let gates: Vec<_> = (0..GATES).map(|_| gate(&registry)).collect();
            for gate in &gates {
                gate.refresh().await;
            }
            Side { registry, gates }
        })
    }

    async fn in_a_row(&self, calls: usize, arguments: &str) {
        for _ in 0..calls {
            one(&self.gates[0], arguments).await;
        }
    }

    async fn without_a_gate(&self, calls: usize, arguments: &str) {
        let session = self.registry.links()[0].session().await.expect("the server runs");
        for _ in 0..calls {
            let params = format!(r#"{{"name":"echo","arguments":{arguments}}}"#);
            let timeouts = RequestTimeouts::of(Duration::from_secs(60));
            let request = SessionRequest { method: "tools/call", params: &params, timeouts, progress: None };
            black_box(session.request(request).await.expect("the server answers"));
        }
    }

    async fn side_by_side(&self, calls: usize, arguments: &str) {
        let left = Arc::new(AtomicUsize::new(calls));
        let tasks: Vec<_> = (0..AT_A_TIME)
            .map(|n| {
                let (gate, left) = (Arc::clone(&self.gates[n % GATES]), Arc::clone(&left));
                let arguments = arguments.to_owned();
                tokio::spawn(async move {
                    while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
                        one(&gate, &arguments).await;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("no call panics");
        }
    }
}

async fn one(gate: &Gate, arguments: &str) {
    let called = call(gate, "it__echo", arguments.to_owned()).await;
    assert_eq!(called.result.code, Code::Ok, "{}", called.result.text);
    black_box(called);
}

const ROUNDS: usize = 15;
const GATES: usize = 4;
const IN_A_ROW: usize = 500;
const SIDE_BY_SIDE: usize = 4_000;
const AT_A_TIME: usize = 64;
