//! What a server sends, sorted: answers to those who wait, questions to the handler, news to whoever listens.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::broadcast;
use tokio::task::{AbortHandle, JoinSet};
use tracing::{debug, warn};

use super::message::{self, AnswerId, Incoming};
use super::pending::{Match, Pending, Progress};
use crate::failure::{Failed, Failure, RpcError};
use crate::session::handler::{Handler, Question, Topic};
use crate::session::listing::Shelf;
use crate::session::{Era, METHOD_NOT_FOUND, News};
use crate::transport::{Outgoing, Receive, RequestId, Transport};

/// Takes all that comes from one server.
pub struct Inbox {
    pub(super) pending: Pending,
    handler: Arc<dyn Handler>,
    news: broadcast::Sender<News>,
    /// The lists that news make stale; this must have happened before anyone hears the news.
    shelf: Arc<Shelf>,
    /// The way back, for answers; the transport owns the inbox, so this must not own the transport.
    transport: OnceLock<Weak<dyn Transport>>,
    /// Known once the handshake is over.
    footing: OnceLock<Footing>,
    answering: Mutex<Answering>,
}

/// What the handshake settled.
pub(super) struct Footing {
    pub(super) era: Era,
    /// Headers for messages that are no requests.
    pub(super) headers: Vec<(http::HeaderName, http::HeaderValue)>,
}

/// Answers that are being found, by the id of the question; they end with the inbox.
#[derive(Default)]
struct Answering {
    tasks: JoinSet<()>,
    by_id: HashMap<String, AbortHandle>,
}

impl Inbox {
    pub(super) fn new(handler: Arc<dyn Handler>) -> Self {
        let (news, _) = broadcast::channel(NEWS);
        Inbox {
            pending: Pending::default(),
            handler,
            news,
            shelf: Arc::default(),
            transport: OnceLock::new(),
            footing: OnceLock::new(),
            answering: Mutex::default(),
        }
    }

    /// Gives the way back.
    pub(super) fn attach(&self, transport: &Arc<dyn Transport>) {
        let _ = self.transport.set(Arc::downgrade(transport));
    }

    /// The handshake is over.
    pub(super) fn settle(&self, footing: Footing) {
        let _ = self.footing.set(footing);
    }

    pub(super) fn footing(&self) -> Option<&Footing> {
        self.footing.get()
    }

    pub(super) fn handler(&self) -> &Arc<dyn Handler> {
        &self.handler
    }

    pub(super) fn shelf(&self) -> Arc<Shelf> {
        Arc::clone(&self.shelf)
    }

    pub(super) fn news(&self) -> broadcast::Receiver<News> {
        self.news.subscribe()
    }

