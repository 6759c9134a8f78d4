//! The peers beside ours on one world: labsim and vcsim, through ansible-playbook and ansible-inventory. The values are the same, but for
//! the differences that docs/peer-values.md lists; a line of that table that no world shows any longer fails, too.

use super::vcsim::{self, Vcsim};
use crate::support::{Lab, VC_PASSWORD, VC_USER, full, worlds};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What the recordings of the peers were made with.
const PEERS: [&str; 2] = ["ansible==14.5.0", "pyvmomi==9.1.1.0"];

/// An environment with the peers: one that is there, or one that is made.
fn peers() -> Option<PathBuf> {
    let made = Path::new(env!("CARGO_TARGET_TMPDIR")).join("venv-peers/bin");
    for bin in [
        "/tmp/ansvenv/bin".into(),
        "/work/venvs/v221/bin".into(),
        made.clone(),
    ] {
        if works(&bin) {
            return Some(bin);
        }
    }
    let run = |program: &Path, args: &[&str]| {
        Command::new(program)
            .args(args)
            .output()
            .is_ok_and(|o| o.status.success())
    };
    let folder = made.parent().and_then(Path::to_str).expect("a path");
    let built = run(Path::new("python3"), &["-m", "venv", folder])
        && run(
            &made.join("python3"),
            &[
                "-m", "pip", "install", "--quiet", PEERS[0], PEERS[1], "requests",
            ],
        );
    if built && works(&made) {
        return Some(made);
    }
    println!(
        "skipped: the peers ({}) are not installed here and cannot be",
        PEERS.join(", ")
    );
    None
}

fn works(bin: &Path) -> bool {
    Command::new(bin.join("python3"))
        .args(["-c", "import pyVmomi, ansible_collections.community.vmware, ansible_collections.vmware.vmware"])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|s| s.success())
}

/// A server of either kind, and how one signs in.
struct World {
    name: &'static str,
    port: u16,
    user: &'static str,
    password: &'static str,
}

impl World {
    fn login(&self) -> Value {
        json!({"hostname": "127.0.0.1", "port": self.port, "username": self.user, "password": self.password, "validate_certs": false})
    }

    fn of_lab(lab: &Lab) -> World {
        World {
            name: "labsim",
            port: lab.vcenter().1,
            user: VC_USER,
            password: VC_PASSWORD,
        }
    }

    fn of_vcsim(sim: &Vcsim) -> World {
        World {
            name: "vcsim",
            port: sim.port(),
            user: vcsim::USER,
            password: vcsim::PASSWORD,
        }
    }
}

/// The collection as Ansible finds it, with this build's binary.
fn collection(folder: &Path) {
    let root = folder.join("ansible_collections/trueplan/virt");
    std::fs::create_dir_all(root.join("plugins/modules")).expect("a folder");
    std::fs::create_dir_all(root.join("plugins/bin")).expect("a folder");
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let binary = Path::new(env!("CARGO_BIN_EXE_trueplan"));
    let link =
        |from: &Path, to: &str| std::os::unix::fs::symlink(from, root.join(to)).expect("a link");
    for part in ["plugins/inventory", "plugins/action", "galaxy.yml", "meta"] {
        link(&here.join(part), part);
    }
    link(binary, "plugins/bin/trueplan");
    for (_, ours) in MODULES {
        link(binary, &format!("plugins/modules/{ours}"));
    }
}

/// The peers' modules and what replaces them.
const MODULES: [(&str, &str); 4] = [
    (
        "community.vmware.vmware_dvs_portgroup_info",
        "vsphere_portgroups",
    ),
    ("vmware.vmware.vm_powerstate", "vsphere_powerstate"),
    ("community.vmware.vmware_vmotion", "vsphere_relocate"),
    ("community.vmware.vmware_vm_info", "vsphere_vm_info"),
];

/// Who changes the world in a case.
#[derive(Clone, Copy, PartialEq)]
enum By {
    /// Nobody: both only look, in check mode.
    Look,
    /// Ours says what will be, the peer does it, ours then finds nothing to do.
    Peer,
    /// The other way round.
    Ours,
}

struct Step {
    case: String,
    module: usize,
    args: Value,
    by: By,
}

