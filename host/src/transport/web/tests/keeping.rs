//! Requests on connections that a site gave up, or turned them away on.

use super::*;

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
        assert_eq!(failed, Failed { sent, failure: Failure::Closed }, "{reason:?}");
        drop(web);
        assert_eq!(soon(serve).await.unwrap(), 1, "{reason:?}");
    }
}
