//! Configuration files: toolgate's own and those of popular clients, read into one model.

pub mod bytes;
mod changed_keys;
pub mod client_entry;
pub mod client_files;
mod command;
mod document;
pub mod duration;
pub mod environment;
mod error;
pub mod expand;
mod field;
mod foreign;
pub mod import;
mod keys;
pub mod lineage;
pub mod loosened;
pub mod model;
mod native;
pub(crate) mod nearest;
pub mod resolve;
pub mod rule_cases;
pub mod schema;
pub mod search;
pub mod secrets;
mod section;
mod server_entry;
mod shape;
pub mod trust;
pub mod variables;

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

pub use changed_keys::changed_keys;
use document::line_index::LineIndex;
pub use error::ConfigError;
pub use model::is_id;
use model::{Config, FilePosition, FileShape, ServerConfig, Settings, TransportKind, UnexpandedText};

use crate::ownership::{self, OwnershipError};
use crate::sha256::sha256;

/// Reads a configuration file of any known format.
pub fn load(file: &Path) -> Result<Config, ConfigError> {
    parse(&read_text(file)?, file)
}

/// Parses the text of a configuration file; the path is used in messages, and its name helps to detect the format.
pub fn parse(text: &str, file: &Path) -> Result<Config, ConfigError> {
    let document = document::read(text, &Arc::from(file))?;
    let found = shape::find_servers(&document, file)?;
    let shape = found.shape;
    let (settings, servers, notices) = match (shape, document.faults.first()) {
        (FileShape::Native, Some(fault)) => {
            let text = fault.text.trim_end_matches(document::jsonc::LAST_COUNTS);
            return Err(ConfigError::syntax(fault.place.clone(), text));
        }
        (FileShape::Native, None) => native::read(&document.root)?,
        _ => foreign::read(&document, &found)?,
    };
    let digest = Some(sha256(text.as_bytes()));
    Ok(Config { file: Some(file.to_path_buf()), shape, settings, servers, notices, digest, trusted_env_files: None })
}

/// Returns the configuration to use without a file: the demo server of this program, whose path is `command`.
pub fn demo(command: String) -> Config {
    let position = FilePosition { file: Arc::from(Path::new("built-in")), line: 1, column: 1 };
    let text = |field: &str, text: String| UnexpandedText { text, place: position.clone(), field: field.to_owned() };
    // The path of a program contains no variables, so escape what looks like one.
    let literal = command.replace("${", "$${").replace("{{", "{{'{{'}}");
    let mut server = ServerConfig::new("demo", position.clone(), TransportKind::Stdio);
    server.command = Some(text("command", literal));
    server.args = vec![text("args[0]", "demo-server".to_owned())];
    Config {
        file: None,
        shape: FileShape::Native,
        settings: Settings::default(),
        servers: vec![server],
        notices: Vec::new(),
        digest: None,
        trusted_env_files: None,
    }
}

/// Reads the text of a file that could be a configuration and that only its owner can change.
pub fn read_text(file: &Path) -> Result<String, ConfigError> {
    let unreadable = |source| ConfigError::Unreadable { file: file.to_path_buf(), source };
    let metadata = std::fs::metadata(file).map_err(unreadable)?;
    if metadata.is_dir() {
        return Err(ConfigError::Folder(file.to_path_buf()));
    }
    // Opening a named pipe may block forever. A pipe that was opened for this process has no name.
    if !metadata.is_file() && !ownership::is_inherited_fd(file) {
        return Err(ConfigError::NoFile(file.to_path_buf()));
    }
    let opened = ownership::open(file).map_err(|error| match error {
        OwnershipError::Unreadable(error) => unreadable(error),
        source => ConfigError::Exposed { file: file.to_path_buf(), source },
    })?;
    let mut bytes = Vec::new();
    let limit = if shape::has_our_name(file) { MAX_BYTES } else { MAX_FOREIGN_BYTES };
    opened.take(limit + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > limit {
        return Err(ConfigError::TooLarge { file: file.to_path_buf(), limit });
    }
    String::from_utf8(bytes).map_err(|error| {
        let good = String::from_utf8_lossy(&error.as_bytes()[..error.utf8_error().valid_up_to()]);
        ConfigError::NotText { place: LineIndex::new(&good, &Arc::from(file)).position(good.len()) }
    })
}

const MAX_BYTES: u64 = 4 * 1024 * 1024;
/// Other clients keep more than servers in such a file; Claude Code also keeps the prompt history of each project.
const MAX_FOREIGN_BYTES: u64 = 64 * 1024 * 1024;

#[cfg(test)]
mod tests;
