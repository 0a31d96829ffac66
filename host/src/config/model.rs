//! What a configuration file says, as typed values; nothing is expanded yet.

mod auth;
mod gateway;
mod lifecycle;
mod position;
mod queues;
mod record;
mod results;
mod settings;
mod shadow;
mod texts;

use std::path::PathBuf;
use std::time::Duration;

pub use crate::session::Protocol;
pub use auth::{ApiKeyLocation, OAuthConfig, OAuthGrant, ServerAuth, TokenAuth};
pub use gateway::{GatewayNames, GatewayRules, GatewayTls, TokenRules, TokenSource};
pub use lifecycle::{HealthProbe, LifecycleRules};
pub use position::{FilePosition, Notice, Problem, UnexpandedText};
pub use queues::QueueRules;
pub use record::RecordRules;
pub use results::{SpillSettings, SummarizerKind, SummarizerRules};
pub use settings::{ConfigInput, CustomMask, DestructiveRule, Masking, NamesStyle, ReadinessRule, RetryRule, Settings};
pub use shadow::ShadowRules;

/// A configuration file that was read. Its `Debug` shows no value that may be a secret.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The file; none for the built-in configuration.
    pub file: Option<PathBuf>,
    /// Whose kind of file it is.
    pub shape: FileShape,
    /// What holds for all servers.
    pub settings: Settings,
    /// The servers, in the order of the file.
    pub servers: Vec<ServerConfig>,
    /// What the reader should know: entries left out, keys not understood, names changed.
    pub notices: Vec<Notice>,
}

/// Whose kind of file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileShape {
    /// Our own `toolgate.yaml`.
    Native,
    /// `mcpServers`, as Claude Desktop, Claude Code and Cursor write it.
    McpServers,
    /// `servers` and `inputs`, as VS Code writes it.
    VsCode,
    /// `mcpServers` with the keys of Gemini CLI.
    Gemini,
    /// `mcp_servers` of Codex.
    Codex,
    /// `context_servers` of Zed.
    Zed,
    /// `mcp` of opencode.
    OpenCode,
    /// A map from names to entries, with nothing around it.
    Bare,
    /// A list of entries, each with a `name`.
    List,
}

impl FileShape {
    /// The shape in words, for messages.
    pub fn name(self) -> &'static str {
        match self {
            FileShape::Native => "toolgate.yaml",
            FileShape::McpServers => "mcpServers file",
            FileShape::VsCode => "VS Code file",
            FileShape::Gemini => "Gemini CLI file",
            FileShape::Codex => "Codex file",
            FileShape::Zed => "Zed file",
            FileShape::OpenCode => "opencode file",
            FileShape::Bare => "map of servers",
            FileShape::List => "list of servers",
        }
    }
}

/// One server, as it is written.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerConfig {
    /// Its id: letters, digits, `_` and `-`; one that is not is said in `problem`.
    pub id: String,
    /// Where its entry begins.
    pub place: FilePosition,
    /// It may be used.
    pub enabled: bool,
    /// Why it cannot be used; the other servers can.
    pub problem: Option<Problem>,
    /// How it is reached.
    pub kind: TransportKind,
    /// The program to run, where it is a subprocess.
    pub command: Option<UnexpandedText>,
    /// The arguments of the program.
    pub args: Vec<UnexpandedText>,
    /// Variables for the program; they win over all others.
    pub env: Vec<(String, UnexpandedText)>,
    /// A file with more variables.
    pub env_file: Option<UnexpandedText>,
    /// Which of our own variables the program gets.
    pub inherit_env: InheritEnv,
    /// Variables of ours that the program gets where they are set, whatever `inherit_env` says.
    pub pass_env: Vec<String>,
    /// Where the program runs.
    pub working_dir: Option<UnexpandedText>,
    /// The address, where it is no subprocess.
    pub url: Option<UnexpandedText>,
    /// Headers for every request.
    pub headers: Vec<(String, UnexpandedText)>,
    /// How we prove who we are.
    pub auth: ServerAuth,
    /// Files and switches for TLS.
    pub tls: ServerTls,
    /// Which era of MCP to speak.
    pub protocol: Protocol,
    /// How long things may take.
    pub timeouts: Timeouts,
    /// The largest message that the server may send.
    pub max_message_bytes: u64,
    /// How many bytes of each of its lists are taken.
    pub max_list_bytes: u64,
    /// How long the program may take to end, before each stronger means.
    pub grace: Duration,
    /// When it is started, watched, restarted and stopped.
    pub lifecycle: LifecycleRules,
    /// The queue in which its calls wait for their turn.
    pub queue: Option<String>,
    /// The queues of single tools, by names and globs; the first that fits is used, and `queue` where none does.
    pub tool_queues: Vec<(String, String)>,
    /// The most calls at a time.
    pub max_concurrent: Option<usize>,
    /// Names and globs of the tools that exist; none means all.
    pub allow: Option<Vec<String>>,
    /// Names and globs of the tools that do not exist, whatever `allow` says.
    pub deny: Vec<String>,
    /// Names and globs of the tools that a person must approve.
    pub ask: Vec<String>,
    /// Capabilities that all are needed to use any of its tools.
    pub requires: Vec<String>,
    /// What is said of single tools.
    pub tools: Vec<ToolRules>,
    /// What is masked in its answers, beyond what is masked for all.
    pub masking: Masking,
    /// Text for the model in place of what the server says of itself.
    pub instructions: Option<String>,
}

