//! The HTTP server of the gateway: MCP over Streamable HTTP at `/mcp`, for clients of both eras, and other pages.
//!
//! After the checks in `routing` (host, origin, token, rate), a request is handled as a POST, a stream or a page. The
//! connection's own task polls the client handler, without spawning another one; only a call that loses its connection
//! continues in a task of its session.

mod body;
mod channel;
mod client_key;
mod connection;
mod connections;
mod content;
mod context;
mod control;
mod ended_sessions;
mod error;
mod event_id;
mod header_checks;
mod hosts;
mod listener;
mod mcp_headers;
mod options;
mod page_handler;
mod pages;
pub(in crate::gateway) mod peers;
mod pending_response;
mod post;
mod rate;
mod routing;
mod rules;
mod session;
mod session_id;
mod sessions;

#[cfg(test)]
mod tests;
mod timer;
mod tls;
mod tokens;
mod widening;

use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tracing::{error, info, warn};

use super::client::{ClientFactory, Principal};
use super::limits::GatewayLimits;
use super::load::LoadLimiter;
use crate::spin_wait::SpinWait;
use connection::AcceptedStream;
use context::{HttpState, ServerParts, ServerPhase};
pub use control::{AppliedChange, HttpControl, PreparedChange};
pub use error::HttpServerError;
use hosts::AllowedHosts;
use listener::Listener;
pub use options::{CertificateFiles, HttpOptions, RateLimit};
pub use page_handler::{PageBody, PageEvent, PageHandler, PageRequest, PageResponse};
use timer::ConnectionTimer;
use tls::Certificate;
use tokens::Authenticator;
pub use tokens::Tokens;

/// An HTTP server that is bound to its address and accepts connections once `serve` is called.
pub struct HttpServer {
    listener: Listener,
    parts: Arc<ServerParts>,
}

impl HttpServer {
    /// Binds the address; one that other machines can reach needs tokens.
    pub async fn bind(options: HttpOptions) -> Result<Self, HttpServerError> {
        let (hosts, certificate) = read_options(&options)?;
        let address = options.address;
        let listener =
            TcpListener::bind(address).await.map_err(|source| HttpServerError::Address { address, source })?;
        let address = listener.local_addr().map_err(|source| HttpServerError::Address { address, source })?;
        let authenticator = Authenticator::new(options.tokens.clone(), options.dashboard.clone(), Principal::anybody());
        let parts = ServerParts::new(address, hosts, certificate, authenticator, options);
        Ok(HttpServer { listener: Listener::Tcp(listener), parts })
    }

    /// Fails where [`bind`](Self::bind) would refuse these options, without listening.
    pub fn check(options: &HttpOptions) -> Result<(), HttpServerError> {
        read_options(options).map(drop)
    }

    /// Creates a server for a Unix socket; anyone who can open the socket is the local admin, so keep it private.
    pub fn at_socket(listener: UnixListener, limits: GatewayLimits) -> Self {
        let address = connection::HERE;
        let options = HttpOptions { limits, ..HttpOptions::new(address) };
        let authenticator = Authenticator::new(Tokens::default(), Tokens::default(), Principal::local());
        let parts = ServerParts::new(address, AllowedHosts::default(), None, authenticator, options);
        HttpServer { listener: Listener::Unix(listener), parts }
    }

    /// Returns the bound address, with the actual port.
    pub fn address(&self) -> SocketAddr {
        self.parts.address
    }

    /// Returns a handle that changes the server while it runs.
    pub fn control(&self) -> HttpControl {
        HttpControl(self.parts.clone())
    }

    /// Returns the load limiter, whose counters show what the server handles and refuses.
    pub fn load(&self) -> Arc<LoadLimiter> {
        self.parts.load.clone()
    }

    /// Serves clients until `stop`, then lets requests finish for a while, cancels the rest and closes every session.
    pub async fn serve(
        self,
        factory: Arc<dyn ClientFactory>,
        pages: Arc<dyn PageHandler>,
        stop: impl Future<Output = ()>,
    ) {
        self.serve_with_drain(factory, pages, std::future::pending(), stop).await;
    }

