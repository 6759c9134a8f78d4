//! Ours on somebody else's vCenter: govmomi's simulator (tests/vcsim). Where Go or Debian's library package cannot be had, it says so.

use crate::support::{Call, Done};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

pub const USER: &str = "user";
pub const PASSWORD: &str = "pass-of-vcsim-1";
const GOPATH: &str = "/usr/share/gocode";

/// The program, built once per run of the tests; `None` with a line that says why not.
fn program() -> Option<&'static Path> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    BUILT
        .get_or_init(|| {
            if !Path::new(GOPATH).join("src/github.com/vmware/govmomi/simulator").is_dir() {
                println!("skipped: vcsim: {GOPATH} has no govmomi; apt-get install golang-github-vmware-govmomi-dev");
                return None;
            }
            let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
            let out = tmp.join("vcsim");
            let built = Command::new("go")
                .args(["build", "-o"])
                .arg(&out)
                .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vcsim/main.go"))
                .env("GOPATH", GOPATH)
                .env("GO111MODULE", "off")
                .env("GOFLAGS", "")
                .env("GOCACHE", tmp.join("gocache"))
                .output();
            match built {
                Ok(o) if o.status.success() => Some(out),
                Ok(o) => panic!("tests/vcsim/main.go does not build: {}", String::from_utf8_lossy(&o.stderr)),
                Err(e) => {
                    println!("skipped: vcsim: go does not run ({e}); apt-get install golang-go");
                    None
                }
            }
        })
        .as_deref()
}

/// A running simulator; it ends with the test.
pub struct Vcsim {
    child: Child,
    said: Value,
}

impl Vcsim {
    pub fn start(args: &[&str]) -> Option<Vcsim> {
        let mut child = Command::new(program()?)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("stdout"))
            .read_line(&mut line)
            .expect("a line");
        let said = serde_json::from_str(&line).expect("JSON");
        Some(Vcsim { child, said })
    }

    pub fn port(&self) -> u16 {
        self.said["port"]
            .as_str()
            .and_then(|p| p.parse().ok())
            .expect("a port")
    }

    fn sign_in(&self) -> Value {
        json!({"hostname": self.said["host"], "port": self.port(), "username": USER, "password": PASSWORD, "ca_path": self.said["ca"]})
    }

    fn call(&self, module: &str, more: Value) -> Call<'static> {
        let mut all = self.sign_in();
        for (k, v) in more.as_object().expect("an object") {
            all[k] = v.clone();
        }
        Call::nowhere(module, all).secret(PASSWORD)
    }

    /// Check, apply, again.
    #[track_caller]
    fn triple(&self, module: &str, args: Value) -> Done {
        let check = self.call(module, args.clone()).check(true).run().ok();
        let apply = self.call(module, args.clone()).run().ok();
        crate::support::triple::agree(&check, &apply);
        let again = self.call(module, args).run().ok();
        if again.changed() || again.plan() != "[]" {
            again.fail("a second run is not unchanged");
        }
        apply
    }

    fn inventory(&self, more: Value) -> Value {
        let mut all = self.sign_in();
        all["validate_certs"] = json!(true);
        for (k, v) in more.as_object().expect("an object") {
            all[k] = v.clone();
        }
        let mut child = Command::new(env!("CARGO_BIN_EXE_trueplan"))
            .arg("inventory")
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        child
            .stdin
            .take()
            .expect("stdin")
            .write_all(all.to_string().as_bytes())
            .expect("written");
        let out = child.wait_with_output().expect("it ends");
        assert!(
            out.status.success(),
            "{}",
            String::from_utf8_lossy(&out.stderr)
        );
        serde_json::from_slice(&out.stdout).expect("JSON")
    }
}

