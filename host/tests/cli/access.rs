//! Tests `toolgate access`: who may call what in a gateway, and what another configuration changes.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::place::{Place, and, demo, each, fixture, fixture_with};

const SECRET: &str = "s3cret-0123456789-planted";

/// Three servers, rules of every kind, and principals of every kind.
fn config() -> Value {
    json!({
        "version": 1,
        "destructive": "ask",
        "servers": {
            "demo": and(demo(), json!({"deny": ["fail"], "ask": ["add"], "tools": {"fail": {"annotations": {"destructive": true}}}})),
            "files": and(fixture_with("ok", &[SECRET]), json!({"requires": ["office"], "env": {"KEY": SECRET}})),
            "disk": and(fixture("destructive"), json!({"allow": ["w*"]})),
        },
        "gateway": {"tokens": [
            {"principal": "ann", "token": "${ANN}"},
            {"principal": "bob", "token": "bob-0123456789-token", "servers": {"demo": ["e*", "add", "fail"]}},
            {"principal": "cat", "token": "cat-0123456789-token", "capabilities": ["server:files", "tool:demo/echo", "office"]},
            {"principal": "dan", "token": "dan-0123456789-token", "capabilities": []},
            {"principal": "eve", "token": "eve-0123456789-token", "servers": ["disk", "files"], "capabilities": ["mcp_integration"]},
        ]},
    })
}

const PRINCIPALS: [&str; 5] = ["ann", "bob", "cat", "dan", "eve"];

fn place() -> Place {
    Place::configured(&config()).set("ANN", "ann-0123456789-token")
}

/// What each principal may do with each tool.
fn verdicts(answer: &Value) -> BTreeMap<(String, String), String> {
    let text = |row: &Value, name: &str| row[name].as_str().unwrap_or_else(|| panic!("{name} in {row}")).to_owned();
    let rows = answer["access"].as_array().unwrap_or_else(|| panic!("{answer}"));
    rows.iter().map(|row| ((text(row, "principal"), text(row, "name")), text(row, "verdict"))).collect()
}

#[cfg(unix)]
#[test]
fn each_principal_may_list_and_call_just_what_is_said_of_it() {
    use crate::serving::{Serving, Web};
    let place = place();
    let said = verdicts(&place.run(&["access", "--json"]).ends(0).json());
    let mut tools: Vec<_> = said.keys().map(|(_, tool)| tool.clone()).collect();
    tools.sort();
    tools.dedup();
    assert_eq!((tools.len(), said.len()), (9, 9 * 6), "{said:?}");
    assert_eq!(said.values().filter(|verdict| *verdict == "ask").count(), 9, "{said:?}");

    let serving = Serving::start(&place, &["--http", "127.0.0.1:0"]);
    let address = serving.address();
    for principal in PRINCIPALS {
        let token = format!("{principal}-0123456789-token");
        let mut web = Web { address: &address, token: Some(&token), session: None };
        assert_eq!(web.greet().status, 200, "{principal}");
        let of = |tool: &String| said[&(principal.to_owned(), tool.clone())].as_str();
        let mut listed = web.tools().unwrap();
        listed.sort();
        let usable: Vec<_> = tools.iter().filter(|tool| of(tool) != "deny").cloned().collect();
        assert_eq!(listed, usable, "{principal}");
        let mut modern = Web { session: None, ..web }.modern_tools().unwrap();
        modern.sort();
        assert_eq!(modern, usable, "{principal}");
        for tool in &tools {
            let arguments = json!({"text": "x", "a": 1, "b": 2, "seconds": 0, "message": "x", "city": "Bern"});
            let params = json!({"name": tool, "arguments": arguments, "_meta": {"toolgate/outcome": true}});
            let reply = web.post(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}));
            let answer: Value = serde_json::from_str(&reply.body).unwrap_or_else(|_| panic!("{reply:?}"));
            let code =
                answer["result"]["_meta"]["toolgate/outcome"]["code"].as_str().unwrap_or_else(|| panic!("{answer}"));
            let expected = match of(tool) {
                "allow" => &["ok", "tool-error"][..],
                // This client cannot ask anybody.
                "ask" => &["declined"],
                _ => &["not-allowed", "unknown-server", "unknown-tool"],
            };
            assert!(expected.contains(&code), "{principal}, {tool}: {code}, not {expected:?}");
        }
    }
    // Who has no token but the rights of the user, as over the local socket.
    let mut local = Serving::greet(&place, &[]);
    let mut listed = local.tools();
    listed.sort();
    let usable: Vec<_> = tools.into_iter().filter(|tool| said[&("local".to_owned(), tool.clone())] != "deny").collect();
    assert_eq!(listed, usable);
}

