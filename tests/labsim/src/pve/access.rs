//! Users, tokens, roles, ACLs, tickets.
use super::{PveError, Router, State};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

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

    /// The real root@pam login, not one of its tokens: the only one that may set `args`, `lock`, absolute paths, ...
    pub fn is_root(&self) -> bool {
        self.userid == "root@pam" && self.token.is_none()
    }
}

/// Users, roles, tokens, ACLs, pools.
#[derive(Clone, Debug, Default)]
pub struct Access {}

/// Signs and checks tickets.
pub struct Tickets {}

impl Tickets {
    /// Secrets for this run.
    pub fn new(_seed: u64) -> Tickets {
        Tickets {}
    }
}

impl State {
    /// The privileges of somebody on a path; the value tells whether they propagate.
    pub fn perms(&self, _auth: &Auth, _path: &str) -> BTreeMap<String, bool> {
        BTreeMap::new()
    }

    /// Whether all of the privileges are there.
    pub fn may(&self, auth: &Auth, path: &str, privs: &[&str]) -> bool {
        self.check(auth, path, privs).is_ok()
    }

    /// All of the privileges are needed on the path. Errors: 403 `Permission check failed (PATH, PRIV)`.
    pub fn check(&self, auth: &Auth, path: &str, privs: &[&str]) -> Result<(), PveError> {
        let have = self.perms(auth, path);
        match privs.iter().find(|p| !have.contains_key(**p)) {
            Some(missing) if !auth.is_root() => {
                Err(PveError::denied(&format!("{path}, {missing}")))
            }
            _ => Ok(()),
        }
    }

    /// Any one of the privileges is enough. Errors: 403 `Permission check failed (PATH, A|B)`.
    pub fn check_any(&self, auth: &Auth, path: &str, privs: &[&str]) -> Result<(), PveError> {
        let have = self.perms(auth, path);
        if auth.is_root() || privs.iter().any(|p| have.contains_key(*p)) {
            return Ok(());
        }
        Err(PveError::denied(&format!("{path}, {}", privs.join("|"))))
    }

    /// The ACL path of a bridge or vnet: `/sdn/zones/ZONE/VNET` (zone by the pending config) or `/sdn/zones/localnetwork/BRIDGE`.
    pub fn bridge_path(&self, _bridge: &str) -> String {
        String::new()
    }

    /// The pools that exist.
    pub fn pool_names(&self) -> BTreeSet<String> {
        BTreeSet::new()
    }
}

/// Adds the routes of this file.
pub fn register(_r: &mut Router) {}

/// Takes users, tokens, roles, ACLs and pools of a world. Errors: what is wrong in it.
pub fn load(_st: &mut State, _world: &Value) -> Result<(), String> {
    Ok(())
}

/// For `GET /labsim/world`; no secrets.
pub fn dump(_st: &State) -> Value {
    json!({})
}
