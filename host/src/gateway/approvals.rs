//! The calls that wait for an admin's approval, and how approvals count.
//!
//! The list is bounded, and only in the memory of this process: each call holds its place for as long as its caller
//! waits. If the list is full, a call is refused.

use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use tokio::sync::{oneshot, watch};
use tracing::debug;

use super::GatewayState;
use super::seal::{RulesDigest, SealedCall, SealedState};
use super::sealing_keys::random;
use crate::config::model::{Approvers, StoreFailurePolicy};
use crate::gate::{AdminDecision, ApprovalText, Consent, Gate};
use crate::lock::lock;
use crate::logic::types::execution::Question;
use crate::sha256::hex;
use crate::store::UNREACHABLE;

/// The calls that wait for an admin's approval.
#[derive(Default)]
pub(super) struct WaitingCalls {
    /// The oldest first.
    calls: Mutex<Vec<WaitingCall>>,
    count: watch::Sender<u64>,
}

/// A call that waits for an admin's approval.
struct WaitingCall {
    shown: ShownCall,
    /// The rules by which the call needs an approval.
    rules: RulesDigest,
    answer: oneshot::Sender<AdminDecision>,
}

/// What an admin sees of a call that waits.
#[derive(Debug, Clone)]
pub(super) struct ShownCall {
    /// Names this call and no other, of any replica.
    pub(super) id: String,
    /// Who makes the call.
    pub(super) principal: String,
    pub(super) text: ApprovalText,
    pub(super) since: SystemTime,
    pub(super) until: SystemTime,
}

/// The reason why a decision does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UnusableDecision {
    /// No call waits under this id any more.
    Unknown,
    /// The admin made the call.
    Own,
    /// The rules have changed since the call was shown.
    OtherRules,
}

impl WaitingCalls {
    /// Returns all calls that wait, the oldest first.
    pub(super) fn list(&self) -> Vec<ShownCall> {
        lock(&self.calls).iter().map(|call| call.shown.clone()).collect()
    }

    /// Returns a count that changes with the list.
    pub(super) fn changed(&self) -> watch::Receiver<u64> {
        self.count.subscribe()
    }

    /// Decides a call: the first decision counts.
    pub(super) fn decide(
        &self,
        id: &str,
        decision: AdminDecision,
        rules: &RulesDigest,
    ) -> Result<(), UnusableDecision> {
        let decided = {
            let mut calls = lock(&self.calls);
            let place = calls.iter().position(|call| call.shown.id == id).ok_or(UnusableDecision::Unknown)?;
            if calls[place].shown.principal == *decision.admin {
                return Err(UnusableDecision::Own);
            }
            let call = calls.remove(place);
            if call.rules != *rules {
                Err(UnusableDecision::OtherRules)
            } else {
                call.answer.send(decision).map_err(|_| UnusableDecision::Unknown)
            }
        };
        self.announce();
        decided
    }

    /// Withdraws the calls that need an approval by other rules than these; they are decided again.
    pub(super) fn withdraw_others(&self, rules: &RulesDigest) {
        lock(&self.calls).retain(|call| call.rules == *rules);
        self.announce();
    }

    /// Puts a call on the list until the guard is dropped; an error says why there is no room.
    fn enter(&self, shown: ShownCall, rules: RulesDigest) -> Result<PlaceGuard<'_>, &'static str> {
        let (sender, decided) = oneshot::channel();
        {
            let mut calls = lock(&self.calls);
            let bytes = |call: &ShownCall| call.text.arguments.len() + call.text.meta.as_ref().map_or(0, String::len);
            if calls.len() >= MOST
                || calls.iter().map(|call| bytes(&call.shown)).sum::<usize>() + bytes(&shown) > MOST_BYTES
            {
                return Err("too many calls wait for an admin's approval already");
            }
            if calls.iter().filter(|call| call.shown.principal == shown.principal).count() >= MOST_OF_ONE {
                return Err("too many calls of this principal wait for an admin's approval already");
            }
            calls.push(WaitingCall { shown: shown.clone(), rules, answer: sender });
        }
        self.announce();
        Ok(PlaceGuard { waiting: self, id: shown.id, decided })
    }

    fn announce(&self) {
        self.count.send_modify(|count| *count += 1);
    }
}

/// The place of a call on the list, which it leaves on drop.
struct PlaceGuard<'a> {
    waiting: &'a WaitingCalls,
    id: String,
    decided: oneshot::Receiver<AdminDecision>,
}

