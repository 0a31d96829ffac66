//! Which tools exist, which tool a name means, and what the model learns about them.

mod exposure;
mod instructions;

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::json::{self, Value};
use crate::naming::{self, Audience, NameError, NamingStyle, Target};
use crate::ordered;
use crate::schema::Document;
use crate::types::{Annotations, Tool, ToolRef, Trace};
pub use exposure::ExposedTool;
use exposure::Exposure;
pub(crate) use exposure::NamedTool;
pub use instructions::{FailedServer, ServerNotes, ToolNote, instructions};

/// The longest tool name accepted from a server: MCP allows 128 bytes, and some servers use more.
const MAX_TOOL_NAME: usize = 512;

/// The tool that a name leads to, and how it was found.
#[derive(Debug)]
pub struct Route {
    /// The id of the server.
    pub server: Rc<str>,
    /// The tool that the name means.
    pub tool: Rc<Entry>,
    /// How the tool was found.
    pub note: String,
}

/// The reason why a name leads to no tool that may be used.
#[derive(Debug)]
pub enum NoRoute {
    /// No such tool exists.
    Unknown(NameError),
    /// A server that the caller may know about has the tool, but it may not be used; the error says what may be.
    Hidden(NameError, Rc<str>, Rc<Entry>),
}

/// A tool in the catalog.
#[derive(Debug)]
pub struct Entry {
    /// The tool as its server lists it.
    pub tool: Tool,
    schema: OnceCell<Option<Document<'static>>>,
}

impl Entry {
    fn new(tool: Tool) -> Rc<Self> {
        Rc::new(Entry { tool, schema: OnceCell::new() })
    }

    /// Returns the schema of the arguments, parsed on first use; a schema that is not JSON counts as missing.
    pub fn schema(&self) -> Option<&Document<'static>> {
        let read = || json::parse(self.tool.input_schema.as_deref()?).ok().map(Value::into_owned).map(Document::new);
        self.schema.get_or_init(read).as_ref()
    }
}

/// A kind of difference between two tool lists of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The tool is new.
    Added,
    /// The tool was removed.
    Removed,
    /// The description changed.
    Description,
    /// The schema changed.
    Schema,
    /// The annotations changed.
    Annotations,
}

/// One difference between two tool lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolChange {
    /// The name of the tool.
    pub tool: String,
    /// What changed.
    pub change: Change,
}

/// A tool that was ignored in an offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeftOut {
    /// The server lists this tool twice; the first entry counts.
    Duplicate(String),
    /// The tool's name is empty or too long.
    Unusable(String),
}

/// The tools of one server.
#[derive(Debug, Default)]
struct ServerTools {
    tools: Vec<Rc<Entry>>,
    by_name: BTreeMap<Rc<str>, usize>,
}

impl ServerTools {
    fn listed(&self) -> Vec<&Tool> {
        self.tools.iter().map(|entry| &entry.tool).collect()
    }
}

/// Returns the description and the annotations to show for a server's tool.
pub type Describe<'a> = dyn Fn(&str, &Tool) -> (Option<String>, Annotations) + 'a;

/// A routing table: the servers' tools, in the order of the servers.
#[derive(Debug)]
pub struct Catalog {
    /// The servers in order, each with its tools once it has listed them.
    servers: Vec<(Rc<str>, Option<ServerTools>)>,
    /// The tools that servers had before they were withdrawn, by the index of the server, to say what differs next time.
    withdrawn: BTreeMap<usize, ServerTools>,
    /// The index of each server.
    order: BTreeMap<String, usize>,
    bare_names: bool,
    style: NamingStyle,
    exposed: OnceCell<Exposure>,
    shortened: OnceCell<Vec<Exposure>>,
    /// The names that tools would have that may not be used.
    hidden: OnceCell<Vec<Exposure>>,
}

