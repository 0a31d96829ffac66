//! Authorization of a link: renewing it, and noticing one that another process obtained.

use std::time::Duration;

use super::super::RegistryLifetime;
use super::super::owned_task::OwnedTask;
use super::{Link, State, Unavailable};
use crate::failure::{Failure, RequestError};
use crate::logic::types::lifecycle;

#[cfg(feature = "oauth")]
impl Link {
    /// Returns the OAuth account with the server; none if it authenticates otherwise or is a local process.
    pub async fn account(&self) -> Result<Option<std::sync::Arc<crate::oauth::Account>>, Unavailable> {
        self.opener.endpoint().await.map_err(Unavailable::Problem)?;
        Ok(self.opener.account())
    }
}

impl Link {
    /// Gets a new authorization after the server rejected a request, without a person where that is possible.
    pub(crate) async fn reauthenticate(&self, refused: Option<&RequestError>) -> Result<(), RequestError> {
        let (authorizer, error) = match (self.opener.authorizer(), refused.map(|refused| &refused.failure)) {
            (Some(authorizer), Some(Failure::Http(error))) => (authorizer, error),
            _ => {
                let text = format!("the credentials from `auth` of server {:?} were rejected", self.id());
                return Err(RequestError::unsent(Failure::NeedsAuth(text)));
            }
        };
        let outcome = authorizer.renew(error).await;
        // A 403 concerns one tool that needs more rights; the others still work.
        if let Err(failed) = &outcome
            && matches!(failed.failure, Failure::NeedsAuth(_))
            && error.status == 401
        {
            let mut state = self.state();
            state.note_error(failed.to_string());
            state.last_failure = Some(Unavailable::Failed(failed.clone()));
            self.step(&mut state, &lifecycle::Event::Failed((&failed.failure).into()));
        }
        outcome
    }

    /// Watches for a new authorization while the server needs one; called after each step.
    pub(super) fn watch_for_authorization(&self, state: &mut State) {
        if state.machine.state != lifecycle::State::NeedsAuth {
            state.tasks.auth_watch = None;
            return;
        }
        let Some(authorizer) = self.opener.authorizer().filter(|_| state.tasks.auth_watch.is_none()) else { return };
        state.refused_edition = authorizer.edition();
        if self.opener.context.lifetime == RegistryLifetime::OneShot {
            return;
        }
        let link = self.weak_self.clone();
        state.tasks.auth_watch = Some(OwnedTask::spawn(async move {
            loop {
                tokio::time::sleep(CHECK_INTERVAL).await;
                let Some(link) = link.upgrade() else { return };
                let mut state = link.state();
                if link.restart_if_authorized(&mut state) {
                    return;
                }
            }
        }));
    }

    /// Starts the server again if another process obtained an authorization.
    pub(super) fn restart_if_authorized(&self, state: &mut State) -> bool {
        if state.machine.state != lifecycle::State::NeedsAuth {
            return true;
        }
        let renewed = self.opener.authorizer().is_some_and(|authorizer| authorizer.edition() > state.refused_edition);
        if renewed {
            self.step(state, &lifecycle::Event::Authenticated);
        }
        renewed
    }
}

/// How often to check for an authorization that another process may have obtained.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);
