//! What a store in Redis does when Redis fails, and how much it asks of it.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::super::*;
use super::redis_server::RedisServer;
use super::{IDLE, MINUTE, agent, epoch_of, lesson, limit, until};
use crate::agent::MOST_AGENTS;
use crate::logic::types::rules::LimitScope;

async fn reachable(store: &Store) {
    until("the store is reached", async || store.problem().is_none().then_some(())).await;
}

/// Counts a call, and returns how many there were.
async fn count(store: &Store) -> Result<u32, StoreError> {
    let limits = [("r".to_owned(), limit(LimitScope::Everybody, 60_000))];
    store.count(&limits, "ann", CountMode::Count).await.map(|counts| counts[0].calls)
}

#[tokio::test]
async fn replicas_count_exactly_and_in_one_round_trip_each() {
    let Some(server) = RedisServer::start(&[]) else { return };
    let stores = [server.store(), server.store(), server.store()];
    for store in &stores {
        count(store).await.unwrap();
    }
    server.ask(&["CONFIG", "RESETSTAT"]);
    let mut running = JoinSet::new();
    for turn in 0..300 {
        let store = stores[turn % 3].clone();
        running.spawn(async move { count(&store).await.unwrap() });
    }
    let mut counted = running.join_all().await;
    counted.sort_unstable();
    assert_eq!(counted, (4..304).collect::<Vec<_>>());
    let stats = server.ask(&["INFO", "commandstats"]);
    assert!(stats.contains("cmdstat_evalsha:calls=300,"), "{stats}");
    assert!(!stats.contains("cmdstat_eval:"), "{stats}");
}

#[tokio::test]
async fn scripts_that_redis_has_forgotten_are_sent_again() {
    let Some(server) = RedisServer::start(&[]) else { return };
    let store = server.store();
    assert_eq!(count(&store).await, Ok(1));
    server.ask(&["SCRIPT", "FLUSH"]);
    assert_eq!(count(&store).await, Ok(2));
    server.ask(&["FLUSHALL"]);
    assert_eq!(count(&store).await, Ok(1));
}

#[tokio::test]
async fn every_key_expires_and_is_ours() {
    let Some(server) = RedisServer::start(&[]) else { return };
    let store = server.store();
    count(&store).await.unwrap();
    store.take_rate("ann", RateLimit { per_second: 1, burst: 5 }).await.unwrap().unwrap();
    store.spend("a", &store.epoch_mark(), MINUTE).await.unwrap();
    store.learn(&agent("ann"), &lesson(&["l"], 0..1), IDLE).await.unwrap();
    store.learn(&AgentKey::of_test("ann", Some("s")), &lesson(&["l"], []), IDLE).await.unwrap();
    store.keep_session("a", "a", "x", MINUTE).await.unwrap();
    store.end_session("b", "b", MINUTE).await.unwrap();
    let keys = server.ask(&["-n", "3", "KEYS", "*"]);
    assert!(keys.lines().count() >= 10, "{keys}");
    for key in keys.lines() {
        let left: i64 = server.ask(&["-n", "3", "PTTL", key]).trim().parse().unwrap();
        assert!(key.starts_with("toolgate:") && left > 0, "{key}: {left}");
    }
}

#[tokio::test]
async fn one_principals_sessions_push_out_those_of_no_other_and_labelled_ones_last() {
    let Some(server) = RedisServer::start(&[]) else { return };
    let store = server.store();
    let part = |principal: &str, number: usize| AgentKey::of_test(principal, Some(&number.to_string()));
    store.learn(&part("bob", 0), &lesson(&["untrusted"], []), IDLE).await.unwrap();
    store.learn(&part("eve", 0), &lesson(&["untrusted"], []), IDLE).await.unwrap();
    store.learn(&agent("cid"), &lesson(&["untrusted"], []), IDLE).await.unwrap();
    for first in (1..MOST_AGENTS + 100).step_by(500) {
        let mut running = JoinSet::new();
        for number in first..first + 500 {
            let (store, key) = (store.clone(), part("eve", number));
            running.spawn(async move { store.learn(&key, &lesson(&[], 0..1), IDLE).await.unwrap() });
        }
        running.join_all().await;
    }
    for key in [part("bob", 0), part("eve", 0), agent("cid")] {
        assert_eq!(store.recall(&key, false, IDLE).await.unwrap().labels, ["untrusted"], "{key:?}");
    }
    let agents = store.agents(IDLE).await.unwrap();
    assert!(agents.len() <= MOST_AGENTS + 1 && agents.len() > MOST_AGENTS / 2, "{}", agents.len());
    assert_eq!(store.recall(&part("eve", 1), true, IDLE).await.unwrap(), AgentContext::default(), "the oldest went");
}

