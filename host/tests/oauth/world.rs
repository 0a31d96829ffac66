//! Three sites for tests: a server, the authorization server that protects it, and an unrelated one.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use url::Url;

use super::{guarded, issuing};

/// How the two servers behave; the default is well.
#[derive(Clone)]
pub struct Rules {
    /// How long tokens are good for, as the authorization server says.
    pub life: Option<u64>,
    /// What it calls itself.
    pub issuer: Option<String>,
    /// What it says it is when it sends a person back.
    pub callback_issuer: Option<String>,
    /// It registers whoever asks.
    pub registers: bool,
    /// It reads the descriptions of clients.
    pub reads_descriptions: bool,
    /// How clients prove at its token endpoint who they are.
    pub methods: Vec<&'static str>,
    /// Clients that it knows, with their secrets.
    pub clients: Vec<(&'static str, &'static str)>,
    /// It takes refresh tokens.
    pub refreshes: bool,
    /// What it grants at most; all that is asked for, if empty.
    pub grants: Vec<&'static str>,
    /// It says no to persons.
    pub refuses: bool,
    /// Its token endpoint never answers.
    pub hangs: bool,
    /// Its token endpoint is broken.
    pub broken: bool,
    /// The server refuses every `write`, whatever the token allows.
    pub never_enough: bool,
    /// The server repeats what it was sent in its refusals.
    pub repeats: bool,
    /// The server says no more who guards it.
    pub silent: bool,
    /// The authorization server that the server names, if not the one that guards it.
    pub names: Option<String>,
    /// What the authorization server says of itself beside or in place of what is true.
    pub claims: Vec<(&'static str, String)>,
    /// What it does not say of itself.
    pub omits: Vec<&'static str>,
    /// What it says of a token beside or in place of what is true.
    pub token_claims: Vec<(&'static str, &'static str)>,
    /// It begins to describe itself and never ends.
    pub drips: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Rules {
            life: Some(3600),
            issuer: None,
            callback_issuer: None,
            registers: true,
            reads_descriptions: false,
            methods: vec!["none", "client_secret_basic", "client_secret_post", "private_key_jwt"],
            clients: Vec::new(),
            refreshes: true,
            grants: Vec::new(),
            refuses: false,
            hangs: false,
            broken: false,
            never_enough: false,
            repeats: false,
            silent: false,
            names: None,
            claims: Vec::new(),
            omits: Vec::new(),
            token_claims: Vec::new(),
            drips: false,
        }
    }
}

/// The three sites. Dropping it ends them.
pub struct World {
    sites: Arc<Sites>,
    _tasks: JoinSet<()>,
}

/// What the sites know.
pub struct Sites {
    /// The origin of the server.
    pub server: String,
    /// The origin of the authorization server.
    pub issuer: String,
    /// The origin of somebody else.
    pub other: String,
    state: Mutex<State>,
}

/// What has happened.
#[derive(Default)]
pub struct State {
    pub rules: Rules,
    /// All requests, in their order.
    pub seen: Vec<Seen>,
    /// Codes that were given out.
    pub codes: HashMap<String, Code>,
    /// Access tokens that are good, with their scopes.
    pub tokens: HashMap<String, Vec<String>>,
    /// Refresh tokens that are good, with their scopes.
    pub refresh_tokens: HashMap<String, Vec<String>>,
    /// Clients that registered, with their redirect addresses.
    pub registered: HashMap<String, String>,
    /// Counts what is given out.
    pub count: u32,
}

/// A code that was given out.
pub struct Code {
    pub challenge: String,
    pub client: String,
    pub redirect: String,
    pub scopes: Vec<String>,
}

/// A request, as it came.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The site, as `server`, `issuer` or `other`, and the path.
    pub place: String,
    pub method: String,
    pub authorization: Option<String>,
    /// The parameters of the query, or of the form.
    pub parameters: BTreeMap<String, String>,
    pub body: String,
}

impl Seen {
    /// A parameter; the empty text where there is none.
    pub fn parameter(&self, name: &str) -> &str {
        self.parameters.get(name).map_or("", String::as_str)
    }

