//! The face that the gateway shows to one client: an MCP server of both eras.

mod calls;
mod era;
mod lists;
mod methods;
mod news;
pub mod outcome;
mod prompts;
mod resources;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::sync::{Notify, oneshot};

use super::Inside;
use super::client::{Answer, Client, Incoming, Outlet, Principal};
use crate::failure::RpcError;
use crate::gate::{Closing, Gate, GateError};
use crate::logic::types::naming::NamingStyle;
use crate::session::message::{self, AnswerId};
use crate::session::{METHOD_NOT_FOUND, Question, Topic};
use crate::transport::BoxFuture;
use era::{Context, Era};
use lists::Lists;

/// The face that the gateway shows to one client.
pub(crate) struct Front {
    me: Weak<Front>,
    inside: Arc<Inside>,
    gate: Gate,
    principal: Principal,
    /// The way for what is sent unasked; clients of 2026-07-28 have none.
    outlet: Option<Arc<dyn Outlet>>,
    session: Mutex<Session>,
    /// The calls under way, by the client's id of the request.
    running: Mutex<HashMap<String, String>>,
    /// Subscriptions of clients of 2026-07-28, by the id of the request.
    listening: Mutex<HashMap<String, Arc<Notify>>>,
    /// What the client was asked, and who waits for its answer.
    asked: Mutex<Asked>,
    next: AtomicU64,
    lists: Lists,
    /// Which of the gateway's settings it has taken over.
    edition: AtomicU64,
}

/// Who waits for which answer of the client.
type Asked = HashMap<u64, oneshot::Sender<Result<Box<RawValue>, RpcError>>>;

/// What a client of the initialize era said of itself.
#[derive(Default)]
struct Session {
    /// The version that was agreed on.
    version: Option<&'static str>,
    capabilities: Option<Box<RawValue>>,
    /// The least grave lines of servers' logs that it wants.
    log_level: Option<String>,
    /// The resources whose content it wants to hear of.
    subscribed: HashSet<String>,
    /// Tells the client what has changed.
    herald: Option<tokio::task::AbortHandle>,
}

impl Front {
    pub(super) fn open(
        inside: &Arc<Inside>,
        principal: &Principal,
        outlet: Option<Arc<dyn Outlet>>,
    ) -> Result<Arc<Self>, GateError> {
        // Before the view, so that a change between the two is not missed.
        let edition = AtomicU64::new(inside.edition.load(Ordering::SeqCst));
        let gate = Gate::open(&inside.registry, inside.view(principal)?)?;
        Ok(Arc::new_cyclic(|me| Front {
            me: me.clone(),
            inside: Arc::clone(inside),
            gate,
            principal: principal.clone(),
            outlet,
            session: Mutex::default(),
            running: Mutex::default(),
            listening: Mutex::default(),
            asked: Mutex::default(),
            next: AtomicU64::new(1),
            lists: Lists::default(),
            edition,
        }))
    }

    /// Takes over what the client may use now, where that has changed. Who may use nothing is about to be sent away.
    fn follow(&self) {
        let edition = self.inside.edition.load(Ordering::SeqCst);
        if self.edition.load(Ordering::SeqCst) == edition {
            return;
        }
        if let Ok(view) = self.inside.view(&self.principal) {
            self.gate.set_view(view);
        }
        // Last, so that no other request goes on before.
        self.edition.store(edition, Ordering::SeqCst);
    }

    /// Ends what clients of 2026-07-28 listen to.
    pub(super) fn stop_listening(&self) {
        self.listening().values().for_each(|stop| stop.notify_one());
    }

    /// The names that the client is shown.
    fn style(&self) -> NamingStyle {
        self.inside.shown().options.names.clone().unwrap_or_else(|| self.gate.style())
    }

    /// The server whose own names the client is shown, where it is one alone.
    fn exposed(&self) -> Option<&str> {
        self.inside.expose.as_deref()
    }

