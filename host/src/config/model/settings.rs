//! What holds for all servers.

use std::fmt;

use super::{GatewayRules, LifecycleRules, QueueRules, RecordRules, ShadowRules, SpillSettings, SummarizerRules};

/// What holds for all servers.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// How the names of tools are shown.
    pub names: NamesStyle,
    /// A tool's own name routes where it is unique.
    pub bare_names: bool,
    /// Descriptions begin with `[MCP:server]`.
    pub describe_server: bool,
    /// Arguments that do not satisfy the schema are refused.
    pub check_arguments: bool,
    /// Which calls may be repeated.
    pub retry: RetryRule,
    /// Only tools that change nothing.
    pub read_only: bool,
    /// What happens to tools that may delete or overwrite.
    pub destructive: DestructiveRule,
    /// The most bytes of arguments that a person is asked about; a call with more is declined.
    pub ask_max_bytes: u64,
    /// What is masked in every answer.
    pub masking: Masking,
    /// The most bytes of text in a result; zero means no limit.
    pub max_result_bytes: u64,
    /// A result with more tokens than this is summarized, where there is a summarizer.
    pub summarize_above_tokens: u64,
    /// Who makes a long result short.
    pub summarizer: Option<SummarizerRules>,
    /// Where results that are cut are kept whole; none means nowhere.
    pub spill: Option<SpillSettings>,
    /// Where calls are recorded; none means nowhere.
    pub record: Option<RecordRules>,
    /// What holds for the servers that do not say otherwise; each server has it already.
    pub lifecycle: LifecycleRules,
    /// What is said of queues; one that a server names and that is not here is of the usual size.
    pub queues: Vec<QueueRules>,
    /// How the gateway is reached, by whom, and how much of it one may use.
    pub gateway: GatewayRules,
    /// What a gateway asks beside the logic that decides.
    pub shadow: Option<ShadowRules>,
    /// When we are ready.
    pub readiness: ReadinessRule,
    /// `${cmd:…}` runs a command.
    pub allow_commands: bool,
    /// How many servers are started at the same time; none means four times the number of cores, and at least 32.
    pub start_concurrency: Option<usize>,
    /// The most servers that a file may have.
    pub max_servers: usize,
    /// `$VAR` without braces is expanded too, as Gemini CLI does.
    pub bare_dollar: bool,
    /// What the file asks of a person.
    pub inputs: Vec<ConfigInput>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            names: NamesStyle::default(),
            bare_names: false,
            describe_server: false,
            check_arguments: true,
            retry: RetryRule::default(),
            read_only: false,
            destructive: DestructiveRule::default(),
            ask_max_bytes: 64 * 1024,
            masking: Masking::default(),
            max_result_bytes: 1024 * 1024,
            summarize_above_tokens: 5000,
            summarizer: None,
            spill: None,
            record: None,
            lifecycle: LifecycleRules::default(),
            queues: Vec::new(),
            gateway: GatewayRules::default(),
            shadow: None,
            readiness: ReadinessRule::default(),
            allow_commands: false,
            start_concurrency: None,
            max_servers: 200,
            bare_dollar: false,
            inputs: Vec::new(),
        }
    }
}

impl Settings {
    /// How many servers are started at the same time on a machine with this many cores.
    pub fn start_concurrency(&self, cores: usize) -> usize {
        self.start_concurrency.unwrap_or_else(|| cores.saturating_mul(4).max(32))
    }
}

/// How the names of tools are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NamesStyle {
    /// `server.tool`
    Dot,
    /// `server__tool`
    #[default]
    DoubleUnderscore,
    /// `mcp__server__tool`
    McpPrefix,
}

/// Which calls may be repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RetryRule {
    /// Those that cannot have run, and those that are safe to repeat.
    #[default]
    Safe,
    /// All.
    Always,
    /// None.
    Never,
}

/// What happens to tools that may delete or overwrite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DestructiveRule {
    /// They are like any other tool.
    #[default]
    Allow,
    /// A person must approve each call.
    Ask,
    /// They are neither listed nor callable.
    Deny,
}

/// When we are ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReadinessRule {
    /// When every enabled server is.
    All,
    /// At once, with warnings about servers that are not.
    #[default]
    Any,
}

/// What is masked in answers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Masking {
    /// Names of built-in groups.
    pub groups: Vec<String>,
    /// Names of built-in patterns.
    pub patterns: Vec<String>,
    /// Patterns of one's own.
    pub custom: Vec<CustomMask>,
}

/// A pattern of one's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CustomMask {
    /// A name for people.
    pub name: Option<String>,
    /// A regular expression; where it has a group named `value`, only that is replaced.
    pub pattern: String,
    /// What stands in its place.
    pub replacement: String,
}

/// Something that a file asks of a person, as `${input:ID}`. Its `Debug` shows no default, which may be a secret.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct ConfigInput {
    /// Its id.
    pub id: String,
    /// The question.
    pub description: Option<String>,
    /// The answer is not shown while it is typed.
    pub password: bool,
    /// The answer where none is given.
    pub default: Option<String>,
    /// The answers that there are; empty means any.
    pub options: Vec<String>,
}

impl fmt::Debug for ConfigInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConfigInput").field("id", &self.id).field("password", &self.password).finish_non_exhaustive()
    }
}
