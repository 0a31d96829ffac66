//! The `toolgate` binary.

use std::process::ExitCode;

/// Calls make many small allocations, which other threads free when the calls are over; the system's allocator would
/// make calls wait for that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    forbid_inspection();
    toolgate::cli::main()
}

/// Keeps servers, which run as the same user, from reading our environment and memory through `/proc` or a debugger;
/// the library leaves this to its host program.
fn forbid_inspection() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        // It cannot fail for our own process, and there is no log yet.
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    }
}
