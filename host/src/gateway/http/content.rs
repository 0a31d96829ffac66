//! Reads the body of a request within limits of size and time.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use http::StatusCode;
use hyper::body::{Body, Incoming};
use tokio::time::timeout;

use super::timer::ConnectionTimer;
use crate::gateway::limits::GatewayLimits;
use crate::gateway::load::RequestSlot;
use crate::gateway::refusal::RequestRefusal;

/// Reads the whole body of a request.
pub(super) async fn read(
    body: &mut Incoming,
    limits: &GatewayLimits,
    timer: &ConnectionTimer,
    slot: &mut RequestSlot,
) -> Result<Vec<u8>, RequestRefusal> {
    let declared = body.size_hint().exact().unwrap_or(0);
    if declared > limits.max_body_bytes as u64 {
        return Err(RequestRefusal::too_long("body", limits.max_body_bytes));
    }
    let mut content = Vec::with_capacity((declared as usize).min(FIRST));
    let read = poll_fn(|cx| {
        loop {
            match Pin::new(&mut *body).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    let Ok(data) = frame.into_data() else { continue };
                    if content.len() + data.len() > limits.max_body_bytes {
                        return Poll::Ready(Err(RequestRefusal::too_long("body", limits.max_body_bytes)));
                    }
                    slot.reserve(data.len())?;
                    content.extend_from_slice(&data);
                }
                Poll::Ready(Some(Err(_))) => return Poll::Ready(Err(broken())),
                Poll::Ready(None) => return Poll::Ready(Ok(())),
                // The connection checks its timer and then polls this future again.
                Poll::Pending if timer.is_body_late() => return Poll::Ready(Err(late())),
                Poll::Pending => return Poll::Pending,
            }
        }
    });
    read.await?;
    timer.mark_body_read();
    Ok(content)
}

/// Discards the rest of a refused request's body, so that the client gets to read the response.
pub(super) async fn drain(body: &mut Incoming) {
    let mut left = LINGER_BYTES;
    let drained = async {
        // A client that pauses waits for the response, whatever length it announced.
        while let Ok(Some(Ok(frame))) = timeout(QUIET, poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx))).await {
            left = left.saturating_sub(frame.data_ref().map_or(0, |data| data.len()));
            if left == 0 {
                return;
            }
        }
    };
    // A timeout is no error: hyper closes a connection with an unread body.
    let _ = timeout(LINGER, drained).await;
}

fn late() -> RequestRefusal {
    RequestRefusal::new(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time: send it faster")
}

fn broken() -> RequestRefusal {
    RequestRefusal::new(StatusCode::BAD_REQUEST, "the framing of the body is not valid HTTP/1.1")
}

/// The most that is allocated for a declared length before any content arrives.
const FIRST: usize = 64 << 10;
/// The most bytes that are discarded.
const LINGER_BYTES: usize = 16 << 20;
/// The longest time for discarding.
const LINGER: Duration = Duration::from_secs(2);
/// The longest pause while discarding.
const QUIET: Duration = Duration::from_millis(200);
