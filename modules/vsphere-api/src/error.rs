//! What a call can end with, and what that means to a run.

use crate::decode::DecodeError;
use crate::encode::EncodeError;
use plan::{ErrorKind, Failure};
use serde_json::Value;
use vsphere::value::{list, moid, moid_at, text};

/// A fault of the server, decided on by its type only: texts are localised (docs/vsphere-facts.md section 1).
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// WSDL type, such as `InvalidPowerState`.
    pub ty: String,
    /// Its fields.
    pub fields: Value,
    /// What the server says in words.
    pub text: String,
}

/// Why a call has no answer.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// Nothing was sent.
    #[error("{0}")]
    Connect(String),
    /// It was sent, and it is not known what became of it.
    #[error("{0}")]
    Lost(String),
    /// The server's fault.
    #[error("{}", .0.show())]
    Fault(Fault),
    /// No SOAP at all: a proxy, a server that is overloaded, another service.
    #[error("the server answered HTTP {0}: {1}")]
    Status(u16, String),
    /// An answer that cannot be read.
    #[error("the answer cannot be read: {0}")]
    Decode(String),
    /// A request of ours that does not fit the API.
    #[error("the request does not fit the API: {0}")]
    Encode(#[source] EncodeError),
    /// A failure met elsewhere (a sink that cannot be written).
    #[error("{}", .0.msg)]
    Other(Failure),
}

impl Fault {
    /// From the fields of a fault and the text beside it.
    pub fn new(fields: Value, text: &str) -> Fault {
        let class = text_class(&fields);
        let own = vsphere::value::text(&fields, "msg").filter(|m| !m.is_empty());
        Fault {
            ty: class,
            text: if text.is_empty() {
                own.unwrap_or("").to_owned()
            } else {
                text.to_owned()
            },
            fields,
        }
    }

    /// In words; the type where there are none.
    pub fn show(&self) -> String {
        crate::decode::cut(if self.text.is_empty() {
            &self.ty
        } else {
            &self.text
        })
    }

    /// Which privileges are missing, on which object; both may be unknown.
    fn missing(&self) -> String {
        // `privilegeId` is deprecated from 8.0, the list may be the only filled part (docs/vsphere-facts.md section 1).
        let mut all: Vec<String> = vec![];
        for e in list(&self.fields, "missingPrivileges") {
            let on = moid_at(e, "entity").unwrap_or("?");
            let ids: Vec<&str> = list(e, "privilegeIds")
                .iter()
                .filter_map(Value::as_str)
                .collect();
            all.push(format!("{} on {on}", ids.join(", ")));
        }
        if all.is_empty()
            && let Some(p) = text(&self.fields, "privilegeId").filter(|p| !p.is_empty())
        {
            all.push(format!(
                "{p} on {}",
                moid_at(&self.fields, "object").unwrap_or("?")
            ));
        }
        if all.is_empty() {
            "a privilege is missing; the server does not say which".to_owned()
        } else {
            format!("missing: {}", all.join("; "))
        }
    }
}

/// The WSDL name of a decoded fault.
fn text_class(fields: &Value) -> String {
    let vim = text(fields, "_vimtype").unwrap_or("");
    vsphere::schema::schema().any(vim).map_or_else(
        || vim.rsplit('.').next().unwrap_or(vim).to_owned(),
        |t| t.name.to_owned(),
    )
}

impl From<DecodeError> for CallError {
    fn from(e: DecodeError) -> Self {
        match e {
            DecodeError::Read(io) if io.kind() != std::io::ErrorKind::InvalidData => {
                CallError::Lost(format!("the answer broke off: {io}"))
            }
            DecodeError::Read(io) => CallError::Decode(io.to_string()),
            e => CallError::Decode(e.to_string()),
        }
    }
}

impl CallError {
    /// The fault's type, if it is a fault.
    pub fn fault(&self) -> Option<&Fault> {
        match self {
            CallError::Fault(f) => Some(f),
            _ => None,
        }
    }

    /// True if it is a fault of exactly that type.
    pub fn is(&self, ty: &str) -> bool {
        self.fault().is_some_and(|f| f.ty == ty)
    }

    /// True if the same read may well succeed a moment later.
    pub(crate) fn passing(&self) -> bool {
        matches!(
            self,
            CallError::Connect(_) | CallError::Lost(_) | CallError::Status(502..=504, _)
        )
    }

