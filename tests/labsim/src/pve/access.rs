//! Users, tokens, roles, ACLs, pools, tickets.
use super::{Call, Lab, PveError, Router, State, formats};
use crate::http::Req;
use crate::log;
use base64::Engine;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
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

const PRIVS: &[&str] = &[
    "Datastore.Allocate",
    "Datastore.AllocateSpace",
    "Datastore.AllocateTemplate",
    "Datastore.Audit",
    "Group.Allocate",
    "Mapping.Audit",
    "Mapping.Modify",
    "Mapping.Use",
    "Permissions.Modify",
    "Pool.Allocate",
    "Pool.Audit",
    "Realm.Allocate",
    "Realm.AllocateUser",
    "SDN.Allocate",
    "SDN.Audit",
    "SDN.Use",
    "Sys.AccessNetwork",
    "Sys.Audit",
    "Sys.Console",
    "Sys.Incoming",
    "Sys.Modify",
    "Sys.PowerMgmt",
    "Sys.Syslog",
    "User.Modify",
    "VM.Allocate",
    "VM.Audit",
    "VM.Backup",
    "VM.Clone",
    "VM.Config.CDROM",
    "VM.Config.CPU",
    "VM.Config.Cloudinit",
    "VM.Config.Disk",
    "VM.Config.HWType",
    "VM.Config.Memory",
    "VM.Config.Network",
    "VM.Config.Options",
    "VM.Console",
    "VM.GuestAgent.Audit",
    "VM.GuestAgent.FileRead",
    "VM.GuestAgent.FileSystemMgmt",
    "VM.GuestAgent.FileWrite",
    "VM.GuestAgent.Unrestricted",
    "VM.Migrate",
    "VM.PowerMgmt",
    "VM.Replicate",
    "VM.Snapshot",
    "VM.Snapshot.Rollback",
];

/// Privileges only `Administrator` has (recorded: what PVEAdmin lacks, create-config-cases.json `perm-list`).
const ADMIN_ONLY: &[&str] = &[
    "Mapping.Modify",
    "Permissions.Modify",
    "Realm.Allocate",
    "Sys.AccessNetwork",
    "Sys.Incoming",
    "Sys.Modify",
    "Sys.PowerMgmt",
];

/// The privileges of a built-in role.
fn builtin(role: &str) -> Option<BTreeSet<String>> {
    let pick = |f: &dyn Fn(&str) -> bool| {
        PRIVS
            .iter()
            .filter(|p| f(p))
            .map(|p| p.to_string())
            .collect::<BTreeSet<_>>()
    };
    let list = |names: &[&str]| names.iter().map(|s| s.to_string()).collect::<BTreeSet<_>>();
    Some(match role {
        "Administrator" => pick(&|_| true),
        "NoAccess" => BTreeSet::new(),
        "PVEAdmin" => pick(&|p| !ADMIN_ONLY.contains(&p)),
        "PVEAuditor" => pick(&|p| p.ends_with(".Audit")),
        "PVEVMAdmin" => pick(&|p| p.starts_with("VM.")),
        "PVEVMUser" => list(&[
            "VM.Audit",
            "VM.Backup",
            "VM.Config.CDROM",
            "VM.Config.Cloudinit",
            "VM.Console",
            "VM.GuestAgent.Audit",
            "VM.PowerMgmt",
        ]),
        "PVETemplateUser" => list(&["VM.Audit", "VM.Clone"]),
        "PVEDatastoreAdmin" => pick(&|p| p.starts_with("Datastore.")),
        "PVEDatastoreUser" => list(&["Datastore.AllocateSpace", "Datastore.Audit"]),
        "PVEPoolAdmin" => pick(&|p| p.starts_with("Pool.")),
        "PVEPoolUser" => list(&["Pool.Audit"]),
        "PVESDNAdmin" => pick(&|p| p.starts_with("SDN.")),
        "PVESDNUser" => list(&["SDN.Audit", "SDN.Use"]),
        "PVESysAdmin" => list(&["Sys.Audit", "Sys.Console", "Sys.Syslog"]),
        "PVEUserAdmin" => list(&["Group.Allocate", "Realm.AllocateUser", "User.Modify"]),
        "PVEMappingAdmin" => pick(&|p| p.starts_with("Mapping.")),
        "PVEMappingAuditor" => list(&["Mapping.Audit"]),
        "PVEMappingUser" => list(&["Mapping.Audit", "Mapping.Use"]),
        _ => return None,
    })
}

