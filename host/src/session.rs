//! A session with one server, in either era of MCP, over any transport.
//!
//! JSON from servers passes through as text; only the parts that are needed here are parsed.

mod caller;
mod capabilities;
mod era;
mod handler;
mod headers;
mod item_check;
mod level;
mod list_kind;
mod listing;
mod message_log;
mod open;
mod params;
mod peer;
mod request_meta;
mod rounds;
mod subscriptions;
mod wire;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::sync::broadcast;
use tokio::time::Instant;
use tracing::debug;

pub(crate) use caller::is_of_session;
pub use caller::{Caller, InputResponse};
pub(crate) use capabilities::{MissingCapability, missing_capability};
pub use era::{Era, LEGACY_VERSIONS, MODERN_VERSION, Protocol};
pub use handler::{ActiveCallers, DecliningHandler, Handler, NullHandler, ServerQuestion, Topic, Topics};
pub(crate) use item_check::strip_output_schema;
pub use level::LogLevel;
pub use list_kind::ListKind;
pub use listing::Listing;
pub(crate) use listing::UNANNOUNCED_LIST_AGE;
pub use message_log::MaskMessage;
pub use open::SessionOptions;
pub use peer::{Peer, ServerEvent, ServerFeatures};
pub(crate) use request_meta::CAPABILITIES;
pub use wire::{OnProgress, OnStderr, Progress, RequestTimeouts};

use crate::failure::{Failure, RequestError};
pub use crate::rpc::Reply;
use crate::transport::RequestId;
use crate::transport::authorize::Authorizer;
pub(crate) use headers::ToolHeaders;
use listing::ListCache;
use request_meta::RequestMeta;
pub use subscriptions::ResourceSubscription;
use subscriptions::SubscriptionCounts;
use wire::{Wire, WireRequest};

/// A session with one server. Dropping it cuts it off; `close` ends it in an orderly way.
pub struct Session {
    wire: Wire,
    peer: Peer,
    /// The `_meta` of every request of 2026-07-28; `None` in the initialize era.
    meta: Option<RequestMeta>,
    /// The log level that the server was last sent.
    sent_level: Mutex<Option<LogLevel>>,
    /// Headers for everything sent over HTTP.
    headers: Vec<(http::HeaderName, http::HeaderValue)>,
    tool_headers: ToolHeaders,
    list_cache: Arc<ListCache>,
    subscriptions: SubscriptionCounts,
    list_timeout: Duration,
    list_bytes: usize,
    authorize: Option<Authorizer>,
}

/// A request to a server.
#[derive(Clone)]
pub struct SessionRequest<'a> {
    /// The MCP method.
    pub method: &'a str,
    /// The `params`, a JSON object.
    pub params: &'a str,
    /// The timeouts.
    pub timeouts: RequestTimeouts,
    /// Receives progress.
    pub progress: Option<OnProgress>,
}

impl<'a> SessionRequest<'a> {
    /// Creates a request whose progress nobody receives.
    pub fn new(method: &'a str, params: &'a str, timeouts: RequestTimeouts) -> Self {
        SessionRequest { method, params, timeouts, progress: None }
    }
}

impl Session {
    /// Sends a request, and provides the input that the server asks for first.
    pub async fn request(&self, request: SessionRequest<'_>) -> Result<Reply, RequestError> {
        self.request_for(request, &Caller::default()).await
    }

    /// Sends a request for a caller, who may answer the server's questions or provide input itself.
    pub async fn request_for(&self, request: SessionRequest<'_>, caller: &Caller) -> Result<Reply, RequestError> {
        if let Some(level) = caller.log_level {
            // Boxed, so that requests without it do not pay for its size.
            Box::pin(self.raise_level(level)).await;
        }
        if self.peer.era == Era::Modern && is_work(request.method) {
            rounds::run(self, &request, caller).await
        } else {
            self.exchange(&request, request.params, caller).await
        }
    }

