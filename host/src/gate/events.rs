//! What is told of a call while it runs.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::sync::mpsc;

use super::CallOptions;
use crate::logic::types::execution::{Question, ToolResult};
use crate::session::{ActiveCallers, Progress};

/// Something that happened to a call on its way.
#[derive(Debug, Clone)]
pub enum CallEvent {
    /// How far it has come, by the server's own account.
    Progress(Progress),
    /// A line of the server's log, written while the call ran.
    Log {
        /// How grave, in the server's words.
        level: String,
        /// Which part of the server.
        logger: Option<String>,
        /// What, as the server wrote it, masked.
        data: Box<RawValue>,
        /// For whom the server worked when the line came; it may work on other calls too.
        callers: ActiveCallers,
        /// Tells this line from all others.
        number: u64,
    },
    /// It waits for its turn in this queue.
    Queued {
        /// The name of the queue.
        queue: String,
    },
    /// Its request goes to this server.
    Requesting {
        /// The id of the server.
        server: String,
        /// Tells its connection from all others.
        connection: u64,
    },
    /// Its request is over: what the server does from now on is not for it.
    Answered,
    /// A person is asked.
    Asking(Question),
    /// It is tried once more, after this pause.
    Retrying {
        /// How long the pause is.
        after: Duration,
    },
    /// A new connection to this server is made for it.
    Reconnecting {
        /// The id of the server.
        server: String,
    },
    /// Nobody waits for its end any more, so it was cancelled.
    Abandoned {
        /// What it came to.
        result: Box<ToolResult>,
        /// How long it took until then.
        latency: Duration,
    },
}

/// Takes what happens to a call; it must not block.
pub type OnEvent = Arc<dyn Fn(CallEvent) + Send + Sync>;

impl CallOptions {
    /// The same options, and the events of the calls that are made with them as a stream, which ends with the options.
    #[must_use]
    pub fn with_events(mut self) -> (Self, mpsc::UnboundedReceiver<CallEvent>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.events = Some(Arc::new(move |event| {
            // Whoever listened may have heard enough.
            let _ = sender.send(event);
        }));
        (self, receiver)
    }
}
