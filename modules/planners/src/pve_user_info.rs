//! `pve_user_info`: who may sign in.

use crate::look::{self, Look, Stop, Think};
use crate::pve_common::{self as common, arg_error, granted};
use crate::{Def, Side};
use plan::{ErrorKind, Fact, Facts, Key, Module, Outcome, Plan, Refusal};
use pve::keys::PveKey;
use serde_json::{Map, Value, json};
use spec::{ArgError, Args, Kind, ModuleSpec, Opt, Ret};

/// The module.
pub const DEF: Def = Def {
    spec: &SPEC,
    side: Side::Pve,
    make,
};

const OPTIONS: &[Opt] = &[
    Opt::str("domain", "Only users of this realm.").alias(&["realm"]),
    Opt::str(
        "user",
        "Only users of this name. With O(domain) it is one user, who must exist.",
    )
    .alias(&["name"]),
    Opt::str(
        "userid",
        "The user of this id, C(user@realm), who must exist.",
    ),
];

const USER: &[Ret] = &[
    Ret::new("userid", Kind::Str, "always", "Its id."),
    Ret::new("user", Kind::Str, "always", "Its name, without the realm."),
    Ret::new("domain", Kind::Str, "always", "Its realm."),
    Ret::new("enabled", Kind::Bool, "always", "Whether it may sign in."),
    Ret::new(
        "expire",
        Kind::Int,
        "when it is set",
        "When the account expires, in seconds since the epoch; V(0): never.",
    ),
    Ret::new("firstname", Kind::Str, "when it is set", "First name."),
    Ret::new("lastname", Kind::Str, "when it is set", "Last name."),
    Ret::new("email", Kind::Str, "when it is set", "E-mail address."),
    Ret::new("comment", Kind::Str, "when it is set", "Free text."),
    Ret::list_of("groups", Kind::Str, "always", "Groups that it belongs to."),
    Ret::list_of(
        "tokens",
        Kind::Dict,
        "always",
        "Its API tokens, without their secrets: C(tokenid), C(privsep), C(expire), C(comment).",
    ),
];

/// Argument table.
pub static SPEC: ModuleSpec = ModuleSpec {
    name: "pve_user_info",
    short: "Look at users of a Proxmox VE cluster",
    doc: &[
        "Lists users with their groups and tokens.",
        "A user who is named by its whole id (O(userid), or O(user) with O(domain)) and does not exist is a failure; a filter that nobody fits gives an empty list.",
    ],
    options: &[OPTIONS, common::SIGN_IN],
    required_one_of: &[common::SIGN_IN_ONE_OF],
    required_together: &[common::SIGN_IN_TOGETHER],
    mutually_exclusive: &[&["user", "userid"], &["domain", "userid"]],
    returns: &[
        &[
            Ret::list_of("proxmox_users", Kind::Dict, "success", "The users, by id.")
                .contains(USER),
        ],
        spec::shared::RETURNS,
    ],
    examples: r#"- name: The owner must be known
  trueplan.virt.pve_user_info:
    api_host: pve1.example.com
    api_user: deploy@pve
    api_token_id: ansible
    api_token_secret: "{{ token }}"
    userid: "{{ owner }}@example"
  register: owner_account
"#,
    notes: &[
        "Without C(User.Modify) or C(Sys.Audit) on V(/access/groups) the server shows only oneself, and is silent on the others; RV(unverified) then says so.",
        "Keys of a second factor are not returned.",
    ],
    privileges: &[(
        "C(/access/groups)",
        "C(User.Modify) or C(Sys.Audit)",
        "seeing others than oneself",
    )],
    replaces: Some("community.proxmox.proxmox_user_info"),
    action_groups: &["pve", "proxmox"],
    ..ModuleSpec::READS
};

/// What is asked for.
#[derive(Clone, Debug)]
pub struct UserInfo {
    one: Option<String>,
    user: Option<String>,
    domain: Option<String>,
}

