//! Requests that their client can cancel by id.
//!
//! Clients without a session share one and may use the same ids; they cancel a request by closing its connection.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use super::request_context::RequestContext;
use crate::failure::RpcError;
use crate::gate::Gate;
use crate::lock::lock;
use crate::rpc::code::REQUEST_CANCELLED;

/// The running requests of a client.
#[derive(Default)]
pub(super) struct RunningRequests {
    /// How each request that can be cancelled is cancelled, by the client's request id.
    handles: Mutex<BTreeMap<String, CancelHandle>>,
    /// The ids of requests that the client cancelled and that get no response.
    cancelled_ids: Mutex<HashSet<String>>,
    /// Notified when all requests other than tool calls are cancelled.
    all_cancelled: Notify,
}

/// How a request is cancelled.
pub(super) enum CancelHandle {
    /// The gate cancels the call with this id.
    Call(String),
    /// The task that works on it is notified.
    Task(Arc<Notify>),
}

/// Keeps a request cancellable until it is dropped.
pub(super) struct CancelGuard<'a> {
    running: &'a RunningRequests,
    id: &'a str,
}

impl<'a> CancelGuard<'a> {
    pub(super) fn new(context: &RequestContext<'a>, handle: CancelHandle) -> Option<Self> {
        context.client.sink.as_ref()?;
        let (running, id) = (&context.client.running, context.request.id());
        lock(&running.handles).insert(id.to_owned(), handle);
        Some(CancelGuard { running, id })
    }
}

impl Drop for CancelGuard<'_> {
    fn drop(&mut self) {
        lock(&self.running.handles).remove(self.id);
    }
}

/// Runs work that the client can cancel.
pub(super) async fn cancellable(
    context: &RequestContext<'_>,
    work: impl Future<Output = Result<String, RpcError>>,
) -> Result<String, RpcError> {
    let stopped = Arc::new(Notify::new());
    let _cancellable = CancelGuard::new(context, CancelHandle::Task(Arc::clone(&stopped)));
    until(&stopped, "the client cancelled the request", work).await
}

impl RunningRequests {
    /// Runs work that ends when the gateway cancels all running requests.
    pub(super) async fn unless_all_cancelled(
        &self,
        work: impl Future<Output = Result<String, RpcError>>,
    ) -> Result<String, RpcError> {
        until(&self.all_cancelled, "the gateway is shutting down", work).await
    }

    /// Cancels all running requests other than tool calls.
    pub(super) fn cancel_all(&self) {
        self.all_cancelled.notify_waiters();
    }

    /// Cancels a request for the client; returns false if it is not running here. It gets no response (2025-11-25,
    /// utilities, cancellation) if it is `silent`; over HTTP, the exchange needs one.
    pub(super) fn cancel(&self, gate: &Gate, id: &str, silent: bool) -> bool {
        let handles = lock(&self.handles);
        let Some(handle) = handles.get(id) else { return false };
        // While the handle exists, the request's task has not yet called `take_cancelled`.
        if silent {
            lock(&self.cancelled_ids).insert(id.to_owned());
        }
        match handle {
            CancelHandle::Call(call) => drop(gate.cancel(call)),
            CancelHandle::Task(stopped) => stopped.notify_one(),
        }
        true
    }

    /// Reports whether the client cancelled this request, so that its response must not be sent.
    pub(super) fn take_cancelled(&self, id: &str) -> bool {
        lock(&self.cancelled_ids).remove(id)
    }
}

/// Runs work until `stopped` is notified.
async fn until(
    stopped: &Notify,
    why: &str,
    work: impl Future<Output = Result<String, RpcError>>,
) -> Result<String, RpcError> {
    tokio::select! {
        biased;
        () = stopped.notified() => Err(RpcError::new(REQUEST_CANCELLED, why)),
        outcome = work => outcome,
    }
}
