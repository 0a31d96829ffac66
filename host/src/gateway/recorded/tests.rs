//! Tests that queries of records keep nothing else waiting.

use std::sync::mpsc::channel;

use super::*;

#[tokio::test(start_paused = true)]
async fn one_query_reads_at_a_time_and_others_wait_or_are_told_to_come_back() {
    let queries = Arc::new(RecordQueries::default());
    let start = |query: Box<dyn FnOnce() -> u32 + Send>| {
        let queries = Arc::clone(&queries);
        tokio::spawn(async move { queries.run(query).await })
    };
    let (begun, has_begun) = tokio::sync::oneshot::channel();
    let (finish, finished) = channel::<()>();
    let first = start(Box::new(move || {
        begun.send(()).unwrap();
        finished.recv().unwrap();
        1
    }));
    has_begun.await.unwrap();
    let refused = start(Box::new(|| 2));
    tokio::task::yield_now().await;
    tokio::time::advance(QUEUE + Duration::from_millis(1)).await;
    assert_eq!(refused.await.unwrap().unwrap_err().status, 503);
    let waiting = start(Box::new(|| 3));
    tokio::task::yield_now().await;
    finish.send(()).unwrap();
    assert_eq!((first.await.unwrap(), waiting.await.unwrap()), (Ok(1), Ok(3)));
}

#[tokio::test(start_paused = true)]
async fn a_query_that_blocks_is_answered_and_still_counts() {
    let queries = RecordQueries::default();
    let (finish, finished) = channel::<()>();
    let (answer, ()) = tokio::join!(queries.run(move || finished.recv().unwrap()), async {
        tokio::task::yield_now().await;
        tokio::time::advance(READ + QUEUE + Duration::from_millis(1)).await;
    });
    assert!(answer.unwrap_err().body.contains("takes too long"));
    let (answer, ()) = tokio::join!(queries.run(|| ()), async {
        tokio::task::yield_now().await;
        tokio::time::advance(QUEUE + Duration::from_millis(1)).await;
    });
    assert!(answer.unwrap_err().body.contains("another query"));
    finish.send(()).unwrap();
    assert_eq!(queries.run(|| 7).await, Ok(7));
}
