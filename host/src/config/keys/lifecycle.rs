//! The keys of `lifecycle`, which a server may have too; there they override the ones for all servers.

use std::time::Duration;

use super::super::document::NodeValue;
use super::super::field::{ConfigField, FieldError, ReadContext};
use super::super::model::{HealthProbe, LifecycleRules};
use super::server::{ServerDraft, read_limit, read_span};
use super::{ConfigKey, KeyForm};

/// The keys of `lifecycle`.
pub const LIFECYCLE: &[ConfigKey<LifecycleRules>] = &[
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

/// A type that contains lifecycle rules.
pub trait HasLifecycle: 'static {
    /// Returns the lifecycle rules.
    fn lifecycle(&mut self) -> &mut LifecycleRules;
}

impl HasLifecycle for LifecycleRules {
    fn lifecycle(&mut self) -> &mut LifecycleRules {
        self
    }
}

impl HasLifecycle for ServerDraft {
    fn lifecycle(&mut self) -> &mut LifecycleRules {
        &mut self.server.lifecycle
    }
}

/// The key `eager`.
pub const fn eager<T: HasLifecycle>() -> ConfigKey<T> {
    ConfigKey::new(
        "eager",
        KeyForm::Flag,
        "false",
        "Start the server at once, not with the first call.",
        |target, field, _| {
            target.lifecycle().eager = field.flag()?;
            Ok(())
        },
    )
}

/// The key `shared`.
pub const fn shared<T: HasLifecycle>() -> ConfigKey<T> {
    ConfigKey::new(
        "shared",
        KeyForm::Flag,
        "true",
        "Share one connection to the server among all clients.",
        |target, field, _| {
            target.lifecycle().shared = field.flag()?;
            Ok(())
        },
    )
}

/// The key `idle_timeout`.
pub const fn idle_timeout<T: HasLifecycle>() -> ConfigKey<T> {
    ConfigKey::new(
        "idle_timeout",
        KeyForm::Span,
        "\"5m\"",
        "How long to keep the server running after its last use; 0 stops it at once.",
        |target, field, context| {
            target.lifecycle().idle_timeout = read_retention(field, context)?;
            Ok(())
        },
    )
}

/// The key `acquire_timeout`.
pub const fn acquire_timeout<T: HasLifecycle>() -> ConfigKey<T> {
    ConfigKey::new(
        "acquire_timeout",
        KeyForm::Span,
        "\"60s\"",
        "How long callers wait for the server's first start; after that they fail at once until it is up.",
        |target, field, context| {
            target.lifecycle().acquire_timeout = read_limit(field, context)?;
            Ok(())
        },
    )
}

/// The key `restart_delays`.
pub const fn restart_delays<T: HasLifecycle>() -> ConfigKey<T> {
    ConfigKey::new(
        "restart_delays",
        KeyForm::Spans(MAX_DELAYS),
        r#"["0s", "1s", "2s", "5s", "10s", "30s", "60s"]"#,
        "The delay before each restart after consecutive failures; the last one repeats.",
        |target, field, context| {
            target.lifecycle().restart_delays = delays(field, context)?;
            Ok(())
        },
    )
}

/// The key `health_interval`.
pub const fn health_interval<T: HasLifecycle>() -> ConfigKey<T> {
    ConfigKey::new(
        "health_interval",
        KeyForm::Span,
        "\"15s\"",
        "How often to check a running server; 0 means never.",
        |target, field, context| {
            target.lifecycle().health_interval = read_span(field, context)?.unwrap_or_default();
            Ok(())
        },
    )
}

/// The key `health_timeout`.
pub const fn health_timeout<T: HasLifecycle>() -> ConfigKey<T> {
    ConfigKey::new(
        "health_timeout",
        KeyForm::Span,
        "\"5s\"",
        "How long the server may take to answer a check; a busy server has until its current call times out.",
        |target, field, context| {
            target.lifecycle().health_timeout = read_limit(field, context)?;
            Ok(())
        },
    )
}

/// The key `probe_timeout`.
pub const fn probe_timeout<T: HasLifecycle>() -> ConfigKey<T> {
    ConfigKey::new(
        "probe_timeout",
        KeyForm::Span,
        "\"3s\"",
        "How long the server may take to answer a probe after a call timed out, before it is restarted.",
        |target, field, context| {
            target.lifecycle().probe_timeout = read_limit(field, context)?;
            Ok(())
        },
    )
}

/// The key `health_probe`.
pub const fn health_probe<T: HasLifecycle>() -> ConfigKey<T> {
    ConfigKey::new(
        "health_probe",
        KeyForm::Choice(&["ping", "list-tools"]),
        "\"ping\"",
        "The request that checks a server.",
        |target, field, _| {
            target.lifecycle().health_probe = field.choice(PROBES)?;
            Ok(())
        },
    )
}

/// Reads how long to keep something.
pub fn read_retention(field: &ConfigField<'_>, context: &mut ReadContext) -> Result<Duration, FieldError> {
    let endless = || field.error("this needs a limit; write a long one, such as \"30d\"");
    read_span(field, context)?.ok_or_else(endless)
}

/// Reads a list of durations; a single duration counts as a list of one.
fn delays(field: &ConfigField<'_>, context: &mut ReadContext) -> Result<Vec<Duration>, FieldError> {
    let endless = |item: &ConfigField<'_>| item.error("a delay cannot be endless; write a duration, such as \"60s\"");
    let mut delay = |item: &ConfigField<'_>| read_span(item, context)?.ok_or_else(|| endless(item));
    let delays: Vec<Duration> = match &field.node.value {
        NodeValue::Scalar(_) => vec![delay(field)?],
        _ => field.items()?.iter().map(delay).collect::<Result<_, _>>()?,
    };
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
pub const PROBES: &[(&str, HealthProbe)] = &[("ping", HealthProbe::Ping), ("list-tools", HealthProbe::ListTools)];
const MAX_DELAYS: usize = 32;
