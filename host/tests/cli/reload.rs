//! Tests a gateway whose configuration changes while it runs.

use std::fs;
use std::os::unix::fs::symlink;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::place::{Place, and, fixture, fixture_with};
use crate::serving::{LONG, Serving, Web, appears};

/// The file that the gateway is told of.
const FILE: &str = "home/servers.yaml";

fn write(place: &Place, config: &Value) {
    place.file(FILE, config.to_string());
}

/// A server whose calls last until they are released.
fn holds(place: &Place, name: &str) -> Value {
    let path = |what: &str| place.path(&format!("home/{name}-{what}")).display().to_string();
    fixture_with("holds", &[&path("began"), &path("release")])
}

fn began(place: &Place, name: &str) {
    appears(&place.path(&format!("home/{name}-began")));
}

fn release(place: &Place, name: &str) {
    place.file(&format!("home/{name}-release"), "");
}

const LISTS: [&str; 3] =
    ["notifications/tools/list_changed", "notifications/prompts/list_changed", "notifications/resources/list_changed"];

#[test]
fn an_edited_file_brings_other_servers_and_drops_no_call() {
    let place = Place::with(json!({}));
    let old = and(fixture("ok"), json!({"env": {"X": "1"}}));
    write(
        &place,
        &json!({"servers": {
            "kept": holds(&place, "kept"), "updated": holds(&place, "updated"), "removed": holds(&place, "removed"), "old": old,
        }}),
    );
    let mut serving = Serving::greet(&place, &[]);
    let before = serving.tools();
    assert!(before.contains(&"removed__do".to_owned()), "{before:?}");
    let running: Vec<_> = ["kept", "updated", "removed"]
        .map(|server| serving.begin("tools/call", json!({"name": format!("{server}__do"), "arguments": {}})))
        .into();
    ["kept", "updated", "removed"].iter().for_each(|server| began(&place, server));
    let told = serving.told_so_far().len();
    write(
        &place,
        &json!({"servers": {
            "added": fixture("ok"), "kept": holds(&place, "kept"), "updated": and(holds(&place, "updated"), json!({"env": {"X": "2"}})),
            "old": old,
        }}),
    );
    serving.logged(&[
        "was reloaded: added added; removed removed; updated updated; changed servers.updated.env; 2 unchanged",
    ]);
    LISTS.iter().for_each(|list| drop(serving.told(list)));
    let after = serving.tools();
    assert_eq!(after.iter().filter(|name| name.ends_with("__do")).count(), 4, "{after:?}");
    assert!(after.contains(&"added__do".to_owned()) && !after.contains(&"removed__do".to_owned()), "{after:?}");
    assert_eq!(serving.call("added__do")["result"]["content"][0]["text"], "done");
    assert_eq!(serving.call("removed__look")["error"]["code"], -32602);
    // Calls under way end where they began.
    ["kept", "updated", "removed"].iter().for_each(|server| release(&place, server));
    for id in running {
        let answer = serving.answer(id);
        assert_eq!(answer["result"]["content"][0]["text"], "done", "{answer}");
    }
    // Many changes are told as few: those of the new lists may come a little later.
    let told = serving.told_so_far().into_iter().skip(told).filter(|method| method == LISTS[0]).count();
    assert!(told <= 3, "{told}");
    let log = serving.logged_so_far();
    assert!(!log.iter().any(|line| line.contains("is configured")), "the new server is known: {log:#?}");
    assert_eq!(serving.end().code(), Some(0));
}

