//! The one conversion between this crate's types (`logic`) and the types generated from WIT (`wit`).
//!
//! The parent module defines both names: the tests compile this file again with the host's generated types, to compare
//! the plain code and the component on the same values.

use super::{logic, wit};

/// Converts a value to the corresponding type of the other side.
pub(super) trait Convert<T> {
    /// Returns the value in the other type.
    fn convert(self) -> T;
}

impl<T: Convert<U>, U> Convert<Option<U>> for Option<T> {
    fn convert(self) -> Option<U> {
        self.map(T::convert)
    }
}

impl<T: Convert<U>, U> Convert<Vec<U>> for Vec<T> {
    fn convert(self) -> Vec<U> {
        self.into_iter().map(T::convert).collect()
    }
}

impl<T: Convert<U>, U, E: Convert<F>, F> Convert<Result<U, F>> for Result<T, E> {
    fn convert(self) -> Result<U, F> {
        self.map(T::convert).map_err(E::convert)
    }
}

macro_rules! same {
    ($($type:ty),*) => {
        $(impl Convert<$type> for $type {
            fn convert(self) -> $type {
                self
            }
        })*
    };
}

macro_rules! records {
    ($($module:ident::$name:ident { $($field:ident),* })*) => {
        $(impl Convert<wit::$module::$name> for logic::$module::$name {
            fn convert(self) -> wit::$module::$name {
                wit::$module::$name { $($field: self.$field.convert()),* }
            }
        }
        impl Convert<logic::$module::$name> for wit::$module::$name {
            fn convert(self) -> logic::$module::$name {
                logic::$module::$name { $($field: self.$field.convert()),* }
            }
        })*
    };
}

macro_rules! variants {
    ($($module:ident::$name:ident { $($case:ident $(($value:ident))?),* })*) => {
        $(impl Convert<wit::$module::$name> for logic::$module::$name {
            fn convert(self) -> wit::$module::$name {
                match self {
                    $(logic::$module::$name::$case $(($value))? => wit::$module::$name::$case $(($value.convert()))?),*
                }
            }
        }
        impl Convert<logic::$module::$name> for wit::$module::$name {
            fn convert(self) -> logic::$module::$name {
                match self {
                    $(wit::$module::$name::$case $(($value))? => logic::$module::$name::$case $(($value.convert()))?),*
                }
            }
        })*
    };
}

same!(String, bool, u16, u32, u64, i32, i64, f64);

impl Convert<u64> for usize {
    fn convert(self) -> u64 {
        self as u64
    }
}

impl Convert<usize> for u64 {
    fn convert(self) -> usize {
        usize::try_from(self).unwrap_or(usize::MAX)
    }
}

impl Convert<(u64, u64)> for logic::rules::KnownValue {
    fn convert(self) -> (u64, u64) {
        (self.0, self.1)
    }
}

impl Convert<logic::rules::KnownValue> for (u64, u64) {
    fn convert(self) -> logic::rules::KnownValue {
        logic::rules::KnownValue(self.0, self.1)
    }
}

records! {
    types::ToolRef { server, tool }
    types::Annotations { read_only, destructive, idempotent, open_world }
    types::Tool { name, description, input_schema, annotations }
    types::HttpFailure { status, session, challenge, retry_after_ms }
    types::RpcFailure { code, message }
    types::WaitRange { min_ms, max_ms }
    naming::NameError { problem, message }
    naming::Audience { target, prefix }
    naming::Candidate { tool, schema }
    naming::FittedTool { name, tool, schema }
    arguments::Note { kind, text }
    arguments::Parsed { arguments, stage, notes }
    reading::ReadCall { name, arguments, form, standing, start, end }
    reading::AmbiguousCall { at, one, other }
    reading::UnnamedArgument { at, tool, position }
    filtering::Rules { allow, deny }
    filtering::ToolRules { tool, annotations, requires }
    filtering::ServerRules { id, rules, ask, requires, tools }
    filtering::SelectedServer { id, tools }
    filtering::Policy { servers, selection, choice, read_only, destructive, capabilities }
    filtering::AmbiguousGrant { grant, meanings }
    filtering::Decision { verdict, trace }
    filtering::Unmatched { list, pattern }
    catalog::ExposedTool { name, tool, description, input_schema, annotations }
    catalog::ToolChange { tool, change }
    catalog::ToolNote { name, text }
    catalog::ServerNotes { server, instructions, prompts, tools }
    catalog::FailedServer { server, reason }
    search::SearchSettings { above_tools, above_tokens, always, style }
    search::SearchHit { tool, score, why }
    search::FoundTool { tool, score, why }
    recovery::Context { phase, attempt, read_only, idempotent, retry }
    recovery::Decision { action, trace }
    lifecycle::Server {
        state, users, restarts, attempting, since_ms, retry_at_ms, probe_at_ms, idle_at_ms, proven, lost
    }
    lifecycle::Policy { eager, acquire_limit_ms, restart_delays_ms, health_interval_ms, idle_timeout_ms, one_shot, prove }
    lifecycle::Transition { server, commands }
    masking::CustomMask { pattern, replacement }
    masking::Masks { groups, patterns, custom }
    masking::UnknownName { name, known }
    masking::BadPattern { pattern, reason }
    rules::CallLimit { calls, per_ms, by }
    rules::Rule { name, tools, condition, effect, limit, because }
    rules::ResultRule { tools, labels, trusted, trusted_fields }
    rules::RuleSet { lists, results, known }
    rules::RuleError { rule, at, message }
    rules::Caller { principal, groups, admin, client }
    rules::AgentContext { labels, known }
    rules::Circumstances { caller, now_ms, context }
    rules::CallCount { calls, ends_in_ms }
    rules::Outlook { denied, asked, depends, trace }
    rules::MissingArgument { tool, argument }
    rules::RuleNote { rule, at, problem }
    execution::ServerSettings { server, masks, summarize_above_tokens, structured_text }
    execution::Settings {
        policy, style, bare_names, describe_server, check_arguments, retry, masks, server_settings, form,
        max_result_bytes, spill, summarize_above_tokens, ask_max_bytes, rules, search
    }
    execution::ToolCall { id, name, arguments }
    execution::Request { tool, arguments, forward, learned }
    execution::Forward { up_to, trace }
    execution::Question { tool, arguments, reason }
    execution::Oversize { tool, text, spill, summarize }
    execution::Condensed { kept, summary }
    execution::Summary { is_error }
    execution::Failed { failure, phase }
    execution::ToolResult {
        call_id, name, tool, text, content, structured, more, answer, is_error, code, attempts, truncated, clean,
        trace, learned
    }
}

