//! What is measured: each case once as ours and once as the peer's, with the same arguments wherever both know them.

use super::worlds::{FIRST, TOKEN, VC_PASSWORD, VC_USER};
use super::{Bench, Job};
use crate::docs;
use serde_json::{Value, json};
use std::path::Path;

/// Which of the two.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// trueplan.virt.
    Ours,
    /// The module that it replaces.
    Theirs,
}

type Make = Box<dyn Fn(&Bench<'_>, Side, usize) -> Result<Job, String>>;

/// One line of the table.
pub struct Case {
    /// Its name there.
    pub name: String,
    /// Guests and machines of the world that it needs.
    pub world: (usize, usize),
    /// How often it is run, without and with added latency.
    pub rounds: (usize, usize),
    /// The command of a side in a round.
    pub make: Make,
    /// A part of ours that is measured against the same run of theirs, and its name.
    pub part: Option<(String, Make)>,
}

/// The guest that a side changes: each has its own, so that both meet the same state in each round.
fn own(side: Side) -> usize {
    FIRST + usize::from(side == Side::Theirs)
}

/// Where a guest that a side creates in a round gets its id.
fn fresh(side: Side, round: usize, n: usize) -> usize {
    20_000 + round * 1000 + usize::from(side == Side::Theirs) * 500 + n
}

fn nic(vmid: usize, tag: usize) -> Value {
    json!({"vmid": vmid, "interface": "net0", "model": "virtio", "bridge": "vmbr0", "firewall": true, "tag": tag, "state": "present"})
}

/// A task's module name; the registry says what each of ours replaces.
fn fqcn(side: Side, module: &str) -> Result<String, String> {
    if side == Side::Ours {
        return Ok(format!("trueplan.virt.{module}"));
    }
    let spec = docs::modules().into_iter().find(|s| s.name == module);
    spec.and_then(|s| s.replaces)
        .map(str::to_owned)
        .ok_or_else(|| format!("{module} replaces no module"))
}

/// Sign-in options of either API.
pub fn sign_in(bench: &Bench<'_>, module: &str) -> Value {
    let pve = module.starts_with("pve_");
    let (host, port) = if pve {
        &bench.lab.pve
    } else {
        &bench.lab.vcenter
    }
    .rsplit_once(':')
    .unwrap_or(("127.0.0.1", "0"));
    let port: u16 = port.parse().unwrap_or_default();
    if pve {
        json!({"api_host": host, "api_port": port, "api_user": "root@pam", "api_token_id": "bench", "api_token_secret": TOKEN,
               "validate_certs": true, "ca_path": bench.ca()})
    } else {
        json!({"hostname": host, "port": port, "username": VC_USER, "password": VC_PASSWORD, "validate_certs": true})
    }
}

fn merged(a: Value, b: &Value) -> Value {
    let mut a = a;
    if let (Some(a), Some(b)) = (a.as_object_mut(), b.as_object()) {
        a.extend(b.iter().map(|(k, v)| (k.clone(), v.clone())));
    }
    a
}

/// A module's process alone, as Ansible starts it: ours with the file of its arguments; the peer's by its interpreter, unpacked already,
/// which spares it the time in which Ansible's wrapper unpacks it.
fn module(
    name: &str,
    module: &'static str,
    args: impl Fn(Side, usize) -> Value + 'static,
    world: (usize, usize),
) -> Case {
    Case {
        name: name.into(),
        world,
        rounds: (5, 2),
        part: None,
        make: Box::new(move |bench, side, round| {
            let args = merged(sign_in(bench, module), &args(side, round));
            match side {
                Side::Ours => {
                    // The peers' modules have no such option; it saves the search for the guest.
                    let args = if matches!(module, "pve_nic" | "pve_disk_import") {
                        merged(args, &json!({"node": "pve1"}))
                    } else {
                        args
                    };
                    let args = if module.starts_with("vsphere_") {
                        merged(args, &json!({"ca_path": bench.ca()}))
                    } else {
                        args
                    };
                    let file = bench.file("args.json", &args)?;
                    Ok(bench.job(&bench.binary, &[module.into(), file]))
                }
                Side::Theirs => {
                    let peer = fqcn(side, module)?;
                    let (collection, peer) = peer.rsplit_once('.').ok_or("no collection")?;
                    let file = bench.file("args.json", &json!({"ANSIBLE_MODULE_ARGS": args}))?;
                    let path = format!("ansible_collections.{collection}.plugins.modules.{peer}");
                    Ok(bench.job(&bench.venv.join("bin/python"), &["-m".into(), path, file]))
                }
            }
        }),
    }
}

/// One play; `hosts` guests, each with these tasks.
pub fn play(
    bench: &Bench<'_>,
    side: Side,
    hosts: usize,
    forks: usize,
    tasks: &[(String, &'static str, Value)],
) -> Result<Job, String> {
    let group = |s: Side, of: &str| match s {
        Side::Ours => format!("group/trueplan.virt.{of}"),
        Side::Theirs => format!("group/community.proxmox.{of}"),
    };
    let tasks: Vec<Value> = tasks
        .iter()
        .map(|(name, module, args)| Ok(json!({"name": name, fqcn(side, module)?: args})))
        .collect::<Result<_, String>>()?;
    let book = json!([{"name": "Bench", "hosts": "all", "gather_facts": false,
                       "module_defaults": {group(side, "proxmox"): sign_in(bench, "pve_")}, "tasks": tasks}]);
    let all: serde_json::Map<String, Value> = (0..hosts)
        .map(|n| (format!("guest{n}"), json!({ "n": n })))
        .collect();
    let inventory = json!({"all": {"hosts": all,
        "vars": {"ansible_connection": "local", "ansible_python_interpreter": bench.venv.join("bin/python")}}});
    let book = bench.file("play.yml", &book)?;
    let inventory = bench.file("hosts.yml", &inventory)?;
    Ok(bench.job(
        &bench.venv.join("bin/ansible-playbook"),
        &["-i".into(), inventory, "-f".into(), forks.to_string(), book],
    ))
}

fn forty(side: Side, bench: &Bench<'_>) -> Result<Job, String> {
    let tasks: Vec<_> = (0..40)
        .map(|i| (format!("nic {i}"), "pve_nic", nic(own(side), 20)))
        .collect();
    play(bench, side, 1, 5, &tasks)
}

/// A shell, two NICs, two empty disks: the peers' tasks that a build stage is made of.
fn build(
    side: Side,
    bench: &Bench<'_>,
    round: usize,
    guests: usize,
    forks: usize,
) -> Result<Job, String> {
    // Each case builds guests of its own, or the second would find those of the first.
    let base = 10_000 * forks + fresh(side, round, 0);
    let vmid = format!("{{{{ {base} + n | int }}}}");
    let net = |i: usize| {
        (
            format!("NIC {i}"),
            "pve_nic",
            json!({"vmid": vmid, "interface": format!("net{i}"), "model": "virtio", "bridge": "vmbr0", "tag": 20 + i}),
        )
    };
    let disk = |i: usize| {
        (
            format!("disk {i}"),
            "pve_disk_import",
            json!({"vmid": vmid, "disk": format!("scsi{i}"), "storage": "data", "size": "1", "state": "present"}),
        )
    };
    let shell = (
        "shell".to_owned(),
        "pve_vm_shell",
        json!({"vmid": vmid, "name": format!("built-{base}-{{{{ n }}}}"), "node": "pve1", "cores": 2, "sockets": 1, "memory": 2048,
               "ostype": "l26", "scsihw": "virtio-scsi-single", "onboot": false, "state": "present"}),
    );
    play(
        bench,
        side,
        guests,
        forks,
        &[shell, net(0), net(1), disk(0), disk(1)],
    )
}

/// What an inventory asks for.
fn properties(devices: bool) -> Option<Value> {
    devices.then(|| {
        json!([
            "name",
            "config.uuid",
            "config.guestId",
            "config.hardware.device",
            "summary.runtime.powerState"
        ])
    })
}

fn inventory(side: Side, bench: &Bench<'_>, devices: bool) -> Result<Job, String> {
    let mut source = sign_in(bench, "vsphere_");
    source["plugin"] = json!(match side {
        Side::Ours => "trueplan.virt.vms",
        Side::Theirs => "vmware.vmware.vms",
    });
    if side == Side::Ours {
        source["ca_path"] = json!(bench.ca());
    }
    if let Some(p) = properties(devices) {
        source["properties"] = p;
    }
    let file = bench.file("bench.vms.yml", &source)?;
    Ok(bench.job(
        &bench.venv.join("bin/ansible-inventory"),
        &["--list".into(), "-i".into(), file],
    ))
}

/// The query of the inventory plugin by itself: `trueplan inventory` against the whole of the peer's `ansible-inventory`, whose plugin
/// has no process of its own.
pub fn inventory_alone(bench: &Bench<'_>, devices: bool) -> Result<Job, String> {
    // What is not named has the peer's default.
    let mut query = merged(sign_in(bench, "vsphere_"), &json!({"ca_path": bench.ca()}));
    if let Some(p) = properties(devices) {
        query["properties"] = p;
    }
    let mut job = bench.job(&bench.binary, &["inventory".into()]);
    job.stdin = Some(Path::new(&bench.file("query.json", &query)?).to_path_buf());
    Ok(job)
}

/// All cases, in the order of the table.
pub fn all() -> Vec<Case> {
    const SMALL: (usize, usize) = (400, 10);
    const LARGE: (usize, usize) = (2, 2000);
    let shell = |side, memory: usize| {
        json!({"vmid": own(side), "name": format!("guest{}", own(side) - FIRST), "node": "pve1", "cores": 2, "sockets": 1, "memory": memory,
               "update": true, "state": "present"})
    };
    let mut cases = vec![
        module("nic unchanged", "pve_nic", |s, _| nic(own(s), 20), SMALL),
        // Every run differs from what the last one left.
        module("nic changed", "pve_nic", |s, r| nic(own(s), 100 + r), SMALL),
        module(
            "shell unchanged",
            "pve_vm_shell",
            move |s, _| shell(s, 2048),
            SMALL,
        ),
        module(
            "shell changed",
            "pve_vm_shell",
            move |s, r| shell(s, 2064 + 16 * r),
            SMALL,
        ),
        module(
            "shell created",
            "pve_vm_shell",
            |s, r| {
                let id = fresh(s, r, 0);
                json!({"vmid": id, "name": format!("made{id}"), "node": "pve1", "cores": 2, "memory": 2048, "ostype": "l26",
                       "net": {"net0": "virtio,bridge=vmbr0,tag=20"}, "state": "present"})
            },
            SMALL,
        ),
        module(
            "disk unchanged",
            "pve_disk_import",
            |s, _| json!({"vmid": own(s), "disk": "scsi0", "cache": "none", "discard": "on", "ssd": true, "state": "present"}),
            SMALL,
        ),
        module(
            "disk option changed",
            "pve_disk_import",
            |s, r| json!({"vmid": own(s), "disk": "scsi0", "cache": "none", "discard": "on", "ssd": true, "iops_rd": 100 + r, "state": "present"}),
            SMALL,
        ),
        module(
            "zone unchanged",
            "pve_zone",
            |_, _| json!({"zone": "bench", "type": "vlan", "bridge": "vmbr0", "state": "present"}),
            SMALL,
        ),
        module(
            "vnet unchanged",
            "pve_vnet",
            |_, _| json!({"vnet": "v20", "zone": "bench", "tag": 20, "alias": "web", "state": "present"}),
            SMALL,
        ),
        module(
            "vm_info, 400 guests",
            "pve_vm_info",
            |_, _| json!({}),
            SMALL,
        ),
        module(
            "vm_info, 400 guests, config: current",
            "pve_vm_info",
            |_, _| json!({"config": "current"}),
            SMALL,
        ),
        module(
            "portgroups, 13",
            "vsphere_portgroups",
            |_, _| json!({"datacenter": "DC13", "show_vlan_info": true}),
            SMALL,
        ),
        module(
            "portgroups, 200",
            "vsphere_portgroups",
            |_, _| json!({"datacenter": "DC200", "show_vlan_info": true}),
            SMALL,
        ),
        module(
            "relocate unchanged, by name among 2,000",
            "vsphere_relocate",
            |_, _| json!({"vm_name": "vm-1500", "destination_datastore": "DC-ds"}),
            LARGE,
        ),
        module(
            "powerstate unchanged, by name among 2,000",
            "vsphere_powerstate",
            |_, _| json!({"name": "vm-1500", "datacenter": "DC", "state": "powered-on"}),
            LARGE,
        ),
        Case {
            name: "playbook: 40 unchanged nic tasks".into(),
            world: SMALL,
            rounds: (2, 1),
            part: None,
            make: Box::new(|b, s, _| forty(s, b)),
        },
    ];
    // What takes the peers minutes with latency is run less often.
    for case in &mut cases {
        case.rounds = match case.name.as_str() {
            "portgroups, 200" => (2, 1),
            "portgroups, 13"
            | "relocate unchanged, by name among 2,000"
            | "vm_info, 400 guests, config: current" => (3, 1),
            _ => case.rounds,
        };
    }
    for forks in [5, 20] {
        cases.push(Case {
            name: format!("playbook: build 50 guests, forks {forks}"),
            world: SMALL,
            rounds: (1, 1),
            part: None,
            make: Box::new(move |b, s, r| build(s, b, r, 50, forks)),
        });
    }
    for machines in [10, 400, 2000] {
        for devices in [false, true] {
            let what = if devices { "devices" } else { "defaults" };
            let alone = format!("inventory of {machines}, {what}, the query alone");
            cases.push(Case {
                name: format!("inventory of {machines}, {what}"),
                world: (2, machines),
                rounds: (if machines > 1000 { 1 } else { 3 }, 1),
                make: Box::new(move |b, s, _| inventory(s, b, devices)),
                part: Some((alone, Box::new(move |b, _, _| inventory_alone(b, devices)))),
            });
        }
    }
    cases
}
