//! MCP servers over stdio for tests, most of which misbehave, each in one way: `fixture MODE [ARGS]`.
//!
//! Unless its mode says otherwise, a fixture is `plain` in all else: of the initialize era, ending when its input ends.

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

/// A mode: its name, its arguments, what is special about it, and its code.
type Mode = (&'static str, &'static str, &'static str, fn(&mut Wire, &Args));

const MODES: &[Mode] = &[
    // Servers in order, for reference.
    ("plain", "", "has tools `echo` and `add`, a resource and a prompt", plain::plain),
    ("modern", "", "speaks 2026-07-28 only, and refuses `initialize` with -32022", stateless::modern),
    ("env", "", "has a tool `env` that returns its environment as JSON", plain::env),
    ("counts", "FILE", "appends a line to FILE at each tools/call, then answers", plain::counts),
    (
        "links",
        "NAME",
        "names resources that it does not list, and has those below link://NAME and link://both",
        plain::links,
    ),
    (
        "works",
        "FILE [MS]",
        "writes to FILE what it does: `note` and `look` take MS, `hold` and `watch` last until a file is there, \
         `freeze` ends all talk",
        working::works,
    ),
    // Answers that are not as they should be.
    ("noisy", "", "writes lines of text between its messages", answers::noisy),
    ("huge", "BYTES", "answers its tool `big` with a line of so many bytes", answers::huge),
    (
        "structured",
        "BYTES",
        "answers its tool `table` with about so many bytes of structured content",
        answers::structured,
    ),
    (
        "odd",
        "",
        "writes JSON that is easily spoilt: halves of letters, large numbers, members that nobody knows",
        odd::odd,
    ),
    ("idless-error", "", "answers tools/call with an error that has no id", answers::idless_error),
    ("null-id-error", "", "answers tools/call with an error whose id is null", answers::null_id_error),
    ("twice", "", "gives each answer twice", answers::twice),
    ("wrong-id", "", "answers requests that nobody made before each right answer", answers::wrong_id),
    ("string-ids", "", "answers with the id as a string", answers::string_ids),
    ("batch", "", "speaks 2025-03-26 and answers in arrays; two calls of `pair` are answered in one", answers::batch),
    // No answer.
    ("silent", "", "never answers anything", silent::silent),
    ("silent-call", "", "answers everything but tools/call", silent::silent_call),
    ("silent-discover", "", "passes over server/discover, and answers all else", silent::silent_discover),
    ("slow-start", "SECONDS", "waits so long before it reads anything", silent::slow_start),
    ("flood-stderr", "[BYTES]", "writes megabytes to stderr at its start and at each call", silent::flood_stderr),
    // Processes that end when they should not, or do not when they should.
    ("dies-before", "", "says why on stderr and exits with 3, at once", dying::before),
    ("dies-during", "FILE", "upon tools/call appends its pid to FILE and exits with 4, unanswered", dying::during),
    ("dies-within", "FILE", "upon tools/call appends its pid to FILE, writes half an answer and exits", dying::within),
    ("dies-after", "", "answers tools/call, then exits with 5", dying::after),
    ("launcher", "FILE", "starts `plain` on its own pipes, as npx does; both pids are in FILE", dying::launcher),
    (
        "litter",
        "FILE [now]",
        "leaves two stubborn children behind when its input ends, or at once; all pids are in FILE",
        dying::litter,
    ),
    ("stubborn", "", "ends neither on SIGTERM nor at the end of its input", dying::stubborn),
    // Lists.
    ("endless-cursor", "", "pages its tools with the same cursor for ever", listing::endless_cursor),
    ("fresh-cursor", "", "pages its tools with a new cursor for ever", listing::fresh_cursor),
    ("pages", "N", "has N tools, ten a page", listing::pages),
    ("list-changed", "", "has one tool more after each call of `grow`, and says so", listing::list_changed),
    (
        "list-lost",
        "FILE",
        "says after a call that its tools changed, and only notes in FILE who asks for them",
        listing::list_lost,
    ),
    ("catalog", "N BYTES", "has N tools with schemas of so many bytes, on one page", listing::catalog),
    ("malformed", "", "lists tools, resources and prompts of which most are none", listing::malformed),
    ("prompts", "NAME…", "has prompts of these names", listing::prompts),
    ("owns", "NAME MS", "lists resources after MS that others have too, and has more than it lists", owning::owns),
    ("no-tools", "", "declares resources only, and does not know tools/list", listing::no_tools),
    ("ttl", "MS [SCOPE]", "2026-07-28: its list is fresh for MS, and says how often it was asked for", listing::ttl),
    // Talk during a call.
    ("asks", "", "asks the client four things during a call of `ask`, and returns what it heard", asking::asks),
    (
        "visits",
        "",
        "sends the person to an address during a call of `visit`, and says when that is done",
        asking::visits,
    ),
    ("wordy", "BYTES", "says so many bytes wherever it can during a call of `talk` or `fail`", asking::wordy),
    ("progress", "N", "reports progress N times, 50 ms apart, during a call of `work`", asking::progress),
    ("chatty", "", "logs as it is told to, tells of changes, and has much to read", chatty::chatty),
    (
        "watched",
        "FILE",
        "notes in FILE who watches its resource; `touch` tells of new content, and `die` ends it",
        watched::watched,
    ),
    ("meta", "", "answers its tool `meta` with the `_meta` of the request", chatty::meta),
    ("meta-modern", "", "2026-07-28: answers its tool `meta` with the `_meta` of the request", chatty::meta_modern),
    ("mrtr", "ROUNDS", "2026-07-28: asks for input so many times, and checks what comes back", asking::mrtr),
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
