//! Tests how the era of a server is detected.

use std::time::Duration;

use toolgate::failure::Failure;
use toolgate::session::{Era, Protocol, Session, SessionOptions};

use super::fixtures::{call, fixture, open, text};

#[tokio::test]
async fn a_server_is_asked_in_the_modern_way_first() {
    let session = open("modern").await;
    assert_eq!((session.peer().era, session.peer().version.as_str()), (Era::Modern, "2026-07-28"));
    assert_eq!(text(&call(&session, "echo", r#"{"text":"x"}"#).await.unwrap()), "x");
    let session = open("plain").await;
    assert_eq!(session.peer().era, Era::Legacy);
    let session = open("batch").await;
    assert_eq!(session.peer().version, "2025-03-26");
}

#[tokio::test]
async fn a_setting_spares_the_question() {
    let options = |protocol| SessionOptions { protocol, limit: Duration::from_secs(20), ..SessionOptions::default() };
    let session = Session::open(&fixture("silent-discover"), &options(Protocol::Legacy)).await.unwrap();
    assert_eq!(session.peer().era, Era::Legacy);
    let failed = Session::open(&fixture("plain"), &options(Protocol::Modern)).await.err().unwrap();
    assert!(matches!(&failed.failure, Failure::Rpc(error) if error.code == -32601), "{failed:?}");
    let failed = Session::open(&fixture("modern"), &options(Protocol::Legacy)).await.err().unwrap();
    assert!(matches!(failed.failure, Failure::Rpc(_)), "{failed:?}");
}

#[tokio::test]
async fn a_server_that_passes_over_the_question_is_found_out_in_time() {
    let session = open("silent-discover").await;
    assert_eq!(session.peer().era, Era::Legacy);
}

#[tokio::test]
async fn a_server_that_is_slow_to_start_is_waited_for() {
    let session = open("slow-start 12").await;
    assert_eq!(text(&call(&session, "echo", r#"{"text":"awake"}"#).await.unwrap()), "awake");
}

#[tokio::test]
async fn a_server_that_dies_of_the_question_is_started_again() {
    // A shell that answers `initialize` and exits at anything else that comes first.
    let script = r#"read -r line; case "$line" in *initialize*) ;; *) exit 9;; esac
        echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{}}}'; cat > /dev/null"#;
    let endpoint = super::fixtures::program("sh", vec!["-c".to_owned(), script.to_owned()]);
    let session = Session::open(&endpoint, &SessionOptions::default()).await.unwrap();
    assert_eq!((session.peer().era, session.peer().version.as_str()), (Era::Legacy, "2025-06-18"));
}
