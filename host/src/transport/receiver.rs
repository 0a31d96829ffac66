//! A receiver that reports the end of a connection once and remembers the reason.

use std::sync::Arc;

use tokio::sync::SetOnce;

use super::connection::{Receive, RequestId};
use crate::failure::{Failure, RequestError};
use crate::rpc::Message;

/// Passes on messages, and the end once.
pub(super) struct ClosableReceiver {
    receiver: Arc<dyn Receive>,
    reason: SetOnce<Failure>,
}

impl ClosableReceiver {
    /// Creates the receiver of a new connection.
    pub(super) fn new(receiver: Arc<dyn Receive>) -> Self {
        ClosableReceiver { receiver, reason: SetOnce::new() }
    }

    /// Passes on a message.
    pub(super) fn receive(&self, message: Message, exchange: Option<RequestId>) {
        self.receiver.receive(message, exchange);
    }

    /// Ends the connection; the first reason counts.
    pub(super) fn close(&self, why: Failure) {
        if self.reason.set(why.clone()).is_ok() {
            // Pending requests may have reached the server.
            self.receiver.closed(RequestError::sent(why));
        }
    }

    /// Waits until the connection is over.
    pub(super) async fn ended(&self) {
        self.reason.wait().await;
    }

    /// Returns an error with the reason if the connection is over.
    pub(super) fn check_open(&self) -> Result<(), RequestError> {
        match self.reason.get() {
            None => Ok(()),
            Some(why) => Err(RequestError::unsent(why.clone())),
        }
    }
}