/// From `[case, our module, "look" | "peer" | "ours", arguments]`.
fn steps(table: Value) -> Vec<Step> {
    let step = |s: &Value| {
        let text = |i: usize| s[i].as_str().expect("a text");
        Step {
            case: text(0).to_owned(),
            module: MODULES
                .iter()
                .position(|m| m.1 == text(1))
                .expect("a module"),
            by: match text(2) {
                "look" => By::Look,
                "peer" => By::Peer,
                "ours" => By::Ours,
                other => panic!("{other}"),
            },
            args: s[3].clone(),
        }
    };
    list(&table).iter().map(step).collect()
}

/// (whether the peer's, whether in check mode) of the tasks of a step.
fn tasks(by: By) -> &'static [(bool, bool)] {
    match by {
        By::Look => &[(true, true), (false, true)],
        By::Peer => &[(false, true), (true, false), (false, false)],
        By::Ours => &[(true, true), (false, false), (true, false)],
    }
}

/// One playbook with all tasks of all steps; gives their results in that order.
fn play(bin: &Path, world: &World, steps: &[Step]) -> Vec<Value> {
    let folder = tempfile::tempdir().expect("a folder");
    collection(folder.path());
    let mut list = vec![];
    for s in steps {
        for (peer, check) in tasks(s.by) {
            let mut args = world.login();
            for (k, v) in s.args.as_object().expect("an object") {
                args[k] = v.clone();
            }
            let (theirs, ours) = MODULES[s.module];
            // On vcsim the peer breaks on disks that have a capacity in KB only.
            if *peer && ours == "vsphere_vm_info" && world.name == "labsim" {
                args["show_allocated"] = json!(true);
            }
            let name = if *peer {
                theirs.to_owned()
            } else {
                format!("trueplan.virt.{ours}")
            };
            let mut task = Map::new();
            task.insert("name".into(), json!(s.case));
            task.insert(name, args);
            task.insert("check_mode".into(), json!(check));
            task.insert("ignore_errors".into(), json!(true));
            list.push(Value::Object(task));
        }
    }
    let book = folder.path().join("beside.yml");
    let text = json!([{"hosts": "localhost", "connection": "local", "gather_facts": false, "tasks": list}]).to_string();
    std::fs::write(&book, text).expect("a file");
    let out = Command::new(bin.join("ansible-playbook"))
        .args(["-i", "localhost,"])
        .arg(&book)
        .current_dir(folder.path())
        .env("HOME", folder.path())
        .env("ANSIBLE_COLLECTIONS_PATH", folder.path())
        .env("ANSIBLE_STDOUT_CALLBACK", "ansible.posix.json")
        .env("ANSIBLE_PYTHON_INTERPRETER", bin.join("python3"))
        .output()
        .expect("ansible-playbook runs");
    let text = String::from_utf8_lossy(&out.stdout);
    let v: Value = serde_json::from_str(text.find('{').map_or("", |i| &text[i..]))
        .unwrap_or_else(|e| panic!("{e}: {text}{}", String::from_utf8_lossy(&out.stderr)));
    let results: Vec<Value> = v["plays"][0]["tasks"]
        .as_array()
        .expect("tasks")
        .iter()
        .map(|t| t["hosts"]["localhost"].clone())
        .collect();
    assert_eq!(results.len(), list.len(), "{text}");
    results
}

