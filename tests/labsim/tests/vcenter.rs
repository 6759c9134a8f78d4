//! The vCenter over its own wire: sessions, pages, updates, relocations and the files behind them.
use labsim::http::{Kind, Req, Resp, Site};
use labsim::vcenter::Vcenter;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

struct Lab {
    vc: Vcenter,
    dir: PathBuf,
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn lab(world: &Value, seed: u64) -> Lab {
    static N: AtomicU32 = AtomicU32::new(0);
    let n = N.fetch_add(1, Ordering::SeqCst);
    let dir = std::env::temp_dir().join(format!("labsim-vc-{}-{n}", std::process::id()));
    std::fs::create_dir_all(dir.join("export")).unwrap();
    let vc = Vcenter::new(world, &dir, seed).unwrap();
    Lab { vc, dir }
}

fn demo() -> Value {
    let all: Value = serde_json::from_str(include_str!("../../lab/demo-world.json")).unwrap();
    all["vcenter"].clone()
}

/// One session.
struct Client<'a> {
    lab: &'a Lab,
    cookie: String,
    version: &'static str,
}

impl Client<'_> {
    fn send(&self, method: &str, this: (&str, &str), args: &str) -> Resp {
        let body = format!(
            "<?xml version=\"1.0\"?><e:Envelope xmlns:e=\"http://schemas.xmlsoap.org/soap/envelope/\" \
             xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\"><e:Body><{method} xmlns=\"urn:vim25\">\
             <_this type=\"{}\">{}</_this>{args}</{method}></e:Body></e:Envelope>",
            this.0, this.1
        );
        self.lab.vc.handle(&Req {
            method: "POST".into(),
            path: "/sdk".into(),
            headers: vec![
                ("soapaction".into(), format!("\"{}\"", self.version)),
                (
                    "cookie".into(),
                    format!("vmware_soap_session=\"{}\"", self.cookie),
                ),
            ],
            body: body.into_bytes(),
            ..Req::default()
        })
    }

    fn ok(&self, method: &str, this: (&str, &str), args: &str) -> String {
        let r = self.send(method, this, args);
        let text = String::from_utf8(r.body).unwrap();
        assert_eq!(r.status, 200, "{method}: {text}");
        text
    }

    /// The type of the fault that the call ends with.
    fn fault(&self, method: &str, this: (&str, &str), args: &str) -> String {
        let r = self.send(method, this, args);
        let text = String::from_utf8(r.body).unwrap();
        assert_eq!(r.status, 500, "{method}: {text}");
        between(&text, "<detail>", "</detail>")
            .and_then(|d| between(d, "xsi:type=\"", "\""))
            .unwrap()
            .to_string()
    }

    fn read(&self, ty: &str, id: &str, path: &str) -> String {
        self.ok("RetrieveProperties", PC, &filter(ty, id, path))
    }

    fn start(&self, method: &str, this: (&str, &str), args: &str) -> String {
        let text = self.ok(method, this, args);
        between(&text, "<returnval type=\"Task\">", "<")
            .unwrap()
            .to_string()
    }

    /// Waits for a task; its end state and the fault's type.
    fn wait(&self, task: &str) -> (String, Option<String>) {
        let begun = Instant::now();
        loop {
            let info = self.read("Task", task, "info");
            let state = between(&info, "<state>", "</state>").unwrap().to_string();
            if state != "running" && state != "queued" {
                let fault = between(&info, "<error><fault xsi:type=\"", "\"").map(String::from);
                return (state, fault);
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "{info}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

const PC: (&str, &str) = ("PropertyCollector", "propertyCollector");
const NFS: &str = "<spec><datastore type=\"Datastore\">datastore-23</datastore></spec>";

fn vm(id: &str) -> (&str, &str) {
    ("VirtualMachine", id)
}

fn filter(ty: &str, id: &str, path: &str) -> String {
    format!(
        "<specSet><propSet><type>{ty}</type><pathSet>{path}</pathSet></propSet>\
         <objectSet><obj type=\"{ty}\">{id}</obj></objectSet></specSet>"
    )
}

fn between<'t>(text: &'t str, a: &str, b: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(a)?;
    rest.split_once(b).map(|(x, _)| x)
}

fn sign_in<'a>(lab: &'a Lab, user: &str, password: &str) -> Client<'a> {
    let mut c = Client {
        lab,
        cookie: String::new(),
        version: "urn:vim25/8.0.3.0",
    };
    let args = format!("<userName>{user}</userName><password>{password}</password>");
    let r = c.send("Login", ("SessionManager", "SessionManager"), &args);
    assert_eq!((r.status, r.kind), (200, Kind::Auth));
    let set = r.headers.iter().find(|(n, _)| n == "Set-Cookie").unwrap();
    c.cookie = between(&set.1, "vmware_soap_session=\"", "\"")
        .unwrap()
        .into();
    c
}

