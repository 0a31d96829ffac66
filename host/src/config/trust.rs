//! The configuration files that the user trusts.
//!
//! A file in the working directory may have come with a download, and it can run commands. toolgate uses it only after
//! the user trusts it. Trust is for one path and one content, and for that of its env files: a file that changes or moves
//! must be trusted again. Each decision is a small file of its own, so that two processes never overwrite each other. A second file for each path
//! keeps which keys the file had, so that a person who is asked again learns what changed.

mod summary;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::resolve::EnvFileDigests;
use super::variables::Variables;
use crate::private_files;
use crate::sha256::{Sha256, sha256_hex};
pub use summary::TrustChange;

/// The store of configuration files that the user trusts.
#[derive(Debug, Clone)]
pub struct TrustStore {
    folder: Option<PathBuf>,
}

impl TrustStore {
    /// Returns the store of this user, in the folder for state.
    pub fn user(variables: &Variables) -> Self {
        TrustStore { folder: state_folder(variables).map(|folder| folder.join("toolgate").join("trusted")) }
    }

    /// Reports whether the user trusts this content at this path. Use this very content afterwards; do not read the
    /// file again. A store that cannot be read, or that others can write, trusts nothing, and the log says why.
    pub fn is_trusted(&self, path: &Path, content: &[u8], env_files: &EnvFileDigests) -> bool {
        let (Some(folder), Ok(record)) = (&self.folder, TrustRecord::new(path, content, env_files)) else {
            return false;
        };
        let file = folder.join(record.file_name());
        match private_files::read(folder, &file) {
            Ok(found) if found == record.text() => true,
            Ok(found) if record.differs_in_env_files(&found) => false,
            Ok(_) => {
                tracing::warn!(
                    "{} is damaged, so its configuration file is not trusted; run `toolgate trust` again",
                    file.display()
                );
                false
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => {
                tracing::warn!("{} cannot be used, so its configuration file is not trusted: {error}", file.display());
                false
            }
        }
    }

    /// Trusts this content at this path from now on.
    pub fn trust(&self, path: &Path, content: &[u8], env_files: &EnvFileDigests) -> io::Result<()> {
        let no_home = || io::Error::new(io::ErrorKind::NotFound, "there is no folder to store this in; set HOME");
        let folder = self.folder.as_ref().ok_or_else(no_home)?;
        let record = TrustRecord::new(path, content, env_files)?;
        private_files::ensure_folder(folder)?;
        private_files::replace(&folder.join(record.file_name()), record.text().as_bytes())?;
        let text = std::str::from_utf8(content).ok();
        if let Some(summary) = text.and_then(|text| summary::summarize(text, &record.path)) {
            let folder = summaries(folder);
            private_files::ensure_folder(&folder)?;
            private_files::replace(&folder.join(record.summary_name()), summary.as_bytes())?;
        }
        Ok(())
    }

    /// Returns what changed at this path since the user last trusted it; `None` if that is not known.
    pub fn changes(&self, path: &Path, text: &str, env_files: &EnvFileDigests) -> Option<Vec<TrustChange>> {
        let record = TrustRecord::new(path, text.as_bytes(), env_files).ok()?;
        let trusted = self.folder.as_ref()?;
        let folder = summaries(trusted);
        let before = private_files::read(&folder, &folder.join(record.summary_name())).ok()?;
        let mut changes = summary::compare(&before, &summary::summarize(text, &record.path)?);
        // There is a record only if the file itself is as it was.
        if let Ok(found) = private_files::read(trusted, &trusted.join(record.file_name())) {
            changes.extend(record.changed_env_files(&found));
        }
        Some(changes)
    }
}

/// Returns the folder for what trusted files said, which is beside the one for the files that are trusted.
fn summaries(folder: &Path) -> PathBuf {
    folder.with_file_name("trusted-summaries")
}

/// One file that the user trusts.
struct TrustRecord {
    path: PathBuf,
    digest: String,
    env_files: EnvFileDigests,
}

impl TrustRecord {
    /// Resolves symbolic links in the folder, but not of the file itself: relative programs are found beside the link,
    /// not beside its target.
    fn new(path: &Path, content: &[u8], env_files: &EnvFileDigests) -> io::Result<Self> {
        let absolute = std::path::absolute(path)?;
        let path = match (absolute.parent(), absolute.file_name()) {
            (Some(folder), Some(name)) => fs::canonicalize(folder)?.join(name),
            _ => absolute,
        };
        Ok(TrustRecord { path, digest: sha256_hex(content), env_files: env_files.clone() })
    }