variants! {
    reading::Standing { OwnLine, Fenced, Marked, Inline, Quoted }
    reading::CallForm {
        React, Python, Json, OpenAi, Anthropic, ToolCallTag, FunctionTag, Invoke, ToolCallsMark, BarMark, PythonTag,
        ToolCode
    }
    reading::ReadingError {
        TooLarge(limit), TooManyValues(limit), TooDeep(limit), Ambiguous(call), Unnamed(argument), Incomplete(at),
        Malformed(at), Tangled(at)
    }
    types::Phase { NotSent, Sent }
    types::Failure {
        Cancelled, Timeout, Connect(why), Closed, Exited(code), Http(http), Rpc(rpc), Protocol(why),
        QueueFull(why), NeedsAuth(why), RestartInProgress, RestartFailed(why), RulesUnavailable(why)
    }
    naming::NameProblem { InvalidName, UnknownServer, UnknownTool, Ambiguous }
    naming::Target { Mcp, Anthropic, Openai, Gemini, Cursor }
    naming::NamingStyle { Dot, DoubleUnderscore, McpPrefix, McpUnderscore, Fitted(audience) }
    naming::FitError { PrefixTooLong(least), BadSchema(tool) }
    arguments::Stage { Empty, Json, JsonValue, JsonRepaired, Yaml, KeyValue, Raw }
    arguments::NoteKind { Repair, Coercion, Problem }
    arguments::Refusal { TooLarge(limit), TooManyValues(limit), TooDeep(limit) }
    filtering::DestructivePolicy { Allow, Ask, Deny }
    filtering::PolicyError {
        EmptySelection, UnknownServer(id), DuplicateServer(id), BadServerId(id), AmbiguousGrant(grant), BadGlob(why)
    }
    filtering::Verdict { Allow, Ask, Deny }
    filtering::RuleList { Allow, Deny, Ask, Tools, Selection, Capabilities }
    catalog::Change { Added, Removed, Description, Schema, Annotations }
    recovery::Action { Surface, RetrySameSession, RetryNewSession, Reauthenticate, OutcomeUnknown }
    recovery::RetryPolicy { Safe, Always, Never }
    lifecycle::State { Disabled, Dormant, Connecting, Ready, Degraded, Restarting, Failed, NeedsAuth }
    lifecycle::Event {
        Enabled, Disabled, Wanted, Released, Connected, Failed(failure), Exited, ProbeOk, ProbeFailed, CallTimedOut,
        Authenticated, Tick
    }
    lifecycle::Command { Connect, Probe, Stop, WaitUntil(range) }
    content::Unreadable { Malformed(why), TooLarge(limit), TooManyValues(limit), TooDeep(limit) }
    masking::MaskError { UnknownGroup(name), UnknownPattern(name), BadPattern(bad) }
    rules::Effect { Deny, Ask, Allow, Label(labels) }
    rules::LimitScope { Principal, Everybody }
    rules::RuleProblem { Unmatched(pattern), MissingArgument(missing), Constant(value) }
    execution::ResultForm { Text, PassThrough }
    execution::SettingsError { Policy(error), Masks(error), UnknownServer(id), Rules(error), RuleTools(error) }
    execution::Code {
        Ok, ToolError, InvalidName, UnknownServer, UnknownTool, NotAllowed, Declined, InvalidArguments,
        ServerUnavailable, RestartInProgress, RestartFailed, NeedsAuth, RpcError, Timeout, Cancelled, QueueFull,
        OutcomeUnknown, ResultTooLarge, MaskingFailed, Internal
    }
    execution::Directive {
        Connect(servers), Request(request), Reconnect(server), Reauthenticate(server), Wait(range), Circumstances(known),
        Count(rules), Ask(question), Condense(oversize), Done(result)
    }
    execution::Event {
        Connected, Answered(result), Forwarded(summary), Failed(failed), Reconnected, Authenticated, Waited,
        Circumstances(circumstances), Counted(counts), Approved(yes), Unasked, Condensed(condensed), Cancelled
    }
    execution::OfferNote {
        Changed(change), Duplicate(tool), Unusable(tool), AmbiguousGrant(grant), UnknownServer(id)
    }
}
