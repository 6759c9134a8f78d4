//! `pve_acl`: who has which role on a path.

use crate::look::{self, Look, Stop, Think};
use crate::pve_common::{self as common, arg_error, granted};
use crate::{Def, Side, pve_write};
use plan::{Effect, ErrorKind, Fact, Facts, Key, Module, Outcome, Plan, Refusal, Request, Step};
use pve::keys::PveKey;
use serde_json::{Map, Value, json};
use spec::shared::{RETURNS, RETURNS_WRITING};
use spec::{ArgError, Args, Kind as T, ModuleSpec, Opt, Ret};

/// The module.
pub const DEF: Def = Def {
    spec: &SPEC,
    side: Side::Pve,
    make,
};

const OPTIONS: &[Opt] = &[
    Opt::str("state", "Whether the entry shall be there.")
        .choices(&["present", "absent"])
        .default("\"present\""),
    Opt::str(
        "path",
        "Path of the object, such as V(/vms/100), V(/pool/production) or V(/). The object need not be there yet.",
    ),
    Opt::str(
        "roleid",
        "The role. With O(state=absent), only entries of this role; without it, of every role.",
    ),
    Opt::str(
        "type",
        "What O(ugid) is. With O(state=absent), only entries of this kind; without it, of every kind.",
    )
    .choices(&["user", "group", "token"]),
    Opt::str(
        "ugid",
        "User (C(user@realm)), token (C(user@realm!tokenid)) or group. With O(state=absent), only its entries; without it, everybody's.",
    ),
    Opt::bool(
        "propagate",
        "Whether the entry holds for what is below O(path) too. With O(state=absent) it selects only where the task names it.",
    )
    .default("true"),
];

/// Those of all writing modules that make sense without a guest.
const GUARDS: &[Opt] = &[spec::shared::EXPECT_PLAN, crate::common::PLAN_ONLY];

/// Argument table.
pub static SPEC: ModuleSpec = ModuleSpec {
    name: "pve_acl",
    short: "Manage entries of the access control list of a Proxmox VE cluster",
    doc: &[
        "Gives a role to a user, a group or an API token on a path, and takes it away.",
        "An entry is one role of one subject on one path; whether it propagates is changed in place. Other entries of the path stay.",
    ],
    options: &[OPTIONS, GUARDS, common::SIGN_IN],
    required_if: &[
        (
            "state",
            "present",
            &["path", "roleid", "type", "ugid"],
            false,
        ),
        ("state", "absent", &["path"], false),
    ],
    required_one_of: &[common::SIGN_IN_ONE_OF],
    required_together: &[common::SIGN_IN_TOGETHER],
    returns: &[
        &[
            Ret::list_of(
                "acls",
                T::Dict,
                "success",
                "The entries of O(path) now: C(type), C(ugid), C(roleid), C(propagate).",
            ),
            Ret::list_of(
                "old_acls",
                T::Dict,
                "success",
                "All entries that one may see, of every path, as they were.",
            ),
            Ret::list_of(
                "new_acls",
                T::Dict,
                "success",
                "All entries that one may see, of every path, as they are now.",
            ),
        ],
        RETURNS,
        RETURNS_WRITING,
    ],
    examples: r#"- name: Let the owner use the guest
  trueplan.virt.pve_acl:
    api_host: pve1.example.com
    api_user: deploy@pve
    api_token_id: ansible
    api_token_secret: "{{ token }}"
    path: /vms/20042
    type: user
    ugid: anna@example
    roleid: PVEVMUser

- name: Nobody but administrators sees the pool
  trueplan.virt.pve_acl:
    path: /pool/secret
    state: absent
"#,
    notes: &[
        "A deeper path replaces what is inherited: the first role of a user on V(/vms/100) ends what it has there from V(/vms).",
    ],
    privileges: &[
        (
            "C(/access/groups)",
            "C(Sys.Audit) or C(User.Modify)",
            "seeing that the user or group is there",
        ),
        ("O(path)", "C(Permissions.Modify)", "writing entries"),
        (
            "O(path)",
            "C(VM.Allocate) on a guest, C(Datastore.Allocate) on a storage, C(Pool.Allocate) on a pool",
            "handing out, without C(Permissions.Modify), roles that have no privilege which one lacks oneself",
        ),
    ],
    replaces: Some("community.proxmox.proxmox_access_acl"),
    action_groups: &["pve", "proxmox"],
    ..ModuleSpec::EMPTY
};

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Acl {
    absent: bool,
    path: String,
    role: Option<String>,
    kind: Option<String>,
    ugid: Option<String>,
    /// Only where the task names it, or for `present`.
    propagate: Option<bool>,
}

