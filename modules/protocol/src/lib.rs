//! The edge: the arguments file, the environment, the ledger's folder, the result and the exit code.
//!
//! Ansible calls the binary with one argument, a JSON file (docs: STYLE.md F2 to F4); people call it with a module's name and a
//! JSON file or `-`. Only this crate writes standard output.

mod invocation;
mod ledger;
mod output;

pub use invocation::{Invocation, InvocationError, read_invocation};
pub use ledger::FileLedger;
pub use output::{emit, install_panic_hook, print_json, print_text, stream};
