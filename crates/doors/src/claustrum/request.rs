//! From a line to a method call, or to the error that the line deserves.
//!
//! The checks run in the contract's order: parse, auth, version, method, presence of params. The
//! first that fails decides the answer, and nothing about a later one can be learnt from it.
//!
//! This module reads; it never calls a method and never writes to a connection.

use super::Secret;
use super::errors::{self, RpcError};
use super::gojson::decode::{field_of, string};
use super::gojson::{Malformed, Scanner, decode, value};
use std::borrow::Cow;

/// A request whose line was well-formed.
#[derive(Debug, Default)]
pub struct Request<'a> {
    jsonrpc: Cow<'a, str>,
    id: Option<Cow<'a, [u8]>>,
    method: Cow<'a, str>,
    params: Option<&'a [u8]>,
    auth: Cow<'a, str>,
}

/// Who may do what before a method is looked at.
#[derive(Debug)]
pub struct Gate<'a> {
    /// The token every request must carry.
    pub token: &'a Secret,
    /// Whether `server.shutdown` needs it too.
    pub shutdown_needs_auth: bool,
}

/// What a line asks for.
#[derive(Debug)]
pub enum Asked<'a> {
    /// A method call that passed every check which does not depend on the method's own params.
    Call(Call<'a>),
    /// An error to answer with.
    Refuse(Refusal<'a>),
}

/// A method to run.
#[derive(Debug)]
pub struct Call<'a> {
    /// The id as JSON text, ready for the reply.
    pub id: Cow<'a, [u8]>,
    /// Which method.
    pub method: Method,
    /// The params as JSON text; there for every method that takes any.
    pub params: &'a [u8],
}

/// A request that is answered with an error.
#[derive(Debug)]
pub struct Refusal<'a> {
    /// The id as JSON text, ready for the reply.
    pub id: Cow<'a, [u8]>,
    /// The answer.
    pub error: RpcError,
    /// For a request without a valid token: its method, for the log.
    pub unauthorized_method: Option<Cow<'a, str>>,
}

/// The methods, in the order in which `server.capabilities` lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the contract's")]
pub enum Method {
    ServerPing,
    ServerVersion,
    ServerCapabilities,
    ServerShutdown,
    FilesList,
    FilesValidate,
    FilesStat,
    FilesRead,
    FilesExtractTar,
    GitInfo,
    GitStatus,
    GitListBranches,
    GitWorktreeCreate,
    GitWorktreeRemove,
    ProcessSpawn,
    ProcessStdin,
    ProcessKill,
    ProcessKillAndWait,
    ProcessReattach,
}

/// Every method with its name.
pub const METHODS: [(Method, &str); 19] = [
    (Method::ServerPing, "server.ping"),
    (Method::ServerVersion, "server.version"),
    (Method::ServerCapabilities, "server.capabilities"),
    (Method::ServerShutdown, "server.shutdown"),
    (Method::FilesList, "files.list"),
    (Method::FilesValidate, "files.validate"),
    (Method::FilesStat, "files.stat"),
    (Method::FilesRead, "files.read"),
    (Method::FilesExtractTar, "files.extract_tar"),
    (Method::GitInfo, "git.info"),
    (Method::GitStatus, "git.status"),
    (Method::GitListBranches, "git.list_branches"),
    (Method::GitWorktreeCreate, "git.worktree_create"),
    (Method::GitWorktreeRemove, "git.worktree_remove"),
    (Method::ProcessSpawn, "process.spawn"),
    (Method::ProcessStdin, "process.stdin"),
    (Method::ProcessKill, "process.kill"),
    (Method::ProcessKillAndWait, "process.killAndWait"),
    (Method::ProcessReattach, "process.reattach"),
];

const NULL: &[u8] = b"null";

impl Method {
    fn find(name: &str) -> Option<Self> {
        METHODS.iter().find(|(_, known)| *known == name).map(|(method, _)| *method)
    }

    /// Its name on the wire.
    pub(crate) fn name(self) -> &'static str {
        METHODS.iter().find(|(method, _)| *method == self).map_or("", |(_, name)| *name)
    }

    /// Whether the method reads its params, and so demands that there be some.
    fn takes_params(self) -> bool {
        !matches!(self, Self::ServerPing | Self::ServerVersion | Self::ServerCapabilities | Self::ServerShutdown)
    }
}

/// Reads a line. A `null` is an empty request; everything else but an object is malformed.
pub fn parse(line: &[u8]) -> Result<Request<'_>, Malformed> {
    let mut request = Request::default();
    decode::members(line, |key, scanner| request.member(key, scanner))?;
    Ok(request)
}

impl<'a> Request<'a> {
    fn member(&mut self, key: &str, scanner: &mut Scanner<'a>) -> Result<bool, Malformed> {
        const NAMES: [&str; 5] = ["jsonrpc", "id", "method", "params", "auth"];
        match field_of(key, &NAMES) {
            Some(0) => string(scanner, &mut self.jsonrpc)?,
            Some(1) => self.id = Some(value::canonical(scanner)?),
            Some(2) => string(scanner, &mut self.method)?,
            Some(3) => self.params = Some(scanner.skip()?),
            Some(4) => string(scanner, &mut self.auth)?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// Reads a line and runs every check that needs no params.
pub fn ask<'a>(line: &'a [u8], gate: &Gate<'_>) -> Asked<'a> {
    let refuse = |id, error| Asked::Refuse(Refusal { id, error, unauthorized_method: None });
    let Ok(request) = parse(line) else {
        return refuse(Cow::Borrowed(NULL), RpcError::fixed(errors::PARSE, "Parse error"));
    };
    let id = request.id.unwrap_or(Cow::Borrowed(NULL));
    let exempt = !gate.shutdown_needs_auth && request.method == "server.shutdown";
    if !exempt && !gate.token.matches(request.auth.as_bytes()) {
        return Asked::Refuse(Refusal {
            id,
            error: RpcError::fixed(errors::UNAUTHORIZED, "Unauthorized: invalid or missing auth token"),
            unauthorized_method: Some(request.method),
        });
    }
    if request.jsonrpc != "2.0" {
        return refuse(id, RpcError::fixed(errors::VERSION, "Invalid JSON-RPC version"));
    }
    let Some(method) = Method::find(&request.method) else {
        return refuse(id, no_such_method(&request.method));
    };
    match request.params {
        Some(params) => Asked::Call(Call { id, method, params }),
        None if !method.takes_params() => Asked::Call(Call { id, method, params: NULL }),
        None => refuse(id, RpcError::invalid_params()),
    }
}

/// The id of a line as JSON text, whatever else is wrong with the line.
pub(crate) fn id_of(line: &[u8]) -> Vec<u8> {
    let id = parse(line).ok().and_then(|request| request.id);
    id.map_or_else(|| NULL.to_vec(), Cow::into_owned)
}

fn no_such_method(method: &str) -> RpcError {
    let message = match method.split_once('.') {
        None => format!("Invalid method format: {method}"),
        Some(("server" | "files" | "git" | "process", _)) => format!("Unknown method: {method}"),
        Some((namespace, _)) => format!("Unknown namespace: {namespace}"),
    };
    RpcError::worded(errors::METHOD, message)
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
