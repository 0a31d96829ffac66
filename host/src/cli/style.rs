//! Colour where a terminal shows it, and nothing where it does not.

use std::borrow::Cow;
use std::fmt::{Arguments, Write as _};
use std::io::{IsTerminal, Write as _};

/// Writes a line to standard error. That nobody can read it is no reason to stop, or to end otherwise.
pub fn say(line: Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// A text without characters that steer a terminal: names and texts of servers may hold any. Tabs and the ends of lines
/// are no harm.
pub fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let harmless = matches!(letter, '\n' | '\t') || letter == '\r' && letters.peek() == Some(&'\n');
        if steers(letter) && !harmless { out.extend(letter.escape_default()) } else { out.push(letter) }
    }
    out
}

/// The same for JSON or a line of the log, where all but these characters are escaped already. JSON means the same after.
pub fn clean_json(text: &str) -> Cow<'_, str> {
    let left = |letter: char| steers(letter) && letter >= '\u{7f}';
    if !text.contains(left) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 64);
    for letter in text.chars() {
        match left(letter) {
            true => write!(out, "\\u{:04x}", u32::from(letter)).expect("a string takes all that is written"),
            false => out.push(letter),
        }
    }
    Cow::Owned(out)
}

fn steers(letter: char) -> bool {
    letter.is_control() || matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// How to write to one stream.
#[derive(Clone, Copy)]
pub struct Style {
    colour: bool,
}

/// How to write to standard output.
pub fn stdout() -> Style {
    Style::new(std::io::stdout().is_terminal())
}

/// How to write to standard error.
pub fn stderr() -> Style {
    Style::new(std::io::stderr().is_terminal())
}

impl Style {
    fn new(terminal: bool) -> Self {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let able = std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        Style { colour: terminal && wanted && able }
    }

    /// Whether it has colours at all.
    pub fn is_colourful(self) -> bool {
        self.colour
    }

    /// What stands out.
    pub fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    /// What stands back.
    pub fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    /// What went wrong.
    pub fn red(self, text: &str) -> String {
        self.paint("1;31", text)
    }

    /// What went well.
    pub fn green(self, text: &str) -> String {
        self.paint("1;32", text)
    }

    /// What deserves a look.
    pub fn yellow(self, text: &str) -> String {
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
    fn json_means_the_same_when_it_is_clean() {
        let json = serde_json::to_string("a\u{1b}\u{7f}\u{9b}\u{202e}\u{2069}é\n").unwrap();
        let cleaned = clean_json(&json);
        assert!(!cleaned.contains(steers), "{cleaned:?}");
        assert_eq!(serde_json::from_str::<String>(&cleaned).unwrap(), serde_json::from_str::<String>(&json).unwrap());
    }
}
