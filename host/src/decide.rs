//! The decisions that this crate asks of the logic, as a trait.
//!
//! The component implements it in the product. Tests also run the same code without a sandbox, and compare.

use crate::logic::LogicError;
use crate::logic::types::{
    Failure, Json, Tool, ToolRef, arguments, catalog, content, execution, filtering, lifecycle, masking, naming,
    reading, recovery, rules, search,
};

/// An open gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GateId(pub(crate) u64);

/// A running call.
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

/// The result of a decision; an error if the component fails.
pub type LogicResult<T> = Result<T, LogicError>;

/// All decisions of the logic.
pub trait Decide {
    /// Writes `server__tool` and `mcp__server__tool` as `server.tool`.
    fn normalize(&mut self, name: &str) -> LogicResult<String>;

    /// Splits `server.tool`, `server__tool` or `mcp__server__tool`, without a catalog.
    fn split(&mut self, name: &str) -> LogicResult<Result<ToolRef, naming::NameError>>;

    /// Gives each tool a name and a schema that the audience accepts.
    fn fit(
        &mut self,
        tools: &[naming::Candidate],
        audience: &naming::Audience,
    ) -> LogicResult<Result<Vec<naming::FittedTool>, naming::FitError>>;

    /// Parses a model's text as the arguments of a tool.
    fn parse_arguments(
        &mut self,
        text: &str,
        schema: Option<&Json>,
    ) -> LogicResult<Result<arguments::Parsed, arguments::Refusal>>;

    /// Returns the names that the rules allow.
    fn filter(&mut self, rules: &filtering::Rules, tools: &[String]) -> LogicResult<Vec<String>>;

    /// Decides whether a failed operation may be retried.
    fn classify(&mut self, failure: &Failure, context: recovery::Context) -> LogicResult<recovery::Decision>;

    /// Returns the delay before a restart in milliseconds, after this many restarts.
    fn restart_delay(&mut self, restarts: u32, schedule_ms: Option<&[u64]>) -> LogicResult<u64>;

    /// Reads the `result` member of a response to `tools/call`.
    fn extract(&mut self, result: &Json) -> LogicResult<Result<content::Extracted, content::Unreadable>>;

    /// Cuts a text at a line end and adds a note with the reason; zero means no limit.
    fn truncate(&mut self, text: &str, max_bytes: u64, why: &str) -> LogicResult<String>;

    /// Replaces what the masks find.
    fn mask(&mut self, masks: &masking::Masks, text: &str) -> LogicResult<Result<String, masking::MaskError>>;

    /// Returns the tools of these offers in the given style.
    fn expose(
        &mut self,
        offers: &[catalog::Offered],
        style: &naming::NamingStyle,
    ) -> LogicResult<Vec<catalog::ExposedTool>>;

    /// Builds one text for the model: instructions of servers, notes on tools, and failed servers.
    fn instructions(
        &mut self,
        servers: &[catalog::ServerNotes],
        failed: &[catalog::FailedServer],
    ) -> LogicResult<String>;

    /// Finds the calls in a text that stand for themselves, or with `loose` also those that it mentions or quotes.
    fn read_calls(
        &mut self,
        text: &str,
        tools: &[reading::KnownTool],
        loose: bool,
    ) -> LogicResult<Result<Vec<reading::ReadCall>, reading::ReadingError>>;

    /// Finds the best of these tools for each query.
    fn search(
        &mut self,
        tools: &[catalog::Offered],
        queries: &[String],
        limit: u32,
    ) -> LogicResult<Vec<Vec<search::SearchHit>>>;

    /// Returns what an agent knows that may send these texts.
    fn known_values(&mut self, texts: &[String]) -> LogicResult<Vec<rules::KnownValue>>;

    /// Returns the default policy of the lifecycle.
    fn default_policy(&mut self) -> LogicResult<lifecycle::Policy>;

    /// Returns the state of a server before its first event.
    fn initial(&mut self, enabled: bool) -> LogicResult<lifecycle::Server>;

    /// Performs one step of a server's lifecycle.
    fn step(
        &mut self,
        server: lifecycle::Server,
        event: &lifecycle::Event,
        policy: &lifecycle::Policy,
        now_ms: u64,
    ) -> LogicResult<lifecycle::Transition>;

    /// Returns the default settings of a gate.
    fn default_settings(&mut self, servers: &[String]) -> LogicResult<execution::Settings>;

    /// Opens a gate.
    fn open_gate(&mut self, settings: &execution::Settings) -> LogicResult<Result<GateId, execution::SettingsError>>;

    /// Sets the tools that a server lists.
    fn offer(&mut self, gate: GateId, server: &str, tools: &[Tool]) -> LogicResult<Vec<execution::OfferNote>>;

    /// Removes the tools of a server.
    fn withdraw(&mut self, gate: GateId, server: &str) -> LogicResult<()>;

    /// Returns the tools that a gate may use, in the given style; with circumstances, without those of which rules
    /// refuse every call.
    fn tools(
        &mut self,
        gate: GateId,
        style: &naming::NamingStyle,
        circumstances: Option<&rules::Circumstances>,
    ) -> LogicResult<Vec<catalog::ExposedTool>>;

    /// Returns the tools that a gate may use and that a query finds, the best first.
    fn find_tools(
        &mut self,
        gate: GateId,
        query: &str,
        limit: u32,
        circumstances: Option<&rules::Circumstances>,
    ) -> LogicResult<Vec<search::FoundTool>>;

    /// Says what rules do with calls of a tool before there are arguments.
    fn foresee(
        &mut self,
        gate: GateId,
        tool: &ToolRef,
        circumstances: &rules::Circumstances,
    ) -> LogicResult<rules::Outlook>;

    /// Finds probable mistakes in the rules of a gate, given the tools that servers list.
    fn check_rules(&mut self, gate: GateId) -> LogicResult<Vec<rules::RuleNote>>;

    /// Masks JSON from a server like its results, and keeps it valid JSON.
    fn mask_json(&mut self, gate: GateId, server: &str, json: &str) -> LogicResult<String>;

    /// Reports whether a gate may use anything of a server.
    fn selects(&mut self, gate: GateId, server: &str) -> LogicResult<bool>;

    /// Reports whether a gate may use what a server has beyond tools: resources, prompts, logs, events.
    fn admits(&mut self, gate: GateId, server: &str) -> LogicResult<bool>;

    /// Begins a call, and returns the first directive.
    fn begin(&mut self, gate: GateId, call: execution::ToolCall) -> LogicResult<(ExecutionId, execution::Directive)>;

    /// Passes an event to a call, and returns the next directive.
    fn next(&mut self, execution: ExecutionId, event: execution::Event) -> LogicResult<execution::Directive>;

    /// Returns the trace of a call so far.
    fn trace(&mut self, execution: ExecutionId) -> LogicResult<Vec<String>>;

    /// Forgets a call.
    fn end(&mut self, execution: ExecutionId) -> LogicResult<()>;

    /// Closes a gate and forgets its calls.
    fn close_gate(&mut self, gate: GateId) -> LogicResult<()>;
}
