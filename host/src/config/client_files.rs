//! The files in which MCP clients keep their servers on this machine.

use std::path::PathBuf;

use super::import::ImportClient;
use super::variables::Variables;

/// A file in which a client may keep servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientFile {
    /// The client.
    pub client: ImportClient,
    /// Whose servers the file has.
    pub scope: ClientScope,
    /// The file, as an absolute path.
    pub path: PathBuf,
}

/// Whose servers a client's file has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientScope {
    /// The user's servers, for all projects.
    User,
    /// The servers of the project in the working directory, which may have come with a download.
    Project,
}

/// Returns the files that clients read on this machine, whether or not they exist: first the user's, then the
/// project's. The first file of a client and a scope is the one where the client itself writes servers.
pub fn client_files(variables: &Variables) -> Vec<ClientFile> {
    let absolute = |name: &str| variables.non_empty(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = variables.home.as_ref();
    let below_home = |path: &str| home.map(|home| home.join(path));
    let applications = if cfg!(target_os = "macos") {
        below_home("Library/Application Support")
    } else {
        absolute("XDG_CONFIG_HOME").or_else(|| below_home(".config"))
    };
    let application = |path: &str| applications.as_ref().map(|folder| folder.join(path));
    let claude_code = absolute("CLAUDE_CONFIG_DIR").map(|folder| folder.join(".claude.json"));
    let codex = absolute("CODEX_HOME").map(|folder| folder.join("config.toml"));
    let user = [
        (ImportClient::ClaudeDesktop, application("Claude/claude_desktop_config.json")),
        (ImportClient::ClaudeCode, claude_code.or_else(|| below_home(".claude.json"))),
        (ImportClient::VsCode, application("Code/User/mcp.json")),
        (ImportClient::VsCode, application("Code/User/settings.json")),
        (ImportClient::Cursor, below_home(".cursor/mcp.json")),
        (ImportClient::Gemini, below_home(".gemini/settings.json")),
        (ImportClient::Codex, codex.or_else(|| below_home(".codex/config.toml"))),
    ];
    let project = [
        (ImportClient::ClaudeCode, ".mcp.json"),
        (ImportClient::VsCode, ".vscode/mcp.json"),
        (ImportClient::Cursor, ".cursor/mcp.json"),
        (ImportClient::Gemini, ".gemini/settings.json"),
        (ImportClient::Codex, ".codex/config.toml"),
    ];
    let user = user.into_iter().filter_map(|(client, path)| Some((client, ClientScope::User, path?)));
    let project =
        project.into_iter().map(|(client, path)| (client, ClientScope::Project, variables.workspace.join(path)));
    let mut files: Vec<ClientFile> = Vec::new();
    for (client, scope, path) in user.chain(project) {
        // In the home folder, the files of the project are the user's.
        if files.iter().all(|file| file.path != path) {
            files.push(ClientFile { client, scope, path });
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_home_folder_is_no_project() {
        let mut variables = Variables::of_test(&[]);
        assert_eq!(client_files(&variables).len(), 12);
        variables.workspace = PathBuf::from("/home/me");
        let files = client_files(&variables);
        let project: Vec<_> = files.iter().filter(|file| file.scope == ClientScope::Project).collect();
        let expected = ["/home/me/.mcp.json", "/home/me/.vscode/mcp.json"];
        assert_eq!(project.iter().map(|file| file.path.to_str().unwrap()).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn clients_whose_folder_is_elsewhere_are_found_there() {
        let variables = Variables::of_test(&[("CODEX_HOME", "/x"), ("CLAUDE_CONFIG_DIR", "/y")]);
        let files = client_files(&variables);
        for path in ["/x/config.toml", "/y/.claude.json"] {
            assert!(files.iter().any(|file| file.path.to_str() == Some(path)), "{path}");
        }
    }
}
