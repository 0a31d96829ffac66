//! A session with one server, in either era of MCP, over any transport.
//!
//! JSON of servers passes through as text: what nobody here needs to read is never taken apart.

mod handler;
mod headers;
mod listing;
mod open;
mod params;
mod peer;
mod rounds;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::sync::broadcast;

pub use handler::{Handler, Nobody, Question, Topic, Topics};
pub use listing::{Kind, Listing};
pub use open::Options;
pub use peer::{Era, LEGACY_VERSIONS, MODERN_VERSION, News, Offers, Peer, Protocol};
pub(crate) use wire::message;
pub use wire::{OnProgress, Patience, Progress, Reply};

use crate::failure::{Failed, Failure};
use crate::transport::RequestId;
use headers::ToolHeaders;
use listing::Shelf;
use wire::{Ask, Wire};

/// A session with one server. Dropping it ends it at once; `close` ends it in good manners.
pub struct Session {
    wire: Wire,
    peer: Peer,
    /// What every request of 2026-07-28 carries in `_meta`; empty in the era before.
    meta: String,
    /// Headers for everything that is sent over HTTP.
    headers: Vec<(http::HeaderName, http::HeaderValue)>,
    tool_headers: ToolHeaders,
    shelf: Arc<Shelf>,
    list_patience: Duration,
}

/// What to ask of a server.
#[derive(Clone)]
pub struct Request<'a> {
    /// The MCP method.
    pub method: &'a str,
    /// Its `params`, a JSON object.
    pub params: &'a str,
    /// How long to wait.
    pub patience: Patience,
    /// Who wants to know how far it has come.
    pub progress: Option<OnProgress>,
}

impl Session {
    /// Asks the server, and answers what it wants to know first.
    pub async fn request(&self, request: Request<'_>) -> Result<Reply, Failed> {
        if self.peer.era == Era::Modern && is_work(request.method) {
            rounds::run(self, request).await
        } else {
            self.exchange(&request, request.params).await
        }
    }

    /// Sends a notification.
    pub async fn notify(&self, method: &str, params: Option<&str>) -> Result<(), Failed> {
        let headers = match self.peer.era {
            Era::Legacy => self.headers.clone(),
            Era::Modern => self.request_headers(method, params.unwrap_or("{}")),
        };
        self.wire.notify(method, params, headers).await
    }

    /// Whether the server is there: `ping` where the era has it, else `server/discover`.
    pub async fn probe(&self, limit: Duration) -> Result<(), Failed> {
        let method = match self.peer.era {
            Era::Legacy => "ping",
            Era::Modern => "server/discover",
        };
        let request = Request { method, params: "{}", patience: Patience::of(limit), progress: None };
        self.exchange(&request, request.params).await.map(drop)
    }

    /// Hears the server's news for as long as it tells them and the future lives. Servers of the era before 2026-07-28
    /// tell them unasked, so there this returns at once.
    pub async fn listen(&self) -> Result<(), Failed> {
        if self.peer.era == Era::Legacy || !self.peer.offers.list_changed {
            return Ok(());
        }
        let params =
            r#"{"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}}"#;
        let patience = Patience::of(NEWS_LIMIT);
        self.exchange(&Request { method: "subscriptions/listen", params, patience, progress: None }, params)
            .await
            .map(drop)
    }

    /// Who the server is and what it offers.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// What the server lets know unasked, from now on.
    pub fn news(&self) -> broadcast::Receiver<News> {
        self.wire.news()
    }

    /// Why the session is over, once it is.
    pub fn over(&self) -> Option<Failed> {
        self.wire.over()
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
    async fn exchange(&self, request: &Request<'_>, params: &str) -> Result<Reply, Failed> {
        let headers = self.request_headers(request.method, params);
        let wants_progress = request.progress.is_some() || is_work(request.method);
        let build = |id: RequestId| params::with_meta(params, &self.meta, wants_progress.then_some(id));
        let patience = request.patience;
        let ask = |headers| {
            let progress = request.progress.clone();
            Ask { method: request.method, params: &build, headers, patience, progress, cancellable: true }
        };
        match self.wire.request(ask(headers.clone())).await {
            // A kept connection may close at the moment when it is used again. What does no work may be asked again.
            Err(Failed { failure: Failure::Closed, .. }) if self.wire.is_web() && !is_work(request.method) => {
                self.wire.request(ask(headers)).await
            }
            outcome => outcome,
        }
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

/// News have no end of their own; a year is none that anyone meets.
const NEWS_LIMIT: Duration = Duration::from_secs(365 * 24 * 3600);

/// The JSON-RPC code for a method that there is not.
pub const METHOD_NOT_FOUND: i64 = -32601;
