//! Texts in which keys, quotes, brackets and secrets meet more often than chance would have it.

#[path = "../../guest/src/masking/tests/pieces.rs"]
mod pieces;

use pieces::PIECES;

/// A text: each byte of ASCII is itself, each other one a piece.
pub fn draw(data: &[u8]) -> String {
    let mut text = String::with_capacity(4 * data.len());
    for byte in data {
        match byte.checked_sub(128) {
            Some(piece) => text.push_str(PIECES[usize::from(piece) % PIECES.len()]),
            None => text.push(char::from(*byte)),
        }
    }
    text
}
