//! Asks the component about each tool, for one principal after the other.

use std::collections::HashMap;

use super::shared::part_of;
use super::{AccessRight, AccessTool, AccessVerdict, ServerTools};
use crate::config::model::Config;
use crate::decide::{Decide, GateId};
use crate::gate::{self, GateError, GateView};
use crate::logic::Supervisor;
use crate::logic::types::execution::{Code, Directive, OfferNote, Settings, ToolCall};
use crate::logic::types::filtering::{
    AmbiguousGrant, Decision, DestructivePolicy, Policy, Rules, SelectedServer, Verdict,
};
use crate::logic::types::naming::NamingStyle;
use crate::logic::types::rules::{AgentContext, Circumstances, Effect, Outlook, RuleSet};
use crate::logic::types::{Annotations, Tool, ToolRef};
use crate::words::ErrorText;

/// The tools of a configuration's servers, about which the component is asked for each principal.
pub struct AccessSurvey<'a> {
    pub(super) config: &'a Config,
    pub(super) offers: Vec<ServerTools>,
    pub(super) labels: &'a [String],
    style: NamingStyle,
    pub(super) tools: Vec<AccessTool>,
    /// What the server says about each of the tools.
    pub(super) annotations: Vec<Annotations>,
}

impl<'a> AccessSurvey<'a> {
    /// Lists the tools of these servers as this configuration has them, for agents with these labels.
    pub fn new(
        logic: &mut Supervisor,
        config: &'a Config,
        offers: &[ServerTools],
        labels: &'a [String],
    ) -> Result<Self, GateError> {
        let resource_tools = gate::offers_resource_tools(config, &GateView::default()).then(ServerTools::of_resources);
        let offers: Vec<_> = offers.iter().map(without_texts).chain(resource_tools).collect();
        let of_all = gate::settings(logic, config, &GateView::default())?;
        let style = config.settings.gateway.names.map_or_else(|| of_all.style.clone(), gate::shown_style);
        let tools = list_tools(logic, &of_all, &style, &offers)?;
        let known = annotations_by_tool(&offers);
        let annotations = tools.iter().map(|AccessTool { tool, .. }| known.get(&(&*tool.server, &*tool.tool)));
        let annotations = annotations.map(|known| known.copied().unwrap_or(SILENT)).collect();
        Ok(AccessSurvey { config, offers, labels, style, tools, annotations })
    }

    /// Returns the tools, in the order of their servers.
    pub fn tools(&self) -> &[AccessTool] {
        &self.tools
    }

    /// Returns the tools, in the order of their servers.
    pub fn into_tools(self) -> Vec<AccessTool> {
        self.tools
    }

    /// Returns the right of a principal with this view to each of the tools.
    pub fn rights(&self, logic: &mut Supervisor, view: &GateView) -> Result<Vec<AccessRight>, GateError> {
        let mut settings = gate::settings(logic, self.config, view)?;
        // Only the tool matters here, not the arguments.
        settings.check_arguments = false;
        // A gateway offers a gate only the tools of the servers that it may use.
        let selected = |id: &str| {
            let chosen = |these: &Vec<SelectedServer>| these.iter().any(|server| server.id == id);
            id == gate::RESOURCE_SERVER || view.selection.as_ref().is_none_or(chosen)
        };
        let offers = self.offers.iter().filter(|offer| selected(&offer.server));
        match open(logic, &settings, offers) {
            Ok(OpenGate { gate, ambiguous }) => {
                let (survey, circumstances) = (self, circumstances(view, self.labels));
                let settings = &settings;
                let rights = PrincipalGate { logic: &mut *logic, gate, ambiguous, settings, survey, circumstances };
                let rights = rights.rights();
                logic.close_gate(gate)?;
                rights
            }
            // A principal whose gate cannot be opened may use nothing.
            Err(GateError::Settings(why)) => Ok(self.tools.iter().map(|_| AccessRight::denied(&why)).collect()),
            Err(error) => Err(error),
        }
    }
}

/// Returns the tools without what no rule looks at before there are arguments, because it may be long.
fn without_texts(offer: &ServerTools) -> ServerTools {
    let short = |tool: &Tool| Tool { name: tool.name.clone(), description: None, input_schema: None, ..*tool };
    ServerTools { tools: offer.tools.iter().map(short).collect(), ..offer.clone() }
}

/// One principal's gate.
struct PrincipalGate<'a> {
    logic: &'a mut Supervisor,
    gate: GateId,
    /// The principal's capabilities that grant nothing, because they mean several of the offered tools.
    ambiguous: Vec<AmbiguousGrant>,
    settings: &'a Settings,
    survey: &'a AccessSurvey<'a>,
    circumstances: Circumstances,
}

/// The verdict on a call that is begun and then dropped.
struct TrialOutcome {
    /// `None` if it is left to rules that see arguments, so that the filters say no more than allow or ask.
    verdict: Option<Verdict>,
    trace: Vec<String>,
}