/// What of a peer's result has a counterpart in ours, and that counterpart.
fn comparable(module: usize, peer: &Value, ours: &Value) -> (Value, Value) {
    if MODULES[module].1 != "vsphere_vm_info" {
        let keys = [
            "dvs_portgroup_info",
            "vm",
            "running_host",
            "datastore",
            "changed",
        ];
        let own = |v: &Value| -> Value {
            keys.iter()
                .filter(|k| peer.get(**k).is_some())
                .map(|k| ((*k).to_owned(), v[*k].clone()))
                .collect()
        };
        return (own(peer), own(ours));
    }
    let peer: Vec<Value> = list(&peer["virtual_machines"])
        .iter()
        .map(|v| {
            let mut o = Map::new();
            for k in [
                "moid",
                "guest_name",
                "power_state",
                "uuid",
                "instance_uuid",
                "esxi_hostname",
                "datacenter",
                "cluster",
                "folder",
            ] {
                o.insert(k.into(), v[k].clone());
            }
            o.insert("macs".into(), macs(list(&v["mac_address"]).iter()));
            for k in ["cpu", "memory", "storage"] {
                o.insert(k.into(), v["allocated"][k].clone());
            }
            Value::Object(o)
        })
        .collect();
    let ours: Vec<Value> = list(&ours["vms"])
        .iter()
        .map(|v| {
            let bytes: i64 = list(&v["disks"]).iter().filter_map(|d| d["bytes"].as_i64()).sum();
            json!({"moid": v["moid"], "guest_name": v["name"], "power_state": v["power"], "uuid": v["uuid"], "instance_uuid": v["instance_uuid"],
                "esxi_hostname": v["host"]["name"], "datacenter": v["datacenter"]["name"], "cluster": v["cluster"]["name"], "folder": v["path"],
                "macs": macs(list(&v["nics"]).iter().map(|n| &n["mac"])), "cpu": v["cpus"], "memory": v["memory_mb"], "storage": bytes})
        })
        .collect();
    let allocated = peer.iter().any(|v| !v["cpu"].is_null());
    let ours = ours.into_iter().map(|mut v| {
        for k in ["cpu", "memory", "storage"].iter().filter(|_| !allocated) {
            v[*k] = Value::Null;
        }
        v
    });
    (by_moid(peer), by_moid(ours.collect()))
}

/// In no order and without case: ours has them in slot order and as Proxmox VE writes them.
fn macs<'a>(all: impl Iterator<Item = &'a Value>) -> Value {
    let set: BTreeSet<String> = all
        .map(|m| m.as_str().unwrap_or("?").to_lowercase())
        .collect();
    json!(set)
}

fn list(v: &Value) -> &[Value] {
    v.as_array().map_or(&[], Vec::as_slice)
}

fn by_moid(l: Vec<Value>) -> Value {
    l.into_iter()
        .map(|v| (v["moid"].as_str().unwrap_or("?").to_owned(), v))
        .collect()
}

/// `path: peer ..., ours ...` of every value that differs.
fn differences(peer: &Value, ours: &Value, at: &str, out: &mut Vec<String>) {
    match (peer, ours) {
        (Value::Object(x), Value::Object(y)) => {
            let keys: BTreeSet<&String> = x.keys().chain(y.keys()).collect();
            for k in keys {
                let none = json!("(absent)");
                differences(
                    x.get(k).unwrap_or(&none),
                    y.get(k).unwrap_or(&none),
                    &format!("{at}/{k}"),
                    out,
                );
            }
        }
        (Value::Array(x), Value::Array(y)) if x.len() == y.len() => {
            for (i, (p, q)) in x.iter().zip(y).enumerate() {
                differences(p, q, &format!("{at}/{i}"), out);
            }
        }
        (a, b) if a == b => {}
        (a, b) => out.push(format!("{at}: peer {a}, ours {b}")),
    }
}

/// A line of the table: the case, the key that differs (its path contains it), the worlds where it does.
struct Row {
    case: String,
    key: String,
    worlds: String,
}

fn rows() -> Vec<Row> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/peer-values.md");
    let text = std::fs::read_to_string(path).expect(path);
    text.lines()
        .filter(|l| l.starts_with("| ") && !l.starts_with("| case "))
        .map(|l| {
            let cells: Vec<&str> = l.trim_matches('|').split(" | ").map(str::trim).collect();
            assert!(
                cells.len() == 6 && cells[5].len() > 10,
                "case, worlds, key, peer, ours, why: {l}"
            );
            Row {
                case: cells[0].to_owned(),
                worlds: cells[1].to_owned(),
                key: cells[2].trim_matches('`').to_owned(),
            }
        })
        .collect()
}

