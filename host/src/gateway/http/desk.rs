//! Where each request comes first: is it meant for us, who sends it, is there room, and which part of us answers it.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, EXPECT, HeaderMap, HeaderValue, VARY,
};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use hyper::body::{Body as _, Incoming};
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::debug;

use super::body::Body;
use super::control::{Current, Rules};
use super::hosts::Arrival;
use super::load::Load;
use super::message::Claim;
use super::pace::{Busy, Pace};
use super::pages::{self, Pages};
use super::places::{Connection, Holder, Telling};
use super::rate::Asker;
use super::refusal::Refusal;
use super::sessions::Sessions;
use super::shares::Full;
use super::tokens::{Pass, Shown};
use super::{content, media, post, single, streams};
use crate::gateway::client::{House, Principal};
use crate::transport::BoxFuture;
use crate::vigil::Vigil;

/// What all connections of a door share.
pub(super) struct Desk {
    pub(super) house: Arc<dyn House>,
    pub(super) pages: Arc<dyn Pages>,
    pub(super) load: Arc<Load>,
    pub(super) sessions: Arc<Sessions>,
    pub(super) current: Arc<Current>,
    pub(super) stopping: watch::Receiver<bool>,
    pub(super) vigil: Arc<Vigil>,
}

impl Desk {
    /// The rules of now.
    pub(super) fn rules(&self) -> Arc<Rules> {
        self.current.get()
    }

    /// Refuses one who asks too often: a principal, or whoever is at this address where no token tells them apart.
    pub(super) fn check_rate(&self, principal: Option<&Arc<Principal>>, peer: IpAddr) -> Result<(), Refusal> {
        let rules = self.rules();
        let Some(buckets) = &rules.buckets else { return Ok(()) };
        let asker = match principal {
            Some(principal) if !rules.keeper.lets_everybody_in() => Asker::Principal(principal.clone()),
            _ => Asker::Peer(peer),
        };
        buckets.take(asker, Instant::now()).map_err(|wait| {
            self.load.shed_rate.fetch_add(1, Relaxed);
            Refusal::new(StatusCode::TOO_MANY_REQUESTS, "this client asks too often: wait, as Retry-After says")
                .retry_after(wait)
        })
    }

    /// Waits until the door is told to stop.
    pub(super) fn stopped(&self) -> BoxFuture<'static, ()> {
        let mut stopping = self.stopping.clone();
        Box::pin(async move {
            // A door that is gone has stopped too.
            let _ = stopping.wait_for(|stopping| *stopping).await;
        })
    }

    /// The same, or until the token is taken away with which a principal asked to be shown something.
    pub(super) fn over_for(&self, pass: Pass, principal: Option<&Arc<Principal>>) -> BoxFuture<'static, ()> {
        let stopped = self.stopped();
        let Some(principal) = principal.cloned() else { return stopped };
        let gone = self.current.clone().gone(pass, principal);
        Box::pin(async move {
            tokio::select! {
                () = stopped => {}
                () = gone => {}
            }
        })
    }
}

/// One connection, as its requests see it.
pub(super) struct Visit {
    pub(super) desk: Arc<Desk>,
    pub(super) pace: Arc<Pace>,
    pub(super) at: Arrival,
    /// The host that its first good request named, and the rules by which it is good.
    pub(super) host: Mutex<Option<(Arc<Rules>, HeaderValue)>>,
    /// Its place among the connections.
    pub(super) place: Arc<Connection>,
}

