//! Opens sessions with one server, as its configuration says.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::value::RawValue;

use super::super::{RegistryContext, RegistryLifetime};
use super::Unavailable;
use crate::config::model::{Config, Problem, ServerConfig};
use crate::config::resolve::resolve;
#[cfg(feature = "oauth")]
use crate::config::{model::ServerAuth, resolve::resolve_oauth};
use crate::failure::{Failure, RequestError, RpcError};
#[cfg(feature = "oauth")]
use crate::oauth::Account;
use crate::session::{ActiveCallers, Handler, Protocol, ServerQuestion, Session, SessionOptions, Topics};
use crate::transport::BoxFuture;
use crate::transport::authorize::Authorize;
#[cfg(feature = "oauth")]
use crate::transport::authorize::Authorizer;
use crate::transport::endpoint::Endpoint;

/// Opens sessions with one server.
pub(super) struct SessionOpener {
    /// Tells the connections that it opens, one at a time, from those of others.
    pub(super) number: u64,
    pub(super) context: Arc<RegistryContext>,
    /// The configuration that it was made for; what this server is told of others comes from that of now.
    config: Arc<Config>,
    /// The place of the server in the configuration.
    server_index: usize,
    /// What `{{.SESSION_ID}}` stands for.
    session: Option<String>,
    /// The era that the last session spoke; the next one need not ask.
    era: Mutex<Option<Protocol>>,
    /// Where the server was when it was last connected.
    last_endpoint: Mutex<Option<Endpoint>>,
    /// Our account with the server, once it was looked for.
    #[cfg(feature = "oauth")]
    account: Mutex<Option<Arc<Account>>>,
}

impl SessionOpener {
    pub(super) fn new(
        context: Arc<RegistryContext>,
        config: Arc<Config>,
        server_index: usize,
        session: Option<String>,
    ) -> Self {
        SessionOpener {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            context,
            config,
            server_index,
            session,
            era: Mutex::default(),
            last_endpoint: Mutex::default(),
            #[cfg(feature = "oauth")]
            account: Mutex::default(),
        }
    }

    /// What the configuration says of the server.
    pub(super) fn server(&self) -> &ServerConfig {
        &self.config.servers[self.server_index]
    }

    /// Opens a session.
    pub(super) async fn open(self: &Arc<Self>, limit: Duration) -> Result<Arc<Session>, Unavailable> {
        let server = self.server();
        let endpoint = self.endpoint().await.map_err(Unavailable::Problem)?;
        self.context.secrets().merge(&endpoint.secrets());
        *self.last_endpoint.lock().unwrap_or_else(PoisonError::into_inner) = Some(endpoint.clone());
        let starts = self.context.starts();
        let _turn = starts.acquire().await.expect("nobody closes the semaphore");
        let remembered = self.era().filter(|_| server.protocol == Protocol::Auto);
        let protocol = remembered.unwrap_or(server.protocol);
        let handler: Arc<dyn Handler> = Arc::new(TaggedHandler {
            server: server.id.clone(),
            connection: self.number,
            handler: Arc::clone(&self.context.handler),
        });
        let max_list_bytes = usize::try_from(server.max_list_bytes).unwrap_or(usize::MAX);
        let secrets = self.context.shared_secrets();
        let options = SessionOptions { protocol, limit, list: server.timeouts.list, max_list_bytes, handler, secrets };
        let mut opened = Session::open(&endpoint, &options).await;
        if let (Err(failed), Some(_)) = (&opened, remembered)
            && !matches!(
                failed.failure,
                Failure::Connect(_) | Failure::NoProgram(_) | Failure::NotReady { .. } | Failure::NeedsAuth(_)
            )
        {
            // It may be another server now, of the other era.
            opened = Session::open(&endpoint, &SessionOptions { protocol: Protocol::Auto, ..options }).await;
        }
        let era = opened.as_ref().ok().map(|session| session.peer().era.into());
        *self.era.lock().unwrap_or_else(PoisonError::into_inner) = era;
        opened.map(Arc::new).map_err(|failed| Unavailable::Failed(with_address(failed, &endpoint)))
    }

    /// Whether the server would be reached or run otherwise now. What cannot be filled in now is not used, and told.
    pub(super) async fn is_stale(self: &Arc<Self>) -> bool {
        let Some(used) = self.last_endpoint.lock().unwrap_or_else(PoisonError::into_inner).clone() else {
            return false;
        };
        match self.endpoint().await {
            Ok(endpoint) => endpoint != used,
            Err(problem) => {
                tracing::warn!(server = self.server().id, "it goes on as it is: {problem}");
                false
            }
        }
    }