fn admin(lab: &Lab) -> Client<'_> {
    sign_in(lab, "administrator@vsphere.local", "lab-Vsphere-Admin-1")
}

fn dumped(lab: &Lab, moid: &str) -> Value {
    let d = lab.vc.dump();
    d["vms"]
        .as_array()
        .unwrap()
        .iter()
        .find(|v| v["moid"] == moid)
        .unwrap()
        .clone()
}

fn digest(path: &Path) -> String {
    let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    format!("{:x} {}", Sha256::digest(&bytes), bytes.len())
}

fn digests(v: &Value) -> Vec<String> {
    let disks = v["disks"].as_array().unwrap();
    disks
        .iter()
        .map(|d| digest(Path::new(d["file"].as_str().unwrap())))
        .collect()
}

#[test]
fn a_relocation_moves_the_real_bytes_and_renames_them() {
    let lab = lab(&demo(), 7);
    let c = admin(&lab);
    let before = dumped(&lab, "vm-103");
    let bytes = digests(&before);
    assert_eq!(bytes.len(), 3);
    let r = c.send("RelocateVM_Task", vm("vm-103"), NFS);
    assert_eq!(
        (r.kind, r.note.as_str()),
        (Kind::Write, "RelocateVM_Task vm-103 to datastore-23")
    );
    let text = String::from_utf8(r.body).unwrap();
    let task = between(&text, "<returnval type=\"Task\">", "<").unwrap();
    assert_eq!(
        c.fault("RelocateVM_Task", vm("vm-103"), NFS),
        "TaskInProgress"
    );
    assert_eq!(c.wait(task), ("success".into(), None));
    let after = dumped(&lab, "vm-103");
    assert_eq!(digests(&after), bytes, "the guest's bytes");
    let names: Vec<&str> = after["disks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|d| d["data"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "db-uefi/db-uefi-flat.vmdk",
            "db-uefi/db-uefi_1-flat.vmdk",
            "db-uefi/db-uefi_2-flat.vmdk"
        ]
    );
    // The descriptor names its data file, and the sectors are those of the API.
    let text = std::fs::read_to_string(lab.dir.join("export/db-uefi/db-uefi_1.vmdk")).unwrap();
    assert!(
        text.contains("RW 8192 VMFS \"db-uefi_1-flat.vmdk\""),
        "{text}"
    );
    for d in before["disks"].as_array().unwrap() {
        assert!(
            !Path::new(d["file"].as_str().unwrap()).exists(),
            "left behind: {}",
            d["file"]
        );
    }
    let layout = c.read("VirtualMachine", "vm-103", "layoutEx");
    assert!(layout.contains("<name>[migration-nfs] db-uefi/db-uefi_2-flat.vmdk</name><type>diskExtent</type><size>5242880</size>"), "{layout}");
    // While it runs ESXi's lock files lie beside the disks; they go when it stops.
    let locks = || {
        std::fs::read_dir(lab.dir.join("export/db-uefi"))
            .unwrap()
            .filter(|e| {
                e.as_ref()
                    .unwrap()
                    .file_name()
                    .to_string_lossy()
                    .starts_with(".lck-")
            })
            .count()
    };
    assert_eq!(locks(), 3);
    c.ok("ShutdownGuest", vm("vm-103"), "");
    let begun = Instant::now();
    while dumped(&lab, "vm-103")["power"] != "poweredOff"
        && begun.elapsed() < Duration::from_secs(20)
    {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(
        (dumped(&lab, "vm-103")["power"].as_str().unwrap(), locks()),
        ("poweredOff", 0)
    );
}

