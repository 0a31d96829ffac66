//! MCP servers over stdio for tests, most of which misbehave in one way: `fixture MODE [ARGS]`.
//!
//! Apart from what its mode says, a fixture behaves like `plain`: it speaks the initialize era and exits when its input
//! ends.

#[path = "../fixture/answers.rs"]
mod answers;
#[path = "../fixture/asking.rs"]
mod asking;
#[path = "../fixture/chatty.rs"]
mod chatty;
#[path = "../fixture/dying.rs"]
mod dying;
#[path = "../fixture/listing.rs"]
mod listing;
#[path = "../fixture/odd.rs"]
mod odd;
#[path = "../fixture/owning.rs"]
mod owning;
#[path = "../fixture/plain.rs"]
mod plain;
#[path = "../fixture/silent.rs"]
mod silent;
#[path = "../fixture/stateless.rs"]
mod stateless;
#[path = "../fixture/watched.rs"]
mod watched;
#[path = "../fixture/wire.rs"]
mod wire;
#[path = "../fixture/working.rs"]
mod working;

use std::process::exit;

use wire::{Args, Wire};

/// A mode: its name, its arguments, its description and its code.
type Mode = (&'static str, &'static str, &'static str, fn(&mut Wire, &Args));

const MODES: &[Mode] = &[
    // Correct servers, for reference.
    ("plain", "", "has tools `echo` and `add`, a resource and a prompt", plain::plain),
    ("modern", "", "speaks 2026-07-28 only, and refuses `initialize` with -32022", stateless::modern),
    ("env", "", "has a tool `env` that returns its environment as JSON", plain::env),
    ("counts", "FILE", "appends a line to FILE at each tools/call, then answers", plain::counts),
    (
        "links",
        "NAME",
        "links to resources that it does not list, and has those below link://NAME and link://both",
        plain::links,
    ),
    (
        "works",
        "FILE [MS]",
        "logs to FILE: `note` and `look` take MS, `hold` and `watch` last until a file exists, \
         `freeze` stops all communication",
        working::works,
    ),
    // Incorrect answers.
    ("noisy", "", "writes lines of text between its messages", answers::noisy),
    ("huge", "BYTES", "answers its tool `big` with a line of BYTES bytes", answers::huge),
    (
        "structured",
        "BYTES",
        "answers its tool `table` with about BYTES bytes of structured content",
        answers::structured,
    ),
    ("odd", "", "writes unusual JSON: lone surrogates, large numbers, unknown members", odd::odd),
    ("idless-error", "", "answers tools/call with an error that has no id", answers::idless_error),
    ("null-id-error", "", "answers tools/call with an error whose id is null", answers::null_id_error),
    ("twice", "", "gives each answer twice", answers::twice),
    ("wrong-id", "", "sends answers with unknown ids before each correct answer", answers::wrong_id),
    ("string-ids", "", "answers with the id as a string", answers::string_ids),
    ("batch", "", "speaks 2025-03-26 and answers in arrays; two calls of `pair` are answered in one", answers::batch),
    // No answers.
    ("silent", "", "never answers anything", silent::silent),
    ("silent-call", "", "answers everything but tools/call", silent::silent_call),
    ("silent-discover", "", "answers everything but server/discover", silent::silent_discover),
    ("slow-start", "SECONDS", "waits SECONDS before it reads anything", silent::slow_start),
    ("flood-stderr", "[BYTES]", "writes megabytes to stderr at its start and at each call", silent::flood_stderr),
    // Processes that exit when they should not, or do not exit when they should.
    ("dies-before", "", "writes an error to stderr and exits with 3, at once", dying::before),
    ("dies-during", "FILE", "at tools/call appends its pid to FILE and exits with 4, without an answer", dying::during),
    ("dies-within", "FILE", "at tools/call appends its pid to FILE, writes half an answer and exits", dying::within),
    ("dies-after", "", "answers tools/call, then exits with 5", dying::after),
    ("launcher", "FILE", "starts `plain` on its own pipes, as npx does; both pids are in FILE", dying::launcher),
    (
        "litter",
        "FILE [now]",
        "leaves two stubborn children behind when its input ends, or at once; all pids are in FILE",
        dying::litter,
    ),
    ("stubborn", "", "exits neither on SIGTERM nor when its input ends", dying::stubborn),
    // Lists.
    ("endless-cursor", "", "pages its tools with the same cursor forever", listing::endless_cursor),
    ("fresh-cursor", "", "pages its tools with a new cursor forever", listing::fresh_cursor),
    ("pages", "N", "has N tools, ten per page", listing::pages),
    ("list-changed", "", "has one tool more after each call of `grow`, and says so", listing::list_changed),
    (
        "list-lost",
        "FILE",
        "says after a call that its tools changed, then logs tools/list to FILE without an answer",
        listing::list_lost,
    ),
    ("catalog", "N BYTES", "has N tools with schemas of BYTES bytes, on one page", listing::catalog),
    ("malformed", "", "lists tools, resources and prompts, most of them malformed", listing::malformed),
    ("prompts", "NAME…", "has prompts with these names", listing::prompts),
    ("owns", "NAME MS", "lists resources after MS that others have too, and has more than it lists", owning::owns),
    ("no-tools", "", "declares resources only, and does not know tools/list", listing::no_tools),
    (
        "ttl",
        "MS [SCOPE]",
        "2026-07-28: its list may be cached for MS, and says how often it was requested",
        listing::ttl,
    ),
    // Messages during a call.
    ("asks", "", "asks the client four things during a call of `ask`, and returns the answers", asking::asks),
    (
        "visits",
        "",
        "sends the person to a URL during a call of `visit`, and reports when that is complete",
        asking::visits,
    ),
    ("wordy", "BYTES", "sends texts of BYTES bytes wherever it can during a call of `talk` or `fail`", asking::wordy),
    ("progress", "N", "reports progress N times, 50 ms apart, during a call of `work`", asking::progress),
    ("chatty", "", "logs, reports changes, and has long resources and prompts", chatty::chatty),
    ("watched", "FILE", "logs subscriptions to FILE; `touch` reports new content, and `die` exits", watched::watched),
    ("meta", "", "answers its tool `meta` with the `_meta` of the request", chatty::meta),
    ("meta-modern", "", "2026-07-28: answers its tool `meta` with the `_meta` of the request", chatty::meta_modern),
    ("mrtr", "ROUNDS", "2026-07-28: asks for input ROUNDS times, and checks the answers", asking::mrtr),
    ("input-for-ever", "", "2026-07-28: asks for input without end", asking::input_for_ever),
];

fn main() {
    let mut args = std::env::args().skip(1);
    let mode = args.next().unwrap_or_default();
    let Some((.., run)) = MODES.iter().find(|(name, ..)| *name == mode) else {
        for (name, args, about, _) in MODES {
            eprintln!("fixture {:<22} {about}", format!("{name} {args}"));
        }
        exit(2);
    };
    run(&mut Wire::default(), &Args(args.collect()));
}
