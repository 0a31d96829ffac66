//! The operations of `eval` on single functions of the logic.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::gates;
use super::shapes::{FailureShape, LifecycleEventShape, MasksShape, Ordered, RangeShape, fields, raw};
use super::to_json;
use crate::decide::Decide;
use crate::failure::in_full;
use crate::logic::types::{Tool, ToolRef, arguments, catalog, filtering, lifecycle, naming, recovery};
use crate::words::{Named, Say};

/// The operations that there are.
pub const NAMES: [&str; 14] = [
    "normalize",
    "split",
    "arguments",
    "filter",
    "classify",
    "extract",
    "mask",
    "truncate",
    "fit",
    "backoff",
    "resolve",
    "execute",
    "lifecycle",
    "instructions",
];

/// Why there is no answer, in words.
pub type Outcome = Result<Box<RawValue>, String>;

/// Runs the operation on the fields of its line.
pub fn run(logic: &mut impl Decide, op: &str, line: &str) -> Outcome {
    match op {
        "normalize" => normalize(logic, fields(line)?),
        "split" => split(logic, fields(line)?),
        "arguments" => arguments(logic, fields(line)?),
        "filter" => filter(logic, fields(line)?),
        "classify" => classify(logic, fields(line)?),
        "extract" => extract(logic, fields(line)?),
        "mask" => mask(logic, fields(line)?),
        "truncate" => truncate(logic, fields(line)?),
        "fit" => fit(logic, fields(line)?),
        "backoff" => backoff(logic, fields(line)?),
        "resolve" => gates::resolve(logic, fields(line)?),
        "execute" => gates::execute(logic, fields(line)?),
        "lifecycle" => lifecycle(logic, fields(line)?),
        "instructions" => instructions(logic, fields(line)?),
        other => Err(format!("unknown op {other:?}; there are: {}", NAMES.join(", "))),
    }
}

/// An answer as JSON.
pub fn shown<T: Serialize>(value: &T) -> Outcome {
    raw(to_json(value))
}

/// A failure of the logic itself, in words.
pub fn broken(error: impl std::error::Error) -> String {
    in_full(&error)
}

/// The word `op`, which every operation has and which has been read already.
type Op = serde::de::IgnoredAny;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct Name {
    #[serde(rename = "op")]
    _op: Op,
    name: String,
}

fn normalize(logic: &mut impl Decide, Name { name, .. }: Name) -> Outcome {
    shown(&logic.normalize(&name).map_err(broken)?)
}

#[derive(Serialize)]
struct RefShape {
    server: String,
    tool: String,
}

