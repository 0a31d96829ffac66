//! Tests `toolgate logs`: what servers write to standard error, as people see it.

use std::time::Instant;

use serde_json::{Value, json};

use crate::place::{Place, and, fixture, fixture_with};
use crate::serving::{Following, LONG, Serving, Web};

fn write_lines(serving: &mut Serving, count: usize) {
    serving.ask("tools/call", json!({"name": "writes__do", "arguments": {"lines": count}}));
}

/// Runs `logs` until it prints this: a line comes a little later than the answer to a call.
fn logs_with(place: &Place, arguments: &[&str], words: &str) -> String {
    let since = Instant::now();
    loop {
        let ran = place.run(&[&["logs"], arguments].concat()).ends(0);
        if ran.stdout.contains(words) {
            return ran.stdout;
        }
        assert!(since.elapsed() < LONG, "no {words:?} in {ran:#?}");
    }
}

#[test]
fn what_servers_write_is_shown_without_secrets_and_steers_no_terminal() {
    let given = json!({"env": {"TOKEN": "${SECRET_TOKEN}"}});
    let place = Place::configured(&json!({
        "version": 1,
        "servers": {
            "leaks": and(fixture("leaks"), given),
            "steers": fixture("steers"),
            "writes": fixture("writes"),
        },
        "masking": {"groups": ["basic"]},
    }))
    .set("SECRET_TOKEN", "s3cret-token-0451");
    let mut serving = Serving::greet(&place, &[]);
    serving.tools();
    write_lines(&mut serving, 1);
    let shown = logs_with(&place, &[], "line 0 password: ");
    assert!(!shown.contains("s3cret-token-0451") && !shown.contains("hunter2"), "{shown}");
    assert!(!shown.contains(['\u{1b}', '\u{202e}', '\u{7}', '\u{9b}']), "{shown:?}");
    for words in [" steers | red", " leaks  | ", " writes * the server has started in "] {
        assert!(shown.contains(words), "no {words:?} in {shown}");
    }
    // Only the mark that toolgate makes is its own.
    let lines = shown.lines().filter(|line| line.contains(" * "));
    assert!(lines.clone().count() >= 3 && lines.clone().all(|line| line.contains(" * the server ")), "{shown}");
    let only = place.run(&["logs", "steers"]).ends(0).stdout;
    assert!(only.lines().all(|line| line[12..].starts_with(" steers ")), "{only}");
    let line: Value =
        serde_json::from_str(place.run(&["logs", "steers", "--json"]).stdout.lines().next().unwrap()).unwrap();
    assert_eq!((&line["server"], &line["number"], &line["source"]), (&json!("steers"), &json!(1), &json!("toolgate")));
    place.run(&["logs", "nobody"]).ends(5).says("no server \"nobody\"; there are: leaks, steers, writes");
}

#[test]
fn an_end_and_what_came_before_it_are_told_in_their_order() {
    let place = Place::with(json!({"dies": fixture("dies")}));
    let mut serving = Serving::greet(&place, &[]);
    serving.call("dies__do");
    let shown = logs_with(&place, &["dies"], "ended with exit code 9");
    let told = |words: &str| shown.lines().position(|line| line.contains(words)).unwrap_or_else(|| panic!("{shown}"));
    assert!(
        told("* the server has started in ") < told("* connection lost: the server's process ended with exit code 9")
    );
}

#[test]
fn who_follows_reads_each_line_once_and_stops_when_it_is_enough() {
    let place = Place::with(json!({"writes": fixture("writes"), "other": fixture("ok")}));
    let mut serving = Serving::greet(&place, &[]);
    // All servers have started, so that nothing else is told.
    serving.tools();
    write_lines(&mut serving, 2);
    let following = Following::start(&place, &["logs", "--follow"]);
    following.until("line 1 ");
    for count in [3, 40, 1] {
        write_lines(&mut serving, count);
        let lines = following.until(&format!("line {} ", count - 1));
        assert_eq!(lines.len(), count, "{lines:#?}");
        assert!(lines.iter().all(|line| line.contains(" writes | line ")), "{lines:#?}");
    }
    assert_eq!(following.interrupt(), (Some(0), Vec::new()));
    let following = Following::start(&place, &["logs", "writes", "--follow", "--json"]);
    following.until("line 0 ");
    serving.end();
    assert_eq!(following.until_end(), Some(3));
}

#[test]
fn a_flood_is_kept_in_bounds_and_its_loss_is_told() {
    let place = Place::with(json!({"writes": fixture("writes")}));
    let mut serving = Serving::greet(&place, &[]);
    write_lines(&mut serving, 1000);
    let shown = logs_with(&place, &[], "line 999 ");
    assert_eq!(shown.lines().count(), 200, "{shown}");
    place.run(&["logs"]).ends(0).says("lines before these are no longer kept");
    let lines = place.run(&["logs", "--json"]).ends(0).stdout;
    let lost: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert!(lost["lost"].as_u64().is_some_and(|lost| lost >= 800), "{lost}");
}

#[test]
fn the_log_of_a_server_is_for_admins_and_can_be_read_on() {
    let (ann, ops) = ("a-token-of-ann-0123456789", "a-token-of-ops-0123456789");
    let tokens = json!([{"principal": "ann", "token": ann}, {"principal": "ops", "token": ops, "admin": true}]);
    let servers = json!({"ends": and(fixture_with("ends-at-once", &[]), json!({"eager": true}))});
    let config = json!({"version": 1, "servers": servers});
    let place = Place::configured(&and(config.clone(), json!({"gateway": {"tokens": tokens}})));
    let serving = Serving::start(&place, &["--http", "127.0.0.1:0"]);
    let address = serving.address();
    let page = |token, path: &str, status: u16| -> Value {
        let web = Web { address: &address, token: Some(token), session: None };
        let reply = web.request(&format!("GET /api/v1/servers/{path}"), "localhost", &[], "");
        assert_eq!(reply.status, status, "{path}: {reply:?}");
        serde_json::from_str(&reply.body).unwrap()
    };
    let since = Instant::now();
    let first = loop {
        let log = page(ops, "ends/log", 200);
        if log.to_string().contains("no such option") {
            break log;
        }
        assert!(since.elapsed() < LONG, "{log}");
    };
    let lines = first["lines"].as_array().unwrap();
    let stderr = lines.iter().find(|line| line["source"] == "stderr").unwrap();
    assert!(stderr["text"].as_str().unwrap().starts_with("no such option: \\u{1b}[31mred"), "{first}");
    let number = stderr["number"].as_u64().unwrap();
    let next = page(ops, &format!("ends/log?after={number}"), 200);
    assert!(next["lines"].as_array().unwrap().iter().all(|line| line["number"].as_u64() > Some(number)), "{next}");
    assert_eq!(next["lost"], 0, "{next}");
    for (token, path, status, words) in [
        (ann, "ends/log", 403, "for admins"),
        (ops, "other/log", 404, "no server \"other\" is configured"),
        (ops, "ends/log?after=x", 400, "after must be"),
        (ops, "ends/log?limit=1", 400, "this page takes after"),
    ] {
        let said = page(token, path, status);
        assert!(said["error"].as_str().unwrap().contains(words), "{said}");
    }
    // Without tokens, nobody over HTTP is an admin, and whoever runs the gateway is.
    let place = Place::configured(&config);
    let serving = Serving::start(&place, &["--http", "127.0.0.1:0"]);
    let address = serving.address();
    let web = Web { address: &address, token: None, session: None };
    assert_eq!(web.request("GET /api/v1/servers/ends/log", "localhost", &[], "").status, 401);
    logs_with(&place, &["ends"], "no such option");
}
