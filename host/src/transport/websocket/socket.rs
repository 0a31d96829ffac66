//! Opens a WebSocket, and sends messages over it as frames.

use bytes::Bytes;
use futures_util::SinkExt;
use futures_util::stream::SplitSink;
use http::header::{self, HeaderValue};
use http::{Method, StatusCode};
use reqwest::{Response, Upgraded};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::failure::{Failure, RequestError};
use crate::web::site::RemoteSite;
use crate::web::{HttpVersion, WebClient, WebRequest};

/// Connects and upgrades.
pub(super) async fn connect(site: &RemoteSite) -> Result<WebSocketStream<Upgraded>, RequestError> {
    let unsent = RequestError::unsent;
    let web = WebClient::open(site, HttpVersion::Http1).await?;
    let key = generate_key();
    let sent_key = HeaderValue::try_from(key.as_str()).map_err(|_| unsent(Failure::Closed))?;
    let mut headers = web.headers().clone();
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
    headers.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(PROTOCOL));
    headers.insert(header::SEC_WEBSOCKET_KEY, sent_key);
    let headers = || headers.clone();
    let request = WebRequest::new(Method::GET, web.address(), &headers);
    // Whatever fails here, no message has been sent yet.
    let response = web.send(request).await.map_err(|failed| unsent(failed.failure))?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        let led = (response.url() != web.address()).then(|| web.display_url(response.url()));
        let mut error = web.failed_answer(response, false).await;
        if let Some(led) = led {
            error.body = format!("it redirects to {led}, which is not a WebSocket: {}", error.body);
        }
        return Err(unsent(Failure::Http(error)));
    }
    check(&response, &key).map_err(|how| unsent(Failure::Protocol(how)))?;
    let upgraded = response.upgrade().await.map_err(|_| unsent(Failure::Closed))?;
    let config = config(site.max_message_bytes);
    Ok(WebSocketStream::from_raw_socket(upgraded, Role::Client, Some(config)).await)
}

fn check(response: &Response, key: &str) -> Result<(), String> {
    let text = |name| response.headers().get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    if !text(header::UPGRADE).is_some_and(|upgrade| upgrade.eq_ignore_ascii_case("websocket")) {
        return Err("it upgraded to something else than WebSocket".to_owned());
    }
    if text(header::SEC_WEBSOCKET_ACCEPT) != Some(derive_accept_key(key.as_bytes()).as_str()) {
        return Err("its Sec-WebSocket-Accept does not match our key".to_owned());
    }
    match text(header::SEC_WEBSOCKET_PROTOCOL) {
        // Many servers ignore subprotocols.
        None | Some(PROTOCOL) => Ok(()),
        Some(other) => Err(format!("it chose the subprotocol {other:?}, which was not offered")),
    }
}

/// The writing half of a connection.
pub(super) type Sink = SplitSink<WebSocketStream<Upgraded>, Message>;

/// Returns the limits of a connection with messages of up to this size.
pub(super) fn config(max_message_bytes: usize) -> WebSocketConfig {
    let max = Some(max_message_bytes);
    let config = WebSocketConfig::default().max_message_size(max).max_frame_size(max).read_buffer_size(READ_BUFFER);
    config.max_write_buffer_size(2 * LONGEST)
}

/// Sends a message in as many frames as needed.
pub(super) async fn send(sink: &mut Sink, text: String) -> Result<(), Error> {
    if text.len() <= LONGEST {
        return send_one(sink, Message::text(text)).await;
    }
    let mut rest = Bytes::from(text);
    let mut kind = Data::Text;
    while !rest.is_empty() {
        let part = rest.split_to(rest.len().min(LONGEST));
        let frame = Frame::message(part, OpCode::Data(kind), rest.is_empty());
        send_one(sink, Message::Frame(frame)).await?;
        kind = Data::Continue;
    }
    Ok(())
}

/// Sends one frame; if answers to pings have filled the buffer, flushes them first.
pub(super) async fn send_one(sink: &mut Sink, mut message: Message) -> Result<(), Error> {
    loop {
        match sink.send(message).await {
            Err(Error::WriteBufferFull(unsent)) => {
                sink.flush().await?;
                message = *unsent;
            }
            sent => return sent,
        }
    }
}

const PROTOCOL: &str = "mcp";
/// The longest frame that we send: half of the write buffer.
pub(super) const LONGEST: usize = 1 << 20;
/// Small, because there may be many idle connections; large messages are read in several pieces.
const READ_BUFFER: usize = 16 * 1024;
