//! The server of a house for clients that come over HTTP.

use std::sync::Arc;

use hostel_doors::mcp::Inside;
use hostel_doors::mcp::Profile;
use hostel_doors::mcp::Server;
use hostel_house::insiders::Insiders;

use super::desk::Desk;
use super::desk::Local;
use super::mesh::Mesh;
use super::mesh::Words;
use crate::sudo_proxy::hosts;

/// A server that reaches the house it is part of: `sudo` and `native` serve one connection each.
pub(crate) fn inside(sudo: hostel_doors::mcp::Attend, native: hostel_doors::mcp::Attend, insiders: Insiders) -> Server {
    let inside = Inside { sudo, native, tunnel: Box::new(hosts::tunnel_socket), insiders: insiders.clone() };
    let profile = Profile::hostel(env!("CARGO_PKG_VERSION"));
    let mesh = Mesh { words: Words::Callers(insiders) };
    Server::new(profile, Arc::new(inside), Arc::new(Desk::new(Local::Here))).with_mesh(Arc::new(mesh))
}
