//! Error codes of the contract. Clients match on these, never on texts.

/// The line is not JSON.
pub const PARSE: i64 = -32700;
/// The line is JSON but no request.
pub const REQUEST: i64 = -32600;
/// There is no such method.
pub const METHOD: i64 = -32601;
/// The parameters do not fit the method.
pub const PARAMS: i64 = -32602;
/// The agent cannot be had, the turn failed, or the disk did not take it.
pub const INTERNAL: i64 = -32603;
/// There is no such session, or nothing runs in it.
pub const NO_SESSION: i64 = -32000;
/// As many sessions are live as may be.
pub const SESSION_LIMIT: i64 = -32001;
/// Too many prompts wait in the session, or this one waited for too long.
pub const BUSY: i64 = -32002;
/// It belongs to somebody else, or the asker may not decide.
pub const NOT_OWNER: i64 = -32003;
/// `initialize` has to come first, or did not show who is asking.
pub const AUTH: i64 = -32010;
/// The protocol version is not ours.
pub const VERSION: i64 = -32011;
/// `fs/list_dir`: there is no such directory.
pub const FS_NOT_FOUND: i64 = 4001;
/// `fs/list_dir`: the directory may not be read.
pub const FS_DENIED: i64 = 4002;
/// `fs/list_dir`: that is no path to be listed.
pub const FS_BAD_PATH: i64 = 4003;
