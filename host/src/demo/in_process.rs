//! The demo server inside this process, connected through memory.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use super::server::DemoServer;
use crate::failure::{Failure, RequestError};
use crate::transport::{BoxFuture, Connect, Delivery, Outgoing, Receive, Transport};

/// Connects to a demo server inside this process.
#[derive(Debug, Clone, Copy, Default)]
pub struct InProcessDemo;

impl Connect for InProcessDemo {
    fn connect(&self, receiver: Arc<dyn Receive>) -> BoxFuture<'_, Result<Arc<dyn Transport>, RequestError>> {
        let output = LineForwarder { receiver: Arc::clone(&receiver), line: Vec::new() };
        let server = Mutex::new(Some(DemoServer::new(output)));
        Box::pin(async move { Ok(Arc::new(DemoConnection { server, receiver }) as Arc<dyn Transport>) })
    }
}

struct DemoConnection {
    /// None once the connection is closed.
    server: Mutex<Option<DemoServer>>,
    receiver: Arc<dyn Receive>,
}

impl Transport for DemoConnection {
    fn send(&self, message: Outgoing) -> BoxFuture<'_, Result<Delivery, RequestError>> {
        let mut server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = match &mut *server {
            Some(server) => {
                server.handle_line(message.text.as_bytes()).map_err(|_| RequestError::sent(Failure::Closed))
            }
            None => Err(RequestError::unsent(Failure::Closed)),
        };
        Box::pin(async move { outcome.map(|()| Delivery::Written) })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        let open = self.server.lock().unwrap_or_else(PoisonError::into_inner).take().is_some();
        if open {
            self.receiver.closed(RequestError::unsent(Failure::Closed));
        }
        Box::pin(async {})
    }
}

/// Passes each line that the server writes to the receiver.
struct LineForwarder {
    receiver: Arc<dyn Receive>,
    line: Vec<u8>,
}

impl Write for LineForwarder {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.line.extend_from_slice(bytes);
        while let Some(end) = memchr::memchr(b'\n', &self.line) {
            let rest = self.line.split_off(end + 1);
            let line = std::mem::replace(&mut self.line, rest);
            self.receiver.receive(String::from_utf8_lossy(line.trim_ascii_end()).into_owned().into(), None);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
