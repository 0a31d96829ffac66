//! Tests calls through the component: what is retried, what is not, and what never runs twice.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use toolgate::config;
use toolgate::config::variables::Variables;
use toolgate::gate::{CallOptions, CallOutcome, Gate, GateView};
use toolgate::logic::types::execution::{Code, ToolCall};
use toolgate::registry::{self, Registry, RegistryLifetime, RegistryOptions};

use super::fixtures::component;

/// A gate over the servers of a `toolgate.yaml`, with `FIXTURE` for the path of the fixture.
fn gate(yaml: &str) -> Gate {
    gate_with(yaml, RegistryOptions::default())
}

fn gate_with(yaml: &str, options: RegistryOptions) -> Gate {
    let yaml = yaml.replace("FIXTURE", env!("CARGO_BIN_EXE_fixture"));
    let config = config::parse(&yaml, Path::new("toolgate.yaml")).expect("the test's configuration is right");
    assert!(config.notices.is_empty(), "{:?}", config.notices);
    let options = RegistryOptions { lifetime: RegistryLifetime::OneShot, ..options };
    let registry = Registry::new(&component(), config, options).expect("the component starts");
    Gate::open(&registry, GateView::default()).expect("the gate opens")
}

/// A server whose tool `echo` must not be repeated, its arguments left out.
const UNSAFE: &str =
    "servers:\n  a:\n    command: FIXTURE\n    tools: {echo: {annotations: {read_only: false, idempotent: false}}}\n";

async fn call(gate: &Gate, name: &str, arguments: &str) -> CallOutcome {
    call_with(gate, name, arguments, &CallOptions::default()).await
}

async fn call_with(gate: &Gate, name: &str, arguments: &str, options: &CallOptions) -> CallOutcome {
    let call = ToolCall { id: "1".to_owned(), name: name.to_owned(), arguments: arguments.to_owned() };
    gate.call(call, options).await.expect("the component answers")
}

