//! `vsphere_vm_info`: what a migration must know of machines, and what stands in its way.

use crate::look::{self, Look, Stop, Think};
use crate::privileges;
use crate::vsphere_common::{CONNECTION, Chosen, DATACENTER, GUARD_UUID, chosen};
use crate::{Def, Side};
use plan::{ErrorKind, Fact, Facts, Key, Module, Outcome, Plan, Refusal, Wait};
use serde_json::{Map, Value, json};
use spec::shared::RETURNS;
use spec::{ArgError, Args, Kind, ModuleSpec, Opt, Ret};
use vsphere::concerns::{Names, batch, concerns, space};
use vsphere::keys::VcKey;
use vsphere::path::same_name;
use vsphere::value::{list, text};

const OWN: &[Opt] = &[
    Opt::str("name", "Name of one machine. Several of that name are an error that lists them.").alias(&["vm_name"]),
    Opt::str("uuid", "BIOS uuid of one machine, or its instance uuid with O(use_instance_uuid=true).").alias(&["vm_uuid"]),
    Opt::str("moid", "Managed object id of one machine, such as V(vm-12)."),
    Opt::bool("use_instance_uuid", "Whether O(uuid) is vCenter's instance uuid.").default("false"),
    Opt::strs("names", "Names of several machines. Without this and all of the above, all machines are returned."),
    Opt::strs("moids", "Managed object ids of several machines."),
    DATACENTER,
    GUARD_UUID,
    Opt::str("destination_datastore", "Name of a datastore that the machines are to move to: its free space is compared with their bytes, see RV(batch)."),
    Opt::bool("concerns", "Whether C(concerns) are found out, for which networks and the names of all machines are read as well.").default("true"),
];

const VM: &[Ret] = &[
    Ret::new("name", Kind::Str, "always", "Name."),
    Ret::new("moid", Kind::Str, "always", "Managed object id."),
    Ret::new(
        "uuid",
        Kind::Str,
        "always",
        "BIOS uuid as vCenter writes it; what O(guard_uuid) is compared with.",
    ),
    Ret::new("instance_uuid", Kind::Str, "always", "vCenter's own uuid."),
    Ret::new(
        "smbios_uuid",
        Kind::Str,
        "always",
        "The uuid that a Proxmox guest must be given so that the guest goes on seeing the same.",
    ),
    Ret::new(
        "dns_name",
        Kind::Str,
        "always",
        "The name as Proxmox VE takes it: a valid DNS name, made of the machine's name in always the same way.",
    ),
    Ret::new(
        "smbios_serial",
        Kind::Str,
        "always",
        "The serial number that the guest sees.",
    ),
    Ret::new("firmware", Kind::Str, "always", "V(bios) or V(efi)."),
    Ret::new(
        "secure_boot",
        Kind::Bool,
        "always",
        "Whether Secure Boot is on.",
    ),
    Ret::new(
        "vtpm",
        Kind::Bool,
        "always",
        "Whether there is a virtual TPM.",
    ),
    Ret::new("cpus", Kind::Int, "always", "vCPUs in all."),
    Ret::new("cores_per_socket", Kind::Int, "always", "Cores per socket."),
    Ret::new("memory_mb", Kind::Int, "always", "Memory in MiB."),
    Ret::new(
        "power",
        Kind::Str,
        "always",
        "V(poweredOn), V(poweredOff) or V(suspended).",
    ),
    Ret::new(
        "guest_id",
        Kind::Str,
        "always",
        "VMware's id of the guest's system.",
    ),
    Ret::new(
        "tools",
        Kind::Dict,
        "always",
        "VMware Tools: C(running), C(version), C(installer_mounted).",
    ),
    Ret::list_of(
        "nics",
        Kind::Dict,
        "always",
        "Network cards in slot order: C(mac), C(model), C(kind), C(portgroup_key), C(portgroup), C(switch), C(vlan), C(label), C(key).",
    ),
    Ret::list_of(
        "disks",
        Kind::Dict,
        "always",
        "Disks in the order in which the guest meets them (SCSI, SATA, NVMe, IDE; bus number; unit): C(key), C(label), C(bus), C(bus_number), C(unit), C(path), C(datastore), C(data_file), C(bytes), C(mode), C(rdm), C(sharing), C(snapshot_parent), C(boot).",
    ),
    Ret::list_of(
        "snapshots",
        Kind::Dict,
        "always",
        "Snapshots, parents first.",
    ),
    Ret::list_of(
        "datastore_states",
        Kind::Dict,
        "always",
        "The datastores that it lies on: C(moid), C(name), C(accessible), C(maintenance), C(capacity), C(free) (bytes).",
    ),
    Ret::list_of(
        "concerns",
        Kind::Dict,
        "with O(concerns=true)",
        "What would make a migration fail or surprise: C(id), C(severity) (V(blocker) or V(warning)), C(message).",
    ),
];

