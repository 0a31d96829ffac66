//! What rules see of a gate's calls besides their arguments, and what its agent learns.

use std::pin::pin;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;
use tracing::{debug, warn};

use super::Gate;
use crate::agent::{AgentKey, CountMode, WRITTEN, written_label};
use crate::config::model::StoreFailurePolicy;
use crate::failure::{Failure, RequestError};
use crate::gate_settings::{RESOURCE_SERVER, all_rules};
use crate::logic::types::rules::{AgentContext, CallCount, CallLimit, Circumstances, Effect, Rule};
use crate::store::{Store, StoreError, UNREACHABLE};

/// What was known of an agent when its call was judged.
#[derive(Default)]
pub(super) struct JudgedWith {
    /// Its labels.
    pub(super) labels: Vec<String>,
    /// How many writes of all agents there were.
    pub(super) writes: u64,
}

impl Gate {
    /// Reports whether there are rules for the agent, or results have a meaning.
    pub(crate) fn has_rules(&self) -> bool {
        self.sync().has_rules()
    }

    /// Returns who calls now, and what the agent has seen as far as this process knows it. That is enough for lists of
    /// tools: what they promise is decided when a tool is called.
    pub(crate) fn circumstances(&self, client: &str, trace: Option<&str>, with_known: bool) -> Circumstances {
        let (memory, key) = (self.store().local(), self.agent_key(trace));
        let context = match self.view().only_looks {
            true => memory.peek(&key, with_known, self.idle()),
            false => memory.recall(&key, with_known, self.idle()),
        };
        self.circumstances_with(client, context)
    }

    /// Returns who would call now, and what the agent has seen, without noting that the agent is not idle; `None` if only
    /// a store that replicas share knows.
    pub(crate) fn peek_circumstances(&self, with_known: bool) -> Option<Circumstances> {
        let store = self.store();
        if store.is_shared() && self.uses_context() {
            return None;
        }
        let context = store.local().peek(&self.agent_key(None), with_known, self.idle());
        Some(self.circumstances_with("", context))
    }

    /// Returns who calls now, and what the agent has seen on all replicas.
    pub(super) async fn circumstances_of_call(
        &self,
        client: &str,
        trace: Option<&str>,
        with_known: bool,
    ) -> Result<Circumstances, RequestError> {
        if !self.store().is_shared() {
            return Ok(self.circumstances(client, trace, with_known));
        }
        if !self.uses_context() {
            return Ok(self.circumstances_with(client, AgentContext::default()));
        }
        let (store, key, idle) = (self.store(), self.agent_key(trace), self.idle());
        let seen = match self.view().only_looks {
            true => store.peek(&key, with_known, idle).await,
            false => store.recall(&key, with_known, idle).await,
        };
        match seen {
            Ok(context) => Ok(self.circumstances_with(client, context)),
            Err(error) => self.go_on_alone(&error).map(|()| self.circumstances(client, trace, with_known)),
        }
    }

    /// Notes that the agent is not idle, whether or not rules are asked about its call.
    pub(super) async fn note_activity(&self, trace: Option<&str>) {
        if !self.has_rules() {
            return;
        }
        let (key, idle) = (self.agent_key(trace), self.idle());
        self.store().local().touch(&key, idle);
        if self.store().is_shared() && self.uses_context() {
            // If rules are asked about the call, they ask the store themselves; if not, the call goes on without it.
            if let Err(error) = Box::pin(self.store().touch(&key, idle)).await {
                debug!("an agent's activity is not noted: {error}");
            }
        }
    }

    /// Waits for something that an agent does, and notes again and again that it is not idle meanwhile: labels do not
    /// lapse under a call that runs or waits.
    pub(super) async fn keep_active<T>(&self, trace: Option<&str>, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        let since = Instant::now();
        let done = loop {
            let interval = (self.idle() / 4).max(LEAST_INTERVAL);
            match tokio::time::timeout(interval, &mut work).await {
                Ok(done) => break done,
                Err(_) => Box::pin(self.note_activity(trace)).await,
            }
        };
        // The time of idleness begins when it ends; what is short makes no difference.
        if since.elapsed() > self.idle() / 16 {
            Box::pin(self.note_activity(trace)).await;
        }
        done
    }

    /// Notes that the agent is not idle for as long as the answer to a question about its call may come.
    pub(super) async fn note_pending(&self, trace: Option<&str>) {
        if !self.has_rules() {
            return;
        }
        let (key, idle) = (self.agent_key(trace), self.idle());
        self.store().local().hold(&key, idle, LONGEST_PENDING);
        if self.store().is_shared()
            && self.uses_context()
            && let Err(error) = Box::pin(self.store().hold(&key, idle, LONGEST_PENDING)).await
        {
            warn!("other replicas may forget {:?} before its call is approved: {error}", key.principal());
        }
    }

