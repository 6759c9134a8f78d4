//! Every option of the server's guest schema is taken by pve_vm_shell, and every one of the nine states is one of three equal runs.

use crate::support::{Lab, triple, triple_with, worlds};
use serde_json::{Value, json};

/// A value for each option that needs no hardware; the rest is named below with its reason.
fn options() -> Vec<(&'static str, Value)> {
    vec![
        ("acpi", json!(false)),
        (
            "agent",
            json!("enabled=1,fstrim_cloned_disks=1,type=virtio"),
        ),
        ("allow-ksm", json!(false)),
        (
            "audio",
            json!({"audio0": "device=ich9-intel-hda,driver=none"}),
        ),
        ("autostart", json!(true)),
        ("balloon", json!(256)),
        ("bios", json!("seabios")),
        ("boot", json!("order=net0")),
        ("bootdisk", json!("scsi0")),
        ("cicustom", json!("user=local:snippets/user.yaml")),
        ("citype", json!("nocloud")),
        ("ciupgrade", json!(false)),
        ("ciuser", json!("admin")),
        ("cores", json!(3)),
        ("cpu", json!("x86-64-v2-AES,flags=+aes")),
        ("cpulimit", json!("1.5")),
        ("cpuunits", json!(200)),
        ("description", json!("one\ntwo: three")),
        (
            "efidisk0",
            json!({"storage": "data", "efitype": "4m", "pre_enrolled_keys": true}),
        ),
        ("freeze", json!(true)),
        ("hotplug", json!("disk,network")),
        ("ide", json!({"ide2": "none,media=cdrom"})),
        (
            "ipconfig",
            json!({"ipconfig0": "ip=192.0.2.5/24,gw=192.0.2.1", "ipconfig1": "ip6=auto"}),
        ),
        ("keyboard", json!("de")),
        ("kvm", json!(true)),
        ("localtime", json!(true)),
        ("machine", json!("q35")),
        ("memory", json!(1024)),
        ("migrate_downtime", json!("0.5")),
        ("migrate_speed", json!(100)),
        ("nameservers", json!(["192.0.2.53", "2001:db8::53"])),
        (
            "net",
            json!({"net0": "virtio,bridge=vmbr0,tag=7,firewall=1,trunks=10-12;20", "net1": "e1000e,bridge=vmbr1,link_down=1"}),
        ),
        ("numa_enabled", json!(true)),
        ("onboot", json!(true)),
        ("ostype", json!("l26")),
        ("protection", json!(false)),
        ("reboot", json!(false)),
        (
            "rng0",
            json!("source=/dev/urandom,max_bytes=1024,period=1000"),
        ),
        ("sata", json!({"sata1": "data:1,ssd=1"})),
        (
            "scsi",
            json!({"scsi0": "data:1,iothread=1,discard=on,ssd=1", "scsi3": "data:0.5"}),
        ),
        ("scsihw", json!("virtio-scsi-single")),
        ("searchdomains", json!(["example.org", "example.net"])),
        ("serial", json!({"serial0": "socket"})),
        ("shares", json!(1500)),
        (
            "smbios",
            json!("uuid=8e495824-3216-461d-adf2-9b4a6c590dff,serial=YWJj,base64=1"),
        ),
        ("sockets", json!(2)),
        (
            "sshkeys",
            json!(
                "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f a@example\nssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICAhIiMkJSYnKCkqKywtLi8wMTIzNDU2Nzg5Ojs8PT4/ b+c@example\n"
            ),
        ),
        ("startdate", json!("2026-01-02T03:04:05")),
        ("startup", json!("order=1,up=30,down=60")),
        ("tablet", json!(false)),
        ("tags", json!(["Web", "prod", "a+b"])),
        ("tdf", json!(true)),
        ("tpmstate0", json!({"storage": "data", "version": "2.0"})),
        ("usb", json!({"usb0": "spice"})),
        ("vcpus", json!(2)),
        ("vga", json!("qxl,memory=32")),
        ("virtio", json!({"virtio5": "data:1,iothread=1"})),
        ("vmstatestorage", json!("local")),
        ("watchdog", json!("model=i6300esb,action=reset")),
    ]
}

