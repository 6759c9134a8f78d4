//! One signed-in connection: requests, tickets, retries.

use crate::ahead::LANES;
use crate::connection::{Connection, Identity};
use crate::error::{ApiError, Refused};
use crate::journal::{self, Journal, Line};
use crate::wire;
use hyper::ext::ReasonPhrase;
use plan::MASKED;
use reqwest::blocking::{Client, Response};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tls::Rejected;

/// Reads are tried that often.
const TRIES: u32 = 3;
/// A write may take that many times as long as a read.
const WRITE_FACTOR: u32 = 4;
/// Secrets of at least that many characters are searched for in all texts.
const SEARCHED: usize = 8;

/// One parameter as it is sent.
#[derive(Clone)]
pub(crate) struct Param {
    pub(crate) name: String,
    pub(crate) text: String,
    /// For the journal.
    pub(crate) shown: Value,
    pub(crate) secret: bool,
}

impl Param {
    pub(crate) fn plain(name: &str, text: impl Into<String>) -> Self {
        let text = text.into();
        Param {
            name: name.to_owned(),
            shown: json!(text),
            text,
            secret: false,
        }
    }

    pub(crate) fn secret(name: &str, text: impl Into<String>) -> Self {
        Param {
            name: name.to_owned(),
            text: text.into(),
            shown: json!(MASKED),
            secret: true,
        }
    }
}

enum Auth {
    /// The header's value.
    Token(String),
    Ticket {
        ticket: String,
        csrf: String,
        since: Instant,
    },
}

/// A connection that is signed in. Several threads may read by it at once ([`Session::glance`]); only the run's own thread signs in,
/// renews, retries and writes.
pub(crate) struct Session {
    connection: Connection,
    base: String,
    identity: Identity,
    client: Client,
    rejected: Rejected,
    auth: Mutex<Option<Arc<Auth>>>,
    journal: Option<Journal>,
    secrets: Mutex<Vec<String>>,
}

impl Session {
    /// Connects and signs in; a token needs no request for that.
    pub(crate) fn open(connection: &Connection) -> Result<Session, ApiError> {
        let address = connection.address().map_err(ApiError::Arguments)?;
        let identity = connection.identity().map_err(ApiError::Arguments)?;
        let (config, rejected) = tls::config(&connection.trust().map_err(ApiError::Arguments)?)?;
        let timeout = Duration::from_secs(connection.timeout_s.max(1));
        let mut builder = Client::builder()
            .use_preconfigured_tls(config)
            .http1_only()
            .connect_timeout(timeout)
            .redirect(reqwest::redirect::Policy::none())
            .pool_max_idle_per_host(LANES)
            // The server closes idle connections after 5 s (source: pve-http-server, AnyEvent.pm, `timeout => 5`); to be ahead of it
            // spares a write that meets a closing connection, of which nobody could say whether it was received.
            .pool_idle_timeout(Duration::from_secs(4))
            .user_agent(concat!("trueplan/", env!("CARGO_PKG_VERSION")));
        if address.is_loopback() {
            builder = builder.no_proxy();
        }
        let client = builder
            .build()
            .map_err(|e| ApiError::Internal(format!("no HTTP client: {}", e.without_url())))?;
        let journal = connection
            .journal
            .as_deref()
            .map(Journal::open)
            .transpose()?;
        let session = Session {
            connection: connection.clone(),
            base: address.base(),
            identity,
            client,
            rejected,
            auth: Mutex::new(None),
            journal,
            secrets: Mutex::new(vec![]),
        };
        for s in [
            &connection.password,
            &connection.token_secret,
            &connection.otp,
        ]
        .into_iter()
        .flatten()
        {
            session.keep_secret(s.reveal());
        }
        match &session.identity {
            Identity::Token { user, token } => {
                let secret = connection.token_secret.as_ref().map_or("", |s| s.reveal());
                let header = format!("PVEAPIToken={user}!{token}={secret}");
                session.signed_in(Auth::Token(header));
            }
            Identity::User(_) => session.sign_in()?,
        }
        Ok(session)
    }

    pub(crate) fn who(&self) -> String {
        self.identity.describe()
    }

    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Texts of 8 characters and more are searched for in errors and in the journal from now on.
    pub(crate) fn keep_secret(&self, text: &str) {
        let mut s = lock(&self.secrets);
        if text.len() >= SEARCHED && !s.iter().any(|k| k == text) {
            s.push(text.to_owned());
        }
    }

    /// The text without any known secret, also as it is written within JSON or a URL.
    pub(crate) fn scrub(&self, text: &str) -> String {
        let mut t = text.to_owned();
        for s in lock(&self.secrets).iter() {
            let quoted = json!(s).to_string();
            // Without the two quotes around it; a secret may itself begin or end with one.
            let escaped = &quoted[1..quoted.len() - 1];
            for form in [s.as_str(), escaped, wire::encode(s).as_str()] {
                if t.contains(form) {
                    t = t.replace(form, MASKED);
                }
            }
        }
        t
    }