#[test]
fn two_guests_of_one_name_get_two_folders_and_odd_names_survive() {
    let lab = lab(&demo(), 3);
    let c = admin(&lab);
    // Both at once: neither may land in the other's folder.
    let tasks = ["vm-114", "vm-115", "vm-105"].map(|id| c.start("RelocateVM_Task", vm(id), NFS));
    for t in &tasks {
        assert_eq!(c.wait(t).0, "success");
    }
    let mut dirs = ["vm-114", "vm-115", "vm-105"]
        .map(|id| dumped(&lab, id)["dir"].as_str().unwrap().to_string());
    dirs.sort();
    assert_eq!(dirs, ["Büro Server 1", "app01", "app01_1"]);
    assert!(
        lab.dir
            .join("export/Büro Server 1/Büro Server 1-flat.vmdk")
            .exists()
    );
}

#[test]
fn what_a_server_refuses() {
    let lab = lab(&demo(), 1);
    let c = admin(&lab);
    let ends = |id: &str, args: &str| {
        let t = c.start("RelocateVM_Task", vm(id), args);
        c.wait(&t)
    };
    assert_eq!(
        ends("vm-108", NFS),
        ("error".into(), Some("RDMNotSupportedOnDatastore".into()))
    );
    assert_eq!(
        ends("vm-113", NFS),
        ("error".into(), Some("NotSupported".into()))
    );
    lab.vc
        .set(&json!({"datastores": [{"name": "migration-nfs", "accessible": false}]}))
        .unwrap();
    assert_eq!(
        ends("vm-101", NFS).1.as_deref(),
        Some("InaccessibleDatastore")
    );
    lab.vc.set(&json!({"datastores": [{"name": "migration-nfs", "accessible": true, "used_gib": 1024}]})).unwrap();
    assert_eq!(ends("vm-101", NFS).1.as_deref(), Some("NoDiskSpace"));
    let branch = NFS.replace("datastore-23", "datastore-29");
    assert_eq!(
        ends("vm-101", &branch).1.as_deref(),
        Some("InvalidDatastore")
    );
    lab.vc
        .set(&json!({"vms": [{"moid": "vm-101", "question": "Moved or copied?"}]}))
        .unwrap();
    assert_eq!(
        ends("vm-101", &branch).1.as_deref(),
        Some("QuestionPending")
    );
    c.ok(
        "AnswerVM",
        vm("vm-101"),
        "<questionId>q-1</questionId><answerChoice>1</answerChoice>",
    );
    let missing = NFS.replace("datastore-23", "datastore-999");
    assert_eq!(
        c.fault("RelocateVM_Task", vm("vm-101"), &missing),
        "ManagedObjectNotFound"
    );
    assert_eq!(
        c.fault("ShutdownGuest", vm("vm-111"), ""),
        "ToolsUnavailable"
    );
    assert_eq!(
        c.fault("ShutdownGuest", vm("vm-109"), ""),
        "InvalidPowerState"
    );
    lab.vc
        .set(&json!({"vms": [{"moid": "vm-101", "disabled_methods": ["RelocateVM_Task"]}]}))
        .unwrap();
    assert_eq!(
        c.fault("RelocateVM_Task", vm("vm-101"), NFS),
        "MethodDisabled"
    );
    let reader = sign_in(&lab, "reader@vsphere.local", "lab-Vsphere-Reader-1");
    assert_eq!(
        reader.fault("PowerOffVM_Task", vm("vm-102"), ""),
        "NoPermission"
    );
    assert!(
        reader
            .read("VirtualMachine", "vm-102", "name")
            .contains("web02")
    );
}

