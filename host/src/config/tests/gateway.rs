use std::path::Path;
use std::time::Duration;

use super::super::model::{Approvers, GatewayNames, GatewayRules, StoreFailurePolicy, TokenSource};
use super::super::parse;
use super::complaints;
use super::entries::check;

fn gateway(section: &str) -> GatewayRules {
    let config = parse(&format!("gateway: {section}"), Path::new("toolgate.yaml"));
    config.unwrap_or_else(|error| panic!("{section}: {error}")).settings.gateway
}

#[test]
fn what_is_said_of_the_gateway_is_read() {
    type Changed = fn(&mut GatewayRules);
    let rows: [(&str, Changed); 31] = [
        ("", |_| {}),
        ("{}", |_| {}),
        ("{http: , names: , tokens: [], hosts: [], tls: {}, rate: }", |_| {}),
        ("{http: '127.0.0.1:8808'}", |rules| rules.http = Some("127.0.0.1:8808".into())),
        ("{http: '[::]:0'}", |rules| rules.http = Some("[::]:0".into())),
        ("{listen: 'localhost:65535'}", |rules| rules.http = Some("localhost:65535".into())),
        ("{names: dot}", |rules| rules.names = Some(GatewayNames::Dot)),
        ("{names: double_underscore}", |rules| rules.names = Some(GatewayNames::DoubleUnderscore)),
        ("{names: mcp-prefix}", |rules| rules.names = Some(GatewayNames::McpPrefix)),
        ("{names: OpenAI}", |rules| rules.names = Some(GatewayNames::Openai)),
        ("{names: anthropic}", |rules| rules.names = Some(GatewayNames::Anthropic)),
        ("{names: gemini}", |rules| rules.names = Some(GatewayNames::Gemini)),
        ("{names: cursor}", |rules| rules.names = Some(GatewayNames::Cursor)),
        ("{hosts: [Tools.Example.com, 10.0.0.1, '[FE80::1]', '::2', a_b]}", |rules| {
            rules.hosts = ["tools.example.com", "10.0.0.1", "fe80::1", "::2", "a_b"].map(str::to_owned).into();
        }),
        ("{hosts: one}", |rules| rules.hosts = vec!["one".into()]),
        ("{origins: [HTTPS://App.example.com:443/, 'http://a:8080', 'http://[::1]:3000']}", |rules| {
            rules.origins = ["https://app.example.com", "http://a:8080", "http://[::1]:3000"].map(str::to_owned).into();
        }),
        ("{origins: 'vscode-webview://1abc'}", |rules| rules.origins = vec!["vscode-webview://1abc".into()]),
        ("{socket: false}", |rules| rules.socket = false),
        ("{max_body_bytes: 1KiB, max_inflight_bytes: 1024}", |rules| {
            (rules.max_body_bytes, rules.max_inflight_bytes) = (1024, 1024);
        }),
        ("{maxSessions: 1, max_connections: 1000000, max_in_flight: 2}", |rules| {
            (rules.max_sessions, rules.max_connections, rules.max_in_flight) = (1, 1_000_000, 2);
        }),
        ("{session_idle: 1h}", |rules| rules.session_idle = Duration::from_secs(3600)),
        ("{rate: 1000000}", |rules| rules.rate = Some(1_000_000)),
        ("{grace: 0}", |rules| rules.grace = Duration::ZERO),
        ("{grace: off}", |rules| rules.grace = Duration::ZERO),
        ("{drain_delay: off}", |rules| rules.drain_delay = Duration::ZERO),
        ("{session_keys: [], store: memory}", |_| {}),
        ("{on_store_failure: closed}", |_| {}),
        ("{on_store_failure: open}", |rules| rules.on_store_failure = StoreFailurePolicy::Open),
        ("{approvers: client}", |_| {}),
        ("{approvers: admins}", |rules| rules.approvers = Approvers::Admins),
        ("{approvers: either}", |rules| rules.approvers = Approvers::Either),
    ];
    for (section, changed) in rows {
        let mut expected = GatewayRules::default();
        changed(&mut expected);
        assert_eq!(gateway(section), expected, "{section}");
    }
    let tls = gateway("{tls: {cert: ./c.pem, key: '${KEY}'}}").tls.unwrap();
    let said = [tls.certificate, tls.key].map(|text| format!("{}({})", text.text, text.field));
    assert_eq!(said, ["./c.pem(tls.certificate)", "${KEY}(tls.key)"]);
}

