//! `toolgate resources`: lists the resources of all servers, or reads one.

use std::process::ExitCode;
use std::sync::Arc;

use crate::json::{JsonObject, LossyString};
use crate::registry::Link;
use crate::session::{ListKind, Session};
use serde::{Deserialize, Serialize};

use super::context::{CliContext, ServerArgs};
use super::error::CliError;
use super::{requests, table};

/// The arguments of `toolgate resources`.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Option<ResourcesCommand>,
    #[command(flatten)]
    pub servers: ServerArgs,
}

#[derive(clap::Subcommand)]
enum ResourcesCommand {
    /// Print the content of a resource
    Read {
        /// The URI of the resource, as listed
        uri: String,
        #[command(flatten)]
        servers: ServerArgs,
    },
}

impl Args {
    /// Merges the options from before and after the subcommand.
    pub(super) fn servers(&self) -> ServerArgs {
        match &self.command {
            Some(ResourcesCommand::Read { servers, .. }) => self.servers.clone().or(servers),
            None => self.servers.clone(),
        }
    }
}

/// Lists the resources, or reads one.
pub(super) async fn run(context: &CliContext, args: &Args) -> Result<ExitCode, CliError> {
    let servers = args.servers();
    match &args.command {
        Some(ResourcesCommand::Read { uri, .. }) => read(context, uri, &servers).await,
        None => list(context, &servers).await,
    }
}

#[derive(Serialize)]
struct ResourceList {
    resources: Vec<JsonObject>,
    templates: Vec<JsonObject>,
    failed: Vec<requests::UnansweredServer>,
}

async fn list(context: &CliContext, args: &ServerArgs) -> Result<ExitCode, CliError> {
    let found = requests::list_all(context, &[ListKind::Resources, ListKind::Templates]).await;
    let (resources, templates) = (found.masked_items(context, 0)?, found.masked_items(context, 1)?);
    if args.json {
        context.print_json(&ResourceList { resources, templates, failed: found.failed })?;
    } else {
        let row = |address: &str, item: &JsonObject| {
            let text = |name| context.redact(&requests::member_text(item, name).unwrap_or_default()).into_owned();
            let what = [text("description"), text("title"), text("name")].into_iter().find(|text| !text.is_empty());
            [text(address), text("server"), table::first_line(&what.unwrap_or_default())]
        };
        let rows = resources.iter().map(|item| row("uri", item));
        let rows = rows.chain(templates.iter().map(|item| row("uriTemplate", item)));
        context.print_colored(&table::draw(&["RESOURCE", "SERVER", "WHAT IT IS"], rows))?;
    }
    Ok(found.code)
}

async fn read(context: &CliContext, uri: &str, args: &ServerArgs) -> Result<ExitCode, CliError> {
    let (link, session) = find_owner(context, uri, args).await?;
    let mut params = JsonObject::default();
    params.set("uri", uri);
    let mut result = requests::request_masked(context, &link, &session, "resources/read", &params, args).await?;
    if args.json {
        result.set("server", link.id());
        context.print_json(&result)?;
    } else {
        context.print_answer(&contents(requests::read_result(&result, "resources/read")?))?;
    }
    Ok(ExitCode::SUCCESS)
}

#[derive(Deserialize)]
struct ResourceContents {
    contents: Vec<ContentPart>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContentPart {
    #[serde(default)]
    uri: String,
    #[serde(default)]
    mime_type: Option<String>,
    #[serde(default)]
    text: Option<LossyString>,
    #[serde(default)]
    blob: Option<String>,
}

/// Joins the texts of all parts; a binary part becomes one line.
fn contents(ResourceContents { contents }: ResourceContents) -> String {
    let parts = contents.into_iter().map(|part| match (part.text, part.blob) {
        (Some(LossyString(text)), _) => text,
        (None, blob) => {
            let kind = part.mime_type.unwrap_or_else(|| "binary".to_owned());
            let bytes = blob.map_or(0, |blob| blob.len() / 4 * 3);
            format!("[{kind} of about {bytes} bytes at {}; --json prints it in base64]", part.uri)
        }
    });
    parts.collect::<Vec<_>>().join("\n")
}

/// Finds the server of a resource: the only one selected, the one that lists it, or the one with a matching template.
async fn find_owner(context: &CliContext, uri: &str, args: &ServerArgs) -> Result<(Arc<Link>, Arc<Session>), CliError> {
    if let [id] = args.server.as_slice() {
        let link =
            context.gate.registry().link(id).expect("opening the context checked that the selected servers exist");
        let session = link.session().await.map_err(|why| requests::unavailable_error(context, &link, &why))?;
        return Ok((link, session));
    }
    let found = requests::list_all(context, &[ListKind::Resources, ListKind::Templates]).await;
    let exact: Vec<_> = found.answered.iter().filter(|(_, found)| found.lists[0].lists(uri)).collect();
    let fitting = || found.answered.iter().filter(|(_, found)| found.lists[1].has_fitting(uri)).collect();
    let candidates = if exact.is_empty() { fitting() } else { exact };
    match candidates.as_slice() {
        [(link, found)] => Ok((Arc::clone(link), Arc::clone(&found.session))),
        [] => Err(requests::not_found(
            &found.failed,
            format!("no server lists {uri:?}; to ask a server anyway, name it with --server"),
        )),
        several => {
            let ids: Vec<_> = several.iter().map(|(link, _)| link.id()).collect();
            Err(CliError::Usage(format!(
                "{uri:?} is a resource of several servers; choose one with --server: {}",
                ids.join(", ")
            )))
        }
    }
}
