//! Usage by principal, so that none of several principals takes all of a shared resource.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use crate::gateway::client::Principal;
use crate::gateway::refusal::LimitReached;
use crate::lock::lock;

/// The resources that one principal uses now.
#[derive(Debug, Default)]
pub(in crate::gateway) struct PrincipalUsage {
    pub(super) requests: AtomicUsize,
    pub(super) bytes: AtomicUsize,
    pub(super) session_slots: AtomicUsize,
    pub(super) event_bytes: AtomicUsize,
    /// How many of the event bytes were read and are kept.
    pub(super) read_bytes: AtomicUsize,
}

/// The resources that each principal uses now.
#[derive(Debug, Default)]
pub(in crate::gateway) struct UsageByPrincipal {
    /// There are several principals; a single one may use everything.
    several: AtomicBool,
    principals: Mutex<HashMap<Arc<Principal>, Arc<PrincipalUsage>>>,
}

impl UsageByPrincipal {
    /// Sets whether there are several principals, and forgets those that use nothing.
    pub(super) fn set(&self, several: bool) {
        self.several.store(several, Relaxed);
        lock(&self.principals).retain(|_, usage| Arc::strong_count(usage) > 1);
    }

    /// Returns the usage of a principal, or `None` if there is only one principal.
    pub(in crate::gateway) fn of(&self, principal: &Arc<Principal>) -> Option<Arc<PrincipalUsage>> {
        if !self.several.load(Relaxed) {
            return None;
        }
        // Bounded by the number of principals with a token.
        Some(lock(&self.principals).entry(principal.clone()).or_default().clone())
    }
}

/// How much of something all principals together use; what one of several uses is counted along.
#[derive(Debug, Default)]
pub(super) struct SharedCount(AtomicUsize);

impl SharedCount {
    pub(super) fn get(&self) -> usize {
        self.0.load(Relaxed)
    }

    pub(super) fn add(&self, own: Option<&AtomicUsize>, amount: usize) {
        self.0.fetch_add(amount, Relaxed);
        if let Some(own) = own {
            own.fetch_add(amount, Relaxed);
        }
    }

    pub(super) fn subtract(&self, own: Option<&AtomicUsize>, amount: usize) {
        self.0.fetch_sub(amount, Relaxed);
        if let Some(own) = own {
            own.fetch_sub(amount, Relaxed);
        }
    }
}

/// A resource with a limit for all principals together, and one for each of several.
#[derive(Debug, Default)]
pub(super) struct LimitedResource {
    pub(super) used: SharedCount,
    all: AtomicUsize,
    one: AtomicUsize,
}

impl LimitedResource {
    /// Sets the limit; one principal may use three quarters of it, and always at least `least`.
    pub(super) fn set(&self, most: usize, least: usize) {
        let share = most.saturating_sub((most / 4).max(1));
        self.all.store(most, Relaxed);
        self.one.store(share.max(least), Relaxed);
    }

    /// Returns the limit for all.
    pub(super) fn limit(&self) -> usize {
        self.all.load(Relaxed)
    }

    /// Reports whether `amount` more fits the limit for all.
    pub(super) fn has_room(&self, amount: usize) -> bool {
        self.used.get().saturating_add(amount) <= self.limit()
    }

    /// Takes `amount` if it fits both the limit for all and the limit for one principal.
    pub(super) fn take(&self, own: Option<&AtomicUsize>, amount: usize) -> Result<(), LimitReached> {
        if own.is_some_and(|own| !take(own, amount, self.one.load(Relaxed))) {
            return Err(LimitReached::Own);
        }
        if take(&self.used.0, amount, self.limit()) {
            return Ok(());
        }
        if let Some(own) = own {
            own.fetch_sub(amount, Relaxed);
        }
        Err(LimitReached::All)
    }
}

/// Adds `amount` to the count unless that exceeds `most`, and returns whether it fits.
fn take(count: &AtomicUsize, amount: usize, most: usize) -> bool {
    let added = |count: usize| count.checked_add(amount).filter(|count| *count <= most);
    count.fetch_update(Relaxed, Relaxed, added).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(most: usize) -> LimitedResource {
        let resource = LimitedResource::default();
        resource.set(most, 1);
        resource
    }

    #[test]
    fn one_of_several_has_three_quarters_and_leaves_at_least_one() {
        for (most, own) in [(1, 1), (2, 1), (3, 2), (4, 3), (100, 75), (512, 384)] {
            let (resource, first) = (resource(most), AtomicUsize::default());
            let taken = (0..most).take_while(|_| resource.take(Some(&first), 1).is_ok()).count();
            assert_eq!(taken, own, "of {most}");
            let others = AtomicUsize::default();
            let rest = (0..most).take_while(|_| resource.take(Some(&others), 1).is_ok()).count();
            assert_eq!(rest, (most - own).min(own), "of {most}");
            assert_eq!(resource.used.get(), own + rest);
        }
        let resource = resource(3);
        assert!((0..3).all(|_| resource.take(None, 1).is_ok()), "who is alone has all");
        assert_eq!(resource.take(None, 1), Err(LimitReached::All));
    }

    #[test]
    fn nobody_is_counted_who_is_alone() {
        let (shares, ann) = (UsageByPrincipal::default(), Arc::new(Principal { name: "ann".to_owned(), admin: false }));
        assert!(shares.of(&ann).is_none());
        shares.set(true);
        let usage = shares.of(&ann).unwrap();
        assert!(Arc::ptr_eq(&usage, &shares.of(&Arc::new(Principal::clone(&ann))).unwrap()));
        shares.set(true);
        assert!(Arc::ptr_eq(&usage, &shares.of(&ann).unwrap()), "who has something is not forgotten");
    }
}
