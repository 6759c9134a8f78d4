//! Proxmox VE types and comparison by meaning; pure: no files, environment, clock or network (see clippy.toml).
//!
//! - [`ids`]: vmids, nodes, storages, task ids, volume ids, MAC addresses; percent-encoding.
//! - [`config_key`]: names of guest options with their numbers (`net0`, `scsi30`), checked.
//! - [`prop`]: property strings such as `virtio=BC:24:11:00:00:01,bridge=vmbr0`: read, checked, printed in the server's
//!   order, compared by meaning, merged (named keys converge, others stay), unset. The formats are those of the recorded
//!   API schema ([`schema`], `formats.json`, made and checked by tests/formats.rs), the values are judged by [`check`]
//!   and [`meaning`], sizes by [`size`].
//! - [`config`]: whole options as `GET config` returns them, compared by meaning and with their defaults; [`tags`].
//! - [`boot`]: boot orders, also in the old letters, and what the server makes of none.
//! - [`volume`]: what a drive's first value means, and the name of the next volume.
//! - [`naming`]: MAC addresses and DNS names of our own making; [`smbios`]: uuids and their byte orders, base64 texts.
//! - [`sdn`]: ids and aliases of zones and vnets. [`needs`]: the privileges that a request needs.
//! - [`keys`]: the facts of a cluster that planners ask for.
//!
//! Two ways to read a property string: [`PropString::parse`] for what a server returned (unknown keys are kept),
//! [`PropString::parse_checked`] for what a person wants (all that the server would refuse is an error).
pub mod boot;
pub mod check;
pub mod command;
pub mod config;
pub mod config_key;
pub mod ids;
pub mod keys;
pub mod meaning;
pub mod naming;
pub mod needs;
pub mod overlay;
pub mod prop;
mod prop_error;
pub mod schema;
pub mod sdn;
pub mod size;
pub mod smbios;
pub mod ssh;
pub mod tags;
pub mod volume;

pub use command::prop_command;
pub use config::{Compare, Config, semantic_eq};
pub use config_key::{ConfigKey, Family, KeyError};
pub use ids::{IdError, MacAddr, NodeName, StorageId, Upid, VmId, Volid};
pub use prop::{KeyDiff, Problem, PropError, PropString, parse, same_meaning};