impl PrincipalGate<'_> {
    fn rights(mut self) -> Result<Vec<AccessRight>, GateError> {
        let AccessSurvey { tools, annotations, style, .. } = self.survey;
        let listed = self.logic.tools(self.gate, style, None)?;
        let listed: HashMap<_, _> =
            listed.into_iter().map(|tool| ((tool.tool.server, tool.tool.tool), tool.name)).collect();
        // The component need not read the rules of all servers for each tool.
        let mut parts = HashMap::new();
        tools
            .iter()
            .zip(annotations)
            .map(|(item, annotations)| {
                let ToolRef { server, tool } = &item.tool;
                let name = listed.get(&(server.clone(), tool.clone()));
                let part = parts.entry(server).or_insert_with(|| part_of(&self.settings.policy, server));
                let decided = self.logic.decide(part, &item.tool, *annotations)?;
                self.right(item, name.map(String::as_str), decided.ok())
            })
            .collect()
    }

    /// Returns the gate's verdict with the trace of the rules if they agree with it, else with the trace of the call,
    /// because something beside the configured rules decided.
    fn right(
        &mut self,
        item: &AccessTool,
        listed: Option<&str>,
        decided: Option<Decision>,
    ) -> Result<AccessRight, GateError> {
        let begun = match listed {
            Some(name) => Some(self.begin(name)?),
            None => None,
        };
        let by_filters = || decided.as_ref().map_or(Verdict::Deny, |decision| decision.verdict);
        let verdict = begun.as_ref().map_or(Verdict::Deny, |begun| begun.verdict.unwrap_or_else(by_filters));
        let trace = match (decided, begun) {
            (Some(decision), _) if decision.verdict == verdict => decision.trace,
            (_, Some(begun)) => begun.trace,
            (_, None) => match self.ambiguous.iter().find(|grant| could_mean(grant, &item.tool)) {
                // A caller is not told about a server that its capabilities do not grant, so its trace does not say this.
                Some(grant) => vec![format!("denied: {}", grant.error_text())],
                None => self.begin(&format!("{}.{}", item.tool.server, item.tool.tool))?.trace,
            },
        };
        let rule = trace.last().cloned().unwrap_or_default();
        let (name, conditions) = (listed.map(str::to_owned), Vec::new());
        let mut right = AccessRight { name, verdict: verdict.into(), conditions, rule, trace };
        if verdict != Verdict::Deny {
            let outlook = self.logic.foresee(self.gate, &item.tool, &self.circumstances)?;
            restrict(&mut right, outlook, &self.settings.rules);
        }
        Ok(right)
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

/// Restricts a right by what these rules say, which see arguments, people and what happened before.
pub(super) fn restrict(right: &mut AccessRight, outlook: Outlook, rules: &RuleSet) {
    let Outlook { denied, asked, depends, trace } = outlook;
    right.trace.extend(trace);
    if let Some(rule) = denied {
        // A tool of which every call is refused is not listed.
        let trace = std::mem::take(&mut right.trace);
        *right = AccessRight { trace, ..AccessRight::denied(&format!("rule {rule:?}")) };
        right.trace.push(right.rule.clone());
        return;
    }
    if let Some(rule) = asked {
        (right.verdict, right.rule) = (AccessVerdict::Ask, format!("needs approval: rule {rule:?}"));
    }
    right.conditions = depends.iter().filter_map(|name| condition(rules, name)).collect();
    if right.verdict == AccessVerdict::Allow && !right.conditions.is_empty() {
        (right.verdict, right.rule) = (AccessVerdict::Depends, format!("depends: {}", right.conditions.join("; ")));
    }
}

/// Describes when a rule denies or asks.
fn condition(rules: &RuleSet, name: &str) -> Option<String> {
    let rule = rules.lists.iter().flatten().find(|rule| rule.name == name)?;
    let effect = match rule.effect {
        Effect::Ask => "ask",
        _ => "deny",
    };
    let when = rule.condition.as_deref().unwrap_or("every call");
    let limit = rule.limit.map(|limit| format!(", after {} calls in {} s", limit.calls, limit.per_ms.div_ceil(1000)));
    Some(format!("{when}{} → {effect} (rule {name:?})", limit.unwrap_or_default()))
}

/// Returns what surrounds calls of an agent with these labels, at any time and with any client.
pub(super) fn circumstances(view: &GateView, labels: &[String]) -> Circumstances {
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
        let gate = open(logic, &settings, offers)?.gate;
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

pub(super) fn open<'a>(
    logic: &mut Supervisor,
    settings: &Settings,
    offers: impl IntoIterator<Item = &'a ServerTools>,
) -> Result<OpenGate, GateError> {
    let gate = logic.open_gate(settings)?.map_err(|error| GateError::Settings(error.error_text()))?;
    let mut ambiguous = Vec::new();
    for ServerTools { server, tools, .. } in offers {
        for note in logic.offer(gate, server, tools)? {
            if let OfferNote::AmbiguousGrant(grant) = note {
                ambiguous.push(grant);
            }
        }
    }
    Ok(OpenGate { gate, ambiguous })
}

/// A gate with the tools of its servers.
pub(super) struct OpenGate {
    pub(super) gate: GateId,
    /// The capabilities that grant nothing, because they mean several of these tools.
    ambiguous: Vec<AmbiguousGrant>,
}

/// Reports whether a tool is one of those that an ambiguous capability could mean.
fn could_mean(grant: &AmbiguousGrant, ToolRef { server, tool }: &ToolRef) -> bool {
    let meanings = [format!("server:{server}"), format!("tool:{server}/{tool}")];
    grant.meanings.iter().any(|meaning| meanings.contains(meaning))
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

const SILENT: Annotations = Annotations { read_only: None, destructive: None, idempotent: None, open_world: None };