    /// The name and password of `Authorization: Basic`.
    pub fn login(&self) -> Option<(String, String)> {
        let encoded = self.authorization.as_deref()?.strip_prefix("Basic ")?;
        let decoded = String::from_utf8(STANDARD.decode(encoded).ok()?).ok()?;
        decoded.split_once(':').map(|(name, word)| (name.to_owned(), word.to_owned()))
    }
}

impl World {
    /// The three sites, with these rules.
    pub async fn start(rules: Rules) -> Self {
        let mut listeners = Vec::new();
        for _ in 0..3 {
            listeners.push(TcpListener::bind("127.0.0.1:0").await.unwrap());
        }
        let origin = |listener: &TcpListener| format!("http://{}", listener.local_addr().unwrap());
        let sites = Arc::new(Sites {
            server: origin(&listeners[0]),
            issuer: origin(&listeners[1]),
            other: origin(&listeners[2]),
            state: Mutex::new(State { rules, ..State::default() }),
        });
        let mut tasks = JoinSet::new();
        for (listener, name) in listeners.into_iter().zip(["server", "issuer", "other"]) {
            tasks.spawn(serve(listener, name, Arc::clone(&sites)));
        }
        World { sites, _tasks: tasks }
    }

    /// The address of the server.
    pub fn url(&self) -> String {
        format!("{}/mcp", self.sites.server)
    }

    pub fn sites(&self) -> &Sites {
        &self.sites
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.sites.state()
    }

    /// Changes the rules.
    pub fn rule(&self, change: impl FnOnce(&mut Rules)) {
        change(&mut self.state().rules);
    }

    /// All requests to this place, in their order.
    pub fn seen(&self, place: &str) -> Vec<Seen> {
        self.state().seen.iter().filter(|seen| seen.place == place).cloned().collect()
    }

    /// The requests to the token endpoint with this grant.
    pub fn tokens_asked(&self, grant: &str) -> Vec<Seen> {
        self.seen("issuer /token").into_iter().filter(|seen| seen.parameter("grant_type") == grant).collect()
    }

    /// Every access token that was given out is void from now on.
    pub fn revoke(&self) {
        self.state().tokens.clear();
    }

    /// Everything that must never be shown.
    pub fn secrets(&self) -> Vec<String> {
        let state = self.state();
        let tokens = state.tokens.keys().chain(state.refresh_tokens.keys()).cloned();
        let sent =
            state.seen.iter().filter_map(|seen| Some(seen.authorization.as_deref()?.split_once(' ')?.1.to_owned()));
        tokens.chain(sent).collect()
    }
}

impl Sites {
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

async fn serve(listener: TcpListener, name: &'static str, sites: Arc<Sites>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else { return };
        let sites = Arc::clone(&sites);
        connections.spawn(async move {
            let service = service_fn(|request| answer(name, request, Arc::clone(&sites)));
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(
    name: &'static str,
    request: Request<Incoming>,
    sites: Arc<Sites>,
) -> Result<Response<String>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let body = String::from_utf8_lossy(&body).into_owned();
    let url = Url::parse(&format!("http://x{}", head.uri)).unwrap();
    let mut parameters: BTreeMap<String, String> = url.query_pairs().into_owned().collect();
    if head.headers.get("content-type").is_some_and(|kind| kind == "application/x-www-form-urlencoded") {
        parameters.extend(url::form_urlencoded::parse(body.as_bytes()).into_owned());
    }
    let authorization = head.headers.get("authorization").map(|value| value.to_str().unwrap().to_owned());
    let place = format!("{name} {}", url.path());
    let seen = Seen { place, method: head.method.to_string(), authorization, parameters, body };
    sites.state().seen.push(seen.clone());
    Ok(match name {
        "server" => guarded::answer(&sites, &seen, url.path()),
        "issuer" if url.path() == "/token" && sites.state().rules.hangs => std::future::pending().await,
        "issuer" if url.path() != "/token" && sites.state().rules.drips => std::future::pending().await,
        "issuer" => issuing::answer(&sites, &seen, url.path()),
        "other" if url.path() != "/mcp" => issuing::pretend(&sites, url.path()),
        _ => guarded::open_to_all(&sites, &seen),
    })
}

/// An answer in JSON.
pub fn reply(status: u16, body: impl Into<String>) -> Response<String> {
    let builder = Response::builder().status(status).header("content-type", "application/json");
    builder.body(body.into()).unwrap()
}
