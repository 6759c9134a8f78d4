//! Planner tests of `vsphere_portgroups` and `vsphere_vm_info`; V-numbers are those of docs/peers-vsphere.md.
mod vc;

use plan::{ErrorKind, Fact};
use serde_json::{Value, json};
use vc::{Site, failure};
use vsphere::keys::{VcKey, VmBy};
use vsphere::networks::{Object, report};
use vsphere::vm::{Place, fact};

const VLAN: &str = "vim.dvs.VmwareDistributedVirtualSwitch";

fn object(ty: &str, moid: &str, dc: &str, props: Value) -> Object {
    Object {
        ty: ty.into(),
        moid: moid.into(),
        props,
        datacenter: json!({"moid": format!("datacenter-{dc}"), "name": dc}),
    }
}

fn value(v: Value) -> Value {
    json!({"inherited": false, "value": v})
}

/// A portgroup as a server with all policies has it.
fn portgroup(moid: &str, name: &str, switch: &str, dc: &str, vlan: Value) -> Object {
    let config = json!({
        "key": moid, "name": name, "numPorts": 8, "description": null, "type": "earlyBinding", "autoExpand": true,
        "distributedVirtualSwitch": format!("vim.dvs.VmwareDistributedVirtualSwitch:{switch}"),
        "policy": {"blockOverrideAllowed": true, "shapingOverrideAllowed": false, "vendorConfigOverrideAllowed": false, "livePortMovingAllowed": false,
                   "portConfigResetAtDisconnect": true, "networkResourcePoolOverrideAllowed": false, "trafficFilterOverrideAllowed": false,
                   "vlanOverrideAllowed": false, "uplinkTeamingOverrideAllowed": false, "ipfixOverrideAllowed": false},
        "defaultPortConfig": {
            "vlan": vlan,
            "uplinkTeamingPolicy": {"policy": value(json!("loadbalance_srcid")), "reversePolicy": value(json!(true)), "notifySwitches": value(json!(true)),
                                    "rollingOrder": value(json!(false)), "uplinkPortOrder": {"activeUplinkPort": ["uplink1", "uplink2"], "standbyUplinkPort": []}},
            "macManagementPolicy": {"allowPromiscuous": false, "macChanges": false, "forgedTransmits": false,
                                    "macLearningPolicy": {"enabled": false, "allowUnicastFlooding": true, "limit": 4096, "limitPolicy": "DROP"}},
        },
    });
    object(
        "DistributedVirtualPortgroup",
        moid,
        dc,
        json!({"name": name, "key": moid, "config": config}),
    )
}

fn switch(moid: &str, name: &str, dc: &str, portgroups: &[&str]) -> Object {
    let refs: Vec<String> = portgroups
        .iter()
        .map(|p| format!("vim.dvs.DistributedVirtualPortgroup:{p}"))
        .collect();
    object(
        "VmwareDistributedVirtualSwitch",
        moid,
        dc,
        json!({"name": name, "uuid": moid, "portgroup": refs, "config": {}}),
    )
}

fn vlan(kind: &str, key: &str, v: Value) -> Value {
    json!({"_vimtype": format!("{VLAN}.{kind}"), "inherited": false, key: v})
}

fn site(objects: &[Object]) -> Site {
    let mut s = Site::new();
    s.put(VcKey::Networks { datacenter: None }, report(objects));
    s
}

/// Keys and types, with the items of lists and optional values left open.
fn shape(v: &Value) -> Value {
    match v {
        Value::Object(m) => m.iter().map(|(k, v)| (k.clone(), shape(v))).collect(),
        Value::Array(_) => json!("list"),
        Value::Null | Value::String(_) => json!("text"),
        Value::Bool(_) => json!("bool"),
        Value::Number(_) => json!("number"),
    }
}

