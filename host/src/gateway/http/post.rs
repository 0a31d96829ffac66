//! POST to `/mcp`: a message or a batch, of either era.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use http::header::{CONTENT_TYPE, HeaderValue};
use http::request::Parts;
use http::{Response, StatusCode};
use hyper::body::Incoming;

use super::body::{Body, Events, Source};
use super::call::{Beginning, Call};
use super::channel::{Channel, Nowhere};
use super::desk::{Desk, Visit};
use super::load::{Seat, Slot};
use super::message::{self, Claim, Message};
use super::pace::Busy;
use super::places::Telling;
use super::refusal::{JSON, PARSE_ERROR, Refusal};
use super::session::InUse;
use super::sessions::SESSION_ID;
use super::tokens::Pass;
use super::{content, media};
use crate::gateway::client::{self, Admission, Answer, Client, McpHeaders, Outlet, Place, Principal};
use crate::session::message::Places;
use crate::transport::BoxFuture;

/// Answers a POST. The head is given up before anything is waited for: the connection then reads on into the same memory.
pub(super) async fn answer(
    visit: &Visit,
    principal: &Arc<Principal>,
    head: Parts,
    body: &mut Incoming,
    busy: Busy,
) -> Result<Response<Body>, Refusal> {
    let desk = &*visit.desk;
    media::check_post(&head.headers)?;
    let mut slot = desk.load.enter(principal)?;
    let content = content::read(body, &desk.rules().limits, &visit.pace, &mut slot).await?;
    let text = String::from_utf8(content).map_err(|_| not_text())?;
    let claim = Claim::of(&head.headers);
    // Who is modern by its header is not looked at: the client behind the door reads the message anyway, and one that
    // asks nothing gets no answer.
    let (message, places) = if claim == Claim::Modern { (MODERN, None) } else { Message::look(&text)? };
    let batch = message::is_batch(&text);
    if batch && (message.modern || !head.headers.contains_key(&SESSION_ID)) {
        return Err(message::no_batch());
    }
    let headers = message::headers(&head.headers);
    let stream = media::prefers_stream(&head.headers);
    let pass = names_listening(&headers).then(|| Pass::of(&head.headers));
    let session = match message.modern || message.initialize {
        true => None,
        false => Some(claim.known().and_then(|()| desk.sessions.find(&head.headers, principal))?),
    };
    drop(head);
    if message.modern {
        let client = desk.house.stateless(principal).map_err(|why| Refusal::of_house(principal, &why))?;
        if !message.asks {
            return tell(client, Letter::new(text, headers), Arc::new(Nowhere), slot).await;
        }
        let seat = match listens(&headers, &text) {
            true => Some((desk.sessions.seat(principal)?, visit.tell_news()?)),
            false => None,
        };
        let channel = Channel::passing(desk.rules().limits.kept_events, desk.load.clone(), slot.tab());
        let over = pass.map(|pass| desk.over_for(pass, Some(principal)));
        let exchange = Exchange { client, channel, session: None, seat, over, primed: false, stream };
        let letter = Letter { places, ..Letter::new(text, headers) };
        return exchange.run(visit, letter, slot, busy).await;
    }
    let Some(session) = session else {
        return initialize(visit, principal, Letter::new(text, headers), slot).await;
    };
    let client = session.session().client.clone();
    let batch = batch.then(|| Box::new(BatchAdmission::new(visit, principal)) as Box<dyn Admission>);
    let letter = Letter { text, places, headers, batch };
    if !message.asks {
        let outlet = session.session().unasked.clone();
        return tell(client, letter, outlet, slot).await;
    }
    let channel = session.session().stream(slot.tab());
    let primed = claim == Claim::Legacy { primed: true };
    let exchange = Exchange { client, channel, session: Some(session), seat: None, over: None, primed, stream };
    exchange.run(visit, letter, slot, busy).await
}

/// A message that wants an answer.
struct Exchange {
    client: Arc<dyn Client>,
    channel: Arc<Channel>,
    session: Option<InUse>,
    /// The place of one who only listens, among the sessions and among the connections.
    seat: Option<(Seat, Telling)>,
    /// When one who only listens may do so no longer.
    over: Option<BoxFuture<'static, ()>>,
    /// The client knows an event without data at the start of a stream.
    primed: bool,
    /// The client rather has a stream.
    stream: bool,
}

/// What is in a message, and on its envelope.
struct Letter {
    text: String,
    places: Option<Places>,
    headers: McpHeaders,
    batch: Option<Box<dyn Admission>>,
}

impl Letter {
    fn new(text: String, headers: McpHeaders) -> Self {
        Letter { text, places: None, headers, batch: None }
    }

