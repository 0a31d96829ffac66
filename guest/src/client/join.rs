//! Runs futures concurrently until all have ended.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

/// Waits for all futures and returns their outputs, in order.
pub(super) async fn join_all<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut running: Vec<Pin<Box<F>>> = futures.into_iter().map(Box::pin).collect();
    let mut ended: Vec<Option<F::Output>> = running.iter().map(|_| None).collect();
    poll_fn(|context| {
        for (future, ended) in running.iter_mut().zip(&mut ended) {
            if ended.is_none()
                && let Poll::Ready(output) = future.as_mut().poll(context)
            {
                *ended = Some(output);
            }
        }
        if ended.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    ended.into_iter().flatten().collect()
}
