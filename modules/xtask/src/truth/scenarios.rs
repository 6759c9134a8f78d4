//! The scenarios.

mod create;
mod daytwo;
mod migrate;
mod remove;

use super::scenario::Scenario;
use std::path::Path;

/// All of them, in the order of docs/TRUTH.md.
pub fn all(root: &Path) -> Result<Vec<Scenario>, String> {
    let mut out = create::all();
    out.extend(daytwo::all());
    out.extend(remove::all());
    out.extend(migrate::all(root)?);
    Ok(out)
}
