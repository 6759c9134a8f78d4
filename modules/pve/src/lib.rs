//! Proxmox VE types: ids, property strings, guest config, SDN objects.
pub mod keys;
