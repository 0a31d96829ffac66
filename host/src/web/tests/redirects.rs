//! Redirect targets, and the headers that follow.

use super::*;

#[tokio::test]
async fn a_redirect_within_the_origin_keeps_method_body_and_headers() {
    let mut server = FixtureServer::start(vec![reply("307 Over there\nLocation: /new?x=1", ""), json("{}")]).await;
    let web = web(&keyed(&server.url())).await;
    let response = send(&web, Method::POST, "hello").await.unwrap();
    assert_eq!(response.status(), 200);
    server.request().await;
    let seen = server.request().await;
    assert_eq!((seen.line(), seen.body.as_str()), ("POST /new?x=1 HTTP/1.1", "hello"));
    assert_eq!(seen.header("authorization"), Some("Bearer t0ken"));
    assert_eq!((seen.header("mcp-session-id"), seen.header("mcp-name")), (Some("s1"), Some("secret-tool")));
}

#[tokio::test]
async fn nothing_of_ours_follows_a_redirect_to_another_origin_or_back() {
    let home = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", home.local_addr().unwrap());
    let back = format!("308 Back\nLocation: {address}/again");
    let mut other = FixtureServer::start(vec![reply(&back, "")]).await;
    let there = format!("308 Over there\nLocation: {}", other.url());
    let mut server = FixtureServer::on(home, vec![reply(&there, ""), json("{}")]);
    let web = web(&keyed(&server.url().replace("http://", "http://me:word@"))).await;
    send(&web, Method::GET, "").await.unwrap();
    assert_eq!(server.request().await.header("authorization"), Some("Bearer t0ken"));
    for seen in [other.request().await, server.request().await] {
        let names: Vec<_> = seen
            .head
            .lines()
            .skip(1)
            .filter_map(|line| line.split_once(':'))
            .map(|(name, _)| name.to_lowercase())
            .collect();
        let allowed = ["host", "accept", "content-type", "content-length", "mcp-protocol-version"];
        assert!(names.iter().all(|name| allowed.contains(&name.as_str())), "{names:?}");
    }
}

#[tokio::test]
async fn a_request_that_carries_messages_goes_to_no_other_origin() {
    for (method, status) in [(Method::POST, 307), (Method::POST, 308), (Method::DELETE, 307), (Method::PUT, 308)] {
        let mut other = FixtureServer::start(vec![json("{}")]).await;
        let there = format!("{status} Over there\nLocation: {}?key=1", other.url());
        let server = FixtureServer::start(vec![reply(&there, "")]).await;
        let web = web(&keyed(&server.url())).await;
        let body = if method == Method::DELETE { "" } else { "hello" };
        let failed = send(&web, method, body).await.err().unwrap();
        let words = format!("it redirects to {}, another origin, to which no message is sent", other.url());
        assert!(failed.sent && failed.to_string().contains(&words), "{failed}");
        assert!(other.is_quiet());
    }
}

#[tokio::test]
async fn a_redirect_leads_no_further_inside_than_who_redirects() {
    for (target, why) in [
        ("http://169.254.169.254/latest/meta-data", "a link-local address"),
        ("http://[::ffff:a9fe:a9fe]/latest", "a link-local address"),
        ("http://0.0.0.0:1/", "a special-purpose address"),
        ("//224.0.0.1/", "a special-purpose address"),
    ] {
        let server = FixtureServer::start(vec![reply(&format!("302 Over there\nLocation: {target}"), "")]).await;
        let web = web(&site(&server.url())).await;
        let failed = send(&web, Method::GET, "").await.err().unwrap();
        let words = format!("{why}, which a server at a loopback address may not refer to");
        assert!(failed.to_string().contains(&words), "{target}: {failed}");
    }
}