#[tokio::test]
async fn a_store_that_is_gone_is_reported_at_once_and_used_again_when_it_is_back() {
    let Some(mut server) = RedisServer::start(&[]) else { return };
    let store = server.store();
    assert_eq!(count(&store).await, Ok(1), "the first operation waits for the connection");
    assert_eq!(store.problem(), None);
    server.kill();
    until("it is noticed", async || store.problem()).await;
    let began = Instant::now();
    for _ in 0..100 {
        let failed = count(&store).await.unwrap_err();
        assert!(matches!(failed, StoreError::Unreachable(_)), "{failed}");
    }
    assert!(began.elapsed() < Duration::from_secs(1), "nobody waits for a store that is known to be gone");
    server.restart();
    reachable(&store).await;
    assert_eq!(count(&store).await, Ok(1));
}

#[tokio::test]
async fn an_answer_that_comes_too_late_is_never_taken_for_another() {
    let Some(server) = RedisServer::start(&[]) else { return };
    let store = server.store();
    store.keep_session("a", "a", "of a", MINUTE).await.unwrap();
    store.keep_session("b", "b", "of b", MINUTE).await.unwrap();
    server.signal("STOP");
    let failed = store.session("a").await.unwrap_err();
    assert!(failed.to_string().contains("no answer within"), "{failed}");
    until("it is noticed", async || store.problem()).await;
    server.signal("CONT");
    reachable(&store).await;
    for _ in 0..20 {
        assert_eq!(store.session("b").await.unwrap().as_deref(), Some("of b"));
        assert_eq!(store.session("a").await.unwrap().as_deref(), Some("of a"));
    }
}

#[tokio::test]
async fn no_error_shows_a_password() {
    let Some(server) = RedisServer::start(&["--requirepass", "right-s3cret"]) else { return };
    let right = server.store_with(":right-s3cret@");
    assert_eq!(count(&right).await, Ok(1));
    for login in ["", ":wrong-s3cret@", "ann:wrong-s3cret@"] {
        let store = server.store_with(login);
        store.tried().await;
        let (problem, failed) = (store.problem().unwrap(), count(&store).await.unwrap_err().to_string());
        assert!(!format!("{problem} {failed} {store:?}").contains("s3cret"), "{problem} {failed}");
        assert!(problem.contains("127.0.0.1"), "{problem}");
    }
    for (url, why) in [
        ("redis://:s3cret@host:6379/x", "write it as redis://"),
        ("http://:s3cret@host", "neither redis:// nor rediss://"),
    ] {
        let failed = Store::redis(&Url::parse(url).unwrap(), "r").unwrap_err().to_string();
        assert!(failed.contains(why) && !failed.contains("s3cret"), "{failed}");
    }
}

#[tokio::test]
async fn a_store_that_does_not_write_is_no_store() {
    let Some(server) = RedisServer::start(&[]) else { return };
    server.ask(&["CONFIG", "SET", "maxmemory", "1"]);
    let store = server.store();
    store.tried().await;
    assert!(store.problem().is_some_and(|why| why.contains("OOM")), "{:?}", store.problem());
    server.ask(&["CONFIG", "SET", "maxmemory", "0"]);
    reachable(&store).await;
}

#[tokio::test]
async fn replicas_send_each_other_messages_and_hear_when_they_may_have_missed_some() {
    let Some(mut server) = RedisServer::start(&[]) else { return };
    let (one, other) = (server.store(), server.store());
    let text = |text: &str| StoreMessage::Text(text.to_owned());
    assert!(!one.send(Some(other.replica()), "early").await.unwrap(), "nobody listens yet");
    let (mut to_one, mut to_other) = (one.messages(), other.messages());
    assert_eq!(to_one.recv().await, Some(StoreMessage::Joined));
    assert_eq!(to_other.recv().await, Some(StoreMessage::Joined));
    assert!(one.send(Some(other.replica()), "to\nyou").await.unwrap());
    assert_eq!(to_other.recv().await, Some(text("to\nyou")));
    assert!(!one.send(Some("nobody"), "x").await.unwrap());
    assert!(one.send(None, "to all").await.unwrap());
    assert_eq!(to_other.recv().await, Some(text("to all")));
    assert!(one.messages().recv().await.is_none(), "there is one receiver");
    server.kill();
    server.restart();
    assert_eq!(to_other.recv().await, Some(StoreMessage::Joined));
    assert_eq!(to_one.recv().await, Some(StoreMessage::Joined), "and nothing that it sent itself");
    drop((to_other, other));
    let unheard = async || (!one.send(None, "anybody?").await.ok()?).then_some(());
    until("nobody is left", unheard).await;
}

