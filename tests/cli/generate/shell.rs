//! Cases of pve_vm_shell, all states.

use super::worlds::{self, GUESTS};
use super::{Case, Gen};
use serde_json::{Value, json};

const KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f";

pub fn case(g: &mut Gen) -> Case {
    let mut world = worlds::cluster(g);
    let state = g.weighted(&[
        (58, "present"),
        (7, "absent"),
        (7, "started"),
        (7, "stopped"),
        (5, "restarted"),
        (4, "paused"),
        (3, "hibernated"),
        (6, "template"),
        (2, "current"),
    ]);
    if state == "present" {
        worlds::mostly_without_system(g, &mut world);
    }
    let vmid = GUESTS[g.below(3)];
    let name = ["web", "db", "app"][vmid as usize - 100];
    let mut a = json!({"timeout": 2});
    let mut c;
    if state == "present" {
        match g.below(100) {
            0..=34 => {
                // A new one.
                if g.chance(85) {
                    let id = g.weighted(&[(2, 300), (1, 301), (1, 2042)]);
                    a["vmid"] = g.int(id);
                }
                a["node"] = json!(g.weighted(&[(20, "pve1"), (12, "pve2"), (1, "pve9")]));
                a["name"] =
                    json!(g.weighted(&[(10, "new1"), (10, "app.example.com"), (1, "not a name")]));
                some(g, &mut a, 9, true);
                if g.chance(15) {
                    a["pool"] = json!(g.weighted(&[(4, "testpool"), (1, "nopool")]));
                }
                if g.chance(10) {
                    a["start"] = g.spell(true);
                }
            }
            35..=42 => {
                a["clone"] = json!(if g.chance(50) { name } else { "any" });
                a["vmid"] = g.int(vmid.into());
                a["newid"] = g.int(310);
                a["name"] = json!("copy");
                a["node"] = json!("pve1");
                if g.chance(40) {
                    a["full"] = g.bool();
                }
                if g.chance(30) {
                    a["storage"] = json!(g.pick(&["local", "data", "nfs"]));
                }
                if g.chance(25) {
                    a["format"] = json!(g.pick(&["qcow2", "raw"]));
                }
                if g.chance(15) {
                    a["target"] = json!(g.pick(&["pve1", "pve2"]));
                }
            }
            43..=46 => {
                a["vmid"] = g.int(vmid.into());
                a["migrate"] = json!(true);
                a["node"] = json!(g.pick(&["pve1", "pve2"]));
                if g.chance(60) {
                    a["with_local_disks"] = g.bool();
                }
            }
            47..=49 => {
                a["vmid"] = g.int(vmid.into());
                a["delete"] = g
                    .weighted(&[
                        (2, "cores,tags"),
                        (2, "description"),
                        (1, "net0"),
                        (1, "nosuch"),
                        (1, "scsi0"),
                    ])
                    .into();
            }
            50..=52 => {
                a["vmid"] = g.int(vmid.into());
                a["revert"] = g
                    .weighted(&[
                        (2, "memory"),
                        (2, "memory,numa"),
                        (1, "net0"),
                        (1, "nosuch"),
                    ])
                    .into();
            }
            53..=56 => {
                a["name"] = json!(name);
                if g.chance(60) {
                    a["update"] = g.spell(true);
                }
                some(g, &mut a, 5, false);
            }
            _ => {
                a["vmid"] = g.int(vmid.into());
                if g.chance(25) {
                    a["name"] = json!(if g.chance(60) { name } else { "renamed" });
                    if g.chance(50) {
                        a["rename"] = g.spell(true);
                    }
                }
                some(g, &mut a, 7, false);
                if g.chance(8) {
                    let what =
                        g.pick(&["tags", "cores", "description", "net0", "agent", "balloon"]);
                    a["unset"] = g.list(&[what]);
                }
                if g.chance(5) {
                    a["create_only"] = json!(["name", "description", "tags"]);
                }
            }
        }
        c = Case::new("pve_vm_shell", world, a);
    } else {
        a["state"] = json!(state);
        if g.chance(90) {
            let id = if g.chance(4) { 199 } else { vmid };
            a["vmid"] = g.int(id.into());
        } else {
            a["name"] = json!(name);
        }
        if g.chance(if state == "absent" || state == "stopped" {
            60
        } else {
            20
        }) {
            a["force"] = g.spell(true);
        }
        if state == "absent" {
            if g.chance(30) {
                a["purge"] = g.spell(true);
            }
            if g.chance(25) {
                a["destroy_unreferenced_disks"] = g.spell(true);
            }
        }
        if g.chance(5) {
            a["cores"] = g.int(2);
        }
        a["timeout"] = json!(5);
        c = Case::new("pve_vm_shell", world, a);
        c.repeatable = state != "restarted";
    }
    c.before = worlds::unrest(g, &c.world, vmid);
    c.login = worlds::login(g);
    c
}