#[test]
fn a_file_that_does_not_read_is_told_with_its_place_and_the_old_one_stays() {
    let place = Place::with(json!({"a": fixture("ok")}));
    let mut serving = Serving::greet(&place, &[]);
    assert_eq!(serving.tools(), ["a__do", "a__look"]);
    for (text, expected) in [
        ("servers:\n  a: {command: [\n", "servers.yaml:"),
        ("servers: {}\nserver: {}\n", "servers.yaml:2:1"),
        (
            "gateway: {tokens: [{principal: a, token: '${NO_SUCH_VARIABLE}'}]}\nservers: {}\n",
            "\"NO_SUCH_VARIABLE\" is not set",
        ),
        (
            "gateway: {tokens: [{principal: a, token: s3cret-0123456789, servers: [b]}]}\nservers: {}\n",
            "no server \"b\"",
        ),
    ] {
        place.file(FILE, text);
        let line = serving.logged(&["WARN", "the configuration stays as it was: ", expected]);
        assert!(!line.contains("s3cret"), "{line}");
        assert_eq!(serving.call("a__do")["result"]["content"][0]["text"], "done");
        place.run(&["status"]).ends(0).prints("its configuration stays as it was: ");
    }
    fs::remove_file(place.path(FILE)).unwrap();
    serving.logged(&["the configuration stays as it was: ", "servers.yaml"]);
    write(&place, &json!({"servers": {"a": fixture("ok"), "b": fixture("ok"), "c": {"command": 7, "url": "x"}}}));
    serving.logged(&["was reloaded: added b, c; 1 unchanged"]);
    serving.logged(&["WARN", "it cannot be used", "servers.yaml:1:"]);
    assert_eq!(serving.tools(), ["a__do", "a__look", "b__do", "b__look"]);
    let shown = place.run(&["status"]).ends(0);
    assert!(!shown.stdout.contains("stays as it was"), "{shown:?}");
}

#[test]
fn a_swapped_link_is_a_change() {
    let place = Place::new();
    let folder = |name: &str, servers: Value| {
        place.file(&format!("work/mounted/{name}/toolgate.yaml"), json!({"servers": servers}).to_string());
    };
    // As Kubernetes mounts a ConfigMap.
    folder("..2026_1", json!({"a": fixture("ok")}));
    symlink("..2026_1", place.path("work/mounted/..data")).unwrap();
    symlink("..data/toolgate.yaml", place.path("work/mounted/toolgate.yaml")).unwrap();
    let mut serving = Serving::greet(&place, &["--config", "mounted/toolgate.yaml"]);
    assert_eq!(serving.tools(), ["a__do", "a__look"]);
    folder("..2026_2", json!({"b": fixture("ok")}));
    symlink("..2026_2", place.path("work/mounted/..data_tmp")).unwrap();
    fs::rename(place.path("work/mounted/..data_tmp"), place.path("work/mounted/..data")).unwrap();
    serving.logged(&["was reloaded: added b; removed a"]);
    assert_eq!(serving.tools(), ["b__do", "b__look"]);
}

#[test]
fn a_hangup_reads_again_what_the_file_names() {
    let place = Place::with(json!({}));
    let word = place.file("home/word", "four");
    let server = fixture_with("measures", &[&format!("${{file:{}}}", word.display())]);
    write(&place, &json!({"servers": {"a": server, "b": fixture("ok")}}));
    let mut serving = Serving::greet(&place, &[]);
    assert_eq!(serving.call("a__do")["result"]["content"][0]["text"], "4 letters");
    serving.call("b__do");
    serving.signal(Signal::HUP);
    serving.logged(&["was reloaded: nothing has changed"]);
    place.file("home/word", "seven 7");
    serving.signal(Signal::HUP);
    serving.logged(&["was reloaded: updated a; 1 unchanged"]);
    assert_eq!(serving.call("a__do")["result"]["content"][0]["text"], "7 letters");
    assert_eq!(serving.end().code(), Some(0), "it is no reason to end");
}

#[test]
fn a_variable_that_becomes_the_secret_of_another_server_is_not_passed_on_any_more() {
    let place = Place::with(json!({"a": fixture("tells-environment")})).set("OF_ANOTHER", "s3cret");
    let mut serving = Serving::greet(&place, &[]);
    let told = |serving: &mut Serving| serving.call("a__do")["result"]["content"][0]["text"].to_string();
    assert!(told(&mut serving).contains("OF_ANOTHER"));
    let other = and(fixture("ok"), json!({"env": {"KEY": "${OF_ANOTHER}"}}));
    write(&place, &json!({"servers": {"a": fixture("tells-environment"), "b": other}}));
    serving.logged(&["was reloaded: added b; 1 unchanged"]);
    // Its process goes on as it is until it is asked for.
    serving.signal(Signal::HUP);
    serving.logged(&["was reloaded: updated a; 1 unchanged"]);
    assert!(!told(&mut serving).contains("OF_ANOTHER"));
}

