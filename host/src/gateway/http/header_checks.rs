//! Checks the headers of a request: which media types a client sends and accepts, and that none repeats that must not.

use http::header::{ACCEPT, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HOST, HeaderMap, HeaderName, ORIGIN};
use http::{HeaderValue, Method, StatusCode};

use crate::gateway::refusal::RequestRefusal;

/// Checks that a POST accepts both kinds of responses and sends JSON (2025-11-25, transports, sending messages).
pub(super) fn check_post(headers: &HeaderMap) -> Result<(), RequestRefusal> {
    if !accepts(headers, "application/json") || !accepts(headers, EVENT_STREAM) {
        let message =
            "the client must accept both JSON and a stream: send `Accept: application/json, text/event-stream`";
        return Err(RequestRefusal::new(StatusCode::NOT_ACCEPTABLE, message));
    }
    if !headers.get(CONTENT_TYPE).is_some_and(is_json) {
        let message = "the body must be JSON: send `Content-Type: application/json`";
        return Err(RequestRefusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
    }
    if headers.get(CONTENT_ENCODING).is_some_and(|value| !value.as_bytes().eq_ignore_ascii_case(b"identity")) {
        let message = "the body must not be compressed: leave out `Content-Encoding`";
        return Err(RequestRefusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
    }
    Ok(())
}

/// Refuses forms and plain text for requests that change something, since any site can send those without a preflight.
pub(super) fn check_page(method: &Method, headers: &HeaderMap) -> Result<(), RequestRefusal> {
    let looks = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
    if looks || headers.get(CONTENT_TYPE).is_none_or(is_json) {
        return Ok(());
    }
    let message = "the body must be JSON, or nothing: send `Content-Type: application/json`";
    Err(RequestRefusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message))
}

/// Reports whether a client names `text/event-stream` first, and so prefers responses as events.
pub(super) fn prefers_stream(headers: &HeaderMap) -> bool {
    let first = headers.get(ACCEPT).and_then(|value| value.to_str().ok()?.split([',', ';']).next());
    first.is_some_and(|range| range.trim().eq_ignore_ascii_case(EVENT_STREAM))
}

/// Checks that a GET accepts a stream.
pub(super) fn check_get(headers: &HeaderMap) -> Result<(), RequestRefusal> {
    if accepts(headers, EVENT_STREAM) {
        return Ok(());
    }
    let message = "the client must accept a stream: send `Accept: text/event-stream`";
    Err(RequestRefusal::new(StatusCode::NOT_ACCEPTABLE, message))
}

fn accepts(headers: &HeaderMap, wanted: &str) -> bool {
    let family = wanted.split_once('/').map_or(wanted, |(family, _)| family);
    let ranges =
        headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).flat_map(|text| text.split(','));
    ranges.map(|range| range.split(';')).any(|mut parts| {
        let range = parts.next().unwrap_or_default().trim();
        let fits = range.eq_ignore_ascii_case(wanted)
            || range == "*/*"
            || range.strip_suffix("/*").is_some_and(|start| start.eq_ignore_ascii_case(family));
        fits && !parts.any(is_zero)
    })
}

/// Reports whether a parameter is `q=0`, which means "not acceptable".
fn is_zero(parameter: &str) -> bool {
    let quality = parameter.trim().strip_prefix("q=").or_else(|| parameter.trim().strip_prefix("Q="));
    quality.and_then(|quality| quality.parse::<f32>().ok()) == Some(0.0)
}

fn is_json(value: &HeaderValue) -> bool {
    let kind = value.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default();
    kind.trim_ascii().eq_ignore_ascii_case(b"application/json")
}

/// Refuses a request that repeats a header which must be unique: of two, a proxy may have checked the one that the
/// gateway ignores. hyper checks the headers about the length.
pub(super) fn check_single(headers: &HeaderMap) -> Result<(), RequestRefusal> {
    let repeated = |name: &&HeaderName| is_single(name) && headers.get_all(*name).iter().nth(1).is_some();
    match headers.keys().find(repeated) {
        Some(name) => {
            let message = format!("header {name} is repeated: send it once");
            Err(RequestRefusal::new(StatusCode::BAD_REQUEST, message))
        }
        None => Ok(()),
    }
}

fn is_single(name: &HeaderName) -> bool {
    let known = [AUTHORIZATION, HOST, ORIGIN, CONTENT_TYPE, CONTENT_ENCODING];
    let name = name.as_str();
    known.iter().any(|known| known == name)
        || name == "last-event-id"
        || name == "toolgate-selection"
        || name.starts_with("mcp-")
        || name.starts_with("sec-fetch-")
}

const EVENT_STREAM: &str = "text/event-stream";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_must_take_both_kinds_of_answers() {
        for (accept, post, get) in [
            ("application/json, text/event-stream", true, true),
            ("text/event-stream;q=0.5,Application/JSON", true, true),
            ("*/*", true, true),
            ("application/*, text/*", true, true),
            ("application/json", false, false),
            ("text/event-stream", false, true),
            ("text/html, */*;q=0", false, false),
            ("application/json, text/event-stream;q=0.0", false, false),
            ("application/jsonx, text/event-stream", false, true),
            ("", false, false),
        ] {
            let mut headers = HeaderMap::from_iter([(ACCEPT, accept.parse().unwrap())]);
            assert_eq!(check_get(&headers).is_ok(), get, "{accept}");
            headers.insert(CONTENT_TYPE, "application/json; charset=utf-8".parse().unwrap());
            assert_eq!(check_post(&headers).is_ok(), post, "{accept}");
        }
        assert!(check_get(&HeaderMap::new()).is_err());
    }

    #[test]
    fn who_names_a_stream_first_rather_has_one() {
        for (accept, stream) in [
            ("application/json, text/event-stream", false),
            ("text/event-stream, application/json", true),
            ("Text/Event-Stream;q=1,application/json", true),
            ("*/*", false),
        ] {
            assert_eq!(prefers_stream(&HeaderMap::from_iter([(ACCEPT, accept.parse().unwrap())])), stream, "{accept}");
        }
        assert!(!prefers_stream(&HeaderMap::new()));
    }

    #[test]
    fn a_body_must_be_plain_json() {
        for (kind, encoding, expected) in [
            ("application/json", "identity", true),
            ("application/json;charset=utf-8", "identity", true),
            ("application/json", "gzip", false),
            ("text/plain", "identity", false),
            ("application/json-seq", "identity", false),
            ("", "identity", false),
        ] {
            let pairs = [(ACCEPT, "*/*"), (CONTENT_TYPE, kind), (CONTENT_ENCODING, encoding)];
            let headers = pairs.into_iter().map(|(name, value)| (name, value.parse().unwrap())).collect();
            assert_eq!(check_post(&headers).is_ok(), expected, "{kind} {encoding}");
        }
    }

    #[test]
    fn what_says_who_asks_or_what_for_is_said_once() {
        for (name, once) in [
            ("authorization", true),
            ("host", true),
            ("origin", true),
            ("content-type", true),
            ("mcp-session-id", true),
            ("mcp-protocol-version", true),
            ("mcp-param-region", true),
            ("sec-fetch-site", true),
            ("accept", false),
            ("x-forwarded-for", false),
            ("cookie", false),
        ] {
            let name = HeaderName::from_static(name);
            let mut headers = HeaderMap::from_iter([(name.clone(), "a".parse().unwrap())]);
            assert!(check_single(&headers).is_ok(), "{name}");
            headers.append(&name, "a".parse().unwrap());
            assert_eq!(check_single(&headers).is_err(), once, "{name}");
        }
    }
}
