//! Tests the records of several gateways, each in a folder of its own, as one record.

use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::{Value, json};

use crate::place::{Place, Ran, demo};
use crate::serving::{LONG, Serving, Web};

/// Two folders in which calls were recorded in turns: `a`, `b`, `a`, `b`; and the ids of the calls.
struct Replicas {
    place: Place,
    ids: Vec<String>,
}

impl Replicas {
    fn recorded() -> Self {
        let place = Place::with(json!({"demo": demo()}));
        let calls = [("a", "demo.add", "a: 1, b: 2"), ("b", "demo.echo", "text: hi")];
        let call = |(folder, name, arguments): (&str, &str, &str)| {
            let called = place.run(&["call", name, arguments, "--record", folder, "--json"]).ends(0).json();
            called["call_id"].as_str().unwrap().to_owned()
        };
        let ids = calls.into_iter().cycle().take(4).map(call).collect();
        Replicas { place, ids }
    }

    /// Runs it without the configuration of the place, which would be a candidate.
    fn run(&self, arguments: &[&str]) -> Ran {
        let mut command = Place::new().command(arguments);
        command.current_dir(self.path("")).output().unwrap().into()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path("work").join(name)
    }

    /// The ids of the calls that this configuration denies, in the order in which they were made.
    fn denied(&self, candidate: &Value, folders: &[&str]) -> Vec<usize> {
        self.place.file("work/new.yaml", candidate.to_string());
        let arguments = [&["replay"], folders, &["--config", "new.yaml", "--json"]].concat();
        let report = self.run(&arguments).ends(0).json();
        let groups = report["groups"].as_array().unwrap().iter().filter(|group| group["change"] == "denied");
        let examples = groups.flat_map(|group| group["examples"].as_array().unwrap());
        let place = |example: &Value| self.ids.iter().position(|id| example["id"] == **id).unwrap();
        let mut denied: Vec<usize> = examples.map(place).collect();
        denied.sort_unstable();
        denied
    }
}

/// The files of records in a folder, the oldest first.
fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = entries.filter(|path| path.is_file()).collect();
    files.sort();
    files
}

#[test]
fn the_records_of_several_folders_replay_as_one() {
    let replicas = Replicas::recorded();
    for folders in [["a", "b"], ["b", "a"]] {
        let ran = replicas.run(&["replay", folders[0], folders[1]]).ends(0);
        assert!(ran.stdout.starts_with("4 calls of 20"), "{ran:?}");
        ran.prints("Z in 2 folders: all came out the same\n");
    }
    let report = replicas.run(&["replay", "a", "b", "--json"]).ends(0).json();
    assert_eq!((&report["calls"], &report["same"], &report["ok"]), (&json!(4), &json!(4), &json!(true)), "{report}");
    // Filters and ways to fail may stand among the folders.
    replicas.run(&["replay", "a", "--tool", "demo.add", "b", "--fail-on", "denied"]).ends(0).prints("2 calls of 20");
}

#[test]
fn a_folder_that_is_named_twice_counts_once() {
    let replicas = Replicas::recorded();
    std::os::unix::fs::symlink("a", replicas.path("link")).unwrap();
    for other in ["a", "./a", "link", "link/../a"] {
        let ran = replicas.run(&["replay", "a", other]).ends(0).prints("2 calls of 20");
        assert!(!ran.stdout.contains("folders"), "{ran:?}");
    }
    replicas.run(&["replay", "link", "b", "a"]).ends(0).prints("4 calls of 20").prints(" in 2 folders: ");
    let ran = replicas.run(&["explain", &replicas.ids[0], "--record", "a", "--record", "link"]).ends(0);
    assert!(ran.stderr.is_empty() && !ran.stdout.contains("folder:"), "{ran:?}");
}

