//! Log messages of a server during a call.

use serde_json::value::RawValue;
use tokio::sync::broadcast;

use super::CallRunner;
use crate::gate::CallEvent;
use crate::session::ServerEvent;

impl CallRunner<'_> {
    /// Waits for the result, and emits the server's log messages meanwhile.
    pub(super) async fn emit_logs_until<T>(
        &self,
        server: &str,
        logs: &mut broadcast::Receiver<ServerEvent>,
        mut answer: impl Future<Output = T> + Unpin,
    ) -> T {
        loop {
            tokio::select! {
                biased;
                answer = &mut answer => return answer,
                event = logs.recv() => match event {
                    Ok(event) => self.emit_log(server, event),
                    Err(broadcast::error::RecvError::Lagged(_)) => {}
                    Err(broadcast::error::RecvError::Closed) => return answer.await,
                },
            }
        }
    }

    /// Emits a log message of the server, masked.
    pub(super) fn emit_log(&self, server: &str, event: ServerEvent) {
        let ServerEvent::Log { level, logger, data, callers, number } = event else { return };
        let masked = self.gate.mask(server, data.get()).ok().and_then(|data| RawValue::from_string(data).ok());
        if let Some(data) = masked {
            let logger = logger.and_then(|logger| self.gate.mask_text(server, &logger).ok());
            self.emit(CallEvent::Log { level, logger, data, callers, number });
        }
    }
}