    /// Serves clients as `serve` does. Between `drain` and `stop`, it still serves all of them, and each response closes
    /// its connection, so that clients and load balancers open the next one elsewhere.
    pub async fn serve_with_drain(
        self,
        factory: Arc<dyn ClientFactory>,
        pages: Arc<dyn PageHandler>,
        drain: impl Future<Output = ()>,
        stop: impl Future<Output = ()>,
    ) {
        let (phase, seen) = watch::channel(ServerPhase::Serving);
        let spin_wait = Arc::new(SpinWait::for_requests());
        let parts = self.parts;
        let state =
            Arc::new(HttpState { parts: parts.clone(), client_factory: factory, pages, phase: seen, spin_wait });
        // Dropped, and so stopped, when this function ends.
        let mut watch = JoinSet::new();
        let keeper = state.clone();
        watch.spawn(async move { match keeper.spin_wait.run().await {} });
        if let Listener::Tcp(_) = self.listener {
            watch.spawn(peers::listen(state.client_factory.replica().clone(), Some(state.clone())));
        }
        let mut connections = JoinSet::new();
        accept(&self.listener, &state, &mut connections, &phase, drain, stop).await;
        for guest in self.listener.close() {
            spawn(&state, &mut connections, guest);
        }
        // First, so that subscribers read the response before the end of their streams.
        state.client_factory.stateless_clients().iter().for_each(|client| client.end_subscriptions());
        phase.send_replace(ServerPhase::Stopping);
        let mut ended = wait_all(&mut connections, state.rules().limits.grace).await;
        if !ended {
            info!(connections = connections.len(), "the grace period is over: cancelling the remaining requests");
        }
        for _ in 0..FAREWELLS {
            if ended {
                break;
            }
            // Each request gets its response before its connection closes. One that begins meanwhile gets it in the
            // second round.
            parts.sessions.cancel_all();
            state.client_factory.stateless_clients().iter().for_each(|client| client.cancel());
            state.pages.cancel();
            ended = wait_all(&mut connections, FAREWELL).await;
        }
        connections.shutdown().await;
        parts.sessions.end_all().await;
    }
}

/// Reads the names and the certificate of a listener; one that other machines can reach needs tokens.
fn read_options(options: &HttpOptions) -> Result<(AllowedHosts, Option<Arc<Certificate>>), HttpServerError> {
    let address = options.address;
    if options.tokens.is_empty() && !address.ip().to_canonical().is_loopback() {
        return Err(HttpServerError::Unprotected { address });
    }
    let hosts = AllowedHosts::parse(&options.hosts)?;
    Ok((hosts, options.tls.clone().map(Certificate::open).transpose()?))
}

/// Accepts connections until `stop`.
async fn accept(
    listener: &Listener,
    state: &Arc<HttpState>,
    connections: &mut JoinSet<()>,
    phase: &watch::Sender<ServerPhase>,
    drain: impl Future<Output = ()>,
    stop: impl Future<Output = ()>,
) {
    let (mut drain, mut stop) = (pin!(drain), pin!(stop));
    let mut sweep = interval(state.parts.sessions.sweep_interval());
    sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let guest = tokio::select! {
            biased;
            () = &mut stop => return,
            () = &mut drain, if *phase.borrow() == ServerPhase::Serving => {
                phase.send_replace(ServerPhase::Draining);
                continue;
            }
            _ = sweep.tick() => {
                state.parts.sessions.sweep();
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
        spawn(state, connections, guest);
    }
}

/// Serves a connection in a task of its own, unless there are too many.
fn spawn(state: &Arc<HttpState>, connections: &mut JoinSet<()>, guest: AcceptedStream) {
    let timer = ConnectionTimer::new(&state.rules().limits.timeouts);
    if let Some(entered) = state.parts.connections.admit(guest.peer().ip().to_canonical(), timer.clone()) {
        let place = entered.connection.clone();
        let serve = connection::serve(state.clone(), entered, timer, guest);
        place.set_task(connections.spawn(serve));
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
const FAREWELL: Duration = Duration::from_secs(1);
/// How often requests are cancelled.
const FAREWELLS: usize = 2;
/// The pause after a connection that could not be accepted.
const BREATH: Duration = Duration::from_millis(50);
