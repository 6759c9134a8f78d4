//! One run, disturbed at every request in turn: the connection drops before it is carried out, after it, or the module is killed while
//! it waits. Then the same task runs again, undisturbed, and must end as a run that nothing ever disturbed: nothing is doubled.

use crate::support::{Done, Lab, full, worlds};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// What is compared: guests, files and the network, without what the server chooses anew each time.
fn state(lab: &Lab, side: &str) -> Value {
    let mut w = lab.world()[side].take();
    if side == "vcenter" {
        w = w["vms"].take();
    }
    for k in ["tasks", "nodes", "access"] {
        if let Some(o) = w.as_object_mut() {
            o.remove(k);
        }
    }
    strip(&mut w);
    w
}

fn strip(v: &mut Value) {
    match v {
        Value::Object(o) => {
            for k in [
                "digest", "vmgenid", "meta", "smbios1", "ctime", "mtime", "used", "avail",
                "version",
            ] {
                o.remove(k);
            }
            // A clone that lost its run keeps the address that the server gave it.
            if let Some(Value::String(n)) = o.get_mut("net0") {
                *n = n.split(',').skip(1).collect::<Vec<_>>().join(",");
            }
            // Labs live in different folders.
            o.remove("path");
            o.remove("file");
            o.values_mut().for_each(strip);
        }
        Value::Array(a) => a.iter_mut().for_each(strip),
        _ => {}
    }
}

/// Where two states differ first.
fn difference(a: &Value, b: &Value, at: &str) -> Option<String> {
    let children = |v: &Value| -> Vec<String> {
        match v {
            Value::Object(o) => o.keys().cloned().collect(),
            Value::Array(l) => (0..l.len()).map(|i| i.to_string()).collect(),
            _ => vec![],
        }
    };
    let get = |v: &Value, k: &str| match v {
        Value::Array(l) => k.parse::<usize>().ok().and_then(|i| l.get(i)).cloned(),
        other => other.get(k).cloned(),
    };
    if a == b {
        return None;
    }
    let mut keys = children(a);
    keys.extend(children(b));
    for k in keys {
        let (x, y) = (
            get(a, &k).unwrap_or_default(),
            get(b, &k).unwrap_or_default(),
        );
        if let Some(d) = difference(&x, &y, &format!("{at}/{k}")) {
            return Some(d);
        }
    }
    Some(format!("{at} should be {a} and is {b}"))
}

struct Sweep<'a> {
    world: Value,
    module: &'a str,
    args: Value,
    /// Makes ready what a world cannot say.
    prepare: fn(&Lab),
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Blow {
    Drop,
    DropAfter,
    Kill,
    KillAfter,
}

