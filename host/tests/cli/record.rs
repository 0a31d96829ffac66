//! Tests `toolgate replay` and `toolgate explain` on records of `call --record` and `serve --record`.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::place::{Place, Ran, and, demo};

/// A place whose demo server may say anything but secrets, and in which calls were recorded.
fn recorded() -> (Place, PathBuf) {
    let place = Place::configured(&json!({
        "servers": {"demo": and(demo(), json!({"env": {"TOKEN": "${SECRET_TOKEN}"}}))},
        "masking": {"groups": ["secrets"]},
    }))
    .set("SECRET_TOKEN", "s3cret-token-0451");
    let dir = place.path("work/records");
    for arguments in [
        ["demo__add", "a: 1, b: 2"],
        ["demo.echo", "text: 'password=hunter2-and-more s3cret-token-0451'"],
        ["demo.nope", ""],
        ["demo.add", "a: 1"],
    ] {
        place.run(&["call", arguments[0], arguments[1], "--record", "records", "--json"]);
    }
    (place, dir)
}

/// Runs it without the configuration of the place, which would be a candidate.
fn run(place: &Place, arguments: &[&str]) -> Ran {
    let bare = Place::new();
    let mut command = bare.command(arguments);
    command.current_dir(place.path("work"));
    command.output().unwrap().into()
}

fn files(dir: &PathBuf) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = entries.filter(|path| path.is_file()).collect();
    files.sort();
    files
}

#[test]
fn what_is_recorded_replays_and_holds_no_secret() {
    let (place, dir) = recorded();
    let ran = run(&place, &["replay", "records"]).ends(0).prints("4 calls of 20").prints(": all came out the same\n");
    assert_eq!(ran.stderr, "");
    let report = run(&place, &["replay", "records", "--json"]).ends(0).json();
    assert_eq!((&report["ok"], &report["calls"], &report["same"]), (&json!(true), &json!(4), &json!(4)), "{report}");
    assert_eq!(report["backtest"], json!(false));
    for path in files(&dir).into_iter().chain(files(&dir.join("parts"))) {
        let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
        assert!(!text.contains("s3cret-token-0451") && !text.contains("hunter2-and-more"), "{}", path.display());
    }
}

#[test]
fn a_byte_that_was_changed_is_told_and_ends_with_1() {
    let (place, dir) = recorded();
    let path = files(&dir).remove(1);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[40] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let ran = run(&place, &["replay", "records"]).ends(1).says(":1: the line was changed after it was written");
    assert!(ran.stdout.starts_with("3 calls of "), "{ran:?}");
    let report = run(&place, &["replay", "records", "--json"]).ends(1).json();
    assert_eq!((&report["ok"], &report["damaged"]), (&json!(false), &json!(1)), "{report}");
}

