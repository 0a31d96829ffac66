//! The operations of `eval` that need a gate: `resolve` and `execute`.

use std::collections::HashMap;
use std::time::UNIX_EPOCH;

use serde::ser::{Error, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::op_result::{OpError, OpResult, json_result, raw};
use super::shapes::{EvalCall, EvalSelection, EvalServers};
use crate::calendar;
use crate::contract_json::{KnownDigest, OrderedMap};
use crate::decide::{Decide, GateId};
use crate::logic::types::execution::{Directive, Event, OfferNote, Oversize, Question, Request, Settings, ToolResult};
use crate::logic::types::rules::{AgentContext, CallCount, Caller, Circumstances, ResultRule, Rule, RuleSet};
use crate::logic::types::{ToolRef, WaitRange, filtering, masking};
use crate::plan::{CallPlan, plan};
use crate::record::CallSurroundings;
use crate::rpc;
use crate::words::NamedCase;

/// The fields of both operations; only `execute` takes `events`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(super) struct GateOp {
    #[serde(rename = "op")]
    _op: serde::de::IgnoredAny,
    servers: EvalServers,
    call: EvalCall,
    capabilities: Option<Vec<String>>,
    selection: Option<EvalSelection>,
    #[serde(default)]
    read_only: bool,
    destructive: Option<String>,
    #[serde(default)]
    settings: EvalSettings,
    events: Option<Vec<Event>>,
    /// Answers the directives `circumstances` and `count`, so that no events do.
    context: Option<EvalContext>,
}

/// What surrounds a call.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "context: an object")]
struct EvalContext {
    principal: Option<String>,
    groups: Vec<String>,
    admin: bool,
    client: String,
    /// The time as RFC 3339 writes it.
    now: Option<String>,
    labels: Vec<String>,
    /// Values that the agent knows, as `learned` has them.
    known: Vec<KnownDigest>,
    /// Values that the agent knows, as texts.
    values: Vec<String>,
    /// How often calls fitted each rule with a limit, with this one.
    counts: HashMap<String, u32>,
}

impl EvalContext {
    fn circumstances(self, logic: &mut impl Decide) -> Result<(Circumstances, HashMap<String, u32>), OpError> {
        let time = |text: &String| {
            let millis = calendar::parse(text).and_then(|at| at.duration_since(UNIX_EPOCH).ok())?.as_millis();
            u64::try_from(millis).ok()
        };
        let now_ms = match &self.now {
            Some(text) => {
                Some(time(text).ok_or_else(|| format!("{text:?} is not a time, such as 2026-07-28T12:00:00Z"))?)
            }
            None => None,
        };
        let EvalContext { principal, groups, admin, client, labels, counts, .. } = self;
        let mut known: Vec<_> = self.known.into_iter().map(|KnownDigest(value)| value).collect();
        known.extend(logic.known_values(&self.values)?);
        let caller = Caller { principal, groups, admin, client };
        Ok((Circumstances { caller, now_ms, context: AgentContext { labels, known } }, counts))
    }
}

/// The settings of a gate beside its filters.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "settings: an object")]
struct EvalSettings {
    retry: Option<String>,
    masking: Option<masking::Masks>,
    max_result_bytes: Option<u64>,
    spill: Option<bool>,
    summarize_above_tokens: Option<u64>,
    ask_max_bytes: Option<u64>,
    check_arguments: Option<bool>,
    bare_names: Option<bool>,
    form: Option<String>,
    rules: Vec<Rule>,
    results: OrderedMap<EvalResultRule>,
    known: Vec<String>,
}

/// What the results of some tools mean.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "an object with labels, trusted and trusted_fields")]
struct EvalResultRule {
    labels: Vec<String>,
    trusted: bool,
    trusted_fields: Vec<String>,
}

impl EvalSettings {
    fn rule_set(&mut self) -> RuleSet {
        let result = |(tools, rule): (String, EvalResultRule)| {
            let EvalResultRule { labels, trusted, trusted_fields } = rule;
            ResultRule { tools, labels, trusted, trusted_fields }
        };
        RuleSet {
            lists: vec![std::mem::take(&mut self.rules)],
            results: std::mem::take(&mut self.results).0.into_iter().map(result).collect(),
            known: std::mem::take(&mut self.known),
        }
    }
}

impl GateOp {
    /// Returns the settings of the gate.
    fn settings(&mut self, logic: &mut impl Decide) -> Result<Settings, OpError> {
        let ids: Vec<String> = self.servers.0.iter().map(|(id, _)| id.clone()).collect();
        let default = logic.default_settings(&ids)?;
        let mut given = std::mem::take(&mut self.settings);
        let rules = given.rule_set();
        let policy = filtering::Policy {
            choice: None,
            servers: self.servers.0.iter().map(|(id, server)| server.rules(id)).collect(),
            selection: self.selection.take().and_then(|selection| selection.servers),
            read_only: self.read_only,
            destructive: self.destructive.as_deref().map_or(Ok(default.policy.destructive), NamedCase::parse)?,
            capabilities: self.capabilities.take(),
        };
        Ok(Settings {
            policy,
            retry: given.retry.as_deref().map_or(Ok(default.retry), NamedCase::parse)?,
            form: given.form.as_deref().map_or(Ok(default.form), NamedCase::parse)?,
            masks: given.masking.unwrap_or(default.masks),
            max_result_bytes: given.max_result_bytes.unwrap_or(default.max_result_bytes),
            spill: given.spill.unwrap_or(default.spill),
            summarize_above_tokens: given.summarize_above_tokens.or(default.summarize_above_tokens),
            ask_max_bytes: given.ask_max_bytes.unwrap_or(default.ask_max_bytes),
            check_arguments: given.check_arguments.unwrap_or(default.check_arguments),
            bare_names: given.bare_names.unwrap_or(default.bare_names),
            rules,
            ..default
        })
    }

