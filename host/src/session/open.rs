//! The beginning of a session: which era the server speaks, and who it is.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::Either;
use http::{HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::Instant;
use tracing::{debug, info};

use super::handler::{Handler, Nobody};
use super::peer::{LEGACY_VERSIONS, MODERN_VERSION, Offers};
use super::wire::{Ask, Patience, Reply, Wire};
use super::{CAPABILITIES, Era, Meta, NAMESPACE, Peer, Protocol, Session, params};
use crate::config::secrets::Secrets;
use crate::failure::{Failed, Failure};
use crate::json::Text;
use crate::transport::RequestId;
use crate::transport::endpoint::Endpoint;

/// How to begin a session.
#[derive(Clone)]
pub struct Options {
    /// Which era to speak.
    pub protocol: Protocol,
    /// How long the beginning may take in all.
    pub limit: Duration,
    /// How long a list may take.
    pub list: Duration,
    /// How many bytes of a list are taken; what is over it is left out.
    pub max_list_bytes: usize,
    /// Who answers what the server asks.
    pub handler: Arc<dyn Handler>,
    /// Where the secrets of all servers are gathered: the credentials among them are in nothing that the session hands out.
    pub secrets: Arc<Mutex<Secrets>>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            protocol: Protocol::Auto,
            limit: Duration::from_secs(30),
            list: Duration::from_secs(10),
            max_list_bytes: MAX_LIST_BYTES,
            handler: Arc::new(Nobody),
            secrets: Arc::default(),
        }
    }
}

const MAX_LIST_BYTES: usize = 16 << 20;

impl Session {
    /// Connects, finds out which era the server speaks, and shakes hands. Where the server wants an authorization,
    /// it is asked for, and the beginning has its time anew.
    pub async fn open(endpoint: &Endpoint, options: &Options) -> Result<Session, Failed> {
        let authorize = endpoint.site().and_then(|site| site.authorize.clone());
        let mut renewals = 0;
        loop {
            let failed = match Self::begin(endpoint, options).await {
                Ok(mut session) => {
                    session.authorize = authorize;
                    return Ok(session);
                }
                Err(failed) => failed,
            };
            match (&failed.failure, &authorize) {
                (Failure::Http(refused), Some(authorize)) if refused.wants_authorization() && renewals < RENEWALS => {
                    renewals += 1;
                    authorize.renew(refused).await?;
                }
                _ => return Err(failed),
            }
        }
    }

    async fn begin(endpoint: &Endpoint, options: &Options) -> Result<Session, Failed> {
        let begun = Begun { options, deadline: Instant::now() + options.limit };
        match (endpoint, options.protocol) {
            (Endpoint::Sse(_), _) => begun.legacy(endpoint).await,
            (_, Protocol::Legacy) => begun.legacy_or_sse(endpoint).await,
            (_, Protocol::Modern) => match begun.modern(endpoint).await {
                Probe::Found(session) => Ok(*session),
                Probe::Legacy { why, .. } => Err(why),
                Probe::Broken(failed) => Err(failed),
            },
            (_, Protocol::Auto) => match begun.probe(endpoint).await {
                Probe::Found(session) => Ok(*session),
                Probe::Broken(failed) => Err(failed),
                Probe::Legacy { why, wire } => {
                    debug!("not a server of {MODERN_VERSION}: {why}");
                    let outcome = match wire {
                        Some(wire) => begun.on_wire(wire, endpoint).await,
                        None => begun.legacy_or_sse(endpoint).await,
                    };
                    match outcome {
                        // It was not old, only too slow to say so in time.
                        Err(failed) if is_modern_error(&failed) => begun.modern_after_all(endpoint, failed).await,
                        outcome => outcome,
                    }
                }
            },
        }
    }
}

