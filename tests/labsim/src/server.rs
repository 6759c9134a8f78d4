//! The two HTTPS servers: TLS, framing, faults and log around the sites.
use crate::faults::{Do, Faults};
use crate::http::{Kind, Req, Resp, Site};
use crate::log::{self, Entry, Log};
use crate::{control, pve, tls, vcenter, world};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::ext::ReasonPhrase;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// Everything the two servers share.
pub struct Servers {
    /// The Proxmox VE side.
    pub pve: Arc<dyn Site>,
    /// The vCenter side.
    pub vcenter: Arc<dyn Site>,
    /// The request log.
    pub log: Log,
    /// The fault rules.
    pub faults: Faults,
    /// The world the program started with.
    pub world: Value,
    /// The state folder.
    pub dir: PathBuf,
    started: Instant,
}

/// How to start: what `labsim serve` takes.
#[derive(Clone, Debug)]
pub struct Options {
    /// The world; its `seed` holds unless `seed` is given.
    pub world: Value,
    /// Where the Proxmox side listens; loopback only, port 0 for any.
    pub pve: SocketAddr,
    /// Where the vCenter side listens.
    pub vcenter: SocketAddr,
    /// The state folder: `storage/`, `export/`, `ca.pem`, `lab.json`.
    pub dir: PathBuf,
    /// The request log.
    pub log: PathBuf,
    /// The seed.
    pub seed: Option<u64>,
}

/// A running lab; it ends with the runtime it was started on.
pub struct Running {
    /// What was written to `lab.json`.
    pub lab: Value,
    /// The shared state.
    pub servers: Arc<Servers>,
}

/// Builds both sites, binds both ports, writes `DIR/lab.json` and serves in the background of the present tokio runtime.
/// Errors: an address that is not loopback or not free, a wrong world, an unwritable folder.
pub async fn start(opts: Options) -> Result<Running, String> {
    for addr in [opts.pve, opts.vcenter] {
        if !addr.ip().is_loopback() {
            return Err(format!(
                "{addr} is not a loopback address; labsim serves nobody else"
            ));
        }
    }
    let dir = &opts.dir;
    for folder in ["storage", "export"] {
        world::empty_folder(&dir.join(folder))?;
    }
    let seed = opts
        .seed
        .or_else(|| opts.world["seed"].as_u64())
        .unwrap_or(1);
    let faults = Faults::default();
    faults.add(&opts.world["faults"])?;
    let servers = Arc::new(Servers {
        vcenter: Arc::new(vcenter::Vcenter::new(&opts.world["vcenter"], dir, seed)?),
        pve: Arc::new(pve::Pve::new(&opts.world["pve"], dir, seed)?),
        log: Log::open(&opts.log)?,
        faults,
        world: opts.world.clone(),
        dir: dir.clone(),
        started: Instant::now(),
    });
    let ca = dir.join("ca.pem");
    let mut leaves = tls::make(&ca, &["labsim pve", "labsim vcenter"])?.into_iter();
    let mut lab = json!({"seed": seed, "ca": absolute(&ca)});
    for (side, addr) in [("pve", opts.pve), ("vcenter", opts.vcenter)] {
        let leaf = leaves.next().ok_or("no certificate")?;
        let listener = TcpListener::bind(addr)
            .await
            .map_err(|e| format!("{side} {addr}: {e}"))?;
        let bound = listener.local_addr().map_err(|e| e.to_string())?;
        lab[side] = json!(bound.to_string());
        lab[format!("fingerprint_{side}")] = json!(leaf.fingerprint);
        tokio::spawn(accept(
            listener,
            TlsAcceptor::from(leaf.config),
            servers.clone(),
            side,
        ));
    }
    let (file, part) = (dir.join("lab.json"), dir.join("lab.json.part"));
    // Renamed into place: whoever waits for the file finds it whole.
    std::fs::write(&part, format!("{lab:#}\n"))
        .and_then(|()| std::fs::rename(&part, &file))
        .map_err(|e| format!("{}: {e}", file.display()))?;
    Ok(Running { lab, servers })
}

fn absolute(path: &Path) -> String {
    path.canonicalize()
        .unwrap_or_else(|_| path.to_path_buf())
        .display()
        .to_string()
}

