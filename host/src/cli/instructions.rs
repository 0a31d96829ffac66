//! `toolgate instructions`: one text that tells a model what servers want it to know.

use std::process::ExitCode;

use serde::Serialize;
use toolgate::logic::types::catalog::{FailedServer, ServerNotes, ToolNote};
use toolgate::session::Kind;

use super::desk::{Desk, ServerArgs};
use super::failure::Failure;
use super::reply;

/// Of which servers.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub servers: ServerArgs,
}

#[derive(Serialize)]
struct Shown {
    instructions: String,
}

/// Prints the instructions of all servers, notes on their tools, and which servers cannot be used.
pub async fn run(desk: &Desk, args: &Args) -> Result<ExitCode, Failure> {
    let mut notes = Vec::new();
    let mut failed = Vec::new();
    let outcomes = desk.connect_all().await;
    let tools = desk.gate.tools(&desk.gate.style())?;
    for (link, outcome) in outcomes {
        let server = link.server();
        let session = match outcome {
            Ok(session) => session,
            Err(why) => {
                failed.push(FailedServer { server: link.id().to_owned(), reason: desk.clean(&why.to_string()) });
                continue;
            }
        };
        let prompts = match session.list(Kind::Prompts).await {
            Ok(listing) => {
                let owned = listing.items.iter().map(|item| reply::owned(desk, link, item));
                owned.collect::<Result<Vec<_>, _>>()?
            }
            Err(why) => {
                desk.warn(link, &toolgate::registry::Unavailable::Failed(why));
                Vec::new()
            }
        };
        let described = prompts.iter().filter_map(|prompt| reply::text(prompt, "description"));
        let of_server = tools.iter().filter(|tool| tool.tool.server == link.id());
        let noted = of_server.filter_map(|tool| {
            let rules = server.tools.iter().find(|rules| rules.tool == tool.tool.tool)?;
            Some(ToolNote { name: tool.name.clone(), text: rules.note.clone()? })
        });
        let said = match &session.peer().instructions {
            Some(said) => Some(desk.gate.mask(link.id(), said)?),
            None => None,
        };
        notes.push(ServerNotes {
            server: link.id().to_owned(),
            instructions: server.instructions.clone().or(said),
            prompts: described.collect(),
            tools: noted.collect(),
        });
    }
    let instructions = desk.gate.instructions(&notes, &failed)?;
    if args.servers.json {
        desk.print_json(&Shown { instructions })?;
    } else {
        desk.print(&instructions)?;
    }
    Ok(ExitCode::SUCCESS)
}