#[test]
fn queued_cancelled_and_joined() {
    let mut world = demo();
    world["relocate_per_datastore"] = json!(1);
    world["relocate_bytes_per_s"] = json!(1_500_000);
    let lab = lab(&world, 1);
    let c = admin(&lab);
    let first = c.start("RelocateVM_Task", vm("vm-101"), NFS);
    let second = c.start("RelocateVM_Task", vm("vm-102"), NFS);
    let begun = Instant::now();
    while !c.read("Task", &first, "info").contains("<progress>") {
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "no progress is shown"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(c.read("Task", &second, "info.state").contains(">queued<"));
    assert!(
        c.read("VirtualMachine", "vm-101", "recentTask")
            .contains(&first)
    );
    let before = dumped(&lab, "vm-101");
    c.ok("CancelTask", ("Task", &first), "");
    assert_eq!(
        c.wait(&first),
        ("error".into(), Some("RequestCanceled".into()))
    );
    assert_eq!(
        dumped(&lab, "vm-101"),
        before,
        "a cancelled relocation leaves everything where it was"
    );
    assert_eq!(c.wait(&second).0, "success");
    assert_eq!(c.fault("CancelTask", ("Task", &second), ""), "InvalidState");
}

#[test]
fn sessions_end() {
    let mut world = demo();
    world["session_idle_s"] = json!(1.0);
    let lab = lab(&world, 1);
    let c = admin(&lab);
    c.ok("CurrentTime", ("ServiceInstance", "ServiceInstance"), "");
    std::thread::sleep(Duration::from_millis(1300));
    assert_eq!(
        c.fault("CurrentTime", ("ServiceInstance", "ServiceInstance"), ""),
        "NotAuthenticated"
    );
    let c = admin(&lab);
    lab.vc.set(&json!({"expire_sessions": true})).unwrap();
    assert_eq!(
        c.fault("PowerOffVM_Task", vm("vm-101"), ""),
        "NotAuthenticated"
    );
    let c = admin(&lab);
    assert_eq!(lab.vc.dump()["sessions"], 1);
    c.ok("Logout", ("SessionManager", "SessionManager"), "");
    assert_eq!(lab.vc.dump()["sessions"], 0);
    let stranger = Client {
        lab: &lab,
        cookie: String::new(),
        version: "",
    };
    assert_eq!(
        stranger.fault(
            "RetrieveServiceContent",
            ("ServiceInstance", "ServiceInstance"),
            ""
        ),
        "InvalidRequest"
    );
}

fn many(n: usize) -> Value {
    let mut world = demo();
    world["files"] = json!(false);
    world["vms"] = json!((0..n).map(|i| json!({"moid": format!("vm-{}", 5000 + i), "name": format!("vm{i}"), "folder": format!("f{}", i % 7), "disks": [{}], "nics": [{"portgroup": "pg-vlan200"}]})).collect::<Vec<_>>());
    world
}

#[test]
fn pages_of_a_hundred_and_each_token_once() {
    let lab = lab(&many(250), 1);
    let c = admin(&lab);
    let view = c.ok("CreateContainerView", ("ViewManager", "ViewManager"), "<container type=\"Folder\">group-d1</container><type>VirtualMachine</type><recursive>true</recursive>");
    let view = between(&view, "<returnval type=\"ContainerView\">", "<").unwrap();
    let spec = format!(
        "<specSet><propSet><type>VirtualMachine</type><pathSet>name</pathSet><pathSet>config.hardware.device</pathSet></propSet><objectSet>\
         <obj type=\"ContainerView\">{view}</obj><skip>true</skip><selectSet xsi:type=\"TraversalSpec\"><name>v</name><type>ContainerView</type>\
         <path>view</path><skip>false</skip></selectSet></objectSet></specSet><options></options>"
    );
    let begun = Instant::now();
    let mut page = c.ok("RetrievePropertiesEx", PC, &spec);
    let (mut counts, mut first_token) = (vec![], String::new());
    loop {
        counts.push(page.matches("<objects>").count());
        let Some(token) = between(&page, "<token>", "</token>").map(String::from) else {
            break;
        };
        page = c.ok(
            "ContinueRetrievePropertiesEx",
            PC,
            &format!("<token>{token}</token>"),
        );
        if first_token.is_empty() {
            first_token = token;
        }
    }
    assert_eq!(counts, [100, 100, 50]);
    println!("250 virtual machines in {:?}", begun.elapsed());
    assert_eq!(lab.vc.dump()["open_retrievals"], 0);
    let page = c.ok("RetrievePropertiesEx", PC, &spec);
    let token = between(&page, "<token>", "</token>").unwrap();
    c.ok(
        "CancelRetrievePropertiesEx",
        PC,
        &format!("<token>{token}</token>"),
    );
    assert_eq!(
        c.fault(
            "ContinueRetrievePropertiesEx",
            PC,
            &format!("<token>{token}</token>")
        ),
        "InvalidArgument"
    );
    assert_eq!(
        c.fault(
            "RetrievePropertiesEx",
            PC,
            &spec.replace("<options>", "<options><maxObjects>0</maxObjects>")
        ),
        "InvalidArgument"
    );
}

#[test]
fn updates_are_told_and_silence_is_null() {
    let lab = lab(&demo(), 1);
    let c = admin(&lab);
    let spec = filter("VirtualMachine", "vm-101", "runtime.powerState").replace("specSet", "spec");
    c.ok(
        "CreateFilter",
        PC,
        &format!("{spec}<partialUpdates>false</partialUpdates>"),
    );
    let wait = |version: &str, seconds: u32| {
        c.ok(
            "WaitForUpdatesEx",
            PC,
            &format!(
                "<version>{version}</version><options><maxWaitSeconds>{seconds}</maxWaitSeconds></options>"
            ),
        )
    };
    let first = wait("", 1);
    assert!(
        first.contains("<kind>enter</kind>") && first.contains(">poweredOn<"),
        "{first}"
    );
    let v = between(&first, "<version>", "</version>").unwrap();
    assert!(!wait(v, 1).contains("<returnval>"), "nothing has changed");
    c.start("PowerOffVM_Task", vm("vm-101"), "");
    let changed = wait(v, 20);
    assert!(
        changed.contains("<kind>modify</kind>") && changed.contains(">poweredOff<"),
        "{changed}"
    );
    assert_eq!(
        c.fault("WaitForUpdatesEx", PC, "<version>99</version>"),
        "InvalidCollectorVersion"
    );
    assert_eq!(
        c.fault(
            "CreateFilter",
            PC,
            &format!(
                "{}<partialUpdates>false</partialUpdates>",
                spec.replace("powerState", "nonsense")
            )
        ),
        "InvalidProperty"
    );
}

#[test]
fn unreadable_absent_and_old_schema() {
    let mut world = demo();
    world["no_permission"] = json!([{"object": "vm-101", "property": "config.annotation"}]);
    let lab = lab(&world, 1);
    let mut c = admin(&lab);
    let text = c.read("VirtualMachine", "vm-101", "config.annotation");
    assert!(
        text.contains(
            "<missingSet><path>config.annotation</path><fault><fault xsi:type=\"NoPermission\">"
        ),
        "{text}"
    );
    let none = c.read("VirtualMachine", "vm-101", "snapshot");
    assert!(
        !none.contains("<propSet>") && !none.contains("<missingSet>"),
        "{none}"
    );
    let group = |c: &Client| c.read("DistributedVirtualPortgroup", "dvportgroup-49", "config");
    assert!(group(&c).contains("<backingType>nsx</backingType>"));
    c.version = "urn:vim25/6.5";
    assert!(!group(&c).contains("backingType"));
    assert_eq!(
        c.fault(
            "RetrieveProperties",
            PC,
            &filter(
                "DistributedVirtualPortgroup",
                "dvportgroup-49",
                "config.backingType"
            )
        ),
        "InvalidProperty"
    );
    let r = c.send("CloneVM_Task", vm("vm-101"), "");
    assert_eq!(
        (r.status, r.note.as_str()),
        (500, "UNKNOWN METHOD CloneVM_Task")
    );
}

#[test]
fn a_standalone_host_has_its_own_ids() {
    let world = json!({
        "api_type": "HostAgent", "users": [{"name": "root", "password": "p"}],
        "datacenters": [{"name": "ha-datacenter", "moid": "ha-datacenter", "hosts": [{"name": "esx", "moid": "ha-host"}],
            "datastores": [{"name": "datastore1"}], "standard_portgroups": [{"name": "VM Network"}]}],
        "vms": [{"moid": "1", "name": "a", "disks": [{}], "nics": [{"portgroup": "VM Network"}]}]
    });
    let lab = lab(&world, 1);
    let mut c = Client {
        lab: &lab,
        cookie: String::new(),
        version: "urn:vim25/7.0",
    };
    let content = c.ok(
        "RetrieveServiceContent",
        ("ServiceInstance", "ServiceInstance"),
        "",
    );
    assert!(
        content.contains(">ha-folder-root<") && content.contains("<apiType>HostAgent</apiType>"),
        "{content}"
    );
    assert!(
        !content.contains("vmProvisioningChecker") && !content.contains("instanceUuid"),
        "{content}"
    );
    let login = c.send(
        "Login",
        ("SessionManager", "ha-sessionmgr"),
        "<userName>root</userName><password>p</password>",
    );
    let set = login
        .headers
        .iter()
        .find(|(n, _)| n == "Set-Cookie")
        .unwrap();
    c.cookie = between(&set.1, "vmware_soap_session=\"", "\"")
        .unwrap()
        .into();
    let text = c.ok(
        "RetrieveProperties",
        ("PropertyCollector", "ha-property-collector"),
        &filter("VirtualMachine", "1", "name"),
    );
    assert!(text.contains(">a<"), "{text}");
    assert_eq!(
        c.fault("RelocateVM_Task", vm("1"), "<spec></spec>"),
        "NotSupported"
    );
    let t = c.ok("PowerOffVM_Task", vm("1"), "");
    assert!(t.contains("type=\"Task\""), "{t}");
}

#[test]
fn linked_clones_keep_their_base_when_snapshots_come_and_go() {
    let mut world = demo();
    world["vms"] = json!([{"moid": "vm-900", "name": "clone", "disks": [{"linked": true}, {}]}]);
    let lab = lab(&world, 1);
    let c = admin(&lab);
    let chains = || {
        let v = dumped(&lab, "vm-900");
        [0, 1].map(|i| v["disks"][i]["descriptors"].clone())
    };
    let before = chains();
    assert_eq!(
        before[0],
        json!(["clone/clone.vmdk", "clone/clone-000001.vmdk"])
    );
    let devices = c.read("VirtualMachine", "vm-900", "config.hardware.device");
    assert_eq!(devices.matches("<parent>").count(), 1);
    let args = "<name>s</name><memory>false</memory><quiesce>false</quiesce>";
    let t = c.start("CreateSnapshot_Task", vm("vm-900"), args);
    assert_eq!(c.wait(&t).0, "success");
    assert_eq!(chains()[0][2], "clone/clone-000002.vmdk");
    assert_eq!(chains()[1][1], "clone/clone_1-000001.vmdk");
    assert!(
        lab.dir
            .join("datastore/esx-hdd/clone/clone-000002-sesparse.vmdk")
            .exists()
    );
    let t = c.start("RemoveAllSnapshots_Task", vm("vm-900"), "");
    assert_eq!(c.wait(&t).0, "success");
    assert_eq!(chains(), before);
}

#[test]
fn requests_are_read_strictly() {
    let lab = lab(&demo(), 1);
    let c = admin(&lab);
    let spec = filter("VirtualMachine", "vm-101", "name");
    c.ok("RetrieveProperties", PC, &spec);
    let refused = |args: &str| c.fault("RetrieveProperties", PC, args);
    let (_, objects) = spec.split_once("</propSet>").unwrap();
    let objects = objects.strip_suffix("</specSet>").unwrap();
    let (props, _) = spec.split_once("<objectSet>").unwrap();
    let props = props.strip_prefix("<specSet>").unwrap();
    assert_eq!(
        refused(&format!("<specSet>{objects}{props}</specSet>")),
        "InvalidRequest",
        "order"
    );
    assert_eq!(
        refused(&spec.replace("pathSet", "paths")),
        "InvalidRequest",
        "unknown element"
    );
    assert_eq!(
        refused(&spec.replace("<type>VirtualMachine</type>", "")),
        "InvalidRequest",
        "missing"
    );
    let args = "<name>s</name><description>d</description><memory>perhaps</memory><quiesce>false</quiesce>";
    assert_eq!(
        c.fault("CreateSnapshot_Task", vm("vm-101"), args),
        "InvalidRequest",
        "no bool"
    );
    let args =
        "<description>d</description><name>s</name><memory>false</memory><quiesce>false</quiesce>";
    assert_eq!(
        c.fault("CreateSnapshot_Task", vm("vm-101"), args),
        "InvalidRequest",
        "parameter order"
    );
}

#[test]
fn a_snapshot_chain_moves_as_a_whole() {
    let lab = lab(&demo(), 1);
    let c = admin(&lab);
    let before = dumped(&lab, "vm-107");
    assert_eq!(
        before["disks"][0]["descriptors"].as_array().unwrap().len(),
        3
    );
    let t = c.start("RelocateVM_Task", vm("vm-107"), NFS);
    assert_eq!(c.wait(&t).0, "success");
    let names: Vec<String> = ["", "-000001", "-000002"]
        .map(|n| format!("export/snap-chain/snap-chain{n}.vmdk"))
        .to_vec();
    for n in &names {
        assert!(lab.dir.join(n).exists(), "{n}");
    }
    let top = std::fs::read_to_string(lab.dir.join(&names[2])).unwrap();
    assert!(
        top.contains("parentFileNameHint=\"snap-chain-000001.vmdk\"")
            && top.contains("createType=\"vmfsSparse\""),
        "{top}"
    );
    let devices = c.read("VirtualMachine", "vm-107", "config.hardware.device");
    assert_eq!(
        devices.matches("<parent>").count(),
        2,
        "the chain as backing.parent"
    );
    let t = c.start("RemoveAllSnapshots_Task", vm("vm-107"), "");
    assert_eq!(c.wait(&t).0, "success");
    assert!(!lab.dir.join(&names[1]).exists() && lab.dir.join(&names[0]).exists());
    assert!(
        !c.read("VirtualMachine", "vm-107", "config.hardware.device")
            .contains("<parent>")
    );
}

#[test]
fn the_seed_chooses_orders_but_not_identities() {
    let order = |seed| {
        let lab = lab(&demo(), seed);
        let c = admin(&lab);
        let text = c.read("VirtualMachine", "vm-103", "config.hardware.device");
        let keys: Vec<String> = text
            .split("<VirtualDevice")
            .skip(1)
            .filter_map(|d| between(d, "<key>", "<").map(String::from))
            .collect();
        (
            keys,
            dumped(&lab, "vm-103")["uuid"].clone(),
            digests(&dumped(&lab, "vm-103")),
        )
    };
    let (a, b) = (order(1), order(2));
    assert_eq!(a, order(1), "one seed, one lab");
    assert_eq!(a.1, b.1);
    assert_ne!(a.0, b.0, "device order");
    assert_ne!(a.2, b.2, "disk content");
}

#[test]
fn reset_brings_everything_back() {
    let lab = lab(&demo(), 1);
    let c = admin(&lab);
    let (before, bytes) = (dumped(&lab, "vm-101"), digests(&dumped(&lab, "vm-101")));
    std::fs::create_dir_all(lab.dir.join("export/images/101")).unwrap();
    let t = c.start("RelocateVM_Task", vm("vm-101"), NFS);
    assert_eq!(c.wait(&t).0, "success");
    lab.vc.reset(&demo()).unwrap();
    assert_eq!(dumped(&lab, "vm-101"), before);
    assert_eq!(digests(&before), bytes);
    assert!(!lab.dir.join("export/web01").exists() && lab.dir.join("export/images/101").exists());
    assert_eq!(
        c.fault("CurrentTime", ("ServiceInstance", "ServiceInstance"), ""),
        "NotAuthenticated"
    );
    let bad = json!({"datacenters": [], "vms": [{"name": "x"}]});
    assert!(Vcenter::new(&bad, &lab.dir.join("bad"), 1).is_err());
}
