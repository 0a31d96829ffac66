//! How an operation on a server fails, and whether the server may have acted on it.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use serde_json::value::RawValue;

use crate::config::secrets::Secrets;
use crate::logic::types;

/// Formats an error and all its causes on one line.
pub fn format_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        let words = source.to_string();
        // Some errors include their cause in their own text, and some do not.
        if !text.ends_with(&words) {
            text = format!("{text}: {words}");
        }
        cause = source.source();
    }
    text
}

/// A failed operation, and whether the server may have acted on it.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestError {
    /// Why it failed.
    pub failure: Failure,
    /// True if the server may have acted on the request; false if no complete request can have reached it.
    pub sent: bool,
}

/// The ways in which an operation on a server can fail.
#[derive(Debug, Clone, PartialEq)]
pub enum Failure {
    /// The caller cancelled it.
    Cancelled,
    /// The server did not answer within our own time limit.
    Timeout {
        /// The method that was not answered.
        method: String,
        /// How long we waited.
        after: Duration,
    },
    /// The gateway was stopped before the operation ended.
    Stopped,
    /// The connection failed (refused, unknown host, or a program that does not start); the text says why.
    Connect(String),
    /// The server's program does not exist, so waiting does not help; the text says how to fix that.
    NoProgram(String),
    /// The configuration of the server is wrong, so waiting does not help; the text says where and how.
    Misconfigured(String),
    /// The server did not complete the handshake in time.
    NotReady {
        /// The method that was not answered.
        method: String,
        /// How long we waited.
        after: Duration,
        /// The last lines that the server wrote to its standard error.
        stderr: String,
    },
    /// The connection was closed.
    Closed,
    /// The server's process exited.
    Exited(ProcessExit),
    /// We replaced the connection because the server did not answer; the text says what it did not answer.
    Abandoned(String),
    /// The server answered with an HTTP error.
    Http(HttpError),
    /// The server needs an authorization that only a person can give; the text says what to do.
    NeedsAuth(String),
    /// The server answered with a JSON-RPC error.
    Rpc(RpcError),
    /// The server broke the protocol; the text says how.
    Protocol(String),
    /// Too many calls wait for the server; the text names the queue.
    QueueFull(String),
    /// The server is being restarted, which takes longer than the caller waits.
    Restarting,
    /// The server was lost and could not be restarted; the text says why.
    RestartFailed(String),
    /// What the rules ask for cannot be found out, so nothing was sent; the text says why.
    RulesUnavailable(String),
}

/// How a process ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessExit {
    /// Its exit code, unless a signal killed it.
    pub code: Option<i32>,
    /// The signal that killed it.
    pub signal: Option<i32>,
    /// The last lines that it wrote to its standard error.
    pub stderr: String,
    /// True if its child processes still held its output, as when a launcher does not wait for its server.
    pub left_children: bool,
    /// True if it ended without having read any of its standard input, so that no request can be the reason.
    pub read_nothing: bool,
}

/// An HTTP response that is not an MCP answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HttpError {
    /// The status code.
    pub status: u16,
    /// True if the request carried a session id.
    pub session: bool,
    /// The `WWW-Authenticate` header of the response.
    pub challenge: Option<String>,
    /// The `Retry-After` header of the response.
    pub retry_after: Option<Duration>,
    /// The number of the authorization that was refused; zero if the request carried none.
    pub edition: u64,
    /// The beginning of the body.
    pub body: String,
}

/// A JSON-RPC error.
#[derive(Clone)]
pub struct RpcError {
    /// The error code.
    pub code: i64,
    /// The error message.
    pub message: String,
    /// The additional data, as the server wrote it.
    pub data: Option<Box<RawValue>>,
}

impl RequestError {
    /// Creates the error of an operation that cannot have reached the server.
    pub fn unsent(failure: Failure) -> Self {
        RequestError { failure, sent: false }
    }

    /// Creates the error of an operation that may have reached the server.
    pub fn sent(failure: Failure) -> Self {
        RequestError { failure, sent: true }
    }
}

impl RequestError {
    /// Returns how far the request got, for the component: after [`types::Phase::Sent`], nothing that may change
    /// something is sent again.
    pub(crate) fn phase(&self) -> types::Phase {
        if self.sent && !self.failure.is_turned_away() { types::Phase::Sent } else { types::Phase::NotSent }
    }

    /// Adds the method to the message of a JSON-RPC error, which need not name it.
    #[must_use]
    pub fn with_method(mut self, method: &str) -> Self {
        if let Failure::Rpc(error) = &mut self.failure {
            error.message = format!("{method}: {}", error.message);
        }
        self
    }

