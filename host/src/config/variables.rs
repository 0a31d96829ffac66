//! The sources of values: the environment, the folders and a person. Nothing else reads them from the process.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use super::model::ConfigInput;

/// The sources that expansion may use. `Debug` shows no values.
#[derive(Clone)]
pub struct Variables {
    /// The environment variables.
    pub environment: BTreeMap<String, String>,
    /// The user's home folder.
    pub home: Option<PathBuf>,
    /// The working directory.
    pub workspace: PathBuf,
    /// Answers `${input:…}`.
    pub prompter: Arc<dyn InputPrompter>,
}

/// Asks a person.
///
/// Every use of an input asks, so an implementation should remember the answers, or a person is asked twice.
pub trait InputPrompter: Send + Sync {
    /// Asks for the value of an input; returns `None` if there is no answer.
    fn ask(&self, input: &ConfigInput) -> Option<String>;
}

/// A prompter that never answers.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoPrompter;

impl InputPrompter for NoPrompter {
    fn ask(&self, _input: &ConfigInput) -> Option<String> {
        None
    }
}

impl Variables {
    /// Takes the environment of this process as it is now. Variables that are not UTF-8 are skipped, and inputs stay
    /// unanswered.
    pub fn from_process() -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Variables {
            environment: std::env::vars_os().filter_map(text).collect(),
            // With an empty or relative home, every path below it would be in the working directory.
            home: std::env::home_dir().filter(|home| home.is_absolute()),
            workspace: std::env::current_dir().unwrap_or_else(|_| PathBuf::from(".")),
            prompter: Arc::new(NoPrompter),
        }
    }

    /// Returns a variable if it is set and not empty.
    pub fn non_empty(&self, name: &str) -> Option<&str> {
        self.environment.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }
}

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Variables");
        shown.field("environment", &self.environment.len());
        shown.field("home", &self.home).field("workspace", &self.workspace).finish_non_exhaustive()
    }
}

#[cfg(test)]
impl Variables {
    /// Creates variables for a test, with the folders `/home/me` and `/project` and no answers to inputs.
    pub(crate) fn of_test(environment: &[(&str, &str)]) -> Self {
        Variables {
            environment: environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            home: Some(PathBuf::from("/home/me")),
            workspace: PathBuf::from("/project"),
            prompter: Arc::new(NoPrompter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_no_value() {
        let shown = format!("{:?}", Variables::of_test(&[("TOKEN", "s3cret-value")]));
        assert!(shown.contains("environment: 1") && !shown.contains("s3cret-value"), "{shown}");
    }

    #[test]
    fn the_process_has_a_folder_and_variables() {
        let variables = Variables::from_process();
        assert!(variables.workspace.is_absolute());
        assert!(!variables.environment.is_empty());
        assert_eq!(variables.prompter.ask(&ConfigInput::default()), None);
    }
}
