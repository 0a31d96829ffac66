//! A person is sent back to this machine: a small HTTP server on the loopback address hears it (RFC 8252 §7.3).

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::header::{self, HeaderValue};
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use url::Url;

use super::{Browse, BrowseError};
use crate::transport::BoxFuture;

/// Brings a person to an address, if it can.
type OpenUrl = dyn Fn(&str) -> io::Result<()> + Send + Sync;

/// Waits on this machine for a person to be sent back.
pub struct Loopback {
    listener: TcpListener,
    address: SocketAddr,
    limit: Duration,
    open: Box<OpenUrl>,
}

impl Loopback {
    /// Listens on this port, or on any free one. `open` brings a person to an address.
    pub async fn bind(
        port: Option<u16>,
        limit: Duration,
        open: impl Fn(&str) -> io::Result<()> + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port.unwrap_or(0))).await?;
        let address = listener.local_addr()?;
        Ok(Loopback { listener, address, limit, open: Box::new(open) })
    }

    /// Hears requests until one of them is the answer to the question that went out with this state.
    async fn wait_for_callback(&self, state: Option<String>) -> Result<String, BrowseError> {
        let (found, mut answer) = mpsc::channel(1);
        let visitor = Arc::new(CallbackHandler { state, found });
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                Some(answer) = answer.recv() => {
                    // The browser is to see the page; what does not end by itself is dropped.
                    drop(visitor);
                    let _ = tokio::time::timeout(FAREWELL, connections.join_all()).await;
                    return Ok(answer);
                }
                accepted = self.listener.accept() => {
                    // One that broke off at once is not the one that we wait for.
                    let Ok((stream, _)) = accepted else { continue };
                    if connections.len() >= MOST {
                        connections.abort_all();
                    }
                    while connections.try_join_next().is_some() {}
                    let visitor = Arc::clone(&visitor);
                    connections.spawn(async move {
                        let service = service_fn(|request| {
                            let response = visitor.answer(&request);
                            async move { Ok::<_, Infallible>(response) }
                        });
                        let mut builder = http1::Builder::new();
                        builder.timer(TokioTimer::new()).header_read_timeout(HEAD).keep_alive(false);
                        // A browser that goes away has seen enough.
                        let _ = builder.serve_connection(TokioIo::new(stream), service).await;
                    });
                }
            }
        }
    }
}

impl Browse for Loopback {
    fn redirect_uri(&self) -> String {
        format!("http://{}{PATH}", self.address)
    }

    fn browse<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<String, BrowseError>> {
        Box::pin(async move {
            (self.open)(url).map_err(|error| BrowseError::Impossible(error.to_string()))?;
            let state = Url::parse(url).ok().and_then(|url| parameter(&url, "state"));
            let heard = tokio::time::timeout(self.limit, self.wait_for_callback(state)).await;
            heard.unwrap_or(Err(BrowseError::TimedOut(self.limit)))
        })
    }
}

/// Answers whoever comes.
struct CallbackHandler {
    /// What the answer has to carry, so that nobody else can give it.
    state: Option<String>,
    found: mpsc::Sender<String>,
}

impl CallbackHandler {
    fn answer(&self, request: &Request<Incoming>) -> Response<String> {
        let uri = request.uri();
        let url = Url::parse(&format!("http://localhost{uri}")).ok();
        let Some(url) = url.filter(|url| url.path() == PATH && request.method() == http::Method::GET) else {
            return page(StatusCode::NOT_FOUND, "There is nothing here.");
        };
        if parameter(&url, "state") != self.state {
            return page(StatusCode::BAD_REQUEST, "This is not the answer that toolgate waits for.");
        }
        let text = match parameter(&url, "error") {
            Some(_) => "The authorization was not given. toolgate says more.",
            None => "toolgate has got your answer. You can close this window.",
        };
        // A second answer is one too many.
        let _ = self.found.try_send(url.query().unwrap_or_default().to_owned());
        page(StatusCode::OK, text)
    }
}

fn page(status: StatusCode, text: &str) -> Response<String> {
    let body = format!("<!doctype html><meta charset=utf-8><title>toolgate</title><p>{text}</p>\n");
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // The address holds the code.
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

/// A parameter of an address.
pub(super) fn parameter(url: &Url, name: &str) -> Option<String> {
    url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

const PATH: &str = "/callback";
const HEAD: Duration = Duration::from_secs(10);
const FAREWELL: Duration = Duration::from_secs(1);
/// How many connections are kept at a time; a browser opens a few.
const MOST: usize = 32;
