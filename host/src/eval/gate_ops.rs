//! The operations of `eval` that need a gate: `resolve` and `execute`.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::ops::{OpResult, json_result, logic_error_text};
use super::shapes::{EvalCall, EvalEvent, EvalMasks, EvalSelection, EvalServers, EvalWaitRange, raw};
use crate::decide::{Decide, GateId};
use crate::logic::types::{ToolRef, execution, filtering};
use crate::plan::{CallPlan, plan};
use crate::rpc;
use crate::words::{ErrorText, NamedCase};

/// The fields of both operations; only `execute` takes `events`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub struct GateOp {
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
    events: Option<Vec<EvalEvent>>,
}

/// The settings of a gate beside its rules.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "settings: an object")]
struct EvalSettings {
    retry: Option<String>,
    masking: Option<EvalMasks>,
    max_result_bytes: Option<u64>,
    spill: Option<bool>,
    summarize_above_tokens: Option<u64>,
    ask_max_bytes: Option<u64>,
    check_arguments: Option<bool>,
    bare_names: Option<bool>,
    form: Option<String>,
}

impl GateOp {
    /// Returns the settings of the gate.
    fn settings(&mut self, logic: &mut impl Decide) -> Result<execution::Settings, String> {
        let ids: Vec<String> = self.servers.0.iter().map(|(id, _)| id.clone()).collect();
        let default = logic.default_settings(&ids).map_err(logic_error_text)?;
        let given = std::mem::take(&mut self.settings);
        let policy = filtering::Policy {
            servers: self.servers.0.iter().map(|(id, server)| server.rules(id)).collect(),
            selection: self.selection.take().and_then(EvalSelection::into_selection),
            read_only: self.read_only,
            destructive: self.destructive.as_deref().map_or(Ok(default.policy.destructive), NamedCase::parse)?,
            capabilities: self.capabilities.take(),
        };
        Ok(execution::Settings {
            policy,
            retry: given.retry.as_deref().map_or(Ok(default.retry), NamedCase::parse)?,
            form: given.form.as_deref().map_or(Ok(default.form), NamedCase::parse)?,
            masks: given.masking.map_or(default.masks, Into::into),
            max_result_bytes: given.max_result_bytes.unwrap_or(default.max_result_bytes),
            spill: given.spill.unwrap_or(default.spill),
            summarize_above_tokens: given.summarize_above_tokens.or(default.summarize_above_tokens),
            ask_max_bytes: given.ask_max_bytes.unwrap_or(default.ask_max_bytes),
            check_arguments: given.check_arguments.unwrap_or(default.check_arguments),
            bare_names: given.bare_names.unwrap_or(default.bare_names),
            ..default
        })
    }

    /// Opens a gate with the tools of all servers, uses it, and closes it.
    fn with_gate<L: Decide, T>(
        mut self,
        logic: &mut L,
        work: impl FnOnce(&mut L, GateId, Self) -> Result<T, String>,
    ) -> Result<T, String> {
        let settings = self.settings(logic)?;
        let gate = logic.open_gate(&settings).map_err(logic_error_text)?.map_err(|error| error.error_text())?;
        let done = self.offer(logic, gate).and_then(|()| work(logic, gate, self));
        logic.close_gate(gate).map_err(logic_error_text)?;
        done
    }

    fn offer(&self, logic: &mut impl Decide, gate: GateId) -> Result<(), String> {
        for (id, server) in &self.servers.0 {
            for note in logic.offer(gate, id, &server.tools()).map_err(logic_error_text)? {
                // All tools are known here, so a grant that matches two of them is an error.
                if let execution::OfferNote::AmbiguousGrant(grant) = note {
                    return Err(grant.error_text());
                }
            }
        }
        Ok(())
    }
}

#[derive(Serialize)]
struct EvalRoute {
    server: String,
    tool: String,
    arguments: Box<RawValue>,
    trace: Vec<String>,
}

pub fn resolve(logic: &mut impl Decide, op: GateOp) -> OpResult {
    if op.events.is_some() {
        return Err("unknown field `events`; resolve takes none".to_owned());
    }
    op.with_gate(logic, |logic, gate, op| match plan(logic, gate, op.call.into_call()).map_err(logic_error_text)? {
        Ok(CallPlan { tool, arguments, trace, .. }) => {
            json_result(&EvalRoute { server: tool.server, tool: tool.tool, arguments: raw(arguments)?, trace })
        }
        Err(result) => Err(result.text),
    })
}

pub fn execute(logic: &mut impl Decide, op: GateOp) -> OpResult {
    op.with_gate(logic, |logic, gate, op| {
        let (execution, mut directive) = logic.begin(gate, op.call.into_call()).map_err(logic_error_text)?;
        let mut directives = Vec::new();
        for EvalEvent(event) in op.events.unwrap_or_default() {
            if matches!(directive, execution::Directive::Done(_)) {
                break;
            }
            directives.push(EvalDirective::new(directive)?);
            directive = logic.next(execution, event).map_err(logic_error_text)?;
        }
        directives.push(EvalDirective::new(directive)?);
        json_result(&directives)
    })
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum EvalDirective {
    Connect(Vec<String>),
    Request { server: String, method: &'static str, params: Box<RawValue> },
    Reconnect(String),
    Reauthenticate(String),
    Wait(EvalWaitRange),
    Ask { server: String, tool: String, arguments: Box<RawValue>, reason: String },
    Condense { server: String, tool: String, text: String, spill: bool, summarize: bool },
    Done { code: &'static str, is_error: bool, text: String },
}

impl EvalDirective {
    fn new(directive: execution::Directive) -> Result<Self, String> {
        Ok(match directive {
            execution::Directive::Connect(servers) => EvalDirective::Connect(servers),
            execution::Directive::Request(execution::Request { tool: ToolRef { server, tool }, arguments, .. }) => {
                let params = raw(rpc::call_params(&tool, &arguments))?;
                EvalDirective::Request { server, method: "tools/call", params }
            }
            execution::Directive::Reconnect(server) => EvalDirective::Reconnect(server),
            execution::Directive::Reauthenticate(server) => EvalDirective::Reauthenticate(server),
            execution::Directive::Wait(range) => EvalDirective::Wait(range.into()),
            execution::Directive::Ask(question) => EvalDirective::Ask {
                server: question.tool.server,
                tool: question.tool.tool,
                arguments: raw(question.arguments)?,
                reason: question.reason,
            },
            execution::Directive::Condense(execution::Oversize { tool, text, spill, summarize }) => {
                EvalDirective::Condense { server: tool.server, tool: tool.tool, text, spill, summarize }
            }
            execution::Directive::Done(result) => {
                EvalDirective::Done { code: result.code.name(), is_error: result.is_error, text: result.text }
            }
        })
    }
}
