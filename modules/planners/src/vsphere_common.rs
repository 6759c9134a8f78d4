//! What all vSphere modules share: connection options, how one machine is chosen, guards.

use crate::look::{Look, Stop};
use plan::{ErrorKind, Fact, Refusal};
use serde_json::Value;
use spec::{Args, Kind, ModuleSpec, Opt};
use vsphere::keys::{VcKey, VmBy};
use vsphere::value::text;

/// The peers' connection options, and ours.
pub const CONNECTION: &[Opt] = &[
    Opt::str("hostname", "Host name or address of the vCenter or of the standalone ESXi host.").env("VMWARE_HOST"),
    Opt::str("username", "User name.").alias(&["user", "admin"]).env("VMWARE_USER"),
    Opt::str("password", "Password.").alias(&["pass", "pwd"]).env("VMWARE_PASSWORD").secret(),
    Opt::int("port", "TCP port of the API.").default("443").range(1, 65535).env("VMWARE_PORT"),
    Opt::bool("validate_certs", "Whether the server's certificate must be valid. A O(thumbprint) replaces that.").default("true").env("VMWARE_VALIDATE_CERTS"),
    Opt::str("proxy_host", "An HTTP proxy to reach the server through.").env("VMWARE_PROXY_HOST"),
    Opt::int("proxy_port", "The proxy's port.").range(1, 65535).env("VMWARE_PROXY_PORT"),
    Opt::path("ca_path", "A PEM file with the CA's certificate, or with the server's own if it is self-signed.").env("VMWARE_CA_PATH"),
    Opt::str("thumbprint", "SHA-1 or SHA-256 of the server's certificate, in hexadecimal; pins it, also with O(validate_certs=false).").env("VMWARE_THUMBPRINT"),
    Opt::int("api_timeout", "Seconds for a connection, and again for a short answer; a page of a report may take ten times as long.").default("30").range(1, 3600).env("VMWARE_API_TIMEOUT"),
];

/// The guard against acting on another machine than was meant.
pub const GUARD_UUID: Opt = Opt::str(
    "guard_uuid",
    "The machine found must have this BIOS uuid (C(config.uuid)); another one, or none, is refused.",
);

/// Where the server's names are looked for.
pub const DATACENTER: Opt = Opt::new(
    "datacenter",
    Kind::Str,
    "Name (or moid) of the datacenter in which names are looked for. Without it they are looked for everywhere; two matches are an error.",
)
.alias(&["datacenter_name"]);

/// The options of the inventory that the binary itself uses; the plugin passes them as JSON. No module of the collection.
pub const INVENTORY: ModuleSpec = ModuleSpec {
    name: "vms_inventory",
    short: "Variables of all machines, for the inventory plugin",
    options: &[
        CONNECTION,
        &[
            Opt::strs("properties", "Property paths; V(all) means all."),
            Opt::bool("gather_compute_objects", "Add C(cluster) and C(esxi_host).")
                .default("false"),
            Opt::bool("gather_path", "Add C(path).").default("true"),
            Opt::strs("search_paths", "Only below these inventory paths."),
        ],
    ],
    ..ModuleSpec::READS
};

/// How one machine was named by a task.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// The key to read.
    pub key: VcKey,
    /// In words: `machine web01`.
    pub what: String,
    guard: Option<String>,
}

/// The machine that a task names by the options called `name`, `uuid` and `moid` here; `None` if it names none.
pub fn chosen(a: &Args, name: &str, uuid: &str, moid: &str) -> Option<Chosen> {
    let (by, value) = if let Some(m) = a.str(moid) {
        (VmBy::Moid(m.to_owned()), m)
    } else if let Some(u) = a.str(uuid) {
        let u_ = u.to_owned();
        (
            if a.flag("use_instance_uuid") {
                VmBy::InstanceUuid(u_)
            } else {
                VmBy::Uuid(u_)
            },
            u,
        )
    } else {
        let n = a.str(name)?;
        (VmBy::Name(n.to_owned()), n)
    };
    Some(Chosen {
        what: format!("machine {value}"),
        key: VcKey::Vm {
            by,
            datacenter: a.str("datacenter").map(str::to_owned),
        },
        guard: a.str("guard_uuid").map(str::to_owned),
    })
}

/// Equal but for case, dashes and blanks.
pub fn same_uuid(a: &str, b: &str) -> bool {
    let bare = |s: &str| {
        s.chars()
            .filter(char::is_ascii_hexdigit)
            .collect::<String>()
            .to_ascii_lowercase()
    };
    !bare(a).is_empty() && bare(a) == bare(b)
}

impl Chosen {
    /// The machine, in the shape of [`vsphere::vm::fact`]; `None` if there is none.
    ///
    /// # Errors
    /// Not read yet; not readable; another machine than `guard_uuid` says.
    pub fn look<'a>(&self, look: &Look<'a>) -> Result<Option<&'a Value>, Stop> {
        let vm = match look.fact(&self.key)? {
            Fact::Known(v) => v,
            Fact::Absent => return Ok(None),
            Fact::Unreadable(why) => {
                return Err(Refusal::kind(
                    ErrorKind::Permission,
                    format!(
                        "unable to read {}: {why}; give the user System.Read on it",
                        self.what
                    ),
                )
                .into());
            }
        };
        if let Some(g) = &self.guard {
            let is = text(vm, "uuid");
            if !is.is_some_and(|u| same_uuid(u, g)) {
                return Err(Refusal::new(format!(
                    "unable to go on with {}: its uuid is {}, guard_uuid is {g}: it is another machine than was meant; choose it by moid or uuid",
                    self.what,
                    is.unwrap_or("not known")
                ))
                .into());
            }
        }
        Ok(Some(vm))
    }

    /// The same; none is an error.
    ///
    /// # Errors
    /// As [`Chosen::look`], and `not_found`.
    pub fn must<'a>(&self, look: &Look<'a>) -> Result<&'a Value, Stop> {
        self.look(look)?.ok_or_else(|| self.not_found().into())
    }

    /// The refusal of a machine that is not there.
    pub fn not_found(&self) -> Refusal {
        let within = match &self.key {
            VcKey::Vm {
                datacenter: Some(d),
                ..
            } => format!(" in datacenter {d}"),
            _ => String::new(),
        };
        Refusal::kind(
            ErrorKind::NotFound,
            format!(
                "unable to find {}{within}: there is none, or this user may not see it; check the name and the user's privileges",
                self.what
            ),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_are_compared_by_their_digits() {
        assert!(same_uuid(
            "564D1234-5678-9ABC-DEF0-112233445566",
            "564d123456789abcdef0112233445566"
        ));
        assert!(!same_uuid("", "") && !same_uuid("56", "57"));
    }
}
