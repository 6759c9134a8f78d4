//! A guest goes over, module by module: both servers, the shared export and one ledger.

use crate::support::triple::agree;
use crate::support::{Done, Lab, worlds};
use serde_json::{Value, json};

const MAC: &str = "00:50:56:81:01:01";

/// What the roles do for `web01`; `run` calls a module and gives its result.
struct Journey<'a> {
    lab: &'a Lab,
    run: &'a mut dyn FnMut(&str, Value) -> Done,
    pending: bool,
}

impl Journey<'_> {
    fn step(&mut self, module: &str, args: Value) -> Done {
        (self.run)(module, args)
    }

    fn info(&mut self) -> Value {
        let d = self.step("vsphere_vm_info", json!({"moid": "vm-101"}));
        d["vms"][0].clone()
    }

    fn go(&mut self) {
        let vm = self.info();
        let uuid = vm["uuid"].as_str().expect("a uuid").to_owned();
        assert_eq!(
            vm["nics"][0]["mac"].as_str().map(str::to_lowercase),
            Some(MAC.into()),
            "{vm:#}"
        );
        self.step(
            "pve_zone",
            json!({"zone": "zvlan", "type": "vlan", "bridge": "vmbr0"}),
        );
        self.step(
            "pve_vnet",
            json!({"zone": "zvlan", "vnets": [{"vnet": "v100", "tag": 100}]}),
        );
        self.step(
            "pve_vm_shell",
            json!({"vmid": 20101, "name": "web01", "node": "pve1", "cores": 2, "memory": 1024, "ostype": "l26", "scsihw": "virtio-scsi-pci",
                   "smbios": format!("uuid={uuid}"), "tags_add": ["migration-shell"], "guard_uuid": uuid, "onboot": false}),
        );
        self.step(
            "pve_nic",
            json!({"vmid": 20101, "interface": "net0", "mac": MAC, "model": "virtio", "bridge": "v100", "guard_uuid": uuid}),
        );
        self.step(
            "vsphere_relocate",
            json!({"moid": "vm-101", "guard_uuid": uuid, "destination_datastore": "migration-nfs"}),
        );
        let disk = self.info()["disks"][0].clone();
        let file = disk["data_file"].as_str().expect("a data file").to_owned();
        let descriptor = json!({"export": self.lab.export(), "storage": "nfs", "vmid": 20101, "disk": 0, "key": disk["key"],
            "source": file.split_once("] ").map_or(file.as_str(), |(_, f)| f), "bytes": disk["bytes"], "source_pending": self.pending});
        let described = self.step("vmdk_descriptor", descriptor);
        self.step(
            "vsphere_powerstate",
            json!({"moid": "vm-101", "guard_uuid": uuid, "state": "shutdown-guest", "timeout": 60}),
        );
        self.step(
            "pve_disk_import",
            json!({"vmid": 20101, "disk": "scsi0", "storage": "data", "format": "raw", "import_from": described["volume"],
                   "source_bytes": disk["bytes"], "source_pending": self.pending, "guard_uuid": uuid}),
        );
        self.step(
            "pve_vm_shell",
            json!({"vmid": 20101, "boot": "order=scsi0", "guard_uuid": uuid}),
        );
        self.step("vsphere_note", json!({"moid": "vm-101", "guard_uuid": uuid, "text": "gone over to Proxmox VE guest 20101"}));
        self.step("pve_vm_shell", json!({"vmid": 20101, "tags_add": ["migration-done"], "tags_remove": ["migration-shell"], "guard_uuid": uuid}));
        self.step(
            "pve_vm_shell",
            json!({"vmid": 20101, "state": "started", "guard_uuid": uuid}),
        );
    }
}

#[test]
fn a_whole_migration_is_planned_in_one_check_run_and_happens_as_planned() {
    let lab = Lab::demo();
    let ledger = tempfile::tempdir().unwrap();
    let mut checks = vec![];
    let (writes, files) = (lab.writes(), lab.files());
    let mut check = |m: &str, a: Value| {
        let d = lab.call(m, a).ledger(ledger.path()).check(true).run().ok();
        let copy = lab_copy(&d);
        checks.push(d);
        copy
    };
    Journey {
        lab: &lab,
        run: &mut check,
        pending: true,
    }
    .go();
    assert_eq!(lab.writes(), writes, "the check run wrote");
    assert_eq!(lab.files(), files, "the check run touched files");
    let before = vmware_bytes(&lab);

    let mut n = 0;
    let mut apply = |m: &str, a: Value| {
        let d = lab.call(m, a.clone()).run().ok();
        if m != "vsphere_vm_info" {
            agree(&checks[n], &d);
            if !d.changed() {
                d.fail("it should have changed something");
            }
            if d.warnings().iter().any(|w| w.contains("foreseen")) {
                d.fail("something else than foreseen");
            }
            let again = lab.call(m, a).run().ok();
            if again.changed() {
                again.fail("a second run is not unchanged");
            }
        }
        n += 1;
        lab_copy(&d)
    };
    Journey {
        lab: &lab,
        run: &mut apply,
        pending: false,
    }
    .go();
    let g = lab.guest(20101).expect("the guest");
    assert_eq!(g["status"], "running");
    assert!(
        g["config"]["net0"]
            .as_str()
            .unwrap()
            .to_lowercase()
            .contains(MAC),
        "{g}"
    );
    // The bytes that VMware had are the bytes that Proxmox has, and VMware's own are as they were.
    let after = vmware_bytes(&lab);
    assert_eq!(before.len(), after.len());
    let copy = std::fs::read(lab.storage("data").join("images/20101/vm-20101-disk-0.raw"))
        .expect("the copy");
    let file = lab.world()["vcenter"]["vms"]
        .as_array()
        .unwrap()
        .iter()
        .find(|v| v["moid"] == "vm-101")
        .unwrap()["disks"][0]
        .clone();
    let path = file["data_file"]
        .as_str()
        .or(file["file"].as_str())
        .or(file["path"].as_str())
        .unwrap_or_else(|| panic!("{file}"))
        .to_owned();
    let source = std::fs::read(if path.starts_with('/') {
        path.into()
    } else {
        lab.dir().join(path)
    })
    .expect("the source");
    assert!(source == copy, "the bytes differ");

    // And a second check run over the whole finds all done, but for what is meant to be off in VMware.
    let ledger = tempfile::tempdir().unwrap();
    let mut rerun = |m: &str, a: Value| {
        let d = lab
            .call(m, a.clone())
            .ledger(ledger.path())
            .check(true)
            .run()
            .ok();
        // The first task of the roles puts the tag back that the last but one removes.
        let tags = a.get("tags_add").is_some() || a.get("tags_remove").is_some();
        if d.changed() && !tags {
            d.fail("a run after the last one should change nothing");
        }
        lab_copy(&d)
    };
    Journey {
        lab: &lab,
        run: &mut rerun,
        pending: true,
    }
    .go();
}

