//! The content of a request, read within limits of size and time.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use http::StatusCode;
use hyper::body::{Body, Incoming};
use tokio::time::timeout;

use super::load::RequestSlot;
use super::options::GatewayLimits;
use super::refusal::HttpRefusal;
use super::timer::ConnectionTimer;

/// Reads the content of a request.
pub(super) async fn read(
    body: &mut Incoming,
    limits: &GatewayLimits,
    timer: &ConnectionTimer,
    slot: &mut RequestSlot,
) -> Result<Vec<u8>, HttpRefusal> {
    let declared = body.size_hint().exact().unwrap_or(0);
    if declared > limits.max_body_bytes as u64 {
        return Err(HttpRefusal::too_long("body", limits.max_body_bytes));
    }
    let mut content = Vec::with_capacity((declared as usize).min(FIRST));
    let read = poll_fn(|cx| {
        loop {
            match Pin::new(&mut *body).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    let Ok(data) = frame.into_data() else { continue };
                    if content.len() + data.len() > limits.max_body_bytes {
                        return Poll::Ready(Err(HttpRefusal::too_long("body", limits.max_body_bytes)));
                    }
                    slot.reserve(data.len())?;
                    content.extend_from_slice(&data);
                }
                Poll::Ready(Some(Err(_))) => return Poll::Ready(Err(broken())),
                Poll::Ready(None) => return Poll::Ready(Ok(())),
                // The connection looks at the clock, and then at us again.
                Poll::Pending if timer.is_body_late() => return Poll::Ready(Err(late())),
                Poll::Pending => return Poll::Pending,
            }
        }
    });
    read.await?;
    timer.mark_body_read();
    Ok(content)
}

/// Throws away what is left of a request that is refused, so that the client comes to read why.
pub(super) async fn drain(body: &mut Incoming) {
    let mut left = LINGER_BYTES;
    let drained = async {
        // Who sends nothing more waits for us, whatever it said it would send.
        while let Ok(Some(Ok(frame))) = timeout(QUIET, poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx))).await {
            left = left.saturating_sub(frame.data_ref().map_or(0, |data| data.len()));
            if left == 0 {
                return;
            }
        }
    };
    // Whether it was in time does not matter: what is left closes the connection.
    let _ = timeout(LINGER, drained).await;
}

fn late() -> HttpRefusal {
    HttpRefusal::new(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time: send it faster")
}

fn broken() -> HttpRefusal {
    HttpRefusal::new(StatusCode::BAD_REQUEST, "the body is not framed as HTTP/1.1 says")
}

/// Room that is made on the word of a client; more comes with the content itself.
const FIRST: usize = 64 << 10;
/// The most that is thrown away.
const LINGER_BYTES: usize = 16 << 20;
/// How long that may take.
const LINGER: Duration = Duration::from_secs(2);
/// How long nothing may come meanwhile.
const QUIET: Duration = Duration::from_millis(200);
