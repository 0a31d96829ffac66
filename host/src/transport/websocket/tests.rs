use futures_util::SinkExt;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::accept_hdr_async;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};

use super::*;
use crate::web::fixture::*;
use tokio::task::JoinSet;

type Peer = WebSocketStream<TcpStream>;

struct Bench {
    peer: Peer,
    transport: Arc<dyn Transport>,
    inbox: TestInbox,
}

async fn bench() -> Bench {
    bench_with(Heartbeat { ping: Duration::from_secs(30), silence: Duration::from_secs(90) }).await
}

async fn bench_with(pulse: Heartbeat) -> Bench {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut place = site(&format!("ws://me:word@{}/ws?x=1", listener.local_addr().unwrap()));
    place.headers = vec![("X-Key".to_owned(), "k".to_owned())];
    place.max_message_bytes = 100_000;
    let (receiver, inbox) = TestInbox::new();
    let serve = async {
        let (stream, _) = listener.accept().await.unwrap();
        #[allow(clippy::result_large_err, reason = "the signature is tungstenite's")]
        let check = |request: &Request, mut response: Response| {
            assert_eq!(request.uri(), "/ws?x=1");
            assert_eq!(request.headers()["sec-websocket-protocol"], "mcp");
            assert_eq!(request.headers()["authorization"], "Basic bWU6d29yZA==");
            assert_eq!(request.headers()["x-key"], "k");
            response.headers_mut().insert("sec-websocket-protocol", http::HeaderValue::from_static("mcp"));
            Ok(response)
        };
        accept_hdr_async(stream, check).await.unwrap()
    };
    let (transport, peer) = tokio::join!(soon(open_with(&place, receiver, pulse)), serve);
    Bench { peer, transport: transport.unwrap(), inbox }
}

#[tokio::test]
async fn messages_go_and_come_as_frames() {
    let mut bench = bench().await;
    assert_eq!(bench.transport.send(request(1, "{\"id\":1}")).await, Ok(Delivery::Written));
    assert_eq!(soon(bench.peer.next()).await.unwrap().unwrap(), Message::text("{\"id\":1}"));
    bench.peer.send(Message::text("{\"n\":1}")).await.unwrap();
    bench.peer.send(Message::binary(&b"\xff\xfe"[..])).await.unwrap();
    bench.peer.send(Message::binary(&b"{\"n\":2}"[..])).await.unwrap();
    assert_eq!(bench.inbox.message().await, ("{\"n\":1}".to_owned(), None));
    assert_eq!(bench.inbox.message().await, ("{\"n\":2}".to_owned(), None));
}

#[tokio::test]
async fn pings_are_answered() {
    let mut bench = bench().await;
    bench.peer.send(Message::Ping("are you there".into())).await.unwrap();
    assert_eq!(soon(bench.peer.next()).await.unwrap().unwrap(), Message::Pong("are you there".into()));
}

#[tokio::test]
async fn a_quiet_server_is_asked_and_a_dead_one_given_up() {
    let pulse = Heartbeat { ping: Duration::from_millis(20), silence: Duration::from_secs(60) };
    let mut asked = bench_with(pulse).await;
    assert!(matches!(soon(asked.peer.next()).await.unwrap().unwrap(), Message::Ping(_)));
    let pulse = Heartbeat { ping: Duration::from_secs(60), silence: Duration::from_millis(50) };
    let mut dead = bench_with(pulse).await;
    assert_eq!(dead.inbox.closed().await, RequestError::sent(Failure::Closed));
    assert_eq!(dead.transport.send(request(1, "{}")).await, Err(RequestError::unsent(Failure::Closed)));
}

#[tokio::test]
async fn the_code_of_a_close_is_told() {
    for (code, reason, expected) in [
        (CloseCode::Normal, "bye", Failure::Closed),
        (CloseCode::Away, "", Failure::Closed),
        (CloseCode::Error, "out of memory", Failure::Closed),
        (
            CloseCode::Policy,
            "who are you",
            Failure::Protocol("it closed the WebSocket with code 1008: who are you".into()),
        ),
    ] {
        let mut bench = bench().await;
        bench.peer.close(Some(CloseFrame { code, reason: reason.into() })).await.unwrap();
        let rest = async { while let Some(Ok(_)) = bench.peer.next().await {} };
        soon(rest).await;
        drop(bench.peer);
        assert_eq!(bench.inbox.closed().await, RequestError::sent(expected.clone()));
        assert_eq!(bench.transport.send(request(1, "{}")).await, Err(RequestError::unsent(expected)));
        bench.transport.close().await;
        assert!(bench.inbox.is_empty());
    }
}

