//! The options of an HTTP server: its address, who may connect, and its limits.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::tokens::Tokens;

/// The options of an HTTP server.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// The address to listen on; port 0 takes a free port.
    pub address: SocketAddr,
    /// More hosts that requests may name, such as `example.com` (any port), `example.com:8443` or `*` (any), and more
    /// origins whose pages may send requests, such as `https://app.example.com`.
    pub hosts: Vec<String>,
    /// The tokens of clients; without any, every program on this machine may connect, and no other.
    pub tokens: Tokens,
    /// The tokens of admins if `tokens` is empty; other clients may still read pages and call tools.
    pub dashboard: Tokens,
    /// The certificate for TLS.
    pub tls: Option<CertificateFiles>,
    /// The rate limit for one principal (or one peer, without tokens); `None` means no limit.
    pub rate: Option<RateLimit>,
    /// The limits of sizes, counts and times.
    pub limits: GatewayLimits,
}

impl HttpOptions {
    /// Creates options for this address with the default limits, without tokens and without TLS.
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

/// The files of a certificate, which are read again when they change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate and its intermediates, in PEM.
    pub certificate: PathBuf,
    /// The private key of the certificate, in PEM.
    pub key: PathBuf,
}

/// A token bucket: how many requests are allowed, and how fast it refills.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit {
    /// Requests per second in the long run.
    pub per_second: u32,
    /// Requests at once after a pause.
    pub burst: u32,
}

/// The limits of a gateway's listeners.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayLimits {
    /// The largest body of a request.
    pub max_body_bytes: usize,
    /// The largest head of a request; at least 8 KiB.
    pub max_header_bytes: usize,
    /// How long a connection may be silent between two requests.
    pub idle_timeout: Duration,
    /// How long a connection may be idle, or take to send a head, before one of its requests identifies the client.
    pub unidentified_timeout: Duration,
    /// How long a client may take to send the head of a request.
    pub header_timeout: Duration,
    /// How long a client may take to send the body after the head.
    pub body_timeout: Duration,
    /// How long a client may read nothing while a response is written to it.
    pub write_timeout: Duration,
    /// How long the TLS handshake may take.
    pub handshake_timeout: Duration,
    /// The most connections of identified clients; a few more are allowed for unidentified ones.
    pub max_connections: usize,
    /// The most requests to `/mcp` and calls through the API at once.
    pub max_requests: usize,
    /// The most bytes of request and response bodies at once.
    pub max_inflight_bytes: usize,
    /// The most sessions of the initialize era at once.
    pub max_sessions: usize,
    /// How long a session may be unused before it ends.
    pub session_idle: Duration,
    /// The most events of one stream that are kept for a client that reconnects.
    pub kept_events: usize,
    /// The most bytes of events in all streams.
    pub max_event_bytes: usize,
    /// How long the events of a finished request are kept.
    pub kept_for: Duration,
    /// How long until a silent stream gets a comment, and an unanswered request becomes a stream.
    pub keep_alive: Duration,
    /// How long requests in flight may continue after the server was told to stop, before they are cancelled.
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
