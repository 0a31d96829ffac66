use super::super::model::{FileShape, ServerAuth, TransportKind};
use super::super::parse;
use super::{complaints, said};

use std::path::Path;

#[test]
fn claude_desktop_and_claude_code_are_read_as_they_are() {
    let text = r#"{
  "globalShortcut": "",
  "mcpServers": {
    "fs": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/tmp"], "env": {"K": "v", "N": 5}},
    "api": {"type": "http", "url": "${BASE:-https://x}/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"},
            "oauth": {"clientId": "", "callbackPort": 8765, "scopes": "a b"}},
    "old": {"type": "sse", "url": "https://x/sse", "headersHelper": "/bin/x"},
    "sock": {"type": "ws", "url": "wss://x/ws"},
    "inner": {"type": "sdk", "name": "x"}
  }
}"#;
    let expected = r#"servers:
  fs:
    type: stdio
    command: npx
    args: ["-y", "@modelcontextprotocol/server-filesystem", "/tmp"]
    env:
      K: v
      "N": "5"
  api:
    type: http
    url: "${BASE:-https://x}/mcp"
    headers:
      Authorization: "Bearer ${TOKEN}"
    auth:
      type: oauth
      scopes: [a, b]
      callback_port: 8765
  old:
    type: sse
    url: "https://x/sse"
  sock:
    type: websocket
    url: "wss://x/ws"
notice claude_desktop_config.json:7:52: mcpServers.old: "headersHelper" is not supported: write the header under `headers`, with a variable such as ${TOKEN}
notice claude_desktop_config.json:9:23: mcpServers.inner: skipped: type "sdk" only works inside its own program
"#;
    assert_eq!(said("claude_desktop_config.json", text), expected);
}

#[test]
fn servers_of_single_projects_are_named_and_left_out() {
    let text = r#"{"numStartups": 3, "mcpServers": {"a": {"command": "x"}},
"projects": {"/home/me/p": {"mcpServers": {"b": {"command": "y"}}}, "/home/me/q": {"mcpServers": {}}}}"#;
    let expected = "servers:\n  a:\n    type: stdio\n    command: x\n\
        notice .claude.json:2:14: the servers of the project \"/home/me/p\" are ignored: b\n";
    assert_eq!(said(".claude.json", text), expected);
}

