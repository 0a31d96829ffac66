//! Colour where a terminal shows it, and nothing where it does not.

use std::io::IsTerminal;

/// A text without characters that steer a terminal: names and texts of servers may hold any.
pub fn clean(text: &str) -> String {
    let steers = |letter: char| {
        letter.is_control() && letter != '\n' || matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        if steers(letter) { out.extend(letter.escape_default()) } else { out.push(letter) }
    }
    out
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
