use std::path::Path;

use super::super::model::{ServerAuth, ServerConfig, UnexpandedText};
use super::super::parse;
use super::*;

/// Returns the content of a server without its positions.
fn essence(server: &ServerConfig) -> String {
    let texts = |all: &[UnexpandedText]| all.iter().map(|one| one.text.clone()).collect::<Vec<_>>();
    let pairs = |all: &[(String, UnexpandedText)]| {
        all.iter().map(|(name, one)| format!("{name}={}", one.text)).collect::<Vec<_>>()
    };
    let text = |one: &Option<UnexpandedText>| one.as_ref().map(|one| one.text.clone());
    let auth = match &server.auth {
        ServerAuth::Bearer(token) => format!("bearer {}", token.text),
        ServerAuth::OAuth(oauth) => format!(
            "oauth {:?} {:?} {:?} {:?}",
            text(&oauth.client_id),
            text(&oauth.client_secret),
            oauth.scopes,
            oauth.callback_port
        ),
        ServerAuth::ApiKey { value, r#in } => format!("key {} {:?}", value.text, r#in),
        ServerAuth::Basic { user, password } => format!("basic {} {}", user.text, password.text),
        ServerAuth::None => String::new(),
    };
    format!(
        "{} {} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {auth} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?}",
        server.id,
        server.enabled,
        server.kind,
        text(&server.command),
        texts(&server.args),
        pairs(&server.env),
        text(&server.env_file),
        server.pass_env,
        text(&server.working_dir),
        text(&server.url),
        pairs(&server.headers),
        server.tls.verify,
        server.timeouts,
        server.allow,
        server.deny,
        server.inherit_env,
        server.protocol,
        server.tools,
        server.masking,
        server.instructions,
        server.lifecycle,
        server.queue,
        server.tool_queues,
        server.max_concurrent,
    )
}

/// Checks that the import loads without notices and means the same as the client's file.
fn check(client: ImportClient, file: &str, text: &str) -> (String, Vec<String>) {
    let imported = import(client, text, Path::new(file)).unwrap();
    let native =
        parse(&imported.yaml, Path::new("toolgate.yaml")).unwrap_or_else(|error| panic!("{error}\n{}", imported.yaml));
    assert_eq!(native.shape, FileShape::Native);
    assert!(native.notices.is_empty(), "{:?}\n{}", native.notices, imported.yaml);
    let foreign = parse(text, Path::new(file)).unwrap();
    assert_eq!(native.settings.inputs, foreign.settings.inputs);
    let usable = foreign.servers.iter().filter(|server| server.problem.is_none());
    let expected: Vec<String> = usable.map(essence).map(|essence| essence.replace("$BARE", "${BARE}")).collect();
    assert!(native.servers.iter().all(|server| server.problem.is_none()), "{}", imported.yaml);
    assert_eq!(native.servers.iter().map(essence).collect::<Vec<_>>(), expected, "{}", imported.yaml);
    (imported.yaml, imported.notices.iter().map(ToString::to_string).collect())
}

#[test]
fn every_client_is_taken_over_with_the_same_meaning() {
    let rows = [
        (
            ImportClient::ClaudeDesktop,
            "claude_desktop_config.json",
            r##"{"mcpServers": {"My fs": {"command": "npx", "args": ["-y", "p", "#x", "a: b", "", "1.0", "é\n\"q\" \\ \u0007"], "env": {"API_KEY": "hunter2", "yes": "no", "ü ": "~"}}}}"##,
        ),
        (
            ImportClient::ClaudeCode,
            ".mcp.json",
            r#"{"mcpServers": {"a": {"type": "http", "url": "${U:-https://x}", "headers": {"Authorization": "Bearer ${T}"}, "oauth": {"clientId": "c", "callbackPort": 1, "scopes": "a b"}}, "b": {"type": "sse", "url": "https://x/sse"}, "c": {"type": "ws", "url": "wss://x"}}}"#,
        ),
        (
            ImportClient::VsCode,
            ".vscode/mcp.json",
            r#"{"inputs": [{"type": "promptString", "id": "k", "description": "a: b", "password": true, "default": "x"}], "servers": {"s": {"command": "npx -y p", "envFile": "${workspaceFolder}/.env", "env": {"K": "${input:k}"}}}}"#,
        ),
        (
            ImportClient::Cursor,
            ".cursor/mcp.json",
            r#"{"mcpServers": {"r": {"url": "https://x", "auth": {"CLIENT_ID": "i", "CLIENT_SECRET": "s", "scopes": ["a"]}, "tools": {"t": {"annotations": {"readOnlyHint": true}, "note": "n: x"}}, "masking": {"groups": ["all"], "custom": [{"pattern": "a\\d+", "replacement": "x"}]}, "protocol": "2026-07-28", "instructions": "two\nlines"}, "d": {"command": "x", "disabled": true, "inheritEnv": "none", "eager": true, "shared": false, "idleTimeout": 0, "acquireTimeout": "90s", "restartDelays": [0, "1500ms", "2m"], "healthInterval": "1m", "healthTimeout": 4, "probeTimeout": 2, "healthProbe": "list-tools", "queue": "q-1", "toolQueues": {"a*": "no", "b c": "x"}, "maxConcurrent": 3}}}"#,
        ),
        (
            ImportClient::Gemini,
            ".gemini/settings.json",
            r#"{"mcpServers": {"g": {"httpUrl": "https://x", "headers": {"K": "$BARE/y"}, "timeout": 1500}, "s": {"url": "https://x"}, "l": {"command": "$BARE", "cwd": "d", "includeTools": ["a"], "excludeTools": ["b"]}}}"#,
        ),
        (
            ImportClient::Codex,
            "config.toml",
            "[mcp_servers.x]\nurl = 'https://x'\nbearer_token_env_var = 'T'\ntool_timeout_sec = 900\nenabled_tools = []\n[mcp_servers.y]\ncommand = 'z'\nenv_vars = ['A']\n",
        ),
    ];
    for (client, file, text) in rows {
        check(client, file, text);
        assert_eq!(ImportClient::from_name(client.name()), Some(client));
    }
}

#[test]
fn a_token_becomes_a_variable_and_a_secret_in_plain_text_gets_a_word_of_advice() {
    let (yaml, _) =
        check(ImportClient::Codex, "config.toml", "[mcp_servers.x]\nurl = 'https://x'\nbearer_token_env_var = 'T'\n");
    assert!(yaml.contains("    auth:\n      type: bearer\n      token: \"${T}\"\n"), "{yaml}");
    let (yaml, _) = check(
        ImportClient::ClaudeCode,
        "m.json",
        r#"{"mcpServers": {"a": {"command": "x", "env": {"api-key": "hunter2", "MODE": "fast", "TOKEN": "${TOKEN}"}}}}"#,
    );
    assert!(
        yaml.contains(
            "      # A secret in plain text: export API_KEY and write ${API_KEY} instead.\n      api-key: hunter2\n"
        ),
        "{yaml}"
    );
    assert_eq!(yaml.matches('#').count(), 2, "{yaml}");
    let text =
        r#"{"mcpServers": {"my-tickets": {"url": "https://x", "headers": {"Authorization": "Bearer hunter2"}}}}"#;
    let (yaml, _) = check(ImportClient::ClaudeCode, "m.json", text);
    assert!(yaml.contains("export MY_TICKETS_TOKEN and write Bearer ${MY_TICKETS_TOKEN} instead.\n"), "{yaml}");
}

#[test]
fn the_client_says_what_a_number_without_a_unit_means() {
    let text = r#"{"mcpServers": {"a": {"command": "x", "timeout": 5000}}}"#;
    let rows = [
        (ImportClient::ClaudeCode, "call: 5s", 0),
        (ImportClient::Gemini, "call: 5s", 0),
        (ImportClient::Cursor, "call: 5000s", 1),
    ];
    for (client, call, notices) in rows {
        // The name of the file does not matter.
        for file in ["m.json", ".mcp.json"] {
            let imported = import(client, text, Path::new(file)).unwrap();
            assert!(imported.yaml.contains(call), "{client:?}: {}", imported.yaml);
            assert_eq!(imported.notices.len(), notices, "{client:?}: {imported:?}");
        }
    }
}

#[test]
fn what_cannot_come_along_is_said() {
    let text = r#"{"mcpServers": {"a": {"type": "grpc", "url": "x"}, "b": {"command": "y"}}, "projects": {"/p": {"mcpServers": {"c": {"command": "z"}}}}}"#;
    let (_, notices) = check(ImportClient::ClaudeCode, ".claude.json", text);
    assert_eq!(
        notices,
        [
            ".claude.json:1:89: the servers of the project \"/p\" are ignored: c",
            ".claude.json:1:31: server \"a\" is skipped: invalid transport type \"grpc\"; there are: stdio, http, sse, websocket",
        ]
    );
    let imported = import(
        ImportClient::Cursor,
        r#"{"mcpServers": {"g": {"url": "https://x", "trust": true}}}"#,
        Path::new("m.json"),
    )
    .unwrap();
    assert!(imported.yaml.contains("type: http") && !format!("{imported:?}").contains("https"), "{}", imported.yaml);
    let error = import(ImportClient::Cursor, "version: 1\nservers: {}", Path::new("toolgate.yaml")).unwrap_err();
    assert_eq!(error.to_string(), "toolgate.yaml:1:1: this is a toolgate.yaml already; there is nothing to import");
}

#[test]
fn a_relative_command_is_written_from_the_file() {
    let text = r#"{"mcpServers": {"a": {"command": "./run.sh", "cwd": "srv/"}, "b": {"command": "./run.sh"},
        "c": {"command": "npx", "cwd": "srv"}, "d": {"command": "${X}/run", "cwd": "srv"}}}"#;
    let yaml = import(ImportClient::ClaudeDesktop, text, Path::new("m.json")).unwrap().yaml;
    for command in ["srv/run.sh", "\"./run.sh\"", "npx", "\"${X}/run\""] {
        assert!(yaml.contains(&format!("    command: {command}\n")), "{command} in {yaml}");
    }
}
