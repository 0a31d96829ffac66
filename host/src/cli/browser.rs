//! Opens a page in the user's browser.

use std::io;
use std::process::{Command, Stdio};

/// Opens a URL or a file in the browser that `BROWSER` names, or else in the usual one.
pub(super) fn open(page: &str) -> io::Result<()> {
    let usual = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let chosen = std::env::var_os("BROWSER").filter(|browser| !browser.is_empty());
    let mut command = Command::new(chosen.as_deref().unwrap_or(usual.as_ref()));
    // The browser runs on its own; nothing tells us whether it shows the page.
    command.arg(page).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().map(drop)
}
