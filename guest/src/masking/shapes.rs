//! Values recognized by their form: what an expression finds, and forms that are simpler to read by hand.

use memchr::{memchr_iter, memchr2_iter, memmem};

use super::Span;
use super::automata::Expression;
use super::rules::Condition;

/// A compiled form.
#[derive(Debug)]
pub(super) struct ShapeRule {
    /// What precedes the value, if that must be there, and the value.
    stages: &'static [Expression],
    condition: Condition,
}

impl ShapeRule {
    /// Makes the rule for a value, or for something and the value after it.
    pub(super) fn new(stages: &'static [Expression], condition: Condition) -> Self {
        ShapeRule { stages, condition }
    }

    /// Reports whether values are recognized by their prefix alone, wherever they begin.
    pub(super) fn is_unmistakable(&self) -> bool {
        self.stages.len() == 1 && self.condition == Condition::Always
    }

    /// Reports the value whose form begins here; returns where to look next, or `None` if it does not begin here.
    pub(super) fn look(&self, text: &str, at: usize, report: &mut dyn FnMut(Span)) -> Option<usize> {
        if self.condition == Condition::BeginsWord && !begins_word(text, at) {
            return None;
        }
        let (mut start, mut end) = (at, at);
        for stage in self.stages {
            (start, end) = (end, stage.end(text, end)?);
        }
        let span = Span::new(start, end);
        if self.condition != Condition::LooksLikeCredential || looks_like_a_credential(text, span) {
            report(span);
        }
        Some(end)
    }
}

/// Reports whether no word continues here; the letter of a `\\n` that is written out is none.
fn begins_word(text: &str, at: usize) -> bool {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    match text.as_bytes()[..at] {
        [.., b'\\', b'n' | b'r' | b't'] => true,
        [.., last] => !is_word(&last),
        [] => true,
    }
}

/// Reports whether a text is long or contains signs that words lack: `basic authentication` is no credential.
fn looks_like_a_credential(text: &str, span: Span) -> bool {
    let value = &text[span.start..span.end];
    value.len() >= 24 || value.bytes().any(|byte| byte.is_ascii_digit() || b"=_~+".contains(&byte))
}

/// Reports JSON Web Tokens: two or three parts in URL-safe base64, of which the first encodes `{"`.
pub(super) fn find_jwts(text: &str, report: &mut dyn FnMut(Span)) {
    let part_end = |at: usize| {
        at + text.as_bytes()[at..]
            .iter()
            .take_while(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(byte))
            .count()
    };
    let begins_part = |at: usize| text.as_bytes().get(at) == Some(&b'.');
    let mut at = 0;
    while let Some(start) = memmem::find(&text.as_bytes()[at..], b"eyJ").map(|found| at + found) {
        // If the token does not begin here, it does not begin anywhere before the end of this part.
        let header = part_end(start);
        at = header;
        if header - start < 11 || !begins_part(header) {
            continue;
        }
        let payload = part_end(header + 1);
        if payload - header <= 8 {
            continue;
        }
        at = if begins_part(payload) { part_end(payload + 1) } else { payload };
        report(Span::new(start, at));
    }
}

/// Reports the passwords of URLs such as `https://user:password@host`.
pub(super) fn find_url_passwords(text: &str, report: &mut dyn FnMut(Span)) {
    let mut at = 0;
    while let Some(found) = memmem::find(&text.as_bytes()[at..], b"://") {
        at += found + "://".len();
        let ends = |c: char| c.is_whitespace() || "/\"'`<>\\".contains(c);
        let user = text[at..].find(|c| ends(c) || c == ':' || c == '@').unwrap_or(text.len() - at);
        if !text[at + user..].starts_with(':') {
            continue;
        }
        let start = at + user + 1;
        let rest = &text[start..];
        // A password may contain an `@`; the last one ends it.
        let Some(length) = rest[..rest.find(ends).unwrap_or(rest.len())].rfind('@').filter(|length| *length > 0) else {
            continue;
        };
        report(Span::new(start, start + length));
        at = start + length + 1;
    }
}

