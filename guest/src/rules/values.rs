//! The values that an agent may know: whole leaves of JSON, and the e-mail addresses, URLs and account numbers in them.
//!
//! What is learned is found narrowly, so that nothing is known by mistake; what a rule asks about is found broadly, so
//! that nothing is overlooked.

use std::borrow::Cow;

use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

use super::KnownValue;
use crate::cel::Value;

/// A value in the form in which it is compared: two texts mean the same value if a form of theirs is equal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Form {
    /// A whole text or number.
    Leaf(String),
    /// An e-mail address in lower case.
    Mail(String),
    /// A URL with its scheme and host in lower case.
    Url(String),
    /// An account number without blanks and hyphens.
    Account(String),
}

impl Form {
    /// Returns the kind of the form, and its text.
    pub(super) fn parts(&self) -> (&'static str, &str) {
        match self {
            Form::Leaf(text) => ("leaf", text),
            Form::Mail(text) => ("mail", text),
            Form::Url(text) => ("url", text),
            Form::Account(text) => ("account", text),
        }
    }
}

/// Returns the forms of a whole text.
pub(super) fn forms(text: &str) -> Vec<Form> {
    let text = normal(text);
    let mut forms = vec![Form::Leaf(text.to_string())];
    if mails(&text).any(|mail| mail == text) {
        forms.push(Form::Mail(text.to_lowercase()));
    }
    forms.extend(url_form(&text).map(Form::Url));
    if accounts(&text).any(|account| account == text) {
        forms.push(Form::Account(account_form(&text)));
    }
    forms
}

/// Returns what a value makes known: all its leaves, and what is surely an address in them.
pub(super) fn learned(value: &Value<'_>) -> Vec<KnownValue> {
    let mut found = Vec::new();
    each_text(value, &mut |text| each_learned_form(text, &mut |form| found.push(KnownValue::of(form))));
    found
}

/// Calls a function with each form that a text makes known.
fn each_learned_form(text: &str, visit: &mut dyn FnMut(&Form)) {
    let whole = normal(text);
    // Most texts are neither an address nor do they have one in them.
    let is_sign = |byte: u8| matches!(byte, b'.' | b':' | b'/' | b'\\' | b'@');
    if !whole.bytes().any(is_sign) && !may_have_account(&whole) {
        return visit(&Form::Leaf(whole.into_owned()));
    }
    forms(&whole).iter().for_each(&mut *visit);
    mails(&whole).for_each(|mail| visit(&Form::Mail(mail.to_lowercase())));
    let urls = tokens(&whole).filter(|token| token.contains("://") || token.starts_with("www."));
    urls.filter_map(url_form).for_each(|url| visit(&Form::Url(url)));
    accounts(&whole).for_each(|account| visit(&Form::Account(account_form(account))));
}

/// Calls a function with each leaf of a value that can be known: texts and numbers, but no truths and nulls. A key is a
/// leaf only if it could be an address or an account number, since otherwise it is a name that the tool gave.
pub(super) fn each_sent(value: &Value<'_>, visit: &mut dyn FnMut(&str)) {
    each_text(value, visit);
    each_key(value, &mut |key| {
        if !(likely_mails(key).is_empty() && likely_urls(key).is_empty() && likely_accounts(key).is_empty()) {
            visit(key);
        }
    });
}

fn each_key(value: &Value<'_>, visit: &mut dyn FnMut(&str)) {
    match value {
        Value::List(items) => items.iter().for_each(|item| each_key(&item, visit)),
        Value::Map(members) => members.iter().for_each(|(key, value)| {
            key.as_str().iter().for_each(|key| visit(key));
            each_key(&value, visit);
        }),
        _ => {}
    }
}

/// Calls a function with each leaf of a value that can be known: texts and numbers, but no keys, truths and nulls.
pub(super) fn each_text(value: &Value<'_>, visit: &mut dyn FnMut(&str)) {
    match value {
        Value::Null | Value::Bool(_) | Value::Type(_) => {}
        Value::Int(number) => visit(&number.to_string()),
        Value::Double(number) => visit(&number.to_string()),
        Value::Timestamp(time) => visit(&time.to_string()),
        Value::Duration(duration) => visit(&duration.to_string()),
        Value::String(text) if text.trim().is_empty() => {}
        Value::String(text) => visit(text),
        Value::List(items) => items.iter().for_each(|item| each_text(&item, visit)),
        Value::Map(members) => members.iter().for_each(|(_, value)| each_text(&value, visit)),
    }
}

/// Returns a text without blanks around it, with letters composed as Unicode's form C has them.
fn normal(text: &str) -> Cow<'_, str> {
    let text = text.trim();
    if text.is_ascii() || is_nfc_quick(text.chars()) == IsNormalized::Yes {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(text.nfc().collect())
    }
}

