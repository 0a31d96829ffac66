//! Checks that the example, the schema and the code agree.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value as Json;

use super::super::document::{self, Node, NodeValue};
use super::super::field::{ConfigField, ReadContext};
use super::super::keys::{self, inputs, masking, server, settings};
use super::super::model::{
    Annotations, Config, ConfigInput, ContextRules, CustomMask, FileShape, GatewayRules, LifecycleRules, Masking,
    QueueRules, RecordRules, ServerConfig, ServerTls, Settings, ShadowRules, SpillSettings, SummarizerKind, Timeouts,
    ToolConfig, TransportKind,
};
use super::super::schema::schema;
use super::super::section::{ConfigKey, read_keys};
use super::{complaints, parse};

const EXAMPLE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../toolgate.example.yaml"));

#[test]
fn the_example_loads_without_a_word() {
    assert_eq!(complaints("toolgate.example.yaml", EXAMPLE), "");
}

#[test]
fn what_the_example_gives_as_default_is_the_default() {
    let config = parse(EXAMPLE, Path::new("toolgate.yaml")).unwrap();
    let mut settings = config.settings;
    assert_eq!(settings.inputs.len(), 2);
    settings.inputs.clear();
    // Optional sections have no default, but their keys have.
    assert_eq!(settings.spill.take(), Some(SpillSettings::default()));
    assert_eq!(settings.record.take(), Some(RecordRules::default()));
    let summarizer = settings.summarizer.take().unwrap();
    assert!(matches!(summarizer.how, SummarizerKind::Http { .. }));
    assert_eq!((summarizer.timeout.as_secs(), summarizer.max_input_bytes), (30, 1024 * 1024));
    assert_eq!(settings.shadow.take().map(|shadow| shadow.sample), Some(1.0));
    assert_eq!(std::mem::take(&mut settings.queues).len(), 2);
    let rules = (std::mem::take(&mut settings.rules), std::mem::take(&mut settings.results));
    assert_eq!((rules.0.len(), rules.1.len(), std::mem::take(&mut settings.known).len()), (3, 1, 2));
    assert_eq!(std::mem::take(&mut settings.gateway.tokens).len(), 2);
    assert!(settings.gateway.tls.take().is_some());
    assert_eq!(settings, Settings::default());
    let files = config.servers[0].clone();
    let expected = ServerConfig {
        command: files.command.clone(),
        args: files.args.clone(),
        ..ServerConfig::new("files", files.place.clone(), TransportKind::Stdio)
    };
    assert_eq!(files, expected);
}

#[test]
fn every_key_of_the_schema_is_in_the_example() {
    let mut known = BTreeSet::new();
    paths_of_schema(&schema(), "", &mut known);
    known.remove("$schema");
    let document =
        document::read(EXAMPLE, &Path::new("toolgate.yaml").into()).unwrap_or_else(|error| panic!("{error}"));
    let mut given = BTreeSet::new();
    paths_of_node(&document.root, &schema(), "", &mut given);
    // A key that may be at the top and in a server or a token is shown in one of them.
    let shown = |path: &str| {
        let within = ["servers.*.", "gateway.tokens.*."].iter().find_map(|place| path.strip_prefix(place));
        let top = within.unwrap_or(path);
        given.contains(path) || given.contains(top) || given.contains(&format!("servers.*.{top}"))
    };
    let missing: Vec<_> = known.iter().filter(|path| !shown(path)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(known.len() > 80, "{}", known.len());
}

fn paths_of_schema(schema: &Json, path: &str, paths: &mut BTreeSet<String>) {
    for (key, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}{key}");
        paths_of_schema(property, &format!("{path}."), paths);
        paths.insert(path);
    }
    for inner in [&schema["items"], &schema["additionalProperties"]].into_iter().filter(|inner| inner.is_object()) {
        paths_of_schema(inner, &format!("{path}*."), paths);
    }
}

fn paths_of_node(node: &Node, schema: &Json, path: &str, paths: &mut BTreeSet<String>) {
    match &node.value {
        NodeValue::Map(entries) => {
            for entry in entries {
                let (key, inner) = match schema["properties"].get(&entry.key) {
                    Some(property) => (entry.key.as_str(), property),
                    None => ("*", &schema["additionalProperties"]),
                };
                paths.insert(format!("{path}{key}"));
                paths_of_node(&entry.value, inner, &format!("{path}{key}."), paths);
            }
        }
        NodeValue::List(items) => {
            items.iter().for_each(|item| paths_of_node(item, &schema["items"], &format!("{path}*."), paths))
        }
        NodeValue::Scalar(_) => {}
    }
}

/// Reads each key at the default that its table names, and expects that nothing changes.
fn check_defaults<T: PartialEq>(keys: &[ConfigKey<T>], fresh: impl Fn() -> T) {
    for key in keys.iter().filter(|key| key.in_schema && !key.default.is_empty()) {
        let text = format!("{}: {}", key.name, key.default);
        let document = document::read(&text, &Path::new("t.yaml").into()).unwrap_or_else(|error| panic!("{error}"));
        let mut context = ReadContext::new(FileShape::Native);
        let mut target = fresh();
        read_keys(keys, &mut target, &ConfigField { node: &document.root, field: String::new() }, &mut context);
        assert!(context.problems.is_empty(), "{text}: {:?}", context.problems);
        assert!(target == fresh(), "{text}");
    }
}

