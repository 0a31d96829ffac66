//! Standard output, without secrets and without characters that control a terminal.

use std::borrow::Cow;
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use crate::config::secrets::Secrets;
use crate::json::to_raw;
use crate::lock::lock;
use serde::Serialize;

use super::error::CliError;
use super::style;

/// Prints to standard output without secrets.
#[derive(Clone)]
pub(super) struct Printer(pub Arc<Mutex<Secrets>>);

impl Printer {
    /// Removes secrets from a text: the credentials that a gateway hides from its clients too.
    pub(super) fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let credentials = lock(&self.0).credentials();
        credentials.hide(text)
    }

    /// Removes secrets from a text, and escapes characters that control a terminal.
    pub(super) fn clean(&self, text: &str) -> String {
        style::clean(&self.redact(text))
    }

    /// Prints a warning to standard error.
    pub(super) fn warn(&self, text: &str) {
        style::write_warning(&self.clean(text));
    }

    /// Prints a text; control characters are escaped only on a terminal, since elsewhere they do no harm.
    pub(super) fn print(&self, text: &str) -> Result<(), CliError> {
        let text = if std::io::stdout().is_terminal() { Cow::Owned(self.clean(text)) } else { self.redact(text) };
        let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        print_plain(format!("{text}{end}").as_bytes())
    }

    /// Prints a value as JSON on one line.
    pub(super) fn print_json<T: Serialize>(&self, value: &T) -> Result<(), CliError> {
        let json = to_raw(value);
        let json = self.redact(json.get());
        print_plain(format!("{}\n", style::clean_json(&json)).as_bytes())
    }

    /// Prints a text with colours, whose parts are already clean.
    pub(super) fn print_colored(&self, text: &str) -> Result<(), CliError> {
        print_plain(self.redact(text).as_bytes())
    }
}

/// Reports whether somebody still reads the output, as far as earlier writes show.
pub(super) fn stdout_is_open() -> bool {
    !UNREAD.load(Relaxed)
}

/// True after standard output was found closed.
static UNREAD: AtomicBool = AtomicBool::new(false);

/// Prints bytes as they are, which must not come from a server or contain secrets. A closed pipe is not an error, since
/// its reader has seen enough.
pub(super) fn print_plain(bytes: &[u8]) -> Result<(), CliError> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {
            UNREAD.store(true, Relaxed);
            Ok(())
        }
        outcome => outcome.map_err(CliError::Output),
    }
}
