//! The JSON forms of `eval`, and the typed values that they stand for.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::logic::types::{
    Annotations, Failure, HttpFailure, Phase, RpcFailure, Tool, WaitRange, execution, filtering, lifecycle, masking,
};
use crate::words::NamedCase;

/// A JSON object whose members keep their order.
#[derive(Debug)]
pub struct OrderedMap<T>(pub Vec<(String, T)>);

impl<T> Default for OrderedMap<T> {
    fn default() -> Self {
        OrderedMap(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OrderedMap<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OrderedMapVisitor<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for OrderedMapVisitor<T> {
            type Value = OrderedMap<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members: Vec<(String, T)> = Vec::new();
                while let Some((key, value)) = map.next_entry::<String, T>()? {
                    if members.iter().any(|(known, _)| *known == key) {
                        return Err(A::Error::custom(format!("duplicate key {key:?}")));
                    }
                    members.push((key, value));
                }
                Ok(OrderedMap(members))
            }
        }
        deserializer.deserialize_map(OrderedMapVisitor(std::marker::PhantomData))
    }
}

/// Deserializes a word or an object; serde's own `untagged` would lose the digits of raw JSON.
macro_rules! word_or_object {
    ($type:ident, $expected:literal, $word:expr, $object:expr) => {
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Shape;
                impl<'de> Visitor<'de> for Shape {
                    type Value = $type;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($expected)
                    }
                    fn visit_str<E: Error>(self, word: &str) -> Result<$type, E> {
                        $word(word).map_err(E::custom)
                    }
                    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<$type, A::Error> {
                        $object(map)
                    }
                }
                deserializer.deserialize_any(Shape)
            }
        }
    };
}

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
    pub annotations: OrderedMap<EvalAnnotations>,
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
            annotations: EvalAnnotations::default().into(),
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
            tools[at].annotations = annotations.clone().into();
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
    |name: &str| Ok::<_, String>(EvalTool { tool: tool(name.to_owned()), requires: Vec::new() }),
    |map| {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct ToolObject {
            name: String,
            description: Option<String>,
            schema: Option<Box<RawValue>>,
            #[serde(default)]
            annotations: EvalAnnotations,
            #[serde(default)]
            requires: Vec<String>,
        }
        let object = ToolObject::deserialize(MapAccessDeserializer::new(map))?;
        let tool = Tool {
            description: object.description,
            input_schema: object.schema.map(|schema| schema.get().to_owned()),
            annotations: object.annotations.into(),
            ..tool(object.name)
        };
        Ok(EvalTool { tool, requires: object.requires })
    }
);

fn tool(name: String) -> Tool {
    let annotations = EvalAnnotations::default().into();
    Tool { name, description: None, input_schema: None, annotations }
}

/// Tool annotations, with the names of toolgate or of MCP.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, expecting = "annotations: an object of booleans")]
pub struct EvalAnnotations {
    #[serde(alias = "readOnlyHint")]
    read_only: Option<bool>,
    #[serde(alias = "destructiveHint")]
    destructive: Option<bool>,
    #[serde(alias = "idempotentHint")]
    idempotent: Option<bool>,
    #[serde(alias = "openWorldHint")]
    open_world: Option<bool>,
    /// The title of MCP, which has no effect.
    #[serde(rename = "title")]
    _title: Option<String>,
}

impl From<EvalAnnotations> for Annotations {
    fn from(shape: EvalAnnotations) -> Self {
        let EvalAnnotations { read_only, destructive, idempotent, open_world, .. } = shape;
        Annotations { read_only, destructive, idempotent, open_world }
    }
}

/// A call; its arguments are the text that a model wrote, or JSON.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a call: an object with name and arguments")]
pub struct EvalCall {
    #[serde(default)]
    id: String,
    name: String,
    arguments: Option<Box<RawValue>>,
}

