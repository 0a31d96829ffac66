//! POST to `/mcp`: a message or a batch, of either era.

use std::sync::Arc;

use http::header::{CONTENT_TYPE, HeaderValue};
use http::request::Parts;
use http::{Response, StatusCode};
use hyper::body::Incoming;

use super::body::{Body, Events, Source};
use super::call::{Beginning, Call};
use super::channel::{Channel, Nowhere};
use super::desk::Visit;
use super::load::{Seat, Slot};
use super::message::{self, Claim, Message};
use super::pace::Busy;
use super::refusal::{JSON, PARSE_ERROR, Refusal};
use super::session::InUse;
use super::sessions::SESSION_ID;
use super::tokens::Pass;
use super::{content, media};
use crate::gateway::client::{self, Answer, Client, McpHeaders, Outlet, Principal};
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
            return tell(client, text, headers, Arc::new(Nowhere), slot).await;
        }
        let seat = if listens(&headers, &text) { Some(desk.sessions.seat(principal)?) } else { None };
        let channel = Channel::passing(desk.rules().limits.kept_events, desk.load.clone(), slot.tab());
        let over = pass.map(|pass| desk.over_for(pass, Some(principal)));
        let exchange = Exchange { client, channel, session: None, seat, over, primed: false, stream };
        return exchange.run(visit, Letter { text, places, headers }, slot, busy).await;
    }
    let Some(session) = session else { return initialize(visit, principal, text, headers, slot).await };
    let client = session.session().client.clone();
    if !message.asks {
        let outlet = session.session().unasked.clone();
        return tell(client, text, headers, outlet, slot).await;
    }
    let channel = session.session().stream(slot.tab());
    let primed = claim == Claim::Legacy { primed: true };
    let exchange = Exchange { client, channel, session: Some(session), seat: None, over: None, primed, stream };
    exchange.run(visit, Letter { text, places, headers }, slot, busy).await
}

/// A message that wants an answer.
struct Exchange {
    client: Arc<dyn Client>,
    channel: Arc<Channel>,
    session: Option<InUse>,
    /// The place of one who only listens.
    seat: Option<Seat>,
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
}

impl Exchange {
    async fn run(self, visit: &Visit, letter: Letter, slot: Slot, busy: Busy) -> Result<Response<Body>, Refusal> {
        let Letter { text, places, headers } = letter;
        let keep_alive = visit.desk.rules().limits.keep_alive;
        let outlet = self.channel.clone();
        let work = self.client.take(client::Incoming { text, places, headers: Some(headers), outlet });
        let resumable = self.session.is_some();
        let mut call = Call::new(work, self.channel, self.session, slot);
        match call.begin(keep_alive, self.stream).await {
            Beginning::Answer(answer) => Ok(plain(answer, call.slot())),
            Beginning::Stream => {
                let reader = call.channel().attach(None);
                let mut events = Events::new(Source::Stream(reader), keep_alive, busy);
                if let Some(seat) = self.seat {
                    // Who listens asks for nothing more, and may do so for days.
                    drop(call.slot());
                    events = events.sitting(seat);
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
    text: String,
    headers: McpHeaders,
    slot: Slot,
) -> Result<Response<Body>, Refusal> {
    let opening = visit.desk.sessions.open(&*visit.desk.house, principal)?;
    let session = opening.session();
    let outlet: Arc<dyn Outlet> = session.unasked.clone();
    let answer =
        session.client.clone().take(client::Incoming { text, places: None, headers: Some(headers), outlet }).await;
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
    text: String,
    headers: McpHeaders,
    outlet: Arc<dyn Outlet>,
    slot: Slot,
) -> Result<Response<Body>, Refusal> {
    let answer = client.take(client::Incoming { text, places: None, headers: Some(headers), outlet }).await;
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
