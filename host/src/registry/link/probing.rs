//! Whether a server is well: it is asked, and one that is busy is given the time to answer.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tracing::Instrument;

use super::super::owned_task::OwnedTask;
use super::{Link, State, Unavailable};
use crate::config::model::HealthProbe;
use crate::failure::{Failure, RequestError};
use crate::logic::types::lifecycle;
use crate::session::{ListKind, Listing, Session};

impl Link {
    /// Asks the server whether it is well, and lets the machine know.
    pub(super) fn probe(&self, state: &mut State) {
        let Some(connection) = &state.connection else { return };
        let (session, number, link) = (Arc::clone(&connection.session), connection.number, self.weak_self.clone());
        let settings = &self.server().lifecycle;
        let limit = match state.machine.state {
            lifecycle::State::Degraded => settings.probe_timeout,
            _ => settings.health_timeout,
        };
        let how = settings.health_probe;
        let work = async move {
            let well = probe_until_answer(&session, || async {
                match how {
                    HealthProbe::Ping => session.probe(limit).await,
                    HealthProbe::ListTools => {
                        let listing = list(&session, limit).await?;
                        if let Some(link) = link.upgrade() {
                            link.keep_tools(listing);
                        }
                        Ok(())
                    }
                }
            });
            let well = well.await;
            if let Some(link) = link.upgrade() {
                link.finish_probe(number, well);
            }
        };
        state.probe = Some(OwnedTask::spawn(work.instrument(self.span())));
    }

    fn finish_probe(&self, number: u64, well: Result<(), RequestError>) {
        let mut state = self.state();
        if state.connection.as_ref().is_none_or(|connection| connection.number != number) {
            return;
        }
        state.last_check = Some(SystemTime::now());
        let event = match well {
            Ok(()) => lifecycle::Event::ProbeOk,
            Err(failed) => {
                state.note_error(failed.to_string());
                state.last_failure = Some(Unavailable::Failed(failed));
                lifecycle::Event::ProbeFailed
            }
        };
        self.step(&mut state, &event);
    }

    /// The server is ended since it does not answer: whoever runs all this is told, and so is who loses an answer by it.
    pub(super) fn report_silence(&self, state: &State) {
        let (Some(connection), Some(why)) = (&state.connection, &state.last_failure) else { return };
        let what = match state.machine.state {
            lifecycle::State::Restarting => "it does not answer, and is restarted",
            _ => "it does not answer, and is stopped",
        };
        self.log_problem(state.machine.restarts <= 1, what, why);
        connection.session.abandon(why.to_string());
    }
}

/// Asks until there is an answer, or none though the server has nothing else to do.
///
/// A server may do one thing at a time. That it does not answer while it is at work on what it was asked before says nothing,
/// as long as that has time; and if it says anything meanwhile, it is there. What it was asked first counts, and not what
/// was asked since: so one that hangs is found when the first of its calls has waited long enough, whoever else comes.
async fn probe_until_answer<A: Future<Output = Result<(), RequestError>>>(
    session: &Session,
    ask: impl Fn() -> A,
) -> Result<(), RequestError> {
    loop {
        let messages = session.messages();
        let silent = match ask().await {
            Err(failed @ RequestError { failure: Failure::Timeout { .. }, .. }) => failed,
            // Whoever answers is there, whatever the answer.
            Err(RequestError { failure: Failure::Rpc(_), .. }) => return Ok(()),
            other => return other,
        };
        if session.busy_until().is_none() {
            return Err(silent);
        }
        while let Some(until) = session.busy_until() {
            if session.messages() > messages {
                return Ok(());
            }
            session.wait_for_change(messages, until).await;
        }
    }
}

async fn list(session: &Session, limit: Duration) -> Result<Arc<Listing>, RequestError> {
    let listed = tokio::time::timeout(limit, session.fetch_again(ListKind::Tools, limit)).await;
    listed
        .unwrap_or_else(|_| Err(RequestError::sent(Failure::Timeout { method: "tools/list".to_owned(), after: limit })))
}
