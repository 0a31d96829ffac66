//! Opens a session: finds the server's era and performs the handshake.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::Either;
use http::{HeaderName, HeaderValue};
use serde::Deserialize;
use tokio::time::Instant;
use tracing::{debug, info};

use super::era::{Era, LEGACY_VERSIONS, MODERN_VERSION, Protocol};
use super::handler::{Handler, NullHandler};
use super::message_log::{MaskMessage, MessageLog};
use super::request_meta::{RequestMeta, client_info};
use super::wire::{OnStderr, RequestTimeouts, Wire, WireRequest};
use super::{Caller, Peer, Reply, Session, params};
use crate::config::secrets::Secrets;
use crate::failure::{Failure, RequestError};
use crate::rpc::header::VERSION;
use crate::transport::RequestId;
use crate::transport::endpoint::Endpoint;

/// Options for opening a session.
#[derive(Clone)]
pub struct SessionOptions {
    /// The era to use.
    pub protocol: Protocol,
    /// How long opening may take in all.
    pub limit: Duration,
    /// How long a page of a list may take.
    pub list: Duration,
    /// The maximum size of a list in bytes; longer ones are cut.
    pub max_list_bytes: usize,
    /// Answers the server's questions.
    pub handler: Arc<dyn Handler>,
    /// Collects the secrets of all servers; credentials among them are hidden in everything the session returns.
    pub secrets: Arc<Mutex<Secrets>>,
    /// Masks messages for the log, which has them at level `trace`; `None` means that nothing is masked.
    pub mask_message: Option<MaskMessage>,
    /// Receives each line that the server writes to its standard error, with nothing removed from it.
    pub on_stderr: Option<OnStderr>,
}

impl Default for SessionOptions {
    fn default() -> Self {
        SessionOptions {
            protocol: Protocol::Auto,
            limit: Duration::from_secs(30),
            list: Duration::from_secs(10),
            max_list_bytes: MAX_LIST_BYTES,
            handler: Arc::new(NullHandler),
            secrets: Arc::default(),
            mask_message: None,
            on_stderr: None,
        }
    }
}

const MAX_LIST_BYTES: usize = 16 << 20;

impl Session {
    /// Connects, finds the server's era, and performs the handshake. If the server needs an authorization, gets one and
    /// starts again with the full time limit.
    pub async fn open(endpoint: &Endpoint, options: &SessionOptions) -> Result<Session, RequestError> {
        let authorize = endpoint.site().and_then(|site| site.authorize.clone());
        let mut renewals = 0;
        loop {
            match (Self::begin(endpoint, options).await, &authorize) {
                (Err(RequestError { failure: Failure::Http(refused), .. }), Some(authorize))
                    if refused.wants_authorization() && renewals < RENEWALS =>
                {
                    renewals += 1;
                    authorize.renew(&refused).await?;
                }
                (opened, _) => return opened.map(|session| Session { authorize, ..session }),
            }
        }
    }

    async fn begin(endpoint: &Endpoint, options: &SessionOptions) -> Result<Session, RequestError> {
        let begun = Handshake { options, deadline: Instant::now() + options.limit };
        match (endpoint, options.protocol) {
            (Endpoint::Sse(_), _) => begun.legacy(endpoint).await,
            (_, Protocol::Legacy) => begun.legacy_or_sse(endpoint).await,
            (_, Protocol::Modern) => match begun.modern(endpoint, begun.probe_limit()).await {
                Ok(session) => Ok(session),
                Err(ProbeFailure::Legacy { why, .. } | ProbeFailure::Final(why)) => Err(why),
            },
            (_, Protocol::Auto) => match begun.probe(endpoint).await {
                Ok(session) => Ok(session),
                Err(ProbeFailure::Final(failed)) => Err(failed),
                Err(ProbeFailure::Legacy { why, wire }) => {
                    debug!("not a server of {MODERN_VERSION}: {why}");
                    let outcome = match wire {
                        Some(wire) => begun.initialize_or_sse(*wire, endpoint).await,
                        None => begun.legacy_or_sse(endpoint).await,
                    };
                    match outcome {
                        // It is a modern server that was only too slow to answer.
                        Err(failed) if is_modern_error(&failed) => begun.retry_modern(endpoint, failed).await,
                        outcome => outcome,
                    }
                }
            },
        }
    }
}

/// Why a probe for the modern era opened no session.
enum ProbeFailure {
    /// The server is of the legacy era, and why; with the connection, if it can still be used.
    Legacy { why: RequestError, wire: Option<Box<Wire>> },
    /// Nothing else can be tried.
    Final(RequestError),
}

