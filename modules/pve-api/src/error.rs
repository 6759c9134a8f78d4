//! What can go wrong between us and the server, and how people are told.

use plan::{ErrorKind, Failure};
use std::collections::BTreeMap;
use std::error::Error;
use tls::TlsError;

/// An answer that is no success. All texts are trimmed and free of secrets.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{}", self.text())]
pub(crate) struct Refused {
    /// HTTP status.
    pub(crate) status: u16,
    /// The message; the reason phrase where the body is empty (source: docs/pve-facts.md, "Wire format").
    pub(crate) message: String,
    /// Of a 400: parameter to text.
    pub(crate) errors: BTreeMap<String, String>,
}

impl Refused {
    /// The whole text, with every parameter of a 400.
    pub(crate) fn text(&self) -> String {
        if self.errors.is_empty() {
            return self.message.clone();
        }
        let each: Vec<String> = self
            .errors
            .iter()
            .map(|(k, v)| format!("{k}: {v}"))
            .collect();
        format!(
            "{} ({})",
            self.message.trim_end_matches('.'),
            each.join("; ")
        )
    }

    /// Whether any of its texts contains this.
    pub(crate) fn says(&self, part: &str) -> bool {
        self.message.contains(part) || self.errors.values().any(|v| v.contains(part))
    }

    /// No guest of that id and type on that node (it may live on another).
    pub(crate) fn is_missing_guest(&self) -> bool {
        self.says("Configuration file 'nodes/") && self.says("does not exist")
    }
}

/// One failed exchange.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApiError {
    /// Nothing was sent.
    #[error("{base} cannot be reached")]
    Connect {
        base: String,
        #[source]
        source: reqwest::Error,
    },
    /// Nothing was sent: the certificate is not trusted.
    #[error("the certificate of {base} is not trusted: {why}; its SHA-256 fingerprint is {print}")]
    Certificate {
        base: String,
        why: String,
        print: String,
        pinned: bool,
    },
    /// It was sent, and no whole answer came.
    #[error("{base} did not answer")]
    Lost {
        base: String,
        #[source]
        source: reqwest::Error,
        write: bool,
    },
    /// The node that we talk to could not reach, or lost, the node in question.
    #[error("{0}")]
    Proxy(Refused, bool),
    /// The server said no.
    #[error("{0}")]
    Refused(Refused),
    /// An answer that is not Proxmox VE's.
    #[error("{base} answered {status} with what is not a Proxmox VE answer; is api_host right?")]
    Foreign { base: String, status: u16 },
    /// Signing in failed.
    #[error("signing in to {base} as {who} failed")]
    SignIn {
        base: String,
        who: String,
        #[source]
        source: Box<ApiError>,
    },
    /// A second factor is wanted.
    #[error("{0} has a second factor")]
    SecondFactor(String),
    /// The second factor was answered, and the answer refused.
    #[error("the one-time password of {0} was refused")]
    OneTimePassword(String),
    /// The connection's own arguments.
    #[error("{0}")]
    Arguments(String),
    /// TLS.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A fault of ours, or of a planner.
    #[error("{0}")]
    Internal(String),
}

/// The innermost cause: what stands between says only that a request failed, and may show the URL with its parameters.
fn innermost(e: &(dyn Error + 'static)) -> String {
    let mut e = e;
    while let Some(s) = e.source() {
        e = s;
    }
    e.to_string()
}

fn transport(source: &reqwest::Error) -> String {
    match source.source() {
        Some(s) => innermost(s),
        None if source.is_timeout() => "timed out".to_owned(),
        None => "the connection broke".to_owned(),
    }
}

impl ApiError {
    /// The refusal, if the server said no.
    pub(crate) fn refused(&self) -> Option<&Refused> {
        match self {
            ApiError::Refused(r) => Some(r),
            _ => None,
        }
    }

    /// Whether a read may be tried again.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(
            self,
            ApiError::Connect { .. } | ApiError::Lost { .. } | ApiError::Proxy(..)
        )
    }

    /// This level and all below it.
    pub(crate) fn chain(&self) -> String {
        match self {
            ApiError::Connect { source, .. } | ApiError::Lost { source, .. } => {
                format!("{self}: {}", transport(source))
            }
            ApiError::SignIn { source, .. } => source.chain(),
            ApiError::Tls(TlsError::Setup(e)) => format!("{self}: {e}"),
            other => other.to_string(),
        }
    }

    /// As a failure. `what` is `read guest 100`; `who` is `token u@pve!t` or `user u@pve`.
    pub(crate) fn failure(&self, what: &str, who: &str) -> Failure {
        let cause = self.chain();
        let say =
            |kind, advice: &str| Failure::new(kind, format!("unable to {what}: {cause}{advice}"));
        match self {
            ApiError::Connect { .. } => say(
                ErrorKind::Unreachable,
                "; check api_host and api_port, and that the node is up",
            ),
            ApiError::Certificate { print, pinned, .. } => say(
                ErrorKind::Unreachable,
                &if *pinned {
                    format!(
                        "; if the certificate was renewed, set api_fingerprint: {print}, else somebody stands in between"
                    )
                } else {
                    format!(
                        "; if it is the right server, set api_fingerprint: {print}, or ca_path: a copy of the node's /etc/pve/pve-root-ca.pem, or validate_certs: false"
                    )
                },
            ),
            ApiError::Lost { write, .. } => {
                let mut f = say(
                    ErrorKind::Unreachable,
                    if *write {
                        "; whether it was done is not known"
                    } else {
                        "; the node may be overloaded, api_timeout is how long we wait"
                    },
                );
                f.lost_answer = *write;
                f
            }
            ApiError::Proxy(r, write) => {
                let mut f = say(
                    ErrorKind::Unreachable,
                    &format!(
                        " (status {}); check that the node in question is up",
                        r.status
                    ),
                );
                // 595 is an error while connecting; what comes after it may have been received (source: AnyEvent::HTTP(3pm)).
                f.lost_answer = *write && r.status != 595;
                f
            }
            ApiError::Refused(r) => match r.status {
                401 => say(
                    ErrorKind::Auth,
                    &format!("; check the credentials of {who}"),
                ),
                _ => refusal(&r.text(), r.status == 403, what, who),
            },
            ApiError::SignIn { base, who, source } => {
                let what = format!("sign in to {base} as {who}");
                let mut f = match source.refused() {
                    Some(_) => Failure::new(
                        ErrorKind::Auth,
                        format!(
                            "unable to {what}: {cause}; check {}",
                            if who.starts_with("token") {
                                "api_token_id, api_token_secret and whether the token has expired"
                            } else {
                                "api_user (with its realm) and api_password"
                            }
                        ),
                    ),
                    None => source.failure(&what, who),
                };
                f.lost_answer = false;
                f
            }
            ApiError::SecondFactor(_) => say(
                ErrorKind::Auth,
                "; give the one-time password as api_otp, or use an API token",
            ),
            ApiError::OneTimePassword(_) => say(
                ErrorKind::Auth,
                "; give the next one as api_otp, each is good once and for a short while, or use an API token",
            ),
            ApiError::Arguments(_) | ApiError::Tls(_) => say(ErrorKind::InvalidArgs, ""),
            ApiError::Foreign { .. } => say(ErrorKind::Api, ""),
            ApiError::Internal(_) => say(ErrorKind::Internal, "; please report this"),
        }
    }
}

