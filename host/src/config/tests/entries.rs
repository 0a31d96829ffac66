use super::{complaints, said};

pub fn native(entry: &str) -> String {
    complaints("toolgate.yaml", &format!("servers:\n  a: {entry}\n"))
}

/// Collects all rows that differ and shows them together.
pub fn check<const N: usize>(rows: [(&str, &str); N], found: impl Fn(&str) -> String) {
    let wrong: Vec<String> = rows
        .iter()
        .map(|(row, expected)| (row, expected, found(row)))
        .filter(|(_, expected, found)| found != *expected)
        .map(|(row, expected, found)| format!("{row}\n  expected {expected}\n  found    {found}\n"))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.concat());
}

#[test]
fn a_bad_entry_of_our_own_file_is_a_problem_with_its_place() {
    let rows = [
        ("{comand: x}", "problem toolgate.yaml:2:7: servers.a: unknown key \"comand\"; did you mean \"command\"?"),
        ("{command: x, qqq: 1}", "problem toolgate.yaml:2:19: servers.a: unknown key \"qqq\""),
        (
            "{command: x, timeouts: {cal: 1}}",
            "problem toolgate.yaml:2:30: servers.a.timeouts: unknown key \"cal\"; did you mean \"call\"?",
        ),
        ("{command: [], args: []}", "problem toolgate.yaml:2:3: servers.a: command required for stdio transport"),
        ("{}", "problem toolgate.yaml:2:3: servers.a: command required for stdio transport"),
        ("", "problem toolgate.yaml:2:4: servers.a: expected a map, found nothing"),
        ("npx", "problem toolgate.yaml:2:6: servers.a: expected a map, found text"),
        ("{type: stdio}", "problem toolgate.yaml:2:3: servers.a: command required for stdio transport"),
        ("{type: http}", "problem toolgate.yaml:2:3: servers.a: url required for http transport"),
        ("{type: sse}", "problem toolgate.yaml:2:3: servers.a: url required for sse transport"),
        ("{type: http, url: ''}", "problem toolgate.yaml:2:3: servers.a: url required for http transport"),
        (
            "{type: grpc}",
            "problem toolgate.yaml:2:13: servers.a.type: invalid transport type \"grpc\"; there are: stdio, http, sse, websocket",
        ),
        (
            "{type: sdk}",
            "problem toolgate.yaml:2:13: servers.a.type: invalid transport type \"sdk\"; there are: stdio, http, sse, websocket",
        ),
        (
            "{command: x, url: 'http://x'}",
            "problem toolgate.yaml:2:3: servers.a: both command and url are given; keep one of them, or choose one with type",
        ),
        (
            "{command: x, args: [a, {b: c}]}",
            "problem toolgate.yaml:2:29: servers.a.args[1]: expected text, found a map",
        ),
        ("{command: x, args: -y}", "problem toolgate.yaml:2:25: servers.a.args: expected a list, found text"),
        ("{command: x, env: {A: [1]}}", "problem toolgate.yaml:2:28: servers.a.env.A: expected text, found a list"),
        ("{command: x, env: 5}", "problem toolgate.yaml:2:24: servers.a.env: expected a map, found a number"),
        ("{command: x, env: [A]}", "problem toolgate.yaml:2:25: servers.a.env[0]: expected KEY=value"),
        (
            "{command: x, enabled: maybe}",
            "problem toolgate.yaml:2:28: servers.a.enabled: expected true or false, found text",
        ),
        (
            "{command: x, grace: soon}",
            "problem toolgate.yaml:2:26: servers.a.grace: expected a duration such as \"30s\", \"2m\" or \"500ms\", found \"soon\"",
        ),
        (
            "{command: x, timeouts: {call: off}}",
            "problem toolgate.yaml:2:36: servers.a.timeouts.call: this needs a limit; write a long one, such as \"1h\"",
        ),
        (
            "{command: x, timeouts: {call: 0}}",
            "problem toolgate.yaml:2:36: servers.a.timeouts.call: must be longer than 0",
        ),
        (
            "{command: x, timeouts: {call: 2m, total: 1m}}",
            "problem toolgate.yaml:2:3: servers.a.timeouts: total is shorter than call; make it at least as long",
        ),
        (
            "{command: x, inherit_env: some}",
            "problem toolgate.yaml:2:32: servers.a.inherit_env: \"some\" is not one of: all, scoped, minimal, none",
        ),
        (
            "{command: x, max_message_bytes: 3}",
            "problem toolgate.yaml:2:38: servers.a.max_message_bytes: expected at least 1KiB, enough for a handshake",
        ),
        ("{url: x, auth: {type: bearer}}", "problem toolgate.yaml:2:21: servers.a.auth: type bearer needs a `token`"),
        (
            "{url: x, auth: {type: bearer, token: a, key: b}}",
            "problem toolgate.yaml:2:21: servers.a.auth: key goes with type api_key, not with type bearer",
        ),
        (
            "{url: x, auth: {key: a, header: b, query: c}}",
            "problem toolgate.yaml:2:21: servers.a.auth: a key goes into a header or into the query; keep one",
        ),
        (
            "{url: x, baseUrl: y}",
            "problem toolgate.yaml:2:15: servers.a: \"baseUrl\" means the same as \"url\"; keep one of them",
        ),
        (
            "{command: x, tools: {t: {notes: y}}}",
            "problem toolgate.yaml:2:31: servers.a.tools.t: unknown key \"notes\"; did you mean \"note\"?",
        ),
        (
            "{command: x, tools: {t: {deny: true}}}",
            "problem toolgate.yaml:2:31: servers.a.tools.t: unknown key \"deny\"; write it in the server, with names of tools, such as `deny: [delete_*]`",
        ),
        (
            "{url: x, headersHelper: y}",
            "problem toolgate.yaml:2:15: servers.a: \"headersHelper\" is not supported: write the header under `headers`, with a variable such as ${TOKEN}",
        ),
        (
            "{command: x, comand: y, argz: []}",
            "problem toolgate.yaml:2:19: servers.a: unknown key \"comand\"; did you mean \"command\"?\nnotice toolgate.yaml:2:30: servers.a: unknown key \"argz\"; did you mean \"args\"?",
        ),
    ];
    check(rows, native);
}

