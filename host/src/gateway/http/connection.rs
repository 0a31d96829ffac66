//! One connection, from its handshake to its end.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::sync::{Arc, Mutex};

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::debug;

use super::desk::{Desk, Visit};
use super::hosts::Arrival;
use super::pace::{Pace, Paced, Verdict};
use super::places::Entered;
use super::tls::Certificate;

/// Who has come in, and from where.
pub(super) enum Guest {
    /// Over the network.
    Tcp(TcpStream, SocketAddr),
    /// Over a socket of this machine.
    #[cfg(unix)]
    Unix(UnixStream),
}

impl Guest {
    /// Where it comes from.
    pub(super) fn peer(&self) -> SocketAddr {
        match self {
            Guest::Tcp(_, peer) => *peer,
            #[cfg(unix)]
            Guest::Unix(_) => HERE,
        }
    }
}

/// Serves a connection until either side has enough.
pub(super) async fn serve(
    desk: Arc<Desk>,
    certificate: Option<Arc<Certificate>>,
    entered: Entered,
    pace: Arc<Pace>,
    guest: Guest,
) {
    let (stream, peer) = match guest {
        Guest::Tcp(stream, peer) => (stream, peer),
        #[cfg(unix)]
        Guest::Unix(stream) => {
            let at = Arrival { peer: HERE, local: HERE, tls: false };
            return run(desk, entered, pace, stream, at).await;
        }
    };
    if let Err(error) = stream.set_nodelay(true) {
        debug!(%peer, %error, "small writes will be late");
    }
    let Ok(local) = stream.local_addr() else { return };
    let Some(certificate) = certificate else {
        return run(desk, entered, pace, stream, Arrival { peer, local, tls: false }).await;
    };
    match timeout(desk.rules().limits.handshake_timeout, certificate.acceptor().accept(stream)).await {
        Ok(Ok(stream)) => run(desk, entered, pace, stream, Arrival { peer, local, tls: true }).await,
        Ok(Err(error)) => debug!(%peer, %error, "the handshake failed"),
        Err(_) => debug!(%peer, "the handshake took too long"),
    }
}

/// Serves the requests of a connection.
pub(super) async fn run<T>(desk: Arc<Desk>, entered: Entered, pace: Arc<Pace>, io: T, at: Arrival)
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (rules, peer) = (desk.rules(), at.peer);
    let mut stopping = desk.stopping.clone();
    let mut builder = http1::Builder::new();
    // The clock of the connection knows more than a limit for heads.
    builder.header_read_timeout(None).max_buf_size(rules.limits.max_header_bytes.max(8 << 10));
    let visit = Arc::new(Visit {
        desk,
        pace: pace.clone(),
        at: at.canonical(),
        host: Mutex::default(),
        place: entered.connection.clone(),
    });
    let service = service_fn(|request| visit.clone().answer(request));
    let io = TokioIo::new(Paced { io, pace: pace.clone() });
    let mut connection = pin!(builder.serve_connection(io, service));
    let mut clock = pin!(sleep_until(Instant::now()));
    let mut stopped = false;
    loop {
        tokio::select! {
            biased;
            result = connection.as_mut() => {
                if let Err(error) = result {
                    debug!(%peer, %error, "the connection broke");
                }
                return;
            }
            _ = stopping.wait_for(|stopping| *stopping), if !stopped => {
                stopped = true;
                connection.as_mut().graceful_shutdown();
            }
            () = clock.as_mut() => match pace.check(Instant::now()) {
                Verdict::Fine(next) | Verdict::Late(next) => clock.as_mut().reset(next),
                Verdict::Close(reason) => {
                    debug!(%peer, reason, "the connection is closed");
                    return;
                }
            },
        }
    }
}

/// What connections over a socket of this machine count as: no page of a browser reaches one, so `localhost` names it.
pub(super) const HERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
