//! The vSphere side from the outside: the peers' recorded results, calls counted, hostile servers, faults, a second simulator.
#![allow(clippy::print_stdout)] // figures that people read with --nocapture

mod support;

#[path = "vsphere/beside.rs"]
mod beside;
#[path = "vsphere/calls.rs"]
mod calls;
#[path = "vsphere/defects.rs"]
mod defects;
#[path = "vsphere/faults.rs"]
mod faults;
#[path = "vsphere/hostile.rs"]
mod hostile;
#[path = "vsphere/placement.rs"]
mod placement;
#[path = "vsphere/shapes.rs"]
mod shapes;
#[path = "vsphere/vcsim.rs"]
mod vcsim;
#[path = "vsphere/written.rs"]
mod written;
