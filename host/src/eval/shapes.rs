//! The JSON forms that only `eval` has, and the typed values that they stand for.

use serde::Deserialize;
use serde::de::Error;
use serde::de::value::MapAccessDeserializer;
use serde_json::value::RawValue;

use super::op_result::raw;
use crate::contract_json::{FailureJson, OrderedMap, ToolJson, read_single_member, word_or_object};
use crate::logic::types::{Annotations, Failure, Tool, execution, filtering, lifecycle};

/// Servers by id, as `resolve`, `execute` and `route --servers` take them.
pub type EvalServers = OrderedMap<EvalServer>;

impl EvalServers {
    /// Replaces the schema of a tool.
    pub fn set_schema(&mut self, server: &str, tool: &str, schema: String) -> Result<(), String> {
        let schema = raw(schema.trim().to_owned())?;
        let server = self.0.iter_mut().find(|(id, _)| id == server).map(|(_, server)| server);
        let shape = server.and_then(|server| server.tools.iter_mut().find(|shape| shape.tool.name == tool));
        shape.ok_or("no such tool")?.tool.input_schema = Some(schema.get().to_owned());
        Ok(())
    }
}

/// A server with its tools and rules.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a server: an object with tools and rules")]
pub struct EvalServer {
    /// The tools that the server offers.
    #[serde(default)]
    pub tools: Vec<EvalTool>,
    /// The names and globs that are allowed.
    pub allow: Option<Vec<String>>,
    /// The names and globs that are denied.
    #[serde(default)]
    pub deny: Vec<String>,
    /// The names and globs that a person must approve.
    #[serde(default)]
    pub ask: Vec<String>,
    /// The capabilities that every tool requires.
    #[serde(default)]
    pub requires: Vec<String>,
    /// The annotations that replace those of the server, by tool.
    #[serde(default)]
    pub annotations: OrderedMap<Annotations>,
}

impl EvalServer {
    /// Returns the tools that the server offers.
    pub fn tools(&self) -> Vec<Tool> {
        self.tools.iter().map(|tool| tool.tool.clone()).collect()
    }

    /// Returns the rules of the server.
    pub fn rules(&self, id: &str) -> filtering::ServerRules {
        let mut tools: Vec<filtering::ToolRules> = Vec::new();
        let rules_of = |name: &str| filtering::ToolRules {
            tool: name.to_owned(),
            annotations: Annotations::default(),
            requires: Vec::new(),
        };
        for tool in self.tools.iter().filter(|tool| !tool.requires.is_empty()) {
            tools.push(filtering::ToolRules { requires: tool.requires.clone(), ..rules_of(&tool.tool.name) });
        }
        for (name, annotations) in &self.annotations.0 {
            let at = tools.iter().position(|tool| tool.tool == *name).unwrap_or_else(|| {
                tools.push(rules_of(name));
                tools.len() - 1
            });
            tools[at].annotations = *annotations;
        }
        filtering::ServerRules {
            id: id.to_owned(),
            rules: filtering::Rules { allow: self.allow.clone(), deny: self.deny.clone() },
            ask: self.ask.clone(),
            requires: self.requires.clone(),
            tools,
        }
    }
}

/// A tool: its name, or an object.
#[derive(Debug)]
pub struct EvalTool {
    /// The tool as a server would list it.
    pub tool: Tool,
    requires: Vec<String>,
}

word_or_object!(
    EvalTool,
    "the name of a tool, or an object with \"name\"",
    |name: &str| Ok::<_, String>(EvalTool { tool: plain_tool(name.to_owned()), requires: Vec::new() }),
    |map| {
        let object = ToolJson::deserialize(MapAccessDeserializer::new(map))?;
        Ok(EvalTool { requires: object.requires.clone(), tool: object.into_tool() })
    }
);

/// Returns a tool of which only the name is known.
pub(super) fn plain_tool(name: String) -> Tool {
    Tool { name, description: None, input_schema: None, annotations: Annotations::default() }
}

/// A call; its arguments are the text that a model wrote, or JSON.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a call: an object with name and arguments")]
pub(super) struct EvalCall {
    #[serde(default)]
    id: String,
    name: String,
    arguments: Option<Box<RawValue>>,
}

impl EvalCall {
    /// Converts the call.
    pub(super) fn into_call(self) -> execution::ToolCall {
        let arguments = self.arguments.as_deref().map_or("", RawValue::get);
        let arguments = serde_json::from_str::<String>(arguments).unwrap_or_else(|_| arguments.to_owned());
        execution::ToolCall { id: self.id, name: self.name, arguments }
    }
}

/// A selection of servers and their tools; an object without `servers` selects everything.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a selection: an object with servers")]
pub(super) struct EvalSelection {
    pub servers: Option<Vec<filtering::SelectedServer>>,
}

/// An event of a lifecycle.
#[derive(Debug)]
pub(super) struct EvalLifecycleEvent(pub lifecycle::Event);

word_or_object!(
    EvalLifecycleEvent,
    "an event: a word, or {\"failed\": …}",
    |word: &str| Ok::<_, String>(EvalLifecycleEvent(match word {
        "enabled" => lifecycle::Event::Enabled,
        "disabled" => lifecycle::Event::Disabled,
        "wanted" => lifecycle::Event::Wanted,
        "released" => lifecycle::Event::Released,
        "connected" => lifecycle::Event::Connected,
        "failed" => lifecycle::Event::Failed(Failure::Connect(String::new())),
        "exited" => lifecycle::Event::Exited,
        "probe-ok" => lifecycle::Event::ProbeOk,
        "probe-failed" => lifecycle::Event::ProbeFailed,
        "call-timed-out" => lifecycle::Event::CallTimedOut,
        "authenticated" => lifecycle::Event::Authenticated,
        "tick" => lifecycle::Event::Tick,
        other => {
            return Err(format!(
                "unknown event {other:?}; there are: enabled, disabled, wanted, released, connected, failed, exited, \
                 probe-ok, probe-failed, call-timed-out, authenticated, tick"
            ));
        }
    })),
    |map: A| {
        let failure = read_single_member(map, |kind, map: &mut A| match kind {
            "failed" => map.next_value::<FailureJson>()?.failure().map_err(A::Error::custom),
            other => Err(A::Error::custom(format!("unknown event {other:?}"))),
        })?;
        Ok(EvalLifecycleEvent(lifecycle::Event::Failed(failure)))
    }
);