    /// Remembers what a result of a server taught the agent, unless the agent wrote something there after the call was
    /// judged: it may be its own words. A result that is there is not withheld, so what cannot be shared is remembered by
    /// this process alone.
    pub(super) async fn learn_from(
        &self,
        trace: Option<&str>,
        server: &str,
        mut learned: AgentContext,
        judged: &JudgedWith,
    ) {
        let (key, store) = (self.agent_key(trace), self.store());
        let is_own_tool = server == RESOURCE_SERVER && judged.labels.iter().any(|label| label.starts_with(WRITTEN));
        if is_own_tool || store.local().has_written_since(&key, server, judged.writes) {
            learned.known.clear();
        }
        if learned.known.is_empty() && learned.labels.is_empty() {
            return;
        }
        // Who knew of earlier writes taught by trusted members alone.
        let knew = judged.labels.contains(&written_label(server));
        if store.is_shared() {
            let shared = if knew {
                Box::pin(store.learn(&key, &learned, self.idle())).await
            } else {
                Box::pin(store.learn_from(&key, server, &learned, self.idle())).await
            };
            if let Err(error) = shared {
                warn!(server, "other replicas do not learn what a result taught {:?}: {error}", key.principal());
            }
        }
        if knew {
            store.local().learn(&key, learned);
        } else {
            store.local().learn_from(&key, server, learned);
        }
    }

    /// Remembers what the agent learns by a call, before it is sent.
    pub(super) async fn learn(&self, trace: Option<&str>, learned: AgentContext) -> Result<(), RequestError> {
        let key = self.agent_key(trace);
        if self.store().is_shared() {
            let shared = Box::pin(self.store().learn(&key, &learned, self.idle())).await;
            shared.or_else(|error| self.go_on_alone(&error))?;
        }
        self.store().local().learn(&key, learned);
        Ok(())
    }

    /// Remembers once more what the agent learned by a call, since it may have been forgotten while the call was running.
    pub(super) async fn learn_again(&self, trace: Option<&str>, learned: AgentContext) {
        let key = self.agent_key(trace);
        if self.store().is_shared()
            && !learned.labels.is_empty()
            && let Err(error) = Box::pin(self.store().learn(&key, &learned, self.idle())).await
        {
            warn!("other replicas may forget what {:?} learned by a call: {error}", key.principal());
        }
        self.store().local().learn(&key, learned);
    }

    /// Counts a call for these rules, in order, or only says what that would give. A rule that is not configured any
    /// more counts as one that has reached its limit.
    pub(super) async fn count(&self, rules: &[String], mode: CountMode) -> Result<Vec<CallCount>, RequestError> {
        let (config, view) = (self.registry.config(), self.view());
        let principal = &*view.agent.principal;
        let limit = |name: &String| -> Option<(String, CallLimit)> {
            let mut known = all_rules(&config).map(|configured| &configured.rule).chain(&view.rules);
            Some((name.clone(), known.find(|rule| rule.name == *name)?.limit?))
        };
        let limits: Vec<_> = rules.iter().map(limit).collect();
        let known: Vec<_> = limits.iter().flatten().cloned().collect();
        let counted = match self.store().count(&known, principal, mode).await {
            Ok(counted) => counted,
            Err(error) => {
                self.go_on_alone(&error)?;
                self.store().local().count(&known, principal, mode)
            }
        };
        let mut counted = counted.into_iter();
        let over = CallCount { calls: u32::MAX, ends_in_ms: 0 };
        Ok(limits.iter().map(|limit| limit.as_ref().and_then(|_| counted.next()).unwrap_or(over)).collect())
    }

    /// Decides whether a call goes on by what this process knows alone, although the store did not do what it was asked.
    fn go_on_alone(&self, error: &StoreError) -> Result<(), RequestError> {
        match self.registry.config().settings.gateway.on_store_failure {
            StoreFailurePolicy::Open => {
                debug!("a call is counted by this process alone: {error}");
                Ok(())
            }
            StoreFailurePolicy::Closed => {
                debug!("a call is refused: {error}");
                Err(RequestError::unsent(Failure::RulesUnavailable(UNREACHABLE.to_owned())))
            }
        }
    }

    /// Reports whether a rule may ask what the agent has seen, or change it. Otherwise the store need not be asked.
    fn uses_context(&self) -> bool {
        let (config, view) = (self.registry.config(), self.view());
        let uses = |rule: &Rule| {
            let reads = |condition: &String| ["labels", "known"].iter().any(|word| condition.contains(word));
            matches!(rule.effect, Effect::Label(_)) || rule.condition.as_ref().is_some_and(reads)
        };
        !config.settings.results.is_empty()
            || all_rules(&config).map(|configured| &configured.rule).chain(&view.rules).any(uses)
    }

    fn circumstances_with(&self, client: &str, context: AgentContext) -> Circumstances {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now_ms = u64::try_from(since.as_millis()).ok();
        Circumstances { caller: self.view().agent.caller(client), now_ms, context }
    }

    fn agent_key(&self, trace: Option<&str>) -> AgentKey {
        let rules = self.registry.config().settings.context;
        AgentKey::new(&rules, &self.view().agent, self.session.as_deref(), trace)
    }

    /// Returns how long an agent may be idle before it is forgotten.
    fn idle(&self) -> Duration {
        self.registry.config().settings.context.idle
    }

    fn store(&self) -> &Store {
        self.registry.store()
    }
}

/// The least time between two notes that an agent is not idle.
const LEAST_INTERVAL: Duration = Duration::from_millis(50);
/// How long a client without a session may take to answer a question about its call: until its sealed state lapses.
const LONGEST_PENDING: Duration = Duration::from_secs(600);
