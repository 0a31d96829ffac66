//! The configuration, read again while the gateway runs: on SIGHUP, and when its file changes.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use toolgate::config;
use toolgate::config::loosened::find_loosened;
use toolgate::config::resolve::{ResolvedShadow, ResolvedToken};
use toolgate::config::search::ConfigLocation;
use toolgate::config::secrets::Secrets;
use toolgate::config::trust::TrustStore;
use toolgate::config::variables::Variables;
use toolgate::failure::format_chain;
use toolgate::gateway::Gateway;
use toolgate::gateway::http::{AppliedChange, PreparedChange};
use toolgate::registry::ConfigChanges;
use tracing::{info, warn};

use super::setup::GatewaySetup;
use super::shadow_loader::ShadowLoader;
use super::watch::WatchedFile;
use super::{Args, ListenerControl};
use crate::cli::LogicArgs;
use crate::cli::context::ConfigFile;
use crate::cli::signals::Signals;

/// Keeps a gateway true to its configuration file.
pub struct Reloader {
    args: Args,
    origin: ConfigFile,
    variables: Variables,
    tokens: Vec<ResolvedToken>,
    shadow: Option<ResolvedShadow>,
    shadow_loader: ShadowLoader,
    logic: LogicArgs,
    secrets: Arc<Mutex<Secrets>>,
    watched: Vec<WatchedFile>,
    /// The file as it is now waits to be trusted.
    untrusted: bool,
}

/// Why the configuration is read again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReloadReason {
    /// Its file has changed, or one that a token is in.
    Changed,
    /// Somebody asked for it; what else it names may have changed too.
    Requested,
}

/// Why a configuration is not taken.
enum ReloadError {
    /// It is not trusted yet.
    Untrusted,
    /// There is something wrong with it.
    Invalid(String),
}

impl Reloader {
    /// For a gateway that was set up from this file.
    pub fn new(
        args: &Args,
        origin: ConfigFile,
        variables: &Variables,
        tokens: Vec<ResolvedToken>,
        shadow: Option<ResolvedShadow>,
        logic: &LogicArgs,
        secrets: &Arc<Mutex<Secrets>>,
    ) -> Self {
        let file = WatchedFile::with_content(origin.path.clone(), &origin.text);
        let others = token_files(&tokens).chain(ShadowLoader::watched_files(shadow.as_ref()));
        let watched = std::iter::once(file).chain(others).collect();
        Reloader {
            args: args.clone(),
            origin,
            variables: variables.clone(),
            tokens,
            shadow,
            shadow_loader: ShadowLoader::default(),
            logic: logic.clone(),
            secrets: Arc::clone(secrets),
            watched,
            untrusted: false,
        }
    }

    /// Shows the candidate that is to come, before anybody can ask for it.
    pub fn show_pending_shadow(&self, gateway: &Gateway) {
        ShadowLoader::show_pending(gateway, self.shadow.as_ref());
    }

    /// Puts the candidate that is to be tried beside the gateway, and then reads the configuration again whenever there is a
    /// reason to.
    pub(super) async fn run(mut self, gateway: &Gateway, door: ListenerControl, signals: &Signals) -> Infallible {
        // A gateway that is open already does not wait until a candidate is compiled.
        self.shadow_loader.update(gateway, &self.logic, self.shadow.clone(), false).await;
        loop {
            let why = tokio::select! {
                () = signals.hangup() => ReloadReason::Requested,
                () = self.wait_for_change() => ReloadReason::Changed,
            };
            match self.reload(gateway, &door, why).await {
                Ok(()) => self.untrusted = false,
                // It was told once, and may be trusted at any time.
                Err(ReloadError::Untrusted) if self.untrusted && why == ReloadReason::Changed => {}
                Err(ReloadError::Untrusted) => {
                    self.untrusted = true;
                    let path = self.origin.path.display();
                    warn!(
                        "{path} was found in the working directory, has changed and is not trusted as it is now: \
                         the configuration stays as it was; look at it, then run `toolgate trust`"
                    );
                }
                Err(ReloadError::Invalid(why)) => {
                    self.untrusted = false;
                    warn!("the configuration stays as it was: {why}");
                }
            }
        }
    }

    /// Waits until a file has changed, and then until no more changes come.
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

