//! The encodings in which a secret may appear in a text.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Returns a secret in all its forms: plain, escaped as JSON, percent-encoded, in base64, in hexadecimal, in names of
/// tools and as part of a host, each as different programs write it.
pub(super) fn encoded_forms(value: &str) -> Vec<String> {
    let json = escaped(value);
    let in_ascii: String = json.chars().map(|c| if c.is_ascii() { c.to_string() } else { by_number(c) }).collect();
    let percent = utf8_percent_encode(value, RESERVED).to_string();
    let mut forms = vec![
        escaped(&json),
        escaped(&in_ascii),
        in_ascii,
        as_literal(&json),
        as_literal(value),
        json.replace('/', "\\/"),
        json.chars().map(|c| if "<>&".contains(c) { by_number(c) } else { c.to_string() }).collect(),
        json,
        percent.replace("%20", "+"),
        // Many languages encode paths like this.
        percent.replace("%2F", "/"),
        value.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;"),
        with_small_hex(&percent),
        percent,
    ];
    if value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte)) {
        // Host names ignore case.
        forms.push(value.to_ascii_lowercase());
    }
    if value.len() <= MAX_ENCODED {
        forms.extend(in_base64(value.as_bytes()));
        let hex: String = value.bytes().map(|byte| format!("{byte:02x}")).collect();
        forms.extend([hex.to_ascii_uppercase(), hex]);
    }
    forms.extend(in_names(value));
    forms.push(value.to_owned());
    forms
}

/// Returns a value as it appears in names of tools: characters that a client does not accept become `_`.
fn in_names(value: &str) -> impl Iterator<Item = String> {
    let fitted = ["_.-", "_-", "_"].map(|accepted| {
        let fit = |c: char| if c.is_ascii_alphanumeric() || accepted.contains(c) { c } else { '_' };
        value.chars().map(fit).collect::<String>()
    });
    let letters = |form: &String| form.bytes().filter(u8::is_ascii_alphanumeric).count();
    fitted.into_iter().filter(move |form| letters(form) >= MIN_LETTERS)
}

/// Escapes a text as JSON, without the quotes.
fn escaped(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// Formats a text as Python and JavaScript literals do: in single quotes, so double quotes are not escaped.
fn as_literal(text: &str) -> String {
    let single = escaped(text).replace("\\\"", "\"");
    if text.contains('"') { single.replace('\'', "\\'") } else { single }
}

/// Escapes a character by its number, as JSON does.
fn by_number(c: char) -> String {
    c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect()
}

fn with_small_hex(percent: &str) -> String {
    let mut pieces = percent.split('%');
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |text, piece| text + "%" + &piece[..2].to_ascii_lowercase() + &piece[2..])
}

/// Returns a value in base64, alone and as part of something longer: it may start at any of three offsets, and only the
/// characters in the middle are always the same.
fn in_base64(value: &[u8]) -> Vec<String> {
    let mut forms = vec![STANDARD.encode(value), STANDARD_NO_PAD.encode(value)];
    for before in 0..3 {
        let encoded = STANDARD_NO_PAD.encode([&[0; 2][..before], value].concat());
        let from = (before * 8).div_ceil(6);
        let to = (before + value.len()) * 8 / 6;
        if to - from >= MIN_PART {
            forms.push(encoded[from..to].to_owned());
        }
    }
    let for_addresses: Vec<String> = forms.iter().map(|form| form.replace('+', "-").replace('/', "_")).collect();
    forms.extend(for_addresses);
    forms
}

/// All characters but those that an address never needs to encode.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// The forms of a longer value would need much memory; its lines are still encoded one by one.
const MAX_ENCODED: usize = 4096;
/// This many characters of base64 do not match by chance.
const MIN_PART: usize = 10;
/// This many letters and digits of a secret do not match in a name by chance.
const MIN_LETTERS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_known_in_the_forms_of_common_writers() {
        let value = "pä/s \"w&rd?";
        let forms = encoded_forms(value);
        for expected in [
            value,
            r#"pä/s \"w&rd?"#,
            r#"pä\/s \"w&rd?"#,
            r#"p\u00e4/s \"w&rd?"#,
            r#"pä/s \"w\u0026rd?"#,
            r#"pä/s \\\"w&rd?"#,
            r#"p\\u00e4/s \\\"w&rd?"#,
            r#"pä/s \\"w&rd?"#,
            "p%C3%A4%2Fs%20%22w%26rd%3F",
            "p%c3%a4%2fs%20%22w%26rd%3f",
            "p%C3%A4%2Fs+%22w%26rd%3F",
            "cMOkL3MgIncmcmQ/",
            "cMOkL3MgIncmcmQ_",
        ] {
            assert!(forms.iter().any(|form| form == expected), "{expected}");
        }
    }

    #[test]
    fn a_secret_is_known_as_a_literal() {
        for (value, expected) in
            [(r#"a"b\c'd"#, r#"a"b\\c\'d"#), (r#"a"b\c"#, r#"a"b\\c"#), (r"ab\c'd", r"ab\\c'd"), ("a\n\"b", r#"a\n"b"#)]
        {
            assert!(encoded_forms(value).iter().any(|form| form == expected), "{expected}");
        }
    }

    #[test]
    fn a_secret_is_known_in_names_that_were_made_to_fit() {
        for expected in ["Zq9-a.planted_value", "Zq9-a_planted_value", "Zq9_a_planted_value"] {
            assert!(encoded_forms("Zq9-a.planted/value").iter().any(|form| form == expected), "{expected}");
        }
        assert!(
            !encoded_forms("/+ä+/++-").iter().any(|form| form.starts_with("__")),
            "that stands in every other name"
        );
    }

    #[test]
    fn base64_of_something_longer_holds_a_form_of_the_secret() {
        let value = "s3cr3t-value-42";
        for text in ["user:s3cr3t-value-42", "us:s3cr3t-value-42!", "u:s3cr3t-value-42 and", "s3cr3t-value-42:x"] {
            let encoded = STANDARD.encode(text);
            assert!(encoded_forms(value).iter().any(|form| encoded.contains(form)), "{text}");
        }
    }
}
