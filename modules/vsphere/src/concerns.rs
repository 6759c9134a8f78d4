//! What would make a migration to Proxmox VE fail or surprise.

use crate::networks::not_translated;
use crate::value::{flag, int, list, text};
use serde_json::{Value, json};
use std::collections::HashMap;

/// NICs that a Proxmox guest can have (source: qemu-server, net0..net31).
const MAX_NICS: usize = 32;
/// Disks on SCSI that a Proxmox guest can have (source: qemu-server, scsi0..scsi30).
const MAX_DISKS: usize = 31;

struct List(Vec<Value>);

impl List {
    fn add(&mut self, id: &str, severity: &str, message: impl Into<String>) {
        self.0
            .push(json!({"id": id, "severity": severity, "message": message.into()}));
    }
    fn blocker(&mut self, id: &str, message: impl Into<String>) {
        self.add(id, "blocker", message);
    }
    fn warning(&mut self, id: &str, message: impl Into<String>) {
        self.add(id, "warning", message);
    }
}

fn labels<'a>(items: impl Iterator<Item = &'a Value>) -> Option<String> {
    let l: Vec<String> = items
        .map(|d| {
            text(d, "label")
                .filter(|l| !l.is_empty())
                .map_or_else(|| format!("device {}", d["key"]), str::to_owned)
        })
        .collect();
    (!l.is_empty()).then(|| l.join(", "))
}

/// The concerns about a machine (shape of [`crate::vm::fact`]); `networks` is the `networks` list of
/// [`crate::networks::report`], `names` those of all machines, for duplicates. Each `{id, severity: blocker|warning, message}`.
pub fn concerns(vm: &Value, networks: Option<&[Value]>, names: Option<&Names<'_>>) -> Vec<Value> {
    let mut c = List(vec![]);
    machine(vm, &mut c);
    disks(vm, &mut c);
    devices(vm, &mut c);
    nics(vm, networks, &mut c);
    if let Some(names) = names {
        duplicates(vm, names, &mut c);
    }
    c.0
}

