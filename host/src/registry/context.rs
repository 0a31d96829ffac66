//! State that all connections of a registry share.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;
use tracing::warn;

#[cfg(feature = "oauth")]
use super::accounts::Accounts;
use super::cleanup::Cleanup;
use super::notices::Notices;
use super::rule_notes::RuleNotes;
use super::server_log::ServerLogs;
use super::tools::ToolList;
use super::unmatched::UnmatchedRules;
use super::{RegistryLifetime, RegistryOptions};
use crate::condense::Condenser;
use crate::config::model::{Config, Masking, QueueRules, ReadinessRule, RecordRules, ServerConfig};
#[cfg(feature = "oauth")]
use crate::config::resolve::ResolvedOAuth;
use crate::config::resolve::{known_secrets, resolve_record_dir};
use crate::config::secrets::Secrets;
use crate::config::variables::Variables;
use crate::decide::{Decide, LogicResult};
use crate::gate_settings::masks_of;
use crate::logic::types::{filtering, lifecycle};
use crate::logic::{Component, Supervisor};
#[cfg(feature = "oauth")]
use crate::oauth::{Account, OAuthError, TokenStore};
use crate::queue::{Queue, QueueDefaults, QueueLimits, Queues};
use crate::record::{self, Recorder};
use crate::session::Handler;
use crate::spin_wait;
use crate::transport::Connect;
#[cfg(feature = "oauth")]
use crate::transport::endpoint::RemoteSite;

/// State that all connections of a registry share.
pub(super) struct RegistryContext {
    pub(super) variables: Variables,
    pub(super) handler: Arc<dyn Handler>,
    pub(super) transports: HashMap<String, Arc<dyn Connect>>,
    /// The current configuration.
    config: Mutex<Arc<Config>>,
    /// Limits how many servers start at the same time.
    starts: Mutex<Arc<Semaphore>>,
    /// All secrets resolved so far, hidden in all output.
    secrets: Arc<Mutex<Secrets>>,
    /// Decides the next step of each server's lifecycle.
    logic: Mutex<Supervisor>,
    pub(super) lifetime: RegistryLifetime,
    /// The folder for recorded calls; overrides the configuration.
    record: Option<PathBuf>,
    /// Whether each server must start once, because somebody waits until all are ready.
    prove: AtomicBool,
    /// The zero point of the lifecycle clock.
    origin: Instant,
    pub(super) queues: Queues,
    pub(super) cleanup: Cleanup,
    pub(super) notices: Notices,
    /// What servers wrote, and what became of them.
    pub(super) logs: ServerLogs,
    /// Rules that match no tool.
    pub(super) unmatched: UnmatchedRules,
    /// Probable mistakes in rules that see arguments.
    pub(super) rule_notes: RuleNotes,
    #[cfg(feature = "oauth")]
    accounts: Accounts,
}

impl RegistryContext {
    pub(super) fn new(logic: Supervisor, config: &Arc<Config>, options: RegistryOptions) -> Self {
        #[cfg(feature = "oauth")]
        let accounts = {
            let tokens = options.tokens.unwrap_or_else(|| TokenStore::user(&options.variables));
            Accounts::new(options.browse, tokens)
        };
        let RegistryOptions { variables, handler, secrets, transports, lifetime, record, .. } = options;
        let context = RegistryContext {
            variables,
            handler,
            transports,
            config: Mutex::new(Arc::clone(config)),
            starts: Mutex::new(starts(config)),
            secrets,
            logic: Mutex::new(logic),
            lifetime,
            record,
            prove: AtomicBool::new(false),
            origin: Instant::now(),
            queues: Queues::new(QueueDefaults::default(), config.settings.queues.iter().map(limits)),
            cleanup: Cleanup::default(),
            notices: Notices::default(),
            logs: ServerLogs::default(),
            unmatched: UnmatchedRules::default(),
            rule_notes: RuleNotes::default(),
            #[cfg(feature = "oauth")]
            accounts,
        };
        spin_wait::set_enabled(config.settings.spin_wait);
        context.hide_secrets(config);
        context
    }

