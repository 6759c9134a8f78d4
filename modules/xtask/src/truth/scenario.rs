//! What a scenario is: a world, tasks in two spellings, and what happens meanwhile.

use super::labs::Site;
use serde_json::{Value, json};
use std::path::Path;

/// Of every user of the small world.
pub const PASSWORD: &str = "correct-horse-battery-1";
/// Of every token of the small world.
const SECRET: &str = "1f0c9d2e-3b4a-4c5d-8e6f-7a8b9c0d1e2f";
/// The vCenter user who does what a scenario says that somebody else does; the writes of a run are not his.
pub const COLLEAGUE: &str = "colleague@vsphere.local";
const COLLEAGUE_PASSWORD: &str = "lab-Vsphere-Colleague-1";

/// Whose modules run the tasks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// trueplan.virt.
    Ours,
    /// community.proxmox, community.vmware and vmware.vmware.
    Peers,
}

/// Module names as the scenarios write them: the word, ours, theirs.
const MODULES: &[(&str, &str, &str)] = &[
    (
        "SHELL",
        "trueplan.virt.pve_vm_shell",
        "community.proxmox.proxmox_kvm",
    ),
    (
        "NIC",
        "trueplan.virt.pve_nic",
        "community.proxmox.proxmox_nic",
    ),
    (
        "DISK",
        "trueplan.virt.pve_disk_import",
        "community.proxmox.proxmox_disk",
    ),
    (
        "ZONE",
        "trueplan.virt.pve_zone",
        "community.proxmox.proxmox_zone",
    ),
    (
        "VNET",
        "trueplan.virt.pve_vnet",
        "community.proxmox.proxmox_vnet",
    ),
    (
        "GUESTS",
        "trueplan.virt.pve_vm_info",
        "community.proxmox.proxmox_vm_info",
    ),
    (
        "RELOCATE",
        "trueplan.virt.vsphere_relocate",
        "community.vmware.vmware_vmotion",
    ),
    (
        "POWER",
        "trueplan.virt.vsphere_powerstate",
        "vmware.vmware.vm_powerstate",
    ),
    (
        "MACHINE",
        "trueplan.virt.vsphere_vm_info",
        "vmware.vmware.vm_info",
    ),
    (
        "PORTGROUPS",
        "trueplan.virt.vsphere_portgroups",
        "community.vmware.vmware_dvs_portgroup_info",
    ),
];

/// When something happens that the playbook does not do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// Before the check run.
    Start,
    /// Between the check run and the real one.
    Meanwhile,
    /// Between the real run and the third.
    Later,
}

/// Something that the playbook does not do.
#[derive(Clone, Debug)]
pub enum Event {
    /// A change from outside, as labsim takes it.
    Set(Value),
    /// A fault rule of labsim.
    Fault(Value),
    /// The end of all faults.
    Mended,
    /// A module of ours, run by another administrator of the cluster.
    Call(&'static str, Value),
}

/// A scenario; data only.
#[derive(Clone)]
pub struct Scenario {
    /// What it is about; also its heading in docs/TRUTH.md.
    pub name: &'static str,
    /// The group it is listed under.
    pub group: &'static str,
    /// The whole lab.
    pub world: Value,
    /// Tasks as YAML. Lines that begin with `<` are ours only, with `>` the peers' only; module names are the words of [`MODULES`].
    pub tasks: &'static str,
    /// A module call that somebody else makes at the start of each run, through our binary.
    pub before: Vec<(&'static str, Value)>,
    /// What happens when.
    pub events: Vec<(When, Event)>,
    /// Names of tasks whose outcome nobody can foresee in the check run.
    pub unforeseeable: &'static [&'static str],
    /// Who signs in on the Proxmox side: `root`, or `deploy` whose token has only what the world's acl gives it.
    pub login: &'static str,
    /// Whether the peers have modules for it.
    pub peers: bool,
}

impl Scenario {
    /// A scenario in that world in which nothing else happens.
    pub fn new(name: &'static str, group: &'static str, world: Value) -> Scenario {
        Scenario {
            name,
            group,
            world,
            tasks: "",
            before: vec![],
            events: vec![],
            unforeseeable: &[],
            login: "root",
            peers: true,
        }
    }

    /// Its tasks.
    pub fn tasks(mut self, yaml: &'static str) -> Self {
        self.tasks = yaml;
        self
    }

    /// Something that happens.
    pub fn on(mut self, when: When, event: Event) -> Self {
        self.events.push((when, event));
        self
    }

    /// Something that somebody else does at the start of each run.
    pub fn before(mut self, module: &'static str, args: Value) -> Self {
        self.before.push((module, args));
        self
    }

    /// Tasks whose outcome nobody can foresee.
    pub fn unforeseeable(mut self, tasks: &'static [&'static str]) -> Self {
        self.unforeseeable = tasks;
        self
    }

    /// As that user.
    pub fn login(mut self, user: &'static str) -> Self {
        self.login = user;
        self
    }

    /// The peers have no module for it.
    pub fn without_peers(mut self) -> Self {
        self.peers = false;
        self
    }

