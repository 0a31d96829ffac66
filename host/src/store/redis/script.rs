//! The scripts that Redis runs, so that what belongs together happens at once and in one round trip.

use std::fmt::Write;
use std::sync::LazyLock;

use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

/// A script in Lua, and the digest by which Redis knows it.
pub(super) struct Script {
    pub(super) text: &'static str,
    pub(super) digest: String,
}

impl Script {
    fn new(text: &'static str) -> Self {
        let mut hex = String::new();
        for byte in digest(&SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes()).as_ref() {
            let _ = write!(hex, "{byte:02x}");
        }
        Script { text, digest: hex }
    }
}

/// A script that is prepared when it is first used.
pub(super) type LazyScript = LazyLock<Script>;

pub(super) static SPEND: LazyScript =
    LazyLock::new(|| Script::new(concat!(include_str!("epoch.lua"), include_str!("spend.lua"))));
pub(super) static COUNT: LazyScript = LazyLock::new(|| Script::new(include_str!("count.lua")));
pub(super) static TAKE_RATE: LazyScript = LazyLock::new(|| Script::new(include_str!("take_rate.lua")));
pub(super) static RECALL: LazyScript = LazyLock::new(|| {
    Script::new(concat!(include_str!("epoch.lua"), include_str!("agents.lua"), include_str!("recall.lua")))
});
pub(super) static LEARN: LazyScript = LazyLock::new(|| {
    Script::new(concat!(include_str!("epoch.lua"), include_str!("agents.lua"), include_str!("learn.lua")))
});
pub(super) static LIST_AGENTS: LazyScript =
    LazyLock::new(|| Script::new(concat!(include_str!("agents.lua"), include_str!("list_agents.lua"))));
pub(super) static RESET_AGENTS: LazyScript =
    LazyLock::new(|| Script::new(concat!(include_str!("agents.lua"), include_str!("reset_agents.lua"))));
pub(super) static KEEP_SESSION: LazyScript = LazyLock::new(|| Script::new(include_str!("keep_session.lua")));
pub(super) static END_SESSION: LazyScript = LazyLock::new(|| Script::new(include_str!("end_session.lua")));
pub(super) static ENDED_SESSIONS: LazyScript = LazyLock::new(|| Script::new(include_str!("ended_sessions.lua")));
