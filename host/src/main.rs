//! The `toolgate` binary.

mod cli;

use std::process::ExitCode;

/// Calls are made of many small pieces, and what looks at them when they are over frees them on threads of its own: the
/// system's allocator makes calls wait for that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::main()
}
