//! Reloads the configuration while the gateway runs: on SIGHUP, and when its file changes.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::config;
use crate::config::loosened::find_loosened;
use crate::config::resolve::{ResolvedShadow, ResolvedToken, StoreUrl, env_file_digests};
use crate::config::search::ConfigLocation;
use crate::config::secrets::Secrets;
use crate::config::trust::TrustStore;
use crate::config::variables::Variables;
use crate::failure::format_chain;
use crate::gateway::Gateway;
use crate::gateway::http::{AppliedChange, HttpControl, PreparedChange};
use crate::gateway::stdio::StdioControl;
use crate::lock::lock;
use crate::registry::ConfigChanges;
use tracing::{info, warn};

use super::args::Args;
use super::setup::GatewaySetup;
use super::shadow_loader::ShadowLoader;
use super::watch::WatchedFile;
use crate::cli::context::ConfigFile;
use crate::cli::logic_args::LogicArgs;
use crate::cli::signals::Signals;

/// Keeps a gateway in step with its configuration file.
pub(super) struct Reloader {
    args: Args,
    origin: ConfigFile,
    variables: Variables,
    tokens: Vec<ResolvedToken>,
    /// The store of the gateway, which stays the same until it is started again.
    store: Option<StoreUrl>,
    shadow: Option<ResolvedShadow>,
    shadow_loader: ShadowLoader,
    logic: LogicArgs,
    secrets: Arc<Mutex<Secrets>>,
    watched: Vec<WatchedFile>,
    /// True while the changed file waits to be trusted.
    untrusted: bool,
}

/// Changes the listener that serves the clients.
pub(super) enum ListenerControl {
    Http(HttpControl),
    Stdio(StdioControl),
}

/// Why the configuration is reloaded.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReloadReason {
    /// Its file, or a file with a token, has changed.
    Changed,
    /// A signal asks for it; other files that it names may have changed too.
    Requested,
}

/// Why a configuration is not applied.
enum ReloadError {
    /// It is not trusted yet.
    Untrusted,
    /// It is invalid; the text says why.
    Invalid(String),
}

impl Reloader {
    /// Creates the reloader of a gateway that was set up from this file.
    pub(super) fn new(
        args: &Args,
        origin: ConfigFile,
        variables: &Variables,
        setup: &GatewaySetup,
        logic: &LogicArgs,
        secrets: &Arc<Mutex<Secrets>>,
    ) -> Self {
        let (tokens, store, shadow) = (setup.tokens.clone(), setup.store.clone(), setup.shadow.clone());
        let file = WatchedFile::with_content(origin.path.clone(), &origin.text);
        let others = token_files(&tokens).chain(ShadowLoader::watched_files(shadow.as_ref()));
        let watched = std::iter::once(file).chain(others).collect();
        Reloader {
            args: args.clone(),
            origin,
            variables: variables.clone(),
            tokens,
            store,
            shadow,
            shadow_loader: ShadowLoader::default(),
            logic: logic.clone(),
            secrets: Arc::clone(secrets),
            watched,
            untrusted: false,
        }
    }

    /// Shows the configured shadow policy as pending before anybody asks for it.
    pub(super) fn show_pending_shadow(&self, gateway: &Gateway) {
        ShadowLoader::show_pending(gateway, self.shadow.as_ref());
    }

    /// Loads the shadow policy, and then reloads the configuration whenever there is a reason to.
    pub(super) async fn run(mut self, gateway: &Gateway, listener: ListenerControl, signals: &Signals) -> Infallible {
        // The gateway is already open, and does not wait until a candidate is compiled.
        self.shadow_loader.update(gateway, &self.logic, self.shadow.clone(), false).await;
        loop {
            let why = tokio::select! {
                () = signals.hangup() => ReloadReason::Requested,
                () = self.wait_for_change() => ReloadReason::Changed,
            };
            match self.reload(gateway, &listener, signals, why).await {
                Ok(()) => self.untrusted = false,
                // It was logged once, and may be trusted at any time.
                Err(ReloadError::Untrusted) if self.untrusted && why == ReloadReason::Changed => {}
                Err(ReloadError::Untrusted) => {
                    self.untrusted = true;
                    let path = self.origin.path.display();
                    let advice =
                        format!("it is not trusted as it is now: look at it, then run `toolgate trust {path}`");
                    gateway.set_not_applied(Some(advice));
                    warn!(
                        "{path} was found in the working directory, has changed and is not trusted as it is now: \
                         the configuration stays as it was; look at it, then run `toolgate trust`"
                    );
                }
                Err(ReloadError::Invalid(why)) => {
                    self.untrusted = false;
                    gateway.set_not_applied(Some(why.clone()));
                    warn!("the configuration stays as it was: {why}");
                }
            }
        }
    }

