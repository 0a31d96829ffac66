//! The resolved endpoint of a server.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::connection::Connect;
use crate::config::secrets::Secrets;
pub use crate::web::site::{RemoteSite, Tls};

/// How to reach a server. Its `Debug` shows no arguments, variables, logins, queries or headers, which may be secrets.
#[derive(Clone)]
pub enum Endpoint {
    /// A subprocess, over its standard input and output.
    Stdio(Program),
    /// Streamable HTTP.
    Http(RemoteSite),
    /// HTTP with Server-Sent Events, the predecessor of Streamable HTTP.
    Sse(RemoteSite),
    /// WebSocket.
    WebSocket(RemoteSite),
    /// The embedder's own transport.
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
    /// Sets the secrets to hide in everything about the server.
    #[must_use]
    pub fn with_secrets(mut self, secrets: Secrets) -> Self {
        match &mut self {
            Endpoint::Stdio(program) => program.secrets = secrets,
            Endpoint::Http(site) | Endpoint::Sse(site) | Endpoint::WebSocket(site) => site.secrets = secrets,
            Endpoint::Custom(_) => {}
        }
        self
    }

    /// Returns the remote site, if it is one.
    pub fn site(&self) -> Option<&RemoteSite> {
        match self {
            Endpoint::Http(site) | Endpoint::Sse(site) | Endpoint::WebSocket(site) => Some(site),
            Endpoint::Stdio(_) | Endpoint::Custom(_) => None,
        }
    }

    /// Returns the remote site for changes, if it is one.
    pub fn site_mut(&mut self) -> Option<&mut RemoteSite> {
        match self {
            Endpoint::Http(site) | Endpoint::Sse(site) | Endpoint::WebSocket(site) => Some(site),
            Endpoint::Stdio(_) | Endpoint::Custom(_) => None,
        }
    }

    /// Returns the secrets to hide in errors and logs about this server.
    pub fn secrets(&self) -> Secrets {
        match self {
            Endpoint::Stdio(program) => program.secrets.clone(),
            _ => self.site().map(|site| site.secrets.clone()).unwrap_or_default(),
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
    /// The complete environment of the process.
    pub env: BTreeMap<String, String>,
    /// The working directory; `None` means ours.
    pub working_dir: Option<PathBuf>,
    /// The maximum length of a line that it may send.
    pub max_message_bytes: usize,
    /// How long it may take to exit after its input is closed, and again after SIGTERM.
    pub grace: Duration,
    /// Secrets to hide in everything that it writes.
    pub secrets: Secrets,
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
