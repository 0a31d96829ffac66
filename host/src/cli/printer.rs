//! What goes to standard output: never a secret, and nothing that steers a terminal.

use std::borrow::Cow;
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use toolgate::config::secrets::Secrets;

use super::error::CliError;
use super::style;
use super::terminal::TextCleaner;

/// Prints without secrets.
#[derive(Clone)]
pub struct Printer(pub Arc<Mutex<Secrets>>);

impl Printer {
    /// Makes texts fit to be shown, for who has no printer at hand.
    pub fn cleaner(&self) -> TextCleaner {
        let secrets = Arc::clone(&self.0);
        Arc::new(move |text| style::clean(&secrets.lock().unwrap_or_else(PoisonError::into_inner).redact(text)))
    }

    /// A text without secrets.
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).redact(text)
    }

    /// A text as it may be shown: without secrets, and without what steers a terminal.
    pub fn clean(&self, text: &str) -> String {
        style::clean(&self.redact(text))
    }

    /// Prints a text; what steers a terminal is harmless where there is none, and may be wanted.
    pub fn print(&self, text: &str) -> Result<(), CliError> {
        let text = if std::io::stdout().is_terminal() { Cow::Owned(self.clean(text)) } else { self.redact(text) };
        let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        let mut out = std::io::stdout().lock();
        check_written(write!(out, "{text}{end}").and_then(|()| out.flush()))
    }

    /// Prints for programs: one JSON value on one line.
    pub fn print_json<T: Serialize>(&self, value: &T) -> Result<(), CliError> {
        let json = serde_json::to_string(value).expect("shapes have string keys only, so they are always JSON");
        let json = self.redact(&json);
        let json = style::clean_json(&json);
        let mut out = std::io::stdout().lock();
        check_written(writeln!(out, "{json}").and_then(|()| out.flush()))
    }

    /// Prints what is drawn with colours; each part was made clean before.
    pub fn print_colored(&self, text: &str) -> Result<(), CliError> {
        let mut out = std::io::stdout().lock();
        check_written(out.write_all(self.redact(text).as_bytes()).and_then(|()| out.flush()))
    }
}

/// Whether somebody still reads the output, as far as is known: it shows when something is printed.
pub fn stdout_is_open() -> bool {
    !UNREAD.load(Relaxed)
}

/// There is one standard output.
static UNREAD: AtomicBool = AtomicBool::new(false);

/// Prints what is no server's and holds no secret, as it is.
pub fn print_plain(bytes: &[u8]) -> Result<(), CliError> {
    let mut out = std::io::stdout().lock();
    check_written(out.write_all(bytes).and_then(|()| out.flush()))
}

/// Whoever reads the output may have seen enough: that is no failure, and hides none.
fn check_written(outcome: std::io::Result<()>) -> Result<(), CliError> {
    match outcome {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {
            UNREAD.store(true, Relaxed);
            Ok(())
        }
        outcome => outcome.map_err(CliError::Output),
    }
}
