//! The keys of `lifecycle`. Each may stand in a server too, where it wins over what `lifecycle` says for all.

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

/// Something that a lifecycle can be said of.
pub trait HasLifecycle: 'static {
    /// Its lifecycle.
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
        "The server starts at once, and not with the first call.",
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
        "All gates share one connection to the server.",
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
        "How long the server is kept after its last use; 0 stops it at once.",
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
        "How long callers wait for the server to come up for the first time; then they fail at once until it does.",
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
        "How long each restart waits, one failure after the other; the last repeats.",
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
        "How often a server that runs is asked whether it is well; 0 means never.",
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
        "How long the server may take to answer that; one at work on a call may take as long as the call has.",
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
        "How long the server may take to answer after a call timed out; if it does not, it is restarted.",
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
        "What the server is asked to find out whether it is well.",
        |target, field, _| {
            target.lifecycle().health_probe = field.choice(PROBES)?;
            Ok(())
        },
    )
}

/// How long something is kept.
pub fn read_retention(field: &ConfigField<'_>, context: &mut ReadContext) -> Result<Duration, FieldError> {
    let endless = || field.error("nothing is kept without end; write a long time, such as \"30d\"");
    read_span(field, context)?.ok_or_else(endless)
}

/// Spans of time; one alone is a list of one.
fn delays(field: &ConfigField<'_>, context: &mut ReadContext) -> Result<Vec<Duration>, FieldError> {
    let endless = |item: &ConfigField<'_>| item.error("every delay has an end; write a duration, such as \"60s\"");
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
            Err(field.error("the last delay repeats, so it must be longer than nothing; end with one such as 60s"))
        }
        Some(_) => Ok(delays),
    }
}

/// The names of the probes.
pub const PROBES: &[(&str, HealthProbe)] = &[("ping", HealthProbe::Ping), ("list-tools", HealthProbe::ListTools)];
const MAX_DELAYS: usize = 32;
