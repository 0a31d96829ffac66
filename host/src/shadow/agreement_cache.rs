//! Remembers the calls on which the candidate agreed with the logic in use. Both are pure functions and agents repeat
//! themselves, so the same call, apart from its id, need not be judged again.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use crate::finished_call::FinishedCall;
use crate::logic::types::execution::{Event, Settings, Summary};
use crate::logic::{CallHistory, OfferedTools};

/// The calls on which the candidate agreed.
#[derive(Default)]
pub(super) struct AgreementCache {
    hashes: RandomState,
    known: HashMap<u64, CallInputs>,
    bytes: usize,
}

/// Everything that a simple call is decided on: it was sent once, and its result was passed through.
#[derive(Clone)]
pub(super) struct CallInputs {
    settings: Arc<Settings>,
    offers: OfferedTools,
    principal: Option<Arc<str>>,
    limit: Option<u64>,
    is_error: bool,
    /// The name, the arguments and the result.
    texts: [String; 3],
}

impl AgreementCache {
    /// Returns the inputs of a call, or `None` if it is not a simple call or too long to keep.
    pub(super) fn inputs(finished: &FinishedCall) -> Option<CallInputs> {
        let (is_error, texts) = simple_call(finished)?;
        let FinishedCall { history: CallHistory { settings, offers, .. }, principal, limit, .. } = finished;
        let (settings, offers) = (Arc::clone(settings), Arc::clone(offers));
        let texts = texts.map(str::to_owned);
        Some(CallInputs { settings, offers, principal: principal.clone(), limit: *limit, is_error, texts })
    }

    /// Reports whether the candidate agreed on the same inputs before.
    pub(super) fn knows(&self, finished: &FinishedCall) -> bool {
        let Some((is_error, texts)) = simple_call(finished) else { return false };
        let Some(known) = self.known.get(&self.hashes.hash_one(texts)) else { return false };
        let FinishedCall { history: CallHistory { settings, offers, .. }, principal, limit, .. } = finished;
        Arc::ptr_eq(&known.settings, settings)
            && Arc::ptr_eq(&known.offers, offers)
            && (&known.principal, known.limit, known.is_error) == (principal, *limit, is_error)
            && known.texts.each_ref().map(String::as_str) == texts
    }

    /// Remembers inputs on which the candidate agreed.
    pub(super) fn remember(&mut self, question: CallInputs) {
        let bytes = question.texts.iter().map(String::len).sum::<usize>();
        if self.known.len() >= MOST || self.bytes + bytes > MOST_BYTES {
            self.forget();
        }
        self.bytes += bytes;
        let hash = self.hashes.hash_one(question.texts.each_ref().map(String::as_str));
        self.known.insert(hash, question);
    }

    /// Forgets everything.
    pub(super) fn forget(&mut self) {
        self.known.clear();
        self.bytes = 0;
    }
}

/// Returns the texts that a simple call is decided on, and whether its result is an error.
fn simple_call(finished: &FinishedCall) -> Option<(bool, [&str; 3])> {
    let CallHistory { call, events, directives, offers, .. } = &finished.history;
    let [(then, Event::Forwarded(Summary { is_error }))] = events.as_slice() else { return None };
    let answer = finished.answer.as_ref()?.json();
    let short = call.name.len() + call.arguments.len() + answer.len() <= LONGEST;
    let usual = directives.len() == 2 && Arc::ptr_eq(then, offers) && short;
    usual.then_some((*is_error, [&*call.name, &*call.arguments, answer]))
}

/// The maximum number of calls in the cache.
const MOST: usize = 4096;
/// The maximum size of all calls in the cache, in bytes.
const MOST_BYTES: usize = 4 << 20;
/// The maximum size of one call, in bytes.
const LONGEST: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logic::types::execution::Directive;
    use crate::record::finished;
    use crate::session::Reply;

    /// Returns a call that was sent once, and whose result was passed through.
    fn call() -> FinishedCall {
        let mut call = Arc::unwrap_or_clone(finished("a: 1".to_owned()));
        call.history.events = vec![(Arc::clone(&call.history.offers), Event::Forwarded(Summary { is_error: false }))];
        call.history.directives = vec![Directive::Connect(Vec::new()), Directive::Connect(Vec::new())];
        call.answer = Some(Reply::new("{}"));
        call
    }

    #[test]
    fn a_call_that_repeats_is_no_new_question_and_one_that_differs_in_anything_is() {
        let (mut alike, first) = (AgreementCache::default(), call());
        assert!(!alike.knows(&first));
        alike.remember(AgreementCache::inputs(&first).unwrap());
        let mut again = first.clone();
        again.history.call.id = "another".to_owned();
        assert!(alike.knows(&again));
        let changes: [fn(&mut FinishedCall); 10] = [
            |call| call.history.call.name.push('x'),
            |call| call.history.call.arguments.push('x'),
            |call| call.history.settings = Arc::new((*call.history.settings).clone()),
            |call| call.history.offers = Arc::new(Vec::new()),
            |call| call.history.events[0].0 = Arc::new(Vec::new()),
            |call| call.history.events[0].1 = Event::Forwarded(Summary { is_error: true }),
            |call| call.history.events[0].1 = Event::Answered("{}".to_owned()),
            |call| call.principal = Some("ann".into()),
            |call| call.limit = Some(1),
            |call| call.answer = Some(Reply::new("{ }")),
        ];
        for (at, change) in changes.into_iter().enumerate() {
            let mut other = first.clone();
            change(&mut other);
            assert!(!alike.knows(&other), "{at}");
        }
        alike.forget();
        assert!(!alike.knows(&again));
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut alike = AgreementCache::default();
        for number in 0..3 * MOST {
            let mut call = call();
            call.history.call.arguments = format!("{number} {}", "x".repeat(4000));
            alike.remember(AgreementCache::inputs(&call).unwrap());
            assert!(alike.known.len() <= MOST && alike.bytes <= MOST_BYTES && alike.knows(&call));
        }
        let mut long = call();
        long.history.call.arguments = "x".repeat(LONGEST);
        assert!(AgreementCache::inputs(&long).is_none());
    }
}