impl ServerConfig {
    /// A server with this id of which nothing else is said.
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
            tools: Vec::new(),
            masking: Masking::default(),
            instructions: None,
        }
    }
}

/// How a server is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransportKind {
    /// A subprocess.
    Stdio,
    /// Streamable HTTP of either era; it falls back to SSE where the server is an old one.
    Http,
    /// HTTP with Server-Sent Events, the way before Streamable HTTP.
    Sse,
    /// WebSocket.
    WebSocket,
}

impl TransportKind {
    /// The name that the configuration has for it.
    pub fn name(self) -> &'static str {
        match self {
            TransportKind::Stdio => "stdio",
            TransportKind::Http => "http",
            TransportKind::Sse => "sse",
            TransportKind::WebSocket => "websocket",
        }
    }
}

/// Which of our own variables a program gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InheritEnv {
    /// All.
    All,
    /// All but those that the configuration uses for other servers, to summarize or for the gateway.
    #[default]
    Scoped,
    /// Those that programs need to run at all.
    Minimal,
    /// None.
    None,
}

/// Files and switches for TLS.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerTls {
    /// The server's certificate is checked.
    pub verify: bool,
    /// A PEM file of authorities to trust beside the system's.
    pub ca: Option<UnexpandedText>,
    /// A PEM file with our certificate.
    pub client_certificate: Option<UnexpandedText>,
    /// A PEM file with the key of our certificate.
    pub client_key: Option<UnexpandedText>,
}

impl Default for ServerTls {
    fn default() -> Self {
        ServerTls { verify: true, ca: None, client_certificate: None, client_key: None }
    }
}

/// How long things may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// An answer to a call; progress begins it anew.
    pub call: Duration,
    /// A call in all, however much progress there is.
    pub total: Duration,
    /// The first handshake, the start of the program included.
    pub initialize: Duration,
    /// A handshake after a lost session.
    pub reinitialize: Duration,
    /// An answer to a list of tools, resources or prompts.
    pub list: Duration,
    /// A TCP connection.
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

/// What is said of one tool.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolRules {
    /// The name of the tool on its server.
    pub tool: String,
    /// Overrides of what the server says of it; none says nothing.
    pub annotations: AnnotationOverrides,
    /// Capabilities that all are needed to use it.
    pub requires: Vec<String>,
    /// Text for the model beside the tool's description.
    pub note: Option<String>,
}

/// Overrides of what a server says of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AnnotationOverrides {
    /// The tool changes nothing.
    pub read_only: Option<bool>,
    /// The tool may delete or overwrite.
    pub destructive: Option<bool>,
    /// Calling the tool twice is calling it once.
    pub idempotent: Option<bool>,
    /// The tool reaches beyond a closed world.
    pub open_world: Option<bool>,
}

const MAX_MESSAGE_BYTES: u64 = 64 * 1024 * 1024;
const MAX_LIST_BYTES: u64 = 16 * 1024 * 1024;
const GRACE: Duration = Duration::from_secs(2);