#[test]
fn a_new_policy_is_tried_on_what_was_recorded() {
    let (place, _) = recorded();
    let denied = and(demo(), json!({"deny": ["add"]}));
    place.file("work/new.yaml", json!({"servers": {"demo": denied}, "masking": {"groups": ["secrets"]}}).to_string());
    let arguments = ["replay", "records", "--config", "new.yaml"];
    let ran = run(&place, &arguments).ends(0).prints("newly denied").prints("demo.add");
    assert!(ran.stdout.contains("calls demo.add → not-allowed: "), "{ran:?}");
    for (ways, code) in [("denied", 1), ("allowed,rerouted", 0), ("masking,denied", 1)] {
        run(&place, &[&arguments[..], &["--fail-on", ways]].concat()).ends(code);
    }
    let report = run(&place, &[&arguments[..], &["--json", "--tool", "demo.add"]].concat()).ends(0).json();
    assert_eq!((&report["calls"], &report["left_out"]), (&json!(2), &json!(2)), "{report}");
    let group = &report["groups"][0];
    assert_eq!((&group["change"], &group["tool"]), (&json!("denied"), &json!("demo.add")), "{report}");
    assert_eq!(group["examples"][0]["was"], "calls demo.add", "{report}");
    run(&place, &["replay", "records", "--since", "1h"]).ends(0).prints("4 calls");
    for filter in [["--tool", "no.such"], ["--principal", "nobody"]] {
        let ran = run(&place, &[&["replay", "records"][..], &filter].concat()).ends(0);
        assert_eq!(ran.stdout, "0 calls (4 skipped): no call was compared\n");
        // A check that looks at nothing finds nothing.
        let arguments = [&arguments[..], &filter, &["--fail-on", "denied"]].concat();
        run(&place, &arguments).ends(1).says("warning: no call was compared, so --fail-on does not pass");
        let report = run(&place, &[&arguments[..], &["--json"]].concat()).ends(1).json();
        assert_eq!((&report["ok"], &report["compared"]), (&json!(false), &json!(0)), "{report}");
    }
    for (since, calls) in [("2020-01-01", 4), ("2020-01-01T12:00:00.5+02:00", 4), ("2100-01-01T00:00:00Z", 0)] {
        run(&place, &["replay", "records", "--since", since]).ends(0).prints(&format!("{calls} calls "));
    }
    run(&place, &["replay", "records", "--since", "soon"])
        .ends(2)
        .says("write how long ago, such as 7d or 12h, or when");
    let ran = run(&place, &[&arguments[..], &["--tool", "demo.nope"]].concat()).ends(0);
    assert!(ran.stdout.starts_with("1 call of 20"), "{ran:?}");
    run(&place, &["replay", "records", "--fail-on", "nothing"]).ends(2).says("write one of: denied, allowed");
    place.file("work/bad.yaml", json!({"servers": {}, "masking": {"groups": ["no-such-group"]}}).to_string());
    run(&place, &["replay", "records", "--config", "bad.yaml"]).ends(2).says("mask pattern group \"no-such-group\"");
    run(&place, &["replay", "elsewhere"]).ends(2).says("cannot read the records in elsewhere");
    run(&place, &["replay", "."]).ends(2).says("there are no records in .");
}

#[test]
fn a_server_of_the_candidate_that_cannot_be_used_is_told_and_counts_as_gone() {
    let (place, _) = recorded();
    let typo = and(demo(), json!({"denny": ["add"]}));
    let masks = and(demo(), json!({"masking": {"groups": ["no-such-group"]}}));
    for (server, why) in [(typo, "unknown key \"denny\"; did you mean \"deny\"?"), (masks, "\"no-such-group\"")] {
        let config = json!({"servers": {"demo": server}, "masking": {"groups": ["secrets"]}});
        place.file("work/new.yaml", config.to_string());
        let arguments = ["replay", "records", "--config", "new.yaml", "--fail-on", "denied"];
        run(&place, &arguments).ends(1).prints("newly denied").says("warning: server \"demo\": ").says(why);
        let report = run(&place, &[&arguments[..], &["--json"]].concat()).ends(1).json();
        let told = &report["unusable_servers"][0];
        assert_eq!(told["server"], "demo", "{report}");
        assert!(told["reason"].as_str().unwrap().contains(why), "{report}");
    }
}

#[test]
fn masks_that_a_candidate_takes_away_are_no_pass() {
    let (place, _) = recorded();
    place.file("work/new.yaml", json!({"servers": {"demo": demo()}}).to_string());
    let arguments = ["replay", "records", "--config", "new.yaml"];
    let told = "the answers of 1 call are stored masked";
    run(&place, &arguments).ends(0).says(told).prints(", but what is masked in 1 of them cannot be judged\n");
    run(&place, &[&arguments[..], &["--fail-on", "denied"]].concat()).ends(0).says(told);
    run(&place, &[&arguments[..], &["--fail-on", "masking"]].concat()).ends(1).says(told);
    let report = run(&place, &[&arguments[..], &["--fail-on", "masking", "--json"]].concat()).ends(1).json();
    assert_eq!((&report["ok"], &report["masking_unjudged"]), (&json!(false), &json!(1)), "{report}");
}

