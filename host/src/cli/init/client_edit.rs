//! Changes the file of a client, with a backup beside it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::config;
use crate::config::ConfigError;
use crate::config::client_entry::{self, ENTRY};
use crate::config::client_files::ClientFile;
use crate::config::import::ImportClient;
use crate::config::import::merge::read_servers;
use crate::config::model::Config;
use crate::config::variables::Variables;
use crate::private_files;
use crate::sha256::sha256_hex;
use serde::Serialize;

use super::CliError;

/// A change to a client's file that has not been made.
pub(super) struct ClientEdit {
    /// The file, behind all links.
    file: PathBuf,
    before: Option<String>,
    after: String,
    change: ClientChange,
}

/// What happened to a client's file.
#[derive(Serialize)]
pub(super) struct ClientChange {
    client: &'static str,
    #[serde(skip)]
    title: &'static str,
    file: String,
    /// Whether the file changed; `false` if it had the entry, or with `--dry-run`.
    changed: bool,
    /// The file as it was; `None` if there is no change.
    backup: Option<String>,
    /// The servers that were taken out, because the configuration has them.
    moved: Vec<String>,
    /// The servers that are in the client's file beside the entry.
    left: Vec<String>,
    /// Of those, the ones that the configuration has too.
    twice: Vec<String>,
    /// What the entry is.
    entry: String,
}

impl ClientEdit {
    /// Plans the change: one entry that serves `config`, and with `replace` none of the servers that `config` has.
    pub(super) fn new(
        file: &ClientFile,
        path: &Path,
        config: &Config,
        replace: bool,
        variables: &Variables,
    ) -> Result<Self, CliError> {
        let before = match config::read_text(&file.path) {
            Ok(text) => Some(text),
            Err(ConfigError::Unreadable { source, .. }) if source.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(CliError::usage(error)),
        };
        let text = before.as_deref().unwrap_or_default();
        let found = read_servers(file, text, path, variables).map_err(CliError::usage)?;
        let others = found.servers.iter().filter(|server| server.name != ENTRY);
        let is_in =
            |server: &&_| config.servers.iter().any(|ours| config::import::merge::ClientServer::is_same(server, ours));
        let (known, unknown): (Vec<_>, Vec<_>) = others.partition(is_in);
        let name = |server: &&config::import::merge::ClientServer| server.name.clone();
        let (moved, twice): (Vec<_>, Vec<_>) = known.into_iter().partition(|server| replace && server.is_top);
        let moved: Vec<String> = moved.iter().map(name).collect();
        let twice: Vec<String> = twice.iter().map(name).collect();
        let left = unknown.iter().map(name).chain(twice.iter().cloned()).collect();
        let remove: Vec<&str> = moved.iter().map(String::as_str).collect();
        let after = client_entry::with_entry(file.client, text, &file.path, path, &remove).map_err(CliError::usage)?;
        let change = ClientChange {
            client: file.client.name(),
            title: file.client.title(),
            file: file.path.display().to_string(),
            changed: false,
            backup: None,
            moved,
            left,
            twice,
            entry: client_entry::whole(file.client, path),
        };
        let file = fs::canonicalize(&file.path).unwrap_or_else(|_| file.path.clone());
        Ok(ClientEdit { file, before, after, change })
    }

    /// Returns what would happen.
    pub(super) fn planned(self) -> ClientChange {
        self.change
    }

    /// Makes the change.
    pub(super) fn apply(mut self) -> Result<ClientChange, CliError> {
        if self.before.as_ref() == Some(&self.after) {
            return Ok(self.change);
        }
        let failed = |error| CliError::Usage(format!("{} cannot be changed: {error}", self.file.display()));
        if let Some(folder) = self.file.parent() {
            private_files::create_folder(folder).map_err(failed)?;
        }
        let before = self.before.as_deref().unwrap_or_default().as_bytes();
        let backup = keep(&self.file, before, self.after.as_bytes()).map_err(failed)?;
        // A client that runs may have written the file since it was read.
        let now = fs::read(&self.file).ok();
        if now.as_deref() != self.before.as_deref().map(str::as_bytes) {
            let _ = fs::remove_file(&backup);
            return Err(failed(io::Error::other("another program is changing it; close the client, and try again")));
        }
        let mode = fs::metadata(&self.file).ok().map(|metadata| metadata.permissions());
        private_files::replace_with(&self.file, self.after.as_bytes(), mode).map_err(failed)?;
        self.change.changed = true;
        self.change.backup = Some(backup.display().to_string());
        Ok(self.change)
    }
}