impl From<RequestError> for ProbeFailure {
    fn from(failed: RequestError) -> Self {
        ProbeFailure::Final(failed)
    }
}

/// A handshake in progress.
struct Handshake<'a> {
    options: &'a SessionOptions,
    deadline: Instant,
}

impl Handshake<'_> {
    /// Tries the modern era and, on standard input and output, after a while also the legacy one, because some servers
    /// ignore unknown methods without an answer. A server that knows both answers the first request first.
    async fn probe(&self, endpoint: &Endpoint) -> Result<Session, ProbeFailure> {
        if !matches!(endpoint, Endpoint::Stdio(_)) {
            return self.modern(endpoint, self.probe_limit()).await;
        }
        let wire = self.connect(endpoint).await?;
        let limit = self.probe_limit();
        let asked = AtomicBool::new(false);
        let found = {
            let mut discover = pin!(self.discover(&wire, limit));
            let mut shake = pin!(async {
                tokio::time::sleep(EARLY.min(limit / 2)).await;
                asked.store(true, Ordering::Relaxed);
                self.initialize_peer(&wire, endpoint).await
            });
            tokio::select! {
                biased;
                answer = &mut discover => match answer {
                    // The legacy request is also sent and has no answer yet.
                    Err(failed) if asked.load(Ordering::Relaxed) && suggests_legacy(&failed) => {
                        shake.await.map_or(Either::Right(Err(failed)), Either::Left)
                    }
                    answer => Either::Right(answer),
                },
                shaken = &mut shake => match shaken {
                    Ok(peer) => Either::Left(peer),
                    // It may be a slow server of the modern era.
                    Err(_) => Either::Right(discover.await),
                },
            }
        };
        match found {
            Either::Left(peer) => Ok(self.legacy_session(wire, peer)),
            Either::Right(answer) => self.conclude(answer, wire, endpoint),
        }
    }

    /// Returns how long a modern server may take to answer; half of a short limit is kept for the legacy era.
    fn probe_limit(&self) -> Duration {
        PROBE_LIMIT.min(self.time_left() / 2)
    }

    /// Tries the modern era on a new connection.
    async fn modern(&self, endpoint: &Endpoint, limit: Duration) -> Result<Session, ProbeFailure> {
        let wire = self.connect(endpoint).await?;
        let answer = self.discover(&wire, limit).await;
        self.conclude(answer, wire, endpoint)
    }

    /// Sends `server/discover`.
    async fn discover(&self, wire: &Wire, limit: Duration) -> Result<Reply, RequestError> {
        let params = params::with_meta("{}", &self.meta().members(&Caller::default()), None);
        let mut described = modern_headers(wire);
        super::headers::describe("server/discover", "{}", &Default::default(), &mut described);
        let answer = self.ask(wire, "server/discover", &params, described.clone(), limit).await;
        // Rejected with a version that the server claims to support: try once more.
        if answer.as_ref().is_err_and(|refused| supported(refused).iter().any(|version| version == MODERN_VERSION)) {
            return self.ask(wire, "server/discover", &params, described, limit).await;
        }
        answer
    }

    /// Turns the answer to `server/discover` into the outcome of the probe.
    fn conclude(
        &self,
        answer: Result<Reply, RequestError>,
        wire: Wire,
        endpoint: &Endpoint,
    ) -> Result<Session, ProbeFailure> {
        let reply = match answer {
            Ok(reply) => reply,
            Err(failed) => return Err(classify_failure(failed, wire)),
        };
        match Peer::from_discover(&reply, transport_name(endpoint)) {
            Ok(peer) => {
                let headers = modern_headers(&wire);
                Ok(self.session(wire, peer, Some(self.meta()), headers))
            }
            Err(why) => Err(ProbeFailure::Legacy { why, wire: Some(Box::new(wire)) }),
        }
    }

    /// Tries the modern era once more, for the time that is left.
    async fn retry_modern(&self, endpoint: &Endpoint, refused: RequestError) -> Result<Session, RequestError> {
        self.modern(endpoint, self.time_left()).await.map_err(|failure| match failure {
            ProbeFailure::Legacy { .. } => refused,
            ProbeFailure::Final(failed) => failed,
        })
    }

    /// Performs the legacy handshake on a new connection.
    async fn legacy(&self, endpoint: &Endpoint) -> Result<Session, RequestError> {
        let wire = self.connect(endpoint).await?;
        self.initialize(wire, endpoint).await
    }

    async fn legacy_or_sse(&self, endpoint: &Endpoint) -> Result<Session, RequestError> {
        let wire = self.connect(endpoint).await?;
        self.initialize_or_sse(wire, endpoint).await
    }

    /// Performs the legacy handshake; a site that does not accept POST may support HTTP with SSE.
    async fn initialize_or_sse(&self, wire: Wire, endpoint: &Endpoint) -> Result<Session, RequestError> {
        let outcome = self.initialize(wire, endpoint).await;
        match (outcome, endpoint) {
            (Err(failed), Endpoint::Http(site)) if matches!(&failed.failure, Failure::Http(error) if matches!(error.status, 400 | 404 | 405)) =>
            {
                debug!("no Streamable HTTP at this address: {failed}");
                // If SSE fails as well, the error from Streamable HTTP says more.
                self.legacy(&Endpoint::Sse(site.clone())).await.map_err(|older| match older.failure {
                    Failure::Http(_) => {
                        debug!("no HTTP with SSE either: {older}");
                        failed
                    }
                    // There is a stream, and something else is wrong with it.
                    _ => older,
                })
            }
            (outcome, _) => outcome,
        }
    }

    async fn initialize(&self, wire: Wire, endpoint: &Endpoint) -> Result<Session, RequestError> {
        let peer = self.initialize_peer(&wire, endpoint).await?;
        Ok(self.legacy_session(wire, peer))
    }

    fn legacy_session(&self, wire: Wire, peer: Peer) -> Session {
        let headers = legacy_headers(&wire, &peer.version);
        self.session(wire, peer, None, headers)
    }

    /// Performs the legacy handshake and reads who the server is.
    async fn initialize_peer(&self, wire: &Wire, endpoint: &Endpoint) -> Result<Peer, RequestError> {
        let capabilities = self.options.handler.topics().capabilities(Era::Legacy);
        let offered = LEGACY_VERSIONS[0];
        let params = format!(
            r#"{{"protocolVersion":"{offered}","capabilities":{capabilities},"clientInfo":{}}}"#,
            client_info()
        );
        let reply = self.ask(wire, "initialize", &params, Vec::new(), self.time_left()).await?;
        let peer = Peer::from_initialize(&reply, transport_name(endpoint))?;
        wire.notify("notifications/initialized", None, legacy_headers(wire, &peer.version)).await?;
        Ok(peer)
    }

    fn session(
        &self,
        wire: Wire,
        peer: Peer,
        meta: Option<RequestMeta>,
        headers: Vec<(HeaderName, HeaderValue)>,
    ) -> Session {
        let name = peer.name.as_deref().map(|name| self.masked(name));
        info!(era = peer.era.name(), version = self.masked(&peer.version), name, "connected");
        wire.complete_handshake(peer.era, headers.clone());
        Session {
            list_cache: wire.list_cache(),
            wire,
            peer,
            meta,
            sent_level: Default::default(),
            headers,
            tool_headers: Default::default(),
            subscriptions: Default::default(),
            list_timeout: self.options.list,
            list_bytes: self.options.max_list_bytes,
            authorize: None,
        }
    }

    /// Masks what a server says of itself, for the log.
    fn masked(&self, text: &str) -> String {
        match &self.options.mask_message {
            Some(mask) => mask(text.to_owned()).unwrap_or_else(|| "(it cannot be masked)".to_owned()),
            None => text.to_owned(),
        }
    }

    fn meta(&self) -> RequestMeta {
        RequestMeta::new(&*self.options.handler)
    }

    async fn connect(&self, endpoint: &Endpoint) -> Result<Wire, RequestError> {
        let SessionOptions { handler, secrets, mask_message, on_stderr, .. } = self.options;
        let log = MessageLog::new(mask_message.clone());
        let open = Wire::open(endpoint, Arc::clone(handler), secrets, log, on_stderr.clone());
        let late = |_| RequestError::unsent(Failure::Connect(format!("no connection within {:?}", self.options.limit)));
        tokio::time::timeout_at(self.deadline, open).await.map_err(late)?
    }

    async fn ask(
        &self,
        wire: &Wire,
        method: &str,
        params: &str,
        headers: Vec<(HeaderName, HeaderValue)>,
        limit: Duration,
    ) -> Result<Reply, RequestError> {
        let timeouts = RequestTimeouts::of(limit);
        let params = &|_: RequestId| params.to_owned();
        let ask = WireRequest { method, params, headers, timeouts, progress: None, handler: None, cancellable: false };
        wire.request(ask).await.map_err(|failed| match failed.failure {
            // The server's last output, if any, says more than a timeout.
            Failure::Timeout { .. } if self.time_left().is_zero() => {
                let (after, stderr) = (self.options.limit, wire.stderr_tail());
                RequestError::unsent(Failure::NotReady { method: method.to_owned(), after, stderr })
            }
            _ => failed.with_method(method),
        })
    }

    fn time_left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}