fn machine(vm: &Value, c: &mut List) {
    match text(vm, "connection") {
        Some("connected") | None => {}
        Some(s) => c.blocker("inaccessible", format!("vCenter says `{s}` of it: what is read may be stale or missing; mend the host or the registration, then look again")),
    }
    if !flag(vm, "has_config") {
        c.blocker("no_config", "its configuration cannot be read (inaccessible, being created, or no privilege): nothing can be planned; mend that first");
        return;
    }
    if flag(vm, "template") {
        c.blocker(
            "template",
            "it is a template: convert it to a machine first, or leave it out",
        );
    }
    match text(vm, "power") {
        Some("suspended") => c.blocker("suspended", "it is suspended: its memory would be lost; resume it and shut it down from inside"),
        Some("poweredOn") => match text(vm, "tools.running") {
            Some("guestToolsRunning") => {}
            Some("guestToolsExecutingScripts") => c.warning("tools_busy", "VMware Tools are running scripts: wait a little before the shutdown"),
            _ => c.blocker("tools_not_running", "VMware Tools are not running: it cannot be shut down cleanly; start or install them, or shut it down from inside before the cutover"),
        },
        _ => {}
    }
    if let Some(v @ ("guestToolsNeedUpgrade" | "guestToolsTooOld" | "guestToolsSupportedOld")) =
        text(vm, "tools.version")
    {
        c.warning("tools_old", format!("VMware Tools are old ({v}): a shutdown from outside may not be heard; update or remove them"));
    }
    if let Some(q) = text(vm, "question.text") {
        c.blocker(
            "question",
            format!(
                "it waits for an answer: \"{}\"; answer it in vCenter",
                q.trim()
            ),
        );
    }
    if list(vm, "snapshots").len() == 1 {
        c.blocker("snapshots", "it has 1 snapshot: its current data is not in the base file; delete (consolidate) it first");
    } else if !list(vm, "snapshots").is_empty() {
        c.blocker("snapshots", format!("it has {} snapshots: its current data is not in the base file; delete (consolidate) them first", list(vm, "snapshots").len()));
    }
    let backup = list(vm, "snapshots")
        .iter()
        .filter_map(|s| text(s, "name"))
        .find(|n| {
            [
                "veeam",
                "backup",
                "commvault",
                "rubrik",
                "nakivo",
                "consolidate helper",
            ]
            .iter()
            .any(|w| n.to_ascii_lowercase().contains(w))
        });
    if let Some(n) = backup {
        c.warning("backup_snapshot", format!("snapshot `{n}` looks like that of a backup product: let the job end, and stop the job for this machine"));
    }
    if flag(vm, "consolidation_needed") {
        c.blocker(
            "consolidation_needed",
            "vCenter says that disks need consolidation: consolidate them first",
        );
    }
    if flag(vm, "encrypted") {
        c.blocker(
            "encrypted",
            "its disks are encrypted: of no use outside vSphere; decrypt them first (storage policy, powered off)",
        );
    } else if flag(vm, "encrypted_home") && !flag(vm, "vtpm") {
        c.warning(
            "encrypted_home",
            "its configuration files are encrypted, its disks are not: only those go over",
        );
    }
    if flag(vm, "vtpm") {
        c.blocker("vtpm", "it has a virtual TPM, whose content cannot be taken over: suspend BitLocker (or keep the recovery key), then allow it by name");
    }
    if flag(vm, "secure_boot") {
        c.warning("secure_boot", "it boots with Secure Boot: the new EFI disk has Microsoft's keys only; own keys (MOK) must be enrolled again");
    }
    if text(vm, "firmware") == Some("efi") {
        c.warning("uefi_boot_entries", "its UEFI boot entries are not taken over: it must have \\EFI\\BOOT\\BOOTX64.EFI (Debian: grub force-efi-extra-removable), or be booted from file once");
    }
    if let Some(ft) = text(vm, "fault_tolerance") {
        c.blocker(
            "fault_tolerance",
            format!("Fault Tolerance is on ({ft}): turn it off first"),
        );
    }
    if flag(vm, "in_vapp") {
        c.warning(
            "vapp",
            "it belongs to a vApp, which may start it again: take it out first",
        );
    }
    if let (Some(cpus), Some(per)) = (int(vm, "cpus"), int(vm, "cores_per_socket"))
        && per > 0
        && cpus % per != 0
    {
        c.warning(
            "vcpus_not_divisible",
            format!(
                "{cpus} vCPUs are not a multiple of {per} cores per socket: it will get {} more",
                per - cpus % per
            ),
        );
    }
    if flag(vm, "cbt") {
        c.warning("cbt", "changed block tracking is on: its -ctk files are of no use on Proxmox VE and are left behind");
    }
    if flag(vm, "tools.installer_mounted") {
        c.warning("tools_installer", "the VMware Tools installer is mounted, which blocks a move of the storage: end the installation");
    }
    for t in list(vm, "running_tasks") {
        c.warning(
            "running_task",
            format!(
                "task {} ({}) is {}: wait for its end",
                text(t, "moid").unwrap_or(""),
                text(t, "operation").unwrap_or(""),
                text(t, "state").unwrap_or("")
            ),
        );
    }
    let disabled: Vec<&str> = list(vm, "disabled_methods")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    if disabled.contains(&"RelocateVM_Task") && text(vm, "connection") == Some("connected") {
        c.warning("relocate_disabled", "somebody (often a backup product) has disabled RelocateVM_Task on it: its storage cannot be moved until that is lifted");
    }
    for s in list(vm, "datastore_states") {
        let name = text(s, "name").unwrap_or("?");
        if s.get("accessible") == Some(&Value::Bool(false)) {
            c.blocker("datastore_inaccessible", format!("datastore {name} is not accessible: its files cannot be read or moved; mend it first"));
        } else if text(s, "maintenance").is_some_and(|m| m != "normal") {
            c.warning("datastore_maintenance", format!("datastore {name} is in (or enters) maintenance mode: nothing can be moved there; end that first"));
        }
    }
    if text(vm, "name").is_some_and(|n| n.is_empty() || n.contains(['/', '\\', '%'])) {
        c.warning("name", "its name has characters that file names cannot have: check its folder on the datastore");
    }
    for p in list(vm, "unreadable").iter().filter_map(Value::as_str) {
        c.warning(
            "unreadable",
            format!("{p} cannot be read with these privileges: nothing is known of it"),
        );
    }
}

