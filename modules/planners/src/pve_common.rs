//! What all pve_* modules share: options, finding the guest, locks and running tasks, who may do what.

use crate::look::{Look, Stop};
use plan::{Arg, Effect, ErrorKind, Fact, Refusal, Wait};
use pve::keys::PveKey;
use serde_json::{Map, Value, json};
use spec::{ArgError, Args, Opt};

/// Options of the connection, as in community.proxmox 2.0.0 (tests/fixtures/peers), plus `api_fingerprint`.
pub const SIGN_IN: &[Opt] = &[
    Opt::str("api_host", "Host name or address of any node of the cluster; `host:port` works too.")
        .required()
        .env("PROXMOX_HOST"),
    Opt::int("api_port", "Port of the API; 8006 unless given here or in `api_host`.").env("PROXMOX_PORT"),
    Opt::str(
        "api_user",
        "Who signs in, as `user@realm`. Not needed when `api_token_id` names the user too.",
    )
    .env("PROXMOX_USER"),
    Opt::str("api_password", "Password of the user. A token wins over it.")
        .secret()
        .env("PROXMOX_PASSWORD"),
    Opt::str("api_token_id", "Id of the API token: `tokenid` or `user@realm!tokenid`.").env("PROXMOX_TOKEN_ID"),
    Opt::str("api_token_secret", "Secret of the API token.")
        .secret()
        .env("PROXMOX_TOKEN_SECRET"),
    Opt::str("api_otp", "One-time password, for a user with two factors who signs in by password.")
        .secret()
        .env("PROXMOX_OTP"),
    Opt::bool("validate_certs", "Check the server's certificate.")
        .default("true")
        .env("PROXMOX_VALIDATE_CERTS"),
    Opt::path("ca_path", "File with the certificates of the authorities to trust, in PEM format.").env("PROXMOX_CA_PATH"),
    Opt::int("api_timeout", "Seconds for a connection and for a short answer.")
        .default("30")
        .range(1, 86_400)
        .env("PROXMOX_API_TIMEOUT"),
    Opt::str(
        "api_fingerprint",
        "SHA-256 fingerprint of the server's certificate, as Proxmox's own tools show it. It pins the certificate, also with `validate_certs=false`.",
    )
    .env("PROXMOX_FINGERPRINT"),
];

/// Options of every writing module.
pub const GUARDS: &[Opt] = &[
    Opt::str(
        "guard_uuid",
        "The guest found must have this BIOS uuid (in `smbios1`); with another one, or none, the task is refused.",
    ),
    spec::shared::EXPECT_PLAN,
    crate::common::PLAN_ONLY,
];

/// Name and doc of the rules that the peers have for signing in.
pub const SIGN_IN_ONE_OF: &[&str] = &["api_password", "api_token_id"];
/// Options that belong together.
pub const SIGN_IN_TOGETHER: &[&str] = &["api_token_id", "api_token_secret"];

/// An argument error beyond the table.
pub fn arg_error(path: &str, value: Option<String>, msg: impl Into<String>) -> ArgError {
    ArgError {
        path: path.to_owned(),
        value,
        msg: msg.into(),
    }
}

/// What is wrong with the sign-in options together.
pub fn sign_in_errors(args: &Args) -> Vec<ArgError> {
    let token_names_user = args.str("api_token_id").is_some_and(|t| t.contains('!'));
    if args.str("api_user").is_some() || token_names_user {
        Vec::new()
    } else {
        vec![arg_error(
            "api_user",
            None,
            "required and not given; set it in the task or in the environment variable PROXMOX_USER, or write `api_token_id` as `user@realm!tokenid`",
        )]
    }
}

/// A vmid of the arguments.
pub fn vmid_arg(args: &Args, name: &str, errors: &mut Vec<ArgError>) -> Option<u32> {
    let given = args.int(name)?;
    match u32::try_from(given)
        .ok()
        .and_then(|v| pve::VmId::new(v).ok())
    {
        Some(v) => Some(v.get()),
        None => {
            errors.push(arg_error(
                name,
                Some(given.to_string()),
                "is no vmid; give a number from 100 to 999999999",
            ));
            None
        }
    }
}