impl Catalog {
    /// Creates an empty table for servers, in the order in which they are shown, with names in the given style.
    pub fn new<'a>(servers: impl IntoIterator<Item = &'a str>, style: NamingStyle, bare_names: bool) -> Self {
        let (mut listed, mut order) = (Vec::new(), BTreeMap::new());
        for id in servers {
            if !order.contains_key(id) {
                order.insert(id.to_owned(), listed.len());
                listed.push((Rc::from(id), None));
            }
        }
        Catalog {
            servers: listed,
            withdrawn: BTreeMap::new(),
            order,
            bare_names,
            style,
            exposed: OnceCell::new(),
            shortened: OnceCell::new(),
            hidden: OnceCell::new(),
        }
    }

    /// Builds a table of these tools, without any access rules.
    pub fn open(offers: impl IntoIterator<Item = (String, Vec<Tool>)>, bare_names: bool) -> Self {
        let offers: Vec<_> = offers.into_iter().collect();
        let ids = offers.iter().map(|(server, _)| server.as_str());
        let mut catalog = Catalog::new(ids, NamingStyle::DoubleUnderscore, bare_names);
        for (server, tools) in offers {
            catalog.offer(&server, tools);
        }
        catalog
    }

    /// Finds the one tool that the name means, without access rules, and how it was found.
    pub fn find(&self, name: &str) -> Result<(ToolRef, Trace), NameError> {
        match self.resolve(name, &|_, _| true, &|_| true) {
            Ok(route) => Ok((ToolRef::new(&*route.server, &*route.tool.tool.name), vec![route.note])),
            Err(NoRoute::Unknown(error) | NoRoute::Hidden(error, ..)) => Err(error),
        }
    }

    /// Lists all tools in the given style, with their servers' descriptions.
    pub fn list(&self, style: &NamingStyle) -> Vec<ExposedTool> {
        self.tools(style, &|_, _| true, &|_, tool| (tool.description.clone(), tool.annotations))
    }

    /// Stores the result of `tools/list` of a configured server; it replaces the previous one.
    pub fn offer(&mut self, server: &str, tools: Vec<Tool>) -> (Vec<ToolChange>, Vec<LeftOut>) {
        let Some(&at) = self.order.get(server) else { return Default::default() };
        let mut left_out = Vec::new();
        let mut offer = ServerTools::default();
        for tool in tools {
            let name: Rc<str> = Rc::from(&*tool.name);
            if name.is_empty() || name.len() > MAX_TOOL_NAME {
                left_out.push(LeftOut::Unusable(tool.name));
            } else if offer.by_name.contains_key(&name) {
                left_out.push(LeftOut::Duplicate(tool.name));
            } else {
                offer.by_name.insert(name, offer.tools.len());
                offer.tools.push(Entry::new(tool));
            }
        }
        let withdrawn = self.withdrawn.remove(&at);
        let changes = match self.servers[at].1.as_ref().or(withdrawn.as_ref()) {
            Some(before) => changes(&before.listed(), &offer.listed()),
            None => Vec::new(),
        };
        self.servers[at].1 = Some(offer);
        self.forget_names();
        (changes, left_out)
    }

    /// Forgets the tools of a server.
    pub fn withdraw(&mut self, server: &str) {
        if let Some(&at) = self.order.get(server) {
            if let Some(tools) = self.servers[at].1.take() {
                self.withdrawn.insert(at, tools);
            }
            self.forget_names();
        }
    }

    fn forget_names(&mut self) {
        self.exposed = OnceCell::new();
        self.shortened = OnceCell::new();
        self.hidden = OnceCell::new();
    }

    /// Reports whether a server has a tool.
    pub fn has(&self, server: &str, tool: &str) -> bool {
        self.tool(server, tool).is_some()
    }

    /// Reports whether a server has listed its tools, even if the list was empty.
    pub fn has_offer(&self, server: &str) -> bool {
        self.server_tools(server).is_some()
    }

    fn server_tools(&self, server: &str) -> Option<&ServerTools> {
        self.servers[*self.order.get(server)?].1.as_ref()
    }

    /// Returns a tool of a server.
    pub fn entry(&self, server: &str, tool: &str) -> Option<&Entry> {
        self.tool(server, tool).map(|(_, entry)| &**entry)
    }

    /// Returns all tools with their servers, in order.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.all().map(|(server, entry)| (&**server, &**entry))
    }

    fn tool(&self, server: &str, tool: &str) -> Option<(&Rc<str>, &Rc<Entry>)> {
        let (id, offer) = &self.servers[*self.order.get(server)?];
        let offer = offer.as_ref()?;
        Some((id, &offer.tools[*offer.by_name.get(tool)?]))
    }

    fn all(&self) -> impl Iterator<Item = (&Rc<str>, &Rc<Entry>)> {
        let offers = self.servers.iter().filter_map(|(id, offer)| Some((id, offer.as_ref()?)));
        offers.flat_map(|(id, offer)| offer.tools.iter().map(move |tool| (id, tool)))
    }

    /// Lists the tools that may be used, in the given naming style and in the order of the servers.
    pub fn tools(
        &self,
        style: &NamingStyle,
        may_use: &dyn Fn(&str, &Tool) -> bool,
        describe: &Describe<'_>,
    ) -> Vec<ExposedTool> {
        self.named(style, may_use).iter().map(|named| named.expose(style, describe)).collect()
    }

    /// Lists the tools that may be used under the names that they have in a naming style, in the order of the servers.
    pub(crate) fn named(&self, style: &NamingStyle, may_use: &dyn Fn(&str, &Tool) -> bool) -> Vec<NamedTool> {
        let visible: Vec<_> = self.all().filter(|(server, entry)| may_use(server, &entry.tool)).collect();
        let names = exposure::names(style, &visible);
        let named = |((server, entry), name): ((&Rc<str>, &Rc<Entry>), String)| NamedTool {
            name,
            server: Rc::clone(server),
            entry: Rc::clone(entry),
        };
        visible.into_iter().zip(names).map(named).collect()
    }

    /// Finds the one tool that the name means, among those that may be used.
    ///
    /// Exact names come first, then every form of every tool, then names shortened for providers. `selects` says which
    /// servers the caller may know about: to it, a tool of any other server does not exist.
    pub fn resolve(
        &self,
        name: &str,
        may_use: &dyn Fn(&str, &Tool) -> bool,
        selects: &dyn Fn(&str) -> bool,
    ) -> Result<Route, NoRoute> {
        let visible = || self.all().filter(|(server, entry)| may_use(server, &entry.tool));
        let exposed = self.exposed.get_or_init(|| Exposure::new(&self.style, visible()));
        if let Some((server, tool)) = exposed.find(name) {
            return Ok(Route { server, tool, note: format!("name {name:?} is the listed name of a tool") });
        }
        let mut matches = self.forms(name);
        matches.retain(|(server, _)| selects(server));
        let bare = matches.is_empty() && self.bare_names;
        if bare {
            let selected = self.servers.iter().filter(|(id, _)| selects(id));
            matches.extend(selected.filter_map(|(id, _)| self.tool(id, name)));
        }
        let found = matches.len();
        let hidden = matches.first().copied();
        matches.retain(|(server, entry)| may_use(server, &entry.tool));
        match (&matches[..], hidden) {
            ([(server, tool)], _) => {
                let form = if bare { " (bare name)" } else { "" };
                let only = if found > 1 { " (the only match that is allowed)" } else { "" };
                let note = format!("name {name:?} means tool {:?} of server {server:?}{form}{only}", tool.tool.name);
                Ok(Route { server: Rc::clone(server), tool: Rc::clone(tool), note })
            }
            ([], None) => {
                let shortened = self.shortened.get_or_init(|| shortened_names(&visible().collect::<Vec<_>>()));
                if let Some((server, tool)) = find_one(shortened, name) {
                    return Ok(Route { server, tool, note: format!("name {name:?} was shortened for a provider") });
                }
                let hidden = self.hidden.get_or_init(|| self.hidden_names(may_use, selects));
                match find_one(hidden, name) {
                    Some((server, entry)) => Err(self.hidden_tool(server, entry, may_use)),
                    None => Err(NoRoute::Unknown(self.explain(name, may_use, selects))),
                }
            }
            ([], Some((server, entry))) => Err(self.hidden_tool(Rc::clone(server), Rc::clone(entry), may_use)),
            (several, _) => {
                let meanings: Vec<String> =
                    several.iter().map(|(server, tool)| format!("{server}.{}", tool.tool.name)).collect();
                Err(NoRoute::Unknown(NameError::ambiguous(name, &meanings)))
            }
        }
    }

    /// Finds every tool of which the name is a form.
    fn forms(&self, name: &str) -> Vec<(&Rc<str>, &Rc<Entry>)> {
        naming::readings(name).into_iter().filter_map(|(server, tool)| self.tool(server, tool)).collect()
    }

    /// Returns the names that tools would have that may not be used, of servers that the caller may know about.
    fn hidden_names(&self, may_use: &dyn Fn(&str, &Tool) -> bool, selects: &dyn Fn(&str) -> bool) -> Vec<Exposure> {
        let hidden = self.all().filter(|(server, entry)| selects(server) && !may_use(server, &entry.tool));
        let hidden: Vec<_> = hidden.collect();
        let mut tables = shortened_names(&hidden);
        tables.push(Exposure::new(&self.style, hidden.into_iter()));
        tables
    }

    /// Says that a tool may not be used, and which tools of its server may be.
    fn hidden_tool(&self, server: Rc<str>, entry: Rc<Entry>, may_use: &dyn Fn(&str, &Tool) -> bool) -> NoRoute {
        let error = NameError::unknown_tool(&entry.tool.name, &server, &self.available(&server, may_use));
        NoRoute::Hidden(error, server, entry)
    }

    /// Lists the servers whose tools are unknown and that could give the name another meaning.
    pub fn contenders(&self, name: &str, selects: &dyn Fn(&str) -> bool) -> Vec<String> {
        let mut silent = self.without_offer(selects).peekable();
        // Usually all tools are known, and there is no need to split the name.
        if silent.peek().is_none() {
            return Vec::new();
        }
        let meant: BTreeSet<&str> = ordered::set(naming::readings(name).into_iter().map(|(server, _)| server));
        silent.filter(|id| meant.contains(id)).map(str::to_owned).collect()
    }

    /// Lists the servers whose tools are unknown and that an unknown name could belong to.
    ///
    /// A name shortened for a provider still begins like its server's id; a bare name may belong to any server.
    pub fn candidates(&self, name: &str, selects: &dyn Fn(&str) -> bool) -> Vec<String> {
        let bare = self.bare_names && naming::likely_server(name).is_none();
        self.without_offer(selects).filter(|id| bare || naming::begins_like(name, id)).map(str::to_owned).collect()
    }

    /// Lists the selected servers whose tools are unknown.
    pub fn without_offer(&self, selects: &dyn Fn(&str) -> bool) -> impl Iterator<Item = &str> {
        self.servers.iter().filter(move |(id, offer)| offer.is_none() && selects(id)).map(|(id, _)| &**id)
    }

    /// Explains why no tool has this name.
    fn explain(&self, name: &str, may_use: &dyn Fn(&str, &Tool) -> bool, selects: &dyn Fn(&str) -> bool) -> NameError {
        let readings = naming::readings(name);
        let known = readings.iter().filter(|(server, _)| self.order.contains_key(*server) && selects(server));
        if let Some((server, tool)) = known.max_by_key(|(server, _)| server.len()) {
            let available = self.available(server, may_use);
            let meant = naming::most_like(available.iter().copied(), tool).map(|tool| format!("{server}.{tool}"));
            return NameError::unknown_tool(tool, server, &available).suggesting(meant);
        }
        let meant = self.most_like(name, may_use);
        match naming::likely_server(name) {
            Some(server) => NameError::unknown_server(server, &self.servers(selects)).suggesting(meant),
            None => NameError::invalid(name).suggesting(meant),
        }
    }

    /// Returns the tool whose name, with or without its server, is most like this one.
    fn most_like(&self, name: &str, may_use: &dyn Fn(&str, &Tool) -> bool) -> Option<String> {
        let visible = self.all().filter(|(server, entry)| may_use(server, &entry.tool));
        let names: Vec<[String; 2]> =
            visible.map(|(server, entry)| [format!("{server}.{}", entry.tool.name), entry.tool.name.clone()]).collect();
        let plain = naming::normalize(name.strip_prefix("mcp__").unwrap_or(name));
        let near = naming::most_like(names.iter().flatten().map(String::as_str), &plain)?;
        names.iter().find(|names| names.iter().any(|name| name == near)).map(|[whole, _]| whole.clone())
    }

    fn available(&self, server: &str, may_use: &dyn Fn(&str, &Tool) -> bool) -> Vec<&str> {
        let tools = self.server_tools(server).map_or(&[][..], |offer| &offer.tools);
        tools.iter().filter(|entry| may_use(server, &entry.tool)).map(|entry| &*entry.tool.name).collect()
    }

    fn servers(&self, selects: &dyn Fn(&str) -> bool) -> Vec<&str> {
        self.servers.iter().map(|(id, _)| &**id).filter(|id| selects(id)).collect()
    }
}

