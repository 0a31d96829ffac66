//! WebSocket: one connection, each message a text frame.

mod socket;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::SplitStream;
use reqwest::Upgraded;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message};
use tracing::{debug, warn};

use super::connection::{BoxFuture, Delivery, Outgoing, Receive, Transport};
use super::receiver::{ClosableReceiver, ConnectionTasks};
use crate::failure::{Failure, RequestError};
use crate::web::body;
use crate::web::site::RemoteSite;
use socket::Sink;

/// Connects and performs the handshake.
pub(super) async fn open(site: &RemoteSite, receiver: Arc<dyn Receive>) -> Result<Arc<dyn Transport>, RequestError> {
    open_with(site, receiver, Heartbeat { ping: Duration::from_secs(30), silence: Duration::from_secs(90) }).await
}

/// How a connection is kept alive.
#[derive(Debug, Clone, Copy)]
struct Heartbeat {
    /// The interval of pings.
    ping: Duration,
    /// How long the server may be completely silent.
    silence: Duration,
}

async fn open_with(
    site: &RemoteSite,
    receiver: Arc<dyn Receive>,
    pulse: Heartbeat,
) -> Result<Arc<dyn Transport>, RequestError> {
    let socket = socket::connect(site).await?;
    let (sink, stream) = socket.split();
    let receiver = Arc::new(ClosableReceiver::new(receiver));
    let close_requested = Arc::new(Notify::new());
    let (queue, waiting) = mpsc::channel(QUEUE);
    let tasks = ConnectionTasks::default();
    tasks.spawn(write(sink, waiting, receiver.clone(), close_requested.clone(), pulse.ping));
    let reader = Reader { stream, receiver: receiver.clone(), max: site.max_message_bytes, silence: pulse.silence };
    tasks.spawn(reader.run());
    let room = Arc::new(Semaphore::new(MOST_WAITING));
    Ok(Arc::new(WebSocket { queue, room, receiver, close_requested, tasks }))
}

struct WebSocket {
    queue: mpsc::Sender<QueuedMessage>,
    /// One permit for each byte that may wait in the queue.
    room: Arc<Semaphore>,
    receiver: Arc<ClosableReceiver>,
    close_requested: Arc<Notify>,
    /// The reader and the writer.
    tasks: ConnectionTasks,
}

/// A message that waits to be written.
struct QueuedMessage {
    text: String,
    _room: Option<OwnedSemaphorePermit>,
    /// Whether the writer has started on it.
    begun: Arc<AtomicBool>,
    written: oneshot::Sender<Result<(), RequestError>>,
}

impl WebSocket {
    async fn write(&self, text: String) -> Result<Delivery, RequestError> {
        self.receiver.check_open()?;
        let (written, outcome) = oneshot::channel();
        let begun = Arc::new(AtomicBool::new(false));
        let unsent = || self.receiver.check_open().err().unwrap_or(RequestError::unsent(Failure::Closed));
        // A message longer than the whole queue takes all of it; the semaphore is never closed.
        let permits = text.len().min(MOST_WAITING) as u32;
        let room = Arc::clone(&self.room).acquire_many_owned(permits).await.ok();
        let waiting = QueuedMessage { text, _room: room, begun: Arc::clone(&begun), written };
        self.queue.send(waiting).await.map_err(|_| unsent())?;
        // A writer that ends drops the messages it has not started; one that is aborted also drops the one it is
        // writing.
        outcome.await.map_err(|_| RequestError { sent: begun.load(Ordering::Relaxed), ..unsent() })??;
        Ok(Delivery::Written)
    }
}

impl Transport for WebSocket {
    fn send(&self, message: Outgoing) -> BoxFuture<'_, Result<Delivery, RequestError>> {
        Box::pin(self.write(message.text))
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            if self.receiver.check_open().is_ok() {
                self.close_requested.notify_one();
                // The reader ends the connection when the server has answered the close frame.
                let _ = tokio::time::timeout(GOODBYE, self.receiver.ended()).await;
            }
            self.tasks.shutdown().await;
            self.receiver.close(Failure::Closed);
        })
    }
}