#[test]
fn a_queue_that_gets_more_slots_lets_a_waiting_call_in() {
    let place = Place::with(json!({}));
    let config = |slots: u64| {
        let queued = |entry: Value| and(entry, json!({"queue": "q"}));
        json!({"queues": {"q": slots}, "servers": {"a": queued(holds(&place, "a")), "b": queued(fixture("ok"))}})
    };
    write(&place, &config(1));
    let mut serving = Serving::greet(&place, &[]);
    assert_eq!(serving.tools().len(), 4);
    let running = serving.begin("tools/call", json!({"name": "a__do", "arguments": {}}));
    began(&place, "a");
    let waiting = serving.begin("tools/call", json!({"name": "b__do", "arguments": {}}));
    write(&place, &config(2));
    serving.logged(&["was reloaded: changed queues.q; 2 unchanged"]);
    assert_eq!(serving.answer(waiting)["result"]["content"][0]["text"], "done");
    release(&place, "a");
    assert_eq!(serving.answer(running)["result"]["content"][0]["text"], "done");
}

#[test]
fn a_changed_file_of_the_working_directory_is_used_once_it_is_trusted() {
    let place = Place::new();
    let config = |servers: Value| json!({"servers": servers}).to_string();
    place.file("work/toolgate.yaml", config(json!({"a": fixture("ok")})));
    place.run(&["trust"]).ends(0);
    let mut serving = Serving::greet(&place, &[]);
    assert_eq!(serving.tools(), ["a__do", "a__look"]);
    place.file("work/toolgate.yaml", config(json!({"a": fixture("ok"), "b": fixture("ok")})));
    serving.logged(&["WARN", "is not trusted as it is now", "run `toolgate trust`"]);
    assert_eq!(serving.tools(), ["a__do", "a__look"]);
    place.run(&["trust"]).ends(0);
    serving.logged(&["was reloaded: added b; 1 unchanged"]);
    assert_eq!(serving.tools().len(), 4);
}

/// The tokens of a configuration.
const ANN: &str = "ann-0123456789abcdef";
const BOB: &str = "bob-0123456789abcdef";
const CAT: &str = "cat-0123456789abcdef";

#[test]
fn tokens_come_go_and_change_what_they_open() {
    let place = Place::with(json!({}));
    let bob = place.file("home/bob", BOB);
    let config = |tokens: Value, more: Value| {
        let gateway = and(json!({"tokens": tokens}), more);
        write(&place, &json!({"gateway": gateway, "servers": {"a": fixture("ok"), "b": fixture("ok")}}));
    };
    let of_bob = json!({"principal": "bob", "file": bob.display().to_string()});
    // Names by which a gateway is reached only go while it runs.
    config(json!([{"principal": "ann", "token": ANN}, of_bob]), json!({"hosts": ["gate.example", "other.example"]}));
    let serving = Serving::start(&place, &["--http", "127.0.0.1:0"]);
    let address = serving.address();
    let web = |token| Web { address: &address, token: Some(token), session: None };
    let (mut ann, mut bob_now) = (web(ANN), web(BOB));
    assert_eq!((ann.greet().status, bob_now.greet().status), (200, 200));
    assert_eq!(ann.tools().map(|tools| tools.len()), Ok(4));
    assert_eq!(bob_now.tools().map(|tools| tools.len()), Ok(4));
    assert_eq!(bob_now.modern_tools().map(|tools| tools.len()), Ok(4));
    assert_eq!(web(CAT).modern_tools(), Err(401));

    // Ann goes, Bob may use less, and Cat comes.
    let of_bob = and(of_bob, json!({"servers": {"a": ["look"]}}));
    let of_cat = json!({"principal": "cat", "token": CAT});
    config(json!([of_bob, of_cat]), json!({"hosts": ["gate.example"], "max_body_bytes": 2000, "names": "dot"}));
    serving.logged(&[
        "new tokens of cat; removed tokens of ann; changed token or rights of bob; changed gateway.",
        "gateway.tokens; 1 session ended; 2 unchanged",
    ]);
    assert_eq!(ann.tools(), Err(401));
    assert_eq!(Web { session: ann.session.clone(), ..web(CAT) }.tools(), Err(404), "her session has ended");
    assert_eq!(bob_now.tools(), Ok(vec!["a.look".to_owned()]), "his session goes on, with what he may use now");
    assert_eq!(bob_now.modern_tools(), Ok(vec!["a.look".to_owned()]));
    assert_eq!(web(CAT).modern_tools().map(|tools| tools.len()), Ok(4));
    let asked = |host: &str, body: &str| web(CAT).request("GET /api/v1/servers", host, &[], body).status;
    assert_eq!((asked("gate.example", ""), asked("other.example", "")), (200, 403));
    assert_eq!(web(CAT).request("POST /mcp", "localhost", &[], &"x".repeat(2001)).status, 413);

    // Bob's token changes in its file.
    fs::write(&bob, "bob-has-another-one-now").unwrap();
    serving.logged(&["changed token or rights of bob"]);
    assert_eq!(bob_now.modern_tools(), Err(401));
    let other = Web { token: Some("bob-has-another-one-now"), session: bob_now.session.clone(), ..web(CAT) };
    assert_eq!(other.tools(), Ok(vec!["a.look".to_owned()]), "he is still Bob");
    // A file without a good token is told, and changes nothing.
    fs::write(&bob, "short").unwrap();
    serving.logged(&["the configuration stays as it was", "gateway.tokens[0].file: has fewer than 16 characters"]);
    assert_eq!(other.tools(), Ok(vec!["a.look".to_owned()]));
}

