//! The way back: never started, started, broken off half-way, attached; and what comes before the start: verify, the latest time.

use super::{Scenario, failed, powers};
use crate::demo::{self, Run};
use crate::env;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

const GUEST: [&str; 2] = ["--limit", "db-uefi"];

fn over(s: &mut Scenario<'_>, args: &[&str]) -> Result<(), String> {
    s.play("sdn,build,relocate", args)?;
    let run = s.play("cutover", args)?;
    s.claim(
        failed(&run).is_empty(),
        &format!("the cutover fails: {:?}", failed(&run)),
    )
}

/// The texts that a run's debug tasks showed.
fn shown(run: &Run) -> String {
    run.lines
        .iter()
        .filter(|l| l.action.ends_with("debug"))
        .map(|l| l.result.to_string())
        .collect()
}

fn drives(guest: &Value) -> Vec<String> {
    let config = guest["config"].as_object().cloned().unwrap_or_default();
    let bus = |k: &str| {
        ["scsi", "sata", "ide", "virtio"].iter().any(|b| {
            k.strip_prefix(b)
                .is_some_and(|n| !n.is_empty() && n.bytes().all(|c| c.is_ascii_digit()))
        })
    };
    config.keys().filter(|k| bus(k)).cloned().collect()
}

fn unused(guest: &Value) -> usize {
    let config = guest["config"].as_object().cloned().unwrap_or_default();
    config.keys().filter(|k| k.starts_with("unused")).count()
}

/// Every file of the Proxmox storages and of the export, with its size: nothing may vanish.
fn files(s: &Scenario<'_>) -> Vec<PathBuf> {
    let mut found = vec![];
    let mut folders = vec![s.lab.state.join("export"), s.lab.state.join("storage")];
    while let Some(d) = folders.pop() {
        for e in std::fs::read_dir(&d).into_iter().flatten().flatten() {
            match e.path() {
                p if p.is_dir() => folders.push(p),
                p if p
                    .extension()
                    .is_some_and(|x| x == "vmdk" || x == "qcow2" || x == "raw") =>
                {
                    found.push(p)
                }
                _ => {}
            }
        }
    }
    found.sort();
    found
}

fn is_back(s: &mut Scenario<'_>) -> Result<(), String> {
    let g = s.guest(20103)?;
    let vm = s.vm("vm-103")?;
    s.claim(
        vm["power"] == "poweredOn",
        &format!("the VMware guest is {}", vm["power"]),
    )?;
    s.claim(
        g["status"] == "stopped",
        &format!("the Proxmox guest is {}", g["status"]),
    )?;
    s.claim(
        drives(&g).is_empty(),
        &format!("still attached: {:?}", drives(&g)),
    )?;
    let tags = g["config"]["tags"].to_string();
    s.claim(
        tags.contains("migration-shell") && !tags.contains("migration-done"),
        &format!("the tags are {tags}"),
    )?;
    let notes = vm["annotation"].to_string();
    s.claim(
        !notes.contains("[trueplan]"),
        &format!("the notes still say {notes}"),
    )
}

pub(super) fn never_ran(s: &mut Scenario<'_>) -> Result<(), String> {
    let before = demo::guest_bytes(&s.lab)?;
    over(s, &GUEST)?;
    let status = s.play("status", &GUEST)?;
    let said = shown(&status);
    s.claim(
        said.contains("\"stage\":\"done\"")
            && said.contains("\"on\":\"neither\"")
            && said.contains("\"ran\":false"),
        &format!("status says {said}"),
    )?;
    s.claim(status.writes == 0, "status writes")?;
    let were = files(s);
    s.converge("rollback", &GUEST)?;
    is_back(s)?;
    let now = files(s);
    let gone: Vec<&PathBuf> = were.iter().filter(|f| !now.contains(f)).collect();
    s.claim(gone.is_empty(), &format!("rollback deleted {gone:?}"))?;
    s.claim(
        unused(&s.guest(20103)?) == 3,
        "the disks are not kept as unusedN",
    )?;

    // Over again: all disks are brought anew, the old ones stay.
    s.converge("cutover", &GUEST)?;
    demo::same_bytes(&s.lab, "vm-103", 20103, &before)?;
    s.claim(unused(&s.guest(20103)?) == 3, "the old disks went")?;
    // A shell that never went over, and one whose VMware guest runs: nothing to go back from.
    s.play("build", &["--limit", "web01"])?;
    let idle = s.play("rollback", &["--limit", "web01,web02"])?;
    s.claim(
        failed(&idle).is_empty() && idle.writes == 0,
        &format!("{} writes, {:?}", idle.writes, failed(&idle)),
    )
}

