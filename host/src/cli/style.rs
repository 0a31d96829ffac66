//! Colours for terminals, and text that is safe to show there.

use std::borrow::Cow;
use std::fmt::{Arguments, Write as _};
use std::io::{IsTerminal, Write as _};

use super::terminal;

/// Writes to standard error. Lines after the first are marked, since they may come from a server and must not look like
/// ours. Errors are ignored: a closed standard error must not end the command.
pub(super) fn write_stderr(text: Arguments<'_>) {
    let text = text.to_string().replace('\t', "\\t");
    let marked = text.lines().collect::<Vec<_>>().join("\n    | ");
    terminal::beside_waiting_line(|| drop(writeln!(std::io::stderr(), "{marked}")));
}

/// Writes an error, or how a call failed, to standard error.
pub(super) fn write_error(kind: &str, text: &str) {
    write_stderr(format_args!("{}: {text}", stderr().red(kind)));
}

/// Writes a warning to standard error.
pub(super) fn write_warning(text: &str) {
    write_stderr(format_args!("{}: {text}", stderr().yellow("warning")));
}

/// Writes to standard error what somebody should know about a configuration.
pub(super) fn write_notice(notice: &str) {
    write_stderr(format_args!("{}: {}", stderr().yellow("notice"), clean(notice)));
}

/// Writes a note to standard error.
pub(super) fn write_note(text: &str) {
    write_stderr(format_args!("{}: {}", stderr().dim("note"), clean(text)));
}

/// Escapes characters that control a terminal, except tabs and line breaks; names and texts of servers may contain any.
pub(super) fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let harmless = matches!(letter, '\n' | '\t') || letter == '\r' && letters.peek() == Some(&'\n');
        if is_terminal_control(letter) && !harmless { out.extend(letter.escape_default()) } else { out.push(letter) }
    }
    out
}

/// Escapes a text into one harmless line for the log; a line of JSON keeps its meaning.
pub(super) fn one_line(text: &str) -> Cow<'_, str> {
    escaped(text, is_terminal_control)
}

/// Escapes the control characters that JSON leaves unescaped; the JSON keeps its meaning.
pub(super) fn clean_json(text: &str) -> Cow<'_, str> {
    escaped(text, |letter| is_terminal_control(letter) && letter >= '\u{7f}')
}

/// Writes these characters as JSON escapes.
fn escaped(text: &str, these: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&these) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 64);
    for letter in text.chars() {
        match letter {
            letter if !these(letter) => out.push(letter),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            letter => write!(out, "\\u{:04x}", u32::from(letter)).expect("a string takes all that is written"),
        }
    }
    Cow::Owned(out)
}

/// Reports whether a character changes what a terminal shows: control characters, line separators and direction marks.
fn is_terminal_control(letter: char) -> bool {
    letter.is_control()
        || matches!(
            letter,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

/// Colours for one output stream.
#[derive(Clone, Copy)]
pub(super) struct Style {
    colour: bool,
}

/// Returns the colours for standard output.
pub(super) fn stdout() -> Style {
    Style::new(std::io::stdout().is_terminal())
}

/// Returns the colours for standard error.
pub(super) fn stderr() -> Style {
    Style::new(std::io::stderr().is_terminal())
}

impl Style {
    fn new(terminal: bool) -> Self {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let able = std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        Style { colour: terminal && wanted && able }
    }

    /// Reports whether colours are used.
    pub(super) fn is_colourful(self) -> bool {
        self.colour
    }

    /// Formats text that stands out.
    pub(super) fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    /// Formats text that matters less.
    pub(super) fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    /// Formats an error.
    pub(super) fn red(self, text: &str) -> String {
        self.paint("1;31", text)
    }

    /// Formats a success.
    pub(super) fn green(self, text: &str) -> String {
        self.paint("1;32", text)
    }

    /// Formats a warning.
    pub(super) fn yellow(self, text: &str) -> String {
        self.paint("1;33", text)
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_terminal_is_shown_as_it_would_be_typed() {
        assert_eq!(clean("\u{1b}[31m\u{7}\u{9b}\u{202e}"), "\\u{1b}[31m\\u{7}\\u{9b}\\u{202e}");
        assert_eq!(clean("a\tb\r\nc\rd\n"), "a\tb\r\nc\\rd\n");
    }

    #[test]
    fn a_line_of_the_log_stays_one_line() {
        assert_eq!(
            one_line("a\n WARN b\r\tc\u{1b}[2J\u{85}\u{2028}\u{2029}\u{200f}é"),
            "a\\n WARN b\\r\\tc\\u001b[2J\\u0085\\u2028\\u2029\\u200fé"
        );
        assert!(matches!(one_line("as it is"), Cow::Borrowed(_)));
    }

    #[test]
    fn json_means_the_same_when_it_is_clean() {
        let json = serde_json::to_string("a\u{1b}\u{7f}\u{9b}\u{202e}\u{2028}\u{2069}é\n").unwrap();
        let cleaned = clean_json(&json);
        assert!(!cleaned.contains(is_terminal_control), "{cleaned:?}");
        assert_eq!(serde_json::from_str::<String>(&cleaned).unwrap(), serde_json::from_str::<String>(&json).unwrap());
    }
}