async fn accept(
    listener: TcpListener,
    tls: TlsAcceptor,
    servers: Arc<Servers>,
    side: &'static str,
) {
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(_) => {
                // Out of descriptors, most likely: wait for some to be closed.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let (tls, servers) = (tls.clone(), servers.clone());
        tokio::spawn(async move {
            // Without this every small answer on a kept connection waits for the client's delayed acknowledgement.
            let _ = stream.set_nodelay(true);
            let Ok(stream) = tls.accept(stream).await else {
                return;
            };
            let service = service_fn(move |req| serve(servers.clone(), side, req));
            // An error here is a connection that ended: the client's doing, or a fault rule's.
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

/// A connection closed on purpose.
#[derive(Debug)]
struct Dropped;
impl std::fmt::Display for Dropped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("dropped by a fault rule")
    }
}
impl std::error::Error for Dropped {}

async fn serve(
    servers: Arc<Servers>,
    side: &'static str,
    req: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Box<dyn std::error::Error + Send + Sync>> {
    let (parts, body) = req.into_parts();
    let body = body.collect().await?.to_bytes().to_vec();
    let req = Req {
        method: parts.method.as_str().to_string(),
        path: parts.uri.path().to_string(),
        query: parts.uri.query().unwrap_or("").to_string(),
        headers: parts
            .headers
            .iter()
            .map(|(n, v)| {
                (
                    n.as_str().to_string(),
                    String::from_utf8_lossy(v.as_bytes()).into_owned(),
                )
            })
            .collect(),
        body,
    };
    let answer = tokio::task::spawn_blocking(move || respond(&servers, side, &req)).await?;
    frame(answer.ok_or(Dropped)?)
}

/// Answers a request with faults and log; `None` closes the connection.
pub fn respond(servers: &Servers, side: &'static str, req: &Req) -> Option<Resp> {
    let site = if side == "pve" {
        &servers.pve
    } else {
        &servers.vcenter
    };
    if side == "pve"
        && let Some(resp) = control::handle(servers, req)
    {
        return Some(resp);
    }
    let begun = Instant::now();
    let operation = soap_operation(&req.body);
    let write = site.kind(req) == Kind::Write;
    let fault = servers
        .faults
        .strike(side, &req.method, &operation, &req.path, write);
    let mut entry = Entry {
        side,
        method: req.method.clone(),
        path: req.path.clone(),
        params: log::params(
            &req.query,
            req.header("content-type").unwrap_or(""),
            &req.body,
        ),
        t_ms: servers.started.elapsed().as_millis() as u64,
        ..Entry::default()
    };
    let (resp, note) = match &fault {
        Some(Do::Drop) => (None, "fault: drop"),
        Some(Do::Answer {
            status,
            reason,
            body,
        }) => {
            let kind = if body.first() == Some(&b'{') {
                "application/json;charset=UTF-8"
            } else {
                "text/xml; charset=utf-8"
            };
            let resp = Resp {
                status: *status,
                reason: reason.clone(),
                headers: vec![("content-type".into(), kind.into())],
                body: body.clone(),
                kind: site.kind(req),
                note: operation.clone(),
                ..Resp::default()
            };
            (Some(resp), "fault: answer")
        }
        Some(Do::Delay(ms)) => {
            std::thread::sleep(Duration::from_millis(*ms));
            (Some(site.handle(req)), "fault: delay")
        }
        Some(Do::DropAfter) => (Some(site.handle(req)), "fault: drop_after"),
        Some(Do::AnswerLate(_)) => (Some(site.handle(req)), "fault: answer_after"),
        None => (Some(site.handle(req)), ""),
    };
    let dropped = matches!(fault, Some(Do::Drop | Do::DropAfter));
    entry.kind = resp.as_ref().map_or_else(|| site.kind(req), |r| r.kind);
    entry.user = resp.as_ref().map(|r| r.user.clone()).unwrap_or_default();
    entry.status = if dropped {
        0
    } else {
        resp.as_ref().map_or(0, |r| r.status)
    };
    let own = resp.as_ref().map_or(operation, |r| r.note.clone());
    entry.note = [own.as_str(), note]
        .iter()
        .filter(|s| !s.is_empty())
        .copied()
        .collect::<Vec<_>>()
        .join("; ");
    entry.ms = begun.elapsed().as_millis() as u64;
    servers.log.add(&entry);
    // It is done and counted: whoever looks at the lab sees it before its sender does.
    if let Some(Do::AnswerLate(ms)) = fault {
        std::thread::sleep(Duration::from_millis(ms));
    }
    if dropped { None } else { resp }
}

/// The name of the first element in a SOAP body; empty for anything else.
fn soap_operation(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(4096)]);
    let Some(at) = text.find("Body") else {
        return String::new();
    };
    let rest = text[at..]
        .split_once('>')
        .map_or("", |(_, r)| r)
        .trim_start();
    let Some(element) = rest.strip_prefix('<') else {
        return String::new();
    };
    let name: String = element
        .chars()
        .take_while(|c| c.is_alphanumeric() || matches!(c, '_' | ':' | '-'))
        .collect();
    name.rsplit(':').next().unwrap_or("").to_string()
}

fn frame(answer: Resp) -> Result<Response<Full<Bytes>>, Box<dyn std::error::Error + Send + Sync>> {
    let mut resp = Response::builder().status(answer.status);
    for (name, value) in &answer.headers {
        resp = resp.header(name, value);
    }
    let mut resp = resp.body(Full::new(Bytes::from(answer.body)))?;
    if let Some(reason) = answer.reason {
        let line: String = reason
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        resp.extensions_mut()
            .insert(ReasonPhrase::try_from(line.into_bytes())?);
    }
    Ok(resp)
}

impl Entry {
    /// Whether it counts as a write.
    pub fn is_write(&self) -> bool {
        self.kind == Kind::Write
    }
}
