//! Tests `toolgate calls` on gateways and on records, and the line of the log for each call.

use std::time::Instant;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::place::{Place, Ran, demo};
use crate::serving::{Following, LONG, Serving, Web};

/// A place whose demo server is called and recorded.
fn recording() -> Place {
    Place::configured(&json!({"version": 1, "servers": {"demo": demo()}, "record": true}))
}

/// The rows of a table of calls, each in words, without times.
fn rows(ran: &Ran) -> Vec<Vec<&str>> {
    let mut lines = ran.stdout.lines();
    assert!(lines.next().is_some_and(|head| head.starts_with("UTC ")), "{ran:#?}");
    lines.map(|line| line.split_whitespace().skip(1).collect()).collect()
}

/// Runs a command until this many lines of JSON come out: calls do not wait for their records.
fn calls(place: &Place, arguments: &[&str], count: usize) -> Vec<Value> {
    let since = Instant::now();
    loop {
        let ran = place.run(&[&["calls", "--json"], arguments].concat());
        let calls: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        match calls.len() {
            found if found == count => return calls,
            found => assert!(found < count && since.elapsed() < LONG, "{ran:#?}"),
        }
    }
}

fn call(serving: &mut Serving, number: usize) {
    serving.ask("tools/call", json!({"name": "demo__add", "arguments": {"a": number, "b": 0}}));
}

#[test]
fn what_an_agent_did_is_listed_from_the_gateway_that_its_client_started() {
    let place = recording();
    let mut serving = Serving::greet(&place, &[]);
    place.run(&["calls"]).ends(0).says("no calls yet");
    call(&mut serving, 1);
    serving.call("demo__nope");
    serving.ask("tools/call", json!({"name": "demo__fail", "arguments": {"message": "no luck"}}));
    let ran = place.run(&["calls"]).ends(0);
    let ran = ran.says(&format!("note: calls of the running gateway, process {}\n", serving.pid()));
    let listed = rows(&ran);
    let shown: Vec<_> = listed.iter().map(|row| row[1..3].to_vec()).collect();
    assert_eq!(shown, [["demo.add", "ok"], ["demo__nope", "unknown-tool"], ["demo.fail", "tool-error"]], "{ran:#?}");
    assert!(listed.iter().all(|row| row.len() == 4 && row[0].len() == 8), "{ran:#?}");
    // What is listed can be explained once it is recorded.
    let recorded = calls(&place, &[], 3);
    assert_eq!(recorded[0]["id"].as_str().unwrap()[..8], *listed[0][0]);
    let since = Instant::now();
    while place.run(&["explain", listed[2][0]]).code != 0 {
        assert!(since.elapsed() < LONG);
    }
    place.run(&["explain", listed[0][0]]).ends(0).prints("arguments: {\"a\":1,\"b\":0}\n");
    place.run(&["explain", "last"]).ends(0).prints("name:      demo__fail\n");
    // The records have the same calls when the gateway has ended.
    serving.end();
    let ran = place.run(&["calls"]).ends(0).says("note: calls that are recorded in ");
    assert_eq!(
        rows(&ran).iter().map(|row| row[..3].to_vec()).collect::<Vec<_>>(),
        [&listed[0][..3], &listed[1][..3], &listed[2][..3]]
    );
}

#[test]
fn calls_are_selected_alike_at_a_gateway_and_in_records() {
    let place = recording();
    let mut serving = Serving::greet(&place, &[]);
    for number in 0..3 {
        call(&mut serving, number);
    }
    serving.ask("tools/call", json!({"name": "demo__fail", "arguments": {"message": "no luck"}}));
    serving.call("demo__nope");
    let names = |arguments: &[&str], count| {
        let calls = calls(&place, arguments, count);
        calls.iter().map(|call| call["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let check = || {
        for (arguments, expected) in [
            (&["--code", "ok"][..], &["demo__add"; 3][..]),
            (&["--tool", "demo.f*"], &["demo__fail"]),
            (&["--tool", "add", "--limit", "2"], &["demo__add"; 2]),
            (&["--limit", "2"], &["demo__fail", "demo__nope"]),
            (&["--server", "demo", "--code", "tool-error", "--since", "1h"], &["demo__fail"]),
            (&["--principal", "local", "--limit", "1"], &["demo__nope"]),
            (&["--limit", "0"], &[]),
        ] {
            assert_eq!(names(arguments, expected.len()), expected, "{arguments:?}");
        }
        for arguments in
            [["--server", "other"], ["--principal", "ann"], ["--since", "2100-01-01"], ["--code", "timeout"]]
        {
            place.run(&[&["calls"][..], &arguments].concat()).ends(0).says("no such calls");
        }
    };
    check();
    serving.end();
    assert_eq!(names(&[], 5).len(), 5);
    check();
    place.run(&["calls", "--code", "bad"]).ends(2).says("there are: ok, tool-error, ");
}

#[test]
fn who_follows_a_gateway_sees_each_call_once_and_stops_when_it_is_enough() {
    for config in [json!({"record": true}), json!({})] {
        let mut all = json!({"version": 1, "servers": {"demo": demo()}});
        all.as_object_mut().unwrap().extend(config.as_object().unwrap().clone());
        let place = Place::configured(&all);
        let mut serving = Serving::greet(&place, &[]);
        call(&mut serving, 0);
        let following = Following::start(&place, &["calls", "--follow"]);
        let as_json = Following::start(&place, &["calls", "--follow", "--json"]);
        assert!(following.line().starts_with("UTC "));
        assert!(following.line().contains("  demo.add "));
        let first: Value = serde_json::from_str(&as_json.line()).unwrap();
        (1..=60).for_each(|number| call(&mut serving, number));
        serving.call("demo__last");
        let shown: Vec<_> = following.until("demo__last").iter().map(|line| line[10..18].to_owned()).collect();
        let ids: Vec<_> = as_json.until("demo__last");
        let ids: Vec<_> = ids.iter().map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].clone()).collect();
        let known: Vec<_> = calls(&place, &[], 62).into_iter().map(|call| call["id"].clone()).collect();
        assert_eq!((&known[0], &known[1..]), (&first["id"], &ids[..]));
        let known: Vec<_> = ids.iter().map(|id| id.as_str().unwrap()[..8].to_owned()).collect();
        assert_eq!(shown, known);
        assert_eq!(following.interrupt(), (Some(0), Vec::new()));
        serving.end();
        assert_eq!(as_json.until_end(), Some(3), "the gateway has stopped");
    }
}