/// Returns everything in a text that could be read as an e-mail address: a piece with an `@` in it, up to where lists and
/// sentences separate pieces. An odd sign stays in its piece, so that nobody knows the piece.
pub(super) fn likely_mails(text: &str) -> Vec<String> {
    let text = plain_signs(text);
    let ends = |sign: char| sign.is_whitespace() || "<>,;|".contains(sign);
    let outer = |sign: char| "\"'`()[]{}.:!?*".contains(sign);
    let pieces = text.split(ends).map(|piece| piece.trim_matches(outer));
    let pieces = pieces.map(|piece| piece.strip_prefix("mailto:").unwrap_or(piece));
    pieces.filter(|piece| piece.contains('@') && piece.chars().count() > 1).map(str::to_owned).collect()
}

/// Returns everything in a text that could be read as a URL or a host. One that is followed by more without a blank goes
/// on to the end of its word, unless what follows begins another one: programs disagree on where such a URL ends.
pub(super) fn likely_urls(text: &str) -> Vec<String> {
    let text = plain_signs(text);
    let mut found = Vec::new();
    for word in text.split(|sign: char| sign.is_whitespace() || "<>\"".contains(sign)) {
        let word = word.trim_end_matches(OUTER);
        let mut left = word;
        while let Some(start) = tokens(left).find(|token| is_likely_url(token)) {
            let at = left.find(start).unwrap_or_default();
            let rest = &left[at + start.len()..];
            let next = tokens(rest).next();
            let is_whole = next.is_none_or(|next| is_likely_url(next) && next.contains("//"));
            found.push(if is_whole { start.to_owned() } else { left[at..].to_owned() });
            left = if is_whole { rest } else { "" };
        }
    }
    found
}

