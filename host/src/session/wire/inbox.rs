//! Dispatches the messages of a server: answers to waiting requests, questions to the handler, events to subscribers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::{SetOnce, broadcast};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;
use tracing::{debug, warn};

use super::OnStderr;
use super::credential_filter::CredentialFilter;
use super::pending::{PendingRequests, Progress, ResponseMatch};
use crate::failure::{Failure, RequestError, RpcError};
use crate::json;
use crate::rpc::code::{INTERNAL_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND};
use crate::rpc::{self, Message, Reply, ResponseId, TOO_DEEP, UnreadableMessage};
use crate::session::handler::{Handler, ServerQuestion, Topic};
use crate::session::listing::ListCache;
use crate::session::message_log::MessageLog;
use crate::session::{Era, ServerEvent, empty_object};
use crate::transport::{Outgoing, Receive, RequestId, Transport};

/// Receives all messages of one server.
pub(super) struct Inbox {
    pub(super) pending: PendingRequests,
    pub(super) handler: Arc<dyn Handler>,
    /// The handlers for questions on the streams of single requests.
    handlers: Mutex<HashMap<RequestId, Arc<dyn Handler>>>,
    events: broadcast::Sender<ServerEvent>,
    /// The cached lists; an event invalidates them before subscribers receive it.
    pub(super) list_cache: Arc<ListCache>,
    filter: Arc<CredentialFilter>,
    message_log: MessageLog,
    /// Whether each request has its own exchange (HTTP); then a message outside of all exchanges belongs to none.
    has_exchanges: bool,
    /// The transport for answers; weak, because the transport owns the inbox. It is set late, and a server may ask
    /// before.
    transport: Arc<SetOnce<Weak<dyn Transport>>>,
    /// Set when the handshake is complete.
    pub(super) handshake: OnceLock<HandshakeResult>,
    answering: Mutex<AnswerTasks>,
    questions: Arc<Mutex<OpenQuestions>>,
    warnings: AtomicU64,
    /// Receives lines of standard error.
    pub(super) on_stderr: Option<OnStderr>,
}

/// The result of the handshake.
pub(super) struct HandshakeResult {
    pub(super) era: Era,
    /// The headers of messages other than requests.
    pub(super) headers: Vec<(http::HeaderName, http::HeaderValue)>,
}

/// The tasks that answer questions, by the id of the question; they end with the inbox.
#[derive(Default)]
struct AnswerTasks {
    tasks: JoinSet<()>,
    by_id: HashMap<String, AbortHandle>,
}

/// The number of open questions, and when the server last got an answer: until then it waits for us.
#[derive(Default)]
struct OpenQuestions {
    open: usize,
    last: Option<Instant>,
}

/// Counts a question as open until it is dropped.
struct OpenQuestion(Arc<Mutex<OpenQuestions>>);

impl OpenQuestion {
    fn new(questions: &Arc<Mutex<OpenQuestions>>) -> Self {
        questions.lock().unwrap_or_else(PoisonError::into_inner).open += 1;
        OpenQuestion(Arc::clone(questions))
    }
}

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        let mut questions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        questions.open -= 1;
        questions.last = Some(Instant::now());
    }
}

impl Inbox {
    pub(super) fn new(
        handler: Arc<dyn Handler>,
        filter: Arc<CredentialFilter>,
        message_log: MessageLog,
        has_exchanges: bool,
    ) -> Self {
        Inbox {
            pending: PendingRequests::default(),
            handler,
            handlers: Mutex::default(),
            events: broadcast::Sender::new(NEWS),
            list_cache: Arc::default(),
            filter,
            message_log,
            has_exchanges,
            transport: Arc::default(),
            handshake: OnceLock::new(),
            answering: Mutex::default(),
            questions: Arc::default(),
            warnings: AtomicU64::new(0),
            on_stderr: None,
        }
    }

    /// Logs a message to the server at level `trace`.
    pub(super) fn log_sent(&self, text: &str) {
        self.message_log.sent(text, |text| self.filter.log_text(text));
    }

    /// Sets the transport for answers.
    pub(super) fn attach(&self, transport: &Arc<dyn Transport>) {
        let _ = self.transport.set(Arc::downgrade(transport));
    }

    pub(super) fn handlers(&self) -> MutexGuard<'_, HashMap<RequestId, Arc<dyn Handler>>> {
        self.handlers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn events(&self) -> broadcast::Receiver<ServerEvent> {
        self.events.subscribe()
    }