impl Sweep<'_> {
    fn side(&self) -> &'static str {
        if self.module.starts_with("vsphere_") {
            "vcenter"
        } else {
            "pve"
        }
    }

    /// Every request position is disturbed; returns how many there are.
    #[track_caller]
    fn run(&self, blow: Blow) -> usize {
        let lab = Lab::start(self.world.clone());
        (self.prepare)(&lab);
        let undisturbed = lab.call(self.module, self.args.clone()).run().ok();
        assert!(undisturbed.changed());
        let wanted = state(&lab, self.side());
        let n = undisturbed.requests.len();
        // The reads before the first write are all alike: without TRUEPLAN_TEST_FULL only the first and the last are taken.
        let first_write = undisturbed
            .requests
            .iter()
            .position(|r| r["kind"] == "write")
            .expect("a write");
        for at in 1..=n {
            if !full() && at > 1 && at < first_write {
                continue;
            }
            lab.reset(Some(self.world.clone()));
            (self.prepare)(&lab);
            let what = format!(
                "{blow:?} at request {at} of {n}: {}",
                crate::support::lab::short(&undisturbed.requests[at - 1])
            );
            let call = lab.call(self.module, self.args.clone());
            match blow {
                Blow::Drop | Blow::DropAfter => {
                    let act = if blow == Blow::Drop {
                        "drop"
                    } else {
                        "drop_after"
                    };
                    lab.fault(json!({"side": self.side(), "nth": at, "do": act}));
                    let hit = call.run();
                    if hit["error_kind"] == "internal" {
                        hit.fail(&what);
                    }
                    // A failure that wrote something says so, and one that says it changed nothing has left nothing.
                    if !hit.is_failed() {
                        let now = state(&lab, self.side());
                        if now != wanted {
                            hit.fail(&format!(
                                "{what}: success, but not as wanted: {}",
                                difference(&wanted, &now, "").unwrap_or_default()
                            ));
                        }
                    }
                }
                Blow::Kill => {
                    // A lab of its own: what waits at the server is carried out long after the next run.
                    let own = Lab::start(self.world.clone());
                    (self.prepare)(&own);
                    self.kill(&own, at, false, &what);
                    own.no_faults();
                    self.again(&own, &wanted, &what);
                    continue;
                }
                Blow::KillAfter => self.kill(&lab, at, true, &what),
            }
            lab.no_faults();
            self.again(&lab, &wanted, &what);
        }
        n
    }

    /// Kills the module while request `at` waits at the server; `after`: once it has been carried out.
    #[track_caller]
    fn kill(&self, lab: &Lab, at: usize, after: bool, what: &str) {
        let seen = lab.log().len();
        // To be killed before it is carried out: the server drops it instead, at the moment of the kill.
        let act = if after {
            json!({"delay_ms": 700})
        } else {
            json!({"delay_ms": 100_000})
        };
        lab.fault(json!({"side": self.side(), "nth": at, "do": act}));
        let (mut child, _folder) = lab.call(self.module, self.args.clone()).spawn();
        let started = Instant::now();
        // The request before it is answered and logged; this one then arrives at once.
        while lab.log().len() < seen + at - 1 {
            assert!(
                started.elapsed() < Duration::from_secs(60),
                "{what}: never came"
            );
            assert!(
                child.try_wait().expect("a child").is_none(),
                "{what}: ended before"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(300));
        child.kill().expect("kill -9");
        child.wait().expect("a child");
        if after {
            std::thread::sleep(Duration::from_millis(700));
        }
    }

    /// The next run converges to the same end.
    #[track_caller]
    fn again(&self, lab: &Lab, wanted: &Value, what: &str) {
        let call = lab.call(self.module, self.args.clone());
        let mut d: Done = call.run();
        if d.is_failed() && d.msg().contains("SDN lock") {
            // A lock that the dead run left is named, with the way out.
            if !d.msg().contains("break_lock") {
                d.fail(what);
            }
            d = call.arg("break_lock", true).run();
        }
        if d.is_failed() {
            d.fail(what);
        }
        let now = state(lab, self.side());
        if now != *wanted {
            d.fail(&format!(
                "{what}: the state is another one: {}",
                difference(wanted, &now, "").unwrap_or_default()
            ));
        }
        let d = lab.call(self.module, self.args.clone()).run().ok();
        if d.changed() {
            d.fail(&format!("{what}: still not converged"));
        }
    }
}

fn vnet() -> Sweep<'static> {
    Sweep {
        world: worlds::small_with(
            json!({"sdn": {"zones": [{"zone": "zvlan", "type": "vlan", "bridge": "vmbr0"}], "vnets": []}}),
        ),
        module: "pve_vnet",
        args: json!({"zone": "zvlan", "timeout": 2, "vnets": [{"vnet": "v100", "tag": 100}, {"vnet": "v200", "tag": 200}]}),
        prepare: |_| (),
    }
}

fn shell() -> Sweep<'static> {
    Sweep {
        world: worlds::small(),
        module: "pve_vm_shell",
        args: json!({"vmid": 120, "name": "app", "node": "pve1", "scsi": {"scsi0": "data:1"}, "net": {"net0": "virtio,bridge=vmbr0"}}),
        prepare: |_| (),
    }
}

fn nic() -> Sweep<'static> {
    Sweep {
        world: worlds::one_guest(),
        module: "pve_nic",
        args: json!({"vmid": 100, "interface": "net1", "bridge": "vmbr1", "tag": 7}),
        prepare: |_| (),
    }
}

fn clone() -> Sweep<'static> {
    Sweep {
        world: worlds::one_guest(),
        module: "pve_vm_shell",
        args: json!({"clone": "web", "vmid": 100, "newid": 201, "name": "copy", "memory": 4096, "full": true}),
        prepare: |_| (),
    }
}

const DISK: u64 = 4 << 20;

