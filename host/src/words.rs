//! The component's errors as text, and its cases by the names that the WIT gives them.

use crate::logic::types::{
    arguments, content, execution, filtering, lifecycle, masking, naming, reading, recovery, rules,
};

/// An error that can be described to a person or a model.
pub trait ErrorText {
    /// Returns the message, in lower case and without a full stop, except for texts that models know.
    fn error_text(&self) -> String;
}

impl ErrorText for naming::NameError {
    fn error_text(&self) -> String {
        self.message.clone()
    }
}

impl ErrorText for naming::FitError {
    fn error_text(&self) -> String {
        match self {
            naming::FitError::PrefixTooLong(least) => {
                format!("the prefix leaves fewer than {least} characters for a name; use a shorter one")
            }
            naming::FitError::BadSchema(tool) => {
                format!("the schema of tool {:?} on server {:?} cannot be read as JSON", tool.tool, tool.server)
            }
        }
    }
}

impl ErrorText for arguments::Refusal {
    fn error_text(&self) -> String {
        match self {
            arguments::Refusal::TooLarge(limit) => {
                format!("arguments larger than {limit} bytes: send less in one call, or refer to the data")
            }
            arguments::Refusal::TooManyValues(limit) => {
                format!("arguments with more than {limit} JSON values: split them over several calls")
            }
            arguments::Refusal::TooDeep(limit) => format!("arguments nested deeper than {limit} levels: flatten them"),
        }
    }
}

impl ErrorText for reading::ReadingError {
    fn error_text(&self) -> String {
        match self {
            reading::ReadingError::TooLarge(limit) => {
                format!("a text larger than {limit} bytes: send less in one text")
            }
            reading::ReadingError::TooManyValues(limit) => {
                format!("a call with more than {limit} JSON values: split it over several calls")
            }
            reading::ReadingError::TooDeep(limit) => {
                format!("a call nested deeper than {limit} levels: flatten its arguments")
            }
            reading::ReadingError::Ambiguous(reading::AmbiguousCall { at, one, other }) => {
                format!("the call at byte {at} has two readings, {one} and {other}: write only the one that you mean")
            }
            reading::ReadingError::Unnamed(reading::UnnamedArgument { at, tool, position }) => {
                format!("argument {position} of the call of {tool:?} at byte {at} has no name: write it as name=value")
            }
            reading::ReadingError::Incomplete(at) => {
                format!("the call at byte {at} has no end: write the whole call, with its closing brackets and tags")
            }
            reading::ReadingError::Malformed(at) => {
                format!("the arguments of the call at byte {at} are broken JSON: write one whole JSON object")
            }
            reading::ReadingError::Tangled(at) => format!(
                "too many calls without an end up to byte {at}: write each call once, with its closing brackets and tags"
            ),
        }
    }
}

impl ErrorText for content::Unreadable {
    fn error_text(&self) -> String {
        match self {
            content::Unreadable::Malformed(why) => format!("the result is malformed: {why}"),
            content::Unreadable::TooLarge(limit) => format!("the result is larger than {limit} bytes"),
            content::Unreadable::TooManyValues(limit) => format!("the result has more than {limit} JSON values"),
            content::Unreadable::TooDeep(limit) => format!("the result is nested deeper than {limit} levels"),
        }
    }
}

impl ErrorText for masking::MaskError {
    fn error_text(&self) -> String {
        match self {
            masking::MaskError::UnknownGroup(unknown) => {
                format!("mask pattern group {:?} not found; there are: {}", unknown.name, unknown.known.join(", "))
            }
            masking::MaskError::UnknownPattern(unknown) => {
                format!("mask pattern {:?} not found; there are: {}", unknown.name, unknown.known.join(", "))
            }
            masking::MaskError::BadPattern(bad) => {
                format!("custom mask pattern {:?} cannot be used: {}", bad.pattern, bad.reason)
            }
        }
    }
}

impl ErrorText for filtering::AmbiguousGrant {
    fn error_text(&self) -> String {
        format!("capability {:?} is ambiguous; write one of: {}", self.grant, self.meanings.join(", "))
    }
}

impl ErrorText for filtering::PolicyError {
    fn error_text(&self) -> String {
        match self {
            filtering::PolicyError::EmptySelection => "MCP selection must have at least one server".to_owned(),
            filtering::PolicyError::UnknownServer(id) => format!("MCP server {id:?} of the selection not found"),
            filtering::PolicyError::DuplicateServer(id) => format!("two servers have the id {id:?}"),
            filtering::PolicyError::BadServerId(id) => {
                format!("server id {id:?} must be letters, digits, '_' and '-'")
            }
            filtering::PolicyError::AmbiguousGrant(grant) => grant.error_text(),
            filtering::PolicyError::BadGlob(why) => why.clone(),
        }
    }
}

impl ErrorText for execution::SettingsError {
    fn error_text(&self) -> String {
        match self {
            execution::SettingsError::Policy(error) => error.error_text(),
            execution::SettingsError::Masks(error) => error.error_text(),
            execution::SettingsError::UnknownServer(id) => {
                format!("masks are given for server {id:?}, which is not configured")
            }
            execution::SettingsError::Rules(error) => error.error_text(),
            execution::SettingsError::RuleTools(error) if error.rule.is_empty() => {
                format!("the tools of an entry of `results`: {}", error.message)
            }
            execution::SettingsError::RuleTools(error) => {
                format!("the tools of rule {:?}: {}", error.rule, error.message)
            }
        }
    }
}

