//! The MCP door: the house's tools for any agent that speaks the Model Context Protocol.
//!
//! Invariant: one implementation of the tools for every transport. It reaches the house through streams to the house's
//! own doors ([`Backend`]), so whatever those refuse is refused here, and a caller that leaves closes its stream, which
//! withdraws what it asked for. The mesh is behind a daemon of its own ([`Mesh`]). Every line, body, wait, session and call count has a bound.
//!
//! It decides nothing: who may run or answer what is the business of the doors behind it and of the house.

mod arguments;
mod backend;
mod caller;
mod execute;
mod hosts;
mod http;
mod instructions;
mod mesh;
mod profile;
mod progress;
mod server;
mod servers;
mod sessions;
mod sudo;
mod texts;
mod tools;
mod visits;

mod asking;
mod inside;
mod stdio;

pub use backend::Backend;
pub use backend::Later;
pub use caller::Caller;
pub use hosts::Desk;
pub use hosts::FirstContact;
pub use hosts::HostInfo;
pub use hosts::LaunchError;
pub use hosts::Launched;
pub use http::HttpLimits;
pub use http::HttpSettings;
pub use http::serve_http;
pub use inside::Attend;
pub use inside::Inside;
pub use inside::Tunnel;
pub use mesh::Mesh;
pub use mesh::MeshAnswer;
pub use mesh::MeshEvent;
pub use mesh::MeshEvents;
pub use mesh::MeshFollowed;
pub use mesh::MeshQuestion;
pub use profile::Profile;
pub use server::Server;
pub use stdio::NotServed;
pub use stdio::serve_stdio;

/// The names of all tools.
#[cfg(test)]
pub(crate) fn tool_names() -> Vec<String> {
    tools::tools(false).into_iter().chain(mesh::tools()).map(|tool| tool.name.into_owned()).collect()
}

/// The door's name in the house.
pub const NAME: &str = "mcp";
