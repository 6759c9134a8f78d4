//! Whole playbooks: several tasks over a few guests of one world.

use super::{Gen, disk, nic, sdn, shell, vsphere, worlds};
use serde_json::{Map, Value, json};

/// One task.
#[derive(Clone, Debug)]
pub struct Task {
    pub module: &'static str,
    pub args: Map<String, Value>,
    /// Whether it changes nothing when it is run once more at once.
    pub repeatable: bool,
}

/// A world and what is asked of it, one after the other.
#[derive(Clone, Debug)]
pub struct Playbook {
    pub world: Value,
    pub login: &'static str,
    pub tasks: Vec<Task>,
}

/// From 2 to 8 tasks.
pub fn playbook(g: &mut Gen) -> Playbook {
    let many = 2 + g.below(7);
    if g.chance(20) {
        return migration(g, many);
    }
    let mut world = worlds::cluster(g);
    // Whether a guest lets go of a device is its own affair: systems run where only power is switched.
    let power_only = g.chance(20);
    for guest in world["pve"]["guests"].as_array_mut().into_iter().flatten() {
        guest["guest_os"] = json!(power_only);
    }
    // One to four: those of the world, and one that is made.
    let mut guests = vec![100, 101, 102, 300];
    for _ in 0..g.below(4) {
        guests.remove(g.below(guests.len()));
    }
    let mut tasks: Vec<Task> = vec![];
    if guests.contains(&300) && !power_only {
        let args = json!({"vmid": 300, "name": "made", "node": g.pick(&["pve1", "pve2"]), "memory": 512, "scsihw": "virtio-scsi-single"});
        tasks.push(Task {
            module: "pve_vm_shell",
            args: args.as_object().cloned().expect("an object"),
            repeatable: true,
        });
    }
    while tasks.len() < many {
        let case = match g.below(100) {
            _ if power_only => shell::case(g),
            0..=39 => shell::case(g),
            40..=59 => nic::case(g),
            60..=84 => disk::case(g),
            85..=91 => sdn::zone(g),
            _ => sdn::vnet(g),
        };
        let mut args = case.args;
        if power_only && !args.contains_key("state") {
            continue;
        }
        if args.contains_key("vmid") && g.chance(90) {
            let id = guests[g.below(guests.len())];
            args.insert("vmid".into(), g.int(id));
            // What is done to a disk is mostly done to one that is there.
            let old = u32::try_from(id)
                .ok()
                .and_then(|v| disk::some_disk(g, &world, v));
            if let Some(d) = old
                && case.module == "pve_disk_import"
                && args.get("state").is_some_and(|s| s != "present")
            {
                args.insert("disk".into(), json!(d));
            }
        }
        // Nobody answers: without force a shutdown ends in a timeout, which no check run sees.
        let asks = ["stopped", "restarted", "hibernated"];
        if !power_only && asks.iter().any(|s| args.get("state") == Some(&json!(s))) {
            args.insert("force".into(), json!(true));
        }
        tasks.push(Task {
            module: case.module,
            args,
            repeatable: case.repeatable,
        });
    }
    Playbook {
        login: worlds::login(g),
        world,
        tasks,
    }
}

/// Tasks on the VMware side.
fn migration(g: &mut Gen, many: usize) -> Playbook {
    let world = vsphere::relocate(g).world;
    let tasks = (0..many)
        .map(|_| {
            let case = match g.below(3) {
                0 => vsphere::relocate(g),
                1 => vsphere::power(g),
                _ => vsphere::note(g),
            };
            Task {
                module: case.module,
                args: case.args,
                repeatable: case.repeatable,
            }
        })
        .collect();
    Playbook {
        world,
        login: "root",
        tasks,
    }
}

/// The same with one thing less, for everything that can be left out.
pub fn smaller(p: &Playbook) -> Vec<Playbook> {
    let mut out = vec![];
    let mut without = |f: &dyn Fn(&mut Playbook)| {
        let mut s = p.clone();
        f(&mut s);
        out.push(s);
    };
    for i in (0..p.tasks.len()).rev() {
        without(&|s| drop(s.tasks.remove(i)));
    }
    if p.login != "root" {
        without(&|s| s.login = "root");
    }
    let guests = p.world["pve"]["guests"].as_array().map_or(0, Vec::len);
    for i in 0..guests {
        without(&|s| drop(s.world["pve"]["guests"].as_array_mut().map(|l| l.remove(i))));
    }
    for (i, t) in p.tasks.iter().enumerate() {
        // Without its `timeout` a task waits ten minutes for what a smaller playbook need not show.
        for k in t.args.keys().filter(|k| *k != "timeout") {
            without(&|s| drop(s.tasks[i].args.remove(k)));
        }
    }
    out
}
