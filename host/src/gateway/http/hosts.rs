//! The host names and origins that requests may use, so that foreign pages cannot reach the gateway through a browser.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use http::header::{HOST, HeaderMap, ORIGIN};
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode, Uri};

use super::error::HttpServerError;
use crate::gateway::refusal::RequestRefusal;

/// The allowed host names and origins, in addition to the address at which a connection arrives.
#[derive(Debug, Default)]
pub(super) struct AllowedHosts(Vec<Entry>);

impl AllowedHosts {
    pub(super) fn parse(entries: &[String]) -> Result<Self, HttpServerError> {
        entries.iter().map(|entry| parse(entry)).collect::<Result<_, _>>().map(AllowedHosts)
    }

    /// Refuses a request that names a foreign host.
    pub(super) fn check_host(&self, uri: &Uri, headers: &HeaderMap, local: IpAddr) -> Result<(), RequestRefusal> {
        let mut named = headers.get_all(HOST).iter();
        let (Some(host), None) = (named.next(), named.next()) else {
            return Err(RequestRefusal::new(StatusCode::BAD_REQUEST, "a request needs exactly one Host header"));
        };
        let known = host.to_str().is_ok_and(|host| self.allows(host, local));
        if known && uri.authority().is_none_or(|other| self.allows(other.as_str(), local)) {
            return Ok(());
        }
        let message = "this host is not allowed: add it to gateway.hosts, or use the gateway's address";
        Err(RequestRefusal::new(StatusCode::FORBIDDEN, message))
    }

    /// Returns the origin of the page that sent the request if it is allowed, or `None` if no page did. The host must
    /// have been checked before.
    pub(super) fn check_origin<'a>(
        &self,
        head: &'a Parts,
        at: &ConnectionInfo,
    ) -> Result<Option<&'a HeaderValue>, RequestRefusal> {
        // The browser sets this header; no page can change it.
        let site = head.headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
        let foreign = !matches!(site, None | Some(b"same-origin" | b"none"));
        let Some(origin) = head.headers.get(ORIGIN) else {
            // Browsers send no origin when a page only embeds or follows a link.
            return if foreign && !is_navigation(head) { Err(foreign_page()) } else { Ok(None) };
        };
        let host = head.headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let known = |text: &str| self.lists_origin(text) || (!foreign && self.is_own(text, host, at));
        if origin.to_str().is_ok_and(known) { Ok(Some(origin)) } else { Err(foreign_page()) }
    }

    /// Reports whether the list already allows everything that this entry allows. Only the same origin covers an
    /// origin, since a host says little about the pages that may send requests.
    pub(super) fn cover(&self, entry: &str) -> bool {
        let Ok(entry) = parse(entry) else { return false };
        self.0.iter().any(|known| match (known, &entry) {
            (Entry::Any, Entry::Any | Entry::Name { .. }) => true,
            (Entry::Name { host, port }, Entry::Name { host: other, port: wanted }) => {
                host.eq_ignore_ascii_case(other) && (port.is_none() || port == wanted)
            }
            (Entry::Origin(origin), Entry::Origin(other)) => origin.eq_ignore_ascii_case(other),
            _ => false,
        })
    }

    fn lists_origin(&self, origin: &str) -> bool {
        self.0.iter().any(|entry| matches!(entry, Entry::Origin(known) if known.eq_ignore_ascii_case(origin)))
    }

    /// Reports whether a page is the gateway's own: loaded with the scheme, host and port at which this request
    /// arrives. For a listed host, a proxy may sit in front, so TLS and the port may differ.
    fn is_own(&self, origin: &str, host: &str, at: &ConnectionInfo) -> bool {
        let Some((scheme, authority)) = origin.split_once("://") else { return false };
        let usual = match scheme.to_ascii_lowercase().as_str() {
            "http" => 80,
            "https" => 443,
            _ => return false,
        };
        let https = usual == 443;
        let (Some((name, port)), Some((host, host_port))) = (split(authority), split(host)) else { return false };
        let port = port.unwrap_or(usual);
        let as_served = https == at.tls && port == at.local.port();
        let same_host = name.eq_ignore_ascii_case(host);
        if same_host && self.lists(host, host_port) {
            return port == host_port.unwrap_or(usual) && (https || !at.tls);
        }
        as_served && (same_host && is_here(host, at.local.ip()) || address(name) == Some(at.local.ip()))
    }

    fn allows(&self, authority: &str, local: IpAddr) -> bool {
        let Some((name, port)) = split(authority) else { return false };
        is_here(name, local) || self.lists(name, port) || self.0.iter().any(|entry| matches!(entry, Entry::Any))
    }

    fn lists(&self, name: &str, port: Option<u16>) -> bool {
        self.0.iter().any(|entry| match entry {
            Entry::Name { host, port: wanted } => {
                name.eq_ignore_ascii_case(host) && wanted.is_none_or(|wanted| port == Some(wanted))
            }
            Entry::Any | Entry::Origin(_) => false,
        })
    }
}

