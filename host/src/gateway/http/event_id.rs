//! The ids of events: which replica sent an event, on which of its streams, and which request the stream responds to.
//!
//! A client that has lost a stream names the last event that it got, to whichever replica the load balancer chooses. That
//! replica can then say what is lost.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::value::RawValue;

use crate::gateway::replica::ReplicaId;

/// The id of a stream.
#[derive(Debug, Clone)]
pub(super) struct StreamId {
    pub(super) replica: ReplicaId,
    /// The number of the stream in the process.
    pub(super) number: u64,
    /// The id of the request that the stream responds to, as JSON; the standalone stream of a session has none.
    pub(super) request: Option<Box<RawValue>>,
}

/// The id of an event.
pub(super) struct EventId<'a> {
    stream: &'a StreamId,
    number: u64,
}

impl StreamId {
    pub(super) fn new(replica: ReplicaId, number: u64, request: Option<&str>) -> Self {
        let request = request.filter(|id| id.len() <= LONGEST_REQUEST);
        let request = request.and_then(|id| RawValue::from_string(id.to_owned()).ok());
        StreamId { replica, number, request }
    }

    /// Returns the id of an event of this stream.
    pub(super) fn event(&self, number: u64) -> EventId<'_> {
        EventId { stream: self, number }
    }

    /// Parses the id of an event into its stream and its number.
    pub(super) fn parse_event(id: &str) -> Option<(Self, u64)> {
        let mut parts = id.splitn(4, '-');
        let replica = parts.next()?.parse().ok()?;
        let number = parts.next()?.parse().ok()?;
        let event = parts.next()?.parse().ok()?;
        let request = match parts.next() {
            None => None,
            Some(request) => {
                let json = String::from_utf8(URL_SAFE_NO_PAD.decode(request).ok()?).ok()?;
                Some(RawValue::from_string(json).ok()?)
            }
        };
        Some((StreamId { replica, number, request }, event))
    }
}

impl fmt::Display for EventId<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StreamId { replica, number, request } = self.stream;
        write!(f, "{replica}-{number}-{}", self.number)?;
        match request {
            Some(request) => write!(f, "-{}", URL_SAFE_NO_PAD.encode(request.get())),
            None => Ok(()),
        }
    }
}

/// A longer request id is not in the ids of events.
const LONGEST_REQUEST: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_as_it_is_written() {
        let replica = ReplicaId::draw();
        for request in [None, Some("7"), Some("\"a-b/ü\"")] {
            let stream = StreamId::new(replica, 12, request);
            let (read, event) = StreamId::parse_event(&stream.event(34).to_string()).unwrap();
            assert_eq!((read.replica, read.number, event), (replica, 12, 34));
            assert_eq!(read.request.as_deref().map(RawValue::get), request);
        }
        assert!(StreamId::new(replica, 1, Some(&format!("{:?}", "x".repeat(200)))).request.is_none());
    }

    #[test]
    fn other_texts_are_no_ids() {
        for text in ["", "0-1", "nonsense", "g-1-2", "1-2-x", "1-2-3-!", "1-2-3-eA", "1-2-3-4-5"] {
            assert!(StreamId::parse_event(text).is_none(), "{text}");
        }
    }
}
