//! The configuration, read again while the gateway runs: on SIGHUP, and when its file changes.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use toolgate::config;
use toolgate::config::loosened::loosened;
use toolgate::config::resolve::{FilledShadow, FilledToken};
use toolgate::config::search::Source;
use toolgate::config::secrets::Secrets;
use toolgate::config::trust::TrustStore;
use toolgate::config::variables::Variables;
use toolgate::failure::in_full;
use toolgate::gateway::Gateway;
use toolgate::gateway::http::{Applied, Prepared};
use toolgate::registry::Changes;
use tracing::{info, warn};

use super::setup::Setup;
use super::shade::Shade;
use super::watch::Watched;
use super::{Args, OpenDoor};
use crate::cli::LogicArgs;
use crate::cli::desk::Origin;
use crate::cli::signals::Signals;

/// Keeps a gateway true to its configuration file.
pub struct Reloader {
    args: Args,
    origin: Origin,
    variables: Variables,
    tokens: Vec<FilledToken>,
    shadow: Option<FilledShadow>,
    shade: Shade,
    logic: LogicArgs,
    secrets: Arc<Mutex<Secrets>>,
    watched: Vec<Watched>,
    /// The file as it is now waits to be trusted.
    untrusted: bool,
}

/// Why the configuration is read again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    /// Its file has changed, or one that a token is in.
    Changed,
    /// Somebody asked for it; what else it names may have changed too.
    Asked,
}

/// Why a configuration is not taken.
enum Refused {
    /// It is not trusted yet.
    Untrusted,
    /// There is something wrong with it.
    Wrong(String),
}

impl Reloader {
    /// For a gateway that was set up from this file.
    pub fn new(
        args: &Args,
        origin: Origin,
        variables: &Variables,
        tokens: Vec<FilledToken>,
        shadow: Option<FilledShadow>,
        logic: &LogicArgs,
        secrets: &Arc<Mutex<Secrets>>,
    ) -> Self {
        let file = Watched::that_held(origin.path.clone(), &origin.text);
        let others = of_tokens(&tokens).chain(Shade::watched(shadow.as_ref()));
        let watched = std::iter::once(file).chain(others).collect();
        Reloader {
            args: args.clone(),
            origin,
            variables: variables.clone(),
            tokens,
            shadow,
            shade: Shade::default(),
            logic: logic.clone(),
            secrets: Arc::clone(secrets),
            watched,
            untrusted: false,
        }
    }

    /// Shows the candidate that is to come, before anybody can ask for it.
    pub fn expect(&self, gateway: &Gateway) {
        Shade::expect(gateway, self.shadow.as_ref());
    }

    /// Puts the candidate that is to be tried beside the gateway, and then reads the configuration again whenever there is a
    /// reason to.
    pub(super) async fn run(mut self, gateway: &Gateway, door: OpenDoor, signals: &Signals) -> Infallible {
        // A gateway that is open already does not wait until a candidate is compiled.
        self.shade.follow(gateway, &self.logic, self.shadow.clone(), false).await;
        loop {
            let why = tokio::select! {
                () = signals.hangup() => Why::Asked,
                () = self.changed() => Why::Changed,
            };
            match self.reload(gateway, &door, why).await {
                Ok(()) => self.untrusted = false,
                // It was told once, and may be trusted at any time.
                Err(Refused::Untrusted) if self.untrusted && why == Why::Changed => {}
                Err(Refused::Untrusted) => {
                    self.untrusted = true;
                    let path = self.origin.path.display();
                    warn!(
                        "{path} was found in the working directory, has changed and is not trusted as it is now: \
                         the configuration stays as it was; look at it, then run `toolgate trust`"
                    );
                }
                Err(Refused::Wrong(why)) => {
                    self.untrusted = false;
                    warn!("the configuration stays as it was: {why}");
                }
            }
        }
    }

    /// Waits until a file has changed, and then until no more changes come.
    async fn changed(&mut self) {
        loop {
            tokio::time::sleep(LOOK).await;
            if !self.look().await && !self.untrusted {
                continue;
            }
            for _ in 0..MOST_LOOKS {
                tokio::time::sleep(SETTLE).await;
                if !self.look().await {
                    break;
                }
            }
            return;
        }
    }

