//! Networks: distributed switches with their portgroups, standard portgroups, opaque networks.
use super::build::{Ids, entity, list, text};
use super::model::{State, escape_name};
use super::xml::mo;
use serde_json::{Value, json};

fn policy(ty_value: Value) -> Value {
    json!({ "inherited": false, "value": ty_value })
}

/// `100`, `{"id": 100}`, `{"trunk": ["0-99", "105"]}`, `{"pvlan": 201}`, null.
fn vlan(v: &Value) -> Result<Value, String> {
    if v.is_null() {
        return Ok(Value::Null);
    }
    let inherited = v["inherited"].as_bool().unwrap_or(false);
    if let Some(id) = v.as_i64().or(v["id"].as_i64()) {
        return Ok(
            json!({ "_t": "VmwareDistributedVirtualSwitchVlanIdSpec", "inherited": inherited, "vlanId": id }),
        );
    }
    if let Some(id) = v["pvlan"].as_i64() {
        return Ok(
            json!({ "_t": "VmwareDistributedVirtualSwitchPvlanSpec", "inherited": inherited, "pvlanId": id }),
        );
    }
    if let Some(ranges) = v["trunk"].as_array() {
        let mut out = vec![];
        for r in ranges {
            let s = r
                .as_str()
                .map(String::from)
                .unwrap_or_else(|| r.to_string());
            let (a, b) = s.split_once('-').unwrap_or((&s, &s));
            let n = |x: &str| {
                x.trim()
                    .parse::<i64>()
                    .map_err(|_| format!("trunk range {s:?}"))
            };
            out.push(json!({ "start": n(a)?, "end": n(b)? }));
        }
        return Ok(
            json!({ "_t": "VmwareDistributedVirtualSwitchTrunkVlanSpec", "inherited": inherited, "vlanId": out }),
        );
    }
    Err(format!(
        "vlan {v} is none of a number, {{id}}, {{trunk}}, {{pvlan}}"
    ))
}

fn port_config(vlan: Value, uplinks: &[Value], mac_management: bool) -> Value {
    let shaping = json!({ "inherited": true, "enabled": policy(json!(false)), "averageBandwidth": policy(json!(100_000_000)), "peakBandwidth": policy(json!(100_000_000)), "burstSize": policy(json!(104_857_600)) });
    let mut c = json!({
        "_t": "VMwareDVSPortSetting",
        "blocked": policy(json!(false)),
        "vmDirectPathGen2Allowed": policy(json!(false)),
        "inShapingPolicy": shaping,
        "outShapingPolicy": shaping,
        "vendorSpecificConfig": { "inherited": true },
        "networkResourcePoolKey": { "inherited": true, "value": "-1" },
        "filterPolicy": { "inherited": true },
        "vlan": vlan,
        "qosTag": { "inherited": true, "value": -1 },
        "uplinkTeamingPolicy": {
            "inherited": false, "policy": policy(json!("loadbalance_srcid")), "reversePolicy": policy(json!(true)), "notifySwitches": policy(json!(true)), "rollingOrder": policy(json!(false)),
            "failureCriteria": { "inherited": true, "checkSpeed": policy(json!("minimum")), "speed": policy(json!(10)), "checkDuplex": policy(json!(false)), "fullDuplex": policy(json!(false)), "checkErrorPercent": policy(json!(false)), "percentage": policy(json!(0)), "checkBeacon": policy(json!(false)) },
            "uplinkPortOrder": { "inherited": false, "activeUplinkPort": uplinks },
        },
        "securityPolicy": { "inherited": false, "allowPromiscuous": policy(json!(false)), "macChanges": policy(json!(false)), "forgedTransmits": policy(json!(false)) },
        "ipfixEnabled": { "inherited": true, "value": false },
        "txUplink": { "inherited": true, "value": false },
        "lacpPolicy": { "inherited": true, "enable": policy(json!(false)), "mode": policy(json!("passive")) },
    });
    // Source: docs/peers-vsphere.md V1.1: unset on switches older than 6.6.
    if mac_management {
        c["macManagementPolicy"] = json!({
            "inherited": false, "allowPromiscuous": false, "macChanges": false, "forgedTransmits": false,
            "macLearningPolicy": { "inherited": false, "enabled": false, "allowUnicastFlooding": true, "limit": 4096, "limitPolicy": "DROP" },
        });
    }
    c
}