#[test]
fn a_bad_entry_disables_itself_alone() {
    let text = "servers:\n  a: {comand: x}\n  'b c': {command: y}\n  d: {command: z}\n";
    let config = super::parse(text, std::path::Path::new("toolgate.yaml")).unwrap();
    let usable: Vec<&str> =
        config.servers.iter().filter(|server| server.problem.is_none()).map(|server| server.id.as_str()).collect();
    assert_eq!(usable, ["d"]);
    assert_eq!(
        config.servers[1].problem.as_ref().unwrap().to_string(),
        "toolgate.yaml:3:3: servers.b c: the id \"b c\" must be letters, digits, `_` and `-`"
    );
}

#[test]
fn what_is_wrong_outside_the_servers_is_an_error() {
    let rows = [
        ("version: 2", "toolgate.yaml:1:10: version: version \"2\" is not known; this toolgate reads version 1"),
        ("servers: []", "toolgate.yaml:1:10: servers: expected a map from ids to servers, found a list"),
        ("retrys: safe", "toolgate.yaml:1:1: unknown key \"retrys\"; did you mean \"retry\"?"),
        ("retry: sometimes", "toolgate.yaml:1:8: retry: \"sometimes\" is not one of: safe, always, never"),
        ("read_only: yes", "toolgate.yaml:1:12: read_only: expected true or false, found text"),
        (
            "max_servers: 1\nservers: {a: {command: x}, b: {command: y}}",
            "toolgate.yaml:2:10: 2 servers, but max_servers is 1",
        ),
        ("max_servers: 0", "toolgate.yaml:1:14: max_servers: expected a whole number from 1 to 10000, found 0"),
        ("masking: {custom: [{name: x}]}", "toolgate.yaml:1:20: masking.custom[0]: a `pattern` is missing"),
        ("masking: {group: []}", "toolgate.yaml:1:11: masking: unknown key \"group\"; did you mean \"groups\"?"),
        ("inputs: [{id: a}, {id: a}]", "toolgate.yaml:1:19: inputs[1]: the id \"a\" is given twice"),
        ("inputs: [{description: a}]", "toolgate.yaml:1:10: inputs[0]: an `id` is missing"),
    ];
    check(rows, |text| complaints("toolgate.yaml", text));
}

