//! The questions that this crate asks of the logic, whoever answers them.
//!
//! The component answers in the product. The tests let the same code answer without a sandbox, and compare.

use crate::logic::LogicError;
use crate::logic::types::{
    Failure, Json, Tool, ToolRef, arguments, catalog, content, execution, filtering, lifecycle, masking, naming,
    recovery,
};

/// A gate that was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GateId(pub(crate) u64);

/// A call that was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExecutionId(pub(crate) u64);

impl From<u64> for GateId {
    fn from(id: u64) -> Self {
        GateId(id)
    }
}

impl From<u64> for ExecutionId {
    fn from(id: u64) -> Self {
        ExecutionId(id)
    }
}

/// What an answer is, where the component may have failed to give one.
pub type LogicResult<T> = Result<T, LogicError>;

/// Everything that is decided.
pub trait Decide {
    /// Turns the first `__` into `.` where the name has no dot.
    fn normalize(&mut self, name: &str) -> LogicResult<String>;

    /// Splits `server.tool`, without a catalog.
    fn split(&mut self, name: &str) -> LogicResult<Result<ToolRef, naming::NameError>>;

    /// Gives each tool a name and a schema that the audience accepts.
    fn fit(
        &mut self,
        tools: &[naming::Candidate],
        audience: &naming::Audience,
    ) -> LogicResult<Result<Vec<naming::FittedTool>, naming::FitError>>;

    /// Reads a model's text as the arguments of a tool.
    fn parse_arguments(
        &mut self,
        text: &str,
        schema: Option<&Json>,
    ) -> LogicResult<Result<arguments::Parsed, arguments::Refusal>>;

    /// Keeps the names that the rules let through.
    fn filter(&mut self, rules: &filtering::Rules, tools: &[String]) -> LogicResult<Vec<String>>;

    /// Whether a failed operation may be tried again.
    fn classify(&mut self, failure: &Failure, context: recovery::Context) -> LogicResult<recovery::Decision>;

    /// The delay before a restart, in milliseconds, after so many restarts.
    fn restart_delay(&mut self, restarts: u32, schedule_ms: Option<&[u64]>) -> LogicResult<u64>;

    /// Reads the `result` member of an answer to `tools/call`.
    fn extract(&mut self, result: &Json) -> LogicResult<Result<content::Extracted, content::Unreadable>>;

    /// Cuts at a line end and says so; zero means no limit.
    fn truncate(&mut self, text: &str, max_bytes: u64, why: &str) -> LogicResult<String>;

    /// Replaces what the masks find.
    fn mask(&mut self, masks: &masking::Masks, text: &str) -> LogicResult<Result<String, masking::MaskError>>;

    /// The tools of these offers in the given style.
    fn expose(
        &mut self,
        offers: &[catalog::Offered],
        style: &naming::NamingStyle,
    ) -> LogicResult<Vec<catalog::ExposedTool>>;

    /// One text for the model: instructions of servers, notes on tools, and which servers failed.
    fn instructions(
        &mut self,
        servers: &[catalog::ServerNotes],
        failed: &[catalog::FailedServer],
    ) -> LogicResult<String>;

    /// The settings of the lifecycle where nothing is said.
    fn default_policy(&mut self) -> LogicResult<lifecycle::Policy>;

    /// A server before its first event.
    fn initial(&mut self, enabled: bool) -> LogicResult<lifecycle::Server>;

    /// One step of a server's lifecycle.
    fn step(
        &mut self,
        server: lifecycle::Server,
        event: &lifecycle::Event,
        policy: &lifecycle::Policy,
        now_ms: u64,
    ) -> LogicResult<lifecycle::Transition>;

    /// The settings of a gate where nothing is said.
    fn default_settings(&mut self, servers: &[String]) -> LogicResult<execution::Settings>;

    /// Opens a gate.
    fn open_gate(&mut self, settings: &execution::Settings) -> LogicResult<Result<GateId, execution::SettingsError>>;

    /// Takes what `tools/list` of a server said.
    fn offer(&mut self, gate: GateId, server: &str, tools: &[Tool]) -> LogicResult<Vec<execution::OfferNote>>;

    /// Forgets the server's offer.
    fn withdraw(&mut self, gate: GateId, server: &str) -> LogicResult<()>;

    /// The tools that a gate may use, in the given style.
    fn tools(&mut self, gate: GateId, style: &naming::NamingStyle) -> LogicResult<Vec<catalog::ExposedTool>>;

    /// Masks any JSON that a server wrote as its results are masked; it stays JSON.
    fn mask_json(&mut self, gate: GateId, server: &str, json: &str) -> LogicResult<String>;

    /// Whether a gate may have what a server has beside its tools: resources, prompts, logs, news.
    fn admits(&mut self, gate: GateId, server: &str) -> LogicResult<bool>;

    /// Begins a call, and says what to do first.
    fn begin(&mut self, gate: GateId, call: execution::ToolCall) -> LogicResult<(ExecutionId, execution::Directive)>;

    /// Takes what happened to a call, and says what to do next.
    fn next(&mut self, execution: ExecutionId, event: execution::Event) -> LogicResult<execution::Directive>;

    /// How a call has been decided so far.
    fn trace(&mut self, execution: ExecutionId) -> LogicResult<Vec<String>>;

    /// Forgets a call.
    fn end(&mut self, execution: ExecutionId) -> LogicResult<()>;

    /// Closes a gate and forgets its calls.
    fn close_gate(&mut self, gate: GateId) -> LogicResult<()>;
}
