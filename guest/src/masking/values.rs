//! The value after a key: quoted, quoted inside a JSON string, bare, or a YAML block.

use super::Span;

/// Finds the value that begins here; returns `None` if none could be a secret.
///
/// `key` includes its separator and ends where the value begins.
pub(super) fn after(text: &str, key: &str, at: usize) -> Option<Span> {
    let rest = &text[at..];
    let slashes = rest.bytes().take_while(|byte| *byte == b'\\').count();
    match rest.as_bytes().get(slashes)? {
        quote @ (b'"' | b'\'' | b'`') => Some(quoted(text, at + slashes + 1, *quote, slashes)),
        b'|' | b'>' if slashes == 0 => block(text, at),
        b'{' | b'\n' | b'\r' => {
            // A quoted value may be on the next line.
            let below = rest.trim_start();
            let quoted_below = below.starts_with(['"', '\'']) && rest.starts_with(['\n', '\r']);
            if quoted_below { after(text, key, text.len() - below.len()) } else { None }
        }
        b'[' if mask_length(rest).is_none() => None,
        _ => {
            let span = bare(text, at);
            // After a quoted key, a bare value is a JSON number or word, so its mask needs quotes.
            let quote = key.trim_end().trim_end_matches([':', ' ', '\t']);
            let slashes = quote.strip_suffix('"').map(|key| key.len() - key.trim_end_matches('\\').len());
            Some(Span { quoted: slashes.map(|slashes| slashes as u32), ..span })
        }
    }
}

/// Returns how many bytes of a value are not masked yet.
pub(super) fn unmasked_length(value: &str) -> usize {
    let mut length = value.len();
    let mut at = 0;
    while let Some(found) = value[at..].find('[') {
        let mask = mask_length(&value[at + found..]);
        length -= mask.unwrap_or(0);
        at += found + mask.unwrap_or(1);
    }
    length
}

/// Returns the length of the mask or redaction at the start of a text.
pub(crate) fn mask_length(text: &str) -> Option<usize> {
    if let Some(rest) = text.strip_prefix("[MASKED_") {
        let name = rest.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
        return rest[name..].starts_with(']').then_some("[MASKED_".len() + name + 1);
    }
    [super::REDACTED, "[REDACTED]"]
        .iter()
        .find(|redaction| text.starts_with(**redaction))
        .map(|redaction| redaction.len())
}

/// Reads a value up to its closing quote or the end of the line.
fn quoted(text: &str, start: usize, quote: u8, slashes: usize) -> Span {
    let mut before = 0;
    for (at, byte) in text.as_bytes().iter().enumerate().skip(start) {
        match *byte {
            b'\\' => before += 1,
            // A quote one string deeper has twice as many backslashes plus one, and does not close this one.
            byte if byte == quote && (before / (slashes + 1)).is_multiple_of(2) => {
                return Span::new(start, at - before.min(slashes));
            }
            b'\n' | 0 => return Span::new(start, start + text[start..at].trim_end().len()),
            _ => before = 0,
        }
        if *byte == quote {
            before = 0;
        }
    }
    Span::new(start, start + text[start..].trim_end().len())
}

/// Reads a value up to a blank, a quote, an escape, or a sign that ends it.
fn bare(text: &str, start: usize) -> Span {
    let bytes = text.as_bytes();
    let mut at = start;
    let mut opened = 0;
    while at < bytes.len() {
        let rest = &bytes[at + 1..];
        let ends = match bytes[at] {
            b'"' | b'\'' | b'`' | b'<' | b'>' | 0 => true,
            byte if byte.is_ascii_whitespace() => true,
            b'\\' => matches!(rest.first(), None | Some(b'n' | b'r' | b't' | b'"' | b'\'' | b'\\' | b'u')),
            b',' | b';' | b'&' => ends_member(rest),
            b'(' | b'{' => {
                opened += 1;
                false
            }
            b')' | b'}' if opened > 0 => {
                opened -= 1;
                false
            }
            b')' | b']' | b'}' => rest.first().is_none_or(|byte| !byte.is_ascii_alphanumeric()),
            b'[' => {
                at += mask_length(&text[at..]).unwrap_or(1);
                continue;
            }
            _ => false,
        };
        if ends {
            break;
        }
        at += 1;
    }
    Span::new(start, at)
}