/// Which guest is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// By number.
    Vmid(u32),
    /// By name; exactly one QEMU guest must have it.
    Name(String),
}

impl Target {
    /// From `vmid` and `name`; the vmid wins. Errors go to `errors`; `None` if neither is given.
    pub fn from_args(args: &Args, errors: &mut Vec<ArgError>) -> Option<Target> {
        if args.int("vmid").is_some() {
            return vmid_arg(args, "vmid", errors).map(Target::Vmid);
        }
        args.str("name").map(|n| Target::Name(n.to_owned()))
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Target::Vmid(v) => write!(f, "guest {v}"),
            Target::Name(n) => write!(f, "guest `{n}`"),
        }
    }
}

/// A QEMU guest as [`PveKey::Guest`] describes it.
#[derive(Clone, Copy, Debug)]
pub struct Guest<'a>(pub &'a Value);

static NOTHING: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);

impl<'a> Guest<'a> {
    /// Its number.
    pub fn vmid(&self) -> u32 {
        self.0["vmid"]
            .as_u64()
            .and_then(|v| u32::try_from(v).ok())
            .unwrap_or(0)
    }
    /// Where it lives.
    pub fn node(&self) -> &'a str {
        self.0["node"].as_str().unwrap_or("")
    }
    fn map(&self, name: &str) -> &'a Map<String, Value> {
        self.0
            .get(name)
            .and_then(Value::as_object)
            .unwrap_or(&NOTHING)
    }
    /// The configuration with pending changes merged in: what the next start uses.
    pub fn config(&self) -> &'a Map<String, Value> {
        self.map("config")
    }
    /// The configuration that runs.
    pub fn current(&self) -> &'a Map<String, Value> {
        self.map("current")
    }
    /// Pending changes; null: to be deleted.
    pub fn pending(&self) -> &'a Map<String, Value> {
        self.map("pending")
    }
    /// One option of [`Guest::config`] as text.
    pub fn text(&self, key: &str) -> Option<String> {
        self.config().get(key).map(text)
    }
    /// Its name, if it has one.
    pub fn name(&self) -> Option<String> {
        self.text("name")
    }
    /// The lock, if there is one.
    pub fn lock(&self) -> Option<&'a str> {
        self.0["lock"].as_str()
    }
    /// Whether it is a template.
    pub fn is_template(&self) -> bool {
        self.0["template"].as_bool() == Some(true)
    }
    /// The digest as an argument.
    pub fn digest(&self) -> Arg {
        Arg::Shown {
            symbol: "<digest as read>".to_owned(),
            value: self.0.get("digest").cloned().unwrap_or(Value::Null),
        }
    }
    /// Whether an earlier task of this check run made or changed it: no server has given such a configuration a digest.
    pub fn only_planned(&self) -> bool {
        self.0["digest"].as_str().is_none_or(str::is_empty)
    }
    /// The BIOS uuid of `smbios1`.
    pub fn uuid(&self) -> Option<String> {
        uuid_of(self.config())
    }
    /// Path of the guest in the API.
    pub fn path(&self, rest: &str) -> String {
        format!("/nodes/{}/qemu/{}{rest}", self.node(), self.vmid())
    }
}

/// A value of a configuration as text (numbers as the server prints them).
pub fn text(v: &Value) -> String {
    match v {
        Value::String(s) => s.clone(),
        Value::Bool(b) => u8::from(*b).to_string(),
        other => other.to_string(),
    }
}

/// The uuid in `smbios1`.
pub fn uuid_of(config: &Map<String, Value>) -> Option<String> {
    let s = config.get("smbios1").map(text)?;
    let p = pve::parse("smbios1", &s).ok()?;
    p.get("uuid").map(str::to_owned)
}

/// Whether a privilege is granted in what [`PveKey::Perms`] says: it is if its name is there (docs/pve-privileges.md, rule 1).
pub fn granted(perms: &Value, privilege: &str) -> bool {
    perms.get(privilege).is_some()
}

