//! The log: standard error, at the level that was asked for, without secrets.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use crate::config::nearest;
use crate::config::secrets::Secrets;
use crate::lock::lock;
use tracing::Level;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use super::error::CliError;
use super::{style, terminal};

/// The format of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum LogFormat {
    /// Lines for people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// Starts the log, with a line for each call if `shows_calls`; `TOOLGATE_LOG` is a level for toolgate's own log like
/// `-v`, or levels by target (`toolgate::session=trace,warn`).
pub(super) fn start(
    verbose: u8,
    format: LogFormat,
    shows_calls: bool,
    secrets: &Arc<Mutex<Secrets>>,
) -> Result<(), CliError> {
    let level = match verbose {
        0 => Level::WARN,
        1 => Level::INFO,
        2 => Level::DEBUG,
        _ => Level::TRACE,
    };
    let filter = match std::env::var("TOOLGATE_LOG") {
        Ok(text) if !text.trim().is_empty() => match text.trim().parse::<LevelFilter>() {
            Ok(level) => at_level(level),
            Err(_) => {
                targets(&text).map_err(|why| CliError::Usage(format!("TOOLGATE_LOG={text:?} cannot be read: {why}")))?
            }
        },
        _ => {
            let usual = at_level(level.into());
            // People who change the configuration want to see how its reload ends.
            let usual = usual.with_target("toolgate::cli::serve", level.max(Level::INFO));
            // A tool that is new or has changed may be an attack.
            let usual = usual.with_target("toolgate::tools", level.max(Level::INFO));
            // People who try a shadow policy want to see what it would decide differently.
            let usual = usual.with_target("toolgate::shadow", level.max(Level::INFO));
            if shows_calls { usual.with_target("toolgate::calls", level.max(Level::INFO)) } else { usual }
        }
    };
    let secrets = Arc::clone(secrets);
    let writer = move || LogLine { secrets: Arc::clone(&secrets), text: Vec::new() };
    let layer = tracing_subscriber::fmt::layer().with_writer(writer).with_target(verbose > 1);
    let registry = tracing_subscriber::registry().with(filter);
    match format {
        LogFormat::Json => registry.with(layer.json()).init(),
        LogFormat::Text => {
            // Without colours, so that every control character comes from a server and can be escaped.
            registry.with(layer.with_ansi(false).without_time().compact()).init();
        }
    }
    Ok(())
}

/// Reads levels by target. A word that is neither a level nor a target of toolgate is probably a misspelt level.
fn targets(text: &str) -> Result<Targets, String> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    let is_odd = |word: &&str| {
        let is_level = word.parse::<LevelFilter>().is_ok();
        !word.is_empty() && !word.contains('=') && !word.starts_with("toolgate") && !is_level
    };
    match text.split(',').map(str::trim).find(is_odd) {
        Some(word) => Err(format!(
            "{word:?} is not a level; there are: {}; a target has one, as in toolgate::session=trace{}",
            LEVELS.join(", "),
            nearest::hint(word, LEVELS)
        )),
        None => text.parse().map_err(|error: tracing_subscriber::filter::ParseError| error.to_string()),
    }
}

/// Returns a filter that logs this level, and only warnings of other crates.
fn at_level(level: LevelFilter) -> Targets {
    Targets::new().with_default(level.min(LevelFilter::WARN)).with_target("toolgate", level)
}

/// One line of the log, written to standard error without secrets when it is complete.
struct LogLine {
    secrets: Arc<Mutex<Secrets>>,
    text: Vec<u8>,
}

impl Write for LogLine {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for LogLine {
    fn drop(&mut self) {
        let text = String::from_utf8_lossy(&self.text);
        let text = lock(&self.secrets).redact(&text);
        // An event is one line: line breaks within it come from somebody's text and must not start another.
        let line = style::one_line(text.strip_suffix('\n').unwrap_or(&text));
        // A closed standard error must not end the program.
        terminal::beside_waiting_line(|| drop(io::stderr().write_all(format!("{line}\n").as_bytes())));
    }
}
