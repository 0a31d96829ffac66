//! `toolgate dashboard`: shows the page of a running gateway in a browser, also of one on standard input and output.
//!
//! A gateway serves its page to the user on its socket, which browsers cannot open. So this command listens on a port
//! of the loopback interface for as long as it runs, and passes requests on. It is the same HTTP server as that of a
//! gateway, with its checks of host and origin, and only the token in the printed URL opens more than the empty page.

use std::io::IsTerminal;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::config::secrets::Secrets;
use crate::config::variables::Variables;
use crate::failure::{RequestError, format_chain};
use crate::gate::GateError;
use crate::gateway::Choice;
use crate::gateway::client::{ClientFactory, ClientHandler, ClientSink, Principal};
use crate::gateway::http::{
    HttpOptions, HttpServer, PageBody, PageEvent, PageHandler, PageRequest, PageResponse, Tokens,
};
use crate::gateway::replica::Replica;
use crate::gateway::session_terms::SessionTerms;
use crate::gateway::socket;
use crate::lock::lock;
use crate::private_files;
use crate::store::Store;
use crate::transport::BoxFuture;
use crate::transport::events::SseParser;
use crate::web::{WebClient, WebRequest, body};
use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use reqwest::Response;
use tokio::sync::mpsc;

use super::error::CliError;
use super::remote::{GatewayArgs, RemoteGateway};
use super::style;
use super::{browser, printer};

/// The arguments of `toolgate dashboard`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Print the URL instead of opening a browser
    #[arg(long)]
    no_browser: bool,
    // Last, because its help heading applies to all options that follow.
    #[command(flatten)]
    gateway: GatewayArgs,
}

/// Serves the page until a signal arrives.
pub(super) async fn run(args: &Args, secrets: &Arc<Mutex<Secrets>>) -> Result<ExitCode, CliError> {
    let remote = RemoteGateway::find(&args.gateway, LIMIT, secrets).await?;
    // The page would only show this error.
    remote.get("api/v1/servers").await?;
    let (token, tokens) = Tokens::draw().ok_or_else(|| CliError::usage("the system has no random numbers"))?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = HttpServer::bind(HttpOptions { tokens, ..HttpOptions::new(address) }).await;
    let server = server.map_err(|error| CliError::Usage(format_chain(&error)))?;
    // After the `#`, which browsers do not send.
    let url = format!("http://{}/#token={token}", server.address());
    let name = style::clean(&remote.name);
    printer::print_plain(format!("{url}\n").as_bytes())?;
    lock(secrets).add(&token);
    let is_opened = !args.no_browser && (std::io::stderr().is_terminal() || std::env::var_os("BROWSER").is_some());
    // Removed when the command ends.
    let _page = is_opened.then(|| open(&url)).flatten();
    style::write_note(&format!("this is the page of the gateway at {name}; Ctrl-C ends it, not the gateway"));
    let web = Arc::new(remote.into_client());
    server
        .serve(Arc::new(NoMcp(Replica::new(&[], Store::default()))), Arc::new(Forwarder(web)), std::future::pending())
        .await;
    Ok(ExitCode::SUCCESS)
}

/// Opens the URL in the browser. Other users of the machine see the arguments of programs, so the browser gets the name
/// of a page that only this user can read, and that leads to the URL.
fn open(url: &str) -> Option<RedirectPage> {
    let opened = RedirectPage::write(url).and_then(|page| browser::open(&page.0.to_string_lossy()).map(|()| page));
    let note = |error: &std::io::Error| {
        style::write_note(&format!("no browser can be opened ({error}); go to the URL above"));
    };
    opened.inspect_err(note).ok()
}

/// A private page that leads to a URL; dropping it removes the file.
struct RedirectPage(PathBuf);

impl RedirectPage {
    fn write(url: &str) -> std::io::Result<Self> {
        let folder = socket::folder(&Variables::from_process());
        private_files::ensure_folder(&folder)?;
        let file = folder.join(format!("dashboard-{}.html", std::process::id()));
        let page = format!(
            "<!doctype html><meta charset=\"utf-8\"><title>toolgate</title>\
             <script>location.replace(\"{url}\")</script><a href=\"{url}\">toolgate</a>\n"
        );
        private_files::replace(&file, page.as_bytes())?;
        Ok(RedirectPage(file))
    }
}

