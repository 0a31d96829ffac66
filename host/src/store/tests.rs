//! What both stores do, and what only one in Redis does. The tests start a Redis of their own.

mod in_redis;
mod redis_server;

use std::time::Duration;

use super::*;
use crate::logic::types::rules::LimitScope;

/// Runs each behaviour in memory, and on two replicas that share a Redis.
macro_rules! behaviours {
    ($($name:ident,)*) => {
        mod memory {
            use super::super::Store;

            $(#[tokio::test]
            async fn $name() {
                let store = Store::memory();
                super::$name(&store, &store).await;
            })*
        }

        mod redis {
            use super::redis_server::RedisServer;

            $(#[tokio::test]
            async fn $name() {
                let Some(server) = RedisServer::start(&[]) else { return };
                super::$name(&server.store(), &server.store()).await;
            })*
        }
    };
}

behaviours! {
    calls_are_counted_for_each_rule_until_its_time_ends,
    a_bucket_gives_its_burst_and_then_the_steady_rate,
    what_is_spent_is_spent_for_everybody_and_for_its_time,
    an_agent_is_known_until_it_is_forgotten,
    values_are_remembered_in_the_order_of_their_use,
    a_result_teaches_nothing_if_the_agent_wrote_to_its_server,
    an_agent_that_is_idle_is_forgotten,
    an_agent_of_which_something_waits_is_not_forgotten,
    a_session_is_kept_until_it_ends_and_its_end_is_remembered,
    nothing_is_kept_longer_than_it_was_said,
}

const IDLE: Duration = Duration::from_secs(600);
const MINUTE: Duration = Duration::from_secs(60);

fn limit(by: LimitScope, per_ms: u64) -> CallLimit {
    CallLimit { calls: 1, per_ms, by }
}

async fn calls(store: &Store, rule: &str, limit: CallLimit, principal: &str, mode: CountMode) -> u32 {
    store.count(&[(rule.to_owned(), limit)], principal, mode).await.unwrap()[0].calls
}

/// Waits until a condition holds.
async fn until<T>(what: &str, mut condition: impl AsyncFnMut() -> Option<T>) -> T {
    let waiting = async {
        loop {
            if let Some(found) = condition().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), waiting).await.unwrap_or_else(|_| panic!("{what}"))
}

async fn calls_are_counted_for_each_rule_until_its_time_ends(one: &Store, other: &Store) {
    use CountMode::{Count, Foresee};
    let (own, shared) = (limit(LimitScope::Principal, 60_000), limit(LimitScope::Everybody, 60_000));
    assert_eq!(calls(one, "r", own, "ann", Foresee).await, 1);
    assert_eq!(calls(one, "r", own, "ann", Count).await, 1);
    assert_eq!(calls(other, "r", own, "ann", Count).await, 2);
    assert_eq!(calls(one, "r", own, "bob", Count).await, 1, "each principal is counted alone");
    assert_eq!(calls(one, "s", own, "ann", Count).await, 1, "each rule has its own count");
    assert_eq!(calls(one, "r", shared, "ann", Count).await, 1);
    assert_eq!(calls(other, "r", shared, "bob", Count).await, 2);
    assert_eq!(calls(other, "r", shared, "bob", Foresee).await, 3);
    let both = [("r".to_owned(), own), ("r".to_owned(), shared)];
    let counted = one.count(&both, "ann", Count).await.unwrap();
    assert_eq!(counted.iter().map(|count| count.calls).collect::<Vec<_>>(), [3, 3]);
    assert!(counted.iter().all(|count| (30_000..=60_000).contains(&count.ends_in_ms)), "{counted:?}");
    assert_eq!(one.count(&[], "ann", Count).await.unwrap(), []);
    let short = limit(LimitScope::Everybody, 100);
    assert_eq!(calls(one, "short", short, "ann", Count).await, 1);
    let ended = async || (calls(other, "short", short, "ann", Foresee).await == 1).then_some(());
    until("the time ends", ended).await;
}

async fn a_bucket_gives_its_burst_and_then_the_steady_rate(one: &Store, other: &Store) {
    let rate = RateLimit { per_second: 1, burst: 2 };
    assert_eq!(one.take_rate("ann", rate).await.unwrap(), Ok(()));
    assert_eq!(other.take_rate("ann", rate).await.unwrap(), Ok(()));
    let wait = one.take_rate("ann", rate).await.unwrap().unwrap_err();
    assert!(wait > Duration::ZERO && wait <= Duration::from_secs(1), "{wait:?}");
    assert_eq!(one.take_rate("bob", rate).await.unwrap(), Ok(()));
    until("it refills", async || other.take_rate("ann", rate).await.unwrap().ok()).await;
    assert!(one.take_rate("ann", rate).await.unwrap().is_err(), "it refills one by one");
}

