//! The lifecycle of a server: when it is started, checked, restarted and stopped.

use std::time::Duration;

/// When a server is started, checked, restarted and stopped.
#[derive(Clone, Debug, PartialEq)]
pub struct LifecycleRules {
    /// Whether to start the server at once, not with the first call.
    pub eager: bool,
    /// Whether all clients share one connection; otherwise each gets its own.
    pub shared: bool,
    /// How long to keep the server running after its last use.
    pub idle_timeout: Duration,
    /// How long callers wait for the server's first start.
    pub acquire_timeout: Duration,
    /// The delay before each restart after consecutive failures; the last one repeats. Never empty, and the last is not
    /// zero.
    pub restart_delays: Vec<Duration>,
    /// How often to check the server while it runs; zero means never.
    pub health_interval: Duration,
    /// How long the server may take to answer a check.
    pub health_timeout: Duration,
    /// How long the server may take to answer a probe after a call timed out.
    pub probe_timeout: Duration,
    /// The request that checks the server.
    pub health_probe: HealthProbe,
}

impl Default for LifecycleRules {
    fn default() -> Self {
        LifecycleRules {
            eager: false,
            shared: true,
            idle_timeout: Duration::from_secs(300),
            acquire_timeout: Duration::from_secs(60),
            restart_delays: RESTART_DELAYS.map(Duration::from_secs).to_vec(),
            health_interval: Duration::from_secs(15),
            health_timeout: Duration::from_secs(5),
            probe_timeout: Duration::from_secs(3),
            health_probe: HealthProbe::default(),
        }
    }
}

/// The request that checks a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum HealthProbe {
    /// `ping`
    #[default]
    Ping,
    /// `tools/list`, for servers that always answer a ping.
    ListTools,
}

const RESTART_DELAYS: [u64; 7] = [0, 1, 2, 5, 10, 30, 60];
