//! The running calls, each of which can be cancelled.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// All running calls, by their caller's id, which may repeat.
#[derive(Debug, Default)]
pub(super) struct ClientCalls(RefCell<BTreeMap<String, Vec<Rc<CancelFlag>>>>);

/// A running call; dropping it removes it from the list.
#[derive(Debug)]
pub(super) struct ClientCall<'a> {
    calls: &'a ClientCalls,
    id: String,
    flag: Rc<CancelFlag>,
}

/// Whether a call was cancelled, and the waker of its task.
#[derive(Debug, Default)]
struct CancelFlag {
    cancelled: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl ClientCalls {
    /// Adds a call.
    pub(super) fn enter(&self, id: &str) -> ClientCall<'_> {
        let flag = Rc::<CancelFlag>::default();
        self.0.borrow_mut().entry(id.to_owned()).or_default().push(Rc::clone(&flag));
        ClientCall { calls: self, id: id.to_owned(), flag }
    }

    /// Cancels the calls with this id and reports whether there were any.
    pub(super) fn cancel(&self, id: &str) -> bool {
        let flags = self.0.borrow().get(id).cloned().unwrap_or_default();
        for flag in &flags {
            flag.cancelled.set(true);
            if let Some(waker) = flag.waker.take() {
                waker.wake();
            }
        }
        !flags.is_empty()
    }
}

impl ClientCall<'_> {
    /// Awaits a future; if the call is cancelled, drops the future and returns `None`.
    pub(super) async fn unless_cancelled<F: Future>(&self, future: F) -> Option<F::Output> {
        let mut future = pin!(future);
        poll_fn(|context| {
            if self.flag.cancelled.get() {
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

impl Drop for ClientCall<'_> {
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
