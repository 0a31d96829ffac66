//! The JSON of a gate's settings and of a server's tools.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::json_text::JsonText;
use super::macros::{json_as, json_by_name};
use crate::logic::types::execution::{ResultForm, ServerSettings, Settings};
use crate::logic::types::filtering::{DestructivePolicy, Policy, Rules, SelectedServer, ServerRules, ToolRules};
use crate::logic::types::masking::{CustomMask, Masks};
use crate::logic::types::naming::{Audience, NamingStyle, Target};
use crate::logic::types::recovery::RetryPolicy;
use crate::logic::types::rules::RuleSet;
use crate::logic::types::search::SearchSettings;
use crate::logic::types::{Annotations, Tool};

json_by_name!(DestructivePolicy, ResultForm, RetryPolicy, Target);
json_as!(
    Settings as SettingsJson,
    SearchSettings as SearchSettingsJson,
    NamingStyle as NamingStyleJson,
    Audience as AudienceJson
);
json_as!(Policy as PolicyJson, SelectedServer as SelectedServerJson, ServerRules as ServerRulesJson);
json_as!(Rules as RulesJson, ToolRules as ToolRulesJson);
json_as!(Masks as MasksJson, CustomMask as CustomMaskJson, ServerSettings as ServerSettingsJson);

#[derive(Serialize, Deserialize)]
#[serde(remote = "Settings")]
struct SettingsJson {
    policy: Policy,
    style: NamingStyle,
    bare_names: bool,
    describe_server: bool,
    check_arguments: bool,
    retry: RetryPolicy,
    #[serde(rename = "masking")]
    masks: Masks,
    server_settings: Vec<ServerSettings>,
    form: ResultForm,
    max_result_bytes: u64,
    spill: bool,
    summarize_above_tokens: Option<u64>,
    ask_max_bytes: u64,
    // Records from before there were rules have none.
    #[serde(default, skip_serializing_if = "is_none")]
    rules: RuleSet,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    search: Option<SearchSettings>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "SearchSettings")]
struct SearchSettingsJson {
    above_tools: u32,
    above_tokens: u64,
    always: Vec<String>,
    style: Option<NamingStyle>,
}

fn is_none(rules: &RuleSet) -> bool {
    rules.lists.is_empty() && rules.results.is_empty() && rules.known.is_empty()
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "NamingStyle", rename_all = "kebab-case")]
enum NamingStyleJson {
    Dot,
    DoubleUnderscore,
    McpPrefix,
    McpUnderscore,
    Fitted(Audience),
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Audience")]
struct AudienceJson {
    target: Target,
    prefix: String,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Policy")]
struct PolicyJson {
    servers: Vec<ServerRules>,
    selection: Option<Vec<SelectedServer>>,
    choice: Option<Vec<SelectedServer>>,
    read_only: bool,
    destructive: DestructivePolicy,
    capabilities: Option<Vec<String>>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "SelectedServer", deny_unknown_fields, expecting = "a selected server: an object with name and tools")]
struct SelectedServerJson {
    #[serde(rename = "name")]
    id: String,
    #[serde(default, deserialize_with = "list_or_null")]
    tools: Vec<String>,
}

/// Reads a list; `null` is an empty one.
fn list_or_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ServerRules")]
struct ServerRulesJson {
    id: String,
    #[serde(flatten)]
    rules: Rules,
    ask: Vec<String>,
    requires: Vec<String>,
    tools: Vec<ToolRules>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Rules")]
struct RulesJson {
    allow: Option<Vec<String>>,
    deny: Vec<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ToolRules")]
struct ToolRulesJson {
    tool: String,
    annotations: Annotations,
    requires: Vec<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ServerSettings")]
struct ServerSettingsJson {
    server: String,
    #[serde(rename = "masking")]
    masks: Masks,
    summarize_above_tokens: Option<u64>,
    structured_text: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Masks", deny_unknown_fields, expecting = "masks: an object with groups, patterns and custom")]
struct MasksJson {
    #[serde(default)]
    groups: Vec<String>,
    #[serde(default)]
    patterns: Vec<String>,
    #[serde(default)]
    custom: Vec<CustomMask>,
}

#[derive(Serialize, Deserialize)]
#[serde(
    remote = "CustomMask",
    deny_unknown_fields,
    expecting = "a custom mask: an object with pattern and replacement"
)]
struct CustomMaskJson {
    pattern: String,
    #[serde(default = "masked")]
    replacement: String,
}

fn masked() -> String {
    "[MASKED]".to_owned()
}

/// Tool annotations, with the names of toolgate or of MCP.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "annotations: an object of booleans")]
struct AnnotationsJson {
    #[serde(alias = "readOnlyHint", skip_serializing_if = "Option::is_none")]
    read_only: Option<bool>,
    #[serde(alias = "destructiveHint", skip_serializing_if = "Option::is_none")]
    destructive: Option<bool>,
    #[serde(alias = "idempotentHint", skip_serializing_if = "Option::is_none")]
    idempotent: Option<bool>,
    #[serde(alias = "openWorldHint", skip_serializing_if = "Option::is_none")]
    open_world: Option<bool>,
    /// The title of MCP, which has no effect.
    #[serde(rename = "title", skip_serializing)]
    _title: Option<String>,
}

impl Serialize for Annotations {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Annotations { read_only, destructive, idempotent, open_world } = *self;
        AnnotationsJson { read_only, destructive, idempotent, open_world, _title: None }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Annotations {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let AnnotationsJson { read_only, destructive, idempotent, open_world, .. } =
            AnnotationsJson::deserialize(deserializer)?;
        Ok(Annotations { read_only, destructive, idempotent, open_world })
    }
}

/// A tool, and the capabilities that it requires.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ToolJson {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(alias = "inputSchema", alias = "input_schema", skip_serializing_if = "Option::is_none")]
    schema: Option<JsonText>,
    #[serde(default)]
    annotations: Annotations,
    #[serde(default, skip_serializing)]
    pub requires: Vec<String>,
}

impl ToolJson {
    /// Returns the tool, with its schema verbatim.
    pub(crate) fn into_tool(self) -> Tool {
        let ToolJson { name, description, schema, annotations, .. } = self;
        Tool { name, description, input_schema: schema.map(|schema| schema.0), annotations }
    }