/// Reports whether the comma, semicolon or ampersand before this separates two members and is not part of a password.
fn ends_member(rest: &[u8]) -> bool {
    let name = rest.iter().take(MAX_NAME).take_while(|byte| byte.is_ascii_alphanumeric() || b"_-.%".contains(byte));
    match rest.get(name.count()) {
        Some(b'=' | b':') => true,
        _ => rest.first().is_none_or(|byte| byte.is_ascii_whitespace() || b"\"'\\{[".contains(byte)),
    }
}

/// The maximum length of the next member's name.
const MAX_NAME: usize = 64;

/// Reads the lines of a YAML block scalar (`|`, `>-`, …), which are indented more than the line of its key.
fn block(text: &str, at: usize) -> Option<Span> {
    let indicator = text[at..].trim_start_matches(['|', '>', '+', '-', '1', '2', '3', '4']);
    let below = indicator.trim_start_matches([' ', '\t', '\r']);
    if !below.starts_with('\n') {
        return Some(bare(text, at));
    }
    let key_line = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let indent = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let least = indent(&text[key_line..at]);
    let mut span: Option<Span> = None;
    let mut line_start = text.len() - below.len() + 1;
    for line in text[line_start..].split_inclusive('\n') {
        let content = line.trim();
        if !content.is_empty() {
            if indent(line) <= least {
                break;
            }
            let start = line_start + indent(line);
            let end = line_start + line.trim_end().len();
            span = Some(Span::new(span.map_or(start, |span| span.start), end));
        }
        line_start += line.len();
    }
    span
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_without_its_quotes() {
        for (text, value) in [
            (r#"k: "abc" x"#, Some("abc")),
            (r#"k: "a\"b\\" x"#, Some(r#"a\"b\\"#)),
            (r#"\"k\": \"abc\", \"d\": 1"#, Some("abc")),
            (r#"\"k\": \"a\\\"bc\", \"d\": 1"#, Some(r#"a\\\"bc"#)),
            (r#"\\\"k\\\": \\\"abc\\\"}\""#, Some("abc")),
            (r#"\"k\": \"abc"#, Some("abc")),
            ("k: 'it''s", Some("it")),
            ("k: 'abc  \nd", Some("abc")),
            ("k: abc def", Some("abc")),
            ("k: a&b;c,d&e=1", Some("a&b;c,d")),
            ("k: abc, d", Some("abc")),
            (r"k: abc\nd", Some("abc")),
            ("{k: abc}", Some("abc")),
            ("k: ab}c)", Some("ab}c")),
            ("{k: ${ab}}", Some("${ab}")),
            ("k: [MASKED_X]\n", Some("[MASKED_X]")),
            ("k: [1, 2]", None),
            ("k: {a: 1}", None),
            ("k: \nabc", None),
            ("  k: |\n    abc\n\n    def\n  d: 1", Some("abc\n\n    def")),
            ("k: |\nabc", None),
            ("k: ", None),
        ] {
            let at = text.find(": ").unwrap() + 2;
            let found = after(text, &text[..at], at).map(|span| &text[span.start..span.end]);
            assert_eq!(found, value, "{text}");
        }
    }

    #[test]
    fn a_bare_value_after_a_quoted_key_takes_its_quotes() {
        for (text, quoted) in
            [(r#""k": 1"#, Some(0)), (r#"\"k\" : 1"#, Some(1)), (r#"\\\"k\\\": 1"#, Some(3)), ("k: 1", None)]
        {
            let at = text.rfind(' ').unwrap() + 1;
            assert_eq!(after(text, &text[..at], at).unwrap().quoted, quoted, "{text}");
        }
    }

    #[test]
    fn masks_do_not_count_as_values() {
        for (value, length) in [
            ("[MASKED_X]", 0),
            ("a[MASKED_X]b", 2),
            ("[MASKED_X", 9),
            ("[REDACTED]", 0),
            ("[REDACTED]x", 1),
            ("[REDACTED: password=x]", 22),
            ("[a]", 3),
        ] {
            assert_eq!(unmasked_length(value), length, "{value}");
        }
    }
}