impl PlaceGuard<'_> {
    /// Leaves the list, and returns the decision if an admin was first.
    fn leave(&mut self) -> Option<AdminDecision> {
        let left = {
            let mut calls = lock(&self.waiting.calls);
            let before = calls.len();
            calls.retain(|call| call.shown.id != self.id);
            calls.len() < before
        };
        if left {
            self.waiting.announce();
        }
        self.decided.try_recv().ok()
    }
}

impl Drop for PlaceGuard<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}

/// A call that admins were asked about; it leaves their list on drop.
pub(super) struct AskedAdmins<'a> {
    state: &'a GatewayState,
    place: PlaceGuard<'a>,
    /// The rules by which the call needs an approval.
    rules: RulesDigest,
    limit: Duration,
}

impl AskedAdmins<'_> {
    /// Waits for the decision of an admin or for that of the client, whichever is first. If the rules change meanwhile,
    /// the call must be decided again.
    pub(super) async fn decision(mut self, client: impl Future<Output = Consent>) -> Consent {
        let decision = tokio::select! {
            biased;
            decision = tokio::time::timeout(self.limit, &mut self.place.decided) => match decision {
                Ok(Ok(decision)) => decision,
                Ok(Err(_)) => return Consent::Pending,
                Err(_) => return Consent::Failed(format!("no admin decided it within {:?}", self.limit)),
            },
            decided = client => match self.place.leave() {
                // This admin was told that the decision counts.
                Some(decision) => decision,
                None => return decided,
            },
        };
        match decision.approved && self.state.rules() != self.rules {
            true => Consent::Pending,
            false => Consent::Admin(decision),
        }
    }
}

impl GatewayState {
    /// Returns who approves calls.
    pub(super) fn approvers(&self) -> Approvers {
        self.registry.config().settings.gateway.approvers
    }

    /// Returns a digest of the rules in force.
    pub(super) fn rules(&self) -> RulesDigest {
        self.active().rules
    }

    /// Shows a call to admins, who then have until the limit to decide it. If the rules are not those any more by which
    /// the call needs an approval, it must be decided again.
    pub(super) fn show_to_admins(
        &self,
        principal: &str,
        question: &Question,
        meta: Option<&str>,
        limit: Duration,
        rules: RulesDigest,
    ) -> Result<AskedAdmins<'_>, Consent> {
        if self.rules() != rules {
            return Err(Consent::Pending);
        }
        self.view(principal).map_err(|revoked| Consent::Failed(revoked.to_string()))?;
        let id = random::<16>().ok_or(Consent::NoApprover)?;
        let since = SystemTime::now();
        let shown = ShownCall {
            id: hex(&id),
            principal: principal.to_owned(),
            text: ApprovalText::new(question, meta, &self.registry.secrets()),
            since,
            until: since + limit,
        };
        let place = self.waiting.enter(shown, rules).map_err(|full| Consent::Failed(full.to_owned()))?;
        Ok(AskedAdmins { state: self, place, rules, limit })
    }

    /// Uses the answer to a sealed question about this call, and returns it if it counts: one approval starts one call,
    /// even if it is sent several times. An error is the outcome of the question.
    pub(super) async fn use_answer(
        &self,
        sealed: &SealedState,
        subject: &SealedCall,
        approved: bool,
    ) -> Result<Option<bool>, Consent> {
        let seal = &self.sealer;
        if !seal.verify(sealed, subject) {
            return Ok(None);
        }
        let unused = match seal.spend(sealed, &subject.principal).await {
            Ok(unused) => unused,
            Err(error) => match self.registry.config().settings.gateway.on_store_failure {
                StoreFailurePolicy::Closed => {
                    debug!("an approval does not count: {error}");
                    return Err(Consent::Failed(UNREACHABLE.to_owned()));
                }
                StoreFailurePolicy::Open => seal.spend_here(sealed, &subject.principal),
            },
        };
        Ok(unused.then_some(approved))
    }

    /// Returns the call that a question of this principal is about, for its seal, with the `_meta` that is shown with it.
    pub(super) fn subject(&self, principal: &str, question: &Question, meta: Option<&str>) -> SealedCall {
        let Question { tool, arguments, .. } = question;
        SealedCall {
            principal: principal.to_owned(),
            server: tool.server.clone(),
            tool: tool.tool.clone(),
            arguments: arguments.clone(),
            meta: meta.map(str::to_owned),
            rules: self.rules(),
        }
    }
}