#[tokio::test]
async fn a_store_without_a_server_lets_nobody_wait() {
    // Nobody answers at this address, and nobody refuses.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = Url::parse(&format!("redis://{}", silent.local_addr().unwrap())).unwrap();
    let store = Store::redis(&url, "r").unwrap();
    store.tried().await;
    assert!(store.problem().is_some_and(|why| why.contains("no answer within 1s")), "{:?}", store.problem());
    let began = Instant::now();
    assert!(count(&store).await.is_err() && calls_fail(&store).await);
    assert!(began.elapsed() < Duration::from_secs(1));
}

async fn calls_fail(store: &Store) -> bool {
    store.session("a").await.is_err() && store.send(None, "x").await.is_err()
}

/// Waits until a store has noticed that it lost something.
async fn loss_of(store: &Store) {
    until("the loss is noticed", async || store.has_lost().then_some(())).await;
}

async fn labels(store: &Store, name: &str) -> Vec<String> {
    store.recall(&agent(name), false, IDLE).await.unwrap().labels
}

/// Lets a replica learn something by itself, as gates do.
async fn learn(store: &Store, name: &str, label: &str) {
    store.learn(&agent(name), &lesson(&[label], [7]), IDLE).await.unwrap();
    store.local().learn(&agent(name), lesson(&[label], [7]));
}

#[tokio::test]
async fn labels_survive_a_store_that_is_emptied_and_strangers_are_untrusted_until_an_operator_accepts_it() {
    let Some(server) = RedisServer::start(&[]) else { return };
    let (one, other) = (server.store(), server.store());
    learn(&one, "ann", "secret").await;
    learn(&other, "ann", "private").await;
    learn(&one, "bob", "calm").await;
    assert_eq!(labels(&one, "ann").await, ["secret", "private"]);
    assert!(!one.has_lost() && one.epoch_mark() == other.epoch_mark());
    server.ask(&["FLUSHALL"]);
    // Each replica says what it knows, so both know it all, and neither knows any value.
    for store in [&one, &other] {
        let seen = store.recall(&agent("ann"), true, IDLE).await.unwrap();
        let mut labels = seen.labels;
        labels.sort();
        assert_eq!((labels, seen.known), (vec!["private".to_owned(), "secret".to_owned()], Vec::new()));
        assert!(store.has_lost());
    }
    assert_eq!(labels(&one, "bob").await, ["calm"], "it is remembered by this replica");
    let mut of_bob = labels(&other, "bob").await;
    of_bob.sort();
    assert_eq!(of_bob, ["calm", "untrusted"]);
    assert_eq!(labels(&one, "eve").await, ["untrusted"]);
    assert_eq!(one.peek(&agent("eve"), false, IDLE).await.unwrap().labels, ["untrusted"]);
    learn(&one, "eve", "new").await;
    assert_eq!(labels(&one, "eve").await, ["new", "untrusted"], "what it learns now says nothing about what was lost");
    // A replica that starts now takes the store as it is.
    let third = server.store();
    assert_eq!(labels(&third, "eve").await, ["new"]);
    assert!(!third.has_lost());
    let (epoch, had_lost) = one.adopt().unwrap();
    assert!(had_lost && !one.has_lost() && other.has_lost());
    other.accept_epoch(&epoch);
    assert!(!other.has_lost());
    assert_eq!(labels(&other, "mia").await, Vec::<String>::new());
    assert_eq!(labels(&one, "eve").await, ["new"]);
}

