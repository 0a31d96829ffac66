//! The data of world `logic` as plain Rust: one module per interface, with the names of the WIT.

use super::bindings::exports::toolgate::logic as generated;

pub use generated::types::{
    Annotations, Failure, HttpFailure, Json, Phase, RpcFailure, Tool, ToolRef, Trace, WaitRange,
};

impl Default for generated::rules::RuleSet {
    /// Returns no rules.
    fn default() -> Self {
        generated::rules::RuleSet { lists: Vec::new(), results: Vec::new(), known: Vec::new() }
    }
}

impl Default for generated::rules::AgentContext {
    /// Returns the context of an agent that has seen nothing.
    fn default() -> Self {
        generated::rules::AgentContext { labels: Vec::new(), known: Vec::new() }
    }
}

impl Default for Annotations {
    /// Returns the annotations of a tool that has none.
    fn default() -> Self {
        Annotations { read_only: None, destructive: None, idempotent: None, open_world: None }
    }
}

/// Parsing of text as the arguments of a tool.
pub mod arguments {
    pub use super::generated::arguments::{Note, NoteKind, Parsed, Refusal, Stage};
}

/// Tools, routes, and what the model learns about them.
pub mod catalog {
    pub use super::generated::catalog::{
        Change, ExposedTool, FailedServer, Offered, Route, ServerNotes, ToolChange, ToolNote,
    };
}

/// The content of a result.
pub mod content {
    pub use super::generated::content::{Extracted, Unreadable};
}

/// Rules that see arguments, people and what happened before.
pub mod rules {
    pub use super::generated::rules::{
        AgentContext, CallCount, CallLimit, Caller, Circumstances, Effect, KnownValue, LimitScope, MissingArgument,
        Outlook, ResultRule, Rule, RuleError, RuleNote, RuleProblem, RuleSet,
    };
}

/// A gate's settings, and the directives and events of a call.
pub mod execution {
    use super::{ToolRef, Trace};

    pub use super::generated::execution::{
        Code, Condensed, Directive, Event, Failed, Forward, OfferNote, Oversize, Question, Request, ResultForm,
        ServerSettings, Settings, SettingsError, Summary, ToolCall, ToolResult,
    };

    impl ToolCall {
        /// Creates a call with a random id.
        pub fn new(name: String, arguments: String) -> Self {
            let drawn = fastrand::u64(..).to_be_bytes();
            let digits = drawn.iter().flat_map(|byte| [byte >> 4, byte & 15]);
            // By hand, because a formatter takes several times as long, for each call.
            let id = digits.map(|digit| char::from(b"0123456789abcdef"[usize::from(digit)])).collect();
            ToolCall { id, name, arguments }
        }
    }

    impl ToolResult {
        /// Builds the result of a failed call with a text from the host; the note says why.
        pub(crate) fn failed(call: &ToolCall, code: Code, text: String, note: String) -> Self {
            ToolResult { text, is_error: true, code, attempts: 0, ..ToolResult::forwarded(call, None, vec![note]) }
        }

        /// Builds the result of a call whose response was forwarded and is no error.
        pub(crate) fn forwarded(call: &ToolCall, tool: Option<ToolRef>, trace: Trace) -> Self {
            ToolResult {
                call_id: call.id.clone(),
                name: call.name.clone(),
                tool,
                text: String::new(),
                content: Vec::new(),
                structured: None,
                more: None,
                answer: None,
                is_error: false,
                code: Code::Ok,
                attempts: 1,
                truncated: false,
                clean: false,
                trace,
                learned: None,
            }
        }
    }
}

/// Rules for who may see and call which tools.
pub mod filtering {
    pub use super::generated::filtering::{
        AmbiguousGrant, Decision, DestructivePolicy, Policy, PolicyError, RuleList, Rules, SelectedServer, ServerRules,
        ToolRules, Unmatched, Verdict,
    };
}

/// The lifecycle of one server's connection.
pub mod lifecycle {
    pub use super::generated::lifecycle::{Command, Event, Policy, Server, State, Transition};
}

/// Masks for secrets.
pub mod masking {
    pub use super::generated::masking::{BadPattern, CustomMask, MaskError, Masks, UnknownName};
}

/// Names of tools, and the audiences that read them.
pub mod naming {
    pub use super::generated::naming::{
        Audience, Candidate, FitError, FittedTool, NameError, NameProblem, NamingStyle, Target,
    };
}

/// Calls in the text of a model.
pub mod reading {
    pub use super::generated::reading::{
        AmbiguousCall, CallForm, KnownTool, ReadCall, ReadingError, Standing, UnnamedArgument,
    };
}

/// Tools that are found among many.
pub mod search {
    pub use super::generated::search::{FoundTool, SearchHit, SearchSettings};
}

/// Failures, and whether to retry.
pub mod recovery {
    pub use super::generated::recovery::{Action, Context, Decision, RetryPolicy};
}