    /// A read: retried while the fault is passing, with a growing pause.
    pub(crate) fn get(&self, path: &str) -> Result<Value, ApiError> {
        let mut pause = Duration::from_millis(200);
        let mut tries = 1;
        loop {
            match self.call("GET", path, &[]) {
                Err(e) if e.is_passing() && tries < TRIES => {
                    std::thread::sleep(pause);
                    pause *= 3;
                    tries += 1;
                }
                other => return other,
            }
        }
    }

    /// A read by what we are signed in with now, sent once and not mended in any way: what fails is read again by [`Session::get`].
    /// For several threads at once.
    pub(crate) fn glance(&self, path: &str) -> Result<Value, ApiError> {
        match self.auth() {
            Some(auth) => self.once("GET", path, &[], Some(&auth)),
            None => Err(ApiError::Internal("not signed in".to_owned())),
        }
    }

    /// No lock is held while something is sent.
    fn auth(&self) -> Option<Arc<Auth>> {
        lock(&self.auth).clone()
    }

    fn signed_in(&self, auth: Auth) {
        *lock(&self.auth) = Some(Arc::new(auth));
    }

    /// One request, sent once; sent again only after a 401 that a new ticket mends, since then nothing was done.
    pub(crate) fn call(
        &self,
        method: &str,
        path: &str,
        params: &[Param],
    ) -> Result<Value, ApiError> {
        let old = matches!(self.auth().as_deref(), Some(Auth::Ticket { since, .. }) if since.elapsed() >= self.connection.renew_after);
        if old {
            self.renew()?;
        }
        match self.once(method, path, params, self.auth().as_deref()) {
            Err(ApiError::Refused(r))
                if r.status == 401 && matches!(self.identity, Identity::User(_)) =>
            {
                self.renew()?;
                self.once(method, path, params, self.auth().as_deref())
            }
            other => other,
        }
    }

    /// A new ticket for the old one; with the password if that is refused (the ticket may have expired).
    fn renew(&self) -> Result<(), ApiError> {
        let old = lock(&self.auth).take();
        // A one-time password cannot be replayed, a ticket stands for both factors.
        let renewed = match old.as_deref() {
            Some(Auth::Ticket { ticket, .. }) => Some(self.ticket(ticket, None, None)),
            _ => None,
        };
        match renewed {
            Some(Ok(auth)) => {
                self.signed_in(auth);
                Ok(())
            }
            Some(Err(e)) if e.refused().is_none() => Err(self.sign_in_failed(e)),
            _ => self.sign_in(),
        }
    }

    fn sign_in_failed(&self, e: ApiError) -> ApiError {
        ApiError::SignIn {
            base: self.base.clone(),
            who: self.who(),
            source: Box::new(e),
        }
    }

    fn sign_in(&self) -> Result<(), ApiError> {
        let password = self.connection.password.as_ref().map_or("", |s| s.reveal());
        let otp = self.connection.otp.as_ref().map(|s| s.reveal());
        let mut tries = 1;
        let auth = loop {
            match self.ticket(password, otp, None) {
                // Not sent, so that nothing is replayed.
                Err(ApiError::Connect { .. }) if tries < TRIES => {
                    std::thread::sleep(Duration::from_millis(200) * tries);
                    tries += 1;
                }
                Err(e) => return Err(self.sign_in_failed(e)),
                Ok(auth) => break auth,
            }
        };
        self.signed_in(auth);
        Ok(())
    }

    /// POST /access/ticket. With a second factor the first answer is a challenge, answered by a second request.
    fn ticket(
        &self,
        password: &str,
        otp: Option<&str>,
        challenge: Option<&str>,
    ) -> Result<Auth, ApiError> {
        let Identity::User(user) = &self.identity else {
            return Err(ApiError::Internal("a token needs no ticket".to_owned()));
        };
        let mut params = vec![
            Param::plain("username", user.as_str()),
            Param::secret("password", password),
        ];
        if let Some(c) = challenge {
            params.push(Param::secret("tfa-challenge", c));
        }
        let answer = self.once("POST", "/access/ticket", &params, None)?;
        let text = |k: &str| answer.get(k).and_then(Value::as_str).map(str::to_owned);
        let foreign = || ApiError::Foreign {
            base: self.base.clone(),
            status: 200,
        };
        let ticket = text("ticket").ok_or_else(foreign)?;
        self.keep_secret(&ticket);
        if wire::truth(answer.get("NeedTFA")) || ticket.starts_with("PVE:!tfa!") {
            return match otp {
                Some(o) if challenge.is_none() => {
                    let answer = self.ticket(&format!("totp:{o}"), None, Some(&ticket));
                    answer.map_err(|e| match e {
                        ApiError::Refused(r) if r.status == 401 => {
                            ApiError::OneTimePassword(self.who())
                        }
                        e => e,
                    })
                }
                _ => Err(ApiError::SecondFactor(self.who())),
            };
        }
        let csrf = text("CSRFPreventionToken").ok_or_else(foreign)?;
        self.keep_secret(&csrf);
        Ok(Auth::Ticket {
            ticket,
            csrf,
            since: Instant::now(),
        })
    }

