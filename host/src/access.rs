//! Finds out who may call what, by opening each principal's gate as a gateway would and asking it.
//!
//! This module knows no rules. A tool may be used if the gate lists it and begins to call it, and the component names
//! the rule that decided.

mod compare;
mod needs;

use std::collections::HashMap;
use std::sync::Arc;

pub use compare::{AccessChange, ChangeDirection, admin_changes, changes};
pub use needs::{ToolNeeds, find_needs};

use crate::agent::Agent;
use crate::config::model::Config;
use crate::decide::{Decide, GateId};
use crate::gate::{self, GateError, GateView};
use crate::logic::Supervisor;
use crate::logic::types::execution::{Code, Directive, Settings, ToolCall};
use crate::logic::types::filtering::{DestructivePolicy, Policy, Rules, SelectedServer, Verdict};
use crate::logic::types::naming::NamingStyle;
use crate::logic::types::rules::{AgentContext, Circumstances, Effect, Outlook};
use crate::logic::types::{Annotations, Tool, ToolRef};
use crate::registry::resource_tools;
use crate::words::ErrorText;

/// The tools that a server offers.
#[derive(Debug, Clone)]
pub struct ServerTools {
    /// The id of the server.
    pub server: String,
    /// The tools that it shows to a client with all capabilities, as a gateway is.
    pub tools: Arc<[Tool]>,
    /// The client capabilities that they need.
    pub needs: ToolNeeds,
}

impl ServerTools {
    /// Returns the tools that list and read resources.
    fn of_resources() -> Self {
        let (server, tools) = (gate::RESOURCE_SERVER.to_owned(), Arc::clone(&resource_tools().offered));
        ServerTools { server, tools, needs: ToolNeeds::default() }
    }
}

/// What each principal may do with each tool.
#[derive(Debug, Clone, PartialEq)]
pub struct AccessMatrix {
    /// The principals, in the order of the configuration.
    pub principals: Vec<String>,
    /// The tools, in the order of their servers.
    pub tools: Vec<AccessTool>,
    /// For each principal, its right to each tool.
    rights: Vec<Vec<AccessRight>>,
}

/// A tool, as the component sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct AccessTool {
    /// The server and the tool.
    pub tool: ToolRef,
    /// The name of the tool for a principal that may use everything.
    pub name: String,
    /// Whether the tool counts as one that may delete or overwrite.
    pub destructive: bool,
    /// Whether the tool counts as one that changes nothing.
    pub read_only: bool,
    /// The capabilities without which its server does not show the tool to a client.
    pub needs: Vec<&'static str>,
}

/// Whether a principal may call a tool, from the strictest to the loosest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AccessVerdict {
    /// It may not.
    Deny,
    /// A person must approve each call.
    Ask,
    /// Rules decide by the arguments, or by how many calls there were.
    Depends,
    /// It may.
    Allow,
}

impl AccessVerdict {
    /// Returns the name of the verdict.
    pub fn name(self) -> &'static str {
        match self {
            AccessVerdict::Deny => "deny",
            AccessVerdict::Ask => "ask",
            AccessVerdict::Depends => "depends",
            AccessVerdict::Allow => "allow",
        }
    }
}

impl From<Verdict> for AccessVerdict {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Deny => AccessVerdict::Deny,
            Verdict::Ask => AccessVerdict::Ask,
            Verdict::Allow => AccessVerdict::Allow,
        }
    }
}

/// The right of one principal to one tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessRight {
    /// The name of the tool for this principal; `None` if the tool is not listed.
    pub name: Option<String>,
    /// Whether the principal may call the tool.
    pub verdict: AccessVerdict,
    /// The conditions under which rules deny or ask, and by which rule.
    pub conditions: Vec<String>,
    /// The rule that decided.
    pub rule: String,
    /// All rules that were checked, in order; the last one decided.
    pub trace: Vec<String>,
}

/// Returns everybody who may use a gateway with this configuration, and what they may use: principals with tokens, and
/// the local principal, which needs none on standard input and output and on the socket.
pub fn principals(config: &Config) -> Vec<(String, GateView)> {
    let mut all = gate::views(config);
    if !all.iter().any(|(name, _)| name == gate::LOCAL) {
        all.push((gate::LOCAL.to_owned(), GateView::default()));
    }
    all
}

