//! `config.hardware.device` of a virtual machine, as vCenter shows it.
use super::files::{self, extent};
use super::model::{Disk, State, Vm, splitmix};
use super::xml::mo;
use serde_json::{Value, json};

fn info(label: &str, summary: &str) -> Value {
    json!({ "label": label, "summary": summary })
}

fn connect(connected: bool, start: bool) -> Value {
    json!({ "migrateConnect": "unset", "startConnected": start, "allowGuestControl": true, "connected": connected, "status": if connected { "ok" } else { "untried" } })
}

/// `[datastore] path`.
pub fn ds_path(st: &State, ds: &str, path: &str) -> String {
    format!(
        "[{}] {path}",
        st.stores.get(ds).map_or("?", |s| s.name.as_str())
    )
}

fn backing(st: &State, d: &Disk, layer: usize) -> Value {
    let kind = st.stores.get(&d.ds).map_or("VMFS", |s| s.kind.as_str());
    let path = d.layers.get(layer).map(String::as_str).unwrap_or("");
    let mut b = json!({
        "_t": "VirtualDiskFlatVer2BackingInfo",
        "fileName": ds_path(st, &d.ds, path),
        "datastore": mo("Datastore", &d.ds),
        "backingObjectId": "",
        "diskMode": d.mode,
        "uuid": d.uuid,
        "contentId": format!("{:032x}", d.uuid.bytes().fold(layer as u128 + 7, |a, c| a.wrapping_mul(257).wrapping_add(u128::from(c)))),
        "digestEnabled": false,
        "sharing": d.sharing,
    });
    if let Some(rdm) = &d.rdm {
        b["_t"] = json!("VirtualDiskRawDiskMappingVer1BackingInfo");
        b["lunUuid"] = json!(format!("0200{:028x}", d.uuid.len() * 7919));
        b["deviceName"] = json!("vml.0200000000600a098038303053453f463045727a66444d4c554e20");
        b["compatibilityMode"] = json!(rdm);
        if let Some(m) = b.as_object_mut() {
            m.remove("digestEnabled");
        }
    } else {
        b["split"] = json!(false);
        b["writeThrough"] = json!(false);
        b["thinProvisioned"] = json!(d.thin);
        if layer > 0 {
            // A delta above a flat disk stays a flat backing; its format says what it is.
            // Source: vSphere API reference, VirtualDiskFlatVer2BackingInfo.deltaDiskFormat.
            b["deltaDiskFormat"] = json!(if kind == "VMFS" {
                "seSparseFormat"
            } else {
                "redoLogFormat"
            });
        } else if !d.thin {
            b["eagerlyScrub"] = json!(false);
        }
    }
    if layer > 0 {
        b["parent"] = backing(st, d, layer - 1);
    }
    b
}

