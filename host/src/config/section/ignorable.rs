//! Keys of other programs that say nothing about how to reach a server.

use super::super::nearest;

/// Reports whether a key of another program says nothing about how to reach a server.
pub(crate) fn is_ignorable(name: &str) -> bool {
    name.starts_with(['_', '$', '/', '#']) || IDLE.iter().any(|idle| nearest::is_same_word(idle, name))
}

/// Keys that other clients write and toolgate ignores. Some look like rules, but they say when the client itself asks
/// its user, and most of them when it does not.
const IDLE: [&str; 29] = [
    "name",
    "id",
    "displayName",
    "title",
    "description",
    "icon",
    "iconUrl",
    "comment",
    "note",
    "version",
    "gallery",
    "metadata",
    "tags",
    "source",
    "dev",
    "trust",
    "isTrusted",
    "autoApprove",
    "alwaysAllow",
    "disabledAutoApproveTools",
    "approvalMode",
    "approvalPolicy",
    "defaultToolsApprovalMode",
    "autoStart",
    "required",
    "requiresOAuth",
    "supportsParallelToolCalls",
    "disabledReason",
    "settings",
];
