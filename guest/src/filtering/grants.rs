//! What a principal has been granted, and which servers and tools the grants cover.

use super::AmbiguousGrant;

/// The capabilities of one principal.
#[derive(Debug)]
pub(super) struct Grants(Vec<Grant>);

#[derive(Debug)]
struct Grant {
    text: String,
    /// All meanings that the text could have with these servers; a tool may turn out not to exist.
    meanings: Vec<Meaning>,
    /// Whether several of the meanings exist, so that the grant grants nothing.
    ambiguous: bool,
}

#[derive(Debug, PartialEq)]
enum Meaning {
    Everything,
    Server(String),
    Tool(String, String),
}

impl Grants {
    /// Reads the capabilities; one that names no server or tool can still be required by name.
    pub(super) fn new(capabilities: &[String], servers: &[&str]) -> Self {
        let grant = |text: &String| Grant { text: text.clone(), meanings: meanings(text, servers), ambiguous: false };
        Grants(capabilities.iter().map(grant).collect())
    }

    /// Updates the meaning of each grant, and returns the grants that are ambiguous.
    pub(super) fn learn(&mut self, exists: impl Fn(&str, &str) -> bool) -> Vec<AmbiguousGrant> {
        let mut found = Vec::new();
        for grant in &mut self.0 {
            let real = grant.meanings.iter().filter(|meaning| match meaning {
                Meaning::Everything | Meaning::Server(_) => true,
                Meaning::Tool(server, tool) => exists(server, tool),
            });
            let meanings: Vec<String> = real.map(Meaning::spell).collect();
            grant.ambiguous = meanings.len() > 1;
            if grant.ambiguous {
                found.push(AmbiguousGrant { grant: grant.text.clone(), meanings });
            }
        }
        found
    }

    /// Returns the first grant that covers the tool.
    pub(super) fn covering(&self, server: &str, tool: &str) -> Option<&str> {
        self.unambiguous().find(|grant| grant.covers(server, tool)).map(|grant| &*grant.text)
    }

    /// Reports whether a grant covers the server or one of its tools.
    pub(super) fn touch(&self, server: &str) -> bool {
        let touches = |meaning: &Meaning| {
            meaning.covers_server(server) || matches!(meaning, Meaning::Tool(id, _) if id == server)
        };
        self.unambiguous().any(|grant| grant.meanings.iter().any(touches))
    }

    /// Reports whether a grant covers the whole server.
    pub(super) fn cover_server(&self, server: &str) -> bool {
        self.unambiguous().any(|grant| grant.meanings.iter().any(|meaning| meaning.covers_server(server)))
    }

    fn unambiguous(&self) -> impl Iterator<Item = &Grant> {
        self.0.iter().filter(|grant| !grant.ambiguous)
    }

    /// Returns the first required capability that the principal does not have.
    pub(super) fn lacking<'a>(&self, needed: &'a [String]) -> Option<&'a String> {
        needed.iter().find(|needed| !self.0.iter().any(|grant| grant.text == **needed))
    }

    /// Explains why no grant covers the tool.
    pub(super) fn refusal(&self, server: &str, tool: &str) -> String {
        match self.0.iter().find(|grant| grant.ambiguous && grant.covers(server, tool)) {
            Some(grant) => {
                let meanings: Vec<String> = grant.meanings.iter().map(Meaning::spell).collect();
                format!("denied: capability {:?} is ambiguous and grants nothing: {}", grant.text, meanings.join(", "))
            }
            None => format!("denied: no capability such as \"server:{server}\" or \"tool:{server}/{tool}\""),
        }
    }
}

impl Grant {
    fn covers(&self, server: &str, tool: &str) -> bool {
        let is_tool = |meaning: &Meaning| matches!(meaning, Meaning::Tool(id, name) if id == server && name == tool);
        self.meanings.iter().any(|meaning| meaning.covers_server(server) || is_tool(meaning))
    }
}

impl Meaning {
    /// Reports whether it means the whole server.
    fn covers_server(&self, server: &str) -> bool {
        match self {
            Meaning::Everything => true,
            Meaning::Server(id) => id == server,
            Meaning::Tool(..) => false,
        }
    }

    fn spell(&self) -> String {
        match self {
            Meaning::Everything => "server:*".to_owned(),
            Meaning::Server(id) => format!("server:{id}"),
            Meaning::Tool(id, tool) => format!("tool:{id}/{tool}"),
        }
    }
}

fn meanings(text: &str, servers: &[&str]) -> Vec<Meaning> {
    if let Some(id) = text.strip_prefix("server:") {
        // No server has this id, so `server:*` can only mean everything.
        return vec![if id == "*" { Meaning::Everything } else { Meaning::Server(id.to_owned()) }];
    }
    if let Some((id, tool)) = text.strip_prefix("tool:").and_then(|rest| rest.split_once('/')) {
        return vec![Meaning::Tool(id.to_owned(), tool.to_owned())];
    }
    let Some(rest) = text.strip_prefix("mcp_") else { return Vec::new() };
    let everything = (rest == "integration").then_some(Meaning::Everything);
    let server = servers.iter().filter(|&&id| id == rest).map(|id| Meaning::Server((*id).to_owned()));
    let tools = servers.iter().filter_map(|id| {
        let tool = rest.strip_prefix(id)?.strip_prefix('_')?;
        (!tool.is_empty()).then(|| Meaning::Tool((*id).to_owned(), tool.to_owned()))
    });
    everything.into_iter().chain(server).chain(tools).collect()
}
