//! Planner tests of `pve_nic`; numbers are those of docs/bugs.md (p..) and docs/peers-proxmox.md (n..).
mod common;

use common::{Site, failure, only_step, try_make};
use proptest::prelude::*;
use pve::keys::PveKey;
use serde_json::{Value, json};

const NET0: &str =
    "virtio=BC:24:11:00:00:01,bridge=vmbr0,firewall=1,mtu=1400,tag=20,trunks=10-20;30";

fn site() -> Site {
    let mut s = Site::new();
    s.guest(103, json!({"name": "web", "net0": NET0, "boot": "order=scsi0;net0", "scsi0": "local:103/vm-103-disk-0.raw,size=8G"}));
    s
}

#[test]
fn p24_untouched_nic_options_survive() {
    let mut s = site();
    let r = s.converges(
        "pve_nic",
        json!({"vmid": 103, "interface": "net0", "link_down": true}),
    );
    let p = only_step(&r);
    assert_eq!(
        p["net0"],
        "virtio=BC:24:11:00:00:01,bridge=vmbr0,firewall=1,link_down=1,mtu=1400,tag=20,trunks=10-20;30"
    );
    assert_eq!(p["digest"], "<digest as read>");
    assert_eq!(
        p.len(),
        2,
        "nothing but the card and the digest is sent: {p:?}"
    );
    assert_eq!(r.keys["msg"], "Nic net0 updated on VM with vmid 103");
}

#[test]
fn p23_the_mac_is_kept_when_a_tag_is_set() {
    let mut s = Site::new();
    s.guest(
        103,
        json!({"net0": "virtio=bc:24:11:00:00:01,bridge=vmbr0"}),
    );
    let r = s.converges(
        "pve_nic",
        json!({"vmid": 103, "interface": "net0", "tag": "5"}),
    );
    assert_eq!(
        only_step(&r)["net0"],
        "virtio=bc:24:11:00:00:01,bridge=vmbr0,tag=5"
    );
}

#[test]
fn n02_n03_n04_n05_notation_is_no_difference() {
    let mut s = Site::new();
    s.guest(103, json!({"net0": "virtio=BC:24:11:00:00:01,bridge=vmbr0,firewall=0,link_down=0,rate=10,trunks=30;10-12"}));
    let r = s.check(
        "pve_nic",
        json!({"vmid": 103, "interface": "net0", "mac": "bc:24:11:00:00:01", "firewall": false, "rate": 10.0, "trunks": [10, "11-12", 30], "bridge": "vmbr0"}),
    );
    assert_eq!(r.keys["changed"], json!(false), "{:#?}", r.keys);
    assert_eq!(r.keys["msg"], "Nic net0 unchanged on VM with vmid 103");
    assert_eq!(
        s.read,
        [PveKey::Guest(103).key()],
        "one fact is enough to see that nothing is to be done"
    );
}

#[test]
fn n06_other_models_and_unknown_keys_survive() {
    let mut s = Site::new();
    s.guest(
        103,
        json!({"net0": "e1000e=BC:24:11:00:00:01,bridge=vmbr0,host-tunnel=1,newkey=x"}),
    );
    let r = s.converges(
        "pve_nic",
        json!({"vmid": 103, "interface": "net0", "bridge": "vmbr1"}),
    );
    assert_eq!(
        only_step(&r)["net0"],
        "e1000e=BC:24:11:00:00:01,bridge=vmbr1,host-tunnel=1,newkey=x"
    );
}

#[test]
fn n07_only_network_cards_are_touched() {
    for bad in ["scsi0", "memory", "net32", "net", "net00"] {
        let e = try_make(
            "pve_nic",
            json!({"vmid": 103, "interface": bad, "state": "absent"}),
        )
        .err()
        .expect("refused");
        assert_eq!(e[0].path, "interface");
    }
}

#[test]
fn n08_ranges_are_checked() {
    for (name, bad) in [("tag", 0), ("tag", 4095), ("mtu", 65521), ("queues", 65)] {
        let e = try_make(
            "pve_nic",
            json!({"vmid": 103, "interface": "net0", name: bad}),
        )
        .err()
        .expect("refused");
        assert_eq!(e[0].path, name);
    }
    let mut s = Site::new();
    s.guest(103, json!({"net0": "e1000=BC:24:11:00:00:01,bridge=vmbr0"}));
    let r = s.check(
        "pve_nic",
        json!({"vmid": 103, "interface": "net0", "mtu": 1400}),
    );
    assert!(failure(&r, "refused").contains("virtio"));
}