    /// Applies the global settings of a new configuration.
    pub(super) fn apply_config(&self, config: &Arc<Config>) {
        let before = std::mem::replace(&mut *self.locked_config(), Arc::clone(config));
        // Servers that are starting now keep their permits of the old semaphore.
        if before.settings.start_concurrency != config.settings.start_concurrency {
            *self.starts.lock().unwrap_or_else(PoisonError::into_inner) = starts(config);
        }
        self.queues.reconfigure(config.settings.queues.iter().map(limits));
        self.logs.retain(|id| config.servers.iter().any(|server| server.id == id));
        spin_wait::set_enabled(config.settings.spin_wait);
        self.hide_secrets(config);
    }

    /// Hides the secrets of all servers now: one server may print another's before that one is started.
    fn hide_secrets(&self, config: &Config) {
        let known = known_secrets(config, &self.variables);
        self.secrets().merge(&known);
    }

    /// Returns the current configuration.
    pub(super) fn config(&self) -> Arc<Config> {
        Arc::clone(&self.locked_config())
    }

    /// Returns the semaphore that limits how many servers start at the same time.
    pub(super) fn starts(&self) -> Arc<Semaphore> {
        Arc::clone(&self.starts.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn locked_config(&self) -> MutexGuard<'_, Arc<Config>> {
        self.config.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn secrets(&self) -> MutexGuard<'_, Secrets> {
        self.secrets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the shared collection of all secrets.
    pub(super) fn shared_secrets(&self) -> Arc<Mutex<Secrets>> {
        Arc::clone(&self.secrets)
    }

    /// Returns the OAuth account with a server.
    #[cfg(feature = "oauth")]
    pub(super) fn account(
        &self,
        server: &str,
        site: &RemoteSite,
        oauth: ResolvedOAuth,
    ) -> Result<Arc<Account>, OAuthError> {
        self.accounts.get(server, site, oauth, &self.secrets)
    }

    pub(super) fn logic(&self) -> MutexGuard<'_, Supervisor> {
        // A panic while asking the component leaves the supervisor as usable as a trap does.
        self.logic.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the lifecycle policy for a server.
    pub(super) fn policy(&self, server: &ServerConfig) -> lifecycle::Policy {
        let rules = &server.lifecycle;
        let policy = lifecycle::Policy {
            eager: rules.eager,
            acquire_limit_ms: millis(server.acquire_limit()),
            restart_delays_ms: rules.restart_delays.iter().copied().map(millis).collect(),
            health_interval_ms: millis(rules.health_interval),
            idle_timeout_ms: millis(rules.idle_timeout),
            one_shot: self.lifetime == RegistryLifetime::OneShot,
            prove: false,
        };
        match self.lifetime {
            RegistryLifetime::LongRunning => policy,
            // A single call reports a failure at once instead of retrying.
            RegistryLifetime::OneShot => lifecycle::Policy { eager: false, health_interval_ms: 0, ..policy },
        }
    }

    /// Builds the condenser that the configuration describes; it stores and summarises results that are too long.
    pub(super) fn condenser(&self, config: &Config) -> Arc<Condenser> {
        let mut condenser = Condenser::new(config, &self.variables);
        if self.lifetime == RegistryLifetime::LongRunning {
            condenser = condenser.sweep_regularly();
        }
        self.secrets().merge(condenser.secrets());
        Arc::new(condenser)
    }

    /// Returns the recorder that the configuration describes, and keeps the previous one if its options are the same.
    pub(super) fn recorder(
        &self,
        component: &Component,
        config: &Config,
        before: Option<&Arc<Recorder>>,
    ) -> Option<Arc<Recorder>> {
        if self.record.is_none() && config.settings.record.is_none() {
            return None;
        }
        let RecordRules { max_segment, max_total, max_age, raw, .. } =
            config.settings.record.clone().unwrap_or_default();
        let dir = match &self.record {
            Some(dir) => dir.clone(),
            None => match resolve_record_dir(config, &self.variables) {
                Ok(dir) => dir,
                Err(problem) => {
                    warn!("calls are not recorded: {problem}");
                    return None;
                }
            },
        };
        let rules = record::RecordOptions { dir, max_segment, max_total, max_age, raw };
        if let Some(before) = before.filter(|before| *before.options() == rules) {
            return Some(Arc::clone(before));
        }
        let started = Recorder::start(rules, component, &self.secrets);
        started.map(Arc::new).map_err(|error| warn!("calls are not recorded: {error}")).ok()
    }

    /// Returns the lifecycle state of a server before its first event.
    pub(super) fn initial(&self, enabled: bool) -> LogicResult<lifecycle::Server> {
        self.logic().initial(enabled)
    }

    /// Performs one step of a server's lifecycle at the current time.
    pub(super) fn step(
        &self,
        server: lifecycle::Server,
        event: &lifecycle::Event,
        policy: &lifecycle::Policy,
    ) -> LogicResult<lifecycle::Transition> {
        let now = millis(self.origin.elapsed());
        self.logic().step(server, event, policy, now)
    }

    /// From now on, starts each server until a start succeeds, if the configuration waits for all servers; returns
    /// whether this was the first request for that.
    pub(super) fn prove_servers(&self) -> bool {
        !self.prove.swap(true, Ordering::Relaxed)
    }

    /// Reports whether servers start without a caller until a start succeeds.
    pub(super) fn proves_servers(&self) -> bool {
        self.prove.load(Ordering::Relaxed) && self.config().settings.readiness == ReadinessRule::All
    }

    /// Reports whether a server counts as ready; false if the component fails.
    pub(super) fn counts_as_ready(&self, server: lifecycle::Server) -> bool {
        self.logic().counts_as_ready(server).unwrap_or(false)
    }

    /// Converts a time of the lifecycle clock to an instant.
    pub(super) fn instant(&self, at_ms: u64) -> Instant {
        self.origin + Duration::from_millis(at_ms)
    }

    /// Reports whether a name or a glob of the configuration matches a tool.
    pub(super) fn matches(&self, pattern: &str, tool: &str) -> bool {
        let rules = filtering::Rules { allow: Some(vec![pattern.to_owned()]), deny: Vec::new() };
        self.logic().filter(&rules, &[tool.to_owned()]).is_ok_and(|kept| !kept.is_empty())
    }

    /// Masks a text of a server as its results are masked, by the current configuration; none if it cannot be masked.
    pub(super) fn mask(&self, server: &ServerConfig, text: String) -> Option<String> {
        let config = self.config();
        // A server that is no longer configured keeps its last masks.
        let current = config.servers.iter().find(|known| known.id == server.id).unwrap_or(server);
        if [&config.settings.masking, &current.masking].into_iter().all(|masking| *masking == Masking::default()) {
            return Some(text);
        }
        self.logic().mask(&masks_of(&config.settings, current), &text).ok()?.ok()
    }

    /// Finds the rules about a server that match none of these tools, and logs the new ones.
    pub(super) fn match_rules(&self, server: &str, tools: &ToolList) {
        self.unmatched.check(&mut self.logic(), &self.config(), server, tools);
        self.rule_notes.check(&mut self.logic(), &self.config(), server, &tools.offered);
    }

    /// Returns the queues of a server: its own, which has no name, and those that it names.
    pub(super) fn queues_of(&self, server: &ServerConfig) -> Vec<(String, Arc<Queue>)> {
        let own = server.max_concurrent.map(|slots| {
            let name = format!("server {}", server.id);
            (String::new(), self.queues.create_unnamed(QueueLimits { slots, ..QueueDefaults::default().named(&name) }))
        });
        let mut named: Vec<&String> = server.queue.iter().collect();
        named.extend(server.tool_queues.iter().map(|(_, queue)| queue));
        named.sort();
        named.dedup();
        own.into_iter().chain(named.into_iter().map(|name| (name.clone(), self.queues.get(name)))).collect()
    }
}

fn starts(config: &Config) -> Arc<Semaphore> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Arc::new(Semaphore::new(config.settings.start_concurrency(cores)))
}

/// Returns the limits of a configured queue, with the usual values for those it does not set.
fn limits(rules: &QueueRules) -> QueueLimits {
    let usual = QueueDefaults::default().named(&rules.name);
    QueueLimits {
        slots: rules.slots.unwrap_or(usual.slots),
        waiting: rules.waiting.unwrap_or(usual.waiting),
        timeout: rules.timeout,
        ..usual
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
