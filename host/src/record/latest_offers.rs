//! The latest tools of each server, for a call that could not use the server then and can with a candidate.

use std::collections::HashMap;
use std::sync::Arc;

use super::digest_cache::DigestCache;
use super::directive::RecordedDirective;
use super::keyed::KeyedOffers;
use super::replay::{ReplayCall, ReplayError, Replayer};
use crate::logic::OfferedTools;
use crate::logic::types::Tool;

/// The tools that each server offered last, to any caller.
#[derive(Default)]
pub(crate) struct LatestOffers(HashMap<String, Arc<[Tool]>>);

impl LatestOffers {
    /// Remembers what servers have offered, and reports whether any of it is new.
    pub(crate) fn remember(&mut self, offers: &OfferedTools) -> bool {
        let mut new = false;
        for (server, tools) in offers.iter() {
            let room = self.0.len() < MOST_SERVERS;
            match self.0.get_mut(server) {
                Some(known) if Arc::ptr_eq(known, tools) => {}
                Some(known) => (*known, new) = (Arc::clone(tools), true),
                None if room => new |= self.0.insert(server.clone(), Arc::clone(tools)).is_none(),
                None => {}
            }
        }
        new
    }

    /// Returns the tools that this server offered last.
    pub(crate) fn of_server(&self, server: &str) -> Option<Arc<[Tool]>> {
        self.0.get(server).cloned()
    }
}

/// Replays a call on a candidate. If the candidate connects a server that the recorded call did not ask for, the server
/// offers the tools that `offered` returns.
pub(crate) fn replay_with_offers(
    replayer: &mut Replayer,
    script: ReplayCall<'_>,
    keys: &mut DigestCache,
    offered: impl Fn(&str) -> Option<Arc<[Tool]>>,
) -> Result<Vec<RecordedDirective>, ReplayError> {
    let now = replayer.replay(script.clone())?;
    let lent: Vec<_> = unknown_servers(&script, &now)
        .into_iter()
        .filter_map(|server| Some((server.to_owned(), offered(server)?)))
        .collect();
    if lent.is_empty() {
        return Ok(now);
    }
    let mut with = |offers: &KeyedOffers| keys.offers(&Arc::new(offers.value.iter().chain(&lent).cloned().collect()));
    let offers = with(script.offers);
    let changes = script.changes.iter().map(|change| change.as_ref().map(&mut with)).collect();
    replayer.replay(ReplayCall { offers: &offers, changes, ..script })
}

/// Returns the servers to be connected now about which the call's record says nothing: neither which tools they offer,
/// nor that they could not be reached.
fn unknown_servers<'a>(script: &ReplayCall<'_>, now: &'a [RecordedDirective]) -> Vec<&'a str> {
    let connects = |directive: &'a RecordedDirective| match directive {
        RecordedDirective::Connect(servers) => servers.as_slice(),
        _ => &[],
    };
    let has = |offers: &KeyedOffers, server: &str| offers.value.iter().any(|(known, _)| known == server);
    let tried = |server: &str| {
        script.steps.iter().any(
            |step| matches!(&step.directive, RecordedDirective::Connect(then) if then.iter().any(|id| id == server)),
        )
    };
    let mut wanted: Vec<&str> = now.iter().flat_map(connects).map(String::as_str).collect();
    wanted.dedup();
    wanted.retain(|server| {
        let offers = std::iter::once(script.offers).chain(script.changes.iter().flatten());
        !tried(server) && !offers.into_iter().any(|offers| has(offers, server))
    });
    wanted
}

/// The number of servers whose tools are remembered.
const MOST_SERVERS: usize = 4096;