#[test]
fn portgroups_have_the_peers_shape() {
    let recorded: Value = serde_json::from_str(include_str!(
        "../../../tests/fixtures/vsphere/results/dvspg_vlan.json"
    ))
    .unwrap();
    let peers = &recorded["result"]["dvs_portgroup_info"]["DVS0"];
    let ours = site(&[
        switch(
            "dvs-9",
            "DVS0",
            "DC0",
            &["dvportgroup-11", "dvportgroup-13", "dvportgroup-15"],
        ),
        portgroup(
            "dvportgroup-13",
            "DC0_DVPG0",
            "dvs-9",
            "DC0",
            vlan("VlanIdSpec", "vlanId", json!(0)),
        ),
        portgroup(
            "dvportgroup-15",
            "p",
            "dvs-9",
            "DC0",
            vlan("PvlanSpec", "pvlanId", json!(201)),
        ),
        portgroup(
            "dvportgroup-11",
            "DVS0-DVUplinks-9",
            "dvs-9",
            "DC0",
            vlan(
                "TrunkVlanSpec",
                "vlanId",
                json!([{"start": 0, "end": 4094}]),
            ),
        ),
    ])
    .check("vsphere_portgroups", json!({}));
    let ours = &ours.keys["dvs_portgroup_info"]["DVS0"];
    // In the switch's own order, whatever the server's list had.
    assert_eq!(ours[0]["portgroup_name"], "DVS0-DVUplinks-9");
    let peer = |name: &str| {
        peers
            .as_array()
            .unwrap()
            .iter()
            .find(|p| p["portgroup_name"] == name)
            .unwrap()
    };
    for (i, name) in [(0, "DVS0-DVUplinks-9"), (1, "DC0_DVPG0")] {
        assert_eq!(shape(&ours[i]), shape(peer(name)), "{name}");
        for section in [
            "vlan_info",
            "teaming_policy",
            "port_policy",
            "mac_learning",
            "network_policy",
            "active_uplinks",
        ] {
            assert_eq!(ours[i][section], peer(name)[section], "{name} {section}");
        }
    }
    assert_eq!(
        ours[2]["vlan_info"],
        json!({"trunk": false, "pvlan": true, "vlan_id": "201"})
    );
}

#[test]
fn sections_that_are_switched_off_are_empty_as_the_peers() {
    let recorded: Value = serde_json::from_str(include_str!(
        "../../../tests/fixtures/vsphere/results/dvspg_minimal.json"
    ))
    .unwrap();
    let mut args = recorded["args"].clone();
    args.as_object_mut().unwrap().remove("datacenter");
    args["show_vlan_info"] = json!(false);
    let r = site(&[
        switch("dvs-9", "DVS0", "DC0", &["dvportgroup-11"]),
        portgroup(
            "dvportgroup-11",
            "x",
            "dvs-9",
            "DC0",
            vlan("VlanIdSpec", "vlanId", json!(5)),
        ),
    ])
    .check("vsphere_portgroups", args);
    let (ours, peers) = (
        &r.keys["dvs_portgroup_info"]["DVS0"][0],
        &recorded["result"]["dvs_portgroup_info"]["DVS0"][0],
    );
    assert_eq!(shape(ours), shape(peers));
    for k in [
        "mac_learning",
        "network_policy",
        "port_policy",
        "teaming_policy",
        "vlan_info",
    ] {
        assert_eq!(ours[k], json!({}), "{k}");
    }
    assert_eq!(ours["active_uplinks"], json!([]));
}

#[test]
fn v1_1_an_old_switch_does_not_crash() {
    let mut p = portgroup("dvportgroup-1", "old", "dvs-9", "DC0", Value::Null);
    p.props["config"]["defaultPortConfig"] =
        json!({"securityPolicy": {"forgedTransmits": value(json!(true))}});
    let bare = object(
        "DistributedVirtualPortgroup",
        "dvportgroup-2",
        "DC0",
        json!({"name": "bare", "config": {"distributedVirtualSwitch": "vim.DistributedVirtualSwitch:dvs-9"}}),
    );
    let r = site(&[
        switch("dvs-9", "DVS0", "DC0", &["dvportgroup-1", "dvportgroup-2"]),
        p,
        bare,
    ])
    .check("vsphere_portgroups", json!({}));
    let l = &r.keys["dvs_portgroup_info"]["DVS0"];
    assert_eq!(
        (
            &l[0]["mac_learning"],
            &l[0]["network_policy"]["forged_transmits"]
        ),
        (&json!({}), &json!(true))
    );
    assert_eq!(
        l[0]["vlan_info"],
        json!({"trunk": false, "pvlan": false, "vlan_id": "0"})
    );
    assert_eq!(l[1]["portgroup_name"], "bare");
    assert_eq!(l[1]["teaming_policy"], json!({}));
}

