//! The messages that other replicas send through Redis.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use futures_util::StreamExt;
use tokio::sync::mpsc;
use tokio::time::{interval_at, sleep, timeout};
use tracing::warn;

use super::super::StoreMessage;
use super::address::RedisAddress;
use super::keys;

/// Receives the messages for a replica, again and again.
pub(super) struct Subscriber {
    pub(super) address: Arc<RedisAddress>,
    pub(super) replica: String,
    /// Whether the subscription is in place.
    pub(super) is_subscribed: Arc<AtomicBool>,
    pub(super) sender: mpsc::Sender<StoreMessage>,
    /// Whether the receiver must learn that messages may have been missed.
    pub(super) has_missed: bool,
}

impl Subscriber {
    /// Receives messages until nobody wants them any more.
    pub(super) async fn run(mut self) {
        let mut was_reported = false;
        while !self.sender.is_closed() {
            let why = self.receive().await;
            let was_subscribed = self.is_subscribed.swap(false, SeqCst);
            if self.sender.is_closed() {
                return;
            }
            if was_subscribed || !was_reported {
                warn!("messages of other replicas cannot be received: {why}");
            }
            was_reported = true;
            sleep(WAIT.mul_f64(0.5 + fastrand::f64())).await;
        }
    }

    /// Receives messages until the subscription fails; returns why.
    async fn receive(&mut self) -> String {
        let channels = [keys::channel(Some(&self.replica)), keys::channel(None)];
        let (mut sink, mut messages) = match self.address.subscribe(&channels).await {
            Ok(opened) => opened.split(),
            Err(why) => return why,
        };
        self.is_subscribed.store(true, SeqCst);
        self.has_missed = true;
        self.deliver(None);
        let mut probes = interval_at(tokio::time::Instant::now() + PROBE, PROBE);
        loop {
            tokio::select! {
                message = messages.next() => match message {
                    Some(message) => {
                        let payload = String::from_utf8_lossy(message.get_payload_bytes());
                        // Messages to all come back to their sender.
                        if let Some((sender, text)) = payload.split_once('\n') && sender != self.replica {
                            self.deliver(Some(text));
                        }
                    }
                    None => return "the connection was closed".to_owned(),
                },
                () = self.sender.closed() => return "nobody listens any more".to_owned(),
                _ = probes.tick() => {
                    self.deliver(None);
                    match timeout(PROBE, sink.ping::<redis::Value>()).await {
                        Ok(Ok(_)) => {}
                        Ok(Err(error)) => return self.address.describe(&error),
                        Err(_) => return format!("no answer within {PROBE:?}"),
                    }
                }
            }
        }
    }

    /// Passes on a message, and before it that some were missed. A receiver that is too slow misses messages, and does
    /// not stop the store.
    fn deliver(&mut self, text: Option<&str>) {
        if self.has_missed {
            self.has_missed = self.sender.try_send(StoreMessage::Joined).is_err();
        }
        if let Some(text) = text
            && !self.has_missed
        {
            self.has_missed = self.sender.try_send(StoreMessage::Text(text.to_owned())).is_err();
        }
    }
}

/// How long to wait before the subscription is tried again.
const WAIT: Duration = Duration::from_millis(500);
/// How often to try whether the connection still works, and how long that may take.
const PROBE: Duration = Duration::from_secs(3);
