//! Cases of pve_disk_import.

use super::{Case, Gen, worlds};
use serde_json::{Value, json};

/// A disk of that guest in the world, if it has one.
pub fn some_disk(g: &mut Gen, world: &Value, vmid: u32) -> Option<String> {
    let guest = world["pve"]["guests"]
        .as_array()?
        .iter()
        .find(|x| x["vmid"] == vmid)?;
    let disks: Vec<&str> = guest["config"]
        .as_object()?
        .iter()
        .filter(|(_, v)| v.as_str().is_some_and(|s| s.contains("vm-")))
        .map(|(k, _)| k.as_str())
        .collect();
    (!disks.is_empty()).then(|| disks[g.below(disks.len())].to_owned())
}

pub fn case(g: &mut Gen) -> Case {
    let mut world = worlds::cluster(g);
    worlds::mostly_without_system(g, &mut world);
    let vmid = g.weighted(&[(33, 100u32), (33, 101), (33, 102), (1, 110), (1, 199)]);
    let state = g.weighted(&[
        (50, "present"),
        (15, "resized"),
        (15, "moved"),
        (10, "detached"),
        (10, "absent"),
    ]);
    let exists =
        some_disk(g, &world, vmid).filter(|_| g.chance(if state == "present" { 45 } else { 92 }));
    let fresh = g.weighted(&[
        (20, "scsi5"),
        (10, "scsi30"),
        (15, "virtio3"),
        (10, "sata4"),
        (8, "ide3"),
        (4, "ide2"),
        (3, "unused0"),
        (3, "efidisk0"),
        (3, "tpmstate0"),
        (1, "scsi31"),
        (1, "disk0"),
    ]);
    let disk = exists.clone().unwrap_or_else(|| fresh.to_owned());
    let mut a = json!({"vmid": g.int(vmid.into()), "disk": disk});
    if state != "present" || g.chance(30) {
        a["state"] = json!(state);
    }
    let mut repeatable = true;
    let format = g.weighted(&[(20, "raw"), (20, "qcow2"), (3, "vmdk"), (1, "cow")]);
    let storage = g.weighted(&[
        (30, "local"),
        (20, "data"),
        (20, "nfs"),
        (20, "lvm"),
        (2, "none"),
    ]);
    match state {
        "present" => present(
            g,
            &mut a,
            exists.is_some(),
            storage,
            format,
            vmid,
            &mut repeatable,
        ),
        "resized" => {
            let size = g.weighted(&[
                (20, "16M"),
                (20, "8M"),
                (15, "32M"),
                (10, "16384K"),
                (8, "12345678"),
                (8, "0.25G"),
                (5, "1M"),
                (5, "+4M"),
                (2, "big"),
                (2, ""),
            ]);
            repeatable = !size.starts_with('+');
            a["size"] = json!(size);
            if g.chance(10) {
                a["cache"] = json!("none");
            }
        }
        "moved" => {
            if g.chance(20) {
                a["target_vmid"] = g.weighted(&[(5, 100), (5, 101), (5, 102), (1, 199)]).into();
                if g.chance(50) {
                    a["target_disk"] = json!(g.pick(&["scsi7", "virtio7", "sata5", "scsi0"]));
                }
            } else {
                if g.chance(90) {
                    a["target_storage"] = json!(storage);
                }
                if g.chance(40) {
                    a["format"] = json!(format);
                }
            }
            if g.chance(50) {
                a["delete_moved"] = g.bool();
            }
            if g.chance(10) {
                a["bwlimit"] = g.int(100_000);
            }
        }
        _ => {}
    }
    a["timeout"] = g.int(15);
    let mut c = Case::new("pve_disk_import", world, a);
    c.repeatable = repeatable;
    c.before = worlds::unrest(g, &c.world, vmid);
    c.login = worlds::login(g);
    if c.login != "root" {
        // Such users may not see whose task a lock is, and wait.
        c.args.insert("timeout".into(), json!(2));
    }
    c
}

