use std::time::{Duration, Instant};

use http::header::{self, HeaderName, HeaderValue};
use tokio::io::AsyncReadExt;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use super::*;
use crate::failure::HttpError;
use crate::transport::RequestId;
use crate::web::fixture::*;

const PING: &str = r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#;
const PONG: &str = r#"{"jsonrpc":"2.0","id":7,"result":{}}"#;
const NOTE: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

struct Bench {
    server: FixtureServer,
    transport: Arc<dyn Transport>,
    inbox: TestInbox,
}

async fn bench(replies: Vec<FixtureReply>) -> Bench {
    bench_with(replies, |_| ()).await
}

async fn bench_with(replies: Vec<FixtureReply>, change: impl Fn(&mut RemoteSite)) -> Bench {
    let server = FixtureServer::start(replies).await;
    let mut site = site(&server.url());
    change(&mut site);
    let (receiver, inbox) = TestInbox::new();
    Bench { transport: open(&site, receiver).await.unwrap(), server, inbox }
}

impl Bench {
    async fn ping(&self) -> Result<Delivery, RequestError> {
        soon(self.transport.send(request(7, PING))).await
    }

    async fn http_error(&self) -> HttpError {
        match self.ping().await {
            Err(RequestError { failure: Failure::Http(error), sent: true }) => error,
            other => panic!("no HTTP error: {other:?}"),
        }
    }

    async fn protocol_error(&self) -> String {
        match self.ping().await {
            Err(RequestError { failure: Failure::Protocol(how), sent: true }) => how,
            other => panic!("no protocol error: {other:?}"),
        }
    }
}

fn pong() -> (String, Option<RequestId>) {
    (PONG.to_owned(), Some(7))
}

#[tokio::test]
async fn a_request_is_posted_and_its_json_answer_received() {
    let mut bench = bench(vec![json(PONG), json(PONG)]).await;
    assert_eq!(bench.ping().await, Ok(Delivery::Exchanged));
    assert_eq!(bench.inbox.message().await, pong());
    let seen = bench.server.request().await;
    assert_eq!((seen.line(), seen.body.as_str()), ("POST /mcp HTTP/1.1", PING));
    assert_eq!(seen.header("accept"), Some("application/json, text/event-stream"));
    assert_eq!(seen.header("content-type"), Some("application/json"));
    assert_eq!(seen.header("mcp-session-id"), None);
    bench.ping().await.unwrap();
    assert_eq!(bench.server.request().await.connection, 0, "the connection is used again");
}

