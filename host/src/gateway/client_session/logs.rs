//! Log messages of servers for clients.

use std::collections::VecDeque;
use std::sync::Mutex;

use serde_json::value::RawValue;

use super::ClientSession;
use crate::lock::lock;
use crate::rpc;
use crate::session::LogLevel;

/// The numbers of the log messages that were last sent to a client; each reaches it in two ways and must be sent once.
#[derive(Default)]
pub(super) struct SentLogs(Mutex<VecDeque<u64>>);

impl SentLogs {
    /// Marks a log message as sent; returns false if it already was.
    pub(super) fn mark(&self, number: u64) -> bool {
        let mut sent = lock(&self.0);
        if sent.contains(&number) {
            return false;
        }
        if sent.len() == MOST_SENT {
            sent.pop_front();
        }
        sent.push_back(number);
        true
    }
}

/// Builds a log notification, cut to the maximum size of a result.
pub(super) fn log_line(
    client: &ClientSession,
    level: &str,
    logger: Option<&str>,
    data: Box<RawValue>,
) -> Option<String> {
    let data = client.gate.cut_value(data).ok()?;
    let level = shorten_label(level);
    let logger = logger.map(shorten_label);
    let logger = logger.map(|logger| format!(r#""logger":{},"#, rpc::quote(logger))).unwrap_or_default();
    let params = format!(r#"{{"level":{},{logger}"data":{data}}}"#, rpc::quote(level));
    Some(rpc::notification("notifications/message", Some(&params)))
}

fn shorten_label(name: &str) -> &str {
    &name[..name.floor_char_boundary(MOST_LABEL)]
}

/// Reports whether a log message is at or above the level that the client asked for.
pub(super) fn passes_level(level: &str, least: Option<LogLevel>) -> bool {
    // An unknown level may be severe.
    least.is_some_and(|least| LogLevel::of(level).is_none_or(|level| level >= least))
}

/// The maximum number of sent log messages that are remembered.
const MOST_SENT: usize = 256;
/// The maximum length of a log level or logger name.
const MOST_LABEL: usize = 1 << 10;