pub(super) fn ran(s: &mut Scenario<'_>) -> Result<(), String> {
    over(s, &GUEST)?;
    // A list that cannot be seen in whole proves nothing.
    s.lab
        .set(&json!({"pve": {"node": "pve2", "online": false}}))?;
    s.refused("rollback", &GUEST, "ever ran is not known")?;
    s.lab
        .set(&json!({"pve": {"node": "pve2", "online": true}}))?;
    // It runs, then it ran.
    s.by_hand(
        "trueplan.virt.pve_vm_shell",
        &json!({"vmid": 20103, "state": "started"}),
    )?;
    s.refused("rollback", &GUEST, "it runs now")?;
    s.by_hand(
        "trueplan.virt.pve_vm_shell",
        &json!({"vmid": 20103, "state": "stopped", "force": true, "timeout": 1}),
    )?;
    s.refused("rollback", &GUEST, "it was started: qmstart")?;
    let verify = failed(&s.play("verify", &GUEST)?);
    s.claim(
        verify
            .iter()
            .any(|m| m.contains("its disks are its own by now")),
        &format!("verify of a guest that ran: {verify:?}"),
    )?;

    s.by_hand(
        "trueplan.virt.pve_vm_shell",
        &json!({"vmid": 20103, "state": "started"}),
    )?;
    let discard = [
        &GUEST[..],
        &[
            "-e",
            "rollback_discard_changes=true rollback_force_off=true rollback_shutdown_timeout=1",
        ],
    ]
    .concat();
    let run = s.converge("rollback", &discard)?;
    let said = shown(&run);
    s.claim(
        said.contains("is missing in VMware from now on") && said.contains("data:20103/"),
        &format!("it is not said what is lost: {said}"),
    )?;
    is_back(s)?;
    // Without the permission to discard: nothing is left that could be lost.
    let again = s.play("rollback", &GUEST)?;
    s.claim(
        failed(&again).is_empty() && again.writes == 0,
        &format!(
            "a guest that is back already: {:?}, {} writes",
            failed(&again),
            again.writes
        ),
    )?;
    // Both sides on, the worst night: the Proxmox guest goes, nothing is done to the other one.
    over(s, &GUEST)?;
    s.by_hand(
        "trueplan.virt.pve_vm_shell",
        &json!({"vmid": 20103, "state": "started"}),
    )?;
    s.lab
        .set(&json!({"vcenter": {"vms": [{"moid": "vm-103", "power": "on"}]}}))?;
    let said = shown(&s.play("status", &GUEST)?);
    s.claim(
        said.contains("stop one of the two at once"),
        &format!("status of both on: {said}"),
    )?;
    s.converge("rollback", &discard)?;
    is_back(s)
}

pub(super) fn half_way(s: &mut Scenario<'_>) -> Result<(), String> {
    let before = demo::guest_bytes(&s.lab)?;
    // A cutover that died at its second disk: one is over, the VMware guest is off.
    s.play("sdn,build,relocate", &GUEST)?;
    let broken = json!({"status": 500, "reason": "storage 'data' is not available", "body": {"data": null, "message": "storage 'data' is not available\n"}});
    s.lab.fault(&json!([{"side": "pve", "method": "POST", "path": "/qemu/20103/config$", "nth": 2, "do": broken}]))?;
    s.play("cutover", &GUEST)?;
    s.lab.clear_faults()?;
    let said = shown(&s.play("status", &GUEST)?);
    s.claim(
        said.contains("\"stage\":\"cutover broken off\"") && said.contains("disk0.vmdk"),
        &format!("status of a broken cutover: {said}"),
    )?;
    // The rollback dies, too: at the VMware side, then at its own second disk.
    s.lab
        .fault(&json!([{"side": "vcenter", "method": "PowerOnVM_Task", "do": "drop"}]))?;
    let first = failed(&s.play("rollback", &GUEST)?);
    s.lab.clear_faults()?;
    s.claim(!first.is_empty(), "the rollback did not die")?;
    s.claim(
        s.vm("vm-103")?["power"] == "poweredOff",
        "it was powered on",
    )?;
    s.converge("rollback", &GUEST)?;
    is_back(s)?;

    s.converge("cutover", &GUEST)?;
    demo::same_bytes(&s.lab, "vm-103", 20103, &before)?;
    s.shown += 1;
    s.lab.fault(&json!([{"side": "pve", "method": "PUT", "path": "/qemu/20103/config$", "nth": 3, "do": broken}]))?;
    let second = failed(&s.play("rollback", &GUEST)?);
    s.lab.clear_faults()?;
    s.claim(
        second.iter().any(|m| m.contains("is not available")),
        &format!("the second rollback did not die: {second:?}"),
    )?;
    // Neither cutover nor settle takes it for done now.
    s.refused("cutover", &GUEST, "nothing says what")?;
    s.converge("rollback", &GUEST)?;
    is_back(s)?;
    s.play("cutover", &GUEST)?;
    demo::same_bytes(&s.lab, "vm-103", 20103, &before)?;
    s.shown += 1;
    Ok(())
}