#[cfg(unix)]
#[test]
fn each_principal_is_told_by_the_names_that_it_is_shown() {
    use crate::serving::{Serving, Web};
    let long = "x".repeat(70);
    let shown = |names: Value| {
        let place = Place::configured(&json!({
            "version": 1,
            "servers": {"a": fixture_with("names", &["b__c", &long]), "a__b": fixture_with("names", &["c"])},
            "gateway": {"names": names, "tokens": [
                {"principal": "all", "token": "all-0123456789-token"},
                {"principal": "few", "token": "few-0123456789-token", "servers": ["a__b"]},
            ]},
        }));
        let said = place.run(&["access", "--json"]).ends(0).json();
        let serving = Serving::start(&place, &["--http", "127.0.0.1:0"]);
        let address = serving.address();
        for principal in ["all", "few"] {
            let token = format!("{principal}-0123456789-token");
            let mut web = Web { address: &address, token: Some(&token), session: None };
            assert_eq!(web.greet().status, 200, "{principal}");
            let mut listed = web.tools().unwrap();
            listed.sort();
            let rows = said["access"].as_array().unwrap().iter();
            let rows = rows.filter(|row| row["principal"] == principal && row["verdict"] == "allow");
            let mut named: Vec<_> = rows.map(|row| row["name"].as_str().unwrap().to_owned()).collect();
            named.sort();
            assert_eq!(named, listed, "{principal}");
            // The names are those that a pattern means.
            let found =
                place.run(&["access", "--json", "--principal", principal, "--can-call", &named[0]]).ends(0).json();
            assert_eq!(found["access"].as_array().unwrap().len(), 1, "{principal}: {found}");
        }
        said
    };
    shown(Value::Null);
    let said = shown(json!("openai"));
    let names = each(&said["access"], "/name");
    assert!(names.iter().all(|name| name.len() <= 64), "{names:?}");
}

