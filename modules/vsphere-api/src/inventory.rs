//! Variables of all machines, for the inventory plugin: streamed, one query, paths from one more.

use crate::collect::{Found, Spec, moid_of};
use crate::connection::Connection;
use crate::live::Live;
use crate::place::{self, Tree};
use plan::{ErrorKind, Failure};
use serde_json::{Map, Value, json};
use std::collections::HashSet;
use std::io::{BufWriter, Write};
use vsphere::value::{moid_at, put, text};

/// The properties of the peer's default (docs/peers-vsphere.md section 4).
const DEFAULT: &[&str] = &[
    "name",
    "config.cpuHotAddEnabled",
    "config.cpuHotRemoveEnabled",
    "config.instanceUuid",
    "config.hardware.numCPU",
    "config.template",
    "config.name",
    "config.uuid",
    "guest.hostName",
    "guest.ipAddress",
    "guest.guestId",
    "guest.guestState",
    "runtime.maxMemoryUsage",
    "customValue",
    "summary.runtime.powerState",
    "config.guestId",
];
/// Read whatever else is asked for: the default groups and host names need them.
const ALWAYS: &[&str] = &["name", "config.guestId", "summary.runtime.powerState"];

/// What the plugin asks for.
#[derive(Clone, Debug)]
pub struct Options {
    /// Property paths; `all` among them means all properties.
    pub properties: Vec<String>,
    /// Adds `cluster` and `esxi_host`, each `{name, moid}`.
    pub gather_compute_objects: bool,
    /// Adds `path`, the folder of the machine.
    pub gather_path: bool,
    /// Only below these inventory paths.
    pub search_paths: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            properties: DEFAULT.iter().map(|p| (*p).to_owned()).collect(),
            gather_compute_objects: false,
            gather_path: true,
            search_paths: vec![],
        }
    }
}

impl Options {
    /// From the plugin's options; what is not named has the peer's default.
    pub fn from_json(v: &Value) -> Options {
        let mut o = Options::default();
        let strings = |k: &str| -> Option<Vec<String>> {
            match v.get(k)? {
                Value::String(s) => Some(vec![s.clone()]),
                Value::Array(l) => Some(
                    l.iter()
                        .filter_map(Value::as_str)
                        .map(str::to_owned)
                        .collect(),
                ),
                _ => None,
            }
        };
        if let Some(p) = strings("properties") {
            o.properties = p;
        }
        if let Some(p) = strings("search_paths") {
            o.search_paths = p;
        }
        let flag = |k: &str, d: bool| v.get(k).and_then(Value::as_bool).unwrap_or(d);
        o.gather_compute_objects = flag("gather_compute_objects", o.gather_compute_objects);
        o.gather_path = flag("gather_path", o.gather_path);
        o
    }

    /// The paths to ask for; `None` means all.
    fn paths(&self) -> Option<Vec<String>> {
        if self.properties.iter().any(|p| p == "all") {
            return None;
        }
        let mut out: Vec<String> = vec![];
        let compute: &[&str] = if self.gather_compute_objects {
            &["summary.runtime.host"]
        } else {
            &[]
        };
        let all = self
            .properties
            .iter()
            .map(String::as_str)
            .chain(ALWAYS.iter().copied())
            .chain(compute.iter().copied());
        for p in all {
            // `moid` is always there and no property of the API.
            if !matches!(p, "" | "moid" | "_moid") && !out.iter().any(|o| o == p) {
                out.push(p.to_owned());
            }
        }
        Some(out)
    }
}

