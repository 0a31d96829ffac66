//! The socket that accepts connections, and what waits in it when it closes.

use std::io::{self, ErrorKind};

use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tracing::warn;

use super::connection::AcceptedStream;

/// The socket that accepts connections.
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    /// Waits for the next connection.
    pub(super) async fn accept(&self) -> io::Result<AcceptedStream> {
        match self {
            Listener::Tcp(listener) => listener.accept().await.map(|(stream, peer)| AcceptedStream::Tcp(stream, peer)),
            Listener::Unix(listener) => listener.accept().await.map(|(stream, _)| AcceptedStream::Unix(stream)),
        }
    }

    /// Closes the socket, and returns the connections that waited to be accepted, which the kernel would reset.
    pub(super) fn close(self) -> Vec<AcceptedStream> {
        // Asks the kernel itself, because tokio may not know yet that connections have come.
        let waiting = match self {
            Listener::Tcp(listener) => listener.into_std().map(|listener| {
                accept_waiting(|| {
                    let (stream, peer) = listener.accept()?;
                    stream.set_nonblocking(true)?;
                    Ok(AcceptedStream::Tcp(TcpStream::from_std(stream)?, peer))
                })
            }),
            Listener::Unix(listener) => listener.into_std().map(|listener| {
                accept_waiting(|| {
                    let (stream, _) = listener.accept()?;
                    stream.set_nonblocking(true)?;
                    Ok(AcceptedStream::Unix(UnixStream::from_std(stream)?))
                })
            }),
        };
        waiting.unwrap_or_else(|error| {
            warn!(%error, "connections that wait to be accepted are lost");
            Vec::new()
        })
    }
}

/// Accepts connections until none waits.
fn accept_waiting(mut accept: impl FnMut() -> io::Result<AcceptedStream>) -> Vec<AcceptedStream> {
    let mut accepted = Vec::new();
    // New ones may come as fast as they are accepted.
    for _ in 0..MOST_WAITING {
        match accept() {
            Ok(stream) => accepted.push(stream),
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            // This client is gone already.
            Err(error) if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted) => {}
            Err(error) => {
                warn!(%error, "connections that wait to be accepted are lost");
                break;
            }
        }
    }
    accepted
}

/// The most connections that are accepted when the socket closes: as many as tokio lets wait.
const MOST_WAITING: usize = 1024;
