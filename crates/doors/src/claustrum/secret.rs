//! The token clients must show.

pub use hostel_peer::Secret;