impl ClientChange {
    /// Says what happened, and what to do about servers that appear twice.
    pub(super) fn describe(&self, config: &Path) -> String {
        let ClientChange { title, file, client, .. } = self;
        let mut text = match (&self.backup, self.changed) {
            (Some(backup), _) => format!(
                "{title} uses toolgate once it is started anew: {file} has the entry {ENTRY:?} for {}\n\
                 the file as it was is {backup}; `toolgate init --client {client} --undo` puts it back\n",
                config.display()
            ),
            (None, false) => format!("{file}, with this entry in it:\n{}", self.entry),
            (None, true) => String::new(),
        };
        if !self.moved.is_empty() {
            text += &format!("{title} has these through toolgate alone: {}\n", self.moved.join(", "));
        }
        if !self.twice.is_empty() {
            text += &format!(
                "{title} also has these itself, so their tools appear twice: {}; --replace takes them out of its file\n",
                self.twice.join(", ")
            );
        }
        let only: Vec<_> = self.left.iter().filter(|name| !self.twice.contains(name)).map(String::as_str).collect();
        if !only.is_empty() {
            text += &format!("{title} keeps these, which the configuration does not have: {}\n", only.join(", "));
        }
        text
    }
}

/// What the undoing of a change did.
#[derive(Serialize)]
pub(super) struct Undone {
    client: &'static str,
    file: String,
    /// Whether the file did not exist before the change, so that it was removed.
    removed: bool,
}

impl Undone {
    /// Says what happened.
    pub(super) fn describe(&self) -> String {
        match self.removed {
            true => format!("removed {}, which did not exist before\n", self.file),
            false => format!("{} is as it was\n", self.file),
        }
    }
}

/// Puts the backup of a client's file back. Without `force`, the file must be as toolgate wrote it.
pub(super) fn undo(file: &ClientFile, force: bool) -> Result<Undone, CliError> {
    let ClientFile { client, path, .. } = file;
    let real = fs::canonicalize(path).unwrap_or_else(|_| path.clone());
    let failed = |error| CliError::Usage(format!("{} cannot be put back: {error}", real.display()));
    let written = fs::read(&real).map(|now| digest(&now)).unwrap_or_default();
    let mut backups = backups(&real).map_err(failed)?;
    backups.sort_by_key(|(of, backup)| (*of == written, fs::metadata(backup).and_then(|found| found.modified()).ok()));
    let Some((of, backup)) = backups.pop() else {
        let text = format!("there is no backup of {}, so there is nothing to undo", real.display());
        return Err(CliError::Usage(text));
    };
    if of != written && !force {
        return Err(CliError::Usage(format!(
            "{} has changed since toolgate put its entry there, so it is left as it is: take {ENTRY:?} out by hand, or let \
             --force replace the whole file with {}",
            real.display(),
            backup.display()
        )));
    }
    let (before, mode) = (fs::read(&backup).map_err(failed)?, fs::metadata(&backup).map_err(failed)?.permissions());
    let removed = before.is_empty();
    match removed {
        true => fs::remove_file(&real),
        false => private_files::replace_with(&real, &before, Some(mode)),
    }
    .and_then(|()| fs::remove_file(&backup))
    .map_err(failed)?;
    Ok(Undone { client: ImportClient::name(*client), file: real.display().to_string(), removed })
}

/// Writes a backup of a file that is about to become `after`, with the mode of the file. Its name tells which content
/// it is the backup for, so that a later change of the file is noticed. An empty one stands for no file.
pub(super) fn keep(file: &Path, before: &[u8], after: &[u8]) -> io::Result<PathBuf> {
    let real = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let mut name = real.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}{BACKUP}", digest(after)));
    let backup = real.with_file_name(name);
    let mode = fs::metadata(&real).ok().map(|metadata| metadata.permissions());
    private_files::replace_with(&backup, before, mode)?;
    Ok(backup)
}

/// Returns the backups of a file, each with the digest of the content that replaced it.
fn backups(file: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let (Some(folder), Some(name)) = (file.parent(), file.file_name().and_then(|name| name.to_str())) else {
        return Ok(Vec::new());
    };
    let mut backups = Vec::new();
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(backups),
        entries => entries?,
    };
    for entry in entries {
        let path = entry?.path();
        let found = path.file_name().and_then(|name| name.to_str()).and_then(|found| found.strip_prefix(name));
        if let Some(of) = found.and_then(|found| found.strip_prefix('.')?.strip_suffix(BACKUP)) {
            backups.push((of.to_owned(), path.clone()));
        }
    }
    Ok(backups)
}

fn digest(content: &[u8]) -> String {
    let mut digest = sha256_hex(content);
    digest.truncate(16);
    digest
}

const BACKUP: &str = ".toolgate-backup";