/// What differed, each with its case, against the table.
fn judge(world: &str, found: &[(String, String)]) {
    let rows = rows();
    let covers = |r: &Row, (case, d): &(String, String)| {
        r.worlds.contains(world)
            && r.case == *case
            && d.split(": ").next().is_some_and(|k| k.contains(&r.key))
    };
    let wrong: Vec<_> = found
        .iter()
        .filter(|f| !rows.iter().any(|r| covers(r, f)))
        .collect();
    assert!(
        wrong.is_empty(),
        "{world}: {} differences that docs/peer-values.md does not have: {wrong:#?}",
        wrong.len()
    );
    let idle: Vec<_> = rows
        .iter()
        .filter(|r| r.worlds.contains(world) && !found.iter().any(|f| covers(r, f)))
        .map(|r| format!("{}: {}", r.case, r.key))
        .collect();
    assert!(
        idle.is_empty(),
        "{world}: docs/peer-values.md has lines that no longer hold: {idle:#?}"
    );
}

/// All steps on a world, and what differed.
fn modules(bin: &Path, world: &World, steps: &[Step]) -> Vec<(String, String)> {
    let results = play(bin, world, steps);
    let mut found = vec![];
    let mut at = 0;
    for s in steps {
        let runs = tasks(s.by);
        let mine = &results[at..at + runs.len()];
        at += runs.len();
        let one = |peer: bool| {
            mine.iter()
                .zip(runs)
                .find(|(_, r)| r.0 == peer)
                .map(|(v, _)| v)
                .expect("a run of each")
        };
        let (theirs, ours) = (one(true), one(false));
        let failed = |v: &Value| v["failed"] == true;
        let mut diff = vec![];
        match (failed(theirs), failed(ours)) {
            (true, true) => {}
            (false, false) => {
                let (a, b) = comparable(s.module, theirs, ours);
                assert!(
                    a.as_object().is_some_and(|o| !o.is_empty()),
                    "{}: the peer says nothing: {theirs}",
                    s.case
                );
                differences(&a, &b, "", &mut diff);
            }
            (a, b) => diff.push(format!(
                "/failed: peer {a} ({}), ours {b} ({})",
                theirs["msg"], ours["msg"]
            )),
        }
        // Whoever did not do it finds it done.
        if s.by != By::Look && !failed(theirs) && !failed(ours) {
            let last = &mine[mine.len() - 1];
            if last["changed"] != false || failed(last) {
                let who = if s.by == By::Peer { "ours" } else { "the peer" };
                diff.push(format!(
                    "/again: {who} says changed {} ({})",
                    last["changed"], last["msg"]
                ));
            }
        }
        println!(
            "peers: {}: {}: {}",
            world.name,
            s.case,
            if diff.is_empty() {
                "equal".to_owned()
            } else {
                format!("{} differences", diff.len())
            }
        );
        found.extend(diff.into_iter().map(|d| (s.case.clone(), d)));
    }
    found
}

/// Without what `--list` wraps texts in.
fn unwrapped(v: Value) -> Value {
    match v {
        Value::Object(o) if o.len() == 1 && o.contains_key("__ansible_unsafe") => {
            o["__ansible_unsafe"].clone()
        }
        Value::Object(o) => o.into_iter().map(|(k, v)| (k, unwrapped(v))).collect(),
        Value::Array(l) => l.into_iter().map(unwrapped).collect(),
        v => v,
    }
}

