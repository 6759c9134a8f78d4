//! What the server would refuse, and what would surprise; said before anything is started.

use super::place::{DiskGoal, Goal, seen_by};
use super::predict::is_nfs;
use crate::look::{Look, Stop};
use crate::vsphere_target::Target;
use plan::Plan;
use serde_json::Value;
use vsphere::value::{flag, int, list, text};

/// Refuses, or warns into the plan. Source of the rules: docs/vsphere-facts.md section 3.
///
/// # Errors
/// Refusals.
pub fn check(
    t: &Target,
    look: &Look<'_>,
    vm: &Value,
    goal: &Goal<'_>,
    thin: Option<bool>,
    plan: &mut Plan,
) -> Result<(), Stop> {
    let refuse = |why: String| -> Result<(), Stop> { Err(t.refusal(why).into()) };
    if flag(vm, "template") {
        return refuse("it is a template; convert it to a virtual machine first".into());
    }
    if let Some(q) = text(vm, "question.text") {
        return refuse(format!(
            "it waits for an answer: \"{}\"; answer it first",
            q.trim()
        ));
    }
    if flag(vm, "tools.installer_mounted") {
        return refuse(
            "the VMware Tools installer is mounted in it; end the installation first".into(),
        );
    }
    if list(vm, "disabled_methods")
        .iter()
        .any(|m| m == "RelocateVM_Task")
    {
        return refuse("somebody, often a backup product, has disabled RelocateVM_Task on it; let that end, or lift it".into());
    }
    if goal.storage_moves()
        && let Some(ft) = text(vm, "fault_tolerance")
    {
        return refuse(format!("Fault Tolerance is on ({ft}); turn it off first"));
    }
    let on = text(vm, "power") == Some("poweredOn");
    for g in goal.disks.iter().filter(|g| g.moves) {
        disk(t, g, on, plan)?;
    }
    stores(t, look, vm, goal)?;
    space(t, vm, goal, thin, plan)?;
    warnings(vm, goal, thin, plan);
    Ok(())
}

fn label(d: &Value) -> &str {
    text(d, "label").unwrap_or("a disk")
}

fn name(s: &Value) -> &str {
    text(s, "name").unwrap_or("")
}

fn disk(t: &Target, g: &DiskGoal<'_>, on: bool, plan: &mut Plan) -> Result<(), Stop> {
    let l = label(g.disk);
    let nfs = g.to.is_some_and(is_nfs);
    let why = match (text(g.disk, "rdm"), text(g.disk, "mode")) {
        (Some("physical"), _) => Some(format!(
            "{l} is a physical raw device mapping, of which only the pointer would move; copy its data inside the guest, or detach it"
        )),
        (Some(_), _) if nfs => Some(format!(
            "{l} is a virtual raw device mapping, which NFS cannot hold; convert it to a VMDK first"
        )),
        (_, Some("independent_nonpersistent" | "nonpersistent")) => Some(format!(
            "{l} is independent nonpersistent; make it persistent first"
        )),
        _ if on && (text(g.disk, "sharing").is_some() || text(g.disk, "shared_bus").is_some()) => {
            Some(format!(
                "{l} is shared with other machines, which forbids a move while it runs; power off all that share it"
            ))
        }
        _ => None,
    };
    if let Some(why) = why {
        return Err(t.refusal(why).into());
    }
    if on && text(g.disk, "mode") == Some("independent_persistent") {
        plan.warnings.push(format!(
            "{l} is independent: some hosts refuse to move it while the VM runs"
        ));
    }
    Ok(())
}

fn targets<'a>(goal: &Goal<'a>) -> Vec<&'a Value> {
    let disks = goal.disks.iter().filter(|g| g.moves).filter_map(|g| g.to);
    let home = goal.home.filter(|_| goal.home_moves);
    let mut all: Vec<&Value> = home.into_iter().chain(disks).collect();
    all.sort_by_key(|s| text(s, "moid"));
    all.dedup_by_key(|s| text(s, "moid"));
    all
}

