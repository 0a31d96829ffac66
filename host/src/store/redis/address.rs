//! Where Redis is, and how to open a stream to it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::{AsyncStream, MultiplexedConnection, PubSub};
use redis::{AsyncConnectionConfig, ConnectionAddr, IntoConnectionInfo, RedisConnectionInfo, RedisError};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use rustls_platform_verifier::BuilderVerifierExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use url::Url;

use super::super::StoreError;
use crate::failure::format_chain;
use crate::transport::BoxFuture;

/// Where Redis is, and how to open a stream to it.
pub(super) struct RedisAddress {
    host: String,
    port: u16,
    /// The name that its certificate must have, and how to check it; `None` means no TLS.
    tls: Option<(ServerName<'static>, TlsConnector)>,
    /// The user, the password and the database.
    login: RedisConnectionInfo,
}

/// A connection for commands, and what drives it.
pub(super) type CommandConnection = (MultiplexedConnection, BoxFuture<'static, ()>);

impl RedisAddress {
    /// Reads a URL with the scheme `redis`, or `rediss` for TLS.
    pub(super) fn new(url: &Url) -> Result<Self, StoreError> {
        let bad = |why: &str| StoreError::BadUrl(why.to_owned());
        let uses_tls = match url.scheme() {
            "redis" => false,
            "rediss" => true,
            _ => return Err(bad("it begins with neither redis:// nor rediss://")),
        };
        // The crate need not know about TLS, so it reads the URL of a connection without.
        let mut plain = url.clone();
        plain.set_fragment(None);
        plain.set_scheme("redis").map_err(|()| bad("it has no host"))?;
        // The error may quote the URL, and so the password.
        let info = plain.into_connection_info().map_err(|_| bad("write it as redis://user:password@host:6379/0"))?;
        let ConnectionAddr::Tcp(host, port) = info.addr().clone() else { return Err(bad("it has no host and port")) };
        let tls = match uses_tls {
            true => {
                let name = ServerName::try_from(host.clone()).map_err(|_| bad("its host is not a name"))?;
                Some((name, tls_connector().map_err(|why| StoreError::BadUrl(format_chain(&why)))?))
            }
            false => None,
        };
        Ok(RedisAddress { host, port, tls, login: info.redis_settings().clone() })
    }

    /// Opens a connection for commands, which must be driven.
    pub(super) async fn open(&self) -> Result<CommandConnection, String> {
        let opened = self.within_limit(async {
            let config = AsyncConnectionConfig::new().set_response_timeout(None).set_pipeline_buffer_size(QUEUED);
            let stream = self.stream().await?;
            MultiplexedConnection::new_with_config(&self.login, stream, config).await
        });
        let (commands, driver) = opened.await?;
        Ok((commands, Box::pin(driver)))
    }

    /// Opens a connection for subscriptions to these channels.
    pub(super) async fn subscribe(&self, channels: &[String]) -> Result<PubSub, String> {
        self.within_limit(async {
            let mut opened = PubSub::new(&self.login, self.stream().await?).await?;
            opened.subscribe(channels).await?;
            Ok(opened)
        })
        .await
    }

    /// Says why a command failed; the text contains no password.
    pub(super) fn describe(&self, error: &RedisError) -> String {
        self.hide_password(error.to_string())
    }

    /// Removes the password from a text.
    pub(super) fn hide_password(&self, text: String) -> String {
        match self.login.password() {
            Some(password) if !password.is_empty() => text.replace(password, "…"),
            _ => text,
        }
    }

    async fn within_limit<T>(&self, opening: impl Future<Output = Result<T, RedisError>>) -> Result<T, String> {
        let place = format!("{}:{}", self.host, self.port);
        match tokio::time::timeout(OPENING, opening).await {
            Ok(opened) => opened.map_err(|error| format!("{place}: {}", self.describe(&error))),
            Err(_) => Err(format!("{place}: no answer within {OPENING:?}")),
        }
    }

    async fn stream(&self) -> io::Result<Box<dyn AsyncStream + Send + Sync + Unpin>> {
        let stream = TcpStream::connect((&*self.host, self.port)).await?;
        stream.set_nodelay(true)?;
        Ok(match &self.tls {
            Some((name, connector)) => Box::new(connector.connect(name.clone(), stream).await?),
            None => Box::new(stream),
        })
    }
}

/// Creates a client for TLS that trusts the certificate authorities of this system.
fn tls_connector() -> Result<TlsConnector, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let config = builder.with_platform_verifier()?.with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// How long opening a connection may take.
const OPENING: Duration = Duration::from_secs(1);
/// How many commands may wait to be written.
const QUEUED: usize = 1024;
