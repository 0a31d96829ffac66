//! The gate's own tools, with which a model finds and calls tools that are not listed.

use super::gate_state::GateState;
use crate::arguments;
use crate::catalog::{Entry, ExposedTool, NamedTool};
use crate::content;
use crate::json::{self, Object, Value};
use crate::naming::{self, Audience, NamingStyle};
use crate::rules::Circumstances;
use crate::schema::Document;
use crate::search::{FoundTool, SearchIndex, SearchableTool};
use crate::types::{Annotations, Tool, ToolRef};

/// One of the gate's own tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OwnTool {
    /// Finds tools by what they do.
    Find,
    /// Calls a tool by its name.
    Call,
}

/// What is sought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Search {
    pub(super) query: String,
    pub(super) limit: usize,
}

/// The tools of a gate and an index over them.
#[derive(Debug)]
pub(super) struct SearchableTools {
    tools: Vec<NamedTool>,
    index: SearchIndex,
}

impl OwnTool {
    /// Returns the own tool of this name.
    pub(super) fn of(name: &str) -> Option<Self> {
        [OwnTool::Find, OwnTool::Call].into_iter().find(|own| own.name() == name)
    }

    fn name(self) -> &'static str {
        match self {
            OwnTool::Find => "find_tools",
            OwnTool::Call => "call_tool",
        }
    }

    fn schema(self) -> &'static str {
        match self {
            OwnTool::Find => FIND_SCHEMA,
            OwnTool::Call => CALL_SCHEMA,
        }
    }

    /// Reads the arguments of a call.
    fn read(self, text: &str) -> Result<Object<'static>, String> {
        let schema = Document::new(json::parse(self.schema()).expect("the schema is JSON"));
        let parsed = arguments::parse(text, Some(&schema)).map_err(|refusal| refusal.to_string())?;
        match json::parse(&parsed.arguments).map(Value::into_owned) {
            Ok(Value::Object(members)) => Ok(members),
            _ => Ok(Object::new()),
        }
    }
}

const FIND_SCHEMA: &str = r#"{"type":"object","properties":{"query":{"type":"string","description":"What the tool should do, in a few words"},"limit":{"type":"integer","description":"The maximum number of tools to return","minimum":1,"maximum":50,"default":5}},"required":["query"]}"#;
const CALL_SCHEMA: &str = r#"{"type":"object","properties":{"name":{"type":"string","description":"The name of the tool, as find_tools returns it"},"arguments":{"type":"object","description":"The arguments of the tool, as its inputSchema describes them"}},"required":["name"]}"#;
/// The number of tools that are found if the caller does not say how many it wants.
const USUAL_LIMIT: usize = 5;
const MOST_FOUND: usize = 50;

/// Reads what a call of `find_tools` seeks.
pub(super) fn read_search(arguments: &str) -> Result<Search, String> {
    let members = OwnTool::Find.read(arguments)?;
    let query = members.get("query").and_then(Value::as_str).unwrap_or_default().trim().to_owned();
    if query.is_empty() {
        return Err("find_tools needs a query: say in a few words what the tool should do".to_owned());
    }
    let limit = match members.get("limit") {
        Some(Value::Number(number)) => number.parse().unwrap_or(MOST_FOUND),
        _ => USUAL_LIMIT,
    };
    Ok(Search { query, limit: limit.clamp(1, MOST_FOUND) })
}

/// Reads the name and the arguments of the tool that a call of `call_tool` means.
pub(super) fn read_call(arguments: &str) -> Result<(String, String), String> {
    let mut members = OwnTool::Call.read(arguments)?;
    let name = members.remove("name").and_then(|name| name.as_str().map(|name| name.trim().to_owned()));
    let name = name.filter(|name| !name.is_empty() && OwnTool::of(name) != Some(OwnTool::Call));
    let name = name.ok_or("call_tool needs the name of another tool: find one with find_tools")?;
    let arguments = match members.remove("arguments") {
        Some(Value::String(text)) => text.into_owned(),
        Some(Value::Null) => String::new(),
        Some(value) => value.to_json(),
        // Some models write the arguments beside the name.
        None if members.is_empty() => String::new(),
        None => Value::Object(members).to_json(),
    };
    Ok((name, arguments))
}