/// What the question for the modern era came to.
enum Probe {
    /// There is a session, of the modern era unless the other one was asked for as well.
    Found(Box<Session>),
    /// It is another era, and why; on this connection the talk can go on, if there is one.
    Legacy { why: Failed, wire: Option<Wire> },
    /// Nothing can be said, and nothing more be tried.
    Broken(Failed),
}

/// A beginning under way.
struct Begun<'a> {
    options: &'a Options,
    deadline: Instant,
}

impl Begun<'_> {
    /// Asks in the modern way, for as long as a modern server may take to answer.
    async fn modern(&self, endpoint: &Endpoint) -> Probe {
        self.ask_modern(endpoint, self.probe_limit()).await
    }

    /// The same, and where no answer comes for a while on standard input and output, also in the older way: some servers
    /// pass over what they do not know, and nothing says so. Who answers both answers the first question first.
    async fn probe(&self, endpoint: &Endpoint) -> Probe {
        if !matches!(endpoint, Endpoint::Stdio(_)) {
            return self.modern(endpoint).await;
        }
        let wire = match self.connect(endpoint).await {
            Ok(wire) => wire,
            Err(failed) => return Probe::Broken(failed),
        };
        let limit = self.probe_limit();
        let asked = AtomicBool::new(false);
        let found = {
            let mut discover = pin!(self.discover(&wire, limit));
            let mut shake = pin!(async {
                tokio::time::sleep(EARLY.min(limit / 2)).await;
                asked.store(true, Ordering::Relaxed);
                self.shake(&wire, endpoint).await
            });
            tokio::select! {
                biased;
                answer = &mut discover => match answer {
                    // It was asked in the other way, too, and has yet to answer.
                    Err(failed) if asked.load(Ordering::Relaxed) && is_of_older(&failed) => {
                        shake.await.map_or(Either::Right(Err(failed)), Either::Left)
                    }
                    answer => Either::Right(answer),
                },
                shaken = &mut shake => match shaken {
                    Ok(peer) => Either::Left(peer),
                    // It may be of the modern era, and slow.
                    Err(_) => Either::Right(discover.await),
                },
            }
        };
        match found {
            Either::Left(peer) => Probe::Found(Box::new(self.old_session(wire, peer))),
            Either::Right(answer) => self.conclude(answer, wire, endpoint),
        }
    }

    /// How long a modern server may take to answer. Where time is short, half of it stays for the other way.
    fn probe_limit(&self) -> Duration {
        PROBE_LIMIT.min(self.left() / 2)
    }

    async fn ask_modern(&self, endpoint: &Endpoint, limit: Duration) -> Probe {
        let wire = match self.connect(endpoint).await {
            Ok(wire) => wire,
            Err(failed) => return Probe::Broken(failed),
        };
        let answer = self.discover(&wire, limit).await;
        self.conclude(answer, wire, endpoint)
    }

    /// Asks who the server is.
    async fn discover(&self, wire: &Wire, limit: Duration) -> Result<Reply, Failed> {
        let params = params::with_meta("{}", &modern_meta(&*self.options.handler).whole, None);
        let mut described = modern_headers(wire);
        super::headers::describe("server/discover", "{}", &Default::default(), &mut described);
        let answer = self.ask(wire, "server/discover", &params, described.clone(), limit).await;
        // Refused with a version that the server says it speaks: it is taken at its word, once.
        if answer.as_ref().is_err_and(|refused| supported(refused).iter().any(|version| version == MODERN_VERSION)) {
            return self.ask(wire, "server/discover", &params, described, limit).await;
        }
        answer
    }

    /// What the answer to that comes to.
    fn conclude(&self, answer: Result<Reply, Failed>, wire: Wire, endpoint: &Endpoint) -> Probe {
        match answer {
            Ok(reply) => match discovered(&reply, transport_name(endpoint)) {
                Ok(peer) => {
                    let (meta, headers) = (modern_meta(&*self.options.handler), modern_headers(&wire));
                    Probe::Found(Box::new(self.session(wire, peer, meta, headers)))
                }
                Err(why) => Probe::Legacy { why, wire: Some(wire) },
            },
            Err(failed) => self.judge(failed, wire),
        }
    }

    /// Asks once more in the modern way, for as long as there is time.
    async fn modern_after_all(&self, endpoint: &Endpoint, refused: Failed) -> Result<Session, Failed> {
        match self.ask_modern(endpoint, self.left()).await {
            Probe::Found(session) => Ok(*session),
            Probe::Broken(failed) => Err(failed),
            Probe::Legacy { .. } => Err(refused),
        }
    }

    /// What a failed question says of the era.
    fn judge(&self, failed: Failed, wire: Wire) -> Probe {
        match &failed.failure {
            // The server knows the era, and does not want us.
            Failure::Rpc(_) if is_modern_error(&failed) => {
                if supported(&failed).iter().any(|version| LEGACY_VERSIONS.contains(&version.as_str())) {
                    Probe::Legacy { why: failed, wire: Some(wire) }
                } else {
                    Probe::Broken(failed)
                }
            }
            Failure::Http(error) if error.wants_authorization() => Probe::Broken(failed),
            // Some old servers end when they are asked what they do not know; they are started again.
            Failure::Closed | Failure::Exited(_) => Probe::Legacy { why: failed, wire: None },
            Failure::Abandoned(_)
            | Failure::Cancelled
            | Failure::Connect(_)
            | Failure::NoProgram(_)
            | Failure::NeedsAuth(_)
            | Failure::NotReady { .. }
            | Failure::QueueFull(_)
            | Failure::Restarting
            | Failure::RestartFailed(_) => Probe::Broken(failed),
            // Any other error, or none at all, is how older servers meet a method that they do not know.
            Failure::Timeout { .. } | Failure::Rpc(_) | Failure::Http(_) | Failure::Protocol(_) => {
                Probe::Legacy { why: failed, wire: Some(wire) }
            }
        }
    }

    /// Asks in the older way, on a new connection.
    async fn legacy(&self, endpoint: &Endpoint) -> Result<Session, Failed> {
        let wire = self.connect(endpoint).await?;
        self.initialize(wire, endpoint).await
    }

    async fn legacy_or_sse(&self, endpoint: &Endpoint) -> Result<Session, Failed> {
        let wire = self.connect(endpoint).await?;
        self.on_wire(wire, endpoint).await
    }

    /// Asks in the older way; a site that knows no POST may know the way before that.
    async fn on_wire(&self, wire: Wire, endpoint: &Endpoint) -> Result<Session, Failed> {
        let failed = match (self.initialize(wire, endpoint).await, endpoint) {
            (Err(failed), Endpoint::Http(_)) => failed,
            (outcome, _) => return outcome,
        };
        let Endpoint::Http(site) = endpoint else { return Err(failed) };
        match &failed.failure {
            Failure::Http(error) if matches!(error.status, 400 | 404 | 405) => {
                debug!("no Streamable HTTP at this address: {failed}");
                // What the server said to the newer way is the better clue if the older one fails as well.
                self.legacy(&Endpoint::Sse(site.clone())).await.map_err(|older| match older.failure {
                    Failure::Http(_) => {
                        debug!("nor is there HTTP with SSE: {older}");
                        failed
                    }
                    // There is a stream, and something else is wrong with it.
                    _ => older,
                })
            }
            _ => Err(failed),
        }
    }

    async fn initialize(&self, wire: Wire, endpoint: &Endpoint) -> Result<Session, Failed> {
        let peer = self.shake(&wire, endpoint).await?;
        Ok(self.old_session(wire, peer))
    }

    fn old_session(&self, wire: Wire, peer: Peer) -> Session {
        let headers = legacy_headers(&wire, &peer.version);
        self.session(wire, peer, Meta::default(), headers)
    }

    /// Shakes hands in the older way.
    async fn shake(&self, wire: &Wire, endpoint: &Endpoint) -> Result<Peer, Failed> {
        let capabilities = self.options.handler.topics().capabilities(Era::Legacy);
        let offered = LEGACY_VERSIONS[0];
        let params = format!(
            r#"{{"protocolVersion":"{offered}","capabilities":{capabilities},"clientInfo":{}}}"#,
            client_info()
        );
        let reply = self.ask(wire, "initialize", &params, Vec::new(), self.left()).await?;
        let peer = initialized(&reply, transport_name(endpoint))?;
        wire.notify("notifications/initialized", None, legacy_headers(wire, &peer.version)).await?;
        Ok(peer)
    }

    fn session(&self, wire: Wire, peer: Peer, meta: Meta, headers: Vec<(HeaderName, HeaderValue)>) -> Session {
        info!(era = peer.era.name(), version = peer.version, name = peer.name, "connected");
        wire.settle(peer.era, headers.clone());
        let shelf = wire.shelf();
        let list_patience = self.options.list;
        let (told_level, tool_headers) = (Default::default(), Default::default());
        Session {
            wire,
            peer,
            meta,
            told_level,
            headers,
            tool_headers,
            shelf,
            watched: Default::default(),
            list_patience,
            list_bytes: self.options.max_list_bytes,
            authorize: None,
        }
    }

    async fn connect(&self, endpoint: &Endpoint) -> Result<Wire, Failed> {
        let open = Wire::open(endpoint, Arc::clone(&self.options.handler), &self.options.secrets);
        match tokio::time::timeout_at(self.deadline, open).await {
            Ok(wire) => wire,
            Err(_) => Err(Failed::unsent(Failure::Connect(format!("no connection within {:?}", self.options.limit)))),
        }
    }

    async fn ask(
        &self,
        wire: &Wire,
        method: &str,
        params: &str,
        headers: Vec<(HeaderName, HeaderValue)>,
        limit: Duration,
    ) -> Result<Reply, Failed> {
        let patience = Patience::of(limit);
        let params = &|_: RequestId| params.to_owned();
        let ask = Ask { method, params, headers, patience, progress: None, handler: None, cancellable: false };
        wire.request(ask).await.map_err(|failed| match failed.failure {
            // The last word of the server, if it has one, says more than that time is up.
            Failure::Timeout { .. } if self.left().is_zero() => {
                let (after, stderr) = (self.options.limit, wire.stderr_tail());
                Failed::unsent(Failure::NotReady { method: method.to_owned(), after, stderr })
            }
            _ => failed.of(method),
        })
    }

    fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}