/// Finds the guest. `None` means: it is certain that there is none.
///
/// # Errors
/// A refusal for a container, an ambiguous name, or when the server does not say.
pub fn find<'a>(look: &Look<'a>, target: &Target, verb: &str) -> Result<Option<Guest<'a>>, Stop> {
    let vmid = match target {
        Target::Vmid(v) => *v,
        Target::Name(name) => {
            let found = named(look, name, verb)?;
            match found[..] {
                [] => return Ok(None),
                [v] => v,
                _ => {
                    return Err(Refusal::new(format!(
                        "unable to {verb} guest `{name}`: several guests have that name: {}; give the vmid of one",
                        list(&found)
                    ))
                    .with("vmids", found.clone())
                    .into());
                }
            }
        }
    };
    match look.fact(&PveKey::Guest(vmid))? {
        Fact::Absent => Ok(None),
        Fact::Unreadable(why) => Err(Refusal::kind(
            ErrorKind::Permission,
            format!(
                "unable to {verb} guest {vmid}: it cannot be read: {why}; give the user (and, for a privilege-separated token, the token) VM.Audit on /vms/{vmid}"
            ),
        )
        .into()),
        Fact::Known(v) if v["type"] == "lxc" => Err(Refusal::new(format!(
            "unable to {verb} guest {vmid}: {vmid} is a container; this module works on virtual machines only, check the vmid"
        ))
        .into()),
        Fact::Known(v) => Ok(Some(Guest(v))),
    }
}

/// The same, but a missing guest is an error.
///
/// # Errors
/// As [`find`], and `not_found`.
pub fn find_existing<'a>(look: &Look<'a>, target: &Target, verb: &str) -> Result<Guest<'a>, Stop> {
    match find(look, target, verb)? {
        Some(g) => Ok(g),
        None => {
            let known_as = match target {
                Target::Vmid(v) => format!("VM with vmid {v} does not exist in cluster"),
                Target::Name(n) => format!("No VM with name {n} found"),
            };
            Err(Refusal::kind(
                ErrorKind::NotFound,
                format!("unable to {verb} {target}: {known_as}; check the vmid and the cluster that `api_host` names"),
            )
            .into())
        }
    }
}

/// Ids of the QEMU guests of that name. An empty answer is only believed with the audit privilege, since lists are filtered.
fn named(look: &Look<'_>, name: &str, verb: &str) -> Result<Vec<u32>, Stop> {
    let fact = look.fact(&PveKey::Guests)?;
    let unknown = |why: &str| -> Stop {
        Refusal::kind(
            ErrorKind::Permission,
            format!(
                "unable to {verb} guest `{name}`: {why}; give the vmid, or VM.Audit on /vms to the user and to the token"
            ),
        )
        .into()
    };
    let Fact::Known(all) = fact else {
        return Err(unknown("the list of guests cannot be read"));
    };
    let mut found: Vec<u32> = all
        .as_array()
        .into_iter()
        .flatten()
        .filter(|g| g["type"] == "qemu" && g["name"] == name)
        .filter_map(|g| g["vmid"].as_u64().and_then(|v| u32::try_from(v).ok()))
        .collect();
    found.sort_unstable();
    if found.is_empty() {
        let sees_all = look
            .fact(&PveKey::Perms("/vms".to_owned()))?
            .known()
            .is_some_and(|p| granted(p, "VM.Audit"));
        if !sees_all {
            return Err(unknown(
                "no guest of that name is shown, but VM.Audit on /vms is missing, so there may be one that is hidden",
            ));
        }
    }
    Ok(found)
}

/// Refuses a guest with another uuid than the one that must be there.
///
/// # Errors
/// `refused`.
pub fn check_guard(guest: &Guest<'_>, guard: Option<&str>, verb: &str) -> Result<(), Stop> {
    let Some(wanted) = guard else { return Ok(()) };
    let found = guest.uuid();
    if found
        .as_deref()
        .is_some_and(|f| pve::smbios::same_uuid(f, wanted))
    {
        return Ok(());
    }
    // Not which one it is: of a guest that an earlier task of a check run makes, nobody knows, and both runs shall say the same.
    let has = match found {
        Some(_) => "has another uuid",
        None => "has no uuid in smbios1",
    };
    Err(Refusal::new(format!(
        "unable to {verb} guest {}: it {has}, but guard_uuid is {wanted}; it is another guest than the one meant, check the vmid",
        guest.vmid()
    ))
    .into())
}