impl GateState {
    /// Returns the description to show for a server's tool, and its annotations.
    pub(super) fn describe(&self, server: &str, tool: &Tool) -> (Option<String>, Annotations) {
        let own = tool.description.as_deref();
        let description = match self.settings.describe_server {
            true => Some(format!("[MCP:{server}] {}", own.unwrap_or_default()).trim_end().to_owned()),
            false => own.map(str::to_owned),
        };
        (description, self.access.annotations(server, &tool.name, tool.annotations))
    }

    /// Lists only the gate's own tools and those that are always listed, if there are too many to list.
    pub(super) fn shorten(&self, tools: &mut Vec<ExposedTool>) {
        let Some(search) = &self.settings.search else { return };
        let tokens: u64 = tools.iter().map(tokens).sum();
        if tools.len() as u64 <= u64::from(search.above_tools) && tokens <= search.above_tokens {
            return;
        }
        // Under their own names, a server's tools come before the gate's.
        let is_taken = |name: &str| search.style.is_none() && tools.iter().any(|listed| listed.tool.tool == name);
        let own = [OwnTool::Find, OwnTool::Call].into_iter().filter(|own| !is_taken(own.name()));
        let own: Vec<_> = own.map(|own| self.own_tool(own, tools)).collect();
        tools.retain(|listed| self.is_always_listed(listed));
        tools.splice(0..0, own);
    }

    /// Returns the gate's own tool of this name. If tools have their own names, one of a server comes first.
    pub(super) fn own_tool_named(&self, name: &str) -> Option<OwnTool> {
        let search = self.settings.search.as_ref()?;
        let is_same = |(server, entry): (&str, &Entry)| entry.tool.name == name && self.may_use(server, &entry.tool);
        OwnTool::of(name).filter(|_| search.style.is_some() || !self.catalog.entries().any(is_same))
    }

    /// Reports whether a tool is listed even if there are too many.
    fn is_always_listed(&self, ExposedTool { tool: ToolRef { server, tool }, .. }: &ExposedTool) -> bool {
        let has_own_names = self.settings.search.as_ref().is_some_and(|search| search.style.is_none());
        has_own_names && OwnTool::of(tool).is_some() || self.always_listed.find(&format!("{server}.{tool}")).is_some()
    }

    /// Returns one of the gate's own tools, given those that it stands for.
    fn own_tool(&self, own: OwnTool, tools: &[ExposedTool]) -> ExposedTool {
        let schema = match &self.settings.style {
            NamingStyle::Fitted(Audience { target, .. }) => naming::lower(Some(own.schema()), *target).ok(),
            _ => None,
        };
        let (description, annotations) = match own {
            OwnTool::Find => {
                let hidden: Vec<_> = tools.iter().filter(|tool| !self.is_always_listed(tool)).collect();
                let mut servers: Vec<&str> = hidden.iter().map(|tool| &*tool.tool.server).collect();
                servers.sort_unstable();
                servers.dedup();
                let text = format!(
                    "Finds tools by what they do: {} tools of {} are not listed here. Returns their names, descriptions and input schemas. Call what you find with call_tool.",
                    hidden.len(),
                    servers.join(", ")
                );
                let reads = Annotations {
                    read_only: Some(true),
                    destructive: Some(false),
                    idempotent: Some(true),
                    open_world: Some(false),
                };
                (text, reads)
            }
            OwnTool::Call => {
                let text = "Calls a tool that find_tools has found, by its name, with arguments as its input schema describes them.";
                (text.to_owned(), most_dangerous(tools))
            }
        };
        ExposedTool {
            name: own.name().to_owned(),
            tool: ToolRef::new("", own.name()),
            description: Some(description),
            input_schema: Some(schema.unwrap_or_else(|| own.schema().to_owned())),
            annotations,
        }
    }

