//! A gate and its servers' tools: each server is asked once for all callers.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use super::{Transport, listing};
use crate::execution::{Failed, Gate, Settings, SettingsError};

/// A gate, and the servers that are currently listing their tools.
#[derive(Debug)]
pub(super) struct ToolDiscovery {
    gate: Gate,
    pending: RefCell<BTreeMap<String, Rc<PendingListing>>>,
}

/// A `tools/list` in progress; other callers wait for its outcome.
#[derive(Debug, Default)]
struct PendingListing(RefCell<ListingState>);

#[derive(Debug, Default)]
struct ListingState {
    /// Set at the end; the inner option is empty if the asking call was cancelled.
    ended: Option<Option<Result<(), Failed>>>,
    waiting: Vec<Waker>,
}

/// The right to ask a server; dropping it wakes all waiters.
struct ListingGuard<'a> {
    offers: &'a ToolDiscovery,
    server: &'a str,
    asking: Rc<PendingListing>,
    outcome: Option<Result<(), Failed>>,
}

impl ToolDiscovery {
    /// Creates a gate whose servers have not listed their tools yet.
    pub(super) fn new(settings: Settings) -> Result<Self, SettingsError> {
        Ok(ToolDiscovery { gate: Gate::new(settings)?, pending: RefCell::default() })
    }

    /// Returns the gate.
    pub(super) fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Makes sure that the server has listed its tools.
    pub(super) async fn ensure_offer(&self, transport: &impl Transport, server: &str) -> Result<(), Failed> {
        while !self.gate.has_offer(server) {
            let asking = self.pending.borrow().get(server).cloned();
            if let Some(asking) = asking {
                match asking.ended().await {
                    Some(outcome) => return outcome,
                    // The asking call was cancelled, or the server's tools were withdrawn meanwhile.
                    None => continue,
                }
            }
            let mut turn = ListingGuard::take(self, server);
            let listed = listing::fetch(transport, server).await;
            // If the tools were withdrawn during the request, its result may be outdated.
            if turn.is_current() {
                let outcome = listed.map(|tools| drop(self.gate.offer(server, tools)));
                turn.outcome = Some(outcome.clone());
                return outcome;
            }
        }
        Ok(())
    }

    /// Forgets the tools of a server, and the result of a request in progress.
    pub(super) fn withdraw(&self, server: &str) {
        self.pending.borrow_mut().remove(server);
        self.gate.withdraw(server);
    }
}

impl PendingListing {
    /// Waits for the outcome; returns `None` if the request was dropped.
    async fn ended(&self) -> Option<Result<(), Failed>> {
        poll_fn(|context| {
            let mut progress = self.0.borrow_mut();
            match &progress.ended {
                Some(ended) => Poll::Ready(ended.clone()),
                None => {
                    progress.waiting.push(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

impl<'a> ListingGuard<'a> {
    fn take(offers: &'a ToolDiscovery, server: &'a str) -> Self {
        let asking = Rc::<PendingListing>::default();
        offers.pending.borrow_mut().insert(server.to_owned(), Rc::clone(&asking));
        ListingGuard { offers, server, asking, outcome: None }
    }

    /// Reports whether the server's tools have not been withdrawn since.
    fn is_current(&self) -> bool {
        self.offers.pending.borrow().get(self.server).is_some_and(|asking| Rc::ptr_eq(asking, &self.asking))
    }
}

impl Drop for ListingGuard<'_> {
    fn drop(&mut self) {
        if self.is_current() {
            self.offers.pending.borrow_mut().remove(self.server);
        }
        let waiting = {
            let mut progress = self.asking.0.borrow_mut();
            progress.ended = Some(self.outcome.take());
            std::mem::take(&mut progress.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }
}