    /// Sends the wanted log level to a server of the initialize era, if it supports logging and the level is new.
    pub async fn set_level(&self, level: LogLevel) {
        if self.peer.era == Era::Modern || !self.peer.features.logging {
            return;
        }
        let sent = self.sent_level.lock().unwrap_or_else(PoisonError::into_inner).replace(level);
        if sent == Some(level) {
            return;
        }
        let params = format!(r#"{{"level":"{}"}}"#, level.name());
        if let Err(failed) = self.request_own("logging/setLevel", &params, RequestTimeouts::of(self.list_timeout)).await
        {
            debug!("cannot set the server's log level: {failed}");
        }
    }

    /// Lowers the log level of the server to this one if it was sent a higher level or none.
    async fn raise_level(&self, level: LogLevel) {
        let sent = *self.sent_level.lock().unwrap_or_else(PoisonError::into_inner);
        if sent.is_none_or(|sent| level < sent) {
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

    /// Tells a server of the initialize era, without waiting, that the roots have changed.
    pub fn tell_roots_changed(self: &Arc<Self>) {
        if self.peer.era == Era::Modern {
            return;
        }
        let session = Arc::downgrade(self);
        self.wire.spawn(async move {
            let Some(session) = session.upgrade() else { return };
            if let Err(failed) = session.notify("notifications/roots/list_changed", None).await {
                debug!("cannot notify the server of changed roots: {failed}");
            }
        });
    }

    /// Checks whether the server answers: by `ping` in the initialize era, else by `server/discover`.
    pub async fn probe(&self, limit: Duration) -> Result<(), RequestError> {
        let method = match self.peer.era {
            Era::Legacy => "ping",
            Era::Modern => "server/discover",
        };
        self.request_own(method, "{}", RequestTimeouts::of(limit)).await
    }

    /// Returns how many messages the server has sent.
    pub fn messages(&self) -> u64 {
        self.wire.messages()
    }

    /// Returns until when the server may be silent, because it works on its oldest open request. `None` if there is no
    /// open request or its time is over; silence is then a bad sign.
    pub fn busy_until(&self) -> Option<Instant> {
        self.wire.busy_until()
    }

    /// Waits until the server has sent more messages than these or a request ends, at most until the given time.
    pub async fn wait_for_change(&self, messages: u64, until: Instant) {
        self.wire.wait_for_change(messages, until).await;
    }

    /// Sets the reason why the session is about to be closed, with which its pending requests fail.
    pub fn abandon(&self, why: String) {
        self.wire.abandon(why);
    }

    /// Receives the server's events until it stops sending them or the future is dropped. Servers of the initialize era
    /// send events without a subscription, so this returns at once.
    pub async fn listen(&self) -> Result<(), RequestError> {
        let ServerFeatures { list_changed, subscribe, .. } = self.peer.features;
        match (self.peer.era, list_changed, subscribe) {
            (Era::Legacy, ..) | (Era::Modern, false, false) => Ok(()),
            (Era::Modern, true, false) => self.listen_to_lists().await,
            (Era::Modern, false, true) => self.listen_to_watched().await,
            // The watched resources change, and list changes must not be missed meanwhile, so there are two streams.
            (Era::Modern, true, true) => tokio::try_join!(self.listen_to_lists(), self.listen_to_watched()).map(drop),
        }
    }

    async fn listen_to_lists(&self) -> Result<(), RequestError> {
        let params =
            r#"{"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}}"#;
        self.request_own("subscriptions/listen", params, RequestTimeouts::unlimited()).await
    }

    /// Sends a request of the session's owner whose result says nothing.
    async fn request_own(&self, method: &str, params: &str, timeouts: RequestTimeouts) -> Result<(), RequestError> {
        self.exchange(&SessionRequest::new(method, params, timeouts), params, &Caller::default()).await.map(drop)
    }

    /// Returns the server's identity and features.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Subscribes to the server's events from now on.
    pub fn events(&self) -> broadcast::Receiver<ServerEvent> {
        self.wire.events()
    }

    /// Returns why the session is over, once it is.
    pub fn close_reason(&self) -> Option<RequestError> {
        self.wire.close_reason()
    }

    /// Reports whether this side is closing the session, so that failing requests are expected.
    pub fn is_closing(&self) -> bool {
        self.wire.is_closing()
    }

    /// Returns the server's process id, if it is a local process.
    pub fn pid(&self) -> Option<u32> {
        self.wire.pid()
    }

    /// Returns the last lines of the server's standard error.
    pub fn stderr_tail(&self) -> String {
        self.wire.stderr_tail()
    }

    /// Ends the session in an orderly way.
    pub async fn close(&self) {
        self.wire.close().await;
    }

    /// Sends one request and returns its response, whatever it says.
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
        let SessionRequest { method, timeouts, .. } = *request;
        let ask = |headers| {
            let (progress, handler) = (request.progress.clone(), caller.handler.clone());
            WireRequest { method, params: &build, headers, timeouts, progress, handler, cancellable: true }
        };
        match self.wire.request(ask(headers.clone())).await {
            // A pooled connection may close just when it is used again; requests without side effects can be repeated.
            Err(RequestError { failure: Failure::Closed, .. }) if self.wire.is_web() && !is_work(request.method) => {
                Box::pin(self.wire.request(ask(headers))).await
            }
            // Nothing was done yet. For tool calls, the component decides about a retry.
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

    /// Returns the `_meta` of a request for this caller.
    fn meta_for(&self, caller: &Caller) -> String {
        let mut meta = self.meta.as_ref().map(|meta| meta.members(caller)).unwrap_or_default();
        caller.write_meta(&mut meta);
        meta
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

/// Reports whether a method runs the server's own code: it may take long, so progress is requested; it may need input;
/// and its params name one thing.
fn is_work(method: &str) -> bool {
    matches!(method, "tools/call" | "prompts/get" | "resources/read")
}

/// Returns an empty JSON object.
fn empty_object() -> Box<RawValue> {
    RawValue::from_string("{}".to_owned()).expect("the text is JSON")
}