const OWN_RETURNS: &[Ret] = &[
    Ret::list_of("vms", Kind::Dict, "always", "The machines.").contains(VM),
    Ret::new(
        "vm",
        Kind::Dict,
        "when one machine was asked for",
        "The same as the only item of RV(vms).",
    ),
    Ret::new(
        "batch",
        Kind::Dict,
        "with O(destination_datastore)",
        "C(bytes) of these machines' disks that are not on C(datastore) yet, its C(free) and C(capacity), and whether they C(fits); null where it cannot be read.",
    ),
];

/// The argument table.
pub const SPEC: ModuleSpec = ModuleSpec {
    name: "vsphere_vm_info",
    short: "Read what a migration must know of virtual machines",
    doc: &[
        "Returns identity, hardware, disks, network cards, snapshots and state of one machine or of many, in one query, and the concerns about migrating each.",
        "In check mode, machines that earlier tasks of the run would have changed are returned as they would be then.",
    ],
    options: &[OWN, CONNECTION],
    mutually_exclusive: &[&["name", "uuid", "moid", "names", "moids"]],
    required_by: &[],
    returns: &[OWN_RETURNS, RETURNS],
    examples: "- name: Look at the machine right before its cutover\n  trueplan.virt.vsphere_vm_info:\n    hostname: vcenter.example.com\n    username: administrator@vsphere.local\n    password: \"{{ vcenter_password }}\"\n    moid: \"{{ vm_moid }}\"\n    guard_uuid: \"{{ config.uuid }}\"\n  register: source\n",
    privileges: &[privileges::VSPHERE_READS],
    action_groups: &["vsphere", "vmware"],
    ..ModuleSpec::READS
};

/// The registry's entry.
pub const DEF: Def = Def {
    spec: &SPEC,
    side: Side::Vsphere,
    make,
};

enum Which {
    One(Chosen),
    Names(Vec<String>),
    Moids(Vec<String>),
    All,
}

/// Whether a machine is the one that was named.
type Matches = fn(&Value, &str) -> bool;

struct VmInfo {
    which: Which,
    datacenter: Option<String>,
    destination: Option<String>,
    concerns: bool,
}

fn make(a: &Args) -> Result<Box<dyn Module>, Vec<ArgError>> {
    let one = chosen(a, "name", "uuid", "moid");
    if one.is_none() && a.given("guard_uuid") {
        return Err(vec![ArgError {
            path: "guard_uuid".into(),
            value: a.str("guard_uuid").map(str::to_owned),
            msg: "it guards one machine; give name, uuid or moid with it".into(),
        }]);
    }
    let which = match one {
        Some(c) => Which::One(c),
        None => match (a.strs("names"), a.strs("moids")) {
            (Some(n), _) => Which::Names(n),
            (_, Some(m)) => Which::Moids(m),
            _ => Which::All,
        },
    };
    Ok(Box::new(VmInfo {
        which,
        datacenter: a.str("datacenter").map(str::to_owned),
        destination: a.str("destination_datastore").map(str::to_owned),
        concerns: a.flag("concerns"),
    }))
}

impl VmInfo {
    fn all_key(&self) -> VcKey {
        VcKey::Vms {
            datacenter: self.datacenter.clone(),
        }
    }

