//! The command line: its commands and options, and how each command runs.

mod access;
mod agents;
#[cfg(feature = "oauth")]
mod auth;
mod browser;
mod call;
mod calls;
mod check;
mod completions;
mod component;
mod configured_records;
mod context;
mod dashboard;
mod error;
mod explain;
mod files;
mod init;
mod input;
mod instructions;
mod log;
mod logic_args;
mod logs;
mod man;
mod operator_client;
mod port_holder;
mod printer;
mod prompts;
mod read;
mod remote;
mod replay;
mod requests;
mod resources;
mod route;
mod rules;
mod serve;
mod settings;
mod signals;
mod status;
mod style;
mod table;
mod terminal;
mod tools;
mod trust;

use std::io::BufWriter;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use crate::config::secrets::Secrets;
use crate::gate::GateView;
use crate::session::Topics;
use crate::{demo, eval, ownership};
use clap::{CommandFactory, Parser, Subcommand};

use context::{ConfigFallback, ContextOptions, ServerArgs};
use error::CliError;
use logic_args::LogicArgs;

/// One gate between an AI agent and the tools of many MCP servers.
///
/// A WebAssembly component without side effects makes every decision: which tool a name means, how to read free-text
/// arguments, who may call what, whether to retry, and what to mask. This program carries the decisions out.
#[derive(Parser)]
#[command(name = "toolgate", version, max_term_width = 100, subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  toolgate init                             one file from those of your clients
  toolgate tools                            every tool of every server
  toolgate call fs.read 'path: notes.txt'   arguments as a model writes them
  toolgate tools --search 'read a file'     the tools that do this
  toolgate serve                            one MCP server for all of yours
  toolgate status                           a running gateway and its servers
  toolgate calls --follow                   what agents call, as it happens
  toolgate explain last                     the newest recorded call, explained
  toolgate logs fs                          what the server fs wrote last
  toolgate check                            what is wrong, and how to fix it
  toolgate access --diff new.yaml           what a change grants and takes away
  toolgate route                            an example on the demo server
  toolgate route demo__add 'a: 1, b: 2'     which tool, what arguments, and why
  toolgate replay DIR --config new.yaml     what a new policy would have done
  toolgate component --out logic.wasm       the component, to embed it
  echo '{\"op\":\"normalize\",\"name\":\"a__b\"}' | toolgate eval

toolgate looks for its configuration in: --config, TOOLGATE_CONFIG, ./toolgate.yaml, ./toolgate.yml, ./.mcp.json, \
./mcp.json, and toolgate.yaml, toolgate.yml or toolgate.json in your configuration folder. If there is none, `tools`, `call`, `route` and `access` use a built-in demo server.

TOOLGATE_LOG sets log levels more precisely than -v (`debug`, or `toolgate::session=trace,warn`). TOOLGATE_CACHE_DIR \
and TOOLGATE_AUTH_DIR are the folders for compiled components and authorizations. TOOLGATE_ALLOW_SHARED_FILES=1 \
is the same as --allow-shared-files.

Exit codes: 0 ok · 1 the tool or server answered with an error · 2 usage or configuration · 3 server unavailable · \
4 outcome unknown · 5 no such tool, or not allowed · 6 timeout · 7 needs authorization · 70 internal · 130 interrupted")]
struct Cli {
    #[command(flatten)]
    global: GlobalArgs,
    #[command(flatten)]
    logic: LogicArgs,
    #[command(subcommand)]
    command: CliCommand,
}

/// The options for the configuration and the log.
#[derive(clap::Args)]
#[command(next_help_heading = "Options for every command")]
struct GlobalArgs {
    /// The configuration: toolgate.yaml, or the file of another MCP client
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Log more; repeat the flag for even more
    #[arg(long, short, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
    /// The format of the log
    #[arg(long, global = true, value_enum, default_value_t)]
    log_format: log::LogFormat,
    /// Use configuration, token and key files that other users may write, with a warning
    #[arg(long, global = true)]
    allow_shared_files: bool,
}

