//! Finds the rights of many principals without opening a gate for each: where the same rules apply to several of them,
//! the component is asked once.

use std::collections::HashMap;

use super::survey::{AccessSurvey, circumstances, open, restrict};
use super::{AccessRight, AccessVerdict};
use crate::decide::{Decide, GateId};
use crate::gate::{self, GateError, GateView};
use crate::gate_settings::all_rules;
use crate::logic::types::execution::Settings;
use crate::logic::types::filtering::{Decision, Policy, Rules, SelectedServer, ServerRules, Verdict};
use crate::logic::types::rules::{Outlook, RuleSet};
use crate::logic::{EMBEDDED_DIGEST, Supervisor};
use crate::words::ErrorText;

/// The rights of a survey's principals; parts that they share are found once.
pub struct SharedRights<'a> {
    survey: &'a AccessSurvey<'a>,
    /// Whether rules may say different things of principals that have the same rights.
    sees_callers: bool,
    /// What policies say about the tools of each server, in their order.
    decisions: HashMap<String, Vec<PolicyDecisions>>,
    /// What rules say about the tools; the last ones are the newest.
    outlooks: Vec<RuleOutlook>,
    is_own_logic: bool,
}

/// What a policy says about each tool of a server.
type PolicyDecisions = (Policy, Vec<Result<Decision, String>>);

/// What rules say about each tool, as far as somebody has asked.
struct RuleOutlook {
    rules: RuleSet,
    /// Who calls, if the rules see that.
    view: Option<GateView>,
    gate: GateId,
    found: Vec<Option<Outlook>>,
}

impl<'a> SharedRights<'a> {
    /// Prepares to find rights; `digest` is that of the component.
    pub fn new(survey: &'a AccessSurvey<'a>, digest: &str) -> Self {
        let names_callers = |text: &String| text.contains("principal");
        let mut conditions = all_rules(survey.config).filter_map(|rule| rule.rule.condition.as_ref());
        let sees_callers = conditions.any(names_callers);
        let (decisions, outlooks) = Default::default();
        SharedRights { survey, sees_callers, decisions, outlooks, is_own_logic: digest != EMBEDDED_DIGEST }
    }

    /// Reports whether principals with views that are the same but for who uses them have the same rights.
    pub fn ignores_callers(&self) -> bool {
        !self.sees_callers && !self.is_own_logic
    }

    /// Returns the right of a principal with this view to each of the survey's tools, without the names of the tools.
    pub fn rights(&mut self, logic: &mut Supervisor, view: &GateView) -> Result<Vec<AccessRight>, GateError> {
        let settings = gate::settings(logic, self.survey.config, view)?;
        // Another component may decide otherwise about a call than about a name, and what an ambiguous capability grants
        // depends on all tools.
        if self.is_own_logic || has_ambiguous_grants(&settings.policy) {
            return self.survey.rights(logic, view);
        }
        let mut rights = Vec::with_capacity(self.survey.tools.len());
        for tools in self.survey.tools.chunk_by(|one, other| one.tool.server == other.tool.server) {
            let first = rights.len();
            let server = &tools[0].tool.server;
            let decided = self.decisions(logic, &settings.policy, server, first..first + tools.len())?;
            rights.extend(decided.iter().map(right_of));
        }
        if !settings.rules.lists.is_empty() {
            self.apply_rules(logic, &settings, view, &mut rights)?;
        }
        Ok(rights)
    }

    /// Returns what a policy says about the tools of a server, which are at these places.
    fn decisions(
        &mut self,
        logic: &mut Supervisor,
        policy: &Policy,
        server: &str,
        places: std::ops::Range<usize>,
    ) -> Result<&[Result<Decision, String>], GateError> {
        let part = part_of(policy, server);
        let known = self.decisions.entry(server.to_owned()).or_default();
        if let Some(place) = known.iter().position(|(other, _)| *other == part) {
            return Ok(&known[place].1);
        }
        let mut found = Vec::with_capacity(places.len());
        for place in places {
            let (item, annotations) = (&self.survey.tools[place], self.survey.annotations[place]);
            found.push(logic.decide(&part, &item.tool, annotations)?.map_err(|why| why.error_text()));
        }
        if known.len() == MOST_KEPT {
            known.remove(0);
        }
        known.push((part, found));
        Ok(known.last().map(|(_, found)| &found[..]).unwrap_or_default())
    }

