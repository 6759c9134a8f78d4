//! The built binary from the outside, over real HTTPS, against labsim.

mod support;

mod architecture;
mod bugs_pve;
mod bugs_vmware;
mod chain;
mod faults;
mod migrate;
mod nic;
mod peers;
mod prop;
mod sdn;
mod secrets;
mod shell;
mod sweep;
mod vsphere_writes;
