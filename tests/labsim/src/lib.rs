//! A Proxmox VE cluster and a vCenter that share one NFS export, over real HTTPS on loopback.
pub mod control;
pub mod faults;
pub mod http;
pub mod log;
pub mod pve;
pub mod server;
pub mod tls;
pub mod vcenter;
pub mod world;
