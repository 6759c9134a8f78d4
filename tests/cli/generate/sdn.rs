//! Cases of pve_zone and pve_vnet.

use super::{Case, Gen};
use crate::support::worlds;
use serde_json::{Value, json};

/// Zones and vnets, some pending, perhaps somebody's lock.
fn world(g: &mut Gen) -> Value {
    let mut w = worlds::small();
    w["seed"] = json!(1 + g.below(1000));
    let mut zones = vec![json!({"zone": "zv", "type": "vlan", "bridge": "vmbr0"})];
    for z in [
        json!({"zone": "zs", "type": "simple"}),
        json!({"zone": "zx", "type": "vxlan", "peers": "192.0.2.10,192.0.2.11", "mtu": 1450}),
        json!({"zone": "zq", "type": "qinq", "bridge": "vmbr1", "tag": 50}),
        json!({"zone": "zn", "type": "simple", "nodes": "pve1"}),
    ] {
        if g.chance(60) {
            zones.push(z);
        }
    }
    let mut vnets = vec![];
    let mut pending_vnets = vec![];
    let mut pending_zones = vec![];
    for (i, v) in ["v10", "v20", "v30", "v40"].iter().enumerate() {
        if g.chance(60) {
            let zone = zones[g.below(zones.len())].clone();
            let mut vnet = json!({"vnet": v, "zone": zone["zone"]});
            if zone["type"] != "simple" || g.chance(20) {
                vnet["tag"] = json!(10 * (i + 1));
            }
            if g.chance(30) {
                vnet["alias"] = json!(["Office", "Lab 2"][g.below(2)]);
            }
            if g.chance(15) {
                vnet["vlanaware"] = json!(1);
            }
            if g.chance(15) {
                vnet["isolate-ports"] = json!(1);
            }
            if g.chance(3) {
                pending_vnets.push(vnet);
            } else {
                vnets.push(vnet);
            }
        }
    }
    if g.chance(3) {
        pending_zones.push(json!({"zone": "zp", "type": "simple"}));
    }
    w["pve"]["sdn"] = json!({"zones": zones, "vnets": vnets, "pending": {"zones": pending_zones, "vnets": pending_vnets}});
    if g.chance(20) {
        w["pve"]["guests"] = json!([{"vmid": 100, "node": "pve1", "config": {"name": "web", "net0": "virtio=BC:24:11:00:00:01,bridge=v10"}}]);
    }
    if g.chance(3) {
        w["pve"]["nodes"][1]["status"] = json!("offline");
    }
    w
}

fn finish(g: &mut Gen, module: &'static str, world: Value, mut a: Value) -> Case {
    a["timeout"] = g.int(3);
    if g.chance(8) {
        a["apply"] = g.spell(false);
    }
    if g.chance(8) {
        a["allow_pending"] = if g.chance(50) {
            json!(["v10", "v20", "zp"])
        } else {
            g.spell(true)
        };
    }
    let mut c = Case::new(module, world, a);
    if g.chance(6) {
        c.before.push((
            "pve_vnet",
            json!({"zone": "zv", "vnet": "v50", "tag": 77, "apply": false}),
        ));
    }
    if g.chance(4) {
        c.before.push((
            "pve_zone",
            json!({"zone": "zv", "mtu": 1400, "apply": false}),
        ));
    }
    if g.chance(3) {
        c.before.push((
            "pve_vnet",
            json!({"vnet": "v10", "state": "absent", "apply": false}),
        ));
    }
    if g.chance(4) {
        c.patches.push(json!({"sdn_lock": true}));
        // Without break_lock it waits, and whether that ends well nobody foresees.
        c.args.insert("break_lock".into(), json!(true));
    }
    c.login = g.weighted(&[(80, "root"), (15, "deploy"), (5, "token")]);
    c
}

