//! The HTTP door of the gateway: MCP over Streamable HTTP at `/mcp`, for clients of both eras, and pages beside it.
//!
//! A request passes the desk (host, origin, token, rate), and is then a post, a stream or a page. The client
//! behind the door is polled where the request is read, without a task of its own; only a call whose connection is
//! cut goes on in its session.

mod body;
mod call;
mod channel;
mod connection;
mod content;
mod control;
mod desk;
mod hosts;
mod load;
mod media;
mod message;
mod opening;
mod options;
mod pace;
mod pages;
mod places;
mod post;
mod rate;
mod refusal;
mod session;
mod sessions;
mod shares;
mod single;
mod streams;
#[cfg(test)]
mod tests;
mod tls;
mod tokens;

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

use super::client::{House, Principal};
use crate::vigil::Vigil;
use connection::Guest;
pub use control::{Applied, Control, Prepared};
use control::{Current, Rules};
use desk::Desk;
use hosts::Hosts;
pub(super) use load::Slot;
pub use load::{DoorStats, Load};
pub(super) use message::{Message, NO_BATCH, is_batch};
pub use options::{Limits, Options, Rate, TlsFiles};
use pace::Pace;
pub use pages::{PageBody, PageEvent, PageRequest, PageResponse, Pages};
use rate::Buckets;
pub(super) use refusal::Refusal;
use sessions::Sessions;
use tls::Certificate;
use tokens::Doorkeeper;
pub use tokens::Tokens;

/// A door that listens, and lets nobody in before it is served.
pub struct Door {
    listener: Listener,
    address: SocketAddr,
    current: Arc<Current>,
    sessions: Arc<Sessions>,
    certificate: Option<Arc<Certificate>>,
    load: Arc<Load>,
    control: Control,
}

impl Door {
    /// Listens. An address that others can reach needs tokens.
    pub async fn bind(options: Options) -> Result<Self, DoorError> {
        let address = options.address;
        if options.tokens.is_empty() && !address.ip().to_canonical().is_loopback() {
            return Err(DoorError::Unprotected { address });
        }
        let hosts = Hosts::parse(&options.hosts)?;
        let certificate = options.tls.clone().map(Certificate::open).transpose()?;
        let listener = TcpListener::bind(address).await.map_err(|source| DoorError::Address { address, source })?;
        let address = listener.local_addr().map_err(|source| DoorError::Address { address, source })?;
        let keeper = Doorkeeper::new(options.tokens.clone(), options.dashboard.clone(), Principal::anybody());
        Ok(Self::new(Listener::Tcp(listener), address, hosts, certificate, keeper, options))
    }

    /// A door at a socket of this machine. Whoever may open the socket is the local admin, so it must be the user's own.
    #[cfg(unix)]
    pub fn at_socket(listener: UnixListener, limits: Limits) -> Self {
        let address = connection::HERE;
        let options = Options { limits, ..Options::new(address) };
        let keeper = Doorkeeper::new(Tokens::default(), Tokens::default(), Principal::local());
        Self::new(Listener::Unix(listener), address, Hosts::default(), None, keeper, options)
    }

    fn new(
        listener: Listener,
        address: SocketAddr,
        hosts: Hosts,
        certificate: Option<Arc<Certificate>>,
        keeper: Doorkeeper,
        options: Options,
    ) -> Self {
        let load = Arc::new(Load::new(&options.limits));
        load.set(&options.limits, keeper.knows_several());
        let current = Current::new(Rules {
            limits: options.limits.clone(),
            hosts,
            keeper,
            buckets: options.rate.map(|rate| Arc::new(Buckets::new(rate))),
        });
        let sessions = Sessions::new(current.clone(), load.clone());
        let control =
            Control::new(address, current.clone(), load.clone(), sessions.clone(), certificate.clone(), options);
        Door { listener, address, current, sessions, certificate, load, control }
    }

    /// Where it listens, with the port that it got.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes it while it is served.
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// What it carries and turns away, for whoever shows it.
    pub fn load(&self) -> Arc<Load> {
        self.load.clone()
    }

