//! The content of a configuration file as typed values, not yet expanded.

mod auth;
mod gateway;
mod lifecycle;
mod position;
mod queues;
mod record;
mod results;
mod rules;
mod settings;
mod shadow;
mod texts;

use std::path::PathBuf;
use std::time::Duration;

use super::resolve::EnvFileDigests;
pub use crate::logic::types::Annotations;
pub use crate::logic::types::filtering::DestructivePolicy;
pub use crate::logic::types::recovery::RetryPolicy;
pub use crate::session::Protocol;
pub use auth::{ApiKeyLocation, OAuthConfig, OAuthGrant, ServerAuth, TokenAuth};
pub use gateway::{
    Approvers, GatewayNames, GatewayRules, GatewayTls, ListMode, SearchRules, StoreFailurePolicy, TokenRules,
    TokenSource,
};
pub use lifecycle::{HealthProbe, LifecycleRules};
pub use position::{FilePosition, Notice, Problem, UnexpandedText};
pub use queues::QueueRules;
pub use record::RecordRules;
pub use results::{ServerSummarizer, SpillSettings, SummarizerKind, SummarizerRules};
pub use rules::{ConditionPlace, ContextRules, ContextScope, ResultConfig, RuleConfig};
pub use settings::{ConfigInput, CustomMask, Masking, NamesStyle, ReadinessRule, Settings, WrittenAt};
pub use shadow::ShadowRules;

/// A configuration file that has been read. `Debug` shows no value that may be a secret.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The file; `None` for the built-in configuration.
    pub file: Option<PathBuf>,
    /// The format of the file.
    pub shape: FileShape,
    /// The settings for all servers.
    pub settings: Settings,
    /// The servers, in the order of the file.
    pub servers: Vec<ServerConfig>,
    /// Notices for the author of the file: skipped entries, unknown keys, changed names.
    pub notices: Vec<Notice>,
    /// The SHA-256 digest of the file's text; `None` for the built-in configuration.
    pub digest: Option<[u8; 32]>,
    /// The env files as the user trusted them; `None` if the file needs no trust.
    pub trusted_env_files: Option<EnvFileDigests>,
}

/// The format of a configuration file, named after the client that writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileShape {
    /// toolgate's own `toolgate.yaml`.
    Native,
    /// `mcpServers`, as Claude Desktop, Claude Code and Cursor write it.
    McpServers,
    /// `servers` and `inputs`, as VS Code writes it.
    VsCode,
    /// `mcpServers` with the keys of Gemini CLI.
    Gemini,
    /// `mcp_servers` of Codex.
    Codex,
    /// `mcp_servers` of TARSy, where `transport` is a map.
    Tarsy,
    /// `context_servers` of Zed.
    Zed,
    /// `mcp` of opencode.
    OpenCode,
    /// A map from names to servers at the top of the file.
    Bare,
    /// A list of servers, each with a `name`.
    List,
}

impl FileShape {
    /// Returns the name of the format, for messages.
    pub fn name(self) -> &'static str {
        match self {
            FileShape::Native => "toolgate.yaml",
            FileShape::McpServers => "mcpServers file",
            FileShape::VsCode => "VS Code file",
            FileShape::Gemini => "Gemini CLI file",
            FileShape::Codex => "Codex file",
            FileShape::Tarsy => "TARSy file",
            FileShape::Zed => "Zed file",
            FileShape::OpenCode => "opencode file",
            FileShape::Bare => "map of servers",
            FileShape::List => "list of servers",
        }
    }
}

/// One server as written in the file.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerConfig {
    /// The id: letters, digits, `_` and `-`; an invalid id is reported in `problem`.
    pub id: String,
    /// The position where the entry begins.
    pub place: FilePosition,
    /// Whether the server may be used.
    pub enabled: bool,
    /// Why the server cannot be used; the other servers can.
    pub problem: Option<Problem>,
    /// The transport.
    pub kind: TransportKind,
    /// The program to run, for a subprocess.
    pub command: Option<UnexpandedText>,
    /// The program's arguments.
    pub args: Vec<UnexpandedText>,
    /// Environment variables for the program; they override all others.
    pub env: Vec<(String, UnexpandedText)>,
    /// A file with more variables.
    pub env_file: Option<UnexpandedText>,
    /// Which of toolgate's variables the program inherits.
    pub inherit_env: InheritEnv,
    /// Variables that the program always inherits if they are set, whatever `inherit_env` says.
    pub pass_env: Vec<String>,
    /// The program's working directory.
    pub working_dir: Option<UnexpandedText>,
    /// The address, for a server on the network.
    pub url: Option<UnexpandedText>,
    /// HTTP headers for every request.
    pub headers: Vec<(String, UnexpandedText)>,
    /// How toolgate authenticates to the server.
    pub auth: ServerAuth,
    /// TLS settings.
    pub tls: ServerTls,
    /// Which version of MCP to speak.
    pub protocol: Protocol,
    /// Time limits for requests to the server.
    pub timeouts: Timeouts,
    /// The largest message to accept from the server.
    pub max_message_bytes: u64,
    /// The most bytes to keep of each list of the server.
    pub max_list_bytes: u64,
    /// How long the program may take to exit before each stronger measure.
    pub grace: Duration,
    /// When the server is started, checked, restarted and stopped.
    pub lifecycle: LifecycleRules,
    /// The queue for calls of this server.
    pub queue: Option<String>,
    /// Queues for single tools, by name or glob; the first match is used, or else `queue`.
    pub tool_queues: Vec<(String, String)>,
    /// The most concurrent calls.
    pub max_concurrent: Option<usize>,
    /// Names and globs of the only tools to offer; `None` means all.
    pub allow: Option<Vec<String>>,
    /// Names and globs of tools to hide; `deny` wins over `allow`.
    pub deny: Vec<String>,
    /// Names and globs of tools whose calls a person must approve.
    pub ask: Vec<String>,
    /// Capabilities that a principal needs, all of them, to use this server.
    pub requires: Vec<String>,
    /// Rules for calls of this server; their tools are named without it.
    pub rules: Vec<RuleConfig>,
    /// Rules for single tools.
    pub tools: Vec<ToolConfig>,
    /// What to mask in this server's results, in addition to the settings for all servers.
    pub masking: Masking,
    /// Which summarizer this server's results go to.
    pub summarizer: ServerSummarizer,
    /// Results of this server with more tokens than this are summarized; `None` means as for all servers.
    pub summarize_above_tokens: Option<u64>,
    /// Whether text that is JSON also becomes structured content.
    pub structured_text: bool,
    /// Instructions for the model that replace the server's own.
    pub instructions: Option<String>,
    /// What the server is for, in words for people.
    pub description: Option<String>,
}

