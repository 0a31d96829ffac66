//! Who a server is, which era it speaks, and what it lets know.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::ActiveCallers;
use crate::json::LossyString;

/// The two ways in which MCP is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// 2025-11-25 and before: `initialize`, then a session.
    Legacy,
    /// 2026-07-28: every request stands alone.
    Modern,
}

impl Era {
    /// The name of the era, for people.
    pub fn name(self) -> &'static str {
        match self {
            Era::Legacy => "legacy",
            Era::Modern => "modern",
        }
    }
}

/// Which era to speak with a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Protocol {
    /// The one that it speaks; this is found out.
    #[default]
    Auto,
    /// The one before 2026-07-28.
    Legacy,
    /// 2026-07-28.
    Modern,
}

impl From<Era> for Protocol {
    fn from(era: Era) -> Self {
        match era {
            Era::Legacy => Protocol::Legacy,
            Era::Modern => Protocol::Modern,
        }
    }
}

/// The version of the modern era.
pub const MODERN_VERSION: &str = "2026-07-28";
/// The versions of the legacy era, the latest first.
pub const LEGACY_VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// What is known of a server after the handshake.
#[derive(Debug, Clone)]
pub struct Peer {
    /// The era that it speaks with us.
    pub era: Era,
    /// The version of the protocol.
    pub version: String,
    /// Its own name.
    pub name: Option<String>,
    /// The version of its program.
    pub software_version: Option<String>,
    /// Its capabilities, as it wrote them.
    pub capabilities: Box<RawValue>,
    /// What it can be asked for.
    pub features: ServerFeatures,
    /// What it wants a model to know.
    pub instructions: Option<String>,
    /// How messages travel: `stdio`, `http`, `sse` or `websocket`.
    pub transport: &'static str,
}

/// What a server can be asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ServerFeatures {
    /// `tools/list` and `tools/call`.
    pub tools: bool,
    /// `resources/list`, `resources/templates/list` and `resources/read`.
    pub resources: bool,
    /// `prompts/list` and `prompts/get`.
    pub prompts: bool,
    /// `completion/complete`.
    pub completions: bool,
    /// `logging/setLevel`, and lines of its log.
    pub logging: bool,
    /// It tells when a list changes.
    pub list_changed: bool,
    /// It tells when a resource has new content, to who wants to know.
    pub subscribe: bool,
}

/// What a server lets know unasked.
#[derive(Debug, Clone)]
pub enum ServerEvent {
    /// Its tools are others now.
    ToolsChanged,
    /// Its resources are others now.
    ResourcesChanged,
    /// Its prompts are others now.
    PromptsChanged,
    /// A resource has new content.
    ResourceUpdated {
        /// Which.
        uri: String,
        /// All that the server says of it.
        params: Box<RawValue>,
    },
    /// A line of its log.
    Log {
        /// How grave, in the server's words.
        level: String,
        /// Which part of the server.
        logger: Option<String>,
        /// What, as the server wrote it.
        data: Box<RawValue>,
        /// For whom the server worked when the line came.
        callers: ActiveCallers,
        /// Tells this line from all others.
        number: u64,
    },
    /// The connection is over.
    Closed,
}

impl ServerEvent {
    /// Reads a notification; `None` is one that says nothing to us.
    pub(super) fn read(method: &str, params: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct Params {
            #[serde(default)]
            uri: Option<String>,
            #[serde(default)]
            level: Option<LossyString>,
            #[serde(default)]
            logger: Option<LossyString>,
            #[serde(default)]
            data: Option<Box<RawValue>>,
        }
        match method {
            "notifications/tools/list_changed" => Some(ServerEvent::ToolsChanged),
            "notifications/resources/list_changed" => Some(ServerEvent::ResourcesChanged),
            "notifications/prompts/list_changed" => Some(ServerEvent::PromptsChanged),
            "notifications/resources/updated" => {
                let Params { uri, .. } = serde_json::from_str(params).ok()?;
                Some(ServerEvent::ResourceUpdated { uri: uri?, params: RawValue::from_string(params.to_owned()).ok()? })
            }
            "notifications/message" => {
                let params: Params = serde_json::from_str(params).ok()?;
                let level = params.level.map_or_else(|| "info".to_owned(), String::from);
                let logger = params.logger.map(String::from);
                let data = params.data.unwrap_or_else(super::empty_object);
                let number = LINES.fetch_add(1, Ordering::Relaxed);
                Some(ServerEvent::Log { level, logger, data, callers: ActiveCallers::Unknown, number })
            }
            _ => None,
        }
    }
}

impl ServerFeatures {
    /// Reads the capabilities of a server.
    pub(super) fn read(capabilities: &RawValue) -> Self {
        #[derive(Deserialize, Default)]
        struct Capabilities {
            tools: Option<ListCapability>,
            resources: Option<ListCapability>,
            prompts: Option<ListCapability>,
            completions: Option<serde::de::IgnoredAny>,
            logging: Option<serde::de::IgnoredAny>,
        }
        #[derive(Deserialize, Default)]
        #[serde(rename_all = "camelCase")]
        struct ListCapability {
            #[serde(default)]
            list_changed: Option<bool>,
            #[serde(default)]
            subscribe: Option<bool>,
        }
        let read: Capabilities = serde_json::from_str(capabilities.get()).unwrap_or_default();
        let all = [&read.tools, &read.resources, &read.prompts];
        ServerFeatures {
            tools: read.tools.is_some(),
            resources: read.resources.is_some(),
            prompts: read.prompts.is_some(),
            completions: read.completions.is_some(),
            logging: read.logging.is_some(),
            subscribe: read.resources.as_ref().and_then(|listed| listed.subscribe) == Some(true),
            list_changed: all.iter().any(|listed| listed.as_ref().and_then(|listed| listed.list_changed) == Some(true)),
        }
    }
}

/// Counts the lines of all servers' logs.
static LINES: AtomicU64 = AtomicU64::new(0);