    /// Returns the last lines that the server wrote to its standard error, or nothing if the failure has none.
    pub fn stderr_tail(&self) -> &str {
        match &self.failure {
            Failure::Exited(ProcessExit { stderr, .. }) | Failure::NotReady { stderr, .. } => stderr,
            _ => "",
        }
    }

    /// Returns what the server wrote along with the failure: its standard error, or the body of an HTTP error.
    pub fn server_output(&self) -> &str {
        match &self.failure {
            Failure::Http(error) => &error.body,
            _ => self.stderr_tail(),
        }
    }

    /// Removes secrets from all texts, since servers may repeat them in errors.
    #[must_use]
    pub fn redacted(self, secrets: &Secrets) -> Self {
        self.map_texts(|text| secrets.redact(text))
    }

    /// Passes every text that is not ours through `clean`.
    #[must_use]
    pub fn map_texts(mut self, clean: impl Fn(&str) -> Cow<'_, str>) -> Self {
        let texts: &mut [&mut String] = match &mut self.failure {
            Failure::Cancelled | Failure::Timeout { .. } | Failure::Stopped | Failure::Closed | Failure::Restarting => {
                &mut []
            }
            Failure::Connect(text)
            | Failure::NoProgram(text)
            | Failure::Misconfigured(text)
            | Failure::Abandoned(text)
            | Failure::Protocol(text)
            | Failure::NeedsAuth(text)
            | Failure::QueueFull(text)
            | Failure::RestartFailed(text)
            | Failure::RulesUnavailable(text) => &mut [text],
            Failure::Exited(ProcessExit { stderr, .. }) | Failure::NotReady { stderr, .. } => &mut [stderr],
            Failure::Http(HttpError { body, challenge: Some(challenge), .. }) => &mut [body, challenge],
            Failure::Http(error) => &mut [&mut error.body],
            Failure::Rpc(error) => {
                if let Some(data) = &mut error.data
                    && let Cow::Owned(clean) = clean(data.get())
                {
                    *data = RawValue::from_string(clean).unwrap_or_default();
                }
                &mut [&mut error.message]
            }
        };
        for text in texts {
            if let Cow::Owned(clean) = clean(text) {
                **text = clean;
            }
        }
        self
    }
}

impl Failure {
    /// Reports whether the server answered that it did not take the request: it wants another authorization or a new
    /// session, or fewer requests.
    fn is_turned_away(&self) -> bool {
        let Failure::Http(error) = self else { return false };
        match error.status {
            401 | 429 => true,
            403 => error.challenge.is_some(),
            400 | 404 => error.session,
            _ => false,
        }
    }
}

/// Converts a failure to the component's type.
impl From<&Failure> for types::Failure {
    fn from(failure: &Failure) -> Self {
        match failure {
            Failure::Cancelled => types::Failure::Cancelled,
            // Nobody waits any longer, as when a deadline has passed.
            Failure::Timeout { .. } | Failure::Stopped => types::Failure::Timeout,
            Failure::Connect(why) | Failure::NoProgram(why) | Failure::Misconfigured(why) => {
                types::Failure::Connect(why.clone())
            }
            Failure::NotReady { method, after, .. } => {
                types::Failure::Connect(format!("no answer to {method} within {after:?}"))
            }
            Failure::Closed | Failure::Abandoned(_) => types::Failure::Closed,
            Failure::Exited(exit) => types::Failure::Exited(exit.code),
            Failure::Http(error) => types::Failure::Http(types::HttpFailure {
                status: error.status,
                session: error.session,
                challenge: error.challenge.is_some(),
                retry_after_ms: error.retry_after.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
            }),
            Failure::NeedsAuth(why) => types::Failure::NeedsAuth(why.clone()),
            Failure::Rpc(error) => {
                types::Failure::Rpc(types::RpcFailure { code: error.code, message: error.message.clone() })
            }
            Failure::Protocol(how) => types::Failure::Protocol(how.clone()),
            Failure::QueueFull(why) => types::Failure::QueueFull(why.clone()),
            Failure::Restarting => types::Failure::RestartInProgress,
            Failure::RestartFailed(why) => types::Failure::RestartFailed(why.clone()),
            Failure::RulesUnavailable(why) => types::Failure::RulesUnavailable(why.clone()),
        }
    }
}

