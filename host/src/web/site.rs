//! A server on the network: its address, and what is needed to reach it.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::authorize::Authorizer;
use crate::config::secrets::Secrets;

/// A server on the network.
#[derive(Clone, PartialEq, Eq)]
pub struct RemoteSite {
    /// The URL, with scheme `http`, `https`, `ws` or `wss`.
    pub url: String,
    /// The local socket that all connections use; the URL then only gives host and path.
    pub socket: Option<PathBuf>,
    /// Headers for every request, credentials included.
    pub headers: Vec<(String, String)>,
    /// How to check the server's certificate, and which client certificate to present.
    pub tls: Tls,
    /// The maximum size of a message that it may send.
    pub max_message_bytes: usize,
    /// How long connecting over TCP may take.
    pub connect_timeout: Duration,
    /// Secrets to hide in everything that it answers.
    pub secrets: Secrets,
    /// Provides the `Authorization` of each request, unless it is one of the headers.
    pub authorize: Option<Authorizer>,
}

impl RemoteSite {
    /// Returns the URL without secrets, for messages.
    pub fn shown(&self) -> String {
        without_secrets(&self.url)
    }
}

/// TLS options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// Whether the server's certificate is checked.
    pub verify: bool,
    /// A PEM file with certificate authorities to trust in addition to the system's.
    pub ca: Option<PathBuf>,
    /// A PEM file with the client certificate.
    pub client_certificate: Option<PathBuf>,
    /// A PEM file with the client key; `None` if the certificate's file has it.
    pub client_key: Option<PathBuf>,
}

impl Default for Tls {
    fn default() -> Self {
        Tls { verify: true, ca: None, client_certificate: None, client_key: None }
    }
}

impl fmt::Debug for RemoteSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("Site")
            .field("url", &self.shown())
            .field("headers", &headers)
            .field("tls", &self.tls)
            .finish_non_exhaustive()
    }
}

/// Removes login, query and fragment from a URL, which may be invalid and is therefore not parsed.
fn without_secrets(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    // A login may contain any character that ends a host, so everything up to the last `@` may be one.
    let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    if scheme.is_empty() { rest.to_owned() } else { format!("{scheme}://{rest}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_is_shown_without_login_query_and_values() {
        let check = |url: &str, shown: &str| assert_eq!(without_secrets(url), shown, "{url}");
        check("https://a.example:1/mcp", "https://a.example:1/mcp");
        check("https://a.example/mcp?key=s3cret#s3cret", "https://a.example/mcp");
        check("https://me:s3cret@a.example/mcp", "https://a.example/mcp");
        check("https://me:s3/cr?e@t@a.example/mcp?x=1", "https://a.example/mcp");
        check("me:s3cret@a.example", "a.example");
        let headers = vec![("Authorization".to_owned(), "s3cret".to_owned())];
        let url = "ws://me:s3cret@a.example/x?s3cret".to_owned();
        let site = RemoteSite {
            url,
            socket: None,
            headers,
            tls: Tls::default(),
            max_message_bytes: 1,
            connect_timeout: Duration::ZERO,
            secrets: Secrets::default(),
            authorize: None,
        };
        let shown = format!("{site:?}");
        assert!(shown.contains("ws://a.example/x") && shown.contains("Authorization"), "{shown}");
        assert!(!shown.contains("s3cret"), "{shown}");
    }
}