    /// A name that fits into a path and an inventory.
    pub fn slug(&self) -> String {
        let s: String = self
            .name
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .collect();
        s.split('-')
            .filter(|p| !p.is_empty())
            .collect::<Vec<_>>()
            .join("-")
            .to_lowercase()
    }

    /// The tasks in that spelling.
    pub fn spell(&self, side: Side) -> String {
        let mut out = String::new();
        for line in self.tasks.lines() {
            let (mine, line) = match (line.chars().next(), side) {
                (Some('<'), Side::Ours) | (Some('>'), Side::Peers) => {
                    (true, format!(" {}", &line[1..]))
                }
                (Some('<' | '>'), _) => (false, String::new()),
                _ => (true, line.to_owned()),
            };
            if !mine {
                continue;
            }
            let word = line.trim().trim_end_matches(':');
            match MODULES.iter().find(|(w, _, _)| *w == word) {
                Some((w, ours, peers)) => {
                    out += &line.replace(w, if side == Side::Ours { ours } else { peers })
                }
                None => out += &line,
            }
            out.push('\n');
        }
        out
    }

    /// The tasks file of this scenario's host, with what somebody else does in front.
    pub fn playbook(&self, side: Side, site: &Site, folder: &Path) -> Result<String, String> {
        let mut out = String::from("---\n");
        for (i, (module, args)) in self.before.iter().enumerate() {
            let (host, port) = site.address("vcenter");
            let mut all = internal(module);
            for (k, v) in [
                ("hostname", json!(host)),
                ("port", json!(port)),
                ("username", json!(COLLEAGUE)),
                ("password", json!(COLLEAGUE_PASSWORD)),
                ("ca_path", json!(site.ca())),
            ] {
                all[k] = v;
            }
            for (k, v) in args.as_object().into_iter().flatten() {
                all[k] = v.clone();
            }
            let file = folder.join(format!("{}-before{i}.json", self.slug()));
            std::fs::write(&file, all.to_string())
                .map_err(|e| format!("{}: {e}", file.display()))?;
            out += &format!(
                "- name: Somebody else, {i}\n  ansible.builtin.command:\n    argv: [\"{{{{ trueplan_binary }}}}\", {}]\n  check_mode: false\n  changed_when: false\n",
                json!(file)
            );
        }
        out += &self.spell(side);
        Ok(out)
    }

    /// Arguments of a call by `deploy@pve`, who is another administrator of the small cluster.
    pub fn call(site: &Site, module: &str, args: &Value) -> Value {
        let (host, port) = site.address("pve");
        let mut all = internal(module);
        for (k, v) in [
            ("api_host", json!(host)),
            ("api_port", json!(port)),
            ("api_user", json!("deploy@pve")),
            ("api_password", json!(PASSWORD)),
            ("ca_path", json!(site.ca())),
        ] {
            all[k] = v;
        }
        for (k, v) in args.as_object().into_iter().flatten() {
            all[k] = v.clone();
        }
        all
    }

    /// Variables of this scenario's host.
    pub fn vars(&self, side: Side, site: &Site, tasks: &Path, binary: &Path) -> Value {
        let (pve_host, pve_port) = site.address("pve");
        let (vc_host, vc_port) = site.address("vcenter");
        let start = site.start();
        let (user, token, secret) = if self.login == "root" {
            token(start, "root@pam", "full")
        } else {
            token(start, "deploy@pve", "ci")
        };
        let account = |k: &str| start["vcenter"]["users"][0][k].clone();
        let (pve, vsphere) = match side {
            Side::Ours => (
                json!({"api_host": pve_host, "api_port": pve_port, "api_token_id": format!("{user}!{token}"), "api_token_secret": secret, "ca_path": site.ca()}),
                json!({"hostname": vc_host, "port": vc_port, "username": account("name"), "password": account("password"), "ca_path": site.ca()}),
            ),
            Side::Peers => (
                json!({"api_host": pve_host, "api_port": pve_port, "api_user": user, "api_token_id": token, "api_token_secret": secret, "ca_path": site.ca()}),
                json!({"hostname": vc_host, "port": vc_port, "username": account("name"), "password": account("password"), "validate_certs": false}),
            ),
        };
        json!({
            "ansible_connection": "local",
            "ansible_python_interpreter": "{{ ansible_playbook_python }}",
            "lab_control": format!("https://{pve_host}:{pve_port}/labsim"),
            "lab_export": site.export(),
            "truth_tasks": tasks,
            "trueplan_binary": binary,
            "pve": pve,
            "vsphere": vsphere,
        })
    }
}

/// What Ansible adds to a module's arguments.
fn internal(module: &str) -> Value {
    json!({"_ansible_module_name": format!("trueplan.virt.{module}"), "_ansible_check_mode": false, "_ansible_diff": false,
        "_ansible_no_log": false, "_ansible_verbosity": 0, "_ansible_version": "2.17.0"})
}

