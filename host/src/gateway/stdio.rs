//! The door of standard input and output: one client, a message a line, within the limits that other doors have.

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
use super::client::{
    Admission, AdmissionGuard, ClientFactory, ClientHandler, ClientMessage, ClientSink, GatewayResponse, Principal,
};
use super::http::{GatewayLimits, HttpRefusal, LoadLimiter, RequestSlot};
use crate::rpc::Message;
use crate::rpc::code::INVALID_REQUEST;
use crate::spin_wait::SpinWait;
use input::{ClientLines, LineRead};
use output::ClientOutput;

/// A door for one client.
pub struct StdioServer {
    control: StdioControl,
    load: Arc<LoadLimiter>,
    grace: Duration,
}

/// Changes a door while it is served.
#[derive(Clone)]
pub struct StdioControl {
    load: Arc<LoadLimiter>,
    /// The longest message, in bytes.
    max_message_bytes: Arc<AtomicUsize>,
}

impl StdioControl {
    /// Takes other limits; how long requests may take at the end stays the same.
    pub fn set(&self, limits: &GatewayLimits) {
        self.max_message_bytes.store(limits.max_body_bytes, Ordering::Relaxed);
        self.load.set(&single_client_limits(limits), false);
    }
}

impl StdioServer {
    /// A door with these limits.
    pub fn new(limits: &GatewayLimits) -> Self {
        let limiter = Arc::new(LoadLimiter::new(&single_client_limits(limits)));
        let max_message_bytes = Arc::new(AtomicUsize::new(limits.max_body_bytes));
        StdioServer {
            control: StdioControl { load: Arc::clone(&limiter), max_message_bytes },
            load: limiter,
            grace: limits.grace,
        }
    }

    /// Changes it while it is served.
    pub fn control(&self) -> StdioControl {
        self.control.clone()
    }

    /// What it carries and turns away, for whoever shows it.
    pub fn load(&self) -> Arc<LoadLimiter> {
        Arc::clone(&self.load)
    }

    /// Serves the client at the other end until its input ends, or until `stop`.
    ///
    /// All that was read by then is answered: requests may take as long as the limits' `grace`, and are cancelled then.
    pub async fn serve(
        self,
        factory: &dyn ClientFactory,
        input: impl AsyncRead + Unpin,
        output: impl AsyncWrite + Unpin + Send + 'static,
        stop: impl Future<Output = ()>,
    ) -> io::Result<()> {
        let (output, writer) = ClientOutput::open(output, Arc::clone(&self.load));
        let principal = Arc::new(Principal::local());
        let client = factory.open_client(&principal, Arc::clone(&output) as _).map_err(io::Error::other)?;
        let (grace, running, spin_wait) = (self.grace, JoinSet::new(), Arc::new(SpinWait::for_requests()));
        // Ends with what is served.
        let mut watch = JoinSet::new();
        let keeper = Arc::clone(&spin_wait);
        watch.spawn(async move { keeper.run().await });
        let mut served = StdioConnection { server: self, principal, client, output, writer, running, spin_wait };
        let ended = served.read(input, pin!(stop)).await;
        served.end(grace).await;
        ended
    }
}

