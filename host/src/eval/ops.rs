//! The operations of `eval` that call a single function of the logic.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::gate_ops;
use super::op_result::{OpResult, json_result, raw};
use super::shapes::{EvalLifecycleEvent, plain_tool};
use crate::contract_json::{FailureJson, OrderedMap, ReadCallJson};
use crate::decide::Decide;
use crate::logic::types::search::SearchHit;
use crate::logic::types::{
    Tool, ToolRef, WaitRange, arguments, catalog, filtering, lifecycle, masking, naming, reading, recovery,
};
use crate::words::NamedCase;

/// Lets the logic decide a line.
type RunOp<L> = fn(&mut L, &str) -> OpResult;

/// Returns all operations by name.
fn all<L: Decide>() -> [(&'static str, RunOp<L>); 16] {
    [
        ("normalize", |logic, line| normalize(logic, fields(line)?)),
        ("split", |logic, line| split(logic, fields(line)?)),
        ("arguments", |logic, line| arguments(logic, fields(line)?)),
        ("filter", |logic, line| filter(logic, fields(line)?)),
        ("classify", |logic, line| classify(logic, fields(line)?)),
        ("extract", |logic, line| extract(logic, fields(line)?)),
        ("mask", |logic, line| mask(logic, fields(line)?)),
        ("truncate", |logic, line| truncate(logic, fields(line)?)),
        ("fit", |logic, line| fit(logic, fields(line)?)),
        ("read-calls", |logic, line| read_calls(logic, fields(line)?)),
        ("search", |logic, line| search(logic, fields(line)?)),
        ("backoff", |logic, line| backoff(logic, fields(line)?)),
        ("resolve", |logic, line| gate_ops::resolve(logic, fields(line)?)),
        ("execute", |logic, line| gate_ops::execute(logic, fields(line)?)),
        ("lifecycle", |logic, line| lifecycle(logic, fields(line)?)),
        ("instructions", |logic, line| instructions(logic, fields(line)?)),
    ]
}

/// Runs the operation on the fields of its line.
pub(super) fn run<L: Decide>(logic: &mut L, op: Option<&str>, line: &str) -> OpResult {
    let known = || all::<L>().map(|(name, _)| name).join(", ");
    let Some(op) = op else { return Err(format!("no \"op\"; there are: {}", known()).into()) };
    match all().into_iter().find(|(name, _)| *name == op) {
        Some((_, run)) => run(logic, line),
        None => Err(format!("unknown op {op:?}; there are: {}", known()).into()),
    }
}

/// Reads the fields of one operation.
fn fields<T: DeserializeOwned>(line: &str) -> Result<T, String> {
    serde_json::from_str(line).map_err(|error| error.to_string())
}

/// Declares the fields of an operation beside `op`, which every operation has and which has already been read.
macro_rules! op_fields {
    ($name:ident { $($(#[$attribute:meta])* $field:ident: $type:ty),* $(,)? }) => {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields, expecting = "an object")]
        struct $name {
            #[serde(rename = "op")]
            _op: serde::de::IgnoredAny,
            $($(#[$attribute])* $field: $type,)*
        }
    };
}

op_fields!(NameOp { name: String });

fn normalize(logic: &mut impl Decide, NameOp { name, .. }: NameOp) -> OpResult {
    json_result(&logic.normalize(&name)?)
}

fn split(logic: &mut impl Decide, NameOp { name, .. }: NameOp) -> OpResult {
    json_result(&logic.split(&name)??)
}

op_fields!(ArgumentsOp {
    text: String,
    #[serde(alias = "inputSchema", alias = "input_schema")]
    schema: Option<Box<RawValue>>,
});

#[derive(Serialize)]
struct EvalParsed {
    arguments: Box<RawValue>,
    stage: &'static str,
    notes: Vec<String>,
}

fn arguments(logic: &mut impl Decide, op: ArgumentsOp) -> OpResult {
    let schema = op.schema.map(|schema| schema.get().to_owned());
    let parsed = logic.parse_arguments(&op.text, schema.as_ref())??;
    let arguments::Parsed { arguments, stage, notes } = parsed;
    let notes = notes.into_iter().map(|note| note.text).collect();
    json_result(&EvalParsed { arguments: raw(arguments)?, stage: stage.name(), notes })
}

op_fields!(ReadCallsOp {
    text: String,
    #[serde(default)]
    tools: Vec<ReadTool>,
    #[serde(default)]
    loose: bool,
});

/// A tool that a call in a text may mean.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with name and input_schema")]
struct ReadTool {
    name: String,
    #[serde(alias = "inputSchema", alias = "schema")]
    input_schema: Option<Box<RawValue>>,
}

fn read_calls(logic: &mut impl Decide, op: ReadCallsOp) -> OpResult {
    let tool = |tool: ReadTool| {
        let input_schema = tool.input_schema.map(|schema| schema.get().to_owned());
        reading::KnownTool { name: tool.name, input_schema }
    };
    let tools: Vec<_> = op.tools.into_iter().map(tool).collect();
    let calls = logic.read_calls(&op.text, &tools, op.loose)??;
    json_result(&calls.into_iter().map(ReadCallJson::from).collect::<Vec<_>>())
}

op_fields!(SearchOp {
    tools: Vec<SearchedTool>,
    queries: Vec<String>,
    limit: Option<u32>,
});

/// A tool that a search may find.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with server, name, description and input_schema")]
struct SearchedTool {
    server: String,
    name: String,
    description: Option<String>,
    #[serde(alias = "inputSchema", alias = "schema")]
    input_schema: Option<Box<RawValue>>,
}

#[derive(Serialize)]
struct EvalHit {
    server: String,
    tool: String,
    score: f64,
    why: String,
}

fn search(logic: &mut impl Decide, op: SearchOp) -> OpResult {
    let mut servers: BTreeMap<String, Vec<Tool>> = BTreeMap::new();
    for SearchedTool { server, name, description, input_schema } in op.tools {
        let input_schema = input_schema.map(|schema| schema.get().to_owned());
        servers.entry(server).or_default().push(Tool { description, input_schema, ..plain_tool(name) });
    }
    let offered: Vec<_> = servers.into_iter().map(|(server, tools)| catalog::Offered { server, tools }).collect();
    let hit = |hit: SearchHit| EvalHit { server: hit.tool.server, tool: hit.tool.tool, score: hit.score, why: hit.why };
    let found = logic.search(&offered, &op.queries, op.limit.unwrap_or(10))?;
    json_result(&found.into_iter().map(|hits| hits.into_iter().map(hit).collect()).collect::<Vec<Vec<EvalHit>>>())
}

op_fields!(FilterOp {
    allow: Option<Vec<String>>,
    deny: Option<Vec<String>>,
    tools: Vec<String>,
});

fn filter(logic: &mut impl Decide, op: FilterOp) -> OpResult {
    let rules = filtering::Rules { allow: op.allow, deny: op.deny.unwrap_or_default() };
    // A gate refuses patterns that can never match, and says why.
    let mut settings = logic.default_settings(&["server".to_owned()])?;
    settings.policy.servers.iter_mut().for_each(|server| server.rules = rules.clone());
    let gate = logic.open_gate(&settings)??;
    logic.close_gate(gate)?;
    json_result(&logic.filter(&rules, &op.tools)?)
}

op_fields!(ClassifyOp {
    failure: FailureJson,
    phase: Option<String>,
    attempt: Option<u32>,
    #[serde(default)]
    tool: EvalSafety,
    retry: Option<String>,
});

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "an object")]
struct EvalSafety {
    read_only: bool,
    idempotent: bool,
}

#[derive(Serialize)]
struct EvalAction {
    action: &'static str,
    trace: Vec<String>,
}

fn classify(logic: &mut impl Decide, op: ClassifyOp) -> OpResult {
    let context = recovery::Context {
        phase: op.phase.as_deref().map_or_else(|| op.failure.phase(), NamedCase::parse)?,
        attempt: op.attempt.unwrap_or(1),
        read_only: op.tool.read_only,
        idempotent: op.tool.idempotent,
        retry: op.retry.as_deref().map_or(Ok(recovery::RetryPolicy::Safe), NamedCase::parse)?,
    };
    let recovery::Decision { action, trace } = logic.classify(&op.failure.failure()?, context)?;
    json_result(&EvalAction { action: action.name(), trace })
}

op_fields!(ExtractOp {
    result: Box<RawValue>,
});

#[derive(Serialize)]
struct EvalExtracted {
    content: String,
    is_error: bool,
}

fn extract(logic: &mut impl Decide, op: ExtractOp) -> OpResult {
    let result = op.result.get().to_owned();
    let extracted = logic.extract(&result)??;
    json_result(&EvalExtracted { content: extracted.text, is_error: extracted.is_error })
}

op_fields!(MaskOp {
    groups: Option<Vec<String>>,
    patterns: Option<Vec<String>>,
    #[serde(default)]
    custom: Vec<masking::CustomMask>,
    text: String,
});

fn mask(logic: &mut impl Decide, op: MaskOp) -> OpResult {
    let MaskOp { groups, patterns, custom, text, .. } = op;
    let (groups, patterns) = (groups.unwrap_or_default(), patterns.unwrap_or_default());
    json_result(&logic.mask(&masking::Masks { groups, patterns, custom }, &text)??)
}

op_fields!(TruncateOp {
    text: String,
    max_bytes: i64,
    #[serde(default = "too_long")]
    why: String,
});

fn too_long() -> String {
    "text exceeded the limit".to_owned()
}

fn truncate(logic: &mut impl Decide, op: TruncateOp) -> OpResult {
    // The logic takes 0 for no limit; people also write a negative number.
    let max_bytes = u64::try_from(op.max_bytes).unwrap_or(0);
    json_result(&logic.truncate(&op.text, max_bytes, &op.why)?)
}

op_fields!(FitOp {
    target: String,
    #[serde(default)]
    prefix: String,
    tools: Vec<EvalCandidate>,
});

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct EvalCandidate {
    server: String,
    tool: String,
    #[serde(alias = "inputSchema", alias = "input_schema")]
    schema: Option<Box<RawValue>>,
}

#[derive(Serialize)]
struct EvalFittedTool {
    name: String,
    #[serde(flatten)]
    tool: ToolRef,
    schema: Box<RawValue>,
}

fn fit(logic: &mut impl Decide, op: FitOp) -> OpResult {
    let audience = naming::Audience { target: NamedCase::parse(&op.target)?, prefix: op.prefix };
    let candidate = |shape: EvalCandidate| naming::Candidate {
        tool: ToolRef { server: shape.server, tool: shape.tool },
        schema: shape.schema.map(|schema| schema.get().to_owned()),
    };
    let tools: Vec<naming::Candidate> = op.tools.into_iter().map(candidate).collect();
    let fitted = logic.fit(&tools, &audience)??;
    let shape = |naming::FittedTool { name, tool, schema }| Ok(EvalFittedTool { name, tool, schema: raw(schema)? });
    json_result(&fitted.into_iter().map(shape).collect::<Result<Vec<_>, String>>()?)
}

op_fields!(BackoffOp {
    attempt: u32,
    schedule_ms: Option<Vec<u64>>,
});

fn backoff(logic: &mut impl Decide, op: BackoffOp) -> OpResult {
    json_result(&logic.restart_delay(op.attempt, op.schedule_ms.as_deref())?)
}

op_fields!(LifecycleOp {
    #[serde(default)]
    policy: EvalPolicy,
    events: Vec<TimedEvent>,
});

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "an object")]
struct EvalPolicy {
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
    event: EvalLifecycleEvent,
}

#[derive(Serialize)]
struct EvalStep {
    at_ms: u64,
    state: &'static str,
    commands: Vec<EvalCommand>,
}

#[derive(Serialize)]
struct EvalCommand(#[serde(with = "CommandJson")] lifecycle::Command);

#[derive(Serialize)]
#[serde(remote = "lifecycle::Command", rename_all = "kebab-case")]
enum CommandJson {
    Connect,
    Probe,
    Stop,
    WaitUntil(WaitRange),
}

fn lifecycle(logic: &mut impl Decide, op: LifecycleOp) -> OpResult {
    let default = logic.default_policy()?;
    let given = op.policy;
    let policy = lifecycle::Policy {
        eager: given.eager.unwrap_or(default.eager),
        acquire_limit_ms: given.acquire_limit_ms.unwrap_or(default.acquire_limit_ms),
        restart_delays_ms: given.restart_delays_ms.unwrap_or(default.restart_delays_ms),
        health_interval_ms: given.health_interval_ms.unwrap_or(default.health_interval_ms),
        idle_timeout_ms: given.idle_timeout_ms.unwrap_or(default.idle_timeout_ms),
        one_shot: default.one_shot,
        prove: default.prove,
    };
    let mut server = logic.initial(given.enabled.unwrap_or(true))?;
    let mut steps = Vec::new();
    for TimedEvent { at_ms, event } in op.events {
        let transition = logic.step(server, &event.0, &policy, at_ms)?;
        server = transition.server;
        let commands = transition.commands.into_iter().map(EvalCommand).collect();
        steps.push(EvalStep { at_ms, state: server.state.name(), commands });
    }
    json_result(&steps)
}

op_fields!(InstructionsOp {
    #[serde(default)]
    servers: OrderedMap<EvalNotes>,
    #[serde(default)]
    failed: OrderedMap<String>,
});

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "an object")]
struct EvalNotes {
    instructions: Option<String>,
    prompts: Vec<String>,
    tools: OrderedMap<String>,
}

fn instructions(logic: &mut impl Decide, op: InstructionsOp) -> OpResult {
    let offer = |(server, notes): &(String, EvalNotes)| {
        let tool = |(name, _): &(String, String)| plain_tool(name.clone());
        catalog::Offered { server: server.clone(), tools: notes.tools.0.iter().map(tool).collect() }
    };
    let offers: Vec<catalog::Offered> = op.servers.0.iter().map(offer).collect();
    // Use the names that the model would see.
    let exposed = logic.expose(&offers, &naming::NamingStyle::DoubleUnderscore)?;
    let name_of = |server: &str, tool: &str| {
        let same = |exposed: &&catalog::ExposedTool| exposed.tool.server == server && exposed.tool.tool == tool;
        exposed.iter().find(same).map_or_else(|| tool.to_owned(), |exposed| exposed.name.clone())
    };
    let notes = |(server, notes): (String, EvalNotes)| {
        let note = |(tool, text): (String, String)| catalog::ToolNote { name: name_of(&server, &tool), text };
        let tools = notes.tools.0.into_iter().map(note).collect();
        catalog::ServerNotes { instructions: notes.instructions, prompts: notes.prompts, tools, server }
    };
    let servers: Vec<catalog::ServerNotes> = op.servers.0.into_iter().map(notes).collect();
    let failed = op.failed.0.into_iter().map(|(server, reason)| catalog::FailedServer { server, reason });
    json_result(&logic.instructions(&servers, &failed.collect::<Vec<_>>())?)
}
