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
use super::client::{Admission, Answer, Client, House, Incoming, Outlet, Place, Principal};
use super::http::{Limits, Load, Message, Refusal, Slot, is_batch};
use crate::session::message;
use crate::vigil::Vigil;
use input::{Lines, Read};
use output::Output;

/// A door for one client.
pub struct Door {
    control: Control,
    load: Arc<Load>,
    grace: Duration,
}

/// Changes a door while it is served.
#[derive(Clone)]
pub struct Control {
    load: Arc<Load>,
    /// The longest message, in bytes.
    most: Arc<AtomicUsize>,
}

impl Control {
    /// Takes other limits; how long requests may take at the end stays the same.
    pub fn set(&self, limits: &Limits) {
        self.most.store(limits.max_body_bytes, Ordering::Relaxed);
        self.load.set(&of_one(limits), false);
    }
}

impl Door {
    /// A door with these limits.
    pub fn new(limits: &Limits) -> Self {
        let load = Arc::new(Load::new(&of_one(limits)));
        let most = Arc::new(AtomicUsize::new(limits.max_body_bytes));
        Door { control: Control { load: Arc::clone(&load), most }, load, grace: limits.grace }
    }

    /// Changes it while it is served.
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// What it carries and turns away, for whoever shows it.
    pub fn load(&self) -> Arc<Load> {
        Arc::clone(&self.load)
    }

    /// Serves the client at the other end until its input ends, or until `stop`.
    ///
    /// All that was read by then is answered: requests may take as long as the limits' `grace`, and are cancelled then.
    pub async fn serve(
        self,
        house: &dyn House,
        input: impl AsyncRead + Unpin,
        output: impl AsyncWrite + Unpin + Send + 'static,
        stop: impl Future<Output = ()>,
    ) -> io::Result<()> {
        let (output, writer) = Output::open(output, Arc::clone(&self.load));
        let principal = Arc::new(Principal::local());
        let client = house.open(&principal, Arc::clone(&output) as _).map_err(io::Error::other)?;
        let (grace, running, vigil) = (self.grace, JoinSet::new(), Arc::new(Vigil::for_requests()));
        // Ends with what is served.
        let mut watch = JoinSet::new();
        let keeper = Arc::clone(&vigil);
        watch.spawn(async move { keeper.keep().await });
        let mut served = Served { door: self, principal, client, output, writer, running, vigil };
        let ended = served.read(input, pin!(stop)).await;
        served.end(grace).await;
        ended
    }
}

/// A client that is served.
struct Served {
    door: Door,
    principal: Arc<Principal>,
    client: Arc<dyn Client>,
    output: Arc<Output>,
    writer: JoinHandle<io::Result<()>>,
    running: JoinSet<()>,
    vigil: Arc<Vigil>,
}

impl Served {
    /// Hands over messages as they come.
    async fn read(
        &mut self,
        input: impl AsyncRead + Unpin,
        mut stop: Pin<&mut impl Future<Output = ()>>,
    ) -> io::Result<()> {
        let mut lines = Lines::new(input, Arc::clone(&self.door.control.most));
        loop {
            let read = tokio::select! {
                read = lines.next() => read?,
                // The client reads no more, so nothing that it asks could be answered.
                _ = &mut self.writer => return Ok(()),
                () = &mut stop => return Ok(()),
            };
            while self.running.try_join_next().is_some() {}
            let text = match read {
                Read::Message(text) => text,
                Read::TooLong { most, id } => {
                    let refusal = Refusal::too_long("line", most).code(INVALID_REQUEST);
                    self.output.answer(refusal.answer(id.as_deref()));
                    continue;
                }
                Read::End => return Ok(()),
            };
            let room = if self.is_easy(text.len()) { Room::Enter } else { self.room(&text, &mut stop).await };
            let slot = match room {
                // Each of its messages enters by itself.
                Room::Enter if is_batch(&text) => {
                    let mut slot = self.door.load.aside();
                    slot.hold(text.len()).map(|()| slot)
                }
                Room::Enter => self.door.load.enter(&self.principal).and_then(|mut slot| {
                    slot.hold(text.len())?;
                    Ok(slot)
                }),
                Room::Aside => Ok(self.door.load.aside()),
                Room::Ends(refusal) => {
                    self.output.answer(refused(&text, &refusal));
                    return Ok(());
                }
            };
            match slot {
                Ok(slot) => self.take(text, slot),
                Err(refusal) => self.output.answer(refused(&text, &refusal)),
            }
        }
    }

