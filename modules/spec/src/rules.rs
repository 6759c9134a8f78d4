//! The rules between options of one module.

use crate::args::ArgError;
use crate::opt::{Kind, ModuleSpec};
use crate::parse::{Walk, plain, quoted, same_choice};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

impl Walk<'_> {
    /// The rules between options, with Ansible's semantics: defaults count as given, except for mutual exclusion.
    pub(crate) fn rules(&mut self, spec: &ModuleSpec, values: &Map<String, Value>) {
        let failed = std::mem::take(&mut self.failed);
        let has = |name: &str| values.contains_key(name) || failed.contains(name);
        let named: BTreeSet<String> = self.given.clone();
        let mut report = |path: &str, msg: String| {
            self.errors.push(ArgError {
                path: path.to_owned(),
                value: None,
                msg,
            });
        };
        for group in spec.mutually_exclusive {
            let both: Vec<&str> = group
                .iter()
                .copied()
                .filter(|n| named.contains(*n))
                .collect();
            if both.len() > 1 {
                report(
                    both[0],
                    format!("{} exclude each other; give only one", quoted(&both)),
                );
            }
        }
        for group in spec.required_one_of {
            if !group.is_empty() && !group.iter().any(|n| has(n)) {
                report(group[0], format!("one of {} is required", quoted(group)));
            }
        }
        for group in spec.required_together {
            let missing: Vec<&str> = group.iter().copied().filter(|n| !has(n)).collect();
            if !missing.is_empty() && missing.len() < group.len() {
                report(
                    missing[0],
                    format!(
                        "{} are required together; {} is missing",
                        quoted(group),
                        quoted(&missing)
                    ),
                );
            }
        }
        for (name, needs) in spec.required_by {
            let missing: Vec<&str> = needs.iter().copied().filter(|n| !has(n)).collect();
            if has(name) && !missing.is_empty() {
                report(
                    missing[0],
                    format!(
                        "required when `{name}` is given; {} is missing",
                        quoted(&missing)
                    ),
                );
            }
        }
        for (name, wanted, needs, any) in spec.required_if {
            let hit = values
                .get(*name)
                .is_some_and(|v| same_choice(wanted, &plain(v), Kind::Raw));
            let missing: Vec<&str> = needs.iter().copied().filter(|n| !has(n)).collect();
            let short = if *any {
                missing.len() == needs.len()
            } else {
                !missing.is_empty()
            };
            if hit && short && !missing.is_empty() {
                let what = if *any { "one of them" } else { "all of them" };
                report(
                    missing[0],
                    format!(
                        "required when `{name}` is `{wanted}`: {} ({what}); {} is missing",
                        quoted(needs),
                        quoted(&missing)
                    ),
                );
            }
        }
    }
}