/// Returns how long a person has to decide a call: as long as the call may take.
pub(super) fn time_to_decide(gate: &Gate, question: &Question) -> Duration {
    let total = gate.link(&question.tool.server).map_or(Duration::MAX, |link| link.server().timeouts.total);
    total.min(ASK_LIMIT)
}

/// Long, because a person may have to decide.
pub(super) const ASK_LIMIT: Duration = Duration::from_secs(600);
/// The most calls that wait at a time.
const MOST: usize = 100;
/// The most calls of one principal that wait at a time, so that none keeps the others out.
const MOST_OF_ONE: usize = 25;
/// The most bytes of arguments of all calls that wait.
const MOST_BYTES: usize = 8 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: RulesDigest = [1; 32];

    fn shown(id: &str, principal: &str, bytes: usize) -> ShownCall {
        let text = ApprovalText {
            tool: "\"do\"".to_owned(),
            server: "\"x\"".to_owned(),
            rule: "ask: \"do\"".to_owned(),
            bytes,
            arguments: "a".repeat(bytes),
            meta: None,
        };
        let since = SystemTime::UNIX_EPOCH;
        ShownCall { id: id.to_owned(), principal: principal.to_owned(), text, since, until: since }
    }

    fn says(admin: &str, approved: bool) -> AdminDecision {
        AdminDecision { admin: admin.into(), approved }
    }

    #[test]
    fn the_first_decision_of_somebody_else_counts() {
        let waiting = WaitingCalls::default();
        let mut place = waiting.enter(shown("1", "ann", 2), RULES).unwrap();
        assert_eq!(waiting.decide("2", says("bob", true), &RULES), Err(UnusableDecision::Unknown));
        assert_eq!(waiting.decide("1", says("ann", true), &RULES), Err(UnusableDecision::Own));
        assert!(place.decided.try_recv().is_err() && waiting.list().len() == 1);
        assert_eq!(waiting.decide("1", says("bob", true), &RULES), Ok(()));
        assert_eq!(waiting.decide("1", says("eve", false), &RULES), Err(UnusableDecision::Unknown));
        assert_eq!(place.leave(), Some(says("bob", true)), "also if the client decides before the call hears of it");
        let mut place = waiting.enter(shown("2", "ann", 2), RULES).unwrap();
        assert_eq!(place.leave(), None);
        assert_eq!(waiting.decide("2", says("bob", true), &RULES), Err(UnusableDecision::Unknown));
    }

    #[test]
    fn a_call_whose_caller_has_gone_or_whose_rules_changed_waits_no_more() {
        let waiting = WaitingCalls::default();
        let changed = waiting.changed();
        drop(waiting.enter(shown("1", "ann", 2), RULES).unwrap());
        assert!(waiting.list().is_empty() && changed.has_changed().unwrap());
        let mut place = waiting.enter(shown("2", "ann", 2), RULES).unwrap();
        waiting.withdraw_others(&[2; 32]);
        assert!(
            waiting.list().is_empty() && matches!(place.decided.try_recv(), Err(oneshot::error::TryRecvError::Closed))
        );
        let mut place = waiting.enter(shown("3", "ann", 2), RULES).unwrap();
        assert_eq!(waiting.decide("3", says("bob", true), &[2; 32]), Err(UnusableDecision::OtherRules));
        assert!(waiting.list().is_empty() && place.decided.try_recv().is_err());
    }

    #[test]
    fn a_full_list_refuses_and_no_principal_fills_it_alone() {
        let waiting = WaitingCalls::default();
        let enter = |id: usize, principal: &str| waiting.enter(shown(&id.to_string(), principal, 2), RULES);
        let own: Vec<_> = (0..MOST_OF_ONE).map(|id| enter(id, "ann").unwrap()).collect();
        assert!(enter(1000, "ann").err().unwrap().contains("of this principal"));
        let others: Vec<_> = (MOST_OF_ONE..MOST).map(|id| enter(id, &id.to_string()).unwrap()).collect();
        assert!(enter(1000, "bob").err().unwrap().starts_with("too many calls wait"));
        drop((own, others));
        let large = waiting.enter(shown("1", "ann", MOST_BYTES), RULES).unwrap();
        assert!(enter(1000, "bob").is_err());
        drop(large);
        assert!(enter(1000, "bob").is_ok());
    }
}
