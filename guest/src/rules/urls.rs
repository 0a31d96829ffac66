//! Finds whatever some program could read as a URL or a host. A text that is nothing else counts if it could be one at
//! all; a word of a sentence counts if it is likely to be one.

use super::hosts::{is_ipv4, is_ipv6, is_numeric};
use super::values::{Found, each_written};
use crate::broad::{reading, readings};
use crate::cel::Value;
use crate::json;

/// Returns everything in a text that could be read as a URL or a host.
pub(super) fn likely_urls(text: &str) -> Vec<String> {
    let mut found = Found::default();
    add_from_text(text, MAX_EMBEDDED, &mut found);
    found.into_list()
}

/// How many texts of JSON within each other are read.
const MAX_EMBEDDED: usize = 3;

fn add_from_text(text: &str, embedded: usize, found: &mut Found) {
    add_urls(text, found);
    let plain = reading(text);
    if plain != text {
        add_urls(&plain, found);
    }
    // A server may read a text as JSON, and then each text in it is a whole one.
    if embedded > 0
        && text.trim_start().starts_with(['{', '[', '"'])
        && let Ok(value) = json::parse(text.trim())
    {
        let value = Value::from_json(&value);
        each_written(&value, &mut |inner| add_from_text(inner, embedded - 1, found));
    }
}

fn add_urls(text: &str, found: &mut Found) {
    add_whole(text, found);
    for word in text.split(|sign: char| sign.is_whitespace() || "<>\"".contains(sign)) {
        add_from_word(word.trim_end_matches(OUTER), found);
    }
}

/// Adds a text that is a URL or a host as a whole, or a list of some.
fn add_whole(text: &str, found: &mut Found) {
    // Programs drop line breaks, tabs and other controls within a URL.
    let joined: String = text.chars().filter(|sign| !sign.is_control()).collect();
    let whole = joined.trim_matches(wraps);
    if !whole.contains(char::is_whitespace) {
        add_if_url(whole, found);
    } else if joined.len() < text.len() && begins_like_url(whole) {
        add_if_url(whole.split_whitespace().next().unwrap_or(whole), found);
    }
    let pieces: Vec<&str> = text
        .split(|sign: char| sign.is_whitespace() || ",;|".contains(sign))
        .map(|piece| piece.trim_matches(wraps))
        .filter(|piece| !piece.is_empty())
        .collect();
    if pieces.iter().all(|piece| could_be_url(piece)) {
        pieces.iter().for_each(|piece| found.add(piece));
    }
}

/// Adds a text without blanks if some program takes it for a URL or a host.
fn add_if_url(text: &str, found: &mut Found) {
    if could_be_url(text) {
        return found.add(text);
    }
    for decoded in readings(text).iter().skip(1) {
        let decoded = decoded.trim_matches(wraps);
        if could_be_url(decoded) {
            found.add(decoded);
        }
    }
}

/// Adds the URLs and hosts in a word of a sentence. One that is followed by more goes on to the end of the word, unless
/// what follows begins another one: programs disagree on where such a URL ends.
fn add_from_word(word: &str, found: &mut Found) {
    let mut has_url = false;
    if let Some(bracket) = word.find('[')
        && is_ipv6(&word[bracket..])
    {
        found.add(word);
        has_url = true;
    }
    let mut left = word;
    while let Some(start) = tokens(left).find(|token| is_likely_url(token)) {
        let at = left.find(start).unwrap_or_default();
        let rest = &left[at + start.len()..];
        let next = tokens(rest).next();
        let is_whole = next.is_none_or(|next| is_likely_url(next) && next.contains("//"));
        found.add(if is_whole { start } else { &left[at..] });
        left = if is_whole { rest } else { "" };
        has_url = true;
    }
    if has_url {
        return;
    }
    let read = readings(word);
    for decoded in read.iter().skip(1) {
        for token in tokens(decoded) {
            if is_likely_url(token) {
                found.add(token);
                has_url = true;
            }
        }
    }
    if !has_url {
        read.iter().for_each(|read| add_behind_signs(read, found));
    }
}

/// Adds the URLs and hosts that begin within a word behind a sign, as in `src=//example.com/x` without quotation marks.
fn add_behind_signs(word: &str, found: &mut Found) {
    for token in tokens(word) {
        for part in token.split(JOINTS).skip(1) {
            let part = part.trim_matches(OUTER);
            if is_likely_url(part) {
                found.add(part);
            }
        }
    }
}

