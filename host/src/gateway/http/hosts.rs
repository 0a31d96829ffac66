//! By which names a door may be called, so that no page of a foreign site reaches it through a browser.

use std::net::IpAddr;

use http::header::{HOST, HeaderMap, ORIGIN};
use http::{HeaderValue, StatusCode, Uri};

use super::DoorError;
use super::refusal::Refusal;

/// The names by which a door may be called, beside the address at which a connection arrives.
#[derive(Debug, Default)]
pub(super) struct Hosts(Vec<Entry>);

impl Hosts {
    pub(super) fn parse(entries: &[String]) -> Result<Self, DoorError> {
        entries.iter().map(|entry| parse(entry)).collect::<Result<_, _>>().map(Hosts)
    }

    /// The host that a request names; refuses one that was meant for somebody else. `good` was not refused before.
    pub(super) fn check_host<'a>(
        &self,
        uri: &Uri,
        headers: &'a HeaderMap,
        local: IpAddr,
        good: Option<&HeaderValue>,
    ) -> Result<&'a HeaderValue, Refusal> {
        let mut named = headers.get_all(HOST).iter();
        let (Some(host), None) = (named.next(), named.next()) else {
            return Err(Refusal::new(StatusCode::BAD_REQUEST, "a request names its host once"));
        };
        let known = good == Some(host) || host.to_str().is_ok_and(|host| self.allows(host, local));
        if known && uri.authority().is_none_or(|other| self.allows(other.as_str(), local)) {
            return Ok(host);
        }
        let message = "this gateway is not called by this host: add it to gateway.hosts, or use its address";
        Err(Refusal::new(StatusCode::FORBIDDEN, message))
    }

    /// The origin of a page that may send this request; none where no page does.
    pub(super) fn check_origin<'a>(
        &self,
        headers: &'a HeaderMap,
        local: IpAddr,
    ) -> Result<Option<&'a HeaderValue>, Refusal> {
        let mut named = headers.get_all(ORIGIN).iter();
        let Some(origin) = named.next() else { return Ok(None) };
        if named.next().is_none() && origin.to_str().is_ok_and(|origin| self.allows_origin(origin, local)) {
            return Ok(Some(origin));
        }
        let message = "pages of this origin may not ask: add it to gateway.origins, or its host to gateway.hosts";
        Err(Refusal::new(StatusCode::FORBIDDEN, message))
    }

    /// Whether whoever comes by this entry could have come by these. An origin is covered by itself alone, since
    /// a host says little about the pages that may ask.
    pub(super) fn cover(&self, entry: &str) -> bool {
        let Ok(entry) = parse(entry) else { return false };
        self.0.iter().any(|known| match (known, &entry) {
            (Entry::Any, _) => true,
            (Entry::Name { host, port }, Entry::Name { host: other, port: wanted }) => {
                host.eq_ignore_ascii_case(other) && (port.is_none() || port == wanted)
            }
            (Entry::Origin(origin), Entry::Origin(other)) => origin.eq_ignore_ascii_case(other),
            _ => false,
        })
    }

    fn allows_origin(&self, origin: &str, local: IpAddr) -> bool {
        if self.0.iter().any(|entry| matches!(entry, Entry::Origin(known) if known.eq_ignore_ascii_case(origin))) {
            return true;
        }
        let Some((scheme, authority)) = origin.split_once("://") else { return false };
        (scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https")) && self.allows(authority, local)
    }

    fn allows(&self, authority: &str, local: IpAddr) -> bool {
        let Some((name, port)) = split(authority) else { return false };
        let here = match address(name) {
            // A page is never reached by an address that is not its own, so an address cannot be a trick.
            Some(ip) => ip == local || (ip.is_loopback() && local.is_loopback()),
            None => local.is_loopback() && name.eq_ignore_ascii_case("localhost"),
        };
        here || self.0.iter().any(|entry| match entry {
            Entry::Any => true,
            Entry::Name { host, port: wanted } => {
                name.eq_ignore_ascii_case(host) && wanted.is_none_or(|wanted| port == Some(wanted))
            }
            Entry::Origin(_) => false,
        })
    }
}

#[derive(Debug)]
enum Entry {
    Any,
    Name { host: String, port: Option<u16> },
    Origin(String),
}