/// Reports whether a host is the address at which a connection arrives, or a loopback name for it.
fn is_here(name: &str, local: IpAddr) -> bool {
    match address(name) {
        // DNS rebinding needs a name: an attacker's page is never loaded from our address.
        Some(ip) => ip == local || (ip.is_loopback() && local.is_loopback()),
        None => local.is_loopback() && name.eq_ignore_ascii_case("localhost"),
    }
}

/// The two addresses of a connection, and whether it uses TLS.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConnectionInfo {
    pub(super) peer: SocketAddr,
    pub(super) local: SocketAddr,
    /// The connection uses TLS.
    pub(super) tls: bool,
}

impl ConnectionInfo {
    /// Returns the addresses with IPv4-mapped IPv6 addresses as IPv4.
    pub(super) fn canonical(self) -> Self {
        let canonical = |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
        ConnectionInfo { peer: canonical(self.peer), local: canonical(self.local), ..self }
    }
}

/// Reports whether a person opens the dashboard, to which any page may link.
fn is_navigation(head: &Parts) -> bool {
    let says = |name: &str, value: &[u8]| head.headers.get(name).is_some_and(|given| given.as_bytes() == value);
    head.method == Method::GET
        && head.uri.path() == "/"
        && says("sec-fetch-mode", b"navigate")
        && says("sec-fetch-dest", b"document")
}

fn foreign_page() -> RequestRefusal {
    let message = "this origin is not allowed: add it to gateway.origins if you trust it";
    RequestRefusal::new(StatusCode::FORBIDDEN, message)
}

#[derive(Debug)]
enum Entry {
    Any,
    Name { host: String, port: Option<u16> },
    Origin(String),
}

fn parse(entry: &str) -> Result<Entry, HttpServerError> {
    let wrong = || HttpServerError::Host { entry: entry.to_owned() };
    if entry == "*" {
        return Ok(Entry::Any);
    }
    if let Some((scheme, rest)) = entry.split_once("://") {
        let good = !scheme.is_empty() && !rest.is_empty() && !rest.contains('/');
        return if good { Ok(Entry::Origin(entry.to_owned())) } else { Err(wrong()) };
    }
    if let Ok(address) = entry.parse::<Ipv6Addr>() {
        return Ok(Entry::Name { host: format!("[{address}]"), port: None });
    }
    let (host, port) = split(entry).ok_or_else(wrong)?;
    Ok(Entry::Name { host: host.to_owned(), port })
}

