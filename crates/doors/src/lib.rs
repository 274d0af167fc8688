//! One module per wire contract: decode, call the house, encode.
//!
//! A door holds no state but its connections', and no door knows another. Whatever two doors need
//! lives in the house behind them.

#![forbid(unsafe_code)]

pub mod claustrum;
pub mod native;