#[test]
fn calls_of_several_principals_are_told_apart_and_each_sees_its_own() {
    let (ann, ops) = ("a-token-of-ann-0123456789", "a-token-of-ops-0123456789");
    let tokens = json!([{"principal": "ann", "token": ann}, {"principal": "ops", "token": ops, "admin": true}]);
    let place = Place::configured(&json!({"version": 1, "servers": {"demo": demo()}, "gateway": {"tokens": tokens}}));
    let serving = Serving::start(&place, &["--http", "127.0.0.1:0"]);
    let address = serving.address();
    for token in [ann, ops] {
        let mut web = Web { address: &address, token: Some(token), session: None };
        web.greet();
        let params = json!({"name": "demo__echo", "arguments": {"text": "not for the log"}});
        web.post(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}));
    }
    // Whoever operates a gateway over HTTP sees its calls in its log, without what was said.
    let words = ["INFO the call ended call=\"", "server=\"demo\" tool=\"echo\" principal=\"ops\" code=\"ok\" took="];
    let log = serving.logged_until(&words);
    assert!(log.iter().any(|line| line.contains("principal=\"ann\"")), "{log:#?}");
    assert!(!log.iter().any(|line| line.contains("not for the log")), "{log:#?}");
    let ran = place.run(&["calls"]).ends(0).prints(" PRINCIPAL ");
    assert_eq!(rows(&ran).iter().map(|row| row[1]).collect::<Vec<_>>(), ["ann", "ops"]);
    let flag = format!("--gateway=http://{address}");
    let ran: Ran = place.command(&["calls", &flag]).env("TOOLGATE_GATEWAY_TOKEN", ann).output().unwrap().into();
    assert_eq!(rows(&ran.ends(0)).iter().map(|row| row[1]).collect::<Vec<_>>(), ["ann"]);
    place.run(&["calls", &flag]).ends(7).says("needs a token");
}

#[test]
fn a_gateway_on_standard_input_and_output_logs_calls_only_if_asked_for() {
    let place = Place::with(json!({"demo": demo()}));
    for (arguments, expected) in [(&[][..], false), (&["-v"], true)] {
        let mut serving = Serving::greet(&place, arguments);
        call(&mut serving, 1);
        if expected {
            serving.logged(&["INFO the call ended call=\"", "principal=\"local\""]);
        }
        serving.signal(Signal::TERM);
        serving.ended();
        let log = serving.logged_so_far();
        assert!(!log.iter().any(|line| line.contains("the call ended")), "{log:#?}");
    }
}

