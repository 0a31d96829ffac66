//! Puts calls to a candidate, and says what it would have decided otherwise.

use std::sync::Arc;

use crate::gate::Finished;
use crate::logic::types::Tool;
use crate::logic::{Component, LogicError, Offers, Past};
use crate::record::compare::{Difference, Kind, compare};
use crate::record::line::Step;
use crate::record::play::{PlayError, Player, Script, SharedOffers};
use crate::record::said::Said;
use crate::record::{Candidate, Keys, Tried, Whose, nobody, steps};

/// Puts calls to a candidate, in an instance that is replaced when it breaks off.
pub(super) struct Judge {
    component: Component,
    candidate: Candidate,
    player: Option<Player>,
    keys: Keys,
    tried: Tried,
    /// What each server has offered last, to whomever.
    offered: Vec<(String, Arc<[Tool]>)>,
}

impl Judge {
    /// Of a candidate that has been checked, and its component.
    pub(super) fn new(component: Component, candidate: Candidate) -> Self {
        let (player, keys, tried, offered) = Default::default();
        Judge { component, candidate, player, keys, tried, offered }
    }

    /// The gravest way in which the candidate decides a call otherwise; none where it decides alike, as far as it goes.
    pub(super) fn judge(&mut self, finished: Finished) -> Result<Option<Difference>, PlayError> {
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
        Ok(found.into_iter().filter(|found| found.kind != Kind::Trace).min_by_key(|found| found.kind))
    }

    fn ask(&mut self, player: &mut Player, finished: Finished) -> Result<Vec<Difference>, PlayError> {
        let Finished { past, principal, answer, limit, .. } = finished;
        let Past { settings, call, offers, events, said } = past;
        let live = self.keys.settings(&settings);
        let (steps, changes) = steps(&offers, said, events, answer, true);
        std::iter::once(&offers).chain(changes.iter().flatten()).for_each(|offers| self.remember(offers));
        let whose = Whose { settings: &live, principal: principal.as_deref(), limit };
        let settings = match &self.candidate.config {
            Some(config) => self.tried.settings(config, whose, player)?,
            None => Some(live),
        };
        let Some(settings) = settings else {
            return Ok(compare(steps.iter().map(|step| &step.say), &[nobody()]));
        };
        let changes = changes.iter().map(|offers| offers.as_ref().map(|offers| self.keys.offers(offers))).collect();
        let offers = self.keys.offers(&offers);
        let script = Script { call: &call, settings: &settings, offers: &offers, steps: &steps, changes };
        let mut now = player.play(script)?;
        if let Some(lent) = self.lend(&offers, &steps, &now) {
            let changes = Vec::new();
            now = player.play(Script { call: &call, settings: &settings, offers: &lent, steps: &steps, changes })?;
        }
        player.differences(&settings, &steps, &now)
    }

    /// What servers have offered to others that this call could not use, and the candidate would have it use.
    fn lend(&mut self, offers: &SharedOffers, then: &[Step], now: &[Said]) -> Option<SharedOffers> {
        let Some(Said::Connect(wanted)) = now.first() else { return None };
        if let Some(Step { say: Said::Connect(_), .. }) = then.first() {
            return None;
        }
        let known = |server: &String| offers.value.iter().any(|(known, _)| known == server);
        let lent = self.offered.iter().filter(|(server, _)| wanted.contains(server) && !known(server));
        let all: Offers = Arc::new(offers.value.iter().chain(lent).cloned().collect());
        (all.len() > offers.value.len()).then(|| self.keys.offers(&all))
    }

    fn remember(&mut self, offers: &Offers) {
        for (server, tools) in offers.iter() {
            match self.offered.iter().position(|(known, _)| known == server) {
                Some(at) => self.offered[at].1 = Arc::clone(tools),
                None if self.offered.len() < MOST_SERVERS => self.offered.push((server.clone(), Arc::clone(tools))),
                None => {}
            }
        }
    }
}

/// Why a candidate gave no answer, without a word of what it was given.
pub(super) fn kind(broken: &PlayError) -> &'static str {
    match broken {
        PlayError::Logic(LogicError::Fuel { .. }) => "it did not come to an end",
        PlayError::Logic(LogicError::Memory { .. }) => "it wanted too much memory",
        PlayError::Logic(LogicError::Trap { .. } | LogicError::Dead) => "it trapped",
        PlayError::Logic(_) => "it cannot be run",
        PlayError::Settings(_) => "it refuses its settings",
    }
}

/// Of how many servers it is known what they have offered.
const MOST_SERVERS: usize = 4096;