impl EvalCall {
    /// Converts the call.
    pub fn into_call(self) -> execution::ToolCall {
        let arguments = self.arguments.as_deref().map_or("", RawValue::get);
        let arguments = serde_json::from_str::<String>(arguments).unwrap_or_else(|_| arguments.to_owned());
        execution::ToolCall { id: self.id, name: self.name, arguments }
    }
}

/// A selection of servers and their tools.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a selection: an object with servers")]
pub struct EvalSelection {
    servers: Option<Vec<EvalSelectedServer>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a selected server: an object with name and tools")]
struct EvalSelectedServer {
    name: String,
    tools: Option<Vec<String>>,
}

impl EvalSelection {
    /// Converts the selection; an object without `servers` selects everything.
    pub fn into_selection(self) -> Option<Vec<filtering::SelectedServer>> {
        let selected = |server: EvalSelectedServer| filtering::SelectedServer {
            id: server.name,
            tools: server.tools.unwrap_or_default(),
        };
        Some(self.servers?.into_iter().map(selected).collect())
    }
}

/// The masks to apply.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, expecting = "masks: an object with groups, patterns and custom")]
pub struct EvalMasks {
    #[serde(default)]
    pub groups: Vec<String>,
    #[serde(default)]
    pub patterns: Vec<String>,
    #[serde(default)]
    pub custom: Vec<EvalCustomMask>,
}

/// A custom mask.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a custom mask: an object with pattern and replacement")]
pub struct EvalCustomMask {
    pattern: String,
    #[serde(default = "masked")]
    replacement: String,
}

fn masked() -> String {
    "[MASKED]".to_owned()
}

impl From<EvalMasks> for masking::Masks {
    fn from(shape: EvalMasks) -> Self {
        let custom =
            |mask: EvalCustomMask| masking::CustomMask { pattern: mask.pattern, replacement: mask.replacement };
        let custom = shape.custom.into_iter().map(custom).collect();
        masking::Masks { groups: shape.groups, patterns: shape.patterns, custom }
    }
}

/// A failure, with the fields of every kind.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a failure: an object with kind")]
pub struct EvalFailure {
    kind: String,
    status: Option<u16>,
    #[serde(default)]
    session: bool,
    #[serde(default)]
    challenge: bool,
    retry_after_ms: Option<u64>,
    code: Option<i64>,
    message: Option<String>,
    detail: Option<String>,
    phase: Option<String>,
}

/// The kinds of failure.
const KINDS: [&str; 12] = [
    "cancelled",
    "timeout",
    "connect",
    "closed",
    "exited",
    "http",
    "rpc",
    "protocol",
    "queue-full",
    "needs-auth",
    "restart-in-progress",
    "restart-failed",
];

impl EvalFailure {
    /// Returns how far the operation had come; the default is `sent`.
    pub fn phase(&self) -> Result<Phase, String> {
        self.phase.as_deref().map_or(Ok(Phase::Sent), Phase::parse)
    }

