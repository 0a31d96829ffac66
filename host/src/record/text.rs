//! JSON inside a record: verbatim if it fits on one line, else as a string.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::{Serialize, Serializer};
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

/// The text of a JSON value, kept byte for byte; `Debug` shows only its length.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct JsonText(pub String);

impl Serialize for JsonText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = self.0.as_str();
        // Any other JSON could be mistaken for a string that holds JSON.
        let plain = text.starts_with(['{', '[']) && memchr::memchr2(b'\n', b'\r', text.as_bytes()).is_none();
        match plain.then(|| serde_json::from_str::<&RawValue>(text)) {
            Some(Ok(raw)) if raw.get().len() == text.len() => raw.serialize(serializer),
            _ => serializer.serialize_str(text),
        }
    }
}

impl<'de> Deserialize<'de> for JsonText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        match raw.get().starts_with('"') {
            true => serde_json::from_str(raw.get()).map(JsonText).map_err(D::Error::custom),
            false => Ok(JsonText(Box::<str>::from(raw).into_string())),
        }
    }
}

impl fmt::Debug for JsonText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Text of {} bytes", self.0.len())
    }
}

impl From<String> for JsonText {
    fn from(text: String) -> Self {
        JsonText(text)
    }
}

/// Returns the SHA-256 of some bytes, in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Formats bytes in hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    let mut digits = vec![0; bytes.len() * 2];
    for (pair, byte) in digits.chunks_exact_mut(2).zip(bytes) {
        pair.copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
    String::from_utf8(digits).expect("digits are ASCII")
}

const DIGITS: &[u8; 16] = b"0123456789abcdef";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_comes_back_byte_for_byte_and_on_one_line() {
        let texts = [
            r#"{"a":1.10,"b":[12345678901234567890123]}"#,
            "{ \"a\" : \"\\ud83d\" }",
            "{\"a\":\n1}",
            "[1,\r2]",
            "\"a string\"",
            "12",
            "no JSON",
            "{broken",
            "{} ",
            "",
        ];
        for text in texts {
            let written = serde_json::to_string(&JsonText(text.to_owned())).unwrap();
            assert!(!written.contains(['\n', '\r']), "{written}");
            assert_eq!(serde_json::from_str::<JsonText>(&written).unwrap().0, text, "{written}");
        }
        assert_eq!(serde_json::to_string(&JsonText("{\"a\":1}".to_owned())).unwrap(), "{\"a\":1}");
    }

    #[test]
    fn a_digest_is_that_of_sha_256() {
        assert_eq!(sha256(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
