//! `pve_pool_member`: which guests and storages belong to a pool.

use crate::look::{self, Look, Stop, Think};
use crate::pve_common::{self as common, arg_error, granted, list};
use crate::{Def, Side, pve_write};
use plan::{
    Effect, ErrorKind, Fact, Facts, Key, Module, Outcome, Plan, Refusal, Request, Step, Tolerance,
};
use pve::keys::PveKey;
use serde_json::{Map, Value, json};
use spec::shared::{RETURNS, RETURNS_WRITING};
use spec::{ArgError, Args, Kind as T, ModuleSpec, Opt, Ret};
use std::collections::BTreeSet;

/// The module.
pub const DEF: Def = Def {
    spec: &SPEC,
    side: Side::Pve,
    make,
};

const MEMBER: &[Opt] = &[
    Opt::str("vm", "Id or name of a guest; containers are guests too."),
    Opt::str("storage", "Id of a storage."),
];

const OPTIONS: &[Opt] = &[
    Opt::str("poolid", "Id of the pool. It must exist.")
        .alias(&["name"])
        .required(),
    Opt::dicts(
        "members",
        "The members, each either a guest or a storage. The spelling of community.proxmox 2.0.0.",
        MEMBER,
    ),
    Opt::str(
        "member",
        "One member: id or name of a guest, or id of a storage. The spelling of community.proxmox 1.6.0.",
    ),
    Opt::str("type", "What O(member) is.")
        .choices(&["vm", "storage"])
        .default("\"vm\""),
    Opt::str("state", "Whether the members shall be in the pool.")
        .choices(&["present", "absent"])
        .default("\"present\""),
    Opt::bool(
        "exclusive",
        "The named members shall be the only ones: all others leave the pool. O(state) does not count then.",
    )
    .default("false"),
    Opt::bool(
        "allow_move",
        "A guest that is in another pool leaves that one. Without it the task is refused, since a guest is in one pool at most.",
    )
    .default("false"),
];

/// Those of all writing modules that make sense without a guest.
const GUARDS: &[Opt] = &[spec::shared::EXPECT_PLAN, crate::common::PLAN_ONLY];

const MEMBER_RETURNED: &[Ret] = &[
    Ret::new("vm", T::Str, "for a guest", "Its id."),
    Ret::new("storage", T::Str, "for a storage", "Its id."),
];

/// Argument table.
pub static SPEC: ModuleSpec = ModuleSpec {
    name: "pve_pool_member",
    short: "Manage the members of a pool of a Proxmox VE cluster",
    doc: &[
        "Puts guests and storages into a pool, and takes them out.",
        "Both spellings of the peer are taken: O(member) with O(type), and O(members) with O(exclusive).",
    ],
    options: &[OPTIONS, GUARDS, common::SIGN_IN],
    required_one_of: &[common::SIGN_IN_ONE_OF, &["members", "member"]],
    required_together: &[common::SIGN_IN_TOGETHER],
    mutually_exclusive: &[&["members", "member"]],
    returns: &[
        &[
            Ret::new("poolid", T::Str, "success", "Id of the pool.").sample("\"test\""),
            Ret::list_of(
                "members",
                T::Dict,
                "success",
                "All members of the pool now: guests by id, then storages.",
            )
            .contains(MEMBER_RETURNED),
            Ret::new(
                "member",
                T::Str,
                "with O(member)",
                "The member, as it was given.",
            ),
        ],
        RETURNS,
        RETURNS_WRITING,
    ],
    examples: r#"- name: Put a guest into its pool
  trueplan.virt.pve_pool_member:
    api_host: pve1.example.com
    api_user: deploy@pve
    api_token_id: ansible
    api_token_secret: "{{ token }}"
    poolid: production
    members:
      - vm: "20042"

- name: Exactly these are in it
  trueplan.virt.pve_pool_member:
    poolid: production
    exclusive: true
    members:
      - vm: web
      - vm: "101"
      - storage: nfs
"#,
    notes: &["A guest that is removed leaves its pool with it."],
    privileges: &[
        (
            "C(/pool) and C(/pool/POOL)",
            "C(Pool.Audit)",
            "reading its members, and whether a guest is in another pool",
        ),
        (
            "C(/vms/VMID)",
            "C(VM.Audit)",
            "seeing a guest that is named",
        ),
        ("C(/pool/POOL)", "C(Pool.Allocate)", "changing its members"),
        (
            "C(/vms/VMID)",
            "C(VM.Allocate) or C(Permissions.Modify)",
            "a guest that joins or leaves",
        ),
        (
            "C(/storage/STORAGE)",
            "C(Datastore.Allocate) or C(Permissions.Modify)",
            "a storage that joins or leaves",
        ),
    ],
    replaces: Some("community.proxmox.proxmox_pool_member"),
    action_groups: &["pve", "proxmox"],
    ..ModuleSpec::EMPTY
};