    /// Returns the tool of a record, with its schema as it was before it was written.
    pub(crate) fn into_recorded_tool(self) -> Tool {
        let schema = self.schema.map(|schema| JsonText(schema.unquoted()));
        ToolJson { schema, ..self }.into_tool()
    }
}

impl Serialize for Tool {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Tool { name, description, input_schema, annotations } = self.clone();
        ToolJson { name, description, schema: input_schema.map(JsonText), annotations, requires: Vec::new() }
            .serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logic::types::{execution, filtering, masking, naming, recovery, rules};

    fn annotations() -> Annotations {
        Annotations { read_only: Some(true), destructive: None, idempotent: Some(false), open_world: None }
    }

    #[test]
    fn settings_come_back_as_they_were() {
        let masks = || masking::Masks {
            groups: vec!["basic".to_owned()],
            patterns: vec!["email".to_owned()],
            custom: vec![masking::CustomMask { pattern: "a+".to_owned(), replacement: "[A]".to_owned() }],
        };
        let styles = [
            naming::NamingStyle::Dot,
            naming::NamingStyle::DoubleUnderscore,
            naming::NamingStyle::McpPrefix,
            naming::NamingStyle::McpUnderscore,
            naming::NamingStyle::Fitted(naming::Audience { target: naming::Target::Openai, prefix: "p".to_owned() }),
        ];
        for style in styles {
            let settings = execution::Settings {
                policy: filtering::Policy {
                    servers: vec![filtering::ServerRules {
                        id: "a".to_owned(),
                        rules: filtering::Rules { allow: Some(vec!["*".to_owned()]), deny: vec!["b".to_owned()] },
                        ask: vec!["c".to_owned()],
                        requires: vec!["d".to_owned()],
                        tools: vec![filtering::ToolRules {
                            tool: "t".to_owned(),
                            annotations: annotations(),
                            requires: vec!["e".to_owned()],
                        }],
                    }],
                    selection: Some(vec![filtering::SelectedServer { id: "a".to_owned(), tools: Vec::new() }]),
                    choice: Some(vec![filtering::SelectedServer { id: "a".to_owned(), tools: vec!["t".to_owned()] }]),
                    read_only: true,
                    destructive: filtering::DestructivePolicy::Ask,
                    capabilities: Some(Vec::new()),
                },
                style,
                bare_names: true,
                describe_server: true,
                check_arguments: false,
                retry: recovery::RetryPolicy::Never,
                masks: masks(),
                server_settings: vec![execution::ServerSettings {
                    server: "a".to_owned(),
                    masks: masks(),
                    summarize_above_tokens: Some(5),
                    structured_text: true,
                }],
                form: execution::ResultForm::PassThrough,
                max_result_bytes: 7,
                spill: true,
                summarize_above_tokens: Some(9),
                ask_max_bytes: 11,
                rules: rules::RuleSet {
                    lists: vec![vec![rules::Rule {
                        name: "r".to_owned(),
                        tools: vec!["a.*".to_owned()],
                        condition: Some("args.x == 1".to_owned()),
                        effect: rules::Effect::Label(vec!["l".to_owned()]),
                        limit: Some(rules::CallLimit { calls: 1, per_ms: 2, by: rules::LimitScope::Everybody }),
                        because: Some("b".to_owned()),
                    }]],
                    results: vec![rules::ResultRule {
                        tools: "a.t".to_owned(),
                        labels: vec!["l".to_owned()],
                        trusted: true,
                        trusted_fields: vec!["f".to_owned()],
                    }],
                    known: vec!["@example.com".to_owned()],
                },
                search: Some(SearchSettings {
                    above_tools: 60,
                    above_tokens: 10_000,
                    always: vec!["a.t".to_owned()],
                    style: Some(naming::NamingStyle::Dot),
                }),
            };
            let json = serde_json::to_string(&settings).unwrap();
            assert_eq!(serde_json::from_str::<execution::Settings>(&json).unwrap(), settings, "{json}");
        }
    }

    #[test]
    fn tools_come_back_as_they_were() {
        for schema in [None, Some("{\"type\":\n\"object\"}"), Some("{\"n\":1.10}"), Some("no JSON")] {
            let tool = Tool {
                name: "t".to_owned(),
                description: Some("d".to_owned()),
                input_schema: schema.map(str::to_owned),
                annotations: annotations(),
            };
            let json = serde_json::to_string(&tool).unwrap();
            assert_eq!(serde_json::from_str::<ToolJson>(&json).unwrap().into_recorded_tool(), tool, "{json}");
        }
    }
}
