//! Tests that a foreign component cannot make the host do more than its gate allows.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::{Value, json};

use crate::place::{Place, fixture_with};
use crate::serving::{Serving, Web};

/// The file of a component that attacks its host where the arguments of a call say so.
fn hostile() -> &'static str {
    static FILE: OnceLock<PathBuf> = OnceLock::new();
    let file = FILE.get_or_init(|| {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hostile");
        let mut cargo = Command::new(env!("CARGO"));
        cargo.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).args(["build", "--locked"]);
        cargo.args(["-p", "toolgate-guest", "--no-default-features", "--example", "hostile"]);
        // Without any optimization, the linker of Rust 1.95 crashes on the library.
        cargo.args(["--config", "profile.dev.opt-level=1"]);
        cargo.args(["--target", "wasm32-wasip2", "--target-dir"]).arg(&target);
        for name in ["RUSTFLAGS", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER", "CARGO_ENCODED_RUSTFLAGS"] {
            cargo.env_remove(name);
        }
        assert!(cargo.status().expect("cargo starts").success(), "the hostile component does not build");
        let file = target.join("wasm32-wasip2/debug/examples/hostile.wasm");
        // It is compiled here, once and without a limit of time, and then taken from the cache by all gateways.
        Place::new().run(&["eval", "--logic", file.to_str().unwrap()]).ends(0);
        file
    });
    file.to_str().unwrap()
}

/// A gateway over one server, `demo`, that keeps what it hears in a file; the component is hostile.
struct Attacked {
    serving: Serving,
    heard: PathBuf,
    _place: Place,
}

impl Attacked {
    fn start(more: &[&str]) -> Self {
        let place = Place::new();
        let heard = place.path("heard");
        let servers = json!({"demo": fixture_with("hears", &[heard.to_str().unwrap()])});
        let config = place.file("home/servers.yaml", json!({"version": 1, "servers": servers}).to_string());
        let arguments = [&["--config", config.to_str().unwrap(), "--logic", hostile()], more].concat();
        Attacked { serving: Serving::greet(&place, &arguments), heard, _place: place }
    }

    fn begin(&mut self, attack: &str) -> u64 {
        let params = json!({"name": "demo__do", "arguments": {"text": format!("attack:{attack}")}});
        self.serving.begin("tools/call", params)
    }

    /// What the client is told; all that it reads must be JSON, line by line.
    #[track_caller]
    fn attack(&mut self, attack: &str) -> Value {
        let id = self.begin(attack);
        let answer = self.serving.answer(id);
        // Nothing else has come, but for what a gateway tells of its own accord, and the next call works.
        let mut told = self.serving.told_so_far();
        told.retain(|method| method != "notifications/tools/list_changed");
        assert_eq!(told, [""; 0], "{attack}");
        assert_eq!(self.serving.call("demo__do")["result"]["content"][0]["text"], "done", "after {attack}");
        answer
    }

    fn heard(&self) -> String {
        std::fs::read_to_string(&self.heard).unwrap_or_default()
    }
}

/// The text of a result that says that the call failed.
#[track_caller]
fn failure(answer: &Value) -> &str {
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    answer["result"]["content"][0]["text"].as_str().unwrap()
}

#[test]
fn what_a_component_hands_over_is_one_json_value_or_its_fault() {
    let mut attacked = Attacked::start(&[]);
    for attack in ["arguments", "arguments-list", "answer", "content"] {
        let answer = attacked.attack(attack);
        assert!(failure(&answer).contains("the component broke its contract"), "{attack}: {answer}");
    }
    let heard = attacked.heard();
    assert!(!heard.contains("injected") && !heard.contains("attacked") && !heard.contains("\"id\":99"), "{heard}");
}