    /// Whether a message of so many bytes need not be looked at to be let in.
    fn is_easy(&self, bytes: usize) -> bool {
        self.door.load.has_room(bytes) && !self.output.is_behind()
    }

    /// How a message is let in where there is much already.
    async fn room(&mut self, text: &str, stop: &mut Pin<&mut impl Future<Output = ()>>) -> Room {
        // What can be answered at once is no longer there then.
        tokio::task::yield_now().await;
        // What no message is gets an answer.
        let asks = Message::peek(text).map_or(true, |message| message.asks);
        if !asks {
            // It makes room, or lets something go on that waits.
            return Room::Aside;
        }
        while self.output.is_behind() {
            tokio::select! {
                () = self.output.read_on() => {}
                _ = &mut self.writer => return Room::Ends(ending()),
                () = &mut *stop => return Room::Ends(ending()),
            }
        }
        Room::Enter
    }

    fn take(&mut self, text: String, slot: Slot) {
        let (client, output) = (Arc::clone(&self.client), Arc::clone(&self.output));
        let batch = is_batch(&text).then(|| {
            let (load, principal) = (Arc::clone(&self.door.load), Arc::clone(&self.principal));
            Box::new(BatchAdmission { load, principal }) as _
        });
        // Now, so that nobody stays awake for it between here and there.
        let asked = self.vigil.asked();
        self.running.spawn(async move {
            let places = message::Places::find(&text);
            let outlet = Arc::clone(&output) as Arc<dyn Outlet>;
            let message = Incoming { text, places, headers: None, outlet, batch };
            let answer = client.take(message).await;
            drop(slot);
            if let Some(Answer { text, rest, .. }) = answer {
                output.answer(text);
                // Where all runs on one thread, as in `toolgate serve`, nobody who has the answer comes before this.
                drop(rest);
            }
            drop(asked);
        });
    }

    /// Lets what runs come to its end.
    async fn end(mut self, grace: Duration) {
        self.client.end_news();
        if !self.writer.is_finished() && !finished(&mut self.running, grace).await {
            // Each gets an answer that says so.
            self.client.cancel();
            finished(&mut self.running, CLOSE).await;
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
fn of_one(limits: &Limits) -> Limits {
    Limits { max_event_bytes: limits.max_body_bytes, ..limits.clone() }
}

/// How a message is let in.
enum Room {
    /// As one that is counted.
    Enter,
    /// Beside what is counted.
    Aside,
    /// Not at all: nothing more is read.
    Ends(Refusal),
}

/// Lets the messages of a batch in.
struct BatchAdmission {
    load: Arc<Load>,
    principal: Arc<Principal>,
}

impl Admission for BatchAdmission {
    fn admit(&self, asks: bool, id: Option<&str>) -> Result<Place, String> {
        if !asks {
            // It makes room, or lets something go on that waits.
            return Ok(Box::new(()));
        }
        let slot = self.load.enter(&self.principal);
        slot.map(|slot| Box::new(slot) as _).map_err(|refusal| refusal.answer(id))
    }
}

/// Waits for all that runs, for at most so long; says whether all of it has ended.
async fn finished(running: &mut JoinSet<()>, limit: Duration) -> bool {
    timeout(limit, async { while running.join_next().await.is_some() {} }).await.is_ok()
}

/// What the requests of a message are answered that is not let in.
fn refused(text: &str, refusal: &Refusal) -> String {
    let answer = |part: &str| match message::read(part) {
        Ok(message::Incoming::Request { id, .. }) => Some(refusal.answer(Some(id.get()))),
        _ => None,
    };
    let answers: Vec<_> = match message::batch(text) {
        Some(Ok(parts)) if bounds::batch(parts.len()).is_ok() => {
            parts.iter().filter_map(|part| answer(part.get())).collect()
        }
        _ => return answer(text).unwrap_or_else(|| refusal.answer(None)),
    };
    if answers.is_empty() { refusal.answer(None) } else { format!("[{}]", answers.join(",")) }
}

fn ending() -> Refusal {
    Refusal::busy("the gateway ends, and has not begun with this request")
}

const INVALID_REQUEST: i32 = -32600;
/// How long requests may take to be cancelled, and the client to read its last answers.
const CLOSE: Duration = Duration::from_secs(2);
