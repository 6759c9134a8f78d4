//! Users, tokens, roles, ACLs, pools, tickets.
use super::roles::{PRIVS, builtin};
use super::{Lab, PveError, State, formats};
use crate::http::Req;
use crate::log;
use base64::Engine;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{SystemTime, UNIX_EPOCH};

/// Who asks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Auth {
    /// `root@pam`.
    pub userid: String,
    /// The token's name, if an API token was used.
    pub token: Option<String>,
}

impl Auth {
    /// `root@pam` or `root@pam!full`.
    pub fn authid(&self) -> String {
        match &self.token {
            Some(t) => format!("{}!{t}", self.userid),
            None => self.userid.clone(),
        }
    }

    /// From `root@pam` or `root@pam!full`.
    pub fn parse(authid: &str) -> Auth {
        match authid.split_once('!') {
            Some((u, t)) => Auth {
                userid: u.into(),
                token: Some(t.into()),
            },
            None => Auth {
                userid: authid.into(),
                token: None,
            },
        }
    }

    /// The real root@pam login, not one of its tokens: the only one that may set `args`, `lock`, absolute paths, ...
    pub fn is_root(&self) -> bool {
        self.userid == "root@pam" && self.token.is_none()
    }
}

/// An API token.
#[derive(Clone, Debug, Default)]
pub struct Token {
    /// Its secret; empty = nobody can use it.
    pub secret: String,
    /// Its own ACLs count, cut by its owner's.
    pub privsep: bool,
    /// Free text.
    pub comment: Option<String>,
    /// Seconds since the epoch; 0 = never.
    pub expire: u64,
}

/// A user.
#[derive(Clone, Debug, Default)]
pub struct User {
    /// Empty = cannot sign in by password.
    pub password: String,
    /// One-time passwords of a second factor that are still good; with `None` the password is enough.
    pub otp: Option<BTreeSet<String>>,
    /// A disabled user is refused with 401.
    pub enable: bool,
    /// Seconds since the epoch; 0 = never.
    pub expire: u64,
    /// Free text.
    pub comment: Option<String>,
    /// Groups it is a member of.
    pub groups: BTreeSet<String>,
    /// Tokens by name.
    pub tokens: BTreeMap<String, Token>,
}

/// One ACL entry.
#[derive(Clone, Debug, PartialEq)]
pub struct Acl {
    /// `/vms/100`.
    pub path: String,
    /// `user`, `token` or `group`.
    pub kind: String,
    /// The user's, token's or group's id.
    pub ugid: String,
    /// The role.
    pub role: String,
    /// Holds below the path too.
    pub propagate: bool,
}

/// A pool.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    /// Free text.
    pub comment: Option<String>,
    /// Guests.
    pub vms: BTreeSet<u32>,
    /// Storages.
    pub storages: BTreeSet<String>,
}

/// Users, roles, tokens, ACLs, pools.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// Users by id.
    pub users: BTreeMap<String, User>,
    /// Roles beside the built-in ones.
    pub roles: BTreeMap<String, BTreeSet<String>>,
    /// The ACL.
    pub acl: Vec<Acl>,
    /// Pools by id.
    pub pools: BTreeMap<String, Pool>,
    /// Groups.
    pub groups: BTreeSet<String>,
    /// Seconds that a ticket lives.
    pub ticket_lifetime_s: u64,
}

impl Access {
    /// The privileges of a role; `None` if there is no such role.
    pub fn role(&self, role: &str) -> Option<BTreeSet<String>> {
        builtin(role).or_else(|| self.roles.get(role).cloned())
    }

