//! The values that an agent may know: whole leaves of JSON, and the e-mail addresses, URLs and account numbers in them.
//!
//! What is learned is found narrowly, so that nothing is known by mistake; what a rule asks about is found broadly, so
//! that nothing is overlooked.

use std::borrow::Cow;
use std::collections::BTreeSet;

use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

use super::KnownValue;
use super::urls::{is_like_scheme, is_likely_url, tokens};
use crate::broad::{self, changes_signs, reading, readings};
use crate::cel::Value;
use crate::schema::decimal;

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

/// Calls a function with each text in a value in which there could be an address: leaves, and keys of objects.
pub(super) fn each_sent(value: &Value<'_>, visit: &mut dyn FnMut(&str)) {
    each_text(value, visit);
    each_key(value, visit);
}

/// Calls a function with each text in a value in which there could be a host: as [`each_sent`], but without numbers.
pub(super) fn each_written(value: &Value<'_>, visit: &mut dyn FnMut(&str)) {
    match value {
        Value::String(text) => visit(text),
        Value::List(items) => items.iter().for_each(|item| each_written(&item, visit)),
        Value::Map(members) => members.iter().for_each(|(key, value)| {
            each_written(&key, visit);
            each_written(&value, visit);
        }),
        _ => {}
    }
}

/// Calls a function with each key of the objects in a value.
pub(super) fn each_key(value: &Value<'_>, visit: &mut dyn FnMut(&str)) {
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
        Value::List(items) => items.iter().for_each(|item| each_text(&item, visit)),
        Value::Map(members) => members.iter().for_each(|(_, value)| each_text(&value, visit)),
        leaf => {
            if let Some(text) = leaf_text(leaf) {
                visit(&text);
            }
        }
    }
}

/// Returns the text of a leaf that can be known: numbers to the last digit, and texts in which something can be seen.
pub(super) fn leaf_text<'v>(leaf: &'v Value<'_>) -> Option<Cow<'v, str>> {
    match leaf {
        Value::Int(number) => Some(Cow::Owned(number.to_string())),
        Value::Double(number) => Some(Cow::Owned(number.to_string())),
        Value::Number(digits) => Some(decimal::plain(digits)),
        Value::Timestamp(time) => Some(Cow::Owned(time.to_string())),
        Value::Duration(duration) => Some(Cow::Owned(duration.to_string())),
        Value::String(text) if broad::reading(text).trim().is_empty() => None,
        Value::String(text) => Some(Cow::Borrowed(text)),
        Value::Null | Value::Bool(_) | Value::Type(_) | Value::List(_) | Value::Map(_) => None,
    }
}

/// Texts in the order in which they were found, each once.
#[derive(Default)]
pub(super) struct Found {
    list: Vec<String>,
    seen: BTreeSet<String>,
}

impl Found {
    pub(super) fn add(&mut self, text: &str) {
        if self.seen.insert(text.to_owned()) {
            self.list.push(text.to_owned());
        }
    }

