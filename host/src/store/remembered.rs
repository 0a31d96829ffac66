//! What a replica remembers of agents beside a store that replicas share, and how it gets back into a store that lost it.

use std::sync::Weak;
use std::time::Duration;

use tokio::sync::watch;
use tracing::debug;

use super::{StoreError, StoreState};
use crate::agent::RememberedAgent;
use crate::logic::types::rules::AgentContext;

/// Adds what this replica remembers of an agent to what the store says. Nobody knows what a stranger has seen.
pub(super) fn unite(mut seen: AgentContext, own: AgentContext, is_stranger: bool) -> AgentContext {
    let mut more = own.labels;
    if is_stranger {
        more.push(UNTRUSTED.to_owned());
    }
    for label in more {
        if !seen.labels.contains(&label) {
            seen.labels.push(label);
        }
    }
    seen
}

/// Adds labels that this replica remembers to the agent with these names in a list.
pub(super) fn add_own_labels(listed: &mut Vec<RememberedAgent>, names: (String, Option<String>), labels: Vec<String>) {
    if labels.is_empty() {
        return;
    }
    let (principal, part) = names;
    let place = listed.iter().position(|agent| agent.principal == principal && agent.part == part);
    let place = place.unwrap_or_else(|| {
        listed.push(RememberedAgent { principal, part, labels: Vec::new(), known: 0 });
        listed.len() - 1
    });
    for label in labels {
        if !listed[place].labels.contains(&label) {
            listed[place].labels.push(label);
        }
    }
}

/// Writes what this replica remembers of agents into the store whenever that has lost something, so that it counts at the
/// other replicas too.
pub(super) async fn restore_after_losses(state: Weak<StoreState>, mut losses: watch::Receiver<u64>) {
    while losses.changed().await.is_ok() {
        while let Some(state) = state.upgrade() {
            match state.restore().await {
                Ok(()) => break,
                Err(error) => debug!("what this replica remembers is not in the store yet: {error}"),
            }
            drop(state);
            tokio::time::sleep(RESTORE_PAUSE).await;
        }
    }
}

impl StoreState {
    /// Writes the labels of all agents that this replica remembers into the store.
    async fn restore(&self) -> Result<(), StoreError> {
        let Some(shared) = &self.shared else { return Ok(()) };
        let idle = shared.last_idle();
        if idle.is_zero() {
            // The store was never asked about an agent.
            return Ok(());
        }
        for key in self.local.remembered() {
            let labels = self.local.peek(&key, false, idle).labels;
            if !labels.is_empty() {
                shared.learn(&key, None, &AgentContext { labels, known: Vec::new() }, idle).await?;
            }
        }
        Ok(())
    }
}

/// The label of agents that have seen something that a stranger may have written.
const UNTRUSTED: &str = "untrusted";
/// How long to wait before what this replica remembers is written again.
const RESTORE_PAUSE: Duration = Duration::from_millis(200);
