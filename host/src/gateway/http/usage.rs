//! What each principal has of what all share, so that where there are several none takes all of it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use crate::gateway::client::Principal;

/// What one principal has now.
#[derive(Debug, Default)]
pub(in crate::gateway) struct PrincipalUsage {
    pub(super) requests: AtomicUsize,
    pub(super) bytes: AtomicUsize,
    pub(super) session_slots: AtomicUsize,
    pub(super) event_bytes: AtomicUsize,
    /// Of these, what was read and is kept.
    pub(super) read_bytes: AtomicUsize,
}

/// What each principal has now.
#[derive(Debug, Default)]
pub(super) struct UsageByPrincipal {
    /// There are several principals; who is alone may have all.
    several: AtomicBool,
    principals: Mutex<HashMap<Arc<Principal>, Arc<PrincipalUsage>>>,
}

impl UsageByPrincipal {
    /// Says whether there are several principals, and forgets those who have nothing.
    pub(super) fn set(&self, several: bool) {
        self.several.store(several, Relaxed);
        self.principals.lock().unwrap_or_else(PoisonError::into_inner).retain(|_, usage| Arc::strong_count(usage) > 1);
    }

    /// What this principal has; none where nobody counts.
    pub(super) fn of(&self, principal: &Arc<Principal>) -> Option<Arc<PrincipalUsage>> {
        if !self.several.load(Relaxed) {
            return None;
        }
        let mut tabs = self.principals.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(usage) = tabs.get(principal) {
            return Some(Arc::clone(usage));
        }
        // As many as there are principals with a token.
        let usage = Arc::<PrincipalUsage>::default();
        tabs.insert(principal.clone(), usage.clone());
        Some(usage)
    }
}

/// How much there is of something, for all and for one of several.
#[derive(Debug)]
pub(super) struct SharedLimit {
    all: AtomicUsize,
    one: AtomicUsize,
}

/// What is too little.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LimitReached {
    /// What there is for all.
    All,
    /// What one of several may have.
    Own,
}

impl SharedLimit {
    pub(super) fn new(most: usize) -> Self {
        let limit = SharedLimit { all: AtomicUsize::default(), one: AtomicUsize::default() };
        limit.set(most, 1);
        limit
    }

    /// Takes another limit, of which one may have three quarters, and in any case `least`.
    pub(super) fn set(&self, most: usize, least: usize) {
        let share = most.saturating_sub((most / 4).max(1));
        self.all.store(most, Relaxed);
        self.one.store(share.max(least), Relaxed);
    }

    /// What there is for all.
    pub(super) fn all(&self) -> usize {
        self.all.load(Relaxed)
    }

    /// Takes so much for one, where there is as much for all and for that one.
    pub(super) fn take(&self, all: &AtomicUsize, own: Option<&AtomicUsize>, amount: usize) -> Result<(), LimitReached> {
        if own.is_some_and(|own| !take(own, amount, self.one.load(Relaxed))) {
            return Err(LimitReached::Own);
        }
        if take(all, amount, self.all.load(Relaxed)) {
            return Ok(());
        }
        if let Some(own) = own {
            own.fetch_sub(amount, Relaxed);
        }
        Err(LimitReached::All)
    }
}

/// Takes so much of what there is.
fn take(count: &AtomicUsize, amount: usize, most: usize) -> bool {
    let before = count.fetch_add(amount, Relaxed);
    let fits = before.saturating_add(amount) <= most;
    if !fits {
        count.fetch_sub(amount, Relaxed);
    }
    fits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_several_has_three_quarters_and_leaves_at_least_one() {
        for (most, own) in [(1, 1), (2, 1), (3, 2), (4, 3), (100, 75), (512, 384)] {
            let (limit, all, tab) = (SharedLimit::new(most), AtomicUsize::default(), AtomicUsize::default());
            let taken = (0..most).take_while(|_| limit.take(&all, Some(&tab), 1).is_ok()).count();
            assert_eq!(taken, own, "of {most}");
            let others = AtomicUsize::default();
            let rest = (0..most).take_while(|_| limit.take(&all, Some(&others), 1).is_ok()).count();
            assert_eq!(rest, (most - own).min(own), "of {most}");
            assert_eq!(all.load(Relaxed), own + rest);
        }
        let (limit, all) = (SharedLimit::new(3), AtomicUsize::default());
        assert!((0..3).all(|_| limit.take(&all, None, 1).is_ok()), "who is alone has all");
        assert_eq!(limit.take(&all, None, 1), Err(LimitReached::All));
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