#[tokio::test]
async fn only_a_long_answer_is_read_aside() {
    static ASIDE: AtomicUsize = AtomicUsize::new(0);
    let blocking_runner: registry::BlockingRunner = |work| {
        ASIDE.fetch_add(1, Ordering::SeqCst);
        work();
    };
    let yaml = "masking: {groups: [basic]}\nservers:\n  a: {command: FIXTURE, args: [plain]}\n";
    let gate = gate_with(yaml, RegistryOptions { blocking_runner, ..RegistryOptions::default() });
    for (length, aside) in [(1_000, 0), (100_000, 1)] {
        let text = format!("password: hunter2hunter2 {}", "x".repeat(length));
        let called = call(&gate, "a.echo", &format!(r#"{{"text":"{text}"}}"#)).await;
        assert!(called.result.text.starts_with("password: [MASKED_PASSWORD] xxx"), "{:.80}", called.result.text);
        assert_eq!(ASIDE.load(Ordering::SeqCst), aside, "{length}");
    }
}

#[tokio::test]
async fn a_call_starts_the_server_that_it_needs_and_no_other() {
    let gate = gate("servers:\n  a: {command: FIXTURE, args: [plain]}\n  b: {command: FIXTURE, args: [dies-before]}\n");
    let called = call(&gate, "a.add", "a: 1, b: 2").await;
    assert_eq!((called.result.code, called.result.text.as_str()), (Code::Ok, "3"));
    assert!(gate.registry().link("b").unwrap().current().is_none());
    let called = call(&gate, "b.echo", "x").await;
    assert_eq!(called.result.code, Code::ServerUnavailable);
    assert!(called.result.text.contains("exit code 3"), "{}", called.result.text);
}

#[tokio::test]
async fn a_tool_that_may_have_run_is_not_run_again() {
    for how in DEATHS {
        let folder = tempfile::tempdir().unwrap();
        let runs = folder.path().join("runs");
        let yaml = format!("{}    args: [{how}, {}]\n", UNSAFE, runs.display());
        let called = call(&gate(&yaml), "a.echo", "text: x").await;
        assert_eq!(called.result.code, Code::OutcomeUnknown, "{how}: {}", called.result.text);
        assert_eq!(std::fs::read_to_string(&runs).unwrap().lines().count(), 1, "{how}");
    }
}

#[tokio::test]
async fn a_tool_that_is_safe_is_run_again_once() {
    for how in DEATHS {
        let folder = tempfile::tempdir().unwrap();
        let runs = folder.path().join("runs");
        let yaml = format!(
            "servers:\n  a:\n    command: FIXTURE\n    args: [{how}, {}]\n    tools: {{echo: {{annotations: {{read_only: true}}}}}}\n",
            runs.display()
        );
        let called = call(&gate(&yaml), "a.echo", "text: x").await;
        assert_eq!(called.result.attempts, 2, "{how}: {:?}", called.result.trace);
        assert_eq!(called.result.code, Code::ServerUnavailable, "{how}: {}", called.result.text);
        assert_eq!(std::fs::read_to_string(&runs).unwrap().lines().count(), 2, "{how}");
    }
}

/// Before a word of the answer, and in the middle of it.
const DEATHS: [&str; 2] = ["dies-during", "dies-within"];

#[tokio::test]
async fn a_server_that_died_between_two_calls_is_opened_again() {
    let gate = gate("servers:\n  a: {command: FIXTURE, args: [dies-after]}\n");
    for said in ["one", "two", "three"] {
        let session = gate.registry().link("a").unwrap().session().await.unwrap();
        let mut event = session.events();
        let called = call(&gate, "a.echo", &format!("text: {said}")).await;
        assert_eq!((called.result.code, called.result.text.as_str()), (Code::Ok, said), "{:?}", called.result.trace);
        // Its end is what the next call must meet.
        while session.close_reason().is_none() {
            tokio::time::timeout(Duration::from_secs(30), event.recv()).await.unwrap().ok();
        }
    }
}

#[tokio::test]
async fn a_slow_call_times_out_and_the_server_lives() {
    let gate = gate(&format!("{UNSAFE}    args: [silent-call]\n"));
    let options = CallOptions { timeout: Some(Duration::from_millis(50)), ..CallOptions::default() };
    let called = call_with(&gate, "a.echo", "text: x", &options).await;
    assert_eq!(called.result.code, Code::OutcomeUnknown, "{}", called.result.text);
    assert!(gate.registry().link("a").unwrap().current().unwrap().close_reason().is_none());
}

#[tokio::test]
async fn many_calls_share_one_connection() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("calls");
    let gate = gate(&format!("servers:\n  a: {{command: FIXTURE, args: [counts, {}]}}\n", file.display()));
    let calls = (0..64).map(|n| {
        let gate = &gate;
        async move { call(gate, "a__echo", &format!("text: word {n}")).await.result.text }
    });
    let texts = futures_util::future::join_all(calls).await;
    for (n, text) in texts.iter().enumerate() {
        assert_eq!(text, &format!("word {n}"));
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap().lines().count(), 64);
}

#[tokio::test]
async fn a_tool_that_is_denied_is_neither_listed_nor_called() {
    let gate = gate("servers:\n  a: {command: FIXTURE, args: [plain], deny: [add]}\n");
    gate.connect(&gate.registry().link("a").unwrap()).await.unwrap();
    let names: Vec<_> = gate.tools(&gate.style()).unwrap().into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["a__echo"]);
    let called = call(&gate, "a.add", "a: 1, b: 2").await;
    assert!(matches!(called.result.code, Code::NotAllowed | Code::UnknownTool), "{:?}", called.result.code);
}

#[tokio::test]
async fn a_call_that_wants_approval_is_declined_where_nobody_can_give_it() {
    let gate = gate("servers:\n  a: {command: FIXTURE, args: [plain], ask: [echo]}\n");
    let called = call(&gate, "a.echo", "text: x").await;
    assert_eq!(called.result.code, Code::Declined, "{}", called.result.text);
}

#[tokio::test]
async fn a_server_that_cannot_start_fails_once_for_all_who_wait() {
    let folder = tempfile::tempdir().unwrap();
    let starts = folder.path().join("starts");
    let script = format!("echo x >> {}; read -r line; exit 3", starts.display());
    let gate = gate(&format!("servers:\n  a: {{command: sh, args: [-c, {script:?}]}}\n"));
    let calls = (0..16).map(|_| call(&gate, "a.x", ""));
    for called in futures_util::future::join_all(calls).await {
        assert_eq!(called.result.code, Code::ServerUnavailable, "{}", called.result.text);
    }
    // It read the question, so one start asks in the modern way, and one in the older way.
    assert_eq!(std::fs::read_to_string(&starts).unwrap().lines().count(), 2);
}