    /// Roles on a path with their propagate flags: the deepest path with any role replaces all inherited ones; on one path the
    /// user's (token's) own entries win over its groups' (docs/pve-privileges.md section 1).
    fn roles(&self, authid: &str, path: &str) -> BTreeMap<String, bool> {
        let kind = if authid.contains('!') {
            "token"
        } else {
            "user"
        };
        let groups = self
            .users
            .get(authid)
            .map(|u| u.groups.clone())
            .unwrap_or_default();
        let mut prefixes = vec!["/".to_string()];
        let mut at = String::new();
        for part in path.split('/').filter(|p| !p.is_empty()) {
            at = format!("{at}/{part}");
            prefixes.push(at.clone());
        }
        let mut roles = BTreeMap::new();
        for prefix in &prefixes {
            let last = prefix == prefixes.last().unwrap_or(prefix);
            let pick = |who: &dyn Fn(&Acl) -> bool| -> BTreeMap<String, bool> {
                self.acl
                    .iter()
                    .filter(|a| a.path == *prefix && (last || a.propagate) && who(a))
                    .map(|a| (a.role.clone(), a.propagate))
                    .collect()
            };
            let own = pick(&|a| a.kind == kind && a.ugid == authid);
            let found = if own.is_empty() && kind == "user" {
                pick(&|a| a.kind == "group" && groups.contains(&a.ugid))
            } else {
                own
            };
            if !found.is_empty() {
                roles = found;
            }
        }
        if roles.contains_key("NoAccess") {
            roles.retain(|r, _| r == "NoAccess");
        }
        roles
    }

    fn path_privs(&self, authid: &str, path: &str) -> BTreeMap<String, bool> {
        let mut privs: BTreeMap<String, bool> = BTreeMap::new();
        for (role, propagate) in self.roles(authid, path) {
            for p in self.role(&role).unwrap_or_default() {
                *privs.entry(p).or_default() |= propagate;
            }
        }
        privs
    }

    fn with_pools(&self, authid: &str, path: &str) -> BTreeMap<String, bool> {
        let mut privs = self.path_privs(authid, path);
        if self.roles(authid, path).contains_key("NoAccess") {
            return privs;
        }
        let vm = path
            .strip_prefix("/vms/")
            .and_then(|v| v.parse::<u32>().ok());
        let storage = path.strip_prefix("/storage/");
        for (name, pool) in &self.pools {
            if vm.is_some_and(|v| pool.vms.contains(&v))
                || storage.is_some_and(|s| pool.storages.contains(s))
            {
                for (p, propagate) in self.path_privs(authid, &format!("/pool/{name}")) {
                    *privs.entry(p).or_default() |= propagate;
                }
            }
        }
        privs
    }
}

/// Signs and checks tickets.
pub struct Tickets {
    secret: String,
}

impl Tickets {
    /// Secrets for this run.
    pub fn new(seed: u64) -> Tickets {
        let nanos = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map(|d| d.as_nanos())
            .unwrap_or(0);
        Tickets {
            secret: format!("{seed}-{nanos}-{}", std::process::id()),
        }
    }

    fn sign(&self, text: &str) -> String {
        let digest = Sha256::digest(format!("{}:{text}", self.secret));
        base64::engine::general_purpose::STANDARD_NO_PAD.encode(digest)
    }

    /// A fresh ticket.
    pub(super) fn ticket(&self, user: &str) -> String {
        let text = format!("PVE:{user}:{:08X}", now());
        let signature = self.sign(&text);
        format!("{text}::{signature}")
    }

    /// What the second factor of a user answers: it is no ticket to work with.
    pub(super) fn challenge(&self, user: &str) -> String {
        let text = format!("PVE:!tfa!%7B%22totp%22%3Atrue%7D:{:08X}", now());
        let signature = self.sign(&format!("{text}:{user}"));
        format!("{text}::{signature}")
    }

    /// Whether a challenge is ours, of this user, and five minutes old at most.
    pub(super) fn challenge_ok(&self, challenge: &str, user: &str) -> bool {
        let Some((text, signature)) = challenge.split_once("::") else {
            return false;
        };
        let stamp = text
            .strip_prefix("PVE:!tfa!")
            .and_then(|t| t.rsplit(':').next());
        let made = stamp.and_then(|s| u64::from_str_radix(s, 16).ok());
        made.is_some_and(|m| now() < m + 300) && self.sign(&format!("{text}:{user}")) == signature
    }