    /// Converts the failure according to its kind.
    pub fn failure(&self) -> Result<Failure, String> {
        let detail = || self.detail.clone().or_else(|| self.message.clone()).unwrap_or_default();
        let needs = |field: &str| format!("a failure of kind {:?} needs {field:?}", self.kind);
        Ok(match self.kind.as_str() {
            "cancelled" => Failure::Cancelled,
            "timeout" => Failure::Timeout,
            "connect" => Failure::Connect(detail()),
            "closed" => Failure::Closed,
            "exited" => {
                let code = self.code.map(i32::try_from).transpose();
                Failure::Exited(code.map_err(|_| "an exit code has 32 bits".to_owned())?)
            }
            "http" => Failure::Http(HttpFailure {
                status: self.status.ok_or_else(|| needs("status"))?,
                session: self.session,
                challenge: self.challenge,
                retry_after_ms: self.retry_after_ms,
            }),
            "rpc" => Failure::Rpc(RpcFailure { code: self.code.ok_or_else(|| needs("code"))?, message: detail() }),
            "protocol" => Failure::Protocol(detail()),
            "queue-full" => Failure::QueueFull(detail()),
            "needs-auth" => Failure::NeedsAuth(detail()),
            "restart-in-progress" => Failure::RestartInProgress,
            "restart-failed" => Failure::RestartFailed(detail()),
            other => return Err(format!("unknown kind {other:?} of failure; there are: {}", KINDS.join(", "))),
        })
    }
}

/// An event of an execution.
#[derive(Debug)]
pub struct EvalEvent(pub execution::Event);

word_or_object!(
    EvalEvent,
    "an event: a word, or an object with one member",
    |word: &str| Ok::<_, String>(EvalEvent(match word {
        "connected" => execution::Event::Connected,
        "reconnected" => execution::Event::Reconnected,
        "authenticated" => execution::Event::Authenticated,
        "waited" => execution::Event::Waited,
        "unasked" => execution::Event::Unasked,
        "cancelled" => execution::Event::Cancelled,
        other => {
            return Err(format!(
                "unknown event {other:?}; there are: connected, reconnected, authenticated, waited, unasked, cancelled, \
                 and objects with answered, forwarded, failed, approved, condensed"
            ));
        }
    })),
    |map: A| {
        let event = read_single_member(map, |kind, map: &mut A| {
            Ok(match kind {
                "answered" => execution::Event::Answered(map.next_value::<Box<RawValue>>()?.get().to_owned()),
                "forwarded" => {
                    let EvalSummary { is_error } = map.next_value()?;
                    execution::Event::Forwarded(execution::Summary { is_error })
                }
                "failed" => {
                    let shape: EvalFailure = map.next_value()?;
                    let failure = shape.failure().map_err(A::Error::custom)?;
                    let phase = shape.phase().map_err(A::Error::custom)?;
                    execution::Event::Failed(execution::Failed { failure, phase })
                }
                "approved" => execution::Event::Approved(map.next_value()?),
                "condensed" => {
                    let EvalCondensed { kept, summary } = map.next_value()?;
                    execution::Event::Condensed(execution::Condensed { kept, summary })
                }
                other => return Err(A::Error::custom(format!("unknown event {other:?}"))),
            })
        })?;
        Ok(EvalEvent(event))
    }
);

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with is_error")]
struct EvalSummary {
    #[serde(default)]
    is_error: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with kept and summary")]
struct EvalCondensed {
    kept: Option<String>,
    summary: Option<String>,
}

/// An event of a lifecycle.
#[derive(Debug)]
pub struct EvalLifecycleEvent(pub lifecycle::Event);

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
            "failed" => map.next_value::<EvalFailure>()?.failure().map_err(A::Error::custom),
            other => Err(A::Error::custom(format!("unknown event {other:?}"))),
        })?;
        Ok(EvalLifecycleEvent(lifecycle::Event::Failed(failure)))
    }
);

/// Reads an object that has exactly one member.
fn read_single_member<'de, A: MapAccess<'de>, T>(
    mut map: A,
    read: impl FnOnce(&str, &mut A) -> Result<T, A::Error>,
) -> Result<T, A::Error> {
    let key: String = map.next_key()?.ok_or_else(|| A::Error::custom("an event needs a member"))?;
    let value = read(&key, &mut map)?;
    match map.next_entry::<IgnoredAny, IgnoredAny>()? {
        None => Ok(value),
        Some(_) => Err(A::Error::custom("an event has only one member")),
    }
}

/// A range of time.
#[derive(Serialize)]
pub struct EvalWaitRange {
    min_ms: u64,
    max_ms: u64,
}

impl From<WaitRange> for EvalWaitRange {
    fn from(range: WaitRange) -> Self {
        EvalWaitRange { min_ms: range.min_ms, max_ms: range.max_ms }
    }
}

/// Wraps JSON of the logic, to print it unchanged.
pub fn raw(json: String) -> Result<Box<RawValue>, String> {
    RawValue::from_string(json).map_err(|error| format!("not JSON: {error}"))
}

/// Reads the fields of one operation.
pub fn fields<T: DeserializeOwned>(line: &str) -> Result<T, String> {
    serde_json::from_str(line).map_err(|error| error.to_string())
}
