//! Tests many calls on one instance: each gets its own answer and can be cancelled alone, and none survives a trap.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::Value;
use tokio::sync::Notify;
use toolgate::decide::Decide;
use toolgate::logic::types::execution::{Code, Settings};
use toolgate::logic::types::naming::NamingStyle;
use toolgate_tests::client::{Answer, House, Wish, Wishes, call, house};

fn settings() -> Settings {
    toolgate_tests::supervisor().default_settings(&["a".to_owned()]).unwrap()
}

const TOOLS: &str = r#"{"tools":[{"name":"x","annotations":{"readOnlyHint":false}}]}"#;

/// The argument `n` of a call, or none where something else is wished for.
fn number(wish: &Wish) -> Option<usize> {
    match wish {
        Wish::Request { method, params, .. } if method == "tools/call" => {
            let params: Value = serde_json::from_str(params).expect("params are JSON");
            params["arguments"]["n"].as_u64().map(|n| n as usize)
        }
        _ => None,
    }
}

fn text(text: &str) -> Answer {
    Ok(serde_json::json!({"content": [{"type": "text", "text": text}]}).to_string())
}

/// Answers calls only once all of them are there, the last one first.
#[derive(Default)]
struct Crowd {
    /// How many are expected.
    size: usize,
    lists: AtomicUsize,
    arrived: AtomicUsize,
    turn: Mutex<Option<usize>>,
    changed: Notify,
}

impl Crowd {
    async fn answer(self: Arc<Self>, wish: Wish) -> Answer {
        let Some(n) = number(&wish) else {
            self.lists.fetch_add(1, Ordering::SeqCst);
            // All who come while it is on its way wait for this one.
            tokio::task::yield_now().await;
            return Ok(TOOLS.to_owned());
        };
        if self.arrived.fetch_add(1, Ordering::SeqCst) + 1 == self.size {
            *self.turn.lock().unwrap() = Some(self.size - 1);
            self.changed.notify_waiters();
        }
        loop {
            let changed = self.changed.notified();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            if *self.turn.lock().unwrap() == Some(n) {
                break;
            }
            changed.await;
        }
        *self.turn.lock().unwrap() = n.checked_sub(1);
        self.changed.notify_waiters();
        text(&format!("answer {n}"))
    }
}

#[tokio::test]
async fn calls_on_one_instance_run_side_by_side_and_get_their_own_answers() {
    const CALLS: usize = 256;
    let crowd = Arc::new(Crowd { size: CALLS, ..Crowd::default() });
    let wishes: Wishes = {
        let crowd = Arc::clone(&crowd);
        Arc::new(move |wish| Box::pin(Arc::clone(&crowd).answer(wish)))
    };
    let (mut store, client) = house().open(wishes).await;
    let executor = client.toolgate_client_tool_executor();
    let run = store.run_concurrent(async |store| {
        executor.call_configure(store, settings()).await?.expect("good settings");
        let calls = (0..CALLS).map(|n| executor.call_execute(store, call(&n.to_string(), "a.x", &format!("n: {n}"))));
        join_all(calls).await.into_iter().collect::<wasmtime::Result<Vec<_>>>()
    });
    let results = tokio::time::timeout(Duration::from_secs(120), run).await.expect("nothing hangs").unwrap().unwrap();
    for (n, result) in results.iter().enumerate() {
        assert_eq!((result.code, result.text.clone()), (Code::Ok, format!("answer {n}")));
        assert_eq!(result.call_id, n.to_string());
    }
    assert_eq!(crowd.lists.load(Ordering::SeqCst), 1, "the server was asked once for all");
    store.assert_concurrent_state_empty();
}

