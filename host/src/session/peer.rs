//! The identity, era, features and events of a server.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::ActiveCallers;
use crate::json::LossyString;

/// The two eras of MCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// 2025-11-25 and before: `initialize`, then a session.
    Legacy,
    /// 2026-07-28: every request is self-contained.
    Modern,
}

impl Era {
    /// Returns the name of the era, for people.
    pub fn name(self) -> &'static str {
        match self {
            Era::Legacy => "legacy",
            Era::Modern => "modern",
        }
    }
}

/// The era to use with a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Protocol {
    /// Probes for the era that the server uses.
    #[default]
    Auto,
    /// The initialize era, before 2026-07-28.
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

/// A server as the handshake describes it.
#[derive(Debug, Clone)]
pub struct Peer {
    /// The era of the session.
    pub era: Era,
    /// The protocol version.
    pub version: String,
    /// The server's own name.
    pub name: Option<String>,
    /// The version of the server's program.
    pub software_version: Option<String>,
    /// The server's capabilities, as it wrote them.
    pub capabilities: Box<RawValue>,
    /// The features that it supports.
    pub features: ServerFeatures,
    /// Its instructions for a model.
    pub instructions: Option<String>,
    /// The transport: `stdio`, `http`, `sse`, `websocket` or `custom`.
    pub transport: &'static str,
}

/// The features that a server supports.
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
    /// `logging/setLevel`, and log messages.
    pub logging: bool,
    /// Notifications when a list changes.
    pub list_changed: bool,
    /// Subscriptions to changes of a resource.
    pub subscribe: bool,
}

/// A notification from a server.
#[derive(Debug, Clone)]
pub enum ServerEvent {
    /// The list of tools changed.
    ToolsChanged,
    /// The list of resources changed.
    ResourcesChanged,
    /// The list of prompts changed.
    PromptsChanged,
    /// A resource has new content.
    ResourceUpdated {
        /// The URI of the resource.
        uri: String,
        /// All params of the notification.
        params: Box<RawValue>,
    },
    /// A log message.
    Log {
        /// The level, as the server wrote it.
        level: String,
        /// The logger's name.
        logger: Option<String>,
        /// The message, as the server wrote it.
        data: Box<RawValue>,
        /// The callers that the server worked for at the time.
        callers: ActiveCallers,
        /// Distinguishes this message from all others.
        number: u64,
    },
    /// The connection is over.
    Closed,
}

impl ServerEvent {
    /// Reads a notification; `None` if it is of no interest here.
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

/// Counts the log messages of all servers.
static LINES: AtomicU64 = AtomicU64::new(0);