/// `ansible-inventory --list` of both plugins, with the default properties and with the devices: host variables and groups.
fn inventories(bin: &Path, world: &World, count: usize) -> Vec<(String, String)> {
    let folder = tempfile::tempdir().expect("a folder");
    collection(folder.path());
    let mut found = vec![];
    let devices = vec![
        "name",
        "config.guestId",
        "summary.runtime.powerState",
        "config.hardware.device",
    ];
    for (case, properties) in [
        ("inventory, default properties", None),
        ("inventory, devices", Some(devices)),
    ] {
        let list = |plugin: &str| -> Value {
            let mut o = world.login();
            o["plugin"] = json!(plugin);
            o["hostnames"] = json!(["moid"]);
            if let Some(p) = &properties {
                o["properties"] = json!(p);
            }
            let file = folder
                .path()
                .join(format!("{}.vms.yml", plugin.replace('.', "_")));
            std::fs::write(&file, o.to_string()).expect("a file");
            let out = Command::new(bin.join("ansible-inventory"))
                .arg("-i")
                .arg(&file)
                .arg("--list")
                .env("ANSIBLE_COLLECTIONS_PATH", folder.path())
                .env("ANSIBLE_INVENTORY_ENABLED", plugin)
                .output()
                .expect("ansible-inventory runs");
            let v: Value = serde_json::from_slice(&out.stdout).unwrap_or_else(|e| {
                panic!("{plugin}: {e}: {}", String::from_utf8_lossy(&out.stderr))
            });
            let mut v = unwrapped(v);
            // Groups are sets.
            for g in v.as_object_mut().expect("an object").values_mut() {
                for k in ["hosts", "children"] {
                    if let Some(l) = g.get_mut(k).and_then(Value::as_array_mut) {
                        l.sort_by_key(ToString::to_string);
                    }
                }
            }
            v
        };
        let (theirs, ours) = (list("vmware.vmware.vms"), list("trueplan.virt.vms"));
        assert_eq!(
            theirs["_meta"]["hostvars"].as_object().map(Map::len),
            Some(count)
        );
        let mut diff = vec![];
        differences(&theirs, &ours, "", &mut diff);
        println!(
            "peers: {}: {case}: {count} machines: {}",
            world.name,
            if diff.is_empty() {
                "equal".to_owned()
            } else {
                format!("{} differences", diff.len())
            }
        );
        found.extend(diff.into_iter().map(|d| (case.to_owned(), d)));
    }
    found
}

/// Only with TRUEPLAN_TEST_FULL=1, and where the peers are.
fn wanted(test: &str) -> Option<PathBuf> {
    if !full() {
        println!("{test}: only with TRUEPLAN_TEST_FULL=1");
        return None;
    }
    peers()
}

#[test]
fn the_peers_beside_ours_on_labsim() {
    let Some(bin) = wanted("the_peers_beside_ours_on_labsim") else {
        return;
    };
    let mut w = worlds::demo();
    // web02's second disk lies elsewhere already.
    w["vcenter"]["vms"][1]["disks"] = json!([{"controller": "pvscsi", "size_mib": 2}, {"controller": "pvscsi", "size_mib": 2, "datastore": "esx-hdd"}]);
    let lab = Lab::start(w);
    let world = World::of_lab(&lab);
    let mut all = steps(json!([
        ["all machines", "vsphere_vm_info", "look", {}],
        ["portgroups", "vsphere_portgroups", "look", {"datacenter": "DC1", "show_vlan_info": true}],
        ["portgroups of an old switch", "vsphere_portgroups", "look", {"datacenter": "DC2", "show_vlan_info": true}],
        ["portgroups of an old switch, without its policies", "vsphere_portgroups", "look",
            {"datacenter": "DC2", "show_vlan_info": true, "show_mac_learning": false, "show_network_policy": false}],
        ["a switch of another datacenter", "vsphere_portgroups", "look",
            {"datacenter": "DC1", "dvswitch": "dvs-branch", "show_vlan_info": true, "show_mac_learning": false, "show_network_policy": false}],
        ["some disks there", "vsphere_relocate", "look", {"vm_name": "web02", "destination_datastore": "esx-hdd"}],
        ["a host, and a datastore that does not exist", "vsphere_relocate", "look",
            {"vm_name": "web01", "destination_host": "esx1.lab.example", "destination_datastore": "TYPO"}],
        ["a template moves", "vsphere_relocate", "look", {"vm_name": "tmpl-debian12", "destination_datastore": "esx-hdd"}],
        ["two of one name move", "vsphere_relocate", "look", {"vm_name": "app01", "destination_datastore": "esx-hdd"}],
        ["two of one name stop", "vsphere_powerstate", "look", {"datacenter": "DC1", "name": "app01", "state": "powered-off"}],
        ["a datastore", "vsphere_relocate", "peer", {"vm_name": "archive-sata", "destination_datastore": "migration-nfs"}],
        ["a datastore and back", "vsphere_relocate", "ours", {"vm_name": "archive-sata", "destination_datastore": "esx-hdd"}],
        ["a host", "vsphere_relocate", "peer", {"vm_name": "web01", "destination_host": "esx2.lab.example"}],
        ["a host and back", "vsphere_relocate", "ours", {"moid": "vm-101", "destination_host": "esx1.lab.example"}],
        ["a host and a datastore", "vsphere_relocate", "ours",
            {"vm_name": "web01", "destination_host": "esx2.lab.example", "destination_datastore": "esx-hdd"}],
    ]));
    all.extend(power("DC1", "web01", "web02", "DC2"));
    let mut found = modules(&bin, &world, &all);
    found.extend(inventories(&bin, &world, 15));
    judge("labsim", &found);
}

