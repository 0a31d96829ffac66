//! Headers that a request may have only once: of two, a proxy may have checked the one that the gateway ignores.
//! hyper checks the headers about the length.

use http::StatusCode;
use http::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HOST, HeaderMap, HeaderName, ORIGIN};

use crate::gateway::refusal::RequestRefusal;

/// Refuses a request that repeats a header which must be unique.
pub(super) fn check(headers: &HeaderMap) -> Result<(), RequestRefusal> {
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
        || name.starts_with("mcp-")
        || name.starts_with("sec-fetch-")
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert!(check(&headers).is_ok(), "{name}");
            headers.append(&name, "a".parse().unwrap());
            assert_eq!(check(&headers).is_err(), once, "{name}");
        }
    }
}
