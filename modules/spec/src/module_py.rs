//! The generated `plugins/modules/<name>.py`: documentation that `ansible-doc` and Galaxy read, and a `main()` for the case
//! that the native binary is missing.
//!
//! Ansible prefers the file without extension when it runs the module (STYLE.md F5), so this `main()` runs only without it.

use crate::argspec_py;
use crate::opt::{Kind, ModuleSpec, Opt, Ret, Support};
use crate::spec_json::{default, typed};
use crate::yaml;
use serde_json::{Map, Value, json};

/// The collection that the modules belong to.
pub const COLLECTION: &str = "trueplan.virt";

/// The text of `plugins/modules/<name>.py` for this version of the collection.
pub fn module_py(spec: &ModuleSpec, version: &str) -> String {
    let name = spec.name;
    let documentation = yaml::print(&documentation(spec));
    let returns: Map<String, Value> = spec
        .returns
        .iter()
        .flat_map(|group| group.iter())
        .map(|r| (r.name.to_owned(), ret(r)))
        .collect();
    let returns = if returns.is_empty() {
        "# This module has no return values of its own.\n".to_owned()
    } else {
        yaml::print(&Value::Object(returns))
    };
    let keywords = argspec_py::keywords(spec, 8);
    let imports = if argspec_py::uses_env(spec) {
        "AnsibleModule, env_fallback"
    } else {
        "AnsibleModule"
    };
    let examples = spec.examples.trim_matches('\n');
    // A raw string cannot escape its own quotes; the other kind is then free.
    let quotes = if examples.contains("\"\"\"") {
        "'''"
    } else {
        "\"\"\""
    };
    format!(
        r####"#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the trueplan authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# GENERATED from the argument spec of {COLLECTION} {version} by `cargo xtask docs`; do not edit.
"""Documentation of {COLLECTION}.{name}; the module itself is the native binary beside this file."""

from __future__ import annotations

DOCUMENTATION = r"""
{documentation}"""

EXAMPLES = r{quotes}
{examples}
{quotes}

RETURN = r"""
{returns}"""

import platform

from ansible.module_utils.basic import {imports}


class MissingBinary(AnsibleModule):
    """Answers everything, wrong arguments included, with the one thing that is wrong here."""

    def fail_json(self, msg=None, **kwargs):
        super().fail_json(
            msg=(
                "unable to run {COLLECTION}.{name} {version}: its native binary for %s %s is not installed; "
                "install a release of the collection that holds it (ansible-galaxy collection install --force {COLLECTION}), "
                "build it from source (cargo xtask dist), or run the task on a host of a supported platform "
                "(delegate_to: localhost)" % (platform.system(), platform.machine())
            ),
            changed=False,
            error_kind="internal",
        )


def main():
    module = MissingBinary(
{keywords}    )
    module.fail_json()


if __name__ == "__main__":
    main()
"####
    )
}

/// Drops empty parts, so that the documentation names only what there is.
fn object(parts: Vec<(&str, Value)>) -> Value {
    Value::Object(
        parts
            .into_iter()
            .filter(|(_, v)| match v {
                Value::Null => false,
                Value::Array(a) => !a.is_empty(),
                Value::Object(o) => !o.is_empty(),
                Value::String(s) => !s.is_empty(),
                _ => true,
            })
            .map(|(k, v)| (k.to_owned(), v))
            .collect(),
    )
}

fn documentation(spec: &ModuleSpec) -> Value {
    let options: Map<String, Value> = spec.all().map(|o| (o.name.to_owned(), option(o))).collect();
    let mut notes: Vec<String> = spec.notes.iter().map(|n| (*n).to_owned()).collect();
    notes.extend(rules(spec));
    notes.extend(
        spec.privileges
            .iter()
            .map(|(on, privilege, what)| format!("Privilege for {what}: {privilege} on {on}.")),
    );
    let seealso = spec.replaces.map(|peer| {
        json!([{
            "module": peer,
            "description": format!("The Python module that M({COLLECTION}.{}) replaces.", spec.name),
        }])
    });
    object(vec![
        ("module", json!(spec.name)),
        ("short_description", json!(spec.short)),
        ("version_added", json!(spec.version_added)),
        ("description", json!(spec.doc)),
        ("author", json!(["The trueplan authors (@trueplan)"])),
        ("requirements", json!(spec.requirements)),
        ("attributes", attributes(spec)),
        ("options", Value::Object(options)),
        ("notes", json!(notes)),
        ("seealso", seealso.unwrap_or(Value::Null)),
    ])
}