/// Writes whole messages, so that a caller that goes away cannot tear one.
async fn write(
    mut sink: Sink,
    mut waiting: mpsc::Receiver<QueuedMessage>,
    ending: Arc<ClosableReceiver>,
    farewell: Arc<Notify>,
    ping: Duration,
) {
    let mut pings = tokio::time::interval_at(Instant::now() + ping, ping);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            frame = waiting.recv() => {
                let Some(QueuedMessage { text, _room, begun, written }) = frame else { return };
                // The sender gave up before writing began, so the message is not sent.
                if written.is_closed() {
                    continue;
                }
                begun.store(true, Ordering::Relaxed);
                let sent = socket::send(&mut sink, text).await;
                let broken = sent.as_ref().err().map(reason);
                // The sender may have given up meanwhile.
                let _ = written.send(sent.map_err(|error| RequestError { sent: was_begun(&error), failure: reason(&error) }));
                if let Some(why) = broken {
                    return ending.close(why);
                }
            }
            _ = pings.tick() => {
                if let Err(error) = socket::send_one(&mut sink, Message::Ping(Default::default())).await {
                    return ending.close(reason(&error));
                }
            }
            () = farewell.notified() => {
                let frame = CloseFrame { code: CloseCode::Normal, reason: Default::default() };
                if let Err(error) = socket::send_one(&mut sink, Message::Close(Some(frame))).await {
                    debug!(%error, "the connection ended before the close frame");
                }
                return;
            }
        }
    }
}

struct Reader {
    stream: SplitStream<WebSocketStream<Upgraded>>,
    receiver: Arc<ClosableReceiver>,
    max: usize,
    silence: Duration,
}

impl Reader {
    /// Reads to the end.
    async fn run(mut self) {
        let why = self.read().await;
        self.receiver.close(why);
        // This sends our answer to a close frame; how the server then disconnects does not matter.
        let rest = async { while let Some(Ok(_)) = self.stream.next().await {} };
        let _ = tokio::time::timeout(GOODBYE, rest).await;
    }

    async fn read(&mut self) -> Failure {
        loop {
            let Ok(next) = tokio::time::timeout(self.silence, self.stream.next()).await else {
                warn!("received nothing for {:?}, not even a pong; closing the connection", self.silence);
                return Failure::Closed;
            };
            match next {
                Some(Ok(Message::Text(text))) => self.receiver.receive(text.as_str().to_owned().into(), None),
                Some(Ok(Message::Binary(bytes))) => match String::from_utf8(bytes.into()) {
                    Ok(text) => self.receiver.receive(text.into(), None),
                    Err(_) => warn!("a binary frame that is no text was skipped"),
                },
                Some(Ok(Message::Close(frame))) => return close_failure(frame),
                // Tungstenite answers pings itself; if several do not fit into its buffer, it answers the last.
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                Some(Err(Error::Capacity(_))) => return body::too_large("a message", self.max).failure,
                Some(Err(error)) => return reason(&error),
                None => return Failure::Closed,
            }
        }
    }
}

/// Converts the server's close frame to the reason of the end.
fn close_failure(frame: Option<CloseFrame>) -> Failure {
    let Some(CloseFrame { code, reason }) = frame else { return Failure::Closed };
    let words = if reason.is_empty() { String::new() } else { format!(": {}", body::excerpt(&reason)) };
    debug!("the server closed the WebSocket with code {code}{words}");
    match code {
        // It is done, going away, restarting or busy, which is no error.
        CloseCode::Normal | CloseCode::Away | CloseCode::Status | CloseCode::Restart | CloseCode::Again => {
            Failure::Closed
        }
        // It failed like a process that dies; requests may be repeated where that is safe.
        CloseCode::Error => {
            warn!("the server closed the WebSocket with code {code}{words}");
            Failure::Closed
        }
        _ => Failure::Protocol(format!("it closed the WebSocket with code {code}{words}")),
    }
}

fn reason(error: &Error) -> Failure {
    match error {
        // A connection that breaks, or is already closing, is no protocol violation.
        Error::Protocol(ProtocolError::ResetWithoutClosingHandshake | ProtocolError::SendAfterClosing) => {
            Failure::Closed
        }
        Error::Protocol(_) | Error::Utf8(_) | Error::AttackAttempt => Failure::Protocol(error.to_string()),
        _ => Failure::Closed,
    }
}

/// Reports whether part of a message may have been written before this error.
fn was_begun(error: &Error) -> bool {
    let closing = matches!(error, Error::Protocol(ProtocolError::SendAfterClosing));
    !closing && !matches!(error, Error::ConnectionClosed | Error::AlreadyClosed)
}

const QUEUE: usize = 64;
/// How many bytes of messages may wait to be written.
const MOST_WAITING: usize = 16 << 20;
const GOODBYE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests;
