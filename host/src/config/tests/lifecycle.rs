use std::path::Path;
use std::time::Duration;

use super::super::model::{FileShape, HealthProbe, LifecycleRules};
use super::super::parse;
use super::complaints;
use super::entries::{check, native};

fn lifecycle(text: &str) -> LifecycleRules {
    let config = parse(text, Path::new("toolgate.yaml")).unwrap();
    assert_eq!(super::remarks(&config), "", "{text}");
    config.servers[0].lifecycle.clone()
}

fn seconds(all: &[u64]) -> Vec<Duration> {
    all.iter().copied().map(Duration::from_secs).collect()
}

#[test]
fn every_key_means_the_same_in_a_server_and_for_all() {
    let plain = LifecycleRules::default;
    let span = Duration::from_secs;
    let rows = [
        ("eager: true", LifecycleRules { eager: true, ..plain() }),
        ("shared: false", LifecycleRules { shared: false, ..plain() }),
        ("idle_timeout: 10m", LifecycleRules { idle_timeout: span(600), ..plain() }),
        ("idle-timeout: 0", LifecycleRules { idle_timeout: span(0), ..plain() }),
        ("acquireTimeout: 90", LifecycleRules { acquire_timeout: span(90), ..plain() }),
        (
            "restart_delays: [0, 0, 1500ms]",
            LifecycleRules { restart_delays: vec![span(0), span(0), Duration::from_millis(1500)], ..plain() },
        ),
        ("restart_delays: 5s", LifecycleRules { restart_delays: seconds(&[5]), ..plain() }),
        ("health_interval: 0", LifecycleRules { health_interval: span(0), ..plain() }),
        ("health_interval: off", LifecycleRules { health_interval: span(0), ..plain() }),
        ("health_timeout: 1s", LifecycleRules { health_timeout: span(1), ..plain() }),
        ("probe_timeout: 1s", LifecycleRules { probe_timeout: span(1), ..plain() }),
        ("health_probe: list_tools", LifecycleRules { health_probe: HealthProbe::ListTools, ..plain() }),
    ];
    for (key, expected) in rows {
        assert_eq!(lifecycle(&format!("servers: {{a: {{command: x, {key}}}}}")), expected, "{key}");
        let text = format!("servers: {{a: {{command: x}}}}\nlifecycle: {{{key}}}");
        assert_eq!(lifecycle(&text), expected, "{key}");
        assert_eq!(parse(&text, Path::new("toolgate.yaml")).unwrap().settings.lifecycle, expected, "{key}");
    }
    assert_eq!(plain().restart_delays, seconds(&[0, 1, 2, 5, 10, 30, 60]));
}

#[test]
fn what_a_server_says_wins_over_what_holds_for_all() {
    let found = lifecycle(
        "lifecycle: {eager: true, shared: false, idle_timeout: 1h, restart_delays: [1, 2], health_probe: list-tools}\n\
         servers: {a: {command: x, eager: false, restart_delays: [9], health_probe: ping}}",
    );
    let expected = LifecycleRules {
        shared: false,
        idle_timeout: Duration::from_secs(3600),
        restart_delays: seconds(&[9]),
        ..LifecycleRules::default()
    };
    assert_eq!(found, expected);
}

