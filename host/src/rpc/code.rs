//! The error codes of JSON-RPC, of MCP, and those that the official SDKs use.

/// The text is not JSON.
pub const PARSE_ERROR: i64 = -32700;
/// The text is JSON, but not a message.
pub const INVALID_REQUEST: i64 = -32600;
/// The receiver has no such method.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// The parameters do not fit the method.
pub const INVALID_PARAMS: i64 = -32602;
/// The receiver failed.
pub const INTERNAL_ERROR: i64 = -32603;
/// The first of the codes that JSON-RPC leaves to servers.
pub const SERVER_ERROR: i64 = -32000;
/// The session is not known (as the official SDKs have it).
pub const NO_SESSION: i64 = -32001;
/// There is no such resource (2025-11-25).
pub const RESOURCE_NOT_FOUND: i64 = -32002;
/// The answer to a question came to another replica than the one that asked.
pub const OTHER_REPLICA: i64 = -32009;
/// A header contradicts the message (2026-07-28).
pub const HEADER_MISMATCH: i64 = -32020;
/// The client lacks a capability that the request needs (2026-07-28).
pub const MISSING_CAPABILITY: i64 = -32021;
/// The version of the protocol is not supported (2026-07-28).
pub const UNSUPPORTED_VERSION: i64 = -32022;
/// A person must visit an address first (2025-11-25).
pub const URL_REQUIRED: i64 = -32042;
/// The request was cancelled (as the Language Server Protocol has it).
pub const REQUEST_CANCELLED: i64 = -32800;
