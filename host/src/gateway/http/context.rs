//! The state that the requests of a server and of one connection share.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use http::StatusCode;
use tokio::sync::watch;

use super::client_key::ClientKey;
use super::connections::{ConnectionTable, StreamingGuard, TrackedConnection};
use super::hosts::{AllowedHosts, ConnectionInfo};
use super::options::HttpOptions;
use super::page_handler::PageHandler;
use super::rate::RateLimiter;
use super::rules::{CurrentRules, HttpRules};
use super::sessions::HttpSessions;
use super::timer::ConnectionTimer;
use super::tls::Certificate;
use super::tokens::{Authenticator, TokenDigest};
use crate::config::model::StoreFailurePolicy;
use crate::gateway::client::{ClientFactory, Principal};
use crate::gateway::load::{LoadLimiter, RefusalReason};
use crate::gateway::refusal::RequestRefusal;
use crate::spin_wait::SpinWait;
use crate::store::UNREACHABLE;
use crate::transport::BoxFuture;

/// The parts of an HTTP server.
pub(super) struct ServerParts {
    /// The bound address.
    pub(super) address: SocketAddr,
    pub(super) rules: Arc<CurrentRules>,
    pub(super) load: Arc<LoadLimiter>,
    pub(super) connections: Arc<ConnectionTable>,
    pub(super) sessions: Arc<HttpSessions>,
    pub(super) certificate: Option<Arc<Certificate>>,
    /// The options of the last change.
    pub(super) requested: Mutex<HttpOptions>,
}

impl ServerParts {
    pub(super) fn new(
        address: SocketAddr,
        hosts: AllowedHosts,
        certificate: Option<Arc<Certificate>>,
        authenticator: Authenticator,
        options: HttpOptions,
    ) -> Arc<Self> {
        let several = authenticator.has_several_principals();
        let limits = options.limits.clone();
        let load = LoadLimiter::new(&limits, several);
        let connections = ConnectionTable::new(load.clone(), limits.max_connections, several);
        let rate_limiter = options.rate.map(|rate| Arc::new(RateLimiter::new(rate, options.store.clone())));
        let on_store_failure = options.on_store_failure;
        let rules = CurrentRules::new(HttpRules { limits, hosts, authenticator, rate_limiter, on_store_failure });
        let sessions = HttpSessions::new(rules.clone(), load.clone());
        let requested = Mutex::new(options);
        Arc::new(ServerParts { address, rules, load, connections, sessions, certificate, requested })
    }
}

/// How far a server is on its way from serving to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ServerPhase {
    /// It serves.
    Serving,
    /// It still serves, and each response closes its connection.
    Draining,
    /// It takes no more connections, and ends when its requests have ended.
    Stopping,
}

/// The state that all connections of an HTTP server share.
pub(super) struct HttpState {
    pub(super) parts: Arc<ServerParts>,
    pub(super) client_factory: Arc<dyn ClientFactory>,
    pub(super) pages: Arc<dyn PageHandler>,
    pub(super) phase: watch::Receiver<ServerPhase>,
    pub(super) spin_wait: Arc<SpinWait>,
}

impl HttpState {
    /// Returns the rules in force.
    pub(super) fn rules(&self) -> Arc<HttpRules> {
        self.parts.rules.get()
    }

    /// Returns the client of a request: its principal or, without tokens, its address.
    pub(super) fn client_key(&self, principal: Option<&Arc<Principal>>, peer: IpAddr) -> ClientKey {
        match principal {
            Some(principal) if !self.rules().authenticator.allows_anonymous() => {
                ClientKey::Principal(principal.clone())
            }
            _ => ClientKey::Peer(peer),
        }
    }

    /// Refuses a request beyond the rate limit of its client, or one that cannot be counted.
    pub(super) async fn check_rate(
        &self,
        principal: Option<&Arc<Principal>>,
        peer: IpAddr,
        on_store_failure: StoreFailurePolicy,
    ) -> Result<(), RequestRefusal> {
        let rules = self.rules();
        let Some(limiter) = &rules.rate_limiter else { return Ok(()) };
        let refusal = match limiter.take(self.client_key(principal, peer), on_store_failure).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(wait)) => {
                let why = "rate limit exceeded: wait as long as Retry-After says";
                RequestRefusal::new(StatusCode::TOO_MANY_REQUESTS, why).retry_after(wait)
            }
            Err(_) => RequestRefusal::busy(UNREACHABLE),
        };
        self.parts.load.count_refusal(RefusalReason::Rate);
        Err(refusal)
    }

    /// Reports whether each response closes its connection, because the server is about to stop.
    pub(super) fn is_draining(&self) -> bool {
        *self.phase.borrow() != ServerPhase::Serving
    }

    /// Waits until the server is told to stop.
    pub(super) fn stopped(&self) -> BoxFuture<'static, ()> {
        let mut phase = self.phase.clone();
        Box::pin(async move {
            // A dropped server has stopped too.
            let _ = phase.wait_for(|phase| *phase == ServerPhase::Stopping).await;
        })
    }

    /// Waits until the server is told to stop or the principal's token is revoked.
    pub(super) fn until_revoked(
        &self,
        pass: TokenDigest,
        principal: Option<&Arc<Principal>>,
    ) -> BoxFuture<'static, ()> {
        let stopped = self.stopped();
        let Some(principal) = principal.cloned() else { return stopped };
        let gone = self.parts.rules.clone().wait_revoked(pass, principal);
        Box::pin(async move {
            tokio::select! {
                () = stopped => {}
                () = gone => {}
            }
        })
    }
}

/// The connection of a request.
pub(super) struct ConnectionContext {
    pub(super) state: Arc<HttpState>,
    pub(super) timer: Arc<ConnectionTimer>,
    pub(super) info: ConnectionInfo,
    /// The connection's entry in the table.
    pub(super) connection: Arc<TrackedConnection>,
}

impl ConnectionContext {
    /// Marks the connection as one that only streams events.
    pub(super) fn mark_streaming(&self) -> Result<StreamingGuard, RequestRefusal> {
        let full = "too many connections are event streams: close one, or try again later";
        self.state.parts.connections.mark_streaming(&self.connection).map_err(|_| RequestRefusal::busy(full))
    }
}
