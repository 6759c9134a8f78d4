//! `/access`.

use crate::connection::Identity;
use crate::error::ApiError;
use crate::live::Live;
use crate::wire;
use plan::Fact;
use serde_json::{Value, json};

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
}
