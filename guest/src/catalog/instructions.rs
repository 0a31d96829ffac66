//! One text for the model: the servers' instructions, notes about tools, and the servers that failed.

/// A note about one tool, for the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolNote {
    /// The name under which the model sees the tool.
    pub name: String,
    /// The note.
    pub text: String,
}

/// What the model is told about one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerNotes {
    /// The id of the server.
    pub server: String,
    /// The server's own instructions.
    pub instructions: Option<String>,
    /// The descriptions of its prompts.
    pub prompts: Vec<String>,
    /// Notes about its tools.
    pub tools: Vec<ToolNote>,
}

/// A server that is currently unavailable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedServer {
    /// The id of the server.
    pub server: String,
    /// The reason, as a short sentence.
    pub reason: String,
}

/// Writes the text; it is empty if there is nothing to say.
pub fn instructions(servers: &[ServerNotes], failed: &[FailedServer]) -> String {
    let mut blocks: Vec<String> = Vec::new();
    for notes in servers {
        let said = notes.instructions.iter().chain(&notes.prompts).map(|text| text.trim());
        let said: Vec<&str> = said.filter(|text| !text.is_empty()).collect();
        let tools: Vec<&ToolNote> = notes.tools.iter().filter(|note| !note.text.trim().is_empty()).collect();
        let mut block = format!("#### MCP Server: {}", notes.server);
        said.iter().for_each(|text| block.push_str(&format!("\n{text}")));
        blocks.push(block);
        blocks.extend(tools.iter().map(|note| format!("##### Tool: {}\n{}", note.name, note.text.trim())));
    }
    if !failed.is_empty() {
        let line = |failed: &FailedServer| format!("\n- **{}**: {}", failed.server, one_line(&failed.reason));
        let lines: String = failed.iter().map(line).collect();
        blocks.push(format!(
            "## Unavailable MCP Servers\n\n\
             The following servers failed to initialize and their tools are NOT available:{lines}\n\n\
             Do not attempt to use tools from these servers."
        ));
    }
    blocks.join("\n\n")
}

/// Joins lines, so that a reason cannot add items to the list.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notes(instructions: &str, tools: &[(&str, &str)]) -> ServerNotes {
        let tools = tools.iter().map(|(name, text)| ToolNote { name: (*name).into(), text: (*text).into() });
        ServerNotes {
            server: "a".into(),
            instructions: Some(instructions.into()),
            prompts: vec![],
            tools: tools.collect(),
        }
    }

    #[test]
    fn servers_tools_and_failures_each_have_their_block() {
        let failed = [FailedServer { server: "b".into(), reason: "refused\n- **c**: injected".into() }];
        assert_eq!(
            instructions(&[notes("Be kind.", &[("a__x", "Use sparingly.")])], &failed),
            "#### MCP Server: a\nBe kind.\n\n##### Tool: a__x\nUse sparingly.\n\n\
             ## Unavailable MCP Servers\n\n\
             The following servers failed to initialize and their tools are NOT available:\n\
             - **b**: refused - **c**: injected\n\n\
             Do not attempt to use tools from these servers."
        );
    }

    #[test]
    fn descriptions_of_prompts_follow_the_instructions() {
        let prompts = vec!["Greets somebody.".to_owned(), "  ".to_owned(), "Asks for a name.".to_owned()];
        let told = ServerNotes { prompts, ..notes("Be kind.", &[]) };
        assert_eq!(instructions(&[told], &[]), "#### MCP Server: a\nBe kind.\nGreets somebody.\nAsks for a name.");
    }

    #[test]
    fn a_server_that_says_nothing_is_still_named() {
        assert_eq!(instructions(&[notes(" ", &[("a__x", "")])], &[]), "#### MCP Server: a");
        assert_eq!(instructions(&[], &[]), "");
    }
}