#[tokio::test]
async fn closing_shakes_hands() {
    let mut bench = bench().await;
    let serve = async {
        let Some(Ok(Message::Close(Some(frame)))) = bench.peer.next().await else { panic!("no close frame") };
        assert_eq!(frame.code, CloseCode::Normal);
        while let Some(Ok(_)) = bench.peer.next().await {}
    };
    let both = async { tokio::join!(bench.transport.close(), bench.transport.close()) };
    soon(async { tokio::join!(both, serve) }).await;
    assert_eq!(bench.inbox.closed().await, RequestError::sent(Failure::Closed));
    assert!(bench.inbox.is_empty());
}

#[tokio::test]
async fn a_connection_that_breaks_off_is_closed() {
    let mut bench = bench().await;
    drop(bench.peer);
    assert_eq!(bench.inbox.closed().await, RequestError::sent(Failure::Closed));
}

#[tokio::test]
async fn a_message_above_the_limit_ends_the_connection() {
    let mut bench = bench().await;
    bench.peer.send(Message::text("x".repeat(100_000))).await.unwrap();
    assert_eq!(bench.inbox.message().await.0.len(), 100_000);
    bench.peer.send(Message::text("x".repeat(100_001))).await.unwrap();
    let words = "a message of more than 100000 bytes; raise max_message_bytes".to_owned();
    assert_eq!(bench.inbox.closed().await, RequestError::sent(Failure::Protocol(words)));
}

#[tokio::test]
async fn a_message_that_was_begun_when_the_connection_was_closed_may_have_arrived() {
    let bench = bench().await;
    let text = "x".repeat(64 << 20);
    let send = bench.transport.send(request(1, &text));
    let close = async {
        bench.peer.get_ref().peek(&mut [0; 1]).await.unwrap();
        bench.transport.close().await;
    };
    let (sent, ()) = soon(async { tokio::join!(send, close) }).await;
    assert_eq!(sent, Err(RequestError::sent(Failure::Closed)));
}

#[tokio::test]
async fn many_senders_and_dropped_ones_tear_no_frame() {
    let bench = bench().await;
    let mut senders = JoinSet::new();
    for sender in 0..20 {
        let transport = bench.transport.clone();
        senders.spawn(async move {
            for n in 0..20 {
                let text = format!("{sender} {n} {}", "x".repeat(n * 997));
                let send = transport.send(request(n as u64, &text));
                if n % 3 == 0 {
                    // Polled once and dropped.
                    let _ = futures_util::FutureExt::now_or_never(send);
                } else {
                    assert_eq!(send.await, Ok(Delivery::Written));
                }
            }
        });
    }
    let mut peer = bench.peer;
    let reading = tokio::spawn(async move {
        let mut whole = [[false; 20]; 20];
        while let Some(Ok(message)) = peer.next().await {
            let Message::Text(text) = message else { continue };
            let mut words = text.splitn(3, ' ');
            let (sender, n): (usize, usize) =
                (words.next().unwrap().parse().unwrap(), words.next().unwrap().parse().unwrap());
            assert_eq!(words.next().unwrap().len(), n * 997);
            whole[sender][n] = true;
        }
        whole
    });
    while let Some(done) = soon(senders.join_next()).await {
        done.unwrap();
    }
    soon(bench.transport.close()).await;
    let whole = soon(reading).await.unwrap();
    assert!(whole.iter().all(|sender| (0..20).all(|n| n % 3 == 0 || sender[n])));
}

#[tokio::test]
async fn what_cannot_be_reached_is_named_as_the_configuration_names_it() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let (receiver, _inbox) = TestInbox::new();
    let failed = soon(open(&site(&format!("ws://{address}/ws?key=1")), receiver)).await.err().unwrap();
    assert!(failed.to_string().ends_with(&format!("(ws://{address}/ws)")), "{failed}");
}

