//! A tool call from its name to its result, as a state machine: event in, directive out.

mod call;
mod condensing;
mod gate;
mod outcome;
#[cfg(test)]
mod tests;

use crate::catalog::ToolChange;
use crate::filtering::{AmbiguousGrant, Policy, PolicyError, ServerRules};
use crate::masking::{MaskError, Masks};
use crate::naming::NamingStyle;
use crate::recovery::RetryPolicy;
use crate::types::{Failure, Phase, ToolRef, Trace, WaitRange};
pub use call::{Execution, Intent};
pub use gate::Gate;

/// Masks for the answers of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerMasks {
    /// The id of the server.
    pub server: String,
    /// What to mask, beyond what is masked for all.
    pub masks: Masks,
}

/// What becomes of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResultForm {
    /// Text is extracted for the model, and cut to size.
    #[default]
    Text,
    /// The answer is wanted as the server wrote it; it is read only to be masked or cut.
    PassThrough,
}

/// The settings of a gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Who may see and call what.
    pub policy: Policy,
    /// The style of the names that the model is shown.
    pub style: NamingStyle,
    /// A tool's own name routes where it is unique.
    pub bare_names: bool,
    /// Descriptions begin with `[MCP:server]`.
    pub describe_server: bool,
    /// Arguments that do not satisfy the schema are refused.
    pub check_arguments: bool,
    /// Which calls may be repeated.
    pub retry: RetryPolicy,
    /// What to mask in every answer.
    pub masks: Masks,
    /// What to mask in the answers of single servers.
    pub server_masks: Vec<ServerMasks>,
    /// What becomes of an answer.
    pub form: ResultForm,
    /// The most bytes of text in a result; zero means no limit.
    pub max_result_bytes: u64,
    /// A text that is longer is kept whole by the host before it is cut.
    pub spill: bool,
    /// A text of more tokens than this (about four bytes each) is summarized first, in the form `Text`.
    pub summarize_above_tokens: Option<u64>,
    /// The most bytes of arguments that a person is asked about; a call with more that a person must approve is declined.
    pub ask_max_bytes: u64,
}

impl Settings {
    /// The settings where nothing is said, for these servers.
    pub fn new(servers: impl IntoIterator<Item = String>) -> Self {
        let servers = servers.into_iter().map(|id| ServerRules { id, ..ServerRules::default() }).collect();
        Settings {
            policy: Policy { servers, ..Policy::default() },
            style: NamingStyle::DoubleUnderscore,
            bare_names: false,
            describe_server: false,
            check_arguments: true,
            retry: RetryPolicy::Safe,
            masks: Masks::default(),
            server_masks: Vec::new(),
            form: ResultForm::Text,
            max_result_bytes: 1 << 20,
            spill: false,
            summarize_above_tokens: None,
            ask_max_bytes: 64 << 10,
        }
    }
}

/// Why a gate cannot be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingsError {
    /// The policy cannot be used.
    Policy(PolicyError),
    /// The masks cannot be used.
    Masks(MaskError),
    /// Masks are given for this server, which is not configured.
    UnknownServer(String),
}

/// A call, as the model made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall {
    /// The caller's id of the call.
    pub id: String,
    /// The name as the model wrote it.
    pub name: String,
    /// The arguments as the model wrote them.
    pub arguments: String,
}

/// A request for a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The id of the server.
    pub server: String,
    /// The MCP method.
    pub method: String,
    /// The `params` of the request, as JSON.
    pub params: String,
    /// An answer with at most this many bytes of text may be forwarded unread; `None` means that it must be read.
    pub forward_up_to: Option<u64>,
}

/// A question to a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The tool that would be called.
    pub tool: ToolRef,
    /// With these arguments, as JSON.
    pub arguments: String,
    /// The rule that asks.
    pub reason: String,
}

/// A text that is too long to be given out as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Oversize {
    /// The tool that answered it.
    pub tool: ToolRef,
    /// The whole text, masked.
    pub text: String,
    /// Keep the whole text in a place of its own.
    pub spill: bool,
    /// Make a shorter text of it.
    pub summarize: bool,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The tool answered.
    Ok,
    /// The tool answered that it failed.
    ToolError,
    /// The name has no form that could mean a tool, or means several.
    InvalidName,
    /// There is no such server.
    UnknownServer,
    /// The server has no such tool.
    UnknownTool,
    /// The rules keep the tool out.
    NotAllowed,
    /// A person was asked and said no, or nobody could be asked.
    Declined,
    /// The arguments do not satisfy the schema, or are too large.
    InvalidArguments,
    /// The server cannot be reached.
    ServerUnavailable,
    /// The server is being restarted.
    RestartInProgress,
    /// The server could not be restarted.
    RestartFailed,
    /// The server wants an authorization.
    NeedsAuth,
    /// The server answered with an error of the protocol.
    RpcError,
    /// No answer in time.
    Timeout,
    /// The caller gave up.
    Cancelled,
    /// Too many calls are waiting.
    QueueFull,
    /// Nobody knows whether the tool ran.
    OutcomeUnknown,
    /// The answer is too large to be read.
    ResultTooLarge,
    /// The answer could not be masked.
    MaskingFailed,
    /// A fault of this component or of its host.
    Internal,
}