#[test]
fn damage_is_told_with_its_folder_and_does_not_touch_the_others() {
    let replicas = Replicas::recorded();
    let path = files(&replicas.path("b")).remove(0);
    let whole = std::fs::read(&path).unwrap();
    let name = path.file_name().unwrap().to_str().unwrap();
    let mut changed = whole.clone();
    changed[40] ^= 1;
    std::fs::write(&path, changed).unwrap();
    let told = format!("warning: b/{name}:1: the line was changed after it was written");
    replicas.run(&["replay", "a", "b"]).ends(1).prints("3 calls of 20").says(&told);
    replicas.run(&["replay", "a"]).ends(0);
    std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    let told = format!("1 record is incomplete and is skipped, first at b/{name}:1");
    replicas.run(&["replay", "a", "b"]).ends(0).prints("3 calls of 20").says(&told);
    std::fs::write(&path, whole).unwrap();
    // What the one folder has does not mend the other.
    let settings = |folder| {
        let parts = files(&replicas.path(folder).join("parts")).into_iter();
        let is_settings = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with("settings-");
        parts.filter(is_settings).collect::<Vec<_>>()
    };
    assert_eq!(settings("a")[0].file_name(), settings("b")[0].file_name(), "both were written by the same rules");
    std::fs::remove_file(&settings("b")[0]).unwrap();
    let ran = replicas.run(&["replay", "a", "b"]).ends(1).says("2 calls not replayed: b: the settings ");
    assert!(ran.stderr.contains(" is missing"), "{ran:?}");
}

#[test]
fn a_folder_that_is_not_there_or_has_no_records_is_named() {
    let replicas = Replicas::recorded();
    std::fs::create_dir(replicas.path("empty")).unwrap();
    replicas.place.file("work/file", "");
    for (folder, words) in [
        ("nowhere", "cannot read the records in nowhere: "),
        ("file", "cannot read the records in file: "),
        ("empty", "there are no records in empty"),
    ] {
        replicas.run(&["replay", "a", folder, "b"]).ends(2).says(words);
        let ids = &replicas.ids[0];
        replicas.run(&["explain", ids, "--record", "a", "--record", folder]).ends(2).says(words);
    }
    replicas.run(&["replay"]).ends(2).says("no configuration found");
}

#[test]
fn limits_and_contexts_see_the_calls_of_all_folders_in_the_order_of_time() {
    let replicas = Replicas::recorded();
    let config = |rules: Value| {
        json!({
            "servers": {"demo": demo()}, "rules": rules,
            "results": {"demo.echo": {"labels": ["untrusted"]}},
        })
    };
    let limited = config(json!([{"name": "few", "tools": ["demo.*"], "limit": {"calls": 2, "per": "1h"}}]));
    let labelled = config(json!([
        {"name": "no-more", "tools": ["demo.add"], "when": "\"untrusted\" in labels", "then": "deny"},
    ]));
    for folders in [["a", "b"], ["b", "a"]] {
        assert_eq!(replicas.denied(&limited, &folders), [2, 3], "{folders:?}");
        assert_eq!(replicas.denied(&labelled, &folders), [2], "{folders:?}");
    }
    // Alone, no folder has enough of them.
    assert_eq!(replicas.denied(&limited, &["a"]), [0; 0]);
    assert_eq!(replicas.denied(&labelled, &["a"]), [0; 0]);
}

#[test]
fn a_call_is_explained_with_the_folder_that_it_comes_from() {
    let replicas = Replicas::recorded();
    let id = &replicas.ids[1];
    let both = ["--record", "a", "--record", "b"];
    let explain = |more: &[&str]| replicas.run(&[&["explain", id], more].concat());
    let ran =
        explain(&both).ends(0).prints("\n  folder:    b\n  name:      demo.echo\n").prints("recorded in b/calls-");
    assert!(ran.stderr.is_empty(), "{ran:?}");
    let found = explain(&[&both[..], &["--json"]].concat()).ends(0).json();
    assert_eq!((&found["folder"], &found["record"]["id"]), (&json!("b"), &json!(id)), "{found}");
    assert!(found.get("others").is_none(), "{found}");
    replicas.run(&["explain", "nobody", "--record", "a", "--record", "b"]).ends(5).says("is recorded in a, b");
    // Where two folders have it, both are told.
    std::fs::create_dir(replicas.path("copy")).unwrap();
    for file in files(&replicas.path("b")) {
        std::fs::copy(&file, replicas.path("copy").join(file.file_name().unwrap())).unwrap();
    }
    let three = [&both[..], &["--record", "copy"]].concat();
    let ran = explain(&three).ends(0).says(&format!("call {id:?} is recorded in 2 folders: b, copy"));
    assert_eq!(ran.stdout.matches(&format!("call {id}, 20")).count(), 2, "{ran:?}");
    ran.prints("  folder:    b\n").prints("  folder:    copy\n");
    let found = explain(&[&three[..], &["--json"]].concat()).ends(0).json();
    assert_eq!((&found["folder"], &found["others"][0]["folder"]), (&json!("b"), &json!("copy")), "{found}");
    assert_eq!(found["record"], found["others"][0]["record"]);
    // One that was changed is told beside one that can be trusted.
    let path = files(&replicas.path("copy")).remove(0);
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replacen("demo.echo", "demo.odd", 1)).unwrap();
    let name = path.file_name().unwrap().to_str().unwrap();
    let told = format!("cannot be trusted: copy/{name}:1: the line was changed after it was written");
    let ran = explain(&three).ends(0).says(&told);
    assert_eq!(ran.stdout.matches(&format!("call {id}, 20")).count(), 1, "{ran:?}");
    replicas.run(&["explain", id, "--record", "a", "--record", "copy"]).ends(1).says(&told);
}

