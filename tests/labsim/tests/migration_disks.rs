//! How VMware's disks get in (docs/pve-facts.md, "Importing a VMDK that ESXi wrote"), on real bytes.
mod support;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use support::Rig;

const FOLDER: &str = "Büro Server [1]";
const BYTES: usize = 4 << 20;

fn world(rate: u64) -> Value {
    json!({
        "nodes": [{"node": "pve1", "status": "online"}, {"node": "pve2", "status": "online"}],
        "network": [{"iface": "vmbr0", "type": "bridge", "active": 1}],
        "storage": [
            {"storage": "local", "type": "dir", "path": "/var/lib/vz", "content": "images,iso"},
            {"storage": "thin", "type": "lvmthin", "content": "images", "vgname": "pve"},
            {"storage": "nfs", "type": "nfs", "export": true, "content": "images,import"},
            {"storage": "esx", "type": "esxi", "export": true, "content": "import", "server": "192.0.2.9"}],
        "users": [{"userid": "root@pam", "enable": 1}],
        "tokens": {"root@pam": [{"tokenid": "full", "privsep": 0}]},
        "timing": {"task_ms": 1, "copy_bytes_per_s": rate, "kinds": {"flock": 200}},
    })
}

fn descriptor(extent: &str, bytes: usize) -> String {
    format!(
        "# Disk DescriptorFile\nversion=1\nCID=fffffffe\nparentCID=ffffffff\ncreateType=\"vmfs\"\n\n# Extent description\n\
         RW {} VMFS \"{extent}\"\n\n# The Disk Data Base\n#DDB\nddb.adapterType = \"lsilogic\"\nddb.virtualHWVersion = \"19\"\n",
        bytes / 512
    )
}

/// A lab whose export holds a guest of VMware's as ESXi writes it, and the bytes of its disk.
fn rig(name: &str, rate: u64) -> (Rig, Vec<u8>) {
    let rig = Rig::new(name, world(rate));
    let data: Vec<u8> = (0..BYTES)
        .map(|i| (i as u32).wrapping_mul(2_654_435_761).to_be_bytes()[0])
        .collect();
    let folder = export(&rig).join(FOLDER);
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("app01-flat.vmdk"), &data).expect("the data file");
    std::fs::write(
        folder.join("app01.vmdk"),
        descriptor("app01-flat.vmdk", BYTES),
    )
    .expect("the descriptor");
    (rig, data)
}

fn export(rig: &Rig) -> PathBuf {
    rig.dir.join("export")
}

/// Our own descriptor in `images/<vmid>/`, as `vmdk_descriptor` writes it.
fn link(rig: &Rig, vmid: u32) -> PathBuf {
    let folder = export(rig).join(format!("images/{vmid}"));
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join("disk0.vmdk");
    std::fs::write(
        &path,
        descriptor(&format!("../../{FOLDER}/app01-flat.vmdk"), BYTES),
    )
    .expect("our descriptor");
    path
}

/// The bytes that a guest would read from an image.
fn guest_bytes(path: &Path, format: &str) -> Vec<u8> {
    let raw = std::env::temp_dir().join(format!(
        "labsim-raw-{}-{}",
        std::process::id(),
        path.file_name().expect("a name").to_string_lossy()
    ));
    let ran = Command::new("qemu-img")
        .args(["convert", "-f", format, "-O", "raw"])
        .arg(path)
        .arg(&raw)
        .status();
    assert!(
        ran.is_ok_and(|s| s.success()),
        "qemu-img reads {}",
        path.display()
    );
    let bytes = std::fs::read(&raw).expect("a raw copy");
    let _ = std::fs::remove_file(raw);
    bytes
}

fn put(rig: &Rig, signer: &str, vmid: u32, params: Value) -> (u16, String) {
    let answer = rig.send(
        signer,
        "POST",
        &format!("/nodes/pve1/qemu/{vmid}/config"),
        &params,
        false,
    );
    match answer.data.as_str() {
        Some(upid) => (answer.status, rig.follow(upid).0),
        None => (answer.status, answer.message),
    }
}

const TOKEN: &str = "root@pam!full token";
const TICKET: &str = "root@pam ticket";

