//! Rules that are empty, odd, misspelt, or in a place where other clients have none.

use std::path::Path;

use super::super::model::{DestructivePolicy, FileShape, RetryPolicy};
use super::super::{import, parse};
use super::{complaints, said};

/// Returns one server in every file format, with these keys as JSON.
fn shapes(keys: &str) -> Vec<(&'static str, String)> {
    let entry = format!(r#"{{"command": "x", {keys}}}"#);
    vec![
        ("toolgate.yaml", format!("servers: {{a: {entry}}}")),
        ("toolgate.yaml", format!("mcpServers: {{a: {entry}}}")),
        ("mcp.json", format!(r#"{{"mcpServers": {{"a": {entry}}}}}"#)),
        ("mcp.json", format!(r#"{{"servers": {{"a": {entry}}}}}"#)),
        ("settings.json", format!(r#"{{"mcp": {{"servers": {{"a": {entry}}}}}}}"#)),
        (".gemini/settings.json", format!(r#"{{"mcpServers": {{"a": {entry}}}}}"#)),
        ("opencode.json", format!(r#"{{"mcp": {{"a": {entry}}}}}"#)),
        ("zed.json", format!(r#"{{"context_servers": {{"a": {entry}}}}}"#)),
        ("config.yaml", format!("mcp_servers: {{a: {entry}}}")),
        ("bare.json", format!(r#"{{"a": {entry}}}"#)),
        ("list.json", format!(r#"[{{"name": "a", {}]"#, &entry[1..])),
    ]
}

#[test]
fn an_empty_list_of_what_exists_stays_empty_by_every_name() {
    for key in
        ["allow", "toolsAllowed", "allowedTools", "allow_tools", "includeTools", "enabled_tools", "ENABLED-TOOLS"]
    {
        for (file, text) in shapes(&format!(r#""{key}": []"#)) {
            let config = parse(&text, Path::new(file)).unwrap();
            assert_eq!(config.servers[0].problem, None, "{text}");
            assert_eq!(config.servers[0].allow, Some(Vec::new()), "{text}");
        }
    }
    let codex = parse("[mcp_servers.a]\ncommand = 'x'\nenabled_tools = []\n", Path::new("config.toml")).unwrap();
    assert_eq!(codex.servers[0].allow, Some(Vec::new()));
    let copilot = parse(r#"{"mcpServers": {"a": {"command": "x", "tools": []}}}"#, Path::new("mcp.json")).unwrap();
    assert_eq!(copilot.servers[0].allow, Some(Vec::new()));
}

#[test]
fn any_means_all_tools_to_ai_agent_alone() {
    for (file, text) in shapes(r#""toolsAllowed": [" Any ", "x"]"#) {
        let config = parse(&text, Path::new(file)).unwrap();
        assert_eq!(config.servers[0].allow.as_deref(), Some(&["*".to_owned(), "x".to_owned()][..]), "{text}");
    }
    for key in ["allow", "allowedTools", "includeTools", "enabled_tools"] {
        for (file, text) in shapes(&format!(r#""{key}": ["x", "any"]"#)) {
            let found = complaints(file, &text);
            assert!(
                found.starts_with("problem ") && found.contains("write \"*\" to mean all tools"),
                "{text}: {found}"
            );
        }
    }
    for (file, text) in shapes(r#""deny": ["any"]"#) {
        let config = parse(&text, Path::new(file)).unwrap();
        assert_eq!(
            (&config.servers[0].problem, &config.servers[0].deny[..]),
            (&None, &["any".to_owned()][..]),
            "{text}"
        );
    }
}

#[test]
fn a_rule_without_a_value_or_given_twice_disables_its_server() {
    for keys in [
        r#""allow": null"#,
        r#""includeTools": null"#,
        r#""deny": null"#,
        r#""masking": null"#,
        r#""tools": null"#,
        r#""masking": {"groups": null}"#,
        r#""allow": ["x"], "allowedTools": ["*"]"#,
        r#""allow": ["x"], "toolsAllowed": ["*"]"#,
        r#""deny": ["x"], "disabledTools": []"#,
        r#""allow": {"x": true}"#,
        r#""allow": [["x"]]"#,
        r#""masking": "all""#,
        r#""masking": {"grups": ["all"]}"#,
        r#""tools": {"t": {"requries": ["x"]}}"#,
        r#""tools": {"t": {"annotations": {"readonyl": true}}}"#,
    ] {
        for (file, text) in shapes(keys) {
            assert!(complaints(file, &text).starts_with("problem "), "{text}: {}", complaints(file, &text));
        }
    }
    // JSON allows a key twice, and the last one would count.
    for doubled in [
        r#"{"mcpServers": {"a": {"command": "x", "deny": ["y"], "deny": []}}}"#,
        r#"{"mcpServers": {"a": {"command": "x", "masking": {"groups": ["all"], "groups": []}}}}"#,
        r#"{"mcpServers": {"a": {"command": "x"}}, "read_only": true, "read_only": false}"#,
    ] {
        assert!(complaints("mcp.json", doubled).contains("is given twice"), "{doubled}");
        assert!(parse(doubled, Path::new("mcp.json")).is_err(), "{doubled}");
    }
}

#[test]
fn a_misspelt_rule_disables_its_server_in_every_shape() {
    for (key, nearest) in [
        ("maskng", "masking"),
        ("msking", "masking"),
        ("mask", "masking"),
        ("maskingRules", "masking"),
        ("toolsDeny", "deny"),
        ("denny", "deny"),
        ("denylist", "deny"),
        ("tools_denid", "deny"),
        ("disallowed", "deny"),
        ("toolsExcluded", "deny"),
        ("blocked_tools_list", "deny"),
        ("alow", "allow"),
        ("allowed", "allow"),
        ("alowedTools", "allow"),
        ("toolFilter", "allow"),
        ("onlyTools", "allow"),
        ("enabledTool", "allow"),
        ("read_onyl", "read_only"),
        ("readOnly", "read_only"),
        ("destructive", "destructive"),
        ("asks", "ask"),
        ("ask_for", "ask"),
        ("requireApproval", "ask"),
        ("requries", "requires"),
        ("disabeld", "disabled"),
        ("enbaled", "enabled"),
    ] {
        for (file, text) in shapes(&format!(r#""{key}": ["x"]"#)) {
            let found = complaints(file, &text);
            assert!(found.starts_with("problem "), "{text}: {found}");
            // In toolgate's own file, the hint names the nearest key, whether it is a rule or not.
            let ours = text.starts_with("servers") && found.contains("did you mean");
            assert!(ours || found.contains(&format!("did you mean {nearest:?}")), "{text}: {found}");
        }
    }
    let nested = r#"{"mcpServers": {"a": {"command": "x", "toolConfiguration": {"allowedTools": ["y"]}}}}"#;
    assert!(complaints("mcp.json", nested).starts_with("problem "), "{}", complaints("mcp.json", nested));
    // The other servers are still used.
    let two = r#"{"mcpServers": {"a": {"command": "x", "maskng": {}}, "b": {"command": "y"}}}"#;
    assert_eq!(parse(two, Path::new("mcp.json")).unwrap().servers[1].problem, None);
}

#[test]
fn keys_that_other_clients_are_known_to_write_cost_no_server() {
    let known = [
        r#""timeout": "60s", "disabled": false, "autoApprove": ["x"], "alwaysAllow": ["x"], "disabledTools": []"#,
        r#""watchPaths": ["x"], "networkTimeout": 5, "type": "stdio", "description": "d", "icon": "i", "gallery": true"#,
        r#""version": "1.2", "metadata": {"permissions": []}, "trust": true, "dev": {"watch": "x"}, "provider": "p""#,
        r#""isActive": true, "registryUrl": "u", "longRunning": true, "disabledAutoApproveTools": ["x"], "logoUrl": "l""#,
        r#""installSource": "s", "isTrusted": true, "searchKey": "k", "tags": ["t"], "providerUrl": "u", "dxtPath": "d""#,
        r#""chatMenu": false, "serverInstructions": true, "initTimeout": 5, "requiresOAuth": false, "startup": true"#,
        r#""customUserVars": {"K": {"title": "t"}}, "stderr": "inherit", "iconPath": "p", "proxy": "p""#,
        r#""required": true, "scopes": ["x"], "supports_parallel_tool_calls": true, "default_tools_approval_mode": "auto""#,
        r#""start_on_launch": true, "source": "custom", "settings": {"deny": []}, "load_on_start": true, "roots": []"#,
        r#""include_instructions": true, "read_timeout_seconds": 5, "encoding": "utf-8", "shell": true, "runtime": "node""#,
        r#""options": {"timeout": 5, "resetTimeoutOnProgress": true}, "keepAliveInterval": 5, "owner": "me", "retries": 3"#,
        r#""_deny": ["x"], "//allow": ["x"], "$comment": "c", "umask": "022", "task": "t", "note": "n", "comment": "c""#,
        r#""alwaysLoad": true, "autoStart": true, "faviconUrl": "f", "requestOptions": {}, "sampling": {}, "targetAudience": "t""#,
        r#""extensionName": "e", "approvalPolicy": "once", "marketplace": "m", "package": "p", "transportType": "stdio""#,
    ];
    for keys in known {
        let text = format!(r#"{{"mcpServers": {{"a": {{"command": "x", {keys}}}}}}}"#);
        let config = parse(&text, Path::new("mcp.json")).unwrap();
        assert_eq!(config.servers[0].problem, None, "{text}");
    }
    let at_top = [
        (
            "claude_desktop_config.json",
            r#""globalShortcut": "", "preferences": {"allowAll": true}, "scale": 1, "mcpServers""#,
        ),
        (
            ".claude.json",
            r#""numStartups": 1, "allowedDomains": [], "bypassPermissionsModeAccepted": true, "mcpServers""#,
        ),
        (
            ".gemini/settings.json",
            r#""excludeTools": ["x"], "coreTools": [], "security": {}, "confirmUnsafe": true, "mcpServers""#,
        ),
        ("settings.json", r#""chat.tools.autoApprove": true, "files.readonlyInclude": {}, "context_servers""#),
        ("opencode.json", r#""permission": {"edit": "ask"}, "tools": {"bash": false}, "share": "manual", "mcp""#),
        (
            "librechat.yaml",
            r#""version": "1.2.8", "filteredTools": [], "includedTools": [], "registration": {"allowedDomains": []}, "mcpServers""#,
        ),
        ("config.json", r#""approval_policy": "never", "sandbox_mode": "read-only", "history": {}, "mcp_servers""#),
        ("mcp.json", r#""$schema": "s", "inputs": [], "servers""#),
    ];
    for (file, keys) in at_top {
        let text = format!(r#"{{{keys}: {{"a": {{"command": "x"}}}}}}"#);
        assert_eq!(complaints(file, &text), "", "{text}");
    }
}

#[test]
fn what_holds_for_all_holds_beside_the_servers_of_every_shape() {
    let of_all = r#""read_only": true, "destructive": "deny", "retry": "never", "maskING": {"groups": ["all"]}, "max_result_bytes": 9, "gateway": {"tokens": [{"principal": "p", "token": "t"}], "session_idle": 90}, "lifecycle": {"eager": true, "idle_timeout": 7}, "record": true, "queues": {"q": 1}"#;
    for (file, servers) in [
        ("toolgate.yaml", r#""mcpServers": {"a": {"command": "x"}}"#),
        ("mcp.json", r#""mcpServers": {"a": {"command": "x"}}"#),
        (".mcp.json", r#""mcpServers": {"a": {"command": "x"}}"#),
        (".claude.json", r#""numStartups": 1, "mcpServers": {"a": {"command": "x"}}"#),
        ("settings.json", r#""mcpServers": {"a": {"command": "x", "trust": true}}"#),
        ("settings.json", r#""mcp": {"servers": {"a": {"command": "x"}}}"#),
        ("opencode.json", r#""mcp": {"a": {"command": "x"}}"#),
        ("settings.json", r#""context_servers": {"a": {"command": "x"}}"#),
        ("list.json", r#""servers": [{"name": "a", "command": "x"}]"#),
        ("config.json", r#""mcp_servers": {"a": {"command": "x"}}"#),
        ("mcp.json", r#""servers": {"a": {"command": "x"}}"#),
    ] {
        let text = format!("{{{servers}, {of_all}}}");
        let config = parse(&text, Path::new(file)).unwrap_or_else(|error| panic!("{text}: {error}"));
        let settings = &config.settings;
        assert_eq!(
            (settings.read_only, settings.destructive, settings.retry),
            (true, DestructivePolicy::Deny, RetryPolicy::Never),
            "{text}"
        );
        assert_eq!((&settings.masking.groups[..], settings.max_result_bytes), (&["all".to_owned()][..], 9), "{text}");
        assert_eq!((settings.gateway.tokens.len(), settings.gateway.session_idle.as_secs()), (1, 90), "{text}");
        assert!(settings.record.is_some() && settings.queues.len() == 1, "{text}");
        let lifecycle = &config.servers[0].lifecycle;
        assert_eq!((lifecycle.eager, lifecycle.idle_timeout.as_secs()), (true, 7), "{text}");
    }
    let vs_code = r#"{"servers": {"a": {"command": "x"}}, "readOnly": true, "inputs": [{"id": "k"}]}"#;
    let config = parse(vs_code, Path::new("mcp.json")).unwrap();
    assert_eq!((config.shape, config.settings.read_only, config.settings.inputs.len()), (FileShape::VsCode, true, 1));
    let codex = "read_only = true\n[masking]\ngroups = ['all']\n[mcp_servers.a]\ncommand = 'x'\n";
    let config = parse(codex, Path::new("config.toml")).unwrap();
    assert!(config.settings.read_only && config.settings.masking.groups == ["all"]);
}

#[test]
fn what_does_not_fit_or_is_misspelt_beside_the_servers_is_an_error() {
    for (beside, expected) in [
        (
            r#""maskng": {"groups": ["all"]}"#,
            "unknown key \"maskng\" looks like a rule, and rules are never ignored; did you mean \"masking\"?",
        ),
        (r#""readonyl": true"#, "did you mean \"read_only\"?"),
        (r#""destructiv": "deny""#, "did you mean \"destructive\"?"),
        (r#""gatway": {}"#, "did you mean \"gateway\"?"),
        (r#""deny": ["x"]"#, "did you mean \"deny\" of a server?"),
        (r#""toolsDenied": ["x"]"#, "did you mean \"deny\" of a server?"),
        (r#""masks": ["all"]"#, "did you mean \"masking\"?"),
        (r#""toolgate": {"read_only": true}"#, "did you mean \"read_only\"?"),
        (r#""masking": {"group": ["all"]}"#, "masking: unknown key \"group\""),
        (r#""masking": ["all"]"#, "masking: expected a map"),
        (r#""masking": null"#, "masking: has no value"),
        (r#""read_only": "yes""#, "read_only: expected true or false"),
        (r#""read_only": true, "readOnly": false"#, "means the same as \"read_only\""),
        (r#""destructive": "denied""#, "destructive: \"denied\" is not one of"),
        (r#""gateway": {"tokens": [{"principal": "p"}]}"#, "gateway.tokens[0]: needs a `token`"),
        (r#""gateway": {"tokns": []}"#, "gateway: unknown key \"tokns\""),
    ] {
        for (file, servers) in [
            ("toolgate.yaml", r#""mcpServers": {"a": {"command": "x"}}"#),
            ("mcp.json", r#""servers": {"a": {"command": "x"}}"#),
            ("list.json", r#""servers": [{"name": "a", "command": "x"}]"#),
        ] {
            let text = format!("{{{servers}, {beside}}}");
            let error = parse(&text, Path::new(file)).map(|_| ()).unwrap_err().to_string();
            // Beside a key of toolgate, `servers` are toolgate's own too.
            let native = file == "mcp.json" && error.contains("unknown key");
            assert!(error.contains(expected) || native, "{text}: {error}");
        }
    }
}

#[test]
fn rules_for_servers_that_stand_apart_from_them_are_an_error() {
    for rules in [r#"{"a": {"deny": ["x"]}}"#, r#"{"b": {"command": "y"}, "a": {"command": "x", "masking": {}}}"#] {
        let text = format!(r#"{{"mcpServers": {{"a": {{"command": "x"}}}}, "servers": {rules}}}"#);
        for file in ["toolgate.json", "mcp.json"] {
            let error = parse(&text, Path::new(file)).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains("\"a\" has rules under \"servers\""), "{text}: {error}");
        }
    }
}

#[test]
fn servers_that_gemini_excludes_are_not_used_however_the_lists_are_written() {
    let enabled = |lists: &str| {
        let text = format!(
            r#"{{"mcpServers": {{"My Server": {{"command": "x", "trust": true}}, "b": {{"command": "y"}}}}, {lists}}}"#
        );
        let config = parse(&text, Path::new("settings.json")).map_err(|error| error.to_string())?;
        Ok::<_, String>(config.servers.iter().map(|server| server.enabled).collect::<Vec<_>>())
    };
    assert_eq!(enabled(r#""x": 1"#), Ok(vec![true, true]));
    for excluded in [
        r#""mcp": {"excluded": ["My Server"]}"#,
        r#""mcp": {"allowed": ["b"]}"#,
        r#""excludeMCPServers": ["My-Server"]"#,
        r#""allowMCPServers": "b""#,
    ] {
        assert_eq!(enabled(excluded), Ok(vec![false, true]), "{excluded}");
    }
    assert_eq!(enabled(r#""mcp": {"allowed": []}"#), Ok(vec![false, false]));
    for odd in
        [r#""mcp": {"allowed": {"b": true}}"#, r#""mcp": {"excluded": null}"#, r#""excludeMCPServers": {"a": 1}"#]
    {
        assert!(enabled(odd).is_err(), "{odd}");
    }
}

#[test]
fn an_import_takes_over_what_holds_for_all() {
    let text = r#"{"mcpServers": {"a": {"command": "x", "toolsAllowed": ["any"]}}, "readOnly": true, "masking": {"custom": [{"pattern": "a: \"b\" #\\d"}]}, "gateway": {"tokens": [{"principal": "p", "token": "${T}"}], "rate": 5}}"#;
    let imported = import::import(import::ImportClient::Cursor, text, Path::new("mcp.json")).unwrap();
    let ours =
        parse(&imported.yaml, Path::new("toolgate.yaml")).unwrap_or_else(|error| panic!("{error}: {}", imported.yaml));
    let theirs = parse(text, Path::new("mcp.json")).unwrap();
    assert_eq!(ours.settings.without_positions(), theirs.settings.without_positions(), "{}", imported.yaml);
    assert_eq!((ours.settings.gateway.rate, ours.settings.gateway.tokens.len()), (Some(5), 1));
    assert_eq!(ours.servers[0].allow, Some(vec!["*".to_owned()]), "{}", said("toolgate.yaml", &imported.yaml));
}