/// A client that is served.
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
    /// Hands over messages as they come.
    async fn read(
        &mut self,
        input: impl AsyncRead + Unpin,
        mut stop: Pin<&mut impl Future<Output = ()>>,
    ) -> io::Result<()> {
        let mut lines = ClientLines::new(input, Arc::clone(&self.server.control.max_message_bytes));
        loop {
            let read = tokio::select! {
                read = lines.next() => read?,
                // The client reads no more, so nothing that it asks could be answered.
                _ = &mut self.writer => return Ok(()),
                () = &mut stop => return Ok(()),
            };
            while self.running.try_join_next().is_some() {}
            let message = match read {
                LineRead::Message(text) => Message::read(text),
                LineRead::TooLong { most, id } => {
                    let refusal = HttpRefusal::too_long("line", most).code(INVALID_REQUEST);
                    self.output.answer(refusal.answer(id.as_deref()));
                    continue;
                }
                LineRead::End => return Ok(()),
            };
            let bytes = message.text().len();
            let admission = match self.has_room(bytes) {
                true => LineAdmission::Counted,
                false => self.admission(&message, &mut stop).await,
            };
            let slot = match admission {
                // Each message of a batch is admitted by itself.
                LineAdmission::Counted if matches!(message, Message::Batch(_)) => {
                    let mut slot = self.server.load.uncounted_slot();
                    slot.reserve(bytes).map(|()| slot)
                }
                LineAdmission::Counted => self.server.load.admit(&self.principal).and_then(|mut slot| {
                    slot.reserve(bytes)?;
                    Ok(slot)
                }),
                LineAdmission::Uncounted => Ok(self.server.load.uncounted_slot()),
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

    /// Whether a message of so many bytes need not be looked at to be let in.
    fn has_room(&self, bytes: usize) -> bool {
        self.server.load.has_room(bytes) && !self.output.is_behind()
    }

    /// How a message is let in where there is much already.
    async fn admission(&mut self, message: &Message, stop: &mut Pin<&mut impl Future<Output = ()>>) -> LineAdmission {
        // What can be answered at once is no longer there then.
        tokio::task::yield_now().await;
        if !message.wants_answer() {
            // It makes room, or lets something go on that waits.
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
        let batch = matches!(message, Message::Batch(_)).then(|| {
            let (limiter, principal) = (Arc::clone(&self.server.load), Arc::clone(&self.principal));
            Box::new(BatchAdmission { load: limiter, principal }) as _
        });
        // Now, so that nobody stays awake for it between here and there.
        let asked = self.spin_wait.start_request();
        self.running.spawn(async move {
            let sink = Arc::clone(&output) as Arc<dyn ClientSink>;
            let answer = client.handle(ClientMessage { message, headers: None, sink, batch }).await;
            drop(slot);
            if let Some(GatewayResponse { text, deferred, .. }) = answer {
                output.answer(text);
                // Where all runs on one thread, as in `toolgate serve`, nobody who has the answer comes before this.
                drop(deferred);
            }
            drop(asked);
        });
    }

    /// Lets what runs come to its end.
    async fn end(mut self, grace: Duration) {
        self.client.end_subscriptions();
        if !self.writer.is_finished() && !wait_all(&mut self.running, grace).await {
            // Each gets an answer that says so.
            self.client.cancel();
            wait_all(&mut self.running, CLOSE).await;
        }
        self.running.shutdown().await;
        self.client.close().await;
        // Others may still hold a way to the client; what they say now comes too late.
        self.output.end();
        if !self.writer.is_finished() && timeout(CLOSE, &mut self.writer).await.is_err() {
            self.writer.abort();
        }
        self.output.close();
    }
}

/// The limits where all is for one client: what it has not read yet may be as large as a message.
fn single_client_limits(limits: &GatewayLimits) -> GatewayLimits {
    GatewayLimits { max_event_bytes: limits.max_body_bytes, ..limits.clone() }
}

/// How a message is let in.
enum LineAdmission {
    /// As one that is counted.
    Counted,
    /// Beside what is counted.
    Uncounted,
    /// Not at all: nothing more is read.
    Stop(HttpRefusal),
}

/// Lets the messages of a batch in.
struct BatchAdmission {
    load: Arc<LoadLimiter>,
    principal: Arc<Principal>,
}

impl Admission for BatchAdmission {
    fn admit(&self, asks: bool, id: Option<&str>) -> Result<AdmissionGuard, String> {
        if !asks {
            // It makes room, or lets something go on that waits.
            return Ok(Box::new(()));
        }
        let slot = self.load.admit(&self.principal);
        slot.map(|slot| Box::new(slot) as _).map_err(|refusal| refusal.answer(id))
    }
}

/// Waits for all that runs, for at most so long; says whether all of it has ended.
async fn wait_all(running: &mut JoinSet<()>, limit: Duration) -> bool {
    timeout(limit, async { while running.join_next().await.is_some() {} }).await.is_ok()
}

/// What the requests of a message are answered that is not let in.
fn refusal_text(message: &Message, refusal: &HttpRefusal) -> String {
    let answer = |part: &Message| part.request_id().map(|id| refusal.answer(Some(id)));
    let answers: Vec<_> = match message {
        Message::Batch(batch) if bounds::check_batch(batch.parts.len()).is_ok() => {
            batch.parts.iter().filter_map(answer).collect()
        }
        _ => return answer(message).unwrap_or_else(|| refusal.answer(None)),
    };
    if answers.is_empty() { refusal.answer(None) } else { format!("[{}]", answers.join(",")) }
}

fn ending() -> HttpRefusal {
    HttpRefusal::busy("the gateway ends, and has not begun with this request")
}

/// How long requests may take to be cancelled, and the client to read its last answers.
const CLOSE: Duration = Duration::from_secs(2);
