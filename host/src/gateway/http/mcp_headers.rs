//! Reads the MCP headers of a POST.

use http::header::HeaderName;
use http::{HeaderMap, HeaderValue, StatusCode};

use crate::gateway::client::McpHeaders;
use crate::gateway::refusal::RequestRefusal;
use crate::rpc::code::UNSUPPORTED_VERSION;
use crate::rpc::header::{self, METHOD, NAME, PARAM_PREFIX, VERSION};

/// Reads the MCP headers.
pub(super) fn read(headers: &HeaderMap) -> McpHeaders {
    let text = |name: HeaderName| headers.get(name).and_then(|value| std::str::from_utf8(value.as_bytes()).ok());
    // A value that is not UTF-8 matches no argument.
    let lossy = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let params = headers.iter().filter(|(name, _)| name.as_str().starts_with(PARAM_PREFIX));
    McpHeaders {
        version: text(VERSION).map(str::to_owned),
        method: text(METHOD).map(str::to_owned),
        // A name that cannot be decoded matches nothing, so it is kept as it is.
        name: text(NAME).map(|name| header::decode(name).unwrap_or_else(|| name.to_owned())),
        selection: headers.get(SELECTION).map(lossy),
        params: params.map(|(name, value)| (name.as_str().to_owned(), lossy(value))).collect(),
    }
}

/// The header with the client's choice of servers and tools.
const SELECTION: HeaderName = HeaderName::from_static("toolgate-selection");

/// The era that the protocol version header claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VersionClaim {
    /// There is no header.
    Missing,
    /// A version with sessions; `primed` if it has an event without data at the start of a stream.
    Legacy { primed: bool },
    /// 2026-07-28 or later.
    Modern,
    /// An unknown version.
    Unknown,
}

impl VersionClaim {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        match headers.get(VERSION).map(|value| value.as_bytes()) {
            None => VersionClaim::Missing,
            Some(b"2024-11-05" | b"2025-03-26" | b"2025-06-18") => VersionClaim::Legacy { primed: false },
            Some(b"2025-11-25") => VersionClaim::Legacy { primed: true },
            // A future version gets the refusal that this era defines.
            Some(version) if is_date(version) && version >= &b"2026-07-28"[..] => VersionClaim::Modern,
            Some(_) => VersionClaim::Unknown,
        }
    }

    /// Refuses an unknown version (2025-11-25, transports, protocol version header).
    pub(super) fn check_known(self) -> Result<(), RequestRefusal> {
        if self != VersionClaim::Unknown {
            return Ok(());
        }
        let message = "unknown MCP-Protocol-Version: send 2026-07-28, or the version that initialize returned";
        Err(RequestRefusal::new(StatusCode::BAD_REQUEST, message).code(UNSUPPORTED_VERSION))
    }
}

fn is_date(version: &[u8]) -> bool {
    version.len() == 10
        && version
            .iter()
            .enumerate()
            .all(|(at, byte)| if at == 4 || at == 7 { *byte == b'-' } else { byte.is_ascii_digit() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_header_claims_an_era() {
        let claim = |version: &str| VersionClaim::of(&HeaderMap::from_iter([(VERSION, version.parse().unwrap())]));
        assert_eq!(claim("2026-07-28"), VersionClaim::Modern);
        assert_eq!(claim("2027-01-01"), VersionClaim::Modern);
        assert_eq!(claim("2025-11-25"), VersionClaim::Legacy { primed: true });
        assert_eq!(claim("2024-11-05"), VersionClaim::Legacy { primed: false });
        assert_eq!(claim("2026-07-27"), VersionClaim::Unknown);
        assert_eq!(claim("draft-2026"), VersionClaim::Unknown);
        assert_eq!(VersionClaim::of(&HeaderMap::new()), VersionClaim::Missing);
    }

    #[test]
    fn a_name_is_decoded() {
        for (name, expected) in [("add", "add"), ("=?base64?w6RkZA==?=", "ädd"), ("=?base64?!?=", "=?base64?!?=")] {
            let headers = HeaderMap::from_iter([(NAME, name.parse().unwrap())]);
            assert_eq!(read(&headers).name.as_deref(), Some(expected));
        }
    }
}