#[test]
fn every_default_of_the_schema_is_the_default_of_the_code() {
    let plain = parse("servers: {a: {command: x}}", Path::new("toolgate.yaml")).unwrap();
    check_defaults(settings::TOP, Settings::default);
    check_defaults(masking::MASKING, Masking::default);
    check_defaults(inputs::INPUT, ConfigInput::default);
    check_defaults(masking::CUSTOM, || CustomMask {
        name: None,
        pattern: String::new(),
        replacement: "[MASKED]".to_owned(),
    });
    check_defaults(keys::rules::LIMIT, Default::default);
    check_defaults(keys::rules::CONTEXT, ContextRules::default);
    check_defaults(keys::lifecycle::LIFECYCLE, LifecycleRules::default);
    check_defaults(keys::queues::QUEUE, QueueRules::default);
    check_defaults(keys::results::SUMMARIZER, keys::results::SummarizerDraft::default);
    check_defaults(keys::results::SPILL, SpillSettings::default);
    check_defaults(keys::shadow::SHADOW, || ShadowRules::new(plain.servers[0].place.clone()));
    check_defaults(keys::gateway::GATEWAY, GatewayRules::default);
    check_defaults(keys::gateway::TOKEN, Default::default);
    check_defaults(keys::gateway::TLS, keys::gateway::TlsDraft::default);
    check_defaults(server::TIMEOUTS, Timeouts::default);
    check_defaults(server::TLS, ServerTls::default);
    check_defaults(server::TOOL, ToolConfig::default);
    check_defaults(server::ANNOTATIONS, Annotations::default);
    for key in server::SERVER.iter().filter(|key| key.in_schema && !key.default.is_empty()) {
        let text = format!("servers: {{a: {{command: x, {}: {}}}}}", key.name, key.default);
        let config = parse(&text, Path::new("toolgate.yaml")).unwrap();
        assert_eq!(Config { digest: plain.digest, ..config }, plain, "{text}");
    }
}

#[test]
fn the_schema_refuses_unknown_keys_and_explains_all_known_ones() {
    fn check(schema: &Json, path: &str) {
        if schema["properties"].is_object() {
            assert_eq!(schema["additionalProperties"], false, "{path}");
        }
        for (key, property) in schema["properties"].as_object().into_iter().flatten() {
            let about = property["description"].as_str().unwrap_or_default();
            assert!(about.ends_with('.') && about.len() > 10, "{path}.{key}: {about:?}");
            // Each property allows one type, several types or some words.
            let kinds = property.get("type").or(property.get("enum"));
            assert!(kinds.is_some_and(|kinds| kinds.is_string() || kinds.is_array()), "{path}.{key}: {property}");
            check(property, &format!("{path}.{key}"));
            for inner in ["items", "additionalProperties"].iter().filter_map(|inner| property.get(inner)) {
                check(inner, &format!("{path}.{key}"));
            }
        }
    }
    let schema = schema();
    check(&schema, "");
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    assert_eq!(
        schema["properties"]["servers"]["additionalProperties"]["properties"]["timeouts"]["properties"]["call"]["default"],
        "60s"
    );
}

#[test]
fn no_name_means_two_keys() {
    fn check<T>(keys: &[ConfigKey<T>]) {
        let mut names = BTreeSet::new();
        for name in keys.iter().flat_map(|key| std::iter::once(&key.name).chain(key.aliases)) {
            assert!(names.insert(super::super::nearest::fold(name)), "{name}");
        }
    }
    check(settings::TOP);
    check(inputs::INPUT);
    check(server::SERVER);
    check(server::TLS);
    check(keys::auth::AUTH);
    check(keys::lifecycle::LIFECYCLE);
    check(keys::results::SUMMARIZER);
    check(keys::results::SPILL);
    check(keys::shadow::SHADOW);
    check(keys::queues::QUEUE);
    check(keys::gateway::GATEWAY);
    check(keys::gateway::TOKEN);
    check(keys::gateway::TLS);
}

#[test]
fn no_broken_text_makes_reading_panic() {
    // Cut the text at every seventh character, and leave each line out once.
    let ends = EXAMPLE.char_indices().map(|(at, _)| at).step_by(7);
    for end in ends {
        let _ = parse(&EXAMPLE[..end], Path::new("toolgate.yaml"));
    }
    let lines: Vec<&str> = EXAMPLE.lines().collect();
    for out in 0..lines.len() {
        let rest: Vec<&str> = lines.iter().enumerate().filter(|(at, _)| *at != out).map(|(_, line)| *line).collect();
        let _ = parse(&rest.join("\n"), Path::new("toolgate.yaml"));
    }
}
