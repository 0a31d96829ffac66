//! Finds out whether a site keeps connections open after a response, as HTTP/1.1 does, or closes them without notice.
//!
//! A request sent on a connection that is just being closed may have arrived or not. A second response on one
//! connection shows that the site keeps connections. Until then, requests that must not arrive twice use a new
//! connection each, and repeatable ones probe: they are sent again if the connection is lost.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

use http::{Extensions, Version};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpInfo;
use reqwest::{Client, Request, Response};
use tracing::debug;

use super::{ConnectionReuse, WebClient, errors, site_client};
use crate::failure::RequestError;

/// Whether a site keeps connections open, as far as known.
#[derive(Default)]
pub(super) struct KeepAlive {
    habit: AtomicU8,
    /// Our local addresses of the connections that had a response, while nothing else is known.
    answered: Mutex<Vec<SocketAddr>>,
}

const UNKNOWN: u8 = 0;
const KEEPS: u8 = 1;
const CLOSES: u8 = 2;

impl KeepAlive {
    /// Creates the state for a site that is known to keep connections.
    pub(super) fn assumed() -> Self {
        KeepAlive { habit: AtomicU8::new(KEEPS), ..KeepAlive::default() }
    }

    /// Reports whether a request may reuse a connection.
    fn may_share(&self, repeatable: bool) -> bool {
        match self.habit.load(Ordering::Relaxed) {
            KEEPS => true,
            CLOSES => false,
            _ => repeatable,
        }
    }

    /// Notes a response; if it is the second on its connection, the site keeps connections.
    fn note_response(&self, response: &Response) {
        if self.habit.load(Ordering::Relaxed) != UNKNOWN {
            return;
        }
        let kept = match response.extensions().get::<HttpInfo>() {
            Some(connection) if response.version() < Version::HTTP_2 => !self.is_first(connection.local_addr()),
            // HTTP/2 has many requests on one connection; or the connections cannot be told apart.
            _ => true,
        };
        if kept {
            self.habit.store(KEEPS, Ordering::Relaxed);
        }
    }

    fn is_first(&self, end: SocketAddr) -> bool {
        let mut answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        let first = !answered.contains(&end);
        if first && answered.len() < MOST {
            answered.push(end);
        }
        first
    }

    /// Reports whether a lost connection had a response before, as far as known.
    fn had_answered(&self, lost: &reqwest::Error) -> bool {
        if self.habit.load(Ordering::Relaxed) == KEEPS {
            return true;
        }
        let cause = std::error::Error::source(lost).and_then(|cause| cause.downcast_ref::<legacy::Error>());
        let mut found = Extensions::new();
        if let Some(connection) = cause.and_then(legacy::Error::connect_info) {
            connection.get_extras(&mut found);
        }
        let answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        found.get::<HttpInfo>().is_some_and(|connection| answered.contains(&connection.local_addr()))
    }

    /// Notes that a connection was lost after its response, and a new one worked.
    fn note_closed(&self) {
        // Once the site is known to keep connections, a single lost one changes nothing.
        let _ = self.habit.compare_exchange(UNKNOWN, CLOSES, Ordering::Relaxed, Ordering::Relaxed);
    }
}

impl WebClient {
    /// Sends a request to the site itself; if the connection was lost and the request is repeatable, sends it again on
    /// a new one.
    pub(super) async fn send_to_site(
        &self,
        request: Request,
        repeatable: bool,
    ) -> Result<Result<Response, reqwest::Error>, RequestError> {
        if !self.keep_alive.may_share(repeatable) {
            return Ok(self.single_use_client().await?.execute(request).await);
        }
        let again = if repeatable { request.try_clone() } else { None };
        let error = match self.client.execute(request).await {
            Ok(response) => {
                self.keep_alive.note_response(&response);
                return Ok(Ok(response));
            }
            Err(error) => error,
        };
        let Some(again) = again.filter(|_| errors::is_lost(&error) && self.keep_alive.had_answered(&error)) else {
            return Ok(Err(error));
        };
        debug!("a connection was closed after an answer; asking on a new one");
        let outcome = self.single_use_client().await?.execute(again).await;
        if outcome.is_ok() {
            self.keep_alive.note_closed();
        }
        Ok(outcome)
    }

    /// Returns the client that uses each connection for one request.
    async fn single_use_client(&self) -> Result<&Client, RequestError> {
        if let Some(client) = self.single_use_client.get() {
            return Ok(client);
        }
        let client = site_client(
            &self.site,
            &self.address,
            self.version,
            self.foreign_clients.proxies(),
            ConnectionReuse::Closed,
        )
        .await?;
        Ok(self.single_use_client.get_or_init(|| client))
    }
}

/// How many connections are remembered; a session opens only a few at a time at its beginning.
const MOST: usize = 16;
