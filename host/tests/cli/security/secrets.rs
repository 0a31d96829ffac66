//! Tests that credentials and secrets never leave the gate in a server's text.

use serde_json::{Value, json};

use crate::place::{Place, and, fixture_in};
use crate::serving::{Serving, Web, hello};

/// The credentials that a configuration brings in, in each of the ways that there are.
const CREDENTIALS: [&str; 11] = [
    "Xk9-bearer/planted+1",
    "opensesame",
    "Basic-pä55word",
    "key-Planted-7731",
    "hd-9f8e7d6c5b4a",
    "env-secret\"quoted\\1",
    "q7Rt9Lm2Zx4",
    "sk-arg-5521-planted",
    "pw-in-Address-88",
    "from-the-file-4F6g",
    "gateway-token-31337",
];

/// What an answer must keep: a path, a host, a plain word and a number that variables brought in.
const PLAIN: [&str; 4] = ["/home/planted/project", "db.planted.example", "orders", "5432"];

/// A place where one server repeats what all of them were given, and the others are only configured.
fn place() -> Place {
    let place = Place::new();
    let told = place.file("home/told.txt", [&CREDENTIALS[..], &PLAIN[..]].concat().join("\n"));
    place.file("home/key.txt", CREDENTIALS[9]);
    let remote = |more: Value| and(json!({"url": "http://127.0.0.1:1/mcp"}), more);
    let plain = json!({"ROOT": "${PLAIN_0}", "DBHOST": "${PLAIN_1}", "DBNAME": "${PLAIN_2}", "DBPORT": "${PLAIN_3}"});
    let config = json!({
        "version": 1,
        "gateway": {"tokens": [{"principal": "me", "token": CREDENTIALS[10]}]},
        "servers": {
            "tells": and(tells(&told.display().to_string()), json!({"env": plain})),
            "bearer": remote(json!({"auth": {"type": "bearer", "token": "${PLANTED}"}})),
            "basic": remote(json!({"auth": {"type": "basic", "user": "me", "password": CREDENTIALS[2]}})),
            "key": remote(json!({"auth": {"type": "api_key", "key": CREDENTIALS[3], "header": "X-Custom"}})),
            "header": remote(json!({"headers": {"X-Session": CREDENTIALS[4]}})),
            "address": remote(json!({"url": format!("http://me:{}@127.0.0.1:1/mcp", CREDENTIALS[8])})),
            "program": {
                "command": "true",
                "args": ["--api-key", CREDENTIALS[7], "--from", "${file:key.txt}"],
                "env": {"DB_PASSWORD": CREDENTIALS[1], "A_TOKEN": CREDENTIALS[5], "E_1": CREDENTIALS[6]},
            },
        },
    });
    let mut place = place.and_configured(&config).set("PLANTED", CREDENTIALS[0]);
    for (n, value) in PLAIN.iter().enumerate() {
        place = place.set(&format!("PLAIN_{n}"), value);
    }
    place
}

fn tells(file: &str) -> Value {
    fixture_in("security/tells.py", &[file])
}

/// Fails where a message has a credential in it, however it is encoded, or lacks one of the plain words.
#[track_caller]
fn check(what: &str, message: &Value) {
    let mut strings = Vec::new();
    gather(message, &mut strings);
    let all = strings.join("\n");
    for credential in CREDENTIALS {
        assert!(!all.contains(credential), "{what} tells {credential}: {message:#}");
    }
    assert!(all.contains("[REDACTED]"), "{what} says nothing: {message:#}");
    for plain in PLAIN {
        assert!(all.contains(plain), "{what} hides {plain}: {message:#}");
    }
}

/// All strings and keys of a value, what is JSON within them too, and what base64 in them says.
fn gather(value: &Value, strings: &mut Vec<String>) {
    match value {
        Value::String(text) => {
            if let Ok(inner @ (Value::Object(_) | Value::Array(_))) = serde_json::from_str(text) {
                gather(&inner, strings);
            }
            let decoded = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, text);
            strings.extend(decoded.ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned()));
            strings.push(text.clone());
        }
        Value::Array(items) => items.iter().for_each(|item| gather(item, strings)),
        Value::Object(members) => members.iter().for_each(|(key, value)| {
            strings.push(key.clone());
            gather(value, strings);
        }),
        _ => {}
    }
}