    fn file_name(&self) -> String {
        let mut name = Sha256::new();
        name.update(&self.digest);
        name.update(self.path.as_os_str().as_encoded_bytes());
        name.hex() + ".json"
    }

    fn summary_name(&self) -> String {
        sha256_hex(self.path.as_os_str().as_encoded_bytes()) + ".json"
    }

    fn text(&self) -> String {
        // The lossy path is for people; the name of the record covers the exact one.
        let mut record = serde_json::json!({ "path": self.path.to_string_lossy(), "sha256": self.digest });
        if !self.env_files.is_empty() {
            record["env_files"] = self.env_files_json();
        }
        record.to_string() + "\n"
    }

    fn env_files_json(&self) -> Value {
        let mut files = Map::new();
        for (path, digest) in &self.env_files {
            files.insert(path.to_string_lossy().into_owned(), Value::from(digest.clone()));
        }
        Value::Object(files)
    }

    /// Reports whether a record is for this file with other env files, or with another content of them.
    fn differs_in_env_files(&self, found: &str) -> bool {
        let Ok(found) = serde_json::from_str::<Value>(found) else { return false };
        let is_same_file = found["path"] == *self.path.to_string_lossy() && found["sha256"] == *self.digest;
        is_same_file && found["env_files"] != self.env_files_json()
    }

