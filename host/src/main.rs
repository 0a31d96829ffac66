//! The `toolgate` binary.

mod cli;

use std::process::ExitCode;

/// Calls are made of many small pieces, and what looks at them when they are over frees them on threads of its own: the
/// system's allocator makes calls wait for that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    forbid_inspection();
    cli::main()
}

/// Keeps servers, which run as the same user, from reading our environment and memory through `/proc` or as a debugger. The
/// library leaves that to the program that it is part of.
fn forbid_inspection() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        // It cannot fail for the process itself, and nobody could be told yet.
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    }
}