    /// The CSRF token to go with a ticket.
    pub(super) fn csrf(&self, user: &str) -> String {
        let stamp = format!("{:08X}", now());
        let signature = self.sign(&format!("csrf:{stamp}:{user}"));
        format!("{stamp}:{signature}")
    }

    /// The user of a valid ticket.
    pub(super) fn user(&self, ticket: &str, lifetime: u64) -> Option<String> {
        let (text, signature) = ticket.split_once("::")?;
        let mut parts = text.splitn(2, ':');
        if parts.next()? != "PVE" || self.sign(text) != signature {
            return None;
        }
        let (user, stamp) = parts.next()?.rsplit_once(':')?;
        let made = u64::from_str_radix(stamp, 16).ok()?;
        (now() < made + lifetime).then(|| user.to_string())
    }

    fn csrf_ok(&self, token: &str, user: &str, lifetime: u64) -> bool {
        let Some((stamp, signature)) = token.split_once(':') else {
            return false;
        };
        let Ok(made) = u64::from_str_radix(stamp, 16) else {
            return false;
        };
        now() < made + lifetime && self.sign(&format!("csrf:{stamp}:{user}")) == signature
    }
}

fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map(|d| d.as_secs())
        .unwrap_or(0)
}

impl Lab {
    /// Who sends this request. Errors: the reason phrase of a 401.
    pub fn authenticate(&self, req: &Req) -> Result<Auth, String> {
        const FAILED: &str = "Authentication failed!";
        let st = self.st();
        let active = |u: &User| u.enable && (u.expire == 0 || u.expire > now());
        if let Some(token) = req
            .header("authorization")
            .and_then(|h| h.strip_prefix("PVEAPIToken="))
        {
            let (id, secret) = token.split_once('=').ok_or(FAILED)?;
            let (userid, name) = id.split_once('!').ok_or(FAILED)?;
            let user = st
                .access
                .users
                .get(userid)
                .filter(|u| active(u))
                .ok_or(FAILED)?;
            let token = user.tokens.get(name).ok_or(FAILED)?;
            let valid = !token.secret.is_empty()
                && token.secret == secret
                && (token.expire == 0 || token.expire > now());
            return if valid {
                Ok(Auth {
                    userid: userid.into(),
                    token: Some(name.into()),
                })
            } else {
                Err(FAILED.into())
            };
        }
        let cookies = req
            .headers
            .iter()
            .filter(|(n, _)| n == "cookie")
            .flat_map(|(_, v)| v.split(';'));
        let ticket = cookies
            .filter_map(|c| c.trim().strip_prefix("PVEAuthCookie="))
            .next()
            .map(|t| log::decode(t.trim_matches('"'), false))
            .ok_or("No ticket")?;
        let lifetime = st.access.ticket_lifetime_s;
        let userid = self
            .tickets
            .user(&ticket, lifetime)
            .ok_or("permission denied - invalid PVE ticket")?;
        st.access
            .users
            .get(&userid)
            .filter(|u| active(u))
            .ok_or(FAILED)?;
        if req.method != "GET" {
            let csrf = req.header("csrfpreventiontoken").unwrap_or("");
            if !self.tickets.csrf_ok(csrf, &userid, lifetime) {
                return Err("Permission denied - invalid csrf token".into());
            }
        }
        Ok(Auth {
            userid,
            token: None,
        })
    }
}

impl State {
    /// The privileges of somebody on a path; the value tells whether they propagate.
    pub fn perms(&self, auth: &Auth, path: &str) -> BTreeMap<String, bool> {
        let a = &self.access;
        let owner = |path: &str| -> BTreeMap<String, bool> {
            if auth.userid == "root@pam" {
                return PRIVS.iter().map(|p| (p.to_string(), true)).collect();
            }
            a.with_pools(&auth.userid, path)
        };
        let separated = auth
            .token
            .as_ref()
            .map(|t| a.users.get(&auth.userid).and_then(|u| u.tokens.get(t)));
        match separated {
            None => owner(path),
            Some(None) => BTreeMap::new(),
            Some(Some(token)) if !token.privsep => owner(path),
            Some(Some(_)) => {
                let limit = owner(path);
                let mut privs = a.with_pools(&auth.authid(), path);
                privs.retain(|p, _| limit.contains_key(p));
                for (p, propagate) in &mut privs {
                    *propagate &= limit[p];
                }
                privs
            }
        }
    }