/// Whether this is how older servers meet a method that they do not know, and can be talked to still.
fn is_of_older(failed: &Failed) -> bool {
    matches!(failed.failure, Failure::Timeout { .. } | Failure::Rpc(_) | Failure::Protocol(_))
        && !is_modern_error(failed)
}

/// Whether an error has one of the codes that only the modern era knows.
fn is_modern_error(failed: &Failed) -> bool {
    matches!(&failed.failure, Failure::Rpc(error) if (-32022..=-32020).contains(&error.code))
}

/// The versions that a server speaks, as it says where it refuses one.
fn supported(refused: &Failed) -> Vec<String> {
    #[derive(Deserialize, Default)]
    struct Data {
        #[serde(default)]
        supported: Vec<String>,
    }
    let Failure::Rpc(error) = &refused.failure else { return Vec::new() };
    let data = error.data.as_deref().filter(|_| is_modern_error(refused));
    data.and_then(|data| serde_json::from_str::<Data>(data.get()).ok()).unwrap_or_default().supported
}

/// Reads the answer to `server/discover`; an error says why it is no server of this era.
fn discovered(reply: &Reply, transport: &'static str) -> Result<Peer, Failed> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Discovered {
        supported_versions: Vec<String>,
        #[serde(default = "super::empty_object")]
        capabilities: Box<RawValue>,
        #[serde(default)]
        instructions: Option<Text>,
        #[serde(rename = "_meta", default)]
        meta: Option<Meta>,
    }
    #[derive(Deserialize)]
    struct Meta {
        #[serde(rename = "io.modelcontextprotocol/serverInfo", default)]
        server: Option<Software>,
    }
    let Discovered { supported_versions, capabilities, instructions, meta } = reply.read("server/discover")?;
    if !supported_versions.iter().any(|version| version == MODERN_VERSION) {
        let how = format!("it speaks {} and not {MODERN_VERSION}", supported_versions.join(", "));
        return Err(Failed::sent(Failure::Protocol(how)));
    }
    let software = meta.and_then(|meta| meta.server).unwrap_or_default();
    Ok(peer(Era::Modern, MODERN_VERSION.to_owned(), software, capabilities, instructions, transport))
}

