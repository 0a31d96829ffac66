mod flooding;
mod keeping;
mod redirects;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::fixture::*;
use super::site::Tls;
use super::*;
use crate::transport::endpoint::Endpoint;

async fn send(web: &WebClient, method: Method, body: &str) -> Result<Response, RequestError> {
    send_as(web, method, body, true).await
}

async fn send_as(web: &WebClient, method: Method, body: &str, repeatable: bool) -> Result<Response, RequestError> {
    let mut headers = web.headers().clone();
    for (name, value) in [
        ("accept", "application/json"),
        ("content-type", "application/json"),
        ("mcp-protocol-version", "2025-11-25"),
        ("mcp-session-id", "s1"),
        ("mcp-name", "secret-tool"),
    ] {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    let body = Bytes::from(body.to_owned());
    soon(web.send(WebRequest { method, url: web.address().clone(), headers: &|| headers.clone(), body, repeatable }))
        .await
}

async fn web(site: &RemoteSite) -> WebClient {
    WebClient::open(site, HttpVersion::Any).await.unwrap()
}

fn keyed(url: &str) -> RemoteSite {
    let mut site = site(url);
    site.headers = vec![("Authorization".to_owned(), "Bearer t0ken".to_owned()), ("X-Key".to_owned(), "k".to_owned())];
    site
}

#[tokio::test]
async fn an_answer_that_is_no_http_is_called_so_and_its_place_named() {
    let headers: String = (0..200).map(|n| format!("X-{n}: y\r\n")).collect();
    for (answer, how) in [
        ("\x15\x03\x01\0\x02\x02\x46", "; is it another service, or does it expect https? (http://127.0.0.1:"),
        ("SSH-2.0-OpenSSH_9.6\r\n", "; is it another service, or does it expect https? (http://127.0.0.1:"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 5\r\n\r\nok", "not valid HTTP: "),
        (&format!("HTTP/1.1 200 OK\r\n{headers}\r\n"), "its answer has too many headers, or too large ones"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\nok", "not valid HTTP: "),
    ] {
        let server =
            FixtureServer::start(vec![FixtureReply { text: answer.to_owned(), then: AfterReply::HangUp }]).await;
        let web = web(&site(&server.url())).await;
        let failed = match send(&web, Method::POST, "hello").await {
            Ok(response) => soon(body::text(response, 100)).await.unwrap_err(),
            Err(failed) => failed,
        };
        assert!(failed.sent && matches!(failed.failure, Failure::Protocol(_)), "{answer:?}: {failed:?}");
        let (told, place) = (failed.to_string(), format!("({})", server.url()));
        assert!(told.contains(how) && told.ends_with(&place), "{answer:?}: {told}");
    }
}

#[tokio::test]
async fn a_service_that_speaks_first_is_no_http() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let serve = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"220 mail.example ESMTP\r\n").await.unwrap();
        stream.read_to_end(&mut Vec::new()).await.ok();
    };
    let web = web(&site(&url)).await;
    let (failed, ()) = tokio::join!(send(&web, Method::POST, "hello"), serve);
    let told = failed.err().unwrap().to_string();
    assert!(told.contains("not valid HTTP") && told.contains("is it another service"), "{told}");
}

#[tokio::test]
async fn a_login_in_the_address_becomes_a_header() {
    let mut server = FixtureServer::start(vec![json("{}"), json("{}")]).await;
    let url = server.url().replace("http://", "http://me:w%40rd@");
    let client = web(&site(&url)).await;
    send(&client, Method::GET, "").await.unwrap();
    assert_eq!(server.request().await.header("authorization"), Some("Basic bWU6d0ByZA=="));
    let client = web(&keyed(&url)).await;
    send(&client, Method::GET, "").await.unwrap();
    assert_eq!(server.request().await.header("authorization"), Some("Bearer t0ken"), "the configured header wins");
}

#[tokio::test]
async fn a_refused_connection_says_so_without_secrets() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let web = web(&site(&format!("http://me:word@{address}/mcp?key=1"))).await;
    let failed = send(&web, Method::POST, "hello").await.err().unwrap();
    assert_eq!(failed, RequestError::unsent(Failure::Connect(format!("connection refused (http://{address}/mcp)"))));
}

#[tokio::test]
async fn a_header_that_is_none_is_named_without_its_value() {
    for (name, value) in [("X Key", "s3cret"), ("X-Key", "s3cret\n")] {
        let mut site = site("http://127.0.0.1:1/");
        site.headers = vec![(name.to_owned(), value.to_owned())];
        let failed = WebClient::open(&site, HttpVersion::Any).await.err().unwrap();
        assert!(
            !failed.sent && failed.to_string().contains(name) && !failed.to_string().contains("s3cret"),
            "{failed}"
        );
    }
}

