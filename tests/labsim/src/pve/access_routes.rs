//! `/access/...`: signing in, permissions, ACL, roles, users, tokens.
use super::access::{Acl, Auth, Token, User};
use super::propstr::matches_pattern;
use super::roles::{BUILTIN_ROLES, PRIVS, builtin};
use super::{Call, Lab, PveError, Router, formats};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

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
    r.add("GET", "/access/groups", get_groups);
    r.add("GET", "/access/groups/{groupid}", get_group);
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
    let mut st = lab.st();
    let fail = || PveError::new(401, "authentication failure");
    let lifetime = st.access.ticket_lifetime_s;
    let user = st
        .access
        .users
        .get_mut(&userid)
        .filter(|u| u.enable)
        .ok_or_else(fail)?;
    // A valid ticket of the same user serves as password: that is how tickets are renewed.
    let renewal = lab.tickets.user(&password, lifetime).as_deref() == Some(userid.as_str());
    // The answer to a challenge comes instead of the password; each one-time password is good once.
    let answered = call.text("tfa-challenge").map(|challenge| {
        let code = password.strip_prefix("totp:").unwrap_or_default();
        lab.tickets.challenge_ok(&challenge, &userid)
            && user.otp.as_mut().is_some_and(|codes| codes.remove(code))
    });
    match answered {
        Some(true) => {}
        None if renewal => {}
        None if !user.password.is_empty() && user.password == password => {
            if user.otp.is_some() {
                return Ok(json!({
                    "username": userid,
                    "ticket": lab.tickets.challenge(&userid),
                    "CSRFPreventionToken": lab.tickets.csrf(&userid),
                    "NeedTFA": 1,
                    "clustername": "labsim",
                }));
            }
        }
        Some(false) | None => return Err(fail()),
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
        .filter(|a| audit || st.may_any(&call.auth, &a.path, &perm_modify(&a.path)))
        .map(|a| json!({"path": a.path, "type": a.kind, "ugid": a.ugid, "roleid": a.role, "propagate": u8::from(a.propagate)}))
        .collect())
}

/// Any of these lets one change the permissions of a path (pve-access-control, `check_perm_modify`).
fn perm_modify(path: &str) -> Vec<&'static str> {
    let mut privs = vec!["Permissions.Modify"];
    for (below, own) in [
        ("/storage/", "Datastore.Allocate"),
        ("/vms/", "VM.Allocate"),
        ("/pool/", "Pool.Allocate"),
    ] {
        if path.starts_with(below) {
            privs.push(own);
        }
    }
    privs
}

/// As it is stored: single slashes, none at the end. None: it has no slash at its start or odd characters.
fn normalize_path(path: &str) -> Option<String> {
    let ok = path.starts_with('/')
        && path
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
    let parts: Vec<&str> = path.split('/').filter(|p| !p.is_empty()).collect();
    ok.then(|| format!("/{}", parts.join("/")))
}

/// What an entry may be added for (pve-access-control, `check_path`).
fn check_path(path: &str) -> bool {
    const ONE: &str = r"[A-Za-z0-9.\-_]+";
    let patterns = [
        "/".to_string(),
        "/access".into(),
        format!("/access/(groups|realm)(/{ONE})?"),
        format!("/(nodes|storage)(/{ONE})?"),
        format!("/pool(/{ONE}){{0,3}}"),
        format!("/sdn(/(controllers|dns|ipams|fabrics)(/{ONE})?)?"),
        format!("/sdn/zones(/{ONE}){{0,2}}"),
        format!("/sdn/zones/{ONE}/{ONE}/[1-9][0-9]{{0,3}}"),
        "/vms(/[1-9][0-9]{2,})?".into(),
        format!("/mapping(/{ONE}){{0,2}}"),
    ];
    patterns.iter().any(|p| matches_pattern(p, path))
}

fn put_acl(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let mut st = lab.st();
    let given = call.arg("path");
    let bad_path = || PveError::param("path", format!("invalid ACL path '{given}'"));
    let path = normalize_path(&given).ok_or_else(bad_path)?;
    if !call.flag("delete") && !check_path(&path) {
        return Err(bad_path());
    }
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
        let verb = if call.flag("delete") { "remove" } else { "add" };
        if !have.contains_key("Permissions.Modify") {
            if privs.iter().any(|p| !have.contains_key(p)) {
                return Err(wrong(PveError::param(
                    "role",
                    format!(
                        "Cannot {verb} role '{role}' - requires 'Permissions.Modify' or superset of privileges."
                    ),
                )));
            }
            if propagate && privs.iter().any(|p| have.get(p) != Some(&true)) {
                return Err(wrong(PveError::param(
                    "role",
                    format!(
                        "Cannot {verb} role '{role}' with propagation - requires 'Permissions.Modify' or propagated superset of privileges."
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
            if !known {
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

fn members(st: &super::State, group: &str) -> Vec<String> {
    let users = st.access.users.iter();
    users
        .filter(|(_, u)| u.groups.contains(group))
        .map(|(id, _)| id.clone())
        .collect()
}

fn get_groups(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let st = lab.st();
    let privs = ["User.Modify", "Sys.Audit", "Group.Allocate"];
    Ok(st
        .access
        .groups
        .iter()
        .filter(|g| st.may_any(&call.auth, &format!("/access/groups/{g}"), &privs))
        .map(|g| json!({"groupid": g, "users": members(&st, g).join(",")}))
        .collect())
}

fn get_group(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let st = lab.st();
    let group = call.arg("groupid");
    if !st.access.groups.contains(&group) {
        return Err(PveError::die(format!("group '{group}' does not exist")));
    }
    Ok(json!({"members": members(&st, &group)}))
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
        .map(|(id, u)| {
            let mut v = show_user(id, u);
            if call.flag("full") {
                let groups: Vec<&String> = u.groups.iter().collect();
                v["groups"] = json!(
                    groups
                        .iter()
                        .map(|g| g.as_str())
                        .collect::<Vec<_>>()
                        .join(",")
                );
                v["tokens"] = u.tokens.iter().map(|(n, t)| show_token(n, t)).collect();
            }
            v
        })
        .collect())
}

fn no_user(id: &str) -> PveError {
    PveError::die(format!("no such user ('{id}')"))
}

fn get_user(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let st = lab.st();
    let id = call.arg("userid");
    let user = st.access.users.get(&id).ok_or_else(|| no_user(&id))?;
    let mut v = show_user(&id, user);
    if let Some(o) = v.as_object_mut() {
        o.remove("userid");
        o.remove("realm-type");
        o.insert("groups".into(), json!(user.groups));
        let tokens: Map<String, Value> = user
            .tokens
            .iter()
            .map(|(n, t)| {
                let mut t = show_token(n, t);
                if let Some(o) = t.as_object_mut() {
                    o.remove("tokenid");
                }
                (n.clone(), t)
            })
            .collect();
        o.insert("tokens".into(), Value::Object(tokens));
    }
    Ok(v)
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
        otp: None,
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
