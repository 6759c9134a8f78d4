//! A machine's virtual hardware, decoded from `config.hardware.device`.

use crate::path::{DsPath, flat_name, is_delta_name};
use crate::value::{at, class, flag, int, list, moid_at, text};
use serde_json::{Value, json};

/// Kind of bus, in the order in which a guest meets its disks.
const BUSES: [&str; 4] = ["scsi", "sata", "nvme", "ide"];

fn bus_of(controller_class: &str) -> Option<&'static str> {
    match controller_class {
        "ParaVirtualSCSIController"
        | "VirtualLsiLogicController"
        | "VirtualLsiLogicSASController"
        | "VirtualBusLogicController"
        | "VirtualSCSIController" => Some("scsi"),
        "VirtualAHCIController" | "VirtualSATAController" => Some("sata"),
        "VirtualNVMEController" => Some("nvme"),
        "VirtualIDEController" => Some("ide"),
        _ => None,
    }
}

fn label(d: &Value) -> &str {
    text(d, "deviceInfo.label").unwrap_or("")
}

/// The data file behind a disk's descriptor.
///
/// The server's own list of files decides (docs/vsphere-facts.md section 4: the flat appears in `layoutEx.file`): first by the
/// disk's chain there, else by name. A datastore without data files (vSAN, vVol) has none. Only where the list could not be read
/// the naming rule alone is used.
fn data_file(key: i64, path: &DsPath, layout: Option<&Value>) -> Option<String> {
    let Some(layout) = layout else {
        return Some(
            DsPath {
                path: join(path.folder(), &flat_name(path.file())),
                datastore: path.datastore.clone(),
            }
            .to_string(),
        );
    };
    let files = list(layout, "file");
    let extent = |f: &&Value| text(f, "type") == Some("diskExtent");
    let chain = list(layout, "disk")
        .iter()
        .find(|d| int(d, "key") == Some(key));
    if let Some(unit) = chain.and_then(|d| list(d, "chain").last()) {
        let keys: Vec<i64> = list(unit, "fileKey")
            .iter()
            .filter_map(Value::as_i64)
            .collect();
        let of_chain = |f: &&Value| int(f, "key").is_some_and(|k| keys.contains(&k));
        if let Some(f) = files.iter().filter(extent).find(of_chain) {
            return text(f, "name").map(str::to_owned);
        }
    }
    let wanted = DsPath {
        path: join(path.folder(), &flat_name(path.file())),
        datastore: path.datastore.clone(),
    }
    .to_string();
    files
        .iter()
        .filter_map(|f| text(f, "name"))
        .find(|n| DsPath::parse(n).is_some_and(|p| p.to_string() == wanted))
        .map(str::to_owned)
}

fn join(folder: &str, file: &str) -> String {
    if folder.is_empty() {
        file.to_owned()
    } else {
        format!("{folder}/{file}")
    }
}

