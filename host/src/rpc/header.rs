//! The HTTP headers of 2026-07-28 that repeat what a message says, so that proxies need not read it.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::{HeaderName, HeaderValue};

/// The version of the protocol.
pub(crate) const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// The method of a request or notification.
pub(crate) const METHOD: HeaderName = HeaderName::from_static("mcp-method");
/// The tool, prompt or resource that a request names.
pub(crate) const NAME: HeaderName = HeaderName::from_static("mcp-name");
/// The prefix of headers that repeat an argument.
pub(crate) const PARAM_PREFIX: &str = "mcp-param-";

/// Writes a text as a header value: plainly where that is possible, otherwise as `=?base64?…?=`.
pub(crate) fn encode(text: &str) -> HeaderValue {
    let plain =
        text.bytes().all(|byte| (0x20..=0x7e).contains(&byte)) && text.trim() == text && encoded(text).is_none();
    let written = if plain { text.to_owned() } else { format!("{PREFIX}{}{SUFFIX}", BASE64_STANDARD.encode(text)) };
    HeaderValue::from_str(&written).expect("printable ASCII is a header value")
}

/// Reads the text of a header value; `None` if it is marked as base64 and is not base64 of a text.
pub(crate) fn decode(header: &str) -> Option<String> {
    match encoded(header) {
        Some(inner) => String::from_utf8(BASE64_STANDARD.decode(inner).ok()?).ok(),
        None => Some(header.to_owned()),
    }
}

fn encoded(header: &str) -> Option<&str> {
    header.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)
}

const PREFIX: &str = "=?base64?";
const SUFFIX: &str = "?=";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_survives_its_header() {
        for (text, expected) in [
            ("plain name", "plain name"),
            ("", ""),
            (" led by a space", "=?base64?IGxlZCBieSBhIHNwYWNl?="),
            ("é", "=?base64?w6k=?="),
            ("a\nb", "=?base64?YQpi?="),
            ("=?base64?x?=", "=?base64?PT9iYXNlNjQ/eD89?="),
        ] {
            let header = encode(text);
            assert_eq!(header, expected);
            assert_eq!(decode(header.to_str().unwrap()).as_deref(), Some(text));
        }
        assert_eq!(decode("=?base64?!?="), None);
    }
}