    /// What is wrong with the configuration of a server that is to stay, as far as that can be seen without waiting for a
    /// command or a person.
    pub(super) fn problem(&self) -> Option<Problem> {
        let SessionOpener { context, config, session, .. } = self;
        let waits = config.settings.allow_commands || !config.settings.inputs.is_empty();
        let known_later = session.is_none() && self.server().uses_session();
        if context.lifetime == RegistryLifetime::OneShot
            || waits
            || known_later
            || context.transports.contains_key(&self.server().id)
        {
            return None;
        }
        resolve(self.server(), &context.config(), &context.variables, session.as_deref()).err()
    }

    /// Where the server is, with everything filled in anew: files and variables may have changed.
    pub(super) async fn endpoint(self: &Arc<Self>) -> Result<Endpoint, Problem> {
        if let Some(own) = self.context.transports.get(&self.server().id) {
            return Ok(Endpoint::Custom(Arc::clone(own)));
        }
        let settings = &self.config.settings;
        let may_block = settings.allow_commands || !settings.inputs.is_empty();
        let opener = Arc::clone(self);
        let fill = move || {
            let SessionOpener { context, session, .. } = &*opener;
            // What is another server's secret, the configuration of now says.
            let config = context.config();
            let endpoint = resolve(opener.server(), &config, &context.variables, session.as_deref())?;
            opener.with_authorization(endpoint)
        };
        if !may_block {
            return fill();
        }
        // A command may take its time and so may a person; the other servers go on meanwhile.
        match tokio::task::spawn_blocking(fill).await {
            Ok(endpoint) => endpoint,
            Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
        }
    }

    /// The endpoint, with who gives requests their authorization where nothing else does.
    #[cfg(feature = "oauth")]
    fn with_authorization(&self, mut endpoint: Endpoint) -> Result<Endpoint, Problem> {
        let server = self.server();
        let Some(site) = endpoint.site_mut() else { return Ok(endpoint) };
        let written_out = site.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
        if written_out && server.auth == ServerAuth::None {
            return Ok(endpoint);
        }
        let Some(oauth) = resolve_oauth(server, &self.config, &self.context.variables)? else {
            return Ok(endpoint);
        };
        let account = self.context.account(&server.id, site, oauth).map_err(|error| Problem {
            place: server.place.clone(),
            field: None,
            text: error.to_string(),
        })?;
        site.authorize = Some(Authorizer(Arc::clone(&account) as _));
        *self.account.lock().unwrap_or_else(PoisonError::into_inner) = Some(account);
        Ok(endpoint)
    }

    #[cfg(not(feature = "oauth"))]
    fn with_authorization(&self, endpoint: Endpoint) -> Result<Endpoint, Problem> {
        Ok(endpoint)
    }

    /// Our account with the server, once it was looked for.
    #[cfg(feature = "oauth")]
    pub(super) fn account(&self) -> Option<Arc<Account>> {
        self.account.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Who gives requests their authorization, once that was looked for.
    pub(super) fn authorizer(&self) -> Option<Arc<dyn Authorize>> {
        #[cfg(feature = "oauth")]
        return self.account().map(|account| account as _);
        #[cfg(not(feature = "oauth"))]
        None
    }

    fn era(&self) -> Option<Protocol> {
        *self.era.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that ends before a session is open says nothing of itself; at least it is told where that was.
fn with_address(failed: RequestError, endpoint: &Endpoint) -> RequestError {
    match (&failed.failure, endpoint.site()) {
        (Failure::Closed, Some(site)) => RequestError::unsent(Failure::Connect(format!(
            "the connection was closed without an answer ({})",
            site.shown()
        ))),
        _ => failed,
    }
}

/// Lets the handler know which server asks.
struct TaggedHandler {
    server: String,
    connection: u64,
    handler: Arc<dyn Handler>,
}

impl Handler for TaggedHandler {
    fn topics(&self) -> Topics {
        self.handler.topics()
    }

    fn answer(&self, question: ServerQuestion) -> BoxFuture<'_, Result<Box<RawValue>, RpcError>> {
        self.handler.answer(ServerQuestion { server: self.server.clone(), connection: self.connection, ..question })
    }

    fn active_callers(&self, _: u64) -> ActiveCallers {
        self.handler.active_callers(self.connection)
    }

    fn elicitation_completed(&self, _: u64, elicitation: &str) {
        self.handler.elicitation_completed(self.connection, elicitation);
    }
}

static NEXT: AtomicU64 = AtomicU64::new(1);
