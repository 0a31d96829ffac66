//! Tests that a changed file never opens a running gateway by accident, and that looser rules are reported.

use std::fs;
use std::os::unix::fs::symlink;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::place::{Place, and, fixture};
use crate::serving::{Serving, Web};

/// The file that the gateway is told of.
const FILE: &str = "home/servers.yaml";
const ANN: &str = "ann-0123456789abcdef";

/// A configuration with a token, and one server that has the tools `do` and `look`.
fn guarded(gateway: Value) -> Value {
    let gateway = and(json!({"tokens": [{"principal": "ann", "token": ANN}]}), gateway);
    json!({"gateway": gateway, "servers": {"a": fixture("ok")}})
}

/// Ann and nobody else is let in, and she has what she had.
fn stays_shut(address: &str) {
    let web = |token| Web { address, token, session: None };
    assert_eq!(web(None).modern_tools(), Err(401));
    assert_eq!(web(None).request("GET /api/v1/servers", "localhost", &[], "").status, 401);
    assert_eq!(web(None).request("POST /api/v1/servers/a/disable", "localhost", &[], "").status, 401);
    assert_eq!(web(Some(ANN)).modern_tools(), Ok(vec!["a__do".to_owned(), "a__look".to_owned()]));
}

#[test]
fn no_file_takes_the_last_token_away_however_it_lost_it() {
    let whole = guarded(json!({}));
    let place = Place::configured(&whole);
    let serving = Serving::start(&place, &["--http", "127.0.0.1:0"]);
    let address = serving.address();
    stays_shut(&address);
    let servers = json!({"a": fixture("ok"), "b": fixture("ok")}).to_string();
    let lost = "removes the last token, so that anyone could connect";
    let text = whole.to_string();
    let cut = &text[..text.find("principal").unwrap()];
    for (text, expected) in [
        (format!("servers: {servers}"), lost),
        (format!("servers: {servers}\ngateway:"), lost),
        (format!("servers: {servers}\ngateway: null"), lost),
        (format!("servers: {servers}\ngateway: {{}}"), lost),
        (format!("servers: {servers}\ngateway: {{tokens: []}}"), lost),
        (format!("servers: {servers}\ngateway:\n  tokens:"), "gateway.tokens: "),
        (
            format!("servers: {servers}\ngatewy: {{tokens: [{{principal: ann, token: {ANN}}}]}}"),
            "unknown key \"gatewy\"",
        ),
        (format!("mcpServers: {servers}"), lost),
        (format!("mcpServers: {servers}\ngateway: {{tokens: []}}"), lost),
        ("{}".to_owned(), lost),
        (cut.to_owned(), "servers.yaml:1:"),
        (String::new(), "the configuration stays as it was: "),
        (
            format!("servers: {servers}\ngateway: {{tokens: [{{principal: ann, token: ''}}]}}"),
            "gateway.tokens[0].token: is empty",
        ),
        (format!("servers: {servers}\ngateway: {{tokens: [{{principal: ann, file: ./gone}}]}}"), "gone"),
    ] {
        place.file(FILE, &text);
        let line = serving.logged(&["WARN", "the configuration stays as it was: ", expected]);
        assert!(!line.contains(ANN) && (expected != lost || line.contains("restart")), "{line}");
        stays_shut(&address);
    }
    // The way back is open.
    place.file(FILE, guarded(json!({"max_sessions": 9})).to_string());
    serving.logged(&["INFO", "was reloaded"]);
    stays_shut(&address);
}

#[test]
fn a_hangup_and_a_swapped_link_open_nothing_either() {
    let place = Place::new();
    let write =
        |name: &str, config: &Value| place.file(&format!("work/mounted/{name}/toolgate.yaml"), config.to_string());
    write("..1", &guarded(json!({})));
    write("..2", &json!({"servers": {"a": fixture("ok"), "b": fixture("ok")}}));
    symlink("..1", place.path("work/mounted/..data")).unwrap();
    symlink("..data/toolgate.yaml", place.path("work/mounted/toolgate.yaml")).unwrap();
    let serving = Serving::start(&place, &["--http", "127.0.0.1:0", "--config", "mounted/toolgate.yaml"]);
    let address = serving.address();
    stays_shut(&address);
    symlink("..2", place.path("work/mounted/..data_tmp")).unwrap();
    fs::rename(place.path("work/mounted/..data_tmp"), place.path("work/mounted/..data")).unwrap();
    serving.logged(&["WARN", "the configuration stays as it was: it removes the last token"]);
    stays_shut(&address);
    serving.signal(Signal::HUP);
    serving.logged(&["WARN", "the configuration stays as it was: it removes the last token"]);
    stays_shut(&address);
}

