//! The demo server inside this process, connected through memory.

use std::sync::{Arc, Mutex};

use super::server::DemoServer;
use crate::failure::{Failure, RequestError};
use crate::lock::lock;
use crate::transport::{BoxFuture, Connect, Delivery, Outgoing, Receive, Transport};

/// Connects to a demo server inside this process.
#[derive(Debug, Clone, Copy, Default)]
pub struct InProcessDemo;

impl Connect for InProcessDemo {
    fn connect(&self, receiver: Arc<dyn Receive>) -> BoxFuture<'_, Result<Arc<dyn Transport>, RequestError>> {
        let output = Arc::clone(&receiver);
        let server = DemoServer::new(Arc::new(move |line: &str| {
            output.receive(line.to_owned().into(), None);
            Ok(())
        }));
        let connection = DemoConnection { server: Mutex::new(Some(server)), receiver };
        Box::pin(async move { Ok(Arc::new(connection) as Arc<dyn Transport>) })
    }
}

struct DemoConnection {
    /// None once the connection is closed.
    server: Mutex<Option<DemoServer>>,
    receiver: Arc<dyn Receive>,
}

impl Transport for DemoConnection {
    fn send(&self, message: Outgoing) -> BoxFuture<'_, Result<Delivery, RequestError>> {
        let mut server = lock(&self.server);
        let outcome = match &mut *server {
            Some(server) => {
                server.handle_line(message.text.as_bytes()).map_err(|_| RequestError::sent(Failure::Closed))
            }
            None => Err(RequestError::unsent(Failure::Closed)),
        };
        Box::pin(async move { outcome.map(|()| Delivery::Written) })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        let open = lock(&self.server).take().is_some();
        if open {
            self.receiver.closed(RequestError::unsent(Failure::Closed));
        }
        Box::pin(async {})
    }
}
