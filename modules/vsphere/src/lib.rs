//! vSphere types: the API's schema, fact keys, machines and their devices, networks, concerns, VMDK descriptors; pure.
#![recursion_limit = "256"]

pub mod concerns;
pub mod device;
pub mod export;
pub mod identity;
pub mod keys;
pub mod networks;
mod overlay;
pub mod path;
pub mod schema;
pub mod value;
pub mod vm;
pub mod vmdk;

pub use overlay::overlay;
