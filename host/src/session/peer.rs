//! The identity, features and events of a server.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::era::{Era, LEGACY_VERSIONS, MODERN_VERSION};
use super::{ActiveCallers, Reply, empty_object};
use crate::failure::{Failure, RequestError};
use crate::json::{LossyString, read_object};

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

impl Peer {
    /// Reads the result of `server/discover`; the error says why the server is not of this era.
    pub(super) fn from_discover(reply: &Reply, transport: &'static str) -> Result<Peer, RequestError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct DiscoverResult {
            supported_versions: Vec<String>,
            #[serde(default = "empty_object")]
            capabilities: Box<RawValue>,
            instructions: Option<LossyString>,
            #[serde(rename = "_meta")]
            meta: Option<DiscoverMeta>,
        }
        #[derive(Deserialize)]
        struct DiscoverMeta {
            #[serde(rename = "io.modelcontextprotocol/serverInfo")]
            server: Option<Implementation>,
        }
        let DiscoverResult { supported_versions, capabilities, instructions, meta } = reply.read("server/discover")?;
        if !supported_versions.iter().any(|version| version == MODERN_VERSION) {
            let how = format!("the server supports {}, not {MODERN_VERSION}", supported_versions.join(", "));
            return Err(RequestError::sent(Failure::Protocol(how)));
        }
        let software = meta.and_then(|meta| meta.server).unwrap_or_default();
        Ok(Peer::new(Era::Modern, MODERN_VERSION.to_owned(), software, capabilities, instructions, transport))
    }

    /// Reads the result of `initialize`.
    pub(super) fn from_initialize(reply: &Reply, transport: &'static str) -> Result<Peer, RequestError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct InitializeResult {
            protocol_version: String,
            #[serde(default = "empty_object")]
            capabilities: Box<RawValue>,
            instructions: Option<LossyString>,
            server_info: Option<Implementation>,
        }
        let InitializeResult { protocol_version: version, capabilities, instructions, server_info } =
            reply.read("initialize")?;
        if !LEGACY_VERSIONS.contains(&version.as_str()) {
            let how = format!("the server wants MCP version {version:?}; supported are {}", LEGACY_VERSIONS.join(", "));
            return Err(RequestError::sent(Failure::Protocol(how)));
        }
        Ok(Peer::new(Era::Legacy, version, server_info.unwrap_or_default(), capabilities, instructions, transport))
    }

    fn new(
        era: Era,
        version: String,
        software: Implementation,
        capabilities: Box<RawValue>,
        instructions: Option<LossyString>,
        transport: &'static str,
    ) -> Peer {
        let (name, software_version) = (software.name.map(String::from), software.version.map(String::from));
        let (features, instructions) = (ServerFeatures::read(&capabilities), instructions.map(String::from));
        Peer { era, version, name, software_version, capabilities, features, instructions, transport }
    }
}

#[derive(Deserialize, Default)]
struct Implementation {
    name: Option<LossyString>,
    version: Option<LossyString>,
}

impl ServerEvent {
    /// Reads a notification; `None` if it is of no interest here.
    pub(super) fn read(method: &str, params: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct Params {
            uri: Option<String>,
            level: Option<LossyString>,
            logger: Option<LossyString>,
            data: Option<Box<RawValue>>,
        }
        match method {
            "notifications/tools/list_changed" => Some(ServerEvent::ToolsChanged),
            "notifications/resources/list_changed" => Some(ServerEvent::ResourcesChanged),
            "notifications/prompts/list_changed" => Some(ServerEvent::PromptsChanged),
            "notifications/resources/updated" => {
                let Params { uri, .. } = read_object(params).ok()?;
                Some(ServerEvent::ResourceUpdated { uri: uri?, params: RawValue::from_string(params.to_owned()).ok()? })
            }
            "notifications/message" => {
                let params: Params = read_object(params).ok()?;
                let level = params.level.map_or_else(|| "info".to_owned(), String::from);
                let logger = params.logger.map(String::from);
                let data = params.data.unwrap_or_else(empty_object);
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
            list_changed: Option<bool>,
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
