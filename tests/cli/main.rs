//! The built binary from the outside, over real HTTPS, against labsim.
// Figures that a run of the tests is asked for.
#![allow(clippy::print_stdout)]

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