impl std::error::Error for RequestError {}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.failure.fmt(f)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Cancelled => f.write_str("cancelled"),
            Failure::Timeout { method, after } => write!(f, "no answer to {method} within {after:?}"),
            Failure::Stopped => f.write_str("the gateway was stopped"),
            Failure::Connect(why) | Failure::NoProgram(why) | Failure::Misconfigured(why) => {
                write!(f, "cannot connect: {why}")
            }
            Failure::NotReady { method, after, stderr } => {
                write!(f, "no answer to {method} within {after:?}")?;
                write_stderr_tail(f, stderr)
            }
            Failure::Closed => f.write_str("the connection was closed"),
            Failure::Exited(exit) => exit.fmt(f),
            Failure::Abandoned(why) => write!(f, "toolgate restarted the server, which did not answer: {why}"),
            Failure::Http(error) => error.fmt(f),
            Failure::NeedsAuth(why) => write!(f, "the server needs authorization: {why}"),
            Failure::Rpc(error) => write!(f, "{} (JSON-RPC error {})", error.message, error.code),
            Failure::Protocol(how) => write!(f, "the server broke the protocol: {how}"),
            Failure::QueueFull(which) => f.write_str(which),
            Failure::Restarting => f.write_str("the server is being restarted"),
            Failure::RestartFailed(why) => write!(f, "the server could not be restarted: {why}"),
            Failure::RulesUnavailable(why) => write!(f, "the rules cannot be applied: {why}"),
        }
    }
}

impl fmt::Display for ProcessExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code, self.signal) {
            (Some(code), _) => write!(f, "the server's process ended with exit code {code}")?,
            (None, Some(signal)) => write!(f, "the server's process was killed by signal {signal}")?,
            (None, None) => f.write_str("the server's process ended")?,
        }
        if self.left_children {
            f.write_str(", but processes that it started are still running; a server must run in the foreground")?;
        }
        write_stderr_tail(f, &self.stderr)
    }
}

fn write_stderr_tail(f: &mut fmt::Formatter<'_>, stderr: &str) -> fmt::Result {
    if stderr.is_empty() { Ok(()) } else { write!(f, "; it last wrote:\n{stderr}") }
}

impl fmt::Display for HttpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the server answered with HTTP status {}", self.status)?;
        if self.body.is_empty() { Ok(()) } else { write!(f, ": {}", self.body) }
    }
}

impl Failure {
    /// Reports whether the server asks for authorization.
    pub fn wants_authorization(&self) -> bool {
        match self {
            Failure::Http(error) => error.wants_authorization(),
            Failure::NeedsAuth(_) => true,
            _ => false,
        }
    }
}

impl HttpError {
    /// Reports whether the server asks for authorization.
    pub fn wants_authorization(&self) -> bool {
        self.status == 401 || self.status == 403 && self.challenge.is_some()
    }
}

impl RpcError {
    /// Creates an error without additional data.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        RpcError { code, message: message.into(), data: None }
    }
}

impl fmt::Debug for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let data = self.data.as_deref().map(RawValue::get);
        f.debug_struct("RpcError")
            .field("code", &self.code)
            .field("message", &self.message)
            .field("data", &data)
            .finish()
    }
}

impl PartialEq for RpcError {
    fn eq(&self, other: &Self) -> bool {
        let data = |error: &Self| error.data.as_deref().map(|data| data.get().to_owned());
        self.code == other.code && self.message == other.message && data(self) == data(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_by_which_a_server_turns_a_request_away_says_that_it_did_not_act() {
        let http = |status, session, challenge: Option<&str>| {
            let challenge = challenge.map(str::to_owned);
            Failure::Http(HttpError { status, session, challenge, ..HttpError::default() })
        };
        for (failure, phase) in [
            (http(404, true, None), types::Phase::NotSent),
            (http(400, true, None), types::Phase::NotSent),
            (http(429, false, None), types::Phase::NotSent),
            (http(401, false, None), types::Phase::NotSent),
            (http(403, false, Some("Bearer")), types::Phase::NotSent),
            (http(403, true, None), types::Phase::Sent),
            (http(404, false, None), types::Phase::Sent),
            (http(410, true, None), types::Phase::Sent),
            (http(500, true, Some("Bearer")), types::Phase::Sent),
            (Failure::Connect("reset".to_owned()), types::Phase::Sent),
            (Failure::Closed, types::Phase::Sent),
        ] {
            assert_eq!(RequestError::sent(failure.clone()).phase(), phase, "{failure}");
            assert_eq!(RequestError::unsent(failure.clone()).phase(), types::Phase::NotSent, "{failure}");
        }
    }

    #[test]
    fn a_cause_is_told_once() {
        #[derive(Debug, thiserror::Error)]
        enum Outer {
            #[error("it cannot be read: {0}")]
            Says(#[source] std::io::Error),
            #[error("it cannot be read")]
            Leaves(#[source] std::io::Error),
        }
        for outer in [Outer::Says as fn(std::io::Error) -> Outer, Outer::Leaves] {
            assert_eq!(format_chain(&outer(std::io::Error::other("no such file"))), "it cannot be read: no such file");
        }
    }
}
