//! Tests `toolgate check`: what works, what is wrong, and how to fix it.

use std::io::{Read, Write};
use std::net::TcpListener;

use serde_json::{Value, json};

use crate::place::{Place, and, demo, fixture};

#[test]
fn what_is_well_is_a_line_for_each_server() {
    let place = Place::with(json!({
        "demo": demo(),
        "old": and(demo(), json!({"protocol": "legacy"})),
        "off": and(demo(), json!({"enabled": false})),
        "few": and(demo(), json!({"allow": ["echo"]})),
    }));
    let ran = place.run(&["check"]).ends(0).prints(" · 1 of 6 tools, 1 resource, 1 prompt · ");
    let version = env!("CARGO_PKG_VERSION");
    let rest = format!("toolgate-demo {version} · 6 tools, 1 resource, 1 prompt · ");
    let ran = ran.prints(&format!("✓ demo  stdio · modern 2026-07-28 · {rest}"));
    let ran = ran.prints(&format!("✓ old  stdio · legacy 2025-11-25 · {rest}")).prints("- off  disabled\n");
    assert_eq!((ran.stdout.lines().count(), ran.stderr.as_str()), (4, ""));
}

#[test]
fn programs_that_each_replica_starts_for_itself_are_named() {
    let keys = json!(["0123456789abcdef0123456789abcdef"]);
    for (gateway, expected) in [(json!({"session_keys": keys}), true), (json!({}), false)] {
        let servers = json!({"one": demo(), "two": demo(), "off": and(demo(), json!({"enabled": false}))});
        let place = Place::new().and_configured(&json!({"servers": servers, "gateway": gateway}));
        let ran = place.run(&["check"]).ends(0);
        assert_eq!(
            ran.stdout.contains("each replica of the gateway starts its own one, two:"),
            expected,
            "{}",
            ran.stdout
        );
    }
}

#[test]
fn each_kind_of_failure_is_told_with_what_mends_it() {
    let place = Place::with(json!({
        "demo": demo(),
        "missing": {"command": "no-such-program-here"},
        "ends": fixture("ends-at-once"),
        "refuses": fixture("refuses"),
        "hangs": and(fixture("hangs"), json!({"timeouts": {"initialize": "200ms"}})),
        "slow": and(fixture("hangs-in-list"), json!({"timeouts": {"list": "100ms"}})),
        "unset": {"command": "python3", "env": {"A": "${NOT_SET_HERE}"}},
        "typo": {"comand": "python3"},
        "refused": {"url": "http://127.0.0.1:1/mcp"},
        "locked": {"url": web(401)},
        "lost": {"url": web(404)},
        "broken": {"url": web(500)},
    }));
    // A configuration that is wrong counts more than a server that is down.
    let ran = place.run(&["check", "--json"]).ends(2);
    assert_eq!(ran.stderr, "", "all that is found is in the answer");
    let report = ran.json();
    for (server, reason, hint) in [
        ("missing", "\"no-such-program-here\" was not found in PATH; install it, or give its full path", None),
        ("ends", "ended with exit code 3; it last wrote:\nno such option", Some("run its command by hand")),
        ("refuses", "not today", None),
        ("hangs", "no answer to", Some("raise servers.hangs.timeouts.initialize")),
        ("slow", "no answer to tools/list within", Some("raise servers.slow.timeouts.list")),
        ("unset", "servers.unset.env.A: variable \"NOT_SET_HERE\" is not set; export it", None),
        ("typo", "unknown key \"comand\"; did you mean \"command\"?", None),
        ("refused", "connection refused", None),
        ("locked", "401", Some("give servers.locked.auth a token")),
        ("lost", "404", Some("is the path of servers.lost.url right?")),
        ("broken", "500", None),
    ] {
        let checked = of(&report, server);
        assert_eq!(checked["ok"], false, "{checked}");
        let text = |key: &str| checked[key].as_str().unwrap_or_default();
        assert!(text("reason").contains(reason), "{checked}");
        match hint {
            Some(hint) => assert!(text("hint").contains(hint), "{checked}"),
            None => assert_eq!(checked["hint"], Value::Null, "{checked}"),
        }
    }
    assert_eq!(of(&report, "demo")["ok"], true, "one that fails does not take others with it");
}

