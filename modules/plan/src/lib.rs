//! Plans, and the one pipeline that every module runs through.
//!
//! A [`Module`] is pure: it names the facts that it [needs](Module::needs), and turns them into a [`Plan`]. A [`World`] reads
//! facts, waits and sends. Check mode is another world ([`Dry`]), not a branch: planners cannot tell where they are, and
//! [`run`] is the same for both.
//!
//! This crate knows neither Proxmox nor vSphere; a [`Key`] is an opaque name to it, and a fact is JSON.

mod dry;
mod fact;
mod ledger;
mod module;
mod report;
mod run;
mod step;

pub use dry::{Dry, Overlay};
pub use fact::{Fact, Facts, Key};
pub use ledger::{Ledger, MemoryLedger};
pub use module::{Module, Outcome, Refusal, Sent, Wait, World};
pub use report::{ErrorKind, Failure, Report};
pub use run::{RunOptions, run};
pub use step::{Arg, Await, Effect, Guard, Plan, Request, Step, Tolerance};

/// Stands in diffs for a value that the server chooses; the same in both worlds.
pub const SERVER: &str = "(chosen by the server)";
/// Stands in plans and diffs for a secret value.
pub const MASKED: &str = "********";