/// Reads the answer to `initialize`.
fn initialized(reply: &Reply, transport: &'static str) -> Result<Peer, Failed> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Initialized {
        protocol_version: String,
        #[serde(default = "super::empty_object")]
        capabilities: Box<RawValue>,
        #[serde(default)]
        instructions: Option<Text>,
        #[serde(default)]
        server_info: Option<Software>,
    }
    let Initialized { protocol_version: version, capabilities, instructions, server_info } =
        reply.read("initialize")?;
    if !LEGACY_VERSIONS.contains(&version.as_str()) {
        let how = format!("it wants version {version:?} of MCP; known are {}", LEGACY_VERSIONS.join(", "));
        return Err(Failed::sent(Failure::Protocol(how)));
    }
    Ok(peer(Era::Legacy, version, server_info.unwrap_or_default(), capabilities, instructions, transport))
}

fn peer(
    era: Era,
    version: String,
    software: Software,
    capabilities: Box<RawValue>,
    instructions: Option<Text>,
    transport: &'static str,
) -> Peer {
    let (name, software_version) = (software.name.map(String::from), software.version.map(String::from));
    let (offers, instructions) = (Offers::read(&capabilities), instructions.map(String::from));
    Peer { era, version, name, software_version, capabilities, offers, instructions, transport }
}