/// A distributed switch and its portgroups.
///
/// # Errors
/// A text that says what in the world is wrong.
pub fn switch(st: &mut State, ids: &Ids, w: &Value) -> Result<(), String> {
    let name = text(w, "name").ok_or("a switch without a name")?;
    let id = st.id_of(w, "dvs");
    let uuid = text(w, "uuid").unwrap_or_else(|| {
        let r = [st.random(), st.random()]
            .map(|x| format!("{x:016x}"))
            .concat();
        let pairs: Vec<&str> = (0..16).filter_map(|i| r.get(2 * i..2 * i + 2)).collect();
        format!(
            "{}-{}",
            pairs.get(..8).unwrap_or_default().join(" "),
            pairs.get(8..).unwrap_or_default().join(" ")
        )
    });
    let uplinks: Vec<Value> = if w["uplinks"].is_array() {
        list(w, "uplinks").to_vec()
    } else {
        vec![json!("Uplink 1"), json!("Uplink 2")]
    };
    let version = text(w, "version").unwrap_or_else(|| "7.0.0".into());
    let modern = w["mac_management"].as_bool().unwrap_or(
        !version.starts_with("6.0") && !version.starts_with("6.5") && !version.starts_with('5'),
    );
    let product = json!({ "name": "DVS", "vendor": "VMware, Inc.", "version": version, "build": "17994927", "forwardingClass": "etherswitch" });
    let mut groups = vec![];
    let mut uplink_groups = vec![];
    let mut made = vec![];
    for g in list(w, "portgroups") {
        let gname =
            text(g, "name").ok_or_else(|| format!("a portgroup of {name} without a name"))?;
        let gid = st.id_of(g, "dvportgroup");
        let key = text(g, "key").unwrap_or_else(|| gid.clone());
        let uplink = g["uplink"].as_bool().unwrap_or(false);
        let nsx = g.get("nsx").filter(|n| n.is_object());
        let vlan_value = if uplink && g["vlan"].is_null() {
            json!({ "trunk": ["0-4094"] })
        } else {
            g["vlan"].clone()
        };
        let kind = text(g, "type").unwrap_or_else(|| {
            if nsx.is_some() {
                "ephemeral"
            } else {
                "earlyBinding"
            }
            .into()
        });
        let ports = g["ports"]
            .as_i64()
            .unwrap_or(if kind == "ephemeral" { 0 } else { 8 });
        let group_modern = g["mac_management"].as_bool().unwrap_or(modern);
        let mut cfg = json!({
            "_t": "DVPortgroupConfigInfo",
            "key": key, "name": escape_name(&gname), "numPorts": ports, "distributedVirtualSwitch": mo("VmwareDistributedVirtualSwitch", &id),
            "defaultPortConfig": port_config(vlan(&vlan_value).map_err(|e| format!("portgroup {gname}: {e}"))?, &uplinks, group_modern),
            "description": text(g, "description").unwrap_or_default(), "type": kind, "backingType": "standard",
            "policy": { "_t": "VMwareDVSPortgroupPolicy", "blockOverrideAllowed": true, "shapingOverrideAllowed": false, "vendorConfigOverrideAllowed": false, "livePortMovingAllowed": false, "portConfigResetAtDisconnect": true, "networkResourcePoolOverrideAllowed": false, "trafficFilterOverrideAllowed": false, "vlanOverrideAllowed": uplink, "uplinkTeamingOverrideAllowed": false, "securityPolicyOverrideAllowed": false, "ipfixOverrideAllowed": false, "macManagementOverrideAllowed": false },
            "configVersion": "1", "autoExpand": kind == "earlyBinding", "vmVnicNetworkResourcePoolKey": "-1",
        });
        // Source: docs/vsphere-facts.md section 5, "Uplink portgroup": not every version has config.uplink.
        if w["uplink_flag"].as_bool().unwrap_or(true) {
            cfg["uplink"] = json!(uplink);
        }
        if let Some(n) = nsx {
            cfg["backingType"] = json!("nsx");
            cfg["logicalSwitchUuid"] = json!(
                text(n, "logical_switch")
                    .unwrap_or_else(|| "3ea5c5a8-0000-4000-8000-000000000001".into())
            );
            cfg["segmentId"] =
                json!(text(n, "segment").unwrap_or_else(|| format!("/infra/segments/{gname}")));
            cfg["transportZoneUuid"] = json!("1b3a2f36-bfd1-443e-a0f6-4de01abc963e");
            cfg["transportZoneName"] = json!("nsx-overlay-transportzone");
        }
        let me = mo("DistributedVirtualPortgroup", &gid);
        let mut obj = entity(
            "DistributedVirtualPortgroup",
            &gname,
            mo("Folder", &ids.network_folder),
        );
        obj.props.insert("key".into(), json!(key));
        obj.props.insert("config".into(), cfg);
        obj.props.insert(
            "portKeys".into(),
            json!((0..ports).map(|p| p.to_string()).collect::<Vec<_>>()),
        );
        obj.props.insert("summary".into(), json!({ "network": me, "name": escape_name(&gname), "accessible": true, "ipPoolName": "" }));
        obj.props.insert("host".into(), ids.host_refs());
        if uplink {
            obj.props
                .insert("tag".into(), json!([{ "key": "SYSTEM/DVS.UPLINKPG" }]));
            uplink_groups.push(me.clone());
        }
        ids.note_network(&gname, &gid);
        made.push((gid.clone(), gname));
        groups.push(me);
        st.objs.insert(gid, obj);
    }
    st.shuffle(&mut groups);
    let pvlan: Vec<Value> = list(w, "pvlan")
        .iter()
        .map(|p| json!({ "primaryVlanId": p["primary"], "secondaryVlanId": p["secondary"], "pvlanType": p["type"] }))
        .collect();
    let members: Vec<Value> = ids
        .hosts
        .iter()
        .map(|(_, h)| json!({ "config": { "host": mo("HostSystem", h), "maxProxySwitchPorts": 1024, "vendorSpecificConfig": [], "backing": { "_t": "DistributedVirtualSwitchHostMemberPnicBacking" } }, "status": "up" }))
        .collect();
    let mut obj = entity(
        "VmwareDistributedVirtualSwitch",
        &name,
        mo("Folder", &ids.network_folder),
    );
    let group_names: Vec<Value> = made.iter().map(|(_, n)| json!(escape_name(n))).collect();
    let mut cfg = json!({
        "_t": "VMwareDVSConfigInfo",
        "uuid": uuid, "name": escape_name(&name), "numStandalonePorts": 0, "numPorts": 8 * groups.len(), "maxPorts": i32::MAX,
        "uplinkPortPolicy": { "_t": "DVSNameArrayUplinkPortPolicy", "uplinkPortName": uplinks }, "uplinkPortgroup": uplink_groups,
        "defaultPortConfig": port_config(vlan(w.get("vlan").unwrap_or(&json!(0)))?, &uplinks, modern),
        "host": members, "productInfo": product, "policy": { "autoPreInstallAllowed": false, "autoUpgradeAllowed": false, "partialUpgradeAllowed": false },
        "description": text(w, "description"), "configVersion": "1", "contact": {}, "createTime": "2024-01-15T09:00:00Z", "networkResourceManagementEnabled": true,
        "defaultProxySwitchMaxNumPorts": 512, "networkResourceControlVersion": "version3", "maxMtu": w["mtu"].as_i64().unwrap_or(1500),
        "linkDiscoveryProtocolConfig": { "protocol": "cdp", "operation": "listen" },
        "ipfixConfig": { "activeFlowTimeout": 60, "idleFlowTimeout": 15, "samplingRate": 4096, "internalFlowsOnly": false, "observationDomainId": 0 },
        "lacpApiVersion": "multipleLag", "multicastFilteringMode": "legacyFiltering",
    });
    if !pvlan.is_empty() {
        cfg["pvlanConfig"] = json!(pvlan);
    }
    obj.props.insert("uuid".into(), json!(uuid));
    obj.props.insert("capability".into(), json!({ "dvsOperationSupported": true, "dvPortGroupOperationSupported": true, "dvPortOperationSupported": true,
        "featuresSupported": { "_t": "VMwareDVSFeatureCapability", "networkResourceManagementSupported": true, "vmDirectPathGen2Supported": true, "nicTeamingPolicy": ["loadbalance_ip", "loadbalance_srcmac", "loadbalance_srcid", "failover_explicit", "loadbalance_loadbased"], "networkFilterSupported": true, "macLearningSupported": modern, "vspanSupported": true, "lldpSupported": true, "ipfixSupported": true, "multicastSnoopingSupported": true } }));
    obj.props.insert("summary".into(), json!({ "name": escape_name(&name), "uuid": uuid, "numPorts": 8 * groups.len(), "productInfo": product, "hostMember": ids.host_refs(), "portgroupName": group_names, "numHosts": ids.hosts.len() }));
    obj.props.insert("config".into(), cfg);
    obj.props.insert("portgroup".into(), json!(groups));
    st.objs.insert(id.clone(), obj);
    st.add_child(
        &ids.network_folder,
        mo("VmwareDistributedVirtualSwitch", &id),
    );
    for (gid, _) in made {
        st.add_child(&ids.network_folder, mo("DistributedVirtualPortgroup", &gid));
    }
    for (_, h) in &ids.hosts {
        let proxy = json!({ "dvsUuid": uuid, "dvsName": escape_name(&name), "key": format!("key-vim.host.ProxySwitch-{id}"), "numPorts": 2560, "numPortsAvailable": 2500, "mtu": w["mtu"].as_i64().unwrap_or(1500), "spec": {} });
        push_host_net(st, h, "proxySwitch", proxy);
    }
    Ok(())
}