const ANN: &str = "a-token-of-ann-0123456789";
const OPS: &str = "a-token-of-ops-0123456789";

/// A gateway over HTTP with tokens of ann and of an admin.
struct Gateway {
    _serving: Serving,
    address: String,
}

impl Gateway {
    fn start(place: &Place, folders: &[&str]) -> Self {
        let folders: Vec<_> = folders.iter().flat_map(|folder| ["--record", folder]).collect();
        let serving = Serving::start(place, &[&["--http", "127.0.0.1:0"], &folders[..]].concat());
        let address = serving.address();
        Gateway { _serving: serving, address }
    }

    fn call(&self, token: &str, text: &str) {
        let body = self.call_with(token, &json!({"text": text}));
        assert!(body.contains(text), "{body}");
    }

    /// Calls `demo.echo`, and returns the body of the answer.
    fn call_with(&self, token: &str, arguments: &Value) -> String {
        let mut web = Web { address: &self.address, token: Some(token), session: None };
        web.greet();
        let params = json!({"name": "demo__echo", "arguments": arguments});
        web.post(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})).body
    }

    fn page(&self, token: &str, path: &str, status: u16) -> Value {
        let web = Web { address: &self.address, token: Some(token), session: None };
        let reply = web.request(&format!("GET /api/v1/{path}"), "localhost", &[], "");
        assert_eq!(reply.status, status, "{path}: {reply:?}");
        serde_json::from_str(&reply.body).unwrap()
    }

    /// The recorded calls, as soon as there are so many: calls do not wait for their records.
    fn recorded(&self, token: &str, count: usize) -> Value {
        let since = Instant::now();
        loop {
            let page = self.page(token, "calls?recorded=true", 200);
            match page["calls"].as_array().unwrap().len() {
                found if found == count => return page,
                found => assert!(found < count && since.elapsed() < LONG, "{page}"),
            }
        }
    }
}

fn with_tokens() -> Place {
    let tokens = json!([{"principal": "ann", "token": ANN}, {"principal": "ops", "token": OPS, "admin": true}]);
    Place::configured(&json!({"version": 1, "servers": {"demo": demo()}, "gateway": {"tokens": tokens}}))
}

fn each<'a>(page: &'a Value, member: &str) -> Vec<&'a str> {
    let calls = page["calls"].as_array().unwrap().iter();
    calls.map(|call| call[member].as_str().unwrap_or_default()).collect()
}