    /// Runs something that belongs to this connection and ends with it.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut answering = self.answering.lock().unwrap_or_else(PoisonError::into_inner);
        answering.spawn(None, task);
    }

    fn take(&self, text: String, exchange: Option<RequestId>) {
        match message::read(&text) {
            Ok(Incoming::Answer { id, outcome }) => {
                let outcome = match outcome {
                    Ok(range) => Ok(message::reply(text, range)),
                    Err(error) => Err(Failed::sent(Failure::Rpc(error))),
                };
                self.answered(id, exchange, outcome);
            }
            Ok(Incoming::Request { id, method, params }) => self.asked(id, &method, params),
            Ok(Incoming::Notification { method, params }) => self.notified(&method, params),
            Err(why) => {
                warn!(%why, "skipped a message that is none: {}", shown(&text));
                if let Some(id) = exchange {
                    let how = format!("it answered with what is no message ({why}): {}", shown(&text));
                    self.pending.resolve(id, Err(Failed::sent(Failure::Protocol(how))));
                }
            }
        }
    }

    fn answered(&self, id: AnswerId, exchange: Option<RequestId>, outcome: Result<message::Reply, Failed>) {
        let found = match (id, exchange, outcome) {
            (AnswerId::Number(id), _, outcome) => self.pending.resolve(id, outcome),
            (AnswerId::Missing, Some(id), outcome @ Err(_)) => self.pending.resolve(id, outcome),
            // Whom an error without an id means is not said: to let all who wait know beats to let one wait for ever.
            (AnswerId::Missing, None, Err(failed)) => {
                warn!("an error without an id: {failed}");
                if self.pending.fail_all(&failed.failure) > 0 { Match::Taken } else { Match::Unknown }
            }
            (AnswerId::Missing | AnswerId::Foreign, _, _) => Match::Unknown,
        };
        match found {
            Match::Taken => {}
            Match::Late => debug!(?id, "an answer came after its request was given up"),
            Match::Unknown => warn!(?id, "ignored an answer that nobody asked for"),
        }
    }

    fn asked(&self, id: &RawValue, method: &str, params: Option<&RawValue>) {
        if self.footing.get().is_some_and(|footing| footing.era == Era::Modern) {
            warn!(method, "ignored a request of the server: this version of the protocol has none");
            return;
        }
        let handler = Arc::clone(&self.handler);
        let question = Topic::of(method)
            .map(|topic| Question { topic, params: params.map_or_else(|| raw("{}"), ToOwned::to_owned) });
        let ping = method == "ping";
        let method = method.to_owned();
        let key = id.get().to_owned();
        let id = id.to_owned();
        let Some(transport) = self.transport.get().cloned() else { return };
        let headers = self.footing.get().map(|footing| footing.headers.clone()).unwrap_or_default();
        let answer = async move {
            let outcome = match question {
                _ if ping => Ok(raw("{}")),
                Some(question) => match tokio::time::timeout(ANSWER_LIMIT, handler.answer(question)).await {
                    Ok(outcome) => outcome,
                    Err(_) => Err(error(INTERNAL_ERROR, "nobody answered in time")),
                },
                None => Err(error(METHOD_NOT_FOUND, &format!("this client has no method {method:?}"))),
            };
            let text = message::answer(&id, &outcome);
            let Some(transport) = transport.upgrade() else { return };
            let send = transport.send(Outgoing { text, request: None, headers });
            match tokio::time::timeout(SEND_LIMIT, send).await {
                Ok(Ok(_)) => {}
                Ok(Err(failed)) => warn!(method, "an answer to the server was lost: {failed}"),
                Err(_) => warn!(method, "an answer to the server was lost: it does not read"),
            }
        };
        let mut answering = self.answering.lock().unwrap_or_else(PoisonError::into_inner);
        answering.spawn(Some(key), answer);
    }

    fn notified(&self, method: &str, params: Option<&RawValue>) {
        let params = params.map_or("{}", RawValue::get);
        match method {
            "notifications/progress" => self.progressed(params),
            "notifications/cancelled" => self.cancelled(params),
            _ => match News::read(method, params) {
                Some(news) => {
                    self.shelf.hear(&news);
                    // That nobody listens is no fault.
                    let _ = self.news.send(news);
                }
                None => debug!(method, "a notification that says nothing to us"),
            },
        }
    }

    fn progressed(&self, params: &str) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Params {
            progress_token: Box<RawValue>,
            #[serde(default)]
            progress: f64,
            #[serde(default)]
            total: Option<f64>,
            #[serde(default)]
            message: Option<String>,
        }
        let Ok(Params { progress_token, progress, total, message }) = serde_json::from_str(params) else {
            warn!("ignored progress that cannot be read");
            return;
        };
        let known = match progress_token.get().trim_matches('"').parse() {
            Ok(id) => self.pending.heard(id, Progress { progress, total, message }),
            Err(_) => false,
        };
        if !known {
            debug!("progress of a request that nobody waits for");
        }
    }

    fn cancelled(&self, params: &str) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Params {
            request_id: Box<RawValue>,
        }
        let Ok(Params { request_id }) = serde_json::from_str(params) else { return };
        let mut answering = self.answering.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(task) = answering.by_id.remove(request_id.get()) {
            task.abort();
        }
    }
}

impl Answering {
    fn spawn(&mut self, key: Option<String>, task: impl Future<Output = ()> + Send + 'static) {
        while self.tasks.try_join_next().is_some() {}
        self.by_id.retain(|_, task| !task.is_finished());
        // A server that asks without end is not served without end.
        if self.tasks.len() >= ANSWERING {
            warn!("the server asks more than {ANSWERING} things at a time; one was dropped");
            return;
        }
        let task = self.tasks.spawn(task);
        if let Some(key) = key {
            self.by_id.insert(key, task);
        }
    }
}

impl Receive for Inbox {
    fn receive(&self, text: String, exchange: Option<RequestId>) {
        match message::batch(&text) {
            None => self.take(text, exchange),
            Some(Ok(parts)) => parts.iter().for_each(|part| self.take(part.get().to_owned(), exchange)),
            Some(Err(why)) => warn!(%why, "skipped a batch that is none: {}", shown(&text)),
        }
    }

    fn closed(&self, why: Failed) {
        debug!("the connection is over: {why}");
        self.pending.close(why);
        let _ = self.news.send(News::Closed);
    }
}

fn error(code: i64, message: &str) -> RpcError {
    RpcError { code, message: message.to_owned(), data: None }
}

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).expect("the text is JSON")
}

/// The beginning of a text, fit for a log.
fn shown(text: &str) -> String {
    let start: String = text.chars().take(SHOWN).collect();
    start.escape_debug().to_string()
}

const INTERNAL_ERROR: i64 = -32603;
/// How many notifications a slow listener may lag behind.
const NEWS: usize = 256;
/// How many questions of one server are answered at a time.
const ANSWERING: usize = 64;
/// A person may think; a lost question must not stay for ever.
const ANSWER_LIMIT: Duration = Duration::from_secs(600);
const SEND_LIMIT: Duration = Duration::from_secs(30);
const SHOWN: usize = 200;
