//! What rules see of a gate's calls besides their arguments, and what its agent learns.

use std::time::{SystemTime, UNIX_EPOCH};

use super::Gate;
use crate::agent::{AgentKey, LimitCounts, clock_ms};
use crate::config::model::RuleConfig;
use crate::gate_settings::all_rules;
use crate::logic::types::rules::{AgentContext, CallCount, CallLimit, Circumstances};

impl Gate {
    /// Reports whether the configuration has rules or says what results mean.
    pub(crate) fn has_rules(&self) -> bool {
        let config = self.registry.config();
        !config.settings.results.is_empty() || all_rules(&config).next().is_some()
    }

    /// Returns who calls now, and what the agent has seen.
    pub(crate) fn circumstances(&self, client: &str, trace: Option<&str>, with_known: bool) -> Circumstances {
        let idle = self.registry.config().settings.context.idle;
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Circumstances {
            caller: self.view().agent.caller(client),
            now_ms: u64::try_from(since.as_millis()).ok(),
            context: self.registry.agent_memory().recall(&self.agent_key(trace), with_known, clock_ms(), idle),
        }
    }

    /// Notes that the agent is not idle, whether or not rules are asked about its call.
    pub(super) fn note_activity(&self, trace: Option<&str>) {
        if self.has_rules() {
            let idle = self.registry.config().settings.context.idle;
            self.registry.agent_memory().touch(&self.agent_key(trace), clock_ms(), idle);
        }
    }

    /// Remembers what a result of a server taught the agent.
    pub(super) fn learn_from(&self, trace: Option<&str>, server: &str, learned: Option<AgentContext>) {
        if let Some(learned) = learned {
            self.registry.agent_memory().learn_from(&self.agent_key(trace), server, learned, clock_ms());
        }
    }

    /// Remembers what the agent has learned.
    pub(super) fn learn(&self, trace: Option<&str>, learned: Option<AgentContext>) {
        if let Some(learned) = learned {
            self.registry.agent_memory().learn(&self.agent_key(trace), learned, clock_ms());
        }
    }

    /// Counts a call for these rules, in order, or only says what that would give. A rule that is not configured any
    /// more counts as one that has reached its limit.
    pub(super) fn count(&self, rules: &[String], how: CountMode) -> Vec<CallCount> {
        let (config, view, now) = (self.registry.config(), self.view(), clock_ms());
        let principal = &*view.agent.principal;
        let limit = |name: &String| -> Option<CallLimit> {
            let mut known = all_rules(&config).chain(&view.rules);
            known.find(|RuleConfig { rule, .. }| rule.name == *name).and_then(|found| found.rule.limit)
        };
        let count = match how {
            CountMode::Count => LimitCounts::count,
            CountMode::Foresee => LimitCounts::foresee,
        };
        let each = |name: &String| match limit(name) {
            Some(limit) => count(self.registry.limit_counts(), name, limit, principal, now),
            None => CallCount { calls: u32::MAX, ends_in_ms: 0 },
        };
        rules.iter().map(each).collect()
    }

    fn agent_key(&self, trace: Option<&str>) -> AgentKey {
        let rules = self.registry.config().settings.context;
        AgentKey::new(&rules, &self.view().agent, self.session.as_deref(), trace)
    }
}

/// Whether a call is counted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum CountMode {
    /// It is made, and counts.
    Count,
    /// It is not made.
    Foresee,
}