/// Writes `{"vms": [{variables}, ...], "warnings": [...]}`; each machine has its properties as a tree, `moid`, and what was
/// gathered. Each machine has a line of its own, by which the inventory plugin parses it while the rest is still on its way. Written
/// as it streams in: memory does not grow with the number of machines.
///
/// # Errors
/// As of any read; then what was written is not complete JSON.
pub fn inventory(
    connection: Connection,
    options: &Options,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let mut live = Live::new(connection);
    let mut warnings: Vec<String> = vec![];
    let wanted = options.paths();
    let asks = |p: &str| wanted.as_ref().is_none_or(|w| w.iter().any(|x| x == p));
    // Paths that only we need are asked for but not shown.
    let mut hidden: Vec<&str> = vec![];
    let spec = wanted.clone().map(|mut w| {
        let needed: &[&str] = if options.gather_path {
            &["parent", "parentVApp"]
        } else {
            &[]
        };
        for p in needed {
            if !asks(p) {
                hidden.push(p);
                w.push((*p).to_owned());
            }
        }
        w
    });
    let specs = [Spec {
        ty: "VirtualMachine",
        paths: spec,
    }];
    let needs_tree =
        options.gather_path || options.gather_compute_objects || !options.search_paths.is_empty();
    // Search paths are looked up in the tree; without any, tree and machines come in turn from one view.
    let mut tree = if options.search_paths.is_empty() {
        Tree::default()
    } else {
        live.tree()?
    };
    let tree_specs = place::specs();
    let turns: &[&[Spec]] = if needs_tree && options.search_paths.is_empty() {
        &[&tree_specs, &specs]
    } else {
        &[&specs]
    };
    let fields = if asks("customValue") {
        Some(live.custom_fields()?)
    } else {
        None
    };
    let mut containers: Vec<Option<String>> = vec![];
    for p in &options.search_paths {
        match tree.find(p) {
            Some(r) => containers.push(Some(r)),
            None => warnings.push(format!(
                "search path {p} is not there, or this user may not see it"
            )),
        }
    }
    if options.search_paths.is_empty() {
        containers.push(None);
    }
    let mut w = BufWriter::new(out);
    let written = |r: std::io::Result<()>| {
        r.map_err(|e| {
            Failure::new(
                ErrorKind::Internal,
                format!("the inventory cannot be written: {e}"),
            )
        })
    };
    written(w.write_all(b"{\"vms\": ["))?;
    let mut seen: HashSet<String> = HashSet::new();
    let mut unreadable = 0_usize;
    // Machines without a configuration (docs/peers-vsphere.md V4.6), so many of which are named.
    const NAMED: usize = 10;
    let asks_config = wanted
        .as_ref()
        .is_none_or(|w| w.iter().any(|p| p.starts_with("config.")));
    let (mut bare, mut bare_names) = (0_usize, vec![]);
    let mut emitted = 0_usize;
    for c in containers {
        // Machines in vApps need one more query each vApp, which cannot be sent while the stream is read.
        let mut later: Vec<(Map<String, Value>, Value)> = vec![];
        live.session()?
            .collect_in_turn(c.as_deref(), turns, &mut |f| {
                if f.ty != "VirtualMachine" {
                    tree.add(&f, &f.tree());
                    return Ok(());
                }
                if !seen.insert(f.moid.clone()) {
                    return Ok(());
                }
                unreadable += usize::from(!f.missing.is_empty());
                if asks_config
                    && f.missing.is_empty()
                    && !f.props.iter().any(|(p, _)| p.starts_with("config"))
                {
                    bare += 1;
                    if bare <= NAMED {
                        bare_names.push(f.moid.clone());
                    }
                }
                let at = whereabouts(&f);
                let mut vars = variables(f, &hidden, fields.as_ref());
                if options.gather_compute_objects {
                    let host = moid_at(&at, "summary.runtime.host")
                        .or_else(|| moid_at(&at, "runtime.host"));
                    let compute = host
                        .and_then(|h| tree.get(h))
                        .and_then(|n| n.parent.clone());
                    vars.insert("cluster".into(), named(&tree, compute.as_deref()));
                    vars.insert("esxi_host".into(), named(&tree, host));
                }
                if options.gather_path {
                    match moid_of(&at, "parent") {
                        Some(p) => {
                            vars.insert("path".into(), json!(tree.path(&p)));
                        }
                        None => {
                            let vapp = json!({"parentVApp": text(&at, "parentVApp")});
                            later.push((vars, vapp));
                            return Ok(());
                        }
                    }
                }
                written(emit(&mut w, &mut emitted, &vars))
            })
            .map_err(|e| e.failure("read the machines"))?;
        if needs_tree && live.tree.is_none() {
            live.tree = Some(tree.clone());
        }
        for (mut vars, props) in later {
            let place = live.place(&props)?;
            vars.insert(
                "path".into(),
                json!(if place.path.is_empty() {
                    "/"
                } else {
                    &place.path
                }),
            );
            written(emit(&mut w, &mut emitted, &vars))?;
        }
    }
    if bare > 0 {
        let more = if bare > NAMED { ", ..." } else { "" };
        warnings.push(format!(
            "{bare} machines have no configuration (inaccessible, orphaned, or just being made): {}{more}; their config variables are missing, and keyed groups of those pass them over",
            bare_names.join(", ")
        ));
    }
    if unreadable > 0 {
        warnings.push(format!(
            "{unreadable} machines have properties that this user may not read"
        ));
    }
    written(write!(w, "\n], \"warnings\": {}}}\n", json!(warnings)).and_then(|()| w.flush()))
}