#[test]
fn every_row_of_the_table_of_import_sources() {
    let (rig, data) = rig("imports", 0);
    rig.done(
        "POST",
        "/nodes/pve1/qemu",
        json!({"vmid": 20042, "name": "app01"}),
    );
    link(&rig, 20042);
    let import = export(&rig).join("import");
    std::fs::create_dir_all(&import).expect("a folder");
    std::fs::copy(
        export(&rig).join(FOLDER).join("app01.vmdk"),
        import.join("app01.vmdk"),
    )
    .expect("a copy");
    std::fs::copy(
        export(&rig).join(FOLDER).join("app01-flat.vmdk"),
        import.join("app01-flat.vmdk"),
    )
    .expect("a copy");
    let single = import.join("single.vmdk");
    let flat = export(&rig).join(FOLDER).join("app01-flat.vmdk");
    let made = Command::new("qemu-img")
        .args([
            "convert",
            "-f",
            "raw",
            "-O",
            "vmdk",
            "-o",
            "subformat=streamOptimized",
        ])
        .arg(&flat)
        .arg(&single)
        .status();
    assert!(made.is_ok_and(|s| s.success()), "a file in one piece");
    let absolute = format!("/mnt/pve/nfs/{FOLDER}/app01.vmdk");
    let absolute_flat = format!("/mnt/pve/nfs/{FOLDER}/app01-flat.vmdk");
    let refused = [
        (
            TICKET,
            absolute.as_str(),
            200,
            "multiple children or extents are not allowed!",
        ),
        (
            TICKET,
            absolute_flat.as_str(),
            200,
            "invalid VMDK image descriptor",
        ),
        (
            TOKEN,
            absolute.as_str(),
            500,
            "Only root can pass arbitrary filesystem paths.",
        ),
        (
            TICKET,
            "nfs:import/app01/app01.vmdk",
            500,
            "unable to parse directory volume name 'import/app01/app01.vmdk'",
        ),
        (
            TOKEN,
            "nfs:import/app01.vmdk",
            200,
            "multiple children or extents are not allowed!",
        ),
        (TOKEN, "nfs:20042/missing.vmdk", 200, "failed to stat"),
    ];
    for (signer, source, status, text) in refused {
        let (got, why) = put(
            &rig,
            signer,
            20042,
            json!({"scsi0": format!("local:0,import-from={source},format=qcow2")}),
        );
        assert!(
            got == status && why.contains(text),
            "{source} by {signer}: {got} {why}"
        );
        assert!(
            rig.config(20042, false)["scsi0"].is_null(),
            "{source} left a disk"
        );
    }
    let left =
        std::fs::read_dir(rig.dir.join("storage/local/images/20042")).map_or(0, Iterator::count);
    assert_eq!(left, 0, "refused imports leave no volume");
    let works = [
        ("scsi0", "nfs:20042/disk0.vmdk", "local", "qcow2"),
        ("scsi1", "nfs:20042/disk0.vmdk", "thin", "raw"),
        ("scsi2", "nfs:import/single.vmdk", "local", "raw"),
        (
            "scsi3",
            &format!("esx:ha-datacenter/datastore1/{}/app01.vmdk", "plain"),
            "local",
            "qcow2",
        ),
    ];
    std::fs::create_dir_all(export(&rig).join("plain")).expect("a folder");
    for name in ["app01.vmdk", "app01-flat.vmdk"] {
        std::fs::copy(
            export(&rig).join(FOLDER).join(name),
            export(&rig).join("plain").join(name),
        )
        .expect("a copy");
    }
    for (key, source, target, format) in works {
        let (status, exit) = put(
            &rig,
            TOKEN,
            20042,
            json!({key: format!("{target}:0,import-from={source},format={format}")}),
        );
        assert_eq!((status, exit.as_str()), (200, "OK"), "{source} to {target}");
        let value = rig.config(20042, false)[key]
            .as_str()
            .unwrap_or("")
            .to_string();
        assert!(value.ends_with("size=4M"), "{value}");
        let volume = value.split([':', ',']).nth(1).unwrap_or("").to_string();
        let path = match target {
            "thin" => rig.dir.join("storage/thin").join(volume),
            _ => rig.dir.join("storage/local/images").join(volume),
        };
        assert!(
            guest_bytes(&path, format) == data,
            "{source}: other bytes in {}",
            path.display()
        );
    }
    assert!(
        std::fs::read(&flat).expect("VMware's data file") == data,
        "VMware's file is as it was"
    );
    assert_eq!(
        put(
            &rig,
            TOKEN,
            20042,
            json!({"scsi4": "thin:0,import-from=nfs:20042/disk0.vmdk,format=qcow2"})
        )
        .1,
        "unsupported format 'qcow2'"
    );
}