fn make(args: &Args) -> Result<Box<dyn Module>, Vec<ArgError>> {
    let mut errors = common::sign_in_errors(args);
    let own = |n: &str| args.str(n).map(str::to_owned);
    let (user, domain) = (own("user"), own("domain"));
    let one = match (&user, &domain) {
        (Some(u), Some(d)) => Some(format!("{u}@{d}")),
        _ => own("userid"),
    };
    if let Some(id) = &one
        && id
            .rsplit_once('@')
            .is_none_or(|(u, d)| u.is_empty() || d.is_empty())
    {
        errors.push(arg_error(
            "userid",
            Some(id.clone()),
            "is no user; give it as user@realm",
        ));
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    Ok(Box::new(UserInfo { one, user, domain }))
}

/// As the peer shows a user.
fn show(u: &Value) -> Value {
    let mut out = Map::new();
    let id = u["userid"].as_str().unwrap_or_default();
    let (user, domain) = id.rsplit_once('@').unwrap_or((id, ""));
    for (k, v) in [
        ("userid", json!(id)),
        ("user", json!(user)),
        ("domain", json!(domain)),
        ("enabled", u["enable"].clone()),
    ] {
        out.insert(k.into(), v);
    }
    for (k, v) in u.as_object().into_iter().flatten() {
        if k != "enable" && k != "userid" {
            out.insert(k.clone(), v.clone());
        }
    }
    Value::Object(out)
}

impl UserInfo {
    fn selects(&self, u: &Value) -> bool {
        self.user.as_ref().is_none_or(|n| u["user"] == **n)
            && self.domain.as_ref().is_none_or(|d| u["domain"] == **d)
    }

    fn found(&self, facts: &Facts) -> Vec<Value> {
        if let Some(id) = &self.one {
            let u = facts.known(PveKey::User(id.clone()).key());
            return u.map(show).into_iter().collect();
        }
        facts
            .known(PveKey::Users.key())
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .map(show)
            .filter(|u| self.selects(u))
            .collect()
    }
}

impl Think for UserInfo {
    fn think(&self, look: &Look<'_>) -> Result<Plan, Stop> {
        if let Some(id) = &self.one {
            return match look.fact(&PveKey::User(id.clone()))? {
                Fact::Known(_) => Ok(Plan::empty()),
                Fact::Absent => Err(Refusal::kind(
                    ErrorKind::NotFound,
                    format!("unable to read user {id}: there is no such user; correct the name or the realm, or synchronise the realm"),
                )
                .into()),
                Fact::Unreadable(why) => Err(Refusal::kind(
                    ErrorKind::Permission,
                    format!("unable to read user {id}: {why}; grant User.Modify or Sys.Audit on /access/groups"),
                )
                .into()),
            };
        }
        let (users, groups) = (PveKey::Users, PveKey::Perms("/access/groups".to_owned()));
        look.want(&[users.clone(), groups.clone()])?;
        let perms = look.aux(&groups, "privileges")?.and_then(Fact::known);
        if perms.is_some_and(|p| !granted(p, "User.Modify") && !granted(p, "Sys.Audit")) {
            look.note(
                "users other than oneself: User.Modify or Sys.Audit on /access/groups is missing"
                    .to_owned(),
            );
        }
        match look.fact(&users)? {
            Fact::Unreadable(why) => Err(Refusal::kind(
                ErrorKind::Permission,
                format!("unable to read the users: {why}; grant Sys.Audit on /access/groups"),
            )
            .into()),
            _ => Ok(Plan::empty()),
        }
    }
}

impl Module for UserInfo {
    fn needs(&self, facts: &Facts) -> Vec<Key> {
        look::needs(self, facts)
    }

    fn plan(&self, facts: &Facts) -> Result<Plan, Refusal> {
        look::plan(self, facts)
    }

    fn subject(&self, _: &Facts, _: &[Value]) -> Vec<Key> {
        Vec::new()
    }

    fn view(&self, _: &Facts) -> Value {
        json!({})
    }

    fn result(&self, o: &Outcome<'_>) -> Map<String, Value> {
        let users = self.found(o.after);
        let mut r = Map::new();
        r.insert("msg".into(), json!(format!("{} users found", users.len())));
        r.insert("proxmox_users".into(), json!(users));
        r
    }

    fn title(&self) -> String {
        "users".to_owned()
    }
}
