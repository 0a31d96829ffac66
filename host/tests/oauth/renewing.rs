//! Tests expired tokens: they are replaced without a person if possible, and once for all waiting calls.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use toolgate::logic::types::execution::Code;
use toolgate::logic::types::lifecycle::State;

use super::bench::{Bench, With};
use super::world::Rules;

#[tokio::test]
async fn a_token_that_was_revoked_is_replaced_without_a_person() {
    let bench = Bench::new(Rules::default()).await;
    bench.works("read").await;
    bench.world.revoke();
    bench.works("read").await;
    assert_eq!((bench.asked(), bench.world.tokens_asked("refresh_token").len()), (1, 1));
    let refreshed = &bench.world.tokens_asked("refresh_token")[0];
    assert_eq!(refreshed.parameter("resource"), bench.world.url());
}

#[tokio::test]
async fn a_token_that_has_ended_is_replaced_before_it_is_sent() {
    let bench = Bench::new(Rules { life: Some(0), ..Rules::default() }).await;
    bench.works("read").await;
    let refused = bench.world.state().seen.iter().filter(|seen| seen.place == "server /mcp").count();
    bench.works("read").await;
    assert_eq!(bench.asked(), 1);
    let sent: Vec<_> = bench.world.seen("server /mcp").split_off(refused);
    assert!(sent.iter().filter(|seen| seen.method == "POST").all(|seen| seen.authorization.is_some()), "{sent:?}");
    assert!(bench.world.tokens_asked("refresh_token").len() > 1);
}

#[tokio::test]
async fn many_who_meet_an_old_token_cause_one_refresh() {
    let bench = Bench::new(Rules::default()).await;
    bench.works("read").await;
    bench.world.revoke();
    join_all((0..16).map(|_| bench.works("read"))).await;
    assert_eq!(bench.world.tokens_asked("refresh_token").len(), 1);
}

#[tokio::test]
async fn a_refused_refresh_asks_a_person_or_says_that_one_is_needed() {
    let bench = Bench::new(Rules::default()).await;
    bench.works("read").await;
    bench.world.rule(|rules| rules.refreshes = false);
    bench.world.revoke();
    bench.works("read").await;
    assert_eq!(bench.asked(), 2);
    // Who we are there is known by now.
    assert_eq!(bench.world.seen("issuer /register").len(), 1);

    let entry = bench.entry();
    let alone = bench.again(entry, With::Nobody);
    alone.works("read").await;
    alone.world.revoke();
    let text = alone.needs_auth("read").await;
    assert!(text.contains("run `toolgate auth login notes`"), "{text}");
    assert_eq!(alone.state(), State::NeedsAuth);
    alone.needs_auth("read").await;
    assert_eq!(
        alone.world.tokens_asked("refresh_token").len(),
        2,
        "a refresh token that was refused is not sent again"
    );
}

#[tokio::test]
async fn an_authorization_server_that_is_down_or_slow_costs_no_more_than_its_limit_and_no_token() {
    let bench = Bench::new(Rules::default()).await;
    bench.works("read").await;
    let entry = json!({"url": bench.world.url(), "timeouts": {"initialize": "3s"}});
    let bench = bench.again(entry, With::Nobody);
    bench.works("read").await;
    for (change, says) in [
        ((|rules| rules.hangs = true) as fn(&mut Rules), "no answer within 3s"),
        (|rules| (rules.hangs, rules.broken) = (false, true), "503"),
    ] {
        bench.world.rule(change);
        bench.world.revoke();
        let called = bench.call("read").await;
        assert!(called.latency < Duration::from_secs(20), "{:?}", called.latency);
        assert!(matches!(called.result.code, Code::NeedsAuth | Code::ServerUnavailable), "{:?}", called.result.code);
        assert!(called.result.text.contains(says), "{}", called.result.text);
    }
    bench.world.rule(|rules| rules.broken = false);
    bench.works("read").await;
    assert_eq!(bench.asked(), 0);
}
