//! A tool call from its name to its result, as a state machine: event in, directive out.

mod call;
mod condensing;
mod gate;
mod gate_state;
mod outcome;
mod own_tools;
mod plan;
#[cfg(test)]
mod tests;

use crate::catalog::ToolChange;
use crate::filtering::{AmbiguousGrant, Policy, PolicyError, ServerRules};
use crate::masking::{MaskError, Masks};
use crate::naming::NamingStyle;
use crate::recovery::RetryPolicy;
use crate::rules::{AgentContext, CallCount, Circumstances, RuleError, RuleSet};
use crate::search::SearchSettings;
use crate::types::{Failure, Phase, ToolRef, Trace, WaitRange};
pub use call::{Execution, Intent};
pub use gate::Gate;

/// Settings for the results of one server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerSettings {
    /// The id of the server.
    pub server: String,
    /// Masks that apply in addition to those for every server.
    pub masks: Masks,
    /// The number of tokens above which a text is summarized; `None` means as for every server.
    pub summarize_above_tokens: Option<u64>,
    /// Whether a result without structured content gets it from its text, if that is JSON.
    pub structured_text: bool,
}

/// What happens to a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResultForm {
    /// The text is extracted for the model and cut to size.
    #[default]
    Text,
    /// The caller gets the result as the server wrote it; it is read only to mask or cut it.
    PassThrough,
}

/// The settings of a gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The rules for what may be seen and called.
    pub policy: Policy,
    /// The naming style of the tools that the model sees.
    pub style: NamingStyle,
    /// Whether a tool's own name routes if only one server has it.
    pub bare_names: bool,
    /// Whether descriptions begin with `[MCP:server]`.
    pub describe_server: bool,
    /// Whether arguments that do not satisfy the schema are refused.
    pub check_arguments: bool,
    /// Which calls may be repeated.
    pub retry: RetryPolicy,
    /// The masks for every result.
    pub masks: Masks,
    /// What differs for single servers.
    pub server_settings: Vec<ServerSettings>,
    /// What happens to a result.
    pub form: ResultForm,
    /// The maximum size of a result's text in bytes, with the texts of embedded resources; zero means no limit.
    pub max_result_bytes: u64,
    /// Whether the host saves the full text before it is cut or summarized.
    pub spill: bool,
    /// The number of tokens (about four bytes each) above which a text is summarized, in the form `Text`.
    pub summarize_above_tokens: Option<u64>,
    /// The maximum size in bytes of arguments that a person is asked about; if approval is needed, larger calls are
    /// declined.
    pub ask_max_bytes: u64,
    /// The rules that see arguments, people and what happened before.
    pub rules: RuleSet,
    /// When tools are found by searching instead of being listed; `None` means never.
    pub search: Option<SearchSettings>,
}

impl Settings {
    /// Returns the default settings for these servers.
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
            server_settings: Vec::new(),
            form: ResultForm::Text,
            max_result_bytes: 1 << 20,
            spill: false,
            summarize_above_tokens: None,
            ask_max_bytes: 64 << 10,
            rules: RuleSet::default(),
            search: None,
        }
    }
}

/// The reason why a gate cannot be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingsError {
    /// The policy is not valid.
    Policy(PolicyError),
    /// The masks are not valid.
    Masks(MaskError),
    /// There are masks for this server, but it is not configured.
    UnknownServer(String),
    /// The condition of a rule is not valid.
    Rules(RuleError),
    /// The tools of a rule, or of an entry of `results`, are not valid.
    RuleTools(RuleError),
}

/// A call, as the model wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall {
    /// The id that the caller gave to the call.
    pub id: String,
    /// The name as the model wrote it.
    pub name: String,
    /// The arguments as the model wrote them.
    pub arguments: String,
}

/// A request to a server: `tools/call` with this tool's own name and these arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The tool to call.
    pub tool: ToolRef,
    /// The arguments, as one JSON object.
    pub arguments: String,
    /// Whether the host may forward the response without reading it; `None` means that it must be read.
    pub forward: Option<Forward>,
    /// What to add to the agent's context before the request is sent.
    pub learned: Option<AgentContext>,
}

/// How a call ends if its response is forwarded without being read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forward {
    /// The maximum number of bytes of text in the response.
    pub up_to: u64,
    /// The complete trace of the call if the response is no error.
    pub trace: Trace,
}

/// A question to a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The tool that would be called.
    pub tool: ToolRef,
    /// The arguments, as JSON.
    pub arguments: String,
    /// The rule that requires approval.
    pub reason: String,
}