/// Each alone on a stopped guest that is there, all together on a new one; a second run changes nothing.
#[test]
fn every_option_is_set_alone_and_together_and_converges() {
    let world = || {
        worlds::small_with(json!({
            "storage": [
                {"storage": "local", "type": "dir", "path": "/var/lib/vz", "content": "images,iso,import,snippets"},
                {"storage": "data", "type": "dir", "path": "/srv/data", "content": "images"},
            ],
            "content": {"local": [{"volid": "local:snippets/user.yaml", "content": "snippets", "format": "snippet", "size": 31, "text": "#cloud-config\n"}]},
            "guests": [{"vmid": 100, "node": "pve1", "config": {"name": "bare", "net0": "virtio=BC:24:11:00:00:01,bridge=vmbr0", "scsi0": "data:100/vm-100-disk-0.raw,size=1G"}}],
            "timing": {"task_ms": 2},
        }))
    };
    let mut w = world();
    w["pve"]["content"]["data"] =
        json!([{"volid": "data:100/vm-100-disk-0.raw", "size": 1_073_741_824_u64}]);
    let lab = Lab::start(w);
    let mut all = json!({"vmid": 140, "name": "full", "node": "pve1"});
    for (name, value) in options() {
        all[name] = value.clone();
        let mut args = json!({"vmid": 100});
        args[name] = value;
        triple(&lab, "pve_vm_shell", args).ok();
    }
    triple(&lab, "pve_vm_shell", all.clone()).changed();
    // Given back in another order and notation it is no difference.
    all["tags"] = json!("prod,web,a+b");
    all["trunks"] = Value::Null;
    all.as_object_mut().expect("an object").remove("trunks");
    all["nameservers"] = json!("192.0.2.53 2001:db8::53");
    all["onboot"] = json!("1");
    all["memory"] = json!("1024");
    all["net"] = json!({"net1": "bridge=vmbr1,e1000e,link_down=1", "net0": "trunks=20;10-12,tag=7,firewall=1,bridge=vmbr0,model=virtio"});
    triple(&lab, "pve_vm_shell", all).unchanged();
}

#[test]
fn the_nine_states() {
    let lab = Lab::start(worlds::small_with(json!({"guests": [
        {"vmid": 100, "node": "pve1", "guest_os": true, "config": {"name": "web", "memory": "512", "net0": "virtio=BC:24:11:00:00:01,bridge=vmbr0"}}]})));
    for (state, more, changes) in [
        ("present", json!({}), false),
        ("current", json!({}), false),
        ("stopped", json!({}), false),
        ("started", json!({}), true),
        ("current", json!({}), false),
        ("paused", json!({}), true),
        ("started", json!({}), true),
        ("hibernated", json!({}), true),
        ("started", json!({}), true),
        ("stopped", json!({"timeout": 20}), true),
        ("template", json!({}), true),
        ("absent", json!({}), true),
        ("absent", json!({}), false),
    ] {
        let mut args = json!({"vmid": 100, "state": state});
        for (k, v) in more.as_object().expect("an object") {
            args[k] = v.clone();
        }
        let t = triple(&lab, "pve_vm_shell", args);
        let t = if changes { t.changed() } else { t.unchanged() };
        assert_eq!(t.check["status"], t.apply["status"], "{state}");
    }
    assert!(lab.guest(100).is_none());
    // Restarted is no state that is reached, it is done in every run.
    let made = json!({"vmid": 101, "name": "again", "node": "pve1", "memory": 64});
    lab.call("pve_vm_shell", made).run().ok();
    lab.call("pve_vm_shell", json!({"vmid": 101, "state": "started"}))
        .run()
        .ok();
    let args = json!({"vmid": 101, "state": "restarted", "force": true});
    for _ in 0..2 {
        let check = lab
            .call("pve_vm_shell", args.clone())
            .check(true)
            .run()
            .ok();
        let done = lab.call("pve_vm_shell", args.clone()).run().ok();
        assert!(check.changed() && done.changed());
        assert_eq!(
            (check.plan(), &check["status"]),
            (done.plan(), &done["status"])
        );
    }
}

