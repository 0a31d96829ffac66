//! Parsing, displaying and comparing URLs.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::HeaderValue;
use percent_encoding::percent_decode_str;
use reqwest::Url;

use super::errors::connect_error;
use crate::failure::RequestError;

/// Parses the URL of a site.
pub(crate) fn parse(text: &str) -> Result<Url, RequestError> {
    // The text may contain a login, so the error does not repeat it.
    let url = Url::parse(text).map_err(|error| connect_error(format!("the url is not an address: {error}")))?;
    let scheme = url.scheme().to_owned();
    as_http(url).ok_or_else(|| connect_error(format!("the url has the scheme {scheme}, not http, https, ws or wss")))
}

/// Replaces the scheme of a WebSocket URL by that of HTTP; `None` for other schemes.
pub(crate) fn as_http(mut url: Url) -> Option<Url> {
    let scheme = match url.scheme() {
        "http" | "ws" => "http",
        "https" | "wss" => "https",
        _ => return None,
    };
    url.set_scheme(scheme).ok()?;
    url.host().is_some().then_some(url)
}

/// Returns a URL for messages, without login, query and fragment, which may be secrets.
pub(crate) fn display_url(url: &Url) -> String {
    format!("{}{}", url.origin().ascii_serialization(), url.path())
}

/// Returns a WebSocket URL for messages, without login, query and fragment.
pub(super) fn display_socket_url(url: &Url) -> String {
    format!("ws{}", display_url(url).trim_start_matches("http"))
}

/// Reports whether scheme, host and port are the same.
pub(crate) fn same_origin(one: &Url, other: &Url) -> bool {
    one.scheme() == other.scheme()
        && one.host() == other.host()
        && one.port_or_known_default() == other.port_or_known_default()
}

/// Removes the login from a URL: one that a server names is not ours.
pub(crate) fn without_login(mut url: Url) -> Option<Url> {
    url.set_username("").and_then(|()| url.set_password(None)).ok()?;
    Some(url)
}

/// Moves the login of a URL into a header.
pub(super) fn split_login(url: Url) -> Result<(Url, Option<HeaderValue>), RequestError> {
    if url.username().is_empty() && url.password().is_none() {
        return Ok((url, None));
    }
    let unreadable = || connect_error("the login in the url cannot be read");
    let name = percent_decode_str(url.username()).decode_utf8().map_err(|_| unreadable())?;
    let word = percent_decode_str(url.password().unwrap_or_default()).decode_utf8().map_err(|_| unreadable())?;
    let login = format!("Basic {}", STANDARD.encode(format!("{name}:{word}")));
    let mut login = HeaderValue::try_from(login).map_err(|_| unreadable())?;
    login.set_sensitive(true);
    Ok((without_login(url).ok_or_else(unreadable)?, Some(login)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_its_secrets() {
        let url = parse("https://me:word@host.example:8443/mcp?key=1#x").unwrap();
        assert_eq!(display_url(&url), "https://host.example:8443/mcp");
        assert_eq!(display_socket_url(&url), "wss://host.example:8443/mcp");
        assert_eq!(display_socket_url(&parse("ws://me:word@a.example/x").unwrap()), "ws://a.example/x");
    }

    #[test]
    fn websocket_addresses_are_those_of_http() {
        assert_eq!(parse("ws://a.example/x").unwrap().as_str(), "http://a.example/x");
        assert_eq!(parse("wss://a.example/x").unwrap().as_str(), "https://a.example/x");
        let failed = parse("ftp://me:word@a.example/x").unwrap_err();
        assert_eq!(failed.to_string(), "cannot connect: the url has the scheme ftp, not http, https, ws or wss");
        assert!(!parse("http://me:word@:80/").unwrap_err().to_string().contains("word"));
    }

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        let check = |one: &str, other: &str, same: bool| {
            assert_eq!(same_origin(&parse(one).unwrap(), &parse(other).unwrap()), same, "{one} {other}");
        };
        check("http://a.example/x", "http://A.example:80/y?z", true);
        check("http://a.example/x", "https://a.example/x", false);
        check("http://a.example/x", "http://a.example:81/x", false);
        check("http://a.example/x", "http://b.a.example/x", false);
    }
}
