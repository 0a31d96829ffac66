//! Tests subscriptions to resources, with servers of both eras.

use std::sync::Arc;

use serde_json::{Value, json};
use toolgate::failure::Failure;
use toolgate::session::ServerEvent;

use super::answers::{discovered, initialized, legacy, modern, reply};
use super::open;
use super::server::{Feed, Server};

#[tokio::test]
async fn a_modern_server_tells_of_what_is_watched_on_a_stream_of_its_own() {
    let feed = Feed::default();
    let fed = feed.clone();
    let server = Server::start(move |seen| match seen.method() {
        "server/discover" => {
            let mut result = discovered();
            result["capabilities"] = json!({"resources": {"subscribe": true}});
            reply(seen, &result)
        }
        "subscriptions/listen" => fed.answer(),
        _ => modern(seen),
    })
    .await;
    let session = Arc::new(open(&server.url()).await);
    let mut event = session.events();
    let listening = tokio::spawn({
        let session = Arc::clone(&session);
        async move { session.listen().await }
    });
    let wanted = |uris: Value| {
        move |seen: &super::server::Seen| uris == seen.body["params"]["notifications"]["resourceSubscriptions"]
    };
    let one = session.watch("test://one").await.unwrap();
    server.wait(wanted(json!(["test://one"]))).await;
    let again = session.watch("test://one").await.unwrap();
    let two = session.watch("test://two").await.unwrap();
    server.wait(wanted(json!(["test://one", "test://two"]))).await;
    let uri = json!({"uri": "test://two"});
    feed.send(&json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": uri}));
    assert!(matches!(event.recv().await, Ok(ServerEvent::ResourceUpdated { uri, .. }) if uri == "test://two"));
    // Somebody watches it still.
    drop(one);
    drop(two);
    server.wait(|seen| seen.gone_from("subscriptions/listen")).await;
    drop(again);
    assert!(
        server
            .all("subscriptions/listen")
            .iter()
            .all(|seen| seen.body["params"]["notifications"]["resourceSubscriptions"] != json!([]))
    );
    listening.abort();
}

#[tokio::test]
async fn a_legacy_server_is_told_by_requests_when_the_first_comes_and_the_last_has_gone() {
    let server = Server::start(|seen| match seen.method() {
        "initialize" => {
            let mut result = initialized();
            result["capabilities"] = json!({"resources": {"subscribe": true}});
            reply(seen, &result).with("Mcp-Session-Id: session-1")
        }
        "resources/subscribe" | "resources/unsubscribe" => reply(seen, &json!({})),
        _ => legacy(seen),
    })
    .await;
    let session = Arc::new(open(&server.url()).await);
    let one = session.watch("test://one").await.unwrap();
    let again = session.watch("test://one").await.unwrap();
    drop(one);
    assert_eq!(server.count("resources/unsubscribe"), 0);
    drop(again);
    let seen = server.wait(|seen| seen.is("resources/unsubscribe")).await;
    assert_eq!(seen.body["params"]["uri"], "test://one");
}

#[tokio::test]
async fn what_a_server_does_not_tell_of_cannot_be_watched() {
    for server in [Server::start(modern).await, Server::start(legacy).await] {
        let session = Arc::new(open(&server.url()).await);
        let failed = session.watch("test://one").await.err().expect("nobody can be told");
        assert!(matches!(failed.failure, Failure::Rpc(error) if error.code == -32601));
    }
}