#[test]
fn p25_two_cards_with_one_mac_are_refused() {
    let mut s = site();
    let r = s.check(
        "pve_nic",
        json!({"vmid": 103, "interface": "net1", "mac": "bc:24:11:00:00:01", "bridge": "vmbr0"}),
    );
    let msg = failure(&r, "refused");
    assert!(
        msg.contains("net0") && msg.contains("bc:24:11:00:00:01"),
        "{msg}"
    );
}

#[test]
fn a_new_card_gets_the_peers_defaults_and_our_mac() {
    let mut s = site();
    let r = s.converges(
        "pve_nic",
        json!({"vmid": 103, "interface": "net2", "bridge": "v100"}),
    );
    let mac = pve::naming::mac_for(103, 2, &["pve1", "pve2"]);
    assert_eq!(only_step(&r)["net2"], format!("virtio={mac},bridge=v100"));
    assert_eq!(r.keys["mac"], mac.as_str());
}

#[test]
fn a_bridge_that_is_not_there_is_refused() {
    let mut s = site();
    let r = s.check(
        "pve_nic",
        json!({"vmid": 103, "interface": "net0", "bridge": "vmbr9"}),
    );
    let msg = failure(&r, "refused");
    assert!(msg.contains("vmbr9") && msg.contains("pve1"), "{msg}");
}

#[test]
fn a_list_that_cannot_be_read_refuses_nothing() {
    let mut s = site();
    s.fact(
        PveKey::Bridges("pve1".into()),
        plan::Fact::Unreadable("403".into()),
    );
    let r = s.check(
        "pve_nic",
        json!({"vmid": 103, "interface": "net0", "bridge": "vmbr9"}),
    );
    assert!(!r.is_failed());
    assert!(
        r.keys["unverified"][0]
            .as_str()
            .is_some_and(|u| u.contains("vmbr9"))
    );
}

#[test]
fn unset_removes_and_absent_goes_from_the_boot_order() {
    let mut s = site();
    let r = s.converges(
        "pve_nic",
        json!({"vmid": 103, "interface": "net0", "unset": ["tag", "trunks"]}),
    );
    assert_eq!(
        only_step(&r)["net0"],
        "virtio=BC:24:11:00:00:01,bridge=vmbr0,firewall=1,mtu=1400"
    );
    let r = s.converges(
        "pve_nic",
        json!({"vmid": 103, "interface": "net0", "state": "absent"}),
    );
    assert_eq!(only_step(&r)["delete"], "net0");
    assert_eq!(r.keys["diff"]["after"]["boot"], "order=scsi0");
    assert_eq!(r.keys["msg"], "Nic net0 deleted on VM with vmid 103");
    assert_eq!(r.keys["after"], Value::Null);
}

#[test]
fn absent_of_a_missing_guest_is_unchanged_and_present_is_not_found() {
    let mut s = Site::new();
    s.free(103);
    let r = s.check(
        "pve_nic",
        json!({"vmid": 103, "interface": "net0", "state": "absent"}),
    );
    assert_eq!(r.keys["changed"], json!(false));
    let r = s.check("pve_nic", json!({"vmid": 103, "interface": "net0"}));
    failure(&r, "not_found");
}

#[test]
fn p19_a_container_is_a_clear_error() {
    let mut s = Site::new();
    s.put(
        PveKey::Guest(101),
        json!({"vmid": 101, "node": "pve1", "type": "lxc", "name": "ct"}),
    );
    let r = s.check("pve_nic", json!({"vmid": 101, "interface": "net0"}));
    assert!(failure(&r, "refused").contains("101 is a container"));
}

#[test]
fn a_name_must_be_unique() {
    let mut s = Site::new();
    s.guest(103, json!({"name": "web"}))
        .guest(104, json!({"name": "web"}));
    let r = s.check("pve_nic", json!({"name": "web", "interface": "net0"}));
    assert!(failure(&r, "refused").contains("103, 104"));
}

