//! When a gateway says that it is ready.

use serde_json::{Value, json};

use crate::place::{Place, and, demo, each};
use crate::serving::{Serving, Web};
use crate::signals::until;

/// Asks a gateway that waits for all of these servers, until its answer passes.
fn ask_until(servers: Value, passes: impl Fn(u16, &Value) -> bool) {
    let place = Place::configured(&json!({"readiness": "all", "servers": servers}));
    let serving = Serving::start(&place, &["--http", "127.0.0.1:0"]);
    let address = serving.address();
    let web = Web { address: &address, token: None, session: None };
    let ask = || {
        let reply = web.request("GET /ready", "localhost", &[], "");
        (reply.status, serde_json::from_str::<Value>(&reply.body).unwrap())
    };
    let (status, first) = ask();
    assert_eq!((status, each(&first["waits_for"], "/server").contains(&"demo")), (503, true), "{first}");
    until("another answer", || Some(ask()).filter(|(status, answer)| passes(*status, answer)));
}

#[test]
fn a_gateway_that_waits_for_all_servers_starts_each_once() {
    ask_until(json!({"demo": demo()}), |status, answer| status == 200 && answer["waits_for"] == json!([]));
}

#[test]
fn a_gateway_that_waits_says_for_whom_and_why() {
    let broken = json!({"command": "no-such-program-of-toolgate"});
    ask_until(json!({"demo": demo(), "broken": broken}), |status, answer| {
        let why = answer["waits_for"][0]["text"].as_str().unwrap_or_default();
        let is_alone = each(&answer["waits_for"], "/server") == ["broken"];
        status == 503 && is_alone && why.starts_with("it does not start: ") && why.contains("no-such-program")
    });
}

#[test]
fn nobody_waits_for_servers_that_each_session_starts() {
    let servers = json!({
        "demo": demo(),
        "named": and(demo(), json!({"env": {"SESSION": "{{.SESSION_ID}}"}})),
        "own": and(demo(), json!({"shared": false})),
    });
    ask_until(servers, |status, answer| status == 200 && answer["warnings"] == json!([]));
}
