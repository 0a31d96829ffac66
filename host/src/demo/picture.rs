//! A small picture of a gate, as a PNG.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// Returns the picture as a content block.
pub(super) fn content() -> Value {
    json!({"type": "image", "mimeType": "image/png", "data": STANDARD.encode(png())})
}

/// Encodes the picture with four colours, two bits per pixel and no compression: small, and without a codec.
fn png() -> Vec<u8> {
    let side = (DRAWING.len() * SCALE) as u32;
    let mut header = [side.to_be_bytes(), side.to_be_bytes()].concat();
    // Two bits per pixel, with a palette; then the standard compression, filter and interlacing.
    header.extend([2, 3, 0, 0, 0]);
    let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
    for (kind, data) in [(b"IHDR", header), (b"PLTE", PALETTE.concat()), (b"IDAT", zlib(&points())), (b"IEND", vec![])]
    {
        let body = [&kind[..], &data].concat();
        png.extend((data.len() as u32).to_be_bytes());
        png.extend(&body);
        png.extend(crc(&body).to_be_bytes());
    }
    png
}

/// Returns the rows of pixels, each after its filter byte, which is 0.
fn points() -> Vec<u8> {
    let row = |line: &&str| {
        let colours = line.bytes().map(|sign| SIGNS.iter().position(|other| *other == sign).unwrap_or(0) as u8);
        let points: Vec<u8> = colours.flat_map(|colour| [colour; SCALE]).collect();
        let packed = points.chunks(4).map(|four| four.iter().fold(0, |byte, colour| byte << 2 | colour));
        let row: Vec<u8> = std::iter::once(0).chain(packed).collect();
        row.repeat(SCALE)
    };
    DRAWING.iter().flat_map(row).collect()
}

/// Wraps data in a zlib stream of one stored block (RFC 1950, RFC 1951 §3.2.4).
fn zlib(data: &[u8]) -> Vec<u8> {
    let length = u16::try_from(data.len()).expect("the drawing is far smaller than a block");
    let (low, high) = data.iter().fold((1u32, 0u32), |(low, high), byte| {
        let low = (low + u32::from(*byte)) % 65_521;
        (low, (high + low) % 65_521)
    });
    let mut stream = vec![0x78, 0x01, 0x01];
    stream.extend(length.to_le_bytes());
    stream.extend((!length).to_le_bytes());
    stream.extend(data);
    stream.extend((high << 16 | low).to_be_bytes());
    stream
}

/// Computes the CRC of PNG (annex D) bit by bit, which is fast enough for a kilobyte.
fn crc(data: &[u8]) -> u32 {
    !data.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 })
    })
}

/// The side of the square, in pixels, that each character of the drawing becomes.
const SCALE: usize = 4;

/// The characters of the drawing, in the order of the palette.
const SIGNS: &[u8; 4] = b" .#o";

/// Sky, ground, gate, lamp.
const PALETTE: [[u8; 3]; 4] = [[0xe8, 0xf1, 0xf8], [0x7a, 0xa8, 0x6b], [0x3b, 0x4a, 0x5e], [0xf2, 0xb7, 0x3c]];

const DRAWING: [&str; 16] = [
    "                ",
    "       o        ",
    "      ###       ",
    "   #########    ",
    "  ###########   ",
    "  ##  # #  ##   ",
    "  #   # #   #   ",
    "  # # # # # #   ",
    "  # # # # # #   ",
    "  ###########   ",
    "  # # # # # #   ",
    "  # # #o# # #   ",
    "  # # # # # #   ",
    "  # # # # # #   ",
    "................",
    "................",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_the_standards() {
        assert_eq!(crc(b"123456789"), 0xcbf4_3926);
        assert_eq!(zlib(b"Wikipedia")[16..], 0x11e6_0398_u32.to_be_bytes());
    }

    #[test]
    fn the_drawing_is_square_and_of_known_signs() {
        for line in DRAWING {
            assert_eq!(line.len(), DRAWING.len(), "{line}");
            assert!(line.bytes().all(|sign| SIGNS.contains(&sign)), "{line}");
        }
    }
}
