//! Splits messages into frames, so that the write buffer is bounded whatever the server reads.
//!
//! Tungstenite puts answers to pings into the write buffer. A server that sends pings and reads nothing would make that
//! buffer grow without end, so it is limited. Messages longer than the limit are sent in several frames.

use bytes::Bytes;
use futures_util::SinkExt;
use futures_util::stream::SplitSink;
use reqwest::Upgraded;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::tungstenite::{Error, Message};

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

/// The longest frame that we send: half of the write buffer.
pub(super) const LONGEST: usize = 1 << 20;
/// Small, because there may be many idle connections; large messages are read in several pieces.
const READ_BUFFER: usize = 16 * 1024;
