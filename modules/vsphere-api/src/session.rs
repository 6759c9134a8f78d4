//! One session per run: signed in at the first call, signed in again once when it has expired, always signed out.

use crate::connection::Connection;
use crate::error::CallError;
use crate::soap::{Call, Each, Soap};
use plan::{ErrorKind, Failure, MASKED};
use serde_json::{Map, Value, json};
use std::thread::sleep;
use std::time::Duration;
use vsphere::schema::schema;
use vsphere::value::{text, wsdl_ref};

/// Reads are tried so often while the network or the server stumbles.
const TRIES: u32 = 3;

/// The session, and what the server said of itself.
pub(crate) struct Session {
    soap: Soap,
    connection: Connection,
    /// `ServiceContent`, references as pyVmomi prints them.
    content: Value,
    /// Signed in, as far as we know.
    open: bool,
}

impl Session {
    /// Signs in.
    pub(crate) fn open(connection: &Connection) -> Result<Self, Failure> {
        for (given, name) in [
            (
                &connection.host,
                "Hostname parameter is missing. Please specify this parameter in task or export environment variable like 'export VMWARE_HOST=ESXI_HOSTNAME'",
            ),
            (
                &connection.username,
                "Username parameter is missing. Please specify this parameter in task or export environment variable like 'export VMWARE_USER=ESXI_USERNAME'",
            ),
        ] {
            if given.is_empty() {
                return Err(Failure::new(ErrorKind::InvalidArgs, name));
            }
        }
        let mut s = Session {
            soap: Soap::new(connection)?,
            connection: connection.clone(),
            content: Value::Null,
            open: false,
        };
        let what = format!(
            "connect to the vCenter or ESXi API at {}",
            connection.host_port()
        );
        s.content = s
            .patiently(&Call {
                this: "ServiceInstance:ServiceInstance",
                method: "RetrieveServiceContent",
                params: &[],
                shown: None,
                long: false,
            })
            .map_err(|e| e.failure(&what))?;
        if let Some(v) = text(&s.content, "about.apiVersion").map(str::to_owned) {
            s.soap.use_version(&v);
        }
        s.login()?;
        Ok(s)
    }

    fn login(&mut self) -> Result<(), Failure> {
        let c = &self.connection;
        let params = [
            ("userName".to_owned(), json!(c.username)),
            ("password".to_owned(), json!(c.password.reveal())),
            // Stable words in what is shown; nothing is decided on them (docs/vsphere-facts.md section 1).
            ("locale".to_owned(), json!("en_US")),
        ];
        let shown: Map<String, Value> = [
            ("userName", c.username.as_str()),
            ("password", MASKED),
            ("locale", "en_US"),
        ]
        .into_iter()
        .map(|(k, v)| (k.to_owned(), json!(v)))
        .collect();
        let unable = format!(
            "Unable to log on to the vCenter or ESXi API at {} as {}: ",
            c.host_port(),
            c.username
        );
        let manager = self.manager("sessionManager")?;
        self.soap.forget_cookie();
        let call = Call {
            this: &manager,
            method: "Login",
            params: &params,
            shown: Some(shown),
            long: false,
        };
        let done = self.soap.call(&call, &mut |d, _| {
            d.skip()?;
            Ok("UserSession".to_owned())
        });
        match done {
            Ok(()) => {
                self.open = true;
                Ok(())
            }
            // The peers' exact words (docs/peers-vsphere.md section 0).
            Err(e) if e.is("InvalidLogin") => Err(Failure::new(
                ErrorKind::Auth,
                format!("{unable}Login failure"),
            )),
            Err(e) if e.fault().is_some() => {
                Err(Failure::new(ErrorKind::Auth, format!("{unable}{e}")))
            }
            Err(e) => Err(e.failure("sign in")),
        }
    }

    /// What the server says of itself.
    pub(crate) fn about(&self) -> Value {
        self.content.get("about").cloned().unwrap_or(Value::Null)
    }

