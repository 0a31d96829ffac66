//! Tests that tokens are readable only by the user, shared between processes, and never shown or sent elsewhere.

use std::sync::Arc;

use serde_json::json;
use toolgate::logic::types::lifecycle::State;

use super::bench::{self, Bench, Person, With};
use super::world::Rules;

#[tokio::test]
async fn a_token_outlives_its_process_in_a_file_for_the_user_alone() {
    let bench = Bench::new(Rules::default()).await;
    bench.works("read").await;
    let folder = bench.folder.path().join("auth");
    let files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.iter().filter(|file| file.extension().is_some_and(|end| end == "json")).count(), 1, "{files:?}");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&folder), 0o700);
        assert!(files.iter().all(|file| mode(file) == 0o600), "{files:?}");
    }
    let entry = bench.entry();
    let again = bench.again(entry, With::Nobody);
    again.works("read").await;
    assert_eq!(again.world.seen("issuer /authorize").len(), 1);

    // Another client is another account.
    let other = json!({"url": again.world.url(), "auth": {"type": "oauth", "client_id": "other"}});
    again.again(other, With::Nobody).needs_auth("read").await;
}

#[tokio::test]
async fn where_nothing_can_be_written_the_token_lasts_as_long_as_the_process() {
    let bench = Bench::new(Rules::default()).await;
    let entry = bench.entry();
    std::fs::write(bench.folder.path().join("auth"), "no folder").unwrap();
    bench.works("read").await;
    bench.world.revoke();
    bench.works("read").await;
    assert_eq!(bench.asked(), 1);
    bench.again(entry, With::Nobody).needs_auth("read").await;
}

#[tokio::test]
async fn a_login_by_another_process_is_noticed_at_the_next_call_and_by_itself() {
    let bench = Bench::with(Rules::default(), json!({}), With::Nobody).await;
    bench.needs_auth("read").await;
    let mut states = bench.gate.registry().states_changed();
    let tokens = bench.folder.path().join("auth");
    let elsewhere = bench::gate(&bench.entry(), &tokens, Some(Arc::new(Person::default())), &bench.secrets);
    assert_eq!(bench::call(&elsewhere, "read").await.result.text, "read is done");
    bench.works("read").await;

    let account = elsewhere.registry().link("notes").unwrap().account().await.unwrap().unwrap();
    account.logout().unwrap();
    bench.world.revoke();
    bench.needs_auth("read").await;
    assert_eq!(bench.state(), State::NeedsAuth);
    account.login(&Person::default(), &[]).await.unwrap();
    let ready = async {
        while bench.state() != State::Ready {
            states.changed().await.unwrap();
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), ready).await.expect("the login is noticed");
}

#[tokio::test]
async fn no_token_and_no_message_follows_a_redirect_to_another_origin() {
    let bench = Bench::new(Rules::default()).await;
    let moved = format!("{}/moved", bench.world.sites().server);
    let mut entry = json!({"url": moved, "auth": {"type": "oauth"}, "protocol": "legacy", "acquire_timeout": "2s"});
    entry["timeouts"] = json!({"initialize": "2s"});
    let bench = bench.again(entry, With::Person);
    assert!(bench.call("read").await.result.is_error);
    let told = bench.gate.registry().statuses()[0].last_error.clone().unwrap().text;
    assert!(told.contains("to which no message is sent"), "{told}");
    assert!(bench.world.seen("other /mcp").is_empty());
    assert!(bench.world.seen("server /moved").iter().any(|seen| seen.authorization.is_some()));
}

#[tokio::test]
async fn what_a_server_repeats_of_a_token_is_not_shown() {
    let bench =
        Bench::with(Rules { never_enough: true, repeats: true, ..Rules::default() }, json!({}), With::Person).await;
    bench.works("read").await;
    let called = bench.call("write").await;
    let told = format!("{:?} {:?} {:?}", called.result, called.failure, bench.gate.registry().statuses());
    let secrets = bench.world.secrets();
    assert!(!secrets.is_empty());
    for secret in secrets {
        assert!(!told.contains(&secret), "{secret} in {told}");
        assert_eq!(bench.secrets.lock().unwrap().redact(&secret), "[REDACTED]");
    }
}
