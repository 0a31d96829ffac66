//! Tests rules as people meet them: in the gateway, in files of cases, in the access matrix, in records and in the shade.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::place::{Place, Ran, demo, fixture_with};
use crate::serving::{LONG, Serving, Web};

const ANN: &str = "ann-0123456789-token";
const BOB: &str = "bob-0123456789-token";

/// Rules of every kind for the demo server.
fn rules() -> Value {
    json!([
        {"name": "no-passwords", "tools": ["demo.echo"], "when": "args.text.contains(\"password\")", "then": "deny",
            "because": "passwords stay here"},
        {"name": "strangers", "tools": ["demo.add"], "when": "\"untrusted\" in labels && !known(args.a)", "then": "ask"},
        {"name": "budget", "tools": ["demo.forecast"], "limit": {"calls": 1, "per": "1h"}},
    ])
}

fn results() -> Value {
    json!({"demo.echo": {"labels": ["untrusted"]}})
}

fn config() -> Value {
    json!({"version": 1, "servers": {"demo": demo()}, "rules": rules(), "results": results()})
}

fn with_tokens(mut config: Value) -> Value {
    config["gateway"]["tokens"] = json!([
        {"principal": "ann", "token": ANN, "admin": true, "groups": ["office"]},
        {"principal": "bob", "token": BOB},
    ]);
    config
}

fn code(answer: &Value) -> &str {
    answer["result"]["_meta"]["toolgate/outcome"]["code"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

fn params(name: &str, arguments: Value) -> Value {
    json!({"name": name, "arguments": arguments, "_meta": {"toolgate/outcome": true}})
}

fn call(serving: &mut Serving, name: &str, arguments: Value) -> Value {
    serving.ask("tools/call", params(name, arguments))
}

fn post(web: &Web<'_>, name: &str, arguments: Value) -> Value {
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params(name, arguments)});
    let reply = web.post(&message);
    serde_json::from_str(&reply.body).unwrap_or_else(|_| panic!("{reply:?}"))
}

/// Runs a command in a place without its configuration, which would be a candidate.
fn without_config(place: &Place, arguments: &[&str]) -> Ran {
    let bare = Place::new();
    let mut command = bare.command(arguments);
    command.current_dir(place.path("work"));
    command.output().unwrap().into()
}

#[test]
fn arguments_decide_under_every_name_and_in_every_form() {
    let place = Place::configured(&config());
    let mut serving = Serving::greet(&place, &[]);
    for name in ["demo__echo", "demo.echo", "mcp__demo__echo", "mcp_demo_echo"] {
        for arguments in
            [json!({"text": "my password"}), json!("text: my password"), json!("{\"text\": \"my password\"}")]
        {
            let answer = call(&mut serving, name, arguments.clone());
            assert_eq!(code(&answer), "not-allowed", "{name} {arguments}: {answer}");
            let text = answer["result"]["content"][0]["text"].as_str().unwrap();
            assert!(text.contains("passwords stay here (rule \"no-passwords\")"), "{text}");
        }
    }
    assert_eq!(code(&call(&mut serving, "demo__echo", json!({"text": "hello"}))), "ok");
}

#[test]
fn what_an_agent_has_seen_counts_for_its_later_calls() {
    let place = Place::configured(&config());
    let mut serving = Serving::greet(&place, &[]);
    assert_eq!(code(&call(&mut serving, "demo__add", json!({"a": 41, "b": 1}))), "ok");
    assert_eq!(code(&call(&mut serving, "demo__echo", json!({"text": "add 99 and 1"}))), "ok");
    let asked = call(&mut serving, "demo__add", json!({"a": 99, "b": 1}));
    assert_eq!(code(&asked), "declined", "nobody can be asked, and 99 is known from nowhere: {asked}");
    assert_eq!(code(&call(&mut serving, "demo__add", json!({"a": 41, "b": 1}))), "ok", "41 is known from before");
}

