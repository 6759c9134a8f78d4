//! The Live world for Proxmox VE: signs in, reads facts, sends steps, waits for tasks.
//!
//! Facts are those of [`pve::keys`]; files mirror the API's URL space. Nothing is read twice, one connection serves a run (more where
//! much is read at once),
//! reads are retried, writes are never sent twice blindly.

mod ahead;
mod connection;
mod error;
mod journal;
mod live;
mod read;
mod send;
mod session;
mod tasks;
mod wire;

pub use connection::{Connection, Secret};
pub use live::Live;
