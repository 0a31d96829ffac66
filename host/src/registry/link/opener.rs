//! Opens sessions with one server, as its configuration says.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use serde_json::value::RawValue;

use super::super::server_log::ServerLog;
use super::super::{RegistryContext, RegistryLifetime};
use super::Unavailable;
use crate::config::model::{Config, Problem, ServerConfig};
use crate::config::resolve::resolve;
#[cfg(feature = "oauth")]
use crate::config::{model::ServerAuth, resolve::resolve_oauth};
use crate::failure::{Failure, ProcessExit, RequestError, RpcError};
#[cfg(feature = "oauth")]
use crate::oauth::Account;
use crate::session::{
    ActiveCallers, Handler, MaskMessage, OnStderr, Protocol, ServerQuestion, Session, SessionOptions, Topics,
};
use crate::transport::BoxFuture;
use crate::transport::authorize::Authorize;
#[cfg(feature = "oauth")]
use crate::transport::authorize::Authorizer;
use crate::transport::endpoint::Endpoint;

/// Opens sessions with one server.
pub(super) struct SessionOpener {
    /// Distinguishes its connections from those of other links.
    pub(super) number: u64,
    pub(super) context: Arc<RegistryContext>,
    /// The configuration it was built for; secrets of other servers come from the current one.
    config: Arc<Config>,
    /// The index of the server in the configuration.
    server_index: usize,
    /// The value of `{{.SESSION_ID}}`.
    session: Option<String>,
    /// The era of the last session, so that the next one need not probe.
    era: Mutex<Option<Protocol>>,
    /// What the server wrote, and what became of it.
    pub(super) log: Arc<ServerLog>,
    /// Whether the server announced other tools, which it has yet to list.
    outdated_tools: AtomicBool,
    /// The endpoint of the last connection.
    last_endpoint: Mutex<Option<Endpoint>>,
    /// The OAuth account with the server, once it was resolved.
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
        let log = context.logs.of(&config.servers[server_index].id);
        SessionOpener {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            context,
            config,
            server_index,
            session,
            era: Mutex::default(),
            log,
            outdated_tools: AtomicBool::new(false),
            last_endpoint: Mutex::default(),
            #[cfg(feature = "oauth")]
            account: Mutex::default(),
        }
    }

    /// Returns the configuration of the server.
    pub(super) fn server(&self) -> &ServerConfig {
        &self.config.servers[self.server_index]
    }

    /// Opens a session whose questions go to the handler of the registry.
    pub(super) async fn open(self: &Arc<Self>, limit: Duration) -> Result<Arc<Session>, Unavailable> {
        let handler = Arc::new(TaggedHandler {
            server: self.server().id.clone(),
            connection: self.number,
            handler: Arc::clone(&self.context.handler),
            opener: Arc::downgrade(self),
        });
        self.open_with(limit, handler).await
    }

    /// Opens a session whose questions go to this handler.
    pub(super) async fn open_with(
        self: &Arc<Self>,
        limit: Duration,
        handler: Arc<dyn Handler>,
    ) -> Result<Arc<Session>, Unavailable> {
        let server = self.server();
        let endpoint = self.endpoint().await.map_err(Unavailable::Problem)?;
        self.context.secrets().merge(&endpoint.secrets());
        *self.last_endpoint.lock().unwrap_or_else(PoisonError::into_inner) = Some(endpoint.clone());
        let starts = self.context.starts();
        let _turn = starts.acquire().await.expect("nobody closes the semaphore");
        let remembered = self.era().filter(|_| server.protocol == Protocol::Auto);
        let protocol = remembered.unwrap_or(server.protocol);
        let max_list_bytes = usize::try_from(server.max_list_bytes).unwrap_or(usize::MAX);
        let secrets = self.context.shared_secrets();
        let options = SessionOptions {
            protocol,
            limit,
            list: server.timeouts.list,
            max_list_bytes,
            handler,
            secrets,
            mask_message: Some(self.mask_message()),
            on_stderr: Some(self.on_stderr()),
        };
        let mut opened = Session::open(&endpoint, &options).await;
        if let (Err(failed), Some(_)) = (&opened, remembered)
            && !matches!(
                failed.failure,
                Failure::Connect(_)
                    | Failure::NoProgram(_)
                    | Failure::NotReady { .. }
                    | Failure::NeedsAuth(_)
                    // It dies at its start whatever it is asked.
                    | Failure::Exited(ProcessExit { read_nothing: true, .. })
            )
        {
            // The server may have been replaced by one of the other era.
            opened = Session::open(&endpoint, &SessionOptions { protocol: Protocol::Auto, ..options }).await;
        }
        let era = opened.as_ref().ok().map(|session| session.peer().era.into());
        *self.era.lock().unwrap_or_else(PoisonError::into_inner) = era;
        opened.map(Arc::new).map_err(|failed| Unavailable::Failed(with_address(failed, &endpoint)))
    }

    /// Reports whether the server announced other tools, which it has yet to list.
    pub(super) fn has_outdated_tools(&self) -> bool {
        self.outdated_tools.load(Ordering::SeqCst)
    }

    /// Notes whether the tools that the server last listed are out of date.
    pub(super) fn set_tools_outdated(&self, outdated: bool) {
        self.outdated_tools.store(outdated, Ordering::SeqCst);
        if outdated {
            self.context.notices.tools_announced();
        }
    }

    /// Returns a function that masks the server's messages as its results are masked.
    fn mask_message(self: &Arc<Self>) -> MaskMessage {
        let opener = Arc::downgrade(self);
        Arc::new(move |text: String| {
            let opener = opener.upgrade()?;
            opener.context.mask(opener.server(), text)
        })
    }

    /// Returns a function that keeps what the server writes to its standard error.
    fn on_stderr(&self) -> OnStderr {
        let log = Arc::clone(&self.log);
        Arc::new(move |line| log.add_stderr(line))
    }

    /// Reports whether the endpoint has changed since the last connection; if it cannot be resolved, logs that and
    /// returns false.
    pub(super) async fn is_stale(self: &Arc<Self>) -> bool {
        let Some(used) = self.last_endpoint.lock().unwrap_or_else(PoisonError::into_inner).clone() else {
            return false;
        };
        match self.endpoint().await {
            Ok(endpoint) => endpoint != used,
            Err(problem) => {
                tracing::warn!(server = self.server().id, "cannot resolve the new configuration: {problem}");
                false
            }
        }
    }

    /// Returns a configuration problem of a long-running server, as far as it shows without running a command or asking
    /// a person.
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

    /// Resolves the endpoint again, because files and variables may have changed.
    pub(super) async fn endpoint(self: &Arc<Self>) -> Result<Endpoint, Problem> {
        if let Some(own) = self.context.transports.get(&self.server().id) {
            return Ok(Endpoint::Custom(Arc::clone(own)));
        }
        let settings = &self.config.settings;
        let may_block = settings.allow_commands || !settings.inputs.is_empty();
        let opener = Arc::clone(self);
        let fill = move || {
            let SessionOpener { context, session, .. } = &*opener;
            // The current configuration knows the secrets of other servers.
            let config = context.config();
            let endpoint = resolve(opener.server(), &config, &context.variables, session.as_deref())?;
            opener.with_authorization(endpoint)
        };
        if !may_block {
            return fill();
        }
        // A command or a person may take long; the other servers must not wait.
        match tokio::task::spawn_blocking(fill).await {
            Ok(endpoint) => endpoint,
            Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
        }
    }

    /// Adds the authorizer to the endpoint if nothing else authenticates.
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

    /// Returns the OAuth account with the server, once it was resolved.
    #[cfg(feature = "oauth")]
    pub(super) fn account(&self) -> Option<Arc<Account>> {
        self.account.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the authorizer of the server's requests, once it was resolved.
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

/// Adds the address to the failure of a connection that ended before a session was open.
fn with_address(failed: RequestError, endpoint: &Endpoint) -> RequestError {
    match (&failed.failure, endpoint.site()) {
        (Failure::Closed, Some(site)) => RequestError::unsent(Failure::Connect(format!(
            "the connection was closed without an answer ({})",
            site.shown()
        ))),
        _ => failed,
    }
}

/// A handler that adds the server and the connection to each question.
struct TaggedHandler {
    server: String,
    connection: u64,
    handler: Arc<dyn Handler>,
    opener: Weak<SessionOpener>,
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

    fn tools_changed(&self) {
        if let Some(opener) = self.opener.upgrade() {
            opener.set_tools_outdated(true);
        }
    }

    fn elicitation_completed(&self, _: u64, elicitation: &str) {
        self.handler.elicitation_completed(self.connection, elicitation);
    }
}

static NEXT: AtomicU64 = AtomicU64::new(1);