impl Drop for Vcsim {
    fn drop(&mut self) {
        // It ends with its standard input, and removes its files.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

#[test]
fn our_modules_work_on_it() {
    let Some(sim) = Vcsim::start(&["-pg", "5", "-vm", "3"]) else {
        return;
    };
    let r = sim
        .call("vsphere_portgroups", json!({"datacenter": "DC0"}))
        .run()
        .ok();
    let listed = r["dvs_portgroup_info"]["DVS0"]
        .as_array()
        .expect("portgroups");
    assert_eq!(listed.len(), 6, "five and the uplinks: {}", *r);
    let vlans: Vec<&Value> = listed.iter().map(|p| &p["vlan_info"]["vlan_id"]).collect();
    for wanted in [
        json!("100"),
        json!(["0-99", "105", "300-4094"]),
        json!("201"),
    ] {
        assert!(vlans.contains(&&wanted), "{wanted} in {vlans:?}");
    }
    assert!(
        r["vlan_map"]
            .as_object()
            .is_some_and(|m| !m.is_empty() && m.values().all(|v| *v == json!(100))),
        "{}",
        r["vlan_map"]
    );
    println!("vcsim: portgroups: {} of DC0", listed.len());

    let all = sim
        .call(
            "vsphere_vm_info",
            json!({"datacenter": "DC1", "destination_datastore": "LocalDS_1"}),
        )
        .run()
        .ok();
    let vms = all["vms"].as_array().expect("machines");
    assert_eq!(vms.len(), 6, "{}", all["msg"]);
    let one = sim
        .call("vsphere_vm_info", json!({"moid": vms[0]["moid"]}))
        .run()
        .ok();
    for k in [
        "moid",
        "name",
        "path",
        "datacenter",
        "host",
        "cluster",
        "uuid",
        "disks",
        "nics",
        "datastore_states",
        "power",
    ] {
        assert_eq!(one["vm"][k], vms[0][k], "{k}: alone and in the list");
    }
    assert!(
        vms[0]["datastore_states"][0]["free"].as_i64() > Some(0),
        "{}",
        vms[0]["datastore_states"]
    );
    println!("vcsim: vm_info: {} of DC1", vms.len());

    let vm = |name: &str| json!({"name": name, "datacenter": "DC0"});
    let with = |mut a: Value, k: &str, v: &str| {
        a[k] = json!(v);
        a
    };
    let on = sim.triple(
        "vsphere_powerstate",
        with(vm("DC0_H0_VM0"), "state", "powered-off"),
    );
    assert!(on.changed());
    assert!(
        sim.triple(
            "vsphere_powerstate",
            with(vm("DC0_H0_VM0"), "state", "powered-on")
        )
        .changed()
    );
    println!("vcsim: powerstate: off and on");

    let args = json!({"vm_name": "DC0_C0_RP0_VM1", "destination_host": "DC0_C0_H1", "destination_datacenter": "DC0"});
    let moved = sim.call("vsphere_relocate", args.clone()).run().ok();
    assert_eq!(moved["running_host"], "DC0_C0_H1", "{}", *moved);
    assert!(!sim.call("vsphere_relocate", args).run().ok().changed());
    // The simulator moves `vm.datastore` and no file, which is just what must not be taken for done (V2.1).
    let args = json!({"vm_name": "DC0_H0_VM1", "destination_datastore": "LocalDS_1", "destination_datacenter": "DC0"});
    let check = sim
        .call("vsphere_relocate", args.clone())
        .check(true)
        .run()
        .ok();
    let r = sim.call("vsphere_relocate", args).run();
    assert!(check.changed() && r.plan() == check.plan(), "{}", *r);
    assert!(
        r.is_failed() || r.warnings().iter().any(|w| w.contains("foreseen")),
        "files that did not move are told: {}",
        *r
    );
    println!("vcsim: relocate: a host, and a datastore move whose files stay where they are");

    let bad = sim
        .call("vsphere_portgroups", json!({"password": "wrong"}))
        .run()
        .failed("auth");
    assert!(bad.msg().ends_with("Login failure"), "{}", bad.msg());
}

#[test]
fn the_inventory_of_50_and_400_machines() {
    for (count, wanted) in [("13", 52), ("100", 400)] {
        let Some(sim) = Vcsim::start(&["-vm", count]) else {
            return;
        };
        let v = sim.inventory(json!({"properties": ["name", "config.hardware.device", "guest.ipAddress"], "gather_path": true, "gather_compute_objects": true, "search_paths": []}));
        let vms = v["vms"].as_array().expect("machines");
        assert_eq!(vms.len(), wanted);
        for v in vms {
            assert!(
                v["config"]["hardware"]["device"]
                    .as_array()
                    .is_some_and(|d| !d.is_empty()),
                "{v}"
            );
            assert!(
                v["path"].as_str().is_some_and(|p| p.ends_with("/vm")),
                "{}",
                v["path"]
            );
            assert!(v["esxi_host"]["name"].is_string() && v["cluster"]["name"].is_string());
        }
        println!("vcsim: inventory: {} machines", vms.len());
    }
}
