//! What the way to a server and back costs, beside the bare wire and beside the official Rust SDK's client.
//!
//! Run with `cargo build --release --workspace && cargo bench -p toolgate-tests --bench links`. Times of so few
//! microseconds hang on where the processes run: on a busy machine, keep them on one core (`taskset -c 0`).

mod allocations;
mod clients;
mod programs;
mod raw;

use std::time::Duration;

use clients::Clients;
use raw::HttpServer;
use toolgate_tests::bare::Pipe;
use toolgate_tests::race::{base, compare, race, report};

fn main() {
    // One of the parts may be named, for those who look into it.
    let part = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let wanted = |name: &str| part.as_deref().is_none_or(|part| name.starts_with(part));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime starts");
    if wanted("stdio") {
        stdio(&runtime);
    }
    if wanted("http") {
        http(&runtime);
    }
    if wanted("programs") {
        programs::all();
    }
}

const ROUNDS: usize = 25;
const ECHO: &str = env!("CARGO_BIN_EXE_echo");
const TEXT: &str =
    "about a hundred bytes of text, as a model may well write them: small, but not so small as to be unreal";

fn stdio(runtime: &tokio::runtime::Runtime) {
    let mut pipe = Pipe::open(ECHO, &[]);
    let clients = runtime.block_on(Clients::of_program(ECHO));
    let arguments = format!(r#"{{"text":"{TEXT}"}}"#);
    let mut run = |calls: u32, tool: &str, arguments: &str| {
        let times = race(
            ROUNDS,
            1,
            [
                &mut || (0..calls).for_each(|_| pipe.call(tool, arguments)),
                &mut || runtime.block_on(clients.through_gate(calls, tool, arguments)),
                &mut || runtime.block_on(clients.through_session(calls, tool, arguments)),
                &mut || runtime.block_on(clients.through_rmcp(calls, tool, arguments)),
            ],
        );
        times.map(|time| time / calls)
    };
    let times = run(200, "echo", &arguments);
    show("small call over stdio", times, Some(1.3));
    let times = run(5, "payload", r#"{"bytes":1000000}"#);
    show("1 MB over stdio", times, Some(1.5));
    let times = run(50, "table", "{}");
    if show("26 KB of structured content over stdio", times, None) {
        let [raw, gate, session, rmcp] = times;
        report("26 KB of structured content, session against rmcp", session, rmcp, 0.25);
        report("26 KB of structured content, gate against rmcp", gate, rmcp, 0.25);
        // The server's work is in all of these times; without it, what is left is the client's.
        report("the same without the server's share, session", session - raw, rmcp - raw, 0.25);
        report("the same without the server's share, gate", gate - raw, rmcp - raw, 0.25);
    }
    runtime.block_on(allocations(&clients, &arguments));
    runtime.block_on(clients.close());
}

/// Shows the times of all four; whether they can be believed.
fn show(what: &str, times: [Duration; 4], limit: Option<f64>) -> bool {
    let [raw, gate, session, rmcp] = times;
    let what = |who: &str| format!("{what}, {who}");
    base(&what("bare"), raw);
    // Nobody can be faster than the wire that all of them use: then something else had the processor.
    let believable = raw < gate.min(session).min(rmcp);
    match limit {
        Some(limit) if believable => report(&what("gate"), gate, raw, limit),
        _ => compare(&what("gate"), gate, raw),
    }
    compare(&what("session"), session, raw);
    compare(&what("rmcp"), rmcp, raw);
    if !believable {
        println!("NO VERDICT: something was faster than the bare wire, so the machine was busy; run it again");
    }
    believable
}

async fn allocations(clients: &Clients, arguments: &str) {
    let (session, gate, rmcp) = (
        clients.through_session(CALLS, "echo", arguments),
        clients.through_gate(CALLS, "echo", arguments),
        clients.through_rmcp(CALLS, "echo", arguments),
    );
    let [session, gate, rmcp] =
        [allocations::during(session).await, allocations::during(gate).await, allocations::during(rmcp).await]
            .map(|count| count as f64 / f64::from(CALLS));
    let verdict = if session < 20.0 { "ok" } else { "TOO MANY" };
    println!("{:<58} {session:>10.1}  (under 20) {verdict}", "allocations in a small call, session");
    println!("{:<58} {gate:>10.1}", "allocations in a small call, gate");
    println!("{:<58} {rmcp:>10.1}", "allocations in a small call, rmcp");
}

const CALLS: u32 = 100;

fn http(runtime: &tokio::runtime::Runtime) {
    for (how, json, era, limit) in [
        ("HTTP, JSON, 2025", true, "legacy", Some(1.5)),
        ("HTTP, JSON, 2026", true, "2026-07-28", Some(1.5)),
        ("HTTP, events and a session, 2025", false, "legacy", None),
    ] {
        let server = HttpServer::start(ECHO, json);
        let raw = runtime.block_on(server.connect(era));
        let clients = runtime.block_on(Clients::of_site(&server.url(), era));
        let arguments = format!(r#"{{"text":"{TEXT}"}}"#);
        let calls = 100;
        let times = race(
            ROUNDS,
            1,
            [
                &mut || runtime.block_on(raw.calls(calls, "echo", &arguments)),
                &mut || runtime.block_on(clients.through_gate(calls, "echo", &arguments)),
                &mut || runtime.block_on(clients.through_session(calls, "echo", &arguments)),
                &mut || runtime.block_on(clients.through_rmcp(calls, "echo", &arguments)),
            ],
        )
        .map(|time| time / calls);
        show(&format!("small call over {how}"), times, limit);
        runtime.block_on(clients.close());
    }
}