#[test]
fn a_result_that_a_candidate_would_cut_is_no_pass_though_its_answer_was_not_kept() {
    let place = Place::with(json!({"demo": demo()}));
    place.run(&["call", "demo.echo", &format!("text: {}", "x".repeat(3000)), "--record", "records"]).ends(0);
    let config = |settings| and(json!({"servers": {"demo": demo()}}), settings);
    for (candidate, code) in [
        (config(json!({})), 0),
        (config(json!({"max_result_bytes": 4000})), 0),
        (config(json!({"max_result_bytes": 1000})), 1),
        (config(json!({"max_result_bytes": 1000, "spill": {"dir": "spilled"}})), 1),
        (config(json!({"summarize_above_tokens": 100, "summarizer": {"command": ["head", "-c", "20"]}})), 1),
    ] {
        place.file("work/new.yaml", candidate.to_string());
        let arguments = ["replay", "records", "--config", "new.yaml", "--fail-on", "result"];
        let ran = run(&place, &arguments).ends(code);
        let told = ran.stdout.contains(": a result of ")
            && ran.stdout.contains(" bytes was passed through → a text of more than ");
        assert_eq!(told, code == 1, "{candidate}: {ran:?}");
    }
}

#[test]
fn the_arguments_of_a_refused_call_are_masked_for_every_server_that_it_may_have_meant() {
    let server = |pattern: &str| and(demo(), json!({"masking": {"custom": [{"pattern": pattern}]}}));
    let place = Place::configured(&json!({
        "servers": {"demo": and(server("one-[0-9]+"), json!({"deny": ["echo"]})), "other": server("two-[0-9]+")},
        "masking": {"groups": ["basic"]},
    }));
    let said = "password=hunter2-and-more one-11 two-22";
    for arguments in [format!("text: '{said}'"), json!({"text": said}).to_string(), format!("{said}, and no more")] {
        for name in ["demo.echo", "demo.nope", "none.echo", "bare"] {
            place.run(&["call", name, &arguments, "--record", "records"]).ends(5);
        }
    }
    let lines: Vec<String> =
        files(&place.path("work/records")).iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    assert_eq!(lines.len(), 12);
    for line in lines {
        let found = ["hunter2-and-more", "one-11", "two-22"].iter().find(|secret| line.contains(**secret));
        assert_eq!(found, None, "{line}");
        assert!(line.contains("\"masked\":[\"arguments\"]"), "{line}");
    }
    run(&place, &["replay", "records"]).ends(0).prints("12 calls of 20").prints(": all came out the same\n");
}

#[test]
fn a_call_of_which_something_hidden_decided_is_judged_by_the_rules_and_else_no_pass() {
    let masked = |more| {
        json!({
            "servers": {"demo": and(demo(), more)},
            "masking": {"custom": [{"pattern": "[0-9]{6}"}]},
        })
    };
    // Where a number is hidden there is none any more.
    for (recorded, sent) in [(json!({}), true), (json!({"ask": ["add"]}), false)] {
        let place = Place::configured(&masked(recorded.clone()));
        place.run(&["call", "demo.add", "a: 123456, b: 1", "--record", "records"]);
        place.run(&["call", "demo.echo", "text: hi", "--record", "records"]).ends(0);
        run(&place, &["replay", "records"]).ends(0).says("1 call cannot be replayed");
        for (candidate, ways, code) in [
            (recorded.clone(), "denied,allowed", if sent { 0 } else { 1 }),
            (recorded, "denied,result", 1),
            (json!({"deny": ["add"]}), "denied", 1),
            (json!({"deny": ["add"]}), "allowed,result", 0),
            (json!({"deny": ["echo"]}), "allowed", if sent { 0 } else { 1 }),
        ] {
            place.file("work/new.yaml", masked(candidate.clone()).to_string());
            let arguments = ["replay", "records", "--config", "new.yaml", "--fail-on", ways];
            let ran = run(&place, &arguments).ends(code);
            let kept_out = candidate == json!({"deny": ["add"]});
            assert_eq!(ran.stdout.contains("calls demo.add → not-allowed: ") || !sent, kept_out || !sent, "{ran:?}");
            assert_eq!(ran.stderr.contains("1 call cannot be replayed"), !kept_out, "{ran:?}");
            let unjudged = ran.stderr.contains("not all calls could be judged, so this does not pass: --fail-on ");
            assert_eq!(unjudged, code == 1 && !kept_out, "{ran:?}");
            let report = run(&place, &[&arguments[..], &["--json"]].concat()).ends(code).json();
            let counts = [&report["unreplayable"], &report["rules_unjudged"], &report["compared"]];
            let expected = if kept_out { [0, 0, 2] } else { [1, u64::from(!sent), 1] };
            assert_eq!(counts, expected.map(|count| json!(count)).each_ref(), "{report}");
        }
    }
}