pub(super) fn attached(s: &mut Scenario<'_>) -> Result<(), String> {
    let attach = [&GUEST[..], &["-e", "cutover_method=attach"]].concat();
    let before = demo::guest_bytes(&s.lab)?;
    over(s, &attach)?;
    s.by_hand(
        "trueplan.virt.pve_vm_shell",
        &json!({"vmid": 20103, "state": "started"}),
    )?;
    s.refused("rollback", &attach, "it runs now")?;
    let vmware = s.lab.vmware_files()?;
    let discard = [
        &attach[..],
        &[
            "-e",
            "rollback_discard_changes=true rollback_force_off=true rollback_shutdown_timeout=1",
        ],
    ]
    .concat();
    let run = s.converge("rollback", &discard)?;
    let said = shown(&run);
    s.claim(
        said.contains("are files of the VMware guest itself")
            && !said.contains("is missing in VMware"),
        &format!("nothing is lost, but it says {said}"),
    )?;
    is_back(s)?;
    s.claim(
        s.lab.vmware_files()? == vmware,
        "VMware's files are not all there",
    )?;
    s.converge("cutover", &attach)?;
    demo::same_bytes(&s.lab, "vm-103", 20103, &before)?;
    s.shown += 1;
    Ok(())
}

pub(super) fn verify(s: &mut Scenario<'_>) -> Result<(), String> {
    let two = ["--limit", "db-uefi,web01"];
    let nothing = s.play("verify", &two)?;
    s.claim(failed(&nothing).is_empty(), "verify before the build fails")?;
    over(s, &two)?;
    let run = s.converge("verify", &two)?;
    s.claim(
        failed(&run).is_empty()
            && run.writes == 0
            && shown(&run).contains("3 disks compared, all equal"),
        &format!("{:?} {}", failed(&run), shown(&run)),
    )?;
    // One flipped sector of one copy.
    let world = s.lab.dump()?;
    let value = s.guest(20103)?["config"]["scsi1"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let volume = value.split(',').next().unwrap_or_default();
    let file = demo::volume_file(&world, volume).ok_or_else(|| format!("no file of {volume}"))?;
    env::output(
        Path::new("/"),
        "qemu-io",
        &["-f", "qcow2", "-c", "write -P 0xa5 1024 512", &file],
    )?;
    for check in [true, false] {
        let args = if check {
            [&two[..], &["--check"]].concat()
        } else {
            two.to_vec()
        };
        let said = failed(&s.play("verify", &args)?);
        s.claim(
            said.iter()
                .any(|m| m.contains("db-uefi") && m.contains("the bytes of scsi1 differ"))
                && !said.iter().any(|m| m.contains("web01")),
            &format!("a copy that differs: {said:?}"),
        )?;
    }
    // One that cannot be compared at all is no success either.
    std::fs::rename(&file, format!("{file}.away")).map_err(|e| e.to_string())?;
    let said = failed(&s.play("verify", &two)?);
    s.claim(
        said.iter().any(|m| {
            m.contains("db-uefi")
                && (m.contains("could not be made") || m.contains("does not say where"))
        }),
        &format!("a copy that is away: {said:?}"),
    )?;
    std::fs::rename(format!("{file}.away"), &file).map_err(|e| e.to_string())?;
    let on = json!({"vcenter": {"vms": [{"moid": "vm-101", "power": "on"}]}});
    s.lab.set(&on)?;
    s.refused(
        "verify",
        &["--limit", "web01"],
        "its disks are no longer what was copied",
    )
}

pub(super) fn deadline(s: &mut Scenario<'_>) -> Result<(), String> {
    let two = ["--limit", "web01,db-uefi"];
    s.play("sdn,build,relocate", &two)?;
    let before = powers(&s.lab)?;
    for (at, why) in [
        ("2026-01-01T02:30+01:00", "no guest is shut down after"),
        ("2026-01-01 02:30", "no guest is shut down after"),
        ("half past two", "is no time"),
    ] {
        let given = json!({"cutover_not_after": at}).to_string();
        s.refused("cutover", &[&two[..], &["-e", &given]].concat(), why)?;
    }
    s.claim(
        powers(&s.lab)? == before,
        "a guest was shut down after the deadline",
    )?;
    // What is off already goes on.
    s.lab
        .set(&json!({"vcenter": {"vms": [{"moid": "vm-101", "power": "off"}]}}))?;
    let past = json!({"cutover_not_after": "2026-01-01T02:30:00Z"}).to_string();
    let run = s.converge("cutover", &["--limit", "web01", "-e", &past])?;
    s.claim(
        failed(&run).is_empty(),
        &format!("a guest that is off: {:?}", failed(&run)),
    )?;
    let future = json!({"cutover_not_after": "2999-01-01 02:30", "cutover_bytes_per_s": 1_000_000})
        .to_string();
    let run = s.converge("cutover", &["--limit", "db-uefi", "-e", &future])?;
    s.claim(
        failed(&run).is_empty() && shown(&run).contains("about 1 minutes at 1000000 bytes/s"),
        &format!("before the deadline: {:?} {}", failed(&run), shown(&run)),
    )
}