#[tokio::test]
async fn a_forward_proxy_of_the_environment_is_used_but_not_for_this_machine() {
    let mut proxy = FixtureServer::start(vec![json("{}"), json("{}")]).await;
    let variables = |name: &str| match name {
        "http_proxy" => Some(format!("http://me:word@127.0.0.1:{}", proxy.port)),
        "NO_PROXY" => Some("direct.example".to_owned()),
        _ => None,
    };
    let client = WebClient::open_with(&site("http://tools.example/mcp"), HttpVersion::Any, variables).await.unwrap();
    send(&client, Method::POST, "hello").await.unwrap();
    let mut server = FixtureServer::start(vec![json("{}")]).await;
    let client = WebClient::open_with(&site(&server.url()), HttpVersion::Any, variables).await.unwrap();
    send(&client, Method::POST, "hello").await.unwrap();
    assert_eq!(server.request().await.line(), "POST /mcp HTTP/1.1");
    let seen = proxy.request().await;
    assert_eq!(seen.line(), "POST http://tools.example/mcp HTTP/1.1");
    assert_eq!(seen.header("proxy-authorization"), Some("Basic bWU6d29yZA=="));
    assert!(proxy.is_quiet());
}

#[tokio::test]
async fn a_bad_proxy_is_named_without_its_value() {
    let variables = |name: &str| (name == "ALL_PROXY").then(|| "http://me:word@[".to_owned());
    let failed = WebClient::open_with(&site("http://tools.example/"), HttpVersion::Any, variables).await.err().unwrap();
    assert_eq!(
        failed,
        RequestError::unsent(Failure::Connect("the variable ALL_PROXY is not a valid proxy URL".to_owned()))
    );
}

#[tokio::test]
async fn a_proxy_that_refuses_is_named_without_its_login() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nobody = listener.local_addr().unwrap().port();
    drop(listener);
    let refusing = FixtureServer::start(vec![
        reply("403 No\nContent-Type: text/plain", "not that one"),
        reply("407 No\nProxy-Authenticate: Basic", ""),
        reply("502 No", ""),
        reply("403 No", ""),
    ])
    .await;
    let told = async |url: &str, port: u16| {
        let variables = |name: &str| (name == "ALL_PROXY").then(|| format!("http://me:word@127.0.0.1:{port}"));
        let web = WebClient::open_with(&site(url), HttpVersion::Any, variables).await.unwrap();
        match send(&web, Method::POST, "hello").await {
            Ok(response) => web.failed_answer(response, false).await.to_string(),
            Err(failed) => failed.to_string(),
        }
    };
    let through = |port: u16| format!("through the proxy http://127.0.0.1:{port}");
    let place = format!("connection refused (http://tools.example/mcp {})", through(nobody));
    assert_eq!(told("http://tools.example/mcp", nobody).await, format!("cannot connect: {place}"));
    for how in [
        format!("403: not that one ({})", through(refusing.port)),
        format!("407: the proxy http://127.0.0.1:{} requires a login", refusing.port),
        format!("502: {}", through(refusing.port)),
    ] {
        let told = told("http://tools.example/mcp", refusing.port).await;
        assert!(told.ends_with(&how), "{told}");
    }
    let told = told("https://tools.example/mcp", refusing.port).await;
    assert!(told.ends_with(&format!("(https://tools.example/mcp {})", through(refusing.port))), "{told}");
}

/// A certificate authority and the certificates it signed, as files.
struct Pki {
    folder: tempfile::TempDir,
    config: Arc<rustls::ServerConfig>,
}

fn pki(wants_certificate: bool) -> Pki {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    // Authorities with the same name would be confused.
    params.distinguished_name.push(rcgen::DnType::CommonName, folder.path().to_str().unwrap());
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let signed = |names: Vec<String>| {
        let key = KeyPair::generate().unwrap();
        (CertificateParams::new(names).unwrap().signed_by(&key, &authority).unwrap(), key)
    };
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let (ours, our_key) = signed(vec!["client".to_owned()]);
    write("ca.pem", &authority.pem());
    write("client.pem", &ours.pem());
    write("client.key", &our_key.serialize_pem());
    write("both.pem", &format!("{}{}", our_key.serialize_pem(), ours.pem()));
    write("nothing.pem", "nothing");
    let (theirs, their_key) = signed(vec!["127.0.0.1".to_owned(), "tools.example".to_owned()]);
    let mut roots = rustls::RootCertStore::empty();
    roots.add(authority.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        rustls::ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions().unwrap();
    let builder = if wants_certificate {
        let verifier =
            rustls::server::WebPkiClientVerifier::builder_with_provider(roots.into(), provider).build().unwrap();
        builder.with_client_cert_verifier(verifier)
    } else {
        builder.with_no_client_auth()
    };
    let key = rustls::pki_types::PrivateKeyDer::try_from(their_key.serialize_der()).unwrap();
    let config = builder.with_single_cert(vec![theirs.der().clone()], key).unwrap();
    Pki { folder, config: Arc::new(config) }
}

impl Pki {
    fn file(&self, name: &str) -> Option<std::path::PathBuf> {
        Some(self.folder.path().join(name))
    }

    /// Serves TLS connections, each with one response; the client notices a failed handshake.
    async fn serve(&self) -> (String, tokio::task::JoinSet<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}/mcp", listener.local_addr().unwrap());
        let acceptor = TlsAcceptor::from(self.config.clone());
        let mut task = tokio::task::JoinSet::new();
        task.spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let Ok(mut stream) = acceptor.accept(stream).await else { continue };
                if read_request(&mut stream).await.is_some() {
                    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
                    stream.write_all(answer.as_bytes()).await.unwrap();
                    stream.flush().await.unwrap();
                }
            }
        });
        (url, task)
    }
}

