use std::path::Path;
use std::time::Duration;

use super::super::model::{ContextScope, FileShape};
use super::super::parse;
use super::{complaints, said};
use crate::logic::types::rules::{CallLimit, Effect, LimitScope, ResultRule};

#[test]
fn rules_results_known_values_and_context_are_read() {
    let text = "servers:
  fs:
    command: x
    rules:
      - {name: own, when: 'true', then: {label: [seen]}}
rules:
  - name: stay
    tools: [\"fs.write_*\", \"fs.edit_*\"]
    when: '!path.within(args.path, \"/srv/agent\")'
    then: deny
    because: writes stay in /srv/agent
  - {name: budget, tools: [\"search.*\"], limit: {calls: 100, per: 1h, by: everybody}, then: ask}
  - {name: rest, tools: [\"*\"], then: allow}
results:
  \"web.*\": {labels: [untrusted]}
  \"crm.get\": {labels: [private], trusted: true, trusted_fields: [from, owner.mail]}
known: [\"@example.com\"]
context: {scope: session, idle: 5m}
gateway:
  tokens:
    - {principal: ann, token: x, groups: [office], rules: [{name: anns, tools: [fs.rm], then: deny}]}
";
    let config = parse(text, Path::new("toolgate.yaml")).unwrap();
    assert_eq!(config.shape, FileShape::Native);
    let settings = &config.settings;
    let [stay, budget, rest] = settings.rules.as_slice() else { panic!("{:?}", settings.rules) };
    assert_eq!(stay.rule.tools, ["fs.write_*", "fs.edit_*"]);
    assert_eq!(stay.rule.because.as_deref(), Some("writes stay in /srv/agent"));
    // The condition begins after its quote.
    assert_eq!(stay.position_of(1).to_string(), "toolgate.yaml:9:13");
    assert_eq!(budget.rule.effect, Effect::Ask);
    assert_eq!(budget.rule.limit, Some(CallLimit { calls: 100, per_ms: 3_600_000, by: LimitScope::Everybody }));
    assert_eq!((&rest.rule.effect, &rest.rule.condition), (&Effect::Allow, &None));
    let own = &config.servers[0].rules[0].rule;
    assert_eq!((own.tools.as_slice(), &own.effect), (&["*".to_owned()][..], &Effect::Label(vec!["seen".to_owned()])));
    let expected = ResultRule {
        tools: "crm.get".to_owned(),
        labels: vec!["private".to_owned()],
        trusted: true,
        trusted_fields: vec!["from".to_owned(), "owner.mail".to_owned()],
    };
    assert_eq!(settings.results[1].rule, expected);
    assert_eq!(settings.known, ["@example.com"]);
    assert_eq!((settings.context.scope, settings.context.idle), (ContextScope::Session, Duration::from_secs(300)));
    let token = &settings.gateway.tokens[0];
    assert_eq!((token.groups.as_slice(), token.rules[0].rule.name.as_str()), (&["office".to_owned()][..], "anns"));
}

#[test]
fn what_is_wrong_with_rules_is_told_and_nothing_is_skipped() {
    let rows = [
        ("rules:", "toolgate.yaml:1:1: rules: has no value; write one, or remove the key"),
        ("rules: {a: b}", "toolgate.yaml:1:8: rules: expected a list, found a map"),
        ("rules: [{tools: [a.b], then: deny}]", "toolgate.yaml:1:9: rules[0]: a `name` is missing"),
        ("rules: [{name: r, then: deny}]", "toolgate.yaml:1:9: rules[0]: names no `tools`; write [\"*\"] to mean all"),
        (
            "rules: [{name: r, tools: [ab], then: deny}]",
            "toolgate.yaml:1:9: rules[0]: \"ab\" is not of the form server.tool, such as files.read_*",
        ),
        (
            "rules: [{name: r, tools: [a.b]}]",
            "toolgate.yaml:1:9: rules[0]: does not say what happens; write `then: deny`, for example",
        ),
        (
            "rules: [{name: r, tools: [a.b], then: {label: []}}]",
            "toolgate.yaml:1:39: rules[0].then: names no label; write `label: [private]`, for example",
        ),
        (
            "rules: [{name: r, tools: [a.b], then: {label: [\"a b\"]}}]",
            "toolgate.yaml:1:48: rules[0].then.label[0]: a label such as \"a b\" must be letters, digits, `_`, `.` and `-`",
        ),
        (
            "rules: [{name: r, tools: [a.b], then: allow, limit: {calls: 1, per: 1s}}]",
            "toolgate.yaml:1:9: rules[0]: a `limit` goes with `then: deny` or `then: ask`",
        ),
        (
            "rules: [{name: r, tools: [a.b], then: deny}, {name: r, tools: [a.b], then: ask}]",
            "toolgate.yaml:1:46: rules[1]: the rule \"r\" is given twice",
        ),
        (
            "{servers: {s: {command: x, rules: [{name: r, then: deny}]}}, rules: [{name: r, tools: [a.b], then: ask}]}",
            "toolgate.yaml:1:36: another rule has the name \"r\" too",
        ),
        (
            "results: {web: {labels: [x]}}",
            "toolgate.yaml:1:16: results.web: \"web\" is not of the form server.tool, such as files.read_*",
        ),
        (
            "results: {\"web.*\": {lables: [x]}}",
            "toolgate.yaml:1:21: results.web.*: unknown key \"lables\"; did you mean \"labels\"?",
        ),
        (
            "context: {idle: off}",
            "toolgate.yaml:1:17: context.idle: this needs a limit; write a long one, such as \"30d\"",
        ),
    ];
    for (text, expected) in rows {
        assert_eq!(complaints("toolgate.yaml", text), expected, "{text}");
    }
    // What is imported keeps its rules.
    let text = r#"{"mcpServers": {"a": {"command": "x", "rules": [{"name": "r", "tools": ["t"], "when": "args.a == 1",
        "then": {"label": ["l"]}}, {"name": "s", "limit": {"calls": 5, "per": "1m"}}]}}}"#;
    let expected = "servers:\n  a:\n    type: stdio\n    command: x\n    rules:\n      - name: r\n        tools: [t]\n        \
        when: \"args.a == 1\"\n        then: {label: [l]}\n      - name: s\n        tools: [\"*\"]\n        then: deny\n        \
        limit: {calls: 5, per: 1m, by: principal}\n";
    assert_eq!(said("claude_desktop_config.json", text), expected);
    // In the file of another client, a rule of toolgate is read as strictly.
    let text = r#"{"mcpServers": {"a": {"command": "x", "rules": [{"name": "r", "wen": "true", "then": "deny"}]}}}"#;
    let told = complaints("claude_desktop_config.json", text);
    assert!(told.contains("unknown key \"wen\"; did you mean \"when\"?"), "{told}");
}
