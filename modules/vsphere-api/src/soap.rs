//! One SOAP call over HTTPS.

use crate::connection::Connection;
use crate::decode::{Decoder, Open};
use crate::encode::envelope;
use crate::error::{CallError, Fault};
use crate::journal::Journal;
use plan::{ErrorKind, Failure};
use reqwest::StatusCode;
use reqwest::blocking::{Client, Response};
use reqwest::header::{CONTENT_TYPE, COOKIE, SET_COOKIE};
use serde_json::{Map, Value, json};
use std::error::Error as _;
use std::io::{BufReader, Read as _};
use std::time::{Duration, Instant};
use tls::Rejected;

/// The session's cookie, on vCenter and on hosts (docs/vsphere-facts.md section 1).
const COOKIE_NAME: &str = "vmware_soap_session";
/// A page of a report may take so many times longer than a short answer.
const PAGE_FACTOR: u32 = 10;
/// Versions that we ask for, the newest that the server has: the lowest that has every property we use. 7.0 knows what backs a
/// distributed portgroup, 6.7 its MAC learning (docs/vsphere-facts.md section 1).
const VERSIONS: [((u32, u32), &str); 3] = [((7, 0), "7.0.0.0"), ((6, 7), "6.7"), ((0, 0), "6.5")];

/// An answer as it streams in.
pub(crate) type Answer = Decoder<BufReader<Response>>;
/// Called for each `returnval`.
pub(crate) type Each<'a, T> = dyn FnMut(&mut Answer, &Open) -> Result<T, CallError> + 'a;

/// What a call is about.
pub(crate) struct Call<'a> {
    /// `Type:moid`.
    pub(crate) this: &'a str,
    /// WSDL name.
    pub(crate) method: &'a str,
    /// As sent.
    pub(crate) params: &'a [(String, Value)],
    /// As the journal shows them; `None`: as sent.
    pub(crate) shown: Option<Map<String, Value>>,
    /// A page of a report.
    pub(crate) long: bool,
}

/// The transport.
pub(crate) struct Soap {
    client: Client,
    rejected: Rejected,
    url: String,
    host_port: String,
    host: String,
    port: u16,
    timeout: Duration,
    cookie: Option<String>,
    action: String,
    journal: Option<Journal>,
    /// How many calls were sent.
    pub(crate) calls: usize,
}