    /// Looks at all files, beside the runtime: a file system may be slow.
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
        door: &ListenerControl,
        why: ReloadReason,
    ) -> Result<(), ReloadError> {
        let setup = self.read().await?;
        self.secrets.lock().unwrap_or_else(PoisonError::into_inner).merge(&setup.secrets);
        let GatewaySetup { config, options, limits, http: of_door, tokens, shadow, .. } = setup;
        let prepared = match (door, of_door) {
            (ListenerControl::Http(door), Some(options)) => {
                Some(door.prepare(options).map_err(|error| ReloadError::Invalid(format_chain(&error)))?)
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
        let changes =
            gateway.reload(config, &anew, options).map_err(|error| ReloadError::Invalid(format_chain(&error)))?;
        // After the views: a token never opens more than it is to open.
        let applied = prepared.map(PreparedChange::apply).unwrap_or_default();
        if let ListenerControl::Stdio(door) = door {
            door.set(&limits);
        }
        info!("the configuration was read again: {}", summary(&changes, &self.tokens, &tokens, &applied));
        for what in loosened {
            warn!("a rule is looser than before: {what}");
        }
        for notice in notices {
            warn!("{notice}");
        }
        for (server, problem) in &changes.errors {
            warn!(server, "it cannot be used: {problem}");
        }
        for what in applied.needs_restart.iter().copied().chain(socket) {
            warn!("a change of {what} needs a restart");
        }
        self.shadow_loader.update(gateway, &self.logic, shadow.clone(), why == ReloadReason::Requested).await;
        if self.tokens != tokens || self.shadow != shadow {
            let file = self.watched.swap_remove(0);
            let others = token_files(&tokens).chain(ShadowLoader::watched_files(shadow.as_ref()));
            // What is known of a file is older than what was read of it, so that no change since then is missed.
            let known = |other: WatchedFile| {
                self.watched.iter().find(|known| known.path == other.path).cloned().unwrap_or(other)
            };
            self.watched = std::iter::once(file).chain(others.map(known)).collect();
            (self.tokens, self.shadow) = (tokens, shadow);
        }
        Ok(())
    }

    /// Reads the file and all that the gateway needs of what it names, beside the runtime: a command may take its time.
    async fn read(&self) -> Result<GatewaySetup, ReloadError> {
        let (args, variables) = (self.args.clone(), self.variables.clone());
        let ConfigFile { path, found_in, .. } = self.origin.clone();
        let read = move || {
            let wrong = |error: config::ConfigError| ReloadError::Invalid(error.to_string());
            // A pipe gives what it has once, and may keep whoever reads it waiting.
            if path.metadata().is_ok_and(|metadata| !metadata.is_file()) {
                return Err(ReloadError::Invalid(format!("{} is no regular file, so it is read once", path.display())));
            }
            let text = config::read_text(&path).map_err(wrong)?;
            let free = found_in != ConfigLocation::WorkingDirectory;
            if !free && !TrustStore::user(&variables).is_trusted(&path, text.as_bytes()) {
                return Err(ReloadError::Untrusted);
            }
            let config = config::parse(&text, &path).map_err(wrong)?;
            GatewaySetup::new(&args, config, &variables).map_err(|failure| ReloadError::Invalid(failure.to_string()))
        };
        let read = tokio::task::spawn_blocking(read).await;
        read.unwrap_or_else(|_| Err(ReloadError::Invalid("it could not be read: this is a mistake of ours".to_owned())))
    }
}

fn token_files(tokens: &[ResolvedToken]) -> impl Iterator<Item = WatchedFile> {
    tokens.iter().filter_map(|token| token.file.clone()).map(WatchedFile::new)
}

/// What has changed, in one line.
fn summary(
    changes: &ConfigChanges,
    before: &[ResolvedToken],
    after: &[ResolvedToken],
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
        ("no more tokens of", among(before, &|token| of(after, &token.principal).is_none())),
        ("another token or other rights of", {
            among(after, &|token| of(before, &token.principal).is_some_and(|old| old != *token))
        }),
    ];
    let there = lists.iter().filter(|(_, names)| !names.is_empty());
    let mut parts: Vec<_> = there.map(|(what, names)| format!("{what} {}", names.join(", "))).collect();
    if changes.settings {
        parts.push("other settings".to_owned());
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

/// How often files are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// How long no change must come before one is taken for whole.
const SETTLE: Duration = Duration::from_millis(150);
/// How often a file that changes all the time is waited for.
const MOST_LOOKS: usize = 20;