/// Returns the principal for HTTP requests without a token, which may use everything; `None` if the configuration has
/// tokens.
pub fn anonymous_principal(config: &Config) -> Option<(String, GateView)> {
    let agent = Agent { admin: false, ..Agent::default() };
    let view = GateView { agent, ..GateView::default() };
    config.settings.gateway.tokens.is_empty().then(|| (ANYONE.to_owned(), view))
}

impl AccessMatrix {
    /// Asks the component about each of these principals and each of these tools, for agents with these labels.
    pub fn find(
        logic: &mut Supervisor,
        config: &Config,
        principals: Vec<(String, GateView)>,
        all: &[ServerTools],
        labels: &[String],
    ) -> Result<Self, GateError> {
        let resource_tools = gate::offers_resource_tools(config, &GateView::default()).then(ServerTools::of_resources);
        let all: Vec<_> = all.iter().cloned().chain(resource_tools).collect();
        let of_all = gate::settings(logic, config, &GateView::default())?;
        let style = config.settings.gateway.names.map_or_else(|| of_all.style.clone(), gate::shown_style);
        let tools = list_tools(logic, &of_all, &style, &all)?;
        let mut rights = Vec::with_capacity(principals.len());
        for (_, view) in &principals {
            let mut settings = gate::settings(logic, config, view)?;
            // Only the tool matters here, not the arguments.
            settings.check_arguments = false;
            // A gateway offers a gate only the tools of the servers that it may use.
            let selected = |id: &str| {
                let chosen = |these: &Vec<SelectedServer>| these.iter().any(|server| server.id == id);
                id == gate::RESOURCE_SERVER || view.selection.as_ref().is_none_or(chosen)
            };
            let offers = all.iter().filter(|offer| selected(&offer.server));
            rights.push(match open(logic, &settings, offers) {
                Ok(gate) => {
                    let rights = PrincipalGate {
                        logic: &mut *logic,
                        gate,
                        settings: &settings,
                        style: &style,
                        annotations: annotations_by_tool(&all),
                        circumstances: circumstances(view, labels),
                    }
                    .rights(&tools);
                    logic.close_gate(gate)?;
                    rights?
                }
                // A principal whose gate cannot be opened may use nothing.
                Err(GateError::Settings(why)) => tools.iter().map(|_| AccessRight::denied(&why)).collect(),
                Err(error) => return Err(error),
            });
        }
        let principals = principals.into_iter().map(|(name, _)| name).collect();
        Ok(AccessMatrix { principals, tools, rights })
    }

    /// Returns each principal with each tool, and its right.
    pub fn rows(&self) -> impl Iterator<Item = (&str, &AccessTool, &AccessRight)> {
        let each = self.principals.iter().zip(&self.rights);
        each.flat_map(|(name, rights)| self.tools.iter().zip(rights).map(move |(tool, right)| (&**name, tool, right)))
    }
}

impl AccessRight {
    fn denied(why: &str) -> Self {
        let (verdict, conditions) = (AccessVerdict::Deny, Vec::new());
        AccessRight { name: None, verdict, conditions, rule: why.to_owned(), trace: vec![why.to_owned()] }
    }
}

/// One principal's gate.
struct PrincipalGate<'a> {
    logic: &'a mut Supervisor,
    gate: GateId,
    settings: &'a Settings,
    style: &'a NamingStyle,
    annotations: HashMap<(&'a str, &'a str), Annotations>,
    circumstances: Circumstances,
}

/// The verdict on a call that is begun and then dropped.
struct TrialOutcome {
    /// `None` if it is left to rules that see arguments, so that the filters say no more than allow or ask.
    verdict: Option<Verdict>,
    trace: Vec<String>,
}