    /// The message for the client behind the door.
    fn open(self, outlet: Arc<dyn Outlet>) -> client::Incoming {
        let Letter { text, places, headers, batch } = self;
        client::Incoming { text, places, headers: Some(headers), outlet, batch }
    }
}

/// Lets the messages of a batch in. The first one has what the request as a whole was let in with.
struct BatchAdmission {
    desk: Arc<Desk>,
    principal: Arc<Principal>,
    peer: IpAddr,
    first: AtomicBool,
}

impl BatchAdmission {
    fn new(visit: &Visit, principal: &Arc<Principal>) -> Self {
        let (desk, principal) = (visit.desk.clone(), principal.clone());
        BatchAdmission { desk, principal, peer: visit.at.peer(), first: AtomicBool::new(true) }
    }
}

impl Admission for BatchAdmission {
    fn admit(&self, _: bool, id: Option<&str>) -> Result<Place, String> {
        if self.first.swap(false, Relaxed) {
            return Ok(Box::new(()));
        }
        let desk = &self.desk;
        let slot = desk.check_rate(Some(&self.principal), self.peer).and_then(|()| desk.load.enter(&self.principal));
        slot.map(|slot| Box::new(slot) as _).map_err(|refusal| refusal.answer(id))
    }
}

impl Exchange {
    async fn run(self, visit: &Visit, letter: Letter, slot: Slot, busy: Busy) -> Result<Response<Body>, Refusal> {
        let keep_alive = visit.desk.rules().limits.keep_alive;
        let work = self.client.take(letter.open(self.channel.clone()));
        let resumable = self.session.is_some();
        let mut call = Call::new(work, self.channel, self.session, slot);
        match call.begin(keep_alive, self.stream).await {
            Beginning::Answer(answer) => Ok(plain(answer, call.slot())),
            Beginning::Stream => {
                let reader = call.channel().attach(None);
                let mut events = Events::new(Source::Stream(reader), keep_alive, busy);
                if let Some((seat, telling)) = self.seat {
                    // Who listens asks for nothing more, and may do so for days.
                    drop(call.slot());
                    events = events.sitting(seat).telling(telling);
                }
                if let Some(over) = self.over {
                    events = events.until(over);
                }
                if resumable {
                    events = events.opening(call.channel().opening(self.primed));
                }
                Ok(events.call(call).into_response())
            }
        }
    }
}

/// Opens a session. What is sent meanwhile goes to its stream for unasked messages, so that the answer is one text
/// and can bring the id.
async fn initialize(
    visit: &Visit,
    principal: &Arc<Principal>,
    letter: Letter,
    slot: Slot,
) -> Result<Response<Body>, Refusal> {
    let opening = visit.desk.sessions.open(&*visit.desk.house, principal)?;
    let session = opening.session();
    let outlet: Arc<dyn Outlet> = session.unasked.clone();
    let answer = session.client.clone().take(letter.open(outlet)).await;
    let opened = answer.as_ref().is_some_and(|answer| answer.status < 400 && !message::is_error(&answer.text));
    let mut response = plain(answer, Some(slot));
    if opened {
        let id = HeaderValue::try_from(opening.settle().to_string()).expect("digits fit into a header");
        response.headers_mut().insert(SESSION_ID.clone(), id);
    }
    Ok(response)
}

/// A message that wants no answer, and gets one only where it cannot be taken.
async fn tell(
    client: Arc<dyn Client>,
    letter: Letter,
    outlet: Arc<dyn Outlet>,
    slot: Slot,
) -> Result<Response<Body>, Refusal> {
    let answer = client.take(letter.open(outlet)).await;
    Ok(plain(answer, Some(slot)))
}

/// An answer that is one text, or none.
fn plain(answer: Option<Answer>, slot: Option<Slot>) -> Response<Body> {
    let Some(Answer { text, status, .. }) = answer else {
        let mut response = Response::new(Body::Empty);
        *response.status_mut() = StatusCode::ACCEPTED;
        return response;
    };
    let mut response = Response::new(Body::held(text, slot));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}

/// Whether a request is one to listen, by its header: one that lies is refused behind the door. A large one counts as
/// any other.
fn listens(headers: &McpHeaders, text: &str) -> bool {
    let small = text.len() <= MOST_LISTEN && !text.trim_ascii_start().starts_with('[');
    small && names_listening(headers)
}

fn names_listening(headers: &McpHeaders) -> bool {
    headers.method.as_deref() == Some("subscriptions/listen")
}

fn not_text() -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, "the body is not UTF-8").code(PARSE_ERROR)
}

/// The largest request to listen, with the addresses of all that it is to hear of.
const MOST_LISTEN: usize = 320 << 10;
/// A message of 2026-07-28 of which nothing else is known.
const MODERN: Message = Message { asks: true, modern: true, initialize: false };
