//! The records of the configuration in use, for commands that are told of no folder.

use std::path::{Path, PathBuf};

use crate::config::model::Config;
use crate::config::resolve::resolve_record_dir;
use crate::config::variables::Variables;
use crate::record::{BacktestError, folder};

use super::context::{self, ConfigFallback, ConfigFile};
use super::error::CliError;

/// Where a configuration records calls.
pub(super) struct ConfiguredRecords {
    /// The folder.
    pub dir: PathBuf,
    /// The configuration file.
    pub file: PathBuf,
    /// Whether the configuration says that calls are recorded.
    pub is_on: bool,
}

impl ConfiguredRecords {
    /// Finds the configuration and the folder that it records in.
    pub(super) fn find(flag: Option<&Path>) -> Result<Self, CliError> {
        let (config, file) = context::load_config_to_read(flag, &Variables::from_process(), ConfigFallback::Fail)?;
        Self::of(&config, file.as_ref())
    }

    /// Finds the folder that a configuration records in.
    pub(super) fn of(config: &Config, file: Option<&ConfigFile>) -> Result<Self, CliError> {
        let dir = resolve_record_dir(config, &Variables::from_process()).map_err(CliError::usage)?;
        let file = file.map(|file| file.path.clone()).unwrap_or_default();
        Ok(ConfiguredRecords { dir, file, is_on: config.settings.record.is_some() })
    }

    /// Reports whether anything is recorded in the folder.
    pub(super) fn has_records(&self) -> bool {
        folder::segments(&self.dir).is_ok_and(|segments| !segments.is_empty())
    }

    /// Returns the folder, or the error that says how to record calls if it has no records.
    pub(super) fn dir_with_records(self) -> Result<PathBuf, CliError> {
        if self.has_records() { Ok(self.dir) } else { Err(self.nothing()) }
    }

    /// Returns the error for a folder without records, which says how to record calls.
    pub(super) fn nothing(&self) -> CliError {
        let (dir, file) = (self.dir.display(), self.file.display());
        CliError::Usage(match self.is_on {
            true => format!("nothing is recorded in {dir} yet: {file} has `record`, so calls from now on will be"),
            false => format!(
                "nothing is recorded in {dir}: set `record: true` in {file}, or run `serve` or `call` with --record DIR \
                 and name that folder here"
            ),
        })
    }
}

/// Creates the folder to record calls in, or says why they cannot be recorded there; `key` names the folder.
pub(super) fn prepare_folder(dir: &Path, key: &str) -> Result<(), CliError> {
    folder::prepare(dir).map_err(|error| CliError::Usage(unusable(dir, key, &error)))
}

/// Says why calls cannot be recorded in a folder, and what helps; `key` names the folder.
pub(super) fn unusable(dir: &Path, key: &str, error: &std::io::Error) -> String {
    let dir = dir.display();
    format!("calls cannot be recorded in {dir}: {error}; let {key} name a folder that you can write to")
}

/// Returns an error unless the records of another gateway in this folder can be read.
pub(super) fn check_other_folder(dir: &Path) -> Result<(), CliError> {
    let unread = |error| {
        let dir = dir.display();
        CliError::Usage(format!(
            "cannot read the records in {dir}: {error}; a gateway creates its folder when it starts, so start the one that \
             records there first, or create the folder"
        ))
    };
    std::fs::read_dir(dir).map(drop).map_err(unread)
}

/// Returns an error unless each of these folders can be read and, if they must have some, has records.
pub(super) fn check_folders(dirs: &[PathBuf], must_have_some: bool) -> Result<(), CliError> {
    let wrong = |error: BacktestError| CliError::Usage(crate::failure::format_chain(&error));
    for dir in dirs {
        match folder::segments(dir) {
            Ok(segments) if segments.is_empty() && must_have_some => {
                return Err(wrong(BacktestError::Empty(dir.clone())));
            }
            Ok(_) => {}
            Err(source) => return Err(wrong(BacktestError::Folder { dir: dir.clone(), source })),
        }
    }
    Ok(())
}
