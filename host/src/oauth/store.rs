//! Stores OAuth tokens: one file per server and client, readable only by the user.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use rmcp::transport::auth::{AuthError, CredentialStore, StoredCredentials};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::OAuthError;
use super::token::OAuthToken;
use crate::config::trust::state_folder;
use crate::config::variables::Variables;
use crate::lock::lock;
use crate::private_files;
use crate::sha256::Sha256;

/// The folder that stores tokens, or memory.
#[derive(Debug, Clone, Default)]
pub struct TokenStore {
    folder: Option<PathBuf>,
}

impl TokenStore {
    /// Uses the user's folder: the one in `TOOLGATE_AUTH_DIR`, or one in the state folder.
    pub fn user(variables: &Variables) -> Self {
        let named = variables.non_empty("TOOLGATE_AUTH_DIR").map(|folder| variables.workspace.join(folder));
        let usual = || state_folder(variables).map(|folder| folder.join("toolgate").join("auth"));
        TokenStore { folder: named.or_else(usual) }
    }

    /// Uses this folder.
    pub fn folder(folder: impl Into<PathBuf>) -> Self {
        TokenStore { folder: Some(folder.into()) }
    }

    /// Uses memory only, so tokens are lost when the process ends.
    pub fn memory() -> Self {
        TokenStore { folder: None }
    }

    /// Returns the entry for this key.
    pub(super) fn entry(&self, key: &[&str]) -> Arc<TokenEntry> {
        let mut hash = Sha256::new();
        for part in key {
            hash.update(part.len().to_le_bytes());
            hash.update(part);
        }
        let name = format!("{}.json", hash.hex());
        Arc::new(TokenEntry { file: self.folder.as_ref().map(|folder| folder.join(name)), cache: Mutex::default() })
    }
}

/// The stored tokens of one server.
pub(super) struct TokenEntry {
    /// The file, if tokens are stored in one.
    pub(super) file: Option<PathBuf>,
    cache: Mutex<CachedRecord>,
}

#[derive(Default)]
struct CachedRecord {
    record: TokenRecord,
    /// The version of the file that was read last.
    stamp: Option<TokenFileStamp>,
    /// Whether writing the file failed, so that this copy is the only one.
    unwritten: bool,
}

/// The content of a token file.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(super) struct TokenRecord {
    /// The server's URL, for people who read the file.
    pub(super) url: String,
    /// The client registration, if toolgate registered itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) client: Option<ClientRegistration>,
    /// The issuer that got the configured secret, if the configuration does not name one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) secret_issuer: Option<String>,
    /// The scopes that were requested but not granted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) wanted: Vec<String>,
    /// The tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) credentials: Option<StoredCredentials>,
}

/// The registration of toolgate as a client at an authorization server.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ClientRegistration {
    pub(super) id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) secret: Option<String>,
    pub(super) redirect_uri: String,
    pub(super) issuer: Option<String>,
}

/// Identifies a version of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TokenFileStamp {
    written: Option<SystemTime>,
    length: u64,
    node: u64,
}

impl TokenEntry {
    /// Reports whether the file has changed since it was read.
    pub(super) fn is_changed(&self) -> bool {
        let memory = lock(&self.cache);
        !memory.unwritten && self.file.as_deref().and_then(stamp) != memory.stamp
    }

    /// Returns the stored record.
    pub(super) fn load(&self) -> TokenRecord {
        let mut memory = lock(&self.cache);
        self.read(&mut memory);
        memory.record.clone()
    }

    /// Changes the stored record; if it cannot be written, it stays in memory and a warning is logged.
    pub(super) fn change(&self, change: impl FnOnce(&mut TokenRecord)) {
        let mut memory = lock(&self.cache);
        self.read(&mut memory);
        change(&mut memory.record);
        let Some(file) = &self.file else { return };
        let written = write(file, &memory.record);
        memory.stamp = stamp(file);
        memory.unwritten = written.is_err();
        if let Err(error) = written {
            let shown = file.display();
            tracing::warn!("cannot write {shown}, so tokens are lost when this process ends: {error}");
        }
    }

    /// Deletes the stored record.
    pub(super) fn clear(&self) -> io::Result<()> {
        let mut memory = lock(&self.cache);
        *memory = CachedRecord::default();
        match self.file.as_deref().map(fs::remove_file) {
            Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Keeps other processes from renewing the same token until the returned file is dropped, because a refresh token may
    /// work only once.
    pub(super) async fn lock_refresh(&self, limit: Duration) -> Result<Option<File>, OAuthError> {
        let Some(file) = &self.file else { return Ok(None) };
        let lock = file.with_extension("lock");
        let opened = lock.parent().map_or(Ok(()), private_files::ensure_folder).and_then(|()| open_lock(&lock));
        // If the folder cannot be written, there is nothing to share.
        let Ok(opened) = opened else { return Ok(None) };
        let until = Instant::now() + limit;
        loop {
            match opened.try_lock() {
                Ok(()) => return Ok(Some(opened)),
                Err(TryLockError::WouldBlock) if Instant::now() < until => tokio::time::sleep(LOOK).await,
                Err(TryLockError::WouldBlock) => {
                    let text = format!("another process has been renewing the token for {limit:?}");
                    return Err(OAuthError::Unreachable(text));
                }
                Err(TryLockError::Error(_)) => return Ok(None),
            }
        }
    }

    fn read(&self, memory: &mut CachedRecord) {
        let Some(file) = self.file.as_deref().filter(|_| !memory.unwritten) else { return };
        let stamp = stamp(file);
        if stamp == memory.stamp {
            return;
        }
        memory.stamp = stamp;
        let text = private_files::read(file.parent().unwrap_or(file), file);
        memory.record = match text.and_then(|text| serde_json::from_str(&text).map_err(io::Error::other)) {
            Ok(record) => record,
            Err(error) if error.kind() == io::ErrorKind::NotFound => TokenRecord::default(),
            Err(error) => {
                tracing::warn!("{} cannot be used, so a new authorization is needed: {error}", file.display());
                TokenRecord::default()
            }
        };
    }
}

fn open_lock(file: &Path) -> io::Result<File> {
    match private_files::create_file(file) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => File::options().write(true).open(file),
        opened => opened,
    }
}

fn write(file: &Path, record: &TokenRecord) -> io::Result<()> {
    private_files::ensure_folder(file.parent().unwrap_or(file))?;
    private_files::replace(file, serde_json::to_string(record)?.as_bytes())
}

fn stamp(file: &Path) -> Option<TokenFileStamp> {
    let metadata = fs::symlink_metadata(file).ok()?;
    Some(TokenFileStamp { written: metadata.modified().ok(), length: metadata.len(), node: metadata.ino() })
}

/// Stores the tokens of `rmcp` in an entry.
pub(super) struct CredentialAdapter(pub(super) Arc<TokenEntry>);

#[async_trait::async_trait]
impl CredentialStore for CredentialAdapter {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        Ok(self.0.load().credentials)
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        OAuthToken::check(&credentials).map_err(AuthError::TokenExchangeFailed)?;
        self.0.change(|record| record.credentials = Some(credentials));
        Ok(())
    }

    async fn clear(&self) -> Result<(), AuthError> {
        self.0.change(|record| record.credentials = None);
        Ok(())
    }

    async fn on_refresh_token_rejected(&self, _credentials: &StoredCredentials) -> Result<(), AuthError> {
        self.clear().await
    }
}

/// How often to check whether another process is done.
const LOOK: Duration = Duration::from_millis(20);
