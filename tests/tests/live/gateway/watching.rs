//! Tests subscriptions to resources, whatever happens to their servers.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use toolgate::gateway::client::{ClientFactory, ClientMessage, Principal};
use toolgate::gateway::{Gateway, GatewayOptions};
use toolgate::logic::types::lifecycle::State;

use super::changing::modern;
use super::fixtures;
use super::sharing::{Guest, Heard, ended, gateway};
use crate::fixtures::until;

const UPDATED: &str = "notifications/resources/updated";
const QUICK: &str = "lifecycle: {idle_timeout: 100ms, restart_delays: [0s, 10ms]}";

/// How often a line is in a file.
fn count(file: &Path, line: &str) -> usize {
    std::fs::read_to_string(file).unwrap_or_default().lines().filter(|known| *known == line).count()
}

fn of(messages: &[Value], uri: &str) -> Vec<Value> {
    messages.iter().filter(|message| message["params"]["uri"] == uri).cloned().collect()
}

/// A client of 2026-07-28 that listens to this resource, for as long as the task runs.
fn listen(gateway: &Gateway, uri: &str) -> (Arc<Heard>, tokio::task::JoinHandle<()>) {
    let heard = Arc::new(Heard::default());
    let client =
        gateway.stateless_client(&Principal { name: "cat".to_owned(), admin: false }, None).expect("it may come in");
    let params = json!({"notifications": {"resourceSubscriptions": [uri]}});
    let message = ClientMessage { sink: Arc::clone(&heard) as _, ..modern("subscriptions/listen", params) };
    (heard, tokio::spawn(async move { drop(client.handle(message).await) }))
}

#[tokio::test]
async fn a_watched_server_stays_up_and_is_told_again_when_it_was_lost() {
    let folder = tempfile::tempdir().unwrap();
    let diary = folder.path().join("diary");
    let gateway = gateway(fixtures(&[("w", &format!("watched {}", diary.display())), ("p", "plain")], QUICK));
    let (ann, bob) = (Guest::open(&gateway, "ann", json!({})).await, Guest::open(&gateway, "bob", json!({})).await);
    assert_eq!(ann.ask("resources/subscribe", json!({"uri": "dir://a"})).await["result"], json!({}));
    let (heard, listening) = listen(&gateway, "dir://a");
    until("its subscription", || heard.0.lock().unwrap().len() == 1).await;
    let state = |server: &str| gateway.registry().status(server).unwrap().state;
    ended(bob.call("1", "p__echo", json!({"text": "hi"}))).await;
    until("the idle one is stopped", || state("p") == State::Dormant).await;
    assert_eq!((state("w"), count(&diary, "resources/unsubscribe dir://a")), (State::Ready, 0));

    let before = count(&diary, "resources/subscribe dir://a");
    ended(bob.call("2", "w__die", json!({}))).await;
    until("it is told again", || count(&diary, "resources/subscribe dir://a") > before).await;
    let of_cat = || -> Vec<Value> {
        heard.0.lock().unwrap().iter().filter(|message| message["method"] == UPDATED).cloned().collect()
    };
    // Something may have been missed meanwhile.
    until("ann hears of it", || of(&ann.of(UPDATED), "dir://a").len() == 1).await;
    until("cat hears of it", || of(&of_cat(), "dir://a").len() == 1).await;

    // What is below it is a part of it, and what only begins alike is not.
    for uri in ["dir://ab", "dir://a/file.txt"] {
        ended(bob.call("3", "w__touch", json!({"uri": uri}))).await;
    }
    until("ann hears of the part", || of(&ann.of(UPDATED), "dir://a/file.txt").len() == 1).await;
    until("cat hears of the part", || of(&of_cat(), "dir://a/file.txt").len() == 1).await;
    assert_eq!(of(&ann.of(UPDATED), "dir://a/file.txt")[0]["params"]["_meta"], json!({"why": "touched"}));
    let meta = &of(&of_cat(), "dir://a/file.txt")[0]["params"]["_meta"];
    assert_eq!(meta["io.modelcontextprotocol/subscriptionId"], "subscriptions/listen");
    assert_eq!(meta["why"], "touched");
    assert_eq!((of(&ann.of(UPDATED), "dir://ab").len(), bob.of(UPDATED).len()), (0, 0));

    listening.abort();
    ann.ask("resources/unsubscribe", json!({"uri": "dir://a"})).await;
    until("nobody watches it", || count(&diary, "resources/unsubscribe dir://a") == 1).await;
    until("nobody wants it", || state("w") == State::Dormant).await;
    gateway.registry().close().await;
}

#[tokio::test]
async fn what_is_watched_is_found_again_when_its_server_has_another_name() {
    let folder = tempfile::tempdir().unwrap();
    let diary = folder.path().join("diary");
    let words = format!("watched {}", diary.display());
    let config = |name: &str| fixtures(&[(name, &words)], "");
    let gateway = gateway(config("w"));
    let ann = Guest::open(&gateway, "ann", json!({})).await;
    ann.ask("resources/subscribe", json!({"uri": "dir://a"})).await;
    let (heard, _listening) = listen(&gateway, "dir://a");
    until("its subscription", || heard.0.lock().unwrap().len() == 1).await;
    let of_cat = || heard.0.lock().unwrap().iter().filter(|message| message["method"] == UPDATED).count();
    let reload = |config| gateway.reload(config, &BTreeSet::new(), GatewayOptions::default()).unwrap();
    for (round, name) in [(1, "v"), (2, "w")] {
        reload(config(name));
        until("ann hears of it", || ann.of(UPDATED).len() == round).await;
        until("cat hears of it", || of_cat() == round).await;
    }
    // A while without it is no end either.
    reload(fixtures(&[("p", "plain")], ""));
    reload(config("w"));
    until("ann hears of it", || ann.of(UPDATED).len() == 3).await;
    ended(ann.call("1", "w__touch", json!({"uri": "dir://a"}))).await;
    until("ann hears of new content", || of(&ann.of(UPDATED), "dir://a").len() == 4).await;
    gateway.registry().close().await;
}