    /// Finds tools that may be used; with circumstances, without tools of which rules refuse every call.
    pub(super) fn find(&self, search: &Search, seen: Option<&Circumstances>) -> Vec<FoundTool> {
        let wanted = self.settings.search.as_ref().map(|search| search.style.as_ref());
        let has_own_name = wanted == Some(None);
        let style = wanted.flatten().unwrap_or(&self.settings.style);
        let SearchableTools { tools, index } = self.searchable.get_or_init(|| {
            let mut tools = self.catalog.named(style, &|server, tool| self.may_use(server, tool));
            if has_own_name {
                tools.iter_mut().for_each(|tool| tool.name = String::from(&*tool.entry.tool.name));
            }
            let index = SearchIndex::new(tools.iter().map(|NamedTool { server, entry, .. }| SearchableTool {
                server,
                name: &entry.tool.name,
                description: entry.tool.description.as_deref(),
                input_schema: entry.tool.input_schema.as_deref(),
            }));
            SearchableTools { tools, index }
        });
        let is_open = |tool: &NamedTool| {
            let meant = ToolRef::new(&*tool.server, &*tool.entry.tool.name);
            seen.is_none_or(|seen| self.foresee(&meant, seen).denied.is_none())
        };
        let hits = index.find_if(&search.query, search.limit, &mut |tool| is_open(&tools[tool]));
        let found = hits.into_iter().map(|hit| {
            let tool = tools[hit.tool].expose(style, &|server, tool| self.describe(server, tool));
            FoundTool { tool, score: hit.score, why: hit.why }
        });
        found.collect()
    }

    /// Returns what a model is told about tools that were found: a JSON object, in which each tool is masked like the
    /// results of its server. As many are told as fit.
    pub(super) fn tell(&self, found: &[FoundTool]) -> String {
        let most = match self.settings.max_result_bytes {
            0 => usize::MAX,
            most => usize::try_from(most).unwrap_or(usize::MAX),
        };
        let mut text = String::from(r#"{"tools":["#);
        for (at, FoundTool { tool, .. }) in found.iter().enumerate() {
            let mut object = Object::new();
            object.set("name", Value::string(tool.name.as_str()));
            if let Some(description) = &tool.description {
                object.set("description", Value::string(description.as_str()));
            }
            if let Some(schema) = tool.input_schema.as_deref().and_then(|schema| json::parse(schema).ok()) {
                object.set("inputSchema", schema);
            }
            let told = self.results(&tool.tool.server).masker.mask_json(&Value::Object(object).to_json()).into_owned();
            if told.starts_with('{') && text.len() + told.len() + "],}".len() <= most {
                text.push_str(if at > 0 && !text.ends_with('[') { "," } else { "" });
                text.push_str(&told);
            }
        }
        text + "]}"
    }
}

/// Returns about how many tokens the definition of a tool takes.
fn tokens(tool: &ExposedTool) -> u64 {
    let lengths = [Some(&tool.name), tool.description.as_ref(), tool.input_schema.as_ref()];
    content::estimate_tokens(lengths.into_iter().flatten().map(String::len).sum())
}

/// Returns the annotations of a tool that can call all of these: what one of them may do, it may do.
fn most_dangerous(tools: &[ExposedTool]) -> Annotations {
    let all = |test: fn(&Annotations) -> bool| Some(tools.iter().all(|tool| test(&tool.annotations)));
    let read_only = all(|said| said.read_only == Some(true));
    Annotations {
        read_only,
        // What a tool does not say, it may do.
        destructive: all(|said| said.read_only == Some(true) || said.destructive == Some(false)).map(|none| !none),
        idempotent: all(|said| said.read_only == Some(true) || said.idempotent == Some(true)),
        open_world: all(|said| said.open_world == Some(false)).map(|none| !none),
    }
}
