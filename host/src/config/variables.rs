//! Where values come from: the environment, the folders and a person. Nothing else reads them from the process.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use super::model::ConfigInput;

/// What expansion may draw on. Its `Debug` shows no value of a variable.
#[derive(Clone)]
pub struct Variables {
    /// The variables of the environment.
    pub environment: BTreeMap<String, String>,
    /// The user's home folder.
    pub home: Option<PathBuf>,
    /// The folder that we work in.
    pub workspace: PathBuf,
    /// Who answers `${input:…}`.
    pub prompter: Arc<dyn InputPrompter>,
}

/// A person who can be asked.
///
/// Every use of an input asks, so whoever implements this remembers the answers, or a person is asked twice.
pub trait InputPrompter: Send + Sync {
    /// The answer; none where nobody answers.
    fn ask(&self, input: &ConfigInput) -> Option<String>;
}

/// There is no person.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoPrompter;

impl InputPrompter for NoPrompter {
    fn ask(&self, _input: &ConfigInput) -> Option<String> {
        None
    }
}

impl Variables {
    /// What this process was given, as it is now. Variables that are not UTF-8 are left out, and nobody is asked.
    pub fn from_process() -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Variables {
            environment: std::env::vars_os().filter_map(text).collect(),
            // An empty or relative home would make every file beneath it one of the working directory.
            home: std::env::home_dir().filter(|home| home.is_absolute()),
            workspace: std::env::current_dir().unwrap_or_else(|_| PathBuf::from(".")),
            prompter: Arc::new(NoPrompter),
        }
    }

    /// The variable, where it is set and not empty.
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
    /// Variables of a test, with `/home/me` and `/project` for folders and nobody to ask.
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
