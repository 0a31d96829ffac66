//! HTTP without TLS to a site that is reached directly, over TCP or a local socket.
//!
//! hyper skips interim responses (1xx) one after the other, as long as they come. A server that sends nothing else would
//! keep one of our threads busy: with the large reads of plain TCP, for seconds at a time. So this client counts them, by
//! a hook that `reqwest` does not pass on. Over TLS a read brings 16 KiB at most, so a flood keeps no thread for long, and
//! the time limit of the request ends it.

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::header::{self, HeaderValue};
use http::{HeaderMap, Uri};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::client::legacy::{self, ResponseFuture};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use reqwest::{Body, Request, Response, ResponseBuilderExt as _};
use tokio::net::UnixStream;
use tokio::sync::Notify;
use tokio::task::coop;
use tower_service::Service;

use super::client_builder::{IDLE, Pooling};
use super::reach::{Zone, admitted};
use super::send_error::{BoxError, ConnectTimeout, SendError};

/// A client for `http` alone, without a proxy.
pub(crate) enum DirectClient {
    /// Over TCP.
    Tcp(legacy::Client<TimedConnector<HttpConnector<ZoneLookup>>, Body>),
    /// Over a local socket, whatever the host is.
    Socket(legacy::Client<TimedConnector<SocketConnector>, Body>),
}

impl DirectClient {
    /// Creates a client that reaches any address, or, with a zone, those that a server of this zone may refer to.
    pub(super) fn over_tcp(zone: Option<Zone>, connect_timeout: Duration, pooling: Pooling) -> Self {
        let mut tcp = HttpConnector::new_with_resolver(ZoneLookup(zone));
        tcp.set_nodelay(true);
        // A peer that is gone without a word is noticed within a minute.
        tcp.set_keepalive(Some(KEEP_ALIVE));
        tcp.set_keepalive_interval(Some(KEEP_ALIVE));
        tcp.set_keepalive_retries(Some(KEEP_ALIVE_RETRIES));
        #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
        tcp.set_tcp_user_timeout(Some(2 * KEEP_ALIVE));
        DirectClient::Tcp(builder(pooling).build(TimedConnector { connector: tcp, limit: connect_timeout }))
    }

    /// Creates a client whose connections all lead to a local socket.
    pub(super) fn over_socket(path: PathBuf, connect_timeout: Duration, pooling: Pooling) -> Self {
        let connector = SocketConnector(path.into());
        DirectClient::Socket(builder(pooling).build(TimedConnector { connector, limit: connect_timeout }))
    }

    /// Sends a request, and returns the head of its response.
    pub(super) async fn execute(&self, request: Request) -> Result<Response, SendError> {
        let url = request.url().clone();
        let mut request = http::Request::try_from(request)?;
        request.headers_mut().entry(header::ACCEPT).or_insert(HeaderValue::from_static("*/*"));
        let interim = Arc::new(InterimCount::default());
        let counter = Arc::clone(&interim);
        hyper::ext::on_informational(&mut request, move |response| counter.note(response.headers()));
        // Dropping the request closes its connection.
        let response = tokio::select! {
            biased;
            () = interim.too_many.notified() => return Err(SendError::TooManyInterim { url: url.into() }),
            response = self.request(request) => response,
        };
        let (parts, body) = match response {
            Ok(response) => response.into_parts(),
            Err(error) => return Err(SendError::Direct { url: url.into(), error }),
        };
        let head = http::Response::builder().status(parts.status).version(parts.version).url(url);
        let mut response = head.body(Body::wrap(body)).expect("the parts are those of a response");
        *response.headers_mut() = parts.headers;
        response.extensions_mut().extend(parts.extensions);
        Ok(response.into())
    }

    fn request(&self, request: http::Request<Body>) -> ResponseFuture {
        match self {
            DirectClient::Tcp(client) => client.request(request),
            DirectClient::Socket(client) => client.request(request),
        }
    }
}

fn builder(pooling: Pooling) -> legacy::Builder {
    let mut builder = legacy::Client::builder(TokioExecutor::new());
    builder.timer(TokioTimer::new()).pool_timer(TokioTimer::new()).pool_idle_timeout(IDLE);
    if pooling == Pooling::SingleUse {
        builder.pool_max_idle_per_host(0);
    }
    builder
}

/// The interim responses to one request.
#[derive(Default)]
struct InterimCount {
    count: AtomicUsize,
    bytes: AtomicUsize,
    /// Notified when there are too many.
    too_many: Notify,
}

impl InterimCount {
    /// Counts a response, on the task of its connection.
    fn note(&self, headers: &HeaderMap) {
        let size: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        let count = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        let bytes = self.bytes.fetch_add(size, Ordering::Relaxed) + size;
        if count > MAX_INTERIM_RESPONSES || bytes > MAX_INTERIM_BYTES {
            self.too_many.notify_one();
            end_turn();
        }
    }
}

/// Uses up the budget of the running task, so that its next read yields: hyper checks only between two turns whether
/// anybody still waits for the response.
fn end_turn() {
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..MAX_TURN_STEPS {
        match coop::poll_proceed(&mut context) {
            Poll::Ready(step) => step.made_progress(),
            Poll::Pending => return,
        }
    }
}

/// Connects within a limit that includes finding the address.
#[derive(Clone)]
pub(crate) struct TimedConnector<C> {
    connector: C,
    limit: Duration,
}

impl<C> Service<Uri> for TimedConnector<C>
where
    C: Service<Uri, Error: Into<BoxError>, Future: Send + 'static>,
{
    type Response = C::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<C::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.connector.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, target: Uri) -> Self::Future {
        let connecting = tokio::time::timeout(self.limit, self.connector.call(target));
        Box::pin(async move {
            match connecting.await {
                Ok(connected) => connected.map_err(Into::into),
                Err(_) => Err(ConnectTimeout.into()),
            }
        })
    }
}

/// Connects to a local socket.
#[derive(Clone)]
pub(crate) struct SocketConnector(Arc<Path>);

impl Service<Uri> for SocketConnector {
    type Response = TokioIo<UnixStream>;
    type Error = std::io::Error;
    type Future = BoxFuture<'static, std::io::Result<TokioIo<UnixStream>>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let path = Arc::clone(&self.0);
        Box::pin(async move { UnixStream::connect(path).await.map(TokioIo::new) })
    }
}

/// Resolves names to any address, or to those that a server in this zone may refer to.
#[derive(Clone)]
pub(crate) struct ZoneLookup(Option<Zone>);

impl Service<Name> for ZoneLookup {
    type Response = std::vec::IntoIter<std::net::SocketAddr>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let zone = self.0;
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let found = match zone {
                Some(zone) => admitted(zone, found)?,
                None => found.collect(),
            };
            Ok(found.into_iter())
        })
    }
}

/// How many interim responses a server may send before its response: one that works for an hour may send one a second.
pub(super) const MAX_INTERIM_RESPONSES: usize = 4096;
/// How many bytes their headers may have together.
const MAX_INTERIM_BYTES: usize = 1 << 20;
/// No turn of a task has more steps in tokio, unless it has no limit at all.
const MAX_TURN_STEPS: usize = 256;
const KEEP_ALIVE: Duration = Duration::from_secs(15);
const KEEP_ALIVE_RETRIES: u32 = 3;
