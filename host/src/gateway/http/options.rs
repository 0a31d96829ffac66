//! How a door is to be: its address, who may come in, and how much at once.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::tokens::Tokens;

/// How a door is to be.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// Where to listen; port 0 takes a free one.
    pub address: SocketAddr,
    /// Names by which clients may call us, beside the address at which a connection arrives: `example.com` (any port),
    /// `example.com:8443` or `*` (any); and pages that may do so beside our own: `https://app.example.com`.
    pub hosts: Vec<String>,
    /// Who may come in. Without tokens everybody on this machine may, and nobody else.
    pub tokens: Tokens,
    /// What admins show on a door without tokens, where others may look and call tools; none means that there are no admins.
    pub dashboard: Tokens,
    /// Speaks TLS.
    pub tls: Option<CertificateFiles>,
    /// How often one principal (or one peer, without tokens) may ask; none is as often as it likes.
    pub rate: Option<RateLimit>,
    /// How much at once, and how long.
    pub limits: GatewayLimits,
}

impl HttpOptions {
    /// A door at this address with the default limits, without tokens and without TLS.
    pub fn new(address: SocketAddr) -> Self {
        HttpOptions {
            address,
            hosts: Vec::new(),
            tokens: Tokens::default(),
            dashboard: Tokens::default(),
            tls: None,
            rate: None,
            limits: GatewayLimits::default(),
        }
    }
}

/// The files of a certificate; read again when they change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate and those between it and the authority, in PEM.
    pub certificate: PathBuf,
    /// Its private key, in PEM.
    pub key: PathBuf,
}

/// A bucket of requests that fills again at a steady rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit {
    /// Requests in a second, in the long run.
    pub per_second: u32,
    /// Requests at once, after a rest.
    pub burst: u32,
}

/// How much a door takes at once, and how long it waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayLimits {
    /// The largest content of a request.
    pub max_body_bytes: usize,
    /// The largest head of a request; at least 8 KiB.
    pub max_header_bytes: usize,
    /// How long a connection may be silent between two requests.
    pub idle_timeout: Duration,
    /// How long a connection may be silent, or take to send a head, before one of its requests has said who asks.
    pub unidentified_timeout: Duration,
    /// How long a client may take to send the head of a request.
    pub header_timeout: Duration,
    /// How long it may take, after that, to send the content.
    pub body_timeout: Duration,
    /// How long it may read nothing of what is written to it.
    pub write_timeout: Duration,
    /// How long the handshake of TLS may take.
    pub handshake_timeout: Duration,
    /// Connections at once, of those who have said who they are; of strangers there are a few more.
    pub max_connections: usize,
    /// Requests to `/mcp`, and calls through the API, at once.
    pub max_requests: usize,
    /// The content of requests and answers at once, in bytes.
    pub max_inflight_bytes: usize,
    /// Sessions of the initialize era at once.
    pub max_sessions: usize,
    /// A session ends when it was not used for so long.
    pub session_idle: Duration,
    /// The events of one stream that are kept for a client that comes back.
    pub kept_events: usize,
    /// The events of all streams, in bytes.
    pub max_event_bytes: usize,
    /// How long the events of an answered request are kept.
    pub kept_for: Duration,
    /// A stream that is silent for so long gets a comment, and a request that is not answered by then gets a stream.
    pub keep_alive: Duration,
    /// How long requests in flight may go on after the door was told to stop; they are cancelled then.
    pub grace: Duration,
}

impl Default for GatewayLimits {
    fn default() -> Self {
        GatewayLimits {
            max_body_bytes: 4 << 20,
            max_header_bytes: 64 << 10,
            idle_timeout: Duration::from_secs(120),
            unidentified_timeout: Duration::from_secs(10),
            header_timeout: Duration::from_secs(20),
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(30),
            handshake_timeout: Duration::from_secs(10),
            max_connections: 4096,
            max_requests: 1024,
            max_inflight_bytes: 256 << 20,
            max_sessions: 1000,
            session_idle: Duration::from_secs(30 * 60),
            kept_events: 256,
            max_event_bytes: 64 << 20,
            kept_for: Duration::from_secs(5 * 60),
            keep_alive: Duration::from_secs(15),
            grace: Duration::from_secs(10),
        }
    }
}
