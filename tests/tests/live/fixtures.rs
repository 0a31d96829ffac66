//! The fixture server as an endpoint, with helpers for tests.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use serde_json::Value;
use toolgate::failure::RequestError;
use toolgate::logic::{Cache, Component, InstanceLimits};
use toolgate::session::{RequestTimeouts, Session, SessionOptions, SessionRequest};
use toolgate::transport::endpoint::{Endpoint, Program};

/// The fixture in the mode of these words.
pub fn fixture(words: &str) -> Endpoint {
    let args = words.split(' ').map(str::to_owned).collect();
    program(env!("CARGO_BIN_EXE_fixture"), args)
}

/// Any program.
pub fn program(command: &str, args: Vec<String>) -> Endpoint {
    let path = std::env::var("PATH").unwrap_or_default();
    Endpoint::Stdio(Program {
        command: command.to_owned(),
        args,
        env: BTreeMap::from([("PATH".to_owned(), path)]),
        working_dir: None,
        max_message_bytes: 64 << 20,
        grace: Duration::from_secs(2),
        secrets: Default::default(),
    })
}

/// The component, compiled once for all tests: in this process, and in the folder for the others.
pub fn component() -> Component {
    static COMPONENT: OnceLock<Component> = OnceLock::new();
    let load = || {
        let cache = Cache::Dir(Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache"));
        let options = toolgate::logic::ComponentOptions { cache, ..Default::default() };
        Component::embedded(&options).expect("the component loads")
    };
    COMPONENT.get_or_init(load).clone()
}

/// The component that does what the arguments of a call say, or keeps it out.
pub fn faulty() -> Component {
    let limits = InstanceLimits { fuel: Some(50_000_000), memory_bytes: 32 << 20 };
    let options = toolgate::logic::ComponentOptions { limits, ..Default::default() };
    let file = toolgate_tests::faulty(env!("CARGO_TARGET_TMPDIR"));
    Component::from_file(file, &options).expect("it fits the world")
}

/// A session with the fixture in the mode of these words.
pub async fn open(words: &str) -> Session {
    match Session::open(&fixture(words), &SessionOptions::default()).await {
        Ok(session) => session,
        Err(failed) => panic!("fixture {words}: {failed}"),
    }
}

/// Waits for something that nobody tells of.
pub async fn until(what: &str, mut there: impl FnMut() -> bool) {
    let since = Instant::now();
    while !there() {
        assert!(since.elapsed() < LONG, "still waiting: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// How long a test waits for what must come.
pub const LONG: Duration = Duration::from_secs(60);

/// Calls a tool and gives the whole result.
pub async fn call(session: &Session, tool: &str, arguments: &str) -> Result<Value, RequestError> {
    call_within(session, tool, arguments, LONG).await
}

/// Calls a tool, and waits at most this long.
pub async fn call_within(
    session: &Session,
    tool: &str,
    arguments: &str,
    limit: Duration,
) -> Result<Value, RequestError> {
    let params = format!(r#"{{"name":"{tool}","arguments":{arguments}}}"#);
    let request =
        SessionRequest { method: "tools/call", params: &params, timeouts: RequestTimeouts::of(limit), progress: None };
    let reply = session.request(request).await?;
    Ok(serde_json::from_str(reply.json()).expect("a result is JSON"))
}

/// The text of a result.
pub fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().expect("the result begins with text")
}

/// A place where a callback leaves what it was given.
pub type Basket<T> = Arc<Mutex<Vec<T>>>;