/// The disks in guest order: SCSI, SATA, NVMe, IDE; then bus number and unit as numbers.
///
/// Each: `{key, label, bus, bus_number, unit, controller, controller_key, shared_bus, path, datastore, datastore_moid, data_file,
/// bytes, mode, thin, eager_scrub, rdm: null|physical|virtual, sharing: null|multiwriter, snapshot_parent, delta, uuid, encrypted,
/// native_4k, boot}`. `boot` is true for the disk that bootOptions name first, else for the first.
pub fn disks(devices: &[Value], boot_order: &[Value], layout: Option<&Value>) -> Vec<Value> {
    let controller = |key: i64| devices.iter().find(|d| int(d, "key") == Some(key));
    let mut out: Vec<((usize, i64, i64, i64), Value)> = vec![];
    for d in devices.iter().filter(|d| class(d) == "VirtualDisk") {
        let key = int(d, "key").unwrap_or(0);
        let ckey = int(d, "controllerKey");
        let c = ckey.and_then(controller);
        let bus = c.and_then(|c| bus_of(class(c)));
        let bus_number = c.and_then(|c| int(c, "busNumber"));
        let unit = int(d, "unitNumber");
        let b = at(d, "backing").unwrap_or(&Value::Null);
        let path = text(b, "fileName").and_then(DsPath::parse);
        let backing = class(b);
        let rdm = text(b, "compatibilityMode").map(|m| {
            if m == "physicalMode" {
                "physical"
            } else {
                "virtual"
            }
        });
        let parent = text(b, "parent.fileName");
        // Source: docs/vsphere-facts.md section 3: no parent AND no -NNNNNN.vmdk name, before the flat is the disk.
        let delta = parent.is_some()
            || backing == "SeSparseBackingInfo"
            || path.as_ref().is_some_and(|p| is_delta_name(p.file()));
        let file = path
            .as_ref()
            .filter(|_| rdm.is_none() && !delta)
            .and_then(|p| data_file(key, p, layout));
        let bytes = int(d, "capacityInBytes").or_else(|| int(d, "capacityInKB").map(|k| k * 1024));
        let v = json!({
            "key": key,
            "label": label(d),
            "bus": bus,
            "bus_number": bus_number,
            "unit": unit,
            "controller": c.map(class),
            "controller_key": ckey,
            "shared_bus": c.and_then(|c| text(c, "sharedBus")).filter(|s| *s != "noSharing"),
            "path": path.as_ref().map(DsPath::to_string),
            "datastore": path.as_ref().map(|p| p.datastore.clone()),
            "datastore_moid": moid_at(b, "datastore"),
            "data_file": file,
            "bytes": bytes,
            "mode": text(b, "diskMode").unwrap_or("persistent"),
            "thin": at(b, "thinProvisioned").and_then(Value::as_bool),
            "eager_scrub": at(b, "eagerlyScrub").and_then(Value::as_bool),
            "rdm": rdm,
            "sharing": text(b, "sharing").filter(|s| *s == "sharingMultiWriter").map(|_| "multiwriter"),
            "snapshot_parent": parent,
            "delta": delta,
            "uuid": text(b, "uuid"),
            "encrypted": at(b, "keyId").is_some(),
            "native_4k": text(d, "virtualDiskFormat") == Some("native_4k"),
            "backing": backing,
            "boot": false,
        });
        let rank = bus
            .and_then(|b| BUSES.iter().position(|x| *x == b))
            .unwrap_or(BUSES.len());
        out.push((
            (
                rank,
                bus_number.unwrap_or(i64::MAX),
                unit.unwrap_or(i64::MAX),
                key,
            ),
            v,
        ));
    }
    out.sort_by_key(|(order, _)| *order);
    let mut out: Vec<Value> = out.into_iter().map(|(_, v)| v).collect();
    let named = boot_order
        .iter()
        .find(|b| class(b) == "BootableDiskDevice")
        .and_then(|b| int(b, "deviceKey"));
    let i = named
        .and_then(|k| out.iter().position(|d| int(d, "key") == Some(k)))
        .unwrap_or(0);
    if let Some(d) = out.get_mut(i) {
        d["boot"] = json!(true);
    }
    out
}

fn model_of(class: &str) -> Option<&'static str> {
    Some(match class {
        "VirtualE1000" => "e1000",
        "VirtualE1000e" => "e1000e",
        "VirtualVmxnet3" => "vmxnet3",
        "VirtualVmxnet3Vrdma" => "vmxnet3vrdma",
        "VirtualVmxnet2" => "vmxnet2",
        "VirtualVmxnet" => "vmxnet",
        "VirtualPCNet32" => "pcnet32",
        "VirtualSriovEthernetCard" => "sriov",
        _ => return None,
    })
}

/// The network cards, by device key (which is slot order).
///
/// Each: `{key, label, mac, model, address_type, kind: distributed|standard|opaque|unknown, portgroup_key, portgroup, switch_uuid,
/// connected, start_connected}`; `portgroup_key` is what [`crate::networks::report`] calls `key`.
pub fn nics(devices: &[Value]) -> Vec<Value> {
    let mut out: Vec<Value> = devices
        .iter()
        .filter(|d| at(d, "macAddress").is_some() || model_of(class(d)).is_some())
        .map(|d| {
            let b = at(d, "backing").unwrap_or(&Value::Null);
            let (kind, key, name) = match class(b) {
                "DistributedVirtualPortBackingInfo" => {
                    ("distributed", text(b, "port.portgroupKey"), None)
                }
                "NetworkBackingInfo" => ("standard", moid_at(b, "network"), text(b, "deviceName")),
                "OpaqueNetworkBackingInfo" => ("opaque", text(b, "opaqueNetworkId"), None),
                _ => ("unknown", None, text(b, "deviceName")),
            };
            json!({
                "key": int(d, "key"),
                "label": label(d),
                "mac": text(d, "macAddress").map(str::to_ascii_uppercase),
                "model": model_of(class(d)).unwrap_or(class(d)),
                "address_type": text(d, "addressType"),
                "kind": kind,
                "portgroup_key": key,
                "portgroup": name,
                "switch_uuid": text(b, "port.switchUuid"),
                "connected": flag(d, "connectable.connected"),
                "start_connected": flag(d, "connectable.startConnected"),
            })
        })
        .collect();
    out.sort_by_key(|n| int(n, "key").unwrap_or(i64::MAX));
    out
}