#[test]
fn json_of_a_client_over_several_lines_is_one_line_for_a_server() {
    let place = Place::new();
    let heard = place.path("heard");
    let place = Place::with(json!({"demo": fixture_with("hears", &[heard.to_str().unwrap()])}));
    let serving = Serving::start(&place, &["--http", "127.0.0.1:0"]);
    let address = serving.address();
    let mut web = Web { address: &address, token: None, session: None };
    web.greet();
    let call = "{\n\"jsonrpc\":\"2.0\",\r\n\"id\":1,\"method\":\"tools/call\",\"params\":\n\
                {\"name\":\"demo__do\",\n\"arguments\":{\n\"text\":\n\"over lines\"\n}\n}\n}";
    let reply = web.request("POST /mcp", "localhost", &[], call);
    assert!(reply.body.contains("done"), "{reply:?}");
    let heard = std::fs::read_to_string(heard).unwrap();
    assert_eq!(heard.lines().filter(|line| line.contains("over lines")).count(), 1, "{heard}");
    assert!(heard.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{heard}");
}

#[test]
fn a_component_reaches_no_server_that_the_principal_was_not_given() {
    let place = Place::new();
    let [demo, secret] = ["demo-heard", "secret-heard"].map(|name| place.path(name));
    let config = json!({
        "version": 1,
        "servers": {
            "demo": fixture_with("hears", &[demo.to_str().unwrap()]),
            "secret": fixture_with("hears", &[secret.to_str().unwrap()]),
        },
        "gateway": {"tokens": [
            {"principal": "ann", "token": "ann-0123456789-token"},
            {"principal": "bob", "token": "bob-0123456789-token", "servers": ["demo"]},
        ]},
    });
    let config = place.file("home/servers.yaml", config.to_string());
    let arguments = ["--http", "127.0.0.1:0", "--config", config.to_str().unwrap(), "--logic", hostile()];
    let serving = Serving::start(&place, &arguments);
    let address = serving.address();
    let mut bob = Web { address: &address, token: Some("bob-0123456789-token"), session: None };
    bob.greet();
    let ask = |who: &Web<'_>, method: &str, params: Value| {
        let reply = who.post(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}));
        let text = reply.body.lines().find_map(|line| line.strip_prefix("data: ")).unwrap_or(&reply.body);
        serde_json::from_str::<Value>(text).unwrap_or_else(|error| panic!("{error}: {reply:?}"))
    };
    let attack = |who: &Web<'_>, attack: &str| {
        ask(who, "tools/call", json!({"name": "demo__do", "arguments": {"text": format!("attack:{attack}")}}))
    };
    for kind in ["request", "reconnect", "reauthenticate", "connect"] {
        for server in ["secret", "nowhere"] {
            let answer = attack(&bob, &format!("{kind}={server}"));
            let text = failure(&answer);
            assert!(text.contains(server) && text.contains("this gate was not opened for"), "{kind}: {text}");
        }
    }
    // Nor by what it admits: the component says that all may have everything.
    let listed = ask(&bob, "resources/list", json!({}));
    assert_eq!(listed["result"]["resources"].as_array().map(Vec::len), Some(2), "{listed}");
    assert!(!secret.exists(), "it was asked: {:?}", std::fs::read_to_string(&secret));
    // Who was given it reaches it by the same way.
    let mut ann = Web { address: &address, token: Some("ann-0123456789-token"), session: None };
    ann.greet();
    attack(&ann, "request=secret");
    assert!(std::fs::read_to_string(&secret).unwrap().contains("attacked"));
}

#[test]
fn a_call_that_a_component_never_ends_is_ended_by_the_host() {
    let place = Place::new();
    let records = place.path("records");
    let mut attacked = Attacked::start(&["--record", records.to_str().unwrap()]);
    for attack in ["wait", "reconnect", "connect", "connect-often", "wait-for-ever"] {
        let answer = attacked.attack(attack);
        let text = failure(&answer);
        assert!(text.contains("the component broke its contract"), "{attack}: {text}");
    }
    let answer = attacked.attack("request");
    assert!(failure(&answer).contains("could not be read"), "{answer}");
    let sent = attacked.heard().matches("attacked").count();
    assert!((1..=8).contains(&sent), "{sent} requests");
}

#[test]
fn a_call_that_is_cancelled_ends_whatever_the_component_says() {
    let mut attacked = Attacked::start(&[]);
    let id = attacked.begin("wait-long");
    // The call is under way when another one has its answer.
    attacked.serving.call("demo__do");
    attacked.serving.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}));
    let _another = attacked.begin("wait-long");
    attacked.serving.call("demo__do");
    // The calls of a client that goes away are cancelled, and the gateway does not wait for any of them.
    assert!(attacked.serving.end().success());
}

#[test]
#[cfg(target_os = "linux")]
fn what_is_taken_out_of_a_component_is_bounded() {
    let mut attacked = Attacked::start(&[]);
    attacked.serving.call("demo__do");
    let before = attacked.serving.memory("VmHWM");
    let answer = attacked.attack("many-notes");
    assert_eq!(answer["result"]["content"][0]["text"], "done", "{answer}");
    attacked.attack("notes");
    attacked.attack("trace");
    let grown = attacked.serving.memory("VmHWM") - before;
    // The instance itself may have 256 MiB; what is lifted out of it, half of that again.
    assert!(grown < 700 << 20, "{} MiB", grown >> 20);
}

#[test]
#[cfg(target_os = "linux")]
fn a_large_call_leaves_no_memory_with_its_session() {
    // With masks, answers go through the component, whose memory never shrinks.
    let place = Place::configured(&json!({
        "version": 1,
        "servers": {"demo": crate::place::demo()},
        "masking": {"groups": ["basic"]},
        "max_result_bytes": 0,
    }));
    let serving = Serving::start(&place, &["--http", "127.0.0.1:0"]);
    let address = serving.address();
    let call = |text: &str| {
        let mut web = Web { address: &address, token: None, session: None };
        web.greet();
        let params = json!({"name": "demo__echo", "arguments": {"text": text}});
        let reply = web.post(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}));
        assert!(reply.status == 200 && reply.body.len() > text.len(), "{}", &reply.body[..200]);
    };
    let large = "word ".repeat(700_000);
    // The first ones make the heap as large as such a call wants it.
    (0..3).for_each(|_| call(&large));
    let before = serving.memory("VmRSS");
    (0..20).for_each(|_| call(&large));
    let grown = serving.memory("VmRSS").saturating_sub(before);
    assert!(grown < 60 << 20, "{} MiB for 20 sessions", grown >> 20);
}
