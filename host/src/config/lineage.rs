//! Which of us started this one: a gateway that starts itself again, by whatever name or wrapper, would do so without end.
//!
//! Every program that we start is given a variable with an entry for each of us above it, whatever else of the
//! environment it gets.

use std::path::Path;

use sha2::{Digest, Sha256};

use super::variables::Variables;

/// The variable that names those above, the first first.
pub const LINEAGE: &str = "TOOLGATE_LINEAGE";

/// Why nothing is started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LineageError {
    /// One above serves the same configuration.
    #[error(
        "{file} is served already by the toolgate that started this one, which would start itself again without end; \
         take out the entry that starts `toolgate serve`, or give that another configuration"
    )]
    Again {
        /// The configuration.
        file: String,
    },
    /// There are too many above.
    #[error(
        "{MOST} toolgates stand in a row above this one, each started by the one before it; \
         take out the entry that starts the next, or unset {LINEAGE}"
    )]
    TooDeep,
}

/// What one of us is started for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// To serve, for as long as its client is there.
    Gateway,
    /// To do one thing, as a server's own program may have it done.
    Command,
}

/// Enters this process below those above it, so that what it starts is told; refuses where there would be no end.
pub fn enter(variables: &mut Variables, config: Option<(&Path, &str)>, role: Role) -> Result<(), LineageError> {
    let above = variables.non_empty(LINEAGE).unwrap_or_default().to_owned();
    let own = config.map_or_else(LineageEntry::default, |(file, text)| LineageEntry::new(file, text));
    let mut lineage: Vec<&str> = above.split(',').map(str::trim).filter(|entry| !entry.is_empty()).collect();
    if let Some((file, _)) = config
        && role == Role::Gateway
        && lineage.iter().any(|entry| own.matches(entry))
    {
        return Err(LineageError::Again { file: file.display().to_string() });
    }
    if lineage.len() >= MOST {
        return Err(LineageError::TooDeep);
    }
    let own = format!("{}.{}", own.path, own.content);
    lineage.push(&own);
    variables.environment.insert(LINEAGE.to_owned(), lineage.join(","));
    Ok(())
}

/// A configuration by where it is and by what it says. Digests, since paths may hold anything.
#[derive(Default)]
struct LineageEntry {
    path: String,
    content: String,
}

impl LineageEntry {
    fn new(file: &Path, text: &str) -> Self {
        let path = std::fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
        LineageEntry { path: digest(path.as_os_str().as_encoded_bytes()), content: digest(text.as_bytes()) }
    }

    fn matches(&self, entry: &str) -> bool {
        let (path, content) = entry.split_once('.').unwrap_or((entry, ""));
        self.path == path || self.content == content
    }
}

fn digest(bytes: &[u8]) -> String {
    let mut digest = format!("{:x}", Sha256::digest(bytes));
    digest.truncate(LETTERS);
    digest
}

/// More than anyone means to have, and few enough to see what happens.
const MOST: usize = 8;
/// Enough to tell configurations apart, and short enough for eight of them.
const LETTERS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    /// Enters gateways of these configurations, each below the one before it.
    fn row(configs: &[(&str, &str)]) -> Result<Variables, LineageError> {
        let mut variables = Variables::of_test(&[]);
        for (file, text) in configs {
            enter(&mut variables, Some((Path::new(file), text)), Role::Gateway)?;
        }
        Ok(variables)
    }

    #[test]
    fn gateways_of_different_configurations_may_stand_in_a_row() {
        let variables = row(&[("/a.yaml", "a"), ("/b.yaml", "b"), ("/c.yaml", "c")]).unwrap();
        assert_eq!(variables.environment[LINEAGE].split(',').count(), 3);
        assert!(!variables.environment[LINEAGE].contains("yaml"), "no path is told");
    }

    #[test]
    fn the_same_configuration_is_known_by_its_path_and_by_its_content() {
        for again in [("/a.yaml", "changed"), ("/copy.yaml", "a")] {
            for between in [&[][..], &[("/b.yaml", "b")]] {
                let configs = [&[("/a.yaml", "a")], between, &[again]].concat();
                let error = row(&configs).unwrap_err().to_string();
                assert!(error.starts_with(&format!("{} is served already", again.0)), "{error}");
            }
        }
    }

    #[test]
    fn a_row_has_an_end_whatever_it_serves() {
        let names: Vec<String> = (0..=MOST).map(|number| format!("/{number}")).collect();
        let configs: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), name.as_str())).collect();
        assert!(row(&configs[..MOST]).is_ok());
        assert!(matches!(row(&configs), Err(LineageError::TooDeep)));
        let mut variables = row(&configs[..MOST]).unwrap();
        assert_eq!(enter(&mut variables, None, Role::Command), Err(LineageError::TooDeep));
    }

    #[test]
    fn a_servers_own_program_may_do_one_thing_with_the_same_configuration() {
        let mut variables = row(&[("/a.yaml", "a")]).unwrap();
        assert_eq!(enter(&mut variables, Some((Path::new("/a.yaml"), "a")), Role::Command), Ok(()));
        let error = enter(&mut variables, Some((Path::new("/a.yaml"), "a")), Role::Gateway);
        assert!(matches!(error, Err(LineageError::Again { .. })));
    }
}