pub fn zone(g: &mut Gen) -> Case {
    let w = world(g);
    let zone = g.weighted(&[
        (20, "zv"),
        (15, "zs"),
        (15, "zx"),
        (12, "zq"),
        (12, "zn"),
        (8, "zp"),
        (30, "znew"),
        (2, "9bad"),
        (1, "waytoolong9"),
    ]);
    let mut a = json!({"zone": zone});
    if g.chance(15) {
        a["state"] = json!("absent");
        return finish(g, "pve_zone", w, a);
    }
    let kind = match zone {
        "zv" => "vlan",
        "zs" | "zn" | "zp" => "simple",
        "zx" => "vxlan",
        "zq" => "qinq",
        _ => g.weighted(&[
            (10, "simple"),
            (10, "vlan"),
            (8, "vxlan"),
            (8, "qinq"),
            (2, "evpn"),
            (1, "faucet"),
        ]),
    };
    let there = w["pve"]["sdn"]["zones"]
        .as_array()
        .is_some_and(|l| l.iter().any(|z| z["zone"] == zone));
    if !there || g.chance(95) {
        a["type"] = json!(if there && g.chance(4) { "simple" } else { kind });
    }
    if g.chance(35) {
        a["nodes"] = json!(g.weighted(&[(5, "pve1"), (4, "pve2,pve1"), (3, "pve2"), (1, "pve9")]));
    }
    if g.chance(40) {
        let n = g.weighted(&[(4, 1400i64), (3, 1450), (3, 9000), (1, -5)]);
        a["mtu"] = g.int(n);
    }
    if g.chance(12) {
        a["ipam"] = json!(g.weighted(&[(4, "pve"), (1, "none")]));
    }
    match kind {
        "vlan" | "qinq" => {
            if !there || g.chance(40) {
                a["bridge"] =
                    json!(g.weighted(&[(5, "vmbr0"), (5, "vmbr1"), (1, "vmbr9"), (1, "v10")]));
            }
            if kind == "qinq" && (!there || g.chance(40)) {
                let n = g.weighted(&[(4, 50i64), (4, 60), (1, 0), (1, 5000)]);
                a["tag"] = g.int(n);
                if g.chance(40) {
                    a["vlan_protocol"] = json!(g.pick(&["802.1q", "802.1ad"]));
                }
            }
        }
        "vxlan" => {
            if !there || g.chance(40) {
                a["peers"] = json!(g.weighted(&[
                    (5, "192.0.2.11,192.0.2.10"),
                    (4, "192.0.2.12"),
                    (1, "nonsense")
                ]));
            }
            if g.chance(20) {
                a["vxlan_port"] = g.int(4790);
            }
        }
        "simple" => {
            if g.chance(15) {
                a["dhcp"] = json!("dnsmasq");
            }
        }
        _ => {
            a["controller"] = json!("c1");
            a["vrf_vxlan"] = g.int(100);
        }
    }
    if g.chance(8) {
        a["bridge_disable_mac_learning"] = g.bool();
    }
    if g.chance(15) {
        a["unset"] = g
            .weighted(&[(3, "mtu"), (3, "nodes"), (1, "ipam"), (1, "vlan_protocol")])
            .into();
    }
    if g.chance(5) {
        a["update"] = g.spell(false);
    }
    finish(g, "pve_zone", w, a)
}

fn one_vnet(g: &mut Gen, w: &Value) -> Value {
    let known: Vec<Value> = w["pve"]["sdn"]["vnets"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let name = g.weighted(&[
        (20, "v10"),
        (15, "v20"),
        (10, "v30"),
        (25, "vnew"),
        (15, "vnew2"),
        (1, "v-bad"),
        (1, "waytoolong9"),
    ]);
    let old = known.iter().find(|v| v["vnet"] == name);
    let mut a = json!({"vnet": name});
    if g.chance(15) {
        a["state"] = json!("absent");
        return a;
    }
    let zones: Vec<Value> = w["pve"]["sdn"]["zones"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let zone = match old {
        Some(v) if g.chance(94) => zones.iter().find(|z| z["zone"] == v["zone"]).cloned(),
        _ => None,
    }
    .unwrap_or_else(|| zones[g.below(zones.len())].clone());
    if g.chance(95) {
        a["zone"] = if g.chance(3) {
            json!("nozone")
        } else {
            zone["zone"].clone()
        };
    }
    let old_tag = old.and_then(|v| v["tag"].as_i64());
    if zone["type"] != "simple" || g.chance(10) {
        let n = match old_tag {
            Some(t) if g.chance(88) => t,
            _ => g.weighted(&[(5, 100i64), (5, 200), (1, 10), (1, 5000), (1, 20_000_000)]),
        };
        if g.chance(95) {
            a["tag"] = g.int(n);
        }
    }
    if g.chance(45) {
        a["alias"] = json!(g.weighted(&[
            (5, "Office"),
            (5, "New alias"),
            (2, "Büro (2. Stock)"),
            (1, "a/b:c")
        ]));
    }
    if g.chance(25) {
        a["vlanaware"] = g.bool();
    }
    if g.chance(25) {
        a["isolate_ports"] = g.bool();
    }
    if g.chance(15) {
        a["unset"] = g
            .weighted(&[(3, "alias"), (2, "tag"), (1, "vlanaware")])
            .into();
    }
    if g.chance(20) {
        a["move"] = g.spell(true);
    }
    a
}

pub fn vnet(g: &mut Gen) -> Case {
    let w = world(g);
    let a = if g.chance(25) {
        let list: Vec<Value> = (0..1 + g.below(3)).map(|_| one_vnet(g, &w)).collect();
        json!({"vnets": list})
    } else {
        one_vnet(g, &w)
    };
    finish(g, "pve_vnet", w, a)
}
