//! Typed calls of an instance: every function of world `logic`, with the names and types of the WIT.

use super::error::LogicError;
use super::instance::{Instance, ResourceHandle};
use super::types::{
    Annotations, Failure, Json, Tool, ToolRef, Trace, WaitRange, arguments, catalog, content, execution, filtering,
    lifecycle, masking, naming, reading, recovery, rules, search,
};

/// A catalog in one instance.
#[derive(Debug, PartialEq, Eq)]
pub struct CatalogHandle(ResourceHandle);

/// A masker in one instance.
#[derive(Debug, PartialEq, Eq)]
pub struct MaskerHandle(ResourceHandle);

/// A gate in one instance.
#[derive(Debug, PartialEq, Eq)]
pub struct GateHandle(ResourceHandle);

/// A running call in one instance.
#[derive(Debug, PartialEq, Eq)]
pub struct ExecutionHandle(ResourceHandle);

type LogicResult<T> = Result<T, LogicError>;

/// `naming`
impl Instance {
    /// Writes `server__tool` and `mcp__server__tool` as `server.tool`.
    pub fn normalize(&mut self, name: &str) -> LogicResult<String> {
        self.call(|logic, store| logic.toolgate_logic_naming().call_normalize(store, name))
    }

    /// Splits `server.tool`, `server__tool` or `mcp__server__tool`, without a catalog.
    pub fn split(&mut self, name: &str) -> LogicResult<Result<ToolRef, naming::NameError>> {
        self.call(|logic, store| logic.toolgate_logic_naming().call_split(store, name))
    }

    /// Gives each tool a name and a schema that the audience accepts.
    pub fn fit(
        &mut self,
        tools: &[naming::Candidate],
        audience: &naming::Audience,
    ) -> LogicResult<Result<Vec<naming::FittedTool>, naming::FitError>> {
        self.call(|logic, store| logic.toolgate_logic_naming().call_fit(store, tools, audience))
    }
}

/// `arguments`
impl Instance {
    /// Parses a model's text as the arguments of a tool.
    pub fn parse_arguments(
        &mut self,
        text: &str,
        schema: Option<&Json>,
    ) -> LogicResult<Result<arguments::Parsed, arguments::Refusal>> {
        self.call(|logic, store| logic.toolgate_logic_arguments().call_parse(store, text, schema))
    }
}

/// `filtering`
impl Instance {
    /// Returns the names that the rules allow, in their order.
    pub fn filter(&mut self, rules: &filtering::Rules, tools: &[String]) -> LogicResult<Vec<String>> {
        self.call(|logic, store| logic.toolgate_logic_filtering().call_filter(store, rules, tools))
    }

    /// Decides on one tool, given its annotations.
    pub fn decide(
        &mut self,
        policy: &filtering::Policy,
        tool: &ToolRef,
        annotations: Annotations,
    ) -> LogicResult<Result<filtering::Decision, filtering::PolicyError>> {
        self.call(|logic, store| logic.toolgate_logic_filtering().call_decide(store, policy, tool, annotations))
    }

    /// Returns the rules of a policy about a server that match none of its tools.
    pub fn find_unmatched(
        &mut self,
        policy: &filtering::Policy,
        server: &str,
        tools: &[String],
    ) -> LogicResult<Vec<filtering::Unmatched>> {
        self.call(|logic, store| logic.toolgate_logic_filtering().call_find_unmatched(store, policy, server, tools))
    }
}

/// `catalog`
impl Instance {
    /// Builds a routing table.
    pub fn new_catalog(&mut self, servers: &[catalog::Offered], bare_names: bool) -> LogicResult<CatalogHandle> {
        let resource = self.call(|logic, store| {
            logic.toolgate_logic_catalog().catalog().call_constructor(store, servers, bare_names)
        })?;
        Ok(CatalogHandle(self.handle(resource)))
    }

    /// Finds the one tool that the name refers to.
    pub fn resolve(
        &mut self,
        catalog: &CatalogHandle,
        name: &str,
    ) -> LogicResult<Result<catalog::Route, naming::NameError>> {
        let catalog = self.resource(&catalog.0)?;
        self.call(|logic, store| logic.toolgate_logic_catalog().catalog().call_resolve(store, catalog, name))
    }

