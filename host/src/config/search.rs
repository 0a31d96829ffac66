//! Finds the configuration file to use: the first one of a list of places.

use std::path::{Path, PathBuf};

use super::variables::Variables;

/// The result of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SearchResult {
    /// A file.
    File {
        /// The file, as an absolute path.
        path: PathBuf,
        /// Where the file was found.
        found_in: ConfigLocation,
    },
    /// No file was found.
    Nothing {
        /// The paths that were tried, in order.
        searched: Vec<PathBuf>,
    },
}

/// The place where a file was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigLocation {
    /// On the command line.
    Flag,
    /// In the variable `TOOLGATE_CONFIG`.
    Variable,
    /// In the working directory, so it must be trusted before it is used.
    WorkingDirectory,
    /// In the user's configuration folder.
    UserFolder,
}

/// The reason why a named file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SearchError {
    /// The file does not exist.
    #[error("there is no file {path:?}, which {named_by} names")]
    Missing {
        /// The file.
        path: PathBuf,
        /// What names the file: `--config`, an argument or `TOOLGATE_CONFIG`.
        named_by: &'static str,
    },
    /// The path is a folder.
    #[error("{path:?}, which {named_by} names, is a folder; name the file in it")]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What names the folder: `--config`, an argument or `TOOLGATE_CONFIG`.
        named_by: &'static str,
    },
}

/// Finds the file: the one that is named, else one in the working directory, else one in the user's folder.
pub fn find(flag: Option<&Path>, variables: &Variables) -> Result<SearchResult, SearchError> {
    if let Some(path) = flag {
        return find_named(path, "--config", variables);
    }
    if let Some(path) = variables.non_empty("TOOLGATE_CONFIG") {
        return named(Path::new(path), "TOOLGATE_CONFIG", ConfigLocation::Variable, variables);
    }
    let mut searched = Vec::new();
    let here = HERE.iter().map(|name| (variables.workspace.join(name), ConfigLocation::WorkingDirectory));
    let folders = user_folders(variables);
    let user =
        folders.iter().flat_map(|folder| USER.iter().map(|name| (folder.join(name), ConfigLocation::UserFolder)));
    for (path, found_in) in here.chain(user) {
        // A link to nothing, or a folder, is an error when it is read: a file that was meant to be used and is not must not
        // make way for one that permits more.
        if std::fs::symlink_metadata(&path).is_ok() {
            return Ok(SearchResult::File { path, found_in });
        }
        searched.push(path);
    }
    Ok(SearchResult::Nothing { searched })
}

/// Finds the file that an option or argument names.
pub fn find_named(path: &Path, named_by: &'static str, variables: &Variables) -> Result<SearchResult, SearchError> {
    named(path, named_by, ConfigLocation::Flag, variables)
}

fn named(
    path: &Path,
    named_by: &'static str,
    found_in: ConfigLocation,
    variables: &Variables,
) -> Result<SearchResult, SearchError> {
    // A shell expands `~` only at the start of a word, not in `--config=~/x` or in an env file.
    let below_home = path.strip_prefix("~").ok().zip(variables.home.as_ref()).map(|(rest, home)| home.join(rest));
    let path = below_home.unwrap_or_else(|| variables.workspace.join(path));
    match std::fs::metadata(&path) {
        Ok(metadata) if metadata.is_dir() => Err(SearchError::Folder { path, named_by }),
        // Other faults are reported when the file is read.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(SearchError::Missing { path, named_by }),
        _ => Ok(SearchResult::File { path, found_in }),
    }
}

/// Returns the configuration in the user's folder, or where a new one belongs; `None` if the user has no folder.
pub fn user_file(variables: &Variables) -> Option<PathBuf> {
    let folders = user_folders(variables);
    let mut files = folders.iter().flat_map(|folder| USER.iter().map(|name| folder.join(name)));
    files.find(|file| file.exists()).or_else(|| folders.first().map(|folder| folder.join(USER[0])))
}

