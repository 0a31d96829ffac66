//! Tests client credentials with each way to authenticate at the authorization server.

use serde_json::{Value, json};

use super::bench::{Bench, With};
use super::world::Rules;

fn rules() -> Rules {
    Rules { clients: vec![("me", "a-client-secret")], registers: false, ..Rules::default() }
}

fn auth(more: Value) -> Value {
    let mut auth = json!({"type": "oauth", "grant": "client_credentials", "client_id": "me"});
    auth.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    auth
}

#[tokio::test]
async fn the_secret_goes_in_a_header_or_in_the_form() {
    let check = async |token_auth: Option<&str>, methods: Vec<&'static str>, by_header: bool| {
        let mut more = json!({"client_secret": "a-client-secret", "scopes": ["read"]});
        if let Some(how) = token_auth {
            more["token_auth"] = json!(how);
        }
        let bench = Bench::with(Rules { methods, ..rules() }, auth(more), With::Nobody).await;
        bench.works("read").await;
        bench.works("read").await;
        let bought = bench.world.tokens_asked("client_credentials");
        assert_eq!(bought.len(), 1);
        assert_eq!(bought[0].login().is_some(), by_header, "{bought:?}");
        assert_eq!(
            (bought[0].parameter("scope"), bought[0].parameter("resource")),
            ("read", bench.world.url().as_str())
        );
    };
    let both = vec!["client_secret_basic", "client_secret_post"];
    check(Some("basic"), both.clone(), true).await;
    check(Some("post"), both, false).await;
    check(None, vec!["client_secret_basic"], true).await;
    check(None, vec!["client_secret_post"], false).await;
}

#[tokio::test]
async fn a_key_signs_in_place_of_a_secret() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key.pem");
    std::fs::write(&file, rcgen::KeyPair::generate().unwrap().serialize_pem()).unwrap();
    let more = json!({"token_auth": "private_key_jwt", "private_key": file});
    let bench = Bench::with(rules(), auth(more), With::Nobody).await;
    bench.works("read").await;
    let bought = &bench.world.tokens_asked("client_credentials")[0];
    assert!(bought.authorization.is_none() && !bought.parameters.contains_key("client_secret"), "{bought:?}");

    std::fs::write(&file, "no key").unwrap();
    bench.world.revoke();
    let text = bench.needs_auth("read").await;
    assert!(text.contains("key.pem holds no private key in PEM form"), "{text}");
}

#[tokio::test]
async fn a_token_is_replaced_and_gets_more_rights_by_itself() {
    let bench = Bench::with(rules(), auth(json!({"client_secret": "a-client-secret"})), With::Nobody).await;
    bench.works("read").await;
    bench.works("write").await;
    bench.world.revoke();
    bench.works("write").await;
    let asked: Vec<_> =
        bench.world.tokens_asked("client_credentials").iter().map(|seen| seen.parameter("scope").to_owned()).collect();
    assert_eq!(asked, ["", "write", "write"]);
}

#[tokio::test]
async fn a_wrong_secret_is_said_and_not_shown() {
    let more = json!({"client_secret": "the-wrong-secret", "token_auth": "post"});
    let bench = Bench::with(rules(), auth(more), With::Nobody).await;
    let text = bench.needs_auth("read").await;
    assert!(text.contains("invalid_client") && text.contains("check the auth of server \"notes\""), "{text}");
    assert!(!text.contains("the-wrong-secret"), "{text}");
}