fn commas(kb: u64) -> String {
    let digits = kb.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

fn disk(st: &State, vm: &Vm, d: &Disk) -> Value {
    let kb = d.bytes / 1024;
    let mut b = backing(st, d, d.layers.len().saturating_sub(1));
    if vm.encrypted && d.rdm.is_none() {
        b["keyId"] = json!({ "keyId": "key-1", "providerId": { "id": "kms-1" } });
    }
    let shares = json!({ "shares": 1000, "level": "normal" });
    json!({
        "_t": "VirtualDisk",
        "key": d.key,
        "deviceInfo": info(&format!("Hard disk {}", d.n), &format!("{} KB", commas(kb))),
        "backing": b,
        "controllerKey": d.ctrl,
        "unitNumber": d.unit,
        "capacityInKB": kb,
        "capacityInBytes": d.bytes,
        "shares": shares,
        "storageIOAllocation": { "limit": -1, "shares": shares, "reservation": 0 },
        "diskObjectId": format!("{}-{}", vm.moid.trim_start_matches("vm-"), d.key),
        "nativeUnmanagedLinkedClone": false,
    })
}

fn nic(st: &State, n: usize, c: &super::model::Nic, on: bool) -> Value {
    let net = st.objs.get(&c.network);
    let ty = net.map_or("Network", |o| o.ty.as_str());
    let prop = |p: &str| {
        net.and_then(|o| o.props.get(p))
            .cloned()
            .unwrap_or(Value::Null)
    };
    let name = prop("name")
        .as_str()
        .unwrap_or("")
        .replace("%2f", "/")
        .replace("%5c", "\\")
        .replace("%25", "%");
    let (back, summary) = match ty {
        "DistributedVirtualPortgroup" => {
            let cfg = prop("config");
            let dvs = cfg["distributedVirtualSwitch"]["$mo"][1]
                .as_str()
                .unwrap_or("")
                .to_string();
            let uuid = st
                .objs
                .get(&dvs)
                .and_then(|o| o.props.get("uuid"))
                .cloned()
                .unwrap_or_default();
            let key = prop("key");
            let mut port = json!({ "switchUuid": uuid, "portgroupKey": key });
            // Source: docs/vsphere-facts.md section 5, "Ephemeral portgroup".
            if on || cfg["type"] != "ephemeral" {
                port["portKey"] = json!((c.key * 7 % 900).to_string());
                port["connectionCookie"] = json!(c.key * 92_821 % 2_000_000_000);
            }
            let summary = format!("DVSwitch: {}", uuid.as_str().unwrap_or(""));
            (
                json!({ "_t": "VirtualEthernetCardDistributedVirtualPortBackingInfo", "port": port }),
                summary,
            )
        }
        "OpaqueNetwork" => {
            let s = prop("summary");
            let summary = format!(
                "nsx.LogicalSwitch: {}",
                s["opaqueNetworkId"].as_str().unwrap_or("")
            );
            let b = json!({ "_t": "VirtualEthernetCardOpaqueNetworkBackingInfo", "opaqueNetworkId": s["opaqueNetworkId"], "opaqueNetworkType": s["opaqueNetworkType"] });
            (b, summary)
        }
        _ => {
            let b = json!({ "_t": "VirtualEthernetCardNetworkBackingInfo", "deviceName": name, "useAutoDetect": false, "network": mo("Network", &c.network) });
            (b, name)
        }
    };
    let mut v = json!({
        "_t": c.ty,
        "key": c.key,
        "deviceInfo": info(&format!("Network adapter {}", n + 1), &summary),
        "backing": back,
        "connectable": connect(on && c.connected, c.connected),
        "slotInfo": { "_t": "VirtualDevicePciBusSlotInfo", "pciSlotNumber": 160 + 32 * n },
        "controllerKey": 100,
        "unitNumber": 7 + n,
        "addressType": c.address_type,
        "macAddress": c.mac,
        "wakeOnLanEnabled": true,
        "resourceAllocation": { "reservation": 0, "share": { "shares": 50, "level": "normal" }, "limit": -1 },
    });
    if c.ty == "VirtualVmxnet3" {
        v["uptCompatibilityEnabled"] = json!(false);
    }
    v
}

/// All devices, in the order that the seed chose.
pub fn devices(st: &State, vm: &Vm) -> Vec<Value> {
    let on = vm.power == "poweredOn";
    let fixed = |ty: &str, key: i64, label: &str, summary: &str| json!({ "_t": ty, "key": key, "deviceInfo": info(label, summary) });
    let mut out = vec![];
    for bus in 0..2 {
        let mut c = fixed(
            "VirtualIDEController",
            200 + bus,
            &format!("IDE {bus}"),
            &format!("IDE {bus}"),
        );
        c["busNumber"] = json!(bus);
        let mut on_it: Vec<i64> = vm
            .disks
            .iter()
            .filter(|d| d.ctrl == 200 + bus)
            .map(|d| d.key)
            .collect();
        if bus == 0 && cd_on_ide(vm) && vm.cdrom.is_some() {
            on_it.push(3000 + cd_unit(vm));
        }
        if !on_it.is_empty() {
            c["device"] = json!(on_it);
        }
        out.push(c);
    }
    let mut ps2 = fixed(
        "VirtualPS2Controller",
        300,
        "PS2 controller 0",
        "PS2 controller 0",
    );
    ps2["busNumber"] = json!(0);
    ps2["device"] = json!([600, 700]);
    let mut pci = fixed(
        "VirtualPCIController",
        100,
        "PCI controller 0",
        "PCI controller 0",
    );
    pci["busNumber"] = json!(0);
    let mut on_pci = vec![500, 12000];
    on_pci.extend(vm.ctrls.iter().filter(|c| c.key >= 1000).map(|c| c.key));
    on_pci.extend(vm.nics.iter().map(|n| n.key));
    pci["device"] = json!(on_pci);
    let mut sio = fixed(
        "VirtualSIOController",
        400,
        "SIO controller 0",
        "SIO controller 0",
    );
    sio["busNumber"] = json!(0);
    let mut kbd = fixed("VirtualKeyboard", 600, "Keyboard", "Keyboard");
    kbd["controllerKey"] = json!(300);
    kbd["unitNumber"] = json!(0);
    let mut mouse = fixed(
        "VirtualPointingDevice",
        700,
        "Pointing device",
        "Pointing device; Device",
    );
    mouse["backing"] = json!({ "_t": "VirtualPointingDeviceDeviceBackingInfo", "deviceName": "", "useAutoDetect": false, "hostPointingDevice": "autodetect" });
    mouse["controllerKey"] = json!(300);
    mouse["unitNumber"] = json!(1);
    let mut video = fixed("VirtualMachineVideoCard", 500, "Video card ", "Video card");
    video["controllerKey"] = json!(100);
    video["unitNumber"] = json!(0);
    video["videoRamSizeInKB"] = json!(4096);
    video["numDisplays"] = json!(1);
    video["useAutoDetect"] = json!(false);
    video["enable3DSupport"] = json!(false);
    let mut vmci = fixed(
        "VirtualMachineVMCIDevice",
        12000,
        "VMCI device",
        "Device on the virtual machine PCI bus that provides support for the virtual machine communication interface",
    );
    vmci["controllerKey"] = json!(100);
    vmci["unitNumber"] = json!(17);
    vmci["id"] = json!(-1);
    vmci["allowUnrestrictedCommunication"] = json!(false);
    vmci["filterEnable"] = json!(true);
    out.extend([ps2, pci, sio, kbd, mouse, video, vmci]);
    for c in vm.ctrls.iter().filter(|c| c.key >= 1000) {
        let (label, summary) = match c.ty {
            "ParaVirtualSCSIController" => (
                format!("SCSI controller {}", c.bus),
                "VMware paravirtual SCSI",
            ),
            "VirtualLsiLogicSASController" => {
                (format!("SCSI controller {}", c.bus), "LSI Logic SAS")
            }
            "VirtualBusLogicController" => (format!("SCSI controller {}", c.bus), "BusLogic"),
            "VirtualAHCIController" => (format!("SATA controller {}", c.bus), "AHCI"),
            "VirtualNVMEController" => (format!("NVME controller {}", c.bus), "NVME controller"),
            _ => (format!("SCSI controller {}", c.bus), "LSI Logic"),
        };
        let mut v = fixed(c.ty, c.key, &label, summary);
        v["controllerKey"] = json!(100);
        v["unitNumber"] = json!(3 + c.bus);
        v["busNumber"] = json!(c.bus);
        v["device"] = json!(
            vm.disks
                .iter()
                .filter(|d| d.ctrl == c.key)
                .map(|d| d.key)
                .collect::<Vec<_>>()
        );
        if (1000..2000).contains(&c.key) {
            v["hotAddRemove"] = json!(true);
            v["sharedBus"] = json!(c.sharing);
            v["scsiCtlrUnitNumber"] = json!(7);
        } else if c.ty == "VirtualNVMEController" {
            v["sharedBus"] = json!(c.sharing);
        }
        out.push(v);
    }
    if let Some((iso, connected)) = &vm.cdrom {
        let unit = cd_unit(vm);
        let (b, summary) = if vm.tools_iso {
            (
                json!({ "_t": "VirtualCdromIsoBackingInfo", "fileName": "[] /usr/lib/vmware/isoimages/linux.iso", "backingObjectId": "" }),
                "ISO [] /usr/lib/vmware/isoimages/linux.iso".to_string(),
            )
        } else if iso.is_empty() {
            (
                json!({ "_t": "VirtualCdromRemotePassthroughBackingInfo", "deviceName": "", "useAutoDetect": false, "exclusive": false }),
                "Remote device".into(),
            )
        } else {
            let mut b = json!({ "_t": "VirtualCdromIsoBackingInfo", "fileName": iso, "backingObjectId": "" });
            let name = iso.trim_start_matches('[').split(']').next().unwrap_or("");
            if let Some((id, _)) = st.stores.iter().find(|(_, s)| s.name == name) {
                b["datastore"] = mo("Datastore", id);
            }
            (b, format!("ISO {iso}"))
        };
        let mut v = fixed("VirtualCdrom", 3000 + unit, "CD/DVD drive 1", &summary);
        v["backing"] = b;
        v["connectable"] = connect(on && *connected, *connected);
        v["controllerKey"] = json!(200 + unit / 2);
        v["unitNumber"] = json!(unit % 2);
        out.push(v);
    }
    out.extend(vm.disks.iter().map(|d| disk(st, vm, d)));
    out.extend(vm.nics.iter().enumerate().map(|(i, n)| nic(st, i, n, on)));
    if vm.vtpm {
        let mut v = fixed(
            "VirtualTPM",
            11000,
            "Virtual TPM",
            "Trusted Platform Module",
        );
        v["endorsementKeyCertificateSigningRequest"] = json!(["TEFC"]);
        v["endorsementKeyCertificate"] = json!(["TEFC"]);
        out.push(v);
    }
    // Source: docs/vsphere-facts.md section 4: the order of devices is not promised.
    let mut keyed: Vec<(u64, Value)> = out
        .into_iter()
        .map(|v| {
            let mut s = vm.shuffle ^ v["key"].as_u64().unwrap_or(0);
            (splitmix(&mut s), v)
        })
        .collect();
    keyed.sort_by_key(|(k, _)| *k);
    keyed.into_iter().map(|(_, v)| v).collect()
}

fn cd_on_ide(vm: &Vm) -> bool {
    cd_unit(vm) < 2
}

/// The first IDE place without a disk, counted over both buses.
fn cd_unit(vm: &Vm) -> i64 {
    (0..4)
        .find(|u| {
            !vm.disks
                .iter()
                .any(|d| d.ctrl == 200 + u / 2 && d.unit == u % 2)
        })
        .unwrap_or(3)
}

/// `layoutEx`, with the files' real lengths.
pub fn layout(st: &State, vm: &Vm) -> Value {
    let mut list: Vec<Value> = vec![];
    let mut add = |ds: &str, path: &str, ty: &str| -> i64 {
        let key = list.len() as i64;
        let size = st.stores.get(ds).map_or(0, |s| files::size(s, path));
        list.push(json!({ "key": key, "name": ds_path(st, ds, path), "type": ty, "size": size, "uniqueSize": size, "accessible": true }));
        key
    };
    for ending in &vm.aux {
        let ty = match ending.rsplit('.').next().unwrap_or("") {
            "vmx" | "vmtx" => "config",
            "nvram" => "nvram",
            "vmsd" => "snapshotList",
            "vmsn" => "snapshotData",
            "vmxf" => "extendedConfig",
            "vswp" => "swap",
            "vmss" => "suspend",
            _ => "log",
        };
        add(
            &vm.ds,
            &format!("{}/{}", vm.dir, files::aux_name(vm, ending)),
            ty,
        );
    }
    let mut disks = vec![];
    let mut keys: Vec<(i64, Vec<[i64; 2]>)> = vec![];
    for d in &vm.disks {
        let kind = st
            .stores
            .get(&d.ds)
            .map_or("VMFS", |s| s.kind.as_str())
            .to_string();
        let chain: Vec<[i64; 2]> = (0..d.layers.len())
            .map(|l| {
                let a = add(
                    &d.ds,
                    d.layers.get(l).map(String::as_str).unwrap_or(""),
                    "diskDescriptor",
                );
                [a, add(&d.ds, &extent(d, l, &kind), "diskExtent")]
            })
            .collect();
        disks.push(json!({ "key": d.key, "chain": chain.iter().map(|c| json!({ "fileKey": c })).collect::<Vec<_>>() }));
        keys.push((d.key, chain));
    }
    let snaps: Vec<Value> = vm
        .snaps
        .iter()
        .enumerate()
        .map(|(i, s)| {
            let disk: Vec<Value> = keys
                .iter()
                .map(|(key, chain)| json!({ "key": key, "chain": chain.iter().take(i + 1).map(|c| json!({ "fileKey": c })).collect::<Vec<_>>() }))
                .collect();
            json!({ "key": mo("VirtualMachineSnapshot", &s.moid), "dataKey": 0, "memoryKey": -1, "disk": disk })
        })
        .collect();
    let mut out = json!({ "file": list, "disk": disks, "timestamp": super::model::now() });
    if !snaps.is_empty() {
        out["snapshot"] = json!(snaps);
    }
    out
}