#[tokio::test]
async fn what_a_replica_read_is_remembered_too_until_an_operator_makes_it_forget() {
    let Some(server) = RedisServer::start(&[]) else { return };
    let (one, other) = (server.store(), server.store());
    learn(&one, "ann", "secret").await;
    assert_eq!(labels(&other, "ann").await, ["secret"]);
    server.ask(&["-n", "3", "DEL", "toolgate:{agents}:labels:ann", "toolgate:{agents}:principals"]);
    assert_eq!(labels(&other, "ann").await, ["secret"]);
    let listed = other.agents(IDLE).await.unwrap();
    assert_eq!(listed.iter().map(|agent| &*agent.labels).collect::<Vec<_>>(), [["secret".to_owned()]]);
    one.reset(Some("ann")).await.unwrap();
    assert_eq!(labels(&other, "ann").await, ["secret"], "it was not told");
    other.forget_here(Some("ann"));
    assert_eq!(labels(&other, "ann").await, Vec::<String>::new());
}

#[tokio::test]
async fn a_store_that_forgets_writes_is_noticed_although_it_has_its_epoch() {
    let Some(server) = RedisServer::start(&[]) else { return };
    let (one, other) = (server.store(), server.store());
    learn(&one, "ann", "secret").await;
    learn(&other, "bob", "calm").await;
    let epoch = epoch_of(&one).await;
    // As after a failover to a copy that was behind.
    server.ask(&["-n", "3", "SET", &format!("toolgate:{{agents}}:writes:{}", one.replica()), "0"]);
    server.ask(&["-n", "3", "DEL", "toolgate:{agents}:labels:ann"]);
    for store in [&one, &other] {
        loss_of(store).await;
        assert_ne!(store.epoch_mark(), epoch);
        assert!(labels(store, "ann").await.contains(&"secret".to_owned()));
    }
    assert!(!one.spend("x", &epoch, MINUTE).await.unwrap(), "what belongs to the old epoch is void");
    assert!(one.spend("y", &one.epoch_mark(), MINUTE).await.unwrap());
}

#[tokio::test]
async fn what_belongs_to_an_epoch_is_void_once_the_store_is_emptied() {
    let Some(server) = RedisServer::start(&[]) else { return };
    let (one, other) = (server.store(), server.store());
    let epoch = epoch_of(&one).await;
    assert_eq!(epoch, epoch_of(&other).await);
    assert!(one.spend("a", &epoch, MINUTE).await.unwrap());
    server.ask(&["FLUSHALL"]);
    assert!(!other.spend("a", &epoch, MINUTE).await.unwrap(), "it is asked at once, before the loss is noticed");
    assert!(!one.spend("b", &epoch, MINUTE).await.unwrap());
    let epoch = one.epoch_mark();
    assert!(one.spend("c", &epoch, MINUTE).await.unwrap() && !other.spend("c", &epoch, MINUTE).await.unwrap());
}

#[tokio::test]
async fn ended_sessions_of_another_form_do_not_hide_the_others() {
    let Some(server) = RedisServer::start(&[]) else { return };
    let store = server.store();
    store.end_session("a", "a.mark", MINUTE).await.unwrap();
    for score in ["inf", "1e300", "9007199254740993"] {
        server.ask(&["-n", "3", "ZADD", "toolgate:{sessions}:ended", score, &format!("of {score}")]);
    }
    let ended = store.ended_sessions().await.unwrap();
    assert!(ended.iter().any(|(mark, rest)| mark == "a.mark" && *rest <= MINUTE), "{ended:?}");
}

#[tokio::test]
async fn listening_begins_again_after_its_connection_was_killed_or_its_receiver_was_dropped() {
    let Some(server) = RedisServer::start(&[]) else { return };
    let (one, other) = (server.store(), server.store());
    let mut messages = one.messages();
    assert_eq!(messages.recv().await, Some(StoreMessage::Joined));
    assert_eq!(one.is_listening(), Some(true));
    server.ask(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    assert_eq!(messages.recv().await, Some(StoreMessage::Joined), "some may have been missed");
    assert!(other.send(Some(one.replica()), "x").await.unwrap());
    assert_eq!(messages.recv().await, Some(StoreMessage::Text("x".to_owned())));
    drop(messages);
    until("it is told", async || (one.is_listening() == Some(false)).then_some(())).await;
    let again = async || {
        let mut messages = one.messages();
        messages.recv().await
    };
    assert_eq!(until("another one listens", again).await, StoreMessage::Joined);
    assert_eq!(Store::memory().is_listening(), None);
}