    /// The datastore that is to hold them; `None` if none was named or it cannot be read.
    fn store<'a>(&self, look: &Look<'a>) -> Result<Option<&'a Value>, Stop> {
        let Some(name) = &self.destination else {
            return Ok(None);
        };
        let Some(all) = look.aux(&VcKey::Datastores, "free space")? else {
            return Ok(None);
        };
        let all = all
            .known()
            .and_then(Value::as_array)
            .map_or(&[][..], Vec::as_slice);
        let dc = self.datacenter.as_deref();
        let found: Vec<&Value> = all
            .iter()
            .filter(|d| text(d, "name") == Some(name) || text(d, "moid") == Some(name))
            .filter(|d| {
                dc.is_none() || text(d, "datacenter") == dc || text(d, "datacenter_moid") == dc
            })
            .collect();
        match found.as_slice() {
            [one] => Ok(Some(one)),
            [] => Err(Refusal::kind(
                ErrorKind::NotFound,
                format!("unable to find datastore {name}: there is none, or this user may not see it; check the name and the user's privileges"),
            )
            .into()),
            many => Err(Refusal::new(format!(
                "unable to choose datastore {name}: {} have that name; give datacenter, or its moid",
                many.len()
            ))
            .into()),
        }
    }

    /// The machines that were asked for.
    fn machines<'a>(&self, look: &Look<'a>) -> Result<Vec<&'a Value>, Stop> {
        if let Which::One(c) = &self.which {
            return Ok(vec![c.must(look)?]);
        }
        let all = match look.fact(&self.all_key())? {
            Fact::Known(Value::Array(l)) => l.as_slice(),
            Fact::Unreadable(why) => {
                return Err(Refusal::kind(
                    ErrorKind::Permission,
                    format!("unable to read the machines: {why}"),
                )
                .into());
            }
            _ => &[],
        };
        let (wanted, matches): (&[String], Matches) = match &self.which {
            Which::Names(n) => (n, |v, n| {
                text(v, "raw_name").is_some_and(|r| same_name(r, n))
            }),
            Which::Moids(m) => (m, |v, m| text(v, "moid") == Some(m)),
            _ => return Ok(all.iter().collect()),
        };
        let mut out: Vec<&Value> = vec![];
        let (mut missing, mut several) = (vec![], vec![]);
        for w in wanted {
            let found: Vec<&Value> = all.iter().filter(|v| matches(v, w)).collect();
            match found.as_slice() {
                [one] => out.push(one),
                [] => missing.push(w.as_str()),
                many => {
                    let l: Vec<String> = many
                        .iter()
                        .map(|v| {
                            format!(
                                "{} in {}",
                                text(v, "moid").unwrap_or("?"),
                                text(v, "path").unwrap_or("?")
                            )
                        })
                        .collect();
                    several.push(format!("{w}: {}", l.join(", ")));
                }
            }
        }
        if !missing.is_empty() {
            return Err(Refusal::kind(
                ErrorKind::NotFound,
                format!("unable to find the machines {}: there are none, or this user may not see them; check the names and the user's privileges", missing.join(", ")),
            )
            .into());
        }
        if !several.is_empty() {
            return Err(Refusal::new(format!(
                "unable to choose machines by name: several match: {}; give moids",
                several.join("; ")
            ))
            .into());
        }
        Ok(out)
    }
}

impl Think for VmInfo {
    fn think(&self, look: &Look<'_>) -> Result<Plan, Stop> {
        if self.concerns {
            // Names first: they are read together with the tree of folders that everything else needs.
            look.want(&[VcKey::VmNames, VcKey::Networks { datacenter: None }])?;
        }
        let mut p = Plan::empty();
        for vm in self.machines(look)? {
            for path in list(vm, "unreadable").iter().filter_map(Value::as_str) {
                p.unverified
                    .push(format!("{} of {}", path, text(vm, "name").unwrap_or("")));
            }
        }
        self.store(look)?;
        if self.concerns {
            look.aux(&VcKey::Networks { datacenter: None }, "networks")?;
            look.aux(&VcKey::VmNames, "names of the other machines")?;
        }
        Ok(p)
    }
}