fn stores(t: &Target, look: &Look<'_>, vm: &Value, goal: &Goal<'_>) -> Result<(), Stop> {
    let host = goal.host.unwrap_or_else(|| &vm["host"]);
    for s in targets(goal) {
        let n = name(s);
        let unable = |why: String| -> Stop { t.refusal(why).into() };
        if !flag(s, "accessible") {
            return Err(unable(format!(
                "datastore {n} is not accessible; mend it first"
            )));
        }
        let maintenance = text(s, "maintenance").unwrap_or("normal");
        if maintenance != "normal" {
            return Err(unable(format!(
                "datastore {n} is in maintenance mode ({maintenance}); end that, or choose another"
            )));
        }
        if goal.drs.is_some() {
            continue;
        }
        let (dc, own) = (text(s, "datacenter"), text(vm, "datacenter.name"));
        if goal.host.is_none() && dc.is_some() && own.is_some() && dc != own {
            return Err(unable(format!(
                "datastore {n} is in datacenter {}, the VM in {}; give a destination_host or destination_cluster there",
                dc.unwrap_or(""),
                own.unwrap_or("")
            )));
        }
        match text(host, "moid") {
            Some(h) if !seen_by(s, h) => {
                return Err(unable(format!(
                    "host {} does not see datastore {n}, or may not write there; mount it, or choose another host",
                    text(host, "name").unwrap_or(h)
                )));
            }
            Some(_) => {}
            None => look.note(format!(
                "whether the VM's host sees datastore {n}: the host cannot be read"
            )),
        }
    }
    Ok(())
}

/// The bytes that a disk will take at least: whatever the server may leave out is not counted.
fn at_least(vm: &Value, g: &DiskGoal<'_>, thin: Option<bool>) -> i64 {
    let bytes = int(g.disk, "bytes").unwrap_or(0);
    let source_thin = g.disk["thin"] == true;
    // Whether zeros of a thick disk become holes on NFS is not documented, so that nothing is sure there.
    if g.to.is_some_and(is_nfs) || thin.unwrap_or(source_thin) {
        if !source_thin {
            return 0;
        }
        let data = text(g.disk, "data_file");
        let file = list(vm, "files")
            .iter()
            .find(|f| data.is_some() && text(f, "name") == data);
        return file.and_then(|f| int(f, "bytes")).unwrap_or(0).min(bytes);
    }
    bytes
}

fn gib(bytes: i64) -> String {
    format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30))
}

fn space(
    t: &Target,
    vm: &Value,
    goal: &Goal<'_>,
    thin: Option<bool>,
    plan: &mut Plan,
) -> Result<(), Stop> {
    for s in targets(goal) {
        let Some(free) = int(s, "free") else {
            plan.unverified.push(format!(
                "whether datastore {} has room: its free space cannot be read",
                name(s)
            ));
            continue;
        };
        let here = goal
            .disks
            .iter()
            .filter(|g| g.moves && g.to.is_some_and(|x| x["moid"] == s["moid"]))
            .filter(|g| text(g.disk, "rdm").is_none());
        let (mut whole, mut least) = (0i64, 0i64);
        for g in here {
            whole += int(g.disk, "bytes").unwrap_or(0);
            least += at_least(vm, g, thin);
        }
        if least > free {
            return Err(t
                .refusal(format!(
                    "datastore {} has {} free, and the disks need at least {}; make room, or choose another",
                    name(s),
                    gib(free),
                    gib(least)
                ))
                .into());
        }
        if whole > free {
            plan.warnings.push(format!(
                "datastore {} has {} free, the disks have {} in all: they only fit if enough of that is empty",
                name(s),
                gib(free),
                gib(whole)
            ));
        }
    }
    Ok(())
}

fn warnings(vm: &Value, goal: &Goal<'_>, thin: Option<bool>, plan: &mut Plan) {
    if !goal.storage_moves() {
        return;
    }
    let snapshots: Vec<&str> = list(vm, "snapshots")
        .iter()
        .filter_map(|s| text(s, "name"))
        .collect();
    if !snapshots.is_empty() {
        plan.warnings.push(format!(
            "it has snapshots ({}), which are moved along: its data files are then not the whole disks",
            snapshots.join(", ")
        ));
    }
    if flag(vm, "encrypted") {
        plan.warnings
            .push("it is encrypted: its files are of no use outside vSphere".into());
    }
    for d in list(vm, "devices") {
        if matches!(text(d, "kind"), Some("cdrom" | "floppy"))
            && flag(d, "connected")
            && let Some(file) = text(d, "file").filter(|f| !f.is_empty())
        {
            plan.warnings.push(format!(
                "{} holds {file}, which is not moved and can block the move",
                label(d)
            ));
        }
    }
    if thin == Some(false) && targets(goal).iter().any(|s| is_nfs(s)) {
        plan.warnings
            .push("disk_format: thick has no effect on NFS without hardware acceleration: the disks become thin".into());
    }
}