impl Soap {
    pub(crate) fn new(c: &Connection) -> Result<Self, Failure> {
        let args = |m: String| Failure::new(ErrorKind::InvalidArgs, m);
        let (config, rejected) =
            tls::config(&c.trust().map_err(args)?).map_err(|e| args(e.to_string()))?;
        let mut b = Client::builder()
            .use_preconfigured_tls(config)
            .connect_timeout(Duration::from_secs(c.api_timeout_s.max(1)))
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("trueplan/", env!("CARGO_PKG_VERSION")));
        // Only the proxy that was named: what the environment says is for other programs.
        b = match &c.proxy_host {
            Some(h) => {
                let url = format!("http://{h}:{}", c.proxy_port.unwrap_or(8080));
                b.proxy(
                    reqwest::Proxy::all(&url).map_err(|e| args(format!("proxy_host {h}: {e}")))?,
                )
            }
            None => b.no_proxy(),
        };
        Ok(Soap {
            client: b
                .build()
                .map_err(|e| args(format!("no HTTPS client: {e}")))?,
            rejected,
            url: format!("https://{}/sdk", c.host_port()),
            host_port: c.host_port(),
            host: c.host.clone(),
            port: c.port,
            timeout: Duration::from_secs(c.api_timeout_s.max(1)),
            cookie: None,
            action: "urn:vim25/6.5".to_owned(),
            journal: c
                .journal
                .as_deref()
                .map(|p| Journal::open(p, c.password.reveal()))
                .transpose()?,
            calls: 0,
        })
    }

    /// Uses the newest version that we know to be in `apiVersion` (`7.0.3.0`).
    pub(crate) fn use_version(&mut self, api_version: &str) {
        let mut n = api_version
            .split('.')
            .map(|p| p.parse::<u32>().unwrap_or(0));
        let server = (n.next().unwrap_or(0), n.next().unwrap_or(0));
        if let Some((_, v)) = VERSIONS.iter().find(|(least, _)| server >= *least) {
            self.action = format!("urn:vim25/{v}");
        }
    }

    /// Forgets the session.
    pub(crate) fn forget_cookie(&mut self) {
        self.cookie = None;
    }

    /// True while there is a session to be ended.
    pub(crate) fn has_cookie(&self) -> bool {
        self.cookie.is_some()
    }

    /// Sends a call and hands each `returnval` to `each`; the journal gets what that returns.
    pub(crate) fn call(
        &mut self,
        call: &Call<'_>,
        each: &mut Each<'_, String>,
    ) -> Result<(), CallError> {
        let body = envelope(call.this, call.method, call.params).map_err(CallError::Encode)?;
        let started = Instant::now();
        self.calls += 1;
        let mut status = 0;
        let mut said = String::new();
        let done = self.exchange(body, call.long, &mut status, &mut |d, o| {
            let text = each(d, o)?;
            if !said.is_empty() {
                said.push(' ');
            }
            said.push_str(&text);
            Ok(())
        });
        if let Err(e) = &done {
            said = match e {
                CallError::Fault(f) => format!("fault {}: {}", f.ty, f.show()),
                e => e.to_string(),
            };
        }
        if let Some(j) = &mut self.journal {
            let as_sent = || call.params.iter().cloned().collect::<Map<String, Value>>();
            let shown = call.shown.clone().unwrap_or_else(as_sent);
            j.write(
                call.method,
                call.this,
                &shown,
                status,
                &said,
                started.elapsed(),
            );
        }
        done
    }

    fn exchange(
        &mut self,
        body: String,
        long: bool,
        status: &mut u16,
        each: &mut Each<'_, ()>,
    ) -> Result<(), CallError> {
        let timeout = if long {
            self.timeout * PAGE_FACTOR
        } else {
            self.timeout
        };
        let mut request = self
            .client
            .post(&self.url)
            .timeout(timeout)
            .header(CONTENT_TYPE, "text/xml; charset=utf-8")
            .header("SOAPAction", format!("\"{}\"", self.action))
            .body(body);
        if let Some(c) = &self.cookie {
            request = request.header(COOKIE, c);
        }
        let response = request.send().map_err(|e| self.unreachable(&e))?;
        *status = response.status().as_u16();
        for c in response.headers().get_all(SET_COOKIE) {
            let first = c.to_str().unwrap_or("").split(';').next().unwrap_or("");
            if first.split('=').next() == Some(COOKIE_NAME) {
                self.cookie = Some(first.trim().to_owned());
            }
        }
        // A fault comes as 500 with a body that can be read; anything else is no SOAP (docs/vsphere-facts.md section 1).
        if !matches!(
            response.status(),
            StatusCode::OK | StatusCode::INTERNAL_SERVER_ERROR
        ) {
            let code = response.status();
            let mut text = String::new();
            let _ = response.take(300).read_to_string(&mut text);
            let words: Vec<&str> = text.split_whitespace().collect();
            let reason = if words.is_empty() {
                code.canonical_reason().unwrap_or("").to_owned()
            } else {
                words.join(" ")
            };
            return Err(CallError::Status(*status, reason));
        }
        let mut d = Decoder::new(BufReader::with_capacity(64 * 1024, response));
        let no_soap = |what: &str| {
            CallError::Decode(format!(
                "{what}; is there a vCenter or an ESXi host behind {}?",
                self.host_port
            ))
        };
        match d.child()? {
            Some(o) if o.name == "Envelope" => {}
            _ => return Err(no_soap("no SOAP envelope")),
        }
        loop {
            match d.child()? {
                Some(o) if o.name == "Body" => break,
                Some(_) => d.skip()?,
                None => return Err(no_soap("no SOAP body")),
            }
        }
        let Some(top) = d.child()? else {
            return Err(no_soap("an empty SOAP body"));
        };
        if top.name == "Fault" {
            return Err(CallError::Fault(read_fault(&mut d)?));
        }
        while let Some(o) = d.child()? {
            d.reset_limit();
            if o.name == "returnval" {
                each(&mut d, &o)?;
            } else {
                d.skip()?;
            }
        }
        Ok(())
    }

    /// The peers' words for a connection that does not come about (docs/peers-vsphere.md section 0), with ours after them.
    fn unreachable(&self, e: &reqwest::Error) -> CallError {
        if let Some((print, why)) = self.rejected.lock().ok().and_then(|mut r| r.take()) {
            return CallError::Connect(format!(
                "Unable to connect to the vCenter or ESXi API at {} on TCP/{}: the certificate was not accepted (CERTIFICATE_VERIFY_FAILED): {why}; \
                 give the CA's certificate as ca_path (VMWARE_CA_PATH), or, if {print} is its right SHA-256, that as thumbprint (VMWARE_THUMBPRINT), \
                 or, where nobody can listen in, validate_certs: false",
                self.host, self.port
            ));
        }
        let mut cause = e.to_string();
        let mut at = e.source();
        while let Some(s) = at {
            cause = s.to_string();
            at = s.source();
        }
        if e.is_timeout() {
            cause = format!("no answer within the time given ({cause})");
        }
        if e.is_connect() || e.is_builder() {
            CallError::Connect(format!(
                "Unknown error while connecting to the vCenter or ESXi API at {} : {cause}; check hostname, port and proxy_host",
                self.host_port
            ))
        } else {
            CallError::Lost(format!(
                "the connection to {} was lost: {cause}",
                self.host_port
            ))
        }
    }
}

fn read_fault(d: &mut Answer) -> Result<Fault, CallError> {
    let (mut text, mut fields) = (String::new(), json!({}));
    while let Some(o) = d.child()? {
        match o.name.as_str() {
            "faultstring" => text = d.text()?,
            "detail" => {
                while let Some(f) = d.child()? {
                    fields = d.fault(&f)?;
                }
            }
            _ => d.skip()?,
        }
    }
    Ok(Fault::new(fields, text.trim()))
}