    /// Opens a gate with the tools of all servers, uses it, and closes it.
    fn with_gate<L: Decide, T>(
        mut self,
        logic: &mut L,
        work: impl FnOnce(&mut L, GateId, Self) -> Result<T, OpError>,
    ) -> Result<T, OpError> {
        let settings = self.settings(logic)?;
        let gate = logic.open_gate(&settings)??;
        let done = self.offer(logic, gate).and_then(|()| work(logic, gate, self));
        logic.close_gate(gate)?;
        done
    }

    fn offer(&self, logic: &mut impl Decide, gate: GateId) -> Result<(), OpError> {
        for (id, server) in &self.servers.0 {
            for note in logic.offer(gate, id, &server.tools())? {
                // All tools are known here, so a grant that matches two of them is an error.
                if let OfferNote::AmbiguousGrant(grant) = note {
                    return Err(grant.into());
                }
            }
        }
        Ok(())
    }
}

#[derive(Serialize)]
struct EvalRoute {
    #[serde(flatten)]
    tool: ToolRef,
    arguments: Box<RawValue>,
    trace: Vec<String>,
}

pub(super) fn resolve(logic: &mut impl Decide, op: GateOp) -> OpResult {
    if op.events.is_some() {
        return Err("unknown field `events`; resolve takes none".to_owned().into());
    }
    op.with_gate(logic, |logic, gate, op| {
        let (circumstances, counts) = op.context.unwrap_or_default().circumstances(logic)?;
        let count = |rules: &[String]| counted(&counts, rules);
        let around = CallSurroundings { circumstances, count: Some(&count) };
        match plan(logic, gate, op.call.into_call(), &around)? {
            Ok(CallPlan { tool, arguments, trace, .. }) => {
                json_result(&EvalRoute { tool, arguments: raw(arguments)?, trace })
            }
            Err(result) => Err(result.into()),
        }
    })
}

fn counted(counts: &HashMap<String, u32>, rules: &[String]) -> Vec<CallCount> {
    let count = |rule| CallCount { calls: counts.get(rule).copied().unwrap_or(1), ends_in_ms: 0 };
    rules.iter().map(count).collect()
}

pub(super) fn execute(logic: &mut impl Decide, op: GateOp) -> OpResult {
    op.with_gate(logic, |logic, gate, op| {
        let context = op.context.map(|context| context.circumstances(logic)).transpose()?;
        let count =
            |rules: &[String]| counted(context.as_ref().map(|(_, counts)| counts).unwrap_or(&HashMap::new()), rules);
        let around = context
            .as_ref()
            .map(|(circumstances, _)| CallSurroundings { circumstances: circumstances.clone(), count: Some(&count) });
        let (execution, mut directive) = logic.begin(gate, op.call.into_call())?;
        let mut directives = Vec::new();
        let mut events = op.events.unwrap_or_default().into_iter();
        while !matches!(directive, Directive::Done(_)) {
            let answer = around.as_ref().and_then(|around| around.answer(&directive));
            let Some(event) = answer.or_else(|| events.next()) else { break };
            directives.push(EvalDirective(directive));
            directive = logic.next(execution, event)?;
        }
        directives.push(EvalDirective(directive));
        json_result(&directives)
    })
}

#[derive(Serialize)]
struct EvalDirective(#[serde(with = "DirectiveJson")] Directive);

#[derive(Serialize)]
#[serde(remote = "Directive", rename_all = "snake_case")]
enum DirectiveJson {
    Connect(Vec<String>),
    #[serde(serialize_with = "write_request")]
    Request(Request),
    Reconnect(String),
    Reauthenticate(String),
    Wait(WaitRange),
    Circumstances(bool),
    Count(Vec<String>),
    Ask(Question),
    Condense(Oversize),
    #[serde(serialize_with = "write_result")]
    Done(ToolResult),
}

/// Writes a request as the message that a server gets.
fn write_request<S: Serializer>(request: &Request, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct EvalRequest<'a> {
        server: &'a str,
        method: &'static str,
        params: Box<RawValue>,
        #[serde(skip_serializing_if = "Option::is_none")]
        learned: Option<&'a AgentContext>,
    }
    let Request { tool: ToolRef { server, tool }, arguments, learned, .. } = request;
    let params = raw(rpc::call_params(tool, arguments)).map_err(S::Error::custom)?;
    EvalRequest { server, method: "tools/call", params, learned: learned.as_ref() }.serialize(serializer)
}

/// Writes the part of a result that the model sees, and its code.
fn write_result<S: Serializer>(result: &ToolResult, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct EvalResult<'a> {
        code: &'static str,
        is_error: bool,
        text: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        learned: Option<&'a AgentContext>,
    }
    let ToolResult { code, is_error, text, learned, .. } = result;
    EvalResult { code: code.name(), is_error: *is_error, text, learned: learned.as_ref() }.serialize(serializer)
}