#[test]
fn servers_that_were_left_out_by_choice_are_left_out_of_a_replay() {
    let config = json!({"servers": {"demo": demo(), "other": demo()}});
    let place = Place::configured(&config);
    for (name, code) in [("demo.add", 0), ("other.add", 5), ("demo.nope", 5)] {
        place.run(&["call", name, "a: 1, b: 2", "--server", "demo", "--record", "records"]).ends(code);
    }
    place.file("work/same.yaml", config.to_string());
    let arguments = ["replay", "records", "--config", "same.yaml", "--fail-on", "denied,allowed,rerouted,result,trace"];
    run(&place, &arguments).ends(0).prints("3 calls of 20").prints(": all would be decided the same way\n");
}

#[test]
fn the_gravest_stands_first_and_what_nobody_could_see_does_not_flood() {
    let place = Place::with(json!({"demo": demo()}));
    let long = format!("demo__{}", "x".repeat(100));
    let names: Vec<String> = (0..8).map(|at| format!("demo__none{at}")).chain([long.clone()]).collect();
    for name in names.iter().map(String::as_str).chain(["demo__add", "demo__none7"]) {
        place.run(&["call", name, "a: 1, b: 2", "--record", "records"]);
    }
    place.file("work/new.yaml", json!({"servers": {"demo": and(demo(), json!({"deny": ["add"]}))}}).to_string());
    let ran = run(&place, &["replay", "records", "--config", "new.yaml"]).ends(0);
    let lines: Vec<&str> = ran.stdout.lines().skip(3).collect();
    assert!(lines[0].starts_with("newly denied") && lines[1].starts_with("other reasons  demo__none7"), "{ran:?}");
    assert_eq!((lines.len(), lines[6]), (7, "4 more groups differ only in reasons; --json lists all"), "{ran:?}");
    assert!(!ran.stdout.contains(&long) && ran.stdout.lines().all(|line| line.chars().count() < 450), "{ran:?}");
    let report = run(&place, &["replay", "records", "--config", "new.yaml", "--json"]).ends(0).json();
    assert_eq!(report["groups"].as_array().unwrap().len(), 10, "{report}");
}

#[test]
fn one_call_is_explained_step_by_step() {
    let (place, dir) = recorded();
    let called = place.run(&["call", "demo__add", "a: 20, b: 3", "--record", "records", "--json"]).ends(0).json();
    let id = called["call_id"].as_str().unwrap();
    let ran = run(&place, &["explain", id, "--record", "records"]).ends(0);
    for line in [
        &format!("call {id}, 20"),
        "  name:      demo__add",
        "  arguments: a: 20, b: 3",
        " 1. → connect demo",
        "   ← connected, with a new list of tools",
        " 2. → call \"add\" of server \"demo\" with {\"a\":20,\"b\":3}",
        "   ← answered: {\"content\":",
        " 3. → done: ok",
        "why:",
        "  arguments: read as key-value",
        "decided by component ",
    ] {
        assert!(ran.stdout.contains(line), "no {line:?} in {}", ran.stdout);
    }
    let record = run(&place, &["explain", id, "--record", "records", "--json"]).ends(0).json();
    assert_eq!((&record["record"]["id"], &record["record"]["name"]), (&json!(id), &json!("demo__add")), "{record}");
    run(&place, &["explain", "nobody", "--record", "records"])
        .ends(5)
        .says("no call \"nobody\" is recorded in records");
    run(&place, &["explain", id]).ends(2).says("no configuration found");
    // One that was changed is there, but is no story to tell.
    let path = files(&dir).pop().unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains(id), "it is the newest");
    std::fs::write(&path, text.replacen("demo__add", "demo__odd", 1)).unwrap();
    let ran = run(&place, &["explain", id, "--record", "records"]).ends(1);
    let name = path.file_name().unwrap().to_str().unwrap();
    let told = format!(
        "the record of call {id:?} cannot be trusted: records/{name}:1: the line was changed after it was written"
    );
    assert!(ran.stderr.contains(&told), "{ran:?}");
}

