//! Test clients and pages, which do what the method says.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Method, StatusCode};
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::time::timeout;

use super::LONG;
use crate::gate::GateError;
use crate::gateway::client::{
    ClientFactory, ClientHandler, ClientMessage, ClientSink, GatewayResponse, McpHeaders, Principal,
};
use crate::gateway::http::{PageBody, PageEvent, PageHandler, PageRequest, PageResponse};
use crate::gateway::replica::Replica;
use crate::gateway::session_terms::SessionTerms;
use crate::store::Store;
use crate::transport::BoxFuture;

/// A factory that opens a client for everyone and records what happens.
pub(super) struct TestClientFactory(Arc<Seen>);

/// What the test clients recorded.
pub(super) struct Seen {
    /// Releases one waiting call per permit.
    pub(super) release: Semaphore,
    /// The sinks of the standalone streams, in the order of the sessions.
    pub(super) outlets: Mutex<Vec<Arc<dyn ClientSink>>>,
    /// The headers of the last message.
    pub(super) headers: Mutex<Option<McpHeaders>>,
    counts: Mutex<HashMap<&'static str, usize>>,
    changed: Notify,
    given_up: Notify,
    no_news: Notify,
    refuses: AtomicUsize,
    /// Whether sessions hold something that is lost when they leave memory.
    holds_state: AtomicBool,
    replica: Arc<Replica>,
}

impl Default for TestClientFactory {
    fn default() -> Self {
        TestClientFactory(Arc::new(Seen {
            release: Semaphore::new(0),
            outlets: Mutex::default(),
            headers: Mutex::default(),
            counts: Mutex::default(),
            changed: Notify::new(),
            given_up: Notify::new(),
            no_news: Notify::new(),
            refuses: AtomicUsize::new(0),
            holds_state: AtomicBool::new(false),
            replica: Replica::new(&[], Store::memory()),
        }))
    }
}

impl std::ops::Deref for TestClientFactory {
    type Target = Seen;

    fn deref(&self) -> &Seen {
        &self.0
    }
}

impl Seen {
    /// Returns how often something happened: `opened`, `resumed`, `missed`, `closed`, `waiting`, `cancelled`, `released`, `told`.
    pub(super) fn count(&self, what: &str) -> usize {
        self.counts.lock().unwrap().get(what).copied().unwrap_or(0)
    }

    /// Waits until something has happened this often.
    pub(super) async fn wait(&self, what: &str, times: usize) {
        let happened = async {
            loop {
                let changed = self.changed.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                if self.count(what) >= times {
                    return;
                }
                changed.await;
            }
        };
        timeout(LONG, happened).await.unwrap_or_else(|_| panic!("{what}: {} of {times}", self.count(what)));
    }

    /// Makes sessions hold something that is lost when they leave memory.
    pub(super) fn hold_state(&self) {
        self.holds_state.store(true, SeqCst);
    }

    /// Refuses the next clients.
    pub(super) fn refuse(&self) {
        self.refuses.store(1, SeqCst);
    }

    /// Sends a message on the standalone stream of a session.
    pub(super) fn say(&self, session: usize, text: &str) -> bool {
        self.outlets.lock().unwrap()[session].send(text.to_owned()).is_ok()
    }

    fn note(&self, what: &'static str) {
        *self.counts.lock().unwrap().entry(what).or_default() += 1;
        self.changed.notify_waiters();
    }

    fn client(self: &Arc<Self>) -> Result<Arc<dyn ClientHandler>, GateError> {
        if self.refuses.load(SeqCst) > 0 {
            return Err(GateError::Closed);
        }
        Ok(Arc::new(TestClient(self.clone())))
    }
}

impl ClientFactory for TestClientFactory {
    fn open_client(
        &self,
        _: &Principal,
        _: &str,
        sink: Arc<dyn ClientSink>,
    ) -> Result<Arc<dyn ClientHandler>, GateError> {
        let client = self.0.client()?;
        self.outlets.lock().unwrap().push(sink);
        self.note("opened");
        Ok(client)
    }

    fn resume_client(
        &self,
        _: &Principal,
        _: &str,
        _: &SessionTerms,
        sink: Arc<dyn ClientSink>,
    ) -> Result<Arc<dyn ClientHandler>, GateError> {
        let client = self.0.client()?;
        self.outlets.lock().unwrap().push(sink);
        self.note("resumed");
        Ok(client)
    }