#[test]
fn attach_run_move_and_remove() {
    let (rig, data) = rig("attach", 0);
    rig.done(
        "POST",
        "/nodes/pve1/qemu",
        json!({"vmid": 20042, "name": "app01", "net0": "virtio,bridge=vmbr0", "agent": "1"}),
    );
    let ours = link(&rig, 20042);
    assert_eq!(
        put(&rig, TOKEN, 20042, json!({"scsi0": "nfs:20042/disk0.vmdk"})).1,
        "OK"
    );
    assert_eq!(
        rig.config(20042, false)["scsi0"],
        "nfs:20042/disk0.vmdk,size=4M"
    );
    rig.done(
        "PUT",
        "/nodes/pve1/qemu/20042/config",
        json!({"boot": "order=scsi0"}),
    );
    rig.done("POST", "/nodes/pve1/qemu/20042/status/start", json!({}));
    rig.done(
        "POST",
        "/nodes/pve1/qemu/20042/move_disk",
        json!({"disk": "scsi0", "storage": "local", "format": "qcow2"}),
    );
    let config = rig.config(20042, false);
    assert_eq!(
        (&config["scsi0"], &config["unused0"]),
        (
            &json!("local:20042/vm-20042-disk-0.qcow2,size=4M"),
            &json!("nfs:20042/disk0.vmdk")
        )
    );
    assert!(
        guest_bytes(
            &rig.dir
                .join("storage/local/images/20042/vm-20042-disk-0.qcow2"),
            "qcow2"
        ) == data
    );
    rig.done("POST", "/nodes/pve1/qemu/20042/status/stop", json!({}));
    assert!(ours.exists());
    rig.done(
        "DELETE",
        "/nodes/pve1/qemu/20042",
        json!({"purge": 1, "destroy-unreferenced-disks": 1}),
    );
    assert!(
        !export(&rig).join("images/20042").exists(),
        "the descriptor and its folder are gone"
    );
    assert!(!rig.dir.join("storage/local/images/20042").exists());
    let flat = export(&rig).join(FOLDER).join("app01-flat.vmdk");
    assert!(
        std::fs::read(flat).expect("VMware's data file") == data,
        "VMware's data file is as it was"
    );
    assert!(export(&rig).join(FOLDER).join("app01.vmdk").exists());
    // A descriptor that nobody names goes only when that is asked for.
    rig.done("POST", "/nodes/pve1/qemu", json!({"vmid": 20043}));
    let unnamed = link(&rig, 20043);
    rig.done("DELETE", "/nodes/pve1/qemu/20043", json!({}));
    assert!(unnamed.exists());
    rig.done("POST", "/nodes/pve1/qemu", json!({"vmid": 20043}));
    rig.done(
        "DELETE",
        "/nodes/pve1/qemu/20043",
        json!({"destroy-unreferenced-disks": 1}),
    );
    assert!(!unnamed.exists());
}

