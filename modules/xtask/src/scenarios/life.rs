//! A guest's life on the Proxmox side: create.yml, start.yml, remove.yml, and the users' own playbooks with nothing but the modules'
//! names replaced.

use super::{Scenario, failed};
use crate::demo::{self, Run};
use crate::truth;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

/// The estate of tests/lab/life and tests/lab/peers: an owner, an ISO, a hook script, and one guest that is there already.
fn estate(s: &mut Scenario<'_>) -> Result<(), String> {
    let mut w = s.lab.world.clone();
    let pve = &mut w["pve"];
    let users = pve["users"].as_array_mut().ok_or("no users")?;
    users.push(json!({"userid": "anna@pve", "enable": 1}));
    pve["content"] = json!({"local": [
        {"volid": "local:iso/debian.iso", "size": 358_400},
        {"volid": "local:snippets/hook.pl", "size": 31},
    ]});
    pve["guests"] = json!([{"vmid": 5004, "node": "pve1", "config": {"name": "there01", "memory": "512", "agent": "0",
        "net0": "virtio=BC:24:11:50:04:00,bridge=vmbr0", "smbios1": "uuid=0c8ad2a8-5b3c-4b51-8a5a-0d7e1b7e5004"}}]);
    s.lab.reset(&w)?;
    // The server takes only a script that can be run.
    let hook = s.lab.state.join("storage/local/snippets/hook.pl");
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755))
        .map_err(|e| format!("{}: {e}", hook.display()))
}

impl Scenario<'_> {
    fn ansible(&mut self, book: &str, args: &[&str]) -> Result<(String, Command), String> {
        self.runs += 1;
        let name = format!("run{}", self.runs);
        let log = self.lab.state.join(format!("{name}.jsonl"));
        let mut c = self
            .stage
            .command(self.root, &self.lab, "ansible-playbook", &log, "trueplan");
        let tokens = self.lab.world["pve"]["tokens"]["migrate@pve"].as_array();
        let secret = tokens
            .into_iter()
            .flatten()
            .find(|t| t["tokenid"] == "trueplan")
            .and_then(|t| t["secret"].as_str())
            .unwrap_or_default();
        let root = self.lab.world["pve"]["users"].as_array();
        let password = root
            .into_iter()
            .flatten()
            .find(|u| u["userid"] == "root@pam")
            .and_then(|u| u["password"].as_str())
            .unwrap_or_default();
        c.env("PROXMOX_TOKEN_SECRET", secret)
            .env("TRUEPLAN_LAB_ROOT_PASSWORD", password)
            .env("ANSIBLE_INVENTORY", self.root.join("tests/lab/life"))
            .env("ANSIBLE_SHOW_CUSTOM_STATS", "true")
            .arg("--diff")
            .arg(book)
            .args(args);
        Ok((name, c))
    }

    /// Ours, and those that stand for NetBox and a name server.
    fn collections(&self) -> String {
        let stand_ins = self.root.join("tests/lab/peers/collections");
        format!(
            "{}:{}",
            self.stage.collections.display(),
            stand_ins.display()
        )
    }

    fn book(&mut self, book: &str, args: &[&str]) -> Result<Run, String> {
        let (name, c) = self.ansible(book, args)?;
        demo::finish(&self.lab, &name, c)
    }

    /// Check, real, again: equal, no writes in the first, nothing changed in the last.
    fn thrice(&mut self, book: &str, args: &[&str]) -> Result<(Run, Run), String> {
        let check = self.book(book, &[args, &["--check"]].concat())?;
        let real = self.book(book, args)?;
        let again = self.book(book, args)?;
        let t = truth::compare(&check.lines, &real.lines);
        println!(
            "{book}: truth {} of {}, {} writes in check mode, {} in earnest, {} again",
            t.equal, t.all, check.writes, real.writes, again.writes
        );
        self.agree(book, &check, &real)?;
        self.at_rest(book, &again)?;
        let (foreseen, came) = (outcome(&check), outcome(&real));
        self.equal(&format!("set_stats of {book}, foreseen"), &foreseen, &came)?;
        self.equal(
            &format!("set_stats of {book}, again"),
            &outcome(&again),
            &came,
        )?;
        Ok((real, again))
    }

    /// What set_stats says: these hosts under that name, and none under another.
    fn came(&mut self, run: &Run, of: &str, hosts: &[&str]) -> Result<(), String> {
        self.equal("set_stats", &outcome(run), &json!({ of: hosts }))
    }

    fn named(&self, name: &str) -> Result<Value, String> {
        let w = self.lab.dump()?;
        let all = w["pve"]["guests"].as_array().cloned().unwrap_or_default();
        let found = all.into_iter().find(|g| g["config"]["name"] == name);
        Ok(found.unwrap_or_default())
    }

    /// Roles of a user on a guest, and the pool's guests.
    fn belongs(&self, vmid: u64, user: &str) -> Result<(Vec<String>, bool), String> {
        let w = self.lab.dump()?;
        let access = &w["pve"]["access"];
        let roles = access["acl"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|e| e["path"] == format!("/vms/{vmid}") && e["ugid"] == user)
            .filter_map(|e| e["roleid"].as_str().map(str::to_owned))
            .collect();
        let pools = access["pools"].as_array();
        let in_pool = pools.into_iter().flatten().any(|p| {
            p["poolid"] == "production"
                && p["vms"]
                    .as_array()
                    .is_some_and(|v| v.contains(&json!(vmid)))
        });
        Ok((roles, in_pool))
    }
}

