//! Names and addresses of hosts: what programs take for one, and the host of a URL.

use std::net::Ipv6Addr;

/// Returns the host of a URL in lower case, with numbers as they are usually written; fails if programs could disagree
/// on it.
pub(super) fn host_of(url: &str) -> Result<String, String> {
    let odd = || "host takes a URL with a scheme and a plain host".to_owned();
    let (scheme, rest) = url.split_once("://").ok_or_else(odd)?;
    let is_scheme = scheme.starts_with(|sign: char| sign.is_ascii_alphabetic())
        && scheme.chars().all(|sign| sign.is_ascii_alphanumeric() || "+.-".contains(sign));
    let is_odd = url.contains('\\') || url.chars().any(|sign| sign.is_control() || sign.is_whitespace());
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let (name, port) = match authority.rfind(':') {
        Some(colon) if !authority.ends_with(']') => (&authority[..colon], &authority[colon + 1..]),
        _ => (authority, ""),
    };
    if !is_scheme || is_odd || !port.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(odd());
    }
    if let Some(inner) = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
        let address: Ipv6Addr = inner.parse().map_err(|_| odd())?;
        if has_ipv4_within(address) {
            return Err("host takes no IPv4 address that is written as one of IPv6".to_owned());
        }
        return Ok(format!("[{address}]"));
    }
    if !name.split('.').all(is_plain_label) {
        return Err(odd());
    }
    if ends_in_number(name) && !is_plain_ipv4(name) {
        return Err("host takes an IPv4 address only as four decimal numbers, such as 192.0.2.1".to_owned());
    }
    Ok(name.to_ascii_lowercase())
}

/// Reports whether programs connect to an IPv4 address when they are given this one.
fn has_ipv4_within(address: Ipv6Addr) -> bool {
    match address.segments() {
        [0, 0, 0, 0, 0, 0xffff, _, _] | [0x64, 0xff9b, ..] | [0x2002, ..] => true,
        // `::` and `::1` are the only ones of these that have a meaning of their own.
        [0, 0, 0, 0, 0, 0, high, low] => high != 0 || low > 1,
        _ => false,
    }
}

fn is_plain_label(label: &str) -> bool {
    !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

/// Reports whether programs take a name for a number because of its last part.
fn ends_in_number(name: &str) -> bool {
    name.rsplit('.').next().is_some_and(|last| number(last).is_some())
}

/// Reports whether a name is four numbers as they are usually written.
fn is_plain_ipv4(name: &str) -> bool {
    let parts: Vec<&str> = name.split('.').collect();
    parts.len() == 4 && parts.iter().all(|part| part.parse::<u8>().is_ok_and(|number| number.to_string() == **part))
}

/// Reports whether a name consists of numbers only.
pub(super) fn is_numeric(name: &str) -> bool {
    name.split('.').all(|part| number(part).is_some())
}

/// Reports whether a name of numbers is an IPv4 address to some program: up to four numbers, of which the last one
/// stands for all that are missing. A small number alone is more often just a number.
pub(super) fn is_ipv4(name: &str) -> bool {
    let Some(numbers) = name.split('.').map(number).collect::<Option<Vec<u64>>>() else { return false };
    let Some((last, others)) = numbers.split_last() else { return false };
    if others.len() > 3 || others.iter().any(|number| *number > 255) || *last >= 1 << (8 * (4 - others.len())) {
        return false;
    }
    !others.is_empty() || *last >= 1 << 24
}

/// Reads a decimal, octal or hexadecimal number as programs do in addresses.
fn number(text: &str) -> Option<u64> {
    if let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        return if digits.is_empty() { Some(0) } else { u64::from_str_radix(digits, 16).ok() };
    }
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let is_octal = text.len() > 1 && text.starts_with('0') && text.bytes().all(|byte| byte < b'8');
    // A number that is too long for an address is one all the same.
    u64::from_str_radix(text, if is_octal { 8 } else { 10 }).ok().or((!text.is_empty()).then_some(u64::MAX))
}

/// Reports whether a text is an IPv6 address, perhaps with brackets and the name of an interface.
pub(super) fn is_ipv6(text: &str) -> bool {
    let inner = text.strip_prefix('[').map_or(text, |inner| inner.split(']').next().unwrap_or(inner));
    let address = inner.split('%').next().unwrap_or(inner);
    address.contains(':') && address.parse::<Ipv6Addr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_of_a_url_is_what_every_program_connects_to() {
        for (url, expected) in [
            ("https://Example.com/a", Some("example.com")),
            ("https://example.com:8443?x", Some("example.com")),
            ("http://127.0.0.1/", Some("127.0.0.1")),
            ("http://[2001:DB8:0::1]:80/", Some("[2001:db8::1]")),
            ("http://[0:0:0:0:0:0:0:1]/", Some("[::1]")),
            ("http://localhost", Some("localhost")),
            ("https://1.example", Some("1.example")),
            ("http://127.1/", None),
            ("http://2130706433/", None),
            ("http://0x7f000001/", None),
            ("http://0x7f.1/", None),
            ("http://0X7F.0x0.0.0x1/", None),
            ("http://0177.0.0.1/", None),
            ("http://127.0.0.01/", None),
            ("http://127.000.000.001/", None),
            ("http://0/", None),
            ("http://0x/", None),
            ("http://00000/", None),
            ("http://1.2.3.4.5/", None),
            ("http://256.1.1.1/", None),
            ("http://example.1/", None),
            ("http://99999999999999999999999/", None),
            ("http://127.0.0.1./", None),
            ("http://[::ffff:127.0.0.1]/", None),
            ("http://[::ffff:7f00:1]/", None),
            ("http://[::127.0.0.1]/", None),
            ("http://[64:ff9b::7f00:1]/", None),
            ("http://[2002:7f00:1::]/", None),
            ("http://[::1%25lo]/", None),
            ("http://[::1]x/", None),
            ("http://[127.0.0.1]/", None),
            ("http://１２７.0.0.1/", None),
            ("http://a..b/", None),
            ("http://.a/", None),
            ("http:///a", None),
            ("http://u@a/", None),
            ("http://a\\b/", None),
            ("http://a\n/", None),
            ("http://%61/", None),
            ("//a/", None),
            ("a", None),
        ] {
            assert_eq!(host_of(url).ok().as_deref(), expected, "{url}");
        }
    }
}
