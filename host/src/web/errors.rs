//! Errors of requests as helpful texts without secrets.

mod tls;

use std::error::Error;
use std::io;
use std::time::{Duration, SystemTime};

use super::send_error::SendError;
use crate::calendar;
use crate::failure::{Failure, HttpError, RequestError};

/// Creates the error of a request that could not be sent.
pub(crate) fn connect_error(why: impl Into<String>) -> RequestError {
    RequestError::unsent(Failure::Connect(why.into()))
}

/// Creates the error of a response that breaks the protocol.
pub(crate) fn protocol_error(how: impl Into<String>) -> RequestError {
    RequestError::sent(Failure::Protocol(how.into()))
}

/// Creates the error of a request that was answered with an HTTP error.
pub(crate) fn http_failure(error: HttpError) -> RequestError {
    RequestError::sent(Failure::Http(error))
}

/// Describes why a request got no response; `address` is its target as text.
pub(super) fn send_error(error: &SendError, address: &str, connect_timeout: Duration) -> RequestError {
    if let SendError::TooManyInterim { .. } = error {
        return protocol_error(format!("{error} ({address})"));
    }
    if had_connection(error) {
        return RequestError { sent: !is_unread(error), failure: read_error(error, address) };
    }
    let why = match tls::cause(error) {
        None if error.is_timeout() => format!("no connection within {connect_timeout:?}"),
        _ => root_cause(error),
    };
    connect_error(format!("{why} ({address})"))
}

/// Reports whether the connection ended before a response came.
pub(super) fn is_lost(error: &SendError) -> bool {
    let flooded = matches!(error, SendError::TooManyInterim { .. });
    had_connection(error) && !flooded && unreadable(error, "").is_none()
}

/// Reports whether there was a connection for the request.
fn had_connection(error: &SendError) -> bool {
    // With TLS 1.3, a server rejects a client certificate, or its absence, only after we began to send; it has read
    // nothing.
    let refused = tls::cause(error).is_some_and(tls::refuses_us);
    !error.is_connect() && !refused && !error.is_builder()
}

/// Reports whether the server says that it did not process the request (RFC 9113 §8.7), or nothing of it was written.
fn is_unread(error: &SendError) -> bool {
    causes(error).any(|error| {
        let refused = error.downcast_ref::<h2::Error>().is_some_and(|error| {
            // GOAWAY is the error only of requests that came too late.
            error.is_remote() && (error.is_go_away() || error.reason() == Some(h2::Reason::REFUSED_STREAM))
        });
        refused || error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_canceled)
    })
}

/// Converts an error while reading: the connection ended, or the response is not HTTP.
pub(super) fn read_error(error: &(dyn Error + 'static), address: &str) -> Failure {
    match unreadable(error, address) {
        Some(how) => Failure::Protocol(format!("{how} ({address})")),
        None => Failure::Closed,
    }
}

/// Describes what is wrong with a response that is not HTTP.
fn unreadable(error: &(dyn Error + 'static), address: &str) -> Option<String> {
    if tls::cause(error).is_some() {
        return None;
    }
    let found = causes(error).filter_map(|error| error.downcast_ref::<hyper::Error>()).last()?;
    if found.is_parse_too_large() {
        return Some("its answer has too many headers, or too large ones".to_owned());
    }
    let kind = found.source().and_then(|cause| cause.downcast_ref::<io::Error>()).map(io::Error::kind);
    let malformed = matches!(kind, Some(io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData));
    // The server sent data before the request. hyper has no method to ask for that, so this excludes all other cases.
    let ended = found.is_incomplete_message() || found.is_closed() || found.is_canceled() || found.is_timeout();
    let ours = found.is_user() || found.is_shutdown() || found.is_body_write_aborted();
    let unasked = !found.is_parse() && !ended && !ours && found.source().is_none();
    if !found.is_parse() && !malformed && !unasked {
        return None;
    }
    let words = lower_first(&root_cause(found));
    // Data that does not even start like HTTP comes from another service.
    let else_there = match unasked || words.contains("version") {
        true if address.starts_with("http://") => "; is it another service, or does it expect https?",
        true if address.starts_with("ws://") => "; is it another service, or does it expect wss?",
        true => "; is it another service?",
        false => "",
    };
    Some(format!("its answer is not valid HTTP: {words}{else_there}"))
}

/// Returns the innermost cause; the outer ones only say that something failed.
pub(crate) fn root_cause(error: &(dyn Error + 'static)) -> String {
    if let Some(tls) = tls::cause(error) {
        return tls::in_words(tls);
    }
    let cause = innermost(error);
    match cause.downcast_ref::<io::Error>() {
        Some(error) => in_words(error),
        None => cause.to_string(),
    }
}

/// Returns the cause that has no cause.
pub(crate) fn innermost<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    causes(error).last().unwrap_or(error)
}

/// Returns the error and its causes.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

/// Returns the text of a system error, without its number.
pub(super) fn in_words(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((words, _)) => lower_first(words),
        None => text,
    }
}

/// Parses `Retry-After`: seconds, or a date (RFC 9110 §10.2.3). A date in the past means no wait.
pub(super) fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // A number that is too large means for ever.
        return Some(value.parse().map_or(Duration::MAX, Duration::from_secs));
    }
    Some(http_date(value)?.duration_since(now).unwrap_or_default())
}

/// Parses a date such as `Sun, 06 Nov 1994 08:49:37 GMT`.
fn http_date(text: &str) -> Option<SystemTime> {
    let words: Vec<&str> = text.strip_suffix(" GMT")?.split_once(", ")?.1.split(' ').collect();
    let [day, month, year, clock] = words[..] else { return None };
    let month = MONTHS.iter().position(|name| *name == month)? + 1;
    calendar::parse(&format!("{year}-{month:02}-{day}T{clock}Z"))
}

pub(crate) fn lower_first(words: &str) -> String {
    let mut chars = words.chars();
    chars.next().map(|first| first.to_ascii_lowercase()).into_iter().chain(chars).collect()
}

/// How much of a body to show is read: more than is kept, so that a secret at the cut is complete.
pub(crate) const BODY: usize = SHOWN + 16 * 1024;

/// How much of an error response's body is kept.
pub(super) const SHOWN: usize = 2048;

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retry_time_is_seconds_or_a_date() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        let check = |value: &str, wait: Option<u64>| {
            assert_eq!(retry_after(value, now), wait.map(Duration::from_secs), "{value}");
        };
        check("120", Some(120));
        check("Sun, 06 Nov 1994 08:49:37 GMT", Some(0));
        check("Sun, 06 Nov 1994 08:50:37 GMT", Some(60));
        check("Tue, 29 Feb 2000 00:00:00 GMT", Some(951_782_400 - 784_111_777));
        check("Sat, 05 Nov 1994 08:49:37 GMT", Some(0));
        check("soon", None);
        check("-1", None);
        check("", None);
        assert_eq!(retry_after("99999999999999999999", now), Some(Duration::MAX));
        check("Sun, 06 Nox 1994 08:49:37 GMT", None);
        check("Sun, 99 Nov 1994 08:49:37 GMT", None);
    }

    #[test]
    fn errors_of_the_system_are_shown_without_their_numbers() {
        assert_eq!(in_words(&io::Error::from_raw_os_error(2)), "no such file or directory");
        assert_eq!(in_words(&io::Error::other("Odd")), "Odd");
    }
}
