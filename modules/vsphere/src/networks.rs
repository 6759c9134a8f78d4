//! Portgroups and other networks in one shape.

use crate::path::decode_name;
use crate::value::{at, class, flag, int, list, moid, moid_at, text};
use serde_json::{Map, Value, json};

/// One object as it was read: its type, id, properties, and the datacenter that it is in (`{moid, name}` or null).
#[derive(Clone, Debug)]
pub struct Object {
    /// WSDL type.
    pub ty: String,
    /// Managed object id.
    pub moid: String,
    /// Property tree.
    pub props: Value,
    /// Where.
    pub datacenter: Value,
}

/// A VLAN in our shape: `{mode: access|trunk|pvlan|none, id, ranges, pvlan_id}`.
fn vlan_shape(mode: &str, id: Option<i64>, ranges: &[(i64, i64)], pvlan: Option<i64>) -> Value {
    let ranges: Vec<Value> = ranges.iter().map(|(a, b)| json!([a, b])).collect();
    json!({"mode": mode, "id": id, "ranges": ranges, "pvlan_id": pvlan})
}

fn ranges(spec: &Value) -> Vec<(i64, i64)> {
    list(spec, "vlanId")
        .iter()
        .filter_map(|r| Some((int(r, "start")?, int(r, "end")?)))
        .collect()
}

/// The VLAN of a distributed portgroup: its own, or the switch's where it is unset or inherited.
fn vlan_of(config: &Value, switch: Option<&Value>) -> Value {
    let own = at(config, "defaultPortConfig.vlan");
    let of_switch = switch.and_then(|s| at(s, "config.defaultPortConfig.vlan"));
    let spec = match own {
        None => of_switch,
        Some(v) if flag(v, "inherited") => of_switch.or(own),
        Some(v) => Some(v),
    };
    let Some(spec) = spec else {
        return vlan_shape("none", None, &[], None);
    };
    match class(spec) {
        "VlanIdSpec" => match int(spec, "vlanId") {
            Some(id @ 1..=4094) => vlan_shape("access", Some(id), &[], None),
            _ => vlan_shape("none", None, &[], None),
        },
        "TrunkVlanSpec" => vlan_shape("trunk", None, &ranges(spec), None),
        "PvlanSpec" => vlan_shape("pvlan", None, &[], int(spec, "pvlanId")),
        _ => vlan_shape("none", None, &[], None),
    }
}

fn is_switch(o: &Object) -> bool {
    o.ty.ends_with("DistributedVirtualSwitch")
}

/// Everything about networks, from switches, portgroups, networks and hosts as they were read.
///
/// `{switches: [{moid, name, raw_name, uuid, datacenter, portgroups: [moid], pvlans: [{primary, secondary, type}]}], networks: [..]}`;
/// each network `{name, raw_name, key, moid, switch, switch_moid, datacenter, kind: distributed|standard|opaque, uplink,
/// vlan: {mode, id, ranges: [[from, to]], pvlan_id}, nsx, hosts: [name], config}` with the raw `config` of a distributed portgroup.
/// A standard portgroup whose hosts disagree about VLAN or switch stands once per variant (docs/vsphere-facts.md section 5).
pub fn report(objects: &[Object]) -> Value {
    let switches: Vec<&Object> = objects.iter().filter(|o| is_switch(o)).collect();
    let hosts: Vec<&Object> = objects.iter().filter(|o| o.ty == "HostSystem").collect();
    let host_name = |m: &str| -> Value {
        let h = hosts.iter().find(|h| h.moid == m);
        json!(
            h.and_then(|h| text(&h.props, "name"))
                .map_or_else(|| m.to_owned(), decode_name)
        )
    };
    let mut networks = vec![];
    for o in objects {
        match o.ty.as_str() {
            "DistributedVirtualPortgroup" => networks.push(distributed(o, &switches)),
            "OpaqueNetwork" => {
                let id = text(&o.props, "summary.opaqueNetworkId");
                networks.push(network(
                    o,
                    "opaque",
                    id.unwrap_or(&o.moid),
                    None,
                    vlan_shape("none", None, &[], None),
                    |m| {
                        m.insert("nsx".into(), json!(true));
                        let on: Vec<Value> = list(&o.props, "host")
                            .iter()
                            .filter_map(Value::as_str)
                            .map(|h| host_name(moid(h)))
                            .collect();
                        m.insert("hosts".into(), json!(on));
                    },
                ));
            }
            "Network" => networks.extend(standard(o, &hosts)),
            _ => {}
        }
    }
    let switches: Vec<Value> = switches
        .iter()
        .map(|s| {
            let raw = text(&s.props, "name").unwrap_or("");
            let pvlans: Vec<Value> = list(&s.props, "config.pvlanConfig")
                .iter()
                .map(|p| json!({"primary": int(p, "primaryVlanId"), "secondary": int(p, "secondaryVlanId"), "type": text(p, "pvlanType")}))
                .collect();
            let groups: Vec<&str> = list(&s.props, "portgroup").iter().filter_map(Value::as_str).map(moid).collect();
            json!({
                "moid": s.moid, "name": decode_name(raw), "raw_name": raw, "uuid": text(&s.props, "uuid"),
                "datacenter": s.datacenter, "portgroups": groups, "pvlans": pvlans,
            })
        })
        .collect();
    json!({"switches": switches, "networks": networks})
}

