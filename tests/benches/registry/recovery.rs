//! How long a call takes whose server has just been killed.

use std::time::{Duration, Instant};

use toolgate::logic::types::execution::Code;
use toolgate_tests::bare::Pipe;
use toolgate_tests::race::{base, verdict};

use super::{FIXTURE, call, gate, kill, median, registry, runtime};

/// Kills and calls.
pub fn recovery() {
    let folder = tempfile::tempdir().expect("the folder for temporary files is writable");
    let diary = folder.path().join("diary").display().to_string();
    let (runtime, component) = (runtime(), toolgate_tests::component());
    let (mut starts, mut between, mut during) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        drop(Pipe::open(FIXTURE, &["works", &diary]));
        starts.push(begun.elapsed());
        // A new registry each time: one whose server dies again and again waits longer on purpose.
        let servers = [format!("s: {{command: {FIXTURE}, args: [works, {diary}, \"20\"], protocol: legacy}}")];
        let registry = registry(&component, &servers);
        runtime.block_on(async {
            let gate = gate(&registry);
            let look = |text: &str| call(&gate, "s__look", format!(r#"{{"text":"{text}"}}"#));
            assert_eq!(look("before").await.result.code, Code::Ok);
            kill(registry.links()[0].status().pid.expect("it runs"));
            let called = look("after").await;
            assert_eq!(called.result.code, Code::Ok, "{}", called.result.text);
            between.push(called.latency);
            let victim = registry.links()[0].status().pid.expect("it runs");
            let (called, ()) = tokio::join!(look("during"), async {
                // Once it is under way, which the server says in its diary.
                while !std::fs::read_to_string(&diary).is_ok_and(|diary| diary.ends_with("ran during\n")) {
                    tokio::task::yield_now().await;
                }
                kill(victim);
            });
            assert_eq!(called.result.code, Code::Ok, "{}", called.result.text);
            during.push(called.latency);
            registry.close().await;
        });
    }
    let start = median(&mut starts);
    base("start of a server alone", start);
    // The second in a row waits for the second delay, which is a second long.
    let limit = Duration::from_secs(1) + start;
    show("read-only call right after a kill", &mut between, limit);
    show("read-only call during a kill, the second in a row", &mut during, limit + Duration::from_secs(1));
}

fn show(what: &str, times: &mut [Duration], limit: Duration) {
    base(&format!("{what}, median"), median(times));
    let worst = times[times.len() - 1];
    verdict(&format!("{what}, worst"), &format!("{worst:.2?}"), &format!("at most {limit:.2?}"), worst <= limit);
}

const ROUNDS: usize = 15;