#[derive(Subcommand)]
enum CliCommand {
    /// Write the servers of your MCP clients to one toolgate.yaml, and let a client use it
    Init(init::Args),
    /// List the tools of all servers
    Tools(tools::Args),
    /// Call a tool, or the tools that a text calls
    Call(call::Args),
    /// Find the calls that a model wrote in a text, without making them
    Read(read::Args),
    /// List the resources of all servers, or read one
    Resources(resources::Args),
    /// List the prompts of all servers, or get one
    Prompts(prompts::Args),
    /// Print the instructions of all servers for a model
    Instructions(ServerArgs),
    /// Connect to all servers, and show what is wrong and how to fix it
    Check(ServerArgs),
    /// Log in to a remote server, show its authorization, or log out
    #[cfg(feature = "oauth")]
    Auth(auth::Args),
    /// Run the gateway: one MCP server for all of yours
    Serve(serve::Args),
    /// Show the state of a running gateway and its servers
    Status(status::Args),
    /// Open the page of a running gateway in a browser
    Dashboard(dashboard::Args),
    /// List what agents called, from a running gateway or from records
    Calls(calls::Args),
    /// Show what servers wrote to their standard error, and what became of them
    Logs(logs::Args),
    /// Show what the agents of a running gateway have seen, or forget it
    Context(agents::Args),
    /// Show which tool a name means, how its arguments are read, and why
    Route(route::Args),
    /// Test rules with cases, or show which of them fit a call
    Rules(rules::Args),
    /// Show who may call what, by which rule, and what another configuration would change
    Access(access::Args),
    /// Replay recorded calls: as they were, or on another component (--logic) or configuration (--config)
    #[command(after_help = replay::HELP)]
    Replay(replay::Args),
    /// Explain one recorded call, step by step
    Explain(explain::Args),
    /// Answer questions from standard input, one JSON object per line
    #[command(after_help = eval::HELP)]
    Eval,
    /// Print the settings of the component that a configuration means, as JSON, for programs that embed it
    Settings(settings::Args),
    /// Describe the built-in component, or write it and its WIT
    Component(component::Args),
    /// Trust a configuration file in the working directory, as it is now
    Trust(files::TrustArgs),
    /// Print the JSON Schema of toolgate.yaml
    Schema,
    /// Convert the configuration of another MCP client to a toolgate.yaml
    Import(files::ImportArgs),
    /// Run the built-in demo server on standard input and output
    DemoServer,
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write one for each command
    Man(man::Args),
}

/// Runs the command that the arguments ask for.
pub fn main() -> ExitCode {
    completions::answer_shell(Cli::command);
    let cli = Cli::parse_from(remote::join_gateway_flag(std::env::args_os()));
    signals::catch_file_size_signal();
    // The panic hook has printed the message; only the exit code is left to set.
    match std::panic::catch_unwind(|| run(cli)) {
        Ok(Ok(code)) => code,
        Ok(Err(failure)) => failure.report(),
        Err(_) => ExitCode::from(error::INTERNAL),
    }
}