impl ServerConfig {
    /// Returns how long callers wait for the first start. If `acquire_timeout` was left alone, a server that may take
    /// longer to initialize has that time.
    pub fn acquire_limit(&self) -> Duration {
        let limit = self.lifecycle.acquire_timeout;
        if limit == LifecycleRules::default().acquire_timeout {
            return limit.max(self.timeouts.initialize);
        }
        limit
    }

    /// Creates a server with this id and defaults for everything else.
    pub fn new(id: impl Into<String>, position: FilePosition, kind: TransportKind) -> Self {
        ServerConfig {
            id: id.into(),
            place: position,
            enabled: true,
            problem: None,
            kind,
            command: None,
            args: Vec::new(),
            env: Vec::new(),
            env_file: None,
            inherit_env: InheritEnv::default(),
            pass_env: Vec::new(),
            working_dir: None,
            url: None,
            headers: Vec::new(),
            auth: ServerAuth::None,
            tls: ServerTls::default(),
            protocol: Protocol::default(),
            timeouts: Timeouts::default(),
            max_message_bytes: MAX_MESSAGE_BYTES,
            max_list_bytes: MAX_LIST_BYTES,
            grace: GRACE,
            lifecycle: LifecycleRules::default(),
            queue: None,
            tool_queues: Vec::new(),
            max_concurrent: None,
            allow: None,
            deny: Vec::new(),
            ask: Vec::new(),
            requires: Vec::new(),
            rules: Vec::new(),
            tools: Vec::new(),
            masking: Masking::default(),
            summarizer: ServerSummarizer::default(),
            summarize_above_tokens: None,
            structured_text: false,
            instructions: None,
            description: None,
        }
    }
}

/// Reports whether the text is a valid id of a server or a queue.
pub fn is_id(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

/// The transport of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransportKind {
    /// A subprocess.
    Stdio,
    /// Streamable HTTP of either protocol version; falls back to SSE for an older server.
    Http,
    /// HTTP with Server-Sent Events, the predecessor of Streamable HTTP.
    Sse,
    /// WebSocket.
    WebSocket,
}

impl TransportKind {
    /// Returns the name that the configuration uses.
    pub fn name(self) -> &'static str {
        match self {
            TransportKind::Stdio => "stdio",
            TransportKind::Http => "http",
            TransportKind::Sse => "sse",
            TransportKind::WebSocket => "websocket",
        }
    }
}

/// Which of toolgate's variables a program inherits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InheritEnv {
    /// All.
    All,
    /// All but those that the configuration uses for other servers, the summarizer or the gateway.
    #[default]
    Scoped,
    /// Those that programs need to run.
    Minimal,
    /// None.
    None,
}

/// TLS settings of a server.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerTls {
    /// Whether to check the server's certificate.
    pub verify: bool,
    /// A PEM file of CAs to trust in addition to the system's.
    pub ca: Option<UnexpandedText>,
    /// A PEM file with a client certificate.
    pub client_certificate: Option<UnexpandedText>,
    /// A PEM file with the key of the client certificate.
    pub client_key: Option<UnexpandedText>,
}

impl Default for ServerTls {
    fn default() -> Self {
        ServerTls { verify: true, ca: None, client_certificate: None, client_key: None }
    }
}

/// Time limits for requests to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// How long to wait for the result of a call; progress restarts the clock.
    pub call: Duration,
    /// How long a call may take in total, whatever its progress.
    pub total: Duration,
    /// How long the first handshake may take, including the start of the program.
    pub initialize: Duration,
    /// How long the handshake after a lost session may take.
    pub reinitialize: Duration,
    /// How long to wait for a list of tools, resources or prompts.
    pub list: Duration,
    /// How long connecting over TCP may take.
    pub connect: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts {
            call: Duration::from_secs(60),
            total: Duration::from_secs(600),
            initialize: Duration::from_secs(30),
            reinitialize: Duration::from_secs(10),
            list: Duration::from_secs(10),
            connect: Duration::from_secs(10),
        }
    }
}

/// Rules for one tool.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolConfig {
    /// The name of the tool on its server.
    pub tool: String,
    /// Overrides of the server's annotations; `None` keeps what the server says.
    pub annotations: Annotations,
    /// Capabilities that a principal needs, all of them, to use the tool.
    pub requires: Vec<String>,
    /// A note on the tool, for the model's instructions.
    pub note: Option<String>,
}

const MAX_MESSAGE_BYTES: u64 = 64 * 1024 * 1024;
const MAX_LIST_BYTES: u64 = 16 * 1024 * 1024;
const GRACE: Duration = Duration::from_secs(2);
