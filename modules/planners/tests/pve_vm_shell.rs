//! Planner tests of `pve_vm_shell`; numbers are those of docs/bugs.md (p..) and docs/peers-proxmox.md (k..).
mod common;

use common::{Site, failure, only_step, try_make};
use plan::Fact;
use proptest::prelude::*;
use pve::keys::PveKey;
use serde_json::{Value, json};

fn full() -> Value {
    json!({
        "vmid": 200, "name": "web01", "node": "pve1", "cores": "2", "sockets": 1, "memory": "2048", "ostype": "l26",
        "scsihw": "virtio-scsi-single", "agent": "enabled=1,fstrim_cloned_disks=1", "onboot": "no",
        "net": "{\"net0\": \"virtio,bridge=vmbr0\"}", "scsi": {"scsi0": "local:4,discard=on,ssd=1"},
        "sata": {"sata0": "local:iso/test.iso,media=cdrom"}, "tags": ["b", "a"], "description": "hello\n"
    })
}

#[test]
fn a_new_guest_is_made_in_one_request_and_a_second_run_changes_nothing() {
    let mut s = Site::new();
    s.free(200);
    let r = s.converges("pve_vm_shell", full());
    let p = only_step(&r);
    let mac = pve::naming::mac_for(200, 0, &["pve1", "pve2"]);
    assert_eq!(p["net0"], format!("virtio={mac},bridge=vmbr0"));
    assert_eq!(p["tags"], "a;b");
    assert_eq!(p["vmid"], 200);
    let after = &r.keys["diff"]["after"]["config"];
    assert_eq!(
        after["scsi0"],
        "local:200/vm-200-disk-0.raw,discard=on,size=4G,ssd=1"
    );
    assert_eq!(after["sata0"], "local:iso/test.iso,media=cdrom,size=350K");
    assert_eq!(after["boot"], "order=scsi0;sata0;net0");
    assert_eq!(
        (
            after["cores"].clone(),
            after["memory"].clone(),
            after["onboot"].clone()
        ),
        (json!(2), json!("2048"), json!(0))
    );
    assert_eq!(after["description"], "hello");
    assert_eq!(after["smbios1"], format!("uuid={}", plan::SERVER));
    assert_eq!(r.keys["diff"]["before"], json!({}));
    assert_eq!(r.keys["msg"], "VM web01 with vmid 200 deployed");
    assert_eq!(
        (r.keys["vmid"].clone(), r.keys["status"].clone()),
        (json!(200), json!("stopped"))
    );
    assert_eq!(r.keys["mac"], json!({"net0": mac.as_str()}));
    assert_eq!(r.keys["devices"]["scsi0"], "local:200/vm-200-disk-0.raw");
}

#[test]
fn volumes_are_named_as_the_server_names_them() {
    // create-uefi-tpm of create-config-cases.json.
    let mut s = Site::new();
    s.free(202);
    let r = s.converges(
        "pve_vm_shell",
        json!({"vmid": 202, "name": "win", "node": "pve1", "machine": "q35", "bios": "ovmf", "ostype": "win11", "cpu": "x86-64-v2-AES",
            "efidisk0": {"storage": "local", "efitype": "4m", "pre_enrolled_keys": true}, "tpmstate0": {"storage": "local"},
            "scsi": {"scsi0": "local:2,ssd=1"}, "net": {"net0": "virtio=BC:24:11:AA:BB:CC,bridge=vmbr0,firewall=1,tag=10"}}),
    );
    let c = &r.keys["diff"]["after"]["config"];
    assert_eq!(
        c["efidisk0"],
        "local:202/vm-202-disk-0.raw,efitype=4m,pre-enrolled-keys=1,size=528K"
    );
    assert_eq!(c["scsi0"], "local:202/vm-202-disk-1.raw,size=2G,ssd=1");
    assert_eq!(
        c["tpmstate0"],
        "local:202/vm-202-disk-2.raw,size=4M,version=v2.0"
    );
    assert_eq!(c["boot"], "order=scsi0;net0");
    assert_eq!(c["machine"], format!("pc-q35-{}", plan::SERVER));
    assert_eq!(
        only_step(&r)["net0"],
        "virtio=BC:24:11:AA:BB:CC,bridge=vmbr0,firewall=1,tag=10"
    );
}

#[test]
fn volumes_lying_about_keep_their_names() {
    let mut s = Site::new();
    s.free(200);
    s.put(
        PveKey::Volumes {
            node: "pve1".into(),
            storage: "local".into(),
            content: "images".into(),
            vmid: Some(200),
        },
        json!([{"volid": "local:200/vm-200-disk-0.qcow2", "size": 1, "vmid": 200}]),
    );
    let r = s.converges(
        "pve_vm_shell",
        json!({"vmid": 200, "node": "pve1", "scsi": {"scsi0": "local:1", "scsi1": "lvm:1"}}),
    );
    let c = &r.keys["diff"]["after"]["config"];
    assert_eq!(c["scsi0"], "local:200/vm-200-disk-1.raw,size=1G");
    assert_eq!(c["scsi1"], "lvm:vm-200-disk-0,size=1G");
}