fn power(dc: &str, one: &str, two: &str, other_dc: &str) -> Vec<Step> {
    steps(json!([
        ["power off", "vsphere_powerstate", "peer", {"datacenter": dc, "name": one, "state": "powered-off"}],
        ["power off again", "vsphere_powerstate", "look", {"datacenter": dc, "name": one, "state": "powered-off"}],
        ["power on", "vsphere_powerstate", "ours", {"datacenter": dc, "name": one, "state": "powered-on"}],
        ["suspend", "vsphere_powerstate", "peer", {"datacenter": dc, "name": two, "state": "suspended"}],
        ["resume without force", "vsphere_powerstate", "look", {"datacenter": dc, "name": two, "state": "powered-on"}],
        ["resume", "vsphere_powerstate", "ours", {"datacenter": dc, "name": two, "state": "powered-on", "force": true}],
        ["another datacenter", "vsphere_powerstate", "look", {"datacenter": other_dc, "name": one, "state": "powered-off"}],
        ["an unknown uuid", "vsphere_powerstate", "look", {"datacenter": dc, "uuid": "00000000-0000-0000-0000-000000000001", "state": "powered-off"}],
        ["power off the other", "vsphere_powerstate", "ours", {"datacenter": dc, "name": two, "state": "powered-off"}],
        ["shut down what is off", "vsphere_powerstate", "look", {"datacenter": dc, "name": two, "state": "shutdown-guest"}],
    ]))
}

#[test]
fn the_peers_beside_ours_on_vcsim() {
    let Some(bin) = wanted("the_peers_beside_ours_on_vcsim") else {
        return;
    };
    let Some(sim) = Vcsim::start(&["-pg", "5", "-vm", "13"]) else {
        return;
    };
    let world = World::of_vcsim(&sim);
    let mut all = steps(json!([
        ["all machines", "vsphere_vm_info", "look", {}],
        ["portgroups of an old switch", "vsphere_portgroups", "look", {"datacenter": "DC0", "show_vlan_info": true}],
        ["portgroups of an old switch, without its policies", "vsphere_portgroups", "look",
            {"datacenter": "DC0", "show_vlan_info": true, "show_mac_learning": false, "show_network_policy": false, "show_teaming_policy": false, "show_uplinks": false}],
        ["a host", "vsphere_relocate", "peer", {"vm_name": "DC0_C0_RP0_VM0", "destination_host": "DC0_C0_H1", "destination_datacenter": "DC0"}],
        ["a host and back", "vsphere_relocate", "ours", {"vm_name": "DC0_C0_RP0_VM0", "destination_host": "DC0_C0_H0", "destination_datacenter": "DC0"}],
        ["a datastore move that moves no file", "vsphere_relocate", "peer",
            {"vm_name": "DC0_H0_VM2", "destination_datastore": "LocalDS_1", "destination_datacenter": "DC0"}],
        ["a host, and a datastore that does not exist", "vsphere_relocate", "look",
            {"vm_name": "DC0_C0_RP0_VM1", "destination_host": "DC0_C0_H0", "destination_datastore": "TYPO"}],
    ]));
    all.extend(power("DC0", "DC0_H0_VM0", "DC0_H0_VM1", "DC1"));
    let mut found = modules(&bin, &world, &all);
    found.extend(inventories(&bin, &world, 52));
    judge("vcsim", &found);
    drop(sim);
    if let Some(large) = Vcsim::start(&["-vm", "100"]) {
        let found = inventories(&bin, &World::of_vcsim(&large), 400);
        assert!(found.is_empty(), "{found:#?}");
    }
}