    /// Restricts rights by the rules that see arguments, people and what happened before.
    fn apply_rules(
        &mut self,
        logic: &mut Supervisor,
        settings: &Settings,
        view: &GateView,
        rights: &mut [AccessRight],
    ) -> Result<(), GateError> {
        let caller = self.sees_callers.then(|| view.clone());
        let same = |known: &RuleOutlook| known.rules == settings.rules && known.view == caller;
        let place = match self.outlooks.iter().position(same) {
            Some(place) => place,
            None => {
                if self.outlooks.len() == MOST_KEPT {
                    logic.close_gate(self.outlooks.remove(0).gate)?;
                }
                let open_view = GateView { rules: view.rules.clone(), ..GateView::default() };
                let all = gate::settings(logic, self.survey.config, &open_view)?;
                let gate = open(logic, &all, &self.survey.offers)?.gate;
                let found = vec![None; self.survey.tools.len()];
                self.outlooks.push(RuleOutlook { rules: settings.rules.clone(), view: caller, gate, found });
                self.outlooks.len() - 1
            }
        };
        let outlook = &mut self.outlooks[place];
        let circumstances = circumstances(view, self.survey.labels);
        for ((right, item), known) in rights.iter_mut().zip(&self.survey.tools).zip(&mut outlook.found) {
            if right.verdict == AccessVerdict::Deny {
                continue;
            }
            let found = match known {
                Some(found) => found.clone(),
                None => known.insert(logic.foresee(outlook.gate, &item.tool, &circumstances)?).clone(),
            };
            restrict(right, found, &settings.rules);
        }
        Ok(())
    }
}

fn right_of(decided: &Result<Decision, String>) -> AccessRight {
    match decided {
        Ok(Decision { verdict, trace }) => AccessRight {
            name: None,
            verdict: Verdict::into(*verdict),
            conditions: Vec::new(),
            rule: trace.last().cloned().unwrap_or_default(),
            trace: trace.clone(),
        },
        // A principal whose gate cannot be opened may use nothing.
        Err(why) => AccessRight::denied(why),
    }
}

/// Returns what a policy says about a server and its tools, so that policies that say the same of it are equal.
pub(super) fn part_of(policy: &Policy, server: &str) -> Policy {
    let Policy { servers, selection, choice, read_only, destructive, capabilities } = policy;
    let of_server = |list: &Vec<SelectedServer>| list.iter().filter(|chosen| chosen.id == server).cloned().collect();
    let named = |list: &Vec<SelectedServer>| {
        let own: Vec<_> = of_server(list);
        // A selection must name a server, even if it does not name this one.
        let other = list.first().filter(|_| own.is_empty());
        let other = other.map(|other| SelectedServer { id: other.id.clone(), tools: Vec::new() });
        own.into_iter().chain(other).collect::<Vec<_>>()
    };
    let selection = selection.as_ref().map(named);
    let other = selection.iter().flatten().next().map(|selected| selected.id.clone());
    // What an ambiguous capability means depends on which servers and tools there are.
    let needs_all = has_ambiguous_grants(policy);
    let part = servers.iter().filter_map(|rules| match needs_all {
        _ if rules.id == server => Some(rules.clone()),
        true => Some(ServerRules { tools: rules.tools.clone(), ..without_filters(&rules.id) }),
        false => other.as_ref().is_some_and(|other| *other == rules.id).then(|| without_filters(&rules.id)),
    });
    let own = servers.iter().find(|rules| rules.id == server);
    let required = |grant: &String| {
        let of_tools = |own: &ServerRules| own.tools.iter().any(|tool| tool.requires.contains(grant));
        own.is_some_and(|own| own.requires.contains(grant) || of_tools(own))
    };
    let is_about = |grant: &&String| {
        let id = grant.strip_prefix("server:");
        let id = id.or_else(|| grant.strip_prefix("tool:").map(|tool| tool.split('/').next().unwrap_or_default()));
        needs_all || id.is_none_or(|id| id == server || id == "*") || required(grant)
    };
    Policy {
        servers: part.collect(),
        choice: choice.as_ref().map(of_server),
        selection,
        read_only: *read_only,
        destructive: *destructive,
        capabilities: capabilities.as_ref().map(|grants| grants.iter().filter(is_about).cloned().collect()),
    }
}

/// Reports whether a capability could mean several servers and tools.
fn has_ambiguous_grants(policy: &Policy) -> bool {
    let is_ambiguous = |rest: &str| match rest {
        "integration" => policy.servers.iter().any(|server| server.id == rest),
        _ => rest.contains('_'),
    };
    let mut grants = policy.capabilities.iter().flatten();
    grants.any(|grant| grant.strip_prefix("mcp_").is_some_and(is_ambiguous))
}

fn without_filters(id: &str) -> ServerRules {
    let rules = Rules { allow: None, deny: Vec::new() };
    ServerRules { id: id.to_owned(), rules, ask: Vec::new(), requires: Vec::new(), tools: Vec::new() }
}

/// How many parts are kept that principals may share.
const MOST_KEPT: usize = 8;
