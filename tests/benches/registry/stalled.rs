//! A server that does not answer, beside servers that do.

use std::sync::Arc;
use std::time::{Duration, Instant};

use toolgate::gate::Gate;
use toolgate::logic::types::execution::Code;
use toolgate_tests::race::{base, verdict};

use super::{ECHO, FIXTURE, TEXT, call, gate, median, narrow_runtime, registry};

/// Measures the servers that work, with and without calls that hang on the other.
pub fn stalled() {
    let runtime = narrow_runtime();
    let mut servers: Vec<_> = (0..HEALTHY).map(|n| format!("s{n}: {{command: {ECHO}, protocol: legacy}}")).collect();
    servers.push(format!("stalled: {{command: {FIXTURE}, args: [silent-call], timeouts: {{call: 10m}}}}"));
    runtime.block_on(async {
        let registry = registry(&toolgate_tests::component(), &servers);
        let gate = gate(&registry);
        gate.refresh().await;
        p99(&gate).await;
        let (mut alone, mut beside, mut again) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            alone.push(p99(&gate).await);
            let hanging = hang(&gate);
            let stalled = registry.link("stalled").expect("it is configured");
            while stalled.status().calls.in_flight < HANGING as u64 {
                tokio::task::yield_now().await;
            }
            beside.push(p99(&gate).await);
            assert_eq!(stalled.status().calls.in_flight, HANGING as u64, "they hang no longer");
            assert!(gate.cancel("hangs"));
            for hanging in hanging {
                assert_eq!(hanging.await.expect("no call panics"), Code::Cancelled);
            }
            again.push(p99(&gate).await);
        }
        let (alone, beside, again) = (median(&mut alone), median(&mut beside), median(&mut again));
        base(&format!("99 of 100 calls to {HEALTHY} servers, all well"), alone);
        let ratio = beside.as_secs_f64() / alone.as_secs_f64();
        let what = format!("the same, {HANGING} calls hanging on another");
        verdict(&what, &format!("{beside:.2?}"), &format!("{ratio:.2} ×, at most 1.1 ×"), ratio <= 1.1);
        let ratio = again.as_secs_f64() / alone.as_secs_f64();
        base("all well, a second time", again);
        if !(0.9..=1.1).contains(&ratio) {
            println!("NO VERDICT: the same differs by more than that, so the machine was busy; run it again");
        }
        registry.close().await;
    });
}

async fn p99(gate: &Gate) -> Duration {
    let mut times = Vec::with_capacity(CALLS);
    for n in 0..CALLS {
        let name = format!("s{}__echo", n % HEALTHY);
        let begun = Instant::now();
        let called = call(gate, &name, format!(r#"{{"text":"{TEXT}"}}"#)).await;
        times.push(begun.elapsed());
        assert_eq!(called.result.code, Code::Ok, "{}", called.result.text);
    }
    times.sort_unstable();
    times[CALLS * 99 / 100]
}

fn hang(gate: &Arc<Gate>) -> Vec<tokio::task::JoinHandle<Code>> {
    let one = |_| {
        let gate = Arc::clone(gate);
        tokio::spawn(async move {
            let call = toolgate::logic::types::execution::ToolCall {
                id: "hangs".to_owned(),
                name: "stalled__echo".to_owned(),
                arguments: r#"{"text":"x"}"#.to_owned(),
            };
            let called = gate.call(call, &Default::default()).await;
            called.expect("the component answers").result.code
        })
    };
    (0..HANGING).map(one).collect()
}

const ROUNDS: usize = 15;
const HEALTHY: usize = 4;
const HANGING: usize = 32;
const CALLS: usize = 2_000;