fn emit(w: &mut impl Write, emitted: &mut usize, vars: &Map<String, Value>) -> std::io::Result<()> {
    w.write_all(if *emitted == 0 { b"\n" } else { b",\n" })?;
    *emitted += 1;
    serde_json::to_writer(w, vars).map_err(std::io::Error::from)
}

/// `{name, moid}`, empty strings where there is none, as the peer has it.
fn named(tree: &Tree, moid: Option<&str>) -> Value {
    match moid.and_then(|m| tree.get(m).map(|n| (m, n))) {
        Some((m, n)) => json!({"name": n.name, "moid": m}),
        None => json!({"name": "", "moid": ""}),
    }
}

/// What says where a machine is, as a tree: the rest, its devices above all, is not copied for that.
fn whereabouts(f: &Found) -> Value {
    let mut m = Map::new();
    for (path, v) in &f.props {
        let first = path.split('.').next().unwrap_or_default();
        if matches!(first, "parent" | "parentVApp" | "summary" | "runtime") {
            put(&mut m, path, v.clone());
        }
    }
    Value::Object(m)
}

/// A machine's variables: its properties as a tree, `moid`, custom values by the names of their fields.
fn variables(f: Found, hidden: &[&str], fields: Option<&Map<String, Value>>) -> Map<String, Value> {
    let mut vars = Map::new();
    let mut values = Value::Null;
    for (path, v) in f.props {
        if path == "customValue" {
            values = v;
        } else if !hidden.contains(&path.as_str()) {
            put(&mut vars, &path, quoted(v));
        }
    }
    if let Some(fields) = fields {
        let mut custom = Map::new();
        for c in values.as_array().into_iter().flatten() {
            let key = c["key"].to_string();
            let name = fields
                .get(&key)
                .and_then(Value::as_str)
                .unwrap_or(&key)
                .to_owned();
            custom.insert(name, c["value"].clone());
        }
        vars.insert("customValue".into(), Value::Object(custom));
    }
    vars.insert("moid".into(), json!(f.moid));
    vars
}

/// A reference that is a property itself, or an item of one, has quotes inside the string, as the peer prints it; those inside
/// data objects have none (docs/peers-vsphere.md section 4).
fn quoted(v: Value) -> Value {
    match v {
        Value::String(s) if is_reference(&s) => json!(format!("'{s}'")),
        Value::Array(l) => l.into_iter().map(quoted).collect(),
        other => other,
    }
}

fn is_reference(s: &str) -> bool {
    s.split_once(':').is_some_and(|(t, m)| {
        !m.is_empty()
            && !m.contains(' ')
            && t.starts_with("vim.")
            && vsphere::schema::schema()
                .any(t)
                .is_some_and(|t| t.kind == vsphere::schema::Kind::Managed)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_groups_need_is_always_asked_for() {
        let o = Options::from_json(
            &json!({"properties": ["config.uuid", "name"], "gather_compute_objects": true}),
        );
        assert_eq!(
            o.paths().expect("paths"),
            [
                "config.uuid",
                "name",
                "config.guestId",
                "summary.runtime.powerState",
                "summary.runtime.host"
            ]
        );
        assert_eq!(
            Options::from_json(&json!({"properties": "all"})).paths(),
            None
        );
        assert_eq!(Options::default().paths().map(|p| p.len()), Some(16));
    }

    #[test]
    fn references_are_quoted_at_the_top_only() {
        let f = Found {
            ty: "VirtualMachine".into(),
            moid: "vm-1".into(),
            props: vec![
                ("datastore".into(), json!(["vim.Datastore:datastore-1"])),
                (
                    "summary.runtime.host".into(),
                    json!("vim.HostSystem:host-1"),
                ),
                (
                    "summary.vm".into(),
                    json!({"_vimtype": "x", "vm": "vim.VirtualMachine:vm-1"}),
                ),
                ("config.annotation".into(), json!("vim.Datastore: a note")),
                ("customValue".into(), json!([{"key": 101, "value": "web"}])),
            ],
            missing: vec![],
        };
        let mut fields = Map::new();
        fields.insert("101".into(), json!("Owner"));
        let v = Value::Object(variables(f, &[], Some(&fields)));
        assert_eq!(v["datastore"], json!(["'vim.Datastore:datastore-1'"]));
        assert_eq!(v["summary"]["runtime"]["host"], "'vim.HostSystem:host-1'");
        assert_eq!(v["summary"]["vm"]["vm"], "vim.VirtualMachine:vm-1");
        assert_eq!(v["config"]["annotation"], "vim.Datastore: a note");
        assert_eq!(v["customValue"], json!({"Owner": "web"}));
    }
}