    /// Returns the tools of a catalog in the given style.
    pub fn catalog_tools(
        &mut self,
        catalog: &CatalogHandle,
        style: &naming::NamingStyle,
    ) -> LogicResult<Vec<catalog::ExposedTool>> {
        let catalog = self.resource(&catalog.0)?;
        self.call(|logic, store| logic.toolgate_logic_catalog().catalog().call_tools(store, catalog, style))
    }

    /// Frees a catalog.
    pub fn drop_catalog(&mut self, catalog: CatalogHandle) -> LogicResult<()> {
        self.drop_handle(&catalog.0)
    }

    /// Returns how the second list of tools differs from the first.
    pub fn changes(&mut self, before: &[Tool], after: &[Tool]) -> LogicResult<Vec<catalog::ToolChange>> {
        self.call(|logic, store| logic.toolgate_logic_catalog().call_changes(store, before, after))
    }

    /// Builds one text for the model: instructions of servers, notes on tools, and failed servers.
    pub fn instructions(
        &mut self,
        servers: &[catalog::ServerNotes],
        failed: &[catalog::FailedServer],
    ) -> LogicResult<String> {
        self.call(|logic, store| logic.toolgate_logic_catalog().call_instructions(store, servers, failed))
    }
}

/// `recovery` and `backoff`
impl Instance {
    /// Decides whether a failed operation may be retried.
    pub fn classify(&mut self, failure: &Failure, context: recovery::Context) -> LogicResult<recovery::Decision> {
        self.call(|logic, store| logic.toolgate_logic_recovery().call_classify(store, failure, context))
    }

    /// Returns the delay before a restart in milliseconds, after this many restarts.
    pub fn restart_delay(&mut self, restarts: u32, schedule_ms: Option<&[u64]>) -> LogicResult<u64> {
        self.call(|logic, store| logic.toolgate_logic_backoff().call_restart_delay(store, restarts, schedule_ms))
    }

    /// Returns the delay as a range for jitter.
    pub fn spread(&mut self, delay_ms: u64) -> LogicResult<WaitRange> {
        self.call(|logic, store| logic.toolgate_logic_backoff().call_spread(store, delay_ms))
    }

    /// Returns the wait before the one retry of an operation.
    pub fn retry_wait(&mut self, retry_after_ms: Option<u64>) -> LogicResult<WaitRange> {
        self.call(|logic, store| logic.toolgate_logic_backoff().call_retry_wait(store, retry_after_ms))
    }
}

/// `lifecycle`
impl Instance {
    /// Returns the default policy of the lifecycle.
    pub fn default_policy(&mut self) -> LogicResult<lifecycle::Policy> {
        self.call(|logic, store| logic.toolgate_logic_lifecycle().call_default_policy(store))
    }

    /// Returns the state of a server before its first event.
    pub fn initial(&mut self, enabled: bool) -> LogicResult<lifecycle::Server> {
        self.call(|logic, store| logic.toolgate_logic_lifecycle().call_initial(store, enabled))
    }

    /// Performs one step of the lifecycle; `now_ms` is any clock that never goes back.
    pub fn step(
        &mut self,
        server: lifecycle::Server,
        event: &lifecycle::Event,
        policy: &lifecycle::Policy,
        now_ms: u64,
    ) -> LogicResult<lifecycle::Transition> {
        self.call(|logic, store| logic.toolgate_logic_lifecycle().call_step(store, server, event, policy, now_ms))
    }

    /// Reports whether the server counts as ready.
    pub fn counts_as_ready(&mut self, server: lifecycle::Server) -> LogicResult<bool> {
        self.call(|logic, store| logic.toolgate_logic_lifecycle().call_counts_as_ready(store, server))
    }
}

/// `content`
impl Instance {
    /// Reads the `result` member of a response to `tools/call`.
    pub fn extract(&mut self, result: &Json) -> LogicResult<Result<content::Extracted, content::Unreadable>> {
        self.call(|logic, store| logic.toolgate_logic_content().call_extract(store, result))
    }

    /// Cuts a text at a line end and adds a note with the reason; zero means no limit.
    pub fn truncate(&mut self, text: &str, max_bytes: u64, why: &str) -> LogicResult<String> {
        self.call(|logic, store| logic.toolgate_logic_content().call_truncate(store, text, max_bytes, why))
    }