#[tokio::test]
async fn a_batch_is_received_as_it_is() {
    let mut bench = bench(vec![json(r#"[{"id":7,"result":1}]"#)]).await;
    bench.ping().await.unwrap();
    assert_eq!(bench.inbox.message().await.0, r#"[{"id":7,"result":1}]"#);
}

#[tokio::test]
async fn an_answer_in_events_ends_with_the_answer_and_keeps_the_connection() {
    let stream = [
        ": hello\n\n",
        "event: message\ndata: {\"method\":\ndata: \"x\"}\n\nevent: ping\ndata: 1\n\n",
        "data: {\"jsonrpc\":\"2.0\",\"id\":7,",
        "\"result\":{}}\n\n",
        "",
    ];
    let mut bench = bench(vec![chunked(&stream), json(PONG)]).await;
    assert_eq!(bench.ping().await, Ok(Delivery::Exchanged));
    assert_eq!(bench.inbox.message().await, ("{\"method\":\n\"x\"}".to_owned(), Some(7)));
    assert_eq!(bench.inbox.message().await, pong());
    bench.ping().await.unwrap();
    bench.server.request().await;
    assert_eq!(bench.server.request().await.connection, 0);
}

#[tokio::test]
async fn an_open_stream_does_not_hold_an_answered_request() {
    let mut bench = bench(vec![chunked(&[&format!("data: {PONG}\n\n")])]).await;
    assert_eq!(bench.ping().await, Ok(Delivery::Exchanged));
    assert_eq!(bench.inbox.message().await, pong());
}

#[tokio::test]
async fn a_body_may_come_slowly() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let (receiver, mut inbox) = TestInbox::new();
    let transport = open(&site(&url), receiver).await.unwrap();
    let serve = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_request(&mut stream).await.unwrap();
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
            .await
            .unwrap();
        for byte in PONG.chars() {
            stream.write_all(format!("1\r\n{byte}\r\n").as_bytes()).await.unwrap();
            tokio::task::yield_now().await;
        }
        stream.write_all(b"0\r\n\r\n").await.unwrap();
        stream
    };
    let (sent, _stream) = tokio::join!(transport.send(request(7, PING)), serve);
    assert_eq!(sent, Ok(Delivery::Exchanged));
    assert_eq!(inbox.message().await, pong());
}

#[tokio::test]
async fn a_stream_without_event_ids_that_ends_early_is_closed() {
    let bench = bench(vec![events("data: {\"method\":\"x\"}\n\n")]).await;
    assert_eq!(bench.ping().await, Err(RequestError::sent(Failure::Closed)));
}

#[tokio::test]
async fn a_stream_with_event_ids_is_taken_up_again() {
    let mut bench = bench(vec![
        events("id: one\nretry: 120\ndata:\n\nid: two\ndata: half"),
        reply("503 Busy\nContent-Type: text/plain", "later"),
        events(&format!("data: {PONG}\n\n")),
    ])
    .await;
    let begun = Instant::now();
    assert_eq!(bench.ping().await, Ok(Delivery::Exchanged));
    assert!(begun.elapsed() >= Duration::from_millis(240), "it waits as long as the server says");
    assert_eq!(bench.inbox.message().await, pong());
    bench.server.request().await;
    for _ in 0..2 {
        let seen = bench.server.request().await;
        assert_eq!((seen.line(), seen.header("last-event-id")), ("GET /mcp HTTP/1.1", Some("one")));
        assert_eq!(seen.header("accept"), Some("text/event-stream"));
    }
}

#[tokio::test]
async fn a_stream_that_makes_no_progress_is_given_up() {
    let again = || events(": nothing\n\n");
    let mut bench =
        bench(vec![events("id: 1\nretry: 0\n\n"), again(), again(), again(), again(), again(), again()]).await;
    assert_eq!(bench.ping().await, Err(RequestError::sent(Failure::Closed)));
    for _ in 0..6 {
        bench.server.request().await;
    }
    assert!(bench.server.is_quiet());
}

#[tokio::test]
async fn a_server_that_does_not_know_the_rest_of_an_answer_has_taken_the_request() {
    for status in
        ["400 Bad", "401 No\nWWW-Authenticate: Bearer", "403 No", "404 Missing", "405 No", "410 Gone", "200 OK"]
    {
        let session = reply("200 OK\nContent-Type: application/json\nMcp-Session-Id: s1", PONG);
        let lost = r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32001,"message":"Session not found"}}"#;
        let refusal = reply(&format!("{status}\nContent-Type: application/json"), lost);
        let mut bench = bench(vec![session, events("id: 1\nretry: 0\n\n"), refusal]).await;
        bench.ping().await.unwrap();
        assert_eq!(bench.ping().await, Err(RequestError::sent(Failure::Closed)), "{status}");
        for line in ["POST /mcp HTTP/1.1", "POST /mcp HTTP/1.1", "GET /mcp HTTP/1.1"] {
            assert_eq!(bench.server.request().await.line(), line);
        }
        assert!(bench.server.is_quiet());
    }
}

#[tokio::test]
async fn streams_that_end_at_once_become_no_flood_of_requests() {
    let polled = |n: u32| events(&format!("id: {n}\nretry: 0\ndata:\n\n"));
    let answered = bench(vec![polled(1), polled(2), events(&format!("data: {PONG}\n\n"))]).await;
    let begun = Instant::now();
    answered.ping().await.unwrap();
    assert!(begun.elapsed() >= 2 * exchange::SHORTEST, "{:?}", begun.elapsed());
    // On the server's own stream, an event with a known id is not new.
    let mut unasked = bench((0..9).map(|_| events("id: 1\nretry: 0\ndata:\n\n")).collect()).await;
    unasked.transport.established(ServerStream::Open(Vec::new()));
    let begun = Instant::now();
    for _ in 0..3 {
        unasked.server.request().await;
    }
    assert!(begun.elapsed() >= exchange::SHORTEST + Duration::from_secs(2), "{:?}", begun.elapsed());
    assert!(unasked.server.is_quiet());
}