#[test]
fn a_hint_names_the_limit_that_held_where_it_is_set() {
    let place = Place::new();
    let hangs = and(fixture("hangs"), json!({"timeouts": {"initialize": "300ms"}}));
    let file = place.file("home/mcp.json", json!({"mcpServers": {"hangs": hangs}}).to_string());
    let check = ["check", "--config", file.to_str().unwrap()];
    place.run(&check).ends(3).prints("raise mcpServers.hangs.timeouts.initialize");
    place.run(&[&check[..], &["--timeout", "300ms"]].concat()).ends(3).prints("hint: raise --timeout");
}

#[test]
fn people_see_the_hint_below_the_reason() {
    let place = Place::with(json!({"ends": fixture("ends-at-once"), "well": demo()}));
    let ran = place.run(&["check"]).ends(3);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(lines[0], "✗ ends  the server's process ended with exit code 3; it last wrote:");
    assert!(lines[1].starts_with("    | no such option"), "{ran:?}");
    assert_eq!(lines[2], "    hint: run its command by hand to see more");
    assert!(lines[3].starts_with("    runs on: Python 3."), "{ran:?}");
    assert!(lines[4].starts_with("✓ well"), "{ran:?}");
    place.run(&["check", "--server", "well"]).ends(0).prints("✓ well");
    place.run(&["check", "--server", "nobody"]).ends(5).says("there are: ends, well");
    place.run(&["check", "--server", "wel"]).ends(5).says("did you mean \"well\"?");
}

#[test]
fn json_names_the_file_and_has_every_figure() {
    let place = Place::new();
    let config = json!({"mcpServers": {"my demo": demo(), "gate": {"command": "toolgate", "args": ["serve"]}}});
    let file = place.file("home/mcp.json", config.to_string());
    let report = place.run(&["check", "--json", "--config", file.to_str().unwrap()]).ends(0).json();
    assert_eq!(report["file"], file.to_str().unwrap());
    let notices: Vec<_> = report["notices"].as_array().unwrap().iter().map(|notice| notice.as_str().unwrap()).collect();
    assert!(notices.iter().any(|notice| notice.ends_with("server \"my demo\" is called \"my-demo\" here")));
    assert!(notices.iter().any(|notice| notice.contains("it would start `toolgate serve` in an endless loop")));
    let mut checked = of(&report, "my-demo").clone();
    let start = checked.as_object_mut().unwrap().remove("start_ms");
    assert!(start.is_some_and(|start| start.is_u64()));
    let expected = json!({
        "server": "my-demo", "ok": true, "transport": "stdio", "era": "modern", "version": "2026-07-28",
        "name": "toolgate-demo", "software_version": env!("CARGO_PKG_VERSION"), "tools": 6,
        "usable_tools": 6, "resources": 1, "prompts": 1, "reason": null, "hint": null,
    });
    assert_eq!(checked, expected);
}

#[test]
fn a_configuration_without_servers_is_said_to_be_one() {
    let place = Place::with(json!({}));
    place.run(&["check"]).ends(0).prints("the configuration has no servers\n");
}