/// What a call came to; a call that failed is a result too, for the model to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolResult {
    /// The caller's id of the call.
    pub call_id: String,
    /// The name as the model wrote it.
    pub name: String,
    /// The tool that was meant, if one was found.
    pub tool: Option<ToolRef>,
    /// The text for the model, masked and cut; empty where the answer was forwarded or passed through.
    pub text: String,
    /// The content blocks, masked, as JSON; empty where the answer was forwarded or passed through.
    pub content: Vec<String>,
    /// The structured content, masked, as JSON.
    pub structured: Option<String>,
    /// Every other member of the result, masked, as a JSON object.
    pub more: Option<String>,
    /// The whole result as the server wrote it, masked and cut, where it is passed through.
    pub answer: Option<String>,
    /// The call failed.
    pub is_error: bool,
    /// How it ended.
    pub code: Code,
    /// How often the request was sent.
    pub attempts: u32,
    /// The text was cut or summarized, or structured content was left out.
    pub truncated: bool,
    /// How all this was decided.
    pub trace: Trace,
}

/// A call of which all is decided if its answer goes to the caller unread, and is no error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreseen {
    /// The tool that is meant; `tools/call` goes to its server.
    pub tool: ToolRef,
    /// The JSON of `params`.
    pub params: String,
    /// The most bytes of text that an answer may have to go to the caller unread.
    pub forward_up_to: u64,
    /// How all of it was decided, to the end: one note on each line.
    pub notes: String,
}

/// What lies ahead of a call.
#[derive(Debug)]
pub enum Outlook<E> {
    /// This, most likely; nothing of the call is kept.
    Foreseen(Foreseen),
    /// Something else: it has begun.
    Started(E, Directive),
}

/// What the host is to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Directive {
    /// Connect these servers and offer their tools; then `Connected`, or `Failed`.
    Connect(Vec<String>),
    /// Send this; then `Answered`, `Forwarded` or `Failed`.
    Request(Request),
    /// Open a new session with this server; then `Reconnected` or `Failed`.
    Reconnect(String),
    /// Get a new authorization for this server; then `Authenticated` or `Failed`.
    Reauthenticate(String),
    /// Wait for a time drawn from here; then `Waited`.
    Wait(WaitRange),
    /// Ask a person; then `Approved` or `Unasked`.
    Ask(Question),
    /// Keep or shorten a text, as far as asked; then `Condensed`. What could not be done is left out there.
    Condense(Oversize),
    /// Nothing; this is the result.
    Done(ToolResult),
}

/// How an answer that was forwarded unread ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The answer says `isError`.
    pub is_error: bool,
}

/// What became of a text that is too long; what was not asked for is not taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Condensed {
    /// Where the whole text is kept.
    pub kept: Option<String>,
    /// A shorter text in its place; it is masked and cut like any other.
    pub summary: Option<String>,
}

/// A failure, and how far the operation had come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// What failed.
    pub failure: Failure,
    /// Whether the request had been sent.
    pub phase: Phase,
}

/// What the host reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The servers asked for are connected, and their tools are offered.
    Connected,
    /// The `result` member of the answer, as JSON.
    Answered(String),
    /// The answer went to the caller unread.
    Forwarded(Summary),
    /// The directive could not be carried out.
    Failed(Failed),
    /// The new session stands.
    Reconnected,
    /// The new authorization is there.
    Authenticated,
    /// The wait is over.
    Waited,
    /// What the person said.
    Approved(bool),
    /// There is nobody to ask.
    Unasked,
    /// What became of the text; `Failed` in its place means that nothing did.
    Condensed(Condensed),
    /// The caller gave up.
    Cancelled,
}

/// Something worth a line in the log, found in an offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OfferNote {
    /// A tool differs from the server's last offer.
    Changed(ToolChange),
    /// The server lists this tool twice; the first one counts.
    Duplicate(String),
    /// The name of this tool is empty or too long; it is left out.
    Unusable(String),
    /// With these tools a grant names two things, and grants neither.
    AmbiguousGrant(AmbiguousGrant),
    /// No server of this id is configured; the offer is left out.
    UnknownServer(String),
}