/// Returns everything in a text that could be read as an account number: words that are one, or are one together.
pub(super) fn likely_accounts(text: &str) -> Vec<String> {
    let text = normal(text);
    let words: Vec<&str> = text.split(|sign: char| !sign.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let mut found = Vec::new();
    let mut at = 0;
    while at < words.len() {
        let mut number = String::new();
        let mut longest = None;
        // An international number begins with its country and two digits in one word; all others are digits.
        let is_international = words[at].len() >= 4 && words[at].as_bytes()[2..4].iter().all(u8::is_ascii_digit);
        for (count, word) in words[at..].iter().enumerate() {
            number += &account_form(word);
            let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
            if number.len() > MAX_ACCOUNT || !is_number && !is_international {
                break;
            }
            // No account number ends in a word of letters.
            if is_account(&number) && word.contains(|sign: char| sign.is_ascii_digit()) {
                longest = Some((count + 1, number.clone()));
            }
        }
        let (count, number) = longest.map_or((1, None), |(count, number)| (count, Some(number)));
        found.extend(number);
        at += count;
    }
    found
}

/// Replaces signs of other scripts that a reader takes for those of addresses.
fn plain_signs(text: &str) -> String {
    let plain = |sign: char| match sign {
        '\u{ff20}' | '\u{fe6b}' => '@',
        '\u{ff0e}' | '\u{3002}' | '\u{ff61}' | '\u{fe52}' => '.',
        '\u{ff0f}' => '/',
        '\u{ff1a}' => ':',
        other => other,
    };
    text.chars().map(plain).collect()
}

/// Cuts a text where no address goes on, and removes the punctuation of the sentence around each piece.
fn tokens(text: &str) -> impl Iterator<Item = &str> {
    let ends = |sign: char| sign.is_whitespace() || "<>\"'`(){}[]|,;".contains(sign);
    text.split(ends).map(|token| token.trim_matches(OUTER)).filter(|token| !token.is_empty())
}

/// The punctuation around a word of a sentence.
const OUTER: [char; 6] = ['.', ':', '!', '?', '*', '_'];
/// The length of the longest account number.
const MAX_ACCOUNT: usize = 34;

fn is_likely_url(token: &str) -> bool {
    // Every host has a point, or a scheme or slashes before it.
    if !token.contains(['.', ':', '/', '\\']) {
        return false;
    }
    // Some programs take a backslash for a slash, and need no slash at all behind a scheme of the web.
    let token = &*token.replace('\\', "/");
    if is_like_scheme(token) || token.contains("://") || token.starts_with("//") || token.starts_with("www.") {
        return true;
    }
    let (host, path) = token.split_once(['/', '?', '#']).map_or((token, None), |(host, path)| (host, Some(path)));
    let host = host.split_once(':').map_or(host, |(host, _)| host);
    let labels: Vec<&str> = host.split('.').collect();
    let is_label = |label: &&str| !label.is_empty() && label.chars().all(|c| c.is_alphanumeric() || "-_".contains(c));
    if labels.len() < 2 || !labels.iter().all(is_label) {
        return false;
    }
    let last = labels[labels.len() - 1].to_lowercase();
    let is_number = |label: &&str| label.bytes().all(|byte| byte.is_ascii_digit());
    let is_address = labels.len() == 4 && labels.iter().all(is_number);
    let is_name = last.chars().count() >= 2 && last.chars().all(char::is_alphabetic);
    is_address || is_name && (path.is_some() || COMMON_ENDINGS.contains(&last.as_str()))
}

/// Returns a URL in the form in which it is compared, if a text is one and means one thing only.
fn url_form(text: &str) -> Option<String> {
    if !is_likely_url(text) || tokens(text).next() != Some(text) {
        return None;
    }
    // Programs disagree on where the host of such a URL begins, or what its path is.
    let is_odd = text.contains(['\\', '@']) || text.chars().any(char::is_control);
    let lower = text.to_lowercase();
    if is_odd || ["/..", "/./", "%2e", "%2f", "%5c"].iter().any(|part| lower.contains(part)) {
        return None;
    }
    let (scheme, rest) = match text.split_once("://") {
        Some(parts) => parts,
        // Without slashes behind its scheme, or without a scheme but with slashes, programs disagree on the host.
        None if is_like_scheme(text) || text.starts_with("//") => return None,
        None => ("https", text),
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (host, path) = rest.split_at(end);
    let is_plain = |part: &str| part.chars().all(|sign| sign.is_ascii_alphanumeric() || "+.-:".contains(sign));
    if !is_plain(scheme)
        || host.is_empty()
        || !host.chars().all(|sign| sign.is_alphanumeric() || ".-:_[]".contains(sign))
    {
        return None;
    }
    let slash = if path.starts_with('/') { "" } else { "/" };
    Some(format!("{}://{}{slash}{path}", scheme.to_lowercase(), host.to_lowercase()))
}

/// Reports whether a text begins like a URL of the web, whatever follows the colon.
fn is_like_scheme(text: &str) -> bool {
    let begins = |scheme: &&str| text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    WEB_SCHEMES.iter().any(begins)
}

/// The schemes behind which programs find a host even without slashes.
const WEB_SCHEMES: [&str; 6] = ["http:", "https:", "ws:", "wss:", "ftp:", "file:"];

/// Returns the e-mail addresses in a text.
fn mails(text: &str) -> impl Iterator<Item = &str> {
    let is_local = |c: char| c.is_alphanumeric() || "._%+-".contains(c);
    let is_host = |c: char| c.is_alphanumeric() || ".-".contains(c);
    text.match_indices('@').filter_map(move |(at, _)| {
        let local = text[..at].len() - text[..at].trim_end_matches(is_local).len();
        let host = &text[at + 1..];
        let host = &host[..host.find(|c| !is_host(c)).unwrap_or(host.len())];
        let host = host.trim_end_matches(['.', '-']);
        let end = at + 1 + host.len();
        let (name, last) = host.rsplit_once('.')?;
        let is_domain = !name.is_empty() && last.chars().count() >= 2 && last.chars().all(char::is_alphabetic);
        let is_alone = !text[end..].starts_with(['@', '_']) && !text[..at - local].ends_with('@');
        (local > 0 && is_domain && is_alone).then(|| &text[at - local..end])
    })
}

/// Returns the account numbers in a text: two letters, two digits and 8 to 30 letters and digits, or 8 to 19 digits.
fn accounts(text: &str) -> impl Iterator<Item = &str> {
    let ends = |c: char| !(c.is_alphanumeric() || " -".contains(c));
    let text = if may_have_account(text) { text } else { "" };
    text.split(ends).flat_map(|piece| {
        let piece = piece.trim_matches([' ', '-']);
        let whole = is_account(&account_form(piece)).then_some(piece);
        let words = piece.split([' ', '-']).filter(move |word| whole.is_none() && is_account(&account_form(word)));
        whole.into_iter().chain(words)
    })
}

/// Reports whether a text has eight bytes and two digits, as every account number does.
fn may_have_account(text: &str) -> bool {
    text.len() >= 8 && text.bytes().filter(u8::is_ascii_digit).nth(1).is_some()
}

fn is_account(number: &str) -> bool {
    let bytes = number.as_bytes();
    let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let is_number = digits == bytes.len() && (8..=19).contains(&digits);
    let is_international = (12..=34).contains(&bytes.len())
        && bytes[..2].iter().all(u8::is_ascii_uppercase)
        && bytes[2..4].iter().all(u8::is_ascii_digit)
        && bytes[4..].iter().all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase());
    is_number || is_international
}

fn account_form(text: &str) -> String {
    text.chars().filter(|c| !" -".contains(*c)).flat_map(char::to_uppercase).collect()
}

/// The endings by which a host is known without a scheme or a path.
const COMMON_ENDINGS: &[&str] = &[
    "ai", "app", "at", "be", "biz", "ca", "ch", "click", "cloud", "cn", "co", "com", "de", "dev", "edu", "es", "eu",
    "fr", "gl", "gov", "in", "info", "io", "it", "jp", "link", "ly", "me", "net", "nl", "online", "org", "page", "pl",
    "ru", "se", "shop", "site", "to", "top", "tv", "uk", "us", "xyz",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn told(forms: Vec<Form>) -> Vec<String> {
        forms.iter().map(|form| format!("{} {}", form.parts().0, form.parts().1)).collect()
    }

    #[test]
    fn a_whole_text_is_compared_as_what_it_is() {
        for (text, expected) in [
            (" Paris ", &["leaf Paris"][..]),
            ("Ann@Example.COM", &["leaf Ann@Example.COM", "mail ann@example.com"]),
            ("https://Example.com/A?b", &["leaf https://Example.com/A?b", "url https://example.com/A?b"]),
            ("example.com", &["leaf example.com", "url https://example.com/"]),
            ("https://a@example.com/", &["leaf https://a@example.com/"]),
            ("https://example.com/a/../b", &["leaf https://example.com/a/../b"]),
            ("DE89 3704 0044 0532 0130 00", &["leaf DE89 3704 0044 0532 0130 00", "account DE89370400440532013000"]),
            ("e\u{301}", &["leaf é"]),
            ("mail ann@example.com now", &["leaf mail ann@example.com now"]),
        ] {
            assert_eq!(told(forms(text)), expected, "{text}");
        }
    }

    #[test]
    fn addresses_in_a_text_are_learned_only_if_they_are_surely_some() {
        let learned = |text: &str| {
            let mut forms = Vec::new();
            each_learned_form(text, &mut |form| forms.push(form.clone()));
            told(forms).split_off(1)
        };
        for (text, expected) in [
            ("write to ann@example.com.", &["mail ann@example.com"][..]),
            (
                "see https://example.com/a, or www.example.org",
                &["url https://example.com/a", "url https://www.example.org/"],
            ),
            ("example.com", &["url https://example.com/"]),
            ("at example.com", &[]),
            ("a@@example.com", &[]),
            ("a@example", &[]),
            ("account DE89370400440532013000", &["account DE89370400440532013000"]),
        ] {
            assert_eq!(learned(text), expected, "{text}");
        }
    }

    #[test]
    fn whatever_could_be_an_address_is_asked_about() {
        assert_eq!(likely_mails("to: ann@example, <x＠y。z> mailto:bob@b.ch."), ["ann@example", "x@y.z", "bob@b.ch"]);
        for odd in ["\"eve\"@evil.example", "eve(x)@evil.example", "eve@[203.0.113.5]", "_ann@a.ch", "x'ann@a.ch"] {
            let [found] = likely_mails(odd).try_into().unwrap();
            assert!(!forms(&found).contains(&Form::Mail("ann@a.ch".into())), "{found}");
        }
        assert_eq!(
            likely_urls("at evil.com or 10.0.0.1/x, (sub.example.museum/path) but not file.txt or e.g. this"),
            ["evil.com", "10.0.0.1/x", "sub.example.museum/path"]
        );
        for text in [
            "https:/evil.example/?q=1",
            "https:evil.example/?q=1",
            "HTTPS:evil.example",
            "https:\\\\evil.com\\x",
            "![x](//evil.com/?d=1)",
            "https://example.com'@evil.example/?q=1",
            "https://example.com,evil.example/?q=1",
        ] {
            let found = likely_urls(text);
            assert!(
                !found.is_empty() && found.iter().any(|url| url_form(url).is_none_or(|form| form.contains("evil"))),
                "{found:?}"
            );
        }
        assert_eq!(
            likely_urls("[a](https://a.ch/x), see (https://b.ch/y). https://c.ch,https://d.ch"),
            ["https://a.ch/x", "https://b.ch/y", "https://c.ch", "https://d.ch"]
        );
        assert_eq!(likely_accounts("pay DE89 3704 0044 0532 0130 00 now"), ["DE89370400440532013000"]);
        assert_eq!(likely_accounts("nr. 1234.5678.90, room 12"), ["1234567890"]);
    }

    #[test]
    fn a_url_is_compared_by_its_own_bytes() {
        // The small form of this letter is shorter than the letter.
        assert_eq!(url_form("https://GitHub.com/evil/myorg/ẞẞẞẞẞ").unwrap(), "https://github.com/evil/myorg/ẞẞẞẞẞ");
        for text in ["https://a.com/ẞẞ", "https://a.co/ȺȺȺȺȺȺȺȺȺȺȺȺȺȺȺȺȺȺ", "https://ẞ.com/"] {
            url_form(text);
        }
        assert_eq!(url_form("https:/example.com/"), None);
    }
}
