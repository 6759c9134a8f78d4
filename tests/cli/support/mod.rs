//! The lab, the built binary, and the three runs that every writing module is held to.
//!
//! A lab runs inside the test process on two free ports of 127.0.0.1; the binary is a process of its own that speaks HTTPS to it.
//! Every output of the binary is searched for the secrets of the lab, whatever the test is about.
// Parts of it are shared with tests that use only some.
#![allow(dead_code, unused_imports)]

pub mod call;
pub mod lab;
pub mod triple;
pub mod worlds;

pub use call::{Call, Done};
pub use lab::Lab;
pub use triple::{Triple, refused, triple, triple_with};
pub use worlds::{PASSWORD, TOKEN_SECRET, VC_PASSWORD, VC_USER};

/// Loops that take minutes run only with TRUEPLAN_TEST_FULL=1.
pub fn full() -> bool {
    std::env::var_os("TRUEPLAN_TEST_FULL").is_some_and(|v| !v.is_empty() && v != "0")
}
