//! The built binary from the outside, over real HTTPS, against labsim.

mod support;

mod chain;
mod nic;
mod sdn;
mod shell;
