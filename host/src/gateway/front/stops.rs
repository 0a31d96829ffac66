//! What is under way for a client and can be stopped by it, by its id of the request.
//!
//! Clients without a session share a front and may use the same ids; they stop a request by hanging up.

use std::sync::{Arc, PoisonError};

use serde_json::value::RawValue;
use tokio::sync::Notify;

use super::Front;
use crate::failure::RpcError;
use crate::gateway::client::Incoming;

/// How a request is stopped.
pub(super) enum Stop {
    /// The gate cancels the call of this id.
    Call(String),
    /// Whoever works on it hears of it.
    Work(Arc<Notify>),
}

/// A request that can be stopped, for as long as this lives.
pub(super) struct Stoppable<'a> {
    front: &'a Front,
    id: &'a str,
}

impl<'a> Stoppable<'a> {
    pub(super) fn new(front: &'a Front, id: &'a RawValue, stop: Stop) -> Option<Self> {
        front.outlet.as_ref()?;
        front.stops().insert(id.get().to_owned(), stop);
        Some(Stoppable { front, id: id.get() })
    }
}

impl Drop for Stoppable<'_> {
    fn drop(&mut self) {
        self.front.stops().remove(self.id);
    }
}

impl Front {
    /// Does something that the client may stop.
    pub(super) async fn stoppable(
        &self,
        id: &RawValue,
        work: impl Future<Output = Result<String, RpcError>>,
    ) -> Result<String, RpcError> {
        let stopped = Arc::new(Notify::new());
        let _stoppable = Stoppable::new(self, id, Stop::Work(Arc::clone(&stopped)));
        tokio::select! {
            biased;
            () = stopped.notified() => Err(RpcError::new(CANCELLED, "the client cancelled the request")),
            outcome = work => outcome,
        }
    }

    /// Does something that is given up when the gateway cancels all that is under way.
    pub(super) async fn unless_cancelled(
        &self,
        work: impl Future<Output = Result<String, RpcError>>,
    ) -> Result<String, RpcError> {
        tokio::select! {
            biased;
            () = self.cancelled.notified() => Err(RpcError::new(CANCELLED, "the gateway ends, and cancelled the request")),
            outcome = work => outcome,
        }
    }

    /// The client no longer wants the answer to this request. It gets none (2025-11-25, utilities, cancellation), but over
    /// HTTP, where something must end what was begun as an answer.
    pub(super) fn stop(&self, id: &RawValue, notification: &Incoming) {
        let stops = self.stops();
        let Some(stop) = stops.get(id.get()) else { return };
        // As long as it can be stopped, whoever answers it has yet to look here.
        if notification.headers.is_none() {
            self.unwanted.lock().unwrap_or_else(PoisonError::into_inner).insert(id.get().to_owned());
        }
        match stop {
            Stop::Call(call) => drop(self.gate.cancel(call)),
            Stop::Work(stopped) => stopped.notify_one(),
        }
    }

    /// Whether nobody wants the answer to this request, which is ready.
    pub(super) fn is_unwanted(&self, id: &RawValue, request: &Incoming) -> bool {
        let mut unwanted = self.unwanted.lock().unwrap_or_else(PoisonError::into_inner);
        request.headers.is_none() && !unwanted.is_empty() && unwanted.remove(id.get())
    }
}

/// The code for a request that its client cancelled.
const CANCELLED: i64 = -32800;