/// Up to `most` options of a guest.
fn some(g: &mut Gen, a: &mut Value, most: usize, new: bool) {
    for _ in 0..1 + g.below(most) {
        match g.below(48) {
            0 | 1 => {
                let n = g.weighted(&[(5, 1024i64), (5, 2048), (3, 4096), (1, 8)]);
                a["memory"] = g.int(n);
            }
            2 | 3 => {
                let n = g.weighted(&[(5, 1i64), (5, 2), (3, 4), (1, 0)]);
                a["cores"] = g.int(n);
            }
            4 => a["sockets"] = g.int(2),
            5 => a["balloon"] = g.weighted(&[(2, "0"), (2, "512"), (1, "999999")]).into(),
            6 => {
                let t = [
                    &["prod"][..],
                    &["b", "a"],
                    &["Blue", "prod"],
                    &["bad tag"],
                    &[],
                ][g.below(5)];
                a["tags"] = g.list(t);
            }
            7 if a["tags"].is_null() => a["tags_add"] = g.list(&["extra"]),
            8 if a["tags"].is_null() => a["tags_remove"] = g.list(&["prod"]),
            9 => {
                a["description"] =
                    json!(g.weighted(&[(3, "A machine."), (3, "two\nlines"), (2, "Büro"), (1, "")]))
            }
            10 => a["onboot"] = g.bool(),
            11 => {
                a["agent"] = g
                    .weighted(&[
                        (3, "True"),
                        (3, "enabled=1"),
                        (2, "enabled=1,fstrim_cloned_disks=1"),
                        (2, "False"),
                        (1, "virtio"),
                        (1, "maybe"),
                    ])
                    .into()
            }
            12 => a["ostype"] = json!(g.pick(&["l26", "win11", "other"])),
            13 => a["scsihw"] = json!(g.pick(&["virtio-scsi-single", "virtio-scsi-pci", "lsi"])),
            14 => {
                a["cpu"] = g
                    .weighted(&[
                        (3, "host"),
                        (3, "x86-64-v2-AES"),
                        (2, "cputype=host,flags=+aes"),
                        (2, "kvm64,flags=+aes"),
                        (1, "nocpu"),
                    ])
                    .into()
            }
            15 => {
                a["boot"] = g
                    .weighted(&[
                        (3, "order=net0"),
                        (3, "order=scsi0;net0"),
                        (2, "order=scsi0"),
                        (1, "cnd"),
                        (1, "order=virtio9"),
                    ])
                    .into()
            }
            16 => {
                a["hotplug"] = g
                    .weighted(&[
                        (2, "network,disk,usb"),
                        (2, "disk,network"),
                        (1, "1"),
                        (1, "0"),
                        (1, "all"),
                    ])
                    .into()
            }
            17 => {
                a["vga"] = g
                    .weighted(&[
                        (2, "std"),
                        (2, "type=serial0"),
                        (2, "qxl,memory=32"),
                        (1, "nosuch"),
                    ])
                    .into()
            }
            18 => {
                a["machine"] = g
                    .weighted(&[(3, "q35"), (2, "pc-q35-9.0"), (2, "pc"), (1, "pc-q35-99.9")])
                    .into()
            }
            19 => {
                a["bios"] = json!(g.pick(&["ovmf", "seabios"]));
                if g.chance(70) {
                    let mut e = json!({"storage": g.weighted(&[(5, "local"), (3, "lvm"), (3, "nfs"), (1, "none")])});
                    if g.chance(50) {
                        e["efitype"] = json!(g.pick(&["4m", "2m"]));
                    }
                    if g.chance(50) {
                        e["pre_enrolled_keys"] = g.bool();
                    }
                    if g.chance(30) {
                        e["format"] = json!(g.pick(&["raw", "qcow2"]));
                    }
                    a["efidisk0"] = g.dict(e);
                }
            }
            20 => {
                a["tpmstate0"] =
                    g.dict(json!({"storage": "local", "version": if new { "2.0" } else { "1.2" }}))
            }
            21 | 22 => {
                let mut net = json!({});
                for _ in 0..1 + g.below(2) {
                    let slot = format!("net{}", g.below(3));
                    let mut s = g
                        .pick(&[
                            "virtio",
                            "e1000",
                            "virtio=BC:24:11:77:00:01",
                            "model=virtio",
                        ])
                        .to_owned();
                    s += g.weighted(&[
                        (8, ",bridge=vmbr0"),
                        (5, ",bridge=vmbr1"),
                        (3, ",bridge=v10"),
                        (1, ",bridge=vmbr9"),
                        (1, ""),
                    ]);
                    for extra in [
                        ",tag=5",
                        ",firewall=1",
                        ",rate=5",
                        ",link_down=1",
                        ",trunks=5;7-9",
                    ] {
                        if g.chance(15) {
                            s += extra;
                        }
                    }
                    net[slot] = json!(s);
                }
                a["net"] = g.dict(net);
            }
            23..=28 => {
                let bus = g.pick(&["scsi", "scsi", "virtio", "sata", "ide"]);
                let slot = if new || g.chance(50) { g.below(2) } else { 3 };
                let storage = g.weighted(&[
                    (5, "local"),
                    (3, "data"),
                    (3, "nfs"),
                    (4, "lvm"),
                    (1, "none"),
                ]);
                let mut s = format!(
                    "{storage}:{}",
                    g.weighted(&[(5, "0.00390625"), (5, "0.0078125"), (2, "0.001"), (1, "x")])
                );
                for extra in [
                    ",cache=writeback",
                    ",discard=on",
                    ",backup=0",
                    ",format=raw",
                    ",format=qcow2",
                ] {
                    if g.chance(12) {
                        s += extra;
                    }
                }
                let mut d = a[bus].clone();
                if !d.is_object() {
                    d = json!({});
                }
                d[format!("{bus}{slot}")] = json!(s);
                a[bus] = d;
            }
            29 => {
                a["ide"] = json!({"ide2": g.weighted(&[(3, "local:iso/test.iso,media=cdrom"), (3, "none,media=cdrom"), (1, "local:iso/no.iso,media=cdrom"), (1, "cdrom,media=cdrom")])})
            }
            30 => a["cdrom"] = g.weighted(&[(3, "local:iso/test.iso"), (2, "none")]).into(),
            31 => a["serial"] = g.dict(json!({"serial0": "socket"})),
            32 => {
                let ip = g.pick(&[
                    "ip=dhcp",
                    "ip=192.0.2.9/24,gw=192.0.2.1",
                    "gw=192.0.2.1,ip=192.0.2.9/24",
                ]);
                a["ipconfig"] = g.dict(json!({"ipconfig0": ip}));
            }
            33 => {
                a["ciuser"] = json!("admin");
                if g.chance(50) {
                    a["cipassword"] = json!("long-cloud-password");
                }
            }
            34 => {
                a["sshkeys"] = json!(g.weighted(&[
                    (4, format!("{KEY} a@b").as_str()),
                    (4, &format!("{KEY} a@b\n")),
                    (1, "ssh-ed25519 AAAA a@b")
                ]))
            }
            35 => a["nameservers"] = g.list(&["192.0.2.53", "192.0.2.54"]),
            36 => a["searchdomains"] = g.list(&["example.com"]),
            37 => {
                a["smbios"] = g
                    .weighted(&[
                        (3, "uuid=0c8ad2a8-5b3c-4b51-8a5a-0d7e1b7e0002"),
                        (2, "uuid=0C8AD2A8-5B3C-4B51-8A5A-0D7E1B7E0001"),
                        (2, "manufacturer=QUNNRQ==,base64=1"),
                        (1, "uuid=nonsense"),
                    ])
                    .into()
            }
            38 => {
                a["startup"] = g
                    .weighted(&[(2, "order=2,up=10"), (2, "up=10,order=2"), (1, "order=1")])
                    .into()
            }
            39 => a["protection"] = g.bool(),
            40 => a["numa_enabled"] = g.bool(),
            41 => a["cpulimit"] = g.weighted(&[(2, "1.5"), (2, "0"), (1, "2")]).into(),
            42 => a["cpuunits"] = g.int(2000),
            43 => a["usb"] = g.dict(json!({"usb0": "spice"})),
            44 => {
                a["rng0"] = g
                    .weighted(&[
                        (2, "source=/dev/urandom"),
                        (2, "/dev/urandom,max_bytes=1024,period=1000"),
                    ])
                    .into()
            }
            45 => a["audio"] = g.dict(json!({"audio0": "device=intel-hda,driver=spice"})),
            46 => {
                a["watchdog"] = g
                    .weighted(&[
                        (2, "i6300esb,action=reset"),
                        (1, "model=i6300esb,action=reset"),
                    ])
                    .into()
            }
            47 => {
                let k = g.pick(&[
                    "kvm",
                    "acpi",
                    "tablet",
                    "freeze",
                    "localtime",
                    "reboot",
                    "tdf",
                    "autostart",
                ]);
                a[k] = g.bool();
            }
            _ => {}
        }
    }
}