#[test]
fn address_hosts_and_origins_are_never_widened_and_nothing_else_of_such_a_file_is_taken() {
    let at = |http: &str, hosts: &[&str], origins: &[&str]| {
        guarded(json!({"http": http, "hosts": hosts, "origins": origins}))
    };
    let place = Place::configured(&at("127.0.0.1:0", &["old.example"], &["https://old.example"]));
    let serving = Serving::start(&place, &["--http"]);
    let address = serving.address();
    let status = |host: &str, origin: &[&str]| {
        Web { address: &address, token: Some(ANN), session: None }
            .request("GET /api/v1/servers", host, origin, "")
            .status
    };
    assert_eq!((status("old.example", &[]), status("new.example", &[])), (200, 403));
    for (config, expected) in [
        (
            at("0.0.0.0:0", &["old.example"], &["https://old.example"]),
            "it listens on 0.0.0.0:0 in place of 127.0.0.1:0",
        ),
        (at("[::]:0", &["old.example"], &["https://old.example"]), "it listens on [::]:0"),
        (at("127.0.0.1:0", &["old.example", "new.example"], &["https://old.example"]), "origins: new.example;"),
        (at("127.0.0.1:0", &["new.example"], &["https://old.example"]), "origins: new.example;"),
        (
            at("127.0.0.1:0", &["old.example"], &["https://old.example", "https://new.example"]),
            "origins: https://new.example;",
        ),
        (at("127.0.0.1:0", &["old.example", "*"], &["https://old.example"]), "gateway.hosts[1]"),
        (at("127.0.0.1:0", &["old.example"], &["*"]), "gateway.origins[0]"),
    ] {
        let more = and(config["servers"].clone(), json!({"b": fixture("ok")}));
        place.file(FILE, and(config, json!({"servers": more})).to_string());
        serving.logged(&["WARN", "the configuration stays as it was: ", expected]);
        assert_eq!((status("old.example", &[]), status("new.example", &[])), (200, 403), "{expected}");
        assert_eq!(status("old.example", &["Origin: https://new.example"]), 403, "{expected}");
        stays_shut(&address);
    }
    // Narrower is taken at once.
    place.file(FILE, at("127.0.0.1:0", &[], &[]).to_string());
    serving.logged(&["INFO", "was reloaded"]);
    assert_eq!((status("old.example", &[]), status("localhost", &[])), (403, 200));
}

#[test]
fn tls_is_not_turned_off() {
    let place = Place::new();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let certificate = place.file("home/cert.pem", made.cert.pem());
    let key = place.file("home/key.pem", made.signing_key.serialize_pem());
    let place = place.and_configured(&guarded(json!({"tls": {"certificate": certificate, "key": key}})));
    let serving = Serving::start(&place, &["--http", "127.0.0.1:0"]);
    let line = serving.logged(&["listening on https"]);
    for (without, expected) in [
        (json!({}), "it turns TLS off"),
        (json!({"tls": {}}), "it turns TLS off"),
        (json!({"tls": null}), "gateway.tls: has no value"),
        (json!({"tls": {"certificate": null, "key": null}}), "gateway.tls.certificate: has no value"),
    ] {
        place.file(FILE, guarded(and(without, json!({"max_sessions": 9}))).to_string());
        serving.logged(&["WARN", "the configuration stays as it was: ", expected]);
    }
    // Whoever speaks plainly is not understood.
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(line.split("//").nth(1).unwrap().trim_end_matches("/mcp")).unwrap();
    stream.set_read_timeout(Some(crate::serving::LONG)).unwrap();
    write!(stream, "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{}", String::from_utf8_lossy(&answer));
}

#[test]
fn each_rule_that_a_reload_loosens_is_a_warning_that_names_it() {
    let config = |rules: Value, of_server: Value, of_ann: Value| {
        let ann = and(json!({"principal": "ann", "token": ANN}), of_ann);
        and(rules, json!({"gateway": {"tokens": [ann], "rate": 1000}, "servers": {"a": and(fixture("ok"), of_server)}}))
    };
    let strict = config(
        json!({"read_only": true, "destructive": "deny", "masking": {"groups": ["all"]}}),
        json!({"allow": ["look"], "deny": ["do"], "ask": ["look"], "requires": ["team"]}),
        json!({"servers": {"a": ["look"]}, "capabilities": ["server:a", "team"]}),
    );
    let place = Place::configured(&strict);
    let serving = Serving::start(&place, &["--http", "127.0.0.1:0"]);
    serving.address();
    let loose = config(json!({}), json!({}), json!({"admin": true}));
    place.file(FILE, loose.to_string());
    serving.logged(&["INFO", "was reloaded"]);
    for expected in [
        "read_only is off",
        "destructive is allow instead of deny",
        "masking.groups no longer has \"all\"",
        "server \"a\": allow is gone",
        "server \"a\": deny no longer has \"do\"",
        "server \"a\": ask no longer has \"look\"",
        "server \"a\": requires no longer has \"team\"",
        "principal \"ann\": is an admin now",
        "principal \"ann\": may use every server",
        "principal \"ann\": no longer needs capabilities",
    ] {
        serving.logged(&["WARN", "a rule is looser than before: ", expected]);
    }
    // To be stricter again needs no word.
    place.file(FILE, strict.to_string());
    serving.logged(&["INFO", "was reloaded"]);
    serving.signal(Signal::HUP);
    let lines = serving.logged_until(&["nothing has changed"]);
    assert!(!lines.iter().any(|line| line.contains("looser")), "{lines:#?}");
}