#[test]
fn a_copy_takes_its_time_holds_the_file_lock_and_can_be_stopped() {
    let (rig, _) = rig("slow", 2 << 20);
    rig.done("POST", "/nodes/pve1/qemu", json!({"vmid": 20042}));
    link(&rig, 20042);
    let start = Instant::now();
    let import = json!({"scsi0": "local:0,import-from=nfs:20042/disk0.vmdk,format=raw"});
    let upid = rig
        .root("POST", "/nodes/pve1/qemu/20042/config", import.clone())
        .data
        .as_str()
        .unwrap_or("")
        .to_string();
    std::thread::sleep(Duration::from_millis(300));
    let busy = rig.root("PUT", "/nodes/pve1/qemu/20042/config", json!({"cores": 2}));
    assert_eq!(
        (busy.status, busy.message.trim()),
        (
            500,
            "can't lock file '/var/lock/qemu-server/lock-20042.conf' - got timeout"
        )
    );
    assert_eq!(
        rig.root("GET", "/nodes/pve1/qemu/20042/config", json!({}))
            .status,
        200,
        "reading needs no lock"
    );
    let (exit, log) = rig.follow(&upid);
    assert_eq!(exit, "OK");
    let took = start.elapsed();
    assert!(
        took >= Duration::from_millis(1900) && took < Duration::from_secs(20),
        "4 MiB at 2 MiB/s took {took:?}"
    );
    assert!(
        log.iter().filter(|l| l.starts_with("transferred ")).count() > 10,
        "{log:?}"
    );
    let second = json!({"scsi1": "local:0,import-from=nfs:20042/disk0.vmdk,format=raw"});
    let upid = rig
        .root("POST", "/nodes/pve1/qemu/20042/config", second)
        .data
        .as_str()
        .unwrap_or("")
        .to_string();
    std::thread::sleep(Duration::from_millis(300));
    let path = format!("/nodes/pve1/tasks/{}", upid.replace('@', "%40"));
    assert_eq!(rig.root("DELETE", &path, json!({})).status, 200);
    assert_ne!(rig.follow(&upid).0, "OK");
    assert!(rig.config(20042, false)["scsi1"].is_null());
    assert!(
        !rig.dir
            .join("storage/local/images/20042/vm-20042-disk-1.raw")
            .exists(),
        "a stopped copy leaves nothing"
    );
    rig.done("PUT", "/nodes/pve1/qemu/20042/config", json!({"cores": 2}));
}

#[test]
fn a_new_guest_is_locked_while_it_is_made() {
    let (rig, _) = rig("create-lock", 4 << 20);
    link(&rig, 20042);
    let body =
        json!({"vmid": 20042, "scsi0": "local:0,import-from=nfs:20042/disk0.vmdk,format=raw"});
    let upid = rig
        .root("POST", "/nodes/pve1/qemu", body.clone())
        .data
        .as_str()
        .unwrap_or("")
        .to_string();
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(rig.config(20042, false)["lock"], "create");
    let again = rig.root("POST", "/nodes/pve1/qemu", json!({"vmid": 20042}));
    assert_eq!(
        again.message.trim(),
        "unable to create VM 20042 - VM 20042 already exists on node 'pve1'"
    );
    assert_eq!(rig.follow(&upid).0, "OK");
    assert!(rig.config(20042, false)["lock"].is_null());
    assert_eq!(rig.config(20042, false)["boot"], "order=scsi0");
}

#[test]
fn a_guest_moves_to_the_other_node_with_its_disks() {
    let (rig, _) = rig("migrate", 0);
    rig.done(
        "POST",
        "/nodes/pve1/qemu",
        json!({"vmid": 100, "scsi0": "local:0.01,format=qcow2", "scsi1": "nfs:0.01,format=raw"}),
    );
    rig.done(
        "POST",
        "/nodes/pve1/qemu/100/migrate",
        json!({"target": "pve2"}),
    );
    assert_eq!(
        rig.root("GET", "/nodes/pve1/qemu/100/config", json!({}))
            .status,
        500
    );
    assert_eq!(
        rig.root("GET", "/nodes/pve2/qemu/100/config", json!({}))
            .status,
        200
    );
    rig.done("POST", "/nodes/pve2/qemu/100/status/start", json!({}));
    rig.done("POST", "/nodes/pve2/qemu/100/status/stop", json!({}));
    rig.done(
        "POST",
        "/nodes/pve2/qemu/100/clone",
        json!({"newid": 101, "full": 1, "name": "copy"}),
    );
    assert_eq!(rig.config(101, false)["name"], "copy");
    assert_eq!(
        rig.config(101, false)["scsi0"],
        "local:101/vm-101-disk-0.qcow2,size=10486K"
    );
}

