//! One module per wire contract: decode, call the house, encode.
//!
//! A door holds no state but its connections', and no door knows another; only our own serves the
//! zeroclaw methods beside its own. Whatever two doors need lives in the house behind them.

#![forbid(unsafe_code)]

mod admission;
pub mod claudemesh;
pub mod claustrum;
pub mod codecast;
#[cfg(test)]
mod insiders;
pub mod mcp;
pub mod native;
mod rpc;
pub mod sudo_proxy;
pub mod tls;
pub mod zeroclaw;