    /// As a failure of a run; `what` is the verb and its object, such as `power off vm-12`.
    pub fn failure(self, what: &str) -> Failure {
        let unable = |cause: &str| format!("unable to {what}: {cause}");
        match self {
            CallError::Other(f) => f,
            CallError::Connect(m) => Failure::new(ErrorKind::Unreachable, m),
            CallError::Lost(m) => {
                let mut f = Failure::new(ErrorKind::Unreachable, unable(&m));
                f.lost_answer = true;
                f
            }
            CallError::Status(..) => {
                Failure::new(ErrorKind::Unreachable, unable(&self.to_string()))
            }
            CallError::Decode(_) => {
                let mut f = Failure::new(ErrorKind::Api, unable(&self.to_string()));
                // It was carried out, or it was not: nobody can read which.
                f.lost_answer = true;
                f
            }
            CallError::Encode(_) => Failure::new(ErrorKind::Internal, unable(&self.to_string())),
            CallError::Fault(f) => fault(&f, what),
        }
    }
}

fn fault(f: &Fault, what: &str) -> Failure {
    let unable = |cause: String| format!("unable to {what}: {cause}");
    let made = match f.ty.as_str() {
        // Before its base NoPermission.
        "NotAuthenticated" => Failure::new(
            ErrorKind::Auth,
            unable("the session is not signed in (any more)".to_owned()),
        ),
        "NoPermission" => Failure::new(
            ErrorKind::Permission,
            unable(format!("{}; give the user that privilege", f.missing())),
        ),
        "InvalidLogin" | "PasswordExpired" | "AccountLocked" => {
            Failure::new(ErrorKind::Auth, unable(f.show()))
        }
        "ManagedObjectNotFound" => Failure::new(ErrorKind::NotFound, unable(f.show())),
        "TaskInProgress" => {
            let task = moid_at(&f.fields, "task").unwrap_or("").to_owned();
            Failure::new(
                ErrorKind::Conflict,
                unable(format!("task {task} is already in progress on it")),
            )
            .with("task", task)
            .replan()
        }
        "InvalidProperty" => {
            let name = text(&f.fields, "name").unwrap_or("?").to_owned();
            Failure::new(
                ErrorKind::InvalidArgs,
                unable(format!("this server has no property {name}")),
            )
        }
        "QuestionPending" => {
            let q = text(&f.fields, "text").unwrap_or("").to_owned();
            Failure::new(
                ErrorKind::Refused,
                unable(format!(
                    "it waits for an answer: \"{q}\"; answer it in vCenter"
                )),
            )
        }
        // A free licence of a standalone host refuses every change (docs/vsphere-facts.md section 1).
        "RestrictedVersion" => Failure::new(
            ErrorKind::Api,
            unable(format!(
                "{}; the host's licence does not allow changes by API",
                f.show()
            )),
        ),
        _ => Failure::new(ErrorKind::Api, unable(f.show())),
    };
    made.with("fault", f.ty.clone())
}

/// The failure of a task that ended badly, from its info.
pub(crate) fn task_failed(moid_of_task: &str, info: &Value, what: &str) -> Failure {
    let f = Fault::new(info.get("error").cloned().unwrap_or(Value::Null), "");
    let cause = if f.ty.is_empty() {
        "the server does not say why".to_owned()
    } else {
        f.show()
    };
    let mut made = Failure::new(
        ErrorKind::TaskFailed,
        format!("unable to {what}: task {moid_of_task} failed: {cause}"),
    );
    if f.ty == "NoPermission" {
        made = Failure::new(
            ErrorKind::Permission,
            format!(
                "unable to {what}: task {moid_of_task} failed: {}",
                f.missing()
            ),
        );
    }
    if let Some(r) = text(&f.fields, "task") {
        made = made.with("blocked_by", moid(r));
    }
    made.with("task", moid_of_task).with("fault", f.ty)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn made(fields: Value) -> Failure {
        CallError::Fault(Fault::new(fields, "localised words")).failure("do it")
    }

    #[test]
    fn faults_are_told_by_their_type() {
        let f = made(
            json!({"_vimtype": "vim.fault.NoPermission", "privilegeId": null,
            "missingPrivileges": [{"entity": "vim.VirtualMachine:vm-1", "privilegeIds": ["VirtualMachine.Interact.PowerOff"]}]}),
        );
        assert_eq!(f.kind, ErrorKind::Permission);
        assert!(
            f.msg.contains("VirtualMachine.Interact.PowerOff on vm-1"),
            "{}",
            f.msg
        );
        let f = made(json!({"_vimtype": "vim.fault.TaskInProgress", "task": "vim.Task:task-7"}));
        assert!(f.replan && f.extra["task"] == "task-7", "{f:?}");
        let f = made(json!({"_vimtype": "vim.fault.NotAuthenticated"}));
        assert_eq!(f.kind, ErrorKind::Auth);
        let f = made(json!({"_vimtype": "vim.fault.SomethingElse"}));
        assert_eq!(
            (f.kind, f.msg.as_str()),
            (ErrorKind::Api, "unable to do it: localised words")
        );
        assert!(CallError::Lost("x".into()).failure("do it").lost_answer);
    }
}
