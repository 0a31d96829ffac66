//! Types that all modules share; each mirrors an item of `types.wit`.

use std::borrow::Cow;

/// Short notes on how a decision was made, in order.
pub type Trace = Vec<String>;

/// A note for a trace; most are static texts, which are copied only if somebody reads them.
pub type TraceNote = Cow<'static, str>;

/// One tool of one server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ToolRef {
    /// The id of the server, as configured.
    pub server: String,
    /// The name of the tool, as the server lists it.
    pub tool: String,
}

impl ToolRef {
    /// One tool of one server.
    pub fn new(server: impl Into<String>, tool: impl Into<String>) -> Self {
        ToolRef { server: server.into(), tool: tool.into() }
    }
}

/// What a tool declares about itself, or what the configuration declares about it; `None` means no statement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Annotations {
    /// The tool changes nothing (`readOnlyHint`).
    pub read_only: Option<bool>,
    /// The tool may delete or overwrite (`destructiveHint`).
    pub destructive: Option<bool>,
    /// Calling the tool twice has the same effect as calling it once (`idempotentHint`).
    pub idempotent: Option<bool>,
    /// The tool reaches beyond a closed environment (`openWorldHint`).
    pub open_world: Option<bool>,
}

impl Annotations {
    /// Returns these annotations, with the others as defaults.
    pub fn or(self, other: Annotations) -> Annotations {
        Annotations {
            read_only: self.read_only.or(other.read_only),
            destructive: self.destructive.or(other.destructive),
            idempotent: self.idempotent.or(other.idempotent),
            open_world: self.open_world.or(other.open_world),
        }
    }
}

/// A tool as its server lists it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tool {
    /// The name of the tool on its server.
    pub name: String,
    /// The description, for the model.
    pub description: Option<String>,
    /// The JSON Schema of the tool's arguments, as JSON.
    pub input_schema: Option<String>,
    /// The annotations that the server gives.
    pub annotations: Annotations,
}

/// How far a request got before it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The server cannot have acted on the request: no whole request reached it, or it turned the request away unread.
    NotSent,
    /// The server may have acted on the request.
    Sent,
}

/// An HTTP response that is not an MCP response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpFailure {
    /// The status code.
    pub status: u16,
    /// The request carried a session id.
    pub session: bool,
    /// The response carried an authentication challenge.
    pub challenge: bool,
    /// The response's Retry-After, in milliseconds.
    pub retry_after_ms: Option<u64>,
}

/// A JSON-RPC error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RpcFailure {
    /// The error code.
    pub code: i64,
    /// The error text: it is shown to the model, and no decision depends on it.
    pub message: String,
}

/// How an operation on a server failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The caller cancelled.
    Cancelled,
    /// No response in time.
    Timeout,
    /// No connection: refused, unknown host, or a program that does not start.
    Connect(String),
    /// The connection closed.
    Closed,
    /// The server's process ended, with this exit code unless it was killed.
    Exited(Option<i32>),
    /// The server answered with an HTTP error.
    Http(HttpFailure),
    /// The server answered with a JSON-RPC error.
    Rpc(RpcFailure),
    /// The server violated the protocol.
    Protocol(String),
    /// A queue of the server is full, and nothing was sent.
    QueueFull(String),
    /// The server requires an authorization that the host does not have.
    NeedsAuth(String),
    /// The server is being restarted, and the caller's time limit passed first.
    RestartInProgress,
    /// The server could not be restarted.
    RestartFailed(String),
    /// The host cannot find out what the rules ask for, so nothing was sent.
    RulesUnavailable(String),
}

/// A time range from which the host draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitRange {
    /// The shortest wait, in milliseconds.
    pub min_ms: u64,
    /// The longest wait, in milliseconds.
    pub max_ms: u64,
}
