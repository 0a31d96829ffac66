//! Numbers of bytes as people write them: `64MiB`, `500 kB`, or a plain number.

/// Parses a number of bytes.
pub fn parse(text: &str) -> Result<u64, String> {
    let unreadable = || format!("expected an amount of bytes such as \"64MiB\" or 1048576, found {text:?}");
    let trimmed = text.trim();
    let digits = trimmed.find(|next: char| !next.is_ascii_digit()).unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(digits);
    let number: u64 = number.parse().map_err(|_| unreadable())?;
    let factor = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" => 1000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        _ => return Err(unreadable()),
    };
    number.checked_mul(factor).ok_or_else(unreadable)
}

/// Formats a number of bytes in the shortest exact way.
pub fn write(bytes: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.iter().find(|(size, _)| bytes >= *size && bytes.is_multiple_of(*size)) {
        Some((size, unit)) => format!("{}{unit}", bytes / size),
        None => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_as_people_write_them() {
        let rows = [
            ("0", Some(0)),
            ("1048576", Some(1 << 20)),
            ("64MiB", Some(64 << 20)),
            ("64 mib", Some(64 << 20)),
            ("500kB", Some(500_000)),
            ("1G", Some(1 << 30)),
            ("", None),
            ("-1", None),
            ("1.5MiB", None),
            ("12 apples", None),
            ("99999999999GiB", None),
        ];
        for (text, expected) in rows {
            assert_eq!(parse(text).ok(), expected, "{text:?}");
        }
        for bytes in [0, 1, 1024, 1 << 20, (1 << 20) + 1, 3 << 30] {
            assert_eq!(parse(&write(bytes)), Ok(bytes));
        }
    }
}
