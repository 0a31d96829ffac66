//! Words that every other module shares; each mirrors an item of `types.wit`.

use std::borrow::Cow;

/// Short notes on how a decision was reached, in the order of the reasoning.
pub type Trace = Vec<String>;

/// A note on its way into a trace; most are fixed texts, copied only for who reads them.
pub type Note = Cow<'static, str>;

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

/// What a tool says of itself, or what the configuration says of it; `None` says nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Annotations {
    /// The tool changes nothing (`readOnlyHint`).
    pub read_only: Option<bool>,
    /// The tool may delete or overwrite (`destructiveHint`).
    pub destructive: Option<bool>,
    /// Calling the tool twice is calling it once (`idempotentHint`).
    pub idempotent: Option<bool>,
    /// The tool reaches beyond a closed world (`openWorldHint`).
    pub open_world: Option<bool>,
}

impl Annotations {
    /// These annotations where they say something, else the others.
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
    /// What the tool does, for the model.
    pub description: Option<String>,
    /// The JSON Schema of its arguments, as JSON.
    pub input_schema: Option<String>,
    /// What the server says of it.
    pub annotations: Annotations,
}

/// Whether a request had been handed to the transport when it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Not one byte can have reached the server.
    NotSent,
    /// The server may have acted on it.
    Sent,
}

/// An HTTP answer that is no MCP answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpFailure {
    /// The status code.
    pub status: u16,
    /// The request carried a session id.
    pub session: bool,
    /// The answer carried an authentication challenge.
    pub challenge: bool,
    /// The answer's Retry-After, in milliseconds.
    pub retry_after_ms: Option<u64>,
}

/// A JSON-RPC error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RpcFailure {
    /// The error code.
    pub code: i64,
    /// The error text, shown to the model and never decided on.
    pub message: String,
}

/// How an operation on a server failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The caller gave up.
    Cancelled,
    /// No answer in time.
    Timeout,
    /// No connection: refused, unknown host, or a program that does not start.
    Connect(String),
    /// The connection ended.
    Closed,
    /// The server's process ended, with this exit code if it was not killed.
    Exited(Option<i32>),
    /// The server answered with an HTTP error.
    Http(HttpFailure),
    /// The server answered with a JSON-RPC error.
    Rpc(RpcFailure),
    /// The server broke the protocol.
    Protocol(String),
    /// A queue of the server is full; nothing was sent.
    QueueFull(String),
    /// The server wants an authorization that the host does not have.
    NeedsAuth(String),
    /// The server is being restarted and the caller's limit ended first.
    RestartInProgress,
    /// The server could not be restarted.
    RestartFailed(String),
}

/// A span of time from which the host draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitRange {
    /// The shortest wait, in milliseconds.
    pub min_ms: u64,
    /// The longest wait, in milliseconds.
    pub max_ms: u64,
}
