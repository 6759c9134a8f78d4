//! The built binary from the outside, over real HTTPS, against labsim.

mod support;

mod nic;
