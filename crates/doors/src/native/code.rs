//! Error codes. Those from -32010 on are ours.

/// The line is not JSON.
pub const PARSE: i64 = -32700;
/// The line is JSON but no request.
pub const REQUEST: i64 = -32600;
/// There is no such method.
pub const METHOD: i64 = -32601;
/// The parameters do not fit the method.
pub const PARAMS: i64 = -32602;
/// The daemon could not do it.
pub const INTERNAL: i64 = -32603;
/// The process's stdin queue is full; try again a little later.
pub const STDIN_FULL: i64 = -32002;
/// The offset lies beyond what was applied.
pub const STDIN_GAP: i64 = -32003;
/// `initialize` has to come first.
pub const INITIALIZE_FIRST: i64 = -32010;
/// The protocol version is not ours.
pub const VERSION: i64 = -32011;
/// No process has that name or id.
pub const NOT_FOUND: i64 = -32012;
/// Several processes have ids that start so.
pub const AMBIGUOUS: i64 = -32013;
/// The command could not be started.
pub const SPAWN: i64 = -32014;
/// A running process has that name.
pub const NAME_IN_USE: i64 = -32015;
/// The process has exited.
pub const NOT_RUNNING: i64 = -32016;
/// The keeper did not answer; the request may be repeated.
pub const KEEPER: i64 = -32017;
/// A limit of the house is reached.
pub const LIMIT: i64 = -32018;
/// Whoever asks may not decide this, or not like this.
pub const REFUSED: i64 = -32019;
/// That is not the approver's passphrase.
pub const WRONG_PASSPHRASE: i64 = -32020;
/// Too many wrong passphrases: none is taken for a while.
pub const LOCKED_OUT: i64 = -32021;
/// It takes the approver's passphrase, and none is set.
pub const NO_PASSPHRASE: i64 = -32022;
/// The request was settled before, or is not the one that was seen.
pub const SETTLED: i64 = -32023;
/// It takes the approver's passphrase: unlock the connection, or show it with the request.
pub const LOCKED: i64 = -32024;
/// The process's input belongs to its session or pipeline.
pub const OWNED_INPUT: i64 = -32025;