#[test]
fn p01_only_differences_are_written() {
    let mut s = Site::new();
    s.guest(
        123,
        json!({"name": "x", "cores": 2, "memory": "2048", "boot": " "}),
    );
    let r = s.check("pve_vm_shell", json!({"vmid": 123, "update": true, "memory": 2048, "cores": "2", "acpi": true, "onboot": false}));
    assert_eq!(r.keys["changed"], json!(false), "{:#?}", r.keys);
    assert_eq!(r.keys["msg"], "VM with vmid <123> already exists");
    assert_eq!(s.read, [PveKey::Guest(123).key()]);
    let r = s.converges(
        "pve_vm_shell",
        json!({"vmid": 123, "memory": 4096, "cores": 2}),
    );
    let p = only_step(&r);
    assert_eq!(p.keys().collect::<Vec<_>>(), ["memory", "digest"]);
    assert_eq!(r.keys["msg"], "VM x with vmid 123 updated");
}

#[test]
fn p02_update_of_a_missing_guest_creates_it() {
    let mut s = Site::new();
    s.free(123);
    let r = s.converges(
        "pve_vm_shell",
        json!({"vmid": 123, "name": "test", "node": "pve1", "update": true, "memory": 1024}),
    );
    assert_eq!(r.keys["plan"][0]["request"], "POST /nodes/pve1/qemu");
}

#[test]
fn p03_p07_devices_are_added_and_changed() {
    let mut s = Site::new();
    s.guest(176, json!({"net0": "virtio=BC:24:11:00:00:01,bridge=vmbr0", "scsi0": "local:176/vm-176-disk-0.raw,size=8G", "boot": "order=scsi0;net0"}));
    let r = s.converges(
        "pve_vm_shell",
        json!({"vmid": 176, "update": true, "ide": {"ide2": "local:cloudinit"}, "net": {"net0": "virtio,bridge=vmbr0,tag=10"}, "scsi": {"scsi1": "local:2"}}),
    );
    let c = &r.keys["diff"]["after"]["config"];
    assert_eq!(c["ide2"], "local:176/vm-176-cloudinit.qcow2,media=cdrom");
    assert_eq!(c["net0"], "virtio=BC:24:11:00:00:01,bridge=vmbr0,tag=10");
    assert_eq!(c["scsi1"], "local:176/vm-176-disk-1.raw,size=2G");
    assert_eq!(c["boot"], "order=scsi0;net0");
    assert_eq!(
        r.keys["plan"][0]["request"], "POST /nodes/pve1/qemu/176/config",
        "allocation follows a task"
    );
}

