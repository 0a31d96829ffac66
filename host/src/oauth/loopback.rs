//! Receives the OAuth redirect with a small HTTP server on the loopback address (RFC 8252 §7.3).

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response, StatusCode, header};
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

/// Opens a URL in a browser, if possible.
type OpenUrl = dyn Fn(&str) -> io::Result<()> + Send + Sync;

/// Waits for the redirect on a local port.
pub struct Loopback {
    listener: TcpListener,
    address: SocketAddr,
    limit: Duration,
    open: Box<OpenUrl>,
}

impl Loopback {
    /// Listens on this port, or on any free one; `open` sends a person to a URL.
    pub async fn bind(
        port: Option<u16>,
        limit: Duration,
        open: impl Fn(&str) -> io::Result<()> + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port.unwrap_or(0))).await?;
        let address = listener.local_addr()?;
        Ok(Loopback { listener, address, limit, open: Box::new(open) })
    }

    /// Serves requests until one of them is the redirect with this state.
    async fn wait_for_callback(&self, state: Option<String>) -> Result<String, BrowseError> {
        let (found, mut answer) = mpsc::channel(1);
        let visitor = Arc::new(CallbackHandler { state, found });
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                Some(answer) = answer.recv() => {
                    // Let the browser load the page; abort connections that do not end.
                    drop(visitor);
                    let _ = tokio::time::timeout(FAREWELL, connections.join_all()).await;
                    return Ok(answer);
                }
                accepted = self.listener.accept() => {
                    // A connection that failed at once is not the redirect.
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
                        // The browser may disconnect early.
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

/// Answers the requests of the browser.
struct CallbackHandler {
    /// The state that the redirect must carry, so that nobody can forge it.
    state: Option<String>,
    found: mpsc::Sender<String>,
}

impl CallbackHandler {
    fn answer(&self, request: &Request<Incoming>) -> Response<String> {
        let uri = request.uri();
        let url = Url::parse(&format!("http://localhost{uri}")).ok();
        let Some(url) = url.filter(|url| url.path() == PATH && request.method() == http::Method::GET) else {
            return page(StatusCode::NOT_FOUND, "Not found.");
        };
        if parameter(&url, "state") != self.state {
            return page(StatusCode::BAD_REQUEST, "toolgate does not expect this answer.");
        }
        let text = match parameter(&url, "error") {
            Some(_) => "The authorization was not granted. toolgate shows the details.",
            None => "toolgate has received your answer. You can close this window.",
        };
        // Only the first redirect counts.
        let _ = self.found.try_send(url.query().unwrap_or_default().to_owned());
        page(StatusCode::OK, text)
    }
}

fn page(status: StatusCode, text: &str) -> Response<String> {
    let body = format!("<!doctype html><meta charset=utf-8><title>toolgate</title><p>{text}</p>\n");
    Response::builder()
        .status(status)
        .header(header::CONTENT_TYPE, "text/html; charset=utf-8")
        .header(header::CACHE_CONTROL, "no-store")
        // The URL of the page contains the code.
        .header(header::REFERRER_POLICY, "no-referrer")
        .body(body)
        .expect("these headers are valid")
}

/// Returns a query parameter of a URL.
pub(super) fn parameter(url: &Url, name: &str) -> Option<String> {
    url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

const PATH: &str = "/callback";
const HEAD: Duration = Duration::from_secs(10);
const FAREWELL: Duration = Duration::from_secs(1);
/// The maximum number of connections at a time; a browser opens a few.
const MOST: usize = 32;