/// Tasks that last as long as somebody looks at a console; nobody waits for them.
const CONSOLES: &[&str] = &[
    "vncproxy",
    "vncshell",
    "spiceproxy",
    "spiceshell",
    "termproxy",
];

/// Locks under which the configuration itself is being made: it means nothing before they are gone.
pub const IN_FLUX: &[&str] = &["create", "clone", "migrate", "rollback"];

/// Waits for a running task of the guest and for its lock, or refuses a lock that nothing explains.
///
/// # Errors
/// [`Stop::Wait`], or a refusal.
pub fn settled(
    look: &Look<'_>,
    guest: &Guest<'_>,
    timeout_s: u64,
    verb: &str,
    lock_ok: &[&str],
) -> Result<(), Stop> {
    let vmid = guest.vmid();
    let (g, tasks) = (PveKey::Guest(vmid), PveKey::GuestTasks(vmid));
    let lock = guest.lock().filter(|l| !lock_ok.contains(l));
    let mut assume = vec![Effect::Put(tasks.key(), json!([]))];
    if lock.is_some() {
        let mut free = guest.0.clone();
        for part in ["config", "current"] {
            if let Some(c) = free[part].as_object_mut() {
                c.remove("lock");
            }
        }
        if let Some(o) = free.as_object_mut() {
            o.remove("lock");
        }
        assume.push(Effect::Put(g.key(), free));
    }
    let stale = vec![g.key(), tasks.key(), PveKey::GuestStatus(vmid).key()];
    let running = look.aux(&tasks, &format!("running tasks of guest {vmid}"))?;
    let upid = running
        .and_then(Fact::known)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter(|t| t["type"].as_str().is_none_or(|t| !CONSOLES.contains(&t)))
        .filter_map(|t| t["upid"].as_str())
        .min();
    if let Some(upid) = upid {
        return Err(Wait {
            what: match lock {
                Some(l) => format!("task {upid} of guest {vmid} (lock `{l}`)"),
                None => format!("task {upid} of guest {vmid}"),
            },
            joins: false,
            key: PveKey::Task(upid.to_owned()).key(),
            pointer: "/status".to_owned(),
            equals: json!("stopped"),
            timeout_s,
            assume,
            stale,
        }
        .into());
    }
    let Some(lock) = lock else { return Ok(()) };
    if lock == "suspended" {
        return Err(Refusal::new(format!(
            "unable to {verb} guest {vmid}: it is hibernated (lock `suspended`); start it first"
        ))
        .into());
    }
    let sees_all = look
        .fact(&PveKey::Perms(format!("/nodes/{}", guest.node())))?
        .known()
        .is_some_and(|p| granted(p, "Sys.Audit"));
    if sees_all {
        return Err(Refusal::new(format!(
            "unable to {verb} guest {vmid}: VM is locked ({lock}) and no running task explains the lock; when nothing uses the guest, remove it on node {} with `qm unlock {vmid}`",
            guest.node()
        ))
        .with("lock", lock)
        .into());
    }
    Err(Wait {
        what: format!("lock `{lock}` of guest {vmid}"),
        joins: false,
        key: g.key(),
        pointer: "/lock".to_owned(),
        equals: Value::Null,
        timeout_s,
        assume,
        stale,
    }
    .into())
}