fn make(args: &Args) -> Result<Box<dyn Module>, Vec<ArgError>> {
    let mut errors = common::sign_in_errors(args);
    let absent = args.str("state") == Some("absent");
    let own = |n: &str| args.str(n).map(str::to_owned);
    let given = args.str("path").unwrap_or_default();
    let path = normal(given).unwrap_or_else(|| {
        errors.push(arg_error(
            "path",
            Some(given.to_owned()),
            "is no path of the access control list; give /, or something below /access, /mapping, /nodes, /pool, /sdn, /storage or /vms, such as /vms/100",
        ));
        String::new()
    });
    let (kind, ugid, role) = (own("type"), own("ugid"), own("roleid"));
    if let (Some(kind), Some(ugid)) = (&kind, &ugid)
        && let Some(why) = misnamed(kind, ugid)
    {
        errors.push(arg_error("ugid", Some(ugid.clone()), why));
    }
    if let Some(r) = &role
        && (r.is_empty() || !r.chars().all(name_char))
    {
        errors.push(arg_error(
            "roleid",
            Some(r.clone()),
            "is no role; names have letters, digits, dots, dashes and underscores",
        ));
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    Ok(Box::new(Acl {
        absent,
        path,
        role,
        kind,
        ugid,
        propagate: (!absent || args.given("propagate"))
            .then(|| args.bool("propagate").unwrap_or(true)),
    }))
}

fn name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "._-".contains(c)
}

/// As the server stores it: one slash between parts, none at the end; `None` for what it refuses in any case (source:
/// pve-access-control, AccessControl.pm, `normalize_path` and `check_path`).
fn normal(path: &str) -> Option<String> {
    if !path.starts_with('/') {
        return None;
    }
    let parts: Vec<&str> = path.split('/').filter(|p| !p.is_empty()).collect();
    let known = match parts.as_slice() {
        [] => true,
        ["vms", rest @ ..] => match rest {
            [] => true,
            [id] => id.parse().is_ok_and(|v| pve::VmId::new(v).is_ok()),
            _ => false,
        },
        ["nodes" | "storage", rest @ ..] => rest.len() < 2,
        ["pool", rest @ ..] => rest.len() < 4,
        ["access" | "mapping", rest @ ..] => rest.len() < 3,
        ["sdn", rest @ ..] => rest.len() < 5,
        _ => false,
    };
    (known && parts.iter().all(|p| p.chars().all(name_char)))
        .then(|| format!("/{}", parts.join("/")))
}

/// Why that cannot be the id of a user, token or group.
fn misnamed(kind: &str, ugid: &str) -> Option<&'static str> {
    let user = |u: &str| {
        u.rsplit_once('@').is_some_and(|(name, realm)| {
            !name.is_empty()
                && !name.contains([':', '/', ' '])
                && realm.len() > 1
                && realm.chars().all(name_char)
        })
    };
    match kind {
        "user" if ugid.contains('!') => Some("names a token; say type=token"),
        "user" => (!user(ugid)).then_some("is no user; give it as user@realm"),
        "token" => {
            let fits = ugid
                .split_once('!')
                .is_some_and(|(u, t)| user(u) && !t.is_empty());
            (!fits).then_some("is no token; give it as user@realm!tokenid")
        }
        _ if ugid.contains('@') => Some("names a user; say type=user"),
        _ => (ugid.is_empty() || !ugid.chars().all(name_char))
            .then_some("is no group; names have letters, digits, dots, dashes and underscores"),
    }
}

/// One entry as the server lists it.
fn entry(kind: &str, ugid: &str, role: &str, propagate: bool) -> Value {
    json!({"type": kind, "ugid": ugid, "roleid": role, "propagate": u8::from(propagate)})
}

fn propagates(e: &Value) -> bool {
    e["propagate"] == 1
}

impl Acl {
    fn what(&self) -> String {
        let of = self
            .ugid
            .as_deref()
            .map_or(String::new(), |u| format!(" of {u}"));
        match (&self.role, self.absent) {
            (Some(r), false) => format!(
                "give role {r} on {} to {}",
                self.path,
                self.ugid.as_deref().unwrap_or_default()
            ),
            (Some(r), true) => format!("take role {r}{of} on {} away", self.path),
            (None, _) => format!("take roles{of} on {} away", self.path),
        }
    }