/// Says when nobody waits for it any more.
struct Waiting(Arc<Notify>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

#[tokio::test]
async fn a_call_that_is_given_up_ends_at_once_and_alone() {
    let (arrived, dropped, release) = (Arc::new(Notify::new()), Arc::new(Notify::new()), Arc::new(Notify::new()));
    let wishes: Wishes = {
        let (arrived, dropped, release) = (Arc::clone(&arrived), Arc::clone(&dropped), Arc::clone(&release));
        Arc::new(move |wish| {
            let (arrived, dropped, release) = (Arc::clone(&arrived), Arc::clone(&dropped), Arc::clone(&release));
            Box::pin(async move {
                match number(&wish) {
                    None => Ok(TOOLS.to_owned()),
                    Some(0) => {
                        let _waiting = Waiting(dropped);
                        arrived.notify_one();
                        std::future::pending().await
                    }
                    Some(_) => {
                        release.notified().await;
                        text("hello")
                    }
                }
            })
        })
    };
    let (mut store, client) = house().open(wishes).await;
    let executor = client.toolgate_client_tool_executor();
    let run = store.run_concurrent(async |store| {
        executor.call_configure(store, settings()).await?.expect("good settings");
        let cancelling = async {
            arrived.notified().await;
            let known = executor.call_cancel(store, "one".to_owned()).await?;
            dropped.notified().await;
            release.notify_one();
            let unknown = executor.call_cancel(store, "one".to_owned()).await?;
            Ok::<_, wasmtime::Error>((known, unknown))
        };
        let (one, other, cancelled) = tokio::join!(
            executor.call_execute(store, call("one", "a.x", "n: 0")),
            executor.call_execute(store, call("other", "a.x", "n: 1")),
            cancelling
        );
        Ok::<_, wasmtime::Error>((one?, other?, cancelled?))
    });
    let run = tokio::time::timeout(Duration::from_secs(60), run).await.expect("nothing hangs");
    let (one, other, cancelled) = run.unwrap().unwrap();
    assert_eq!((one.code, other.code), (Code::Cancelled, Code::Ok));
    assert_eq!(other.text, "hello");
    assert_eq!(cancelled, (true, false), "what is over is forgotten");
}

#[tokio::test]
async fn tools_are_listed_and_a_server_that_fails_is_named() {
    let wishes: Wishes = Arc::new(|wish| {
        Box::pin(async move {
            match wish {
                Wish::Request { server, .. } if server == "a" => Ok(TOOLS.to_owned()),
                _ => Err(toolgate::extension::bindings::toolgate::client::transport::Failed {
                    failure: toolgate::logic::types::Failure::Connect("refused".to_owned()),
                    phase: toolgate::logic::types::Phase::NotSent,
                }),
            }
        })
    });
    let (mut store, client) = house().open(wishes).await;
    let executor = client.toolgate_client_tool_executor();
    let settings = toolgate_tests::supervisor().default_settings(&["a".to_owned(), "b".to_owned()]).unwrap();
    let run = store.run_concurrent(async |store| {
        executor.call_configure(store, settings).await?.expect("good settings");
        executor.call_list_tools(store, NamingStyle::Dot).await
    });
    let listing = run.await.unwrap().unwrap();
    assert_eq!(listing.tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["a.x"]);
    assert_eq!((listing.failed[0].server.as_str(), listing.failed.len()), ("b", 1));
    assert!(listing.failed[0].reason.contains("refused"), "{}", listing.failed[0].reason);
}

#[tokio::test]
async fn a_trap_is_an_error_of_all_its_calls_and_the_next_instance_works() {
    let huge = Arc::new("password: hunter2hunter2 ".repeat(400_000));
    let wishes: Wishes = Arc::new(move |wish| {
        let huge = Arc::clone(&huge);
        Box::pin(async move {
            match number(&wish) {
                None => Ok(TOOLS.to_owned()),
                Some(0) => text(&huge),
                Some(1) => std::future::pending().await,
                Some(n) => text(&format!("answer {n}")),
            }
        })
    });
    let house = House::new(Some(50_000_000));
    let (mut store, client) = house.open(Arc::clone(&wishes)).await;
    let executor = client.toolgate_client_tool_executor();
    let mut masking = settings();
    masking.masks.groups = vec!["all".to_owned()];
    masking.max_result_bytes = 0;
    let run = store.run_concurrent(async |store| {
        executor.call_configure(store, masking).await?.expect("good settings");
        let calls = (0..2).map(|n| executor.call_execute(store, call(&n.to_string(), "a.x", &format!("n: {n}"))));
        join_all(calls).await.into_iter().collect::<wasmtime::Result<Vec<_>>>()
    });
    let run = tokio::time::timeout(Duration::from_secs(60), run).await.expect("the call that hangs ends too");
    let error = run.and_then(|results| results).unwrap_err();
    assert!(matches!(error.downcast_ref(), Some(wasmtime::Trap::OutOfFuel)), "{error:?}");
    drop(store);

    let (mut store, client) = house.open(wishes).await;
    let executor = client.toolgate_client_tool_executor();
    let run = store.run_concurrent(async |store| {
        executor.call_configure(store, settings()).await?.expect("good settings");
        executor.call_execute(store, call("1", "a.x", "n: 2")).await
    });
    assert_eq!(run.await.unwrap().unwrap().text, "answer 2");
}

#[tokio::test]
async fn a_store_can_be_dropped_with_calls_under_way() {
    let arrived = Arc::new(Notify::new());
    let dropped = Arc::new(Notify::new());
    let wishes: Wishes = {
        let (arrived, dropped) = (Arc::clone(&arrived), Arc::clone(&dropped));
        Arc::new(move |wish| {
            let (arrived, dropped) = (Arc::clone(&arrived), Arc::clone(&dropped));
            Box::pin(async move {
                if number(&wish).is_none() {
                    return Ok(TOOLS.to_owned());
                }
                let _waiting = Waiting(dropped);
                arrived.notify_one();
                std::future::pending().await
            })
        })
    };
    let (mut store, client) = house().open(wishes).await;
    let executor = client.toolgate_client_tool_executor();
    let run = store.run_concurrent(async |store| {
        executor.call_configure(store, settings()).await?.expect("good settings");
        executor.call_execute(store, call("1", "a.x", "n: 0")).await
    });
    tokio::select! {
        ended = run => panic!("it ended: {ended:?}"),
        () = arrived.notified() => {}
    }
    drop(store);
    tokio::time::timeout(Duration::from_secs(60), dropped.notified()).await.expect("the request is given up");
}