    /// One message, or one part of a batch.
    async fn one(&self, text: &str, incoming: &Incoming) -> Option<Answer> {
        self.follow();
        let (id, method, params) = match message::read(text) {
            Ok(message::Incoming::Request { id, method, params }) => (id, method, params),
            Ok(message::Incoming::Notification { method, params }) => {
                self.notified(&method, params);
                return None;
            }
            Ok(message::Incoming::Answer { id, outcome }) => {
                self.answered(id, outcome.map(|range| text[range].to_owned()));
                return None;
            }
            Err(why) => {
                let error = RpcError::new(INVALID_REQUEST, format!("this is no JSON-RPC message: {why}"));
                return Some(Answer { text: error_text("null", &error), status: 400 });
            }
        };
        let params = params.map_or("{}", RawValue::get);
        let context = match Context::read(self, &method, params, incoming.headers.as_ref()) {
            Ok(context) => context,
            Err((error, status)) => return Some(Answer { text: error_text(id.get(), &error), status }),
        };
        match methods::answer(self, &context, id, &method, params, incoming).await {
            Ok(result) => {
                let mut text = String::with_capacity(result.len() + id.get().len() + 36);
                text.push_str(r#"{"jsonrpc":"2.0","id":"#);
                text.push_str(id.get());
                text.push_str(r#","result":"#);
                text.push_str(&result);
                text.push('}');
                Some(Answer { text, status: 200 })
            }
            Err(error) => {
                let status = match (context.era, error.code) {
                    (Era::Modern, METHOD_NOT_FOUND) => 404,
                    (Era::Modern, -32022..=-32020) => 400,
                    _ => 200,
                };
                Some(Answer { text: error_text(id.get(), &error), status })
            }
        }
    }

    fn notified(&self, method: &str, params: Option<&RawValue>) {
        #[derive(serde::Deserialize)]
        struct Cancelled {
            #[serde(rename = "requestId")]
            request_id: Box<RawValue>,
        }
        match method {
            "notifications/cancelled" => {
                let Some(Ok(Cancelled { request_id })) = params.map(|params| serde_json::from_str(params.get())) else {
                    return;
                };
                let call = self.running().get(request_id.get()).cloned();
                if let Some(call) = call {
                    self.gate.cancel(&call);
                }
                if let Some(stop) = self.listening().get(request_id.get()) {
                    stop.notify_one();
                }
            }
            "notifications/initialized" => self.start_herald(),
            _ => {}
        }
    }

    /// Tells the client from now on what has changed.
    fn start_herald(&self) {
        let Some(outlet) = self.outlet.clone() else { return };
        let front = self.me.clone();
        let mut session = self.session();
        session.herald.get_or_insert_with(|| tokio::spawn(news::herald(front, outlet)).abort_handle());
    }

    /// Asks the client something, on behalf of a server.
    pub(super) async fn ask(&self, question: Question) -> Result<Box<RawValue>, RpcError> {
        let (method, capability) = match question.topic {
            Topic::Roots => ("roots/list", "roots"),
            Topic::Sampling => ("sampling/createMessage", "sampling"),
            Topic::Elicitation => ("elicitation/create", "elicitation"),
        };
        let Some(outlet) = self.outlet.as_ref().filter(|_| self.can(capability)) else {
            let text = format!("the client of the gateway cannot answer {method}");
            return Err(RpcError::new(METHOD_NOT_FOUND, text));
        };
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = oneshot::channel();
        self.asked().insert(id, sender);
        let _forget = Forget(self, id);
        let params = self.gate.mask(&question.server, question.params.get());
        let params = params.unwrap_or_else(|_| "{}".to_owned());
        if !outlet.send(message::request(id, method, &params)) {
            return Err(RpcError::new(INTERNAL_ERROR, "the client of the gateway has gone"));
        }
        match tokio::time::timeout(ASK_LIMIT, receiver).await {
            Ok(Ok(answer)) => answer,
            _ => Err(RpcError::new(INTERNAL_ERROR, "the client of the gateway did not answer")),
        }
    }

    /// Whether the client said that it can do this.
    fn can(&self, capability: &str) -> bool {
        let session = self.session();
        let declared = session.capabilities.as_ref().and_then(|all| crate::json::Object::read(all.get()));
        declared.is_some_and(|declared| declared.get(capability).is_some())
    }

    fn answered(&self, id: AnswerId, outcome: Result<String, RpcError>) {
        let AnswerId::Number(id) = id else { return };
        let Some(waiting) = self.asked().remove(&id) else { return };
        let outcome = outcome.and_then(|result| {
            RawValue::from_string(result).map_err(|error| RpcError::new(INTERNAL_ERROR, error.to_string()))
        });
        // Whoever waited may have gone this moment.
        let _ = waiting.send(outcome);
    }

    fn session(&self) -> MutexGuard<'_, Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn running(&self) -> MutexGuard<'_, HashMap<String, String>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listening(&self) -> MutexGuard<'_, HashMap<String, Arc<Notify>>> {
        self.listening.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn asked(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Client for Front {
    fn take(self: Arc<Self>, incoming: Incoming) -> BoxFuture<'static, Option<Answer>> {
        Box::pin(async move {
            let parts = match message::batch(&incoming.text) {
                None => return self.one(&incoming.text, &incoming).await,
                Some(Ok(parts)) if !parts.is_empty() => parts,
                Some(_) => {
                    let error = RpcError::new(INVALID_REQUEST, "this batch holds no message");
                    return Some(Answer { text: error_text("null", &error), status: 400 });
                }
            };
            let answers = parts.iter().map(|part| self.one(part.get(), &incoming));
            let answers: Vec<_> = futures_util::future::join_all(answers).await.into_iter().flatten().collect();
            let texts: Vec<_> = answers.iter().map(|answer| answer.text.as_str()).collect();
            (!texts.is_empty()).then(|| Answer { text: format!("[{}]", texts.join(",")), status: 200 })
        })
    }

    fn close(self: Arc<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            if let Some(herald) = self.session().herald.take() {
                herald.abort();
            }
            self.gate.close(Closing::Cancel).await;
        })
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        if let Some(herald) = self.session().herald.take() {
            herald.abort();
        }
    }
}

/// Forgets a question when nobody waits for its answer any more.
struct Forget<'a>(&'a Front, u64);

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.0.asked().remove(&self.1);
    }
}

/// An error as the answer to the request of this id.
fn error_text(id: &str, error: &RpcError) -> String {
    let data = error.data.as_deref().map(|data| format!(r#","data":{data}"#)).unwrap_or_default();
    let message = message::quote(&error.message);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{},"message":{message}{data}}}}}"#, error.code)
}

const INVALID_REQUEST: i64 = -32600;
const INVALID_PARAMS: i64 = -32602;
const INTERNAL_ERROR: i64 = -32603;
/// A person may think.
const ASK_LIMIT: Duration = Duration::from_secs(600);
