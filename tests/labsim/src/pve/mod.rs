//! The Proxmox VE side.