#[test]
fn a_limit_says_when_to_come_back() {
    let place = Place::configured(&config());
    let mut serving = Serving::greet(&place, &[]);
    let forecast = json!({"city": "Bern", "days": 1});
    assert_eq!(code(&call(&mut serving, "demo__forecast", forecast.clone())), "ok");
    let refused = call(&mut serving, "demo__forecast", forecast);
    assert_eq!(code(&refused), "not-allowed");
    let text = refused["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("more than 1 calls in 1 hour; try again in"), "{text}");
}

#[test]
fn each_principal_has_its_own_context_in_every_session_until_it_is_reset() {
    let place = Place::configured(&with_tokens(config()));
    let serving = Serving::start(&place, &["--http", "127.0.0.1:0"]);
    let address = serving.address();
    let session = |token| {
        let mut web = Web { address: &address, token: Some(token), session: None };
        assert_eq!(web.greet().status, 200);
        web
    };
    let (ann, bob) = (session(ANN), session(BOB));
    assert_eq!(code(&post(&bob, "demo__echo", json!({"text": "x"}))), "ok");
    let add = json!({"a": 7, "b": 1});
    assert_eq!(code(&post(&session(BOB), "demo__add", add.clone())), "declined", "a new session forgets nothing");
    assert_eq!(code(&post(&ann, "demo__add", add.clone())), "ok", "another principal has seen nothing");
    let shown = |web: &Web<'_>| {
        let reply = web.request("GET /api/v1/context", "localhost", &[], "");
        serde_json::from_str::<Value>(&reply.body).unwrap_or_else(|_| panic!("{reply:?}"))["agents"].take()
    };
    assert_eq!(shown(&bob), json!([{"principal": "bob", "part": null, "labels": ["untrusted"], "known": 1}]));
    let refused = bob.request("POST /api/v1/context/reset", "localhost", &[], "{}");
    assert_eq!(refused.status, 403, "{refused:?}");
    let wrong = ann.request("POST /api/v1/context/reset", "localhost", &[], "[]");
    assert_eq!(wrong.status, 400, "a list is not an object without a principal: {wrong:?}");
    let gateway = format!("--gateway=http://{address}");
    let reset = ["context", "reset", "--principal", "bob", "--json", &gateway];
    let operator = Place::new().set("TOOLGATE_GATEWAY_TOKEN", ANN);
    assert_eq!(operator.run(&reset).ends(0).json(), json!({"forgotten": 1}));
    assert_eq!(code(&post(&bob, "demo__add", add)), "ok", "bob is new again");
    operator.run(&["context", &gateway]).ends(0).prints("PRINCIPAL").prints("ann");
    // Only a store that replicas share can lose what was in it.
    let adopted = operator.run(&["context", "adopt", &gateway]);
    assert!(adopted.stderr.contains("replicas share no store here: set gateway.store"), "{adopted:?}");
    let refused = bob.request("POST /api/v1/context/adopt", "localhost", &[], "{}");
    assert_eq!(refused.status, 403, "{refused:?}");
    operator.run(&["context", "adopt", "--principal", "bob", &gateway]).ends(2);
}

#[test]
fn labels_do_not_lapse_under_a_call_that_runs() {
    let place = Place::new();
    let [begun, go_on] = ["home/begun", "home/go-on"].map(|name| place.path(name));
    let slow = fixture_with("holds", &[&begun.display().to_string(), &go_on.display().to_string()]);
    let mut config = with_tokens(config());
    config["servers"]["slow"] = slow;
    config["context"] = json!({"idle": "2s"});
    let place = place.and_configured(&config);
    let serving = Serving::start(&place, &["--http", "127.0.0.1:0"]);
    let address = serving.address();
    let session = |token| {
        let mut web = Web { address: &address, token: Some(token), session: None };
        assert_eq!(web.greet().status, 200);
        web
    };
    let (ann, bob) = (session(ANN), session(BOB));
    assert_eq!(code(&post(&ann, "demo__echo", json!({"text": "x"}))), "ok");
    std::thread::scope(|scope| {
        let running = scope.spawn(|| post(&session(ANN), "slow__do", json!({})));
        until("the call runs", || begun.exists());
        // Bob was active later than Ann, and does nothing now: when he is forgotten, she would be too.
        assert_eq!(code(&post(&bob, "demo__echo", json!({"text": "x"}))), "ok");
        let remembered = || {
            let reply = ann.request("GET /api/v1/context", "localhost", &[], "");
            serde_json::from_str::<Value>(&reply.body).unwrap_or_else(|_| panic!("{reply:?}"))["agents"].to_string()
        };
        until("bob is forgotten", || !remembered().contains("\"bob\""));
        assert!(remembered().contains("\"ann\""), "{}", remembered());
        std::fs::write(&go_on, "").unwrap();
        assert_eq!(code(&running.join().unwrap()), "ok");
    });
    assert_eq!(code(&post(&ann, "demo__add", json!({"a": 7, "b": 1}))), "declined", "she has seen what she has seen");
}