#[test]
fn p57_p58_a_running_guest_reports_what_is_pending() {
    let mut s = site();
    s.running(103);
    let r = s.converges(
        "pve_nic",
        json!({"vmid": 103, "interface": "net0", "model": "e1000", "unset": ["mtu"]}),
    );
    assert!(
        r.keys["pending"]["net0"]
            .as_str()
            .is_some_and(|p| p.starts_with("e1000=")),
        "{:#?}",
        r.keys
    );
    assert_eq!(r.keys["plan"][0]["disruptive"], json!(true));
    let mut s = site();
    s.running(103);
    let r = s.check(
        "pve_nic",
        json!({"vmid": 103, "interface": "net0", "bridge": "vmbr1"}),
    );
    assert_eq!(r.keys["pending"], json!({}));
    let r = s.check(
        "pve_nic",
        json!({"vmid": 103, "interface": "net0", "state": "absent"}),
    );
    assert_eq!(
        r.keys["pending"],
        json!({"net0": null, "boot": "order=scsi0"})
    );
    let r = s.check(
        "pve_nic",
        json!({"vmid": 103, "interface": "net0", "state": "absent"}),
    );
    assert_eq!(
        (r.keys["changed"].clone(), r.keys["pending"].clone()),
        (json!(false), json!({"net0": null, "boot": "order=scsi0"}))
    );
}

#[test]
fn p48_a_running_task_is_waited_for_and_a_dead_lock_refused() {
    let mut s = site();
    let upid = "UPID:pve1:0000035F:0003BD3F:6B0D7E2D:vzdump:103:root@pam:";
    s.put(PveKey::GuestTasks(103), json!([{"upid": upid, "node": "pve1", "type": "vzdump", "user": "root@pam", "starttime": 1}]));
    s.edit(PveKey::Guest(103), |g| g["lock"] = json!("backup"));
    let r = s.check(
        "pve_nic",
        json!({"vmid": 103, "interface": "net0", "tag": 7}),
    );
    assert!(!r.is_failed(), "{:#?}", r.keys);
    assert!(
        r.keys["waited_for"][0]
            .as_str()
            .is_some_and(|w| w.contains(upid) && w.contains("backup"))
    );

    let mut s = site();
    s.edit(PveKey::Guest(103), |g| g["lock"] = json!("backup"));
    let r = s.check(
        "pve_nic",
        json!({"vmid": 103, "interface": "net0", "tag": 7}),
    );
    assert!(failure(&r, "refused").contains("qm unlock 103"));

    let mut s = site();
    s.edit(PveKey::Guest(103), |g| g["lock"] = json!("backup"));
    s.put(PveKey::Perms("/nodes/pve1".into()), json!({}));
    let r = s.check(
        "pve_nic",
        json!({"vmid": 103, "interface": "net0", "tag": 7}),
    );
    assert!(
        !r.is_failed()
            && r.keys["waited_for"][0]
                .as_str()
                .is_some_and(|w| w.contains("backup")),
        "{:#?}",
        r.keys
    );
    let r = s.check(
        "pve_nic",
        json!({"vmid": 103, "interface": "net0", "tag": 7}),
    );
    assert_eq!(
        r.keys["changed"],
        json!(false),
        "no lock matters to a task that changes nothing"
    );
}

#[test]
fn an_open_console_is_not_waited_for() {
    let mut s = site();
    s.put(PveKey::GuestTasks(103), json!([{"upid": "UPID:x", "node": "pve1", "type": "vncproxy", "user": "root@pam", "starttime": 1}]));
    let r = s.check(
        "pve_nic",
        json!({"vmid": 103, "interface": "net0", "tag": 7}),
    );
    assert!(!r.is_failed() && !r.keys.contains_key("waited_for"));
}

