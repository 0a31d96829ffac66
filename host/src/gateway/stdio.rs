//! MCP over standard input and output: one client, one message per line, under the same limits as HTTP.

mod input;
mod output;
pub mod standard;

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use super::bounds;
use super::client::{Admission, ClientFactory, ClientHandler, ClientMessage, ClientSink, Principal, draw_session_name};
use super::limits::{GatewayLimits, StreamLimits};
use super::load::{LoadLimiter, RequestSlot};
use super::refusal::RequestRefusal;
use crate::rpc::Message;
use crate::rpc::code::INVALID_REQUEST;
use crate::spin_wait::SpinWait;
use input::{ClientLines, LineRead};
use output::ClientOutput;

/// A server for one client on standard input and output.
pub struct StdioServer {
    control: StdioControl,
    grace: Duration,
}

/// A handle that changes a stdio server while it runs.
#[derive(Clone)]
pub struct StdioControl {
    load: Arc<LoadLimiter>,
    /// The longest message, in bytes.
    max_message_bytes: Arc<AtomicUsize>,
}

impl StdioControl {
    /// Sets new limits, except the grace period.
    pub fn set(&self, limits: &GatewayLimits) {
        self.max_message_bytes.store(limits.max_body_bytes, Ordering::Relaxed);
        self.load.set(&single_client_limits(limits), false);
    }
}

impl StdioServer {
    /// Creates a server with these limits.
    pub fn new(limits: &GatewayLimits) -> Self {
        let load = LoadLimiter::new(&single_client_limits(limits), false);
        let max_message_bytes = Arc::new(AtomicUsize::new(limits.max_body_bytes));
        StdioServer { control: StdioControl { load, max_message_bytes }, grace: limits.grace }
    }

    /// Returns a handle that changes the server while it runs.
    pub fn control(&self) -> StdioControl {
        self.control.clone()
    }

    /// Returns the load limiter, whose counters show what the server handles and refuses.
    pub fn load(&self) -> Arc<LoadLimiter> {
        Arc::clone(&self.control.load)
    }

    /// Serves the client until its input ends, or until `stop`.
    ///
    /// Every request that was read gets a response: it may take as long as the limits' `grace`, and is then cancelled.
    pub async fn serve(
        self,
        factory: &dyn ClientFactory,
        input: impl AsyncRead + Unpin,
        output: impl AsyncWrite + Unpin + Send + 'static,
        stop: impl Future<Output = ()>,
    ) -> io::Result<()> {
        let (output, writer) = ClientOutput::open(output, Arc::clone(&self.control.load));
        let principal = Arc::new(Principal::local());
        let session = draw_session_name().ok_or_else(|| io::Error::other("no random numbers are available"))?;
        let client = factory.open_client(&principal, &session, Arc::clone(&output) as _).map_err(io::Error::other)?;
        let (grace, running, spin_wait) = (self.grace, JoinSet::new(), Arc::new(SpinWait::for_requests()));
        // Dropped, and so stopped, when this function ends.
        let mut watch = JoinSet::new();
        let keeper = Arc::clone(&spin_wait);
        watch.spawn(async move { keeper.run().await });
        let mut served = StdioConnection { server: self, principal, client, output, writer, running, spin_wait };
        let ended = served.read(input, pin!(stop)).await;
        served.end(grace).await;
        ended
    }
}

/// The connection to the client.
struct StdioConnection {
    server: StdioServer,
    principal: Arc<Principal>,
    client: Arc<dyn ClientHandler>,
    output: Arc<ClientOutput>,
    writer: JoinHandle<io::Result<()>>,
    running: JoinSet<()>,
    spin_wait: Arc<SpinWait>,
}

impl StdioConnection {
    /// Reads messages and passes them on, until the input ends, the client stops reading, or `stop`.
    async fn read(
        &mut self,
        input: impl AsyncRead + Unpin,
        mut stop: Pin<&mut impl Future<Output = ()>>,
    ) -> io::Result<()> {
        let mut lines = ClientLines::new(input, Arc::clone(&self.server.control.max_message_bytes));
        loop {
            let read = tokio::select! {
                read = lines.next() => read?,
                // The client no longer reads, so no response could reach it.
                _ = &mut self.writer => return Ok(()),
                () = &mut stop => return Ok(()),
            };
            while self.running.try_join_next().is_some() {}
            let message = match read {
                LineRead::Message(text) => Message::read(text),
                LineRead::TooLong { most, id } => {
                    let refusal = RequestRefusal::too_long("line", most).code(INVALID_REQUEST);
                    self.output.answer(refusal.answer(id.as_deref()));
                    continue;
                }
                LineRead::End => return Ok(()),
            };
            let bytes = message.text().len();
            let has_room = self.server.control.load.has_room(bytes) && !self.output.is_behind();
            let admission = if has_room { LineAdmission::Counted } else { self.admission(&message, &mut stop).await };
            let load = &self.server.control.load;
            let slot = match admission {
                // Each message of a batch is admitted by itself.
                LineAdmission::Counted if matches!(message, Message::Batch(_)) => reserve(load.uncounted_slot(), bytes),
                LineAdmission::Counted => load.admit(&self.principal).and_then(|slot| reserve(slot, bytes)),
                LineAdmission::Uncounted => Ok(load.uncounted_slot()),
                LineAdmission::Stop(refusal) => {
                    self.output.answer(refusal_text(&message, &refusal));
                    return Ok(());
                }
            };
            match slot {
                Ok(slot) => self.spawn_message(message, slot),
                Err(refusal) => self.output.answer(refusal_text(&message, &refusal)),
            }
        }
    }