/// Reports e-mail addresses.
pub(super) fn find_emails(text: &str, report: &mut dyn FnMut(Span)) {
    let is_local = |c: char| ".%+-".contains(c) || regex_syntax::is_word_character(c);
    let mut at = 0;
    for sign in memchr_iter(b'@', text.as_bytes()) {
        let Some(before) = text.get(at..sign) else { continue };
        let local = before.len() - before.trim_end_matches(is_local).len();
        let Some(end) = host_end(text, sign + 1).filter(|_| local > 0) else { continue };
        let span = Span::new(sign - local, end);
        if is_not_of_a_url(text, span) {
            report(span);
        }
        at = end;
    }
}

/// Returns the end of the host name that begins here: its last label has two letters or more.
fn host_end(text: &str, start: usize) -> Option<usize> {
    let is_host = |byte: &&u8| byte.is_ascii_alphanumeric() || b".-".contains(byte);
    let host = &text.as_bytes()[start..];
    let mut host = &host[..host.iter().take_while(is_host).count()];
    while let Some(dot) = host.iter().rposition(|byte| *byte == b'.').filter(|dot| *dot > 0) {
        let letters = host[dot + 1..].iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
        if letters >= 2 {
            return Some(start + dot + 1 + letters);
        }
        host = &host[..dot];
    }
    None
}

/// Reports whether this is an e-mail address, not the user of a URL such as `ssh://git@example.com`.
pub(super) fn is_not_of_a_url(text: &str, span: Span) -> bool {
    let before = &text.as_bytes()[span.start.saturating_sub(MAX_USER)..span.start];
    let user = before.iter().rev().take_while(|byte| !byte.is_ascii_whitespace() && !b"/\"'<>".contains(byte)).count();
    // Images for dense screens have names such as `icon@2x.png`.
    let picture = text[span.start..span.end]
        .split_once('@')
        .is_some_and(|(_, host)| host.starts_with("2x.") || host.starts_with("3x."));
    !picture && !before[..before.len() - user].ends_with(b"//")
}

/// The maximum length of a user name in a URL.
const MAX_USER: usize = 128;

/// Reports base64 of at least 20 characters that is no hash, identifier or path.
pub(super) fn find_base64(text: &str, report: &mut dyn FnMut(Span)) {
    let bytes = text.as_bytes();
    let mut start = 0;
    // So long a run covers the byte at the end of any 20, so most bytes need not be looked at.
    while let Some(window) = bytes.get(start..start + MIN_BASE64) {
        if let Some(other) = window.iter().rposition(|byte| !is_base64(byte)) {
            start += other + 1;
            continue;
        }
        let length = bytes[start..].iter().take_while(|byte| is_base64(byte)).count();
        let span = Span::new(start, start + length + padding(&bytes[start + length..]));
        if looks_like_base64(text, span) {
            report(span);
        }
        start = span.end;
    }
}

const MIN_BASE64: usize = 20;

/// Reports base64 of at most 20 characters that is the whole value after a colon or an equals sign.
pub(super) fn find_short_base64(text: &str, report: &mut dyn FnMut(Span)) {
    let bytes = text.as_bytes();
    let mut at = 0;
    for sign in memchr2_iter(b':', b'=', bytes) {
        if sign < at {
            continue;
        }
        let count = |from: usize, test: fn(&u8) -> bool| bytes[from..].iter().take_while(|byte| test(byte)).count();
        let blanks = sign + 1 + count(sign + 1, |byte| matches!(byte, b' ' | b'\t'));
        let slashes = blanks + count(blanks, |byte| *byte == b'\\');
        let start = slashes + usize::from(matches!(bytes.get(slashes), Some(b'"' | b'\'')));
        let length = bytes[start..].iter().take(MIN_BASE64).take_while(|byte| is_base64(byte)).count();
        if length < 2 {
            continue;
        }
        let span = Span::new(start, start + length + padding(&bytes[start + length..]));
        if looks_like_short_base64(text, span) {
            report(span);
        }
        at = span.end;
    }
}