async fn try_tls(url: &str, tls: Tls) -> Result<StatusCode, RequestError> {
    let mut site = site(url);
    site.tls = tls;
    let web = WebClient::open(&site, HttpVersion::Any).await?;
    send(&web, Method::POST, "hello").await.map(|response| response.status())
}

#[tokio::test]
async fn a_server_is_trusted_by_its_authority_or_unchecked() {
    let pki = pki(false);
    let (url, _task) = pki.serve().await;
    let trusting = Tls { ca: pki.file("ca.pem"), ..Tls::default() };
    assert_eq!(try_tls(&url, trusting).await, Ok(StatusCode::OK));
    assert_eq!(try_tls(&url, Tls { verify: false, ..Tls::default() }).await, Ok(StatusCode::OK));
    let other = self::pki(false);
    let failed = try_tls(&url, Tls { ca: other.file("ca.pem"), ..Tls::default() }).await.unwrap_err();
    assert!(
        !failed.sent && failed.to_string().contains("unknown authority; name its authority as ca (https://127.0.0.1:"),
        "{failed}"
    );
}

/// Creates a server with a self-signed certificate.
fn self_signed(is_ca: IsCa) -> Pki {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned(), "tools.example".to_owned()]).unwrap();
    params.is_ca = is_ca;
    let certificate = params.self_signed(&key).unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("ca.pem"), certificate.pem()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = builder.with_no_client_auth().with_single_cert(vec![certificate.der().clone()], key).unwrap();
    Pki { folder, config: Arc::new(config) }
}

#[tokio::test]
async fn a_certificate_signed_by_itself_is_trusted_by_name_or_what_is_wrong_with_it_is_told() {
    let pki = self_signed(IsCa::ExplicitNoCa);
    let (url, _task) = pki.serve().await;
    let trusting = Tls { ca: pki.file("ca.pem"), ..Tls::default() };
    assert_eq!(try_tls(&url, trusting.clone()).await, Ok(StatusCode::OK));
    let told = try_tls(&url.replace("127.0.0.1", "localhost"), trusting).await.unwrap_err().to_string();
    assert!(told.contains("the server's certificate is not for localhost, but for "), "{told}");
    assert!(told.contains("tools.example") && !told.contains("DnsName"), "{told}");
    let pki = self_signed(IsCa::Ca(BasicConstraints::Unconstrained));
    let (url, _task) = pki.serve().await;
    let told = try_tls(&url, Tls { ca: pki.file("ca.pem"), ..Tls::default() }).await.unwrap_err().to_string();
    assert!(told.contains("(CA:TRUE), which no server may use; make one with CA:FALSE, and name it as ca"), "{told}");
}

#[tokio::test]
async fn tls_to_a_server_that_speaks_none_is_called_so() {
    let bad = "HTTP/1.1 400 Bad Request\r\n\r\n";
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/mcp", listener.local_addr().unwrap());
    let serve = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(bad.as_bytes()).await.unwrap();
        stream.read_to_end(&mut Vec::new()).await.ok();
    };
    let (tried, ()) = tokio::join!(try_tls(&url, Tls::default()), serve);
    let told = tried.unwrap_err().to_string();
    assert!(told.contains("does not speak TLS; is it http rather than https? (https://127.0.0.1:"), "{told}");
}

#[tokio::test]
async fn a_client_certificate_is_shown_from_one_file_or_two() {
    let pki = pki(true);
    let (url, _task) = pki.serve().await;
    let ca = pki.file("ca.pem");
    let two = Tls {
        ca: ca.clone(),
        client_certificate: pki.file("client.pem"),
        client_key: pki.file("client.key"),
        verify: true,
    };
    assert_eq!(try_tls(&url, two).await, Ok(StatusCode::OK));
    let one = Tls { ca: ca.clone(), client_certificate: pki.file("both.pem"), client_key: None, verify: true };
    assert_eq!(try_tls(&url, one).await, Ok(StatusCode::OK));
    let none = try_tls(&url, Tls { ca, ..Tls::default() }).await.unwrap_err();
    assert!(matches!(none.failure, Failure::Connect(_) | Failure::Closed), "{none}");
}