fn token(world: &Value, user: &str, token: &str) -> (String, String, String) {
    let secret = world["pve"]["tokens"][user]
        .as_array()
        .into_iter()
        .flatten()
        .find(|t| t["tokenid"] == token)
        .and_then(|t| t["secret"].as_str())
        .unwrap_or_default();
    (user.into(), token.into(), secret.into())
}

/// Two nodes, four storages, root's token, an administrator whose token has no privileges of its own, and these guests.
pub fn cluster(guests: Value, content: Value) -> Value {
    let mut files = json!({
        "local": [{"volid": "local:iso/test.iso", "size": 300 * 1024}, {"volid": "local:import/app.qcow2", "virtual_size": 3 << 20}],
        "nfs": [{"volid": "nfs:import/app.raw", "size": 2 << 20, "random": true}],
    });
    for (k, v) in content.as_object().into_iter().flatten() {
        let list = v.as_array().cloned().unwrap_or_default();
        match files[k].as_array_mut() {
            Some(l) => l.extend(list),
            None => files[k] = json!(list),
        }
    }
    json!({"seed": 1, "pve": {
        "nodes": [{"node": "pve1", "status": "online"}, {"node": "pve2", "status": "online"}],
        "network": [
            {"iface": "vmbr0", "type": "bridge", "active": 1, "bridge_vlan_aware": 1},
            {"iface": "vmbr1", "type": "bridge", "active": 1, "bridge_vlan_aware": 1},
            {"iface": "ens18", "type": "eth", "active": 1},
        ],
        "storage": [
            {"storage": "local", "type": "dir", "path": "/var/lib/vz", "content": "images,iso,import"},
            {"storage": "data", "type": "dir", "path": "/srv/data", "content": "images"},
            {"storage": "nfs", "type": "nfs", "export": true, "content": "images,import"},
            {"storage": "small", "type": "dir", "path": "/srv/small", "content": "images", "total": 64 << 20, "used": 63 << 20},
        ],
        "users": [
            {"userid": "root@pam", "password": PASSWORD},
            {"userid": "deploy@pve", "password": PASSWORD},
        ],
        "tokens": {
            "root@pam": [{"tokenid": "full", "privsep": 0, "secret": SECRET}],
            "deploy@pve": [{"tokenid": "ci", "privsep": 1, "secret": SECRET}],
        },
        "acl": [{"path": "/", "type": "user", "ugid": "deploy@pve", "roleid": "PVEAdmin", "propagate": 1}],
        "pools": [{"poolid": "testpool"}],
        "guests": guests,
        "content": files,
        "timing": {"task_ms": 20, "kinds": {"hotunplug": 300}},
    }})
}

/// The small cluster with `web` (100, stopped) and `db` (101, running, its system answers), a disk, a CD-ROM drive and a NIC each.
pub fn two_guests() -> Value {
    let mut guests = vec![];
    let mut files = vec![];
    for (vmid, name, status) in [(100, "web", "stopped"), (101, "db", "running")] {
        let disk = format!("local:{vmid}/vm-{vmid}-disk-0.qcow2");
        files.push(json!({"volid": disk, "virtual_size": 8 << 20}));
        guests.push(json!({"vmid": vmid, "node": "pve1", "status": status, "guest_os": true, "config": {
            "name": name, "memory": "1024", "cores": "2", "ostype": "l26", "scsihw": "virtio-scsi-single", "boot": "order=scsi0",
            "smbios1": format!("uuid=0c8ad2a8-5b3c-4b51-8a5a-0d7e1b7e0{vmid}"),
            "scsi0": format!("{disk},size=8M"),
            "ide2": "none,media=cdrom",
            "net0": format!("virtio=BC:24:11:00:01:{:02X},bridge=vmbr0,firewall=1", vmid - 100),
        }}));
    }
    cluster(json!(guests), json!({"local": files}))
}

/// The world with this change.
pub fn with(mut world: Value, change: impl FnOnce(&mut Value)) -> Value {
    change(&mut world);
    world
}

/// That guest of a world.
pub fn guest(world: &mut Value, vmid: u64) -> &mut Value {
    let all = world["pve"]["guests"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let at = all
        .iter()
        .position(|g| g["vmid"] == vmid)
        .unwrap_or(all.len());
    &mut world["pve"]["guests"][at]
}

/// The demo's vCenter with only these machines, and its Proxmox cluster with root's token.
pub fn estate(root: &Path, machines: &[&str]) -> Result<Value, String> {
    let path = root.join("tests/lab/demo-world.json");
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let mut w: Value =
        serde_json::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))?;
    if let Some(vms) = w["vcenter"]["vms"].as_array_mut() {
        vms.retain(|v| machines.iter().any(|m| v["name"] == *m));
    }
    if let Some(users) = w["vcenter"]["users"].as_array_mut() {
        users.push(json!({"name": COLLEAGUE, "password": COLLEAGUE_PASSWORD}));
    }
    w["vcenter"]["relocate_min_ms"] = json!(100);
    w["vcenter"]["power_ms"] = json!(40);
    w["pve"]["tokens"]["root@pam"] = json!([{"tokenid": "full", "privsep": 0, "secret": SECRET}]);
    Ok(w)
}