impl Module for VmInfo {
    fn needs(&self, facts: &Facts) -> Vec<Key> {
        look::needs(self, facts)
    }

    fn settle(&self, facts: &Facts) -> Result<Option<Wait>, Refusal> {
        look::settle(self, facts)
    }

    fn plan(&self, facts: &Facts) -> Result<Plan, Refusal> {
        look::plan(self, facts)
    }

    fn subject(&self, _facts: &Facts, _answers: &[Value]) -> Vec<Key> {
        vec![]
    }

    fn view(&self, _facts: &Facts) -> Value {
        json!({})
    }

    fn result(&self, outcome: &Outcome<'_>) -> Map<String, Value> {
        let look = Look::new(outcome.before);
        let networks = outcome
            .before
            .known(VcKey::Networks { datacenter: None }.key())
            .map(|r| list(r, "networks"));
        let names = outcome
            .before
            .known(VcKey::VmNames.key())
            .and_then(Value::as_array)
            .map(|l| Names::new(l));
        let machines = self.machines(&look).unwrap_or_default();
        let space = self
            .store(&look)
            .ok()
            .flatten()
            .map(|d| batch(&machines, d));
        let vms: Vec<Value> = machines
            .into_iter()
            .map(|vm| {
                shown(
                    vm,
                    networks,
                    names.as_ref(),
                    self.concerns.then_some(space.as_ref()),
                )
            })
            .collect();
        let mut m = Map::new();
        m.insert(
            "msg".into(),
            json!(format!(
                "{} machine{}",
                vms.len(),
                if vms.len() == 1 { "" } else { "s" }
            )),
        );
        if let Some(space) = space {
            m.insert("batch".into(), space);
        }
        if let (Which::One(_), [one]) = (&self.which, vms.as_slice()) {
            m.insert("vm".into(), one.clone());
        }
        m.insert("vms".into(), Value::Array(vms));
        m
    }

    fn title(&self) -> String {
        match &self.which {
            Which::One(c) => c.what.clone(),
            _ => "machines".to_owned(),
        }
    }
}

/// A machine as it is returned: the fact with the names and VLANs of its networks, and the concerns.
fn shown(
    vm: &Value,
    networks: Option<&[Value]>,
    names: Option<&Names<'_>>,
    with_concerns: Option<Option<&Value>>,
) -> Value {
    let mut out = vm.as_object().cloned().unwrap_or_default();
    let dns_name = pve::naming::dns_name(text(vm, "name").unwrap_or_default());
    out.insert("dns_name".into(), json!(dns_name));
    // The server's own spelling and its bookkeeping are for us.
    for k in ["raw_name", "files", "unreadable"] {
        out.remove(k);
    }
    if let Some(Value::Array(nics)) = out.get_mut("nics") {
        for n in nics {
            let key = text(n, "portgroup_key").map(str::to_owned);
            let net = networks.and_then(|l| {
                l.iter()
                    .find(|x| key.is_some() && text(x, "key") == key.as_deref())
            });
            let Some(o) = n.as_object_mut() else { continue };
            for (k, from) in [
                ("portgroup", "name"),
                ("switch", "switch"),
                ("vlan", "vlan"),
                ("nsx", "nsx"),
            ] {
                match net {
                    Some(x) => {
                        o.insert(k.to_owned(), x[from].clone());
                    }
                    None => {
                        o.entry(k).or_insert(Value::Null);
                    }
                }
            }
        }
    }
    if let Some(batch) = with_concerns {
        let mut all = concerns(vm, networks, names);
        let name = text(vm, "name").unwrap_or_default();
        if !name.is_empty() && dns_name != name {
            all.push(json!({"id": "name_changed", "severity": "warning",
                "message": format!("its name is no DNS name, as Proxmox VE wants one: it will be called {dns_name}; the old name stands in the description")}));
        }
        all.extend(batch.into_iter().flat_map(|b| space(vm, b)));
        out.insert("concerns".into(), json!(all));
    }
    Value::Object(out)
}