#[test]
fn another_uuid_than_the_guard_is_refused() {
    let mut s = Site::new();
    s.guest(
        103,
        json!({"net0": NET0, "smbios1": "uuid=564d1a2b-3c4d-5e6f-7081-92a3b4c5d6e7"}),
    );
    let ok = "564D1A2B-3C4D-5E6F-7081-92A3B4C5D6E7";
    let r = s.check(
        "pve_nic",
        json!({"vmid": 103, "interface": "net0", "tag": 9, "guard_uuid": ok}),
    );
    assert!(!r.is_failed());
    let other = "564d1a2b-3c4d-5e6f-7081-92a3b4c5d6e8";
    let r = s.check(
        "pve_nic",
        json!({"vmid": 103, "interface": "net0", "tag": 9, "guard_uuid": other}),
    );
    assert!(failure(&r, "refused").contains(other));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    /// P3, P4, P5, P6: whatever is stored and asked for, one run converges, keys that are not named keep their text.
    #[test]
    fn any_card_converges_and_keeps_the_rest(
        model in prop::sample::select(vec!["virtio", "e1000", "e1000e", "vmxnet3"]),
        extra in proptest::collection::btree_map(
            prop::sample::select(vec!["firewall=1", "link_down=1", "queues=4", "rate=10.5", "tag=20", "trunks=5;7-9", "future=x"]), Just(()), 0..5),
        tag in proptest::option::of(1u32..4095),
        firewall in proptest::option::of(any::<bool>()),
        bridge in proptest::option::of(prop::sample::select(vec!["vmbr0", "vmbr1", "v100"])),
        unset in proptest::collection::btree_set(prop::sample::select(vec!["rate", "queues", "trunks"]), 0..3),
    ) {
        let mut stored = format!("{model}=bc:24:11:00:00:0a,bridge=vmbr0");
        for k in extra.keys() {
            stored.push(',');
            stored.push_str(k);
        }
        let mut s = Site::new();
        s.guest(103, json!({"net0": stored, "cores": 2}));
        let mut args = json!({"vmid": 103, "interface": "net0", "unset": unset});
        if let Some(t) = tag { args["tag"] = json!(t); }
        if let Some(f) = firewall { args["firewall"] = json!(f); }
        if let Some(b) = bridge { args["bridge"] = json!(b); }
        let r = s.converges("pve_nic", args);
        let after = r.keys["after"].as_str().expect("a card");
        let p = pve::parse("net0", after).expect("it can be read");
        for k in extra.keys() {
            let (name, value) = k.split_once('=').expect("a pair");
            let named = (name == "tag" && tag.is_some()) || (name == "firewall" && firewall.is_some());
            if !named && !unset.contains(name) {
                prop_assert_eq!(p.get(name), Some(value));
            }
        }
        prop_assert_eq!(p.get("macaddr"), Some("bc:24:11:00:00:0a"));
        for step in r.keys["plan"].as_array().expect("a plan") {
            let touched: Vec<&String> = step["params"].as_object().expect("parameters").keys().collect();
            prop_assert_eq!(touched, ["net0", "digest"]);
        }
    }
}

#[test]
fn p44_p46_missing_privileges_are_refused_before_anything_is_sent() {
    let mut s = site();
    s.put(
        PveKey::WhoAmI,
        json!({"user": "ci@pve", "token": "t", "root_login": false}),
    );
    s.put(
        PveKey::Perms("/vms/103".into()),
        json!({"VM.Config.Network": 1, "VM.Audit": 1}),
    );
    s.put(
        PveKey::Perms("/sdn/zones/localnetwork/vmbr1".into()),
        json!({}),
    );
    s.put(
        PveKey::Perms("/sdn/zones/localnetwork/vmbr1/20".into()),
        json!({}),
    );
    s.put(
        PveKey::Perms("/sdn/zones/localnetwork/vmbr0/20".into()),
        json!({"SDN.Use": 0}),
    );
    for t in (10..=20).chain([30]) {
        for b in ["vmbr0", "vmbr1"] {
            s.put(
                PveKey::Perms(format!("/sdn/zones/localnetwork/{b}/{t}")),
                json!({"SDN.Use": 0}),
            );
        }
    }
    s.put(
        PveKey::Perms("/sdn/zones/localnetwork/vmbr1/20".into()),
        json!({}),
    );
    let r = s.check(
        "pve_nic",
        json!({"vmid": 103, "interface": "net0", "bridge": "vmbr1"}),
    );
    let msg = failure(&r, "permission");
    assert!(
        msg.contains("SDN.Use on /sdn/zones/localnetwork/vmbr1/20")
            && msg.contains("privilege-separated"),
        "{msg}"
    );
    s.put(
        PveKey::Perms("/sdn/zones/localnetwork/vmbr1/20".into()),
        json!({"SDN.Use": 0}),
    );
    let r = s.check(
        "pve_nic",
        json!({"vmid": 103, "interface": "net0", "bridge": "vmbr1"}),
    );
    assert!(!r.is_failed(), "{:#?}", r.keys);
}

#[test]
fn values_that_the_server_would_not_take_are_refused_before_they_are_sent() {
    for (option, value) in [
        ("rate", "-1"),
        ("bridge", "no bridge"),
        ("model", "ne2k_pci"),
    ] {
        let mut args = json!({"vmid": 100, "interface": "net0"});
        args[option] = json!(value);
        match try_make("pve_nic", args) {
            Ok(_) => assert_eq!(option, "model", "{value} is taken"),
            Err(e) => assert_eq!(e[0].path, option, "{}", e[0].msg),
        }
    }
}
