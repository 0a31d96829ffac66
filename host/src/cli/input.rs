//! Texts that a command reads from a file or from standard input, up to a limit.

use std::io::{self, Read};
use std::path::Path;

use super::error::CliError;
use crate::ownership;

/// Reads a text from a file, or from standard input if its name is `-`; errors begin with `what`, such as
/// `the arguments`.
pub(super) fn read_text(file: &Path, what: &str) -> Result<String, CliError> {
    let is_stdin = file == Path::new("-");
    let place = if is_stdin { "on standard input".to_owned() } else { format!("in {}", file.display()) };
    let wrong = |why: &dyn std::fmt::Display| CliError::Usage(format!("{what} {place} cannot be read: {why}"));
    let source: io::Result<Box<dyn Read>> = if is_stdin {
        Ok(Box::new(io::stdin().lock()))
    } else {
        ownership::open_regular(file).map(|file| Box::new(file) as _)
    };
    let mut bytes = Vec::new();
    // An endless source must not take all memory.
    let read = source.and_then(|source| source.take(LIMIT + 1).read_to_end(&mut bytes));
    read.map_err(|error| wrong(&error))?;
    if bytes.len() as u64 > LIMIT {
        return Err(wrong(&format_args!("larger than {} MiB", LIMIT >> 20)));
    }
    String::from_utf8(bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        wrong(&format_args!("it is not UTF-8 text: byte {} belongs to no character", good + 1))
    })
}

/// The most bytes of a text.
const LIMIT: u64 = 16 << 20;
