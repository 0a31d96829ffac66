//! A gate and what its servers offer: each server is asked once for all who want to know.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use super::{Transport, listing};
use crate::execution::{Failed, Gate, Settings, SettingsError};

/// A gate, and the servers that are being asked for their tools.
#[derive(Debug)]
pub struct Offers {
    gate: Gate,
    asking: RefCell<BTreeMap<String, Rc<Asking>>>,
}

/// A server is being asked; who comes meanwhile waits for what comes of it.
#[derive(Debug, Default)]
struct Asking(RefCell<Progress>);

#[derive(Debug, Default)]
struct Progress {
    /// Set at the end; none within where whoever asked gave up.
    ended: Option<Option<Result<(), Failed>>>,
    waiting: Vec<Waker>,
}

/// The right to ask a server; when it is dropped, those who wait are told.
struct Turn<'a> {
    offers: &'a Offers,
    server: &'a str,
    asking: Rc<Asking>,
    outcome: Option<Result<(), Failed>>,
}

impl Offers {
    /// A gate whose servers have offered nothing yet.
    pub fn new(settings: Settings) -> Result<Self, SettingsError> {
        Ok(Offers { gate: Gate::new(settings)?, asking: RefCell::default() })
    }

    /// The gate.
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Sees to it that the server has offered its tools.
    pub async fn ask(&self, transport: &impl Transport, server: &str) -> Result<(), Failed> {
        while !self.gate.has_offer(server) {
            let asking = self.asking.borrow().get(server).cloned();
            if let Some(asking) = asking {
                match asking.ended().await {
                    Some(outcome) => return outcome,
                    // Whoever asked gave up, or the server's offer was withdrawn meanwhile.
                    None => continue,
                }
            }
            let mut turn = Turn::take(self, server);
            let listed = listing::fetch(transport, server).await;
            // What was asked before the last offer was withdrawn may be older than the reason for that.
            if turn.counts() {
                let outcome = listed.map(|tools| drop(self.gate.offer(server, tools)));
                turn.outcome = Some(outcome.clone());
                return outcome;
            }
        }
        Ok(())
    }

    /// Forgets what a server offers, also what it is being asked.
    pub fn withdraw(&self, server: &str) {
        self.asking.borrow_mut().remove(server);
        self.gate.withdraw(server);
    }
}

impl Asking {
    /// What came of it; none where nothing did.
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

impl<'a> Turn<'a> {
    fn take(offers: &'a Offers, server: &'a str) -> Self {
        let asking = Rc::<Asking>::default();
        offers.asking.borrow_mut().insert(server.to_owned(), Rc::clone(&asking));
        Turn { offers, server, asking, outcome: None }
    }

    /// Whether nobody has withdrawn the server's offer since.
    fn counts(&self) -> bool {
        self.offers.asking.borrow().get(self.server).is_some_and(|asking| Rc::ptr_eq(asking, &self.asking))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if self.counts() {
            self.offers.asking.borrow_mut().remove(self.server);
        }
        let waiting = {
            let mut progress = self.asking.0.borrow_mut();
            progress.ended = Some(self.outcome.take());
            std::mem::take(&mut progress.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }
}