/// Returns the user's configuration folders, the most likely first.
fn user_folders(variables: &Variables) -> Vec<PathBuf> {
    let absolute = |name: &str| variables.non_empty(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = variables.home.as_ref();
    // The XDG specification says that relative folders are to be ignored.
    let config = absolute("XDG_CONFIG_HOME").or_else(|| home.map(|home| home.join(".config")));
    let mac = home.filter(|_| cfg!(target_os = "macos")).map(|home| home.join("Library/Application Support"));
    [config, mac].into_iter().flatten().map(|folder| folder.join("toolgate")).collect()
}

const HERE: &[&str] = &["toolgate.yaml", "toolgate.yml", ".mcp.json", "mcp.json"];
const USER: &[&str] = &["toolgate.yaml", "toolgate.yml", "toolgate.json"];

#[cfg(test)]
mod tests {
    use super::*;

    struct Machine {
        root: tempfile::TempDir,
        variables: Variables,
    }

    impl Machine {
        fn new(files: &[&str]) -> Self {
            let root = tempfile::tempdir().unwrap();
            for file in files.iter().chain(&["home/", "work/"]) {
                let path = root.path().join(file);
                if file.ends_with('/') {
                    std::fs::create_dir_all(path).unwrap();
                    continue;
                }
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, "").unwrap();
            }
            let mut variables = Variables::of_test(&[]);
            variables.home = Some(root.path().join("home"));
            variables.workspace = root.path().join("work");
            Machine { root, variables }
        }

        fn set(mut self, name: &str, value: &str) -> Self {
            let value = value.replace("ROOT", &self.root.path().display().to_string());
            self.variables.environment.insert(name.into(), value);
            self
        }

        /// Returns the file below the root, and where it was found.
        fn find(&self, flag: Option<&str>) -> Option<(String, ConfigLocation)> {
            match find(flag.map(Path::new), &self.variables).unwrap() {
                SearchResult::File { path, found_in } => {
                    Some((path.strip_prefix(self.root.path()).unwrap().display().to_string(), found_in))
                }
                SearchResult::Nothing { .. } => None,
            }
        }
    }

    #[track_caller]
    fn check(machine: &Machine, flag: Option<&str>, path: &str, found_in: ConfigLocation) {
        assert_eq!(machine.find(flag), Some((path.to_owned(), found_in)));
    }

    #[test]
    fn the_first_file_found_wins() {
        let order = ["work/toolgate.yaml", "work/toolgate.yml", "work/.mcp.json", "work/mcp.json"];
        for n in 0..order.len() {
            check(&Machine::new(&order[n..]), None, order[n], ConfigLocation::WorkingDirectory);
        }
        let user =
            ["toolgate.yaml", "toolgate.yml", "toolgate.json"].map(|name| format!("home/.config/toolgate/{name}"));
        let user: Vec<&str> = user.iter().map(String::as_str).collect();
        for n in 0..user.len() {
            check(&Machine::new(&user[n..]), None, user[n], ConfigLocation::UserFolder);
        }
        let all = Machine::new(&["work/mcp.json", "x/flag.json", "x/variable.json", user[0]]);
        check(&all, None, "work/mcp.json", ConfigLocation::WorkingDirectory);
        let all = all.set("TOOLGATE_CONFIG", "ROOT/x/variable.json");
        check(&all, None, "x/variable.json", ConfigLocation::Variable);
        let flag = all.root.path().join("x/flag.json").display().to_string();
        check(&all, Some(&flag), "x/flag.json", ConfigLocation::Flag);
    }

    #[test]
    fn the_folder_of_the_user_follows_its_variable() {
        let machine = Machine::new(&["etc/toolgate/toolgate.yaml"]).set("XDG_CONFIG_HOME", "ROOT/etc");
        check(&machine, None, "etc/toolgate/toolgate.yaml", ConfigLocation::UserFolder);
        let relative = Machine::new(&["home/.config/toolgate/toolgate.yml"]).set("XDG_CONFIG_HOME", "etc");
        check(&relative, None, "home/.config/toolgate/toolgate.yml", ConfigLocation::UserFolder);
    }

    #[test]
    fn a_named_file_may_be_relative_or_below_home() {
        let machine = Machine::new(&["work/sub/a.yaml", "home/b.yaml"]);
        check(&machine, Some("sub/a.yaml"), "work/sub/a.yaml", ConfigLocation::Flag);
        check(&machine, Some("~/b.yaml"), "home/b.yaml", ConfigLocation::Flag);
    }

    #[test]
    fn a_named_file_that_is_none_is_an_error() {
        let machine = Machine::new(&["work/toolgate.yaml"]);
        let error = find(Some(Path::new("no.yaml")), &machine.variables).unwrap_err().to_string();
        assert!(
            error.starts_with("there is no file ") && error.ends_with("no.yaml\", which --config names"),
            "{error}"
        );
        let error = find(Some(Path::new(".")), &machine.variables).unwrap_err().to_string();
        assert!(error.ends_with("which --config names, is a folder; name the file in it"), "{error}");
        let machine = machine.set("TOOLGATE_CONFIG", "ROOT/no.yaml");
        let error = find(None, &machine.variables).unwrap_err().to_string();
        assert!(error.ends_with("which TOOLGATE_CONFIG names"), "{error}");
        let machine = machine.set("TOOLGATE_CONFIG", "");
        check(&machine, None, "work/toolgate.yaml", ConfigLocation::WorkingDirectory);
    }

    #[cfg(unix)]
    #[test]
    fn what_cannot_be_read_does_not_make_way_for_another_file() {
        let folder = Machine::new(&["work/toolgate.yaml/x", "home/.config/toolgate/toolgate.yaml"]);
        check(&folder, None, "work/toolgate.yaml", ConfigLocation::WorkingDirectory);
        let link = Machine::new(&["home/.config/toolgate/toolgate.yaml"]);
        std::os::unix::fs::symlink("gone.yaml", link.root.path().join("work/toolgate.yaml")).unwrap();
        check(&link, None, "work/toolgate.yaml", ConfigLocation::WorkingDirectory);
    }

    #[test]
    fn with_nothing_found_all_places_are_told() {
        let machine = Machine::new(&[]);
        let SearchResult::Nothing { searched } = find(None, &machine.variables).unwrap() else {
            panic!("there is no file")
        };
        assert_eq!(searched[0], machine.variables.workspace.join("toolgate.yaml"));
        assert_eq!(searched[4], machine.root.path().join("home/.config/toolgate/toolgate.yaml"));
        assert!(searched.len() >= 7);
    }
}
