//! How the gateway is reached, by whom, and how much of it one may use.

use std::time::Duration;

use super::{FilePosition, UnexpandedText};

/// What holds for `toolgate serve`. Its `Debug` shows no value that may be a secret.
#[derive(Clone, Debug, PartialEq)]
pub struct GatewayRules {
    /// Where it listens if the command line gives no address: a host and a port, such as `127.0.0.1:8808`.
    pub http: Option<String>,
    /// How it names tools; none means as everywhere.
    pub names: Option<GatewayNames>,
    /// Who may use it, and what proves it; without any, it listens on loopback alone.
    pub tokens: Vec<TokenRules>,
    /// Names by which clients may reach it beside loopback: in lower case, without a port, IPv6 without brackets.
    pub hosts: Vec<String>,
    /// Web pages that may use it, as browsers write them: `https://host`, with a port where it is not the usual one.
    pub origins: Vec<String>,
    /// Whether commands of the same user find it through a socket.
    pub socket: bool,
    /// How it proves to clients who it is; none means HTTP without TLS.
    pub tls: Option<GatewayTls>,
    /// The largest body of a request.
    pub max_body_bytes: u64,
    /// The most sessions of clients at a time.
    pub max_sessions: usize,
    /// How long a session is kept after its last use.
    pub session_idle: Duration,
    /// The most connections of clients at a time.
    pub max_connections: usize,
    /// The most requests at a time.
    pub max_in_flight: usize,
    /// The most bytes of requests and answers that are held at a time.
    pub max_inflight_bytes: u64,
    /// The most requests a second of one principal; none means no limit.
    pub rate: Option<u32>,
    /// How long calls may take to finish when it ends; then they are cancelled.
    pub grace: Duration,
}

impl Default for GatewayRules {
    fn default() -> Self {
        GatewayRules {
            http: None,
            names: None,
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
            grace: Duration::from_secs(10),
        }
    }
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
    /// As OpenAI's API takes them.
    Openai,
    /// As Anthropic's API takes them.
    Anthropic,
    /// As Gemini's API takes them.
    Gemini,
    /// As Cursor takes them.
    Cursor,
}

impl GatewayNames {
    /// All of them, as the configuration writes them.
    pub const ALL: [(&'static str, GatewayNames); 7] = [
        ("dot", GatewayNames::Dot),
        ("double-underscore", GatewayNames::DoubleUnderscore),
        ("mcp-prefix", GatewayNames::McpPrefix),
        ("openai", GatewayNames::Openai),
        ("anthropic", GatewayNames::Anthropic),
        ("gemini", GatewayNames::Gemini),
        ("cursor", GatewayNames::Cursor),
    ];

    /// Reads what the configuration writes.
    pub fn read(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(name, _)| *name == text).map(|(_, names)| names)
    }
}

/// One who may use the gateway.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenRules {
    /// Where its entry stands.
    pub place: FilePosition,
    /// Its name for logs and rules: letters, digits, `_`, `.`, `@` and `-`; nobody else has it.
    pub principal: String,
    /// What proves who it is.
    pub secret: TokenSource,
    /// It may also enable, disable and reconnect servers, and try tools.
    pub admin: bool,
    /// The servers that it may use, each with names and globs of its tools, where none means all; none means all servers.
    pub selection: Option<Vec<(String, Vec<String>)>>,
    /// What it has been granted; none means that no rules about principals hold for it.
    pub capabilities: Option<Vec<String>>,
}

/// Where a token is.
#[derive(Clone, Debug, PartialEq)]
pub enum TokenSource {
    /// In the configuration, or where it points to.
    Text(UnexpandedText),
    /// In a file, alone.
    File(UnexpandedText),
}

impl TokenSource {
    /// What the configuration says of it.
    pub fn text(&self) -> &UnexpandedText {
        match self {
            TokenSource::Text(text) | TokenSource::File(text) => text,
        }
    }
}

/// PEM files with which the gateway proves to clients who it is.
#[derive(Clone, Debug, PartialEq)]
pub struct GatewayTls {
    /// Its certificate, and those that vouch for it.
    pub certificate: UnexpandedText,
    /// The key of the certificate.
    pub key: UnexpandedText,
}