/// Returns the names of tools, shortened for each provider without a prefix.
fn shortened_names(tools: &[(&Rc<str>, &Rc<Entry>)]) -> Vec<Exposure> {
    let mut tables = Vec::new();
    for target in Target::ALL {
        let style = NamingStyle::Fitted(Audience { target, prefix: String::new() });
        tables.push(Exposure::new(&style, tools.iter().copied()));
    }
    tables
}

/// Returns the only tool that a name means in these tables.
fn find_one(tables: &[Exposure], name: &str) -> Option<(Rc<str>, Rc<Entry>)> {
    let mut only: Option<(Rc<str>, Rc<Entry>)> = None;
    for (server, tool) in tables.iter().filter_map(|table| table.find(name)) {
        match &only {
            Some((_, known)) if !Rc::ptr_eq(known, &tool) => return None,
            _ => only = Some((server, tool)),
        }
    }
    only
}

/// Lists the differences between two tool lists of a server.
pub fn changes(before: &[&Tool], after: &[&Tool]) -> Vec<ToolChange> {
    let mut old: BTreeMap<&str, &Tool> = ordered::map(before.iter().map(|tool| (&*tool.name, *tool)));
    let mut found = Vec::new();
    let mut note = |tool: &str, change| found.push(ToolChange { tool: tool.to_owned(), change });
    for new in after {
        match old.remove(&*new.name) {
            None => note(&new.name, Change::Added),
            Some(old) => {
                if old.description != new.description {
                    note(&new.name, Change::Description);
                }
                if old.input_schema != new.input_schema {
                    note(&new.name, Change::Schema);
                }
                if old.annotations != new.annotations {
                    note(&new.name, Change::Annotations);
                }
            }
        }
    }
    old.into_keys().for_each(|gone| note(gone, Change::Removed));
    found
}

#[cfg(test)]
mod tests;
