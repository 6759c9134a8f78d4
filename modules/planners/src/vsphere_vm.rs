//! `vsphere_vm`: a virtual machine taken out of vCenter, with its files or without.

use crate::common::PLAN_ONLY;
use crate::look::{self, Look, Stop, Think};
use crate::privileges;
use crate::vsphere_common::CONNECTION;
use crate::vsphere_target::{self as vt, Names, SELECT, Target};
use crate::{Def, Side};
use plan::{
    Await, Effect, ErrorKind, Fact, Facts, Key, Module, Outcome, Plan, Refusal, Tolerance, Wait,
};
use serde_json::{Map, Value, json};
use spec::shared::{EXPECT_PLAN, RETURNS, RETURNS_WRITING};
use spec::{ArgError, Args, Kind, ModuleSpec, Opt, Ret};
use std::collections::BTreeSet;
use vsphere::keys::VcKey;
use vsphere::value::{list, text};

const OWN: &[Opt] = &[
    Opt::str("state", "V(absent): there is no such VM. Making and changing VMs is none of this module's business.").choices(&["absent"]).required(),
    Opt::bool("delete_from_inventory", "Only take the VM out of the inventory (unregister it): every file stays, and the VM can be registered again from RV(vmx). Otherwise its files are deleted with all its disks.").default("false"),
    Opt::bool("force", "Power off a VM that is on, or drop the memory of a suspended one, before it goes. Without it such a VM is refused.").default("false"),
    Opt::int("timeout", "Seconds to wait for another running task of the VM, and again for our own.").default("3600").range(1, 604_800),
];

const OWN_RETURNS: &[Ret] = &[
    Ret::new(
        "vm",
        Kind::Dict,
        "on success",
        "The VM, or null if there was none.",
    )
    .contains(&[
        Ret::new("moid", Kind::Str, "always", "Its managed object id."),
        Ret::new("name", Kind::Str, "always", "Its name."),
    ]),
    Ret::new(
        "vmx",
        Kind::Str,
        "on success",
        "Path of its configuration file, by which it can be registered again; null if there was no VM.",
    ),
    Ret::list_of(
        "files",
        Kind::Str,
        "on success",
        "Its files: those that stay with O(delete_from_inventory), else those that are gone.",
    ),
];

/// The argument table.
pub const SPEC: ModuleSpec = ModuleSpec {
    name: "vsphere_vm",
    short: "Remove a vSphere VM, with its files or from the inventory only",
    doc: &[
        "Takes a virtual machine out of vCenter: out of the inventory only, or with all its files. Options and meaning are those of M(community.vmware.vmware_guest) with O(state=absent).",
        "Says beforehand what must not be removed: a VM that is on, and disks that another VM uses.",
        "A VM that is not there is unchanged. One that this user may not see looks the same.",
    ],
    options: &[OWN, SELECT, CONNECTION, &[EXPECT_PLAN, PLAN_ONLY]],
    required_one_of: &[&["name", "uuid", "moid"]],
    mutually_exclusive: &[&["name", "uuid", "moid"]],
    returns: &[OWN_RETURNS, RETURNS, RETURNS_WRITING],
    examples: "- name: Take the migrated VM out of the inventory, and keep its files\n  trueplan.virt.vsphere_vm:\n    hostname: vcenter.example.com\n    username: migrate@vsphere.local\n    password: \"{{ vault_vcenter_password }}\"\n    moid: vm-1042\n    state: absent\n    delete_from_inventory: true\n",
    privileges: &[
        privileges::VSPHERE_READS,
        (
            "the VM",
            "C(VirtualMachine.Inventory.Unregister)",
            "taking it out of the inventory",
        ),
        (
            "the VM and its folder",
            "C(VirtualMachine.Inventory.Delete)",
            "deleting it with its files",
        ),
    ],
    action_groups: &["vsphere", "vmware"],
    ..ModuleSpec::EMPTY
};

/// The registry's entry.
pub const DEF: Def = Def {
    spec: &SPEC,
    side: Side::Vsphere,
    make,
};

struct Removal {
    target: Target,
    keep_files: bool,
    force: bool,
    timeout_s: u64,
}

fn make(a: &Args) -> Result<Box<dyn Module>, Vec<ArgError>> {
    let keep_files = a.flag("delete_from_inventory");
    let names = Names {
        name: "name",
        uuid: "uuid",
    };
    let verb = if keep_files { "unregister" } else { "delete" };
    Ok(Box::new(Removal {
        target: Target::new(a, &names, verb),
        keep_files,
        force: a.flag("force"),
        timeout_s: a
            .int("timeout")
            .and_then(|t| t.try_into().ok())
            .unwrap_or(3600),
    }))
}

/// Paths of a machine's disks: what it runs on, and what lies below that in a chain.
fn disk_paths(vm: &Value) -> BTreeSet<&str> {
    list(vm, "disks")
        .iter()
        .flat_map(|d| {
            [
                text(d, "path"),
                text(d, "snapshot_parent"),
                text(d, "data_file"),
            ]
        })
        .flatten()
        .collect()
}

/// Names of all files that go with it.
fn files(vm: &Value) -> BTreeSet<&str> {
    let listed = list(vm, "files").iter().filter_map(|f| text(f, "name"));
    listed.chain(disk_paths(vm)).collect()
}