#[test]
fn a_foreign_entry_goes_on_where_a_key_means_nothing_to_us() {
    let rows = [
        (r#"{"command": "x", "foo": 1}"#, "notice m.json:1:39: mcpServers.a: unknown key \"foo\" (ignored)"),
        (
            r#"{"command": "x", "argss": 1}"#,
            "notice m.json:1:39: mcpServers.a: unknown key \"argss\"; did you mean \"args\"? (ignored)",
        ),
        (r#"{"command": "x", "description": "d", "autoApprove": [], "_note": 1}"#, ""),
        (r#"{"command": "x", "args": "y"}"#, "problem m.json:1:47: mcpServers.a.args: expected a list, found text"),
        (
            r#"{"type": "stdio", "transport": "stdio", "command": "x"}"#,
            "notice m.json:1:40: mcpServers.a: \"transport\" means the same as \"type\"; keep one of them (the first is used)",
        ),
        (
            r#"{"type": "claudeai-proxy", "url": "x"}"#,
            "notice m.json:1:31: mcpServers.a: skipped: type \"claudeai-proxy\" only works inside its own program",
        ),
        (
            r#"{"type": "sse-ide", "url": "x"}"#,
            "notice m.json:1:31: mcpServers.a: skipped: type \"sse-ide\" only works inside its own program",
        ),
        (
            r#"{"type": "grpc", "url": "x"}"#,
            "problem m.json:1:31: mcpServers.a.type: invalid transport type \"grpc\"; there are: stdio, http, sse, websocket",
        ),
        (
            r#"{"command": "toolgate", "args": ["serve"]}"#,
            "notice m.json:1:17: mcpServers.a: skipped: it would start `toolgate serve` in an endless loop",
        ),
        (
            r#"{"command": "npx -y p"}"#,
            "notice m.json:1:34: mcpServers.a: command is split into a program and 2 arguments; write them under `args` instead",
        ),
        (
            r#"{"command": "x", "timeout": 60000}"#,
            "notice m.json:1:50: mcpServers.a: timeout is read as milliseconds; write a unit, as in \"60s\"",
        ),
        (
            r#"{"command": "x", "timeout": 3600}"#,
            "notice m.json:1:50: mcpServers.a: timeout is read as seconds; write a unit, as in \"60s\"",
        ),
        (r#"{"command": "x", "timeout": "60s"}"#, ""),
        (
            r#"{"comand": "x"}"#,
            "problem m.json:1:17: mcpServers.a: command required for stdio transport\n\
             notice m.json:1:23: mcpServers.a: unknown key \"comand\"; did you mean \"command\"? (ignored)",
        ),
        (r#""x""#, "problem m.json:1:22: mcpServers.a: expected a map, found text"),
    ];
    check(rows, |entry| complaints("m.json", &format!(r#"{{"mcpServers": {{"a": {entry}}}}}"#)));
}

#[test]
fn the_aliases_that_people_use_are_read() {
    let rows = [
        (r#"{"serverUrl": "https://x"}"#, "    type: http\n    url: \"https://x\"\n"),
        (r#"{"baseUrl": "https://x", "transport": "streamable-http"}"#, "    type: http\n    url: \"https://x\"\n"),
        (r#"{"url": "https://x", "type": "streamableHttp"}"#, "    type: http\n    url: \"https://x\"\n"),
        (r#"{"url": "https://x/sse"}"#, "    type: http\n    url: \"https://x/sse\"\n"),
        (r#"{"url": "wss://x", "type": "remote"}"#, "    type: websocket\n    url: \"wss://x\"\n"),
        (
            r#"{"url": "https://x", "bearer_token": "${T}"}"#,
            "    type: http\n    url: \"https://x\"\n    auth:\n      type: bearer\n      token: \"${T}\"\n",
        ),
        (
            r#"{"url": "https://x", "verify_ssl": false}"#,
            "    type: http\n    url: \"https://x\"\n    tls:\n      verify: false\n",
        ),
        (
            r#"{"command": "x", "environment": {"A": "b"}, "cwd": "/d", "disabled": true}"#,
            "    enabled: false\n    type: stdio\n    command: x\n    env:\n      A: b\n    working_dir: \"/d\"\n",
        ),
        (
            r#"{"command": "x", "env": ["A=b=c"], "workingDir": "d"}"#,
            "    type: stdio\n    command: x\n    env:\n      A: \"b=c\"\n    working_dir: d\n",
        ),
        (
            r#"{"command": "x", "toolsAllowed": ["a"], "disallowedTools": "b"}"#,
            "    type: stdio\n    command: x\n    allow: [a]\n    deny: [b]\n",
        ),
        (
            r#"{"command": "x", "allowedTools": [], "excludeTools": []}"#,
            "    type: stdio\n    command: x\n    allow: []\n",
        ),
        (r#"{"command": "x", "tools": ["*"]}"#, "    type: stdio\n    command: x\n    allow: [\"*\"]\n"),
        (r#"{"command": ["x", "y"], "args": ["z"]}"#, "    type: stdio\n    command: x\n    args: [\"y\", z]\n"),
        (r#"{"command": "x", "timeout": "90s"}"#, "    type: stdio\n    command: x\n    timeouts:\n      call: 90s\n"),
        (
            r#"{"command": "x", "timeout": "1200s"}"#,
            "    type: stdio\n    command: x\n    timeouts:\n      call: 20m\n      total: 20m\n",
        ),
    ];
    for (entry, expected) in rows {
        for (file, text) in [
            ("list.json", format!(r#"[{{"name": "a", {}]"#, &entry[1..])),
            ("toolgate.yaml", format!("servers: {{a: {entry}}}")),
        ] {
            // In toolgate's own file, `tools` has one meaning and these old names do not exist.
            if file == "toolgate.yaml" && (entry.contains("tools\"") || entry.contains("disallowed")) {
                continue;
            }
            assert_eq!(said(file, &text), format!("servers:\n  a:\n{expected}"), "{file}: {text}");
        }
    }
}