    /// Waits until a file has changed and no more changes follow.
    async fn wait_for_change(&mut self) {
        loop {
            tokio::time::sleep(LOOK).await;
            if !self.check_files().await && !self.untrusted {
                continue;
            }
            for _ in 0..MOST_LOOKS {
                tokio::time::sleep(SETTLE).await;
                if !self.check_files().await {
                    break;
                }
            }
            return;
        }
    }

    /// Checks all files on another thread, because a file system may be slow.
    async fn check_files(&mut self) -> bool {
        let mut watched = self.watched.clone();
        let look = move || {
            let changed = watched.iter_mut().fold(false, |changed, file| file.check_changed() | changed);
            (watched, changed)
        };
        let Ok((watched, changed)) = tokio::task::spawn_blocking(look).await else { return false };
        self.watched = watched;
        changed
    }

    async fn reload(
        &mut self,
        gateway: &Gateway,
        listener: &ListenerControl,
        signals: &Signals,
        why: ReloadReason,
    ) -> Result<(), ReloadError> {
        let (setup, text) = self.read().await?;
        lock(&self.secrets).merge(&setup.secrets);
        let GatewaySetup { config, options, limits, stop_times, http, store, tokens, shadow, .. } = setup;
        let prepared = match (listener, http) {
            (ListenerControl::Http(control), Some(options)) => {
                Some(control.prepare(options).map_err(|error| ReloadError::Invalid(format_chain(&error)))?)
            }
            _ => None,
        };
        let anew = match why {
            ReloadReason::Requested => gateway.registry().stale().await,
            ReloadReason::Changed => BTreeSet::new(),
        };
        let notices = config.notices.clone();
        let before = gateway.registry().config();
        let loosened = find_loosened(&before, &config);
        let socket = (before.settings.gateway.socket != config.settings.gateway.socket).then_some("gateway.socket");
        let store = (self.store != store).then_some("gateway.store");
        let changes =
            gateway.reload(config, &anew, options).map_err(|error| ReloadError::Invalid(format_chain(&error)))?;
        // After the views, so that a token never grants more than it should.
        let applied = prepared.map(PreparedChange::apply).unwrap_or_default();
        match listener {
            ListenerControl::Stdio(control) => control.set(&limits),
            ListenerControl::Http(_) => signals.set_times(stop_times),
        }
        let keys = config::changed_keys(&self.origin.text, &text, &self.origin.path);
        self.origin.text = text;
        gateway.set_not_applied(None);
        info!("the configuration was reloaded: {}", summary(&changes, &keys, (&self.tokens, &tokens), &applied));
        for what in loosened {
            warn!("a rule is looser than before: {what}");
        }
        for notice in notices {
            warn!("{notice}");
        }
        for (server, problem) in &changes.errors {
            warn!(server, "it cannot be used: {problem}");
        }
        for what in applied.needs_restart.iter().copied().chain(socket).chain(store) {
            warn!("a change of {what} needs a restart");
        }
        self.shadow_loader.update(gateway, &self.logic, shadow.clone(), why == ReloadReason::Requested).await;
        if self.tokens != tokens || self.shadow != shadow {
            let file = self.watched.swap_remove(0);
            let others = token_files(&tokens).chain(ShadowLoader::watched_files(shadow.as_ref()));
            // Keep the older state of files that are already watched, so that no change since then is missed.
            let known = |other: WatchedFile| {
                self.watched.iter().find(|known| known.path == other.path).cloned().unwrap_or(other)
            };
            self.watched = std::iter::once(file).chain(others.map(known)).collect();
            (self.tokens, self.shadow) = (tokens, shadow);
        }
        Ok(())
    }