    /// Returns when the server last waited for an answer from us: now, if a question is open.
    pub(super) fn last_question(&self) -> Option<Instant> {
        let questions = self.questions.lock().unwrap_or_else(PoisonError::into_inner);
        if questions.open > 0 { Some(Instant::now()) } else { questions.last }
    }

    /// Spawns a task that ends with the connection.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.answering().tasks.spawn(task);
    }

    /// Aborts all tasks.
    pub(super) fn stop(&self) {
        self.answering().tasks.abort_all();
    }

    fn handle_message(&self, message: Message, exchange: Option<RequestId>) {
        match message {
            Message::Response(response) => {
                let id = response.id();
                let outcome = match response.into_outcome() {
                    Ok(reply) => Ok(self.filter.reply(reply)),
                    Err(error) => Err(self.filter.failed(RequestError::sent(Failure::Rpc(error)))),
                };
                self.handle_response(id, exchange, outcome);
            }
            Message::Request(request) => {
                // What nobody can read is not passed on.
                let params = if request.is_too_deep() { "{}" } else { request.params() };
                let params = self.filter.params(params);
                self.handle_request(request.id(), request.method(), &params, exchange, request.is_too_deep());
            }
            Message::Notification(notification) if notification.is_too_deep() => {
                self.warn_limited(|| {
                    warn!(method = notification.method(), "skipped a notification that is {TOO_DEEP}")
                });
            }
            Message::Notification(notification) => {
                let params = self.filter.params(notification.params().unwrap_or("{}"));
                self.handle_notification(notification.method(), &params, exchange);
            }
            Message::Batch(batch) => batch.parts.into_iter().for_each(|part| self.handle_message(part, exchange)),
            Message::Unreadable(unreadable) => self.skip(&unreadable, exchange),
        }
    }

    /// Skips a text that is not a message; if it seems to be the answer to a request, that request fails at once.
    fn skip(&self, unreadable: &UnreadableMessage, exchange: Option<RequestId>) {
        let (why, shown) = (unreadable.why(), self.excerpt(unreadable.text()));
        self.warn_limited(|| warn!(%why, "skipped a text that is not a message: {shown}"));
        if let Some(id) = exchange.or_else(|| unreadable.probable_id()) {
            let how = format!("its answer is not a message ({why}): {shown}");
            self.pending.resolve(id, Err(RequestError::sent(Failure::Protocol(how))));
        }
    }

    fn handle_response(&self, id: ResponseId, exchange: Option<RequestId>, outcome: Result<Reply, RequestError>) {
        let found = match (id, exchange, outcome) {
            (ResponseId::Number(id), _, outcome) => self.pending.resolve(id, outcome),
            (ResponseId::Missing, Some(id), outcome @ Err(_)) => self.pending.resolve(id, outcome),
            // Without an id, the error may be for any request: failing all of them beats letting one wait forever.
            (ResponseId::Missing, None, Err(failed)) if !self.has_exchanges => {
                warn!("an error without an id: {}", self.filter.failed(failed.clone()));
                if self.pending.fail_all(&failed.failure) > 0 {
                    ResponseMatch::Delivered
                } else {
                    ResponseMatch::Unknown
                }
            }
            (ResponseId::Missing | ResponseId::Foreign, _, _) => ResponseMatch::Unknown,
        };
        match found {
            ResponseMatch::Delivered => {}
            ResponseMatch::Late => debug!(?id, "an answer came after its request was given up"),
            ResponseMatch::Unknown => self.warn_limited(|| warn!(?id, "ignored an answer that nobody asked for")),
        }
    }

    fn handle_request(
        &self,
        id: &str,
        method: &str,
        params: &RawValue,
        exchange: Option<RequestId>,
        is_too_deep: bool,
    ) {
        if self.handshake.get().is_some_and(|handshake| handshake.era == Era::Modern) {
            warn!(method, "ignored a request from the server: this protocol version has no server requests");
            return;
        }
        // Answers must not pile up for a server that asks but does not read, whatever its ids.
        let waiting = self.questions.lock().unwrap_or_else(PoisonError::into_inner).open;
        if waiting >= UNREAD || id.len() > LONGEST_ID {
            return self.warn_limited(|| {
                warn!(
                    method,
                    waiting, "ignored a request from the server: it has too many open requests, or the id is too long"
                )
            });
        }
        let handler = self.handler_of(exchange);
        let question = Topic::of(method).map(|topic| ServerQuestion::new(topic, params.to_owned()));
        let ping = method == "ping";
        let method = method.to_owned();
        let (id, key) = (id.to_owned(), id.to_owned());
        let transport = Arc::clone(&self.transport);
        let (message_log, filter) = (self.message_log.clone(), Arc::clone(&self.filter));
        let busy = waiting >= ANSWERING;
        if busy {
            self.warn_limited(|| warn!("refused a question: the server has more than {ANSWERING} open questions"));
        }
        let headers = self.handshake.get().map(|handshake| handshake.headers.clone()).unwrap_or_default();
        let open = OpenQuestion::new(&self.questions);
        let answer = async move {
            let _open = open;
            let outcome = match question {
                _ if is_too_deep => Err(RpcError::new(INVALID_REQUEST, format!("the request is {TOO_DEEP}"))),
                _ if ping => Ok(empty_object()),
                _ if busy => Err(RpcError::new(INTERNAL_ERROR, "too many open questions")),
                Some(question) => tokio::time::timeout(ANSWER_LIMIT, handler.answer(question))
                    .await
                    .unwrap_or_else(|_| Err(RpcError::new(INTERNAL_ERROR, "no answer in time"))),
                None => Err(RpcError::new(METHOD_NOT_FOUND, format!("this client has no method {method:?}"))),
            };
            let text = match outcome {
                Ok(result) => rpc::result(&id, Box::<str>::from(result).into()),
                Err(error) => rpc::error(Some(&id), &error),
            };
            message_log.sent(&text, |text| filter.log_text(text));
            let Some(transport) = transport.wait().await.upgrade() else { return };
            let send = transport.send(Outgoing { text, request: None, headers, repeatable: false });
            match tokio::time::timeout(SEND_LIMIT, send).await {
                Ok(Ok(_)) => {}
                // Nobody waits for the answer, and the end of the connection is reported elsewhere.
                Ok(Err(RequestError { failure: Failure::Closed, .. })) => debug!(method, "the connection is closed"),
                Ok(Err(failed)) => warn!(method, "an answer to the server was lost: {failed}"),
                Err(_) => warn!(method, "an answer to the server was lost: the server does not read"),
            }
        };
        self.answering().spawn(key, answer);
    }

    /// Returns the handler for questions on the stream of this request, or outside of any.
    fn handler_of(&self, exchange: Option<RequestId>) -> Arc<dyn Handler> {
        let own = exchange.and_then(|exchange| self.handlers().get(&exchange).cloned());
        own.unwrap_or_else(|| Arc::clone(&self.handler))
    }

    fn handle_notification(&self, method: &str, params: &RawValue, exchange: Option<RequestId>) {
        let text = params.get();
        match method {
            "notifications/progress" => self.handle_progress(params),
            "notifications/cancelled" => self.handle_cancelled(text),
            "notifications/elicitation/complete" => self.handle_elicitation_complete(text),
            _ => match ServerEvent::read(method, text) {
                Some(mut event) => {
                    // Resolve the callers now: after the answer, the message could no longer be attributed.
                    if let ServerEvent::Log { callers, .. } = &mut event {
                        *callers = self.handler_of(exchange).active_callers(0);
                    }
                    self.list_cache.invalidate(&event);
                    if matches!(event, ServerEvent::ToolsChanged) {
                        self.handler.tools_changed();
                    }
                    // There may be no subscribers.
                    let _ = self.events.send(event);
                }
                None => debug!(method, "ignored an unknown notification"),
            },
        }
    }

    fn handle_progress(&self, params: &RawValue) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct ProgressParams<'a> {
            #[serde(borrow)]
            progress_token: &'a RawValue,
            #[serde(borrow)]
            progress: Option<&'a RawValue>,
            #[serde(borrow)]
            total: Option<&'a RawValue>,
            #[serde(borrow)]
            message: Option<&'a RawValue>,
        }
        let Ok(said) = serde_json::from_str::<ProgressParams>(params.get()) else {
            return self.warn_limited(|| warn!("ignored progress that cannot be read"));
        };
        let number = |number: &RawValue| number.get().parse().ok();
        let progress = || Progress {
            progress: said.progress.and_then(number).unwrap_or_default(),
            total: said.total.and_then(number),
            message: said.message.and_then(json::string_value),
            params: params.to_owned(),
        };
        let known = match said.progress_token.get().trim_matches('"').parse() {
            Ok(id) => self.pending.note_progress(id, progress),
            Err(_) => false,
        };
        if !known {
            debug!("ignored progress of a request that is not waiting");
        }
    }

    fn handle_elicitation_complete(&self, params: &str) {
        let Ok([Some(id)]) = json::find_members(params, ["elicitationId"]) else { return };
        if let Some(id) = json::decode_string(&params[id]) {
            self.handler.elicitation_completed(0, &id);
        }
    }

    fn handle_cancelled(&self, params: &str) {
        let Ok([Some(id)]) = json::find_members(params, ["requestId"]) else { return };
        if let Some(task) = self.answering().by_id.remove(&params[id]) {
            task.abort();
        }
    }

    /// Logs a warning, up to a limit: a server that is noisy for days must not fill the log.
    fn warn_limited(&self, complain: impl FnOnce()) {
        match self.warnings.fetch_add(1, Ordering::Relaxed) {
            0..MOST_COMPLAINTS => complain(),
            MOST_COMPLAINTS => warn!("further warnings about this server's messages are not logged"),
            _ => {}
        }
    }

    fn answering(&self) -> MutexGuard<'_, AnswerTasks> {
        self.answering.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the start of a text for a log. Secrets are removed before it is cut, since half a secret is not
    /// recognized.
    fn excerpt(&self, text: &str) -> String {
        let near = &text[..text.floor_char_boundary(MOST_SECRET + 4 * SHOWN)];
        let start: String = self.filter.text(near).chars().take(SHOWN).collect();
        start.escape_debug().to_string()
    }
}