/// Waits until a condition holds.
fn until(what: &str, condition: impl Fn() -> bool) {
    let since = Instant::now();
    while !condition() {
        assert!(since.elapsed() < LONG, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn with_sessions_as_agents_a_new_session_forgets() {
    let mut config = with_tokens(config());
    config["context"] = json!({"scope": "session"});
    let place = Place::configured(&config);
    let serving = Serving::start(&place, &["--http", "127.0.0.1:0"]);
    let address = serving.address();
    let session = || {
        let mut web = Web { address: &address, token: Some(BOB), session: None };
        assert_eq!(web.greet().status, 200);
        web
    };
    let first = session();
    assert_eq!(code(&post(&first, "demo__echo", json!({"text": "x"}))), "ok");
    assert_eq!(code(&post(&first, "demo__add", json!({"a": 7, "b": 1}))), "declined");
    assert_eq!(code(&post(&session(), "demo__add", json!({"a": 7, "b": 1}))), "ok");
}

#[test]
fn rules_of_a_server_and_of_a_token_count_too() {
    let mut config = with_tokens(json!({"version": 1, "servers": {"demo": demo()}}));
    config["servers"]["demo"]["rules"] =
        json!([{"name": "small", "tools": ["add"], "when": "args.a > 10", "then": "deny"}]);
    config["gateway"]["tokens"][1]["rules"] = json!([
        {"name": "office-only", "tools": ["demo.e*"], "when": "!(\"office\" in principal.groups)", "then": "deny"},
    ]);
    let place = Place::configured(&config);
    let serving = Serving::start(&place, &["--http", "127.0.0.1:0"]);
    let address = serving.address();
    for (token, tool, arguments, expected) in [
        (ANN, "demo__add", json!({"a": 11, "b": 1}), "not-allowed"),
        (BOB, "demo__add", json!({"a": 11, "b": 1}), "not-allowed"),
        (BOB, "demo__add", json!({"a": 1, "b": 1}), "ok"),
        (BOB, "demo__echo", json!({"text": "x"}), "not-allowed"),
        (ANN, "demo__echo", json!({"text": "x"}), "ok"),
    ] {
        let mut web = Web { address: &address, token: Some(token), session: None };
        web.greet();
        assert_eq!(code(&post(&web, tool, arguments)), expected, "{token} {tool}");
        // What is refused whatever the arguments are is not listed.
        let listed = web.tools().unwrap().contains(&tool.to_owned());
        assert_eq!(listed, (token, tool) != (BOB, "demo__echo"), "{token} {tool}");
    }
}

#[test]
fn cases_are_tested_without_servers() {
    let place = Place::new();
    let mut config = config();
    config["servers"]["demo"] = json!({"command": "no-such-program"});
    place.file("work/gate.yaml", config.to_string());
    place.file(
        "work/good.yaml",
        "config: gate.yaml
cases:
  - {call: demo.echo, arguments: {text: a password}, expect: deny, rule: no-passwords}
  - {call: demo__echo, arguments: 'text: hello', expect: allow}
  - {call: demo.add, arguments: {a: 1}, context: {labels: [untrusted]}, expect: ask, rule: strangers}
  - {call: demo.add, arguments: {a: 1}, context: {labels: [untrusted], known: ['1']}, expect: allow}
  - {call: demo.forecast, counts: {budget: 2}, expect: deny, rule: budget}
  - {call: demo.forecast, expect: allow}
",
    );
    place.run(&["rules", "test", "good.yaml"]).ends(0).says("6 cases passed, 0 failed");
    place.file(
        "work/bad.yaml",
        "config: gate.yaml\ncases:\n  - {name: it is open, call: demo.echo, arguments: {text: a password}, expect: allow}\n",
    );
    let failed = place.run(&["rules", "test", "bad.yaml", "good.yaml"]).ends(1).says("6 cases passed, 1 failed");
    let failed = failed.prints("bad.yaml:3: it is open").prints("expected allow, found deny by no-passwords");
    failed.prints("rule \"no-passwords\" fits: its condition is true");
    for (cases, expected) in [
        (
            "cases:\n  - {call: demo.echo, expct: deny}",
            "wrong.yaml:2:23: cases[0]: unknown key \"expct\"; did you mean \"expect\"?",
        ),
        ("cases:\n  - {call: demo.echo}", "wrong.yaml:2:5: cases[0]: does not say what to expect"),
        ("config: gate.yaml", "wrong.yaml:1:1: there are no cases; list them under `cases`"),
        (
            "cases:\n  - {call: demo.echo, expect: denied}",
            "wrong.yaml:2:5: `expect` cannot be \"denied\"; write allow, ask, deny, or the code of another end",
        ),
    ] {
        place.file("work/wrong.yaml", cases);
        place.run(&["rules", "test", "wrong.yaml"]).ends(2).says(expected);
    }
}

#[test]
fn the_examples_hold_their_cases() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/rules");
    for name in ["developer", "team", "web"] {
        let cases = folder.join(format!("{name}.test.yaml"));
        Place::new().run(&["rules", "test", cases.to_str().unwrap()]).ends(0).says(" passed, 0 failed");
    }
}

#[test]
fn a_call_is_explained_rule_by_rule() {
    let place = Place::configured(&config());
    let refused = place.run(&["rules", "explain", "demo.echo", "text: my password"]).ends(5);
    refused.says("rule \"no-passwords\" fits: its condition is true").says("passwords stay here");
    let explain = |more: &[&str]| {
        let arguments = [&["rules", "explain", "demo.add", "a: 5, b: 1", "--json"], more].concat();
        place.run(&arguments).ends(0).json()
    };
    assert_eq!(explain(&[])["approval"], Value::Null);
    let asked = explain(&["--label", "untrusted"]);
    assert!(asked["approval"].as_str().unwrap().contains("rule \"strangers\""), "{asked}");
    assert_eq!(explain(&["--label", "untrusted", "--known", "5"])["approval"], Value::Null);
    // `route` looks at the rules too.
    place.run(&["route", "demo.echo", "text: my password"]).ends(5).says("denied by rule \"no-passwords\"");
}

#[test]
fn the_access_matrix_says_what_depends_on_what() {
    let place = Place::configured(&config());
    let access = |more: &[&str]| {
        let said = place.run(&[&["access", "--json"], more].concat()).ends(0).json();
        let rows = said["access"].as_array().unwrap().clone();
        let row = |tool: &str| rows.iter().find(|row| row["tool"] == tool).unwrap().clone();
        ["echo", "add", "forecast", "fail"].map(row)
    };
    let [echo, add, forecast, fail] = access(&[]);
    assert_eq!(echo["verdict"], "depends");
    assert_eq!(echo["rule"], "depends: args.text.contains(\"password\") → deny (rule \"no-passwords\")");
    assert_eq!((&add["verdict"], &fail["verdict"]), (&json!("allow"), &json!("allow")), "{add}");
    assert_eq!(forecast["rule"], "depends: every call, after 1 calls in 3600 s → deny (rule \"budget\")");
    let [_, add, ..] = access(&["--context", "labels=untrusted"]);
    assert_eq!(add["verdict"], "depends", "{add}");
    place.run(&["access", "--context", "untrusted"]).ends(2).says("write labels=untrusted");

    // Another condition counts as granted, since nobody knows what it permits; more rules count as taken.
    let mut other = config();
    other["rules"][0]["when"] = json!("args.text == \"password\"");
    place.file("work/other.yaml", other.to_string());
    place.run(&["access", "--diff", "other.yaml", "--fail-on", "granted"]).ends(1).prints("granted");
    other["rules"] = rules();
    other["rules"].as_array_mut().unwrap().push(json!({"name": "none", "tools": ["demo.fail"], "then": "deny"}));
    place.file("work/other.yaml", other.to_string());
    let taken = ["access", "--diff", "other.yaml", "--fail-on"];
    place.run(&[&taken[..], &["granted"]].concat()).ends(0).prints("rule \"none\"");
    place.run(&[&taken[..], &["taken"]].concat()).ends(1);
}

#[test]
fn mistakes_are_told_with_their_place() {
    let place = Place::new();
    let demo = demo().to_string();
    let file = |rules: &str| {
        place.file("work/rules.yaml", format!("servers: {{demo: {demo}}}\nrules:\n{rules}"));
        ["check", "--config", "rules.yaml"]
    };
    let rule = |rest: &str| format!("  - {{name: r, {rest}}}\n");
    // These make the configuration unusable.
    for (rest, expected) in [
        (
            "tools: [demo.add], when: 'arg.a > 1', then: deny",
            "rules.yaml:3:41: the condition of rule \"r\" cannot be read: ",
        ),
        ("tools: [demo.add], when: 'args.a > ', then: deny", "rules.yaml:3:50: the condition"),
        ("tools: [demo.add], when: 'unknwn(args.a)', then: deny", "rules.yaml:3:41: the condition"),
        (
            "tools: [demo.add], when: 'tool.annotations.destructve', then: deny",
            "tool.annotations has no member \"destructve\"; did you mean \"destructive\"?",
        ),
        (
            "tools: [demo.add], when: 'principal.group == \"x\"', then: deny",
            "principal has no member \"group\"; did you mean \"groups\"?",
        ),
        (
            "tools: [demo.add], when: 'tool[\"nam\"] == \"x\"', then: deny",
            "tool has no member \"nam\"; did you mean \"name\"?",
        ),
        ("tools: [add], then: deny", "\"add\" is not of the form server.tool"),
        ("tools: [demo.add], then: refuse", "rules[0].then"),
        ("tools: [demo.add]", "does not say what happens"),
        ("tools: [demo.add], wen: 'true', then: deny", "unknown key \"wen\"; did you mean \"when\"?"),
        ("then: deny", "names no `tools`"),
        ("tools: [demo.add], when: , then: deny", "rules[0].when: has no value"),
        ("tools: [demo.add], limit: {calls: 5}", "a time is missing, such as `per: 1h`"),
    ] {
        place.run(&file(&rule(rest))).ends(2).says(expected);
    }
    place
        .run(&file(&(rule("tools: [demo.add], then: ask") + &rule("tools: [demo.echo], then: ask"))))
        .ends(2)
        .says("twice");
    // These are probably mistakes.
    for (rest, expected) in [
        (
            "tools: [demo.ad], then: deny",
            "rules.yaml:3:5: rule \"r\": no tool is called \"demo.ad\"; did you mean \"demo.add\"?",
        ),
        ("tools: [dmo.*], then: deny", "rule \"r\": no tool is called \"dmo.*\""),
        (
            "tools: [demo.add], when: 'args.a + args.c > 1', then: deny",
            "rules.yaml:3:55: rule \"r\": tool \"demo.add\" has no argument args.c",
        ),
        ("tools: [demo.add], when: '1 < 2', then: deny", "rule \"r\": its condition is true for every call"),
    ] {
        place.run(&file(&rule(rest))).ends(0).prints(expected);
    }
}

/// A rule is tried on recorded calls, in the shade, and in the gateway: all three must say the same.
#[test]
fn backtest_shadow_and_gateway_agree() {
    let calls = || {
        [
            ("demo__add", json!({"a": 1, "b": 1})),
            ("demo__add", json!({"a": 2, "b": 1})),
            ("demo__echo", json!({"text": "add 5"})),
            ("demo__echo", json!({"text": "a password"})),
            ("demo__add", json!({"a": 1, "b": 1})),
            ("demo__add", json!({"a": 5, "b": 1})),
            ("demo__forecast", json!({"city": "Bern", "days": 1})),
            ("demo__forecast", json!({"city": "Bern", "days": 1})),
        ]
    };
    let expected = ["ok", "ok", "ok", "not-allowed", "ok", "declined", "ok", "not-allowed"];
    // In the gateway.
    let place = Place::configured(&config());
    let mut serving = Serving::greet(&place, &[]);
    let found = calls().map(|(name, arguments)| code(&call(&mut serving, name, arguments)).to_owned());
    assert_eq!(found, expected);
    // In the shade, behind a gateway without rules, which records the calls.
    let plain = json!({"version": 1, "servers": {"demo": demo()}, "shadow": {"config": "next.yaml"}});
    let place = Place::configured(&plain);
    let next = place.file("home/next.yaml", config().to_string());
    let mut serving = Serving::greet(&place, &["--record", "records"]);
    serving.logged(&[", 100 % of calls"]);
    for (name, arguments) in calls() {
        assert_eq!(code(&call(&mut serving, name, arguments)), "ok");
    }
    for rule in ["no-passwords", "strangers", "budget"] {
        serving.logged(&["the shadow policy would decide", rule]);
    }
    assert!(serving.end().success());
    // On the records.
    let next = next.to_str().unwrap();
    let report = without_config(&place, &["replay", "records", "--config", next, "--json"]).json();
    let changes = &report["changes"];
    assert_eq!((&changes["denied"], &changes["asked"]), (&json!(2), &json!(1)), "{report}");
}

#[test]
fn a_record_has_what_was_seen_and_replays_with_it() {
    let place = Place::configured(&config());
    let mut serving = Serving::greet(&place, &["--record", "records"]);
    for (name, arguments) in [
        ("demo__echo", json!({"text": "secret-value-1234"})),
        ("demo__add", json!({"a": 5, "b": 1})),
        ("demo__forecast", json!({"city": "Bern", "days": 1})),
        ("demo__forecast", json!({"city": "Bern", "days": 1})),
    ] {
        call(&mut serving, name, arguments);
    }
    assert!(serving.end().success());
    without_config(&place, &["replay", "records"]).ends(0).prints("4 calls of 20").prints(": all came out the same\n");
    let folder = std::fs::read_dir(place.path("work/records")).unwrap();
    let lines: String = folder
        .filter_map(|entry| std::fs::read_to_string(entry.unwrap().path()).ok())
        .filter(|text| text.contains("\"circumstances\""))
        .collect();
    let declined = lines.lines().find(|line| line.contains("\"a\\\":5") || line.contains("a: 5")).unwrap_or(&lines);
    assert!(declined.contains("\"labels\":[\"untrusted\"]"), "{declined}");
    let id = serde_json::from_str::<Value>(declined).unwrap()["id"].as_str().unwrap().to_owned();
    let explained = without_config(&place, &["explain", &id, "--record", "records"]).ends(0);
    explained.prints("called by local").prints("labels untrusted").prints("rule \"strangers\" fits");
}

#[test]
fn a_reload_tells_which_rules_are_looser() {
    let place = Place::configured(&config());
    let mut serving = Serving::greet(&place, &[]);
    let mut looser = config();
    looser["rules"].as_array_mut().unwrap().remove(0);
    std::fs::write(place.path("home/servers.yaml"), looser.to_string()).unwrap();
    serving.logged(&["no-passwords", "is gone"]);
    assert_eq!(code(&call(&mut serving, "demo__echo", json!({"text": "my password"}))), "ok");
}