#[test]
fn a_gateway_lists_the_recorded_calls_of_all_replicas_newest_first() {
    let place = with_tokens();
    // The folders of others must be there when a gateway starts.
    std::fs::create_dir(place.path("work/b")).unwrap();
    let (one, two) = (Gateway::start(&place, &["a", "b"]), Gateway::start(&place, &["b", "a", "./a"]));
    for (gateway, token) in [(&one, ANN), (&two, OPS), (&one, OPS), (&two, ANN), (&one, ANN)] {
        gateway.call(token, "hi");
    }
    // A call without a gateway has no principal.
    place.run(&["call", "demo.nope", "--record", "b"]).ends(5);
    for gateway in [&one, &two] {
        let page = gateway.recorded(OPS, 6);
        assert_eq!(page["problems"], json!([]), "{page}");
        assert_eq!(each(&page, "principal"), ["", "ann", "ann", "ops", "ops", "ann"], "{page}");
        assert_eq!(each(&page, "folder"), ["b", "a", "b", "a", "b", "a"], "{page}");
        let times = each(&page, "at");
        assert!(times.is_sorted_by(|one, two| one >= two), "{page}");
        assert_eq!((&page["calls"][0]["code"], &page["calls"][0]["is_error"]), (&json!("unknown-tool"), &json!(true)));
        let limited = gateway.page(OPS, "calls?limit=2&recorded=true", 200);
        assert_eq!(limited["calls"].as_array().unwrap(), &page["calls"].as_array().unwrap()[..2]);
        // Others see their own calls, and not where the files are.
        let own = gateway.recorded(ANN, 3);
        assert_eq!(each(&own, "principal"), ["ann"; 3], "{own}");
        assert!(own["calls"].as_array().unwrap().iter().all(|call| call["folder"].is_null()), "{own}");
    }
    // A recorded call is described as a recent one, and the recent ones are as they were.
    let recent = one.page(OPS, "calls", 200);
    assert_eq!((&recent["last"], &recent["lost"]), (&json!(3), &json!(0)), "{recent}");
    assert_eq!(each(&recent, "principal"), ["ann", "ops", "ann"], "{recent}");
    assert_eq!(one.page(OPS, "calls?recorded=false", 200), recent);
    let recorded = one.recorded(OPS, 6);
    for call in recent["calls"].as_array().unwrap() {
        let same = recorded["calls"].as_array().unwrap().iter().find(|other| other["id"] == call["id"]).unwrap();
        let (mut call, mut same) = (call.clone(), same.clone());
        assert_eq!(same.as_object_mut().unwrap().remove("folder"), Some(json!("a")));
        // Both are measured, one after the other.
        for measured in ["at", "latency_ms"] {
            let values = [&mut call, &mut same].map(|call| call.as_object_mut().unwrap().remove(measured));
            assert!(values.iter().all(Option::is_some), "{measured}");
        }
        assert_eq!(call, same);
    }
}

#[test]
fn calls_are_selected_in_memory_and_in_records_alike() {
    let place = with_tokens();
    let gateway = Gateway::start(&place, &["a"]);
    for (token, text) in [(ANN, "one"), (OPS, "two"), (ANN, "three")] {
        gateway.call(token, text);
    }
    gateway.recorded(OPS, 3);
    for recorded in [false, true] {
        let list = |token: &str, conditions: &str| {
            gateway.page(token, &format!("calls?recorded={recorded}&{conditions}"), 200)
        };
        let all = list(OPS, "limit=9");
        let at = |place: usize| each(&all, "at")[place].to_owned();
        for (conditions, expected) in [
            ("server=demo&tool=echo&code=ok".to_owned(), vec!["ann", "ops", "ann"]),
            ("principal=ann".to_owned(), vec!["ann", "ann"]),
            ("principal=ops&tool=demo.*".to_owned(), vec!["ops"]),
            ("server=other".to_owned(), vec![]),
            ("tool=add".to_owned(), vec![]),
            ("code=timeout".to_owned(), vec![]),
            ("limit=1&principal=ann".to_owned(), vec!["ann"]),
            (format!("since={}", at(0)), vec!["ann"]),
            (format!("until={}", at(1)), vec!["ops", "ann"]),
            (format!("since={}&until={}", at(1), at(1)), vec!["ops"]),
        ] {
            assert_eq!(each(&list(OPS, &conditions), "principal"), expected, "{recorded} {conditions}");
        }
        // Nobody sees the calls of others by asking for them.
        assert_eq!(each(&list(ANN, "server=demo"), "principal"), ["ann", "ann"]);
        assert_eq!(list(ANN, "principal=ops")["calls"], json!([]));
    }
}

#[test]
fn the_last_hour_is_for_admins_and_others_see_their_own_part_of_it() {
    let gateway = Gateway::start(&with_tokens(), &[]);
    for (token, text) in [(ANN, "one"), (OPS, "two"), (ANN, "three")] {
        gateway.call(token, text);
    }
    for (token, calls) in [(OPS, 3), (ANN, 2)] {
        let page = gateway.page(token, "history", 200);
        let sum = |values: &Value| values.as_array().unwrap().iter().map(|value| value.as_u64().unwrap()).sum::<u64>();
        for (track, slot, slots) in [(&page["all"], 10, 360), (&page["servers"][0], 60, 60)] {
            assert_eq!((&track["calls"], &track["slot_s"]), (&json!(calls), &json!(slot)), "{page}");
            assert_eq!(
                (&track["failures"], &track["tool_errors"], &track["denied"]),
                (&json!(0), &json!(0), &json!(0))
            );
            assert_eq!(track["slots"]["calls"].as_array().unwrap().len(), slots);
            assert_eq!(sum(&track["slots"]["calls"]), calls);
            assert!(track["p50_ms"].as_f64().unwrap() <= track["p99_ms"].as_f64().unwrap(), "{page}");
        }
        assert_eq!((&page["servers"][0]["server"], page["servers"].as_array().unwrap().len()), (&json!("demo"), 1));
    }
    // Wrong arguments are the fault of whoever calls.
    let body = gateway.call_with(ANN, &json!({"text": [1]}));
    assert!(body.contains("invalid arguments"), "{body}");
    for (token, calls) in [(OPS, 4), (ANN, 3)] {
        let page = gateway.page(token, "history", 200);
        let all = &page["all"];
        assert_eq!((&all["calls"], &all["failures"], &all["denied"]), (&json!(calls), &json!(0), &json!(1)), "{page}");
        let demo = &page["servers"][0];
        assert_eq!((&demo["calls"], &demo["failures"]), (&json!(calls - 1), &json!(0)), "{page}");
    }
    let said = gateway.page(OPS, "history?limit=1", 400);
    assert!(said["error"].as_str().unwrap().contains("this page takes none"), "{said}");
}