/// A data file of VMware and its descriptor.
fn describe(lab: &Lab) {
    let folder = lab.export().join("web");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("web-flat.vmdk"), vec![7; DISK as usize]).expect("a data file");
    let args = json!({"export": lab.export(), "storage": "nfs", "vmid": 100, "disk": 0, "source": "web/web-flat.vmdk", "bytes": DISK});
    lab.call("vmdk_descriptor", args).run().ok();
}

fn import() -> Sweep<'static> {
    Sweep {
        world: worlds::one_guest(),
        module: "pve_disk_import",
        args: json!({"vmid": 100, "disk": "scsi0", "storage": "data", "format": "raw", "import_from": "nfs:100/disk0.vmdk", "source_bytes": DISK}),
        prepare: describe,
    }
}

fn attach() -> Sweep<'static> {
    Sweep {
        args: json!({"vmid": 100, "disk": "scsi0", "attach_from": "nfs:100/disk0.vmdk"}),
        ..import()
    }
}

fn relocate() -> Sweep<'static> {
    Sweep {
        world: worlds::demo(),
        module: "vsphere_relocate",
        args: json!({"moid": "vm-109", "destination_datastore": "migration-nfs", "timeout": 60}),
        prepare: |_| (),
    }
}

fn shutdown() -> Sweep<'static> {
    Sweep {
        module: "vsphere_powerstate",
        args: json!({"moid": "vm-101", "state": "shutdown-guest", "timeout": 30}),
        ..relocate()
    }
}

fn note() -> Sweep<'static> {
    Sweep {
        module: "vsphere_note",
        args: json!({"moid": "vm-102", "text": "gone over to guest 142"}),
        ..relocate()
    }
}

// With `true` it runs always, else only with TRUEPLAN_TEST_FULL=1.
macro_rules! sweeps {
    ($($name:ident: $what:expr, $blow:expr, $always:expr;)*) => {$(
        #[test]
        fn $name() {
            if !$always && !full() {
                println!("{}: only with TRUEPLAN_TEST_FULL=1", stringify!($name));
                return;
            }
            let n = $what.run($blow);
            println!("{}: {n} requests", stringify!($name));
        }
    )*};
}

sweeps! {
    nic_dropped: nic(), Blow::Drop, true;
    nic_answer_lost: nic(), Blow::DropAfter, true;
    nic_killed: nic(), Blow::Kill, true;
    nic_killed_after: nic(), Blow::KillAfter, true;
    vnet_dropped: vnet(), Blow::Drop, true;
    vnet_answer_lost: vnet(), Blow::DropAfter, true;
    vnet_killed: vnet(), Blow::Kill, false;
    vnet_killed_after: vnet(), Blow::KillAfter, true;
    shell_dropped: shell(), Blow::Drop, false;
    shell_answer_lost: shell(), Blow::DropAfter, true;
    shell_killed: shell(), Blow::Kill, false;
    shell_killed_after: shell(), Blow::KillAfter, true;
    clone_dropped: clone(), Blow::Drop, false;
    clone_answer_lost: clone(), Blow::DropAfter, true;
    clone_killed: clone(), Blow::Kill, false;
    clone_killed_after: clone(), Blow::KillAfter, false;
    import_dropped: import(), Blow::Drop, false;
    import_answer_lost: import(), Blow::DropAfter, true;
    import_killed: import(), Blow::Kill, false;
    import_killed_after: import(), Blow::KillAfter, true;
    attach_answer_lost: attach(), Blow::DropAfter, true;
    attach_killed_after: attach(), Blow::KillAfter, false;
    relocate_dropped: relocate(), Blow::Drop, false;
    relocate_answer_lost: relocate(), Blow::DropAfter, true;
    relocate_killed: relocate(), Blow::Kill, false;
    relocate_killed_after: relocate(), Blow::KillAfter, false;
    shutdown_dropped: shutdown(), Blow::Drop, false;
    shutdown_answer_lost: shutdown(), Blow::DropAfter, false;
    shutdown_killed_after: shutdown(), Blow::KillAfter, false;
    note_dropped: note(), Blow::Drop, false;
    note_answer_lost: note(), Blow::DropAfter, false;
    note_killed_after: note(), Blow::KillAfter, false;
}
