//! Serves one connection, from its handshake to its end.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use http::header::CONNECTION;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Instant, sleep_until, timeout};
use tracing::debug;

use super::connections::ConnectionGuard;
use super::context::{ConnectionContext, HttpState, ServerPhase};
use super::hosts::ConnectionInfo;
use super::timer::{ConnectionTimer, TimedStream};

/// An accepted connection.
pub(super) enum AcceptedStream {
    /// Over the network.
    Tcp(TcpStream, SocketAddr),
    /// Over a Unix socket.
    Unix(UnixStream),
}

impl AcceptedStream {
    /// Returns the address of the peer.
    pub(super) fn peer(&self) -> SocketAddr {
        match self {
            AcceptedStream::Tcp(_, peer) => *peer,
            AcceptedStream::Unix(_) => HERE,
        }
    }
}

/// Serves a connection until either side closes it.
pub(super) async fn serve(
    state: Arc<HttpState>,
    entered: ConnectionGuard,
    timer: Arc<ConnectionTimer>,
    guest: AcceptedStream,
) {
    let (stream, peer) = match guest {
        AcceptedStream::Tcp(stream, peer) => (stream, peer),
        AcceptedStream::Unix(stream) => {
            let at = ConnectionInfo { peer: HERE, local: HERE, tls: false };
            return run(state, entered, timer, stream, at).await;
        }
    };
    if let Err(error) = stream.set_nodelay(true) {
        debug!(%peer, %error, "cannot set TCP_NODELAY; small writes may be delayed");
    }
    let Ok(local) = stream.local_addr() else { return };
    let Some(certificate) = state.parts.certificate.clone() else {
        return run(state, entered, timer, stream, ConnectionInfo { peer, local, tls: false }).await;
    };
    match timeout(state.rules().limits.timeouts.handshake, certificate.acceptor().accept(stream)).await {
        Ok(Ok(stream)) => run(state, entered, timer, stream, ConnectionInfo { peer, local, tls: true }).await,
        Ok(Err(error)) => debug!(%peer, %error, "TLS handshake failed"),
        Err(_) => debug!(%peer, "TLS handshake timed out"),
    }
}

/// Serves the requests of a connection.
pub(super) async fn run<T>(
    state: Arc<HttpState>,
    entered: ConnectionGuard,
    timer: Arc<ConnectionTimer>,
    io: T,
    info: ConnectionInfo,
) where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (rules, peer, opened) = (state.rules(), info.peer, Instant::now());
    let mut phase = state.phase.clone();
    let mut builder = http1::Builder::new();
    // `ConnectionTimer` limits the head and every other phase.
    builder.header_read_timeout(None).max_buf_size(rules.limits.max_header_bytes.max(8 << 10));
    let connection = Arc::new(ConnectionContext {
        state,
        timer: timer.clone(),
        info: info.canonical(),
        connection: entered.connection.clone(),
    });
    let service = service_fn(|request| {
        let connection = connection.clone();
        async move {
            let mut response = connection.clone().answer(request).await?;
            if connection.state.is_draining() {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, Infallible>(response)
        }
    });
    let io = TokioIo::new(TimedStream { io, timer: timer.clone() });
    let mut connection = pin!(builder.serve_connection(io, service));
    let mut clock = pin!(sleep_until(Instant::now()));
    let mut stopped = false;
    loop {
        tokio::select! {
            biased;
            result = connection.as_mut() => {
                if let Err(error) = result {
                    debug!(%peer, %error, "the connection failed");
                }
                return;
            }
            _ = phase.wait_for(|phase| *phase == ServerPhase::Stopping), if !stopped => {
                stopped = true;
                if timer.is_new() {
                    // The first request may be on its way.
                    clock.as_mut().reset(opened + FIRST_REQUEST);
                } else if !timer.is_in_head() {
                    connection.as_mut().graceful_shutdown();
                }
                // Otherwise a request has begun, and its response will close the connection.
            }
            () = clock.as_mut() => {
                let now = Instant::now();
                let is_unused = stopped && timer.is_new() && now >= opened + FIRST_REQUEST;
                match if is_unused { Err("the gateway is stopping") } else { timer.check(now) } {
                    Ok(next) => clock.as_mut().reset(next),
                    Err(reason) => {
                        debug!(%peer, reason, "closing the connection");
                        return;
                    }
                }
            }
        }
    }
}

/// How long a new connection has for its first request when the gateway stops.
const FIRST_REQUEST: Duration = Duration::from_secs(1);
/// The address that stands for Unix sockets; browsers cannot reach one, so the host `localhost` is allowed.
pub(super) const HERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
