//! The recorded forms of a gate's settings and a server's tools, stored once for many records.

use serde::{Deserialize, Serialize};

use super::text::JsonText;
use crate::logic::types::{Annotations, Tool, execution, filtering, masking, naming};
use crate::words::NamedCase;

/// The recorded form of a gate's settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordedSettings {
    servers: Vec<RecordedServerRules>,
    selection: Option<Vec<RecordedSelection>>,
    read_only: bool,
    destructive: String,
    capabilities: Option<Vec<String>>,
    style: RecordedStyle,
    bare_names: bool,
    describe_server: bool,
    check_arguments: bool,
    retry: String,
    masks: RecordedMasks,
    server_masks: Vec<RecordedServerMasks>,
    form: String,
    max_result_bytes: u64,
    spill: bool,
    summarize_above_tokens: Option<u64>,
    #[serde(default = "unbounded")]
    ask_max_bytes: u64,
}

/// Returns the limit for calls that were recorded before the limit existed.
fn unbounded() -> u64 {
    u64::MAX
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct RecordedServerRules {
    id: String,
    allow: Option<Vec<String>>,
    deny: Vec<String>,
    ask: Vec<String>,
    requires: Vec<String>,
    tools: Vec<RecordedToolRules>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct RecordedToolRules {
    tool: String,
    annotations: RecordedAnnotations,
    requires: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct RecordedSelection {
    id: String,
    tools: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum RecordedStyle {
    Dot,
    DoubleUnderscore,
    McpPrefix,
    Fitted { target: String, prefix: String },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct RecordedMasks {
    groups: Vec<String>,
    patterns: Vec<String>,
    custom: Vec<RecordedCustomMask>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct RecordedCustomMask {
    pattern: String,
    replacement: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct RecordedServerMasks {
    server: String,
    masks: RecordedMasks,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct RecordedAnnotations {
    #[serde(skip_serializing_if = "Option::is_none", default)]
    read_only: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    destructive: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    idempotent: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    open_world: Option<bool>,
}

/// The recorded form of a tool, as its server listed it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordedTool {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    schema: Option<JsonText>,
    annotations: RecordedAnnotations,
}

impl RecordedSettings {
    /// Returns the masks of a gate as JSON.
    pub(super) fn masks_of(settings: &execution::Settings) -> String {
        let of_servers = settings.server_masks.iter().map(|masks| (&masks.server, RecordedMasks::from(&masks.masks)));
        let masks = (RecordedMasks::from(&settings.masks), of_servers.collect::<Vec<_>>());
        serde_json::to_string(&masks).expect("shapes have string keys only, so they are always JSON")
    }
}

impl From<&execution::Settings> for RecordedSettings {
    fn from(settings: &execution::Settings) -> Self {
        let policy = &settings.policy;
        let server = |server: &filtering::ServerRules| RecordedServerRules {
            id: server.id.clone(),
            allow: server.rules.allow.clone(),
            deny: server.rules.deny.clone(),
            ask: server.ask.clone(),
            requires: server.requires.clone(),
            tools: server.tools.iter().map(RecordedToolRules::from).collect(),
        };
        let selected = |selected: &filtering::SelectedServer| RecordedSelection {
            id: selected.id.clone(),
            tools: selected.tools.clone(),
        };
        let masks = |masks: &execution::ServerMasks| RecordedServerMasks {
            server: masks.server.clone(),
            masks: RecordedMasks::from(&masks.masks),
        };
        RecordedSettings {
            servers: policy.servers.iter().map(server).collect(),
            selection: policy.selection.as_ref().map(|servers| servers.iter().map(selected).collect()),
            read_only: policy.read_only,
            destructive: policy.destructive.name().to_owned(),
            capabilities: policy.capabilities.clone(),
            style: RecordedStyle::from(&settings.style),
            bare_names: settings.bare_names,
            describe_server: settings.describe_server,
            check_arguments: settings.check_arguments,
            retry: settings.retry.name().to_owned(),
            masks: RecordedMasks::from(&settings.masks),
            server_masks: settings.server_masks.iter().map(masks).collect(),
            form: settings.form.name().to_owned(),
            max_result_bytes: settings.max_result_bytes,
            spill: settings.spill,
            summarize_above_tokens: settings.summarize_above_tokens,
            ask_max_bytes: settings.ask_max_bytes,
        }
    }
}

impl TryFrom<RecordedSettings> for execution::Settings {
    type Error = String;

    /// Fails with a message that names a word unknown to this version.
    fn try_from(shape: RecordedSettings) -> Result<Self, String> {
        let server = |server: RecordedServerRules| filtering::ServerRules {
            id: server.id,
            rules: filtering::Rules { allow: server.allow, deny: server.deny },
            ask: server.ask,
            requires: server.requires,
            tools: server.tools.into_iter().map(filtering::ToolRules::from).collect(),
        };
        let selected = |RecordedSelection { id, tools }| filtering::SelectedServer { id, tools };
        let masks =
            |shape: RecordedServerMasks| execution::ServerMasks { server: shape.server, masks: shape.masks.into() };
        Ok(execution::Settings {
            policy: filtering::Policy {
                servers: shape.servers.into_iter().map(server).collect(),
                selection: shape.selection.map(|servers| servers.into_iter().map(selected).collect()),
                read_only: shape.read_only,
                destructive: NamedCase::parse(&shape.destructive)?,
                capabilities: shape.capabilities,
            },
            style: shape.style.try_into()?,
            bare_names: shape.bare_names,
            describe_server: shape.describe_server,
            check_arguments: shape.check_arguments,
            retry: NamedCase::parse(&shape.retry)?,
            masks: shape.masks.into(),
            server_masks: shape.server_masks.into_iter().map(masks).collect(),
            form: NamedCase::parse(&shape.form)?,
            max_result_bytes: shape.max_result_bytes,
            spill: shape.spill,
            summarize_above_tokens: shape.summarize_above_tokens,
            ask_max_bytes: shape.ask_max_bytes,
        })
    }
}

impl From<&naming::NamingStyle> for RecordedStyle {
    fn from(style: &naming::NamingStyle) -> Self {
        match style {
            naming::NamingStyle::Dot => RecordedStyle::Dot,
            naming::NamingStyle::DoubleUnderscore => RecordedStyle::DoubleUnderscore,
            naming::NamingStyle::McpPrefix => RecordedStyle::McpPrefix,
            naming::NamingStyle::Fitted(naming::Audience { target, prefix }) => {
                RecordedStyle::Fitted { target: target.name().to_owned(), prefix: prefix.clone() }
            }
        }
    }
}

impl TryFrom<RecordedStyle> for naming::NamingStyle {
    type Error = String;

    fn try_from(shape: RecordedStyle) -> Result<Self, String> {
        Ok(match shape {
            RecordedStyle::Dot => naming::NamingStyle::Dot,
            RecordedStyle::DoubleUnderscore => naming::NamingStyle::DoubleUnderscore,
            RecordedStyle::McpPrefix => naming::NamingStyle::McpPrefix,
            RecordedStyle::Fitted { target, prefix } => {
                naming::NamingStyle::Fitted(naming::Audience { target: NamedCase::parse(&target)?, prefix })
            }
        })
    }
}

impl From<&masking::Masks> for RecordedMasks {
    fn from(masks: &masking::Masks) -> Self {
        let custom = |mask: &masking::CustomMask| RecordedCustomMask {
            pattern: mask.pattern.clone(),
            replacement: mask.replacement.clone(),
        };
        RecordedMasks {
            groups: masks.groups.clone(),
            patterns: masks.patterns.clone(),
            custom: masks.custom.iter().map(custom).collect(),
        }
    }
}

impl From<RecordedMasks> for masking::Masks {
    fn from(shape: RecordedMasks) -> Self {
        let custom = |RecordedCustomMask { pattern, replacement }| masking::CustomMask { pattern, replacement };
        let custom = shape.custom.into_iter().map(custom).collect();
        masking::Masks { groups: shape.groups, patterns: shape.patterns, custom }
    }
}

impl From<&filtering::ToolRules> for RecordedToolRules {
    fn from(rules: &filtering::ToolRules) -> Self {
        let annotations = rules.annotations.into();
        RecordedToolRules { tool: rules.tool.clone(), annotations, requires: rules.requires.clone() }
    }
}

impl From<RecordedToolRules> for filtering::ToolRules {
    fn from(shape: RecordedToolRules) -> Self {
        let RecordedToolRules { tool, annotations, requires } = shape;
        filtering::ToolRules { tool, annotations: annotations.into(), requires }
    }
}

impl From<Annotations> for RecordedAnnotations {
    fn from(annotations: Annotations) -> Self {
        let Annotations { read_only, destructive, idempotent, open_world } = annotations;
        RecordedAnnotations { read_only, destructive, idempotent, open_world }
    }
}

impl From<RecordedAnnotations> for Annotations {
    fn from(shape: RecordedAnnotations) -> Self {
        let RecordedAnnotations { read_only, destructive, idempotent, open_world } = shape;
        Annotations { read_only, destructive, idempotent, open_world }
    }
}

impl From<&Tool> for RecordedTool {
    fn from(tool: &Tool) -> Self {
        RecordedTool {
            name: tool.name.clone(),
            description: tool.description.clone(),
            schema: tool.input_schema.clone().map(JsonText),
            annotations: tool.annotations.into(),
        }
    }
}

impl From<RecordedTool> for Tool {
    fn from(shape: RecordedTool) -> Self {
        let RecordedTool { name, description, schema, annotations } = shape;
        Tool { name, description, input_schema: schema.map(|JsonText(schema)| schema), annotations: annotations.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logic::types::recovery;

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
                server_masks: vec![execution::ServerMasks { server: "a".to_owned(), masks: masks() }],
                form: execution::ResultForm::PassThrough,
                max_result_bytes: 7,
                spill: true,
                summarize_above_tokens: Some(9),
                ask_max_bytes: 11,
            };
            let json = serde_json::to_string(&RecordedSettings::from(&settings)).unwrap();
            let shape: RecordedSettings = serde_json::from_str(&json).unwrap();
            assert_eq!(execution::Settings::try_from(shape), Ok(settings), "{json}");
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
            let json = serde_json::to_string(&RecordedTool::from(&tool)).unwrap();
            assert_eq!(Tool::from(serde_json::from_str::<RecordedTool>(&json).unwrap()), tool, "{json}");
        }
    }
}