impl PrincipalGate<'_> {
    fn rights(mut self, tools: &[AccessTool]) -> Result<Vec<AccessRight>, GateError> {
        let listed = self.logic.tools(self.gate, self.style, None)?;
        let listed: HashMap<_, _> =
            listed.into_iter().map(|tool| ((tool.tool.server, tool.tool.tool), tool.name)).collect();
        tools
            .iter()
            .map(|item| {
                let ToolRef { server, tool } = &item.tool;
                let name = listed.get(&(server.clone(), tool.clone()));
                self.right(item, name.map(String::as_str))
            })
            .collect()
    }

    /// Returns the gate's verdict with the trace of the rules if they agree with it, else with the trace of the call,
    /// because something beside the configured rules decided.
    fn right(&mut self, item: &AccessTool, listed: Option<&str>) -> Result<AccessRight, GateError> {
        let begun = match listed {
            Some(name) => Some(self.begin(name)?),
            None => None,
        };
        let annotations = self.annotations.get(&(&*item.tool.server, &*item.tool.tool)).copied().unwrap_or(SILENT);
        let decided = self.logic.decide(&self.settings.policy, &item.tool, annotations)?;
        let by_filters = || decided.as_ref().map_or(Verdict::Deny, |decision| decision.verdict);
        let verdict = begun.as_ref().map_or(Verdict::Deny, |begun| begun.verdict.unwrap_or_else(by_filters));
        let trace = match (decided, begun) {
            (Ok(decision), _) if decision.verdict == verdict => decision.trace,
            (_, Some(begun)) => begun.trace,
            (_, None) => self.begin(&format!("{}.{}", item.tool.server, item.tool.tool))?.trace,
        };
        let rule = trace.last().cloned().unwrap_or_default();
        let (name, conditions) = (listed.map(str::to_owned), Vec::new());
        let right = AccessRight { name, verdict: verdict.into(), conditions, rule, trace };
        match verdict {
            Verdict::Deny => Ok(right),
            Verdict::Ask | Verdict::Allow => self.apply_rules(&item.tool, right),
        }
    }

    /// Restricts a right by the rules that see arguments, people and what happened before.
    fn apply_rules(&mut self, tool: &ToolRef, mut right: AccessRight) -> Result<AccessRight, GateError> {
        let Outlook { denied, asked, depends, trace } = self.logic.foresee(self.gate, tool, &self.circumstances)?;
        right.trace.extend(trace);
        if let Some(rule) = denied {
            // A tool of which every call is refused is not listed.
            right = AccessRight { name: None, trace: right.trace, ..AccessRight::denied(&format!("rule {rule:?}")) };
            right.trace.push(right.rule.clone());
            return Ok(right);
        }
        if let Some(rule) = asked {
            (right.verdict, right.rule) = (AccessVerdict::Ask, format!("needs approval: rule {rule:?}"));
        }
        right.conditions = depends.iter().filter_map(|name| self.condition(name)).collect();
        if right.verdict == AccessVerdict::Allow && !right.conditions.is_empty() {
            (right.verdict, right.rule) = (AccessVerdict::Depends, format!("depends: {}", right.conditions.join("; ")));
        }
        Ok(right)
    }

    /// Describes when a rule denies or asks.
    fn condition(&self, name: &str) -> Option<String> {
        let rule = self.settings.rules.lists.iter().flatten().find(|rule| rule.name == name)?;
        let effect = match rule.effect {
            Effect::Ask => "ask",
            _ => "deny",
        };
        let when = rule.condition.as_deref().unwrap_or("every call");
        let limit =
            rule.limit.map(|limit| format!(", after {} calls in {} s", limit.calls, limit.per_ms.div_ceil(1000)));
        Some(format!("{when}{} → {effect} (rule {name:?})", limit.unwrap_or_default()))
    }

    /// Begins a call with this name and drops it.
    fn begin(&mut self, name: &str) -> Result<TrialOutcome, GateError> {
        let call = ToolCall { id: String::new(), name: name.to_owned(), arguments: "{}".to_owned() };
        let (execution, directive) = self.logic.begin(self.gate, call)?;
        let begun = match directive {
            Directive::Ask(question) => TrialOutcome { verdict: Some(Verdict::Ask), trace: vec![question.reason] },
            Directive::Circumstances(_) => TrialOutcome { verdict: None, trace: self.logic.trace(execution)? },
            Directive::Done(result) => {
                let verdict = if is_refusal(result.code) { Verdict::Deny } else { Verdict::Allow };
                let verdict = Some(verdict);
                TrialOutcome { verdict, trace: if result.trace.is_empty() { vec![result.text] } else { result.trace } }
            }
            _ => TrialOutcome { verdict: Some(Verdict::Allow), trace: self.logic.trace(execution)? },
        };
        self.logic.end(execution)?;
        Ok(begun)
    }
}