    /// Whether all of the privileges are there.
    pub fn may(&self, auth: &Auth, path: &str, privs: &[&str]) -> bool {
        self.check(auth, path, privs).is_ok()
    }

    /// Whether any of the privileges is there.
    pub fn may_any(&self, auth: &Auth, path: &str, privs: &[&str]) -> bool {
        self.check_any(auth, path, privs).is_ok()
    }

    /// All of the privileges are needed on the path. Errors: 403 `Permission check failed (PATH, PRIV)`.
    pub fn check(&self, auth: &Auth, path: &str, privs: &[&str]) -> Result<(), PveError> {
        let have = self.perms(auth, path);
        match privs.iter().find(|p| !have.contains_key(**p)) {
            Some(missing) => Err(PveError::denied(&format!("{path}, {missing}"))),
            None => Ok(()),
        }
    }

    /// Any one of the privileges is enough. Errors: 403 `Permission check failed (PATH, A|B)`.
    pub fn check_any(&self, auth: &Auth, path: &str, privs: &[&str]) -> Result<(), PveError> {
        let have = self.perms(auth, path);
        if privs.iter().any(|p| have.contains_key(*p)) {
            return Ok(());
        }
        Err(PveError::denied(&format!("{path}, {}", privs.join("|"))))
    }

    /// The ACL path of a bridge or vnet: `/sdn/zones/ZONE/VNET` (zone by the pending config) or `/sdn/zones/localnetwork/BRIDGE`.
    pub fn bridge_path(&self, bridge: &str) -> String {
        let zone = self
            .sdn
            .zone_of(bridge)
            .unwrap_or_else(|| "localnetwork".into());
        format!("/sdn/zones/{zone}/{bridge}")
    }

    /// The pools that exist.
    pub fn pool_names(&self) -> BTreeSet<String> {
        self.access.pools.keys().cloned().collect()
    }

    /// The pool a guest is a member of.
    pub fn pool_of(&self, vmid: u32) -> Option<String> {
        self.access
            .pools
            .iter()
            .find(|(_, p)| p.vms.contains(&vmid))
            .map(|(n, _)| n.clone())
    }

    /// Makes a guest a member of a pool and of no other. The pool must exist.
    pub fn set_pool(&mut self, vmid: u32, pool: Option<&str>) {
        for (name, p) in &mut self.access.pools {
            if Some(name.as_str()) == pool {
                p.vms.insert(vmid);
            } else {
                p.vms.remove(&vmid);
            }
        }
    }

    /// Forgets ACLs and pool membership of a guest that is gone (`purge` and destroy do that).
    pub fn forget_guest(&mut self, vmid: u32) {
        self.set_pool(vmid, None);
        let path = format!("/vms/{vmid}");
        self.access.acl.retain(|a| a.path != path);
    }
}

