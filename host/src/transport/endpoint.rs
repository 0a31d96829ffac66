//! Where a server is, with every variable filled in.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::Connect;
use super::authorize::Authorizer;
use crate::config::secrets::Secrets;

/// Where a server is. Its `Debug` shows no argument, value of a variable, login, query or header: they may be secrets.
#[derive(Clone)]
pub enum Endpoint {
    /// A subprocess that speaks over its standard input and output.
    Stdio(Program),
    /// Streamable HTTP.
    Http(RemoteSite),
    /// HTTP with Server-Sent Events, the way before Streamable HTTP.
    Sse(RemoteSite),
    /// WebSocket.
    WebSocket(RemoteSite),
    /// A way of the embedder's own.
    Custom(Arc<dyn Connect>),
}

impl PartialEq for Endpoint {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Endpoint::Stdio(one), Endpoint::Stdio(other)) => one == other,
            (Endpoint::Http(one), Endpoint::Http(other))
            | (Endpoint::Sse(one), Endpoint::Sse(other))
            | (Endpoint::WebSocket(one), Endpoint::WebSocket(other)) => one == other,
            (Endpoint::Custom(one), Endpoint::Custom(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

impl Endpoint {
    /// The same place, with what must not be seen of it.
    #[must_use]
    pub fn with_secrets(mut self, secrets: Secrets) -> Self {
        match &mut self {
            Endpoint::Stdio(program) => program.secrets = secrets,
            Endpoint::Http(site) | Endpoint::Sse(site) | Endpoint::WebSocket(site) => site.secrets = secrets,
            Endpoint::Custom(_) => {}
        }
        self
    }

    /// Where it is on the network, if it is there.
    pub fn site(&self) -> Option<&RemoteSite> {
        match self {
            Endpoint::Http(site) | Endpoint::Sse(site) | Endpoint::WebSocket(site) => Some(site),
            Endpoint::Stdio(_) | Endpoint::Custom(_) => None,
        }
    }

    /// The same, to be changed.
    pub fn site_mut(&mut self) -> Option<&mut RemoteSite> {
        match self {
            Endpoint::Http(site) | Endpoint::Sse(site) | Endpoint::WebSocket(site) => Some(site),
            Endpoint::Stdio(_) | Endpoint::Custom(_) => None,
        }
    }

    /// What must not be seen in errors and logs about this server.
    pub fn secrets(&self) -> Secrets {
        match self {
            Endpoint::Stdio(program) => program.secrets.clone(),
            Endpoint::Http(site) | Endpoint::Sse(site) | Endpoint::WebSocket(site) => site.secrets.clone(),
            Endpoint::Custom(_) => Secrets::default(),
        }
    }
}

/// A program to run.
#[derive(Clone, PartialEq, Eq)]
pub struct Program {
    /// The program, by path or by name.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// The whole environment that it gets.
    pub env: BTreeMap<String, String>,
    /// Where it runs; `None` is where we run.
    pub working_dir: Option<PathBuf>,
    /// The longest line that it may send.
    pub max_message_bytes: usize,
    /// How long it may take to end after its input is closed, and again after SIGTERM.
    pub grace: Duration,
    /// What must not be seen in anything that it writes.
    pub secrets: Secrets,
}

/// A place on the network.
#[derive(Clone, PartialEq, Eq)]
pub struct RemoteSite {
    /// The address: `http`, `https`, `ws` or `wss`.
    pub url: String,
    /// The socket of this machine that all connections use; the address then says only what is asked of whom.
    pub socket: Option<PathBuf>,
    /// Headers for every request, credentials included.
    pub headers: Vec<(String, String)>,
    /// How the server's certificate is checked, and ours shown.
    pub tls: Tls,
    /// The largest message that it may send.
    pub max_message_bytes: usize,
    /// How long a TCP connection may take.
    pub connect_timeout: Duration,
    /// What must not be seen in anything that it answers with.
    pub secrets: Secrets,
    /// Who gives each request its `Authorization`, where that is not one of the headers.
    pub authorize: Option<Authorizer>,
}

impl RemoteSite {
    /// The address as messages may show it.
    pub fn shown(&self) -> String {
        without_secrets(&self.url)
    }
}

/// How certificates are checked and shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// The server's certificate is checked.
    pub verify: bool,
    /// A PEM file of authorities to trust beside the system's.
    pub ca: Option<PathBuf>,
    /// A PEM file with our certificate, for servers that want one.
    pub client_certificate: Option<PathBuf>,
    /// A PEM file with the key of our certificate; `None` where the certificate's file has it.
    pub client_key: Option<PathBuf>,
}

impl Default for Tls {
    fn default() -> Self {
        Tls { verify: true, ca: None, client_certificate: None, client_key: None }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Stdio(program) => program.fmt(f),
            Endpoint::Http(site) => write!(f, "Http {site:?}"),
            Endpoint::Sse(site) => write!(f, "Sse {site:?}"),
            Endpoint::WebSocket(site) => write!(f, "WebSocket {site:?}"),
            Endpoint::Custom(_) => f.write_str("Custom"),
        }
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let env: Vec<_> = self.env.keys().collect();
        f.debug_struct("Program")
            .field("command", &self.command)
            .field("args", &self.args.len())
            .field("env", &env)
            .finish_non_exhaustive()
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

/// The address without login, query and fragment. It need not be a valid one, so it is not parsed.
fn without_secrets(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    // A login may hold any of the characters that end a host, so all up to the last `@` of the text may be one.
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
        let shown = format!("{:?}", Endpoint::WebSocket(site));
        assert!(shown.contains("ws://a.example/x") && shown.contains("Authorization"), "{shown}");
        assert!(!shown.contains("s3cret"), "{shown}");
    }
}