/// A text that is too long for the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Oversize {
    /// The tool that returned the text.
    pub tool: ToolRef,
    /// The full text with the texts of embedded resources, masked.
    pub text: String,
    /// Whether to save the full text.
    pub spill: bool,
    /// Whether to summarize the text.
    pub summarize: bool,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The tool succeeded.
    Ok,
    /// The tool reported an error.
    ToolError,
    /// The name has no valid form, or matches several tools.
    InvalidName,
    /// No server has this id.
    UnknownServer,
    /// The server has no tool of this name.
    UnknownTool,
    /// The rules deny the tool, or the call.
    NotAllowed,
    /// The call needs approval, and the person declined or could not be asked.
    Declined,
    /// The arguments do not satisfy the schema, or are too large.
    InvalidArguments,
    /// The server cannot be reached.
    ServerUnavailable,
    /// The server is being restarted.
    RestartInProgress,
    /// The server could not be restarted.
    RestartFailed,
    /// The server requires authorization.
    NeedsAuth,
    /// The server answered with a JSON-RPC error.
    RpcError,
    /// No response in time.
    Timeout,
    /// The caller cancelled.
    Cancelled,
    /// Too many calls are waiting.
    QueueFull,
    /// It is unknown whether the tool ran.
    OutcomeUnknown,
    /// The result is too large to be read.
    ResultTooLarge,
    /// The result could not be masked.
    MaskingFailed,
    /// A bug in this component or in its host.
    Internal,
}

/// The outcome of a call; a failed call also has a result, for the model to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolResult {
    /// The id that the caller gave to the call.
    pub call_id: String,
    /// The name as the model wrote it.
    pub name: String,
    /// The tool that the name means, also if it is denied or its server is not available.
    pub tool: Option<ToolRef>,
    /// The text for the model, masked and cut; empty if the result was forwarded or passed through.
    pub text: String,
    /// The content blocks, masked, as JSON; empty if the result was forwarded or passed through.
    pub content: Vec<String>,
    /// The structured content, masked, as JSON.
    pub structured: Option<String>,
    /// All other members of the result, masked, as a JSON object; if the call was refused, `_meta` says why.
    pub more: Option<String>,
    /// The whole result as the server wrote it, masked and cut, if it is passed through.
    pub answer: Option<String>,
    /// The call failed.
    pub is_error: bool,
    /// How the call ended.
    pub code: Code,
    /// How many times the request was sent.
    pub attempts: u32,
    /// Whether the text was cut or summarized, or structured content was dropped.
    pub truncated: bool,
    /// Whether the masks looked at every part of the answer and found nothing, so that it may be stored as it is.
    pub clean: bool,
    /// The trace of all decisions.
    pub trace: Trace,
    /// What the result taught, to add to the agent's context before the caller gets the result.
    pub learned: Option<AgentContext>,
}

/// What the host must do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Directive {
    /// Connect these servers and offer their tools, then report `Connected` or `Failed`.
    Connect(Vec<String>),
    /// Send this request, then report `Answered`, `Forwarded` or `Failed`.
    Request(Request),
    /// Open a new session with this server, then report `Reconnected` or `Failed`.
    Reconnect(String),
    /// Get a new authorization for this server, then report `Authenticated` or `Failed`.
    Reauthenticate(String),
    /// Wait for a time from this range, then report `Waited`.
    Wait(WaitRange),
    /// Report the `Circumstances` of the call; the values that the agent knows are needed only if this is true.
    Circumstances(bool),
    /// Count the call for these rules, which have limits, then report `Counted` or `Failed`.
    Count(Vec<String>),
    /// Ask a person, then report `Approved` or `Unasked`.
    Ask(Question),
    /// Save or summarize a text as requested, then report `Condensed`, without the parts that failed.
    Condense(Oversize),
    /// The call is done; this is its result.
    Done(ToolResult),
}

/// What is known about a result that was forwarded without being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Whether the result says `isError`.
    pub is_error: bool,
}

/// What the host did with a text that is too long; anything that was not requested is ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Condensed {
    /// Where the full text is saved.
    pub kept: Option<String>,
    /// A summary to use instead of the text; it is masked and cut as well.
    pub summary: Option<String>,
}

/// A failure, and how far the operation got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// What failed.
    pub failure: Failure,
    /// Whether the request had been sent.
    pub phase: Phase,
}

/// What the host reports after a directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The servers are connected, and their tools are offered.
    Connected,
    /// The `result` member of the response, as JSON.
    Answered(String),
    /// The result was forwarded to the caller without being read.
    Forwarded(Summary),
    /// The directive could not be carried out.
    Failed(Failed),
    /// The new session is open.
    Reconnected,
    /// The new authorization was obtained.
    Authenticated,
    /// The wait is over.
    Waited,
    /// Who calls, when, and what the agent has seen before.
    Circumstances(Circumstances),
    /// How often calls fitted each of the rules, in the same order.
    Counted(Vec<CallCount>),
    /// The person's answer.
    Approved(bool),
    /// The person could not be asked.
    Unasked,
    /// What was done with the text; `Failed` means that nothing was.
    Condensed(Condensed),
    /// The caller cancelled.
    Cancelled,
}

/// Something about a tool list that is worth logging.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OfferNote {
    /// A tool changed since the server's last list.
    Changed(ToolChange),
    /// The server lists this tool twice; the first entry counts.
    Duplicate(String),
    /// The tool's name is empty or too long, so the tool is ignored.
    Unusable(String),
    /// With these tools, a grant is ambiguous and grants nothing.
    AmbiguousGrant(AmbiguousGrant),
    /// No server with this id is configured, so the list is ignored.
    UnknownServer(String),
}
