//! Requests on connections that a site has closed or on which it rejects them.

use super::*;

/// The reply of a server to a request on a connection that it has given up.
fn void() -> FixtureReply {
    FixtureReply { text: String::new(), then: AfterReply::HangUp }
}

/// Returns the connections that these requests came on.
async fn connections(server: &mut FixtureServer, count: usize) -> Vec<usize> {
    let mut connections = Vec::new();
    for _ in 0..count {
        connections.push(server.request().await.connection);
    }
    connections
}

#[tokio::test]
async fn a_redirect_into_the_void_is_named() {
    let there = reply("302 Over there\nLocation: /login?next=1", "");
    let server = FixtureServer::start(vec![there, void(), void()]).await;
    let web = web(&site(&server.url())).await;
    let failed = send(&web, Method::GET, "").await.err().unwrap();
    let how = format!("it redirects to http://127.0.0.1:{}/login, which closed the connection", server.port);
    assert_eq!(failed, RequestError::sent(Failure::Protocol(how)));
}

#[tokio::test]
async fn what_may_arrive_twice_is_sent_again_where_a_connection_is_lost_after_an_answer() {
    let mut server = FixtureServer::start(vec![json("{}"), void(), json("{}"), json("{}"), json("{}")]).await;
    let web = web(&site(&server.url())).await;
    for _ in 0..4 {
        let response = send(&web, Method::POST, "hello").await.unwrap();
        assert_eq!(soon(body::text(response, 100)).await.unwrap(), "{}");
    }
    let connections = connections(&mut server, 5).await;
    assert_eq!(connections, [0, 0, 1, 2, 3], "from the loss on, each request has a connection of its own");
}

#[tokio::test]
async fn what_must_not_arrive_twice_goes_on_no_connection_that_may_have_been_given_up() {
    let mut server = FixtureServer::start((0..6).map(|_| json("{}")).collect()).await;
    let web = web(&site(&server.url())).await;
    for repeatable in [true, false, false, true, false, false] {
        let response = send_as(&web, Method::POST, "hello", repeatable).await.unwrap();
        soon(body::text(response, 100)).await.unwrap();
    }
    let connections = connections(&mut server, 6).await;
    assert_eq!(connections, [0, 1, 2, 0, 0, 0], "a connection that brought two answers is for all");
}

#[tokio::test]
async fn what_must_not_arrive_twice_is_never_sent_again() {
    let mut server = FixtureServer::start(vec![json("{}"), json("{}"), void(), json("{}")]).await;
    let web = web(&site(&server.url())).await;
    for _ in 0..2 {
        soon(body::text(send(&web, Method::POST, "a").await.unwrap(), 100)).await.unwrap();
        server.request().await;
    }
    let failed = send_as(&web, Method::POST, "b", false).await.err().unwrap();
    assert_eq!(failed, RequestError::sent(Failure::Closed));
    assert_eq!(server.request().await.body, "b");
    assert!(server.is_quiet());
}

#[tokio::test]
async fn a_redirect_on_a_connection_that_is_then_lost_is_followed_on_a_new_one() {
    let there = reply("307 Over there\nLocation: /new", "");
    let mut server = FixtureServer::start(vec![there, void(), json("{}")]).await;
    let web = web(&site(&server.url())).await;
    assert_eq!(send(&web, Method::GET, "").await.unwrap().status(), 200);
    for line in ["GET /mcp HTTP/1.1", "GET /new HTTP/1.1", "GET /new HTTP/1.1"] {
        assert_eq!(server.request().await.line(), line);
    }
}

#[tokio::test]
async fn a_request_that_http_2_turned_away_is_unsent_and_not_sent_again() {
    let mut pki = pki(false);
    Arc::get_mut(&mut pki.config).unwrap().alpn_protocols = vec![b"h2".to_vec()];
    for (reason, sent) in [(h2::Reason::REFUSED_STREAM, false), (h2::Reason::INTERNAL_ERROR, true)] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}/mcp", listener.local_addr().unwrap());
        let acceptor = TlsAcceptor::from(pki.config.clone());
        // Serves all streams of one connection, and counts them.
        let serve = tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let mut connection = h2::server::handshake(acceptor.accept(stream).await.unwrap()).await.unwrap();
            let mut requests = 0;
            while let Some(Ok((_, mut answer))) = connection.accept().await {
                requests += 1;
                answer.send_reset(reason);
            }
            requests
        });
        let mut site = site(&url);
        site.tls.ca = pki.file("ca.pem");
        let web = web(&site).await;
        let failed = send(&web, Method::POST, "hello").await.err().unwrap();
        assert_eq!(failed, RequestError { sent, failure: Failure::Closed }, "{reason:?}");
        drop(web);
        assert_eq!(soon(serve).await.unwrap(), 1, "{reason:?}");
    }
}