    /// Reads the file and what the gateway needs of it on another thread, because a command may take its time.
    async fn read(&self) -> Result<(GatewaySetup, String), ReloadError> {
        let (args, variables) = (self.args.clone(), self.variables.clone());
        let ConfigFile { path, found_in, .. } = self.origin.clone();
        let read = move || {
            let wrong = |error: config::ConfigError| ReloadError::Invalid(error.to_string());
            // A pipe can be read only once, and reading it may block.
            if path.metadata().is_ok_and(|metadata| !metadata.is_file()) {
                return Err(ReloadError::Invalid(format!(
                    "{} is not a regular file, so it cannot be reloaded",
                    path.display()
                )));
            }
            let text = config::read_text(&path).map_err(wrong)?;
            let free = found_in != ConfigLocation::WorkingDirectory;
            let mut config = config::parse(&text, &path).map_err(wrong);
            if !free {
                let env_files = config.as_ref().map(|found| env_file_digests(found, &variables)).unwrap_or_default();
                if !TrustStore::user(&variables).is_trusted(&path, text.as_bytes(), &env_files) {
                    return Err(ReloadError::Untrusted);
                }
                if let Ok(config) = &mut config {
                    config.trusted_env_files = Some(env_files);
                }
            }
            let config = config?;
            let setup = GatewaySetup::new(&args, config, &variables);
            setup.map(|setup| (setup, text)).map_err(|failure| ReloadError::Invalid(failure.to_string()))
        };
        let read = tokio::task::spawn_blocking(read).await;
        read.unwrap_or_else(|_| Err(ReloadError::Invalid("it could not be read: this is a bug in toolgate".to_owned())))
    }
}

fn token_files(tokens: &[ResolvedToken]) -> impl Iterator<Item = WatchedFile> {
    tokens.iter().filter_map(|token| token.file.clone()).map(WatchedFile::new)
}

/// Describes what has changed on one line.
fn summary(
    changes: &ConfigChanges,
    keys: &[String],
    (before, after): (&[ResolvedToken], &[ResolvedToken]),
    applied: &AppliedChange,
) -> String {
    let of = |tokens: &[ResolvedToken], name: &str| tokens.iter().find(|token| token.principal == name).cloned();
    let among = |tokens: &[ResolvedToken], wanted: &dyn Fn(&ResolvedToken) -> bool| -> Vec<String> {
        tokens.iter().filter(|token| wanted(token)).map(|token| token.principal.clone()).collect()
    };
    let lists = [
        ("added", changes.added.clone()),
        ("removed", changes.removed.clone()),
        ("updated", changes.updated.clone()),
        ("new tokens of", among(after, &|token| of(before, &token.principal).is_none())),
        ("removed tokens of", among(before, &|token| of(after, &token.principal).is_none())),
        ("changed token or rights of", {
            among(after, &|token| of(before, &token.principal).is_some_and(|old| old != *token))
        }),
    ];
    let there = lists.iter().filter(|(_, names)| !names.is_empty());
    let mut parts: Vec<_> = there.map(|(what, names)| format!("{what} {}", names.join(", "))).collect();
    match keys {
        [] => {}
        keys if keys.len() <= MOST_KEYS => parts.push(format!("changed {}", keys.join(", "))),
        keys => {
            parts.push(format!("changed {} and {} more", keys[..MOST_KEYS].join(", "), keys.len() - MOST_KEYS));
        }
    }
    match applied.ended_sessions {
        0 => {}
        1 => parts.push("1 session ended".to_owned()),
        count => parts.push(format!("{count} sessions ended")),
    }
    match (parts.is_empty(), changes.unchanged.len()) {
        (true, _) => "nothing has changed".to_owned(),
        (false, 0) => parts.join("; "),
        (false, count) => format!("{}; {count} unchanged", parts.join("; ")),
    }
}

/// The number of changed keys that are named.
const MOST_KEYS: usize = 12;
/// How often files are checked.
const LOOK: Duration = Duration::from_secs(1);
/// How long a file must stay unchanged before it counts as complete.
const SETTLE: Duration = Duration::from_millis(150);
/// How often to wait for a file that keeps changing.
const MOST_LOOKS: usize = 20;