#[tokio::test]
async fn a_polling_server_may_take_its_time() {
    let mut replies: Vec<_> = (0..8).map(|n| events(&format!("id: {n}\nretry: 0\ndata:\n\n"))).collect();
    replies.push(events(&format!("data: {PONG}\n\n")));
    let bench = bench(replies).await;
    assert_eq!(bench.ping().await, Ok(Delivery::Exchanged));
}

#[tokio::test]
async fn there_is_no_resuming_in_the_stateless_era() {
    let bench = bench(vec![events("id: 1\nretry: 0\n\n"), json(PONG)]).await;
    bench.transport.established(ServerStream::None);
    assert_eq!(bench.ping().await, Err(RequestError::sent(Failure::Closed)));
}

#[tokio::test]
async fn the_session_id_is_sent_back_and_the_session_deleted_once() {
    let first = reply("200 OK\nContent-Type: application/json\nMcp-Session-Id: s1", PONG);
    let other = reply("202 Accepted\nMcp-Session-Id: s2", "");
    let mut bench = bench(vec![first, other, reply("405 No", "")]).await;
    bench.ping().await.unwrap();
    assert_eq!(soon(bench.transport.send(notification(NOTE))).await, Ok(Delivery::Exchanged));
    tokio::join!(bench.transport.close(), bench.transport.close());
    bench.transport.close().await;
    let requests = [bench.server.request().await, bench.server.request().await, bench.server.request().await];
    let seen = requests.each_ref().map(|seen| (seen.line(), seen.header("mcp-session-id")));
    let post = "POST /mcp HTTP/1.1";
    assert_eq!(seen, [(post, None), (post, Some("s1")), ("DELETE /mcp HTTP/1.1", Some("s1"))]);
    assert!(bench.server.is_quiet());
    bench.inbox.message().await;
    assert_eq!(bench.inbox.closed().await, RequestError::sent(Failure::Closed));
    assert!(bench.inbox.is_empty());
    assert_eq!(bench.ping().await, Err(RequestError::unsent(Failure::Closed)));
}

#[tokio::test]
async fn without_a_session_nothing_is_deleted() {
    let mut bench = bench(vec![]).await;
    bench.transport.close().await;
    assert!(bench.server.is_quiet());
    assert_eq!(bench.inbox.closed().await.failure, Failure::Closed);
}

#[tokio::test]
async fn notifications_are_content_with_any_success() {
    let bench = bench(vec![
        json("{}"),
        reply("202 Accepted", ""),
        FixtureReply { text: "HTTP/1.1 204 No Content\r\n\r\n".into(), then: AfterReply::Next },
        reply("400 Bad", r#"{"jsonrpc":"2.0","error":{"code":-1,"message":"no"}}"#),
    ])
    .await;
    for _ in 0..3 {
        assert_eq!(soon(bench.transport.send(notification(NOTE))).await, Ok(Delivery::Exchanged));
    }
    let error = HttpError { status: 400, body: "no".to_owned(), ..HttpError::default() };
    assert_eq!(soon(bench.transport.send(notification(NOTE))).await, Err(RequestError::sent(Failure::Http(error))));
}

#[tokio::test]
async fn a_json_rpc_error_of_a_request_is_received_whatever_its_status() {
    for (status, body) in [
        ("400 Bad", r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32022,"message":"m"}}"#),
        ("404 Missing", r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"m"}}"#),
        ("422 Odd", r#"{"jsonrpc":"2.0","error":{"code":1,"message":"m"}}"#),
        ("500 Broken", r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"m"}}"#),
        ("503 Busy", r#"{"jsonrpc":"2.0","id":"7","error":{"code":-32603,"message":"m"}}"#),
    ] {
        let mut bench = bench(vec![reply(&format!("{status}\nContent-Type: application/json"), body)]).await;
        assert_eq!(bench.ping().await, Ok(Delivery::Exchanged), "{status}");
        assert_eq!(bench.inbox.message().await, (body.to_owned(), Some(7)));
    }
}

