//! The settings of the gateway: how clients reach it, who may use it, and its limits.

use std::time::Duration;

use super::{FilePosition, RuleConfig, UnexpandedText};

/// The settings of `toolgate serve`. `Debug` shows no value that may be a secret.
#[derive(Clone, Debug, PartialEq)]
pub struct GatewayRules {
    /// The address to listen on if the command line gives none: a host and a port, such as `127.0.0.1:8808`.
    pub http: Option<String>,
    /// How to name tools; `None` means as in `Settings::names`.
    pub names: Option<GatewayNames>,
    /// Which tools are listed for clients.
    pub list: ListMode,
    /// Who may use the gateway, each with a token; without tokens it listens only on loopback.
    pub tokens: Vec<TokenRules>,
    /// Host names in addition to loopback: in lower case, without a port, IPv6 without brackets.
    pub hosts: Vec<String>,
    /// Origins of web pages that may use the gateway, as browsers send them: `https://host`, with a port other than the
    /// default.
    pub origins: Vec<String>,
    /// Whether to open a socket for commands of the same user.
    pub socket: bool,
    /// The certificate and key; `None` means HTTP without TLS.
    pub tls: Option<GatewayTls>,
    /// The largest request body.
    pub max_body_bytes: u64,
    /// The most client sessions in memory at a time.
    pub max_sessions: usize,
    /// How long to keep a session after its last use if it holds something that only this process has.
    pub session_idle: Duration,
    /// The most client connections at a time.
    pub max_connections: usize,
    /// The most requests at a time.
    pub max_in_flight: usize,
    /// The most bytes of requests and responses in memory at a time.
    pub max_inflight_bytes: u64,
    /// The most requests per second from one principal; `None` means no limit.
    pub rate: Option<u32>,
    /// How long to take new calls after SIGTERM, until load balancers have noticed that the gateway is not ready.
    pub drain_delay: Duration,
    /// How long calls may take to finish when the gateway stops, before they are cancelled.
    pub grace: Duration,
    /// The keys of sessions and approvals, which replicas have in common; the first one seals. Without any, the gateway
    /// draws one at its start.
    pub session_keys: Vec<UnexpandedText>,
    /// The URL of the store that replicas share; `None` means the memory of this process.
    pub store: Option<UnexpandedText>,
    /// What happens to calls that must be counted when the store cannot be reached.
    pub on_store_failure: StoreFailurePolicy,
    /// Who approves calls that a rule wants a person to see.
    pub approvers: Approvers,
}

impl Default for GatewayRules {
    fn default() -> Self {
        GatewayRules {
            http: None,
            names: None,
            list: ListMode::All,
            tokens: Vec::new(),
            hosts: Vec::new(),
            origins: Vec::new(),
            socket: true,
            tls: None,
            max_body_bytes: 4 * 1024 * 1024,
            max_sessions: 1000,
            session_idle: Duration::from_secs(30 * 60),
            max_connections: 1024,
            max_in_flight: 512,
            max_inflight_bytes: 256 * 1024 * 1024,
            rate: None,
            drain_delay: Duration::from_secs(5),
            grace: Duration::from_secs(10),
            session_keys: Vec::new(),
            store: None,
            on_store_failure: StoreFailurePolicy::Closed,
            approvers: Approvers::Client,
        }
    }
}

/// Who approves calls that a rule wants a person to see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Approvers {
    /// The person at the client that calls.
    #[default]
    Client,
    /// An admin of the gateway other than the caller.
    Admins,
    /// Either of them: the first answer counts.
    Either,
}

impl Approvers {
    /// All values with their names in the configuration.
    pub const ALL: [(&'static str, Approvers); 3] =
        [("client", Approvers::Client), ("admins", Approvers::Admins), ("either", Approvers::Either)];

    /// Returns the name in the configuration.
    pub fn name(self) -> &'static str {
        Self::ALL.into_iter().find(|(_, known)| *known == self).map_or("", |(name, _)| name)
    }

    /// Reports whether the person at the client may decide.
    pub fn has_client(self) -> bool {
        self != Approvers::Admins
    }

    /// Reports whether admins may decide.
    pub fn has_admins(self) -> bool {
        self != Approvers::Client
    }
}

/// What happens to calls that must be counted when the store cannot be reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreFailurePolicy {
    /// They are refused.
    #[default]
    Closed,
    /// They are made, and counted by each replica alone.
    Open,
}