fn disks(vm: &Value, c: &mut List) {
    let all = list(vm, "disks");
    let which = |f: &dyn Fn(&Value) -> bool| labels(all.iter().filter(|d| f(d)));
    if let Some(l) = which(&|d| text(d, "rdm") == Some("physical")) {
        c.blocker("rdm_physical", format!("{l}: a physical raw device mapping has no data file; copy its data inside the guest, or attach the LUN to Proxmox VE"));
    }
    if let Some(l) = which(&|d| text(d, "rdm") == Some("virtual")) {
        c.blocker("rdm_virtual", format!("{l}: a virtual raw device mapping cannot be moved to NFS; convert it to a VMDK first"));
    }
    if let Some(l) = which(&|d| {
        text(d, "mode") == Some("independent_nonpersistent")
            || text(d, "mode") == Some("nonpersistent")
    }) {
        c.blocker(
            "independent_nonpersistent",
            format!("{l}: what it writes is thrown away at power off; make it persistent first"),
        );
    }
    if let Some(l) = which(&|d| text(d, "mode") == Some("independent_persistent")) {
        c.warning(
            "independent_persistent",
            format!("{l}: an independent disk can only be moved while the machine is off"),
        );
    }
    if let Some(l) = which(&|d| text(d, "sharing").is_some() || text(d, "shared_bus").is_some()) {
        c.blocker("shared_disk", format!("{l}: shared with other machines (multi-writer or shared bus); they must go over together, by hand"));
    }
    let no_snapshots = list(vm, "snapshots").is_empty();
    if let Some(l) = which(&|d| flag(d, "delta")).filter(|_| no_snapshots) {
        c.blocker("linked_clone", format!("{l}: a linked clone or a leftover delta on another disk; consolidate it, or clone the machine fully"));
    }
    if let Some(l) = which(&|d| flag(d, "native_4k")) {
        c.blocker(
            "native_4k",
            format!("{l}: 4k native sectors are not supported on the way"),
        );
    }
    if let Some(l) = which(&|d| text(d, "bus").is_none()) {
        c.blocker(
            "disk_controller",
            format!("{l}: its controller is not known to us"),
        );
    }
    if let Some(l) = which(&|d| text(d, "bus") == Some("nvme")) {
        c.warning(
            "nvme",
            format!("{l}: becomes a SCSI disk: device names in the guest change"),
        );
    }
    let mut buses: Vec<&str> = all.iter().filter_map(|d| text(d, "bus")).collect();
    buses.dedup();
    if buses.len() > 1 {
        c.warning(
            "mixed_controllers",
            format!(
                "its disks are on {}: their order in the guest can change",
                buses.join(", ")
            ),
        );
    }
    if all.len() > MAX_DISKS {
        c.blocker(
            "too_many_disks",
            format!(
                "{} disks, Proxmox VE takes {MAX_DISKS} on SCSI: merge some, or use other buses",
                all.len()
            ),
        );
    }
    // Where nothing else explains it: vSAN, vVol, or a file that the server does not list.
    if let Some(l) =
        which(&|d| text(d, "data_file").is_none() && text(d, "rdm").is_none() && !flag(d, "delta"))
    {
        c.warning("no_data_file", format!("{l}: no data file is listed for it (vSAN, vVol?): move it to an NFS datastore first"));
    }
    if flag(vm, "windows")
        && all
            .iter()
            .any(|d| flag(d, "boot") && text(d, "controller") != Some("VirtualAHCIController"))
    {
        c.warning("windows_boot_driver", "Windows may lack a boot-started virtio driver: attach the boot disk to SATA first, with a small extra virtio disk, as the role can");
    }
}