fn lab_copy(d: &Done) -> Done {
    Done::of(d.value.clone())
}

/// Data files of the vCenter side with their lengths.
fn vmware_bytes(lab: &Lab) -> Vec<u64> {
    let mut all: Vec<u64> = lab.world()["vcenter"]["vms"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|v| v["disks"].as_array().cloned().unwrap_or_default())
        .map(|d| d["bytes"].as_u64().unwrap_or(0))
        .collect();
    all.sort_unstable();
    all
}

/// With `attach` the guest waits for requests only, whatever the disk's size: nothing is copied before it starts.
#[test]
fn the_downtime_with_attach_does_not_depend_on_the_size_of_the_disk() {
    let mut seen = vec![];
    for mib in [64_u64, 2048] {
        let lab = Lab::one_guest();
        let folder = lab.export().join("vm");
        std::fs::create_dir_all(&folder).unwrap();
        let f = std::fs::File::create(folder.join("vm-flat.vmdk")).unwrap();
        // Sparse: only the size counts here.
        f.set_len(mib << 20).unwrap();
        let args = json!({"export": lab.export(), "storage": "nfs", "vmid": 100, "disk": 0, "source": "vm/vm-flat.vmdk", "bytes": mib << 20});
        lab.call("vmdk_descriptor", args).run().ok();
        // From here on the guest is off in VMware.
        let (from, files) = (lab.log().len(), lab.files());
        let started = std::time::Instant::now();
        for (m, a) in [
            (
                "pve_disk_import",
                json!({"vmid": 100, "disk": "scsi0", "attach_from": "nfs:100/disk0.vmdk", "source_bytes": mib << 20}),
            ),
            ("pve_vm_shell", json!({"vmid": 100, "boot": "order=scsi0"})),
        ] {
            assert!(lab.call(m, a).run().ok().changed());
        }
        let took = started.elapsed();
        let requests = lab.requests_from(from).len();
        assert_eq!(
            lab.files(),
            files,
            "no file was made or grew: nothing was copied"
        );
        // Settle: moved afterwards, with the guest running.
        assert!(
            lab.call("pve_vm_shell", json!({"vmid": 100, "state": "started"}))
                .run()
                .ok()
                .changed()
        );
        let moved = lab
            .call("pve_disk_import", json!({"vmid": 100, "disk": "scsi0", "state": "moved", "target_storage": "data", "format": "raw", "delete_moved": false}))
            .run()
            .ok();
        let size = std::fs::metadata(lab.storage("data").join("images/100/vm-100-disk-0.raw"))
            .expect("the moved disk")
            .len();
        assert_eq!(size, mib << 20);
        println!(
            "attach of {mib} MiB: {requests} requests, 0 bytes copied, {took:?} between shutdown and ready to start; settle afterwards {:?}",
            moved.took
        );
        seen.push(requests);
    }
    assert_eq!(
        seen[0], seen[1],
        "the number of requests depends on the size"
    );
}

/// The ledger of one check run serves both endpoints and keeps them apart.
#[test]
fn two_clusters_in_one_check_run_do_not_see_each_others_plans() {
    let (a, b) = (Lab::start(worlds::small()), Lab::start(worlds::small()));
    let ledger = tempfile::tempdir().unwrap();
    let make = json!({"vmid": 150, "name": "built", "node": "pve1"});
    a.call("pve_vm_shell", make)
        .ledger(ledger.path())
        .check(true)
        .run()
        .ok();
    let nic = json!({"vmid": 150, "interface": "net0", "bridge": "vmbr0"});
    a.call("pve_nic", nic.clone())
        .ledger(ledger.path())
        .check(true)
        .run()
        .ok();
    b.call("pve_nic", nic)
        .ledger(ledger.path())
        .check(true)
        .run()
        .failed("not_found");
}
