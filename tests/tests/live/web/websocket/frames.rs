//! The server side of a WebSocket (RFC 6455), as far as the tests need it: whole text frames and the close frame.

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use crate::fixtures::LONG;
use crate::web::server::{Seen, hear};

/// The server's end.
pub struct Socket {
    /// The request that opened it.
    pub handshake: Seen,
    read: BufReader<OwnedReadHalf>,
    write: OwnedWriteHalf,
}

impl Socket {
    /// Takes the next connection and shakes hands.
    pub async fn accept(listener: &TcpListener) -> Socket {
        let (stream, _) = listener.accept().await.unwrap();
        let (read, mut write) = stream.into_split();
        let mut read = BufReader::new(read);
        let handshake = hear(&mut read).await.unwrap();
        let key = format!("{}258EAFA5-E914-47DA-95CA-C5AB0DC85B11", handshake.header("sec-websocket-key"));
        let accept = base64(&sha1(key.as_bytes()));
        let head = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n";
        let text = format!("{head}Sec-WebSocket-Protocol: mcp\r\nSec-WebSocket-Accept: {accept}\r\n\r\n");
        write.write_all(text.as_bytes()).await.unwrap();
        Socket { handshake, read, write }
    }

    /// The next message; none is the end, after a goodbye that is answered.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            let (kind, payload) = tokio::time::timeout(LONG, self.frame()).await.unwrap()?;
            match kind {
                TEXT => return Some(serde_json::from_slice(&payload).unwrap()),
                CLOSE => {
                    self.write(CLOSE, &payload).await;
                    return None;
                }
                _ => {}
            }
        }
    }

    /// Sends a message.
    pub async fn send(&mut self, message: &Value) {
        self.write(TEXT, message.to_string().as_bytes()).await;
    }

    async fn frame(&mut self) -> Option<(u8, Vec<u8>)> {
        let mut head = [0; 2];
        self.read.read_exact(&mut head).await.ok()?;
        let length = match head[1] & 0x7f {
            126 => usize::from(self.read.read_u16().await.ok()?),
            127 => usize::try_from(self.read.read_u64().await.ok()?).unwrap(),
            short => usize::from(short),
        };
        assert!(head[0] & 0x80 != 0 && head[1] & 0x80 != 0, "a whole frame, and masked");
        let mut mask = [0; 4];
        self.read.read_exact(&mut mask).await.ok()?;
        let mut payload = vec![0; length];
        self.read.read_exact(&mut payload).await.ok()?;
        payload.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
        Some((head[0] & 0x0f, payload))
    }

    async fn write(&mut self, kind: u8, payload: &[u8]) {
        let mut frame = vec![0x80 | kind];
        match payload.len() {
            short @ 0..=125 => frame.push(short as u8),
            length => {
                frame.push(126);
                frame.extend(u16::try_from(length).expect("tests send little").to_be_bytes());
            }
        }
        frame.extend(payload);
        self.write.write_all(&frame).await.unwrap();
    }
}

/// The handshake wants this sum and nothing else in the tests does, so it is not worth a dependency (RFC 3174).
fn sha1(data: &[u8]) -> [u8; 20] {
    let mut padded = data.to_vec();
    padded.push(0x80);
    padded.resize((padded.len() + 8).next_multiple_of(64) - 8, 0);
    padded.extend((data.len() as u64 * 8).to_be_bytes());
    let mut state: [u32; 5] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
    for block in padded.chunks_exact(64) {
        let mut words: Vec<u32> =
            block.chunks_exact(4).map(|word| u32::from_be_bytes(word.try_into().unwrap())).collect();
        for n in 16..80 {
            words.push((words[n - 3] ^ words[n - 8] ^ words[n - 14] ^ words[n - 16]).rotate_left(1));
        }
        let [mut a, mut b, mut c, mut d, mut e] = state;
        for (n, word) in words.iter().enumerate() {
            let (mixed, constant) = match n / 20 {
                0 => ((b & c) | (!b & d), 0x5a82_7999),
                1 => (b ^ c ^ d, 0x6ed9_eba1),
                2 => ((b & c) | (b & d) | (c & d), 0x8f1b_bcdc),
                _ => (b ^ c ^ d, 0xca62_c1d6),
            };
            let next = a.rotate_left(5).wrapping_add(mixed).wrapping_add(e).wrapping_add(constant).wrapping_add(*word);
            (a, b, c, d, e) = (next, a, b.rotate_left(30), c, d);
        }
        for (sum, part) in state.iter_mut().zip([a, b, c, d, e]) {
            *sum = sum.wrapping_add(part);
        }
    }
    let mut sum = [0; 20];
    sum.chunks_exact_mut(4).zip(state).for_each(|(bytes, word)| bytes.copy_from_slice(&word.to_be_bytes()));
    sum
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for part in bytes.chunks(3) {
        let word = part.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - part.len()));
        for place in 0..4 {
            let letter = LETTERS[(word >> (18 - 6 * place)) as usize & 0x3f] as char;
            text.push(if place <= part.len() { letter } else { '=' });
        }
    }
    text
}

const TEXT: u8 = 1;
const CLOSE: u8 = 8;