    /// Estimates the number of tokens of a text.
    pub fn estimate_tokens(&mut self, text: &str) -> LogicResult<u64> {
        self.call(|logic, store| logic.toolgate_logic_content().call_estimate_tokens(store, text))
    }
}

/// `masking`
impl Instance {
    /// Compiles masks.
    pub fn new_masker(&mut self, masks: &masking::Masks) -> LogicResult<Result<MaskerHandle, masking::MaskError>> {
        let made = self.call(|logic, store| logic.toolgate_logic_masking().masker().call_constructor(store, masks))?;
        Ok(made.map(|resource| MaskerHandle(self.handle(resource))))
    }

    /// Replaces what the masks find.
    pub fn mask(&mut self, masker: &MaskerHandle, text: &str) -> LogicResult<String> {
        let masker = self.resource(&masker.0)?;
        self.call(|logic, store| logic.toolgate_logic_masking().masker().call_mask(store, masker, text))
    }

    /// Replaces what the masks find in a JSON text, and keeps it valid JSON.
    pub fn mask_json(&mut self, masker: &MaskerHandle, text: &Json) -> LogicResult<Json> {
        let masker = self.resource(&masker.0)?;
        self.call(|logic, store| logic.toolgate_logic_masking().masker().call_mask_json(store, masker, text))
    }

    /// Frees a masker.
    pub fn drop_masker(&mut self, masker: MaskerHandle) -> LogicResult<()> {
        self.drop_handle(&masker.0)
    }

    /// Returns the names of the built-in patterns.
    pub fn pattern_names(&mut self) -> LogicResult<Vec<String>> {
        self.call(|logic, store| logic.toolgate_logic_masking().call_pattern_names(store))
    }

    /// Returns the names of the built-in groups.
    pub fn group_names(&mut self) -> LogicResult<Vec<String>> {
        self.call(|logic, store| logic.toolgate_logic_masking().call_group_names(store))
    }
}

/// `execution`
impl Instance {
    /// Returns the default settings of a gate for these servers.
    pub fn default_settings(&mut self, servers: &[String]) -> LogicResult<execution::Settings> {
        self.call(|logic, store| logic.toolgate_logic_execution().call_default_settings(store, servers))
    }

    /// Compiles the settings of a gate.
    pub fn new_gate(
        &mut self,
        settings: &execution::Settings,
    ) -> LogicResult<Result<GateHandle, execution::SettingsError>> {
        let made =
            self.call(|logic, store| logic.toolgate_logic_execution().gate().call_constructor(store, settings))?;
        Ok(made.map(|resource| GateHandle(self.handle(resource))))
    }

    /// Sets the tools that a server lists, and replaces its earlier ones.
    pub fn offer(&mut self, gate: &GateHandle, server: &str, tools: &[Tool]) -> LogicResult<Vec<execution::OfferNote>> {
        let gate = self.resource(&gate.0)?;
        self.call(|logic, store| logic.toolgate_logic_execution().gate().call_offer(store, gate, server, tools))
    }

    /// Removes the tools of a server.
    pub fn withdraw(&mut self, gate: &GateHandle, server: &str) -> LogicResult<()> {
        let gate = self.resource(&gate.0)?;
        self.call(|logic, store| logic.toolgate_logic_execution().gate().call_withdraw(store, gate, server))
    }

    /// Returns the tools that a gate may use, in the given style.
    pub fn gate_tools(
        &mut self,
        gate: &GateHandle,
        style: &naming::NamingStyle,
        circumstances: Option<&rules::Circumstances>,
    ) -> LogicResult<Vec<catalog::ExposedTool>> {
        let gate = self.resource(&gate.0)?;
        self.call(|logic, store| logic.toolgate_logic_execution().gate().call_tools(store, gate, style, circumstances))
    }

    /// Returns the tools that a gate may use and that a query finds.
    pub fn gate_search(
        &mut self,
        gate: &GateHandle,
        query: &str,
        limit: u32,
        circumstances: Option<&rules::Circumstances>,
    ) -> LogicResult<Vec<search::FoundTool>> {
        let gate = self.resource(&gate.0)?;
        self.call(|logic, store| {
            logic.toolgate_logic_execution().gate().call_search(store, gate, query, limit, circumstances)
        })
    }