    /// A manager of the service content as `Type:moid`; ids differ between vCenter and hosts (docs/vsphere-facts.md section 1).
    pub(crate) fn manager(&self, name: &str) -> Result<String, Failure> {
        let missing = || {
            Failure::new(
                ErrorKind::Api,
                format!("this server has no {name}; is it a standalone host?"),
            )
        };
        self.maybe_manager(name).ok_or_else(missing)
    }

    /// The same, `None` where the server has none.
    pub(crate) fn maybe_manager(&self, name: &str) -> Option<String> {
        text(&self.content, name).map(wsdl_ref)
    }

    /// How many calls were sent.
    pub(crate) fn calls(&self) -> usize {
        self.soap.calls
    }

    /// One call; signs in again, once, if the session has expired: a fault of that kind says that nothing was done.
    pub(crate) fn stream(
        &mut self,
        call: &Call<'_>,
        each: &mut Each<'_, String>,
    ) -> Result<(), CallError> {
        match self.soap.call(call, each) {
            Err(e) if e.is("NotAuthenticated") => {
                self.again()?;
                self.soap.call(call, each)
            }
            other => other,
        }
    }

    /// One call without signing in again: for what is bound to the session.
    pub(crate) fn once(
        &mut self,
        call: &Call<'_>,
        each: &mut Each<'_, String>,
    ) -> Result<(), CallError> {
        self.soap.call(call, each)
    }

    /// Signs in again.
    pub(crate) fn again(&mut self) -> Result<(), CallError> {
        self.open = false;
        self.login().map_err(CallError::Other)
    }

    /// One call whose answer is one value (a list where the method answers one).
    pub(crate) fn value(&mut self, call: &Call<'_>) -> Result<Value, CallError> {
        let ty = result_of(call);
        let (item, is_list) = ty.strip_suffix("[]").map_or((ty, false), |t| (t, true));
        let mut out: Vec<Value> = vec![];
        self.stream(call, &mut |d, o| {
            let v = d.value(o, item)?;
            let said = if v.is_string() {
                v.to_string()
            } else {
                item.to_owned()
            };
            out.push(v);
            Ok(said)
        })?;
        Ok(if is_list {
            Value::Array(out)
        } else {
            out.into_iter().next().unwrap_or(Value::Null)
        })
    }

    /// A read: tried again, with growing pauses, while the network or the server stumbles.
    pub(crate) fn patiently(&mut self, call: &Call<'_>) -> Result<Value, CallError> {
        let mut tries = 0;
        loop {
            match self.value(call) {
                Err(e) if e.passing() && tries + 1 < TRIES && !certificate(&e) => {
                    tries += 1;
                    pause(tries);
                }
                other => return other,
            }
        }
    }
}

/// Refused certificates do not mend themselves.
fn certificate(e: &CallError) -> bool {
    matches!(e, CallError::Connect(m) if m.contains("CERTIFICATE_VERIFY_FAILED"))
}

pub(crate) fn pause(tries: u32) {
    sleep(Duration::from_millis(
        200 * u64::from(3_u32.pow(tries.min(4) - 1)),
    ));
}

/// May the same thing be tried once more?
pub(crate) fn worth_another_try(e: &CallError, tries: u32) -> bool {
    e.passing() && tries + 1 < TRIES && !certificate(e)
}

/// The declared result of a method.
fn result_of(call: &Call<'_>) -> &'static str {
    let ty = call.this.split(':').next().unwrap_or("");
    schema()
        .method(ty, call.method)
        .map_or("object", |m| m.result)
}

impl Drop for Session {
    fn drop(&mut self) {
        // Sessions left behind fill the server's limit (docs/vsphere-facts.md section 1).
        if self.open
            && self.soap.has_cookie()
            && let Ok(manager) = self.manager("sessionManager")
        {
            let call = Call {
                this: &manager,
                method: "Logout",
                params: &[],
                shown: None,
                long: false,
            };
            let _ = self.soap.call(&call, &mut |d, _| {
                d.skip()?;
                Ok(String::new())
            });
        }
    }
}