    /// Decides how to admit a message when the limits are reached.
    async fn admission(&mut self, message: &Message, stop: &mut Pin<&mut impl Future<Output = ()>>) -> LineAdmission {
        // Let requests that can be answered at once finish first.
        tokio::task::yield_now().await;
        if !message.wants_answer() {
            // A notification or response frees resources, or something waits for it.
            return LineAdmission::Uncounted;
        }
        while self.output.is_behind() {
            tokio::select! {
                () = self.output.wait_for_reader() => {}
                _ = &mut self.writer => return LineAdmission::Stop(ending()),
                () = &mut *stop => return LineAdmission::Stop(ending()),
            }
        }
        LineAdmission::Counted
    }

    fn spawn_message(&mut self, message: Message, slot: RequestSlot) {
        let (client, output) = (Arc::clone(&self.client), Arc::clone(&self.output));
        let batch = matches!(message, Message::Batch(_))
            .then(|| batch_admission(Arc::clone(&self.server.control.load), Arc::clone(&self.principal)));
        // Count the request before its task runs, so that the spin wait does not spin in between.
        let asked = self.spin_wait.start_request();
        self.running.spawn(async move {
            let sink = Arc::clone(&output) as Arc<dyn ClientSink>;
            let answer = client.handle(ClientMessage { message, headers: None, sink, batch }).await;
            drop(slot);
            if let Some(answer) = answer {
                output.answer(answer.text);
            }
            drop(asked);
        });
    }

    /// Waits for running requests, cancels those that take longer than `grace`, and closes the client.
    async fn end(mut self, grace: Duration) {
        self.client.end_subscriptions();
        if !self.writer.is_finished() && !wait_all(&mut self.running, grace).await {
            // Each request gets a response that says so.
            self.client.cancel();
            wait_all(&mut self.running, CLOSE).await;
        }
        self.running.shutdown().await;
        self.client.close().await;
        // Others may still hold the output, but whatever they send now is too late.
        self.output.end();
        if !self.writer.is_finished() && timeout(CLOSE, &mut self.writer).await.is_err() {
            self.writer.abort();
        }
        self.output.close();
    }
}

/// Returns the limits for a single client, which may leave at most one message's worth of bytes unread.
fn single_client_limits(limits: &GatewayLimits) -> GatewayLimits {
    let streams = StreamLimits { max_event_bytes: limits.max_body_bytes, ..limits.streams.clone() };
    GatewayLimits { streams, ..limits.clone() }
}

/// How a message is admitted.
enum LineAdmission {
    /// The message counts against the limits.
    Counted,
    /// The message does not count against the limits.
    Uncounted,
    /// The message is refused, and reading stops.
    Stop(RequestRefusal),
}

/// Admits the messages of a batch one by one.
fn batch_admission(load: Arc<LoadLimiter>, principal: Arc<Principal>) -> Admission {
    Box::new(move |asks, id| {
        let admitted = match asks {
            true => load.admit(&principal).map(|slot| Box::new(slot) as _).map_err(|refusal| refusal.answer(id)),
            // A notification or response frees resources, or something waits for it.
            false => Ok(Box::new(()) as _),
        };
        Box::pin(std::future::ready(admitted))
    })
}

/// Waits up to `limit` for all running requests, and returns whether all have ended.
async fn wait_all(running: &mut JoinSet<()>, limit: Duration) -> bool {
    timeout(limit, async { while running.join_next().await.is_some() {} }).await.is_ok()
}

fn reserve(mut slot: RequestSlot, bytes: usize) -> Result<RequestSlot, RequestRefusal> {
    slot.reserve(bytes).map(|()| slot)
}

/// Returns the error responses to the requests in a refused message.
fn refusal_text(message: &Message, refusal: &RequestRefusal) -> String {
    let answer = |part: &Message| part.request_id().map(|id| refusal.answer(Some(id)));
    let answers: Vec<_> = match message {
        Message::Batch(batch) if bounds::check_batch(batch.parts.len()).is_ok() => {
            batch.parts.iter().filter_map(answer).collect()
        }
        _ => return answer(message).unwrap_or_else(|| refusal.answer(None)),
    };
    if answers.is_empty() { refusal.answer(None) } else { format!("[{}]", answers.join(",")) }
}

fn ending() -> RequestRefusal {
    RequestRefusal::busy("the gateway is stopping and has not started this request")
}

/// The time in which requests are cancelled and the client reads its last responses.
const CLOSE: Duration = Duration::from_secs(2);
