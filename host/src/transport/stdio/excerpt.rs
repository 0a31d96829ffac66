//! Excerpts of a server's output for the log.

use crate::config::secrets::Secrets;

/// Returns at most `most` characters of a line, with control characters escaped and secrets redacted.
pub(super) fn of(line: &[u8], most: usize, secrets: &Secrets) -> String {
    // Text far beyond the end does not matter, but a secret across the end does.
    let start = &line[..line.len().min(most * 4 + MOST_SECRET)];
    let text = String::from_utf8_lossy(start);
    let text = secrets.redact(&text);
    let mut shown = String::with_capacity(most);
    for character in text.chars().take(most) {
        if character.is_control() { shown.extend(character.escape_default()) } else { shown.push(character) }
    }
    if text.chars().nth(most).is_some() {
        shown.push('…');
    }
    shown
}

/// Longer secrets are certificates and the like, whose single lines are known too.
const MOST_SECRET: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_is_short_and_has_no_control_characters() {
        let rows: [(&[u8], &str); 5] = [
            (b"", ""),
            (b"plain", "plain"),
            (b"\x1b[31mred\tx", "\\u{1b}[31mred…"),
            ("äöüäöüäöü".as_bytes(), "äöüäöüäö…"),
            (b"a\xffb", "a\u{fffd}b"),
        ];
        for (line, shown) in rows {
            assert_eq!(of(line, 8, &Secrets::default()), shown);
        }
        assert_eq!(of(&vec![b'x'; 1 << 20], 200, &Secrets::default()), "x".repeat(200) + "…");
    }

    #[test]
    fn a_secret_across_the_end_is_not_shown_in_part() {
        let mut secrets = Secrets::default();
        secrets.add("top-secret-value");
        assert_eq!(of(b"key top-secret-value", 12, &secrets), "key [REDACTE…");
    }
}