/// The custom stats of a run, their lists in order.
fn outcome(run: &Run) -> Value {
    let line = run
        .recap
        .split("RUN: ")
        .nth(1)
        .and_then(|r| r.lines().next());
    let mut v: Value = serde_json::from_str(line.unwrap_or_default()).unwrap_or_default();
    for list in v.as_object_mut().into_iter().flat_map(|o| o.values_mut()) {
        if let Value::Array(a) = list {
            a.sort_by_key(Value::to_string);
        }
    }
    v
}

fn text(v: &Value) -> String {
    v.as_str().map_or_else(|| v.to_string(), str::to_owned)
}

/// Our own three playbooks.
pub(super) fn own(s: &mut Scenario<'_>) -> Result<(), String> {
    estate(s)?;
    let run = s.book(
        "trueplan.virt.create",
        &["--check", "-e", "create_hosts=wrong:elsewhere"],
    )?;
    let said = failed(&run);
    for (what, why) in [
        ("no such user", "an owner whom nobody knows is not refused"),
        ("nothing.iso", "an ISO that is not there is not refused"),
        ("vmbr7", "a bridge that is not there is not refused"),
        (
            "give create_root_password",
            "args without the root login are not refused",
        ),
    ] {
        s.claim(
            said.iter().any(|m| m.contains(what)),
            &format!("{why}: {said:?}"),
        )?;
    }
    s.came(
        &run,
        "refused",
        &["ghost01", "nobridge01", "noiso01", "rooted01"],
    )?;
    let untouched = !run.lines.iter().any(|l| l.host == "active01" && l.ours());
    s.claim(untouched, "a host that is not planned is looked at")?;

    let (made, again) = s.thrice("trueplan.virt.create", &[])?;
    s.claim(
        failed(&made).is_empty(),
        &format!("create fails: {:?}", failed(&made)),
    )?;
    s.came(&made, "done", &["app01", "app02", "there01", "win01"])?;
    let app01 = s.guest(5001)?;
    let c = &app01["config"];
    for (key, part) in [
        ("scsi0", "cache=writeback"),
        ("scsi0", "size=1G"),
        ("sata0", "local:iso/debian.iso"),
        ("efidisk0", "pre-enrolled-keys=1"),
        ("usb0", "spice"),
        ("audio0", "driver=spice"),
        ("rng0", "/dev/urandom"),
        ("smbios1", "serial="),
        ("tags", "blue"),
        ("balloon", "1024"),
    ] {
        s.claim(
            text(&c[key]).contains(part),
            &format!("{key} of app01 is {}", c[key]),
        )?;
    }
    s.claim(
        s.belongs(5001, "anna@pve")? == (vec!["PVEVMUser".to_owned()], true),
        "app01 is not its owner's, or not in its pool",
    )?;
    let app02 = s.named("app02")?;
    let id = app02["vmid"].as_u64().unwrap_or_default();
    s.claim(id == 100, &format!("app02 has got id {id}"))?;
    s.claim(
        text(&app02["config"]["scsi0"]).contains("size=2G")
            && s.belongs(id, "anna@pve")?.0.len() == 1,
        &format!("app02 is {}", app02["config"]),
    )?;
    let win = s.guest(5003)?["config"].clone();
    s.claim(
        text(&win["args"]).contains("block_size=4k")
            && text(&win["hookscript"]).contains("hook.pl")
            && text(&win["spice_enhancements"]).contains("all"),
        &format!("what only root@pam may set is not there: {win}"),
    )?;
    s.claim(
        s.guest(5004)?["config"]["memory"] == "512"
            && s.belongs(5004, "anna@pve")? == (vec!["PVEVMUser".to_owned()], true),
        "the guest that was there already was changed, or has not got its owner and pool",
    )?;
    let drift = again
        .lines
        .iter()
        .any(|l| l.host == "there01" && l.result["drift"].to_string().contains("memory"));
    s.claim(drift, "that a guest is otherwise than planned is not said")?;
    let macs: Vec<&str> = [&made, &again]
        .iter()
        .flat_map(|r| &r.lines)
        .filter(|l| l.host == "app01" && l.result["ansible_facts"]["create_made_mac"].is_string())
        .filter_map(|l| l.result["ansible_facts"]["create_made_mac"].as_str())
        .collect();
    s.claim(
        macs.len() == 2 && macs[0] == macs[1] && text(&c["net0"]).contains(macs[0]),
        &format!("the MAC addresses are {macs:?}"),
    )?;

    records(s)?;

    // A system that answers in two of them; win01 has no agent and there01 has it switched off: nobody waits for these.
    for vmid in [5001, id] {
        s.lab.set(&json!({"pve": {"guest": vmid, "guest_os": true, "addresses": {"net0": ["192.0.2.7/24"]}}}))?;
    }
    let start = [
        "-e",
        "start_hosts=status_planned",
        "-e",
        "start_agent_wait=30",
        "-e",
        "start_batch=2",
    ];
    let (run, _) = s.thrice("trueplan.virt.start", &start)?;
    s.claim(
        failed(&run).is_empty(),
        &format!("start fails: {:?}", failed(&run)),
    )?;
    // Of both batches.
    s.came(&run, "done", &["app01", "app02", "there01", "win01"])?;
    let asked: Vec<&str> = run
        .lines
        .iter()
        .filter(|l| l.action.ends_with("pve_vm_info") && l.status != "skipped")
        .map(|l| l.host.as_str())
        .collect();
    s.claim(
        asked.len() == 2 && !asked.contains(&"win01"),
        &format!("the agents asked are {asked:?}"),
    )?;
    for vmid in [5001, id, 5003, 5004] {
        s.claim(
            s.guest(vmid)?["status"] == "running",
            &format!("{vmid} does not run"),
        )?;
    }
    // An agent that never answers is said, and is a failure only where that is asked for.
    s.lab
        .set(&json!({"pve": {"guest": 5001, "guest_os": false}}))?;
    for (required, fails) in [("false", false), ("true", true)] {
        let one = [
            "--limit",
            "app01",
            "-e",
            "start_hosts=status_planned",
            "-e",
            "start_agent_wait=5",
            "-e",
            &format!("start_agent_required={required}"),
        ];
        let run = s.book("trueplan.virt.start", &one)?;
        let out = run.recap.contains("failed=1");
        s.claim(
            out == fails,
            &format!("start_agent_required={required}: {}", run.recap),
        )?;
        s.came(&run, if fails { "failed" } else { "done" }, &["app01"])?;
    }
    s.lab
        .set(&json!({"pve": {"guest": 5001, "guest_os": true}}))?;

    remove(s, id)
}