    fn once(
        &self,
        method: &str,
        path: &str,
        params: &[Param],
        auth: Option<&Auth>,
    ) -> Result<Value, ApiError> {
        for p in params.iter().filter(|p| p.secret) {
            self.keep_secret(&p.text);
        }
        let form = wire::form(params.iter().map(|p| (p.name.as_str(), p.text.as_str())));
        let write = method != "GET";
        let mut url = format!("{}/api2/json{path}", self.base);
        // A DELETE with a body is answered 501 (source: docs/pve-facts.md, "Wire format").
        let in_query = matches!(method, "GET" | "DELETE");
        if in_query && !form.is_empty() {
            url.push(if url.contains('?') { '&' } else { '?' });
            url.push_str(&form);
        }
        let verb = reqwest::Method::from_bytes(method.as_bytes())
            .map_err(|_| ApiError::Internal(format!("'{method}' is not an HTTP method")))?;
        let mut timeout = Duration::from_secs(self.connection.timeout_s.max(1));
        if write {
            timeout *= WRITE_FACTOR + 1;
        }
        let mut request = self.client.request(verb, &url).timeout(timeout);
        if !in_query {
            request = request
                .header("Content-Type", "application/x-www-form-urlencoded")
                .body(form);
        }
        match auth {
            Some(Auth::Token(header)) => request = request.header("Authorization", header),
            Some(Auth::Ticket { ticket, csrf, .. }) => {
                request =
                    request.header("Cookie", format!("PVEAuthCookie={}", wire::encode(ticket)));
                if write {
                    request = request.header("CSRFPreventionToken", csrf);
                }
            }
            None => {}
        }
        let started = Instant::now();
        let result = request
            .send()
            .map_err(|e| self.transport(e, write))
            .and_then(|r| self.answer(r, write));
        if let Some(j) = &self.journal {
            let shown: Map<String, Value> = params
                .iter()
                .map(|p| {
                    let shown = if journal::secret_name(&p.name) {
                        json!(MASKED)
                    } else {
                        match &p.shown {
                            Value::String(s) => json!(self.scrub(s)),
                            other => other.clone(),
                        }
                    };
                    (p.name.clone(), shown)
                })
                .collect();
            let (status, answer) = match &result {
                Ok(v) => (200, self.scrub(&v.to_string())),
                Err(ApiError::Refused(r) | ApiError::Proxy(r, _)) => {
                    (r.status, self.scrub(&r.text()))
                }
                Err(e) => (0, self.scrub(&e.chain())),
            };
            j.write(Line {
                method,
                path: &self.scrub(path),
                params: shown,
                status,
                answer,
                ms: started.elapsed().as_millis(),
            });
        }
        result
    }

    fn transport(&self, e: reqwest::Error, write: bool) -> ApiError {
        let e = e.without_url();
        let base = self.base.clone();
        if !e.is_connect() {
            return ApiError::Lost {
                base,
                source: e,
                write,
            };
        }
        match self.rejected.lock().ok().and_then(|mut r| r.take()) {
            Some((print, why)) => ApiError::Certificate {
                base,
                why,
                print,
                pinned: self.connection.fingerprint.is_some(),
            },
            None => ApiError::Connect { base, source: e },
        }
    }

    fn answer(&self, response: Response, write: bool) -> Result<Value, ApiError> {
        let status = response.status();
        let reason = response
            .extensions()
            .get::<ReasonPhrase>()
            .map(|r| String::from_utf8_lossy(r.as_bytes()).into_owned())
            .or_else(|| status.canonical_reason().map(str::to_owned))
            .unwrap_or_default();
        let body = response.bytes().map_err(|e| ApiError::Lost {
            base: self.base.clone(),
            source: e.without_url(),
            write,
        })?;
        let parsed: Option<Value> = serde_json::from_slice(&body).ok();
        let foreign = || ApiError::Foreign {
            base: self.base.clone(),
            status: status.as_u16(),
        };
        if status.is_success() {
            return match parsed {
                Some(Value::Object(mut o)) => Ok(o.remove("data").unwrap_or(Value::Null)),
                _ => Err(foreign()),
            };
        }
        if status.is_redirection() {
            return Err(foreign());
        }
        let clean = |t: &str| self.scrub(&wire::trim_perl(t));
        let said = parsed
            .as_ref()
            .and_then(|v| v.get("message"))
            .and_then(Value::as_str)
            .map(str::trim)
            .filter(|m| !m.is_empty())
            .unwrap_or(&reason);
        let message = match clean(said) {
            m if m.is_empty() => format!("status {}", status.as_u16()),
            m => m,
        };
        let errors: BTreeMap<String, String> = parsed
            .as_ref()
            .and_then(|v| v.get("errors"))
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .map(|(k, v)| {
                let text = v.as_str().map_or_else(|| v.to_string(), str::to_owned);
                (k.clone(), clean(&text))
            })
            .collect();
        let refused = Refused {
            status: status.as_u16(),
            message,
            errors,
        };
        Err(if (595..=599).contains(&refused.status) {
            ApiError::Proxy(refused, write)
        } else {
            ApiError::Refused(refused)
        })
    }
}

/// What is behind these locks is whole after each statement, so that a thread that panicked left it whole.
fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}
