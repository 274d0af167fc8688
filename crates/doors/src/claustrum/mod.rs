//! The claustrum door: newline-delimited JSON-RPC on a unix socket.

pub mod base64;
pub mod environment;
pub mod errors;
pub mod frames;
pub mod gojson;
pub mod lines;
pub mod log;
pub mod lookup;
pub mod metrics;
pub mod params;
pub mod request;
pub mod secret;