/// Decides what a failed probe says about the era.
fn classify_failure(failed: RequestError, wire: Wire) -> ProbeFailure {
    let legacy_versions = supported(&failed).iter().any(|version| LEGACY_VERSIONS.contains(&version.as_str()));
    match &failed.failure {
        // The server knows the modern era but rejects the version.
        Failure::Rpc(_) if is_modern_error(&failed) && !legacy_versions => ProbeFailure::Final(failed),
        Failure::Http(error) if error.wants_authorization() => ProbeFailure::Final(failed),
        // It ended before it had read the question, so it dies at its start whatever it is asked.
        Failure::Exited(exit) if exit.read_nothing => ProbeFailure::Final(failed),
        // Some old servers exit on an unknown method; start them again.
        Failure::Closed | Failure::Exited(_) => ProbeFailure::Legacy { why: failed, wire: None },
        Failure::Abandoned(_)
        | Failure::Cancelled
        | Failure::Connect(_)
        | Failure::NoProgram(_)
        | Failure::Misconfigured(_)
        | Failure::NeedsAuth(_)
        | Failure::NotReady { .. }
        | Failure::QueueFull(_)
        | Failure::Restarting
        | Failure::RestartFailed(_)
        | Failure::RulesUnavailable(_)
        | Failure::Stopped => ProbeFailure::Final(failed),
        // Older servers react to an unknown method with any other error, or not at all.
        Failure::Timeout { .. } | Failure::Rpc(_) | Failure::Http(_) | Failure::Protocol(_) => {
            ProbeFailure::Legacy { why: failed, wire: Some(Box::new(wire)) }
        }
    }
}