    /// Looks at all files, beside the runtime: a file system may be slow.
    async fn look(&mut self) -> bool {
        let mut watched = self.watched.clone();
        let look = move || {
            let changed = watched.iter_mut().fold(false, |changed, file| file.look() | changed);
            (watched, changed)
        };
        let Ok((watched, changed)) = tokio::task::spawn_blocking(look).await else { return false };
        self.watched = watched;
        changed
    }

    async fn reload(&mut self, gateway: &Gateway, door: &OpenDoor, why: Why) -> Result<(), Refused> {
        let setup = self.read().await?;
        self.secrets.lock().unwrap_or_else(PoisonError::into_inner).merge(&setup.secrets);
        let Setup { config, options, limits, door: of_door, tokens, shadow, .. } = setup;
        let prepared = match (door, of_door) {
            (OpenDoor::Http(door), Some(options)) => {
                Some(door.prepare(options).map_err(|error| Refused::Wrong(in_full(&error)))?)
            }
            _ => None,
        };
        let anew = match why {
            Why::Asked => gateway.registry().stale().await,
            Why::Changed => BTreeSet::new(),
        };
        let notices = config.notices.clone();
        let loosened = loosened(&gateway.registry().config(), &config);
        let changes = gateway.reload(config, &anew, options).map_err(|error| Refused::Wrong(in_full(&error)))?;
        // After the views: a token never opens more than it is to open.
        let applied = prepared.map(Prepared::apply).unwrap_or_default();
        if let OpenDoor::Stdio(door) = door {
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
        for what in &applied.needs_restart {
            warn!("a change of {what} needs a restart");
        }
        self.shade.follow(gateway, &self.logic, shadow.clone(), why == Why::Asked).await;
        if self.tokens != tokens || self.shadow != shadow {
            let file = self.watched.swap_remove(0);
            let others = of_tokens(&tokens).chain(Shade::watched(shadow.as_ref()));
            // What is known of a file is older than what was read of it, so that no change since then is missed.
            let known =
                |other: Watched| self.watched.iter().find(|known| known.path == other.path).cloned().unwrap_or(other);
            self.watched = std::iter::once(file).chain(others.map(known)).collect();
            (self.tokens, self.shadow) = (tokens, shadow);
        }
        Ok(())
    }

    /// Reads the file and all that the gateway needs of what it names, beside the runtime: a command may take its time.
    async fn read(&self) -> Result<Setup, Refused> {
        let (args, variables) = (self.args.clone(), self.variables.clone());
        let Origin { path, found_in, .. } = self.origin.clone();
        let read = move || {
            let wrong = |error: config::ConfigError| Refused::Wrong(error.to_string());
            // A pipe gives what it has once, and may keep whoever reads it waiting.
            if path.metadata().is_ok_and(|metadata| !metadata.is_file()) {
                return Err(Refused::Wrong(format!("{} is no regular file, so it is read once", path.display())));
            }
            let text = config::text_of(&path).map_err(wrong)?;
            let free = found_in != Source::WorkingDirectory;
            if !free && !TrustStore::user(&variables).is_trusted(&path, text.as_bytes()) {
                return Err(Refused::Untrusted);
            }
            let config = config::parse(&text, &path).map_err(wrong)?;
            Setup::new(&args, config, &variables).map_err(|failure| Refused::Wrong(failure.to_string()))
        };
        let read = tokio::task::spawn_blocking(read).await;
        read.unwrap_or_else(|_| Err(Refused::Wrong("it could not be read: this is a mistake of ours".to_owned())))
    }
}

fn of_tokens(tokens: &[FilledToken]) -> impl Iterator<Item = Watched> {
    tokens.iter().filter_map(|token| token.file.clone()).map(Watched::new)
}

/// What has changed, in one line.
fn summary(changes: &Changes, before: &[FilledToken], after: &[FilledToken], applied: &Applied) -> String {
    let of = |tokens: &[FilledToken], name: &str| tokens.iter().find(|token| token.principal == name).cloned();
    let among = |tokens: &[FilledToken], wanted: &dyn Fn(&FilledToken) -> bool| -> Vec<String> {
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