#[tokio::test]
async fn statuses_that_concern_the_session_are_errors_whatever_their_body() {
    let ours = r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32000,"message":"no more"}}"#;
    let nobodys = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no more"}}"#;
    for (status, body) in [(401, ours), (403, ours), (429, ours), (500, nobodys), (503, nobodys)] {
        let mut bench = bench(vec![reply(&format!("{status} No\nContent-Type: application/json"), body)]).await;
        let error = bench.http_error().await;
        assert_eq!((error.status, error.body.as_str(), error.session), (status, "no more", false));
        assert!(bench.inbox.is_empty());
    }
}

#[tokio::test]
async fn a_lost_session_is_an_http_error_and_an_error_of_the_request_is_not() {
    for status in ["400 Bad", "404 Missing"] {
        let head = format!("{status}\nContent-Type: application/json");
        let session = reply("200 OK\nContent-Type: application/json\nMcp-Session-Id: s1", PONG);
        let idless =
            reply(&head, r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no valid session"}}"#);
        let text = reply(status, "gone");
        let own = reply(&head, r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"bad"}}"#);
        let bench = bench(vec![session, idless, text, own]).await;
        bench.ping().await.unwrap();
        let error = bench.http_error().await;
        assert_eq!((error.body.as_str(), error.session), ("no valid session", true));
        let error = bench.http_error().await;
        assert_eq!((error.body.as_str(), error.session), ("gone", true));
        assert_eq!(bench.ping().await, Ok(Delivery::Exchanged));
    }
}

#[tokio::test]
async fn challenges_and_waiting_times_are_part_of_the_error() {
    let head = "401 No\nWWW-Authenticate: Bearer realm=\"x\"\nWWW-Authenticate: Basic\nRetry-After: 3";
    let bench = bench(vec![reply(head, &"é".repeat(5000))]).await;
    let error = bench.http_error().await;
    assert_eq!(error.challenge.as_deref(), Some("Bearer realm=\"x\", Basic"));
    assert_eq!(error.retry_after, Some(Duration::from_secs(3)));
    assert!(error.body.len() <= 2048 && error.body.starts_with("éé"), "{} bytes", error.body.len());
}

#[tokio::test]
async fn a_wrong_content_type_is_named() {
    let bench =
        bench(vec![reply("200 OK\nContent-Type: text/html; charset=utf-8", "<html>\nHi"), reply("202 Accepted", "")])
            .await;
    assert_eq!(bench.protocol_error().await, "answered with content type text/html: <html> Hi");
    assert_eq!(bench.protocol_error().await, "answered with HTTP status 202 and an empty body");
}

#[tokio::test]
async fn an_encoding_that_nobody_asked_for_is_named() {
    for kind in ["application/json", "text/event-stream"] {
        let encoded = reply(&format!("200 OK\nContent-Type: {kind}\nContent-Encoding: gzip"), "\x1f?\x08");
        let plain = reply("200 OK\nContent-Type: application/json\nContent-Encoding: Identity", PONG);
        let failed = reply("502 No\nContent-Type: text/html\nContent-Encoding: br", "\x0b\x02");
        let bench = bench(vec![encoded, plain, failed]).await;
        assert_eq!(bench.protocol_error().await, "its answer is encoded as gzip, which was not asked for");
        assert_eq!(bench.ping().await, Ok(Delivery::Exchanged));
        assert_eq!(bench.http_error().await.body, "a text encoded as br, which was not asked for");
    }
}

#[tokio::test]
async fn messages_above_the_limit_are_refused_however_they_come() {
    let big = format!("{{\"id\":7,\"result\":\"{}\"}}", "x".repeat(2000));
    let chunks = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{big}\r\n0\r\n\r\n",
        big.len()
    );
    let chunks = FixtureReply { text: chunks, then: AfterReply::Next };
    let small = |site: &mut RemoteSite| site.max_message_bytes = 1000;
    let bench = bench_with(vec![json(&big), chunks, events(&format!("data: {big}\n\n"))], small).await;
    assert_eq!(bench.protocol_error().await, "an answer of more than 1000 bytes; raise max_message_bytes");
    assert_eq!(bench.protocol_error().await, "an answer of more than 1000 bytes; raise max_message_bytes");
    assert_eq!(bench.protocol_error().await, "an event of more than 1000 bytes; raise max_message_bytes");
}