    /// Lets clients in until `stop`; then lets requests in flight finish for a while, cancels the rest, and closes every
    /// session.
    pub async fn serve(self, house: Arc<dyn House>, pages: Arc<dyn Pages>, stop: impl Future<Output = ()>) {
        let (stopping, stopped) = watch::channel(false);
        let sessions = self.sessions;
        let desk = Arc::new(Desk {
            house,
            pages,
            load: self.load,
            sessions: sessions.clone(),
            current: self.current,
            stopping: stopped,
            vigil: Arc::new(Vigil::for_requests()),
        });
        // Ends with what is served.
        let mut watch = JoinSet::new();
        let keeper = desk.clone();
        watch.spawn(async move { keeper.vigil.keep().await });
        let mut connections = JoinSet::new();
        accept(&self.listener, &desk, self.certificate, &mut connections, stop).await;
        drop(self.listener);
        stopping.send_replace(true);
        desk.house.all_stateless().iter().for_each(|client| client.end_news());
        if !finished(&mut connections, desk.rules().limits.grace).await {
            info!(connections = connections.len(), "the rest is cancelled: the time to finish is over");
            // Each gets its answer before its connection is closed.
            sessions.cancel_all();
            desk.house.all_stateless().iter().for_each(|client| client.cancel());
            finished(&mut connections, FAREWELL).await;
            connections.shutdown().await;
        }
        sessions.end_all().await;
    }
}

/// Why a door cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum DoorError {
    /// The address cannot be had.
    #[error("cannot listen on {address}")]
    Address {
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// Everybody could come in.
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
    /// An entry of the allowed hosts is none.
    #[error(
        "the allowed host {entry:?} is no name: write `example.com`, `example.com:8443`, `https://example.com` or `*`"
    )]
    Host {
        /// The entry.
        entry: String,
    },
    /// A token cannot be sent in a header.
    #[error("the token of {name:?} is empty or has letters that no header carries: use visible ASCII without spaces")]
    Token {
        /// Whose token it is.
        name: String,
    },
    /// The door is open, and would be opened wider.
    #[error("it {how}; a gateway that runs is never opened wider: restart it if that is meant")]
    Wider {
        /// What would be wider, as what follows "it".
        how: String,
    },
}

/// Where connections come from.
enum Listener {
    Tcp(TcpListener),
    #[cfg(unix)]
    Unix(UnixListener),
}

impl Listener {
    async fn accept(&self) -> io::Result<Guest> {
        match self {
            Listener::Tcp(listener) => listener.accept().await.map(|(stream, peer)| Guest::Tcp(stream, peer)),
            #[cfg(unix)]
            Listener::Unix(listener) => listener.accept().await.map(|(stream, _)| Guest::Unix(stream)),
        }
    }
}

async fn accept(
    listener: &Listener,
    desk: &Arc<Desk>,
    certificate: Option<Arc<Certificate>>,
    connections: &mut JoinSet<()>,
    stop: impl Future<Output = ()>,
) {
    let mut stop = pin!(stop);
    let mut sweep = interval(desk.sessions.sweep_interval());
    sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let guest = tokio::select! {
            biased;
            () = &mut stop => return,
            _ = sweep.tick() => {
                desk.sessions.sweep();
                continue;
            }
            Some(ended) = connections.join_next() => {
                tell(ended);
                continue;
            }
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    warn!(%error, "a connection could not be accepted");
                    // Too many open files pass only with time.
                    sleep(BREATH).await;
                    continue;
                }
            },
        };
        let pace = Pace::new(&desk.rules().limits);
        if let Some(entered) = desk.load.places.enter(guest.peer().ip().to_canonical(), pace.clone()) {
            let place = entered.connection.clone();
            let serve = connection::serve(desk.clone(), certificate.clone(), entered, pace, guest);
            place.served_by(connections.spawn(serve));
        }
    }
}

/// Waits for all connections, for at most so long; says whether all have ended.
async fn finished(connections: &mut JoinSet<()>, limit: Duration) -> bool {
    let all = async {
        while let Some(ended) = connections.join_next().await {
            tell(ended);
        }
    };
    timeout(limit, all).await.is_ok()
}

fn tell(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        error!("a connection ended in a panic: this is a mistake of ours");
    }
}

/// How long requests may take to be cancelled, and clients to read the answers.
const FAREWELL: Duration = Duration::from_secs(2);
/// How long to wait after a connection that could not be accepted.
const BREATH: Duration = Duration::from_millis(50);