#[test]
fn a_folder_that_cannot_be_read_is_told_beside_the_calls_of_the_others() {
    let place = with_tokens();
    let [nowhere, file] = ["work/nowhere", "work/file"].map(|name| place.path(name));
    for dir in [&nowhere, &file] {
        std::fs::create_dir(dir).unwrap();
    }
    let gateway = Gateway::start(&place, &["a", "nowhere", "file"]);
    // A gateway that runs goes on without them.
    for dir in [&nowhere, &file] {
        std::fs::remove_dir(dir).unwrap();
    }
    place.file("work/file", "");
    // This gateway has recorded nothing yet, so its own folder is not there, which is no problem.
    let page = gateway.recorded(OPS, 0);
    let folders = |page: &Value| -> Vec<Value> {
        page["problems"].as_array().unwrap().iter().map(|problem| problem["folder"].clone()).collect()
    };
    assert_eq!(folders(&page), [json!("nowhere"), json!("file")], "{page}");
    gateway.call(ANN, "hi");
    let page = gateway.recorded(OPS, 1);
    assert_eq!(folders(&page), [json!("nowhere"), json!("file")], "{page}");
    let page = gateway.recorded(ANN, 1);
    assert_eq!(folders(&page), [Value::Null, Value::Null], "{page}");
    assert!(!page.to_string().contains("nowhere"), "{page}");
    let text = page["problems"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("the folder cannot be read: "), "{page}");
    // Damage in one folder is told with the folder.
    place.run(&["call", "demo.echo", "text: hi", "--record", "nowhere"]).ends(0);
    let path = files(&place.path("work/nowhere")).remove(0);
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replacen("demo.echo", "demo.odd", 1)).unwrap();
    let page = gateway.recorded(OPS, 1);
    assert_eq!(page["problems"][0]["folder"], "nowhere", "{page}");
    assert!(page["problems"][0]["text"].as_str().unwrap().starts_with("1 record is damaged: calls-"), "{page}");
}

#[test]
fn a_gateway_without_records_says_how_to_get_some() {
    let place = with_tokens();
    let gateway = Gateway::start(&place, &[]);
    let said = gateway.page(OPS, "calls?recorded=true", 404);
    assert!(said["error"].as_str().unwrap().contains("--record DIR"), "{said}");
    for (path, words) in [
        ("calls?recorded=yes", "recorded must be true or false, not \"yes\""),
        ("calls?recorded=true&recorded=true", "recorded is repeated"),
        ("calls?recorded=true&after=1", "use since"),
        ("calls?after=x", "after must be the number `last` of an earlier answer, not \"x\""),
        ("calls?code=bad", "unknown code \"bad\"; there are: ok, "),
        ("shadow?recorded=true", "unknown parameter \"recorded\": this page takes limit"),
    ] {
        let said = gateway.page(OPS, path, 400);
        assert!(said["error"].as_str().unwrap().contains(words), "{said}");
    }
    // What is configured counts as well.
    let place = place.and_configured(&json!({
        "version": 1, "servers": {"demo": demo()}, "record": {"dir": "../kept"},
        "gateway": {"tokens": [{"principal": "ops", "token": OPS, "admin": true}]},
    }));
    let gateway = Gateway::start(&place, &[]);
    gateway.call(OPS, "hi");
    let page = gateway.recorded(OPS, 1);
    assert!(page["calls"][0]["folder"].as_str().unwrap().ends_with("kept"), "{page}");
}
