use std::path::Path;

use super::super::parse;
use super::*;

/// Returns the lines for a change from one file to another.
fn lines(before: &str, after: &str) -> Vec<String> {
    let [before, after] = [before, after]
        .map(|text| parse(text, Path::new("toolgate.yaml")).unwrap_or_else(|error| panic!("{text}: {error}")));
    find_loosened(&before, &after)
}

/// Checks changes that are reported in one line, and whose reverse is not reported.
fn check(rows: &[(&str, &str, &str)], within: impl Fn(&str) -> String) {
    for (before, after, expected) in rows {
        let (before, after) = (within(before), within(after));
        assert_eq!(lines(&before, &after), [*expected], "{before} -> {after}");
        assert_eq!(lines(&after, &before), [""; 0], "{after} -> {before}");
    }
}

#[test]
fn what_holds_for_all_servers_is_compared() {
    let rows = [
        ("read_only: true", "{}", "read_only is off, so tools may change things"),
        ("destructive: deny", "destructive: ask", "destructive is ask instead of deny"),
        ("destructive: ask", "{}", "destructive is allow instead of ask"),
        ("retry: never", "{}", "retry is safe instead of never"),
        ("retry: safe", "retry: always", "retry is always instead of safe"),
        ("{}", "check_arguments: false", "check_arguments is off"),
        ("{}", "allow_commands: true", "allow_commands is on"),
        ("masking: {groups: [basic]}", "{}", "masking.groups no longer has \"basic\""),
        ("masking: {patterns: [email]}", "{}", "masking.patterns no longer has \"email\""),
        ("masking: {custom: [{pattern: x}]}", "{}", "masking.custom no longer has number 1"),
        ("{}", "max_result_bytes: 0", "max_result_bytes is no limit instead of 1MiB"),
        ("{}", "max_result_bytes: 2MiB", "max_result_bytes is 2MiB instead of 1MiB"),
        ("record: true", "{}", "record is gone, so no call is recorded"),
        ("record: true", "record: {raw: true}", "record.raw is on, so secrets are recorded unmasked"),
        ("queues: {q: 1}", "queues: {q: 2}", "queues.q.slots is 2 instead of 1"),
        ("gateway: {rate: 5}", "{}", "gateway.rate is no limit instead of 5"),
        ("gateway: {rate: 5}", "gateway: {rate: 6}", "gateway.rate is 6 instead of 5"),
        ("{}", "gateway: {max_body_bytes: 5MiB}", "gateway.max_body_bytes is 5MiB instead of 4MiB"),
        ("{}", "gateway: {max_inflight_bytes: 1GiB}", "gateway.max_inflight_bytes is 1GiB instead of 256MiB"),
        ("{}", "gateway: {max_sessions: 2000}", "gateway.max_sessions is 2000 instead of 1000"),
        ("{}", "gateway: {max_connections: 2000}", "gateway.max_connections is 2000 instead of 1024"),
        ("{}", "gateway: {max_in_flight: 2000}", "gateway.max_in_flight is 2000 instead of 512"),
        ("{}", "gateway: {approvers: either}", "gateway.approvers is either instead of client"),
        ("gateway: {approvers: admins}", "{}", "gateway.approvers is client instead of admins"),
        ("{}", "gateway: {session_idle: 2h}", "gateway.session_idle is 2h instead of 30m"),
    ];
    check(&rows, str::to_owned);
    let changed = ["[{pattern: x}]", "[{pattern: x, name: n, replacement: $0}]"]
        .map(|custom| format!("masking: {{custom: {custom}}}"));
    assert_eq!(lines(&changed[0], &changed[1]), ["masking.custom has another replacement for number 1"]);
    assert_eq!(lines("masking: {groups: [basic], patterns: [email]}", "masking: {groups: [all]}"), [""; 0]);
}

#[test]
fn the_rules_of_each_server_are_compared() {
    let rows = [
        ("enabled: false", "enabled: true", "server \"a\": enabled is true, so it may be used"),
        ("allow: [x]", "deny: []", "server \"a\": allow is gone, so every tool is offered"),
        ("allow: []", "allow: [x]", "server \"a\": allow now includes \"x\""),
        ("allow: ['get_*']", "allow: ['get_*', 'g*']", "server \"a\": allow now includes \"g*\""),
        ("deny: [x, y]", "deny: [Y]", "server \"a\": deny no longer has \"x\""),
        ("deny: [any]", "deny: ['x*']", "server \"a\": deny no longer has \"any\""),
        ("ask: ['x*']", "ask: [xy]", "server \"a\": ask no longer has \"x*\""),
        ("requires: [p, q]", "requires: [p]", "server \"a\": requires no longer has \"q\""),
        ("tools: {t: {requires: [p]}}", "tools: {}", "server \"a\": tools.t.requires no longer has \"p\""),
        (
            "tools: {t: {annotations: {read_only: false}}}",
            "tools: {T: {annotations: {read_only: true}}}",
            "server \"a\": tools.T.annotations.read_only is true",
        ),
        ("masking: {groups: [basic]}", "masking: {}", "server \"a\": masking.groups no longer has \"basic\""),
        ("max_concurrent: 2", "grace: 2s", "server \"a\": max_concurrent is no limit instead of 2"),
        ("grace: 2s", "max_message_bytes: 1GiB", "server \"a\": max_message_bytes is 1GiB instead of 64MiB"),
        ("grace: 2s", "tls: {verify: false}", "server \"a\": tls.verify is off, so any certificate is accepted"),
        ("grace: 2s", "inherit_env: all", "server \"a\": inherit_env is all instead of scoped"),
        ("grace: 2s", "pass_env: [HOME]", "server \"a\": pass_env has \"HOME\""),
    ];
    check(&rows, |keys| format!("servers: {{a: {{command: x, {keys}}}, b: {{command: y}}}}"));
    let of_one = "servers: {a: {command: x, masking: {groups: [basic]}}}";
    let of_all = "masking: {groups: [basic]}\nservers: {a: {command: x}}";
    assert_eq!(lines(of_one, of_all), [""; 0], "a mask that moves to the top still holds");
    assert_eq!(lines("servers: {a: {command: x, deny: [x]}}", "servers: {b: {command: x}}"), [""; 0]);
}