/// Returns the mark of the epoch of a store, once it was reached.
async fn epoch_of(store: &Store) -> String {
    store.tried().await;
    store.epoch_mark()
}

async fn what_is_spent_is_spent_for_everybody_and_for_its_time(one: &Store, other: &Store) {
    let epoch = &epoch_of(one).await;
    assert!(one.spend("a", epoch, MINUTE).await.unwrap());
    assert!(!other.spend("a", epoch, MINUTE).await.unwrap());
    assert!(!one.spend("a", epoch, MINUTE).await.unwrap());
    assert!(other.spend("b", epoch, Duration::from_millis(50)).await.unwrap());
    until("its time ends", async || one.spend("b", epoch, MINUTE).await.unwrap().then_some(())).await;
}

fn agent(principal: &str) -> AgentKey {
    AgentKey::of_test(principal, None)
}

fn lesson(labels: &[&str], known: impl IntoIterator<Item = u64>) -> AgentContext {
    let known = known.into_iter().map(|value| (value, u64::MAX - value)).collect();
    AgentContext { labels: labels.iter().map(|label| (*label).to_owned()).collect(), known }
}

async fn an_agent_is_known_until_it_is_forgotten(one: &Store, other: &Store) {
    let session = AgentKey::of_test("ann", Some("x y/{z}"));
    one.learn(&agent("ann"), &lesson(&["untrusted", "é:x"], 0..2), IDLE).await.unwrap();
    one.learn(&agent("ann"), &lesson(&["untrusted"], []), IDLE).await.unwrap();
    other.learn(&agent("bob"), &lesson(&["private"], []), IDLE).await.unwrap();
    one.learn(&session, &lesson(&["s"], []), IDLE).await.unwrap();
    let seen = other.recall(&agent("ann"), true, IDLE).await.unwrap();
    assert_eq!(seen, lesson(&["untrusted", "é:x"], 0..2));
    assert_eq!(other.recall(&agent("ann"), false, IDLE).await.unwrap(), lesson(&["untrusted", "é:x"], []));
    assert_eq!(other.recall(&session, true, IDLE).await.unwrap(), lesson(&["s"], []));
    assert_eq!(one.recall(&agent("eve"), true, IDLE).await.unwrap(), AgentContext::default());
    let listed = other.agents(IDLE).await.unwrap();
    let listed: Vec<_> = listed.iter().map(|agent| (&*agent.principal, agent.part.is_some(), agent.known)).collect();
    assert_eq!(listed, [("ann", false, 2), ("ann", true, 0), ("bob", false, 0)]);
    assert_eq!(other.reset(Some("ann")).await.unwrap(), 2);
    assert_eq!(one.recall(&session, true, IDLE).await.unwrap(), AgentContext::default());
    assert_eq!(one.recall(&agent("bob"), true, IDLE).await.unwrap(), lesson(&["private"], []));
    assert_eq!(one.reset(None).await.unwrap(), 1);
    assert_eq!(other.agents(IDLE).await.unwrap(), []);
}

async fn values_are_remembered_in_the_order_of_their_use(one: &Store, other: &Store) {
    one.learn(&agent("ann"), &lesson(&["l"], 0..2000), IDLE).await.unwrap();
    other.learn(&agent("ann"), &lesson(&[], [0]), IDLE).await.unwrap();
    one.learn(&agent("ann"), &lesson(&[], 5000..5100), IDLE).await.unwrap();
    let seen = other.recall(&agent("ann"), true, IDLE).await.unwrap();
    // There is room for 2048 of 2100; the one that was used again is not among the oldest.
    assert_eq!(seen, lesson(&["l"], (53..2000).chain([0]).chain(5000..5100)));
    one.learn(&agent("eve"), &lesson(&["l"], 0..5000), IDLE).await.unwrap();
    let seen = other.recall(&agent("eve"), true, IDLE).await.unwrap();
    assert_eq!(seen, lesson(&["l"], 5000 - 2048..5000));
}

async fn a_result_teaches_nothing_if_the_agent_wrote_to_its_server(one: &Store, other: &Store) {
    one.learn(&agent("ann"), &lesson(&["written:crm"], []), IDLE).await.unwrap();
    other.learn_from(&agent("ann"), "crm", &lesson(&["private"], 0..5), IDLE).await.unwrap();
    other.learn_from(&agent("ann"), "web", &lesson(&["private"], 7..8), IDLE).await.unwrap();
    let seen = one.recall(&agent("ann"), true, IDLE).await.unwrap();
    assert_eq!(seen, lesson(&["written:crm", "private"], 7..8));
}