/// A failure for a text of the server's, which may speak of privileges in an answer of any status, or in a task's exit status
/// (source: docs/pve-privileges.md, "Where the denial arrives").
pub(crate) fn refusal(text: &str, denied: bool, what: &str, who: &str) -> Failure {
    if let Some(cause) = missing_privilege(text, who) {
        return Failure::new(ErrorKind::Permission, format!("unable to {what}: {cause}"));
    }
    let root_only = ["only root can ", "Only root can ", "Only root may "]
        .iter()
        .any(|p| text.contains(p));
    let (kind, advice) = if root_only {
        (
            ErrorKind::Permission,
            "; this needs the root@pam login with a password, no API token may do it",
        )
    } else if denied {
        (ErrorKind::Permission, "")
    } else {
        (ErrorKind::Api, "")
    };
    Failure::new(kind, format!("unable to {what}: {text}{advice}"))
}

/// `privilege P is missing on /path for token T; ...` out of `Permission check failed (/path, P)`.
pub(crate) fn missing_privilege(text: &str, who: &str) -> Option<String> {
    let (_, after) = text.split_once("Permission check failed")?;
    let inner = after
        .trim_start()
        .strip_prefix('(')
        .and_then(|t| t.split_once(')'))
        .map(|(i, _)| i.trim());
    let both = if who.starts_with("token") {
        " (a privilege-separated token needs it itself, beside its user: both ACLs count)"
    } else {
        ""
    };
    Some(match inner.and_then(|i| i.split_once(", ")) {
        Some((path, privileges)) if path.starts_with('/') => {
            let privileges = privileges.replace('|', " or ");
            format!(
                "privilege {privileges} is missing on {path} for {who}; give a role with it to {who} on {path}{both}"
            )
        }
        // `(pool 'x' does not exist)` is a 403 that is not about privileges.
        _ => match inner {
            Some(i) if i.contains("need proper ticket") => format!(
                "the server denies it to {who}: {i} Sign in with api_user and api_password for it"
            ),
            Some(i) => format!("the server denies it to {who}: {i}"),
            None => format!(
                "the server denies it to {who} without saying which privilege is missing; see the privileges that the module's documentation lists{both}"
            ),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn privileges_are_named() {
        let f = refusal(
            "Permission check failed (/vms/100, VM.Config.Disk|VM.Allocate)",
            true,
            "change guest 100",
            "token a@pve!t",
        );
        assert_eq!(f.kind, ErrorKind::Permission);
        assert!(f.msg.starts_with("unable to change guest 100: privilege VM.Config.Disk or VM.Allocate is missing on /vms/100 for token a@pve!t"));
        assert!(f.msg.contains("privilege-separated"));
        let nested = "update pools failed: 403 Permission check failed (/vms/1, Permissions.Modify|VM.Allocate)";
        assert_eq!(
            refusal(nested, false, "x", "user a@pve").kind,
            ErrorKind::Permission
        );
        assert_eq!(
            refusal("only root can set 'args' config", false, "x", "u").kind,
            ErrorKind::Permission
        );
        assert_eq!(
            refusal("VM is locked", false, "x", "u").kind,
            ErrorKind::Api
        );
    }
}
