//! The planners: one file (or folder) per Ansible module, each pure.
//!
//! A planner has an argument table (`SPEC`), a desired state made from coerced arguments, and the [`plan::Module`] that names the
//! facts it needs and turns them into steps. Nothing here reads or writes the world.

pub mod common;
pub mod look;
mod privileges;
mod pve_acl;
pub mod pve_common;
mod pve_disk_import;
pub mod pve_drives;
pub mod pve_foresee;
mod pve_ha_resource;
pub mod pve_history;
mod pve_nic;
mod pve_pool_member;
pub mod pve_sdn;
mod pve_user_info;
mod pve_vm_info;
mod pve_vm_shell;
mod pve_vnet;
pub mod pve_write;
mod pve_zone;
mod vmdk_descriptor;
pub mod vsphere_common;
mod vsphere_note;
mod vsphere_portgroups;
mod vsphere_powerstate;
mod vsphere_relocate;
pub mod vsphere_target;
mod vsphere_vm;
mod vsphere_vm_info;

use plan::Module;
use spec::{ArgError, Args, ModuleSpec};

/// Which world a module works in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The Proxmox VE API.
    Pve,
    /// The vSphere API.
    Vsphere,
    /// Files of an export that is mounted where the task runs.
    Export,
}

/// Makes a pure module of its arguments.
pub type Make = fn(&Args) -> Result<Box<dyn Module>, Vec<ArgError>>;

/// One Ansible module.
pub struct Def {
    /// Its argument table, which also makes its documentation.
    pub spec: &'static ModuleSpec,
    /// Its world.
    pub side: Side,
    /// Makes the pure module of its arguments, or says all that is wrong with them beyond the table.
    pub make: Make,
}

/// All modules of the collection.
pub fn registry() -> &'static [&'static Def] {
    REGISTRY
}

const REGISTRY: &[&Def] = &[
    &pve_acl::DEF,
    &pve_disk_import::DEF,
    &pve_ha_resource::DEF,
    &pve_nic::DEF,
    &pve_pool_member::DEF,
    &pve_user_info::DEF,
    &pve_vm_info::DEF,
    &pve_vm_shell::DEF,
    &pve_vnet::DEF,
    &pve_zone::DEF,
    &vmdk_descriptor::DEF,
    &vsphere_note::DEF,
    &vsphere_portgroups::DEF,
    &vsphere_powerstate::DEF,
    &vsphere_vm::DEF,
    &vsphere_vm_info::DEF,
    &vsphere_relocate::DEF,
];

/// The module of that short name.
pub fn find(name: &str) -> Option<&'static Def> {
    registry().iter().copied().find(|d| d.spec.name == name)
}
