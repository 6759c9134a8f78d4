//! Proxmox VE types and comparison by meaning: ids, option names, property strings.
pub mod check;
pub mod command;
pub mod config_key;
pub mod ids;
pub mod keys;
pub mod meaning;
pub mod prop;
pub mod schema;
pub mod size;
pub mod smbios;
pub mod tags;

pub use command::prop_command;
pub use config_key::{ConfigKey, Family, KeyError};
pub use ids::{IdError, MacAddr, NodeName, StorageId, Upid, VmId, Volid};
pub use prop::{KeyDiff, Problem, PropError, PropString, parse, same_meaning};
