//! The keys of `lifecycle`, which a server may have too; there they override the ones for all servers.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::field::{ConfigField, FieldError, ReadContext};
use super::super::model::{HealthProbe, LifecycleRules};
use super::super::section::{ChoiceForm, ConfigKey, KeyForm, read_span, schema};

/// The keys of `lifecycle`.
pub(crate) const LIFECYCLE: &[ConfigKey<LifecycleRules>] = &[
    eager(),
    shared(),
    idle_timeout(),
    acquire_timeout(),
    restart_delays(),
    health_interval(),
    health_timeout(),
    probe_timeout(),
    health_probe(),
];

impl AsMut<LifecycleRules> for LifecycleRules {
    fn as_mut(&mut self) -> &mut LifecycleRules {
        self
    }
}

/// The key `eager`.
pub(crate) const fn eager<T: AsMut<LifecycleRules>>() -> ConfigKey<T> {
    ConfigKey::<T>::new("eager", KeyForm::Flag(|target, flag| target.as_mut().eager = flag))
        .about("Start the server at once, not with the first call.")
        .default("false")
}

/// The key `shared`.
pub(crate) const fn shared<T: AsMut<LifecycleRules>>() -> ConfigKey<T> {
    ConfigKey::<T>::new("shared", KeyForm::Flag(|target, flag| target.as_mut().shared = flag))
        .about("Share one connection to the server among all clients.")
        .default("true")
}

/// The key `idle_timeout`.
pub(crate) const fn idle_timeout<T: AsMut<LifecycleRules>>() -> ConfigKey<T> {
    ConfigKey::<T>::new("idle_timeout", KeyForm::Retention(|target, span| target.as_mut().idle_timeout = span))
        .about("How long to keep the server running after its last use; 0 stops it at once.")
        .default("\"5m\"")
}

/// The key `acquire_timeout`.
pub(crate) const fn acquire_timeout<T: AsMut<LifecycleRules>>() -> ConfigKey<T> {
    ConfigKey::<T>::new("acquire_timeout", KeyForm::Limit(|target, limit| target.as_mut().acquire_timeout = limit))
        .about("How long callers wait for the server's first start; after that they fail at once until it is up.")
        .default("\"60s\"")
}

/// The key `restart_delays`.
pub(crate) const fn restart_delays<T: AsMut<LifecycleRules>>() -> ConfigKey<T> {
    ConfigKey::<T>::new(
        "restart_delays",
        KeyForm::Custom(delays_schema, |target, field, context| {
            delays(field, context).map(|restart_delays| target.as_mut().restart_delays = restart_delays)
        }),
    )
    .about("The delay before each restart after consecutive failures; the last one repeats.")
    .default(r#"["0s", "1s", "2s", "5s", "10s", "30s", "60s"]"#)
}

/// The key `health_interval`.
pub(crate) const fn health_interval<T: AsMut<LifecycleRules>>() -> ConfigKey<T> {
    ConfigKey::<T>::new("health_interval", KeyForm::Span(|target, span| target.as_mut().health_interval = span))
        .about("How often to check a running server; 0 means never.")
        .default("\"15s\"")
}

/// The key `health_timeout`.
pub(crate) const fn health_timeout<T: AsMut<LifecycleRules>>() -> ConfigKey<T> {
    ConfigKey::<T>::new("health_timeout", KeyForm::Limit(|target, limit| target.as_mut().health_timeout = limit))
        .about("How long the server may take to answer a check; a busy server has until its current call times out.")
        .default("\"5s\"")
}

/// The key `probe_timeout`.
pub(crate) const fn probe_timeout<T: AsMut<LifecycleRules>>() -> ConfigKey<T> {
    ConfigKey::<T>::new("probe_timeout", KeyForm::Limit(|target, limit| target.as_mut().probe_timeout = limit))
        .about("How long the server may take to answer a probe after a call timed out, before it is restarted.")
        .default("\"3s\"")
}

/// The key `health_probe`.
pub(crate) const fn health_probe<T: AsMut<LifecycleRules>>() -> ConfigKey<T> {
    ConfigKey::<T>::new(
        "health_probe",
        KeyForm::choice(&ChoiceForm(PROBES, |target, choice| target.as_mut().health_probe = choice)),
    )
    .about("The request that checks a server.")
    .default("\"ping\"")
}

/// Returns the schema of a list of one duration or more.
fn delays_schema() -> Value {
    json!({"type": "array", "items": schema::span(), "minItems": 1, "maxItems": MAX_DELAYS})
}

/// Reads a list of durations; a single duration counts as a list of one.
fn delays(field: &ConfigField<'_>, context: &mut ReadContext) -> Result<Vec<Duration>, FieldError> {
    let endless = |item: &ConfigField<'_>| item.error("a delay cannot be endless; write a duration, such as \"60s\"");
    let delays = field.each(|item| read_span(item, context)?.ok_or_else(|| endless(item)))?;
    match delays.last() {
        None => Err(field.error("is empty; write at least one delay, such as [60s], or leave it out")),
        Some(_) if delays.len() > MAX_DELAYS => {
            Err(field.error(format!("{} delays, but {MAX_DELAYS} are enough: the last repeats", delays.len())))
        }
        Some(last) if last.is_zero() => {
            Err(field.error("the last delay repeats, so it must be longer than 0; end with one such as 60s"))
        }
        Some(_) => Ok(delays),
    }
}

/// The values of `health_probe`.
pub(crate) const PROBES: &[(&str, HealthProbe)] =
    &[("ping", HealthProbe::Ping), ("list-tools", HealthProbe::ListTools)];
const MAX_DELAYS: usize = 32;
