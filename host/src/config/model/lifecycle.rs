//! When a server is started, watched, restarted and stopped.

use std::time::Duration;

/// When a server is started, watched, restarted and stopped.
#[derive(Clone, Debug, PartialEq)]
pub struct LifecycleRules {
    /// It starts at once, and not with the first call.
    pub eager: bool,
    /// All gates share one connection; otherwise each has its own.
    pub shared: bool,
    /// How long it is kept after its last use.
    pub idle_timeout: Duration,
    /// How long callers wait for it to come up for the first time.
    pub acquire_timeout: Duration,
    /// How long each restart waits after a failure; the last repeats. There is always one, and the last is not zero.
    pub restart_delays: Vec<Duration>,
    /// How often it is asked whether it is well while it runs; zero means never.
    pub health_interval: Duration,
    /// How long it may take to answer that.
    pub health_timeout: Duration,
    /// How long it may take to answer the probe after a call that timed out.
    pub probe_timeout: Duration,
    /// What it is asked.
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

/// What a server is asked to find out whether it is well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum HealthProbe {
    /// `ping`
    #[default]
    Ping,
    /// `tools/list`, for servers that answer a ping whatever happens.
    ListTools,
}

const RESTART_DELAYS: [u64; 7] = [0, 1, 2, 5, 10, 30, 60];
