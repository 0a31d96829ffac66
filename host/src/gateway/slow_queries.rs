//! Answers questions of operators that take longer than a request may block: after the calls, one of admins and one of
//! others at a time.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

use super::api::{ApiResponse, error};
use super::client::Principal;
use crate::shadow::yield_to_others;

/// Answers questions on threads with a low priority. Others cannot keep admins waiting.
pub(super) struct SlowQueries {
    admins: Arc<Semaphore>,
    others: Arc<Semaphore>,
}

impl Default for SlowQueries {
    fn default() -> Self {
        let one = || Arc::new(Semaphore::new(1));
        SlowQueries { admins: one(), others: one() }
    }
}

impl SlowQueries {
    /// Answers a question after the one before it. The question is told when it must end, and is not asked if the one
    /// before it takes too long.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        principal: &Principal,
        question: impl FnOnce(Instant) -> T + Send + 'static,
    ) -> Result<T, ApiResponse> {
        let busy = || error(503, "the gateway is answering another question: try again in a moment");
        let turns = if principal.admin { &self.admins } else { &self.others };
        let permit = timeout(QUEUE, Arc::clone(turns).acquire_owned()).await;
        let permit = permit.map_err(|_| busy())?.map_err(|_| busy())?;
        let (sender, receiver) = oneshot::channel();
        let work = move || {
            // A question goes on when its client no longer waits, and the next one waits for its end all the same.
            let _permit = permit;
            yield_to_others();
            let _ = sender.send(question(Instant::now() + MOST));
        };
        thread::Builder::new()
            .name("toolgate-query".to_owned())
            .spawn(work)
            .map_err(|why| error(503, &format!("no thread can be started: {why}")))?;
        receiver.await.map_err(|_| error(500, "the question could not be answered: this is a bug in toolgate"))
    }
}

/// How long a question waits for the one before it.
const QUEUE: Duration = Duration::from_secs(20);
/// How long answering a question may take.
const MOST: Duration = Duration::from_secs(25);
