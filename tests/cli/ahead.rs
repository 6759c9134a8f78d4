//! Many guests are read by several connections at once: nobody may see it but by the time it takes.

use crate::support::{Done, Lab, worlds};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// On pve1; those on pve2 are so few that they are read one after the other.
const MANY: u32 = 54;
const FEW: u32 = 6;

fn name(vmid: u32) -> String {
    format!("g{vmid}")
}

fn world() -> Value {
    let guest = |i: u32| {
        let mut g = worlds::guest(200 + i, &name(200 + i));
        g["config"]["memory"] = json!((512 + i).to_string());
        if i >= MANY {
            g["node"] = json!("pve2");
        }
        g
    };
    let mut guests: Vec<Value> = (0..MANY + FEW).map(guest).collect();
    guests.push(
        json!({"vmid": 190, "type": "lxc", "node": "pve1", "config": {"hostname": "container"}}),
    );
    worlds::small_with(json!({"guests": guests}))
}

fn info(lab: &Lab, more: Value) -> Done {
    let mut args = json!({"config": "current", "type": "qemu"});
    for (k, v) in more.as_object().expect("an object") {
        args[k] = v.clone();
    }
    lab.call("pve_vm_info", args).run()
}

/// How often each configuration was asked for, in the order in which the answers were given.
fn asked(d: &Done) -> Vec<(String, u64)> {
    let of = |e: &Value| {
        let path = e["path"].as_str()?.strip_suffix("/pending")?;
        Some((
            path.rsplit('/').next()?.to_owned(),
            e["status"].as_u64().unwrap_or(0),
        ))
    };
    d.requests.iter().filter_map(of).collect()
}

fn times(d: &Done) -> BTreeMap<String, usize> {
    let mut n = BTreeMap::new();
    for (vmid, _) in asked(d) {
        *n.entry(vmid).or_default() += 1;
    }
    n
}

fn guests(d: &Done) -> Vec<Value> {
    d["proxmox_vms"].as_array().cloned().unwrap_or_default()
}

#[track_caller]
fn all_are_there(d: &Done) {
    let vms = guests(d);
    assert_eq!(vms.len(), (MANY + FEW) as usize);
    for (i, vm) in vms.iter().enumerate() {
        let i = u32::try_from(i).expect("a few");
        assert_eq!(vm["vmid"], 200 + i);
        let config = &vm["config"];
        assert_eq!(config["name"], json!(name(200 + i)), "{vm}");
        assert_eq!(
            config["memory"].to_string().trim_matches('"'),
            (512 + i).to_string(),
            "{vm}"
        );
        assert!(config["digest"].is_string(), "{vm}");
    }
}

#[test]
fn many_configurations_are_read_once_each_and_several_at_once() {
    let lab = Lab::start(world());
    let one = info(&lab, json!({})).ok();
    all_are_there(&one);
    assert!(one.warnings().is_empty(), "{:?}", one.warnings());
    // One after the other, the first would be answered before the second is asked for.
    lab.fault(json!({"side": "pve", "path": "/qemu/200/pending$", "do": {"delay_ms": 1500}}));
    let slow = info(&lab, json!({})).ok();
    assert_eq!(slow.value, one.value);
    let order = asked(&slow);
    assert_ne!(order[0].0, "200", "no two were asked for at once");
    for d in [&one, &slow] {
        let n = times(d);
        assert_eq!(n.len(), (MANY + FEW) as usize);
        assert!(n.values().all(|n| *n == 1), "{n:?}");
        // The list, the nodes, their own lists.
        assert_eq!(d.of_kind("read").len(), n.len() + 4);
    }
    // A check run reads the same: what was planned before decides, and what was not is fetched ahead.
    let check = lab
        .call("pve_vm_info", json!({"config": "current", "type": "qemu"}))
        .check(true)
        .run()
        .ok();
    assert_eq!(check.value["proxmox_vms"], one.value["proxmox_vms"]);
    assert!(times(&check).values().all(|n| *n == 1));
}

/// Each fault strikes a guest of the few and one of the many: both are told of in the same words.
#[test]
fn what_fails_among_many_is_told_as_among_few() {
    let lab = Lab::start(world());
    let whole = info(&lab, json!({})).ok();
    let refused = json!({"status": 403, "reason": "Permission check failed (/vms/X, VM.Audit)"});
    let broken = json!({"status": 500, "reason": "got timeout"});
    for (act, every, tries) in [
        (json!("drop"), false, 2),
        (json!("drop"), true, 0),
        (json!({"status": 596, "reason": "Broken pipe"}), false, 2),
        (refused, true, 1),
        (broken, true, 1),
        (
            json!({"status": 401, "reason": "authentication failure"}),
            true,
            0,
        ),
    ] {
        let mut told = vec![];
        for (vmid, node) in [(258, json!({"node": "pve2"})), (230, json!({}))] {
            lab.no_faults();
            let mut rule =
                json!({"side": "pve", "path": format!("/qemu/{vmid}/pending$"), "do": act});
            if !every {
                rule["nth"] = json!(1);
            }
            lab.fault(rule);
            let d = info(&lab, node.clone());
            let n = times(&d)[&vmid.to_string()];
            assert!(
                tries == 0 || n == tries,
                "{act}: {vmid} was asked for {n} times"
            );
            let masked = |t: &str| t.replace(&vmid.to_string(), "N");
            // What is shown of this guest, and of all others that were asked for.
            let shown = |d: &Done, this: bool| {
                let asked: Vec<Value> = guests(d)
                    .into_iter()
                    .filter(|v| (v["vmid"] == vmid) == this)
                    .filter(|v| node["node"].is_null() || v["node"] == node["node"])
                    .collect();
                asked
            };
            let failed = d.is_failed();
            assert!(failed || shown(&d, false) == shown(&whole, false), "{act}");
            let same = shown(&d, true) == shown(&whole, true);
            let warnings: Vec<String> = d.warnings().iter().map(|w| masked(w)).collect();
            let msg = failed.then(|| masked(d.msg()));
            told.push((failed, d["error_kind"].clone(), same, warnings, msg));
        }
        assert_eq!(told[0], told[1], "{act}");
        println!("{act} always: {every}: {:?}", told[1]);
    }
}

/// The ticket ends while several connections read by it.
#[test]
fn a_ticket_that_expires_among_many_reads() {
    let mut w = world();
    w["pve"]["ticket_lifetime_s"] = json!(2);
    let lab = Lab::start(w);
    // 60 of them by 4 connections take longer than a ticket lives.
    lab.fault(json!({"side": "pve", "path": "/pending$", "do": {"delay_ms": 150}}));
    let mut args = lab.user("root@pam");
    args["config"] = json!("current");
    args["type"] = json!("qemu");
    let d = lab.bare("pve_vm_info", args).run().ok();
    all_are_there(&d);
    assert!(d.warnings().is_empty(), "{:?}", d.warnings());
    let refused = asked(&d)
        .iter()
        .filter(|(_, status)| *status == 401)
        .count();
    assert!(refused > 0, "no ticket expired: {:?}", asked(&d));
    assert!(d.of_kind("auth").len() > 1, "{:?}", d.of_kind("auth"));
    for (vmid, n) in times(&d) {
        let good = asked(&d)
            .iter()
            .filter(|(v, s)| *v == vmid && *s == 200)
            .count();
        assert!(
            good == 1 && n <= 3,
            "{vmid}: {n} times, {good} of them answered"
        );
    }
}