#[test]
fn what_serve_would_refuse_is_wrong_and_what_it_would_do_without_is_a_warning() {
    let token = |rest: Value| json!({"tokens": [and(json!({"principal": "ci"}), rest)]});
    let good = "0123456789abcdef0123";
    for (gateway, told) in [
        (token(json!({"token": "${NOT_SET_HERE}"})), "gateway.tokens[0].token: variable \"NOT_SET_HERE\" is not set"),
        (token(json!({"token": "short"})), "gateway.tokens[0].token: has fewer than 16 characters"),
        (token(json!({"file": "./none"})), "gateway.tokens[0].file: file "),
        (
            token(json!({"token": good, "servers": ["dmeo"]})),
            "gateway.tokens[0].servers: no server \"dmeo\" is configured",
        ),
        (json!({"session_keys": ["short"]}), "gateway.session_keys[0]: has fewer than 32 characters"),
        (json!({"store": "redi://x"}), "gateway.store: is not a store"),
        (json!({"http": "0.0.0.0:0"}), "others can reach 0.0.0.0:0, so clients need tokens"),
        (json!({"tls": {"certificate": "./none.pem", "key": "./key.pem"}}), "home/none.pem\" for TLS: "),
    ] {
        let place = Place::configured(&json!({"servers": {"demo": demo()}, "gateway": gateway}));
        let ran = place.run(&["check"]).ends(2).prints("✓ demo").prints("✗ gateway  `serve` would not start: ");
        let ran = ran.prints(told);
        place.run(&["serve", "--http"]).ends(2).says(told);
        assert!(!ran.stdout.contains("/./"), "{ran:?}");
        let errors = place.run(&["check", "--json"]).ends(2).json()["errors"].clone();
        assert!(errors[0].as_str().unwrap().contains(told), "{errors}");
        place.run(&["check", "--server", "demo"]).ends(0);
    }
    let place = Place::configured(&json!({"servers": {"demo": demo()}, "shadow": {"config": "./none.yaml"}}));
    place.run(&["check"]).ends(0).prints("the shadow policy would be off, and the gateway would run without it: ");
}

#[test]
fn a_wrong_configuration_of_a_server_is_not_a_server_that_is_down() {
    for (server, code) in [
        (json!({"comand": "python3"}), 2),
        (json!({"command": "python3", "env": {"A": "${NOT_SET_HERE}"}}), 2),
        (json!({"command": "python3", "timeouts": {"call": "soon"}}), 2),
        (json!({"url": "http://127.0.0.1:1/mcp", "headers": {"Authorization": "${NOT_SET_HERE}"}}), 2),
        (json!({"command": "no-such-program-here"}), 3),
        (fixture("ends-at-once"), 3),
    ] {
        let place = Place::with(json!({"one": server, "demo": demo()}));
        for (command, expected) in [
            (&["check"][..], code),
            (&["check", "--server", "one"], code),
            (&["call", "one.x"], code),
            (&["call", "one__x", "--json"], code),
            (&["tools"], 0),
            (&["tools", "--json"], 0),
            (&["tools", "--strict"], code),
            (&["tools", "--server", "one"], code),
            (&["resources", "--server", "one"], code),
            (&["prompts", "--server", "one"], code),
            (&["access"], 0),
            (&["access", "--strict"], code),
            (&["call", "demo.echo", "text: hello"], 0),
            (&["check", "--server", "demo"], 0),
        ] {
            let ran = place.run(command);
            assert_eq!(ran.code, expected, "{server} {command:?}: {ran:?}");
        }
    }
}

#[test]
fn a_server_that_is_told_the_session_works_in_every_command() {
    for more in [
        json!({"env": {"SESSION": "{{.SESSION_ID}}"}}),
        json!({"env": {"SESSION": "x-{{.SESSION_ID}}"}, "shared": false}),
        json!({"eager": true, "env": {"SESSION": "{{.SESSION_ID}}"}}),
    ] {
        let place = Place::with(json!({"named": and(demo(), more)}));
        place.run(&["check"]).ends(0).prints("✓ named");
        place.run(&["tools"]).ends(0).prints("named__echo");
        place.run(&["tools", "--strict", "--json"]).ends(0).prints("named__add");
        place.run(&["resources"]).ends(0).prints("demo://readme");
        place.run(&["prompts"]).ends(0).prints("greet");
        place.run(&["access", "--strict"]).ends(0).prints("echo");
        place.run(&["call", "named.echo", "text: hello"]).ends(0).prints("hello");
    }
}

#[cfg(unix)]
#[test]
fn old_and_missing_launchers_are_named() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::with(json!({"one": {"command": "npx", "args": ["-y", "server"]}}));
    let program = |name: &str, script: &str| {
        let file = place.file(&format!("bin/{name}"), format!("#!/bin/sh\n{script}\n"));
        std::fs::set_permissions(file, PermissionsExt::from_mode(0o755)).unwrap();
    };
    program("npx", "exit 1");
    let bin = place.path("bin").to_str().unwrap().to_owned();
    let mut check = place.command(&["check"]);
    let ran: crate::place::Ran = check.env("PATH", &bin).output().unwrap().into();
    ran.ends(3).prints("npx needs Node.js, and `node` cannot be started");
    program("node", "echo v16.20.1");
    let ran: crate::place::Ran = place.command(&["check"]).env("PATH", &bin).output().unwrap().into();
    ran.ends(3).prints("Node.js 16.20.1 is old: many servers need Node.js 18.0 or newer");
}

