//! The HTTP server of the gateway: MCP over Streamable HTTP at `/mcp`, for clients of both eras, and other pages.
//!
//! After the checks in `routing` (host, origin, token, rate), a request is handled as a POST, a stream or a page. The
//! connection's own task polls the client handler, without spawning another one; only a call that loses its connection
//! continues in a task of its session.

mod body;
mod channel;
mod connection;
mod connections;
mod content;
mod control;
mod hosts;
mod load;
mod mcp_headers;
mod media;
mod options;
mod pages;
mod pending_response;
mod post;
mod rate;
mod refusal;
mod routing;
mod session;
mod sessions;
mod single_headers;
mod streams;
#[cfg(test)]
mod tests;
mod timer;
mod tls;
mod tokens;
mod usage;
mod widening;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
#[cfg(unix)]
use tokio::net::UnixListener;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tracing::{error, info, warn};

use super::client::{ClientFactory, Principal};
use crate::spin_wait::SpinWait;
use connection::AcceptedStream;
pub use control::{AppliedChange, HttpControl, PreparedChange};
use control::{CurrentRules, HttpRules};
use hosts::AllowedHosts;
pub(super) use load::RequestSlot;
pub use load::{LoadLimiter, LoadStats};
pub use options::{CertificateFiles, GatewayLimits, HttpOptions, RateLimit};
pub use pages::{PageBody, PageEvent, PageHandler, PageRequest, PageResponse};
use rate::RateLimiter;
pub(super) use refusal::HttpRefusal;
use routing::HttpState;
use sessions::HttpSessions;
use timer::ConnectionTimer;
use tls::Certificate;
use tokens::Authenticator;
pub use tokens::Tokens;

/// An HTTP server that is bound to its address and accepts connections once `serve` is called.
pub struct HttpServer {
    listener: Listener,
    address: SocketAddr,
    rules: Arc<CurrentRules>,
    sessions: Arc<HttpSessions>,
    certificate: Option<Arc<Certificate>>,
    load: Arc<LoadLimiter>,
    control: HttpControl,
}

impl HttpServer {
    /// Binds the address; one that other machines can reach needs tokens.
    pub async fn bind(options: HttpOptions) -> Result<Self, HttpServerError> {
        let address = options.address;
        if options.tokens.is_empty() && !address.ip().to_canonical().is_loopback() {
            return Err(HttpServerError::Unprotected { address });
        }
        let hosts = AllowedHosts::parse(&options.hosts)?;
        let certificate = options.tls.clone().map(Certificate::open).transpose()?;
        let listener =
            TcpListener::bind(address).await.map_err(|source| HttpServerError::Address { address, source })?;
        let address = listener.local_addr().map_err(|source| HttpServerError::Address { address, source })?;
        let authenticator = Authenticator::new(options.tokens.clone(), options.dashboard.clone(), Principal::anybody());
        Ok(Self::new(Listener::Tcp(listener), address, hosts, certificate, authenticator, options))
    }

    /// Creates a server for a Unix socket; anyone who can open the socket is the local admin, so keep it private.
    #[cfg(unix)]
    pub fn at_socket(listener: UnixListener, limits: GatewayLimits) -> Self {
        let address = connection::HERE;
        let options = HttpOptions { limits, ..HttpOptions::new(address) };
        let authenticator = Authenticator::new(Tokens::default(), Tokens::default(), Principal::local());
        Self::new(Listener::Unix(listener), address, AllowedHosts::default(), None, authenticator, options)
    }

    fn new(
        listener: Listener,
        address: SocketAddr,
        hosts: AllowedHosts,
        certificate: Option<Arc<Certificate>>,
        authenticator: Authenticator,
        options: HttpOptions,
    ) -> Self {
        let limiter = Arc::new(LoadLimiter::new(&options.limits));
        limiter.set(&options.limits, authenticator.has_several_principals());
        let rules = CurrentRules::new(HttpRules {
            limits: options.limits.clone(),
            hosts,
            authenticator,
            rate_limiter: options.rate.map(|rate| Arc::new(RateLimiter::new(rate))),
        });
        let sessions = HttpSessions::new(rules.clone(), limiter.clone());
        let control =
            HttpControl::new(address, rules.clone(), limiter.clone(), sessions.clone(), certificate.clone(), options);
        HttpServer { listener, address, rules, sessions, certificate, load: limiter, control }
    }

    /// Returns the bound address, with the actual port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns a handle that changes the server while it runs.
    pub fn control(&self) -> HttpControl {
        self.control.clone()
    }

    /// Returns the load limiter, whose counters show what the server handles and refuses.
    pub fn load(&self) -> Arc<LoadLimiter> {
        self.load.clone()
    }