#[test]
fn the_files_of_others_have_the_defaults_and_may_say_otherwise() {
    let rows = [
        ("m.json", FileShape::McpServers, r#"{"mcpServers": {"a": {"command": "x"}}}"#, 300),
        ("m.json", FileShape::McpServers, r#"{"mcpServers": {"a": {"command": "x", "idleTimeout": 20}}}"#, 20),
        (
            "m.json",
            FileShape::Gemini,
            r#"{"mcpServers": {"a": {"command": "x", "trust": true, "idleTimeout": 20000}}}"#,
            20,
        ),
        ("c.toml", FileShape::Codex, "[mcp_servers.a]\ncommand = 'x'\nidle_timeout = '1m'\n", 60),
    ];
    for (file, shape, text, expected) in rows {
        let config = parse(text, Path::new(file)).unwrap();
        assert_eq!(super::remarks(&config), "", "{text}");
        assert_eq!((config.shape, config.settings.lifecycle), (shape, LifecycleRules::default()), "{text}");
        assert_eq!(config.servers[0].lifecycle.idle_timeout.as_secs(), expected, "{text}");
    }
}

#[test]
fn what_does_not_fit_is_a_problem_of_the_server() {
    let long = format!("{{command: x, restart_delays: [{}]}}", ["1"; 33].join(", "));
    let rows = [
        (
            "{command: x, eager: 1}",
            "problem toolgate.yaml:2:26: servers.a.eager: expected true or false, found a number",
        ),
        (
            "{command: x, shared: gates}",
            "problem toolgate.yaml:2:27: servers.a.shared: expected true or false, found text",
        ),
        (
            "{command: x, idle_timeout: off}",
            "problem toolgate.yaml:2:33: servers.a.idle_timeout: this needs a limit; write a long one, such as \"30d\"",
        ),
        (
            "{command: x, acquire_timeout: 0}",
            "problem toolgate.yaml:2:36: servers.a.acquire_timeout: must be longer than 0",
        ),
        (
            "{command: x, health_timeout: off}",
            "problem toolgate.yaml:2:35: servers.a.health_timeout: this needs a limit; write a long one, such as \"1h\"",
        ),
        (
            "{command: x, probe_timeout: [1]}",
            "problem toolgate.yaml:2:34: servers.a.probe_timeout: expected a duration such as \"30s\", found a list",
        ),
        (
            "{command: x, health_interval: often}",
            "problem toolgate.yaml:2:36: servers.a.health_interval: expected a duration such as \"30s\", \"2m\" or \"500ms\", found \"often\"",
        ),
        (
            "{command: x, health_probe: tools}",
            "problem toolgate.yaml:2:33: servers.a.health_probe: \"tools\" is not one of: ping, list-tools",
        ),
        (
            "{command: x, restart_delays: []}",
            "problem toolgate.yaml:2:35: servers.a.restart_delays: is empty; write at least one delay, such as [60s], or leave it out",
        ),
        (
            "{command: x, restart_delays: [5s, 0]}",
            "problem toolgate.yaml:2:35: servers.a.restart_delays: the last delay repeats, so it must be longer than 0; end with one such as 60s",
        ),
        (
            "{command: x, restart_delays: [1, soon]}",
            "problem toolgate.yaml:2:39: servers.a.restart_delays[1]: expected a duration such as \"30s\", \"2m\" or \"500ms\", found \"soon\"",
        ),
        (
            "{command: x, restart_delays: [off]}",
            "problem toolgate.yaml:2:36: servers.a.restart_delays[0]: a delay cannot be endless; write a duration, such as \"60s\"",
        ),
        (
            "{command: x, restart_delays: {a: 1}}",
            "problem toolgate.yaml:2:35: servers.a.restart_delays: expected a list, found a map",
        ),
        (
            long.as_str(),
            "problem toolgate.yaml:2:35: servers.a.restart_delays: 33 delays, but 32 are enough: the last repeats",
        ),
        (
            "{command: x, idle_timout: 1m}",
            "problem toolgate.yaml:2:19: servers.a: unknown key \"idle_timout\"; did you mean \"idle_timeout\"?",
        ),
        (
            "{command: x, lifecycle: {eager: true}}",
            "problem toolgate.yaml:2:19: servers.a: \"lifecycle\" is not supported: in a server, write its keys directly, such as `idle_timeout: 10m`",
        ),
    ];
    check(rows, native);
    let rows = [
        ("lifecycle: {eagr: true}", "toolgate.yaml:1:13: lifecycle: unknown key \"eagr\"; did you mean \"eager\"?"),
        ("lifecycle: true", "toolgate.yaml:1:12: lifecycle: expected a map, found true or false"),
        (
            "lifecycle: {restart_delays: [0]}",
            "toolgate.yaml:1:29: lifecycle.restart_delays: the last delay repeats, so it must be longer than 0; end with one such as 60s",
        ),
        ("lifecicle: {}", "toolgate.yaml:1:1: unknown key \"lifecicle\"; did you mean \"lifecycle\"?"),
    ];
    check(rows, |text| complaints("toolgate.yaml", text));
}