// Only Linux tells what a process has read.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_server_that_dies_before_it_reads_anything_is_started_once() {
    let folder = tempfile::tempdir().unwrap();
    let starts = folder.path().join("starts");
    let count = || std::fs::read_to_string(&starts).unwrap().lines().count();
    let path = starts.display();
    let never = gate(&format!("servers:\n  a: {{command: sh, args: [-c, \"echo x >> {path}; exit 3\"]}}\n"));
    let called = call(&never, "a.echo", "text: x").await;
    assert!(called.result.text.contains("exit code 3"), "{}", called.result.text);
    assert_eq!(count(), 1);

    // A server whose era is known: it comes up this time, and dies at its next start.
    let script = format!("echo x >> {path}; [ $(wc -l < {path}) = 2 ] || exit 3; exec FIXTURE dies-after");
    let once = gate(&format!("servers:\n  a: {{command: sh, args: [-c, {script:?}]}}\n"));
    let session = once.registry().link("a").unwrap().session().await.unwrap();
    let mut event = session.events();
    assert_eq!(call(&once, "a.echo", "text: x").await.result.text, "x");
    while session.close_reason().is_none() {
        tokio::time::timeout(Duration::from_secs(30), event.recv()).await.unwrap().ok();
    }
    assert_eq!(call(&once, "a.echo", "text: x").await.result.code, Code::RestartFailed);
    assert_eq!(count(), 3);
}

#[tokio::test]
async fn an_answer_of_64_mib_passes_where_no_limit_is_set() {
    let gate = gate(
        "max_result_bytes: 0\nservers:\n  a: {command: FIXTURE, args: [huge, \"67108864\"], max_message_bytes: 80MiB}\n",
    );
    let called = call(&gate, "a.big", "").await;
    assert_eq!(called.result.code, Code::Ok, "{}", called.result.text);
    assert!(called.result.text.len() > 63 << 20, "{}", called.result.text.len());
}

#[tokio::test]
async fn a_mask_that_cannot_be_used_is_the_problem_of_its_server_alone() {
    let yaml = "servers:\n  a: {command: FIXTURE, args: [plain], masking: {groups: [nope]}}\n  b: {command: FIXTURE, args: [plain]}\n";
    let gate = gate(yaml);
    let called = call(&gate, "a.echo", "x").await;
    assert_eq!(called.result.code, Code::ServerUnavailable);
    assert!(called.result.text.contains("nope"), "{}", called.result.text);
    assert_eq!(call(&gate, "b.echo", "text: x").await.result.code, Code::Ok);
}

#[tokio::test]
async fn servers_see_no_variable_that_another_server_is_given() {
    // The environment of this process is shared by all tests, so the variables are the test's own.
    let yaml = "servers:\n  a: {command: FIXTURE, args: [env], env: {MINE: \"${TOKEN_A}\"}}\n  b: {command: FIXTURE, args: [env], env: {MINE: \"${TOKEN_B}\"}}\n"
        .replace("FIXTURE", env!("CARGO_BIN_EXE_fixture"));
    let config = config::parse(&yaml, Path::new("toolgate.yaml")).unwrap();
    let mut variables = Variables::from_process();
    variables.environment.insert("TOKEN_A".to_owned(), "secret-of-a".to_owned());
    variables.environment.insert("TOKEN_B".to_owned(), "secret-of-b".to_owned());
    let registry =
        Registry::new(&component(), config, RegistryOptions { variables, ..RegistryOptions::default() }).unwrap();
    let gate = Gate::open(&registry, GateView::default()).unwrap();
    let seen = call(&gate, "a.env", "").await.result.text;
    // It has a value of its own, which nobody is shown, and does not know of the other.
    assert!(
        seen.contains("\"MINE\":\"[REDACTED]\"") && !seen.contains("TOKEN_B") && !seen.contains("secret-of"),
        "{seen}"
    );
}