    /// Serves clients until `stop`, then lets requests finish for a while, cancels the rest and closes every session.
    pub async fn serve(
        self,
        factory: Arc<dyn ClientFactory>,
        pages: Arc<dyn PageHandler>,
        stop: impl Future<Output = ()>,
    ) {
        let (stopping, stopped) = watch::channel(false);
        let sessions = self.sessions;
        let state = Arc::new(HttpState {
            client_factory: factory,
            pages,
            load: self.load,
            sessions: sessions.clone(),
            rules: self.rules,
            stopping: stopped,
            spin_wait: Arc::new(SpinWait::for_requests()),
        });
        // Dropped, and so stopped, when this function ends.
        let mut watch = JoinSet::new();
        let keeper = state.clone();
        watch.spawn(async move { keeper.spin_wait.run().await });
        let mut connections = JoinSet::new();
        accept(&self.listener, &state, self.certificate, &mut connections, stop).await;
        drop(self.listener);
        stopping.send_replace(true);
        state.client_factory.stateless_clients().iter().for_each(|client| client.end_subscriptions());
        if !wait_all(&mut connections, state.rules().limits.grace).await {
            info!(connections = connections.len(), "the grace period is over: cancelling the remaining requests");
            // Each request gets its response before its connection closes.
            sessions.cancel_all();
            state.client_factory.stateless_clients().iter().for_each(|client| client.cancel());
            wait_all(&mut connections, FAREWELL).await;
            connections.shutdown().await;
        }
        sessions.end_all().await;
    }
}

/// The reason why a server cannot start or change.
#[derive(Debug, thiserror::Error)]
pub enum HttpServerError {
    /// The address cannot be bound.
    #[error("cannot listen on {address}")]
    Address {
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// Other machines could connect without a token.
    #[error("others can reach {address}, so clients need tokens: add gateway.tokens, or listen on 127.0.0.1 or [::1]")]
    Unprotected {
        /// The address.
        address: SocketAddr,
    },
    /// A certificate or its key cannot be used.
    #[error("cannot use {path:?} for TLS")]
    Certificate {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// An entry of the allowed hosts is not a valid host or origin.
    #[error(
        "the allowed host {entry:?} is not valid: write `example.com`, `example.com:8443`, `https://example.com` or `*`"
    )]
    Host {
        /// The entry.
        entry: String,
    },
    /// A token cannot be sent in a header.
    #[error(
        "the token of {name:?} is empty or has characters that a header cannot carry: use visible ASCII without spaces"
    )]
    Token {
        /// The name of the token's principal.
        name: String,
    },
    /// The change would open a running server wider.
    #[error("it {how}; a running gateway is never opened wider: restart it if you want this")]
    Wider {
        /// What would be wider, as the predicate of a sentence whose subject is "it".
        how: String,
    },
}

/// The socket that accepts connections.
enum Listener {
    Tcp(TcpListener),
    #[cfg(unix)]
    Unix(UnixListener),
}

impl Listener {
    async fn accept(&self) -> io::Result<AcceptedStream> {
        match self {
            Listener::Tcp(listener) => listener.accept().await.map(|(stream, peer)| AcceptedStream::Tcp(stream, peer)),
            #[cfg(unix)]
            Listener::Unix(listener) => listener.accept().await.map(|(stream, _)| AcceptedStream::Unix(stream)),
        }
    }
}

async fn accept(
    listener: &Listener,
    state: &Arc<HttpState>,
    certificate: Option<Arc<Certificate>>,
    connections: &mut JoinSet<()>,
    stop: impl Future<Output = ()>,
) {
    let mut stop = pin!(stop);
    let mut sweep = interval(state.sessions.sweep_interval());
    sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let guest = tokio::select! {
            biased;
            () = &mut stop => return,
            _ = sweep.tick() => {
                state.sessions.sweep();
                continue;
            }
            Some(ended) = connections.join_next() => {
                log_panic(ended);
                continue;
            }
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    warn!(%error, "cannot accept a connection");
                    // If too many files are open, only time helps.
                    sleep(BREATH).await;
                    continue;
                }
            },
        };
        let timer = ConnectionTimer::new(&state.rules().limits);
        if let Some(entered) = state.load.connections.admit(guest.peer().ip().to_canonical(), timer.clone()) {
            let place = entered.connection.clone();
            let serve = connection::serve(state.clone(), certificate.clone(), entered, timer, guest);
            place.set_task(connections.spawn(serve));
        }
    }
}

/// Waits up to `limit` for all connections, and returns whether all have ended.
async fn wait_all(connections: &mut JoinSet<()>, limit: Duration) -> bool {
    let all = async {
        while let Some(ended) = connections.join_next().await {
            log_panic(ended);
        }
    };
    timeout(limit, all).await.is_ok()
}

fn log_panic(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        error!("a connection ended in a panic: this is a bug in toolgate");
    }
}

/// The time in which requests are cancelled and clients read the responses.
const FAREWELL: Duration = Duration::from_secs(2);
/// The pause after a connection that could not be accepted.
const BREATH: Duration = Duration::from_millis(50);
