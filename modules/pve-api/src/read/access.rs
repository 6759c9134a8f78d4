//! `/access`.

use super::{entries, pick, sorted, text};
use crate::connection::Identity;
use crate::error::ApiError;
use crate::live::{Live, seg};
use crate::wire;
use plan::Fact;
use pve::keys::PveKey;
use serde_json::{Map, Value, json};

impl Live {
    /// One path at a time: the dump without a path leaves out where there is nothing (source: docs/pve-privileges.md, rule 5).
    pub(crate) fn perms(&mut self, path: &str) -> Result<Fact, ApiError> {
        let answer = self.get(&format!("/access/permissions?path={}", wire::encode(path)))?;
        let granted = answer.get(path).cloned().unwrap_or_else(|| json!({}));
        Ok(Fact::Known(match granted {
            Value::Object(o) => Value::Object(o),
            _ => json!({}),
        }))
    }

    /// From the credentials; the server is asked by whatever is read next.
    pub(crate) fn who_am_i(&mut self) -> Result<Fact, ApiError> {
        Ok(Fact::Known(match self.session()?.identity() {
            Identity::Token { user, token } => {
                json!({"user": user, "token": token, "root_login": false})
            }
            Identity::User(user) => {
                json!({"user": user, "token": null, "root_login": user == "root@pam"})
            }
        }))
    }

    pub(crate) fn acl(&mut self) -> Result<Fact, ApiError> {
        let answer = self.get("/access/acl")?;
        let mut list: Vec<Map<String, Value>> = entries(&answer)
            .map(|e| {
                let mut o = pick(e, &["path", "type", "ugid", "roleid"]);
                // Without it an entry propagates (source: the API schema, GET /access/acl).
                let propagate = e.get("propagate").is_none_or(|p| wire::truth(Some(p)));
                o.insert("propagate".into(), json!(u8::from(propagate)));
                o
            })
            .collect();
        list.sort_by_key(|o| {
            ["path", "type", "ugid", "roleid"].map(|k| text(o, k).map(str::to_owned))
        });
        Ok(Fact::Known(list.into_iter().map(Value::Object).collect()))
    }

    /// The list is restricted to paths whose permissions one may change, or all with Sys.Audit on /access (source: pve-access-control,
    /// PVE/API2/ACL.pm, `read_acl`): an empty answer is believed only there.
    pub(crate) fn acl_path(&mut self, path: &str) -> Result<Fact, ApiError> {
        let all = self.fact(&PveKey::Acl)?;
        let all = match &*all {
            Fact::Known(v) => v,
            other => return Ok(other.clone()),
        };
        let list: Vec<Value> = entries(all)
            .filter(|e| text(e, "path") == Some(path))
            .map(|e| Value::Object(pick(e, &["type", "ugid", "roleid", "propagate"])))
            .collect();
        if list.is_empty() {
            let mut sees = false;
            for (on, privileges) in [
                ("/access", &["Sys.Audit"][..]),
                (path, pve::needs::modifies(path)),
            ] {
                if let Fact::Known(p) = &*self.fact(&PveKey::Perms(on.to_owned()))? {
                    sees |= privileges.iter().any(|x| p.get(*x).is_some());
                }
            }
            if !sees {
                return Ok(Fact::Unreadable(format!(
                    "entries of {path} are shown only with Sys.Audit on /access or {} on {path}, which {} lacks",
                    pve::needs::modifies(path).join(" or "),
                    self.who()
                )));
            }
        }
        Ok(Fact::Known(json!(list)))
    }

    pub(crate) fn role(&mut self, role: &str) -> Result<Fact, ApiError> {
        match self.get(&format!("/access/roles/{}", seg(role))) {
            Ok(a) => {
                let privs: Vec<&String> = a
                    .as_object()
                    .into_iter()
                    .flatten()
                    .filter(|(_, v)| wire::truth(Some(v)))
                    .map(|(k, _)| k)
                    .collect();
                Ok(Fact::Known(json!({"privs": privs})))
            }
            Err(ApiError::Refused(r)) if r.says("does not exist") => Ok(Fact::Absent),
            Err(e) => Err(e),
        }
    }

    /// A missing user is told to everybody, an existing one only to auditors (source: pve-access-control, RPCEnvironment.pm,
    /// `userid-group`); the list has oneself in any case.
    pub(crate) fn user(&mut self, userid: &str) -> Result<Fact, ApiError> {
        match self.get(&format!("/access/users/{}", seg(userid))) {
            Ok(a) => {
                let mut o = a.as_object().cloned().unwrap_or_default();
                o.insert("userid".into(), json!(userid));
                Ok(Fact::Known(user(&o)))
            }
            Err(ApiError::Refused(r)) if r.says("no such user") => Ok(Fact::Absent),
            Err(ApiError::Refused(r)) if r.status == 403 => {
                let all = self.fact(&PveKey::Users)?;
                let all = match &*all {
                    Fact::Known(v) => v,
                    other => return Ok(other.clone()),
                };
                let own = entries(all).find(|u| text(u, "userid") == Some(userid));
                Ok(match own {
                    Some(u) => Fact::Known(Value::Object(u.clone())),
                    None => return Err(ApiError::Refused(r)),
                })
            }
            Err(e) => Err(e),
        }
    }

    pub(crate) fn users(&mut self) -> Result<Fact, ApiError> {
        let answer = self.get("/access/users?full=1")?;
        let list = entries(&answer)
            .filter_map(|u| user(u).as_object().cloned())
            .collect();
        Ok(Fact::Known(sorted(list, "userid")))
    }

    pub(crate) fn group(&mut self, group: &str) -> Result<Fact, ApiError> {
        match self.get(&format!("/access/groups/{}", seg(group))) {
            Ok(a) => Ok(Fact::Known(
                json!({"groupid": group, "members": a["members"]}),
            )),
            Err(ApiError::Refused(r)) if r.says("does not exist") => Ok(Fact::Absent),
            Err(e) => Err(e),
        }
    }
}

/// One shape for the two that the server has: the list joins groups by commas and makes a list of the tokens.
fn user(u: &Map<String, Value>) -> Value {
    let mut o = pick(
        u,
        &[
            "userid",
            "expire",
            "firstname",
            "lastname",
            "email",
            "comment",
            "realm-type",
        ],
    );
    let enable = u.get("enable").is_none_or(|e| wire::truth(Some(e)));
    o.insert("enable".into(), json!(enable));
    let mut groups: Vec<String> = match u.get("groups") {
        Some(Value::String(s)) => pve::check::split_list(s).map(str::to_owned).collect(),
        Some(Value::Array(l)) => l
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect(),
        _ => vec![],
    };
    groups.sort_unstable();
    o.insert("groups".into(), json!(groups));
    let token = |id: &str, t: &Map<String, Value>| {
        let mut out = pick(t, &["expire", "comment"]);
        out.insert("tokenid".into(), json!(id));
        let privsep = t.get("privsep").is_none_or(|p| wire::truth(Some(p)));
        out.insert("privsep".into(), json!(privsep));
        out
    };
    let tokens: Vec<Map<String, Value>> = match u.get("tokens") {
        Some(Value::Object(m)) => m
            .iter()
            .filter_map(|(id, t)| Some(token(id, t.as_object()?)))
            .collect(),
        Some(list) => entries(list)
            .filter_map(|t| Some(token(text(t, "tokenid")?, t)))
            .collect(),
        None => vec![],
    };
    o.insert("tokens".into(), sorted(tokens, "tokenid"));
    Value::Object(o)
}