/// Reports whether a failure looks like an older server's reaction to an unknown method, on a connection that still
/// works.
fn suggests_legacy(failed: &RequestError) -> bool {
    matches!(failed.failure, Failure::Timeout { .. } | Failure::Rpc(_) | Failure::Protocol(_))
        && !is_modern_error(failed)
}

/// Reports whether an error has a code that only the modern era uses.
fn is_modern_error(failed: &RequestError) -> bool {
    matches!(&failed.failure, Failure::Rpc(error) if (-32022..=-32020).contains(&error.code))
}

/// Returns the versions that a server lists when it rejects one.
fn supported(refused: &RequestError) -> Vec<String> {
    #[derive(Deserialize, Default)]
    struct Data {
        #[serde(default)]
        supported: Vec<String>,
    }
    let Failure::Rpc(error) = &refused.failure else { return Vec::new() };
    let data = error.data.as_deref().filter(|_| is_modern_error(refused));
    data.and_then(|data| serde_json::from_str::<Data>(data.get()).ok()).unwrap_or_default().supported
}

fn modern_headers(wire: &Wire) -> Vec<(HeaderName, HeaderValue)> {
    if wire.is_web() { vec![(VERSION, HeaderValue::from_static(MODERN_VERSION))] } else { Vec::new() }
}

/// Returns the version header, which exists since 2025-06-18; older servers do not get it.
fn legacy_headers(wire: &Wire, version: &str) -> Vec<(HeaderName, HeaderValue)> {
    let known = LEGACY_VERSIONS.iter().find(|known| **known == version && **known >= "2025-06-18");
    match known {
        Some(version) if wire.is_web() => vec![(VERSION, HeaderValue::from_static(version))],
        _ => Vec::new(),
    }
}

fn transport_name(endpoint: &Endpoint) -> &'static str {
    match endpoint {
        Endpoint::Stdio(_) => "stdio",
        Endpoint::Http(_) => "http",
        Endpoint::Sse(_) => "sse",
        Endpoint::WebSocket(_) => "websocket",
        Endpoint::Custom(_) => "custom",
    }
}

/// How often a server may ask for another authorization while opening: a first one, one with more rights, and one that
/// expired meanwhile.
const RENEWALS: u32 = 3;
/// A cold Python server can take four seconds.
const PROBE_LIMIT: Duration = Duration::from_secs(10);
/// When to try the legacy era as well, early enough for servers that ignore the first request.
const EARLY: Duration = Duration::from_secs(5);