fn devices(vm: &Value, c: &mut List) {
    let of = |kind: &str| {
        labels(
            list(vm, "devices")
                .iter()
                .filter(|d| text(d, "kind") == Some(kind)),
        )
    };
    if let Some(l) = of("passthrough") {
        c.blocker("passthrough", format!("{l}: a PCI device of the host; remove it, and give the guest one on Proxmox VE by hand"));
    }
    if let Some(l) = of("scsi_passthrough") {
        c.blocker(
            "scsi_passthrough",
            format!("{l}: a SCSI device of the host; remove it first"),
        );
    }
    if let Some(l) = of("nvdimm") {
        c.blocker(
            "nvdimm",
            format!("{l}: persistent memory does not go over; remove it first"),
        );
    }
    if let Some(l) = of("usb") {
        c.warning(
            "usb",
            format!(
                "{l}: a USB device (a dongle?) stays behind; connect it to the Proxmox VE node"
            ),
        );
    }
    if let Some(l) = of("serial") {
        c.warning("serial", format!("{l}: a serial port is not taken over"));
    }
    if let Some(l) = of("parallel") {
        c.warning(
            "parallel",
            format!("{l}: a parallel port is not taken over"),
        );
    }
    let media = labels(list(vm, "devices").iter().filter(|d| {
        matches!(text(d, "kind"), Some("cdrom" | "floppy"))
            && (text(d, "file").is_some_and(|f| !f.is_empty()))
            && (flag(d, "connected") || flag(d, "start_connected"))
    }));
    if let Some(l) = media {
        c.warning("cd_image", format!("{l}: an image is inserted, which can block a move of the storage and is not copied; disconnect it"));
    }
}

fn nics(vm: &Value, networks: Option<&[Value]>, c: &mut List) {
    let all = list(vm, "nics");
    if all.len() > MAX_NICS {
        c.blocker(
            "too_many_nics",
            format!(
                "{} network cards, Proxmox VE takes {MAX_NICS}: remove some",
                all.len()
            ),
        );
    }
    if let Some(l) = labels(all.iter().filter(|n| text(n, "model") == Some("sriov"))) {
        c.blocker(
            "sriov",
            format!("{l}: a virtual function of the host's card; replace it by a VMXNET3 first"),
        );
    }
    if let Some(l) = labels(
        all.iter()
            .filter(|n| text(n, "address_type").is_some_and(|t| t.eq_ignore_ascii_case("manual"))),
    ) {
        c.warning(
            "mac_manual",
            format!("{l}: its MAC was set by hand; it is kept, see that nothing else has it"),
        );
    }
    // Ranges: docs/vsphere-facts.md section 5.
    if let Some(l) = labels(all.iter().filter(|n| out_of_range(n))) {
        c.warning("mac_out_of_range", format!("{l}: its MAC is not of the range of its type (from another vCenter or host?); it is kept, see that nothing else has it"));
    }
    if !all.is_empty() {
        c.warning("interface_names", "interface names in the guest will change (ens192 becomes ens18): bind the configuration to the MACs before");
    }
    let Some(networks) = networks else {
        return;
    };
    for n in all {
        let l = text(n, "label").unwrap_or("a network card");
        let key = text(n, "portgroup_key");
        let net = networks
            .iter()
            .find(|x| key.is_some() && text(x, "key") == key);
        let way = "map it in network_map, or move the card to a portgroup with one VLAN";
        match net {
            None => c.blocker(
                "network_unknown",
                format!(
                    "{l}: its network ({}) is not there or cannot be read; {way}",
                    key.or(text(n, "portgroup")).unwrap_or("none")
                ),
            ),
            Some(x) => {
                let name = text(x, "name").unwrap_or("");
                if let Some((id, why)) = not_translated(x) {
                    c.blocker(
                        &format!("network_{id}"),
                        format!("{l}: {name}: {why}; {way}"),
                    );
                }
                if text(x, "config.type") == Some("ephemeral") && !flag(x, "nsx") {
                    c.warning("network_ephemeral", format!("{l}: {name} gives ports only while the machine runs; that does not matter on Proxmox VE"));
                }
            }
        }
    }
}

