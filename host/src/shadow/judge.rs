//! Puts calls to a candidate, and says what it would have decided otherwise.

use super::alike::Alike;
use crate::gate::Finished;
use crate::logic::{Component, Past};
use crate::record::compare::{Difference, Kind, compare};
use crate::record::play::{PlayError, Player, Script};
use crate::record::{Candidate, Keys, Offered, Tried, Whose, nobody, play_lending, steps};

/// Puts calls to a candidate, in an instance that is replaced when it breaks off.
pub(super) struct Judge {
    component: Component,
    candidate: Candidate,
    player: Option<Player>,
    keys: Keys,
    tried: Tried,
    offered: Offered,
    alike: Alike,
}

impl Judge {
    /// Of a candidate that has been checked, and its component.
    pub(super) fn new(component: Component, candidate: Candidate) -> Self {
        let (player, keys, tried, offered, alike) = Default::default();
        Judge { component, candidate, player, keys, tried, offered, alike }
    }

    /// The gravest way in which the candidate decides a call otherwise; none where it decides alike, as far as it goes.
    pub(super) fn judge(&mut self, finished: Finished) -> Result<Option<Difference>, PlayError> {
        if self.alike.knows(&finished) {
            return Ok(None);
        }
        let asked = Alike::question(&finished);
        let mut player = match self.player.take() {
            Some(player) => player,
            None => Player::new(self.component.clone())?,
        };
        let found = self.ask(&mut player, finished)?;
        // A call that breaks the component off ends with a result; but that is none that the candidate has given.
        if let Some(fault) = player.take_fault() {
            return Err(fault.into());
        }
        self.player = Some(player);
        // Other reasons for the same end are nothing that anybody outside could see.
        let gravest = found.into_iter().filter(|found| found.kind != Kind::Trace).min_by_key(|found| found.kind);
        if let (None, Some(asked)) = (&gravest, asked) {
            self.alike.remember(asked);
        }
        Ok(gravest)
    }

    fn ask(&mut self, player: &mut Player, finished: Finished) -> Result<Vec<Difference>, PlayError> {
        let Finished { past, principal, answer, limit, .. } = finished;
        let Past { settings, call, offers, events, said } = past;
        let live = self.keys.settings(&settings);
        let (steps, changes) = steps(&offers, said, events, answer, true);
        for offers in std::iter::once(&offers).chain(changes.iter().flatten()) {
            if self.offered.remember(offers) {
                // What is lent to a call may be something else now.
                self.alike.forget();
            }
        }
        let whose = Whose { settings: &live, principal: principal.as_deref(), limit };
        let settings = match &self.candidate.config {
            Some(config) => self.tried.settings(config, whose, player)?,
            None => Some(live.clone()),
        };
        let Some(settings) = settings else {
            return Ok(compare(steps.iter().map(|step| &step.say), &[nobody()]));
        };
        let changes = changes.iter().map(|offers| offers.as_ref().map(|offers| self.keys.offers(offers))).collect();
        let offers = self.keys.offers(&offers);
        let script = Script { call: &call, settings: &settings, offers: &offers, steps: &steps, changes };
        let now = play_lending(player, script, &mut self.keys, |server| self.offered.by(server))?;
        player.differences((&live, &steps), (&settings, &now))
    }
}
