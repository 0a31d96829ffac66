//! A receiver that reports the end of a connection once and remembers the reason.

use std::sync::{Arc, OnceLock};

use crate::failure::{Failure, RequestError};
use crate::rpc::Message;
use crate::transport::{Receive, RequestId};

/// Passes on messages, and the end once.
pub(in crate::transport) struct ClosableReceiver {
    receiver: Arc<dyn Receive>,
    reason: OnceLock<Failure>,
}

impl ClosableReceiver {
    /// Creates the receiver of a new connection.
    pub(in crate::transport) fn new(receiver: Arc<dyn Receive>) -> Self {
        ClosableReceiver { receiver, reason: OnceLock::new() }
    }

    /// Passes on a message.
    pub(in crate::transport) fn receive(&self, message: Message, exchange: Option<RequestId>) {
        self.receiver.receive(message, exchange);
    }

    /// Ends the connection; the first reason counts.
    pub(in crate::transport) fn close(&self, why: Failure) {
        if self.reason.set(why.clone()).is_ok() {
            // Pending requests may have reached the server.
            self.receiver.closed(RequestError::sent(why));
        }
    }

    /// Returns an error with the reason if the connection is over.
    pub(in crate::transport) fn check_open(&self) -> Result<(), RequestError> {
        match self.reason.get() {
            None => Ok(()),
            Some(why) => Err(RequestError::unsent(why.clone())),
        }
    }
}