#[test]
fn what_is_odd_elsewhere_in_the_file_of_a_client_costs_no_server() {
    let expected = "servers:\n  a:\n    type: stdio\n    command: x\n";
    let deep = format!(r#""deep": {}1{}"#, "[".repeat(150), "]".repeat(150));
    for odd in [r#""history": [{"display": "cut \ud83d"}]"#, deep.as_str(), r#""k": 1, "k": 2"#] {
        let text = format!(r#"{{{odd}, "mcpServers": {{"a": {{"command": "x"}}}}}}"#);
        assert_eq!(said(".claude.json", &text), expected, "{text}");
        let ours = said("toolgate.json", &text.replace("mcpServers", "servers"));
        assert!(ours.starts_with("toolgate.json:1:") && !ours.contains("unknown key"), "{ours}");
    }
    let twice = r#"{"mcpServers": {"a": {"command": "old"}, "b": {"command": "y"}, "a": {"command": "x"}}}"#;
    assert_eq!(
        said("mcp.json", twice),
        format!(
            "{expected}  b:\n    type: stdio\n    command: \"y\"\n\
            notice mcp.json:1:65: key \"a\" is given twice; first at line 1, column 17; the last one counts\n"
        )
    );
}

#[test]
fn servers_under_a_second_key_are_not_lost_without_a_word() {
    let (a, b) = (r#"{"a": {"command": "x"}}"#, r#"{"b": {"command": "y"}}"#);
    let rows = [
        (format!(r#"{{"mcpServers": {a}, "servers": {b}}}"#), "mcp.json:1:52: servers"),
        (format!(r#"{{"servers": {b}, "mcpServers": {a}}}"#), "mcp.json:1:13: servers"),
        (format!(r#"{{"mcp": {{"servers": {b}}}, "mcpServers": {a}}}"#), "mcp.json:1:21: mcp.servers"),
        (format!(r#"{{"mcp": {b}, "mcpServers": {a}}}"#), "mcp.json:1:9: mcp"),
    ];
    for (text, place) in rows {
        let expected = format!("{place} is ignored, because mcpServers is used: b; put all servers under one key");
        assert_eq!(complaints("mcp.json", &text), format!("notice {expected}"), "{text}");
    }
    let gemini = format!(r#"{{"mcpServers": {a}, "mcp": {{"allowed": ["a"]}}}}"#);
    assert_eq!(complaints("settings.json", &gemini), "");
}

#[test]
fn vs_code_is_read_with_its_inputs() {
    let text = r#"{
  // what VS Code asks
  "inputs": [{"type": "promptString", "id": "key", "description": "API key", "password": true},
             {"type": "pickString", "id": "env", "options": ["dev", {"label": "Production", "value": "prod"}], "default": "dev"}],
  "servers": {
    "s": {"type": "stdio", "command": "npx", "args": [], "env": {"K": "${input:key}", "U": null}, "envFile": "${workspaceFolder}/.env", "dev": {"watch": "x"}},
    "h": {"type": "http", "url": "https://x", "headers": {"X": "${env:Y}"},},
  },
}"#;
    let expected = r#"inputs:
  - id: key
    description: "API key"
    password: true
  - id: env
    default: dev
    options: [dev, prod]
servers:
  s:
    type: stdio
    command: npx
    env:
      K: "${input:key}"
    env_file: "${workspaceFolder}/.env"
  h:
    type: http
    url: "https://x"
    headers:
      X: "${env:Y}"
notice mcp.json:6:92: servers.s: env.U has no value and is ignored
"#;
    assert_eq!(said("mcp.json", text), expected);
    let nested = r#"{"editor.tabSize": 2, "mcp": {"inputs": [{"id": "a"}], "servers": {"s": {"command": "x"}}}}"#;
    assert_eq!(said("settings.json", nested), "inputs:\n  - id: a\nservers:\n  s:\n    type: stdio\n    command: x\n");
}

#[test]
fn cursor_is_read_with_its_oauth() {
    let text = r#"{"mcpServers": {"r": {"url": "https://x/mcp", "headers": {"A": "Bearer ${env:T}"},
      "auth": {"CLIENT_ID": "i", "CLIENT_SECRET": "${env:S}", "scopes": ["a", "b"]}}}}"#;
    let expected = r#"servers:
  r:
    type: http
    url: "https://x/mcp"
    headers:
      A: "Bearer ${env:T}"
    auth:
      type: oauth
      client_id: i
      client_secret: "${env:S}"
      scopes: [a, b]
"#;
    assert_eq!(said(".cursor/mcp.json", text), expected);
}

#[test]
fn gemini_counts_in_milliseconds_and_has_bare_variables() {
    let text = r#"{"theme": "x", "mcp": {"excluded": ["off"]}, "mcpServers": {
      "g": {"httpUrl": "https://x/mcp", "timeout": 30000, "trust": false, "includeTools": ["a"], "excludeTools": ["b"]},
      "s": {"url": "https://x/sse", "oauth": {"enabled": true, "clientId": "c"}},
      "l": {"command": "python", "args": ["s.py"], "env": {"K": "$VAR"}, "cwd": "./d", "timeout": 1200000},
      "off": {"command": "x"}}}"#;
    let expected = r#"servers:
  g:
    type: http
    url: "https://x/mcp"
    timeouts:
      call: 30s
    allow: [a]
    deny: [b]
  s:
    type: sse
    url: "https://x/sse"
    auth:
      type: oauth
      client_id: c
  l:
    type: stdio
    command: python
    args: [s.py]
    env:
      K: "${VAR}"
    working_dir: "./d"
    timeouts:
      call: 20m
      total: 20m
  "off":
    enabled: false
    type: stdio
    command: x
"#;
    assert_eq!(said(".gemini/settings.json", text), expected);
    let config = parse(text, Path::new("x.json")).unwrap();
    assert_eq!((config.shape, config.settings.bare_dollar), (FileShape::Gemini, true));
}

#[test]
fn codex_is_read_from_its_toml() {
    let text = r#"model = "x"
[mcp_servers.x]
url = "https://x/mcp"
bearer_token_env_var = "T"
http_headers = { "X-A" = "b" }
env_http_headers = { "X-B" = "B" }
enabled_tools = ["a"]
disabled_tools = ["b"]
tool_timeout_sec = 90
enabled = false

[mcp_servers.y]
command = "npx"
args = ["-y", "z"]
env_vars = ["HOME_TOKEN"]
startup_timeout_sec = 20.5
[mcp_servers.y.env]
"K" = "v"
[mcp_servers.y.tools.search]
approval_mode = "approve"
"#;
    let expected = r#"servers:
  x:
    enabled: false
    type: http
    url: "https://x/mcp"
    headers:
      X-A: b
      X-B: "${B}"
    auth:
      type: bearer
      token: "${T}"
    timeouts:
      call: 90s
    allow: [a]
    deny: [b]
  "y":
    type: stdio
    command: npx
    args: ["-y", z]
    env:
      K: v
    pass_env: [HOME_TOKEN]
    timeouts:
      initialize: 20500ms
notice config.toml:19:1: mcp_servers.y: the settings of tool "search" are ignored: they are for Codex itself
"#;
    assert_eq!(said("config.toml", text), expected);
}

#[test]
fn zed_opencode_a_bare_map_and_a_list_are_read() {
    let rows = [
        (
            "settings.json",
            r#"{"context_servers": {"a": {"source": "custom", "command": "x", "args": ["y"]}, "b": {"command": {"path": "p", "args": ["q"], "env": {"K": "v"}}}, "c": {"source": "extension", "settings": {}}}}"#,
            "servers:\n  a:\n    type: stdio\n    command: x\n    args: [\"y\"]\n  b:\n    type: stdio\n    command: p\n    args: [q]\n    env:\n      K: v\n\
             notice settings.json:1:147: context_servers.c: skipped: it has neither command nor url\n",
        ),
        (
            "opencode.json",
            r#"{"$schema": "x", "mcp": {"a": {"type": "local", "command": ["npx", "-y", "p"], "environment": {"K": "{env:T}-{file:~/t} ${U} {x} {env:"}, "timeout": 5000}, "b": {"type": "remote", "url": "https://x", "enabled": false, "oauth": false}}}"#,
            "servers:\n  a:\n    type: stdio\n    command: npx\n    args: [\"-y\", p]\n    env:\n      K: \"${env:T}-${file:~/t} ${U} {x} {env:\"\n    timeouts:\n      call: 5s\n  b:\n    enabled: false\n    type: http\n    url: \"https://x\"\n",
        ),
        (
            "any.json",
            r#"{"a": {"command": "x"}, "b": {"url": "ws://x"}}"#,
            "servers:\n  a:\n    type: stdio\n    command: x\n  b:\n    type: websocket\n    url: \"ws://x\"\n",
        ),
        (
            "any.yaml",
            "- name: a\n  command: x\n- name: a\n  serverUrl: https://x\n- url: https://y\n",
            "servers:\n  a:\n    type: stdio\n    command: x\n  a-2:\n    type: http\n    url: \"https://x\"\n\
             notice any.yaml:5:3: skipped: this server has no `name`\nnotice any.yaml:3:3: server \"a\" is called \"a-2\" here\n",
        ),
        ("any.json", "{}", "servers: {}\n"),
        ("any.json", r#"{"mcpServers": {}}"#, "servers: {}\n"),
        ("any.json", r#"{"mcpServers": null}"#, "servers: {}\n"),
    ];
    for (file, text, expected) in rows {
        assert_eq!(said(file, text), expected, "{text}");
    }
}

#[test]
fn claude_code_counts_in_milliseconds() {
    let text = |timeout: u32| format!(r#"{{"mcpServers": {{"a": {{"command": "x", "timeout": {timeout}}}}}}}"#);
    for file in [".mcp.json", "home/.claude.json"] {
        for (timeout, seconds) in [(5000, 5.0), (60_000, 60.0), (30, 0.03)] {
            let config = parse(&text(timeout), Path::new(file)).unwrap();
            assert_eq!(config.servers[0].timeouts.call.as_secs_f64(), seconds, "{file}: {timeout}");
            let notices: Vec<String> = config.notices.iter().map(ToString::to_string).collect();
            assert_eq!(
                notices.iter().any(|notice| notice.contains("as Claude Code does")),
                seconds < 1.0,
                "{notices:?}"
            );
        }
    }
    assert_eq!(parse(&text(5000), Path::new("mcp.json")).unwrap().servers[0].timeouts.call.as_secs(), 5000);
}

#[test]
fn the_content_decides_the_shape() {
    let rows = [
        ("toolgate.yaml", "version: 1\nservers: {}", FileShape::Native),
        ("x.yaml", "servers: {a: {command: x}}", FileShape::Native),
        ("toolgate.json", r#"{"servers": {"a": {"command": "x"}}}"#, FileShape::Native),
        ("x.json", r#"{"version": 1, "servers": {"a": {"command": "x"}}}"#, FileShape::Native),
        ("toolgate.yml", "read_only: true", FileShape::Native),
        ("x.yaml", "read_only: true", FileShape::Native),
        ("mcp.json", r#"{"servers": {"a": {"command": "x"}}}"#, FileShape::VsCode),
        ("x.json", r#"{"mcpServers": {"a": {"url": "x", "trust": true}}}"#, FileShape::Gemini),
        ("x.json", r#"{"mcpServers": {"a": {"url": "x"}}}"#, FileShape::McpServers),
        ("x.yaml", "mcpServers: {a: {url: x}}", FileShape::McpServers),
        ("config", "[mcp_servers.a]\ncommand = 'x'", FileShape::Codex),
        ("x.json", r#"[{"name": "a", "command": "x"}]"#, FileShape::List),
        ("x.json", r#"{"servers": [{"name": "a", "command": "x"}]}"#, FileShape::List),
        ("x.json", r#"{"a": {"command": "x"}}"#, FileShape::Bare),
    ];
    for (file, text, expected) in rows {
        let config = parse(text, Path::new(file)).unwrap();
        assert_eq!(config.shape, expected, "{file}: {text}");
    }
}

#[test]
fn a_file_without_servers_is_an_error_that_says_what_was_expected() {
    let rows = [
        (
            "x.json",
            r#"{"mcpServer": {"a": {}}}"#,
            "x.json:1:1: no servers in this file; did you mean \"mcpServers\" where you wrote \"mcpServer\"?",
        ),
        (
            "x.json",
            r#"{"theme": 1, "b": 2}"#,
            "x.json:1:1: no servers in this file; expected one of servers, mcpServers, mcp_servers, context_servers, mcp, found theme, b",
        ),
        ("x.json", "3", "x.json:1:1: expected a map, found a number"),
        (
            "x.json",
            r#"{"mcpServers": "x"}"#,
            "x.json:1:16: mcpServers: expected a map from names to servers, found text",
        ),
        ("toolgate.yaml", "server: {}", "toolgate.yaml:1:1: unknown key \"server\"; did you mean \"servers\"?"),
    ];
    for (file, text, expected) in rows {
        assert_eq!(complaints(file, text), expected, "{text}");
    }
}

#[test]
fn names_of_foreign_files_become_ids() {
    let text = r#"{"mcpServers": {"My Server!": {"command": "a"}, "My Server": {"command": "b"}, "é": {"command": "c"}, "a.b/c": {"command": "d"}, "-x-": {"command": "e"}}}"#;
    let config = parse(text, Path::new("f")).unwrap();
    let ids: Vec<&str> = config.servers.iter().map(|server| server.id.as_str()).collect();
    assert_eq!(ids, ["My-Server", "My-Server-2", "server", "a-b-c", "-x-"]);
    assert_eq!(config.notices[0].to_string(), "f:1:17: server \"My Server!\" is called \"My-Server\" here");
    assert_eq!(config.notices.len(), 4);
}

#[test]
fn no_value_that_may_be_a_secret_is_shown_by_debug() {
    let text = r#"{"mcpServers": {
      "a": {"command": "x", "args": ["hunter2"], "env": {"KEY": "hunter2"}, "bearer_token": "hunter2"},
      "b": {"url": "https://u:hunter2@x", "headers": {"X": "hunter2"}, "auth": {"key": "hunter2"}},
      "c": {"url": "https://x", "auth": {"user": "u", "password": "hunter2"}},
      "d": {"url": "https://x", "oauth": {"clientSecret": "hunter2"}}}}"#;
    let config = parse(text, Path::new("f.json")).unwrap();
    assert!(config.servers.iter().all(|server| server.problem.is_none()), "{config:?}");
    assert!(
        matches!(config.servers[1].auth, ServerAuth::ApiKey { .. }) && config.servers[1].kind == TransportKind::Http
    );
    let shown = format!("{config:#?}");
    assert!(!shown.contains("hunter2"), "{shown}");
    assert!(shown.contains("KEY") && shown.contains("args[0]"), "{shown}");
}