/// Tags under each way of the datacenter to sort and spell them.
#[test]
fn tags_under_each_style() {
    for (style, given, same) in [
        (
            json!({}),
            json!(["Web", "b", "a"]),
            json!(["a", "b", "web"]),
        ),
        (
            json!({"tag-style": "case-sensitive=1"}),
            json!(["Web", "b"]),
            json!(["b", "Web"]),
        ),
        (
            json!({"tag-style": "ordering=config"}),
            json!(["z", "a"]),
            json!(["a", "z"]),
        ),
        (
            json!({"tag-style": "shape=circle,ordering=alphabetical"}),
            json!(["z", "a"]),
            json!("a,z"),
        ),
    ] {
        let mut w = worlds::one_guest();
        w["pve"]["options"] = style.clone();
        let lab = Lab::start(w);
        triple(&lab, "pve_vm_shell", json!({"vmid": 100, "tags": given})).changed();
        triple(&lab, "pve_vm_shell", json!({"vmid": 100, "tags": same})).unchanged();
        triple(
            &lab,
            "pve_vm_shell",
            json!({"vmid": 100, "tags_add": ["more"]}),
        )
        .changed();
        triple(
            &lab,
            "pve_vm_shell",
            json!({"vmid": 100, "tags_remove": ["more"]}),
        )
        .changed();
        triple(&lab, "pve_vm_shell", json!({"vmid": 100, "tags": same})).unchanged();
    }
}

#[test]
fn delete_revert_unset_clone_and_migrate() {
    let lab = Lab::one_guest();
    lab.set(json!({"guest": 100, "config": {"description": "d", "onboot": 1}}));
    triple(
        &lab,
        "pve_vm_shell",
        json!({"vmid": 100, "delete": "description"}),
    )
    .changed();
    triple(
        &lab,
        "pve_vm_shell",
        json!({"vmid": 100, "unset": ["onboot", "description"]}),
    )
    .changed();
    lab.set(json!({"guest": 100, "status": "running"}));
    triple(&lab, "pve_vm_shell", json!({"vmid": 100, "cores": 4})).changed();
    triple(
        &lab,
        "pve_vm_shell",
        json!({"vmid": 100, "revert": "cores"}),
    )
    .changed();
    assert_eq!(
        lab.guest(100).expect("the guest")["config"]["cores"]
            .to_string()
            .trim_matches('"'),
        "2"
    );
    triple(
        &lab,
        "pve_vm_shell",
        json!({"vmid": 100, "node": "pve2", "migrate": true}),
    )
    .changed();
    triple(
        &lab,
        "pve_vm_shell",
        json!({"clone": "web", "newid": 150, "name": "copy", "memory": 2048, "tags": ["copy"], "net": {"net0": "virtio,bridge=vmbr1"}}),
    )
    .changed();
}

/// What no token may set: written by the login of root, refused for its token before anything is sent, and unchanged on a rerun.
#[test]
fn options_for_the_login_of_root() {
    let mut w = worlds::one_guest();
    w["pve"]["storage"][0]["content"] = json!("images,iso,import,snippets");
    let lab = Lab::start(w);
    for (name, value) in [
        ("affinity", json!("0,2-3")),
        ("args", json!("-no-reboot")),
        (
            "spice_enhancements",
            json!("foldersharing=1,videostreaming=all"),
        ),
        ("hostpci", json!({"hostpci0": "0000:01:00.0,pcie=0"})),
        ("usb", json!({"usb0": "host=1234:5678"})),
        ("serial", json!({"serial1": "/dev/ttyS0"})),
        ("parallel", json!({"parallel0": "/dev/parport0"})),
        ("hugepages", json!("2")),
        ("keephugepages", json!(true)),
        ("vmgenid", json!("8e495824-3216-461d-adf2-9b4a6c590dff")),
        ("amd_sev", json!("std")),
        ("ivshmem", json!("size=32,name=shm")),
    ] {
        let mut args = json!({"vmid": 100});
        args[name] = value;
        let d = lab.call("pve_vm_shell", args.clone()).run();
        assert!(
            d.of_kind("write").is_empty() || !d.is_failed(),
            "{name}: half done: {}",
            d.msg()
        );
        let as_root = {
            let mut all = lab.user("root@pam");
            for (k, v) in args.as_object().expect("an object") {
                all[k] = v.clone();
            }
            lab.bare("pve_vm_shell", all)
        };
        let t = triple_with(&lab, &as_root);
        if t.apply.is_failed() {
            panic!("{name}: {}", t.apply.msg());
        }
        println!(
            "{name}: token {}, root {}",
            !d.is_failed(),
            t.apply.changed()
        );
    }
}
