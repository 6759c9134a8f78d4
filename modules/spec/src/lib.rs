//! Argument specs as data, coercion as Ansible's own `check_type_*` do it, secrets, and the documentation made of it.
//!
//! Nobody applies an argument spec for a binary module: values arrive as templating left them, so `vmid` may be `101` or
//! `"101"`. [`parse`] does for a [`ModuleSpec`] what `AnsibleModule` does for a Python module, and reports all errors at once.
//! The crate is pure: the environment is a function given by the caller. It knows nothing of any module.
#![deny(missing_docs)]

mod args;
mod argspec_py;
mod coerce;
mod lint;
mod literal;
mod module_md;
mod module_py;
mod opt;
mod parse;
mod peer;
mod rules;
mod secrets;
pub mod shared;
mod spec_json;
mod suggest;
mod yaml;

pub use args::{ArgError, Args, MASK, Secret, mask_text, secrets};
pub use coerce::{boolean, float, int, python_str};
pub use lint::lint;
pub use literal::parse_literal;
pub use module_md::module_md;
pub use module_py::{COLLECTION, module_py};
pub use opt::{Groups, Kind, ModuleSpec, Opt, Privilege, RequiredIf, Ret, Support};
pub use parse::parse;
pub use peer::peer_gaps;
pub use spec_json::spec_json;
pub use suggest::nearest;