#[cfg(unix)]
#[test]
fn a_call_is_explained_by_the_beginning_of_its_id_if_that_means_one() {
    use crate::serving::Serving;
    let place = Place::with(json!({"demo": demo()}));
    let mut serving = Serving::greet(&place, &["--record", "records"]);
    // Of so many ids, two begin with the same digit.
    for number in 0..20 {
        serving.ask("tools/call", json!({"name": "demo__add", "arguments": {"a": number, "b": 0}}));
    }
    serving.end();
    let lines: String =
        files(&place.path("work/records")).iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    let ids: Vec<String> = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(ids.len(), 20);
    let explain = |id: &str| run(&place, &["explain", id, "--record", "records"]);
    for (number, id) in ids.iter().enumerate() {
        let begins = (1..)
            .map(|length| &id[..length])
            .find(|begin| ids.iter().filter(|other| other.starts_with(*begin)).count() == 1);
        let ran = explain(begins.unwrap()).ends(0);
        assert!(ran.stdout.starts_with(&format!("call {id} by local, ")), "{ran:?}");
        assert!(ran.stdout.contains(&format!("arguments: {{\"a\":{number},\"b\":0}}")), "{ran:?}");
    }
    let of = |digit: char| ids.iter().filter(|id| id.starts_with(digit)).collect::<Vec<_>>();
    let digit = "0123456789abcdef".chars().max_by_key(|digit| of(*digit).len()).unwrap();
    let ran = explain(&digit.to_string()).ends(2).says(&format!("several ids begin with \"{digit}\"; write more"));
    let named = of(digit).iter().filter(|id| ran.stderr.contains(**id)).count();
    assert_eq!(named, of(digit).len().min(5), "{ran:?}");
    assert!(explain("last").ends(0).stdout.starts_with(&format!("call {} ", ids[19])));
    explain("").ends(2);
    explain("zz").ends(5).says("no call \"zz\" is recorded in records");
    // A record that cannot be trusted is not passed over for another one.
    let path = files(&place.path("work/records")).pop().unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let (newest, begin) = (&ids[19], &ids[19][..12]);
    let at = text.find(newest).unwrap();
    std::fs::write(&path, text[..at].to_owned() + &text[at..].replacen("\"a\\\":19", "\"a\\\":20", 1)).unwrap();
    explain(begin).ends(1).says(&format!("the record of call {newest:?} cannot be trusted: records/"));
    let ran = explain("last").ends(0).says("1 record is damaged");
    assert!(ran.stdout.starts_with(&format!("call {} ", ids[18])), "{ran:?}");
}

#[test]
fn the_configuration_says_where_calls_are_recorded() {
    let place = Place::configured(&json!({"servers": {"demo": demo()}, "record": {"dir": "../kept"}}));
    let called = place.run(&["call", "demo__echo", "text: hi", "--json"]).ends(0).json();
    let id = called["call_id"].as_str().unwrap();
    place.run(&["explain", id]).ends(0).prints("→ done: ok");
    // One of the user's own, where none is named.
    let place = Place::configured(&json!({"servers": {"demo": demo()}, "record": true}));
    place.run(&["call", "demo__echo", "text: hi"]).ends(0);
    let folders: Vec<_> = std::fs::read_dir(place.path("home/.local/state/toolgate/records")).unwrap().collect();
    assert_eq!(folders.len(), 1, "{folders:?}");
    let folder = folders.into_iter().next().unwrap().unwrap();
    assert!(folder.file_name().to_str().unwrap().starts_with("home-servers-"), "{folder:?}");
    assert_eq!(files(&folder.path()).len(), 1);
}

#[test]
fn what_is_recorded_raw_is_said_aloud() {
    let place = Place::configured(&json!({"servers": {"demo": demo()}, "record": {"dir": "../kept", "raw": true}}));
    let ran = place.run(&["call", "demo__echo", "text: hi"]).ends(0).says("are recorded unmasked in");
    assert_eq!(ran.stdout, "hi\n");
    let text = std::fs::read_to_string(&files(&place.path("kept"))[0]).unwrap();
    let record: Value = serde_json::from_str(&text).unwrap();
    assert!(record["steps"][2]["forwarded"]["answer"].as_str().unwrap().contains("\"hi\""), "{record}");
}