impl Visit {
    /// Answers one request.
    pub(super) async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
        let _asked = self.desk.vigil.asked();
        let busy = self.pace.begin();
        let (head, mut body) = request.into_parts();
        let asks_first = head.headers.contains_key(EXPECT);
        match self.look(&head) {
            Ok(Looked { origin, principal }) => {
                let response = match self.route(head, &mut body, asks_first, principal, busy).await {
                    Ok(response) => response,
                    Err(refusal) => self.refuse(refusal, asks_first, &mut body).await,
                };
                Ok(if origin.is_some() { shared(response, origin) } else { response })
            }
            Err(refusal) => Ok(self.refuse(refusal, asks_first, &mut body).await),
        }
    }

    /// Whether the request is meant for us, and who sends it.
    fn look(&self, head: &Parts) -> Result<Looked, Refusal> {
        let desk = &*self.desk;
        let rules = desk.rules();
        single::check(&head.headers)?;
        let checked = self.check_host(head, &rules);
        let origin = checked.and_then(|()| rules.hosts.check_origin(head, &self.at)).inspect_err(|_| {
            desk.load.foreign.fetch_add(1, Relaxed);
        })?;
        Ok(Looked { origin: origin.cloned(), principal: rules.keeper.look(&head.headers) })
    }

    /// A connection says the same in each of its requests, so what was good by the same rules is not looked at again.
    fn check_host(&self, head: &Parts, rules: &Arc<Rules>) -> Result<(), Refusal> {
        let mut known = self.host.lock().unwrap_or_else(PoisonError::into_inner);
        let good = known.as_ref().filter(|(by, _)| Arc::ptr_eq(by, rules)).map(|(_, host)| host);
        let host = rules.hosts.check_host(&head.uri, &head.headers, self.at.local.ip(), good)?;
        if good.is_none() {
            *known = Some((rules.clone(), host.clone()));
        }
        Ok(())
    }

    async fn route(
        &self,
        head: Parts,
        body: &mut Incoming,
        asks_first: bool,
        shown: Shown,
        busy: Busy,
    ) -> Result<Response<Body>, Refusal> {
        if is_preflight(&head) {
            return Ok(preflight(&head.headers));
        }
        if head.uri.path() != "/mcp" {
            let response = self.page(&head, body, shown, busy).await?;
            // What no page wants is not waited for, but for long enough that the client comes to read the answer.
            Self::leave(asks_first, body).await;
            return Ok(response);
        }
        let principal = self.admit(shown)?;
        self.settle(&principal)?;
        if head.method == Method::POST {
            return post::answer(self, &principal, head, body, busy).await;
        }
        let served = head.method == Method::GET || head.method == Method::DELETE;
        let claim = Claim::of(&head.headers);
        if !served || claim == Claim::Modern {
            return Err(Refusal::method(if claim == Claim::Modern { "POST" } else { "GET, POST, DELETE" }));
        }
        claim.known()?;
        if head.method == Method::DELETE {
            return streams::delete(self, &principal, &head);
        }
        streams::open(self, &principal, &head, busy)
    }

    async fn page(
        &self,
        head: &Parts,
        body: &mut Incoming,
        shown: Shown,
        busy: Busy,
    ) -> Result<Response<Body>, Refusal> {
        media::check_page(&head.method, &head.headers)?;
        // A missing token is for the page to judge, a wrong one is not.
        let principal = match shown {
            Shown::Nothing => {
                // Who only looks, such as a probe of health, does not wait for the sake of others behind the same proxy.
                if !matches!(head.method, Method::GET | Method::HEAD) {
                    self.desk.check_rate(None, self.at.peer())?;
                }
                None
            }
            // Whether we live is told to everybody, however many ask and however often.
            Shown::Known(principal) if matches!(head.uri.path(), "/health" | "/ready") => Some(principal),
            shown => {
                let principal = self.admit(shown)?;
                self.settle(&principal)?;
                Some(principal)
            }
        };
        // Content takes room that others need, so it is read only of whom the page lets bring some.
        let bringer = principal
            .as_ref()
            .filter(|principal| self.desk.pages.takes_content(&head.method, head.uri.path(), principal));
        let mut slot = None;
        let content = match bringer {
            Some(principal) => {
                let slot = slot.insert(self.desk.load.enter(principal)?);
                content::read(body, &self.desk.rules().limits, &self.pace, slot).await?
            }
            None => {
                self.pace.work();
                Vec::new()
            }
        };
        let page = pages::answer(self, head, content, principal.as_ref(), busy).await;
        drop(slot);
        page?.ok_or_else(|| Refusal::new(StatusCode::NOT_FOUND, "there is no such page: MCP is at /mcp"))
    }

    /// Lets a principal in who does not ask too often.
    fn admit(&self, shown: Shown) -> Result<Arc<Principal>, Refusal> {
        let principal = shown.required();
        if principal.is_err() {
            self.desk.load.unauthorized.fetch_add(1, Relaxed);
        }
        self.desk.check_rate(principal.as_ref().ok(), self.at.peer())?;
        principal
    }

    /// Gives the connection a place, now that it is known who asks.
    fn settle(&self, principal: &Arc<Principal>) -> Result<(), Refusal> {
        let holder = match self.desk.rules().keeper.lets_everybody_in() {
            true => Holder::Peer(self.at.peer()),
            false => Holder::Principal(principal.clone()),
        };
        self.desk.load.places.settle(&self.place, holder).map_err(|full| match full {
            Full::All => Refusal::busy("there are too many connections: close one, or try again later"),
            Full::Own => Refusal::share("this principal has too many connections: close one, or try again later"),
        })
    }

    /// Lets the connection tell news from now on, which takes it away from requests.
    pub(super) fn tell_news(&self) -> Result<Telling, Refusal> {
        let full = "too many connections only wait for news: close one, or try again later";
        self.desk.load.places.tell_news(&self.place).map_err(|_| Refusal::busy(full))
    }

    async fn refuse(&self, refusal: Refusal, asks_first: bool, body: &mut Incoming) -> Response<Body> {
        debug!(peer = %self.at.peer(), status = refusal.status.as_u16(), "a request is refused");
        // Who was late once is not waited for again.
        if refusal.status != StatusCode::REQUEST_TIMEOUT {
            Self::leave(asks_first, body).await;
        }
        refusal.into_response()
    }

    /// Throws away what is left of a request; who asked first has sent nothing.
    async fn leave(asks_first: bool, body: &mut Incoming) {
        if !body.is_end_stream() && !asks_first {
            content::drain(body).await;
        }
    }
}

struct Looked {
    /// The page that asks, where one does.
    origin: Option<HeaderValue>,
    principal: Shown,
}

fn is_preflight(head: &Parts) -> bool {
    head.method == Method::OPTIONS && head.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// What a browser asks before a page of another origin may ask; only allowed origins come so far.
fn preflight(asked: &HeaderMap) -> Response<Body> {
    let mut response = Response::new(Body::Empty);
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, DELETE"));
    if let Some(names) = asked.get(ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, names.clone());
    }
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    response
}

/// Lets the page that asked read the answer.
fn shared(mut response: Response<Body>, origin: Option<HeaderValue>) -> Response<Body> {
    let Some(origin) = origin else { return response };
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    let exposed = HeaderValue::from_static("Mcp-Session-Id, Retry-After, WWW-Authenticate");
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
    headers.append(VARY, HeaderValue::from_static("Origin"));
    response
}
