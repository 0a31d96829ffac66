//! Notices that a shared store lost what was in it: it was emptied or replaced, or has forgotten writes.
//!
//! The store has an epoch, a random value that is written once. A replica that sees another one than before trusts nothing
//! that the store should have told it, until an operator accepts the store as it is.

use std::collections::HashSet;
use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tracing::warn;

use crate::agent::AgentKey;
use crate::lock::lock;
use crate::sha256::{hex, sha256};

/// Which epoch of a shared store a replica trusts.
#[derive(Default)]
pub(super) struct EpochWatch {
    state: Mutex<EpochState>,
    /// How often the store has lost something.
    losses: watch::Sender<u64>,
}

#[derive(Default)]
struct EpochState {
    /// The epoch that the store had last; `None` if it was never reached.
    current: Option<String>,
    /// The epoch that this replica saw first, or that an operator accepted.
    accepted: Option<String>,
    /// When the store was found to have lost something, until an operator accepts that.
    lost_at: Option<Instant>,
    /// The agents that this replica remembered then.
    remembered: HashSet<AgentKey>,
}

impl EpochWatch {
    /// Notes the epoch that the store has now; returns whether it is another one than before. `remembered` returns the
    /// agents that this replica remembers.
    pub(super) fn note(&self, epoch: &str, remembered: impl FnOnce() -> Vec<AgentKey>) -> bool {
        let mut state = lock(&self.state);
        if state.current.as_deref() == Some(epoch) || epoch.is_empty() {
            return false;
        }
        let is_first = state.current.is_none() && state.accepted.is_none();
        let is_accepted = is_first || state.accepted.as_deref() == Some(epoch);
        state.current = Some(epoch.to_owned());
        if is_accepted {
            state.accepted = Some(epoch.to_owned());
            return true;
        }
        let now: HashSet<AgentKey> = remembered().into_iter().collect();
        if state.lost_at.is_some() {
            // What was learned since the first loss says nothing about what was lost then.
            state.remembered.retain(|key| now.contains(key));
        } else {
            state.remembered = now;
        }
        state.lost_at = Some(Instant::now());
        drop(state);
        self.losses.send_modify(|losses| *losses += 1);
        warn!(
            "the store has lost what was in it: older approvals are void, and agents that this replica does not remember \
             count as untrusted until an operator runs `toolgate context adopt`"
        );
        true
    }

    /// Returns the epoch that the store had last.
    pub(super) fn current(&self) -> Option<String> {
        lock(&self.state).current.clone()
    }

    /// Reports whether the store has lost something that no operator has accepted yet.
    pub(super) fn has_lost(&self) -> bool {
        lock(&self.state).lost_at.is_some()
    }

    /// Returns how often the store has lost something; it changes with the next loss.
    pub(super) fn losses(&self) -> watch::Receiver<u64> {
        self.losses.subscribe()
    }

    /// Returns the time until which the other replicas may not have written yet what they remember.
    pub(super) fn settles_at(&self) -> Option<Instant> {
        let settles_at = lock(&self.state).lost_at? + SETTLING_TIME;
        (settles_at > Instant::now()).then_some(settles_at)
    }

    /// Reports whether nobody knows what an agent has seen, because the store has lost it and this replica does not
    /// remember the agent from before.
    pub(super) fn is_stranger(&self, key: &AgentKey, is_remembered: bool) -> bool {
        let mut state = lock(&self.state);
        if state.lost_at.is_none() {
            return false;
        }
        if !is_remembered {
            // What this replica learns about the agent from now on says nothing about what was lost.
            state.remembered.remove(key);
        }
        !state.remembered.contains(key)
    }

    /// Accepts the store as it is; returns its epoch, if it was ever reached, and whether it had lost something.
    pub(super) fn adopt(&self) -> Option<(String, bool)> {
        let mut state = lock(&self.state);
        let epoch = state.current.clone()?;
        state.accepted = Some(epoch.clone());
        Some((epoch, state.forget_loss()))
    }

    /// Accepts an epoch that an operator has accepted at another replica, now or as soon as this one sees it.
    pub(super) fn accept(&self, epoch: &str) {
        let mut state = lock(&self.state);
        state.accepted = Some(epoch.to_owned());
        if state.current.as_deref() == Some(epoch) {
            state.forget_loss();
        }
    }
}

impl EpochState {
    fn forget_loss(&mut self) -> bool {
        self.remembered = HashSet::new();
        self.lost_at.take().is_some()
    }
}

/// Returns a short digest of an epoch, which is the same at each replica.
pub(super) fn mark(epoch: &str) -> String {
    hex(&sha256(epoch.as_bytes())[..8])
}

/// Draws an epoch that no store has.
pub(super) fn draw() -> String {
    format!("{:032x}", fastrand::u128(..))
}

/// How long other replicas may take to notice a loss and to write what they remember. They look every second.
const SETTLING_TIME: Duration = Duration::from_millis(2_000);

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(name: &str) -> AgentKey {
        AgentKey::of_test(name, None)
    }

    /// Notes an epoch while the replica remembers these agents.
    fn note(watch: &EpochWatch, epoch: &str, remembered: &[&str]) {
        watch.note(epoch, || remembered.iter().map(|name| agent(name)).collect());
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_epoch_is_accepted_and_another_one_makes_strangers_of_those_who_are_not_remembered() {
        let watch = EpochWatch::default();
        assert!(watch.adopt().is_none(), "there is nothing to accept yet");
        note(&watch, "a", &[]);
        note(&watch, "a", &[]);
        note(&watch, "", &["ann"]);
        assert!(!watch.has_lost() && !watch.is_stranger(&agent("eve"), false));
        note(&watch, "b", &["ann", "bob"]);
        assert!(watch.has_lost() && watch.settles_at().is_some());
        assert!(!watch.is_stranger(&agent("ann"), true) && watch.is_stranger(&agent("eve"), false));
        assert!(watch.is_stranger(&agent("eve"), true), "what it learns now says nothing about what was lost");
        assert!(watch.is_stranger(&agent("bob"), false) && watch.is_stranger(&agent("bob"), true), "bob was forgotten");
        tokio::time::advance(SETTLING_TIME).await;
        assert!(watch.settles_at().is_none());
        note(&watch, "c", &["bob", "eve"]);
        assert!(["ann", "bob", "eve"].iter().all(|name| watch.is_stranger(&agent(name), true)), "a second loss");
        note(&watch, "a", &[]);
        assert!(watch.has_lost(), "the first epoch is back, and what came after it is lost");
        assert_eq!(watch.adopt(), Some(("a".to_owned(), true)));
        assert!(!watch.has_lost() && !watch.is_stranger(&agent("eve"), false));
        assert_eq!(watch.adopt(), Some(("a".to_owned(), false)));
    }

    #[test]
    fn what_an_operator_accepted_elsewhere_is_accepted_before_and_after_it_is_seen() {
        let watch = EpochWatch::default();
        note(&watch, "a", &[]);
        watch.accept("b");
        note(&watch, "b", &[]);
        assert!(!watch.has_lost());
        note(&watch, "c", &[]);
        watch.accept("d");
        assert!(watch.has_lost(), "another one was accepted");
        watch.accept("c");
        assert!(!watch.has_lost());
    }
}
