//! What is under way for a client and can be stopped by it, by its id of the request.
//!
//! Clients without a session share a front and may use the same ids; they stop a request by hanging up.

use std::sync::{Arc, PoisonError};

use tokio::sync::Notify;

use super::{ClientSession, Envelope};
use crate::failure::RpcError;
use crate::rpc::code::REQUEST_CANCELLED;

/// How a request is stopped.
pub(super) enum CancelHandle {
    /// The gate cancels the call of this id.
    Call(String),
    /// Whoever works on it hears of it.
    Task(Arc<Notify>),
}

/// A request that can be stopped, for as long as this lives.
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
    /// Does something that the client may stop.
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

    /// Does something that is given up when the gateway cancels all that is under way.
    pub(super) async fn unless_cancelled(
        &self,
        work: impl Future<Output = Result<String, RpcError>>,
    ) -> Result<String, RpcError> {
        tokio::select! {
            biased;
            () = self.cancelled.notified() => Err(RpcError::new(REQUEST_CANCELLED, "the gateway ends, and cancelled the request")),
            outcome = work => outcome,
        }
    }

    /// The client no longer wants the answer to this request. It gets none (2025-11-25, utilities, cancellation), but over
    /// HTTP, where something must end what was begun as an answer.
    pub(super) fn cancel_request(&self, id: &str, envelope: &Envelope) {
        let stops = self.cancel_handles();
        let Some(stop) = stops.get(id) else { return };
        // As long as it can be stopped, whoever answers it has yet to look here.
        if envelope.headers.is_none() {
            self.cancelled_ids.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned());
        }
        match stop {
            CancelHandle::Call(call) => drop(self.gate.cancel(call)),
            CancelHandle::Task(stopped) => stopped.notify_one(),
        }
    }

    /// Whether nobody wants the answer to this request, which is ready.
    pub(super) fn take_cancelled(&self, id: &str, envelope: &Envelope) -> bool {
        let mut unwanted = self.cancelled_ids.lock().unwrap_or_else(PoisonError::into_inner);
        envelope.headers.is_none() && !unwanted.is_empty() && unwanted.remove(id)
    }
}