impl StoreFailurePolicy {
    /// All values with their names in the configuration.
    pub const ALL: [(&'static str, StoreFailurePolicy); 2] =
        [("closed", StoreFailurePolicy::Closed), ("open", StoreFailurePolicy::Open)];
}

/// How the gateway names tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatewayNames {
    /// `server.tool`
    Dot,
    /// `server__tool`
    DoubleUnderscore,
    /// `mcp__server__tool`
    McpPrefix,
    /// `mcp_server_tool`
    McpUnderscore,
    /// By the rules of OpenAI's API.
    Openai,
    /// By the rules of Anthropic's API.
    Anthropic,
    /// By the rules of Gemini's API.
    Gemini,
    /// By the rules of Cursor.
    Cursor,
}

impl GatewayNames {
    /// All values with their names in the configuration.
    pub const ALL: [(&'static str, GatewayNames); 8] = [
        ("dot", GatewayNames::Dot),
        ("double-underscore", GatewayNames::DoubleUnderscore),
        ("mcp-prefix", GatewayNames::McpPrefix),
        ("mcp-underscore", GatewayNames::McpUnderscore),
        ("openai", GatewayNames::Openai),
        ("anthropic", GatewayNames::Anthropic),
        ("gemini", GatewayNames::Gemini),
        ("cursor", GatewayNames::Cursor),
    ];

    /// Parses a name from the configuration.
    pub fn read(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(name, _)| *name == text).map(|(_, names)| names)
    }
}

/// Which tools are listed for clients; those that are not are found by searching.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListMode {
    /// All of them.
    #[default]
    All,
    /// Only those that are always listed.
    Search,
    /// All, unless there are too many.
    Auto,
}

impl ListMode {
    /// All values with their names in the configuration.
    pub const ALL: [(&'static str, ListMode); 3] =
        [("all", ListMode::All), ("search", ListMode::Search), ("auto", ListMode::Auto)];
}

/// When tools are found by searching instead of being listed.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchRules {
    /// The number of tools above which they are not listed, with `list: auto`.
    pub above_tools: u32,
    /// The number of tokens of their definitions above which they are not listed, with `list: auto`.
    pub above_tokens: u64,
    /// The tools that are listed anyway: names and globs of the form `server.tool`.
    pub always: Vec<String>,
}

impl Default for SearchRules {
    fn default() -> Self {
        SearchRules { above_tools: 60, above_tokens: 10_000, always: Vec::new() }
    }
}

/// A principal that may use the gateway.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenRules {
    /// The position of the entry.
    pub place: FilePosition,
    /// The unique name for logs and rules: letters, digits, `_`, `.`, `@` and `-`.
    pub principal: String,
    /// The token that proves who the client is.
    pub secret: TokenSource,
    /// Whether the principal may also enable, disable and reconnect servers, and try tools.
    pub admin: bool,
    /// The servers that the principal may use, each with names and globs of tools (empty means all); `None` means all
    /// servers.
    pub selection: Option<Vec<(String, Vec<String>)>>,
    /// What the principal is granted; `None` means that it needs no grants.
    pub capabilities: Option<Vec<String>>,
    /// The groups of the principal, for rules.
    pub groups: Vec<String>,
    /// Rules for calls of the principal.
    pub rules: Vec<RuleConfig>,
    /// Which tools are listed for the principal; `None` means as for everybody.
    pub list: Option<ListMode>,
}

/// Where a token comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum TokenSource {
    /// The configuration, or a variable or file that it refers to.
    Text(UnexpandedText),
    /// A file that contains only the token.
    File(UnexpandedText),
}

impl TokenSource {
    /// Returns the text in the configuration.
    pub fn text(&self) -> &UnexpandedText {
        match self {
            TokenSource::Text(text) | TokenSource::File(text) => text,
        }
    }
}

/// The PEM files of the gateway's certificate and key.
#[derive(Clone, Debug, PartialEq)]
pub struct GatewayTls {
    /// The certificate chain.
    pub certificate: UnexpandedText,
    /// The certificate's private key.
    pub key: UnexpandedText,
}