/// vCenter assigns 00:50:56:80-bf, hosts generate 00:0c:29.
fn out_of_range(nic: &Value) -> bool {
    let mac = text(nic, "mac").unwrap_or("").to_ascii_lowercase();
    let fourth = mac.get(9..11).and_then(|h| u8::from_str_radix(h, 16).ok());
    match text(nic, "address_type")
        .map(str::to_ascii_lowercase)
        .as_deref()
    {
        Some("assigned") => {
            let ours = fourth.is_some_and(|b| (0x80..=0xbf).contains(&b));
            !(mac.is_empty() || mac.starts_with("00:50:56:") && ours)
        }
        Some("generated") => !mac.is_empty() && !mac.starts_with("00:0c:29:"),
        _ => false,
    }
}

/// Bytes of these machines' disks that are not on that datastore yet, and what it has room for:
/// `{datastore, bytes, free, capacity, fits}`; `fits` is null where the free space cannot be read.
pub fn batch(vms: &[&Value], datastore: &Value) -> Value {
    let name = text(datastore, "name");
    let bytes: i64 = vms.iter().map(|v| bytes_elsewhere(v, name)).sum();
    let free = int(datastore, "free");
    json!({"datastore": name, "bytes": bytes, "free": free, "capacity": int(datastore, "capacity"), "fits": free.map(|f| bytes <= f)})
}

/// Raw device mappings stay where they are.
fn bytes_elsewhere(vm: &Value, datastore: Option<&str>) -> i64 {
    list(vm, "disks")
        .iter()
        .filter(|d| text(d, "datastore") != datastore && text(d, "rdm").is_none())
        .filter_map(|d| int(d, "bytes"))
        .sum()
}

/// What a machine's move to that datastore has against it; `batch` is that of all machines that move with it.
pub fn space(vm: &Value, batch: &Value) -> Vec<Value> {
    let mut c = List(vec![]);
    let mine = bytes_elsewhere(vm, text(batch, "datastore"));
    let name = text(batch, "datastore").unwrap_or("?");
    if let (Some(free), Some(all)) = (int(batch, "free"), int(batch, "bytes"))
        && mine > 0
    {
        if mine > free {
            c.blocker("no_space", format!("its {mine} bytes do not fit on {name}, which has {free} free: make room, or choose another datastore"));
        } else if all > free {
            c.warning("no_space_batch", format!("it fits on {name} alone, but the {all} bytes of this batch do not ({free} free): move fewer at a time"));
        }
    }
    c.0
}

/// All machines by name and by BIOS uuid: made once, since to search them for each machine grows with the square of their number.
#[derive(Debug, Default)]
pub struct Names<'a> {
    by_name: HashMap<&'a str, Vec<&'a Value>>,
    by_uuid: HashMap<&'a str, Vec<&'a Value>>,
}

impl<'a> Names<'a> {
    /// From the list of all machines, each with `moid`, `name`, `uuid` and `path`.
    pub fn new(all: &'a [Value]) -> Self {
        let mut names = Names::default();
        for n in all {
            for (field, by) in [("name", &mut names.by_name), ("uuid", &mut names.by_uuid)] {
                if let Some(t) = text(n, field).filter(|t| !t.is_empty()) {
                    by.entry(t).or_default().push(n);
                }
            }
        }
        names
    }
}

