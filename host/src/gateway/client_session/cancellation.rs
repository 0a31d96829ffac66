//! Requests that their client can cancel by id.
//!
//! Clients without a session share one and may use the same ids; they cancel a request by closing its connection.

use std::sync::{Arc, PoisonError};

use tokio::sync::Notify;

use super::{ClientSession, Envelope};
use crate::failure::RpcError;
use crate::rpc::code::REQUEST_CANCELLED;

/// How a request is cancelled.
pub(super) enum CancelHandle {
    /// The gate cancels the call with this id.
    Call(String),
    /// The task that works on it is notified.
    Task(Arc<Notify>),
}

/// Keeps a request cancellable until it is dropped.
pub(super) struct CancelGuard<'a> {
    client: &'a ClientSession,
    id: &'a str,
}

impl<'a> CancelGuard<'a> {
    pub(super) fn new(client: &'a ClientSession, id: &'a str, stop: CancelHandle) -> Option<Self> {
        client.sink.as_ref()?;
        client.cancel_handles().insert(id.to_owned(), stop);
        Some(CancelGuard { client, id })
    }
}

impl Drop for CancelGuard<'_> {
    fn drop(&mut self) {
        self.client.cancel_handles().remove(self.id);
    }
}

impl ClientSession {
    /// Runs work that the client can cancel.
    pub(super) async fn cancellable(
        &self,
        id: &str,
        work: impl Future<Output = Result<String, RpcError>>,
    ) -> Result<String, RpcError> {
        let stopped = Arc::new(Notify::new());
        let _stoppable = CancelGuard::new(self, id, CancelHandle::Task(Arc::clone(&stopped)));
        tokio::select! {
            biased;
            () = stopped.notified() => Err(RpcError::new(REQUEST_CANCELLED, "the client cancelled the request")),
            outcome = work => outcome,
        }
    }

    /// Runs work that ends when the gateway cancels all running requests.
    pub(super) async fn unless_cancelled(
        &self,
        work: impl Future<Output = Result<String, RpcError>>,
    ) -> Result<String, RpcError> {
        tokio::select! {
            biased;
            () = self.cancelled.notified() => Err(RpcError::new(REQUEST_CANCELLED, "the gateway is shutting down")),
            outcome = work => outcome,
        }
    }

    /// Cancels a request for the client. It gets no response (2025-11-25, utilities, cancellation), except over HTTP,
    /// where the exchange needs one.
    pub(super) fn cancel_request(&self, id: &str, envelope: &Envelope) {
        let stops = self.cancel_handles();
        let Some(stop) = stops.get(id) else { return };
        // While the handle exists, the request's task has not yet called `take_cancelled`.
        if envelope.headers.is_none() {
            self.cancelled_ids.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned());
        }
        match stop {
            CancelHandle::Call(call) => drop(self.gate.cancel(call)),
            CancelHandle::Task(stopped) => stopped.notify_one(),
        }
    }

    /// Reports whether the client cancelled this request, so that its response must not be sent.
    pub(super) fn take_cancelled(&self, id: &str, envelope: &Envelope) -> bool {
        let mut unwanted = self.cancelled_ids.lock().unwrap_or_else(PoisonError::into_inner);
        envelope.headers.is_none() && !unwanted.is_empty() && unwanted.remove(id)
    }
}
