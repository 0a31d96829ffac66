//! A position in a text, and the small steps that all forms of calls share.

use super::ReadingError;

/// A text, and a position in it.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'t> {
    pub text: &'t str,
    pub at: usize,
}

/// Why a parser stops.
#[derive(Debug)]
pub(super) enum Stop {
    /// What was expected is not here; the parser looked at the text up to this byte.
    NotHere(usize),
    /// The text cannot be read. The error is in a box, because every step carries this type.
    Refused(Box<ReadingError>),
}

impl Stop {
    /// Stops because of an error.
    #[cold]
    pub(super) fn refused(error: ReadingError) -> Self {
        Stop::Refused(Box::new(error))
    }
}

/// What a parser read, or why it stopped.
pub(super) type Read<T> = Result<T, Stop>;

// The steps are not inlined: they are used everywhere, and a copy at each place would make the component a third larger.
impl<'t> Cursor<'t> {
    /// Returns a cursor at this byte of a text.
    pub(super) fn new(text: &'t str, at: usize) -> Self {
        Cursor { text, at }
    }

    /// Returns the text from here on.
    pub(super) fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    /// Returns the next byte.
    pub(super) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Reports whether the text goes on like this.
    #[inline(never)]
    pub(super) fn sees(&self, expected: &str) -> bool {
        self.text.as_bytes()[self.at..].starts_with(expected.as_bytes())
    }

    /// Skips this text, if it is next.
    pub(super) fn accept(&mut self, expected: &str) -> bool {
        let found = self.sees(expected);
        if found {
            self.at += expected.len();
        }
        found
    }

    /// Skips this text, or stops.
    pub(super) fn expect(&mut self, expected: &str) -> Read<()> {
        if self.accept(expected) { Ok(()) } else { self.stop() }
    }

    /// Takes the bytes that pass a test; the test treats all bytes of other alphabets alike, so letters stay whole.
    #[inline(never)]
    pub(super) fn take(&mut self, test: fn(u8) -> bool) -> &'t str {
        let start = self.at;
        while self.peek().is_some_and(test) {
            self.at += 1;
        }
        &self.text[start..self.at]
    }

    /// Takes the text before a mark and skips the mark.
    #[inline(never)]
    pub(super) fn take_until(&mut self, mark: &str) -> Read<&'t str> {
        match find(self.rest(), mark) {
            Some(length) => {
                let taken = &self.rest()[..length];
                self.at += length + mark.len();
                Ok(taken)
            }
            None => Err(Stop::NotHere(self.text.len())),
        }
    }

    /// Skips white space except line breaks.
    #[inline(never)]
    pub(super) fn spaces(&mut self) {
        self.take(|byte| matches!(byte, b' ' | b'\t' | b'\r'));
    }

    /// Skips white space; returns true if it contains a line break.
    #[inline(never)]
    pub(super) fn blanks(&mut self) -> bool {
        if let Some(b'!'..=b'~') | None = self.peek() {
            return false;
        }
        let rest = self.rest();
        let bare = rest.trim_start();
        self.at += rest.len() - bare.len();
        rest[..rest.len() - bare.len()].contains('\n')
    }

    /// Skips white space and comments after `#` and, if these are comments too, after `//` and between `/*` and `*/`.
    /// Returns true if there is a line break.
    #[inline(never)]
    pub(super) fn blanks_and_comments(&mut self, slashes: bool) -> bool {
        let mut new_line = false;
        loop {
            new_line |= self.blanks();
            if !matches!(self.peek(), Some(b'#' | b'/')) {
                return new_line;
            }
            let rest = self.rest();
            let length = if rest.starts_with('#') || slashes && rest.starts_with("//") {
                rest.find('\n')
            } else if slashes && rest.starts_with("/*") {
                rest.find("*/").map(|at| at + 2)
            } else {
                return new_line;
            };
            self.at += length.unwrap_or(rest.len());
        }
    }

    /// Reports whether the part of the text that can hold a call ends here: at the end of the text, at a closing tag, a
    /// mark or a code fence.
    #[inline(never)]
    pub(super) fn at_end(&self) -> bool {
        match self.peek() {
            None => true,
            Some(b'<' | b'`') => ["</", "<|", "<｜", "```"].iter().any(|mark| self.sees(mark)),
            Some(_) => false,
        }
    }

    /// Stops here.
    pub(super) fn stop<T>(&self) -> Read<T> {
        Err(Stop::NotHere(self.at))
    }
}

/// Returns the place of a mark in a text.
#[inline(never)]
pub(super) fn find(text: &str, mark: &str) -> Option<usize> {
    text.find(mark)
}

/// Reports whether a byte belongs to a word of ASCII letters.
pub(super) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}