impl ErrorText for rules::RuleError {
    fn error_text(&self) -> String {
        format!("the condition of rule {:?} cannot be read: {}", self.rule, self.message)
    }
}

impl ErrorText for rules::RuleNote {
    fn error_text(&self) -> String {
        let rule = match self.rule.as_str() {
            "" => "results".to_owned(),
            name => format!("rule {name:?}"),
        };
        match &self.problem {
            rules::RuleProblem::Unmatched(pattern) => format!("{rule}: no tool is called {pattern:?}"),
            rules::RuleProblem::MissingArgument(missing) => {
                format!("{rule}: tool {:?} has no argument {}, so its condition fails", missing.tool, missing.argument)
            }
            rules::RuleProblem::Constant(value) => format!("{rule}: its condition is {value} for every call"),
        }
    }
}

/// A case with a name, spelled as in the WIT and in all JSON.
pub trait NamedCase: Sized + Copy + 'static {
    /// The noun for the cases in messages.
    const WHAT: &'static str;

    /// All cases and their names.
    const ALL: &'static [(Self, &'static str)];

    /// Returns the name of the case.
    fn name(self) -> &'static str;

    /// Returns the case with this name; the error lists the known names.
    fn parse(name: &str) -> Result<Self, String> {
        let known = || Self::ALL.iter().map(|(_, name)| *name).collect::<Vec<_>>().join(", ");
        let found = Self::ALL.iter().find(|(_, known)| *known == name);
        found.map(|(case, _)| *case).ok_or_else(|| format!("unknown {} {name:?}; there are: {}", Self::WHAT, known()))
    }
}

macro_rules! named {
    ($($what:literal $type:ty { $($case:ident = $name:literal),* $(,)? })*) => {
        $(impl NamedCase for $type {
            const WHAT: &'static str = $what;
            const ALL: &'static [(Self, &'static str)] = &[$((<$type>::$case, $name)),*];
            fn name(self) -> &'static str {
                match self {
                    $(<$type>::$case => $name),*
                }
            }
        })*
    };
}

named! {
    "target" naming::Target {
        Mcp = "mcp", Anthropic = "anthropic", Openai = "openai", Gemini = "gemini", Cursor = "cursor",
    }
    "stage" arguments::Stage {
        Empty = "empty", Json = "json", JsonValue = "json-value", JsonRepaired = "json-repaired", Yaml = "yaml",
        KeyValue = "key-value", Raw = "raw",
    }
    "form of a call" reading::CallForm {
        React = "react", Python = "python", Json = "json", OpenAi = "open-ai", Anthropic = "anthropic",
        ToolCallTag = "tool-call-tag", FunctionTag = "function-tag", Invoke = "invoke",
        ToolCallsMark = "tool-calls-mark", BarMark = "bar-mark", PythonTag = "python-tag", ToolCode = "tool-code",
    }
    "standing of a call" reading::Standing {
        OwnLine = "own-line", Fenced = "fenced", Marked = "marked", Inline = "inline", Quoted = "quoted",
    }
    "policy for destructive tools" filtering::DestructivePolicy { Allow = "allow", Ask = "ask", Deny = "deny" }
    "verdict" filtering::Verdict { Allow = "allow", Ask = "ask", Deny = "deny" }
    "retry policy" recovery::RetryPolicy { Safe = "safe", Always = "always", Never = "never" }
    "action" recovery::Action {
        Surface = "surface", RetrySameSession = "retry-same-session", RetryNewSession = "retry-new-session",
        Reauthenticate = "reauthenticate", OutcomeUnknown = "outcome-unknown",
    }
    "state" lifecycle::State {
        Disabled = "disabled", Dormant = "dormant", Connecting = "connecting", Ready = "ready",
        Degraded = "degraded", Restarting = "restarting", Failed = "failed", NeedsAuth = "needs-auth",
    }
    "scope of a limit" rules::LimitScope { Principal = "principal", Everybody = "everybody" }
    "phase" crate::logic::types::Phase { NotSent = "not-sent", Sent = "sent" }
    "form" execution::ResultForm { Text = "text", PassThrough = "pass-through" }
    "code" execution::Code {
        Ok = "ok", ToolError = "tool-error", InvalidName = "invalid-name", UnknownServer = "unknown-server",
        UnknownTool = "unknown-tool", NotAllowed = "not-allowed", Declined = "declined",
        InvalidArguments = "invalid-arguments", ServerUnavailable = "server-unavailable",
        RestartInProgress = "restart-in-progress", RestartFailed = "restart-failed", NeedsAuth = "needs-auth",
        RpcError = "rpc-error", Timeout = "timeout", Cancelled = "cancelled", QueueFull = "queue-full",
        OutcomeUnknown = "outcome-unknown", ResultTooLarge = "result-too-large", MaskingFailed = "masking-failed",
        Internal = "internal",
    }
}