#[test]
fn the_records_of_replicas_are_followed_as_one_over_files_that_come_and_go() {
    let place = Place::with(json!({"demo": demo()}));
    let record = |folder: &str, number: usize| {
        let arguments = format!("a: {number}, b: 0");
        let called = place.run(&["call", "demo.add", &arguments, "--record", folder, "--json"]).ends(0).json();
        called["call_id"].clone()
    };
    let first = [record("a", 1), record("b", 2)];
    let id = |line: String| serde_json::from_str::<Value>(&line).unwrap()["id"].clone();
    let following = Following::start(&place, &["calls", "--record", "a", "--record", "b", "--follow", "--json"]);
    assert_eq!([id(following.line()), id(following.line())], first);
    // Each of these calls begins a file of its own.
    for (number, folder) in ["b", "a", "a", "b"].into_iter().enumerate() {
        let called = record(folder, number);
        assert_eq!(id(following.line()), called);
    }
    // A copied file has calls that are known; an expired one has none to lose.
    for entry in std::fs::read_dir(place.path("work/a")).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_file() {
            std::fs::remove_file(entry).unwrap();
        }
    }
    let called = record("a", 9);
    assert_eq!(id(following.line()), called);
    assert_eq!(following.interrupt(), (Some(0), Vec::new()));
    // Calls of a folder and its copy are listed once.
    place.run(&["calls", "--record", "b", "--record", "b", "--gateway"]).ends(2).says("cannot be used with");
    assert_eq!(calls(&place, &["--record", "a", "--record", "b", "--record", "./b"], 4).len(), 4);
    place.run(&["calls", "--record", "nowhere"]).ends(2).says("cannot read the records in nowhere");
    place.run(&["calls", "--record", "nowhere", "--follow"]).ends(2).says("cannot read the records in nowhere");
}

#[test]
fn damage_and_hostile_names_spoil_no_list() {
    let place = Place::with(json!({"demo": demo()})).set("NO_COLOR", "1");
    let hostile = format!("demo.\u{1b}[31m\u{202e}{}", "x".repeat(200));
    for name in [hostile.as_str(), "demo.add", "demo.add"] {
        place.run(&["call", name, "a: 1, b: 2", "--record", "records"]);
    }
    let mut files: Vec<_> =
        std::fs::read_dir(place.path("work/records")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.is_file());
    files.sort();
    let text = std::fs::read_to_string(&files[1]).unwrap();
    std::fs::write(&files[1], text.replacen("demo.add", "demo.odd", 1)).unwrap();
    let ran = place.run(&["calls", "--record", "records"]).ends(0).says("1 record is damaged: calls-");
    assert_eq!(rows(&ran).len(), 2, "{ran:#?}");
    let shown = place.run_at_terminal(&["calls", "--record", "records"], "").ends(0).stdout;
    assert!(!shown.contains(['\u{1b}', '\u{202e}']) && shown.contains(r"demo.\u{1b}[31m\u{202e}x"), "{shown:?}");
    assert!(shown.lines().skip(1).all(|line| line.chars().count() <= 80 || line.contains("warning")), "{shown}");
}

#[test]
fn calls_of_two_projects_do_not_mix() {
    let place = Place::new();
    let config = |more: Value| {
        let mut config = json!({"version": 1, "servers": {"demo": demo()}});
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        config.to_string()
    };
    let shop = place.file("shop/toolgate.yaml", config(json!({"record": true}))).display().to_string();
    let bank = place.file("bank/toolgate.yaml", config(json!({"record": true}))).display().to_string();
    let off = place.file("off/toolgate.yaml", config(json!({}))).display().to_string();
    let run = |config: &str, arguments: &[&str]| place.run(&[arguments, &["--config", config]].concat());
    run(&shop, &["call", "demo.echo", "text: hi"]).ends(0);
    run(&bank, &["call", "demo.add", "a: 1, b: 2"]).ends(0);
    for (config, name, tool) in [(&shop, "shop-toolgate-", "demo.echo"), (&bank, "bank-toolgate-", "demo.add")] {
        let ran = run(config, &["calls"]).ends(0).says(name);
        assert_eq!(rows(&ran).iter().map(|row| row[1]).collect::<Vec<_>>(), [tool]);
        run(config, &["explain", "last"]).ends(0).prints(tool);
        run(config, &["replay"]).ends(0).prints("1 call of 20").says(name);
        // In use is what is found without a flag; a candidate that never ran has no records of its own.
        let ran: Ran = place.command(&["replay"]).env("TOOLGATE_CONFIG", config).output().unwrap().into();
        ran.ends(0).prints(": all came out the same").says(name);
        let candidate = place.command(&["replay", "--config", &off]).env("TOOLGATE_CONFIG", config).output().unwrap();
        Ran::from(candidate).ends(0).prints(": all would be decided the same way").says(name);
    }
    for command in [&["calls"][..], &["explain", "last"], &["replay"]] {
        run(&off, command).ends(2).says("nothing is recorded in ").says(&format!("set `record: true` in {off}"));
    }
    // A gateway of another project is not asked, and of two of this one, one must be chosen.
    let _shop = Serving::greet(&place, &["--config", &shop]);
    run(&bank, &["calls"]).ends(0).says("bank-toolgate-");
    run(&off, &["calls"]).ends(2).says("no gateway runs with this configuration");
    run(&shop, &["calls"]).ends(0).says("calls of the running gateway");
    let second = Serving::greet(&place, &["--config", &shop]);
    run(&shop, &["calls"]).ends(0).says("several gateways run, and --gateway=PID asks one");
    run(&shop, &["calls", &format!("--gateway={}", second.pid())]).ends(0).prints("demo.echo");
}