#[tokio::test]
async fn through_a_proxy_names_are_what_is_judged() {
    let mut inside = FixtureServer::start(vec![json("{}")]).await;
    for target in [inside.url(), format!("http://localhost:{}/", inside.port), "http://10.0.0.1/".to_owned()] {
        let mut proxy = FixtureServer::start(vec![reply(&format!("302 Over there\nLocation: {target}"), "")]).await;
        let variables = |name: &str| (name == "http_proxy").then(|| format!("http://127.0.0.1:{}", proxy.port));
        let client =
            WebClient::open_with(&site("http://tools.example/mcp"), HttpVersion::Any, variables).await.unwrap();
        let failed = send(&client, Method::GET, "").await.err().unwrap();
        assert!(failed.to_string().contains("which a server at a public address may not refer to"), "{failed}");
        proxy.request().await;
        assert!(proxy.is_quiet() && inside.is_quiet());
    }
    let moved = reply("302 Over there\nLocation: http://other.example/x", "");
    let mut proxy = FixtureServer::start(vec![moved, json("{}")]).await;
    let variables = |name: &str| (name == "http_proxy").then(|| format!("http://127.0.0.1:{}", proxy.port));
    let client = WebClient::open_with(&site("http://tools.example/mcp"), HttpVersion::Any, variables).await.unwrap();
    assert_eq!(send(&client, Method::GET, "").await.unwrap().status(), 200);
    proxy.request().await;
    assert_eq!(proxy.request().await.line(), "GET http://other.example/x HTTP/1.1");
}

#[tokio::test]
async fn a_name_leads_nowhere_that_its_address_may_not() {
    let mut inside = FixtureServer::start(vec![json("{}")]).await;
    let foreign = ForeignClients::new(&site("http://127.0.0.1:1/"), HttpVersion::Any, Proxies::default());
    // The check of names would already have rejected this one.
    let request =
        reqwest::Request::new(Method::GET, Url::parse(&format!("http://localhost:{}/", inside.port)).unwrap());
    let client = foreign.client(ClientRoute::Guarded(Zone::Public), request.url()).await.unwrap();
    let error = soon(client.execute(request)).await.unwrap_err();
    let words = "a loopback address, which a server at a public address may not refer to";
    assert_eq!(errors::root_cause(&error), words);
    assert!(inside.is_quiet());
}

#[tokio::test]
async fn a_redirect_that_would_change_a_post_names_the_new_address() {
    for status in [301, 302, 303] {
        let server = FixtureServer::start(vec![reply(
            &format!("{status} Moved\nLocation: https://me:word@new.example/mcp?key=1"),
            "",
        )])
        .await;
        let web = web(&site(&server.url())).await;
        let failed = send(&web, Method::POST, "hello").await.err().unwrap();
        let words = format!(
            "the server answered with HTTP status {status}: it redirects to https://new.example/mcp; use that address"
        );
        assert_eq!(failed.to_string(), words);
    }
}

#[tokio::test]
async fn what_was_redirected_has_been_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nobody = listener.local_addr().unwrap();
    drop(listener);
    let server =
        FixtureServer::start(vec![reply(&format!("307 Over there\nLocation: http://me:word@{nobody}/x?y"), "")]).await;
    let web = web(&site(&server.url())).await;
    let failed = send(&web, Method::GET, "").await.err().unwrap();
    assert_eq!(failed, RequestError::sent(Failure::Connect(format!("connection refused (http://{nobody}/x)"))));
}

#[tokio::test]
async fn a_get_follows_every_redirect_but_not_for_ever() {
    let moved = |status: u16| reply(&format!("{status} Moved\nLocation: next"), "");
    let server =
        FixtureServer::start(vec![moved(301), moved(302), moved(303), moved(307), moved(308), json("{}")]).await;
    let client = web(&site(&server.url())).await;
    assert_eq!(send(&client, Method::GET, "").await.unwrap().status(), 200);
    let server = FixtureServer::start((0..6).map(|_| moved(302)).collect()).await;
    let client = web(&site(&server.url())).await;
    let failed = send(&client, Method::GET, "").await.err().unwrap();
    assert!(failed.to_string().contains("it redirects more than 5 times, last to http://127.0.0.1:"), "{failed}");
}