#[tokio::test]
async fn a_connection_that_breaks_after_the_request_is_closed_and_may_have_been_sent() {
    let half = FixtureReply {
        text: "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{".into(),
        then: AfterReply::HangUp,
    };
    let none = FixtureReply { text: String::new(), then: AfterReply::HangUp };
    let bench = bench(vec![half, none]).await;
    assert_eq!(bench.ping().await, Err(RequestError::sent(Failure::Closed)));
    assert_eq!(bench.ping().await, Err(RequestError::sent(Failure::Closed)));
}

#[tokio::test]
async fn dropping_a_send_closes_its_exchange() {
    for begun in ["", "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n: hello\n\n"] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let (receiver, _inbox) = TestInbox::new();
        let transport = open(&site(&url), receiver).await.unwrap();
        let sending = tokio::spawn(async move { transport.send(request(7, PING)).await });
        let (mut stream, _) = listener.accept().await.unwrap();
        read_request(&mut stream).await.unwrap();
        stream.write_all(begun.as_bytes()).await.unwrap();
        sending.abort();
        assert_eq!(soon(stream.read(&mut [0; 1])).await.unwrap_or(0), 0, "the server sees the end");
    }
}

#[tokio::test]
async fn the_servers_own_stream_brings_messages_and_is_opened_again() {
    let session = reply("200 OK\nContent-Type: application/json\nMcp-Session-Id: s1", PONG);
    let mut bench = bench(vec![
        session,
        events("retry: 10\nid: a\ndata: {\"n\":1}\n\n"),
        events("id: b\ndata: {\"n\":2}\n\n"),
        reply("405 No", ""),
    ])
    .await;
    bench.ping().await.unwrap();
    bench.inbox.message().await;
    let version = (HeaderName::from_static("mcp-protocol-version"), HeaderValue::from_static("2025-11-25"));
    bench.transport.established(ServerStream::Open(vec![version]));
    assert_eq!(bench.inbox.message().await, ("{\"n\":1}".to_owned(), None));
    assert_eq!(bench.inbox.message().await, ("{\"n\":2}".to_owned(), None));
    bench.server.request().await;
    for after in [None, Some("a"), Some("b")] {
        let seen = bench.server.request().await;
        assert_eq!((seen.line(), seen.header("last-event-id")), ("GET /mcp HTTP/1.1", after));
        assert_eq!(seen.header("mcp-session-id"), Some("s1"));
        assert_eq!(seen.header("mcp-protocol-version"), Some("2025-11-25"));
    }
    bench.transport.close().await;
    let seen = bench.server.request().await;
    assert_eq!((seen.line(), seen.header("mcp-protocol-version")), ("DELETE /mcp HTTP/1.1", Some("2025-11-25")));
}

#[tokio::test]
async fn headers_of_a_message_win_over_the_sites_but_not_over_the_protocols() {
    let mut bench = bench_with(vec![json(PONG)], |site| {
        let own = [("X-Key", "k"), ("Mcp-Method", "site"), ("Accept", "text/html"), ("mcp-session-id", "forged")];
        site.headers = own.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    })
    .await;
    let mut message = request(7, PING);
    message.headers = vec![
        (HeaderName::from_static("mcp-method"), HeaderValue::from_static("ping")),
        (header::CONTENT_TYPE, HeaderValue::from_static("text/plain")),
    ];
    soon(bench.transport.send(message)).await.unwrap();
    let seen = bench.server.request().await;
    let header = |name| seen.header(name);
    assert_eq!((header("x-key"), header("mcp-method")), (Some("k"), Some("ping")));
    assert_eq!((header("content-type"), header("mcp-session-id")), (Some("application/json"), None));
    assert_eq!(header("accept"), Some("application/json, text/event-stream"));
}