fn push_host_net(st: &mut State, host: &str, field: &str, v: Value) {
    if let Some(cfg) = st
        .objs
        .get_mut(host)
        .and_then(|o| o.props.get_mut("config"))
    {
        match cfg["network"][field].as_array_mut() {
            Some(a) => a.push(v),
            None => cfg["network"][field] = json!([v]),
        }
    }
}

/// A standard portgroup: a network of the datacenter and an entry in each host's configuration.
///
/// # Errors
/// A text that says what in the world is wrong.
pub fn standard(st: &mut State, ids: &Ids, w: &Value) -> Result<(), String> {
    let name = text(w, "name").ok_or("a standard portgroup without a name")?;
    let id = st.id_of(w, "network");
    let vswitch = text(w, "vswitch").unwrap_or_else(|| "vSwitch0".into());
    let mut obj = entity("Network", &name, mo("Folder", &ids.network_folder));
    let wanted: Vec<&str> = list(w, "hosts").iter().filter_map(Value::as_str).collect();
    let mut hosts = vec![];
    for (hname, h) in ids
        .hosts
        .iter()
        .filter(|(n, _)| wanted.is_empty() || wanted.contains(&n.as_str()))
    {
        hosts.push(mo("HostSystem", h));
        // Source: docs/vsphere-facts.md section 5: same-named portgroups may have different VLANs per host.
        let vlan_id = w["vlan"]
            .as_i64()
            .or(w["vlan"][hname].as_i64())
            .unwrap_or(0);
        let pol = json!({ "security": { "allowPromiscuous": false, "macChanges": true, "forgedTransmits": true }, "shapingPolicy": { "enabled": false } });
        let pg = json!({ "key": format!("key-vim.host.PortGroup-{name}"), "vswitch": format!("key-vim.host.VirtualSwitch-{vswitch}"), "computedPolicy": pol, "spec": { "name": name, "vlanId": vlan_id, "vswitchName": vswitch, "policy": {} } });
        push_host_net(st, h, "portgroup", pg);
        let known = st
            .objs
            .get(h)
            .and_then(|o| o.props.get("config"))
            .is_some_and(|c| {
                list(&c["network"], "vswitch")
                    .iter()
                    .any(|v| v["name"] == vswitch.as_str())
            });
        if !known {
            push_host_net(
                st,
                h,
                "vswitch",
                json!({ "name": vswitch, "key": format!("key-vim.host.VirtualSwitch-{vswitch}"), "numPorts": 2560, "numPortsAvailable": 2540, "mtu": 1500, "spec": { "numPorts": 128, "mtu": 1500 } }),
            );
        }
    }
    obj.props.insert("host".into(), json!(hosts));
    obj.props.insert("summary".into(), json!({ "network": mo("Network", &id), "name": escape_name(&name), "accessible": true, "ipPoolName": "" }));
    st.objs.insert(id.clone(), obj);
    st.add_child(&ids.network_folder, mo("Network", &id));
    ids.note_network(&name, &id);
    Ok(())
}