fn remove(s: &mut Scenario<'_>, app02: u64) -> Result<(), String> {
    s.lab
        .set(&json!({"pve": {"guest": 5004, "config": {"protection": "1"}}}))?;
    s.lab
        .set(&json!({"pve": {"guest": app02, "guest_os": false}}))?;
    let known = s.lab.state.join("known_hosts");
    let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ1Qb0Zf0c2k1m3n4o5p6q7r8s9t0u1v2w3x4y5z6A7B";
    let lines = format!("app01 {key}\nother {key}\n");
    std::fs::write(&known, lines).map_err(|e| e.to_string())?;
    let keys = format!("remove_known_hosts_file={}", known.display());
    let args = [
        "-e",
        "remove_hosts=status_planned:!there01",
        "-e",
        "remove_stop_window=1",
        "-e",
        "remove_known_hosts=true",
        "-e",
        &keys,
    ];
    let (run, again) = s.thrice("trueplan.virt.remove", &args)?;
    s.claim(
        failed(&run).is_empty() && failed(&again).is_empty(),
        &format!("remove fails: {:?} {:?}", failed(&run), failed(&again)),
    )?;
    s.came(&run, "done", &["app01", "app02", "win01"])?;
    for vmid in [5001, app02, 5003] {
        s.claim(s.guest(vmid)?.is_null(), &format!("{vmid} is still there"))?;
        s.claim(
            s.belongs(vmid, "anna@pve")? == (vec![], false),
            &format!("{vmid} left entries behind"),
        )?;
    }
    let left = std::fs::read_to_string(&known).map_err(|e| e.to_string())?;
    s.claim(
        left.starts_with("other "),
        &format!("known_hosts is {left}"),
    )?;

    // What is protected is refused before it is stopped, in check mode as in earnest.
    let there = ["-e", "remove_hosts=there01", "-e", "remove_stop_window=1"];
    for check in [true, false] {
        let args = if check {
            [&there[..], &["--check"]].concat()
        } else {
            there.to_vec()
        };
        let run = s.book("trueplan.virt.remove", &args)?;
        let said = failed(&run);
        s.claim(
            said.iter().any(|m| m.contains("protection")),
            &format!("a protected guest is not refused: {said:?}"),
        )?;
        s.came(&run, "refused", &["there01"])?;
    }
    s.claim(
        s.guest(5004)?["status"] == "running",
        "a protected guest was stopped",
    )?;
    // Another guest of that id, and one whose identity is another.
    let args = [
        &there[..],
        &["-e", "remove_vmid=5004", "-e", "remove_name=stranger"],
    ]
    .concat();
    let run = s.book("trueplan.virt.remove", &args)?;
    let said = failed(&run);
    s.claim(
        said.iter().any(|m| m.contains("it is another guest")),
        &format!("a stranger is removed: {said:?}"),
    )?;
    s.came(&run, "refused", &["there01"])?;
    let args = [
        &there[..],
        &["-e", "remove_uuid=00000000-5b3c-4b51-8a5a-0d7e1b7e5004"],
    ]
    .concat();
    let said = failed(&s.book("trueplan.virt.remove", &args)?);
    s.claim(
        said.iter().any(|m| m.contains("guard_uuid")),
        &format!("another identity is removed: {said:?}"),
    )?;
    // A clean-up that fails does not hide: the others run, the guest is gone, and the host counts as failed. Here the name server's
    // book is missing.
    s.lab
        .set(&json!({"pve": {"guest": 5004, "config": {"protection": null}}}))?;
    std::fs::write(&known, format!("there01 {key}\n")).map_err(|e| e.to_string())?;
    let (name, mut c) = s.ansible(
        "trueplan.virt.remove",
        &[
            &there[..],
            &["-e", "remove_known_hosts=true", "-e", &keys],
            &DNS_REMOVED,
        ]
        .concat(),
    )?;
    c.env("ANSIBLE_COLLECTIONS_PATH", s.collections())
        .env("TRUEPLAN_LAB_NETBOX", s.lab.state.join("nothing.json"));
    let run = demo::finish(&s.lab, &name, c)?;
    let said = failed(&run);
    s.claim(
        said.iter().any(|m| {
            m.contains("there01 is removed, but not all of its records: dns (Remove its name)")
        }) && run.recap.contains("failed=1"),
        &format!("a clean-up that failed is hidden: {said:?} {}", run.recap),
    )?;
    s.came(&run, "failed", &["there01"])?;
    let left = std::fs::read_to_string(&known).map_err(|e| e.to_string())?;
    s.claim(
        s.guest(5004)?.is_null() && left.is_empty(),
        &format!("after a clean-up that failed, known_hosts is {left}"),
    )
}