    /// Whether the task is about that entry, whatever its propagation.
    fn selects(&self, e: &Value) -> bool {
        let is =
            |name: &str, wanted: &Option<String>| wanted.as_ref().is_none_or(|w| e[name] == **w);
        is("type", &self.kind) && is("ugid", &self.ugid) && is("roleid", &self.role)
    }

    fn entries<'a>(&self, facts: &'a Facts) -> &'a [Value] {
        facts
            .known(PveKey::AclPath(self.path.clone()).key())
            .and_then(Value::as_array)
            .map_or(&[], Vec::as_slice)
    }

    fn request(&self, e: &Value) -> Request {
        let text = |n: &str| e[n].as_str().unwrap_or_default().to_owned();
        let r = Request::new("PUT", "/access/acl")
            .param("path", self.path.clone())
            .param("roles", text("roleid"))
            .param(&format!("{}s", text("type")), text("ugid"))
            .param("propagate", if propagates(e) { "1" } else { "0" });
        if self.absent {
            r.param("delete", "1")
        } else {
            r
        }
    }

    fn step(&self, e: &Value, left: &[Value]) -> Step {
        let (role, who) = (&e["roleid"], &e["ugid"]);
        let (role, who) = (
            role.as_str().unwrap_or_default(),
            who.as_str().unwrap_or_default(),
        );
        let below = if propagates(e) {
            " and below"
        } else {
            " alone"
        };
        let why = match self.absent {
            true => format!("take role {role} of {who} on {} away", self.path),
            false => format!("give {who} role {role} on {}{below}", self.path),
        };
        Step::new(self.request(e), why).effect(Effect::Put(
            PveKey::AclPath(self.path.clone()).key(),
            json!(left),
        ))
    }

    /// Refuses a subject or a role that is not there: the server answers 500 for both.
    fn check_there(&self, look: &Look<'_>, e: &Value) -> Result<(), Stop> {
        let what = self.what();
        let missing = |thing: String| -> Stop {
            Refusal::kind(
                ErrorKind::NotFound,
                format!(
                    "unable to {what}: there is no {thing}; make it first, or correct the name"
                ),
            )
            .into()
        };
        let role = e["roleid"].as_str().unwrap_or_default();
        let ugid = e["ugid"].as_str().unwrap_or_default();
        let (user, token) = match ugid.split_once('!') {
            Some((u, t)) => (u, Some(t)),
            None => (ugid, None),
        };
        let (role_key, subject) = (
            PveKey::Role(role.to_owned()),
            match e["type"] == "group" {
                true => PveKey::Group(ugid.to_owned()),
                false => PveKey::User(user.to_owned()),
            },
        );
        look.want(&[role_key.clone(), subject.clone()])?;
        if look.fact(&role_key)?.is_absent() {
            return Err(missing(format!("role `{role}`")));
        }
        let kind = e["type"].as_str().unwrap_or_default();
        match look.aux(&subject, &format!("whether {kind} {ugid} exists"))? {
            Some(Fact::Absent) => Err(missing(match token {
                Some(_) => format!("user `{user}`"),
                None => format!("{kind} `{ugid}`"),
            })),
            Some(Fact::Known(u)) => match token {
                Some(t)
                    if !u["tokens"]
                        .as_array()
                        .is_some_and(|l| l.iter().any(|x| x["tokenid"] == t)) =>
                {
                    Err(missing(format!("token `{ugid}`")))
                }
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// Whoever may only allocate hands out no more than what he has (docs/pve-privileges.md, "set-ACL without Permissions.Modify").
    fn check_superset(&self, look: &Look<'_>, e: &Value) -> Result<(), Stop> {
        let who = look
            .aux(&PveKey::WhoAmI, "who we are")?
            .and_then(Fact::known);
        if who.is_some_and(|w| w["root_login"] == true) {
            return Ok(());
        }
        let perms = look.aux(&PveKey::Perms(self.path.clone()), "privileges")?;
        let Some(perms) = perms.and_then(Fact::known) else {
            return Ok(());
        };
        if granted(perms, "Permissions.Modify") {
            return Ok(());
        }
        let role = e["roleid"].as_str().unwrap_or_default();
        let has = look.aux(&PveKey::Role(role.to_owned()), "privileges of the role")?;
        let lacking: Vec<String> = has
            .and_then(Fact::known)
            .and_then(|r| r["privs"].as_array())
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .filter(|p| match perms.get(*p) {
                None => true,
                Some(below) => propagates(e) && below != 1 && below != true,
            })
            .map(|p| format!("{p} on {}", self.path))
            .collect();
        if lacking.is_empty() {
            return Ok(());
        }
        let me = who.and_then(|w| w["user"].as_str()).unwrap_or("the user");
        Err(Refusal::kind(
            ErrorKind::Permission,
            format!(
                "unable to {}: {me} lacks Permissions.Modify on {}, and without it hands out only privileges that it has itself{}; it lacks {}. Grant one of them",
                self.what(),
                self.path,
                if propagates(e) { " and that propagate" } else { "" },
                lacking.join(" and ")
            ),
        )
        .with("missing_privileges", lacking)
        .into())
    }

    fn plan_steps(&self, look: &Look<'_>) -> Result<Plan, Stop> {
        let key = PveKey::AclPath(self.path.clone());
        look.want(&[key.clone(), PveKey::Acl])?;
        let now: Vec<Value> = match look.fact(&key)? {
            Fact::Known(v) => v.as_array().cloned().unwrap_or_default(),
            Fact::Absent => vec![],
            Fact::Unreadable(why) => {
                return Err(Refusal::kind(
                    ErrorKind::Permission,
                    format!("unable to {}: {why}; grant it", self.what()),
                )
                .into());
            }
        };
        let mut plan = Plan::empty();
        let mut left = now.clone();
        if self.absent {
            let gone = now
                .iter()
                .filter(|e| self.selects(e) && self.propagate.is_none_or(|p| p == propagates(e)));
            for e in gone {
                left.retain(|x| x != e);
                plan.push(self.step(e, &left));
            }
        } else {
            let wanted = entry(
                self.kind.as_deref().unwrap_or_default(),
                self.ugid.as_deref().unwrap_or_default(),
                self.role.as_deref().unwrap_or_default(),
                self.propagate.unwrap_or(true),
            );
            if !now.contains(&wanted) {
                left.retain(|x| !self.selects(x));
                left.push(wanted.clone());
                sort(&mut left);
                self.check_there(look, &wanted)?;
                plan.push(self.step(&wanted, &left));
            }
        }
        for s in &plan.steps {
            pve_write::permitted(look, &Map::new(), &s.request, &self.what())?;
        }
        for e in now
            .iter()
            .filter(|e| self.absent && !left.contains(e))
            .chain(left.iter().filter(|e| !now.contains(e)))
        {
            self.check_superset(look, e)?;
        }
        Ok(plan)
    }
}

/// The order in which the entries of a path are shown.
fn sort(list: &mut [Value]) {
    list.sort_by_key(|e| ["type", "ugid", "roleid"].map(|k| e[k].as_str().map(str::to_owned)));
}

impl Think for Acl {
    fn think(&self, look: &Look<'_>) -> Result<Plan, Stop> {
        self.plan_steps(look)
    }
}

impl Module for Acl {
    fn needs(&self, facts: &Facts) -> Vec<Key> {
        look::needs(self, facts)
    }

    fn holds(&self) -> Vec<Key> {
        vec![PveKey::AclPath(self.path.clone()).key()]
    }

    fn plan(&self, facts: &Facts) -> Result<Plan, Refusal> {
        look::plan(self, facts)
    }

    fn subject(&self, _: &Facts, _: &[Value]) -> Vec<Key> {
        vec![PveKey::Acl.key(), PveKey::AclPath(self.path.clone()).key()]
    }

    fn view(&self, facts: &Facts) -> Value {
        let mine: Vec<&Value> = self
            .entries(facts)
            .iter()
            .filter(|e| self.selects(e))
            .collect();
        json!({"path": self.path, "entries": mine})
    }

    fn result(&self, o: &Outcome<'_>) -> Map<String, Value> {
        let all = |f: &Facts| {
            f.known(PveKey::Acl.key())
                .cloned()
                .unwrap_or_else(|| json!([]))
        };
        let msg = match (self.absent, o.changed) {
            (false, true) => format!(
                "{} has role {} on {}",
                self.ugid.as_deref().unwrap_or_default(),
                self.role.as_deref().unwrap_or_default(),
                self.path
            ),
            (false, false) => format!("the entry on {} is up to date", self.path),
            (true, true) => format!("{} entries on {} removed", o.plan.steps.len(), self.path),
            (true, false) => format!("no such entry on {}", self.path),
        };
        let mut r = Map::new();
        r.insert("msg".into(), json!(msg));
        r.insert("acls".into(), json!(self.entries(o.after)));
        r.insert("old_acls".into(), all(o.before));
        r.insert("new_acls".into(), all(o.after));
        r
    }

    fn title(&self) -> String {
        format!("access control list of {}", self.path)
    }
}