#[test]
fn the_rule_that_decided_is_named() {
    let answer = place().run(&["access", "--json"]).ends(0).json();
    assert_eq!(answer["failed"], json!([]));
    let rows = answer["access"].as_array().unwrap();
    let rule = |principal: &str, tool: &str| {
        let row = rows.iter().find(|row| row["principal"] == principal && row["name"] == tool);
        let row = row.unwrap_or_else(|| panic!("no {tool} of {principal}"));
        assert_eq!(row["trace"].as_array().unwrap().last().unwrap(), &row["rule"]);
        format!("{} {}", row["verdict"].as_str().unwrap(), row["rule"].as_str().unwrap())
    };
    let expected = [
        ("ann", "demo__echo", "allow allowed: no allow list"),
        ("ann", "demo__fail", "deny denied by `deny: fail`"),
        ("ann", "demo__add", "ask needs approval: matches `ask: add`"),
        ("ann", "disk__wipe", "ask needs approval: the tool may delete or overwrite"),
        ("bob", "demo__forecast", r#"deny denied: tool "forecast" is not selected"#),
        ("bob", "disk__wipe", r#"deny denied: server "disk" is not selected"#),
        ("cat", "demo__echo", r#"allow allowed by capability "tool:demo/echo""#),
        ("cat", "files__look", r#"allow allowed by capability "server:files""#),
        ("eve", "files__look", r#"deny denied: required capability "office" is missing"#),
    ];
    for (principal, tool, words) in expected {
        assert_eq!(rule(principal, tool), words, "{principal}, {tool}");
    }
    assert!(rule("dan", "demo__echo").starts_with("deny denied: no capability"), "{}", rule("dan", "demo__echo"));
}

#[test]
fn a_grant_that_means_two_tools_grants_neither_here_as_there() {
    // Only what servers offer shows that the grant is ambiguous: the rules alone would let it pass.
    let tokens = json!([{"principal": "ann", "token": "ann-0123456789-token", "capabilities": ["mcp_a_b_do"]}]);
    let servers = json!({"a": fixture_with("names", &["b_do"]), "a_b": fixture("ok")});
    let place = Place::configured(&json!({"version": 1, "servers": servers, "gateway": {"tokens": tokens}}));
    let ran = place.run(&["access", "--json", "--principal", "ann"]).ends(0);
    let said = verdicts(&ran.json());
    assert!(said.values().all(|verdict| verdict == "deny"), "{said:?}");
    let rows = ran.json();
    let rules = each(&rows["access"], "/rule");
    assert!(rules.iter().any(|rule| rule.contains("mcp_a_b_do")), "{rules:?}");
}

#[test]
fn people_get_a_table_and_can_ask_for_a_part_of_it() {
    let place = place();
    let ran = place.run(&["access"]).ends(0);
    let head: Vec<_> = ran.stdout.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(head, ["PRINCIPAL", "TOOL", "MAY", "WHY"]);
    assert_eq!(ran.stdout.lines().count(), 1 + 9 * 6);
    let names = |ran: &crate::place::Ran| {
        let rows = ran.stdout.lines().skip(1).map(|line| {
            let mut words = line.split_whitespace();
            format!("{} {}", words.next().unwrap(), words.next().unwrap())
        });
        rows.collect::<Vec<_>>()
    };
    for pattern in ["demo.e*", "demo__echo", "ECHO", "e*o"] {
        let ran = place.run(&["access", "--can-call", pattern]).ends(0);
        assert_eq!(names(&ran), ["ann", "bob", "cat", "local"].map(|name| format!("{name} demo__echo")), "{pattern}");
    }
    let ran = place.run(&["access", "--destructive", "--principal", "eve"]).ends(0);
    assert_eq!(names(&ran), ["demo__fail", "disk__wipe", "files__do"].map(|tool| format!("eve {tool}")));
    let ran = place.run(&["access", "--server", "disk", "--principal", "ann", "--principal", "bob"]).ends(0);
    assert_eq!(names(&ran), ["ann disk__wipe", "bob disk__wipe"]);
    place
        .run(&["access", "--principal", "zoe"])
        .ends(5)
        .says("no principal \"zoe\"; there are: ann, bob, cat, dan, eve, local");
    place.run(&["access", "--server", "none"]).ends(5).says("no server \"none\" is configured");
    place.run(&["access", "--can-call", "nothing*"]).ends(0).says("no tool matches");
}

#[test]
fn without_a_configuration_it_is_the_demo_server_and_the_user() {
    let ran = Place::new().run(&["access", "--json"]).ends(0).says("built-in demo server");
    let said = verdicts(&ran.json());
    assert_eq!(said.len(), 6);
    assert!(said.iter().all(|((principal, _), verdict)| principal == "local" && verdict == "allow"), "{said:?}");
}

#[test]
fn values_and_pages_say_the_same_without_a_secret() {
    let place = place();
    let ran = place.run(&["access", "--csv"]).ends(0);
    assert!(
        ran.stdout.starts_with("principal,name,server,tool,verdict,rule,destructive,read_only,needs\r\n"),
        "{}",
        ran.stdout
    );
    assert!(
        ran.stdout.contains("ann,demo__fail,demo,fail,deny,denied by `deny: fail`,true,false,\r\n"),
        "{}",
        ran.stdout
    );
    assert_eq!(ran.stdout.lines().count(), 1 + 9 * 6);
    let page = place.run(&["access", "--html"]).ends(0).stdout;
    assert!(page.starts_with("<!doctype html>") && page.contains("default-src 'none'"), "{page}");
    let data = page.split_once("id=\"data\">").unwrap().1.split_once("</script>").unwrap().0;
    let data: Value = serde_json::from_str(data).unwrap();
    assert_eq!(verdicts(&data), verdicts(&place.run(&["access", "--json"]).json()));
    for form in [&["access"][..], &["access", "--json"], &["access", "--csv"], &["access", "--html"]] {
        let ran = place.run(form).ends(0);
        for secret in [SECRET, "-0123456789-token"] {
            assert!(!ran.stdout.contains(secret) && !ran.stderr.contains(secret), "{form:?}: {secret}");
        }
    }
    place.run(&["access", "--csv", "--html"]).ends(2);
    place.run(&["access", "--json", "--csv"]).ends(2);
}

#[test]
fn what_steers_a_terminal_or_a_page_comes_as_text() {
    let place =
        Place::with(json!({"odd": fixture("steers"), "tags": fixture_with("names", &["</script><b>", "=1+1"])}));
    let ran = place.run(&["access"]).ends(0);
    assert!(!ran.stdout.contains('\u{1b}') && !ran.stdout.contains('\u{202e}'), "{:?}", ran.stdout);
    let page = place.run(&["access", "--html"]).ends(0).stdout;
    assert_eq!(page.matches("</script>").count(), 2, "its own two");
    assert!(!page.contains("<b>"));
    place.run(&["access", "--csv"]).ends(0).prints(",tags,'=1+1,allow,");
}

#[test]
fn a_server_that_cannot_be_asked_is_told_and_the_others_are_shown() {
    let place = Place::with(json!({"demo": demo(), "gone": {"command": "no-such-program-at-all"}}));
    let ran = place.run(&["access", "--json"]).ends(0).says("server \"gone\"");
    let answer = ran.json();
    assert_eq!((verdicts(&answer).len(), each(&answer["failed"], "/server")), (6, vec!["gone"]));
    place.run(&["access", "--strict"]).ends(3).says("server \"gone\"");
}

/// What servers of both eras show to clients with certain capabilities, and how often each was started.
#[cfg(unix)]
#[test]
fn tools_for_clients_with_a_capability_are_shown_with_what_they_need() {
    use crate::serving::Serving;
    let expected = json!({
        "do": null, "sample": ["sampling"], "ask": ["elicitation"], "visit": ["elicitation.url"],
        "both": ["roots", "sampling"], "either": ["any"],
    });
    for (era, starts) in [("legacy", 7), ("modern", 1)] {
        let place = Place::new();
        let (notes, lock) = (place.path("notes"), place.path("lock"));
        let arguments = [notes.to_str().unwrap(), lock.to_str().unwrap(), era];
        let server = and(fixture_with("by-capability", &arguments), json!({"deny": ["both"]}));
        let place = place.and_configured(&json!({"version": 1, "servers": {"s": server}}));
        let ran = place.run(&["access", "--json"]).ends(0);
        assert!(!ran.stderr.contains("WARN"), "{era}: {}", ran.stderr);
        let mut answer = ran.json();
        assert_eq!(answer["warnings"], Value::Null, "{era}: each rule matches a tool");
        let rows = answer["access"].take();
        let found = rows.as_array().unwrap().iter().map(|row| (row["tool"].as_str().unwrap(), row["needs"].clone()));
        assert_eq!(Value::Object(found.map(|(tool, needs)| (tool.to_owned(), needs)).collect()), expected, "{era}");
        let noted = std::fs::read_to_string(&notes).unwrap();
        assert_eq!(noted.lines().filter(|line| *line == "started").count(), starts, "{era}: {noted}");
        let mut answers = noted.lines().filter(|line| *line != "started").peekable();
        assert_eq!(answers.peek().is_some(), era == "legacy", "{noted}");
        assert!(answers.all(|answer| answer == r#"{"action": "decline"}"#), "{noted}");

        let ran = place.run(&["access"]).ends(0);
        for end in ["allowed: no allow list; the client needs elicitation.url", "denied by `deny: both`"] {
            assert!(ran.stdout.lines().any(|line| line.trim_end().ends_with(end)), "{era}: {end} in {}", ran.stdout);
        }
        place.run(&["access", "--csv"]).ends(0).prints(",false,elicitation.url\r\n");
        let checked = place.run(&["check", "--json"]).ends(0).json();
        assert_eq!((&checked["servers"][0]["tools"], &checked["servers"][0]["usable_tools"]), (&json!(6), &json!(5)));
        // A gateway shows the same to a client without any capability, because others may have it.
        let listed = Serving::greet(&place, &[]).tools();
        assert_eq!(listed, ["s__do", "s__sample", "s__ask", "s__visit", "s__either"], "{era}");
    }
}

#[test]
fn a_server_that_shows_the_same_to_all_clients_is_started_twice() {
    let place = Place::new();
    let notes = place.path("notes");
    let servers = json!({"s": fixture_with("counts", &[notes.to_str().unwrap()])});
    let place = place.and_configured(&json!({"version": 1, "servers": servers}));
    assert_eq!(verdicts(&place.run(&["access", "--json"]).ends(0).json()).len(), 2);
    assert_eq!(std::fs::read_to_string(&notes).unwrap(), "started\nstarted\n");
}

#[test]
fn a_change_shows_what_it_grants_and_what_it_takes() {
    let place = place();
    let mut new = config();
    new["destructive"] = json!("allow");
    new["servers"]["demo"]["deny"] = json!(["echo"]);
    new["gateway"]["tokens"].as_array_mut().unwrap().retain(|token| token["principal"] != "cat");
    let file = place.file("home/new.yaml", new.to_string());
    let file = file.to_str().unwrap();
    let ran = place.run(&["access", "--diff", file, "--json"]).ends(1);
    let answer = ran.json();
    let changes: Vec<_> = answer["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            let text = |pointer: &str| row.pointer(pointer).and_then(Value::as_str).unwrap().to_owned();
            [text("/principal"), text("/name"), text("/change"), text("/before/verdict"), text("/after/verdict")]
                .join(" ")
        })
        .collect();
    let has = |line: &str| changes.iter().any(|change| change == line);
    for line in [
        "ann demo__echo taken allow deny",
        "ann demo__fail granted deny allow",
        "ann disk__wipe granted ask allow",
        "bob demo__fail granted deny allow",
        "cat demo__echo taken allow deny",
        "cat files__look taken allow deny",
        "local demo__echo taken allow deny",
    ] {
        assert!(has(line), "no {line:?} in {changes:#?}");
    }
    assert!(!changes.iter().any(|change| change.starts_with("dan ")), "{changes:#?}");
    assert!(!ran.stdout.contains(SECRET) && !ran.stdout.contains("-0123456789-token"));

    let ran = place.run(&["access", "--diff", file, "--principal", "cat"]).ends(1).says("taken");
    assert!(ran.stdout.contains("no such principal") && ran.stdout.contains("allow → deny"), "{}", ran.stdout);
    place.run(&["access", "--diff", file, "--principal", "cat", "--fail-on", "granted"]).ends(0).prints("taken");
    place.run(&["access", "--diff", file, "--principal", "bob", "--fail-on", "granted"]).ends(1).prints("granted");
    place
        .run(&["access", "--diff", file, "--csv"])
        .ends(1)
        .prints("principal,name,server,tool,change,before,after,rule");
    place.run(&["access", "--diff", file, "--html"]).ends(1).prints("\"changes\":[");
}

#[test]
fn whoever_needs_no_token_any_more_is_granted_all() {
    let place = place();
    let mut open = config();
    open["gateway"]["tokens"] = json!([]);
    let open = place.file("home/open.yaml", open.to_string());
    let ran = place.run(&["access", "--diff", open.to_str().unwrap(), "--fail-on", "granted"]).ends(1);
    assert!(ran.stdout.contains("anyone (HTTP without a token)"), "{ran:?}");
    // The other way round it is taken, and nobody who keeps what it has is told of.
    let closed = place.path("home/servers.yaml");
    let diff = ["access", "--config", open.to_str().unwrap(), "--diff", closed.to_str().unwrap(), "--json"];
    let answer = Place::new().set("ANN", "ann-0123456789-token").run(&diff).ends(1).json();
    let rows = answer["changes"].as_array().unwrap().iter();
    let of_anyone: Vec<_> = rows.filter(|row| row["principal"] == "anyone (HTTP without a token)").collect();
    assert!(of_anyone.len() > 1 && of_anyone.iter().all(|row| row["change"] == "taken"), "{answer:#}");
    assert!(of_anyone.iter().all(|row| row["after"]["rule"] == "a token is needed"), "{answer:#}");
    assert!(!each(&answer["changes"], "/principal").contains(&"local"), "{answer:#}");
}

#[test]
fn who_becomes_an_admin_is_told() {
    let place = place();
    let mut new = config();
    new["gateway"]["tokens"][1]["admin"] = json!(true);
    let file = place.file("home/new.yaml", new.to_string());
    let ran = place.run(&["access", "--diff", file.to_str().unwrap(), "--fail-on", "granted", "--json"]).ends(1).json();
    assert_eq!((each(&ran["changes"], "/principal"), each(&ran["changes"], "/name")), (vec!["bob"], vec!["(admin)"]));
    place.run(&["access", "--diff", file.to_str().unwrap(), "--principal", "ann"]).ends(0).says("nobody may do more");
}

#[test]
fn no_change_is_no_change() {
    let place = place();
    // Another order, and another way to write it.
    let mut same = config();
    same["names"] = json!("double-underscore");
    same["gateway"]["tokens"].as_array_mut().unwrap().reverse();
    let file = place.file("home/same.yaml", same.to_string());
    let ran = place.run(&["access", "--diff", file.to_str().unwrap()]).ends(0).says("nobody may do more or less");
    assert_eq!(ran.stdout, "");
    let wrong = place.file("home/wrong.yaml", "servers: [1");
    place.run(&["access", "--diff", wrong.to_str().unwrap()]).ends(2).says("wrong.yaml");
    place.run(&["access", "--diff", "no-such.yaml"]).ends(2).says("no-such.yaml");
    place.run(&["access", "--fail-on", "granted"]).ends(2).says("--diff");
}

#[test]
fn a_server_that_cannot_be_asked_is_not_taken_for_a_change() {
    let place = Place::with(json!({"demo": demo(), "files": fixture("ok")}));
    let broken = json!({"servers": {"demo": demo(), "files": {"command": "no-such-program-at-all"}}});
    let file = place.file("home/broken.yaml", broken.to_string());
    let ran = place.run(&["access", "--diff", file.to_str().unwrap(), "--json"]).ends(3).says("server \"files\"");
    assert_eq!((&ran.json()["changes"], each(&ran.json()["failed"], "/server")), (&json!([]), vec!["files"]));
    let typo = json!({"servers": {"demo": demo(), "files": and(fixture("ok"), json!({"denny": ["look"]}))}});
    let typo = place.file("home/typo.yaml", typo.to_string());
    for (file, code) in [(&file, 3), (&typo, 2)] {
        let ran =
            place.run(&["access", "--diff", file.to_str().unwrap()]).ends(code).says("could not be reached: files");
        assert!(!ran.stderr.contains("nobody may do more"), "{ran:?}");
    }
    // A change that is found is the graver thing.
    let both = json!({"servers": {"demo": and(demo(), json!({"deny": ["echo"]})), "files": {"command": "no-such-program-at-all"}}});
    let both = place.file("home/both.yaml", both.to_string());
    place.run(&["access", "--diff", both.to_str().unwrap()]).ends(1).says("not compared");
    place.run(&["access", "--diff", both.to_str().unwrap(), "--fail-on", "granted"]).ends(3).says("1 taken");
    let gone = place.file("home/gone.yaml", json!({"servers": {"demo": demo()}}).to_string());
    let ran = place.run(&["access", "--diff", gone.to_str().unwrap(), "--json"]).ends(1).json();
    assert_eq!(each(&ran["changes"], "/name"), ["files__do", "files__look"]);
}

#[test]
fn a_token_that_names_no_server_is_refused_with_its_place() {
    let tokens = json!([{"principal": "ann", "token": "${NOT_SET_AT_ALL}", "servers": ["dmeo"]}]);
    let place = Place::configured(&json!({"version": 1, "servers": {"demo": demo()}, "gateway": {"tokens": tokens}}));
    place.run(&["access"]).ends(2).says("no server \"dmeo\" is configured; there are: demo; did you mean \"demo\"?");
}
