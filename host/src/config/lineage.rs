//! The chain of toolgate processes that started this one, which stops a gateway from starting itself without end.
//!
//! Every program that toolgate starts gets a variable with one entry for each toolgate above it, whatever else it
//! inherits.

use std::path::Path;

use super::variables::Variables;
use crate::sha256::sha256_hex;

/// The variable that lists the toolgate processes above, the outermost first.
pub const LINEAGE: &str = "TOOLGATE_LINEAGE";

/// The reason why a toolgate refuses to start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LineageError {
    /// A toolgate above serves the same configuration.
    #[error(
        "{file} is served already by the toolgate that started this one, so toolgate would start itself without end; \
         remove the entry that starts `toolgate serve`, or give it another configuration"
    )]
    Again {
        /// The configuration.
        file: String,
    },
    /// Too many toolgates are above.
    #[error(
        "{MOST} toolgates are already running in a row, each started by the one before it; \
         remove the entry that starts the next, or unset {LINEAGE}"
    )]
    TooDeep,
}

/// The purpose of a toolgate process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// To serve until its client disconnects.
    Gateway,
    /// To run one command, as a server's own program may do.
    Command,
}

/// Adds this process to the chain that its children inherit; fails if the chain would have no end.
pub fn enter(variables: &mut Variables, config: Option<(&Path, &str)>, role: Role) -> Result<(), LineageError> {
    let above = variables.non_empty(LINEAGE).unwrap_or_default().to_owned();
    let (path, content) = config.map(|(file, text)| digests(file, text)).unwrap_or_default();
    let is_own = |entry: &&str| {
        let (its_path, its_content) = entry.split_once('.').unwrap_or((entry, ""));
        path == its_path || content == its_content
    };
    let mut lineage: Vec<&str> = above.split(',').map(str::trim).filter(|entry| !entry.is_empty()).collect();
    if let Some((file, _)) = config
        && role == Role::Gateway
        && lineage.iter().any(is_own)
    {
        return Err(LineageError::Again { file: file.display().to_string() });
    }
    if lineage.len() >= MOST {
        return Err(LineageError::TooDeep);
    }
    let own = format!("{path}.{content}");
    lineage.push(&own);
    variables.environment.insert(LINEAGE.to_owned(), lineage.join(","));
    Ok(())
}

/// Identifies a configuration by digests of its path and of its content, since paths may contain any character.
fn digests(file: &Path, text: &str) -> (String, String) {
    let path = std::fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    (digest(path.as_os_str().as_encoded_bytes()), digest(text.as_bytes()))
}

fn digest(bytes: &[u8]) -> String {
    let mut digest = sha256_hex(bytes);
    digest.truncate(LETTERS);
    digest
}

/// More than anyone needs, and few enough to see what happens.
const MOST: usize = 8;
/// Enough hex digits to tell configurations apart, and short enough for eight of them.
const LETTERS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    /// Enters gateways with these configurations, each below the one before it.
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
