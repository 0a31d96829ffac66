//! Finds whatever some program could read as an e-mail address.

use super::values::Found;
use crate::broad::readings;

/// Returns everything in a text that could be read as an e-mail address, in lower case: a piece with an `@` in it, up to
/// where lists and sentences separate pieces. Of an odd piece, every address inside it counts too, so that the piece is
/// not taken for what it ends with.
pub(super) fn likely_mails(text: &str) -> Vec<String> {
    let mut found = Found::default();
    for read in readings(text) {
        add_mails(&read, &mut found);
    }
    found.into_list()
}

fn add_mails(text: &str, found: &mut Found) {
    if !text.contains('@') && !text.contains(ENCODED) {
        return;
    }
    let ends = |sign: char| sign.is_whitespace() || "<>,;|".contains(sign);
    for piece in text.split(ends).map(|piece| piece.trim_matches(OUTER)) {
        match piece.get(..MAIL_SCHEME.len()) {
            Some(start) if start.eq_ignore_ascii_case(MAIL_SCHEME) => add_link(&piece[MAIL_SCHEME.len()..], found),
            _ => add_piece(piece, found),
        }
        // Programs of mail decode such a word, and it may be an address.
        if piece.contains(ENCODED) {
            found.add(&piece.to_lowercase());
        }
    }
    add_spread(text, found);
    add_bracketed(text, found);
}

/// The beginning of a word in another encoding (RFC 2047).
const ENCODED: &str = "=?";
/// The scheme of links that begin a mail.
const MAIL_SCHEME: &str = "mailto:";
/// The punctuation around a word of a sentence.
const OUTER: &[char] = &['"', '\'', '`', '(', ')', '[', ']', '{', '}', '.', ':', '!', '?', '*'];

/// Adds the addresses of a link that begins a mail: those before the `?`, and those of all its parameters.
fn add_link(link: &str, found: &mut Found) {
    let (addresses, parameters) = link.split_once('?').unwrap_or((link, ""));
    add_piece(addresses, found);
    for parameter in parameters.split('&') {
        add_piece(parameter.split_once('=').map_or(parameter, |(_, value)| value), found);
    }
}

/// Adds a piece without blanks, if it could be an address.
fn add_piece(piece: &str, found: &mut Found) {
    if !piece.contains('@') || piece.len() < 2 {
        return;
    }
    found.add(&piece.to_lowercase());
    let Some((local, _)) = piece.rsplit_once('@') else { return };
    if is_plain(piece) {
        return;
    }
    // Words in another encoding, and letters beyond ASCII, become other signs in some programs.
    if piece.contains(ENCODED) || !local.is_ascii() {
        found.add(&local.to_lowercase());
    }
    // A comment, a quotation, a route or a second address ends at an odd sign. `%` and `!` lead a mail from host to host.
    for part in piece.split(|sign: char| !(sign.is_alphanumeric() || "._+-@%!".contains(sign))) {
        let names: Vec<&str> = part.split(['@', '%', '!']).collect();
        for pair in names.windows(2) {
            let address = format!("{}@{}", pair[0], pair[1]).to_lowercase();
            if address.len() > 1 {
                found.add(address.trim_matches(OUTER));
            }
        }
    }
}

/// Reports whether every program reads a piece as the same address.
fn is_plain(piece: &str) -> bool {
    let Some((local, host)) = piece.split_once('@') else { return false };
    let is_host = host.split('.').all(|label| !label.is_empty() && label.chars().all(is_host_sign));
    !local.is_empty() && local.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._+-".contains(&byte)) && is_host
}

fn is_host_sign(sign: char) -> bool {
    sign.is_alphanumeric() || sign == '-'
}

/// Adds addresses with blanks in them, as old programs read them: beside the `@`, or within the host.
fn add_spread(text: &str, found: &mut Found) {
    for (at, _) in text.match_indices('@') {
        let (before, behind) = (text[..at].trim_end(), text[at + 1..].trim_start());
        let is_spread = before.len() < at || behind.len() < text.len() - at - 1;
        if !is_spread {
            continue;
        }
        let local = before.rsplit(char::is_whitespace).next().unwrap_or_default();
        let host = behind.split(char::is_whitespace).next().unwrap_or_default();
        if !local.is_empty() && !host.is_empty() {
            add_piece(format!("{local}@{host}").trim_matches(OUTER), found);
        }
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    for (at, pair) in words.windows(2).enumerate() {
        let ends = pair[0].ends_with(['>', ',', ';', '|']) || pair[1].contains('@');
        let is_last = at + 2 == words.len();
        let next = pair[1].trim_end_matches(OUTER);
        if pair[0].contains('@') && !ends && (next.starts_with('.') || is_last && next.contains('.')) {
            add_piece(&format!("{}{next}", pair[0]), found);
        }
    }
    let begins =
        words.first().is_some_and(|first| first.contains('@')) && !words[1..].iter().any(|word| word.contains('@'));
    if begins && words.len() > 1 && text.len() <= MAX_ADDRESS && !text.contains(['<', ',', ';', '|']) {
        add_piece(&words.concat(), found);
    }
}

/// Adds what stands between angle brackets, without its blanks: old programs drop them within an address.
fn add_bracketed(text: &str, found: &mut Found) {
    for part in text.split('<').skip(1) {
        let inner = part.split('>').next().unwrap_or(part);
        if inner.len() <= MAX_ADDRESS && inner.contains('@') && inner.contains(char::is_whitespace) {
            let joined: String = inner.split_whitespace().collect();
            add_piece(&joined, found);
        }
    }
}

/// The length of the longest address in bytes.
const MAX_ADDRESS: usize = 320;

#[cfg(test)]
mod tests;
