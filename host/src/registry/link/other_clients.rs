//! Lists the tools that a server shows to clients with other capabilities.

use std::collections::HashSet;
use std::sync::Arc;

use super::super::tools::ToolList;
use super::connection::ConnectionPermit;
use super::{Lease, Link, Unavailable};
use crate::session::{DecliningHandler, Era, ListKind, Topics};

/// Asks a server what it shows to other clients; the lists that the link knows stay as they are.
pub(crate) struct OtherClients {
    link: Arc<Link>,
    connection: ClientConnection,
}

/// How other clients reach the server.
enum ClientConnection {
    /// Over the link's own connection, because each request declares capabilities.
    Shared(Lease),
    /// Over one new connection after the other, because the handshake declares capabilities.
    New { _permit: ConnectionPermit },
}

impl Link {
    /// Prepares to ask the server as other clients. This ends the connection with a server of the initialize era; the
    /// next lease opens another.
    pub(crate) async fn as_other_clients(&self, lease: Lease) -> Result<OtherClients, Unavailable> {
        let link = self.weak_self.upgrade().ok_or(Unavailable::Closed)?;
        if lease.session().peer().era == Era::Modern {
            return Ok(OtherClients { link, connection: ClientConnection::Shared(lease) });
        }
        drop(lease);
        // Without a user, the lifecycle does not connect again by itself.
        if !self.release() {
            return Err(Unavailable::InUse);
        }
        self.set_enabled(false);
        self.set_enabled(true);
        // Two processes of one server may need the same file, port or profile.
        let limit = self.default_wait();
        let permit = tokio::time::timeout(limit, Arc::clone(&self.connection_slot).acquire_owned()).await;
        let permit = permit.map_err(|_| Unavailable::InUse)?.expect("nobody closes the semaphore");
        Ok(OtherClients { link, connection: ClientConnection::New { _permit: permit } })
    }
}

impl OtherClients {
    /// Returns the names of the tools that a client with these topics is shown; it declines every question.
    pub(crate) async fn tools(&self, topics: Topics) -> Result<HashSet<String>, Unavailable> {
        let listing = match &self.connection {
            ClientConnection::Shared(lease) => lease.session().list_tools_as(topics).await.map(Arc::new),
            ClientConnection::New { .. } => {
                let limit = self.link.server().timeouts.initialize;
                let session = self.link.opener.open_with(limit, Arc::new(DecliningHandler(topics))).await?;
                let listed = session.list(ListKind::Tools).await;
                session.close().await;
                listed
            }
        };
        let tools = ToolList::read(listing.map_err(Unavailable::Failed)?, 0);
        Ok(tools.definitions.into_iter().map(|definition| definition.name).collect())
    }
}