    /// Returns the env files that are not as they are in a record of this file.
    fn changed_env_files(&self, found: &str) -> Vec<TrustChange> {
        let found = serde_json::from_str::<Value>(found).unwrap_or_default();
        let mut changes = Vec::new();
        for path in self.env_files.keys() {
            let path = path.to_string_lossy();
            if found["env_files"].get(&*path) != self.env_files_json().get(&*path) {
                changes.push(TrustChange { text: format!("the env file {path} changed"), server: None });
            }
        }
        changes
    }
}

/// Returns the user's folder for the state of programs.
pub(crate) fn state_folder(variables: &Variables) -> Option<PathBuf> {
    let absolute = |name: &str| variables.non_empty(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = variables.home.as_ref();
    let usual = if cfg!(target_os = "macos") { "Library/Application Support" } else { ".local/state" };
    absolute("XDG_STATE_HOME").or_else(|| home.map(|home| home.join(usual)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a home folder, a configuration file in a project folder, and the store.
    fn machine() -> (tempfile::TempDir, PathBuf, TrustStore) {
        let root = tempfile::tempdir().unwrap();
        let mut variables = Variables::of_test(&[]);
        variables.home = Some(root.path().join("home"));
        let file = root.path().join("project/.mcp.json");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "{}").unwrap();
        let store = TrustStore::user(&variables);
        (root, file, store)
    }

    fn none() -> EnvFileDigests {
        EnvFileDigests::new()
    }

    fn records(store: &TrustStore) -> Vec<PathBuf> {
        fs::read_dir(store.folder.as_ref().unwrap()).unwrap().map(|entry| entry.unwrap().path()).collect()
    }

    #[test]
    fn trust_holds_for_one_content_at_one_path() {
        let (root, file, store) = machine();
        assert!(!store.is_trusted(&file, b"{}", &none()));
        store.trust(&file, b"{}", &none()).unwrap();
        store.trust(&file, b"{}", &none()).unwrap();
        assert!(store.is_trusted(&file, b"{}", &none()));
        assert!(store.is_trusted(&root.path().join("project/../project/./.mcp.json"), b"{}", &none()));
        assert!(!store.is_trusted(&file, b"{ }", &none()));
        let other = root.path().join("other");
        fs::create_dir(&other).unwrap();
        assert!(!store.is_trusted(&other.join(".mcp.json"), b"{}", &none()));
        assert_eq!(records(&store).len(), 1);
    }

    #[test]
    fn what_changed_since_is_known_for_the_same_path_alone() {
        let (root, file, store) = machine();
        let before = "{\"mcpServers\": {\"a\": {\"command\": \"x\"}}}";
        assert_eq!(store.changes(&file, before, &none()), None);
        store.trust(&file, before.as_bytes(), &none()).unwrap();
        assert_eq!(store.changes(&file, before, &none()), Some(Vec::new()));
        let changes = store.changes(&file, &before.replace("\"x\"", "\"y\""), &none()).unwrap();
        assert_eq!((changes.len(), changes[0].text.as_str()), (1, "mcpServers.a.command changed"));
        assert_eq!(store.changes(&root.path().join("project/mcp.json"), before, &none()), None);
    }

    #[test]
    fn trust_is_for_the_content_of_the_env_files_too() {
        let (_root, file, store) = machine();
        let of = |digest: Option<&str>| EnvFileDigests::from([("/p/.env".into(), digest.map(str::to_owned))]);
        let before = "{\"mcpServers\": {\"a\": {\"command\": \"x\", \"envFile\": \".env\"}}}";
        store.trust(&file, before.as_bytes(), &of(Some("1"))).unwrap();
        assert!(store.is_trusted(&file, before.as_bytes(), &of(Some("1"))));
        for other in [of(Some("2")), of(None), none()] {
            assert!(!store.is_trusted(&file, before.as_bytes(), &other), "{other:?}");
        }
        let changes = store.changes(&file, before, &of(Some("2"))).unwrap();
        assert_eq!((changes.len(), changes[0].text.as_str()), (1, "the env file /p/.env changed"));
        store.trust(&file, before.as_bytes(), &of(None)).unwrap();
        assert!(!store.is_trusted(&file, before.as_bytes(), &of(Some("1"))), "it was not there, and now it is");
        assert!(store.is_trusted(&file, before.as_bytes(), &of(None)));
    }

    #[test]
    fn a_link_to_a_trusted_file_is_not_trusted_and_a_linked_folder_is() {
        let (root, file, store) = machine();
        store.trust(&file, b"{}", &none()).unwrap();
        let other = root.path().join("other");
        fs::create_dir(&other).unwrap();
        std::os::unix::fs::symlink(&file, other.join(".mcp.json")).unwrap();
        assert!(!store.is_trusted(&other.join(".mcp.json"), b"{}", &none()));
        let linked = root.path().join("linked");
        std::os::unix::fs::symlink(file.parent().unwrap(), &linked).unwrap();
        assert!(store.is_trusted(&linked.join(".mcp.json"), b"{}", &none()));
    }

    #[test]
    fn the_store_is_for_its_owner_alone() {
        use std::os::unix::fs::PermissionsExt;
        let (_root, file, store) = machine();
        store.trust(&file, b"{}", &none()).unwrap();
        let folder = store.folder.clone().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&folder), 0o700);
        assert_eq!(mode(&records(&store)[0]), 0o600);
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(!store.is_trusted(&file, b"{}", &none()));
        assert!(store.trust(&file, b"{}", &none()).unwrap_err().to_string().contains("chmod o-w"));
    }

    #[test]
    fn a_damaged_record_trusts_nothing_until_it_is_written_again() {
        let (_root, file, store) = machine();
        store.trust(&file, b"{}", &none()).unwrap();
        for damaged in [&b""[..], b"{}", b"\xff"] {
            fs::write(&records(&store)[0], damaged).unwrap();
            assert!(!store.is_trusted(&file, b"{}", &none()));
        }
        store.trust(&file, b"{}", &none()).unwrap();
        assert!(store.is_trusted(&file, b"{}", &none()));
    }

    #[test]
    fn without_a_home_nothing_is_trusted_and_that_is_said() {
        let (_root, file, _) = machine();
        let mut variables = Variables::of_test(&[]);
        variables.home = None;
        let store = TrustStore::user(&variables);
        assert!(!store.is_trusted(&file, b"{}", &none()));
        assert!(store.trust(&file, b"{}", &none()).unwrap_err().to_string().contains("set HOME"));
    }
}