#[derive(Deserialize, Default)]
struct Software {
    #[serde(default)]
    name: Option<Text>,
    #[serde(default)]
    version: Option<Text>,
}

/// What every request of the modern era carries.
fn modern_meta(handler: &dyn Handler) -> Meta {
    let capabilities = handler.topics().capabilities(Era::Modern);
    let identity =
        format!(r#""{NAMESPACE}/protocolVersion":"{MODERN_VERSION}","{NAMESPACE}/clientInfo":{}"#, client_info());
    Meta { whole: format!(r#"{identity},"{CAPABILITIES}":{capabilities}"#), identity }
}

fn modern_headers(wire: &Wire) -> Vec<(HeaderName, HeaderValue)> {
    if wire.is_web() { vec![(VERSION, HeaderValue::from_static(MODERN_VERSION))] } else { Vec::new() }
}

/// The header came with 2025-06-18; servers before it need not know it.
fn legacy_headers(wire: &Wire, version: &str) -> Vec<(HeaderName, HeaderValue)> {
    let known = LEGACY_VERSIONS.iter().find(|known| **known == version && **known >= "2025-06-18");
    match known {
        Some(version) if wire.is_web() => vec![(VERSION, HeaderValue::from_static(version))],
        _ => Vec::new(),
    }
}

fn client_info() -> String {
    format!(r#"{{"name":"toolgate","version":"{}"}}"#, env!("CARGO_PKG_VERSION"))
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

const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// How often a server may want another authorization before it lets us in: one to begin with, one with more rights, and
/// one that came too late.
const RENEWALS: u32 = 3;
/// A cold Python server was seen to take four seconds.
const PROBE_LIMIT: Duration = Duration::from_secs(10);
/// When to ask in the older way as well: so that who passes over the first question is there before a list is given up.
const EARLY: Duration = Duration::from_secs(5);
