//! What comes after the cutover: finish and retire.

use super::{Scenario, failed};
use serde_json::{Value, json};

const GUEST: [&str; 2] = ["--limit", "db-uefi"];

pub(super) fn finish(s: &mut Scenario<'_>) -> Result<(), String> {
    let mut world = s.lab.world.clone();
    world["pve"]["pools"] = json!([{"poolid": "migrated", "members": []}]);
    s.lab.reset(&world)?;
    let place = json!({
        "finish_startup": "order=3,up=60", "finish_pool": "migrated",
        "finish_acl": [{"ugid": "root@pam", "roleid": "PVEVMUser"}, {"ugid": "migrate@pve!discover", "type": "token", "roleid": "PVEAuditor", "propagate": false}],
        "finish_ha": {"max_restart": 2, "comment": "migrated"},
    })
    .to_string();
    let all = [&GUEST[..], &["-e", &place]].concat();
    s.play("sdn,build,relocate", &GUEST)?;
    let early = s.play("finish", &all)?;
    s.claim(
        failed(&early).is_empty() && early.writes == 0,
        &format!("finish before the cutover: {:?}", failed(&early)),
    )?;
    s.play("cutover", &GUEST)?;
    let start = json!({"finish_ha": {"ha_state": "started"}}).to_string();
    s.refused(
        "finish",
        &[&GUEST[..], &["-e", &start]].concat(),
        "HA would start",
    )?;
    let run = s.converge("finish", &all)?;
    s.claim(
        failed(&run).is_empty(),
        &format!("finish: {:?}", failed(&run)),
    )?;
    let g = s.guest(20103)?;
    let c = &g["config"];
    s.claim(
        c["onboot"].to_string().trim_matches('"') == "1"
            && c["startup"].to_string().contains("order=3")
            && g["status"] == "stopped",
        &format!("the guest is {g}"),
    )?;
    let w = s.lab.dump()?;
    let shown = [
        &w["pve"]["ha"],
        &w["pve"]["access"]["acl"],
        &w["pve"]["access"]["pools"],
    ]
    .map(Value::to_string)
    .join(" ");
    s.claim(
        shown.contains("vm:20103") && shown.contains("PVEVMUser") && shown.contains("migrated"),
        &format!("the cluster has {shown}"),
    )?;
    // Back from there: HA would start it again, and the token of this stage has nothing on /.
    s.refused("rollback", &GUEST, "Sys.Audit is missing on /")?;
    s.by_hand(
        "trueplan.virt.pve_ha_resource",
        &json!({"vmid": 20103, "state": "absent"}),
    )?;
    s.converge("rollback", &GUEST)?;
    let g = s.guest(20103)?;
    let ha = s.lab.dump()?["pve"]["ha"].to_string();
    s.claim(
        g["config"]["onboot"].to_string().trim_matches('"') != "1"
            && !ha.contains("20103")
            && s.vm("vm-103")?["power"] == "poweredOn",
        &format!("after rollback: {g} {ha}"),
    )
}

fn note_since(s: &Scenario<'_>, moid: &str, vmid: u32, date: &str) -> Result<(), String> {
    let text = format!("gone over to Proxmox VE guest {vmid}; do not start it here ({date})");
    s.by_hand(
        "trueplan.virt.vsphere_note",
        &json!({"moid": moid, "text": text}),
    )
    .map(|_| ())
}