fn duplicates(vm: &Value, names: &Names<'_>, c: &mut List) {
    let me = text(vm, "moid");
    let same = |by: &HashMap<&str, Vec<&Value>>, wanted: Option<&str>| -> Option<String> {
        let l: Vec<String> = by
            .get(wanted?)?
            .iter()
            .filter(|n| text(n, "moid") != me)
            .map(|n| {
                format!(
                    "{} ({})",
                    text(n, "moid").unwrap_or(""),
                    text(n, "path").unwrap_or("")
                )
            })
            .collect();
        (!l.is_empty()).then(|| l.join(", "))
    };
    if let Some(l) = same(&names.by_name, text(vm, "name")) {
        c.warning("duplicate_name", format!("{l} has the same name: say which one by moid, and give them different names on Proxmox VE"));
    }
    if let Some(l) = same(&names.by_uuid, text(vm, "uuid")) {
        c.warning("duplicate_uuid", format!("{l} has the same BIOS uuid: guards by uuid cannot tell them apart; give one of them a new uuid"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clean() -> Value {
        json!({"moid": "vm-1", "name": "web", "has_config": true, "connection": "connected", "power": "poweredOn",
               "tools": {"running": "guestToolsRunning"}, "firmware": "bios", "cpus": 4, "cores_per_socket": 2,
               "disks": [{"key": 2000, "label": "Hard disk 1", "bus": "scsi", "mode": "persistent", "data_file": "[a] b-flat.vmdk", "boot": true}],
               "nics": [{"key": 4000, "label": "Network adapter 1", "kind": "distributed", "portgroup_key": "pg-1"}],
               "snapshots": [], "devices": []})
    }

    fn nets() -> Vec<Value> {
        vec![
            json!({"key": "pg-1", "name": "web", "kind": "distributed", "vlan": {"mode": "access", "id": 10}}),
            json!({"key": "pg-2", "name": "all", "kind": "distributed", "vlan": {"mode": "trunk", "ranges": [[0, 4094]]}}),
            json!({"key": "net-3", "name": "VM Network", "kind": "standard", "vlan": {"mode": "none"}}),
        ]
    }

    fn ids(vm: &Value) -> Vec<String> {
        let n = nets();
        let names = [
            json!({"moid": "vm-1", "name": "web", "path": "/DC0/vm"}),
            json!({"moid": "vm-2", "name": "twin", "path": "/DC0/vm/b"}),
        ];
        concerns(vm, Some(&n), Some(&Names::new(&names)))
            .iter()
            .filter_map(|c| text(c, "id").map(str::to_owned))
            .collect()
    }

    /// One change of a clean machine, and the concern that it must raise.
    #[test]
    fn each_concern_is_raised_by_its_cause_alone() {
        assert_eq!(ids(&clean()), ["interface_names"]);
        let cases: Vec<(&str, Value, &str)> = vec![
            (
                "/snapshots",
                json!([{"name": "before update"}]),
                "snapshots",
            ),
            ("/consolidation_needed", json!(true), "consolidation_needed"),
            ("/disks/0/rdm", json!("physical"), "rdm_physical"),
            ("/disks/0/rdm", json!("virtual"), "rdm_virtual"),
            (
                "/disks/0/mode",
                json!("independent_nonpersistent"),
                "independent_nonpersistent",
            ),
            (
                "/disks/0/mode",
                json!("independent_persistent"),
                "independent_persistent",
            ),
            ("/disks/0/sharing", json!("multiwriter"), "shared_disk"),
            (
                "/disks/0/shared_bus",
                json!("virtualSharing"),
                "shared_disk",
            ),
            ("/disks/0/delta", json!(true), "linked_clone"),
            ("/power", json!("suspended"), "suspended"),
            ("/question", json!({"text": "CD locked?"}), "question"),
            ("/encrypted", json!(true), "encrypted"),
            ("/encrypted_home", json!(true), "encrypted_home"),
            ("/vtpm", json!(true), "vtpm"),
            ("/secure_boot", json!(true), "secure_boot"),
            (
                "/tools",
                json!({"running": "guestToolsNotRunning"}),
                "tools_not_running",
            ),
            (
                "/tools",
                json!({"running": "guestToolsRunning", "version": "guestToolsTooOld"}),
                "tools_old",
            ),
            ("/template", json!(true), "template"),
            (
                "/devices",
                json!([{"key": 1, "kind": "passthrough"}]),
                "passthrough",
            ),
            ("/devices", json!([{"key": 1, "kind": "usb"}]), "usb"),
            ("/name", json!("twin"), "duplicate_name"),
            ("/connection", json!("disconnected"), "inaccessible"),
            ("/nics/0/portgroup_key", json!("pg-2"), "network_trunk"),
            ("/nics/0/portgroup_key", json!("net-3"), "network_standard"),
            ("/nics/0/portgroup_key", json!("gone"), "network_unknown"),
            ("/nics/0/address_type", json!("Manual"), "mac_manual"),
            ("/cpus", json!(3), "vcpus_not_divisible"),
            ("/fault_tolerance", json!("running"), "fault_tolerance"),
            ("/windows", json!(true), "windows_boot_driver"),
            (
                "/datastore_states",
                json!([{"name": "a", "accessible": false, "maintenance": "normal"}]),
                "datastore_inaccessible",
            ),
            (
                "/datastore_states",
                json!([{"name": "a", "accessible": true, "maintenance": "inMaintenance"}]),
                "datastore_maintenance",
            ),
            (
                "/nics/0",
                json!({"key": 4000, "label": "Network adapter 1", "kind": "distributed", "portgroup_key": "pg-1", "address_type": "Assigned", "mac": "00:50:56:01:02:03"}),
                "mac_out_of_range",
            ),
            (
                "/nics/0",
                json!({"key": 4000, "label": "Network adapter 1", "kind": "distributed", "portgroup_key": "pg-1", "address_type": "generated", "mac": "00:50:56:81:02:03"}),
                "mac_out_of_range",
            ),
            ("/nics/0/model", json!("sriov"), "sriov"),
            ("/devices", json!([{"key": 1, "kind": "serial"}]), "serial"),
            (
                "/devices",
                json!([{"key": 1, "kind": "parallel"}]),
                "parallel",
            ),
            (
                "/devices",
                json!([{"key": 1, "kind": "scsi_passthrough"}]),
                "scsi_passthrough",
            ),
            ("/devices", json!([{"key": 1, "kind": "nvdimm"}]), "nvdimm"),
            (
                "/devices",
                json!([{"key": 1, "kind": "cdrom", "file": "[ds] a.iso", "connected": true}]),
                "cd_image",
            ),
            ("/cbt", json!(true), "cbt"),
            ("/in_vapp", json!(true), "vapp"),
            ("/name", json!("a/b"), "name"),
            ("/firmware", json!("efi"), "uefi_boot_entries"),
            ("/tools/installer_mounted", json!(true), "tools_installer"),
            (
                "/tools/running",
                json!("guestToolsExecutingScripts"),
                "tools_busy",
            ),
            ("/disks/0/bus", json!("nvme"), "nvme"),
            ("/disks/0/bus", Value::Null, "disk_controller"),
            ("/disks/0/native_4k", json!(true), "native_4k"),
            ("/disks/0/data_file", Value::Null, "no_data_file"),
            ("/unreadable", json!(["config.uuid"]), "unreadable"),
            (
                "/disabled_methods",
                json!(["RelocateVM_Task"]),
                "relocate_disabled",
            ),
            (
                "/running_tasks",
                json!([{"moid": "task-1", "state": "running"}]),
                "running_task",
            ),
        ];
        for (pointer, value, wanted) in cases {
            let mut vm = clean();
            let (above, last) = pointer.rsplit_once('/').expect("pointer");
            match vm.pointer_mut(pointer) {
                Some(v) => *v = value,
                None => vm.pointer_mut(above).expect("there")[last] = value,
            }
            let got: Vec<String> = ids(&vm)
                .into_iter()
                .filter(|i| i != "interface_names")
                .collect();
            assert_eq!(got, [wanted], "{pointer}");
        }
    }

    #[test]
    fn several_at_once() {
        let mut vm = clean();
        vm["snapshots"] = json!([{"name": "VEEAM BACKUP TEMPORARY SNAPSHOT"}]);
        vm["uuid"] = json!("u");
        let names = [json!({"moid": "vm-2", "name": "b", "uuid": "u", "path": "/x"})];
        let got: Vec<Value> = concerns(&vm, None, Some(&Names::new(&names)));
        for id in ["snapshots", "backup_snapshot", "duplicate_uuid"] {
            assert!(got.iter().any(|c| c["id"] == id), "{id}: {got:?}");
        }
        let mut vm = clean();
        let mut second = vm["disks"][0].clone();
        second["bus"] = json!("sata");
        vm["disks"].as_array_mut().expect("disks").push(second);
        vm["has_config"] = json!(true);
        assert!(ids(&vm).iter().any(|i| i == "mixed_controllers"));
        vm["has_config"] = json!(false);
        assert!(ids(&vm).iter().any(|i| i == "no_config"));
    }

    #[test]
    fn bytes_against_free_space() {
        let vm = |bytes: i64, on: &str| json!({"disks": [{"bytes": bytes, "datastore": on}, {"bytes": 7, "datastore": "x", "rdm": "physical"}]});
        let store = json!({"name": "nfs", "free": 100, "capacity": 500});
        let (a, b, c) = (vm(60, "ssd"), vm(70, "ssd"), vm(400, "nfs"));
        let all = batch(&[&a, &b, &c], &store);
        assert_eq!(
            all,
            json!({"datastore": "nfs", "bytes": 130, "free": 100, "capacity": 500, "fits": false})
        );
        let id = |v: &Value, batch: &Value| space(v, batch).first().map(|c| c["id"].clone());
        assert_eq!(id(&a, &all), Some(json!("no_space_batch")));
        assert_eq!(id(&c, &all), None, "it is there already");
        assert_eq!(id(&vm(101, "ssd"), &all), Some(json!("no_space")));
        assert_eq!(id(&a, &batch(&[&a], &store)), None);
        let unknown = batch(&[&a], &json!({"name": "nfs"}));
        assert_eq!((&unknown["fits"], id(&a, &unknown)), (&Value::Null, None));
    }

    #[test]
    fn too_many_of_them() {
        let mut vm = clean();
        vm["nics"] = json!(vec![clean()["nics"][0].clone(); 33]);
        vm["disks"] = json!(vec![clean()["disks"][0].clone(); 32]);
        let got = ids(&vm);
        assert!(
            got.iter().any(|i| i == "too_many_nics") && got.iter().any(|i| i == "too_many_disks"),
            "{got:?}"
        );
    }

    #[test]
    fn a_duplicate_says_where() {
        let mut vm = clean();
        vm["name"] = json!("twin");
        let names = [json!({"moid": "vm-2", "name": "twin", "path": "/DC0/vm/b"})];
        let got = concerns(&vm, None, Some(&Names::new(&names)));
        assert!(
            got.iter()
                .any(|c| text(c, "message").is_some_and(|m| m.contains("vm-2 (/DC0/vm/b)"))),
            "{got:?}"
        );
    }
}