#[tokio::test]
async fn a_server_that_does_not_upgrade_is_refused() {
    let accept = "101 Switching\nUpgrade: websocket\nConnection: Upgrade\nSec-WebSocket-Accept: wrong";
    let server = FixtureServer::start(vec![reply("403 No\nWWW-Authenticate: Bearer", "who"), reply(accept, "")]).await;
    let (receiver, _inbox) = TestInbox::new();
    let failed = soon(open(&site(&server.url()), receiver.clone())).await.err().unwrap();
    let RequestError { failure: Failure::Http(error), sent: false } = failed else { panic!("{failed}") };
    assert_eq!((error.status, error.challenge.as_deref(), error.body.as_str()), (403, Some("Bearer"), "who"));
    let failed = soon(open(&site(&server.url()), receiver)).await.err().unwrap();
    assert_eq!(
        failed,
        RequestError::unsent(Failure::Protocol("its Sec-WebSocket-Accept does not match our key".to_owned()))
    );
}

#[tokio::test]
async fn a_redirect_that_leads_to_no_websocket_is_named() {
    let moved = || reply("302 Over there\nLocation: /login?next=1", "");
    let void = FixtureReply { text: String::new(), then: AfterReply::HangUp };
    let server = FixtureServer::start(vec![moved(), reply("200 OK", "who are you"), moved(), void]).await;
    let (receiver, _inbox) = TestInbox::new();
    let address = format!("ws://127.0.0.1:{}", server.port);
    let failed = soon(open(&site(&format!("{address}/ws")), receiver.clone())).await.err().unwrap();
    let told = format!("it redirects to {address}/login, which is not a WebSocket: who are you");
    assert!(!failed.sent && failed.to_string().ends_with(&told), "{failed}");
    let failed = soon(open(&site(&format!("{address}/ws")), receiver)).await.err().unwrap();
    let told = format!("it redirects to {address}/login, which closed the connection");
    assert_eq!(failed, RequestError::unsent(Failure::Protocol(told)));
}

#[tokio::test]
async fn a_websocket_is_not_opened_at_another_origin() {
    let mut other = FixtureServer::start(vec![reply("200 OK", "")]).await;
    for status in [301, 302, 303, 307, 308] {
        let moved = reply(&format!("{status} Over there\nLocation: ws://127.0.0.1:{}/ws", other.port), "");
        let server = FixtureServer::start(vec![moved]).await;
        let (receiver, _inbox) = TestInbox::new();
        let failed = soon(open(&site(&format!("ws://127.0.0.1:{}/ws", server.port)), receiver)).await.err().unwrap();
        let told = format!("it redirects to ws://127.0.0.1:{}/ws, another origin", other.port);
        assert!(!failed.sent && failed.to_string().contains(&told), "{failed}");
    }
    assert!(other.is_quiet());
}

#[tokio::test]
async fn a_server_that_sends_pings_and_reads_nothing_does_not_fill_the_memory() {
    let mut bench = bench().await;
    let mut ping = vec![0x89, 125];
    ping.extend([b'x'; 125]);
    let many = ping.repeat(1000);
    // 39 MB of answers, of which sockets buffer a few.
    let rounds = 300;
    for _ in 0..rounds {
        bench.peer.get_mut().write_all(&many).await.unwrap();
    }
    bench.peer.send(Message::text("{}")).await.unwrap();
    assert_eq!(bench.inbox.message().await, ("{}".to_owned(), None));
    let send = bench.transport.send(request(1, "{\"id\":1}"));
    let hear = async {
        let mut pongs = 0;
        loop {
            match soon(bench.peer.next()).await.unwrap().unwrap() {
                Message::Pong(_) => pongs += 1,
                Message::Text(text) if text.as_str() == "{\"id\":1}" => return pongs,
                other => panic!("{other}"),
            }
        }
    };
    let (sent, pongs) = tokio::join!(soon(send), hear);
    assert_eq!(sent, Ok(Delivery::Written));
    assert!(pongs > 0 && pongs < rounds * 1000 / 2, "{pongs} of {} waited", rounds * 1000);
}

#[tokio::test]
async fn a_message_that_is_longer_than_a_frame_arrives_whole() {
    let mut bench = bench().await;
    let long = "é".repeat(2 * socket::LONGEST);
    let (sent, came) = tokio::join!(soon(bench.transport.send(request(1, &long))), soon(bench.peer.next()));
    assert_eq!(sent, Ok(Delivery::Written));
    assert!(came.unwrap().unwrap() == Message::text(long));
}