#[cfg(unix)]
#[test]
fn the_port_and_the_files_of_the_gateway_are_looked_at() {
    use std::os::unix::fs::PermissionsExt;
    let held = TcpListener::bind("127.0.0.1:0").unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.not_after = rcgen::date_time_ymd(2020, 1, 1);
    let config = json!({
        "servers": {"demo": and(demo(), json!({"env": {"API_KEY": "planted-1234567890"}}))},
        "gateway": {
            "http": held.local_addr().unwrap().to_string(),
            "tls": {"certificate": "cert.pem", "key": "key.pem"},
        },
    });
    let place = Place::configured(&config);
    place.file("home/cert.pem", params.self_signed(&key).unwrap().pem());
    let file = place.file("home/key.pem", key.serialize_pem());
    let mode = |mode| std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).unwrap();
    mode(0o600);
    let ran = place.run(&["check"]).ends(0).prints("is in use").prints("cert.pem expired at 2020-01-01");
    let ran = ran.prints("has secrets, such as servers.demo.env.API_KEY, and others can read it; run `chmod 600 ");
    assert!(!ran.stdout.contains("planted"), "{ran:?}");
    if cfg!(target_os = "linux") {
        ran.prints(&format!("(process {})", std::process::id()));
    }
    place.file("home/key.pem", rcgen::KeyPair::generate().unwrap().serialize_pem());
    place.run(&["check"]).ends(2).prints("✗ gateway  `serve` would not start: cannot use ");
    place.run(&["check", "--server", "demo"]).ends(0);

    let address = held.local_addr().unwrap().to_string();
    let free = Place::with(json!({"demo": demo()}));
    let ran = free.run(&["serve", "--http", &address]).ends(2).says(&format!("{address} is in use"));
    ran.says("choose another address with --http ADDRESS or gateway.http");
}

#[cfg(unix)]
#[test]
fn on_a_terminal_a_server_is_shown_when_it_answers_and_others_are_waited_for() {
    // Longer than the other one takes to start on a busy machine.
    let hangs = and(fixture("hangs"), json!({"timeouts": {"initialize": "4s"}}));
    let place = Place::with(json!({"a": hangs, "demo": demo()})).set("TERM", "xterm");
    let shown = place.run_at_terminal(&["check"], "").ends(3).stdout;
    let (demo, hangs) = (shown.find("✓").unwrap(), shown.find("✗").unwrap());
    assert!(demo < hangs && shown.contains("waiting for a "), "{shown:?}");
    let piped = place.run(&["check"]).ends(3);
    assert!(piped.stdout.starts_with("✗ a  ") && piped.stderr.is_empty(), "{piped:?}");
    let plain = place.set("NO_COLOR", "1").run_at_terminal(&["check", "--server", "demo"], "").ends(0).stdout;
    assert!(!plain.contains('\u{1b}'), "{plain:?}");
}

#[test]
fn the_name_of_a_server_moves_nothing_on_the_screen() {
    let place = Place::with(json!({"de\u{1b}[31mmo": demo()}));
    let shown = place.run(&["check"]).ends(2).stdout;
    assert!(shown.contains(r"de\u{1b}[31mmo") && !shown.contains('\u{1b}'), "{shown:?}");
}

fn of<'r>(report: &'r Value, server: &str) -> &'r Value {
    let servers = report["servers"].as_array().expect("servers are a list");
    servers.iter().find(|checked| checked["server"] == server).expect("every server is in the report")
}

/// The address of a web server that has nothing but this status. It ends with the test.
fn web(status: u16) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/mcp", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut connection in listener.incoming().flatten() {
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && connection.read(&mut byte).is_ok_and(|read| read == 1) {
                head.push(byte[0]);
            }
            let answer = format!("HTTP/1.1 {status} No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            // The client may have left.
            let _ = connection.write_all(answer.as_bytes());
        }
    });
    address
}
