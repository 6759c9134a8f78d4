//! The SOAP client of vSphere: sign in, read facts, send, wait; and the inventory.
#![recursion_limit = "256"]

mod ask;
mod collect;
mod connection;
pub mod decode;
pub mod encode;
pub mod error;
mod inventory;
mod journal;
mod live;
mod machines;
mod place;
mod read;
mod session;
mod soap;

pub use connection::{Connection, Secret};
pub use inventory::{Options, inventory};
pub use live::Live;