fn network(
    o: &Object,
    kind: &str,
    key: &str,
    switch: Option<&str>,
    vlan: Value,
    more: impl FnOnce(&mut Map<String, Value>),
) -> Value {
    let raw = text(&o.props, "name").unwrap_or("");
    let mut m = Map::new();
    for (k, v) in [
        ("name", json!(decode_name(raw))),
        ("raw_name", json!(raw)),
        ("key", json!(key)),
        ("moid", json!(o.moid)),
        ("switch", json!(switch)),
        ("switch_moid", Value::Null),
        ("datacenter", o.datacenter.clone()),
        ("kind", json!(kind)),
        ("uplink", json!(false)),
        ("vlan", vlan),
        ("nsx", json!(false)),
        ("hosts", json!([])),
        ("config", Value::Null),
    ] {
        m.insert(k.to_owned(), v);
    }
    more(&mut m);
    Value::Object(m)
}

fn distributed(o: &Object, switches: &[&Object]) -> Value {
    let config = at(&o.props, "config").cloned().unwrap_or(Value::Null);
    // The reference from the portgroup is unset without System.Read on the switch (docs/vsphere-facts.md section 10); the switch's
    // own list is the other way.
    let by_ref = moid_at(&config, "distributedVirtualSwitch");
    let me = |l: &[Value]| {
        l.iter()
            .filter_map(Value::as_str)
            .any(|r| moid(r) == o.moid)
    };
    let switch = switches
        .iter()
        .find(|s| by_ref == Some(s.moid.as_str()) || me(list(&s.props, "portgroup")))
        .copied();
    let name = switch.and_then(|s| text(&s.props, "name")).map(decode_name);
    let key = text(&config, "key")
        .or_else(|| text(&o.props, "key"))
        .unwrap_or(&o.moid);
    // Any of the three marks, since none exists in all versions (docs/vsphere-facts.md section 5).
    let uplink = flag(&config, "uplink")
        || list(&o.props, "tag")
            .iter()
            .any(|t| text(t, "key") == Some("SYSTEM/DVS.UPLINKPG"))
        || switch.is_some_and(|s| me(list(&s.props, "config.uplinkPortgroup")));
    let nsx = text(&config, "backingType").is_some_and(|b| b.eq_ignore_ascii_case("nsx"))
        || text(&config, "logicalSwitchUuid").is_some_and(|u| !u.is_empty())
        || text(&config, "segmentId").is_some_and(|u| !u.is_empty());
    let vlan = vlan_of(&config, switch.map(|s| &s.props));
    network(o, "distributed", key, name.as_deref(), vlan, |m| {
        m.insert(
            "switch_moid".into(),
            json!(
                switch
                    .map(|s| s.moid.clone())
                    .or_else(|| by_ref.map(str::to_owned))
            ),
        );
        m.insert("uplink".into(), json!(uplink));
        m.insert("nsx".into(), json!(nsx));
        m.insert("config".into(), config.clone());
    })
}

