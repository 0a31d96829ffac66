//! HTTP with Server-Sent Events (2024-11-05): one stream of events from the server, and a POST for each message to it.

use std::sync::Arc;

use bytes::Bytes;
use http::Method;
use http::header::{self, HeaderMap, HeaderValue};
use reqwest::{Response, Url};

use super::connection::{BoxFuture, Delivery, Outgoing, Receive, Transport};
use super::events::{SseEvent, SseParser};
use super::receiver::{ClosableReceiver, ConnectionTasks};
use super::streamable::answer;
use crate::failure::{Failure, RequestError};
use crate::web::body::{self, BodyKind};
use crate::web::errors::{connect_error, http_failure, protocol_error};
use crate::web::site::RemoteSite;
use crate::web::{HttpVersion, WebClient, WebRequest, address, reach};

/// Opens the stream and waits for the endpoint of messages.
pub(super) async fn open(site: &RemoteSite, receiver: Arc<dyn Receive>) -> Result<Arc<dyn Transport>, RequestError> {
    let web = WebClient::open(site, HttpVersion::Any).await?;
    // Whatever fails here, no request of a caller has been sent yet.
    let unsent = |failed: RequestError| RequestError::unsent(failed.failure);
    let mut stream = Stream::open(&web).await.map_err(unsent)?;
    let (endpoint, early) = stream.endpoint(web.address()).await.map_err(unsent)?;
    let receiver = Arc::new(ClosableReceiver::new(receiver));
    for text in early {
        receiver.receive(text.into(), None);
    }
    let mut headers = web.headers().clone();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    let tasks = ConnectionTasks::default();
    tasks.spawn(stream.run(receiver.clone()));
    Ok(Arc::new(Sse { web, endpoint, headers, receiver, tasks }))
}

struct Sse {
    web: WebClient,
    endpoint: Url,
    headers: HeaderMap,
    receiver: Arc<ClosableReceiver>,
    /// The task that reads the stream, and the rest of responses.
    tasks: ConnectionTasks,
}

impl Sse {
    async fn post(&self, message: Outgoing) -> Result<Delivery, RequestError> {
        self.receiver.check_open()?;
        let headers = || self.headers.clone();
        let (body, repeatable) = (Bytes::from(message.text), message.repeatable);
        let request = WebRequest::new(Method::POST, &self.endpoint, &headers);
        let response = self.web.send(WebRequest { body, repeatable, ..request }).await?;
        if !response.status().is_success() {
            // The session id is in the URL.
            let error = answer::read_error(response, true, &self.web).await;
            return error.deliver(message.request, &self.receiver);
        }
        self.tasks.finish_or_spawn(body::drain(response));
        Ok(Delivery::Written)
    }
}

impl Transport for Sse {
    fn send(&self, message: Outgoing) -> BoxFuture<'_, Result<Delivery, RequestError>> {
        Box::pin(self.post(message))
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.tasks.shutdown().await;
            self.receiver.close(Failure::Closed);
        })
    }
}

/// The stream of events.
struct Stream {
    response: Response,
    parser: SseParser,
}

impl Stream {
    async fn open(web: &WebClient) -> Result<Self, RequestError> {
        let headers = || {
            let mut headers = web.headers().clone();
            headers.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
            headers
        };
        let response = web.send(WebRequest::new(Method::GET, web.address(), &headers)).await?;
        if !response.status().is_success() {
            return Err(http_failure(web.failed_answer(response, false).await));
        }
        body::check_encoding(&response)?;
        let kind = match body::body_kind(&response) {
            BodyKind::Events => {
                return Ok(Stream { response, parser: SseParser::new(web.max_message_bytes()) });
            }
            BodyKind::Json => "application/json".to_owned(),
            BodyKind::Unspecified => "unknown".to_owned(),
            BodyKind::Other(kind) => kind,
        };
        Err(web.unexpected_kind(&kind, response).await)
    }

    /// Reads until the server names the endpoint of messages; also returns the messages that came before it.
    async fn endpoint(&mut self, site: &Url) -> Result<(Url, Vec<String>), RequestError> {
        let mut endpoint = None;
        let mut early = Vec::new();
        while let Some(chunk) = body::next(&mut self.response).await? {
            self.push(&chunk, |event| match event.name.as_str() {
                "endpoint" => _ = endpoint.get_or_insert(event.data),
                _ if event.is_message() => early.push(event.data),
                _ => {}
            })?;
            if let Some(endpoint) = &endpoint {
                return Ok((self.resolve(endpoint, site)?, early));
            }
        }
        Err(protocol_error("the stream ended before it named an endpoint"))
    }

    /// Resolves the endpoint of messages. The stream may have been redirected, but messages go only to the site.
    fn resolve(&self, endpoint: &str, site: &Url) -> Result<Url, RequestError> {
        let url = self.response.url().join(endpoint.trim());
        let url = url.map_err(|error| connect_error(format!("the endpoint is not an address: {error}")))?;
        if !reach::may_carry_messages(site, &url) {
            let (from, to) = (address::display_url(site), address::display_url(&url));
            return Err(connect_error(format!("{from} wants messages sent to another origin, {to}")));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(connect_error("the endpoint has a login in its address"));
        }
        Ok(url)
    }

    async fn run(mut self, receiver: Arc<ClosableReceiver>) {
        let mut read = async || -> Result<(), RequestError> {
            while let Some(chunk) = body::next(&mut self.response).await? {
                self.push(&chunk, |event| {
                    if event.is_message() {
                        receiver.receive(event.data.into(), None);
                    }
                })?;
            }
            Ok(())
        };
        // Reconnecting would be a new session, which is not decided here.
        let why = read().await.err().map_or(Failure::Closed, |failed| failed.failure);
        receiver.close(why);
    }

    fn push(&mut self, chunk: &[u8], on_event: impl FnMut(SseEvent)) -> Result<(), RequestError> {
        self.parser.push(chunk, on_event).map_err(|_| body::too_large("an event", self.parser.max))
    }
}

#[cfg(test)]
mod tests;
