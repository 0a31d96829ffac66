//! What rules see when a call is replayed: who called, when, and what the agent had seen, as the candidate's own rules
//! would have remembered it.

use std::time::SystemTime;

use super::directive::RecordedDirective;
use crate::agent::{Agent, AgentKey, AgentMemory, LimitCounts};
use crate::calendar;
use crate::config::model::{Config, ContextRules};
use crate::gate_settings::{LOCAL, all_rules, views};
use crate::logic::types::execution::{Directive, Event};
use crate::logic::types::rules::{AgentContext, CallCount, Caller, Circumstances};

/// What rules see that saw nothing when a call was recorded.
#[derive(Clone)]
pub struct CallSurroundings<'a> {
    /// Who called, when, and what the agent had seen.
    pub circumstances: Circumstances,
    /// Counts the call for rules with limits; `None` takes what was recorded.
    pub count: Option<CountCalls<'a>>,
}

/// Counts a call for rules with limits.
pub type CountCalls<'a> = &'a dyn Fn(&[String]) -> Vec<CallCount>;

impl CallSurroundings<'_> {
    /// Returns nothing, for a call that is replayed as it was.
    pub fn none() -> Self {
        let caller = Caller { principal: None, groups: Vec::new(), admin: false, client: String::new() };
        let circumstances = Circumstances { caller, now_ms: None, context: AgentContext::default() };
        CallSurroundings { circumstances, count: None }
    }

    /// Answers a directive about the surroundings of a call.
    pub(crate) fn answer(&self, directive: &Directive) -> Option<Event> {
        match directive {
            Directive::Circumstances(_) => Some(Event::Circumstances(self.circumstances.clone())),
            Directive::Count(rules) => Some(Event::Counted(self.counted(rules))),
            _ => None,
        }
    }

    /// Counts the call for rules that did not count it when it was recorded.
    pub(super) fn counted(&self, rules: &[String]) -> Vec<CallCount> {
        self.count.map(|count| count(rules)).unwrap_or_default()
    }

    /// Adds what the agent has seen by the candidate's rules to what was recorded, and counts by the candidate's limits.
    pub(super) fn add_to(&self, event: Event, now: &RecordedDirective) -> Event {
        match event {
            Event::Circumstances(mut recorded) => {
                let AgentContext { labels, known } = &mut recorded.context;
                let own = &self.circumstances.context;
                let new: Vec<_> = own.labels.iter().filter(|label| !labels.contains(label)).cloned().collect();
                labels.extend(new);
                known.extend(&own.known);
                Event::Circumstances(recorded)
            }
            Event::Counted(counts) => match (now, self.count) {
                (RecordedDirective::Count(rules), Some(count)) => Event::Counted(count(rules)),
                _ => Event::Counted(counts),
            },
            other => other,
        }
    }
}

/// What the agents of recorded calls would have seen with a candidate's configuration.
#[derive(Default)]
pub(crate) struct ReplayedAgents {
    memory: AgentMemory,
    counts: LimitCounts,
}

/// A recorded call, as its agent sees it.
pub(crate) struct ReplayedCall<'a> {
    agents: &'a ReplayedAgents,
    config: Option<&'a Config>,
    agent: Agent,
    rules: ContextRules,
    now_ms: u64,
}

impl ReplayedAgents {
    /// Returns the view of a call of a principal at this time.
    pub(crate) fn call<'a>(
        &'a self,
        config: Option<&'a Config>,
        principal: Option<&str>,
        at: Option<SystemTime>,
    ) -> ReplayedCall<'a> {
        let principal = principal.unwrap_or(LOCAL);
        let view = config.and_then(|config| views(config).into_iter().find(|(name, _)| name == principal));
        let agent = view.map_or_else(
            || Agent { principal: principal.into(), admin: principal == LOCAL, ..Agent::default() },
            |(_, view)| view.agent,
        );
        let since = at.and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok()).unwrap_or_default();
        let now_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        let rules = config.map(|config| config.settings.context).unwrap_or_default();
        ReplayedCall { agents: self, config, agent, rules, now_ms }
    }
}

impl ReplayedCall<'_> {
    /// Returns what rules see of the call, which this function counts.
    pub(crate) fn surroundings<'s>(&self, count: CountCalls<'s>) -> CallSurroundings<'s> {
        let context = self.agents.memory.recall(&self.key(), true, self.now_ms, self.rules.idle);
        let circumstances = Circumstances { caller: self.agent.caller(""), now_ms: Some(self.now_ms), context };
        CallSurroundings { circumstances, count: Some(count) }
    }

    /// Counts the call for rules with limits.
    pub(crate) fn count(&self, rules: &[String]) -> Vec<CallCount> {
        let limit = |name: &String| {
            let found = all_rules(self.config?).find(|rule| rule.rule.name == *name)?;
            found.rule.limit
        };
        let count = |name: &String| match limit(name) {
            Some(limit) => self.agents.counts.count(name, limit, &self.agent.principal, self.now_ms),
            None => CallCount { calls: 1, ends_in_ms: 0 },
        };
        rules.iter().map(count).collect()
    }

    /// Remembers what the agent learned by the directives of the call.
    pub(crate) fn learn(&self, directives: &[RecordedDirective]) {
        let learned = directives.iter().filter_map(|directive| match directive {
            RecordedDirective::Request(sent) => sent.learned.clone(),
            RecordedDirective::Done(ended) => ended.learned.clone(),
            _ => None,
        });
        learned.for_each(|learned| self.agents.memory.learn(&self.key(), learned, self.now_ms));
    }

    /// A session or trace is not recorded, so the whole principal is one agent.
    fn key(&self) -> AgentKey {
        AgentKey::new(&self.rules, &self.agent, None, None)
    }
}

/// Returns the time of a record.
pub(crate) fn time_of(at: &str) -> Option<SystemTime> {
    calendar::parse(at)
}