fn attributes(spec: &ModuleSpec) -> Value {
    let attribute = |description: &str, support: Support| {
        object(vec![
            ("description", json!(description)),
            ("support", json!(support.support)),
            ("details", json!(support.details)),
        ])
    };
    let groups: Vec<String> = spec
        .action_groups
        .iter()
        .map(|g| format!("{COLLECTION}.{g}"))
        .collect();
    let mut out = Map::new();
    if !groups.is_empty() {
        out.insert(
            "action_group".to_owned(),
            json!({
                "description": "Use one of these groups in C(module_defaults) to set defaults for all its modules.",
                "support": "full",
                "membership": groups,
            }),
        );
    }
    for (name, description, support) in [
        (
            "check_mode",
            "Can run in C(check_mode) and return changed status prediction without modifying target.",
            spec.check_mode,
        ),
        (
            "diff_mode",
            "Will return details on what has changed (or possibly needs changing in C(check_mode)), when in diff mode.",
            spec.diff_mode,
        ),
        (
            "idempotent",
            "When run twice in a row outside check mode, with the same arguments, the second invocation indicates no change.",
            spec.idempotent,
        ),
    ] {
        out.insert(name.to_owned(), attribute(description, support));
    }
    Value::Object(out)
}

/// The paragraphs of a text.
pub(crate) fn paragraphs(text: &str) -> Vec<String> {
    text.lines()
        .map(str::trim)
        .filter(|l| !l.is_empty())
        .map(str::to_owned)
        .collect()
}

fn option(opt: &Opt) -> Value {
    let mut description = paragraphs(opt.doc);
    if let Some((min, max)) = opt.range {
        description.push(format!("From V({min}) to V({max})."));
    }
    if let Some(variable) = opt.env {
        description.push(format!(
            "If not given, the environment variable E({variable}) is used."
        ));
    }
    let choices: Vec<Value> = opt.choices.iter().map(|c| typed(opt, c)).collect();
    let suboptions: Map<String, Value> = opt
        .options
        .iter()
        .map(|o| (o.name.to_owned(), option(o)))
        .collect();
    object(vec![
        ("description", json!(description)),
        ("type", json!(opt.kind.as_str())),
        ("elements", json!(opt.elements.map(Kind::as_str))),
        (
            "required",
            if opt.required {
                json!(true)
            } else {
                Value::Null
            },
        ),
        ("aliases", json!(opt.aliases)),
        ("choices", json!(choices)),
        ("default", default(opt)),
        ("version_added", json!(opt.version_added)),
        ("suboptions", Value::Object(suboptions)),
    ])
}

fn ret(ret: &Ret) -> Value {
    let sample = ret.sample.and_then(|s| serde_json::from_str(s).ok());
    let contains: Map<String, Value> = ret
        .contains
        .iter()
        .map(|r| (r.name.to_owned(), self::ret(r)))
        .collect();
    object(vec![
        ("description", json!(paragraphs(ret.doc))),
        ("returned", json!(ret.when)),
        ("type", json!(ret.kind.as_str())),
        ("elements", json!(ret.elements.map(Kind::as_str))),
        ("sample", sample.unwrap_or(Value::Null)),
        ("contains", Value::Object(contains)),
    ])
}

fn names(names: &[&str], joint: &str) -> String {
    let marked: Vec<String> = names.iter().map(|n| format!("O({n})")).collect();
    match marked.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} {joint} {last}", rest.join(", ")),
        None => String::new(),
    }
}

/// The rules between options in words, since Ansible's documentation format has no field for them.
pub(crate) fn rules(spec: &ModuleSpec) -> Vec<String> {
    let mut out = Vec::new();
    for group in spec.required_one_of {
        out.push(format!(
            "At least one of {} is required.",
            names(group, "and")
        ));
    }
    for group in spec.required_together {
        out.push(format!("{} must be given together.", names(group, "and")));
    }
    for group in spec.mutually_exclusive {
        out.push(format!("{} exclude each other.", names(group, "and")));
    }
    for (name, needs) in spec.required_by {
        out.push(format!("O({name}) needs {}.", names(needs, "and")));
    }
    for (name, value, needs, any) in spec.required_if {
        out.push(if *any && needs.len() > 1 {
            format!(
                "With O({name}={value}) at least one of {} is required.",
                names(needs, "and")
            )
        } else {
            format!("O({name}={value}) needs {}.", names(needs, "and"))
        });
    }
    out
}