/// Everything else that matters to a migration: `{key, label, class, kind, connected, file}` with kind one of cdrom, floppy, usb,
/// passthrough, serial, parallel, tpm, nvdimm, sound, scsi_passthrough, clock.
pub fn others(devices: &[Value]) -> Vec<Value> {
    let mut out: Vec<Value> = vec![];
    for d in devices {
        let kind = match class(d) {
            "VirtualCdrom" => "cdrom",
            "VirtualFloppy" => "floppy",
            "VirtualUSB" => "usb",
            "VirtualPCIPassthrough" => "passthrough",
            "VirtualSerialPort" => "serial",
            "VirtualParallelPort" => "parallel",
            "VirtualTPM" => "tpm",
            "VirtualNVDIMM" => "nvdimm",
            "VirtualSCSIPassthrough" => "scsi_passthrough",
            "VirtualPrecisionClock" => "clock",
            c if c.starts_with("VirtualHd")
                || c.ends_with("SoundCard")
                || c == "VirtualEnsoniq1371" =>
            {
                "sound"
            }
            _ => continue,
        };
        out.push(json!({
            "key": int(d, "key"),
            "label": label(d),
            "class": class(d),
            "kind": kind,
            "connected": flag(d, "connectable.connected"),
            "start_connected": flag(d, "connectable.startConnected"),
            "file": text(d, "backing.fileName"),
        }));
    }
    out.sort_by_key(|n| int(n, "key").unwrap_or(i64::MAX));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ctl(class: &str, key: i64, bus: i64) -> Value {
        json!({"_vimtype": format!("vim.vm.device.{class}"), "key": key, "busNumber": bus, "sharedBus": "noSharing"})
    }

    fn disk(key: i64, controller: i64, unit: i64, file: &str) -> Value {
        json!({"_vimtype": "vim.vm.device.VirtualDisk", "key": key, "controllerKey": controller, "unitNumber": unit,
               "capacityInBytes": 1024, "deviceInfo": {"label": format!("Hard disk {key}")},
               "backing": {"_vimtype": "vim.vm.device.VirtualDisk.FlatVer2BackingInfo", "fileName": file, "diskMode": "persistent"}})
    }

    fn estate() -> Vec<Value> {
        vec![
            ctl("VirtualIDEController", 200, 0),
            ctl("ParaVirtualSCSIController", 1001, 1),
            ctl("VirtualLsiLogicController", 1000, 0),
            ctl("VirtualAHCIController", 15000, 0),
            ctl("VirtualNVMEController", 31000, 0),
            disk(3000, 200, 0, "[ds] w/ide.vmdk"),
            disk(31000, 31000, 0, "[ds] w/nvme.vmdk"),
            disk(16000, 15000, 0, "[ds] w/sata.vmdk"),
            disk(2016, 1001, 0, "[ds] w/s10.vmdk"),
            disk(2010, 1000, 10, "[ds] w/s0a.vmdk"),
            disk(2002, 1000, 2, "[ds] w/s02.vmdk"),
        ]
    }

    fn keys(v: &[Value]) -> Vec<i64> {
        v.iter().filter_map(|d| int(d, "key")).collect()
    }

    #[test]
    fn guest_order_is_by_bus_then_numbers() {
        let d = disks(&estate(), &[], None);
        assert_eq!(keys(&d), [2002, 2010, 2016, 16000, 31000, 3000]);
        assert_eq!(d[0]["boot"], true);
        assert_eq!(
            (&d[1]["bus"], &d[1]["unit"], &d[2]["bus_number"]),
            (&json!("scsi"), &json!(10), &json!(1))
        );
    }

    #[test]
    fn boot_options_name_the_boot_disk() {
        let order = [
            json!({"_vimtype": "vim.vm.BootOptions.BootableCdromDevice"}),
            json!({"_vimtype": "vim.vm.BootOptions.BootableDiskDevice", "deviceKey": 2016}),
        ];
        let d = disks(&estate(), &order, None);
        let boot: Vec<_> = d.iter().filter(|d| d["boot"] == true).collect();
        assert_eq!((boot.len(), int(boot[0], "key")), (1, Some(2016)));
    }

    #[test]
    fn the_data_file_is_the_servers() {
        let devices = [
            ctl("ParaVirtualSCSIController", 1000, 0),
            disk(2000, 1000, 0, "[ds] w/w_1.vmdk"),
        ];
        let by_chain = json!({"file": [{"key": 4, "type": "diskDescriptor", "name": "[ds] w/w_1.vmdk"},
                                       {"key": 7, "type": "diskExtent", "name": "[ds] other/odd-flat.vmdk"}],
                              "disk": [{"key": 2000, "chain": [{"fileKey": [4, 7]}]}]});
        assert_eq!(
            disks(&devices, &[], Some(&by_chain))[0]["data_file"],
            "[ds] other/odd-flat.vmdk"
        );
        let by_name =
            json!({"file": [{"key": 7, "type": "diskExtent", "name": "[ds] w/w_1-flat.vmdk"}]});
        assert_eq!(
            disks(&devices, &[], Some(&by_name))[0]["data_file"],
            "[ds] w/w_1-flat.vmdk"
        );
        let vsan =
            json!({"file": [{"key": 4, "type": "diskDescriptor", "name": "[ds] w/w_1.vmdk"}]});
        assert_eq!(
            disks(&devices, &[], Some(&vsan))[0]["data_file"],
            Value::Null
        );
        assert_eq!(
            disks(&devices, &[], None)[0]["data_file"],
            "[ds] w/w_1-flat.vmdk"
        );
    }

    #[test]
    fn a_delta_has_no_data_file() {
        let mut d = disk(2000, 1000, 0, "[ds] w/w-000002.vmdk");
        let got = disks(std::slice::from_ref(&d), &[], None);
        assert_eq!(
            (&got[0]["delta"], &got[0]["data_file"]),
            (&json!(true), &Value::Null)
        );
        d["backing"]["fileName"] = json!("[ds] w/w.vmdk");
        d["backing"]["parent"] = json!({"fileName": "[ds] base/b.vmdk"});
        assert_eq!(
            disks(&[d], &[], None)[0]["snapshot_parent"],
            "[ds] base/b.vmdk"
        );
    }

    #[test]
    fn nic_backings() {
        let nic = |class: &str, key: i64, backing: Value| {
            json!({"_vimtype": format!("vim.vm.device.{class}"), "key": key, "macAddress": "00:50:56:aa:bb:cc",
                   "connectable": {"connected": true, "startConnected": true}, "backing": backing})
        };
        let b = "vim.vm.device.VirtualEthernetCard";
        let got = nics(&[
            nic(
                "VirtualE1000",
                4002,
                json!({"_vimtype": format!("{b}.OpaqueNetworkBackingInfo"), "opaqueNetworkId": "seg-1"}),
            ),
            nic(
                "VirtualVmxnet3",
                4000,
                json!({"_vimtype": format!("{b}.DistributedVirtualPortBackingInfo"),
                "port": {"portgroupKey": "dvportgroup-13", "switchUuid": "50 1c"}}),
            ),
            nic(
                "VirtualE1000e",
                4001,
                json!({"_vimtype": format!("{b}.NetworkBackingInfo"), "network": "vim.Network:network-7", "deviceName": "VM Network"}),
            ),
        ]);
        let short: Vec<_> = got
            .iter()
            .map(|n| {
                (
                    text(n, "model").unwrap_or(""),
                    text(n, "kind").unwrap_or(""),
                    text(n, "portgroup_key").unwrap_or(""),
                )
            })
            .collect();
        assert_eq!(
            short,
            [
                ("vmxnet3", "distributed", "dvportgroup-13"),
                ("e1000e", "standard", "network-7"),
                ("e1000", "opaque", "seg-1")
            ]
        );
        assert_eq!(got[0]["mac"], "00:50:56:AA:BB:CC");
    }
}