fn split(logic: &mut impl Decide, Name { name, .. }: Name) -> Outcome {
    let ToolRef { server, tool } = logic.split(&name).map_err(broken)?.map_err(|error| error.say())?;
    shown(&RefShape { server, tool })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct Arguments {
    #[serde(rename = "op")]
    _op: Op,
    text: String,
    schema: Option<Box<RawValue>>,
}

#[derive(Serialize)]
struct ParsedShape {
    arguments: Box<RawValue>,
    stage: &'static str,
    notes: Vec<String>,
}

fn arguments(logic: &mut impl Decide, op: Arguments) -> Outcome {
    let schema = op.schema.map(|schema| schema.get().to_owned());
    let parsed = logic.parse_arguments(&op.text, schema.as_ref()).map_err(broken)?.map_err(|refusal| refusal.say())?;
    let arguments::Parsed { arguments, stage, notes } = parsed;
    let notes = notes.into_iter().map(|note| note.text).collect();
    shown(&ParsedShape { arguments: raw(arguments)?, stage: stage.name(), notes })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct Filter {
    #[serde(rename = "op")]
    _op: Op,
    allow: Option<Vec<String>>,
    deny: Option<Vec<String>>,
    tools: Vec<String>,
}

fn filter(logic: &mut impl Decide, op: Filter) -> Outcome {
    let rules = filtering::Rules { allow: op.allow, deny: op.deny.unwrap_or_default() };
    shown(&logic.filter(&rules, &op.tools).map_err(broken)?)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct Classify {
    #[serde(rename = "op")]
    _op: Op,
    failure: FailureShape,
    phase: Option<String>,
    attempt: Option<u32>,
    #[serde(default)]
    tool: Safety,
    retry: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "an object")]
struct Safety {
    read_only: bool,
    idempotent: bool,
}

#[derive(Serialize)]
struct ActionShape {
    action: &'static str,
    trace: Vec<String>,
}

fn classify(logic: &mut impl Decide, op: Classify) -> Outcome {
    let context = recovery::Context {
        phase: op.phase.as_deref().map_or_else(|| op.failure.phase(), Named::parse)?,
        attempt: op.attempt.unwrap_or(1),
        read_only: op.tool.read_only,
        idempotent: op.tool.idempotent,
        retry: op.retry.as_deref().map_or(Ok(recovery::RetryPolicy::Safe), Named::parse)?,
    };
    let recovery::Decision { action, trace } = logic.classify(&op.failure.failure()?, context).map_err(broken)?;
    shown(&ActionShape { action: action.name(), trace })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct Extract {
    #[serde(rename = "op")]
    _op: Op,
    result: Box<RawValue>,
}

#[derive(Serialize)]
struct ExtractedShape {
    content: String,
    is_error: bool,
}

fn extract(logic: &mut impl Decide, op: Extract) -> Outcome {
    let result = op.result.get().to_owned();
    let extracted = logic.extract(&result).map_err(broken)?.map_err(|unreadable| unreadable.say())?;
    shown(&ExtractedShape { content: extracted.text, is_error: extracted.is_error })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct Mask {
    #[serde(rename = "op")]
    _op: Op,
    groups: Option<Vec<String>>,
    patterns: Option<Vec<String>>,
    #[serde(default)]
    custom: Vec<super::shapes::CustomShape>,
    text: String,
}

fn mask(logic: &mut impl Decide, op: Mask) -> Outcome {
    let Mask { groups, patterns, custom, text, .. } = op;
    let masks = MasksShape { groups: groups.unwrap_or_default(), patterns: patterns.unwrap_or_default(), custom };
    shown(&logic.mask(&masks.into(), &text).map_err(broken)?.map_err(|error| error.say())?)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct Truncate {
    #[serde(rename = "op")]
    _op: Op,
    text: String,
    max_bytes: i64,
    #[serde(default = "too_long")]
    why: String,
}

fn too_long() -> String {
    "text exceeded the limit".to_owned()
}

fn truncate(logic: &mut impl Decide, op: Truncate) -> Outcome {
    // No limit is zero to the logic; people also write a negative number.
    let max_bytes = u64::try_from(op.max_bytes).unwrap_or(0);
    shown(&logic.truncate(&op.text, max_bytes, &op.why).map_err(broken)?)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct Fit {
    #[serde(rename = "op")]
    _op: Op,
    target: String,
    #[serde(default)]
    prefix: String,
    tools: Vec<CandidateShape>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct CandidateShape {
    server: String,
    tool: String,
    schema: Option<Box<RawValue>>,
}

#[derive(Serialize)]
struct FittedShape {
    name: String,
    server: String,
    tool: String,
    schema: Box<RawValue>,
}

fn fit(logic: &mut impl Decide, op: Fit) -> Outcome {
    let audience = naming::Audience { target: Named::parse(&op.target)?, prefix: op.prefix };
    let candidate = |shape: CandidateShape| naming::Candidate {
        tool: ToolRef { server: shape.server, tool: shape.tool },
        schema: shape.schema.map(|schema| schema.get().to_owned()),
    };
    let tools: Vec<naming::Candidate> = op.tools.into_iter().map(candidate).collect();
    let fitted = logic.fit(&tools, &audience).map_err(broken)?.map_err(|error| error.say())?;
    let shape = |fitted: naming::FittedTool| {
        let ToolRef { server, tool } = fitted.tool;
        Ok(FittedShape { name: fitted.name, server, tool, schema: raw(fitted.schema)? })
    };
    shown(&fitted.into_iter().map(shape).collect::<Result<Vec<_>, String>>()?)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct Backoff {
    #[serde(rename = "op")]
    _op: Op,
    attempt: u32,
    schedule_ms: Option<Vec<u64>>,
}

fn backoff(logic: &mut impl Decide, op: Backoff) -> Outcome {
    shown(&logic.restart_delay(op.attempt, op.schedule_ms.as_deref()).map_err(broken)?)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct Lifecycle {
    #[serde(rename = "op")]
    _op: Op,
    #[serde(default)]
    policy: PolicyShape,
    events: Vec<TimedEvent>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "an object")]
struct PolicyShape {
    eager: Option<bool>,
    acquire_limit_ms: Option<u64>,
    restart_delays_ms: Option<Vec<u64>>,
    health_interval_ms: Option<u64>,
    idle_timeout_ms: Option<u64>,
    enabled: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct TimedEvent {
    at_ms: u64,
    event: LifecycleEventShape,
}

#[derive(Serialize)]
struct StepShape {
    at_ms: u64,
    state: &'static str,
    commands: Vec<CommandShape>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
enum CommandShape {
    Connect,
    Probe,
    Stop,
    WaitUntil(RangeShape),
}

impl From<lifecycle::Command> for CommandShape {
    fn from(command: lifecycle::Command) -> Self {
        match command {
            lifecycle::Command::Connect => CommandShape::Connect,
            lifecycle::Command::Probe => CommandShape::Probe,
            lifecycle::Command::Stop => CommandShape::Stop,
            lifecycle::Command::WaitUntil(range) => CommandShape::WaitUntil(range.into()),
        }
    }
}

fn lifecycle(logic: &mut impl Decide, op: Lifecycle) -> Outcome {
    let default = logic.default_policy().map_err(broken)?;
    let given = op.policy;
    let policy = lifecycle::Policy {
        eager: given.eager.unwrap_or(default.eager),
        acquire_limit_ms: given.acquire_limit_ms.unwrap_or(default.acquire_limit_ms),
        restart_delays_ms: given.restart_delays_ms.unwrap_or(default.restart_delays_ms),
        health_interval_ms: given.health_interval_ms.unwrap_or(default.health_interval_ms),
        idle_timeout_ms: given.idle_timeout_ms.unwrap_or(default.idle_timeout_ms),
    };
    let mut server = logic.initial(given.enabled.unwrap_or(true)).map_err(broken)?;
    let mut steps = Vec::new();
    for TimedEvent { at_ms, event } in op.events {
        let transition = logic.step(server, &event.0, &policy, at_ms).map_err(broken)?;
        server = transition.server;
        let commands = transition.commands.into_iter().map(CommandShape::from).collect();
        steps.push(StepShape { at_ms, state: server.state.name(), commands });
    }
    shown(&steps)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct Instructions {
    #[serde(rename = "op")]
    _op: Op,
    #[serde(default)]
    servers: Ordered<NotesShape>,
    #[serde(default)]
    failed: Ordered<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "an object")]
struct NotesShape {
    instructions: Option<String>,
    prompts: Vec<String>,
    tools: Ordered<String>,
}

fn instructions(logic: &mut impl Decide, op: Instructions) -> Outcome {
    let offer = |(server, notes): &(String, NotesShape)| {
        let tool = |(name, _): &(String, String)| Tool {
            name: name.clone(),
            description: None,
            input_schema: None,
            annotations: super::shapes::AnnotationsShape::default().into(),
        };
        catalog::Offered { server: server.clone(), tools: notes.tools.0.iter().map(tool).collect() }
    };
    let offers: Vec<catalog::Offered> = op.servers.0.iter().map(offer).collect();
    // The names are those that the model would see.
    let exposed = logic.expose(&offers, &naming::NamingStyle::DoubleUnderscore).map_err(broken)?;
    let name_of = |server: &str, tool: &str| {
        let same = |exposed: &&catalog::ExposedTool| exposed.tool.server == server && exposed.tool.tool == tool;
        exposed.iter().find(same).map_or_else(|| tool.to_owned(), |exposed| exposed.name.clone())
    };
    let notes = |(server, notes): (String, NotesShape)| {
        let note = |(tool, text): (String, String)| catalog::ToolNote { name: name_of(&server, &tool), text };
        let tools = notes.tools.0.into_iter().map(note).collect();
        catalog::ServerNotes { instructions: notes.instructions, prompts: notes.prompts, tools, server }
    };
    let servers: Vec<catalog::ServerNotes> = op.servers.0.into_iter().map(notes).collect();
    let failed = op.failed.0.into_iter().map(|(server, reason)| catalog::FailedServer { server, reason });
    shown(&logic.instructions(&servers, &failed.collect::<Vec<_>>()).map_err(broken)?)
}