fn is_base64(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/')
}

/// Counts the equals signs at the end of base64.
fn padding(rest: &[u8]) -> usize {
    rest.iter().take(2).take_while(|byte| **byte == b'=').count()
}

/// Reports whether a text is mixed like base64: not a hash, an identifier or a path.
pub(super) fn looks_like_base64(text: &str, span: Span) -> bool {
    let value = &text.as_bytes()[span.start..span.end];
    let slashes = value.iter().filter(|byte| **byte == b'/').count();
    let padded = value.ends_with(b"=") && value.len().is_multiple_of(4);
    // In random base64, one character in 64 is a slash and one in six is a digit; paths and class names differ.
    let digits = value.iter().filter(|byte| byte.is_ascii_digit() || **byte == b'+').count();
    (padded || is_mixed(value) && digits + slashes >= 2) && slashes <= 1 + value.len() / 24
}

/// Reports whether a text is a whole value in groups of four characters, padded or mixed.
pub(super) fn looks_like_short_base64(text: &str, span: Span) -> bool {
    let value = &text.as_bytes()[span.start..span.end];
    let ends =
        text.as_bytes().get(span.end).is_none_or(|byte| byte.is_ascii_whitespace() || b"\"'`,;&\\}])<".contains(byte));
    ends && value.len().is_multiple_of(4) && (value.ends_with(b"=") || is_mixed(value))
}

fn is_mixed(value: &[u8]) -> bool {
    value.iter().any(u8::is_ascii_uppercase)
        && value.iter().any(u8::is_ascii_lowercase)
        && value.iter().any(|byte| !byte.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asks whether the first so many bytes of a text are accepted.
    fn check(accepts: fn(&str, Span) -> bool, rows: &[(&str, usize, bool)]) {
        for (text, length, expected) in rows {
            assert_eq!(accepts(text, Span::new(0, *length)), *expected, "the first {length} bytes of {text:?}");
        }
    }

    #[test]
    fn a_credential_is_long_or_has_a_sign_that_words_do_not_have() {
        check(
            looks_like_a_credential,
            &[
                ("authentication", 14, false),
                ("abcdefghijklmnopqrstuvw", 23, false),
                ("abcdefghijklmnopqrstuvwx", 24, true),
                ("abcdefghijklmnop1", 17, true),
                ("abcdefghijklmnop=", 17, true),
                ("abcdefghijklmnop_", 17, true),
            ],
        );
    }

    #[test]
    fn base64_is_padded_or_mixed_and_has_few_slashes() {
        check(
            looks_like_base64,
            &[
                ("abcdefghijklmnopqrs=", 20, true),
                ("Abcdefghijklmnopqrs12", 21, true),
                ("Abcdefghijklmnopqrst1", 21, false),
                ("abcdefghijklmnopqrs12", 21, false),
                ("Ab/defghijklmnopqrs1", 20, true),
                ("Ab/defghi/jklmnopqrs1", 21, false),
            ],
        );
        check(
            looks_like_short_base64,
            &[
                ("abcd", 4, false),
                ("abc=", 4, true),
                ("dGVzdA==", 8, true),
                ("aB3d", 4, true),
                ("aB3d rest", 4, true),
                ("aB3d\"", 4, true),
                ("aB3d:rest", 4, false),
                ("aB3de", 5, false),
            ],
        );
    }

    #[test]
    fn the_user_of_a_url_is_no_address() {
        for (before, expected) in
            [("ssh://", false), ("ssh://x:", false), ("ssh://h ", true), ("to ", true), ("", true)]
        {
            let text = format!("{before}git@example.com");
            assert_eq!(is_not_of_a_url(&text, Span::new(before.len(), text.len())), expected, "{text}");
        }
    }
}