/// A member as the task names it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Named {
    Id(u32),
    Name(String),
    Storage(String),
}

/// A member of a pool; guests come first, by number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Member {
    Vm(u32),
    Storage(String),
}

impl Member {
    fn key(&self, pool: &str) -> PveKey {
        let m = match self {
            Member::Vm(v) => format!("vm/{v}"),
            Member::Storage(s) => format!("storage/{s}"),
        };
        PveKey::PoolMember(pool.to_owned(), m)
    }
    fn show(&self) -> Value {
        match self {
            Member::Vm(v) => json!({"vm": v.to_string()}),
            Member::Storage(s) => json!({"storage": s}),
        }
    }
    fn words(&self) -> String {
        match self {
            Member::Vm(v) => format!("guest {v}"),
            Member::Storage(s) => format!("storage {s}"),
        }
    }
}

/// What is asked for.
#[derive(Clone, Debug)]
pub struct PoolMember {
    pool: String,
    named: Vec<Named>,
    /// As given in the old spelling.
    member: Option<String>,
    absent: bool,
    exclusive: bool,
    allow_move: bool,
}

fn make(args: &Args) -> Result<Box<dyn Module>, Vec<ArgError>> {
    let mut errors = common::sign_in_errors(args);
    let pool = args.str("poolid").unwrap_or_default().to_owned();
    let parts: Vec<&str> = pool.split('/').collect();
    let fits = |p: &&str| {
        !p.is_empty()
            && p.chars()
                .all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
    };
    if parts.len() > 3 || !parts.iter().all(fits) {
        errors.push(arg_error(
            "poolid",
            Some(pool.clone()),
            "is no pool; names have letters, digits, dots, dashes and underscores, and up to two slashes for nested pools",
        ));
    }
    let mut named = Vec::new();
    let mut take = |at: &str, vm: Option<&str>, storage: Option<&str>| match (vm, storage) {
        (Some(vm), None) => match vm.parse::<u32>() {
            Ok(v) if pve::VmId::new(v).is_ok() => named.push(Named::Id(v)),
            Ok(_) => errors.push(arg_error(
                at,
                Some(vm.to_owned()),
                "is no vmid; give a number from 100 to 999999999, or a name",
            )),
            Err(_) => named.push(Named::Name(vm.to_owned())),
        },
        (None, Some(s)) => named.push(Named::Storage(s.to_owned())),
        _ => errors.push(arg_error(
            at,
            None,
            "each member has either `vm` or `storage`; give one of them",
        )),
    };
    let member = args.str("member").map(str::to_owned);
    if let Some(m) = &member {
        match args.str("type") {
            Some("storage") => take("member", None, Some(m)),
            _ => take("member", Some(m), None),
        }
    }
    for (i, m) in args.list("members").into_iter().flatten().enumerate() {
        let text = |n: &str| m[n].as_str().filter(|t| !t.is_empty());
        take(&format!("members[{i}]"), text("vm"), text("storage"));
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let exclusive = args.flag("exclusive");
    Ok(Box::new(PoolMember {
        pool,
        named,
        member,
        // As the peer: the whole list is the target.
        absent: args.str("state") == Some("absent") && !exclusive,
        exclusive,
        allow_move: args.flag("allow_move"),
    }))
}

/// What the pool has in these facts.
fn members(facts: &Facts, pool: &str) -> BTreeSet<Member> {
    let Some(p) = facts.known(PveKey::Pool(pool.to_owned()).key()) else {
        return BTreeSet::new();
    };
    let list = |n: &str| p[n].as_array().into_iter().flatten();
    let mut all: BTreeSet<Member> = list("vms")
        .filter_map(|v| v.as_u64().and_then(|v| u32::try_from(v).ok()))
        .map(Member::Vm)
        .chain(list("storages").filter_map(|s| Some(Member::Storage(s.as_str()?.to_owned()))))
        .collect();
    // Members have facts of their own: those that a plan foresees, and those that were read again.
    for (k, f) in facts.iter() {
        let Some(PveKey::PoolMember(p, m)) = PveKey::parse(k) else {
            continue;
        };
        let (true, Some(is)) = (p == pool, f.known().and_then(Value::as_bool)) else {
            continue;
        };
        let member = match m.split_once('/') {
            Some(("vm", v)) => v.parse().ok().map(Member::Vm),
            Some((_, s)) => Some(Member::Storage(s.to_owned())),
            None => None,
        };
        if let Some(m) = member {
            if is {
                all.insert(m);
            } else {
                all.remove(&m);
            }
        }
    }
    all
}

/// Guests of any kind with that name.
fn ids_of(guests: &Value, name: &str) -> Vec<u32> {
    let all = guests.as_array().into_iter().flatten();
    let mut ids: Vec<u32> = all
        .filter(|g| g["name"] == *name)
        .filter_map(|g| g["vmid"].as_u64().and_then(|v| u32::try_from(v).ok()))
        .collect();
    ids.sort_unstable();
    ids
}

impl PoolMember {
    fn what(&self) -> String {
        match (self.exclusive, self.absent) {
            (true, _) => format!("set the members of pool {}", self.pool),
            (_, false) => format!("add members to pool {}", self.pool),
            (_, true) => format!("take members out of pool {}", self.pool),
        }
    }

    fn refused(&self, kind: ErrorKind, why: impl std::fmt::Display) -> Stop {
        Refusal::kind(kind, format!("unable to {}: {why}", self.what())).into()
    }

    /// The members that are named, as far as these facts tell.
    fn wanted(&self, facts: &Facts) -> BTreeSet<Member> {
        let guests = facts.known(PveKey::Guests.key()).unwrap_or(&Value::Null);
        self.named
            .iter()
            .filter_map(|n| match n {
                Named::Id(v) => Some(Member::Vm(*v)),
                Named::Storage(s) => Some(Member::Storage(s.clone())),
                Named::Name(n) => match ids_of(guests, n)[..] {
                    [v] => Some(Member::Vm(v)),
                    _ => None,
                },
            })
            .collect()
    }

    /// Refuses names that mean nothing or more than one guest. A name that nobody has is none for `absent`.
    fn check_names(&self, look: &Look<'_>) -> Result<(), Stop> {
        let names: Vec<&String> = self
            .named
            .iter()
            .filter_map(|n| match n {
                Named::Name(n) => Some(n),
                _ => None,
            })
            .collect();
        if names.is_empty() {
            return Ok(());
        }
        let Fact::Known(guests) = look.fact(&PveKey::Guests)? else {
            return Err(self.refused(
                ErrorKind::Permission,
                "the list of guests cannot be read; give ids instead of names",
            ));
        };
        for name in names {
            let ids = ids_of(guests, name);
            if ids.len() > 1 {
                return Err(self.refused(
                    ErrorKind::Refused,
                    format_args!(
                        "several guests are called `{name}`: {}; give the vmid of one",
                        list(&ids)
                    ),
                ));
            }
            if ids.is_empty() {
                let sees = look.fact(&PveKey::Perms("/vms".to_owned()))?;
                if !sees.known().is_some_and(|p| granted(p, "VM.Audit")) {
                    return Err(self.refused(
                        ErrorKind::Permission,
                        format_args!("no guest called `{name}` is shown, but VM.Audit on /vms is missing, so there may be one that is hidden; give its vmid, or grant it"),
                    ));
                }
                if !self.absent {
                    return Err(self.refused(
                        ErrorKind::NotFound,
                        format_args!("No VM with name {name} found; correct the name"),
                    ));
                }
            }
        }
        Ok(())
    }

    /// The server takes ids of guests that are not there, and storages too (source: pve-manager, PVE/API2/Pool.pm, `update_pool`).
    fn check_there(&self, look: &Look<'_>, new: &[Member]) -> Result<(), Stop> {
        for m in new {
            match m {
                Member::Vm(v) => {
                    look.want(&[PveKey::Guests, PveKey::IdFree(*v)])?;
                    let listed = look.fact(&PveKey::Guests)?.known().is_some_and(|l| {
                        l.as_array().into_iter().flatten().any(|g| g["vmid"] == *v)
                    });
                    let free =
                        look.aux(&PveKey::IdFree(*v), &format!("whether guest {v} exists"))?;
                    if !listed && free.and_then(Fact::known) == Some(&json!(true)) {
                        return Err(self.refused(
                            ErrorKind::NotFound,
                            format_args!("VM with vmid {v} does not exist in cluster; correct the id, or create it first"),
                        ));
                    }
                }
                Member::Storage(s) => {
                    let key = PveKey::StorageConfig(s.clone());
                    if let Some(Fact::Absent) =
                        look.aux(&key, &format!("whether storage {s} exists"))?
                    {
                        return Err(self.refused(
                            ErrorKind::NotFound,
                            format_args!(
                                "Storage {s} doesn't exist in the cluster; correct the name"
                            ),
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    /// The pools that guests must leave.
    fn others(&self, look: &Look<'_>, new: &[Member]) -> Result<Vec<(u32, String)>, Stop> {
        let mut out = Vec::new();
        for m in new {
            let Member::Vm(v) = m else { continue };
            let guests = look.aux(
                &PveKey::Guests,
                &format!("whether guest {v} is in another pool"),
            )?;
            let entry = guests.and_then(Fact::known).and_then(Value::as_array);
            let entry = entry.into_iter().flatten().find(|g| g["vmid"] == *v);
            match entry.map(|g| g["pool"].as_str()) {
                Some(Some(other)) if other != self.pool => out.push((*v, other.to_owned())),
                Some(Some(_)) => {}
                // The list leaves the pool out where one may not audit it (docs/pve-privileges.md, filtering).
                _ => {
                    let all = look.aux(&PveKey::Perms("/pool".to_owned()), "privileges")?;
                    if all
                        .and_then(Fact::known)
                        .is_some_and(|p| !granted(p, "Pool.Audit"))
                    {
                        look.note(format!(
                            "whether guest {v} is in a pool that one may not see (Pool.Audit on /pool is missing)"
                        ));
                    }
                }
            }
        }
        let Some((v, other)) = out.first() else {
            return Ok(out);
        };
        if !self.allow_move {
            return Err(self.refused(
                ErrorKind::Refused,
                format_args!("guest {v} is in pool {other}, and a guest is in one pool at most; take it out there first, or give allow_move=true"),
            ));
        }
        Ok(out)
    }

    fn request(&self, of: &[Member]) -> Request {
        let vms: Vec<String> = of
            .iter()
            .filter_map(|m| match m {
                Member::Vm(v) => Some(v.to_string()),
                Member::Storage(_) => None,
            })
            .collect();
        let storages: Vec<&str> = of
            .iter()
            .filter_map(|m| match m {
                Member::Storage(s) => Some(s.as_str()),
                Member::Vm(_) => None,
            })
            .collect();
        let mut r = Request::new("PUT", "/pools").param("poolid", self.pool.clone());
        if !vms.is_empty() {
            r = r.param("vms", vms.join(","));
        }
        if !storages.is_empty() {
            r = r.param("storage", storages.join(","));
        }
        r
    }

    fn add(&self, look: &Look<'_>, new: &[Member]) -> Result<Step, Stop> {
        self.check_there(look, new)?;
        let moved = self.others(look, new)?;
        let mut request = self.request(new);
        if !moved.is_empty() {
            request = request.param("allow-move", "1");
        }
        pve_write::permitted(look, &Map::new(), &request, &self.what())?;
        self.permitted_to_take(look, &moved)?;
        let words: Vec<String> = new
            .iter()
            .map(|m| match moved.iter().find(|(v, _)| Member::Vm(*v) == *m) {
                Some((_, from)) => format!("{} from pool {from}", m.words()),
                None => m.words(),
            })
            .collect();
        let mut step = self.step(
            request,
            format!("put {} into pool {}", words.join(", "), self.pool),
        );
        for m in new {
            step = step.effect(Effect::Put(m.key(&self.pool).key(), json!(true)));
        }
        for (v, from) in moved {
            step = step.effect(Effect::Put(Member::Vm(v).key(&from).key(), json!(false)));
        }
        Ok(step)
    }

    /// The server asks for Pool.Allocate on the pool that a guest leaves, too.
    fn permitted_to_take(&self, look: &Look<'_>, moved: &[(u32, String)]) -> Result<(), Stop> {
        let who = look
            .aux(&PveKey::WhoAmI, "who we are")?
            .and_then(Fact::known);
        if who.is_some_and(|w| w["root_login"] == true) {
            return Ok(());
        }
        for (v, from) in moved {
            let path = format!("/pool/{from}");
            let perms = look.aux(&PveKey::Perms(path.clone()), "privileges")?;
            if perms
                .and_then(Fact::known)
                .is_some_and(|p| !granted(p, "Pool.Allocate"))
            {
                let need = format!("Pool.Allocate on {path}");
                return Err(Refusal::kind(
                    ErrorKind::Permission,
                    format!("unable to {}: guest {v} leaves pool {from}, and {need} is missing; grant it", self.what()),
                )
                .with("missing_privileges", vec![need])
                .into());
            }
        }
        Ok(())
    }

    fn take_out(&self, look: &Look<'_>, old: &[Member]) -> Result<Step, Stop> {
        let request = self.request(old).param("delete", "1");
        pve_write::permitted(look, &Map::new(), &request, &self.what())?;
        let words: Vec<String> = old.iter().map(Member::words).collect();
        let mut step = self.step(
            request,
            format!("take {} out of pool {}", words.join(", "), self.pool),
        );
        for m in old {
            step = step.effect(Effect::Put(m.key(&self.pool).key(), json!(false)));
        }
        Ok(step)
    }

    /// Somebody else's change in between leads to a new plan.
    fn step(&self, request: Request, why: String) -> Step {
        Step::new(request, why)
            .tolerate(Tolerance::Replan("is already a pool member"))
            .tolerate(Tolerance::Replan("is not a pool member"))
            .tolerate(Tolerance::Replan("belongs already to pool"))
    }

    fn subject_members(&self, facts: &Facts) -> BTreeSet<Member> {
        let mut all = self.wanted(facts);
        if self.exclusive {
            all.extend(members(facts, &self.pool));
        }
        all
    }
}

impl Think for PoolMember {
    fn think(&self, look: &Look<'_>) -> Result<Plan, Stop> {
        let key = PveKey::Pool(self.pool.clone());
        let named = self.named.iter().any(|n| matches!(n, Named::Name(_)));
        let mut keys = vec![key.clone()];
        keys.extend(named.then_some(PveKey::Guests));
        look.want(&keys)?;
        match look.fact(&key)? {
            Fact::Known(_) => {}
            Fact::Absent => {
                return Err(self.refused(
                    ErrorKind::NotFound,
                    format_args!(
                        "there is no pool `{}`; create it, or correct the name",
                        self.pool
                    ),
                ));
            }
            Fact::Unreadable(why) => {
                return Err(self.refused(
                    ErrorKind::Permission,
                    format_args!(
                        "the pool cannot be read: {why}; grant Pool.Audit on /pool/{}",
                        self.pool
                    ),
                ));
            }
        }
        self.check_names(look)?;
        let wanted = self.wanted(look.facts());
        look.want(&wanted.iter().map(|m| m.key(&self.pool)).collect::<Vec<_>>())?;
        let has = members(look.facts(), &self.pool);
        let (mut new, mut old): (Vec<Member>, Vec<Member>) = (vec![], vec![]);
        if self.absent {
            old.extend(wanted.intersection(&has).cloned());
        } else {
            new.extend(wanted.difference(&has).cloned());
        }
        if self.exclusive {
            old.extend(has.difference(&wanted).cloned());
        }
        let mut plan = Plan::empty();
        if !new.is_empty() {
            plan.push(self.add(look, &new)?);
        }
        if !old.is_empty() {
            plan.push(self.take_out(look, &old)?);
        }
        Ok(plan)
    }
}

impl Module for PoolMember {
    fn needs(&self, facts: &Facts) -> Vec<Key> {
        look::needs(self, facts)
    }

    fn holds(&self) -> Vec<Key> {
        vec![PveKey::Pool(self.pool.clone()).key()]
    }

    fn plan(&self, facts: &Facts) -> Result<Plan, Refusal> {
        look::plan(self, facts)
    }

    fn subject(&self, facts: &Facts, _: &[Value]) -> Vec<Key> {
        let of = self.subject_members(facts);
        let each = of.iter().map(|m| m.key(&self.pool).key());
        std::iter::once(PveKey::Pool(self.pool.clone()).key())
            .chain(each)
            .collect()
    }

    /// Only the members that the task is about: others come and go beside it.
    fn view(&self, facts: &Facts) -> Value {
        let about = self.subject_members(facts);
        let in_it: Vec<Value> = members(facts, &self.pool)
            .intersection(&about)
            .map(Member::show)
            .collect();
        json!({"pool": self.pool, "members": in_it})
    }

    fn result(&self, o: &Outcome<'_>) -> Map<String, Value> {
        let pool = &self.pool;
        let msg = match (&self.member, o.changed, self.absent) {
            (Some(m), true, false) => format!("New member {m} added to the pool {pool}"),
            (Some(m), true, true) => format!("Member {m} deleted from the pool {pool}"),
            (Some(m), false, false) => format!("Member {m} is already part of the pool {pool}"),
            (Some(m), false, true) => format!("Member {m} is not part of the pool {pool}"),
            (None, true, _) => format!("Pool {pool} membership updated"),
            (None, false, _) => format!("Pool {pool} membership already up-to-date"),
        };
        let now: Vec<Value> = members(o.after, pool).iter().map(Member::show).collect();
        let mut r = Map::new();
        r.insert("msg".into(), json!(msg));
        r.insert("poolid".into(), json!(pool));
        r.insert("members".into(), json!(now));
        if let Some(m) = &self.member {
            r.insert("member".into(), json!(m));
        }
        r
    }

    fn title(&self) -> String {
        format!("pool {}", self.pool)
    }
}