const DNS_REMOVED: [&str; 6] = [
    "-e",
    "remove_dns=true",
    "-e",
    "remove_dns_server=192.0.2.53",
    "-e",
    "remove_dns_zone=lab.example",
];

/// Records elsewhere are handed over only where that is switched on, to collections that are looked for beforehand.
fn records(s: &mut Scenario<'_>) -> Result<(), String> {
    let on = [
        "--limit",
        "app01",
        "-e",
        "create_netbox=true",
        "-e",
        "create_netbox_url=https://netbox.example",
        "-e",
        "create_netbox_token=secret-of-netbox",
        "-e",
        "create_netbox_prefix=192.0.2.0/24",
        "-e",
        "create_dns=true",
        "-e",
        "create_dns_server=192.0.2.53",
        "-e",
        "create_dns_zone=lab.example",
    ];
    let said = failed(&s.book("trueplan.virt.create", &on)?);
    s.claim(
        said.iter().any(|m| {
            m.contains("needs the collection netbox.netbox")
                && m.contains("needs the collection community.general")
        }),
        &format!("collections that are missing are not said: {said:?}"),
    )?;
    let netbox = s.lab.state.join("records.json");
    let empty = json!({"hosts": {}, "interfaces": {}, "addresses": {}, "dns": {}});
    std::fs::write(&netbox, empty.to_string()).map_err(|e| e.to_string())?;
    let run = |s: &mut Scenario<'_>, more: &[&str]| -> Result<Run, String> {
        let (name, mut c) = s.ansible("trueplan.virt.create", &[&on[..], more].concat())?;
        c.env("ANSIBLE_COLLECTIONS_PATH", s.collections())
            .env("TRUEPLAN_LAB_NETBOX", &netbox);
        demo::finish(&s.lab, &name, c)
    };
    let check = run(s, &["--check", "-e", "create_address=192.0.2.99"])?;
    let read = || -> Result<Value, String> {
        let text = std::fs::read_to_string(&netbox).map_err(|e| e.to_string())?;
        serde_json::from_str(&text).map_err(|e| e.to_string())
    };
    s.claim(
        failed(&check).is_empty() && check.writes == 0 && read()? == empty,
        &format!("records in check mode: {:?} {}", failed(&check), read()?),
    )?;
    let real = run(s, &[])?;
    let book = read()?;
    let mac = text(&book["interfaces"]["app01"]);
    s.claim(
        failed(&real).is_empty()
            && book["hosts"]["app01"]["status"] == "staged"
            && book["dns"]["app01"] == "192.0.2.10"
            && text(&s.guest(5001)?["config"]["net0"]).contains(&mac)
            && mac.len() == 17,
        &format!("the records are {book}: {:?}", failed(&real)),
    )?;
    let again = run(s, &[])?;
    s.claim(
        read()? == book && again.lines.iter().all(|l| l.status != "changed"),
        &format!("a second run changes the records: {}", read()?),
    )
}