/// Splits an authority into its name (an IPv6 address keeps its brackets) and its port.
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
            |list: &[&str]| AllowedHosts::parse(&list.iter().map(|&name| name.to_owned()).collect::<Vec<_>>()).unwrap();
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
        check(&["fe80::7"], "10.0.0.7", "[fe80::7]:3000", true);
        check(&["fe80::7"], "10.0.0.7", "[fe80::8]", false);
        check(&["*"], "10.0.0.7", "whatever.example", true);
        check(&["https://app.example"], "10.0.0.7", "app.example", false);
    }

    #[test]
    fn a_page_is_of_our_own_origin_or_of_one_of_the_list() {
        let hosts = AllowedHosts::parse(&["gate.example".to_owned(), "vscode-webview://panel".to_owned()]).unwrap();
        let check = |tls: bool, host: &str, origin: &str, more: &[(&str, &str)]| {
            let at = ConnectionInfo { peer: ([127, 0, 0, 1], 9).into(), local: ([127, 0, 0, 1], 8808).into(), tls };
            let mut request = http::Request::builder().uri("/").header(HOST, host);
            if !origin.is_empty() {
                request = request.header(ORIGIN, origin);
            }
            let request = more.iter().fold(request, |request, (name, value)| request.header(*name, *value));
            let (head, ()) = request.body(()).unwrap().into_parts();
            hosts.check_origin(&head, &at).is_ok()
        };
        for (host, origin, expected) in [
            ("localhost:8808", "", true),
            ("localhost:8808", "http://localhost:8808", true),
            ("LOCALHOST:8808", "HTTP://Localhost:8808", true),
            ("127.0.0.1:8808", "http://127.0.0.1:8808", true),
            ("localhost", "http://127.0.0.1:8808", true),
            ("[::1]:8808", "http://[::1]:8808", true),
            ("localhost:8808", "http://localhost:5173", false),
            ("localhost:8808", "http://localhost", false),
            ("localhost", "http://localhost", false),
            ("localhost:5173", "http://localhost:5173", false),
            ("127.0.0.1:8808", "http://localhost:8808", false),
            ("localhost:8808", "https://localhost:8808", false),
            ("gate.example", "https://gate.example", true),
            ("gate.example", "http://gate.example", true),
            ("gate.example:8443", "https://gate.example:8443", true),
            ("gate.example", "https://gate.example:444", false),
            ("gate.example", "https://other.example", false),
            ("localhost:8808", "https://gate.example", false),
            ("localhost:8808", "vscode-webview://panel", true),
            ("localhost:8808", "vscode-webview://other", false),
            ("localhost:8808", "ftp://localhost:8808", false),
            ("localhost:8808", "http://localhost:8808/path", false),
            ("localhost:8808", "http://user@localhost:8808", false),
            ("localhost:8808", "null", false),
        ] {
            assert_eq!(check(false, host, origin, &[]), expected, "{origin} at {host}");
        }
        let any = AllowedHosts::parse(&["*".to_owned()]).unwrap();
        let at = ConnectionInfo { peer: ([127, 0, 0, 1], 9).into(), local: ([127, 0, 0, 1], 8808).into(), tls: false };
        assert!(any.allows("evil.example:8808", at.local.ip()));
        assert!(!any.is_own("http://evil.example:8808", "evil.example:8808", &at), "any name is not our own");
        assert!(check(true, "localhost:8808", "https://localhost:8808", &[]));
        assert!(!check(true, "localhost:8808", "http://localhost:8808", &[]));
        assert!(!check(true, "gate.example", "http://gate.example", &[]));
        let own = "http://localhost:8808";
        let visit = |site, mode| [("sec-fetch-site", site), ("sec-fetch-mode", mode), ("sec-fetch-dest", "document")];
        for (origin, headers, expected) in [
            (own, visit("same-origin", "cors"), true),
            (own, visit("cross-site", "cors"), false),
            (own, visit("same-site", "cors"), false),
            ("vscode-webview://panel", visit("cross-site", "cors"), true),
            ("", visit("none", "navigate"), true),
            ("", visit("cross-site", "navigate"), true),
            ("", visit("cross-site", "no-cors"), false),
            ("", visit("same-site", "no-cors"), false),
        ] {
            assert_eq!(check(false, "localhost:8808", origin, &headers), expected, "{origin} {headers:?}");
        }
    }

    #[test]
    fn an_entry_that_is_no_name_is_refused() {
        for entry in ["", "a/b", "https://", "https://a/b", "a:b", "ä.example"] {
            let error = AllowedHosts::parse(&[entry.to_owned()]).unwrap_err().to_string();
            assert!(error.contains(&format!("{entry:?}")), "{error}");
        }
    }
}
