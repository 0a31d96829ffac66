//! Runs calls on a candidate and returns what it would have decided differently.

use super::agreement_cache::AgreementCache;
use crate::finished_call::FinishedCall;
use crate::logic::{CallHistory, Component};
use crate::record::compare::compare;
use crate::record::difference::{Difference, DifferenceKind};
use crate::record::replay::{ReplayCall, ReplayError, Replayer};
use crate::record::{
    Candidate, CandidateSettings, DigestCache, LatestOffers, ReplayedAgents, replay_with_offers, steps,
    unknown_principal,
};

/// Runs calls on a candidate, in an instance that is replaced after a crash.
pub(super) struct CandidateRunner {
    component: Component,
    candidate: Candidate,
    replayer: Option<Replayer>,
    digests: DigestCache,
    candidate_settings: CandidateSettings,
    latest_offers: LatestOffers,
    agreed: AgreementCache,
    /// What agents would have seen by the candidate's rules.
    agents: ReplayedAgents,
}

impl CandidateRunner {
    /// Creates a runner for a candidate that has been checked, and its component.
    pub(super) fn new(component: Component, candidate: Candidate) -> Self {
        let (replayer, digests, candidate_settings, latest_offers, agreed, agents) = Default::default();
        CandidateRunner { component, candidate, replayer, digests, candidate_settings, latest_offers, agreed, agents }
    }

    /// Returns the most serious difference between the candidate's decision and the real one, if any.
    pub(super) fn compare(&mut self, finished: FinishedCall) -> Result<Option<Difference>, ReplayError> {
        if self.agreed.knows(&finished) {
            return Ok(None);
        }
        let asked = AgreementCache::inputs(&finished);
        let mut replayer = match self.replayer.take() {
            Some(replayer) => replayer,
            None => Replayer::new(self.component.clone())?,
        };
        let found = self.ask(&mut replayer, finished)?;
        // A call that crashes the component still ends with a result, but the candidate did not produce it.
        if let Some(fault) = replayer.take_fault() {
            return Err(fault.into());
        }
        self.replayer = Some(replayer);
        // Callers cannot see that the reasons differ if the end is the same.
        let gravest =
            found.into_iter().filter(|found| found.kind != DifferenceKind::Trace).min_by_key(|found| found.kind);
        // With rules, the same call may be decided otherwise the next time.
        if let (None, Some(asked), false) = (&gravest, asked, self.candidate.remembers()) {
            self.agreed.remember(asked);
        }
        Ok(gravest)
    }

    fn ask(&mut self, replayer: &mut Replayer, finished: FinishedCall) -> Result<Vec<Difference>, ReplayError> {
        let FinishedCall { history, principal, answer, limit, at, .. } = finished;
        let CallHistory { settings, call, offers, events, directives } = history;
        let live = self.digests.settings(&settings);
        let (steps, changes) = steps(&offers, directives, events, answer, true);
        for offers in std::iter::once(&offers).chain(changes.iter().flatten()) {
            if self.latest_offers.remember(offers) {
                // The candidate may see other tools now, so earlier agreements no longer count.
                self.agreed.forget();
            }
        }
        let settings = match &self.candidate.config {
            Some(config) => self.candidate_settings.settings(config, &live, principal.as_deref(), limit, replayer)?,
            None => Some(live.clone()),
        };
        let Some(settings) = settings else {
            return Ok(compare(steps.iter().map(|step| &step.directive), &[unknown_principal()]));
        };
        let changes = changes.iter().map(|offers| offers.as_ref().map(|offers| self.digests.offers(offers))).collect();
        let offers = self.digests.offers(&offers);
        let seen = self.agents.call(self.candidate.config.as_deref(), principal.as_deref(), Some(at));
        let count = |rules: &[String]| seen.count(rules);
        let around = &seen.surroundings(&count);
        let script = ReplayCall { call: &call, settings: &settings, offers: &offers, steps: &steps, changes, around };
        let now =
            replay_with_offers(replayer, script, &mut self.digests, |server| self.latest_offers.of_server(server))?;
        seen.learn(&now);
        replayer.differences((&live, &steps), (&settings, &now))
    }
}