#[test]
fn a_guest_with_a_system_goes_down_and_lets_devices_go() {
    let (rig, _) = rig("guest-os", 0);
    rig.done("POST", "/nodes/pve1/qemu", json!({"vmid": 100, "net0": "virtio,bridge=vmbr0", "agent": "1", "scsi0": "local:0.01", "scsi1": "local:0.01"}));
    let interfaces = || {
        rig.root(
            "GET",
            "/nodes/pve1/qemu/100/agent/network-get-interfaces",
            json!({}),
        )
    };
    assert_eq!(interfaces().message.trim(), "VM 100 is not running");
    rig.done("POST", "/nodes/pve1/qemu/100/status/start", json!({}));
    assert_eq!(
        interfaces().message.trim(),
        "QEMU guest agent is not running"
    );
    let plain = rig.root(
        "PUT",
        "/nodes/pve1/qemu/100/config",
        json!({"delete": "net0"}),
    );
    assert!(
        plain.errors["net0"]
            .as_str()
            .is_some_and(|e| e.starts_with("hotplug problem - ")),
        "{:?}",
        plain.errors
    );
    let known = labsim::http::Site::set(
        &rig.pve,
        &json!({"guest": 100, "guest_os": true, "addresses": {"net0": ["192.0.2.7/24"]}}),
    );
    assert_eq!(known, Ok(()));
    rig.done(
        "PUT",
        "/nodes/pve1/qemu/100/config",
        json!({"revert": "net0"}),
    );
    let answer = interfaces();
    assert_eq!(
        answer.data["result"][1]["ip-addresses"][0]["ip-address"],
        "192.0.2.7"
    );
    rig.done(
        "PUT",
        "/nodes/pve1/qemu/100/config",
        json!({"delete": "net0"}),
    );
    assert!(
        rig.config(100, true)["net0"].is_null(),
        "it came off at once"
    );
    rig.done(
        "POST",
        "/nodes/pve1/qemu/100/status/shutdown",
        json!({"timeout": 60}),
    );
    assert_eq!(
        rig.root("GET", "/nodes/pve1/qemu/100/status/current", json!({}))
            .data["status"],
        "stopped"
    );
}

#[test]
fn a_stop_keeps_the_file_lock_for_a_while_if_the_world_says_so() {
    let mut world = world(0);
    world["timing"]["kinds"] = json!({"flock": 100, "qmcleanup": 600});
    let rig = Rig::new("cleanup", world);
    rig.done("POST", "/nodes/pve1/qemu", json!({"vmid": 100}));
    rig.done("POST", "/nodes/pve1/qemu/100/status/start", json!({}));
    rig.done("POST", "/nodes/pve1/qemu/100/status/stop", json!({}));
    std::thread::sleep(Duration::from_millis(60));
    let busy = rig.root("PUT", "/nodes/pve1/qemu/100/config", json!({"cores": 2}));
    assert!(
        busy.message.contains("got timeout"),
        "{} {}",
        busy.status,
        busy.message
    );
    std::thread::sleep(Duration::from_millis(800));
    rig.done("PUT", "/nodes/pve1/qemu/100/config", json!({"cores": 2}));
    let locked = labsim::http::Site::set(&rig.pve, &json!({"guest": 100, "lock": "backup"}));
    assert_eq!(locked, Ok(()));
    assert_eq!(
        rig.root("PUT", "/nodes/pve1/qemu/100/config", json!({"cores": 3}))
            .message
            .trim(),
        "VM is locked (backup)"
    );
    let container = labsim::http::Site::set(&rig.pve, &json!({"guest": 100, "nonsense": 1}));
    assert!(container.is_err());
}

#[test]
fn a_container_takes_its_id_and_has_no_routes() {
    let mut world = world(0);
    world["guests"] = json!([{"vmid": 200, "node": "pve1", "type": "lxc", "name": "ct", "status": "running", "config": {"hostname": "ct"}}]);
    let rig = Rig::new("container", world);
    let clash = rig.root("POST", "/nodes/pve1/qemu", json!({"vmid": 200}));
    assert_eq!(
        (clash.status, clash.message.trim()),
        (
            500,
            "unable to create VM 200 - CT 200 already exists on node 'pve1'"
        )
    );
    let listed = rig
        .root("GET", "/cluster/resources", json!({"type": "vm"}))
        .data;
    assert_eq!(
        (&listed[0]["type"], &listed[0]["vmid"]),
        (&json!("lxc"), &json!(200))
    );
    assert_eq!(
        rig.root("GET", "/nodes/pve1/qemu/200/config", json!({}))
            .status,
        500
    );
    assert_eq!(
        rig.root("GET", "/nodes/pve1/qemu", json!({})).data,
        json!([])
    );
    assert_eq!(
        rig.root("GET", "/nodes/pve1/lxc/200/config", json!({}))
            .status,
        501
    );
}
