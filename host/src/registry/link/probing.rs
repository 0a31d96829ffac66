//! Health probes, which give a busy server time to answer.

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
    /// Probes the server, and passes the outcome to the lifecycle.
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
        state.tasks.probe = Some(OwnedTask::spawn(work.instrument(self.span())));
    }

    fn finish_probe(&self, number: u64, well: Result<(), RequestError>) {
        let mut state = self.state();
        if state.connection.as_ref().is_none_or(|connection| connection.number != number) {
            return;
        }
        state.history.last_check = Some(SystemTime::now());
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

    /// Logs that the server is ended because it does not answer, and fails its pending requests with the reason.
    pub(super) fn report_silence(&self, state: &State) {
        let (Some(connection), Some(why)) = (&state.connection, &state.last_failure) else { return };
        let what = match state.machine.state {
            lifecycle::State::Restarting => "the server does not answer; restarting it",
            _ => "the server does not answer; stopping it",
        };
        self.log_problem(state.machine.restarts <= 1, what, why);
        connection.session.abandon(why.to_string());
    }
}

/// Probes until the server answers, or fails to answer although it is idle.
///
/// A server may handle one request at a time, so a missing answer means nothing while it works on an earlier request
/// that still has time, and any message from it proves that it is alive. The oldest request counts: a server that hangs
/// is found when its first call has waited long enough, however many calls follow.
async fn probe_until_answer<A: Future<Output = Result<(), RequestError>>>(
    session: &Session,
    ask: impl Fn() -> A,
) -> Result<(), RequestError> {
    loop {
        let messages = session.messages();
        let silent = match ask().await {
            Err(failed @ RequestError { failure: Failure::Timeout { .. }, .. }) => failed,
            // Any answer proves that the server is alive, even an error.
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
