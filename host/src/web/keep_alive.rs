//! Finds out whether a site keeps connections open after a response, as HTTP/1.1 does, or closes them without notice.
//!
//! A request sent on a connection that is just being closed may have arrived or not. A second response on one
//! connection shows that the site keeps connections. Until then, requests that must not arrive twice use a new
//! connection each, and repeatable ones probe: they are sent again if the connection is lost.

use std::net::SocketAddr;
use std::sync::Mutex;

use http::{Extensions, Version};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpInfo;
use reqwest::Response;

use super::send_error::SendError;
use crate::lock::lock;

/// Whether a site keeps connections open, as far as known.
#[derive(Default)]
pub(super) struct KeepAlive(Mutex<KeepAliveState>);

#[derive(Default)]
struct KeepAliveState {
    /// Whether the site keeps connections; `None` if that is not known.
    keeps: Option<bool>,
    /// Our local addresses of the connections that had a response, while nothing else is known.
    answered: Vec<SocketAddr>,
}

impl KeepAlive {
    /// Creates the state for a site that is known to keep connections.
    pub(super) fn assumed() -> Self {
        KeepAlive(Mutex::new(KeepAliveState { keeps: Some(true), answered: Vec::new() }))
    }

    /// Reports whether a request may reuse a connection.
    pub(super) fn may_share(&self, repeatable: bool) -> bool {
        lock(&self.0).keeps.unwrap_or(repeatable)
    }

    /// Notes a response; if it is the second on its connection, the site keeps connections.
    pub(super) fn note_response(&self, response: &Response) {
        let mut state = lock(&self.0);
        if state.keeps.is_some() {
            return;
        }
        // HTTP/2 has many requests on one connection.
        let connection = response.extensions().get::<HttpInfo>().filter(|_| response.version() < Version::HTTP_2);
        match connection.map(HttpInfo::local_addr) {
            Some(end) if !state.answered.contains(&end) => {
                if state.answered.len() < MOST {
                    state.answered.push(end);
                }
            }
            // It is the second one, or connections cannot be told apart.
            _ => state.keeps = Some(true),
        }
    }

    /// Reports whether a lost connection had a response before, as far as known.
    pub(super) fn had_answered(&self, lost: &SendError) -> bool {
        let state = lock(&self.0);
        if state.keeps == Some(true) {
            return true;
        }
        let mut found = Extensions::new();
        if let Some(connection) = lost.pool_error().and_then(legacy::Error::connect_info) {
            connection.get_extras(&mut found);
        }
        found.get::<HttpInfo>().is_some_and(|connection| state.answered.contains(&connection.local_addr()))
    }

    /// Notes that a connection was lost after its response, and a new one worked.
    pub(super) fn note_closed(&self) {
        // Once the site is known to keep connections, a single lost one changes nothing.
        lock(&self.0).keeps.get_or_insert(false);
    }
}

/// How many connections are remembered; a session opens only a few at a time at its beginning.
const MOST: usize = 16;