/// Takes users, tokens, roles, ACLs and pools of a world. Errors: what is wrong in it.
pub fn load(st: &mut State, world: &Value) -> Result<(), String> {
    let a = &mut st.access;
    a.ticket_lifetime_s = world["ticket_lifetime_s"].as_u64().unwrap_or(7200);
    let list = |key: &str| world[key].as_array().cloned().unwrap_or_default();
    let text = |v: &Value, k: &str| v[k].as_str().unwrap_or("").to_string();
    let flag = |v: &Value, default: bool| {
        v.as_i64()
            .map(|n| n != 0)
            .or(v.as_bool())
            .unwrap_or(default)
    };
    for u in list("users") {
        let userid = text(&u, "userid");
        if !userid.contains('@') {
            return Err(format!("users: '{userid}' has no realm"));
        }
        let groups: BTreeSet<String> = formats::split_list(u["groups"].as_str().unwrap_or(""))
            .into_iter()
            .collect();
        a.groups.extend(groups.iter().cloned());
        a.users.insert(
            userid,
            User {
                password: text(&u, "password"),
                otp: u["otp"].as_array().map(|l| {
                    let codes = l.iter().filter_map(Value::as_str);
                    codes.map(str::to_owned).collect()
                }),
                enable: flag(&u["enable"], true),
                expire: u["expire"].as_u64().unwrap_or(0),
                comment: u["comment"].as_str().map(String::from),
                groups,
                tokens: BTreeMap::new(),
            },
        );
    }
    a.users.entry("root@pam".into()).or_insert_with(|| User {
        enable: true,
        ..User::default()
    });
    for (userid, tokens) in world["tokens"].as_object().into_iter().flatten() {
        let user = a
            .users
            .get_mut(userid)
            .ok_or_else(|| format!("tokens: no user '{userid}'"))?;
        for t in tokens.as_array().into_iter().flatten() {
            user.tokens.insert(
                text(t, "tokenid"),
                Token {
                    secret: text(t, "secret"),
                    privsep: flag(&t["privsep"], true),
                    comment: t["comment"].as_str().map(String::from),
                    expire: t["expire"].as_u64().unwrap_or(0),
                },
            );
        }
    }
    for (role, privs) in world["roles"].as_object().into_iter().flatten() {
        let names: BTreeSet<String> = match privs {
            Value::String(s) => formats::split_list(s).into_iter().collect(),
            other => other
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|p| p.as_str().map(String::from))
                .collect(),
        };
        if let Some(bad) = names.iter().find(|p| !PRIVS.contains(&p.as_str())) {
            return Err(format!("roles: {role}: unknown privilege '{bad}'"));
        }
        a.roles.insert(role.clone(), names);
    }
    for e in list("acl") {
        let role = text(&e, "roleid");
        if a.role(&role).is_none() {
            return Err(format!("acl: no role '{role}'"));
        }
        let kind = text(&e, "type");
        if !["user", "token", "group"].contains(&kind.as_str()) {
            return Err(format!("acl: unknown type '{kind}'"));
        }
        a.acl.push(Acl {
            path: text(&e, "path"),
            kind,
            ugid: text(&e, "ugid"),
            role,
            propagate: flag(&e["propagate"], true),
        });
    }
    for p in list("pools") {
        let mut pool = Pool {
            comment: p["comment"].as_str().map(String::from),
            ..Pool::default()
        };
        for member in p["members"].as_array().into_iter().flatten() {
            match member {
                Value::Number(n) => {
                    pool.vms.insert(
                        n.as_u64()
                            .and_then(|n| u32::try_from(n).ok())
                            .ok_or("pools: bad vmid")?,
                    );
                }
                other => {
                    pool.storages
                        .insert(other.as_str().unwrap_or("").to_string());
                }
            }
        }
        a.pools.insert(text(&p, "poolid"), pool);
    }
    Ok(())
}

/// For `GET /labsim/world`; no secrets.
pub fn dump(st: &State) -> Value {
    let a = &st.access;
    json!({
        "users": a.users.iter().map(|(n, u)| json!({"userid": n, "enable": u.enable, "tokens": u.tokens.keys().collect::<Vec<_>>()})).collect::<Vec<_>>(),
        "roles": a.roles,
        "acl": a.acl.iter().map(|e| json!({"path": e.path, "type": e.kind, "ugid": e.ugid, "roleid": e.role, "propagate": e.propagate})).collect::<Vec<_>>(),
        "pools": a.pools.iter().map(|(n, p)| json!({"poolid": n, "vms": p.vms, "storages": p.storages})).collect::<Vec<_>>(),
    })
}