#[test]
fn no_credential_reaches_a_client_in_anything_that_a_server_says() {
    let place = place();
    let mut serving = Serving::start(&place, &[]);
    let mut greeting = hello();
    greeting["capabilities"] = json!({"elicitation": {}, "sampling": {}});
    let greeted = serving.ask("initialize", greeting);
    assert!(greeted.get("result").is_some(), "{greeted}");
    serving.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    check("tools/list", &serving.ask("tools/list", json!({})));
    for tool in ["do", "nested", "spelled", "fails", "says-it-failed"] {
        check(tool, &serving.call(&format!("tells__{tool}")));
    }
    for method in ["resources/list", "resources/templates/list", "prompts/list"] {
        check(method, &serving.ask(method, json!({})));
    }
    check("resources/read", &serving.ask("resources/read", json!({"uri": "mem://page"})));
    check("prompts/get", &serving.ask("prompts/get", json!({"name": "tells__ask"})));
    let completion =
        json!({"ref": {"type": "ref/prompt", "name": "tells__ask"}, "argument": {"name": "x", "value": ""}});
    check("completion/complete", &serving.ask("completion/complete", completion));
    serving.ask("logging/setLevel", json!({"level": "debug"}));
    let params = json!({"name": "tells__asks", "arguments": {}, "_meta": {"progressToken": "p"}});
    let asks = serving.begin("tools/call", params);
    for (method, answer) in [
        ("elicitation/create", json!({"action": "decline"})),
        (
            "sampling/createMessage",
            json!({"role": "assistant", "content": {"type": "text", "text": "x"}, "model": "m"}),
        ),
    ] {
        let question = serving.told(method);
        check(method, &question);
        serving.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": answer}));
    }
    check("asks", &serving.answer(asks));
    check("progress", &serving.told("notifications/progress"));
    check("a line of its log", &serving.told("notifications/message"));
    let died = serving.call("tells__dies").to_string();
    assert!(CREDENTIALS.iter().all(|credential| !died.contains(credential)), "{died}");
    let status = place.run(&["status", "--json", "--gateway"]).ends(0).stdout;
    assert!(CREDENTIALS.iter().all(|credential| !status.contains(credential)), "{status}");
    assert_eq!(serving.end().code(), Some(0));
}

#[test]
fn no_credential_leaves_over_http_or_through_a_call_of_the_command_line() {
    let place = place();
    let serving = Serving::start(&place, &["--http", "127.0.0.1:0"]);
    let address = serving.address();
    let mut web = Web { address: &address, token: Some(CREDENTIALS[10]), session: None };
    web.greet();
    for tool in ["do", "spelled", "fails"] {
        let params = json!({"name": format!("tells__{tool}"), "arguments": {"x": CREDENTIALS[0]}});
        let reply = web.post(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}));
        let body = reply.body.lines().find_map(|line| line.strip_prefix("data: {")).map(|rest| format!("{{{rest}"));
        check(tool, &serde_json::from_str(&body.unwrap_or(reply.body)).unwrap());
    }
    let called = place.run(&["call", "tells.do", "--json", "--gateway"]).ends(0).prints("[REDACTED]").stdout;
    assert!(CREDENTIALS.iter().all(|credential| !called.contains(credential)), "{called}");
    for page in ["/api/v1/servers", "/api/v1/calls", "/api/v1/servers/tells", "/api/v1/tools"] {
        let reply = web.request(&format!("GET {page}"), "localhost", &[], "");
        assert!(CREDENTIALS.iter().all(|credential| !reply.body.contains(credential)), "{page}: {}", reply.body);
    }
}

#[test]
fn a_credential_that_a_reload_brings_in_is_hidden_from_then_on() {
    let place = Place::new();
    let told = place.file("home/told.txt", "Later-7f3a9b2c41 and more");
    let config = |more: Value| and(json!({"tells": tells(&told.display().to_string())}), more);
    let place = place.and_configured(&json!({"version": 1, "servers": config(json!({}))}));
    let mut serving = Serving::greet(&place, &[]);
    assert!(serving.call("tells__do").to_string().contains("Later-7f3a9b2c41"));
    let later =
        json!({"later": {"url": "http://127.0.0.1:1/mcp", "auth": {"type": "bearer", "token": "Later-7f3a9b2c41"}}});
    place.file("home/servers.yaml", json!({"version": 1, "servers": config(later)}).to_string());
    serving.logged(&["was reloaded"]);
    let after = serving.call("tells__do").to_string();
    assert!(!after.contains("Later-7f3a9b2c41") && after.contains("[REDACTED] and more"), "{after}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_server_cannot_read_the_environment_of_the_gateway() {
    let place = Place::new();
    let told = place.file("home/told.txt", "x");
    let server = tells(&told.display().to_string());
    // Root may read everything by capabilities of its own, which this server gives up before it begins.
    let without = "import ctypes, os, sys; drop = ctypes.CDLL(None).prctl; [drop(24, n, 0, 0, 0) for n in range(64)]; \
                   os.execv(sys.argv[1], sys.argv[1:])";
    let python = server["command"].clone();
    let mut args = vec![json!("-c"), json!(without), python.clone()];
    args.extend(server["args"].as_array().unwrap().iter().cloned());
    let config = json!({"version": 1, "servers": {"tells": {"command": python, "args": args}}});
    let place = place.and_configured(&config).set("ONLY_FOR_THE_GATEWAY", "a-value-of-its-own");
    let mut serving = Serving::greet(&place, &[]);
    let answer = serving.call("tells__looks-around");
    assert_eq!(answer["result"]["content"][0]["text"], "refused", "{answer}");
}
