//! Tests servers that send interim responses (1xx) without end, and some that send a few.

use tokio::net::UnixListener;
use tokio::task::JoinSet;

use super::*;

/// Answers each request with these bytes, over and over, until the connection is closed.
async fn flood(mut stream: impl AsyncRead + AsyncWrite + Unpin, interim: &'static str) {
    let flood = interim.repeat(4096);
    if read_request(&mut stream).await.is_some() {
        while stream.write_all(flood.as_bytes()).await.is_ok() {}
    }
}

/// Starts a server that floods everybody; dropping the set ends it.
async fn flooding_server(interim: &'static str) -> (String, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            connections.spawn(flood(stream, interim));
        }
    });
    (url, tasks)
}

fn is_flooded(failed: &RequestError) -> bool {
    let Failure::Protocol(how) = &failed.failure else { return false };
    failed.sent && how.contains("interim responses (1xx) without end")
}

#[tokio::test]
async fn interim_responses_without_end_are_an_error_and_keep_no_other_request_waiting() {
    for interim in [
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 102 Processing\r\nX-Left: 99%\r\n\r\n",
        "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n",
        "HTTP/1.1 199 \r\n\r\n",
    ] {
        let (url, _tasks) = flooding_server(interim).await;
        let good = FixtureServer::start(vec![json("{}"), json("{}")]).await;
        for method in [Method::POST, Method::GET] {
            let (flooded, other) = (web(&site(&url)).await, web(&site(&good.url())).await);
            let repeatable = method == Method::GET;
            let (failed, answered) =
                tokio::join!(send_as(&flooded, method.clone(), "x", repeatable), send(&other, Method::POST, "x"));
            let failed = failed.err().unwrap();
            assert!(is_flooded(&failed) && failed.to_string().contains(&url), "{interim:?}: {failed}");
            assert_eq!(answered.unwrap().status(), 200);
        }
    }
}

#[tokio::test]
async fn headers_of_interim_responses_are_bounded_together() {
    let interim = format!("HTTP/1.1 103 Early Hints\r\nX-Long: {}\r\n\r\n", "x".repeat(8000)).leak();
    let (url, _tasks) = flooding_server(interim).await;
    let failed = send(&web(&site(&url)).await, Method::POST, "x").await.err().unwrap();
    assert!(is_flooded(&failed), "{failed}");
}

#[tokio::test]
async fn a_local_socket_and_a_websocket_are_bounded_alike() {
    let interim = "HTTP/1.1 100 Continue\r\n\r\n";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    let _task = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        flood(stream, interim).await;
    });
    let mut local = site("http://localhost/mcp");
    local.socket = Some(path);
    let failed = send(&web(&local).await, Method::POST, "x").await.err().unwrap();
    assert!(is_flooded(&failed), "{failed}");
    let (url, _tasks) = flooding_server(interim).await;
    let socket = WebClient::open(&site(&url.replace("http://", "ws://")), HttpVersion::Http1).await.unwrap();
    let failed = send(&socket, Method::GET, "").await.err().unwrap();
    assert!(is_flooded(&failed), "{failed}");
}

#[tokio::test]
async fn a_few_interim_responses_are_skipped() {
    let interim = "HTTP/1.1 102 Processing\r\n\r\n".repeat(direct_client::MAX_INTERIM_RESPONSES);
    let text = format!("{interim}HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    let reply = || FixtureReply { text: text.clone(), then: AfterReply::Next };
    let server = FixtureServer::start(vec![reply(), reply()]).await;
    let web = web(&site(&server.url())).await;
    for _ in 0..2 {
        let response = send(&web, Method::GET, "").await.unwrap();
        assert_eq!(soon(body::text(response, 100)).await.unwrap(), "ok");
    }
}
