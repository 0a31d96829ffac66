//! Tests of the server at a Unix socket, where every client is the local admin.

use tokio::net::{UnixListener, UnixStream};

use super::*;

#[tokio::test]
async fn who_may_open_the_socket_is_the_local_admin_and_needs_no_token() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("door");
    let server = HttpServer::at_socket(UnixListener::bind(&path).unwrap(), GatewayLimits::default());
    let (limiter, factory) = (server.load(), Arc::new(TestClientFactory::default()));
    let (stop, stopped) = oneshot::channel::<()>();
    let served = tokio::spawn(server.serve(factory, Arc::new(TestPages), async {
        let _ = stopped.await;
    }));
    let mut wire = Wire::new(UnixStream::connect(&path).await.unwrap());
    assert_eq!(wire.ask(Ask::modern("echo")).await.status, 200);
    let page = wire.ask(Ask::new("GET /page").with("Authorization", "Bearer whatever")).await;
    assert!(page.status == 200 && page.body.ends_with(r#"Some("local")"#), "{page:?}");
    let session = open(&mut wire).await;
    assert!(!session.is_empty());
    // Requests as a tricked browser would send them: with a foreign host or origin.
    assert_eq!(wire.ask(Ask::modern("echo").with("Host", "evil.example")).await.status, 403);
    assert_eq!(wire.ask(Ask::modern("echo").with("Origin", "https://evil.example")).await.status, 403);
    let stats = limiter.stats();
    assert_eq!(
        (stats.connections, stats.sessions, stats.accepted, stats.refused.of(RefusalReason::Foreign)),
        (1, 1, 2, 2)
    );
    stop.send(()).unwrap();
    timeout(LONG, served).await.expect("the door ends").unwrap();
    assert_eq!(limiter.stats().connections, 0);
}