#[test]
fn p04_cloud_init_values_compare_equal() {
    let mut s = Site::new();
    s.guest(100, json!({"sshkeys": "ssh-ed25519%20AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f%20a%40b%0A", "nameserver": "1.1.1.1 8.8.8.8", "ipconfig0": "ip=dhcp", "cipassword": "**********"}));
    let r = s.check(
        "pve_vm_shell",
        json!({"vmid": 100, "sshkeys": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f a@b", "nameservers": ["1.1.1.1", "8.8.8.8"], "ipconfig": {"ipconfig0": "ip=dhcp"}, "cipassword": "hunter2-hunter2"}),
    );
    assert_eq!(r.keys["changed"], json!(false), "{:#?}", r.keys);
    assert!(
        r.keys["unverified"][0]
            .as_str()
            .is_some_and(|u| u.contains("cipassword"))
    );
}

#[test]
fn what_is_no_public_key_is_refused_before_it_is_sent() {
    let d = try_make(
        "pve_vm_shell",
        json!({"vmid": 100, "sshkeys": "ssh-ed25519 AAAA a@b"}),
    );
    let e = d.err().expect("an error");
    assert_eq!(e[0].path, "sshkeys");
    assert!(e[0].msg.contains("no public SSH key"), "{}", e[0].msg);
}

#[test]
fn secrets_are_never_shown() {
    let mut s = Site::new();
    s.free(100);
    let r = s.check(
        "pve_vm_shell",
        json!({"vmid": 100, "node": "pve1", "cipassword": "hunter2-hunter2"}),
    );
    assert!(!r.is_failed());
    assert!(
        !Value::Object(r.keys.clone())
            .to_string()
            .contains("hunter2")
    );
    assert_eq!(r.keys["plan"][0]["params"]["cipassword"], plan::MASKED);
}

#[test]
fn p05_p49_by_name_the_next_free_id_is_claimed_once() {
    let mut s = Site::new();
    s.free(100).free(101).free(102);
    s.guest(101, json!({"name": "other"}));
    s.put(PveKey::IdFree(101), json!(false));
    let web = json!({"name": "web", "node": "pve1", "net": {"net0": "virtio,bridge=vmbr0"}});
    let r = s.converges("pve_vm_shell", web);
    let p = only_step(&r);
    assert_eq!(p["vmid"], "<next free id>");
    assert_eq!(p["net0"], "virtio=<MAC of the next free id>,bridge=vmbr0");
    assert_eq!(r.keys["vmid"], json!(100));
    // Another task of the same check run gets another id, past the one that is really taken.
    let r = s.converges("pve_vm_shell", json!({"name": "db", "node": "pve1"}));
    assert_eq!(r.keys["vmid"], json!(102));
}

#[test]
fn by_name_an_existing_guest_only_shows_drift_unless_updated() {
    let mut s = Site::new();
    s.guest(100, json!({"name": "web", "memory": "1024"}));
    let r = s.check("pve_vm_shell", json!({"name": "web", "memory": 2048}));
    assert_eq!(r.keys["changed"], json!(false));
    assert_eq!(r.keys["drift"][0]["option"], "memory");
    assert_eq!(r.keys["msg"], "VM with name <web> already exists");
    let r = s.converges(
        "pve_vm_shell",
        json!({"name": "web", "memory": 2048, "update": true}),
    );
    assert_eq!(r.keys["changed"], json!(true));
}

#[test]
fn absence_from_a_filtered_list_creates_nothing() {
    let mut s = Site::new();
    s.put(PveKey::Perms("/vms".into()), json!({}));
    let r = s.check("pve_vm_shell", json!({"name": "web", "node": "pve1"}));
    assert!(failure(&r, "permission").contains("VM.Audit on /vms"));
    s.fact(
        PveKey::Guest(100),
        Fact::Unreadable("Permission check failed (/vms/100, VM.Audit)".into()),
    );
    let r = s.check("pve_vm_shell", json!({"vmid": 100, "node": "pve1"}));
    assert!(failure(&r, "permission").contains("/vms/100"));
}

#[test]
fn p06_a_name_is_no_identity_and_a_strangers_vmid_is_refused() {
    let mut s = Site::new();
    s.guest(136, json!({"name": "dolly"})).free(5011);
    let r = s.converges(
        "pve_vm_shell",
        json!({"vmid": 5011, "name": "dolly", "node": "pve1"}),
    );
    assert_eq!(r.keys["vmid"], json!(5011));
    let r = s.check(
        "pve_vm_shell",
        json!({"vmid": 136, "name": "molly", "memory": 64}),
    );
    assert!(failure(&r, "refused").contains("dolly"));
    let r = s.converges(
        "pve_vm_shell",
        json!({"vmid": 136, "name": "molly", "rename": true}),
    );
    assert_eq!(only_step(&r)["name"], "molly");
    let r = s.check("pve_vm_shell", json!({"vmid": 136, "name": "polly", "create_only": ["name", "description"], "description": "x"}));
    assert_eq!(r.keys["changed"], json!(false), "{:#?}", r.keys);
}

#[test]
fn p18_the_guest_is_found_where_it_lives() {
    let mut s = Site::new();
    s.guest(100, json!({}));
    let r = s.converges(
        "pve_vm_shell",
        json!({"vmid": 100, "node": "pve2", "memory": 1024}),
    );
    assert_eq!(
        r.keys["plan"][0]["request"],
        "PUT /nodes/pve1/qemu/100/config"
    );
    assert_eq!(r.keys["node"], "pve1");
}

#[test]
fn p20_ovmf_without_an_efi_disk_is_a_warning() {
    let mut s = Site::new();
    s.free(100);
    let r = s.check(
        "pve_vm_shell",
        json!({"vmid": 100, "node": "pve1", "bios": "ovmf", "scsi": {"scsi0": "local:1"}}),
    );
    assert!(
        r.keys["warnings"][0]
            .as_str()
            .is_some_and(|w| w.contains("efidisk0"))
    );
    assert_eq!(r.keys["diff"]["after"]["config"]["boot"], "order=scsi0");
}

#[test]
fn p21_p22_efi_disks_are_made_with_explicit_keys_and_never_made_anew() {
    let mut s = Site::new();
    s.guest(100, json!({"bios": "ovmf"}));
    let r = s.converges(
        "pve_vm_shell",
        json!({"vmid": 100, "efidisk0": {"storage": "local"}}),
    );
    assert_eq!(
        only_step(&r)["efidisk0"],
        "local:1,efitype=4m,pre-enrolled-keys=0"
    );
    for (efi, what) in [
        (json!({"efitype": "2m"}), "efitype"),
        (json!({"pre_enrolled_keys": true}), "pre-enrolled"),
    ] {
        let r = s.check("pve_vm_shell", json!({"vmid": 100, "efidisk0": efi}));
        assert!(failure(&r, "refused").contains(what));
    }
    let r = s.check(
        "pve_vm_shell",
        json!({"vmid": 100, "efidisk0": {"storage": "lvm", "efitype": "4m"}}),
    );
    assert_eq!(r.keys["drift"][0]["option"], "efidisk0.storage");
    assert_eq!(r.keys["changed"], json!(false));
}

#[test]
fn k13_disks_are_never_made_anew_and_only_grow() {
    let mut s = Site::new();
    s.guest(
        100,
        json!({"scsi0": "local:100/vm-100-disk-0.raw,size=8G,ssd=1", "boot": "order=scsi0"}),
    );
    let r = s.check(
        "pve_vm_shell",
        json!({"vmid": 100, "update_unsafe": true, "scsi": {"scsi0": "local:8"}}),
    );
    assert_eq!(r.keys["changed"], json!(false), "{:#?}", r.keys);
    let r = s.converges(
        "pve_vm_shell",
        json!({"vmid": 100, "scsi": {"scsi0": "local:10,discard=on"}}),
    );
    let plan = r.keys["plan"].as_array().expect("steps");
    assert_eq!(
        plan[0]["params"]["scsi0"],
        "local:100/vm-100-disk-0.raw,discard=on,size=8G,ssd=1"
    );
    assert_eq!(
        (plan[1]["request"].clone(), plan[1]["params"].clone()),
        (
            json!("PUT /nodes/pve1/qemu/100/resize"),
            json!({"disk": "scsi0", "size": "10G"})
        )
    );
    assert_eq!(
        r.keys["config"]["scsi0"],
        "local:100/vm-100-disk-0.raw,discard=on,size=10G,ssd=1"
    );
    let r = s.check(
        "pve_vm_shell",
        json!({"vmid": 100, "scsi": {"scsi0": "lvm:4,format=qcow2"}}),
    );
    assert_eq!(r.keys["changed"], json!(false));
    let options: Vec<&Value> = r.keys["drift"]
        .as_array()
        .expect("drift")
        .iter()
        .map(|d| &d["option"])
        .collect();
    assert_eq!(options, ["scsi0.storage", "scsi0.format", "scsi0.size"]);
}

#[test]
fn p26_media_converge() {
    let mut s = Site::new();
    s.guest(
        100,
        json!({"ide2": "none,media=cdrom", "boot": "order=ide2"}),
    );
    let r = s.check(
        "pve_vm_shell",
        json!({"vmid": 100, "ide": {"ide2": "none,media=cdrom"}}),
    );
    assert_eq!(r.keys["changed"], json!(false));
    let r = s.converges(
        "pve_vm_shell",
        json!({"vmid": 100, "ide": {"ide2": "local:iso/test.iso,media=cdrom"}}),
    );
    assert_eq!(
        r.keys["config"]["ide2"],
        "local:iso/test.iso,media=cdrom,size=350K"
    );
    let r = s.check(
        "pve_vm_shell",
        json!({"vmid": 100, "ide": {"ide2": "local:iso/nope.iso,media=cdrom"}}),
    );
    assert!(failure(&r, "refused").contains("local:iso/nope.iso"));
    let r = s.check(
        "pve_vm_shell",
        json!({"vmid": 100, "ide": {"ide2": "local:8"}}),
    );
    assert!(failure(&r, "refused").contains("CD-ROM"));
}

#[test]
fn p33_p36_p37_disks_are_compared_by_slot_and_meaning() {
    let mut s = Site::new();
    s.guest(100, json!({"scsi0": "local:100/vm-100-disk-0.raw,size=131072M", "scsi1": "local:100/vm-100-disk-1.raw,size=1T"}));
    let r = s.check(
        "pve_vm_shell",
        json!({"vmid": 100, "scsi": {"scsi1": "local:1024", "scsi0": "local:128,backup=1"}}),
    );
    assert_eq!(r.keys["changed"], json!(false), "{:#?}", r.keys);
}

#[test]
fn p41_a_boot_device_must_exist() {
    let mut s = Site::new();
    s.free(200).guest(
        100,
        json!({"boot": "order=scsi0", "scsi0": "local:100/vm-100-disk-0.raw,size=1G"}),
    );
    let r = s.check("pve_vm_shell", json!({"vmid": 200, "node": "pve1", "boot": "order=scsi0;ide2", "ide": {"ide2": "none,media=cdrom"}}));
    assert!(failure(&r, "refused").contains("scsi0"));
    let r = s.check("pve_vm_shell", json!({"vmid": 100, "boot": "order=scsi9"}));
    assert!(failure(&r, "refused").contains("scsi9"));
    let r = s.converges(
        "pve_vm_shell",
        json!({"vmid": 100, "boot": "order=scsi1;scsi0", "scsi": {"scsi1": "local:1"}}),
    );
    assert_eq!(r.keys["config"]["boot"], "order=scsi1;scsi0");
}

#[test]
fn p43_storages_nodes_bridges_and_pools_are_looked_at_before_anything_is_written() {
    for (args, word) in [
        (json!({"scsi": {"scsi0": "nope:1"}}), "nope"),
        (json!({"scsi": {"scsi0": "isoonly:1"}}), "images"),
        (json!({"scsi": {"scsi0": "off:1"}}), "disabled"),
        (json!({"net": {"net0": "virtio,bridge=vmbr9"}}), "vmbr9"),
        (json!({"node": "pve7"}), "pve7"),
        (json!({"pool": "nopool"}), "nopool"),
        (
            json!({"net": {"net0": "virtio=BC:24:11:00:00:01,bridge=vmbr0", "net1": "virtio=bc:24:11:00:00:01,bridge=vmbr0"}}),
            "BC:24:11:00:00:01",
        ),
        (
            json!({"sata": {"sata0": "local:iso/test.iso"}}),
            "media=cdrom",
        ),
    ] {
        let mut s = Site::new();
        s.free(200);
        s.put(
            PveKey::Perms("/storage/nope".into()),
            json!({"Datastore.Audit": 1}),
        );
        s.put(
            PveKey::Perms("/pool/nopool".into()),
            json!({"Pool.Audit": 1}),
        );
        let mut a = json!({"vmid": 200, "node": "pve1"});
        for (k, v) in args.as_object().expect("object") {
            a[k] = v.clone();
        }
        let r = s.check("pve_vm_shell", a);
        let msg = failure(&r, "refused");
        assert!(
            msg.contains(word) && msg.starts_with("unable to create guest 200:"),
            "{msg}"
        );
    }
}

#[test]
fn p57_a_running_guest_takes_some_at_once_and_the_rest_later() {
    let mut s = Site::new();
    s.guest(
        100,
        json!({"name": "a", "cores": 2, "net0": "virtio=BC:24:11:00:00:01,bridge=vmbr0"}),
    )
    .running(100);
    let args = json!({"vmid": 100, "cores": 4, "description": "d", "net": {"net0": "link_down=1"}});
    let r = s.converges("pve_vm_shell", args.clone());
    assert_eq!(r.keys["pending"], json!({"cores": 4}));
    assert_eq!(r.keys["restart_required"], json!(true));
    let again = s.check("pve_vm_shell", args);
    assert_eq!(
        (
            again.keys["changed"].clone(),
            again.keys["restart_required"].clone()
        ),
        (json!(false), json!(true))
    );
    // Stopping applies it.
    let r = s.check("pve_vm_shell", json!({"vmid": 100, "state": "stopped"}));
    assert_eq!(
        (r.keys["pending"].clone(), r.keys["status"].clone()),
        (json!({}), json!("stopped"))
    );
    assert_eq!(r.keys["msg"], "VM 100 is shutting down");
}

#[test]
fn p60_tags_are_a_set() {
    let mut s = Site::new();
    s.guest(100, json!({"tags": "alpha;beta;gamma"}));
    let r = s.check(
        "pve_vm_shell",
        json!({"vmid": 100, "tags": ["gamma", "Beta", "alpha"]}),
    );
    assert_eq!(r.keys["changed"], json!(false), "{:#?}", r.keys);
    let r = s.converges(
        "pve_vm_shell",
        json!({"vmid": 100, "tags_add": ["delta"], "tags_remove": ["alpha", "nope"]}),
    );
    assert_eq!(only_step(&r)["tags"], "beta;delta;gamma");
    let r = s.converges("pve_vm_shell", json!({"vmid": 100, "tags": []}));
    assert_eq!(only_step(&r)["delete"], "tags");
}

#[test]
fn p63_names_are_dns_names() {
    let e = try_make(
        "pve_vm_shell",
        json!({"name": "debian_12_homelab", "node": "pve1"}),
    )
    .err()
    .expect("refused");
    assert!(e[0].path == "name" && e[0].msg.contains("DNS"), "{e:?}");
    assert!(
        try_make(
            "pve_vm_shell",
            json!({"name": "vm1.example.com", "node": "pve1"})
        )
        .is_ok()
    );
}

#[test]
fn arguments_are_checked_all_at_once() {
    let e = try_make(
        "pve_vm_shell",
        json!({"vmid": 100, "net": {"net0": "bogus=1", "scsi0": "x"}, "scsi": {"scsi31": "local:1"}, "virtio": {"virtio0": "local:1,ssd=1"}, "unset": ["nonsense"]}),
    )
    .err()
    .expect("refused");
    let paths: Vec<&str> = e.iter().map(|e| e.path.as_str()).collect();
    for p in [
        "net.net0",
        "net.scsi0",
        "scsi.scsi31",
        "virtio.virtio0",
        "unset",
    ] {
        assert!(paths.contains(&p), "{p}: {e:#?}");
    }
}

#[test]
fn machine_types_compare_by_family() {
    let mut s = Site::new();
    s.guest(
        100,
        json!({"ostype": "win11", "machine": "pc-q35-9.0+pve1"}),
    );
    let r = s.check(
        "pve_vm_shell",
        json!({"vmid": 100, "machine": "q35", "ostype": "win11"}),
    );
    assert_eq!(r.keys["changed"], json!(false), "{:#?}", r.keys);
}

#[test]
fn root_only_options_are_refused_only_on_a_difference() {
    let mut s = Site::new();
    s.guest(100, json!({"args": "-no-reboot", "name": "a"}));
    s.put(
        PveKey::WhoAmI,
        json!({"user": "root@pam", "token": "t", "root_login": false}),
    );
    s.put(
        PveKey::Perms("/vms/100".into()),
        json!({"VM.Config.Options": 1}),
    );
    let r = s.check(
        "pve_vm_shell",
        json!({"vmid": 100, "args": "-no-reboot", "description": "d"}),
    );
    assert!(
        !r.is_failed() && r.keys["changed"] == json!(true),
        "{:#?}",
        r.keys
    );
    let r = s.check("pve_vm_shell", json!({"vmid": 100, "args": "-S"}));
    let msg = failure(&r, "permission");
    assert!(msg.contains("args") && msg.contains("root@pam"), "{msg}");
}

#[test]
fn delete_and_revert_change_only_what_they_change() {
    let mut s = Site::new();
    s.guest(100, json!({"description": "d", "scsi1": "local:100/vm-100-disk-1.raw,size=1G", "boot": "order=scsi1"}));
    let r = s.check(
        "pve_vm_shell",
        json!({"vmid": 100, "delete": "args,hookscript"}),
    );
    assert_eq!(r.keys["changed"], json!(false));
    let r = s.converges(
        "pve_vm_shell",
        json!({"vmid": 100, "delete": "description,scsi1"}),
    );
    assert_eq!(only_step(&r)["delete"], "description,scsi1");
    assert_eq!(r.keys["config"]["unused0"], "local:100/vm-100-disk-1.raw");
    assert_eq!(r.keys["config"]["boot"], " ");
    assert_eq!(
        r.keys["msg"],
        "Settings has deleted on VM 100 with vmid 100"
    );
    let r = s.converges("pve_vm_shell", json!({"vmid": 100, "unset": ["unused0"]}));
    assert_eq!(r.keys["plan"][0]["destructive"], json!(true));
    s.running(100).edit(PveKey::Guest(100), |g| {
        g["config"]["cores"] = json!(4);
        g["pending"]["cores"] = json!(4);
    });
    s.ledger = plan::MemoryLedger::default();
    let r = s.converges(
        "pve_vm_shell",
        json!({"vmid": 100, "revert": "cores,memory"}),
    );
    assert_eq!(only_step(&r)["revert"], "cores");
    assert_eq!(r.keys["pending"], json!({}));
}

#[test]
fn merge_families_keep_what_is_not_named_and_others_are_replaced() {
    let mut s = Site::new();
    s.guest(100, json!({"agent": "1,type=isa", "smbios1": "uuid=564d1a2b-3c4d-5e6f-7081-92a3b4c5d6e7", "cpu": "host,flags=+aes", "rng0": "source=/dev/urandom,period=5"}));
    let r = s.converges(
        "pve_vm_shell",
        json!({"vmid": 100, "agent": "fstrim_cloned_disks=1", "smbios": "base64=1,serial=d2Vi", "cpu": "host", "rng0": "source=/dev/urandom"}),
    );
    let p = only_step(&r);
    assert_eq!(p["agent"], "1,fstrim_cloned_disks=1,type=isa");
    assert_eq!(
        p["smbios1"],
        "base64=1,serial=d2Vi,uuid=564d1a2b-3c4d-5e6f-7081-92a3b4c5d6e7"
    );
    assert_eq!(
        (p["cpu"].clone(), p["rng0"].clone()),
        (json!("host"), json!("source=/dev/urandom"))
    );
}

#[test]
fn k08_p16_absent_refuses_before_anything_is_stopped() {
    let mut s = Site::new();
    s.guest(100, json!({"name": "a"})).running(100);
    let r = s.check("pve_vm_shell", json!({"vmid": 100, "state": "absent"}));
    assert!(failure(&r, "refused").contains("running"));
    let gone = json!({"vmid": 100, "state": "absent", "force": true, "timeout": 10});
    for (key, change, word) in [
        (
            PveKey::GuestStatus(100),
            json!({"status": "running", "ha": {"managed": 1}}),
            "purge",
        ),
        (
            PveKey::Replication(100),
            json!([{"id": "100-0"}]),
            "replication",
        ),
    ] {
        let mut t = s.clone();
        t.put(key, change);
        let r = t.check("pve_vm_shell", gone.clone());
        assert!(failure(&r, "refused").contains(word));
    }
    let mut t = s.clone();
    t.edit(PveKey::Guest(100), |g| g["config"]["protection"] = json!(1));
    assert!(failure(&t.check("pve_vm_shell", gone.clone()), "refused").contains("protection"));
    let r = s.converges("pve_vm_shell", gone);
    let plan = r.keys["plan"].as_array().expect("steps");
    assert_eq!(
        plan[0]["params"],
        json!({"forceStop": "1", "timeout": "10"})
    );
    assert_eq!(plan[1]["request"], "DELETE /nodes/pve1/qemu/100");
    assert_eq!(plan[1]["destructive"], json!(true));
    assert_eq!(
        (r.keys["msg"].clone(), r.keys["diff"]["after"].clone()),
        (json!("VM 100 removed"), json!({}))
    );
    // The next task of the same check run may use the id again.
    let r = s.check(
        "pve_vm_shell",
        json!({"vmid": 100, "node": "pve1", "name": "new"}),
    );
    assert_eq!(r.keys["msg"], "VM new with vmid 100 deployed");
}

#[test]
fn absent_of_a_missing_guest_is_unchanged() {
    let mut s = Site::new();
    s.free(100);
    let r = s.check("pve_vm_shell", json!({"vmid": 100, "state": "absent"}));
    assert_eq!(
        (r.keys["changed"].clone(), r.keys["vmid"].clone()),
        (json!(false), json!(100))
    );
    let r = s.check("pve_vm_shell", json!({"name": "x", "state": "absent"}));
    assert_eq!(r.keys["msg"], "VM with name = x is already absent");
    for state in ["started", "stopped", "current", "restarted", "template"] {
        failure(
            &s.check("pve_vm_shell", json!({"vmid": 100, "state": state})),
            "not_found",
        );
    }
}

#[test]
fn p12_p59_power_states() {
    let mut s = Site::new();
    s.guest(
        100,
        json!({"name": "a", "net0": "virtio=BC:24:11:00:00:01,bridge=vmbr0"}),
    );
    let mut go = |state: &str| s.check("pve_vm_shell", json!({"vmid": 100, "state": state}));
    for (state, changed, status, msg) in [
        (
            "current",
            false,
            "stopped",
            "VM a with vmid = 100 is stopped",
        ),
        ("stopped", false, "stopped", "VM 100 is already stopped"),
        ("restarted", false, "stopped", "VM 100 is not running"),
        ("started", true, "running", "VM 100 started"),
        ("started", false, "running", "VM 100 is already running"),
        ("restarted", true, "running", "VM 100 is restarted"),
        ("paused", true, "paused", "VM 100 is pausing"),
        ("paused", false, "paused", "VM 100 is already paused"),
        ("started", true, "running", "VM 100 started"),
        ("hibernated", true, "stopped", "VM 100 is hibernating"),
        (
            "hibernated",
            false,
            "stopped",
            "VM 100 is already hibernated",
        ),
        ("started", true, "running", "VM 100 started"),
        ("stopped", true, "stopped", "VM 100 is shutting down"),
    ] {
        let r = go(state);
        assert!(!r.is_failed(), "{state}: {:#?}", r.keys);
        assert_eq!(
            (
                r.keys["changed"].clone(),
                r.keys["status"].clone(),
                r.keys["msg"].clone()
            ),
            (json!(changed), json!(status), json!(msg)),
            "{state}"
        );
    }
    failure(&go("paused"), "refused");
}

#[test]
fn starting_without_its_bridge_is_refused() {
    let mut s = Site::new();
    s.guest(
        100,
        json!({"net0": "virtio=BC:24:11:00:00:01,bridge=vmbr77"}),
    );
    assert!(
        failure(
            &s.check("pve_vm_shell", json!({"vmid": 100, "state": "started"})),
            "refused"
        )
        .contains("vmbr77")
    );
}

#[test]
fn p10_p11_template_is_awaited_and_repeatable() {
    let mut s = Site::new();
    s.guest(210, json!({"name": "t", "scsi0": "local:210/vm-210-disk-0.raw,size=1G", "ide2": "none,media=cdrom"}));
    let r = s.converges("pve_vm_shell", json!({"vmid": 210, "state": "template"}));
    assert_eq!(
        r.keys["config"]["scsi0"],
        "local:210/base-210-disk-0.raw,size=1G"
    );
    let again = s.check("pve_vm_shell", json!({"vmid": 210, "state": "template"}));
    assert_eq!(again.keys["msg"], "VM 210 is already a template");
    assert!(
        failure(
            &s.check("pve_vm_shell", json!({"vmid": 210, "state": "started"})),
            "refused"
        )
        .contains("template")
    );
}

#[test]
fn p08_k07_a_clone_takes_the_other_options_and_is_made_once() {
    let mut s = Site::new();
    s.guest(210, json!({"name": "tmpl", "template": 1, "memory": "1024", "net0": "virtio=BC:24:11:00:00:01,bridge=vmbr0",
        "scsi0": "local:210/base-210-disk-0.raw,size=2G", "smbios1": "uuid=564d1a2b-3c4d-5e6f-7081-92a3b4c5d6e7", "boot": "order=scsi0"}));
    s.free(201);
    let args = json!({"clone": "tmpl", "newid": 201, "name": "web", "node": "pve1", "memory": 4096, "ipconfig": {"ipconfig0": "ip=dhcp"}, "scsi": {"scsi0": "local:4"}, "full": false});
    let r = s.converges("pve_vm_shell", args);
    let plan = r.keys["plan"].as_array().expect("steps");
    assert_eq!(plan[0]["request"], "POST /nodes/pve1/qemu/210/clone");
    assert_eq!(plan[1]["params"]["memory"], "4096");
    assert_eq!(
        plan[1]["params"]["net0"],
        format!(
            "virtio={},bridge=vmbr0",
            pve::naming::mac_for(201, 0, &["pve1", "pve2"])
        )
    );
    assert_eq!(plan[2]["params"], json!({"disk": "scsi0", "size": "4G"}));
    assert_eq!(
        r.keys["config"]["scsi0"],
        "local:210/base-210-disk-0.raw/201/vm-201-disk-0.qcow2,size=4G"
    );
    assert_eq!(
        r.keys["msg"],
        "VM web with newid 201 cloned from vm with vmid 210"
    );
}

#[test]
fn p48_an_unfinished_guest_is_waited_for() {
    let mut s = Site::new();
    let upid = "UPID:pve1:0000035F:0003BD3F:6B0D7E2D:qmcreate:100:root@pam:";
    s.guest(100, json!({"name": "a"}));
    s.edit(PveKey::Guest(100), |g| g["lock"] = json!("create"));
    s.put(
        PveKey::GuestTasks(100),
        json!([{"upid": upid, "type": "qmcreate"}]),
    );
    let r = s.check("pve_vm_shell", json!({"vmid": 100, "name": "a"}));
    assert!(
        !r.is_failed()
            && r.keys["waited_for"][0]
                .as_str()
                .is_some_and(|w| w.contains(upid)),
        "{:#?}",
        r.keys
    );
}

#[test]
fn a_nic_task_works_on_a_guest_that_is_only_planned() {
    let mut s = Site::new();
    s.free(200);
    s.check(
        "pve_vm_shell",
        json!({"vmid": 200, "name": "web01", "node": "pve1"}),
    );
    let r = s.converges(
        "pve_nic",
        json!({"vmid": 200, "interface": "net0", "bridge": "v100", "mac": "00:50:56:aa:bb:cc"}),
    );
    assert_eq!(
        only_step(&r)["net0"],
        "virtio=00:50:56:aa:bb:cc,bridge=v100"
    );
    let r = s.check(
        "pve_nic",
        json!({"name": "web01", "interface": "net0", "bridge": "v100"}),
    );
    assert_eq!(
        (r.keys["changed"].clone(), r.keys["vmid"].clone()),
        (json!(false), json!(200))
    );
}

#[test]
fn every_option_of_the_server_can_be_given() {
    let text = include_str!("../../../tests/fixtures/pve/api-schema.json");
    let schema: Value = serde_json::from_str(text).expect("JSON");
    let spec = planners::find("pve_vm_shell").expect("module").spec;
    let parameters = &schema["paths"]["/nodes/{node}/qemu"]["POST"]["parameters"];
    let parameters = parameters
        .get("properties")
        .unwrap_or(parameters)
        .as_object()
        .expect("parameters");
    assert!(parameters.len() > 80);
    for name in parameters.keys() {
        let stem = name.trim_end_matches("[n]");
        let family = stem.trim_end_matches(|c: char| c.is_ascii_digit());
        let found = spec.option(stem).or_else(|| spec.option(family)).is_some();
        assert!(found, "{name} cannot be given");
    }
}

#[test]
fn every_option_of_the_peers_is_there() {
    let peers = [
        (
            "pve_vm_shell",
            include_str!("../../../tests/fixtures/peers/proxmox_kvm.json"),
        ),
        (
            "pve_nic",
            include_str!("../../../tests/fixtures/peers/proxmox_nic.json"),
        ),
    ];
    for (module, text) in peers {
        let peers: Value = serde_json::from_str(text).expect("JSON");
        let spec = planners::find(module).expect("module").spec;
        assert_eq!(spec::lint(spec), Vec::<String>::new(), "{module}");
        for (version, v) in peers["versions"].as_object().expect("versions") {
            for (name, o) in v["options"].as_object().expect("options") {
                let ours = spec
                    .option(name)
                    .unwrap_or_else(|| panic!("{module} lacks {name} of {version}"));
                let kind = o["type"].as_str().unwrap_or("str");
                let wider = (kind, ours.kind.as_str()) == ("int", "float");
                assert!(
                    ours.kind.as_str() == kind || wider,
                    "{module}.{name}: {kind} in {version}"
                );
                for c in o["choices"].as_array().into_iter().flatten() {
                    assert!(
                        ours.choices.is_empty()
                            || ours.choices.contains(&c.as_str().expect("text")),
                        "{module}.{name}: {c}"
                    );
                }
                if let Some(e) = o["env_fallback"][0].as_str() {
                    assert_eq!(ours.env, Some(e), "{module}.{name}");
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    /// P4, P5, P6: any wish for any stored guest converges in one run, and no step touches what was not named.
    #[test]
    fn any_guest_converges(
        running in any::<bool>(),
        stored in proptest::collection::btree_map(prop::sample::select(vec![
            ("cores", "4"), ("memory", "1024"), ("name", "a"), ("tags", "x;y"), ("agent", "1"), ("cpu", "host"), ("boot", "order=net0"),
            ("net0", "virtio=BC:24:11:00:00:01,bridge=vmbr0,firewall=1"), ("scsi0", "local:100/vm-100-disk-0.raw,size=8G,ssd=1"),
            ("ide2", "none,media=cdrom"), ("onboot", "1"), ("description", "d"), ("vga", "std"), ("future", "1"),
        ]), Just(()), 0..14),
        wishes in proptest::collection::vec(prop::sample::select(vec![
            ("cores", json!(2)), ("memory", json!(2048)), ("tags_add", json!(["z"])), ("tags_remove", json!(["x"])), ("agent", json!("0")),
            ("cpu", json!("x86-64-v2-AES")), ("net", json!({"net0": "virtio,bridge=vmbr1,tag=7", "net1": "e1000,bridge=v100"})),
            ("scsi", json!({"scsi0": "local:10,discard=on"})), ("virtio", json!({"virtio3": "lvm:1"})),
            ("ide", json!({"ide2": "local:iso/test.iso,media=cdrom"})), ("onboot", json!(true)), ("description", json!("new")),
            ("unset", json!(["vga"])), ("efidisk0", json!({"storage": "lvm"})), ("ostype", json!("win11")), ("balloon", json!(0)),
            ("vga", json!("qxl")), ("smbios", json!("serial=x")), ("startup", json!("order=2")),
        ]), 0..8),
    ) {
        let mut config = json!({});
        for (k, v) in stored.keys() {
            config[k] = v.parse::<i64>().ok().filter(|_| ["cores", "onboot"].contains(k)).map_or(json!(v), |n| json!(n));
        }
        let mut s = Site::new();
        s.guest(100, config.clone());
        if running { s.running(100); }
        let mut args = json!({"vmid": 100});
        for (k, v) in &wishes {
            args[*k] = v.clone();
        }
        if args.get("vga").is_some() && let Some(o) = args.as_object_mut() { o.remove("unset"); }
        let r = s.converges("pve_vm_shell", args.clone());
        let named = args.to_string();
        for step in r.keys["plan"].as_array().expect("a plan") {
            for (k, v) in step["params"].as_object().expect("parameters") {
                let known = ["digest", "delete", "disk", "size", "smbios1", "tags"].contains(&k.as_str());
                prop_assert!(known || named.contains(&format!("\"{k}\"")), "{} was not named in {}", k, named);
                if k == "delete" { prop_assert!(v == "vga" || v == "tags" || v == "tags,vga"); }
            }
        }
        for (k, v) in config.as_object().expect("config") {
            let may = ["boot", "machine", "tags"].contains(&k.as_str()) || named.contains(&format!("\"{k}\"")) || k == "vga";
            if !may { prop_assert_eq!(&r.keys["config"][k], v); }
        }
    }
}

/// Found by the generated triples.
#[test]
fn a_balloon_larger_than_the_memory_is_refused_before_it_is_sent() {
    let mut s = Site::new();
    s.guest(100, json!({"memory": "2048"}));
    let r = s.check("pve_vm_shell", json!({"vmid": 100, "balloon": 4096}));
    assert!(failure(&r, "refused").contains("memory of 2048 MiB"));
    s.converges(
        "pve_vm_shell",
        json!({"vmid": 100, "balloon": 4096, "memory": 4096}),
    );
}

/// Found by the generated triples.
#[test]
fn a_paused_guest_is_resumed_after_its_reset_and_not_rebooted() {
    let mut s = Site::new();
    s.guest(100, json!({"memory": "2048"})).running(100);
    s.put(
        PveKey::GuestStatus(100),
        json!({"status": "running", "qmpstatus": "paused"}),
    );
    let args = |force: bool| json!({"vmid": 100, "state": "restarted", "force": force});
    let r = s.check("pve_vm_shell", args(false));
    assert!(failure(&r, "refused").contains("paused"));
    let r = s.check("pve_vm_shell", args(true));
    assert_eq!(r.keys["plan"].as_array().map(Vec::len), Some(2));
    assert_eq!(r.keys["status"], "running");
}
