//! A server that wants an authorization: what it takes, and how one that came from elsewhere is noticed.

use std::time::Duration;

use super::super::RegistryLifetime;
use super::super::owned_task::OwnedTask;
use super::{Link, State, Unavailable};
use crate::failure::{Failure, RequestError};
use crate::logic::types::lifecycle;

#[cfg(feature = "oauth")]
impl Link {
    /// Our account with the server; none where it is told in another way who we are, or is not on the network.
    pub async fn account(&self) -> Result<Option<std::sync::Arc<crate::oauth::Account>>, Unavailable> {
        self.opener.endpoint().await.map_err(Unavailable::Problem)?;
        Ok(self.opener.account())
    }
}

impl Link {
    /// The server has refused a request: gets another authorization, without a person where that is possible.
    pub(crate) async fn reauthenticate(&self, refused: Option<&RequestError>) -> Result<(), RequestError> {
        let (authorizer, error) = match (self.opener.authorizer(), refused.map(|refused| &refused.failure)) {
            (Some(authorizer), Some(Failure::Http(error))) => (authorizer, error),
            _ => {
                let text = format!("it does not accept what the auth of server {:?} says", self.id());
                return Err(RequestError::unsent(Failure::NeedsAuth(text)));
            }
        };
        let outcome = authorizer.renew(error).await;
        // With 403 it is one tool that wants more rights; the others work as before.
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

    /// After each step: one that waits for an authorization looks for it.
    pub(super) fn watch_for_authorization(&self, state: &mut State) {
        if state.machine.state != lifecycle::State::NeedsAuth {
            state.auth_watch = None;
            return;
        }
        let Some(authorizer) = self.opener.authorizer().filter(|_| state.auth_watch.is_none()) else { return };
        state.refused_edition = authorizer.edition();
        if self.opener.context.lifetime == RegistryLifetime::OneShot {
            return;
        }
        let link = self.weak_self.clone();
        state.auth_watch = Some(OwnedTask::spawn(async move {
            loop {
                tokio::time::sleep(LOOK).await;
                let Some(link) = link.upgrade() else { return };
                let mut state = link.state();
                if link.restart_if_authorized(&mut state) {
                    return;
                }
            }
        }));
    }

    /// Begins anew where an authorization came from elsewhere.
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

/// How often to look for an authorization that another process may have got.
const LOOK: Duration = Duration::from_secs(2);