/// The signs behind which a URL may begin within a word.
const JOINTS: &[char] = &['=', ':', '&', '$', '+', '~', '^', '#', '%'];

/// Cuts a text where no address goes on, and removes the punctuation of the sentence around each piece.
pub(super) fn tokens(text: &str) -> impl Iterator<Item = &str> {
    let ends = |sign: char| sign.is_whitespace() || "<>\"'`(){}[]|,;".contains(sign);
    text.split(ends).map(|token| token.trim_matches(OUTER)).filter(|token| !token.is_empty())
}

/// The punctuation around a word of a sentence.
const OUTER: [char; 6] = ['.', ':', '!', '?', '*', '_'];

/// Signs around a whole text that are not part of a URL. A bracket may be part of an address.
fn wraps(sign: char) -> bool {
    sign.is_whitespace() || "\"'`(){}<>.,;!?*".contains(sign)
}

/// Reports whether a word of a sentence is likely to be a URL or a host.
pub(super) fn is_likely_url(token: &str) -> bool {
    // Every host has a point, or a scheme or slashes before it.
    if !token.contains(['.', ':', '/', '\\']) {
        return false;
    }
    // Some programs take a backslash for a slash, and need no slash at all behind a scheme of the web.
    let token = &*token.replace('\\', "/");
    if begins_like_url(token) || token.contains("://") {
        return true;
    }
    let token = if begins_with(token, "mailto:") { &token["mailto:".len()..] } else { token };
    let (authority, rest) = split_authority(token);
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    let (name, port) = split_port(host);
    let is_mail = user.is_some_and(|user| !user.is_empty() && !user.contains(':')) && rest.is_none() && port.is_none();
    !is_mail && is_likely_host(name, port, rest)
}

/// Reports whether a name in a sentence is likely to be that of a host, given what follows it.
fn is_likely_host(name: &str, port: Option<&str>, rest: Option<&str>) -> bool {
    let has_port = port.is_some_and(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()));
    if is_numeric(name) {
        // Versions, dates and fractions are no hosts, unless they are addresses as everybody writes them.
        let leads_somewhere = has_port || rest.is_some_and(|rest| rest.contains(|sign: char| sign.is_alphabetic()));
        return is_ipv4(name) && (leads_somewhere || name.matches('.').count() == 3);
    }
    let labels: Vec<&str> = name.split('.').collect();
    let is_label = |label: &&str| !label.is_empty() && label.chars().all(|c| c.is_alphanumeric() || "-_".contains(c));
    if labels.len() < 2 || !labels.iter().all(is_label) {
        return false;
    }
    let last = labels[labels.len() - 1].to_lowercase();
    let is_international = last.starts_with("xn--");
    if !is_international && (last.chars().count() < 2 || !last.chars().all(char::is_alphabetic)) {
        return false;
    }
    is_international
        || rest.is_some()
        || COMMON_ENDINGS.contains(&&*last)
        || !FILE_ENDINGS.contains(&&*last) && (has_port || last.len() == 2)
}

/// Reports whether some program takes a text without blanks for a URL or a host.
fn could_be_url(text: &str) -> bool {
    let text = &*text.replace('\\', "/");
    if begins_like_url(text) || text.contains("://") {
        return true;
    }
    let (authority, rest) = split_authority(text);
    let is_marked = rest.is_some() || authority.contains('@');
    // Programs disagree on which of several `@` is before the host.
    authority.split('@').any(|part| could_be_host(part, is_marked))
}

/// Reports whether some program takes a text for a host, perhaps with a port; one that is marked has a user before it
/// or a path behind it.
fn could_be_host(text: &str, is_marked: bool) -> bool {
    if is_ipv6(text) {
        return true;
    }
    if text.starts_with('[') {
        let inner = text.trim_start_matches('[');
        return could_be_host(inner.split(']').next().unwrap_or(inner), is_marked);
    }
    let (name, port) = split_port(text);
    let name = name.strip_suffix('.').unwrap_or(name);
    if name == "0" || name.eq_ignore_ascii_case("localhost") {
        return is_marked || port.is_some();
    }
    if is_numeric(name) {
        return is_ipv4(name);
    }
    let labels: Vec<&str> = name.split('.').collect();
    let last = labels[labels.len() - 1];
    let has_port = port.is_some_and(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()));
    // A name without a point is one of the own network.
    let is_name = labels.len() > 1 || is_marked && has_port;
    is_name && labels.iter().all(|label| could_be_label(label)) && could_be_last_label(last)
}