    fn stateless_client(
        &self,
        _: &Principal,
        _: Option<crate::gateway::Choice>,
    ) -> Result<Arc<dyn ClientHandler>, GateError> {
        self.0.client()
    }

    fn stateless_clients(&self) -> Vec<Arc<dyn ClientHandler>> {
        vec![Arc::new(TestClient(self.0.clone()))]
    }

    fn replica(&self) -> &Arc<Replica> {
        &self.0.replica
    }
}

struct TestClient(Arc<Seen>);

/// A guard that records when a call is dropped before its end.
struct Cancelled(Option<Arc<Seen>>);

impl Drop for Cancelled {
    fn drop(&mut self) {
        if let Some(seen) = self.0.take() {
            seen.note("cancelled");
        }
    }
}

impl ClientHandler for TestClient {
    fn handle(self: Arc<Self>, incoming: ClientMessage) -> BoxFuture<'static, Option<GatewayResponse>> {
        Box::pin(async move {
            let seen = &self.0;
            *seen.headers.lock().unwrap() = incoming.headers;
            let has = |word: &str| incoming.message.text().contains(word);
            let (mut text, mut status) = (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#.to_owned(), 200);
            if !has("\"id\"") || has("\"result\"") {
                seen.note("told");
                return None;
            }
            if has("progress") {
                for number in 1..=2 {
                    assert!(incoming.sink.send(format!(r#"{{"method":"progress","n":{number}}}"#)).is_ok());
                }
            }
            if has("flood") {
                while incoming.sink.send("x".repeat(1000)).is_ok() {}
            }
            if has("wait") {
                let mut cancelled = Cancelled(Some(seen.clone()));
                seen.note("waiting");
                tokio::select! {
                    permit = timeout(100 * LONG, seen.release.acquire()) => permit.expect("released").unwrap().forget(),
                    () = seen.given_up.notified(), if !has("stubborn") => {
                        text = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32800,"message":"given up"}}"#.to_owned();
                    }
                    () = seen.no_news.notified(), if has("listen") => {}
                }
                seen.note("released");
                incoming.sink.send_or_drop(r#"{"method":"late"}"#.to_owned());
                cancelled.0 = None;
            }
            if has("fail") {
                (text, status) = (r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}"#.to_owned(), 404);
            }
            if has("huge") {
                text = format!(r#"{{"jsonrpc":"2.0","id":1,"result":"{}"}}"#, "y".repeat(8 << 20));
            }
            let is_error = text.contains("\"error\"");
            Some(GatewayResponse { status, is_error, ..GatewayResponse::ok(text) })
        })
    }

    fn end_subscriptions(&self) {
        self.0.no_news.notify_waiters();
    }

    fn cancel(&self) {
        self.0.given_up.notify_waiters();
    }

    fn close(self: Arc<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move { self.0.note("closed") })
    }

    fn terms(&self) -> Option<SessionTerms> {
        Some(SessionTerms::default())
    }

    fn holds_state(&self) -> bool {
        self.0.holds_state.load(SeqCst)
    }

    fn sync_changes(self: Arc<Self>) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }

    fn announce_missed(&self) {
        self.0.note("missed");
    }
}

/// Pages that echo the request, or send events.
pub(super) struct TestPages;

impl PageHandler for TestPages {
    fn answer(&self, request: PageRequest) -> BoxFuture<'static, Option<PageResponse>> {
        Box::pin(async move {
            if request.path == "/events" {
                let (sender, receiver) = mpsc::channel(4);
                let event = PageEvent { name: None, data: "first".to_owned() };
                sender.try_send(event).unwrap();
                // The stream stays open as long as the client reads.
                tokio::spawn(async move { sender.closed().await });
                return Some(PageResponse {
                    status: StatusCode::OK,
                    headers: Vec::new(),
                    body: PageBody::Events(receiver),
                });
            }
            let text = format!(
                "{} {} {:?} {} {} {} {:?}",
                request.method,
                request.path,
                request.query,
                request.headers.contains_key("authorization"),
                request.headers.get("x-mine").is_some(),
                request.body.len(),
                request.principal.as_ref().map(|principal| &principal.name),
            );
            let known = matches!(&*request.path, "/page" | "/health" | "/ready");
            known.then(|| PageResponse::text(StatusCode::OK, "text/plain", Bytes::from(text)))
        })
    }

    fn accepts_body(&self, method: &Method, path: &str, _: &Principal) -> bool {
        method == Method::POST && path == "/page"
    }
}