async fn an_agent_that_is_idle_is_forgotten(one: &Store, other: &Store) {
    let short = Duration::from_millis(100);
    one.learn(&agent("ann"), &lesson(&["l"], 0..1), short).await.unwrap();
    let forgotten = async || {
        // Who only looks does not keep it.
        other.peek(&agent("ann"), true, short).await.unwrap();
        other.agents(short).await.unwrap().is_empty().then_some(())
    };
    until("it is forgotten", forgotten).await;
    // A call after too long a time does not bring it back.
    one.touch(&agent("ann"), short).await.unwrap();
    assert_eq!(other.recall(&agent("ann"), true, short).await.unwrap(), AgentContext::default());
}

async fn an_agent_of_which_something_waits_is_not_forgotten(one: &Store, other: &Store) {
    let short = Duration::from_millis(300);
    one.learn(&agent("ann"), &lesson(&["l"], 0..1), short).await.unwrap();
    one.learn(&agent("bob"), &lesson(&["l"], 0..1), short).await.unwrap();
    one.hold(&agent("ann"), short, MINUTE).await.unwrap();
    // What it does meanwhile does not make the time shorter.
    other.learn(&agent("ann"), &lesson(&["m"], 1..2), short).await.unwrap();
    other.recall(&agent("ann"), true, short).await.unwrap();
    one.touch(&agent("ann"), short).await.unwrap();
    let forgotten = async || other.peek(&agent("bob"), true, short).await.unwrap().labels.is_empty().then_some(());
    until("the other one is forgotten", forgotten).await;
    assert_eq!(other.peek(&agent("ann"), true, short).await.unwrap(), lesson(&["l", "m"], 0..2));
    // Nor does it bring anything back.
    other.hold(&agent("bob"), short, MINUTE).await.unwrap();
    assert_eq!(one.recall(&agent("bob"), true, short).await.unwrap(), AgentContext::default());
}

async fn a_session_is_kept_until_it_ends_and_its_end_is_remembered(one: &Store, other: &Store) {
    let long = "x".repeat(2000);
    for id in ["a", &*long] {
        assert_eq!(one.session(id).await.unwrap(), None);
        one.keep_session(id, id, "first", MINUTE).await.unwrap();
        other.keep_session(id, id, "{\"level\":\"é\"}", MINUTE).await.unwrap();
        assert_eq!(one.session(id).await.unwrap().as_deref(), Some("{\"level\":\"é\"}"));
        other.end_session(id, id, MINUTE).await.unwrap();
        one.keep_session(id, id, "again", MINUTE).await.unwrap();
        assert_eq!(one.session(id).await.unwrap(), None, "it has ended");
    }
    let ended = one.ended_sessions().await.unwrap();
    assert!(ended.iter().all(|(_, left)| *left > Duration::from_secs(30) && *left <= MINUTE), "{ended:?}");
    let mut ids: Vec<_> = ended.into_iter().map(|(id, _)| id).collect();
    ids.sort();
    assert_eq!(ids, ["a".to_owned(), long]);
}

async fn nothing_is_kept_longer_than_it_was_said(one: &Store, other: &Store) {
    let short = Duration::from_millis(50);
    one.keep_session("kept", "kept", "state", short).await.unwrap();
    one.end_session("ended", "ended", short).await.unwrap();
    until("the state is gone", async || other.session("kept").await.unwrap().is_none().then_some(())).await;
    until("the end is forgotten", async || other.ended_sessions().await.unwrap().is_empty().then_some(())).await;
    other.keep_session("ended", "ended", "anew", MINUTE).await.unwrap();
    assert_eq!(one.session("ended").await.unwrap().as_deref(), Some("anew"));
}

#[tokio::test]
async fn one_process_has_nobody_to_send_messages_to() {
    let store = Store::memory();
    let mut messages = store.messages();
    assert!(!store.send(None, "hello").await.unwrap());
    assert!(!store.send(Some(store.replica()), "hello").await.unwrap());
    assert!(messages.try_recv().is_err() && !messages.is_closed());
    assert!(!store.is_shared() && store.problem().is_none());
    assert_ne!(store.replica(), Store::memory().replica());
}

#[tokio::test]
async fn what_cannot_be_remembered_in_memory_is_not_spent() {
    let store = Store::memory();
    while store.spend(&fastrand::u64(..).to_string(), "", MINUTE).await.unwrap() {}
    assert!(!store.spend("one more", "", MINUTE).await.unwrap());
}