fn present(
    g: &mut Gen,
    a: &mut Value,
    exists: bool,
    storage: &str,
    format: &str,
    vmid: u32,
    repeatable: &mut bool,
) {
    if exists {
        options(g, a, 1);
        if g.chance(12) {
            a["create"] = json!(g.pick(&["disabled", "regular", "forced"]));
        }
        if a["create"] == "forced" {
            *repeatable = false;
            a["storage"] = json!(storage);
            a["size"] = json!("0.00390625");
        } else if g.chance(30) {
            a["storage"] = json!(storage);
            a["size"] = json!(g.pick(&["0.00390625", "0.0078125", "1"]));
        }
    } else {
        match g.below(10) {
            0..=3 => {
                a["storage"] = json!(storage);
                a["size"] = g
                    .weighted(&[
                        (9, "0.00390625"),
                        (9, "0.0078125"),
                        (3, "0.001"),
                        (1, "0"),
                        (1, "1G"),
                        (1, "x"),
                    ])
                    .into();
            }
            4..=6 => {
                a["storage"] = json!(storage);
                a["import_from"] = json!(g.weighted(&[
                    (20, "nfs:import/app.raw"),
                    (20, "local:import/app.qcow2"),
                    (20, "nfs:900/vm-900-disk-0.raw"),
                    (3, "local:iso/test.iso"),
                    (3, "nfs:import/none.raw"),
                    (2, "/tmp/x.raw")
                ]));
                if g.chance(15) {
                    let n = g.weighted(&[(3, 2 << 20), (3, 3 << 20), (1, 512)]);
                    a["source_bytes"] = g.int(n);
                }
                if g.chance(5) {
                    a["size"] = json!("1");
                }
            }
            7 => a["attach_from"] = json!(format!("local:{vmid}/vm-{vmid}-disk-9.raw")),
            8 => {
                a["media"] = json!("cdrom");
                a["iso_image"] = json!(g.weighted(&[
                    (5, "local:iso/test.iso"),
                    (4, "none"),
                    (2, "cdrom"),
                    (1, "local:iso/no.iso")
                ]));
            }
            _ => a["storage"] = json!(storage),
        }
        if g.chance(40) && a["iso_image"].is_null() {
            a["format"] = json!(format);
        }
        if g.chance(60) {
            options(g, a, 0);
        }
        if g.chance(5) {
            a["create"] = json!("disabled");
        }
    }
}

/// Options of a drive, most of which fit the bus.
fn options(g: &mut Gen, a: &mut Value, least: usize) {
    let disk = a["disk"].as_str().unwrap_or("").to_owned();
    let bus = disk.trim_end_matches(|c: char| c.is_ascii_digit());
    if !["scsi", "virtio", "sata", "ide"].contains(&bus) && g.chance(90) {
        return;
    }
    for _ in 0..least + g.below(3) {
        match g.below(16) {
            0 => a["cache"] = json!(g.pick(&["none", "writeback", "unsafe", "writethrough"])),
            1 => a["discard"] = g.weighted(&[(2, "on"), (1, "ignore")]).into(),
            2 => a["discard"] = g.spell(true),
            3 => a["backup"] = g.bool(),
            4 => a["replicate"] = g.bool(),
            5 if bus != "virtio" || g.chance(10) => a["ssd"] = g.bool(),
            6 if bus == "scsi" || bus == "virtio" || g.chance(10) => a["iothread"] = g.bool(),
            7 => a["mbps_rd"] = g.weighted(&[(2, "10"), (2, "12.5"), (1, "0.5")]).into(),
            8 => a["iops"] = g.int(500),
            9 => a["aio"] = json!(g.pick(&["native", "threads", "io_uring"])),
            10 => {
                a["serial"] = json!(g.weighted(&[
                    (3, "ABC2"),
                    (2, "disk-1"),
                    (1, "123456789012345678901"),
                    (1, "a,b")
                ]))
            }
            11 => a["detect_zeroes"] = g.bool(),
            12 if bus != "ide" && bus != "sata" || g.chance(5) => a["ro"] = g.bool(),
            13 if bus == "scsi" || g.chance(10) => a["queues"] = g.int(4),
            14 => {
                a["unset"] = g
                    .weighted(&[
                        (2, "cache"),
                        (2, "discard"),
                        (1, "ssd"),
                        (1, "serial"),
                        (1, "mbps_rd"),
                    ])
                    .into()
            }
            15 => a["werror"] = json!(g.pick(&["stop", "report"])),
            _ => {}
        }
    }
}