fn run(cli: Cli) -> Result<ExitCode, CliError> {
    let secrets = Arc::<Mutex<Secrets>>::default();
    // Over HTTP, somebody operates the gateway and collects its log. On standard input and output, its client may never
    // read what it logs, and a full pipe would stop it.
    let shows_calls = matches!(&cli.command, CliCommand::Serve(args) if args.http.is_some());
    log::start(cli.global.verbose, cli.global.log_format, shows_calls, &secrets)?;
    if cli.global.allow_shared_files || is_set("TOOLGATE_ALLOW_SHARED_FILES") {
        ownership::allow_shared_files();
    }
    // Dropping the guard at the end of the command exports the remaining spans.
    #[cfg(feature = "otel")]
    let _exporting = crate::telemetry::start();
    let (logic, config) = (&cli.logic, cli.global.config.as_deref());
    let with = |servers: &ServerArgs, fallback| ContextOptions {
        logic,
        config,
        servers: servers.clone(),
        fallback,
        secrets: &secrets,
        view: GateView::default(),
        record: None,
        topics: Topics::default(),
    };
    match &cli.command {
        CliCommand::Tools(args) if args.gateway.gateway.is_some() => {
            context::run_until_signal(tools::run_at_gateway(args, || logic.supervisor(), &secrets), async {})
        }
        CliCommand::Call(args) if args.gateway.gateway.is_some() => {
            let input = args.read_input()?;
            let mut logic = logic.supervisor()?;
            context::run_until_signal(call::run_at_gateway(args, input, &mut logic, &secrets), async {})
        }
        CliCommand::Context(args) => context::run_until_signal(agents::run(args, &secrets), async {}),
        CliCommand::Dashboard(args) => context::run_until_signal(dashboard::run(args, &secrets), async {}),
        CliCommand::Status(args) => context::run_until_stopped(args.watch, status::run(args, &secrets)),
        CliCommand::Calls(args) => context::run_until_stopped(args.follow, calls::run(config, args, &secrets)),
        CliCommand::Logs(args) => context::run_until_stopped(args.follow, logs::run(args, &secrets)),
        CliCommand::Tools(args) => {
            let options = with(&args.servers, ConfigFallback::Demo);
            context::run(options, async |context| tools::run(context, args, || logic.supervisor()).await)
        }
        CliCommand::Call(args) => {
            // Read the arguments before signals are handled: Ctrl-C while typing them ends the program at once.
            let input = args.read_input()?;
            let view = GateView { max_result_bytes: args.max_result_bytes, ..GateView::default() };
            let record = args.record.as_deref();
            record.map_or(Ok(()), |dir| configured_records::prepare_folder(dir, "--record"))?;
            let options = ContextOptions { view, record, ..with(&args.servers, ConfigFallback::Demo) };
            context::run(options, async |context| call::run(context, args, input, || logic.supervisor()).await)
        }
        CliCommand::Read(args) => {
            let text = args.text()?;
            let mut supervisor = logic.supervisor()?;
            if config.is_none() {
                return read::run(&printer::Printer(Arc::clone(&secrets)), args, &text, &mut supervisor);
            }
            let options = with(&ServerArgs::default(), ConfigFallback::Fail);
            context::run(options, async |context| read::run_configured(context, args, &text, &mut supervisor).await)
        }
        CliCommand::Resources(args) => {
            let options = with(&args.servers(), ConfigFallback::Fail);
            context::run(options, async |context| resources::run(context, args).await)
        }
        CliCommand::Prompts(args) => {
            let arguments = args.arguments()?;
            let options = with(&args.servers(), ConfigFallback::Fail);
            context::run(options, async |context| prompts::run(context, args, &arguments).await)
        }
        CliCommand::Instructions(args) => {
            let options = with(args, ConfigFallback::Fail);
            context::run(options, async |context| instructions::run(context, args).await)
        }
        CliCommand::Check(args) => {
            let options = ContextOptions { topics: Topics::ALL, ..with(args, ConfigFallback::Fail) };
            context::run(options, async |context| check::run(context, args).await)
        }
        CliCommand::Access(args) => {
            // `--server` limits which servers are asked; the others must not count as disabled.
            let servers = ServerArgs { timeout: args.servers.timeout, ..ServerArgs::default() };
            let options = ContextOptions { topics: Topics::ALL, ..with(&servers, ConfigFallback::Demo) };
            context::run(options, async |context| access::run(context, args).await)
        }
        #[cfg(feature = "oauth")]
        CliCommand::Auth(args) => {
            let options = with(&args.servers(), ConfigFallback::Fail);
            context::run(options, async |context| auth::run(context, args).await)
        }
        CliCommand::Serve(args) => serve::run(logic, config, args, &secrets),
        CliCommand::Init(args) => init::run(args, config, &secrets),
        CliCommand::Trust(args) => files::trust(args, config),
        CliCommand::Schema => files::schema(),
        CliCommand::Import(args) => files::import(args),
        CliCommand::DemoServer => {
            demo::serve(std::io::stdin().lock(), std::io::stdout())?;
            Ok(ExitCode::SUCCESS)
        }
        CliCommand::Replay(args) => replay::run(logic, config, args, &secrets),
        CliCommand::Explain(args) => explain::run(config, args, &secrets),
        CliCommand::Route(args) if route::wants_configuration(args) => {
            let arguments = args.arguments()?;
            let options = with(&ServerArgs::default(), ConfigFallback::Demo);
            context::run(options, async |context| route::run_configured(context, args, arguments).await)
        }
        CliCommand::Rules(args) => match args.explain() {
            Some(args) => {
                let arguments = args.arguments()?;
                let options = with(&ServerArgs::default(), ConfigFallback::Fail);
                context::run(options, async |context| rules::explain(context, args, arguments).await)
            }
            None => args.test(logic, config, &secrets),
        },
        CliCommand::Route(args) => route::run(&mut logic.supervisor()?, args, args.arguments()?),
        CliCommand::Eval => {
            let output = BufWriter::new(std::io::stdout().lock());
            eval::run(&mut logic.supervisor()?, std::io::stdin().lock(), output)?;
            Ok(ExitCode::SUCCESS)
        }
        CliCommand::Settings(args) => settings::run(logic, config, args, &secrets),
        CliCommand::Component(args) => component::run(args),
        CliCommand::Completions { shell } => completions::print_script(*shell),
        CliCommand::Man(args) => man::run(args, Cli::command()),
    }
}

/// Reports whether an environment variable switches something on.
fn is_set(variable: &str) -> bool {
    std::env::var(variable).is_ok_and(|value| ["1", "true", "yes"].contains(&value.as_str()))
}