impl Drop for RedirectPage {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Passes requests for pages on to a gateway, which takes them for the user's own.
struct Forwarder(Arc<WebClient>);

impl PageHandler for Forwarder {
    fn answer(&self, request: PageRequest) -> BoxFuture<'static, Option<PageResponse>> {
        let web = Arc::clone(&self.0);
        Box::pin(async move {
            // The gateway asks the user's own socket for no token, so this listener must.
            if request.principal.is_none() && request.path != "/" {
                let text = "this needs the token of the URL that `toolgate dashboard` printed";
                return Some(PageResponse::text(StatusCode::UNAUTHORIZED, "text/plain", text));
            }
            let failed = |error: &dyn std::fmt::Display| {
                let text = format!("the gateway does not answer: {error}");
                PageResponse::text(StatusCode::BAD_GATEWAY, "text/plain; charset=utf-8", text)
            };
            Some(match forward(&web, request).await {
                Ok(response) => response,
                Err(error) => failed(&error),
            })
        })
    }

    fn accepts_body(&self, method: &Method, _path: &str, principal: &Principal) -> bool {
        principal.admin && method == Method::POST
    }
}

async fn forward(web: &WebClient, request: PageRequest) -> Result<PageResponse, RequestError> {
    let mut url = web.address().clone();
    url.set_path(&request.path);
    url.set_query(request.query.as_deref());
    let kind = request.headers.get(header::CONTENT_TYPE).cloned();
    let headers = || {
        let mut headers: HeaderMap = web.headers().clone();
        headers.extend(kind.clone().map(|kind| (header::CONTENT_TYPE, kind)));
        headers
    };
    let ask = WebRequest { body: request.body, ..WebRequest::new(request.method, &url, &headers) };
    let response = web.send(ask).await?;
    let status = response.status();
    let is_events =
        response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(EVENTS));
    let kept = response.headers().iter().filter(|(name, _)| PASSED.contains(name));
    let mut headers: Vec<(HeaderName, HeaderValue)> = kept.map(|(name, value)| (name.clone(), value.clone())).collect();
    let body = if is_events {
        // The content type of events is set by the server.
        headers.retain(|(name, _)| name != header::CONTENT_TYPE);
        PageBody::Events(events(response))
    } else {
        let text = body::text(response, web.max_message_bytes()).await?;
        PageBody::Bytes(Bytes::from(text))
    };
    Ok(PageResponse { status, headers, body })
}

/// Passes events on until either side ends.
fn events(mut response: Response) -> mpsc::Receiver<PageEvent> {
    let (sender, receiver) = mpsc::channel(4);
    tokio::spawn(async move {
        let mut parser = SseParser::new(MOST_OF_EVENT);
        loop {
            let chunk = tokio::select! {
                () = sender.closed() => return,
                chunk = response.chunk() => chunk,
            };
            let Ok(Some(chunk)) = chunk else { return };
            let mut found = Vec::new();
            let read = parser.push(&chunk, |event| found.push(event));
            for event in found {
                let name = Some(event.name).filter(|name| !name.is_empty());
                if sender.send(PageEvent { name, data: event.data }).await.is_err() {
                    return;
                }
            }
            if read.is_err() {
                return;
            }
        }
    });
    receiver
}

/// Refuses clients of MCP: this listener is for the page alone.
struct NoMcp(Arc<Replica>);

impl ClientFactory for NoMcp {
    fn open_client(&self, _: &Principal, _: &str, _: Arc<dyn ClientSink>) -> Result<Arc<dyn ClientHandler>, GateError> {
        Err(GateError::Closed)
    }

    fn resume_client(
        &self,
        _: &Principal,
        _: &str,
        _: &SessionTerms,
        _: Arc<dyn ClientSink>,
    ) -> Result<Arc<dyn ClientHandler>, GateError> {
        Err(GateError::Closed)
    }

    fn stateless_client(&self, _: &Principal, _: Option<Choice>) -> Result<Arc<dyn ClientHandler>, GateError> {
        Err(GateError::Closed)
    }

    fn stateless_clients(&self) -> Vec<Arc<dyn ClientHandler>> {
        Vec::new()
    }

    fn replica(&self) -> &Arc<Replica> {
        &self.0
    }
}

/// The headers of a page that the browser must get.
const PASSED: [HeaderName; 6] = [
    header::CONTENT_TYPE,
    header::CACHE_CONTROL,
    header::CONTENT_SECURITY_POLICY,
    header::REFERRER_POLICY,
    header::X_CONTENT_TYPE_OPTIONS,
    header::X_FRAME_OPTIONS,
];
const EVENTS: &[u8] = b"text/event-stream";
/// Events of the gateway only say what changed.
const MOST_OF_EVENT: usize = 64 << 10;
/// How long the gateway may take to answer.
const LIMIT: Duration = Duration::from_secs(10);
