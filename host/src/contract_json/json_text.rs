//! The text of a JSON value inside other JSON: verbatim if it fits on one line, else as a string.
//!
//! The functions are for `#[serde(with = "json_text")]`.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// Writes a text, which need not be JSON.
pub(crate) fn serialize<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    // Any other JSON could be mistaken for a string that holds JSON.
    let plain = text.starts_with(['{', '[']) && memchr::memchr2(b'\n', b'\r', text.as_bytes()).is_none();
    match plain.then(|| serde_json::from_str::<&RawValue>(text)) {
        Some(Ok(raw)) if raw.get().len() == text.len() => raw.serialize(serializer),
        _ => serializer.serialize_str(text),
    }
}

/// Reads a text as it was before [`serialize`].
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    JsonText::deserialize(deserializer).map(JsonText::unquoted)
}

/// The text of a JSON value; it is written with [`serialize`], and read verbatim.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct JsonText(#[serde(serialize_with = "serialize")] pub String);

impl JsonText {
    /// Returns the text as it was before [`serialize`], which may have written it as a string.
    pub(crate) fn unquoted(self) -> String {
        match self.0.starts_with('"') {
            true => serde_json::from_str(&self.0).unwrap_or(self.0),
            false => self.0,
        }
    }
}

impl<'de> Deserialize<'de> for JsonText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Ok(JsonText(Box::<str>::from(raw).into_string()))
    }
}

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
            assert_eq!(deserialize(&mut serde_json::Deserializer::from_str(&written)).unwrap(), text, "{written}");
        }
        assert_eq!(serde_json::to_string(&JsonText("{\"a\":1}".to_owned())).unwrap(), "{\"a\":1}");
    }
}