fn parse(entry: &str) -> Result<Entry, DoorError> {
    let wrong = || DoorError::Host { entry: entry.to_owned() };
    if entry == "*" {
        return Ok(Entry::Any);
    }
    if let Some((scheme, rest)) = entry.split_once("://") {
        let good = !scheme.is_empty() && !rest.is_empty() && !rest.contains('/');
        return if good { Ok(Entry::Origin(entry.to_owned())) } else { Err(wrong()) };
    }
    let (host, port) = split(entry).ok_or_else(wrong)?;
    Ok(Entry::Name { host: host.to_owned(), port })
}

/// The name (an IPv6 address keeps its brackets) and the port.
fn split(authority: &str) -> Option<(&str, Option<u16>)> {
    let colon = match authority.rfind(']') {
        Some(end) => authority[end..].find(':').map(|colon| end + colon),
        None => authority.find(':'),
    };
    let (name, port) = match colon {
        Some(colon) => (&authority[..colon], Some(authority[colon + 1..].parse().ok()?)),
        None => (authority, None),
    };
    let name = name.strip_suffix('.').unwrap_or(name);
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    let good = address(name).is_some() || (!name.is_empty() && name.bytes().all(plain));
    good.then_some((name, port))
}

fn address(name: &str) -> Option<IpAddr> {
    let inner = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    match inner {
        Some(inner) => inner.parse().ok().map(IpAddr::V6),
        None if name.starts_with(|first: char| first.is_ascii_digit()) => name.parse().ok().map(IpAddr::V4),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_the_address_of_the_connection_a_loopback_name_or_one_of_the_list() {
        let hosts =
            |list: &[&str]| Hosts::parse(&list.iter().map(|&name| name.to_owned()).collect::<Vec<_>>()).unwrap();
        let check = |list: &[&str], local: &str, authority: &str, expected: bool| {
            let allowed = hosts(list).allows(authority, local.parse().unwrap());
            assert_eq!(allowed, expected, "{authority} at {local} with {list:?}");
        };
        for good in ["localhost", "LOCALHOST:99", "localhost.", "127.0.0.1", "127.8.8.8:1", "[::1]", "[::1]:8080"] {
            check(&[], "127.0.0.1", good, true);
            check(&[], "10.0.0.7", good, false);
        }
        for bad in [
            "evil.com",
            "localhost.evil.com",
            "127.0.0.1.evil.com",
            "10.0.0.7",
            "",
            ":80",
            "localhost:x",
            "a b",
            "[::2]",
        ] {
            check(&[], "127.0.0.1", bad, false);
        }
        check(&[], "10.0.0.7", "10.0.0.7:3000", true);
        check(&[], "::1", "localhost:1", true);
        check(&["gate.example"], "10.0.0.7", "Gate.Example:8443", true);
        check(&["gate.example"], "10.0.0.7", "other.gate.example", false);
        check(&["gate.example:443"], "10.0.0.7", "gate.example:443", true);
        check(&["gate.example:443"], "10.0.0.7", "gate.example", false);
        check(&["*"], "10.0.0.7", "whatever.example", true);
        check(&["https://app.example"], "10.0.0.7", "app.example", false);
    }

    #[test]
    fn an_origin_is_a_page_of_an_allowed_host() {
        let hosts = Hosts::parse(&["gate.example".to_owned(), "vscode-webview://panel".to_owned()]).unwrap();
        for (origin, expected) in [
            ("http://localhost:3000", true),
            ("https://127.0.0.1", true),
            ("https://gate.example", true),
            ("vscode-webview://panel", true),
            ("vscode-webview://other", false),
            ("ftp://localhost", false),
            ("https://evil.com", false),
            ("http://localhost/path", false),
            ("http://user@localhost", false),
            ("null", false),
            ("", false),
        ] {
            assert_eq!(hosts.allows_origin(origin, [127, 0, 0, 1].into()), expected, "{origin}");
        }
    }

    #[test]
    fn an_entry_that_is_no_name_is_refused() {
        for entry in ["", "a/b", "https://", "https://a/b", "a:b", "ä.example"] {
            let error = Hosts::parse(&[entry.to_owned()]).unwrap_err().to_string();
            assert!(error.contains(&format!("{entry:?}")), "{error}");
        }
    }
}
