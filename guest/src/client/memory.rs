//! What the client remembers of its agent for rules: there is one agent, and no clock.

use std::collections::BTreeMap;

use crate::execution::ToolResult;
use crate::rules::{AgentContext, CallCount, Circumstances};

/// What the agent of a client has seen, and how often its calls fitted rules with limits.
#[derive(Debug, Default)]
pub(super) struct Memory {
    context: AgentContext,
    calls: BTreeMap<String, u32>,
}

impl Memory {
    /// Returns what surrounds a call now.
    pub(super) fn circumstances(&self) -> Circumstances {
        Circumstances { context: self.context.clone(), ..Circumstances::default() }
    }

    /// Returns the labels that the agent has now.
    pub(super) fn labels(&self) -> Vec<String> {
        self.context.labels.clone()
    }

    /// Adds what a call taught.
    pub(super) fn learn(&mut self, learned: Option<&AgentContext>) {
        learned.iter().for_each(|learned| self.context.add(learned));
    }

    /// Adds what a result taught, unless the agent wrote something to its server since the call was judged with these
    /// labels: it may be its own words.
    pub(super) fn learn_from(&mut self, result: &ToolResult, judged_with: &[String]) {
        let written = result.tool.as_ref().map(|tool| format!("written:{}", tool.server));
        let is_new = |label: &String| self.context.labels.contains(label) && !judged_with.contains(label);
        if !written.is_some_and(|label| is_new(&label)) {
            self.learn(result.learned.as_ref());
        }
    }

    /// Counts a call for each of these rules. Without a clock, the time of a limit never ends.
    pub(super) fn count(&mut self, rules: Vec<String>) -> Vec<CallCount> {
        let mut count = |rule| {
            let calls = self.calls.entry(rule).or_default();
            *calls = calls.saturating_add(1);
            CallCount { calls: *calls, ends_in_ms: u64::MAX }
        };
        rules.into_iter().map(&mut count).collect()
    }
}