fn standard(o: &Object, hosts: &[&Object]) -> Vec<Value> {
    let raw = text(&o.props, "name").unwrap_or("");
    let members: Vec<&str> = list(&o.props, "host")
        .iter()
        .filter_map(Value::as_str)
        .map(moid)
        .collect();
    // VLAN and switch -> hosts; a list, so that the order is that of the hosts.
    let mut variants: Vec<((i64, String), Vec<String>)> = vec![];
    for h in hosts
        .iter()
        .filter(|h| members.is_empty() || members.contains(&h.moid.as_str()))
    {
        let same_dc = moid_of(&h.datacenter) == moid_of(&o.datacenter);
        if !same_dc {
            continue;
        }
        for pg in list(&h.props, "config.network.portgroup") {
            // The network's name is escaped, the host's own spec is not.
            if !text(pg, "spec.name").is_some_and(|n| n == raw || n == decode_name(raw)) {
                continue;
            }
            let variant = (
                int(pg, "spec.vlanId").unwrap_or(0),
                text(pg, "spec.vswitchName").unwrap_or("").to_owned(),
            );
            let host = text(&h.props, "name").map_or_else(|| h.moid.clone(), decode_name);
            match variants.iter_mut().find(|(v, _)| *v == variant) {
                Some((_, on)) => on.push(host),
                None => variants.push((variant, vec![host])),
            }
        }
    }
    if variants.is_empty() {
        return vec![network(
            o,
            "standard",
            &o.moid,
            None,
            vlan_shape("none", None, &[], None),
            |_| {},
        )];
    }
    variants
        .into_iter()
        .map(|((id, switch), on)| {
            // Source: docs/vsphere-facts.md section 5: 0 none, 1-4094 access, 4095 guest trunk.
            let vlan = match id {
                1..=4094 => vlan_shape("access", Some(id), &[], None),
                4095 => vlan_shape("trunk", None, &[(0, 4094)], None),
                _ => vlan_shape("none", None, &[], None),
            };
            network(o, "standard", &o.moid, Some(&switch), vlan, |m| {
                m.insert("hosts".into(), json!(on));
            })
        })
        .collect()
}

fn moid_of(v: &Value) -> Option<&str> {
    text(v, "moid")
}

/// Why a network has no VLAN id of its own that could be taken over: an id and words; `None` if it has one.
pub fn not_translated(n: &Value) -> Option<(&'static str, String)> {
    let s = |k: &str| text(n, k).unwrap_or("");
    let id = match s("kind") {
        "opaque" => "opaque",
        "standard" => "standard",
        _ if flag(n, "uplink") => "uplink",
        _ if flag(n, "nsx") => "nsx",
        _ => match text(n, "vlan.mode").unwrap_or("none") {
            "access" => return None,
            "trunk" => "trunk",
            "pvlan" => "pvlan",
            _ => "untagged",
        },
    };
    let words = match id {
        "opaque" => "an opaque (NSX) network has no VLAN of its own".to_owned(),
        "standard" => match int(n, "vlan.id") {
            Some(v) => format!(
                "a standard portgroup is a matter of each host (VLAN {v} on {})",
                hosts_of(n)
            ),
            None => "a standard portgroup is a matter of each host".to_owned(),
        },
        "uplink" => "an uplink portgroup carries no guests".to_owned(),
        "nsx" => "an NSX segment's VLAN field does not describe it".to_owned(),
        "trunk" => format!("a trunk of VLANs {}", show_ranges(n)),
        "pvlan" => format!(
            "a private VLAN (secondary {})",
            int(n, "vlan.pvlan_id").unwrap_or(0)
        ),
        _ => "untagged (VLAN 0)".to_owned(),
    };
    Some((id, words))
}

fn hosts_of(n: &Value) -> String {
    let hosts: Vec<&str> = list(n, "hosts").iter().filter_map(Value::as_str).collect();
    hosts.join(", ")
}