#[test]
fn what_cannot_change_while_it_runs_is_said_aloud() {
    let place = Place::with(json!({}));
    let config = |http: &str, socket: bool| {
        write(&place, &json!({"gateway": {"http": http, "socket": socket}, "servers": {"a": fixture("ok")}}));
    };
    config("127.0.0.1:0", true);
    let serving = Serving::start(&place, &["--http"]);
    let address = serving.address();
    config("127.0.0.2:0", false);
    serving.logged(&["was reloaded"]);
    serving.logged(&["WARN", "a change of the address needs a restart"]);
    serving.logged(&["WARN", "a change of gateway.socket needs a restart"]);
    let mut web = Web { address: &address, token: None, session: None };
    assert_eq!(web.greet().status, 200);
}

#[test]
fn many_edits_in_a_row_end_with_the_last_one() {
    let place = Place::with(json!({"a": fixture("ok")}));
    let mut serving = Serving::greet(&place, &[]);
    assert_eq!(serving.tools().len(), 2);
    for n in 0..50 {
        let servers: serde_json::Map<_, _> = (0..=n % 5).map(|m| (format!("s{m}"), fixture("ok"))).collect();
        let part = place.file("home/part.yaml", json!({"servers": servers}).to_string());
        // Now in place, now by a rename.
        match n % 2 {
            0 => drop(fs::copy(&part, place.path(FILE)).unwrap()),
            _ => fs::rename(&part, place.path(FILE)).unwrap(),
        }
    }
    let since = std::time::Instant::now();
    while serving.tools().len() != 10 {
        assert!(since.elapsed() < LONG, "{:?}", serving.tools());
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

#[test]
fn a_reload_says_which_keys_have_changed() {
    let place = Place::with(json!({}));
    let a = and(fixture("ok"), json!({"ask": ["do"]}));
    write(&place, &json!({"servers": {"a": a}}));
    let serving = Serving::greet(&place, &[]);
    let b = and(fixture("ok"), json!({"deny": ["do"]}));
    write(&place, &json!({"destructive": "deny", "servers": {"a": b}}));
    let line = serving.logged(&["was reloaded: "]);
    assert!(line.contains("updated a; changed destructive, servers.a.deny, servers.a.ask"), "{line}");
    place.file("home/next.yaml", json!({"servers": {"a": fixture("ok")}}).to_string());
    write(&place, &json!({"destructive": "deny", "servers": {"a": b}, "shadow": {"config": "next.yaml"}}));
    serving.logged(&["was reloaded: changed shadow; 1 unchanged"]);
}
