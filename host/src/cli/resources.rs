//! `toolgate resources`: what servers have to read, and the reading of it.

use std::process::ExitCode;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use toolgate::json::Object;
use toolgate::registry::Link;
use toolgate::session::{Kind, Session};

use super::desk::{Desk, ServerArgs};
use super::failure::Failure;
use super::{reply, table};

/// What to list or read.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    pub servers: ServerArgs,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Print what a resource holds
    Read {
        /// The address of the resource, as the list shows it
        uri: String,
        #[command(flatten)]
        servers: ServerArgs,
    },
}

impl Args {
    /// The options, wherever on the command line they stand.
    pub fn servers(&self) -> ServerArgs {
        match &self.command {
            Some(Command::Read { servers, .. }) => self.servers.clone().or(servers),
            None => self.servers.clone(),
        }
    }
}

/// Lists the resources, or reads one.
pub async fn run(desk: &Desk, args: &Args) -> Result<ExitCode, Failure> {
    let servers = args.servers();
    match &args.command {
        Some(Command::Read { uri, .. }) => read(desk, uri, &servers).await,
        None => list(desk, &servers).await,
    }
}

#[derive(Serialize)]
struct Listed {
    resources: Vec<Object>,
    templates: Vec<Object>,
    failed: Vec<reply::FailedServer>,
}

async fn list(desk: &Desk, args: &ServerArgs) -> Result<ExitCode, Failure> {
    let found = reply::gather(desk, |session| async move {
        let resources = session.list(Kind::Resources).await?;
        let templates = session.list(Kind::Templates).await?;
        Ok((resources, templates))
    })
    .await;
    let mut listed = Listed { resources: Vec::new(), templates: Vec::new(), failed: found.failed };
    for (link, (resources, templates)) in &found.found {
        for (from, to) in [(resources, &mut listed.resources), (templates, &mut listed.templates)] {
            for item in &from.items {
                to.push(reply::owned(desk, link, item)?);
            }
        }
    }
    if args.json {
        desk.print_json(&listed)?;
    } else {
        let row = |address: &str, item: &Object| {
            let text = |name| desk.redact(&reply::text(item, name).unwrap_or_default()).into_owned();
            let what = [text("description"), text("title"), text("name")].into_iter().find(|text| !text.is_empty());
            [text(address), text("server"), table::first_line(&what.unwrap_or_default())]
        };
        let resources = listed.resources.iter().map(|item| row("uri", item));
        let templates = listed.templates.iter().map(|item| row("uriTemplate", item));
        desk.print_drawn(&table::draw(["RESOURCE", "SERVER", "WHAT IT IS"], resources.chain(templates)))?;
    }
    Ok(found.code)
}

async fn read(desk: &Desk, uri: &str, args: &ServerArgs) -> Result<ExitCode, Failure> {
    let (link, session) = owner(desk, uri, args).await?;
    let mut params = Object::default();
    params.set("uri", uri);
    let mut said = reply::ask(desk, &link, &session, "resources/read", &params, args).await?;
    if args.json {
        said.result.set("server", link.id());
        desk.print_json(&said.result)?;
    } else {
        desk.print_answer(&contents(said.read("resources/read")?))?;
    }
    Ok(ExitCode::SUCCESS)
}

#[derive(Deserialize)]
struct Contents {
    contents: Vec<Part>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part {
    #[serde(default)]
    uri: String,
    #[serde(default)]
    mime_type: Option<String>,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    blob: Option<String>,
}

/// The text of all parts; what is no text leaves a line.
fn contents(Contents { contents }: Contents) -> String {
    let parts = contents.into_iter().map(|part| match (part.text, part.blob) {
        (Some(text), _) => text,
        (None, blob) => {
            let kind = part.mime_type.unwrap_or_else(|| "binary".to_owned());
            let bytes = blob.map_or(0, |blob| blob.len() / 4 * 3);
            format!("[{kind} of about {bytes} bytes at {}; --json prints it in base64]", part.uri)
        }
    });
    parts.collect::<Vec<_>>().join("\n")
}

/// The server that a resource is of: the only one asked for, the one that lists it, or the one whose template fits.
async fn owner(desk: &Desk, uri: &str, args: &ServerArgs) -> Result<(Arc<Link>, Arc<Session>), Failure> {
    if let [id] = args.server.as_slice() {
        let link = desk.gate.registry().link(id).expect("the desk knows the servers that were asked for");
        let session = link.session().await.map_err(|why| reply::unavailable(desk, &link, &why))?;
        return Ok((link, session));
    }
    let found = reply::gather(desk, |session| async move {
        let resources = session.list(Kind::Resources).await?;
        let templates = session.list(Kind::Templates).await?;
        Ok((session, resources, templates))
    })
    .await;
    let mut exact = Vec::new();
    let mut fitting = Vec::new();
    for (link, (session, resources, templates)) in &found.found {
        let has = |item: &Object, name: &str, fits: &dyn Fn(&str) -> bool| {
            reply::text(item, name).is_some_and(|text| fits(&text))
        };
        let items = |listing: &toolgate::session::Listing| -> Vec<Object> {
            listing.items.iter().filter_map(|item| Object::read(item.get())).collect()
        };
        if items(resources).iter().any(|item| has(item, "uri", &|known| known == uri)) {
            exact.push((link, session));
        } else if items(templates).iter().any(|item| has(item, "uriTemplate", &|template| fits(template, uri))) {
            fitting.push((link, session));
        }
    }
    let candidates = if exact.is_empty() { fitting } else { exact };
    match candidates.as_slice() {
        [(link, session)] => Ok((Arc::clone(link), Arc::clone(session))),
        [] => Err(reply::not_found(
            &found.failed,
            format!("no server lists {uri:?}; name the server with --server to ask it all the same"),
        )),
        several => {
            let ids: Vec<_> = several.iter().map(|(link, _)| link.id()).collect();
            Err(Failure::Usage(format!(
                "{uri:?} is a resource of several servers; choose one with --server: {}",
                ids.join(", ")
            )))
        }
    }
}

/// Whether an address could be made from a template: what stands around its variables is there, in its order.
fn fits(template: &str, uri: &str) -> bool {
    let mut fixed: Vec<&str> =
        template.split('{').map(|part| part.split_once('}').map_or(part, |(_, after)| after)).collect();
    // What stands before the first variable begins the address, and what stands after the last one ends it.
    let Some(last) = fixed.pop() else { return false };
    if fixed.is_empty() {
        return last == uri;
    }
    let first = fixed.remove(0);
    let Some(mut rest) = uri.strip_prefix(first).and_then(|rest| rest.strip_suffix(last)) else { return false };
    for part in fixed {
        match rest.find(part) {
            Some(place) => rest = &rest[place + part.len()..],
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn templates_fit_what_could_be_made_of_them() {
        let rows = [
            ("demo://square/{number}", "demo://square/4", true),
            ("demo://square/{number}", "demo://cube/4", false),
            ("file:///{path}.txt", "file:///a/b.txt", true),
            ("file:///{path}.txt", "file:///a/b.md", false),
            ("file:///{path}.txt", "file:///a/b.txtx", false),
            ("x://plain", "x://plain", true),
            ("x://plain", "x://plainer", false),
            ("x://{a}/{b}", "x://1/2", true),
        ];
        for (template, uri, expected) in rows {
            assert_eq!(fits(template, uri), expected, "{template} {uri}");
        }
    }
}
