use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::web::fixture::*;

/// A server whose stream the test writes by hand.
struct Bench {
    listener: TcpListener,
    stream: TcpStream,
    transport: Arc<dyn Transport>,
    inbox: TestInbox,
}

async fn bench(first: &str) -> Result<Bench, RequestError> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut place = site(&format!("http://{}/sse", listener.local_addr().unwrap()));
    place.max_message_bytes = 4000;
    place.headers = vec![("X-Key".to_owned(), "k".to_owned())];
    let (receiver, inbox) = TestInbox::new();
    let serve = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let (head, _) = read_request(&mut stream).await.unwrap();
        assert!(head.starts_with("GET /sse HTTP/1.1") && head.contains("accept: text/event-stream"), "{head}");
        stream.write_all(first.as_bytes()).await.unwrap();
        stream
    };
    let (transport, stream) = tokio::join!(soon(open(&place, receiver)), serve);
    Ok(Bench { transport: transport?, listener, stream, inbox })
}

const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";

#[tokio::test]
async fn messages_go_to_the_endpoint_and_come_by_the_stream() {
    let mut bench =
        bench(&format!("{HEAD}: hi\n\nevent: endpoint\ndata: /messages?session=1\n\ndata: {{\"n\":0}}\n\n"))
            .await
            .unwrap();
    assert_eq!(bench.inbox.message().await, ("{\"n\":0}".to_owned(), None));
    let serve = async {
        let (mut post, _) = bench.listener.accept().await.unwrap();
        let (head, body) = read_request(&mut post).await.unwrap();
        assert!(head.starts_with("POST /messages?session=1 HTTP/1.1") && head.contains("x-key: k"), "{head}");
        assert_eq!(body, "{}");
        post.write_all(b"HTTP/1.1 202 Accepted\r\nContent-Length: 8\r\n\r\nAccepted").await.unwrap();
        let (_, body) = read_request(&mut post).await.unwrap();
        assert_eq!(body, "[]");
        post.write_all(b"HTTP/1.1 404 Gone\r\nContent-Length: 2\r\n\r\nno").await.unwrap();
    };
    let send = async {
        let first = bench.transport.send(request(1, "{}")).await;
        (first, bench.transport.send(request(2, "[]")).await)
    };
    let ((first, second), ()) = tokio::join!(soon(send), serve);
    assert_eq!(first, Ok(Delivery::Written));
    assert!(matches!(second, Err(RequestError { failure: Failure::Http(error), sent: true }) if error.status == 404));
    bench.stream.write_all(b"event: message\ndata: {\ndata: }\n\nevent: other\ndata: x\n\n").await.unwrap();
    assert_eq!(bench.inbox.message().await, ("{\n}".to_owned(), None));
    drop(bench.stream);
    assert_eq!(bench.inbox.closed().await, RequestError::sent(Failure::Closed));
    assert_eq!(bench.transport.send(request(3, "{}")).await, Err(RequestError::unsent(Failure::Closed)));
    bench.transport.close().await;
    assert!(bench.inbox.is_empty(), "the end is told once");
}

#[tokio::test]
async fn an_error_for_this_very_request_is_its_answer_whatever_the_status() {
    const OURS: &str = r#"{"jsonrpc":"2.0","id":3,"error":{"code":-32602,"message":"limit"}}"#;
    const NOBODY: &str = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no session"}}"#;
    let rows = [("400", OURS, true), ("404", OURS, true), ("500", OURS, true), ("401", OURS, false)];
    for (status, body, answers) in rows.into_iter().chain([("400", NOBODY, false), ("404", "gone", false)]) {
        let mut bench = bench(&format!("{HEAD}event: endpoint\ndata: m\n\n")).await.unwrap();
        let answer = format!("HTTP/1.1 {status} No\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        let serve = async {
            let (mut post, _) = bench.listener.accept().await.unwrap();
            read_request(&mut post).await.unwrap();
            post.write_all(answer.as_bytes()).await.unwrap();
        };
        let (sent, ()) = tokio::join!(soon(bench.transport.send(request(3, "{}"))), serve);
        if answers {
            assert_eq!(sent, Ok(Delivery::Exchanged), "{answer}");
            assert_eq!(bench.inbox.message().await, (OURS.to_owned(), Some(3)), "{answer}");
        } else {
            let refused =
                matches!(&sent, Err(RequestError { failure: Failure::Http(error), sent: true }) if error.session);
            assert!(refused && bench.inbox.is_empty(), "{answer}: {sent:?}");
        }
    }
}

#[tokio::test]
async fn an_endpoint_of_another_origin_is_refused() {
    for (endpoint, why) in [
        ("http://127.0.0.1:1/messages?s=secret", "wants messages sent to another origin, http://127.0.0.1:1/messages"),
        ("//other.example/messages", "wants messages sent to another origin, http://other.example/messages"),
        ("http://[", "the endpoint is not an address"),
    ] {
        let failed = bench(&format!("{HEAD}event: endpoint\ndata: {endpoint}\n\n")).await.err().unwrap();
        assert!(matches!(&failed.failure, Failure::Connect(words) if words.contains(why)), "{failed}");
        assert!(!failed.sent && !failed.to_string().contains("secret"));
    }
}

#[tokio::test]
async fn what_is_no_stream_of_events_is_refused() {
    let html = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nhi";
    let failed = bench(html).await.err().unwrap();
    assert_eq!(failed, RequestError::unsent(Failure::Protocol("answered with content type text/html: hi".to_owned())));
    let failed = bench("HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n").await.err().unwrap();
    assert!(matches!(failed.failure, Failure::Http(error) if error.status == 404));
}

#[tokio::test]
async fn closing_ends_the_stream() {
    let mut bench = bench(&format!("{HEAD}event: endpoint\ndata: m\n\n")).await.unwrap();
    bench.transport.close().await;
    assert_eq!(bench.inbox.closed().await, RequestError::sent(Failure::Closed));
    assert_eq!(soon(bench.stream.read(&mut [0; 1])).await.unwrap_or(0), 0);
}

#[tokio::test]
async fn an_event_above_the_limit_ends_the_connection() {
    let mut bench = bench(&format!("{HEAD}event: endpoint\ndata: m\n\n")).await.unwrap();
    bench.stream.write_all(format!("data: {}\n\n", "x".repeat(5000)).as_bytes()).await.unwrap();
    let words = "an event of more than 4000 bytes; raise max_message_bytes".to_owned();
    assert_eq!(bench.inbox.closed().await, RequestError::sent(Failure::Protocol(words)));
}

#[tokio::test]
async fn messages_go_to_the_site_though_its_stream_was_redirected() {
    let stream = |endpoint: &str| format!("{HEAD}event: endpoint\ndata: {endpoint}\n\n");
    let mut other =
        FixtureServer::start(vec![FixtureReply { text: stream("/messages"), then: AfterReply::Next }]).await;
    let moved = reply(&format!("302 Over there\nLocation: {}", other.url()), "");
    let server = FixtureServer::start(vec![moved]).await;
    let (receiver, _inbox) = TestInbox::new();
    let failed = soon(open(&site(&server.url()), receiver)).await.err().unwrap();
    let why = format!("wants messages sent to another origin, http://127.0.0.1:{}/messages", other.port);
    assert!(!failed.sent && failed.to_string().contains(&why), "{failed}");
    assert_eq!(other.request().await.line(), "GET /mcp HTTP/1.1");
    assert!(other.is_quiet());
}