/// Whether the guest runs, as [`PveKey::GuestStatus`] says.
///
/// # Errors
/// `permission` if the server does not say.
pub fn status<'a>(look: &Look<'a>, vmid: u32, verb: &str) -> Result<&'a Value, Stop> {
    match look.fact(&PveKey::GuestStatus(vmid))? {
        Fact::Known(v) => Ok(v),
        Fact::Absent => Err(Refusal::kind(
            ErrorKind::NotFound,
            format!("unable to {verb} guest {vmid}: it is gone; look again"),
        )
        .into()),
        Fact::Unreadable(why) => Err(Refusal::kind(
            ErrorKind::Permission,
            format!("unable to {verb} guest {vmid}: its status cannot be read: {why}; give VM.Audit on /vms/{vmid}"),
        )
        .into()),
    }
}

/// Whether a status is that of a running guest (a paused one runs).
pub fn is_running(status: &Value) -> bool {
    status["status"] == "running"
}

/// Ids joined for people.
pub fn list<T: ToString>(items: &[T]) -> String {
    items
        .iter()
        .map(T::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

/// Refuses a bridge or vnet that a node does not have (applied, not only pending).
///
/// # Errors
/// `refused`.
pub fn check_bridge(look: &Look<'_>, node: &str, bridge: &str, verb: &str) -> Result<(), Stop> {
    let what = format!("whether node {node} has bridge {bridge}");
    let Some(fact) = look.aux(&PveKey::Bridges(node.to_owned()), &what)? else {
        return Ok(());
    };
    let names: Vec<&str> = fact
        .known()
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    if names.contains(&bridge) {
        return Ok(());
    }
    // The list leaves out bridges without SDN.Audit or SDN.Use (source: pve-manager PVE/API2/Network.pm, `index`).
    let path = format!("/sdn/zones/localnetwork/{bridge}");
    let perms = look.aux(&PveKey::Perms(path.clone()), "privileges")?;
    if let Some(p) = perms.and_then(Fact::known)
        && !["SDN.Audit", "SDN.Use"].iter().any(|x| granted(p, x))
    {
        let who = look
            .aux(&PveKey::WhoAmI, "who we are")?
            .and_then(Fact::known);
        let (who, hint) = match who {
            Some(w) if w["token"].is_string() => (
                format!(
                    "{} with token {}",
                    w["user"].as_str().unwrap_or("the user"),
                    w["token"].as_str().unwrap_or_default()
                ),
                "; a privilege-separated token needs it itself, beside its user",
            ),
            Some(w) => (w["user"].as_str().unwrap_or("the user").to_owned(), ""),
            None => ("the user".to_owned(), ""),
        };
        return Err(Refusal::kind(
            ErrorKind::Permission,
            format!(
                "unable to {verb}: {who} lacks SDN.Use on {path}, and without it is not told whether node {node} has bridge `{bridge}`; grant it{hint}"
            ),
        )
        .with("missing_privileges", vec![format!("SDN.Use on {path}")])
        .into());
    }
    Err(Refusal::new(format!(
        "unable to {verb}: node {node} has no bridge or applied vnet `{bridge}` (it has: {}); create it first, or apply the pending SDN changes",
        list(&names)
    ))
    .into())
}

/// The id that the target has in these facts.
pub fn resolve(facts: &plan::Facts, target: &Target) -> Option<u32> {
    match target {
        Target::Vmid(v) => Some(*v),
        Target::Name(name) => {
            let all = facts.known(PveKey::Guests.key())?.as_array()?;
            let mut found = all
                .iter()
                .filter(|g| g["type"] == "qemu" && g["name"] == *name)
                .filter_map(|g| g["vmid"].as_u64().and_then(|v| u32::try_from(v).ok()));
            match (found.next(), found.next()) {
                (Some(v), None) => Some(v),
                _ => None,
            }
        }
    }
}

/// The guest that the target is in these facts, if it is known and a virtual machine.
pub fn guest_in<'a>(facts: &'a plan::Facts, target: &Target) -> Option<Guest<'a>> {
    let vmid = resolve(facts, target)?;
    guest_of(facts, vmid)
}

/// The guest of that id in these facts, if it is known and a virtual machine.
pub fn guest_of(facts: &plan::Facts, vmid: u32) -> Option<Guest<'_>> {
    let v = facts.known(PveKey::Guest(vmid).key())?;
    (v["type"] != "lxc").then_some(Guest(v))
}
