//! A Proxmox VE cluster and a vCenter that share one NFS export, over real HTTPS on loopback.
pub mod http;
pub mod pve;
pub mod vcenter;
