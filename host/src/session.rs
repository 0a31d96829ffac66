//! A session with one server, in either era of MCP, over any transport.
//!
//! JSON of servers passes through as text: what nobody here needs to read is never taken apart.

mod caller;
mod capabilities;
mod handler;
mod headers;
mod item_check;
mod level;
mod listing;
mod open;
mod params;
mod peer;
mod rounds;
mod subscriptions;
mod wire;

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::sync::broadcast;
use tokio::time::Instant;
use tracing::debug;

pub(crate) use caller::is_of_session;
pub use caller::{Caller, InputResponse};
pub(crate) use capabilities::{MissingCapability, missing_capability};
pub use handler::{ActiveCallers, Handler, NullHandler, ServerQuestion, Topic, Topics};
pub(crate) use item_check::strip_output_schema;
pub use level::LogLevel;
pub use listing::{ListKind, Listing};
pub use open::SessionOptions;
pub use peer::{Era, LEGACY_VERSIONS, MODERN_VERSION, Peer, Protocol, ServerEvent, ServerFeatures};
pub use wire::{OnProgress, Progress, RequestTimeouts};

use crate::failure::{Failure, RequestError};
pub use crate::rpc::Reply;
use crate::transport::RequestId;
use crate::transport::authorize::Authorizer;
pub(crate) use headers::ToolHeaders;
use listing::ListCache;
pub use subscriptions::ResourceSubscription;
use subscriptions::SubscriptionCounts;
use wire::{Wire, WireRequest};

/// A session with one server. Dropping it ends it at once; `close` ends it in good manners.
pub struct Session {
    wire: Wire,
    peer: Peer,
    /// What every request of 2026-07-28 carries in `_meta`; empty in the era before.
    meta: RequestMeta,
    /// The level of logs that the server was last told.
    sent_level: Mutex<Option<LogLevel>>,
    /// Headers for everything that is sent over HTTP.
    headers: Vec<(http::HeaderName, http::HeaderValue)>,
    tool_headers: ToolHeaders,
    list_cache: Arc<ListCache>,
    subscriptions: SubscriptionCounts,
    list_timeout: Duration,
    list_bytes: usize,
    authorize: Option<Authorizer>,
}

/// What every request of 2026-07-28 carries in `_meta`.
#[derive(Default)]
struct RequestMeta {
    /// All of it, as members without braces.
    whole: String,
    /// The same without the capabilities, which may be a caller's own.
    identity: String,
}

/// What to ask of a server.
#[derive(Clone)]
pub struct SessionRequest<'a> {
    /// The MCP method.
    pub method: &'a str,
    /// Its `params`, a JSON object.
    pub params: &'a str,
    /// How long to wait.
    pub timeouts: RequestTimeouts,
    /// Who wants to know how far it has come.
    pub progress: Option<OnProgress>,
}

impl Session {
    /// Asks the server, and answers what it wants to know first.
    pub async fn request(&self, request: SessionRequest<'_>) -> Result<Reply, RequestError> {
        self.request_for(request, &Caller::default()).await
    }

    /// The same on behalf of somebody else, who may want to be asked, or to ask again, itself.
    pub async fn request_for(&self, request: SessionRequest<'_>, caller: &Caller) -> Result<Reply, RequestError> {
        if let Some(level) = caller.log_level {
            // Apart, so that requests without it have no room for it.
            Box::pin(self.raise_level(level)).await;
        }
        if self.peer.era == Era::Modern && is_work(request.method) {
            rounds::run(self, &request, caller).await
        } else {
            self.exchange(&request, request.params, caller).await
        }
    }