/// The users' playbooks: their text with the names replaced, run against a NetBox of one file.
pub(super) fn swapped(s: &mut Scenario<'_>) -> Result<(), String> {
    estate(s)?;
    let peers = s.root.join("tests/lab/peers");
    let iso = s.lab.state.join("iso");
    std::fs::create_dir_all(&iso).map_err(|e| e.to_string())?;
    std::fs::write(iso.join("debian.iso"), "an ISO").map_err(|e| e.to_string())?;
    let netbox = s.lab.state.join("netbox.json");
    let facts = |platform: &str| {
        json!({"status": "planned", "vcpus": "2", "memory": "1024", "disk": "1024", "pool": "data", "processor_type": "x86-64-v2-AES",
            "secureboot": "True", "spice_usb": true, "spice_audio": true, "iso": "local:iso/debian.iso", "platform": platform,
            "custom_fields": {"owner": "anna", "defaultvlan": "10"}})
    };
    let book = json!({
        "hosts": {"web01": facts("linux"), "win02": facts("windows"), "there01": facts("linux")},
        "interfaces": {}, "addresses": {}, "dns": {},
        "vars": {
            "proxmox_api_ip": s.lab.pve, "proxmox_api_host": "pve1", "proxmox_user": "root@pam", "proxmox_realm": "pve",
            "proxmox_password": "{{ lookup('ansible.builtin.env', 'TRUEPLAN_LAB_ROOT_PASSWORD') }}",
            "bridge_of_vlan": {"10": "vmbr0"}, "iso_folder": iso, "registration_pause": 1, "boot_pause": 1,
            "known_hosts_file": s.lab.state.join("known_hosts"),
        },
    });
    std::fs::write(&netbox, book.to_string()).map_err(|e| e.to_string())?;
    let read = |key: &str| -> Result<Value, String> {
        let text = std::fs::read_to_string(&netbox).map_err(|e| e.to_string())?;
        let v: Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
        Ok(v[key].clone())
    };
    let create = renamed(&peers.join("create-vms.yml"), s)?;
    let remove = renamed(&peers.join("remove-vms.yml"), s)?;
    let run = |s: &mut Scenario<'_>, book: &PathBuf, more: &[&str]| -> Result<Run, String> {
        let (name, mut c) = s.ansible(&book.display().to_string(), more)?;
        let collections = format!(
            "{}:{}",
            s.stage.collections.display(),
            peers.join("collections").display()
        );
        c.env("ANSIBLE_COLLECTIONS_PATH", collections)
            .env("ANSIBLE_INVENTORY", peers.join("netbox_inventory.py"))
            .env("TRUEPLAN_LAB_NETBOX", &netbox)
            .env_remove("PROXMOX_TOKEN_ID")
            .env_remove("PROXMOX_TOKEN_SECRET")
            .env_remove("PROXMOX_PORT");
        demo::finish(&s.lab, &name, c)
    };
    // Their gate is a failure that is meant.
    let wrong = |r: &Run| -> Vec<String> {
        r.lines
            .iter()
            .filter(|l| l.status == "failed" && !l.key.contains("Check if VM is present"))
            .map(|l| format!("{}: {}", l.key, l.result["msg"]))
            .collect()
    };
    let check = run(s, &create, &["--check"])?;
    s.claim(
        wrong(&check).is_empty() && check.writes == 0,
        &format!(
            "their create in check mode: {} writes, {:?}",
            check.writes,
            wrong(&check)
        ),
    )?;
    let real = run(s, &create, &[])?;
    s.claim(
        wrong(&real).is_empty(),
        &format!("their create: {:?}", wrong(&real)),
    )?;
    // What check mode cannot know is the second play: nobody is staged before the record says so.
    let first = |r: &Run| -> Vec<truth::Line> {
        let of = |l: &&truth::Line| l.key.starts_with("Create Proxmox");
        r.lines.iter().filter(of).cloned().collect()
    };
    let t = truth::compare(&first(&check), &first(&real));
    println!(
        "their create-vms.yml with our names: truth {} of {}, {} writes in check mode",
        t.equal, t.all, check.writes
    );
    s.claim(
        t.all > 20 && t.equal == t.all,
        &format!(
            "truth of their create: {} of {} {:?}",
            t.equal, t.all, t.lies
        ),
    )?;
    for name in ["web01", "win02"] {
        let g = s.named(name)?;
        let c = &g["config"];
        for (key, part) in [
            ("scsi0", "cache=writeback"),
            ("efidisk0", "pre-enrolled-keys=1"),
            ("sata0", "debian.iso"),
            ("usb0", "spice"),
            ("audio0", "spice"),
            ("rng0", "urandom"),
            ("spice_enhancements", "videostreaming"),
            ("hookscript", "hook.pl"),
            ("args", "block_size=4"),
            ("numa", "1"),
        ] {
            s.claim(
                text(&c[key]).contains(part),
                &format!("{key} of {name} is {}", c[key]),
            )?;
        }
        let mac = text(&read("interfaces")?[name]);
        s.claim(
            text(&c["net0"]).contains(&mac) && mac.len() == 17,
            &format!("the record of {name} has the MAC address {mac}"),
        )?;
        s.claim(g["status"] == "running", &format!("{name} does not run"))?;
        let vmid = g["vmid"].as_u64().unwrap_or_default();
        s.claim(
            s.belongs(vmid, "anna@pve")?.0 == ["PVEVMUser"],
            &format!("{name} is not its owner's"),
        )?;
        s.claim(
            read("hosts")?[name]["status"] == "staged",
            &format!("{name} is not staged"),
        )?;
    }
    s.claim(
        s.guest(5004)?["config"]["memory"] == "512"
            && text(&read("interfaces")?["there01"]) == "BC:24:11:50:04:00",
        "the guest that was there already was changed, or its MAC address not read",
    )?;
    let again = run(s, &create, &[])?;
    s.claim(
        again.writes == 0 && wrong(&again).is_empty(),
        &format!(
            "their create again: {} writes, {:?}",
            again.writes,
            wrong(&again)
        ),
    )?;

    let mut book = json!({"hosts": read("hosts")?, "interfaces": read("interfaces")?, "addresses": read("addresses")?, "dns": read("dns")?, "vars": read("vars")?});
    for name in ["web01", "win02"] {
        book["hosts"][name]["status"] = json!("decommissioning");
    }
    std::fs::write(&netbox, book.to_string()).map_err(|e| e.to_string())?;
    let check = run(s, &remove, &["--check"])?;
    s.claim(
        failed(&check).is_empty() && check.writes == 0,
        &format!(
            "their remove in check mode: {} writes, {:?}",
            check.writes,
            failed(&check)
        ),
    )?;
    let real = run(s, &remove, &[])?;
    let t = truth::compare(&check.lines, &real.lines);
    println!(
        "their remove-vms.yml with our names: truth {} of {}, {} writes in check mode",
        t.equal, t.all, check.writes
    );
    s.claim(
        t.all == 4 && t.equal == t.all && failed(&real).is_empty(),
        &format!(
            "truth of their remove: {} of {} {:?} {:?}",
            t.equal,
            t.all,
            t.lies,
            failed(&real)
        ),
    )?;
    for name in ["web01", "win02"] {
        s.claim(
            s.named(name)?.is_null()
                && read("hosts")?[name].is_null()
                && read("addresses")?[name].is_null()
                && read("dns")?[name].is_null(),
            &format!("{name} or a record of it is still there"),
        )?;
    }
    Ok(())
}

/// The playbook with each module's name replaced by that of ours which says that it replaces it.
fn renamed(book: &std::path::Path, s: &mut Scenario<'_>) -> Result<PathBuf, String> {
    let mut text = std::fs::read_to_string(book).map_err(|e| format!("{}: {e}", book.display()))?;
    for d in planners::registry() {
        if let Some(peer) = d.spec.replaces {
            text = text.replace(peer, &format!("trueplan.virt.{}", d.spec.name));
        }
    }
    s.claim(
        !text.contains("community.proxmox."),
        "a module of theirs has no counterpart",
    )?;
    let out = s.lab.state.join(book.file_name().unwrap_or_default());
    std::fs::write(&out, text).map_err(|e| e.to_string())?;
    Ok(out)
}