/// `0-99, 105`.
pub fn show_ranges(n: &Value) -> String {
    let one = |r: &Value| match (r[0].as_i64(), r[1].as_i64()) {
        (Some(a), Some(b)) if a == b => a.to_string(),
        (Some(a), Some(b)) => format!("{a}-{b}"),
        _ => String::new(),
    };
    list(n, "vlan.ranges")
        .iter()
        .map(one)
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn obj(ty: &str, moid: &str, props: Value) -> Object {
        Object {
            ty: ty.into(),
            moid: moid.into(),
            props,
            datacenter: json!({"moid": "datacenter-2", "name": "DC0"}),
        }
    }

    fn vlan(kind: &str, rest: Value) -> Value {
        let mut v = json!({"_vimtype": format!("vim.dvs.VmwareDistributedVirtualSwitch.{kind}")});
        for (k, x) in rest.as_object().expect("object") {
            v[k] = x.clone();
        }
        v
    }

    fn pg(moid: &str, name: &str, vlan: Value, more: Value) -> Object {
        let mut config = json!({"key": moid, "distributedVirtualSwitch": "vim.dvs.VmwareDistributedVirtualSwitch:dvs-9", "defaultPortConfig": {"vlan": vlan}});
        for (k, x) in more.as_object().expect("object") {
            config[k] = x.clone();
        }
        obj(
            "DistributedVirtualPortgroup",
            moid,
            json!({"name": name, "config": config}),
        )
    }

    fn find<'a>(r: &'a Value, name: &str) -> &'a Value {
        r["networks"]
            .as_array()
            .expect("list")
            .iter()
            .find(|n| n["name"] == name)
            .expect(name)
    }

    #[test]
    fn distributed_portgroups_of_all_kinds() {
        let r = report(&[
            obj(
                "VmwareDistributedVirtualSwitch",
                "dvs-9",
                json!({"name": "DVS%2f0", "uuid": "50", "portgroup": [],
                "config": {"uplinkPortgroup": ["vim.dvs.DistributedVirtualPortgroup:dvportgroup-1"],
                           "defaultPortConfig": {"vlan": vlan("VlanIdSpec", json!({"vlanId": 77}))}}}),
            ),
            pg(
                "dvportgroup-1",
                "up",
                vlan(
                    "TrunkVlanSpec",
                    json!({"vlanId": [{"start": 0, "end": 4094}]}),
                ),
                json!({}),
            ),
            pg(
                "dvportgroup-2",
                "web",
                vlan("VlanIdSpec", json!({"vlanId": 100, "inherited": false})),
                json!({}),
            ),
            pg(
                "dvportgroup-3",
                "inherits",
                vlan("VlanIdSpec", json!({"vlanId": 0, "inherited": true})),
                json!({}),
            ),
            pg(
                "dvportgroup-4",
                "zero",
                vlan("VlanIdSpec", json!({"vlanId": 0, "inherited": false})),
                json!({}),
            ),
            pg(
                "dvportgroup-5",
                "pv",
                vlan("PvlanSpec", json!({"pvlanId": 201})),
                json!({}),
            ),
            pg(
                "dvportgroup-6",
                "seg",
                vlan("VlanIdSpec", json!({"vlanId": 5})),
                json!({"backingType": "nsx"}),
            ),
            pg(
                "dvportgroup-7",
                "trunk",
                vlan(
                    "TrunkVlanSpec",
                    json!({"vlanId": [{"start": 1, "end": 9}, {"start": 12, "end": 12}]}),
                ),
                json!({}),
            ),
        ]);
        let cause = |n: &str| not_translated(find(&r, n)).map(|(id, _)| id);
        assert_eq!(cause("up"), Some("uplink"));
        assert_eq!(
            (cause("web"), int(find(&r, "web"), "vlan.id")),
            (None, Some(100))
        );
        assert_eq!(
            (cause("inherits"), int(find(&r, "inherits"), "vlan.id")),
            (None, Some(77))
        );
        assert_eq!(cause("zero"), Some("untagged"));
        assert_eq!(
            (cause("pv"), int(find(&r, "pv"), "vlan.pvlan_id")),
            (Some("pvlan"), Some(201))
        );
        assert_eq!(cause("seg"), Some("nsx"));
        assert_eq!(
            not_translated(find(&r, "trunk")).expect("trunk").1,
            "a trunk of VLANs 1-9, 12"
        );
        assert_eq!(find(&r, "web")["switch"], "DVS/0");
    }

    #[test]
    fn hosts_that_disagree_make_two_entries() {
        let host = |m: &str, id: i64| {
            obj(
                "HostSystem",
                m,
                json!({"name": m, "config": {"network": {"portgroup": [
            {"spec": {"name": "VM Network", "vlanId": id, "vswitchName": "vSwitch0"}}]}}}),
            )
        };
        let r = report(&[
            host("host-1", 0),
            host("host-2", 12),
            host("host-3", 4095),
            host("host-4", 0),
            obj(
                "Network",
                "network-7",
                json!({"name": "VM Network", "host": ["vim.HostSystem:host-1", "vim.HostSystem:host-2", "vim.HostSystem:host-3", "vim.HostSystem:host-4"]}),
            ),
            obj(
                "OpaqueNetwork",
                "network-o8",
                json!({"name": "nsx", "summary": {"opaqueNetworkId": "seg-8"}}),
            ),
        ]);
        let modes: Vec<_> = r["networks"]
            .as_array()
            .expect("list")
            .iter()
            .map(|n| {
                (
                    n["vlan"]["mode"].clone(),
                    n["hosts"].clone(),
                    n["key"].clone(),
                )
            })
            .collect();
        assert_eq!(
            modes,
            [
                (
                    json!("none"),
                    json!(["host-1", "host-4"]),
                    json!("network-7")
                ),
                (json!("access"), json!(["host-2"]), json!("network-7")),
                (json!("trunk"), json!(["host-3"]), json!("network-7")),
                (json!("none"), json!([]), json!("seg-8")),
            ]
        );
    }
}