#[tokio::test]
async fn a_bad_file_is_named() {
    let pki = pki(false);
    let check = async |tls: Tls, file: &str, what: &str| {
        for url in ["https://127.0.0.1:1/", "http://127.0.0.1:1/"] {
            let failed = try_tls(url, tls.clone()).await.unwrap_err();
            let path = pki.file(file).unwrap();
            let expected = format!("cannot connect: {}: {what}", Path::display(&path));
            assert_eq!((failed.sent, failed.to_string()), (false, expected));
        }
    };
    let tls = Tls::default;
    check(Tls { ca: pki.file("none.pem"), ..tls() }, "none.pem", "no such file or directory").await;
    check(Tls { ca: pki.file("nothing.pem"), ..tls() }, "nothing.pem", "it holds no certificate in PEM form").await;
    let no_key = "it holds no private key in PEM form, or an encrypted one";
    check(Tls { client_certificate: pki.file("client.pem"), ..tls() }, "client.pem", no_key).await;
    let bad = Tls { client_certificate: pki.file("client.pem"), client_key: pki.file("nothing.pem"), ..tls() };
    check(bad, "nothing.pem", no_key).await;
}

#[tokio::test]
async fn tls_goes_through_a_tunnel_of_the_proxy() {
    let pki = pki(false);
    let (url, _task) = pki.serve().await;
    let target = url.strip_prefix("https://").and_then(|rest| rest.strip_suffix("/mcp")).unwrap().to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let tunnel = tokio::spawn(async move {
        let (mut client, _) = listener.accept().await.unwrap();
        let (head, _) = read_request(&mut client).await.unwrap();
        let mut server = tokio::net::TcpStream::connect(target).await.unwrap();
        client.write_all(b"HTTP/1.1 200 Connected\r\n\r\n").await.unwrap();
        tokio::io::copy_bidirectional(&mut client, &mut server).await.ok();
        head
    });
    let variables = |name: &str| (name == "HTTPS_PROXY").then(|| format!("http://127.0.0.1:{port}"));
    let mut site = site("https://tools.example/mcp");
    site.tls.ca = pki.file("ca.pem");
    let web = WebClient::open_with(&site, HttpVersion::Any, variables).await.unwrap();
    let response = send(&web, Method::POST, "hello").await.unwrap();
    assert_eq!(response.status(), 200);
    drop((response, web));
    assert!(soon(tunnel).await.unwrap().starts_with("CONNECT tools.example:443 HTTP/1.1"));
}

#[tokio::test]
async fn a_connection_that_takes_too_long_is_unsent() {
    // A listener with a full queue does not answer; TLS to a silent server has the same effect and is portable.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut site = site(&format!("https://{}/mcp", listener.local_addr().unwrap()));
    site.tls.verify = false;
    site.connect_timeout = Duration::from_millis(50);
    let web = web(&site).await;
    let failed = send(&web, Method::POST, "hello").await.err().unwrap();
    assert!(!failed.sent && failed.to_string().starts_with("cannot connect: no connection within 50ms"), "{failed}");
    let (mut stream, _) = listener.accept().await.unwrap();
    soon(stream.read_to_end(&mut Vec::new())).await.ok();
}

#[tokio::test]
async fn a_websocket_shares_the_client_and_keeps_to_http_1() {
    let mut pki = pki(true);
    let config = Arc::get_mut(&mut pki.config).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let acceptor = TlsAcceptor::from(pki.config.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut site = site(&format!("wss://{}/ws", listener.local_addr().unwrap()));
    site.tls = Tls { ca: pki.file("ca.pem"), client_certificate: pki.file("both.pem"), client_key: None, verify: true };
    let serve = async {
        let (stream, _) = listener.accept().await.unwrap();
        let stream = acceptor.accept(stream).await.unwrap();
        let mut socket = tokio_tungstenite::accept_async(stream).await.unwrap();
        let message = socket.next().await.unwrap().unwrap();
        socket.send(message).await.unwrap();
        socket
    };
    let (receiver, mut inbox) = TestInbox::new();
    let echo = async {
        let transport = crate::transport::open(&Endpoint::WebSocket(site), receiver).await.unwrap();
        transport.send(request(1, "{\"id\":1}")).await.unwrap();
        (inbox.message().await, transport)
    };
    let ((message, _transport), _socket) = soon(async { tokio::join!(echo, serve) }).await;
    assert_eq!(message.0, "{\"id\":1}");
}