pub(super) fn retire(s: &mut Scenario<'_>) -> Result<(), String> {
    let of = |host: &'static str, how: &'static str| vec!["--limit", host, "-e", how];
    let four = "web01,web02,db-uefi,archive-sata";
    s.play("sdn,build,relocate", &["--limit", four])?;
    // Never of a guest that has not gone over.
    s.refused("retire", &of("web02", "retire_how=delete"), "is not done")?;
    s.play("cutover", &["--limit", "web01,web02,db-uefi"])?;
    s.foreseen(
        "retire",
        &of("web01", "retire_how=delete"),
        "days ago, and retire_after_days is 30",
    )?;
    note_since(s, "vm-101", 20101, "2026-01-02")?;
    // Its files are newer than that date, and the Proxmox guest was never started.
    s.foreseen(
        "retire",
        &of("web01", "retire_how=delete"),
        "set retire_written_since",
    )?;
    s.foreseen(
        "retire",
        &of("web01", "retire_how=delete"),
        "set retire_never_ran",
    )?;
    for (moid, vmid) in [("vm-101", 20101), ("vm-102", 20102), ("vm-103", 20103)] {
        note_since(s, moid, vmid, "2026-01-02")?;
        s.by_hand(
            "trueplan.virt.pve_vm_shell",
            &json!({"vmid": vmid, "state": "started"}),
        )?;
    }
    let known = |host: &'static str, more: &'static str| {
        vec![
            "--limit",
            host,
            "-e",
            "retire_written_since=true",
            "-e",
            more,
        ]
    };
    // A descriptor of anybody's that points to its data files.
    let data = s.vm("vm-101")?["disks"][0]["file"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let export = s.lab.state.join("export");
    let inside = data
        .strip_prefix(&format!("{}/", export.display()))
        .unwrap_or_default()
        .to_owned();
    let other = export.join("images/999");
    std::fs::create_dir_all(&other).map_err(|e| e.to_string())?;
    std::fs::write(
        other.join("mine.vmdk"),
        format!("# Disk DescriptorFile\nRW 16384 VMFS \"../../{inside}\"\n"),
    )
    .map_err(|e| e.to_string())?;
    s.foreseen(
        "retire",
        &known("web01", "retire_how=delete"),
        "images/999/mine.vmdk",
    )?;
    std::fs::remove_dir_all(&other).map_err(|e| e.to_string())?;
    // It runs there again: not off, not retired.
    s.lab
        .set(&json!({"vcenter": {"vms": [{"moid": "vm-101", "power": "on"}]}}))?;
    s.foreseen(
        "retire",
        &known("web01", "retire_how=delete"),
        "the VMware guest is poweredOn",
    )?;
    s.lab
        .set(&json!({"vcenter": {"vms": [{"moid": "vm-101", "power": "off"}]}}))?;

    let files = s.lab.vmware_files()?.len();
    let run = s.converge_once("retire", &known("web01", "retire_how=unregister"))?;
    s.claim(
        failed(&run).is_empty()
            && s.vm("vm-101")?.is_null()
            && s.lab.vmware_files()?.len() == files,
        &format!("unregister: {:?}", failed(&run)),
    )?;
    let run = s.converge(
        "retire",
        &[
            &known("web02", "retire_how=move")[..],
            &["-e", "retire_datastore=esx-hdd"],
        ]
        .concat(),
    )?;
    s.claim(
        failed(&run).is_empty()
            && s.vm("vm-102")?["disks"][0]["file"]
                .to_string()
                .contains("esx-hdd"),
        &format!("move: {:?} {}", failed(&run), s.vm("vm-102")?["disks"]),
    )?;
    let run = s.converge_once("retire", &known("db-uefi", "retire_how=delete"))?;
    let left: Vec<_> = s
        .lab
        .vmware_files()?
        .into_iter()
        .filter(|f| f.display().to_string().contains("db-uefi"))
        .collect();
    s.claim(
        failed(&run).is_empty() && s.vm("vm-103")?.is_null() && left.is_empty(),
        &format!("delete: {:?} {left:?}", failed(&run)),
    )?;
    s.claim(
        s.guest(20103)?["status"] == "running",
        "the Proxmox guest does not run any more",
    )?;

    // Attached: the data files are the guest's own.
    let attach = ["--limit", "archive-sata", "-e", "cutover_method=attach"];
    s.play("cutover", &attach)?;
    note_since(s, "vm-109", 20109, "2026-01-02")?;
    s.by_hand(
        "trueplan.virt.pve_vm_shell",
        &json!({"vmid": 20109, "state": "started"}),
    )?;
    s.foreseen(
        "retire",
        &known("archive-sata", "retire_how=delete"),
        "run the stage settle first",
    )
}