/// An opaque network, as an N-VDS segment shows.
///
/// # Errors
/// A text that says what in the world is wrong.
pub fn opaque(st: &mut State, ids: &Ids, w: &Value) -> Result<(), String> {
    let name = text(w, "name").ok_or("an opaque network without a name")?;
    let id = st.id_of(w, "network-o");
    let mut obj = entity("OpaqueNetwork", &name, mo("Folder", &ids.network_folder));
    obj.props.insert("host".into(), ids.host_refs());
    obj.props.insert(
        "capability".into(),
        json!({ "networkReservationSupported": false }),
    );
    obj.props.insert("extraConfig".into(), json!([]));
    obj.props.insert(
        "summary".into(),
        json!({ "_t": "OpaqueNetworkSummary", "network": mo("OpaqueNetwork", &id), "name": escape_name(&name), "accessible": true, "ipPoolName": "",
            "opaqueNetworkId": text(w, "id").unwrap_or_else(|| "7bd5c1e4-0000-4000-8000-00000000abcd".into()), "opaqueNetworkType": text(w, "type").unwrap_or_else(|| "nsx.LogicalSwitch".into()) }),
    );
    st.objs.insert(id.clone(), obj);
    st.add_child(&ids.network_folder, mo("OpaqueNetwork", &id));
    ids.note_network(&name, &id);
    Ok(())
}