#[test]
fn nothing_runs_unrecorded_if_the_folder_cannot_be_written() {
    let place = Place::with(json!({"demo": demo()}));
    place.file("work/file", "");
    for dir in ["file", "file/records"] {
        let told = format!("calls cannot be recorded in {dir}: ");
        let ran = place.run(&["call", "demo__echo", "text: hi", "--record", dir]).ends(2).says(&told);
        assert_eq!(ran.stdout, "", "nothing is called: {ran:?}");
        for listen in [&[][..], &["--http", "127.0.0.1:0"]] {
            place.run(&[&["serve", "--record", dir][..], listen].concat()).ends(2).says(&told);
        }
    }
    let ran = place.run(&["serve", "--record", "own", "--record", "none"]).ends(2);
    ran.says("cannot read the records in none: ").says("start the one that records there first, or create the folder");
    let place = place.and_configured(&json!({"servers": {"demo": demo()}, "record": {"dir": "../work/file/records"}}));
    place.run(&["serve"]).ends(2).says("calls cannot be recorded in ").says("record.dir");
    place.run(&["check"]).ends(2).prints("✗ gateway  `serve` would not start: calls cannot be recorded in ");
}

#[cfg(unix)]
#[test]
fn a_file_that_may_not_grow_ends_no_program_and_leaves_nothing_behind() {
    let place = Place::with(json!({"demo": demo()}));
    let call = ["call", "demo__echo", "text: hi", "--record", "records"];
    // The compiled component is there before anything is limited.
    place.run(&call[..3]).ends(0);
    let limited = |limit: &str| {
        let command = place.command(&call);
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &format!("ulimit -f {limit} && exec \"$0\" \"$@\"")]);
        shell.arg(command.get_program()).args(command.get_args()).current_dir(place.path("work"));
        shell.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        Ran::from(shell.output().unwrap())
    };
    // The component does not fit into so many blocks.
    let ran = limited("100").ends(0).says("calls continue, but cannot be recorded in ");
    assert_eq!(ran.stdout, "hi\n");
    let left = files(&place.path("work/records/parts"));
    assert!(left.is_empty(), "{left:?}");
    place.run(&call).ends(0);
    run(&place, &["replay", "records"]).ends(0).prints("1 call of 20").prints(": all came out the same\n");
}

#[cfg(unix)]
#[test]
fn figures_say_what_is_recorded() {
    use crate::serving::{LONG, Serving, Web};
    let place = Place::with(json!({"demo": demo()}));
    let serving = Serving::start(&place, &["--http", "127.0.0.1:0", "--record", "records"]);
    let address = serving.address();
    let mut web = Web { address: &address, token: None, session: None };
    web.greet();
    let params = json!({"name": "demo__add", "arguments": {"a": 1, "b": 2}});
    web.post(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}));
    let since = std::time::Instant::now();
    loop {
        let page = web.request("GET /metrics", "localhost", &[], "").body;
        assert!(page.contains("toolgate_records_dropped_total{reason=\"pressure\"} 0\n"), "{page}");
        // Calls do not wait for their records.
        if page.contains("toolgate_records_total 1\n") {
            break;
        }
        assert!(since.elapsed() < LONG, "{page}");
    }
}

#[cfg(unix)]
#[test]
fn a_gateway_records_who_called_what() {
    use crate::serving::Serving;
    let place = Place::with(json!({"demo": demo()}));
    let mut serving = Serving::greet(&place, &["--record", "records"]);
    for _ in 0..3 {
        serving.ask("tools/call", json!({"name": "demo__add", "arguments": {"a": 1, "b": 2}}));
    }
    serving.call("demo__nope");
    serving.end();
    let report = run(&place, &["replay", "records", "--principal", "local", "--json"]).json();
    assert_eq!((&report["calls"], &report["same"]), (&json!(4), &json!(4)), "{report}");
}