impl Removal {
    /// Nobody else may need what is deleted: multi-writer disks, linked clones, a disk attached twice.
    fn check_alone(&self, look: &Look<'_>, vm: &Value) -> Result<(), Stop> {
        let all = match look.fact(&VcKey::Vms { datacenter: None })? {
            Fact::Known(Value::Array(all)) => all.as_slice(),
            Fact::Unreadable(why) => {
                let e = format!(
                    "unable to delete {}: whether other VMs use its disks cannot be read: {why}",
                    self.target.named()
                );
                return Err(Refusal::kind(ErrorKind::Permission, e).into());
            }
            _ => &[],
        };
        let own = files(vm);
        let users: Vec<String> = all
            .iter()
            .filter(|o| o["moid"] != vm["moid"])
            .filter_map(|o| {
                let shared: Vec<&str> = disk_paths(o).intersection(&own).copied().collect();
                (!shared.is_empty()).then(|| format!("{} uses {}", vt::title(o), shared.join(", ")))
            })
            .collect();
        if users.is_empty() {
            return Ok(());
        }
        let why = format!(
            "{}; give that VM disks of its own first, or only unregister this one (delete_from_inventory: true)",
            users.join("; ")
        );
        Err(self.target.refusal(why).into())
    }

    fn gone<'f>(&self, facts: &'f Facts) -> Option<&'f Value> {
        let vm = self.target.in_facts(facts)?;
        let moid = text(vm, "moid").unwrap_or("");
        match facts.get(VcKey::vm(moid)) {
            Some(Fact::Absent) => None,
            _ => Some(vm),
        }
    }
}

impl Think for Removal {
    fn think(&self, look: &Look<'_>) -> Result<Plan, Stop> {
        let mut plan = Plan::empty();
        if self.target.is_absent(look)? {
            return Ok(plan);
        }
        let vm = self.target.find(look)?;
        if let Some(task) = vt::running(vm).first() {
            let after = vt::without_task(vm, task);
            return Err(vt::wait_for(&self.target, vm, task, self.timeout_s, false, &after).into());
        }
        let power = text(vm, "power").unwrap_or("");
        let off = power == "poweredOff";
        if !off && !self.force {
            let state = if power == "suspended" {
                "it is suspended, and what its memory holds would be lost"
            } else {
                "it is powered on"
            };
            return Err(self
                .target
                .refusal(format!(
                    "{state}; shut it down first (vsphere_powerstate), or give force: true"
                ))
                .into());
        }
        if !self.keep_files {
            self.check_alone(look, vm)?;
        }
        if !off {
            let after = vt::with(vm, &[("power", json!("poweredOff"))]);
            plan.push(
                vt::step(
                    vm,
                    "PowerOffVM_Task",
                    &[],
                    "power it off at once, without asking the guest",
                )
                .wait(Await::Task {
                    timeout_s: self.timeout_s,
                })
                .tolerate(Tolerance::AlreadyDone("InvalidPowerState"))
                .destructive()
                .disruptive()
                .effect(vt::put(&after))
                .effect(vt::put_state(&after)),
            );
        }
        let moid = text(vm, "moid").unwrap_or("");
        let step = match self.keep_files {
            true => vt::step(
                vm,
                "UnregisterVM",
                &[],
                "take it out of the inventory; its files stay",
            ),
            false => vt::step(vm, "Destroy_Task", &[], "delete it with all its files")
                .wait(Await::Task {
                    timeout_s: self.timeout_s,
                })
                .destructive(),
        };
        plan.push(
            step.tolerate(Tolerance::AlreadyDone("ManagedObjectNotFound"))
                // Somebody powered it on between: look again, and refuse.
                .tolerate(Tolerance::Replan("InvalidPowerState"))
                .disruptive()
                .effect(Effect::Gone(VcKey::vm(moid)))
                .effect(Effect::Gone(VcKey::VmState(moid.to_owned()).key())),
        );
        Ok(plan)
    }
}

impl Module for Removal {
    fn needs(&self, facts: &Facts) -> Vec<Key> {
        look::needs(self, facts)
    }

    fn holds(&self) -> Vec<Key> {
        vec![self.target.key()]
    }

    fn settle(&self, facts: &Facts) -> Result<Option<Wait>, Refusal> {
        look::settle(self, facts)
    }

    fn plan(&self, facts: &Facts) -> Result<Plan, Refusal> {
        look::plan(self, facts)
    }

    fn subject(&self, facts: &Facts, _answers: &[Value]) -> Vec<Key> {
        self.target.subject(facts)
    }

    fn view(&self, facts: &Facts) -> Value {
        match self.gone(facts) {
            Some(vm) => json!({
                "name": vm["name"],
                "moid": vm["moid"],
                "power": vm["power"],
                "vmx": vm["vmx"]["path"],
                "disks": list(vm, "disks").iter().map(|d| d["path"].clone()).collect::<Vec<_>>(),
            }),
            None => Value::Null,
        }
    }

    fn result(&self, o: &Outcome<'_>) -> Map<String, Value> {
        let mut m = Map::new();
        let vm = self.gone(o.before);
        let msg = match (vm, o.changed, self.keep_files) {
            (Some(vm), true, true) => {
                format!("VM {} is unregistered; its files stay", vt::title(vm))
            }
            (Some(vm), _, _) => format!("VM {} is deleted", vt::title(vm)),
            (None, _, _) => format!("{} does not exist", self.target.named()),
        };
        m.insert("msg".into(), json!(msg));
        m.insert(
            "vm".into(),
            vm.map_or(
                Value::Null,
                |v| json!({"moid": v["moid"], "name": v["name"]}),
            ),
        );
        m.insert(
            "vmx".into(),
            vm.map_or(Value::Null, |v| v["vmx"]["path"].clone()),
        );
        m.insert("files".into(), json!(vm.map(files).unwrap_or_default()));
        m
    }

    fn title(&self) -> String {
        self.target.named()
    }
}