/// Reports whether a text can be a part of a host's name, in any script.
fn could_be_label(label: &str) -> bool {
    let is_sign = |sign: char| {
        sign.is_ascii_alphanumeric()
            || matches!(sign, '-' | '_')
            || !sign.is_ascii() && !sign.is_whitespace() && !sign.is_control()
    };
    !label.is_empty() && label.chars().count() <= MAX_LABEL && label.chars().all(is_sign)
}

/// Reports whether a label can be the last one of a host. In Chinese and Japanese, whole sentences have no blanks, and the
/// point that ends them is one to browsers.
fn could_be_last_label(label: &str) -> bool {
    let is_east_asian = label.contains(|sign: char| sign >= '\u{2e80}');
    label.contains(char::is_alphabetic) && (!is_east_asian || label.chars().count() <= MAX_EAST_ASIAN_ENDING)
}

/// The length of the longest part of a host's name.
const MAX_LABEL: usize = 63;
/// The length of the longest ending in Chinese or Japanese script.
const MAX_EAST_ASIAN_ENDING: usize = 5;

/// Splits a URL without its scheme into the user, host and port, and what follows.
fn split_authority(text: &str) -> (&str, Option<&str>) {
    match text.split_once(['/', '?', '#']) {
        Some((authority, rest)) => (authority, Some(rest)),
        None => (text, None),
    }
}

fn split_port(host: &str) -> (&str, Option<&str>) {
    match host.split_once(':') {
        Some((name, port)) => (name, Some(port)),
        None => (host, None),
    }
}

/// Reports whether a text begins like a URL: with a scheme of the web, whatever follows the colon, with two slashes, or
/// with the usual name of a web server.
fn begins_like_url(text: &str) -> bool {
    is_like_scheme(text) || begins_with(text, "//") && text.len() > 2 || begins_with(text, "www.")
}

/// Reports whether a text begins like a URL of the web, whatever follows the colon.
pub(super) fn is_like_scheme(text: &str) -> bool {
    WEB_SCHEMES.iter().any(|scheme| begins_with(text, scheme))
}

fn begins_with(text: &str, start: &str) -> bool {
    text.get(..start.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(start))
}

/// The schemes behind which programs find a host even without slashes.
const WEB_SCHEMES: [&str; 6] = ["http:", "https:", "ws:", "wss:", "ftp:", "file:"];

/// The endings, besides those of two letters, by which a word of a sentence is known as a host.
const COMMON_ENDINGS: &[&str] = &[
    "app",
    "arpa",
    "art",
    "asia",
    "biz",
    "blog",
    "bond",
    "buzz",
    "cam",
    "cfd",
    "click",
    "cloud",
    "club",
    "com",
    "dev",
    "digital",
    "edu",
    "email",
    "fun",
    "games",
    "gov",
    "group",
    "guru",
    "homes",
    "host",
    "icu",
    "info",
    "int",
    "lat",
    "life",
    "link",
    "live",
    "lol",
    "mil",
    "mobi",
    "money",
    "monster",
    "net",
    "network",
    "news",
    "ninja",
    "one",
    "online",
    "org",
    "page",
    "pics",
    "press",
    "pro",
    "quest",
    "rest",
    "rocks",
    "run",
    "sbs",
    "services",
    "shop",
    "site",
    "skin",
    "solutions",
    "space",
    "store",
    "studio",
    "support",
    "surf",
    "systems",
    "team",
    "tech",
    "tips",
    "today",
    "tokyo",
    "top",
    "tube",
    "vip",
    "website",
    "wiki",
    "win",
    "work",
    "works",
    "world",
    "wtf",
    "xxx",
    "xyz",
    "zone",
];

/// Endings of files, which are no hosts in a sentence unless a path follows.
const FILE_ENDINGS: &[&str] = &[
    "bz", "cc", "cfg", "conf", "cpp", "cs", "css", "csv", "db", "el", "ex", "fs", "go", "gz", "hh", "hs", "html",
    "ini", "java", "jl", "js", "json", "jsx", "kt", "log", "lock", "md", "mk", "ml", "mm", "mo", "php", "pm", "po",
    "ps", "py", "rb", "rs", "scala", "sh", "so", "sql", "swift", "tf", "toml", "ts", "tsx", "txt", "ui", "vb", "xml",
    "xz", "yaml", "yml",
];

#[cfg(test)]
mod tests;
