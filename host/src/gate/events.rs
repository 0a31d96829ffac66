//! Events of a running call.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::sync::mpsc;

use super::CallOptions;
use crate::logic::types::execution::{Question, ToolResult};
use crate::session::{ActiveCallers, Progress};

/// An event of a running call.
#[derive(Debug, Clone)]
pub enum CallEvent {
    /// Progress that the server reported.
    Progress(Progress),
    /// A log message of the server, written during the call.
    Log {
        /// The log level, as the server wrote it.
        level: String,
        /// The logger's name.
        logger: Option<String>,
        /// The message as the server wrote it, masked.
        data: Box<RawValue>,
        /// The callers that the server worked for at the time; it may work on other calls too.
        callers: ActiveCallers,
        /// Distinguishes this message from all others.
        number: u64,
    },
    /// The call waits in a queue.
    Queued {
        /// The name of the queue.
        queue: String,
    },
    /// The request goes to this server.
    Requesting {
        /// The id of the server.
        server: String,
        /// Distinguishes its connection from all others.
        connection: u64,
    },
    /// The request is over; what the server does from now on is not part of the call.
    Answered,
    /// A person is asked for approval.
    Asking(Question),
    /// The call is retried after a pause.
    Retrying {
        /// The length of the pause.
        after: Duration,
    },
    /// A new connection to this server is opened for the call.
    Reconnecting {
        /// The id of the server.
        server: String,
    },
    /// The caller dropped the call, so it was cancelled.
    Abandoned {
        /// The result of the cancelled call.
        result: Box<ToolResult>,
        /// How long the call had run.
        latency: Duration,
    },
}

/// Receives the events of a call; it must not block.
pub type OnEvent = Arc<dyn Fn(CallEvent) + Send + Sync>;

impl CallOptions {
    /// Adds a stream of the events of all calls that use these options.
    #[must_use]
    pub fn with_events(mut self) -> (Self, mpsc::UnboundedReceiver<CallEvent>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.events = Some(Arc::new(move |event| {
            // The receiver may have been dropped.
            let _ = sender.send(event);
        }));
        (self, receiver)
    }
}
