//! Listens to the server's own stream, which carries messages outside of any request (the initialize era).

use std::sync::Arc;
use std::time::Duration;

use reqwest::{Response, StatusCode};
use tokio::time::Instant;
use tracing::{debug, warn};

use super::exchange::{RETRY, SHORTEST};
use super::{ExtraHeaders, HttpShared};
use crate::transport::events::SseParser;
use crate::web::body::{self, BodyKind};

/// Keeps the stream open until the task is aborted or the server has no such stream.
pub(super) async fn run(link: Arc<HttpShared>, extra: ExtraHeaders) {
    let mut place = StreamPosition::default();
    let mut failures = 0;
    loop {
        match link.get(&extra, place.last_id.as_deref()).await {
            Ok(response) if response.status().is_success() && body::body_kind(&response) == BodyKind::Events => {
                let begun = Instant::now();
                if read(&link, response, &mut place).await || begun.elapsed() > LIVED {
                    failures = 0;
                }
            }
            Ok(response) if is_unsupported(response.status()) => {
                debug!(status = response.status().as_u16(), "the server has no stream of its own messages");
                return;
            }
            Ok(response) => debug!(status = response.status().as_u16(), "the server's own stream did not open"),
            Err(error) => debug!(%error, "the server's own stream did not open"),
        }
        let wait = place.retry.unwrap_or(RETRY).max(SHORTEST);
        let wait =
            if failures == 0 { wait } else { wait.max(Duration::from_secs(WAITS[failures.min(WAITS.len() - 1)])) };
        failures += 1;
        tokio::time::sleep(wait).await;
    }
}

/// The position to resume the stream from.
#[derive(Default)]
struct StreamPosition {
    last_id: Option<String>,
    retry: Option<Duration>,
}

/// Reads one connection to its end; reports whether any new event came, not just a repetition of the last one.
async fn read(link: &HttpShared, mut response: Response, place: &mut StreamPosition) -> bool {
    let mut parser = SseParser::new(link.web.max_message_bytes());
    let mut came = false;
    while let Ok(Some(chunk)) = body::next(&mut response).await {
        let pushed = parser.push(&chunk, |event| {
            came = true;
            if event.is_message() {
                link.receiver.receive(event.data.into(), None);
            }
        });
        if pushed.is_err() {
            warn!("the server sent {}", body::too_large("an event", link.web.max_message_bytes()));
            // Resuming after the last good event would bring the same one again.
            place.last_id = None;
            return false;
        }
    }
    if let Some(id) = parser.last_id.as_deref() {
        came = came && Some(id) != place.last_id.as_deref();
        place.last_id = Some(id.to_owned()).filter(|id| !id.is_empty());
    }
    place.retry = parser.retry.or(place.retry);
    came
}

/// Reports whether a status means that the server has no stream; a success without a stream does not know the method.
fn is_unsupported(status: StatusCode) -> bool {
    let comes_and_goes = matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS);
    status.is_success() || status.is_client_error() && !comes_and_goes || status == StatusCode::NOT_IMPLEMENTED
}

/// How many seconds to wait after each failure in a row.
const WAITS: [u64; 5] = [1, 2, 5, 10, 30];

/// A stream that stayed open this long counts as good, even if nothing came.
const LIVED: Duration = Duration::from_secs(10);