const BUILTIN_ROLES: &[&str] = &[
    "Administrator",
    "NoAccess",
    "PVEAdmin",
    "PVEAuditor",
    "PVEDatastoreAdmin",
    "PVEDatastoreUser",
    "PVEMappingAdmin",
    "PVEMappingAuditor",
    "PVEMappingUser",
    "PVEPoolAdmin",
    "PVEPoolUser",
    "PVESDNAdmin",
    "PVESDNUser",
    "PVESysAdmin",
    "PVETemplateUser",
    "PVEUserAdmin",
    "PVEVMAdmin",
    "PVEVMUser",
];

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

    fn ticket(&self, user: &str) -> String {
        let text = format!("PVE:{user}:{:08X}", now());
        let signature = self.sign(&text);
        format!("{text}::{signature}")
    }

    fn csrf(&self, user: &str) -> String {
        let stamp = format!("{:08X}", now());
        let signature = self.sign(&format!("csrf:{stamp}:{user}"));
        format!("{stamp}:{signature}")
    }

    /// The user of a valid ticket.
    fn user(&self, ticket: &str, lifetime: u64) -> Option<String> {
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

/// Adds the routes of this file.
pub fn register(r: &mut Router) {
    r.add("POST", "/access/ticket", post_ticket);
    r.add("GET", "/access/permissions", permissions);
    r.add("GET", "/access/acl", get_acl);
    r.add("PUT", "/access/acl", put_acl);
    r.add("GET", "/access/roles", get_roles);
    r.add("POST", "/access/roles", post_role);
    r.add("PUT", "/access/roles/{roleid}", post_role);
    r.add("GET", "/access/roles/{roleid}", get_role);
    r.add("DELETE", "/access/roles/{roleid}", delete_role);
    r.add("GET", "/access/users", get_users);
    r.add("POST", "/access/users", post_user);
    r.add("GET", "/access/users/{userid}", get_user);
    r.add("DELETE", "/access/users/{userid}", delete_user);
    r.add("GET", "/access/users/{userid}/token", get_tokens);
    r.add("GET", "/access/users/{userid}/token/{tokenid}", get_token);
    r.add("POST", "/access/users/{userid}/token/{tokenid}", post_token);
    r.add(
        "DELETE",
        "/access/users/{userid}/token/{tokenid}",
        delete_token,
    );
    r.add("PUT", "/access/password", put_password);
}

fn post_ticket(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let mut userid = call.arg("username");
    if let Some(realm) = call.text("realm") {
        userid = format!("{userid}@{realm}");
    }
    let password = call.arg("password");
    let st = lab.st();
    let fail = || PveError::new(401, "authentication failure");
    let user = st
        .access
        .users
        .get(&userid)
        .filter(|u| u.enable)
        .ok_or_else(fail)?;
    // A valid ticket of the same user serves as password: that is how tickets are renewed.
    let renewal = lab
        .tickets
        .user(&password, st.access.ticket_lifetime_s)
        .as_deref()
        == Some(userid.as_str());
    if !renewal && (user.password.is_empty() || user.password != password) {
        return Err(fail());
    }
    let auth = Auth {
        userid: userid.clone(),
        token: None,
    };
    let mut cap = Map::new();
    for (name, path) in [
        ("vms", "/vms"),
        ("storage", "/storage"),
        ("nodes", "/nodes"),
        ("access", "/access"),
        ("sdn", "/sdn"),
        ("dc", "/"),
    ] {
        let privs: Map<String, Value> = st
            .perms(&auth, path)
            .into_iter()
            .map(|(p, g)| (p, json!(u8::from(g))))
            .collect();
        cap.insert(name.into(), Value::Object(privs));
    }
    Ok(json!({
        "username": userid,
        "ticket": lab.tickets.ticket(&userid),
        "CSRFPreventionToken": lab.tickets.csrf(&userid),
        "clustername": "labsim",
        "cap": cap,
    }))
}

fn permissions(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let st = lab.st();
    let me = call.auth.authid();
    let asked = call.text("userid").unwrap_or_else(|| me.clone());
    if asked != me {
        // The owner, signed in by ticket, may ask for its tokens.
        let own_token = call.auth.token.is_none() && Auth::parse(&asked).userid == me;
        if !own_token {
            st.check(&call.auth, "/access", &["Sys.Audit"])?;
        }
    }
    let auth = Auth::parse(&asked);
    let show = |path: &str| -> Value {
        if !path.starts_with('/') {
            return json!({});
        }
        st.perms(&auth, path)
            .into_iter()
            .map(|(p, g)| (p, json!(u8::from(g))))
            .collect::<Map<_, _>>()
            .into()
    };
    if let Some(path) = call.text("path") {
        return Ok(json!({ path.clone(): show(&path) }));
    }
    let mut paths: BTreeSet<String> = [
        "/",
        "/access",
        "/access/groups",
        "/nodes",
        "/pool",
        "/sdn",
        "/storage",
        "/vms",
    ]
    .map(String::from)
    .into();
    paths.extend(st.access.acl.iter().map(|a| a.path.clone()));
    for pool in st.access.pools.values() {
        paths.extend(pool.vms.iter().map(|v| format!("/vms/{v}")));
        paths.extend(pool.storages.iter().map(|s| format!("/storage/{s}")));
    }
    let mut all = Map::new();
    for path in paths {
        let privs = show(&path);
        if privs.as_object().is_some_and(|o| !o.is_empty()) {
            all.insert(path, privs);
        }
    }
    Ok(all.into())
}

fn get_acl(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let st = lab.st();
    let audit = st.may_any(&call.auth, "/access", &["Sys.Audit"]);
    Ok(st
        .access
        .acl
        .iter()
        .filter(|a| audit || st.may(&call.auth, &a.path, &["Permissions.Modify"]))
        .map(|a| json!({"path": a.path, "type": a.kind, "ugid": a.ugid, "roleid": a.role, "propagate": u8::from(a.propagate)}))
        .collect())
}

fn put_acl(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let mut st = lab.st();
    let path = call.arg("path");
    let who: Vec<(&str, String)> = [("user", "users"), ("token", "tokens"), ("group", "groups")]
        .iter()
        .flat_map(|(kind, param)| {
            formats::split_list(&call.arg(param))
                .into_iter()
                .map(move |id| (*kind, id))
        })
        .collect();
    if who.is_empty() {
        return Err(PveError::params(
            ["users", "groups", "tokens"]
                .iter()
                .map(|p| {
                    (
                        p.to_string(),
                        "either 'users', 'groups' or 'tokens' is required.".to_string(),
                    )
                })
                .collect(),
        ));
    }
    let wrong = |e: PveError| e.wrap("ACL update failed");
    let propagate = call.int("propagate") != Some(0);
    for role in formats::split_list(&call.arg("roles")) {
        let privs = st
            .access
            .role(&role)
            .ok_or_else(|| wrong(PveError::die(format!("role '{role}' does not exist"))))?;
        let have = st.perms(&call.auth, &path);
        if !have.contains_key("Permissions.Modify") {
            if privs.iter().any(|p| !have.contains_key(p)) {
                return Err(wrong(PveError::param(
                    "role",
                    format!(
                        "Cannot add role '{role}' - requires 'Permissions.Modify' or superset of privileges."
                    ),
                )));
            }
            if propagate && privs.iter().any(|p| have.get(p) != Some(&true)) {
                return Err(wrong(PveError::param(
                    "role",
                    format!(
                        "Cannot add role '{role}' with propagation - requires 'Permissions.Modify' or propagated superset of privileges."
                    ),
                )));
            }
        }
        for (kind, id) in &who {
            let known = match *kind {
                "group" => st.access.groups.contains(id),
                "token" => st
                    .access
                    .users
                    .get(&Auth::parse(id).userid)
                    .is_some_and(|u| {
                        u.tokens
                            .contains_key(Auth::parse(id).token.as_deref().unwrap_or(""))
                    }),
                _ => st.access.users.contains_key(id),
            };
            if !known && !call.flag("delete") {
                return Err(wrong(PveError::die(format!(
                    "{kind} '{id}' does not exist"
                ))));
            }
            st.access.acl.retain(|a| {
                !(a.path == path && a.kind == *kind && a.ugid == *id && a.role == role)
            });
            if !call.flag("delete") {
                st.access.acl.push(Acl {
                    path: path.clone(),
                    kind: kind.to_string(),
                    ugid: id.clone(),
                    role: role.clone(),
                    propagate,
                });
            }
        }
    }
    Ok(Value::Null)
}

fn get_roles(lab: &Arc<Lab>, _call: &Call) -> Result<Value, PveError> {
    let st = lab.st();
    let show = |name: &str, special: u8| {
        let privs: Vec<String> = st
            .access
            .role(name)
            .unwrap_or_default()
            .into_iter()
            .collect();
        json!({"roleid": name, "privs": privs.join(","), "special": special})
    };
    Ok(BUILTIN_ROLES
        .iter()
        .map(|r| show(r, 1))
        .chain(st.access.roles.keys().map(|r| show(r, 0)))
        .collect())
}

fn get_role(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let role = call.arg("roleid");
    let privs = lab
        .st()
        .access
        .role(&role)
        .ok_or_else(|| PveError::die(format!("role '{role}' does not exist")))?;
    Ok(privs
        .into_iter()
        .map(|p| (p, json!(1)))
        .collect::<Map<_, _>>()
        .into())
}

fn post_role(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let (role, create) = (call.arg("roleid"), call.method == "POST");
    let mut st = lab.st();
    let verb = if create { "create" } else { "modify" };
    let fail = |text: String| PveError::die(format!("{verb} role failed: {text}"));
    if create && st.access.role(&role).is_some() {
        return Err(fail(format!("role '{role}' already exists")));
    }
    if builtin(&role).is_some() {
        return Err(fail(format!(
            "auto-generated role '{role}' cannot be modified"
        )));
    }
    if !create && !st.access.roles.contains_key(&role) {
        return Err(fail(format!("role '{role}' does not exist")));
    }
    let privs = formats::split_list(&call.arg("privs"));
    if let Some(bad) = privs.iter().find(|p| !PRIVS.contains(&p.as_str())) {
        return Err(fail(format!("invalid privilege '{bad}'")));
    }
    let old = if call.flag("append") {
        st.access.roles.get(&role).cloned().unwrap_or_default()
    } else {
        BTreeSet::new()
    };
    st.access
        .roles
        .insert(role, old.into_iter().chain(privs).collect());
    Ok(Value::Null)
}

fn delete_role(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let role = call.arg("roleid");
    let mut st = lab.st();
    match st.access.roles.remove(&role) {
        Some(_) => {
            st.access.acl.retain(|a| a.role != role);
            Ok(Value::Null)
        }
        None => Err(PveError::die(format!(
            "delete role failed: role '{role}' does not exist"
        ))),
    }
}

fn show_user(id: &str, u: &User) -> Value {
    let mut v = json!({"userid": id, "enable": u8::from(u.enable), "expire": u.expire, "realm-type": id.rsplit('@').next()});
    if let Some(c) = &u.comment {
        v["comment"] = json!(c);
    }
    v
}

fn get_users(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let st = lab.st();
    let all = st.may_any(&call.auth, "/access/groups", &["User.Modify", "Sys.Audit"]);
    Ok(st
        .access
        .users
        .iter()
        .filter(|(id, _)| all || **id == call.auth.authid())
        .map(|(id, u)| show_user(id, u))
        .collect())
}

fn no_user(id: &str) -> PveError {
    PveError::die(format!("no such user ('{id}')"))
}

fn get_user(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let st = lab.st();
    let id = call.arg("userid");
    let user = st.access.users.get(&id).ok_or_else(|| no_user(&id))?;
    Ok(
        json!({"enable": u8::from(user.enable), "expire": user.expire, "groups": user.groups,
        "tokens": user.tokens.iter().map(|(n, t)| (n.clone(), json!({"privsep": u8::from(t.privsep), "expire": t.expire}))).collect::<Map<_, _>>()}),
    )
}

fn post_user(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let mut st = lab.st();
    let id = call.arg("userid");
    if st.access.users.contains_key(&id) {
        return Err(PveError::die(format!(
            "create user failed: user '{id}' already exists"
        )));
    }
    let user = User {
        password: call.arg("password"),
        enable: call.int("enable") != Some(0),
        expire: call.int("expire").unwrap_or(0).max(0) as u64,
        comment: call.text("comment"),
        groups: formats::split_list(&call.arg("groups"))
            .into_iter()
            .collect(),
        tokens: BTreeMap::new(),
    };
    st.access.users.insert(id, user);
    Ok(Value::Null)
}

fn delete_user(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let mut st = lab.st();
    let id = call.arg("userid");
    st.access
        .users
        .remove(&id)
        .ok_or_else(|| PveError::die(format!("delete user failed: user '{id}' does not exist")))?;
    st.access.acl.retain(|a| Auth::parse(&a.ugid).userid != id);
    Ok(Value::Null)
}

fn put_password(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let mut st = lab.st();
    let id = call.arg("userid");
    st.access
        .users
        .get_mut(&id)
        .ok_or_else(|| no_user(&id))?
        .password = call.arg("password");
    Ok(Value::Null)
}

fn show_token(name: &str, t: &Token) -> Value {
    let mut v = json!({"tokenid": name, "privsep": u8::from(t.privsep), "expire": t.expire});
    if let Some(c) = &t.comment {
        v["comment"] = json!(c);
    }
    v
}

fn get_tokens(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let st = lab.st();
    let id = call.arg("userid");
    let user = st.access.users.get(&id).ok_or_else(|| no_user(&id))?;
    Ok(user.tokens.iter().map(|(n, t)| show_token(n, t)).collect())
}

fn get_token(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let st = lab.st();
    let (id, name) = (call.arg("userid"), call.arg("tokenid"));
    let token = st
        .access
        .users
        .get(&id)
        .ok_or_else(|| no_user(&id))?
        .tokens
        .get(&name);
    let token =
        token.ok_or_else(|| PveError::die(format!("no such token '{name}' for user '{id}'")))?;
    Ok(show_token(&name, token))
}

fn post_token(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let (id, name) = (call.arg("userid"), call.arg("tokenid"));
    let secret = {
        let mut rng = lab.rng();
        let (a, b) = (rng.next_u64(), rng.next_u64());
        format!(
            "{:08x}-{:04x}-4{:03x}-a{:03x}-{:012x}",
            a >> 32,
            (a >> 16) & 0xffff,
            a & 0xfff,
            b >> 52,
            b & 0xffff_ffff_ffff
        )
    };
    let mut st = lab.st();
    let user = st.access.users.get_mut(&id).ok_or_else(|| no_user(&id))?;
    if user.tokens.contains_key(&name) {
        return Err(PveError::param("tokenid", "Token already exists."));
    }
    let token = Token {
        secret: secret.clone(),
        privsep: call.int("privsep") != Some(0),
        comment: call.text("comment"),
        expire: call.int("expire").unwrap_or(0).max(0) as u64,
    };
    let info = json!({"privsep": u8::from(token.privsep).to_string(), "expire": token.expire});
    user.tokens.insert(name.clone(), token);
    Ok(json!({"full-tokenid": format!("{id}!{name}"), "value": secret, "info": info}))
}

fn delete_token(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let (id, name) = (call.arg("userid"), call.arg("tokenid"));
    let mut st = lab.st();
    let user = st.access.users.get_mut(&id).ok_or_else(|| no_user(&id))?;
    user.tokens
        .remove(&name)
        .ok_or_else(|| PveError::die(format!("no such token '{name}' for user '{id}'")))?;
    let full = format!("{id}!{name}");
    st.access.acl.retain(|a| a.ugid != full);
    Ok(Value::Null)
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