/// Returns what surrounds calls of an agent with these labels, at any time and with any client.
fn circumstances(view: &GateView, labels: &[String]) -> Circumstances {
    Circumstances {
        caller: view.agent.caller(""),
        now_ms: None,
        context: AgentContext { labels: labels.to_vec(), known: Vec::new() },
    }
}

/// Reports whether a call with this code was refused regardless of its arguments.
fn is_refusal(code: Code) -> bool {
    use Code::{Declined, InvalidName, NotAllowed, UnknownServer, UnknownTool};
    matches!(code, NotAllowed | UnknownTool | UnknownServer | InvalidName | Declined)
}

/// Lists all offered tools, and how the component classifies them: a gate without rules lists all, and a gate that
/// denies destructive tools lists the others.
fn list_tools(
    logic: &mut Supervisor,
    settings: &Settings,
    style: &NamingStyle,
    offers: &[ServerTools],
) -> Result<Vec<AccessTool>, GateError> {
    let mut listed = |change: fn(&mut Policy)| {
        let mut settings = settings.clone();
        without_rules(&mut settings.policy);
        change(&mut settings.policy);
        let gate = open(logic, &settings, offers)?;
        let tools = logic.tools(gate, style, None)?;
        logic.close_gate(gate)?;
        Ok::<_, GateError>(tools)
    };
    let all = listed(|_| {})?;
    let harmless = listed(|policy| policy.destructive = DestructivePolicy::Deny)?;
    let read_only = listed(|policy| policy.read_only = true)?;
    // All three lists are in the same order.
    let (mut harmless, mut read_only) = (harmless.iter().peekable(), read_only.iter().peekable());
    let needs = |tool: &ToolRef| {
        let offer = offers.iter().find(|offer| offer.server == tool.server);
        offer.and_then(|offer| offer.needs.get(&tool.tool)).cloned().unwrap_or_default()
    };
    let item = |tool: crate::logic::types::catalog::ExposedTool| AccessTool {
        destructive: harmless.next_if(|harmless| harmless.tool == tool.tool).is_none(),
        read_only: read_only.next_if(|read_only| read_only.tool == tool.tool).is_some(),
        needs: needs(&tool.tool),
        name: tool.name,
        tool: tool.tool,
    };
    Ok(all.into_iter().map(item).collect())
}

/// Removes all rules from a policy, except those for single tools.
fn without_rules(policy: &mut Policy) {
    for server in &mut policy.servers {
        server.rules = Rules { allow: None, deny: Vec::new() };
        server.ask.clear();
        server.requires.clear();
    }
    policy.read_only = false;
    policy.destructive = DestructivePolicy::Allow;
    policy.selection = None;
    policy.capabilities = None;
}

fn open<'a>(
    logic: &mut Supervisor,
    settings: &Settings,
    offers: impl IntoIterator<Item = &'a ServerTools>,
) -> Result<GateId, GateError> {
    let gate = logic.open_gate(settings)?.map_err(|error| GateError::Settings(error.error_text()))?;
    for ServerTools { server, tools, .. } in offers {
        logic.offer(gate, server, tools)?;
    }
    Ok(gate)
}

/// Returns the annotations of all tools; if a server lists a tool twice, the first one counts.
fn annotations_by_tool(offers: &[ServerTools]) -> HashMap<(&str, &str), Annotations> {
    let mut annotations = HashMap::new();
    for ServerTools { server, tools, .. } in offers {
        for tool in tools.iter() {
            annotations.entry((&**server, &*tool.name)).or_insert(tool.annotations);
        }
    }
    annotations
}

/// A name that no principal can have, because it contains spaces.
const ANYONE: &str = "anyone (HTTP without a token)";
const SILENT: Annotations = Annotations { read_only: None, destructive: None, idempotent: None, open_world: None };
