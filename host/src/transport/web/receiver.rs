//! The end of a connection: told once, and known to all who come later.

use std::sync::{Arc, OnceLock};

use crate::failure::{Failure, RequestError};
use crate::rpc::Message;
use crate::transport::{Receive, RequestId};

/// Hands messages on, and the end once.
pub(in crate::transport) struct ClosableReceiver {
    receiver: Arc<dyn Receive>,
    reason: OnceLock<Failure>,
}

impl ClosableReceiver {
    /// The connection has begun.
    pub(in crate::transport) fn new(receiver: Arc<dyn Receive>) -> Self {
        ClosableReceiver { receiver, reason: OnceLock::new() }
    }

    /// Hands a message on.
    pub(in crate::transport) fn receive(&self, message: Message, exchange: Option<RequestId>) {
        self.receiver.receive(message, exchange);
    }

    /// The connection is over; whoever says so first gives the reason.
    pub(in crate::transport) fn close(&self, why: Failure) {
        if self.reason.set(why.clone()).is_ok() {
            // What was under way may have reached the server.
            self.receiver.closed(RequestError::sent(why));
        }
    }

    /// Why nothing can be sent any more, where that is so.
    pub(in crate::transport) fn check_open(&self) -> Result<(), RequestError> {
        match self.reason.get() {
            None => Ok(()),
            Some(why) => Err(RequestError::unsent(why.clone())),
        }
    }
}