impl AnswerTasks {
    fn spawn(&mut self, key: String, task: impl Future<Output = ()> + Send + 'static) {
        while self.tasks.try_join_next().is_some() {}
        self.by_id.retain(|_, task| !task.is_finished());
        let task = self.tasks.spawn(task);
        self.by_id.insert(key, task);
    }
}

impl Receive for Inbox {
    fn receive(&self, message: Message, exchange: Option<RequestId>) {
        self.message_log.received(message.text(), |text| self.filter.log_text(text));
        self.handle_message(message, exchange);
        self.pending.note_message();
    }

    fn closed(&self, why: RequestError) {
        debug!("the connection is closed: {}", self.filter.failed(why.clone()));
        self.pending.close(why);
        let _ = self.events.send(ServerEvent::Closed);
    }

    fn wrote_to_stderr(&self, line: &[u8]) {
        if let Some(on_stderr) = &self.on_stderr {
            on_stderr(line);
        }
    }
}

/// How many events a slow subscriber may lag behind.
const NEWS: usize = 256;
/// The maximum number of questions of one server that are answered at a time.
const ANSWERING: usize = 64;
/// The maximum number of open questions of one server, including those that are being refused.
const UNREAD: usize = 2 * ANSWERING;
/// The maximum length of a question's id, which the answer repeats.
const LONGEST_ID: usize = 4096;
/// Long, because a person may have to decide, but a lost question must not stay open forever.
const ANSWER_LIMIT: Duration = Duration::from_secs(600);
const SEND_LIMIT: Duration = Duration::from_secs(30);
const SHOWN: usize = 200;
const MOST_COMPLAINTS: u64 = 20;
/// Longer secrets are certificates and the like; their single lines are also known as secrets.
const MOST_SECRET: usize = 4096;

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::session::handler::NullHandler;
    use crate::transport::{BoxFuture, Delivery};

    /// A server that does not read.
    #[derive(Default)]
    struct Deaf(AtomicUsize);

    impl Transport for Deaf {
        fn send(&self, _: Outgoing) -> BoxFuture<'_, Result<Delivery, RequestError>> {
            self.0.fetch_add(1, Ordering::SeqCst);
            Box::pin(std::future::pending())
        }

        fn close(&self) -> BoxFuture<'_, ()> {
            Box::pin(async {})
        }
    }

    #[tokio::test]
    async fn answers_that_a_server_does_not_read_do_not_pile_up_whatever_its_ids() {
        let long = format!("\"{}\"", "x".repeat(LONGEST_ID));
        for (id, waiting) in [("\"same\"", UNREAD), ("1", UNREAD), (&long, 0)] {
            let inbox = Inbox::new(Arc::new(NullHandler), Arc::default(), MessageLog::new(None), false);
            let deaf = Arc::new(Deaf::default());
            let transport: Arc<dyn Transport> = Arc::clone(&deaf) as _;
            inbox.attach(&transport);
            for _ in 0..1000 {
                inbox.receive(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#).into(), None);
            }
            assert_eq!(inbox.answering().tasks.len(), waiting, "{id:.10}");
            for _ in 0..waiting {
                tokio::task::yield_now().await;
            }
            assert_eq!(deaf.0.load(Ordering::SeqCst), waiting, "{id:.10}");
        }
    }
}
