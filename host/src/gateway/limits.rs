//! The limits of the gateway's listeners: sizes, counts and times.

use std::time::Duration;

/// The limits of a gateway's listeners.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayLimits {
    /// The largest body of a request.
    pub max_body_bytes: usize,
    /// The largest head of a request; at least 8 KiB.
    pub max_header_bytes: usize,
    /// The most connections of identified clients; a few more are allowed for unidentified ones.
    pub max_connections: usize,
    /// The most requests to `/mcp` and calls through the API at once.
    pub max_requests: usize,
    /// The most bytes of request and response bodies at once.
    pub max_inflight_bytes: usize,
    /// The most sessions of the initialize era in memory at once.
    pub max_sessions: usize,
    /// How long a session that holds something may be unused before it ends.
    pub session_idle: Duration,
    /// How long requests in flight may continue after the server was told to stop, before they are cancelled.
    pub grace: Duration,
    /// How long each phase of a connection may take.
    pub timeouts: ConnectionTimeouts,
    /// The limits of event streams.
    pub streams: StreamLimits,
}

/// How long each phase of a connection may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionTimeouts {
    /// How long a connection may be silent between two requests.
    pub idle: Duration,
    /// How long a connection may be idle, or take to send a head, before one of its requests identifies the client.
    pub unidentified: Duration,
    /// How long a client may take to send the head of a request.
    pub header: Duration,
    /// How long a client may take to send the body after the head.
    pub body: Duration,
    /// How long a client may read nothing while a response is written to it.
    pub write: Duration,
    /// How long the TLS handshake may take.
    pub handshake: Duration,
}

/// The limits of event streams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamLimits {
    /// The most bytes of events in all streams.
    pub max_event_bytes: usize,
    /// The most events of one stream that are kept for a client that reconnects.
    pub kept_events: usize,
    /// How long the events of a finished request are kept.
    pub kept_for: Duration,
    /// How long until a silent stream gets a comment, and an unanswered request becomes a stream.
    pub keep_alive: Duration,
}

impl Default for GatewayLimits {
    fn default() -> Self {
        GatewayLimits {
            max_body_bytes: 4 << 20,
            max_header_bytes: 64 << 10,
            max_connections: 4096,
            max_requests: 1024,
            max_inflight_bytes: 256 << 20,
            max_sessions: 1000,
            session_idle: Duration::from_secs(30 * 60),
            grace: Duration::from_secs(10),
            timeouts: ConnectionTimeouts::default(),
            streams: StreamLimits::default(),
        }
    }
}

impl Default for ConnectionTimeouts {
    fn default() -> Self {
        ConnectionTimeouts {
            idle: Duration::from_secs(120),
            unidentified: Duration::from_secs(10),
            header: Duration::from_secs(20),
            body: Duration::from_secs(30),
            write: Duration::from_secs(30),
            handshake: Duration::from_secs(10),
        }
    }
}

impl Default for StreamLimits {
    fn default() -> Self {
        StreamLimits {
            max_event_bytes: 64 << 20,
            kept_events: 256,
            kept_for: Duration::from_secs(5 * 60),
            keep_alive: Duration::from_secs(15),
        }
    }
}