#[test]
fn each_token_has_one_whose_it_is() {
    let rows = [
        ("{principal: ci, token: '${T}'}", "ci ${T}(tokens[0].token) false None None"),
        ("{principal: Ops_1.x@y-z, file: ./t, admin: true}", "Ops_1.x@y-z file ./t(tokens[0].file) true None None"),
        ("{principal: a, tokenFile: t}", "a file t(tokens[0].file) false None None"),
        (
            "{principal: a, token: t, servers: [x, y]}",
            r#"a t(tokens[0].token) false Some([("x", []), ("y", [])]) None"#,
        ),
        ("{principal: a, token: t, servers: x}", r#"a t(tokens[0].token) false Some([("x", [])]) None"#),
        (
            "{principal: a, token: t, servers: {x: ['t_*', u], y: ['*'], w: v}}",
            r#"a t(tokens[0].token) false Some([("x", ["t_*", "u"]), ("y", ["*"]), ("w", ["v"])]) None"#,
        ),
        (
            "{principal: a, token: t, capabilities: [server:a, tool:a/b]}",
            r#"a t(tokens[0].token) false None Some(["server:a", "tool:a/b"])"#,
        ),
        ("{principal: a, token: t, capabilities: []}", "a t(tokens[0].token) false None Some([])"),
    ];
    check(rows, |entry| {
        let rules = gateway(&format!("{{tokens: [{entry}]}}"));
        let token = &rules.tokens[0];
        let (file, text) = match &token.secret {
            TokenSource::Text(text) => ("", text),
            TokenSource::File(text) => ("file ", text),
        };
        assert!(!format!("{rules:?}").contains("${"), "{rules:?}");
        format!(
            "{} {file}{}({}) {} {:?} {:?}",
            token.principal, text.text, text.field, token.admin, token.selection, token.capabilities
        )
    });
}

#[test]
fn what_does_not_fit_is_said() {
    let rows = [
        ("true", "1:10: gateway: expected a map, found true or false"),
        ("{htp: x}", "1:11: gateway: unknown key \"htp\"; did you mean \"http\"?"),
        (
            "{http: 8808}",
            "1:17: gateway.http: expected an address and a port, such as \"127.0.0.1:8808\", found \"8808\"",
        ),
        (
            "{http: '127.0.0.1:+80'}",
            "1:17: gateway.http: expected an address and a port, such as \"127.0.0.1:8808\", found \"127.0.0.1:+80\"",
        ),
        (
            "{http: '300.0.0.1:80'}",
            "1:17: gateway.http: expected an address and a port, such as \"127.0.0.1:8808\", found \"300.0.0.1:80\"",
        ),
        (
            "{http: 'http://x:80'}",
            "1:17: gateway.http: expected an address and a port, such as \"127.0.0.1:8808\", found \"http://x:80\"",
        ),
        (
            "{names: slash}",
            "1:18: gateway.names: \"slash\" is not one of: dot, double-underscore, mcp-prefix, mcp-underscore, openai, anthropic, gemini, cursor",
        ),
        (
            "{hosts: ['x:80']}",
            "1:19: gateway.hosts[0]: expected the name or address of a host alone, such as \"tools.example.com\", found \"x:80\"",
        ),
        (
            "{hosts: ['*.x']}",
            "1:19: gateway.hosts[0]: expected the name or address of a host alone, such as \"tools.example.com\", found \"*.x\"",
        ),
        ("{hosts: {a: b}}", "1:18: gateway.hosts: expected a list, found a map"),
        (
            "{origins: ['*']}",
            "1:21: gateway.origins[0]: \"*\" would allow pages that are not listed; write each origin out",
        ),
        (
            "{origins: [app.example.com]}",
            "1:21: gateway.origins[0]: expected the scheme and host of a page, such as \"https://app.example.com\", found \"app.example.com\"",
        ),
        (
            "{origins: ['https://x/y']}",
            "1:21: gateway.origins[0]: expected the scheme and host of a page, such as \"https://app.example.com\", found \"https://x/y\"",
        ),
        (
            "{origins: ['file:///x']}",
            "1:21: gateway.origins[0]: expected the scheme and host of a page, such as \"https://app.example.com\", found \"file:///x\"",
        ),
        ("{tls: {certificate: x}}", "1:16: gateway.tls: certificate needs a `key`"),
        ("{tls: {key: x}}", "1:16: gateway.tls: key needs a `certificate`"),
        ("{tls: {certificate: x, key: }}", "1:33: gateway.tls.key: has no value; write one, or remove the key"),
        ("{tls: }", "1:11: gateway.tls: has no value; write one, or remove the key"),
        ("{tls: {ceritficate: x}}", "1:17: gateway.tls: unknown key \"ceritficate\"; did you mean \"certificate\"?"),
        ("{max_body_bytes: 9}", "1:27: gateway.max_body_bytes: expected at least 1KiB, enough for a handshake"),
        (
            "{max_inflight_bytes: 1MiB}",
            "1:10: gateway: max_inflight_bytes is less than max_body_bytes; make it at least as much",
        ),
        ("{max_sessions: 0}", "1:25: gateway.max_sessions: expected a whole number from 1 to 1000000, found 0"),
        (
            "{max_connections: many}",
            "1:28: gateway.max_connections: expected a whole number from 1 to 1000000, found text",
        ),
        (
            "{max_in_flight: 1000001}",
            "1:26: gateway.max_in_flight: expected a whole number from 1 to 1000000, found 1000001",
        ),
        ("{rate: 0}", "1:17: gateway.rate: expected a whole number from 1 to 1000000, found 0"),
        ("{session_idle: 0}", "1:25: gateway.session_idle: must be longer than 0"),
        ("{session_idle: off}", "1:25: gateway.session_idle: this needs a limit; write a long one, such as \"30d\""),
        (
            "{grace: soon}",
            "1:18: gateway.grace: expected a duration such as \"30s\", \"2m\" or \"500ms\", found \"soon\"",
        ),
        // Errors after the section still have the right path.
        ("{grace: 1s}\nretry: x", "2:8: retry: \"x\" is not one of: safe, always, never"),
    ];
    check(rows, |section| {
        let found = complaints("toolgate.yaml", &format!("gateway: {section}"));
        found.strip_prefix("toolgate.yaml:").unwrap_or(&found).to_owned()
    });
}

#[test]
fn a_token_that_does_not_fit_is_refused_and_never_shown() {
    let rows = [
        ("{ci: x}", "gateway.tokens: expected a list, found a map"),
        ("[ci]", "gateway.tokens[0]: expected a map, found text"),
        ("[{token: s3cret}]", "gateway.tokens[0]: a `principal` is missing"),
        (
            "[{principal: '', token: s3cret}]",
            "gateway.tokens[0].principal: \"\" must be letters, digits, `_`, `.`, `@` and `-`",
        ),
        (
            "[{principal: a b, token: s3cret}]",
            "gateway.tokens[0].principal: \"a b\" must be letters, digits, `_`, `.`, `@` and `-`",
        ),
        (
            "[{principal: é, token: s3cret}]",
            "gateway.tokens[0].principal: \"é\" must be letters, digits, `_`, `.`, `@` and `-`",
        ),
        ("[{principal: a}]", "gateway.tokens[0]: needs a `token`, or the `file` that holds it"),
        ("[{principal: a, token: }]", "gateway.tokens[0]: needs a `token`, or the `file` that holds it"),
        (
            "[{principal: a, token: s3cret, file: y}]",
            "gateway.tokens[0]: both token and file are given; keep one of them",
        ),
        ("[{principal: a, token: [s3cret]}]", "gateway.tokens[0].token: expected text, found a list"),
        (
            "[{principal: a, token: s3cret}, {principal: b, token: s3cret}, {principal: a, file: z}]",
            "gateway.tokens[2]: the principal \"a\" is given twice",
        ),
        (
            "[{principal: a, token: s3cret, admin: maybe}]",
            "gateway.tokens[0].admin: expected true or false, found text",
        ),
        (
            "[{principal: a, token: s3cret, servers: []}]",
            "gateway.tokens[0].servers: is empty; name a server, or leave it out to mean all",
        ),
        (
            "[{principal: a, token: s3cret, servers: {}}]",
            "gateway.tokens[0].servers: is empty; name a server, or leave it out to mean all",
        ),
        (
            "[{principal: a, token: s3cret, servers: {x: [y], z: []}}]",
            "gateway.tokens[0].servers.z: names no tool; write [\"*\"] to mean all tools of the server",
        ),
        (
            "[{principal: a, token: s3cret, servers: {x: }}]",
            "gateway.tokens[0].servers.x: names no tool; write [\"*\"] to mean all tools of the server",
        ),
        (
            "[{principal: a, token: s3cret, servers: {x: [Any]}}]",
            "gateway.tokens[0].servers.x: \"any\" is not known here; write \"*\" to mean all tools",
        ),
        (
            "[{principal: a, token: s3cret, servers: }]",
            "gateway.tokens[0].servers: has no value; write one, or remove the key",
        ),
        (
            "[{principal: a, token: s3cret, capabilities: null}]",
            "gateway.tokens[0].capabilities: has no value; write one, or remove the key",
        ),
        ("", "gateway.tokens: has no value; write one, or remove the key"),
        (
            "[{principal: a, token: s3cret, servers: [x, y, x]}]",
            "gateway.tokens[0].servers: the server \"x\" is given twice",
        ),
        (
            "[{principal: a, token: s3cret, servers: {x: {y: z}}}]",
            "gateway.tokens[0].servers.x: expected a list, found a map",
        ),
        (
            "[{principal: a, token: s3cret, capability: x}]",
            "gateway.tokens[0]: unknown key \"capability\"; did you mean \"capabilities\"?",
        ),
    ];
    check(rows, |tokens| {
        let found = complaints("toolgate.yaml", &format!("gateway: {{tokens: {tokens}}}"));
        assert!(!found.contains("s3cret"), "{found}");
        found.split_once(": ").map_or(String::new(), |(_, rest)| rest.to_owned())
    });
}

#[test]
fn what_files_of_others_say_of_the_gateway_holds() {
    let rows = [
        ("mcp.json", r#"{"mcpServers": {"gateway": {"command": "x"}}, "gateway": {"rate": 5}}"#, Some(5)),
        ("mcp.json", r#"{"gateway": {"command": "x"}}"#, None),
        ("config.toml", "gateway = {rate = 5}\n[mcp_servers.gateway]\ncommand = 'x'", Some(5)),
    ];
    for (file, text, rate) in rows {
        let config = parse(text, Path::new(file)).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(config.settings.gateway, GatewayRules { rate, ..GatewayRules::default() }, "{text}");
        assert_eq!(config.servers[0].id, "gateway", "{text}");
    }
}