    /// Tells a server of the initialize era that logs which lines are wanted, unless it knows.
    pub async fn set_level(&self, level: LogLevel) {
        if self.peer.era == Era::Modern || !self.peer.features.logging {
            return;
        }
        {
            let mut told = self.sent_level.lock().unwrap_or_else(PoisonError::into_inner);
            if told.replace(level) == Some(level) {
                return;
            }
        }
        let params = format!(r#"{{"level":"{}"}}"#, level.name());
        let timeouts = RequestTimeouts::of(self.list_timeout);
        let request = SessionRequest { method: "logging/setLevel", params: &params, timeouts, progress: None };
        if let Err(failed) = self.exchange(&request, &params, &Caller::default()).await {
            debug!("the server keeps its own level of logs: {failed}");
        }
    }

    /// The same where the server was told a graver level, or none.
    async fn raise_level(&self, level: LogLevel) {
        let told = *self.sent_level.lock().unwrap_or_else(PoisonError::into_inner);
        if told.is_none_or(|told| level < told) {
            self.set_level(level).await;
        }
    }

    /// Sends a notification.
    pub async fn notify(&self, method: &str, params: Option<&str>) -> Result<(), RequestError> {
        let headers = match self.peer.era {
            Era::Legacy => self.headers.clone(),
            Era::Modern => self.request_headers(method, params.unwrap_or("{}")),
        };
        self.wire.notify(method, params, headers).await
    }

    /// Tells a server of the initialize era, without waiting for it, that the folders it may look at are others now.
    pub fn tell_roots_changed(self: &Arc<Self>) {
        if self.peer.era == Era::Modern {
            return;
        }
        let session = Arc::downgrade(self);
        self.wire.spawn(async move {
            let Some(session) = session.upgrade() else { return };
            if let Err(failed) = session.notify("notifications/roots/list_changed", None).await {
                debug!("the server does not hear of other roots: {failed}");
            }
        });
    }

    /// Whether the server is there: `ping` where the era has it, else `server/discover`.
    pub async fn probe(&self, limit: Duration) -> Result<(), RequestError> {
        let method = match self.peer.era {
            Era::Legacy => "ping",
            Era::Modern => "server/discover",
        };
        let request = SessionRequest { method, params: "{}", timeouts: RequestTimeouts::of(limit), progress: None };
        self.exchange(&request, request.params, &Caller::default()).await.map(drop)
    }

    /// How many messages the server has sent.
    pub fn messages(&self) -> u64 {
        self.wire.messages()
    }

    /// Until when the server may be silent: it may be at work on the first that it was asked and has not answered. Without
    /// such, or when its time is over, silence is a bad sign.
    pub fn busy_until(&self) -> Option<Instant> {
        self.wire.busy_until()
    }

    /// Waits until the server has sent more messages than these, or a request is given up, and no longer than until then.
    pub async fn wait_for_change(&self, messages: u64, until: Instant) {
        self.wire.wait_for_change(messages, until).await;
    }

    /// The session is about to be closed for this reason, which those hear who lose their answers by it.
    pub fn abandon(&self, why: String) {
        self.wire.abandon(why);
    }

    /// Hears the server's news for as long as it tells them and the future lives. Servers of the era before 2026-07-28
    /// tell them unasked, so there this returns at once.
    pub async fn listen(&self) -> Result<(), RequestError> {
        let ServerFeatures { list_changed, subscribe, .. } = self.peer.features;
        match (self.peer.era, list_changed, subscribe) {
            (Era::Legacy, ..) | (Era::Modern, false, false) => Ok(()),
            (Era::Modern, true, false) => self.listen_to_lists().await,
            (Era::Modern, false, true) => self.listen_to_watched().await,
            // What is watched changes, and the lists must not be missed meanwhile: so there are two streams.
            (Era::Modern, true, true) => tokio::try_join!(self.listen_to_lists(), self.listen_to_watched()).map(drop),
        }
    }

    async fn listen_to_lists(&self) -> Result<(), RequestError> {
        let params =
            r#"{"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}}"#;
        let timeouts = RequestTimeouts::unlimited();
        let request = SessionRequest { method: "subscriptions/listen", params, timeouts, progress: None };
        self.exchange(&request, params, &Caller::default()).await.map(drop)
    }

    /// Who the server is and what it offers.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// What the server lets know unasked, from now on.
    pub fn events(&self) -> broadcast::Receiver<ServerEvent> {
        self.wire.events()
    }

    /// Why the session is over, once it is.
    pub fn close_reason(&self) -> Option<RequestError> {
        self.wire.close_reason()
    }

    /// Whether we are ending the session ourselves, or have done so: then it is no news that requests fail.
    pub fn is_closing(&self) -> bool {
        self.wire.is_closing()
    }

    /// The process id of the server, where it is a process of ours.
    pub fn pid(&self) -> Option<u32> {
        self.wire.pid()
    }

    /// The last lines that the server wrote to its standard error.
    pub fn stderr_tail(&self) -> String {
        self.wire.stderr_tail()
    }

    /// Ends the session in good manners.
    pub async fn close(&self) {
        self.wire.close().await;
    }

    /// One request and its answer, whatever the answer says.
    async fn exchange(
        &self,
        request: &SessionRequest<'_>,
        params: &str,
        caller: &Caller,
    ) -> Result<Reply, RequestError> {
        let meta = self.meta_for(caller);
        let headers = self.request_headers(request.method, params);
        let wants_progress = request.progress.is_some() || is_work(request.method);
        let build = |id: RequestId| params::with_meta(params, &meta, wants_progress.then_some(id));
        let timeouts = request.timeouts;
        let ask = |headers| {
            let (progress, handler) = (request.progress.clone(), caller.handler.clone());
            WireRequest {
                method: request.method,
                params: &build,
                headers,
                timeouts,
                progress,
                handler,
                cancellable: true,
            }
        };
        match self.wire.request(ask(headers.clone())).await {
            // A kept connection may close at the moment when it is used again. What does no work may be asked again.
            Err(RequestError { failure: Failure::Closed, .. }) if self.wire.is_web() && !is_work(request.method) => {
                Box::pin(self.wire.request(ask(headers))).await
            }
            // Nothing was done. Whether a tool is called again is for the component to say.
            Err(RequestError { failure: Failure::Http(refused), .. })
                if refused.wants_authorization() && request.method != "tools/call" =>
            {
                match &self.authorize {
                    Some(authorize) => authorize.renew(&refused).await?,
                    None => return Err(RequestError::sent(Failure::Http(refused))),
                }
                Box::pin(self.wire.request(ask(headers))).await
            }
            outcome => outcome,
        }
    }

    /// What a request of this caller carries in `_meta`.
    fn meta_for(&self, caller: &Caller) -> Cow<'_, str> {
        let Caller { capabilities, meta, log_level, .. } = caller;
        let plain = self.peer.era == Era::Legacy || (capabilities.is_none() && log_level.is_none());
        if plain && meta.is_empty() {
            return Cow::Borrowed(&self.meta.whole);
        }
        let mut text = String::with_capacity(self.meta.whole.len() + ROOM);
        match capabilities {
            Some(capabilities) if self.peer.era == Era::Modern => {
                for piece in [&self.meta.identity, r#",""#, CAPABILITIES, r#"":"#, capabilities] {
                    text.push_str(piece);
                }
            }
            _ => text.push_str(&self.meta.whole),
        }
        if let Some(level) = log_level.filter(|_| self.peer.era == Era::Modern) {
            let _ = write!(text, r#","{NAMESPACE}/logLevel":"{}""#, level.name());
        }
        caller.write_meta(&mut text);
        Cow::Owned(text)
    }

    fn request_headers(&self, method: &str, params: &str) -> Vec<(http::HeaderName, http::HeaderValue)> {
        if !self.wire.is_web() {
            return Vec::new();
        }
        let mut headers = self.headers.clone();
        if self.peer.era == Era::Modern {
            headers::describe(method, params, &self.tool_headers, &mut headers);
        }
        headers
    }
}

/// Whether a method does a server's own work: it may take long, so progress is asked for; it may want input; it is
/// about one thing, which has a name.
fn is_work(method: &str) -> bool {
    matches!(method, "tools/call" | "prompts/get" | "resources/read")
}

/// An empty JSON object.
fn empty_object() -> Box<RawValue> {
    RawValue::from_string("{}".to_owned()).expect("the text is JSON")
}

/// Room for what a caller can do and wants, beside what is always said.
const ROOM: usize = 128;
/// What the members of `_meta` begin with that are the protocol's own.
const NAMESPACE: &str = "io.modelcontextprotocol";
/// The member of `_meta` that says what a client can be asked.
pub(crate) const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
