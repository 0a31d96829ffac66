//! Tests consent by a person: the client registration, and the checks before anything is trusted.

use serde_json::json;
use toolgate::logic::types::lifecycle::State;

use super::bench::{Bench, With};
use super::world::Rules;

#[tokio::test]
async fn a_server_that_wants_an_authorization_gets_one_by_registering_and_asking_a_person() {
    let bench = Bench::new(Rules::default()).await;
    bench.works("read").await;
    bench.works("read").await;
    assert_eq!((bench.asked(), bench.state()), (1, State::Ready));
    let world = &bench.world;
    assert_eq!(world.seen("issuer /register").len(), 1);
    let asked = &world.seen("issuer /authorize")[0];
    let bought = &world.tokens_asked("authorization_code")[0];
    assert_eq!(
        (asked.parameter("resource"), bought.parameter("resource")),
        (world.url().as_str(), world.url().as_str())
    );
    assert!(!asked.parameters.contains_key("scope"), "{asked:?}");
    // The redirect, the code and its proof were checked by the authorization server.
    assert!(!bought.parameter("code_verifier").is_empty());
}

#[tokio::test]
async fn a_published_description_takes_the_place_of_a_registration_where_it_is_read() {
    let url = "https://example.com/toolgate.json";
    let auth = json!({"type": "oauth", "client_metadata_url": url});
    let rules = Rules { reads_descriptions: true, ..Rules::default() };
    let bench = Bench::with(rules, auth.clone(), With::Person).await;
    bench.works("read").await;
    assert_eq!(bench.world.seen("issuer /authorize")[0].parameter("client_id"), url);
    assert!(bench.world.seen("issuer /register").is_empty());

    let elsewhere = Bench::with(Rules::default(), auth, With::Person).await;
    elsewhere.works("read").await;
    assert_eq!(elsewhere.world.seen("issuer /register").len(), 1);
}

#[tokio::test]
async fn a_client_that_is_registered_proves_it_as_the_authorization_server_wants() {
    let auth = json!({"type": "oauth", "client_id": "me", "client_secret": "a-client-secret", "scopes": ["read"]});
    for (methods, by_header) in [(vec!["client_secret_basic"], true), (vec!["client_secret_post"], false)] {
        let rules = Rules { registers: false, clients: vec![("me", "a-client-secret")], methods, ..Rules::default() };
        let bench = Bench::with(rules, auth.clone(), With::Person).await;
        bench.works("read").await;
        let asked = &bench.world.seen("issuer /authorize")[0];
        assert_eq!((asked.parameter("client_id"), asked.parameter("scope")), ("me", "read"));
        let bought = &bench.world.tokens_asked("authorization_code")[0];
        assert_eq!(bought.login().is_some(), by_header, "{bought:?}");
        bench.world.revoke();
        bench.works("read").await;
        let refreshed = &bench.world.tokens_asked("refresh_token")[0];
        assert_eq!(refreshed.login().is_some(), by_header, "{refreshed:?}");
    }
}

#[tokio::test]
async fn where_nobody_is_registered_that_is_said() {
    let bench = Bench::new(Rules { registers: false, ..Rules::default() }).await;
    let text = bench.needs_auth("read").await;
    assert!(text.contains("set `client_id` in the server's `auth`"), "{text}");
    assert_eq!(bench.asked(), 0);
}

#[tokio::test]
async fn another_issuer_than_the_expected_one_gets_no_code_and_gives_no_token() {
    let wrong = Some("https://evil.example".to_owned());
    let described = Bench::new(Rules { issuer: wrong.clone(), ..Rules::default() }).await;
    let text = described.needs_auth("read").await;
    assert!(text.contains("issuer mismatch"), "{text}");
    assert_eq!(described.asked(), 0);

    let came_back = Bench::new(Rules { callback_issuer: wrong, ..Rules::default() }).await;
    let text = came_back.needs_auth("read").await;
    assert!(text.contains("issuer mismatch"), "{text}");
    assert_eq!(came_back.asked(), 1);
    assert!(came_back.world.seen("issuer /token").is_empty());

    let auth = json!({"type": "oauth", "issuer": "https://login.example.com"});
    let configured = Bench::with(Rules::default(), auth, With::Person).await;
    let text = configured.needs_auth("read").await;
    assert!(text.contains("but the configuration names https://login.example.com"), "{text}");
    assert_eq!(configured.asked(), 0);
}

#[tokio::test]
async fn an_answer_to_another_question_and_a_refusal_bring_no_token() {
    let bench = Bench::new(Rules::default()).await;
    *bench.person.as_ref().unwrap().twist.lock().unwrap() = Some(|back| {
        let kept: Vec<_> = back.query_pairs().filter(|(name, _)| name != "state").collect();
        let kept: Vec<(String, String)> = kept.into_iter().map(|(a, b)| (a.into(), b.into())).collect();
        back.query_pairs_mut().clear().extend_pairs(kept).append_pair("state", "another");
    });
    let text = bench.needs_auth("read").await;
    assert!(text.contains("its state differs"), "{text}");
    assert!(bench.world.seen("issuer /token").is_empty());

    let refused = Bench::new(Rules { refuses: true, ..Rules::default() }).await;
    let text = refused.needs_auth("read").await;
    assert!(text.contains("the authorization was not granted (access_denied: not today)"), "{text}");
    assert_eq!(refused.state(), State::NeedsAuth);
}

#[tokio::test]
async fn without_a_person_it_says_what_to_type() {
    let bench = Bench::with(Rules::default(), json!({}), With::Nobody).await;
    let text = bench.needs_auth("read").await;
    assert!(text.contains("run `toolgate auth login notes`"), "{text}");
    assert_eq!(bench.state(), State::NeedsAuth);
    assert!(bench.world.state().seen.iter().all(|seen| seen.place.starts_with("server")), "nobody was asked");
}