    pub(super) fn into_list(self) -> Vec<String> {
        self.list
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

/// Returns everything in a text that could be read as an account number: words that are one, alone or together.
pub(super) fn likely_accounts(text: &str) -> Vec<String> {
    let mut found = Found::default();
    for read in readings(text) {
        add_accounts(&reading(&read), &mut found);
    }
    found.into_list()
}

fn add_accounts(text: &str, found: &mut Found) {
    let text = normal(text);
    let words: Vec<&str> = text.split(|sign: char| !sign.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
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
        let Some((count, number)) = longest else {
            at += 1;
            continue;
        };
        found.add(&number);
        // What else is beside a number does not hide it.
        for word in words[at..at + count].iter().map(|word| account_form(word)).filter(|word| is_account(word)) {
            found.add(&word);
        }
        at += count;
    }
}

/// The length of the longest account number.
const MAX_ACCOUNT: usize = 34;

/// Returns a URL in the form in which it is compared, if a text is one and means one thing only.
pub(super) fn url_form(text: &str) -> Option<String> {
    if !is_likely_url(text) || tokens(text).next() != Some(text) {
        return None;
    }
    // Programs disagree on where the host of such a URL begins, or what its path is.
    let is_odd = text.contains(['\\', '@']) || text.chars().any(char::is_control) || changes_signs(text);
    let lower = text.to_lowercase();
    if is_odd || ["/..", "/./", "%2e", "%2f", "%5c", "%25"].iter().any(|part| lower.contains(part)) {
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

/// Returns the e-mail addresses in a text. One with a `%` is none: it may lead the mail from its host to another one.
fn mails(text: &str) -> impl Iterator<Item = &str> {
    let is_local = |c: char| c.is_alphanumeric() || "._+-".contains(c);
    let is_host = |c: char| c.is_alphanumeric() || ".-".contains(c);
    text.match_indices('@').filter_map(move |(at, _)| {
        let local = text[..at].len() - text[..at].trim_end_matches(is_local).len();
        let host = &text[at + 1..];
        let host = &host[..host.find(|c| !is_host(c)).unwrap_or(host.len())];
        let host = host.trim_end_matches(['.', '-']);
        let end = at + 1 + host.len();
        let (name, last) = host.rsplit_once('.')?;
        let is_domain = !name.is_empty() && last.chars().count() >= 2 && last.chars().all(char::is_alphabetic);
        let is_alone = !text[end..].starts_with(['@', '_']) && !text[..at - local].ends_with(['@', '%', '!']);
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
            ("eve%evil.tk@example.com", &["leaf eve%evil.tk@example.com"]),
            ("evil.tk!eve@example.com", &["leaf evil.tk!eve@example.com"]),
            ("https://example.com/a%252e%252e/b", &["leaf https://example.com/a%252e%252e/b"]),
            ("https://example.com/․․/b", &["leaf https://example.com/․․/b"]),
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
            ("eve%evil.tk@example.com", &[]),
            ("account DE89370400440532013000", &["account DE89370400440532013000"]),
        ] {
            assert_eq!(learned(text), expected, "{text}");
        }
    }

    #[test]
    fn whatever_could_be_an_account_number_is_asked_about() {
        for (text, expected) in [
            ("pay DE89 3704 0044 0532 0130 00 now", &["DE89370400440532013000"][..]),
            ("nr. 1234.5678.90, room 12", &["1234567890"]),
            ("12345678 1", &["123456781", "12345678"]),
            ("12345678 87654321", &["1234567887654321", "12345678", "87654321"]),
            ("١٢٣٤٥٦٧٨", &["12345678"]),
            ("१२३४ ५६७८", &["12345678"]),
            ("１２３４５６７８", &["12345678"]),
            ("𝟏𝟐𝟑𝟒𝟓𝟔𝟕𝟖", &["12345678"]),
            ("⁸①❷④5678", &["81245678"]),
            ("一二三四五六七八", &["12345678"]),
            ("1234\u{200b}5678", &["12345678"]),
            ("%31%32%33%34%35%36%37%38", &["3132333435363738", "12345678"]),
            ("&#49;2345678", &["492345678", "12345678"]),
            ("version 1.2.3 of 2026", &[]),
            ("日本 1234567", &[]),
        ] {
            assert_eq!(likely_accounts(text), expected, "{text}");
        }
    }

    #[test]
    fn a_number_is_known_by_all_its_digits() {
        let read = |text: &str| {
            let value = crate::json::parse(text).unwrap();
            leaf_text(&Value::from_json(&value)).unwrap().into_owned()
        };
        assert_eq!(read("9300000000000000999"), "9300000000000000999");
        assert_ne!(read("9300000000000000999"), read("9300000000000000001"));
        assert_ne!(read("0.10000000000000000555"), read("0.1"));
        assert_eq!(read("5.0"), read("5"));
        assert_eq!(read("1.2345678e7"), "12345678");
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
