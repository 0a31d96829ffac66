//! The calls under way, each of which can be given up.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// All calls under way, by the id that their caller gave them; an id may be given twice.
#[derive(Debug, Default)]
pub struct Calls(RefCell<BTreeMap<String, Vec<Rc<Flag>>>>);

/// A call under way; it is struck out when this is dropped.
#[derive(Debug)]
pub struct Running<'a> {
    calls: &'a Calls,
    id: String,
    flag: Rc<Flag>,
}

/// Whether a call was given up, and whom to tell.
#[derive(Debug, Default)]
struct Flag {
    given_up: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Calls {
    /// Enters a call.
    pub fn enter(&self, id: &str) -> Running<'_> {
        let flag = Rc::<Flag>::default();
        self.0.borrow_mut().entry(id.to_owned()).or_default().push(Rc::clone(&flag));
        Running { calls: self, id: id.to_owned(), flag }
    }

    /// Gives up the calls of this id, and says whether there were any.
    pub fn give_up(&self, id: &str) -> bool {
        let flags = self.0.borrow().get(id).cloned().unwrap_or_default();
        for flag in &flags {
            flag.given_up.set(true);
            if let Some(waker) = flag.waker.take() {
                waker.wake();
            }
        }
        !flags.is_empty()
    }
}

impl Running<'_> {
    /// What a future comes to; none where the call is given up, and then the future is dropped.
    pub async fn unless_given_up<F: Future>(&self, future: F) -> Option<F::Output> {
        let mut future = pin!(future);
        poll_fn(|context| {
            if self.flag.given_up.get() {
                return Poll::Ready(None);
            }
            let polled = future.as_mut().poll(context).map(Some);
            if polled.is_pending() {
                *self.flag.waker.borrow_mut() = Some(context.waker().clone());
            }
            polled
        })
        .await
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut calls = self.calls.0.borrow_mut();
        if let Some(flags) = calls.get_mut(&self.id) {
            flags.retain(|flag| !Rc::ptr_eq(flag, &self.flag));
            if flags.is_empty() {
                calls.remove(&self.id);
            }
        }
    }
}
