//! The settings for all servers.

use std::fmt;

use super::{
    ContextRules, DestructivePolicy, FilePosition, GatewayRules, LifecycleRules, QueueRules, RecordRules, ResultConfig,
    RetryPolicy, RuleConfig, SearchRules, ShadowRules, SpillSettings, SummarizerRules,
};

/// The settings for all servers.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// How to name tools.
    pub names: NamesStyle,
    /// Whether a tool's own name is accepted if only one server has it.
    pub bare_names: bool,
    /// Whether descriptions begin with `[MCP:server]`.
    pub describe_server: bool,
    /// Whether to refuse arguments that do not match the schema.
    pub check_arguments: bool,
    /// Which calls to retry.
    pub retry: RetryPolicy,
    /// Whether to offer only tools that change nothing.
    pub read_only: bool,
    /// What to do with tools that may delete or overwrite.
    pub destructive: DestructivePolicy,
    /// The most bytes of arguments that a person is asked to approve; a call with more is declined.
    pub ask_max_bytes: u64,
    /// The rules for calls of all servers.
    pub rules: Vec<RuleConfig>,
    /// What results of tools mean.
    pub results: Vec<ResultConfig>,
    /// Values that every agent may send.
    pub known: Vec<String>,
    /// Whose calls share what has been seen.
    pub context: ContextRules,
    /// What to mask in all results.
    pub masking: Masking,
    /// Where `masking` is written.
    pub masking_place: WrittenAt,
    /// The most bytes of text in a result; zero means no limit.
    pub max_result_bytes: u64,
    /// Whether models get tools that list and read resources.
    pub resource_tools: bool,
    /// Results with more tokens than this are summarized, if there is a summarizer.
    pub summarize_above_tokens: u64,
    /// The summarizer of long results.
    pub summarizer: Option<SummarizerRules>,
    /// Where to keep the full text of results that were cut; `None` means nowhere.
    pub spill: Option<SpillSettings>,
    /// Where to record calls; `None` means nowhere.
    pub record: Option<RecordRules>,
    /// The lifecycle defaults; each server already includes them.
    pub lifecycle: LifecycleRules,
    /// The configured queues; a queue that is named but not listed gets the defaults.
    pub queues: Vec<QueueRules>,
    /// The settings of the gateway.
    pub gateway: GatewayRules,
    /// When the gateway's clients search for tools instead of seeing all of them.
    pub search: SearchRules,
    /// The candidate policy that a gateway tries on live calls.
    pub shadow: Option<ShadowRules>,
    /// When toolgate reports ready.
    pub readiness: ReadinessRule,
    /// Whether `${cmd:…}` may run commands.
    pub allow_commands: bool,
    /// How many servers may start at the same time; `None` means four times the number of cores, and at least 32.
    pub start_concurrency: Option<usize>,
    /// The most servers that a file may define.
    pub max_servers: usize,
    /// Whether a thread stays awake for up to 200 µs while the next message of a quick peer is expected.
    pub spin_wait: bool,
    /// Whether `$VAR` without braces is expanded too, as in Gemini CLI.
    pub bare_dollar: bool,
    /// The questions that the file asks a person.
    pub inputs: Vec<ConfigInput>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            names: NamesStyle::default(),
            bare_names: false,
            describe_server: false,
            check_arguments: true,
            retry: RetryPolicy::Safe,
            read_only: false,
            destructive: DestructivePolicy::Allow,
            ask_max_bytes: 64 * 1024,
            rules: Vec::new(),
            results: Vec::new(),
            known: Vec::new(),
            context: ContextRules::default(),
            masking: Masking::default(),
            masking_place: WrittenAt::default(),
            max_result_bytes: 1024 * 1024,
            resource_tools: false,
            summarize_above_tokens: 5000,
            summarizer: None,
            spill: None,
            record: None,
            lifecycle: LifecycleRules::default(),
            queues: Vec::new(),
            gateway: GatewayRules::default(),
            search: SearchRules::default(),
            shadow: None,
            readiness: ReadinessRule::default(),
            allow_commands: false,
            start_concurrency: None,
            max_servers: 200,
            spin_wait: true,
            bare_dollar: false,
            inputs: Vec::new(),
        }
    }
}

impl Settings {
    /// Returns how many servers may start at the same time on a machine with this many cores.
    pub fn start_concurrency(&self, cores: usize) -> usize {
        self.start_concurrency.unwrap_or_else(|| cores.saturating_mul(4).max(32))
    }
}

/// How to name tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NamesStyle {
    /// `server.tool`
    Dot,
    /// `server__tool`
    #[default]
    DoubleUnderscore,
    /// `mcp__server__tool`
    McpPrefix,
    /// `mcp_server_tool`
    McpUnderscore,
}

/// When toolgate reports ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReadinessRule {
    /// When every enabled server is ready.
    All,
    /// At once, with warnings about servers that are not ready.
    #[default]
    Any,
}

/// Where a key is written, for messages. Two settings that differ only in this are equal.
#[derive(Debug, Clone, Default)]
pub struct WrittenAt(pub Option<FilePosition>);

impl PartialEq for WrittenAt {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// What to mask in results.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Masking {
    /// Names of built-in groups.
    pub groups: Vec<String>,
    /// Names of built-in patterns.
    pub patterns: Vec<String>,
    /// Custom patterns.
    pub custom: Vec<CustomMask>,
}

/// A custom pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CustomMask {
    /// A name to show to people.
    pub name: Option<String>,
    /// A regular expression; if it has a group named `value`, only that group is replaced.
    pub pattern: String,
    /// The text to put in its place.
    pub replacement: String,
}

/// A question that a file asks a person for `${input:ID}`. `Debug` shows no default, which may be a secret.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct ConfigInput {
    /// The id.
    pub id: String,
    /// The question.
    pub description: Option<String>,
    /// Whether to hide the answer while it is typed.
    pub password: bool,
    /// The answer if none is given.
    pub default: Option<String>,
    /// The allowed answers; empty means any.
    pub options: Vec<String>,
}

impl fmt::Debug for ConfigInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConfigInput").field("id", &self.id).field("password", &self.password).finish_non_exhaustive()
    }
}
