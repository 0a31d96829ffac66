//! How messages become frames, so that what waits to be written is bounded whatever the server reads.
//!
//! Tungstenite answers pings into the buffer that messages are written from. A server that sends pings and reads
//! nothing would let that buffer grow for ever, so it has an end. Messages that are longer than it go in several frames.

use bytes::Bytes;
use futures_util::SinkExt;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::Sink;

/// The bounds of a connection whose messages may be as long as this.
pub(super) fn config(max_message_bytes: usize) -> WebSocketConfig {
    let max = Some(max_message_bytes);
    let config = WebSocketConfig::default().max_message_size(max).max_frame_size(max).read_buffer_size(READ_BUFFER);
    config.max_write_buffer_size(2 * LONGEST)
}

/// Sends a message, in as many frames as it takes.
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

/// Sends one frame. Where answers to pings have filled the buffer, they are written first.
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

/// The longest frame that we send: half of what may wait to be written.
pub(super) const LONGEST: usize = 1 << 20;
/// Small, since there may be many connections that are idle; large messages are read in more pieces.
const READ_BUFFER: usize = 16 * 1024;