#[test]
fn what_a_server_says_of_a_tool_is_looser_than_what_the_file_forbids_and_stricter_than_what_it_permits() {
    let tool = |said: &str| format!("servers: {{a: {{command: x, tools: {{t: {{annotations: {{{said}}}}}}}}}}}");
    for (before, after, expected) in [
        ("", "read_only: true", Some("read_only is true")),
        ("read_only: true", "", None),
        ("", "read_only: false", None),
        ("read_only: false", "", Some("read_only is as its server says")),
        ("", "destructive: false", Some("destructive is false")),
        ("destructive: true", "", Some("destructive is as its server says")),
        ("destructive: false", "destructive: true", None),
        ("", "idempotent: true", Some("idempotent is true")),
    ] {
        let expected: Vec<_> =
            expected.iter().map(|line| format!("server \"a\": tools.t.annotations.{line}")).collect();
        assert_eq!(lines(&tool(before), &tool(after)), expected, "{before} -> {after}");
    }
}

#[test]
fn what_each_principal_may_is_compared() {
    let rows = [
        ("admin: false", "admin: true", "principal \"p\": is an admin now"),
        ("servers: [a]", "admin: false", "principal \"p\": may use every server"),
        ("servers: [a]", "servers: [a, b]", "principal \"p\": may use the server \"b\""),
        ("servers: {a: [x]}", "servers: [a]", "principal \"p\": may use every tool of \"a\""),
        ("servers: {a: [x]}", "servers: {a: [x, y]}", "principal \"p\": may use \"y\" of \"a\""),
        ("capabilities: []", "admin: false", "principal \"p\": no longer needs capabilities"),
        ("capabilities: [x]", "capabilities: [x, y]", "principal \"p\": has the capability \"y\""),
    ];
    let within = |keys: &str| format!("gateway: {{tokens: [{{principal: p, token: t, {keys}}}]}}");
    check(&rows, within);
    let two = "gateway: {tokens: [{principal: p, token: t}, {principal: q, token: u}]}";
    assert_eq!(lines(&within("admin: false"), two), ["principal \"q\": may use the gateway"]);
    assert_eq!(lines("{version: 1}", two), [""; 0], "everybody could before");
    let another = "gateway: {tokens: [{principal: p, token: another}]}";
    assert_eq!(lines(&within("admin: false"), another), [""; 0], "another token is no right");
}

#[test]
fn rules_that_see_arguments_are_compared() {
    let rule = |rest: &str| format!("rules: [{{name: r, tools: [\"a.b\", \"a.c*\"], when: x, {rest}}}]");
    let deny = rule("then: deny");
    for (after, expected) in [
        ("{}".to_owned(), "rule \"r\" is gone"),
        (rule("then: ask"), "rule \"r\" says ask instead of deny"),
        (deny.replace("when: x", "when: y"), "rule \"r\" has another condition"),
        (deny.replace("\"a.b\", ", ""), "rule \"r\" is no longer for \"a.b\""),
        (rule("then: deny, limit: {calls: 5, per: 1h}"), "rule \"r\" has another limit"),
    ] {
        assert_eq!(lines(&deny, &after), [expected], "{after}");
    }
    let limit = |text: &str| rule(&format!("limit: {text}"));
    let before = limit("{calls: 5, per: 1h}");
    for (after, looser) in
        [("{calls: 6, per: 1h}", true), ("{calls: 5, per: 1m}", true), ("{calls: 4, per: 1h}", false)]
    {
        assert_eq!(!lines(&before, &limit(after)).is_empty(), looser, "{after}");
    }
    let rows = [
        ("{}", "known: [x]", "known now includes \"x\""),
        (
            "{}",
            "rules: [{name: r, tools: [\"*\"], then: allow}]",
            "rule \"r\" allows calls before later rules are looked at",
        ),
        ("results: {\"a.*\": {labels: [x]}}", "{}", "results of \"a.*\" no longer give the label \"x\""),
        ("{}", "results: {\"a.*\": {trusted: true}}", "results of \"a.*\" are trusted"),
        ("{}", "results: {\"a.*\": {trusted_fields: [f]}}", "results of \"a.*\" have the trusted field \"f\""),
        (
            "results: {\"a.*\": {trusted: true}, a.b: {trusted: false}}",
            "results: {\"a.*\": {trusted: true}}",
            "results of \"a.b\" may be trusted by another entry",
        ),
        (
            "results: {\"a.*\": {labels: [x]}}",
            "results: {\"a.*\": {labels: [x]}, toolgate.read_resource: {labels: [x]}}",
            "results of \"toolgate.*\" no longer give the labels of all results",
        ),
        ("{}", "context: {scope: session}", "context.scope is session instead of principal"),
        ("{}", "context: {idle: 5m}", "context.idle is 5m instead of 30m"),
    ];
    check(&rows, str::to_owned);
}
