//! Proxmox modules from the outside against what was recorded, by number of the trouble that users had, and in each other's way.
#![allow(clippy::print_stdout)]

mod support;

mod access;
mod ahead;
mod bugs;
mod connection;
mod documented;
mod found;
mod options;
mod race;
mod running;
mod sizes;