    /// Finds the calls in a text that stand for themselves, or with `loose` also those that it mentions or quotes.
    pub fn read_calls(
        &mut self,
        text: &str,
        tools: &[reading::KnownTool],
        loose: bool,
    ) -> LogicResult<Result<Vec<reading::ReadCall>, reading::ReadingError>> {
        self.call(|logic, store| logic.toolgate_logic_reading().call_read_calls(store, text, tools, loose))
    }

    /// Finds the best of these tools for each query.
    pub fn search(
        &mut self,
        tools: &[catalog::Offered],
        queries: &[String],
        limit: u32,
    ) -> LogicResult<Vec<Vec<search::SearchHit>>> {
        self.call(|logic, store| logic.toolgate_logic_search().call_find(store, tools, queries, limit))
    }

    /// Returns what an agent knows that may send these texts.
    pub fn known_values(&mut self, texts: &[String]) -> LogicResult<Vec<rules::KnownValue>> {
        self.call(|logic, store| logic.toolgate_logic_rules().call_known_values(store, texts))
    }

    /// Says what rules do with calls of a tool before there are arguments.
    pub fn gate_foresee(
        &mut self,
        gate: &GateHandle,
        tool: &ToolRef,
        circumstances: &rules::Circumstances,
    ) -> LogicResult<rules::Outlook> {
        let gate = self.resource(&gate.0)?;
        self.call(|logic, store| logic.toolgate_logic_execution().gate().call_foresee(store, gate, tool, circumstances))
    }

    /// Finds probable mistakes in the rules of a gate.
    pub fn gate_check_rules(&mut self, gate: &GateHandle) -> LogicResult<Vec<rules::RuleNote>> {
        let gate = self.resource(&gate.0)?;
        self.call(|logic, store| logic.toolgate_logic_execution().gate().call_check_rules(store, gate))
    }

    /// Reports whether a gate may use anything of a server.
    pub fn gate_selects(&mut self, gate: &GateHandle, server: &str) -> LogicResult<bool> {
        let gate = self.resource(&gate.0)?;
        self.call(|logic, store| logic.toolgate_logic_execution().gate().call_selects(store, gate, server))
    }

    /// Reports whether a gate may use what a server has beyond tools.
    pub fn gate_admits(&mut self, gate: &GateHandle, server: &str) -> LogicResult<bool> {
        let gate = self.resource(&gate.0)?;
        self.call(|logic, store| logic.toolgate_logic_execution().gate().call_admits(store, gate, server))
    }

    /// Begins a call, and returns the first directive.
    pub fn begin(
        &mut self,
        gate: &GateHandle,
        call: &execution::ToolCall,
    ) -> LogicResult<(ExecutionHandle, execution::Directive)> {
        let gate = self.resource(&gate.0)?;
        let started =
            self.call(|logic, store| logic.toolgate_logic_execution().gate().call_begin(store, gate, call))?;
        Ok((ExecutionHandle(self.handle(started.execution)), started.directive))
    }

    /// Masks JSON from a server like its results.
    pub fn gate_mask_json(&mut self, gate: &GateHandle, server: &str, text: &Json) -> LogicResult<Json> {
        let gate = self.resource(&gate.0)?;
        self.call(|logic, store| logic.toolgate_logic_execution().gate().call_mask_json(store, gate, server, text))
    }

    /// Frees a gate; calls that it began go on.
    pub fn drop_gate(&mut self, gate: GateHandle) -> LogicResult<()> {
        self.drop_handle(&gate.0)
    }

    /// Passes an event to a call, and returns the next directive.
    pub fn next(&mut self, execution: &ExecutionHandle, event: &execution::Event) -> LogicResult<execution::Directive> {
        let execution = self.resource(&execution.0)?;
        self.call(|logic, store| logic.toolgate_logic_execution().execution().call_next(store, execution, event))
    }

    /// Returns the trace of a call so far; after `done` it is in the result.
    pub fn trace(&mut self, execution: &ExecutionHandle) -> LogicResult<Trace> {
        let execution = self.resource(&execution.0)?;
        self.call(|logic, store| logic.toolgate_logic_execution().execution().call_trace(store, execution))
    }

    /// Frees a call.
    pub fn drop_execution(&mut self, execution: ExecutionHandle) -> LogicResult<()> {
        self.drop_handle(&execution.0)
    }
}
