//! Parsers of the gateway's addresses: where it listens, its host names, and the origins of web pages.

use std::net::{IpAddr, SocketAddr};

use url::Url;

use super::super::super::field::{ConfigField, FieldError};

/// Reads a host and a port to listen on.
pub(super) fn read_listen_address(field: &ConfigField<'_>) -> Result<String, FieldError> {
    let text = field.text()?;
    let named = |(name, port): (&str, &str)| {
        is_name(name) && port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok()
    };
    if text.parse::<SocketAddr>().is_ok() || text.rsplit_once(':').is_some_and(named) {
        return Ok(text);
    }
    Err(field.error(format!("expected an address and a port, such as \"127.0.0.1:8808\", found {text:?}")))
}

/// Reads a host name of the gateway: in lower case, and an IPv6 address without its brackets.
pub(super) fn host(field: &ConfigField<'_>) -> Result<String, FieldError> {
    let text = field.text()?;
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(&text);
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Ok(address.to_string());
    }
    if is_name(&text) {
        return Ok(text.to_ascii_lowercase());
    }
    let expected = "expected the name or address of a host alone, such as \"tools.example.com\"";
    Err(field.error(format!("{expected}, found {text:?}")))
}

/// Reads the origin of a web page as a browser sends it: scheme, host, and a port other than the default.
pub(super) fn origin(field: &ConfigField<'_>) -> Result<String, FieldError> {
    let text = field.text()?;
    let expected = || {
        let expected = "expected the scheme and host of a page, such as \"https://app.example.com\"";
        field.error(format!("{expected}, found {text:?}"))
    };
    if text.contains('*') {
        return Err(field.error(format!("{text:?} would allow pages that are not listed; write each origin out")));
    }
    let url = Url::parse(text.strip_suffix('/').unwrap_or(&text)).map_err(|_| expected())?;
    let beyond = !matches!(url.path(), "" | "/") || url.query().is_some() || url.fragment().is_some();
    let user = !url.username().is_empty() || url.password().is_some();
    if url.host_str().is_none_or(str::is_empty) || beyond || user {
        return Err(expected());
    }
    Ok(match url.scheme() {
        "http" | "https" => url.origin().ascii_serialization(),
        // For example the pages of an extension or a desktop program.
        _ => url.as_str().to_owned(),
    })
}

/// Reports whether the text is a host name; one that ends with a number would be an address.
fn is_name(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let label = |label: &str| !label.is_empty() && label.bytes().all(allowed);
    let last = text.rsplit('.').next().unwrap_or_default();
    text.split('.').all(label) && !last.bytes().all(|byte| byte.is_ascii_digit())
}