/// V1.7: a VLAN object of a kind that nobody knows, and one without an id, lose nothing else.
#[test]
fn v1_7_a_vlan_of_an_unknown_kind_does_not_crash() {
    let r = site(&[
        switch("dvs-9", "d", "DC0", &["p-1", "p-2", "p-3"]),
        portgroup(
            "p-1",
            "foreign",
            "dvs-9",
            "DC0",
            json!({"_vimtype": "vim.dvs.VmwareDistributedVirtualSwitch.VlanSpec", "inherited": false}),
        ),
        portgroup(
            "p-2",
            "no id",
            "dvs-9",
            "DC0",
            json!({"_vimtype": format!("{VLAN}.VlanIdSpec"), "inherited": false}),
        ),
        portgroup("p-3", "web", "dvs-9", "DC0", vlan("VlanIdSpec", "vlanId", json!(7))),
    ])
    .check("vsphere_portgroups", json!({}));
    assert_eq!(
        r.keys["dvs_portgroup_info"]["d"].as_array().map(Vec::len),
        Some(3)
    );
    assert_eq!(r.keys["vlan_map"], json!({"p-3": 7}), "nothing is guessed");
}

#[test]
fn v1_3_a_switch_is_found_by_name_and_two_are_told_apart() {
    let both = [
        switch("dvs-1", "DVS%2f0", "DC0", &["dvportgroup-1"]),
        switch("dvs-2", "DVS%2f0", "DC1", &["dvportgroup-2"]),
        portgroup(
            "dvportgroup-1",
            "a",
            "dvs-1",
            "DC0",
            vlan("VlanIdSpec", "vlanId", json!(1)),
        ),
        portgroup(
            "dvportgroup-2",
            "b",
            "dvs-2",
            "DC1",
            vlan("VlanIdSpec", "vlanId", json!(2)),
        ),
    ];
    // V1.4: one spelling for the switch as for the portgroup; nothing of either is lost.
    let r = site(&both).check("vsphere_portgroups", json!({}));
    assert_eq!(
        r.keys["dvs_portgroup_info"]["DVS/0"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    assert_eq!(
        r.keys["vlan_map"],
        json!({"dvportgroup-1": 1, "dvportgroup-2": 2})
    );
    let r = site(&both).check("vsphere_portgroups", json!({"dvswitch": "DVS/0"}));
    assert!(failure(&r, ErrorKind::Refused).contains("dvs-1 in DC0, dvs-2 in DC1"));
    let r = site(&both).check("vsphere_portgroups", json!({"dvswitch": "dvs-2"}));
    assert_eq!(r.keys["vlan_map"], json!({"dvportgroup-2": 2}));
    let r = site(&both).check("vsphere_portgroups", json!({"dvswitch": "nope"}));
    assert!(failure(&r, ErrorKind::NotFound).contains("DVS/0"));
    // Only what lies in the datacenter counts.
    let mut s = Site::new();
    s.put(
        VcKey::Networks {
            datacenter: Some("DC1".into()),
        },
        report(&both[1..2]),
    );
    let r = s.check(
        "vsphere_portgroups",
        json!({"datacenter": "DC1", "dvswitch": "DVS/0"}),
    );
    assert!(!r.is_failed(), "{:?}", r.keys);
}

#[test]
fn every_network_is_either_mapped_or_told_why_not() {
    let r = site(&[
        switch("dvs-9", "d", "DC0", &["p-1", "p-2"]),
        portgroup(
            "p-1",
            "web",
            "dvs-9",
            "DC0",
            vlan("VlanIdSpec", "vlanId", json!(7)),
        ),
        portgroup(
            "p-2",
            "trunk",
            "dvs-9",
            "DC0",
            vlan("TrunkVlanSpec", "vlanId", json!([{"start": 1, "end": 5}])),
        ),
        object("Network", "network-1", "DC0", json!({"name": "VM Network"})),
    ])
    .check("vsphere_portgroups", json!({}));
    assert_eq!(r.keys["vlan_map"], json!({"p-1": 7}));
    let why: Vec<&str> = r.keys["not_translated"]
        .as_array()
        .unwrap()
        .iter()
        .map(|n| n["cause"].as_str().unwrap())
        .collect();
    assert_eq!(why, ["trunk", "standard"]);
    assert_eq!(r.keys["portgroups"].as_array().unwrap().len(), 3);
    for p in r.keys["portgroups"].as_array().unwrap() {
        for k in ["name", "key", "switch", "kind", "uplink", "vlan", "nsx"] {
            assert!(p.get(k).is_some(), "{k}");
        }
    }
    assert_eq!(r.keys["changed"], false);
}

/// Two machines, one of them with a disk and a card on a trunk.
fn machines() -> Site {
    let mut s = site(&[
        switch("dvs-9", "d", "DC0", &["p-2"]),
        portgroup(
            "p-2",
            "trunk",
            "dvs-9",
            "DC0",
            vlan("TrunkVlanSpec", "vlanId", json!([{"start": 1, "end": 5}])),
        ),
    ]);
    let nic = json!({"_vimtype": "vim.vm.device.VirtualVmxnet3", "key": 4000, "macAddress": "00:50:56:00:00:01", "deviceInfo": {"label": "Network adapter 1"},
        "backing": {"_vimtype": "vim.vm.device.VirtualEthernetCard.DistributedVirtualPortBackingInfo", "port": {"portgroupKey": "p-2"}}});
    let props = json!({"name": "web", "config": {"uuid": "564d1234-5678-9abc-def0-112233445566", "version": "vmx-19", "guestId": "debian12_64Guest",
        "hardware": {"numCPU": 2, "numCoresPerSocket": 1, "memoryMB": 512, "device": [nic]}}, "runtime": {"powerState": "poweredOff", "connectionState": "connected"}});
    let web = fact("vm-1", &props, &Place::default(), json!([]), &[]);
    let twin = fact(
        "vm-2",
        &json!({"name": "web"}),
        &Place::default(),
        Value::Null,
        &["config.uuid".to_owned()],
    );
    s.put(
        VcKey::Vms { datacenter: None },
        json!([web.clone(), twin.clone()]),
    );
    s.put(VcKey::VmNames, json!([{"moid": "vm-1", "name": "web", "path": "/a"}, {"moid": "vm-2", "name": "web", "path": "/b"}]));
    s.fact(
        VcKey::Vm {
            by: VmBy::Moid("vm-1".into()),
            datacenter: None,
        },
        Fact::Known(web),
    );
    s.absent(VcKey::Vm {
        by: VmBy::Moid("vm-9".into()),
        datacenter: None,
    });
    s
}

#[test]
fn one_machine_with_its_networks_and_concerns() {
    let r = machines().check(
        "vsphere_vm_info",
        json!({"moid": "vm-1", "guard_uuid": "564D1234-56789ABC-DEF0-112233445566"}),
    );
    let vm = &r.keys["vm"];
    assert_eq!(r.keys["vms"], json!([vm]));
    assert_eq!(vm["smbios_uuid"], "34124d56-7856-bc9a-def0-112233445566");
    assert_eq!(
        (
            &vm["nics"][0]["portgroup"],
            &vm["nics"][0]["switch"],
            &vm["nics"][0]["vlan"]["mode"]
        ),
        (&json!("trunk"), &json!("d"), &json!("trunk"))
    );
    let ids: Vec<&str> = vm["concerns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["id"].as_str().unwrap())
        .collect();
    assert!(
        ids.contains(&"network_trunk") && ids.contains(&"duplicate_name"),
        "{ids:?}"
    );
}

#[test]
fn lists_say_what_is_missing_or_ambiguous() {
    let r = machines().check("vsphere_vm_info", json!({"concerns": false}));
    assert_eq!(r.keys["vms"].as_array().unwrap().len(), 2);
    assert!(r.keys.get("vm").is_none() && r.keys["vms"][0].get("concerns").is_none());
    assert_eq!(r.keys["unverified"], json!(["config.uuid of web"]));
    let r = machines().check("vsphere_vm_info", json!({"moids": ["vm-2", "vm-1"]}));
    assert_eq!(
        (&r.keys["vms"][0]["moid"], &r.keys["vms"][1]["moid"]),
        (&json!("vm-2"), &json!("vm-1"))
    );
    let r = machines().check("vsphere_vm_info", json!({"names": ["web", "nope"]}));
    assert!(failure(&r, ErrorKind::NotFound).contains("nope"));
    let r = machines().check("vsphere_vm_info", json!({"names": ["web"]}));
    assert!(failure(&r, ErrorKind::Refused).contains("vm-1"));
    let r = machines().check("vsphere_vm_info", json!({"moid": "vm-9"}));
    failure(&r, ErrorKind::NotFound);
    let r = machines().check(
        "vsphere_vm_info",
        json!({"moid": "vm-1", "guard_uuid": "564d1234-5678-9abc-def0-112233445567"}),
    );
    assert!(failure(&r, ErrorKind::Refused).contains("another machine"));
}
