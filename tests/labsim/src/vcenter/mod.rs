//! The vCenter side: SOAP over HTTPS, generic over the recorded type table.
//!
//! A world describes datacenters, hosts, datastores, networks and virtual machines in short; `build` and `vms` expand them, `render`
//! and `devices` show a virtual machine as vCenter does, `collector` answers any property path, `relocate` and `power` change things
//! and the files under `DIR/datastore` and `DIR/export`.
mod build;
mod collector;
mod devices;
mod fault;
mod files;
mod methods;
mod model;
mod net;
mod paging;
mod pods;
mod power;
mod relocate;
mod render;
mod schedule;
mod search;
mod setup;
mod tasks;
mod types;
mod vms;
mod xml;

use crate::http::{Kind, Req, Resp, Site};
use fault::Fault;
use model::{Session, State};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// What the request threads and the background work share.
pub(crate) struct Inner {
    state_dir: PathBuf,
    seed: u64,
    world: Mutex<Value>,
    st: Mutex<State>,
    cond: Condvar,
}

impl Inner {
    /// The state; a thread that panicked while it held it does not take the lab down.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.st
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// The simulated vCenter.
pub struct Vcenter(Arc<Inner>);

/// What a method answers.
pub(crate) enum Reply {
    /// Nothing.
    Void,
    /// One value of a type.
    One(&'static str, Value),
    /// A list of a type.
    Many(&'static str, Vec<Value>),
    /// A property's value.
    Boxed(Value),
}

// Versions that /sdk/vimServiceVersions.xml offers, newest first.
const VERSIONS: &[&str] = &[
    "8.0.3.0", "8.0.2.0", "8.0.1.0", "8.0.0.0", "7.0.3.2", "7.0.3.0", "7.0.2.0", "7.0.1.0",
    "7.0.0.0", "6.9.1", "6.7.3", "6.7.2", "6.7.1", "6.7", "6.5", "6.0", "5.5",
];

impl Vcenter {
    /// Builds the vCenter of a world's `vcenter` part. Files go to `state_dir/datastore` and, for the datastore with `export`, to
    /// `state_dir/export`.
    ///
    /// # Errors
    /// A text that says what in the world is wrong.
    pub fn new(world_part: &Value, state_dir: &Path, seed: u64) -> Result<Vcenter, String> {
        let v = Vcenter(Arc::new(Inner {
            state_dir: state_dir.to_path_buf(),
            seed,
            world: Mutex::new(Value::Null),
            st: Mutex::new(State::default()),
            cond: Condvar::new(),
        }));
        v.rebuild(world_part)?;
        Ok(v)
    }

    fn rebuild(&self, world: &Value) -> Result<(), String> {
        let dir = self.0.state_dir.join("datastore");
        if dir.exists() {
            std::fs::remove_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        }
        let mut st = self.0.lock();
        // On the export only the folders of our own virtual machines go: images/ there is the Proxmox side's.
        for vm in st.vms.values() {
            let own = std::iter::once((&vm.ds, vm.dir.as_str())).chain(
                vm.disks
                    .iter()
                    .filter_map(|d| Some((&d.ds, files::split(d.layers.first()?).0))),
            );
            for (ds, dir) in own {
                if let (Some(s), false) = (st.stores.get(ds), dir.is_empty()) {
                    let _ = std::fs::remove_dir_all(s.root.join(dir));
                }
            }
        }
        let generation = st.generation + 1;
        let mut new = build::build(world, &self.0.state_dir, self.0.seed)?;
        new.generation = generation;
        *st = new;
        *self
            .0
            .world
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner) = world.clone();
        self.0.cond.notify_all();
        Ok(())
    }

    fn soap(&self, req: &Req) -> Resp {
        let root = match xml::parse(&req.body) {
            Ok(r) => r,
            Err(e) => return fault_resp(&Fault::invalid_request(&e), Kind::Read, "unparsable"),
        };
        let Some(call) = root.kid("Body").and_then(|b| b.kids.first()) else {
            return fault_resp(&Fault::invalid_request("no Body"), Kind::Read, "no Body");
        };
        let method = call.name.clone();
        let kind = methods::kind(&method);
        let Some(this) = call.kid("_this") else {
            return fault_resp(&Fault::invalid_request("no _this"), kind, &method);
        };
        let this = match xml::to_value(this, "ManagedObject") {
            Ok(v) => v,
            Err(e) => return fault_resp(&Fault::invalid_request(&e), kind, &method),
        };
        let (ty, id) = xml::mo_of(&this)
            .map(|(t, i)| (t.to_string(), i.to_string()))
            .unwrap_or_default();
        // Source: docs/vsphere-facts.md section 1, "SOAPAction".
        let action = req
            .header("soapaction")
            .unwrap_or("")
            .trim()
            .trim_matches('"')
            .to_string();
        let Some(version) = action.strip_prefix("urn:vim25/") else {
            let f =
                Fault::invalid_request(&format!("Unsupported namespace in SOAPAction {action:?}"));
            return fault_resp(&f, kind, &method);
        };
        let version: Vec<u32> = version.split('.').filter_map(|p| p.parse().ok()).collect();
        let newest: Vec<u32> = VERSIONS[0]
            .split('.')
            .filter_map(|p| p.parse().ok())
            .collect();
        if version.is_empty() || version > newest {
            return fault_resp(
                &Fault::invalid_request(&format!("Unsupported version URI \"{action}\"")),
                kind,
                &method,
            );
        }
        let Some(params) = types::Types::get().params(&method) else {
            return unknown_method(&this, &method, kind);
        };
        let mut args = json!({});
        let mut last = 0;
        for kid in call.kids.iter().filter(|k| k.name != "_this") {
            let found = params.iter().position(|p| p.prop.name == kid.name);
            // Parameters come in the order of the WSDL, single ones once; see `xml::to_value`.
            let Some((at, p)) = found
                .and_then(|i| Some((i, params.get(i)?)))
                .filter(|(i, _)| *i >= last)
            else {
                let why = format!("unexpected element tag \"{}\" seen in {method}", kid.name);
                return fault_resp(&Fault::invalid_request(&why), kind, &method);
            };
            last = if p.prop.array { at } else { at + 1 };
            match xml::to_value(kid, &p.prop.ty) {
                Err(e) => return fault_resp(&Fault::invalid_request(&e), kind, &method),
                Ok(v) if p.prop.array => match args[&kid.name].as_array_mut() {
                    Some(a) => a.push(v),
                    None => args[&kid.name] = json!([v]),
                },
                Ok(v) => args[&kid.name] = v,
            }
        }
        if let Some(p) = params
            .iter()
            .find(|p| !p.optional && !p.prop.array && args.get(&p.prop.name).is_none())
        {
            return fault_resp(
                &Fault::invalid_request(&format!("missing parameter {} of {method}", p.prop.name)),
                kind,
                &method,
            );
        }
        let cookie = cookie(req);
        let note = note(&method, &ty, &id, &args);
        let mut set_cookie = None;
        let user = cookie
            .as_ref()
            .and_then(|c| self.0.lock().sessions.get(c).map(|s| s.user.clone()))
            .unwrap_or_default();
        let call = methods::Call {
            inner: &self.0,
            method: &method,
            ty: &ty,
            id: &id,
            args: &args,
            cookie: cookie.as_deref().unwrap_or(""),
            version,
        };
        let mut resp = match call.run(&mut set_cookie) {
            Err(f) if f.ty() == "MethodNotFound" => unknown_method(&this, &method, kind),
            Err(f) => fault_resp(&f, kind, &format!("{note} -> {}", f.ty())),
            Ok(reply) => {
                let mut out = format!("<{method}Response xmlns=\"urn:vim25\">");
                match reply {
                    Reply::Void => {}
                    Reply::One(ty, v) => xml::write(&mut out, "returnval", ty, false, &v, false),
                    Reply::Many(ty, list) => list
                        .iter()
                        .for_each(|v| xml::write(&mut out, "returnval", ty, false, v, false)),
                    Reply::Boxed(v) => xml::write(&mut out, "returnval", "object", false, &v, true),
                }
                out.push_str(&format!("</{method}Response>"));
                let mut r = soap_resp(200, &out, kind, &note);
                if let Some(c) = set_cookie {
                    r.headers.push((
                        "Set-Cookie".into(),
                        format!(
                            "vmware_soap_session=\"{c}\"; Path=/; HttpOnly; Secure; SameSite=Strict"
                        ),
                    ));
                }
                r
            }
        };
        resp.user = user;
        resp
    }
}

fn unknown_method(this: &Value, method: &str, kind: Kind) -> Resp {
    let f = Fault::new(
        "MethodNotFound",
        &format!("labsim: the method {method} is not implemented"),
        json!({ "receiver": this, "method": method }),
    );
    fault_resp(&f, kind, &format!("UNKNOWN METHOD {method}"))
}

/// The line of the request log: the method and what it is about.
fn note(method: &str, ty: &str, id: &str, args: &Value) -> String {
    match method {
        "RelocateVM_Task" => format!("{method} {id}{}", relocate::spec_note(&args["spec"])),
        "CheckRelocate_Task" => format!("{method} {}", xml::mo_id(&args["vm"]).unwrap_or("")),
        "Fetch" => format!("{method} {id} {}", args["prop"].as_str().unwrap_or("")),
        "Login" => format!("{method} {}", args["userName"].as_str().unwrap_or("")),
        "FindByUuid" | "FindAllByUuid" => {
            format!("{method} {}", args["uuid"].as_str().unwrap_or(""))
        }
        _ if ["VirtualMachine", "Task", "VirtualMachineSnapshot"].contains(&ty) => {
            format!("{method} {id}")
        }
        _ => method.to_string(),
    }
}

fn cookie(req: &Req) -> Option<String> {
    let all = req
        .headers
        .iter()
        .filter(|(n, _)| n == "cookie")
        .flat_map(|(_, v)| v.split(';'));
    all.filter_map(|c| c.trim().strip_prefix("vmware_soap_session="))
        .map(|c| c.trim_matches('"').to_string())
        .next()
}

fn soap_resp(status: u16, body: &str, kind: Kind, note: &str) -> Resp {
    let text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<soapenv:Envelope xmlns:soapenc=\"http://schemas.xmlsoap.org/soap/encoding/\" xmlns:soapenv=\"http://schemas.xmlsoap.org/soap/envelope/\" \
         xmlns:xsd=\"http://www.w3.org/2001/XMLSchema\" xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\">\n<soapenv:Body>\n{body}\n</soapenv:Body>\n</soapenv:Envelope>"
    );
    Resp {
        status,
        headers: vec![("Content-Type".into(), "text/xml; charset=utf-8".into())],
        body: text.into_bytes(),
        kind,
        note: note.into(),
        ..Resp::default()
    }
}

fn fault_resp(f: &Fault, kind: Kind, note: &str) -> Resp {
    soap_resp(500, &f.soap(), kind, note)
}

impl Site for Vcenter {
    fn handle(&self, req: &Req) -> Resp {
        let plain = |status: u16, ty: &str, body: String, note: &str| Resp {
            status,
            headers: vec![("Content-Type".into(), ty.into())],
            body: body.into_bytes(),
            note: note.into(),
            ..Resp::default()
        };
        match (req.method.as_str(), req.path.trim_end_matches('/')) {
            ("POST", "/sdk") => self.soap(req),
            ("GET", "/sdk/vimServiceVersions.xml") => {
                let prior: String = VERSIONS[1..].iter().map(|v| format!("<version>{v}</version>")).collect();
                let body = format!(
                    "<?xml version=\"1.0\" encoding=\"UTF-8\" ?>\n<namespaces version=\"1.0\"><namespace><name>urn:vim25</name><version>{}</version><priorVersions>{prior}</priorVersions></namespace></namespaces>\n",
                    VERSIONS[0]
                );
                plain(200, "text/xml", body, "vimServiceVersions")
            }
            ("GET", "/sdk") => plain(200, "text/xml", "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<definitions xmlns=\"http://schemas.xmlsoap.org/wsdl/\"/>\n".into(), "sdk"),
            _ => plain(404, "text/plain", format!("labsim: the vCenter has no {} {}\n", req.method, req.path), &format!("UNKNOWN ROUTE {} {}", req.method, req.path)),
        }
    }

    fn kind(&self, req: &Req) -> Kind {
        if req.method != "POST" {
            return Kind::Read;
        }
        let root = xml::parse(&req.body).unwrap_or_default();
        root.kid("Body")
            .and_then(|b| b.kids.first())
            .map_or(Kind::Read, |c| methods::kind(&c.name))
    }

    fn dump(&self) -> Value {
        let st = self.0.lock();
        let vms: Vec<Value> = st.vms.values().map(|v| vms::dump(&st, v)).collect();
        let tasks: Vec<Value> = st
            .tasks
            .iter()
            .map(|t| json!({ "task": t.id, "method": t.method, "entity": t.entity.1, "state": t.state, "progress": t.progress, "error": t.error.as_ref().map(|e| &e["_t"]), "user": t.user }))
            .collect();
        let stores: Vec<Value> = st.stores.iter().map(|(id, s)| json!({ "moid": id, "name": s.name, "type": s.kind, "path": s.root.display().to_string(), "accessible": s.accessible })).collect();
        let networks: Vec<Value> = st
            .objs
            .iter()
            .filter(|(_, o)| {
                matches!(
                    o.ty.as_str(),
                    "Network" | "DistributedVirtualPortgroup" | "OpaqueNetwork"
                )
            })
            .map(|(id, o)| json!({ "moid": id, "type": o.ty, "name": o.props.get("name") }))
            .collect();
        let scheduled: Vec<&Value> = st
            .objs
            .values()
            .filter(|o| o.ty == "ScheduledTask")
            .filter_map(|o| o.props.get("info"))
            .collect();
        let owned: usize = st.sessions.values().map(|s| s.owned.len()).sum();
        let open: usize = st.sessions.values().map(|s| s.tokens.len()).sum();
        json!({ "vms": vms, "tasks": tasks, "datastores": stores, "networks": networks, "scheduled": scheduled, "sessions": st.sessions.len(), "session_objects": owned, "open_retrievals": open })
    }

    fn reset(&self, world: &Value) -> Result<(), String> {
        self.rebuild(world)
    }

    fn set(&self, patch: &Value) -> Result<(), String> {
        let mut st = self.0.lock();
        for (key, v) in patch.as_object().ok_or("the vcenter patch is no object")? {
            let number = || v.as_u64().ok_or_else(|| format!("{key} is no number"));
            match key.as_str() {
                "expire_sessions" => {
                    let owned: Vec<String> =
                        st.sessions.values().flat_map(|s| s.owned.clone()).collect();
                    owned.iter().for_each(|o| _ = st.objs.remove(o));
                    st.sessions.clear();
                }
                "session_idle_s" => {
                    st.cfg.session_idle_ms =
                        (v.as_f64().ok_or("session_idle_s is no number")? * 1000.0) as u64
                }
                "relocate_bytes_per_s" => st.cfg.relocate_bytes_per_s = number()?.max(1),
                "relocate_min_ms" => st.cfg.relocate_min_ms = number()?,
                "relocate_per_datastore" => {
                    st.cfg.relocate_per_datastore = usize::try_from(number()?).unwrap_or(1)
                }
                "power_ms" => st.cfg.power_ms = number()?,
                "snapshot_ms" => st.cfg.snapshot_ms = number()?,
                "cold_rename" => st.cfg.cold_rename = v.as_str().unwrap_or("seed").into(),
                "no_permission" => {
                    st.unreadable = build::list(patch, key)
                        .iter()
                        .map(|p| {
                            Ok((
                                build::text(p, "object").unwrap_or_else(|| "*".into()),
                                build::text(p, "property")
                                    .ok_or("no_permission without a property")?,
                            ))
                        })
                        .collect::<Result<_, String>>()?;
                }
                "task_faults" => {
                    st.task_faults = build::list(patch, key)
                        .iter()
                        .map(|p| {
                            let method =
                                build::text(p, "method").ok_or("a task fault without a method")?;
                            Ok((method, p["percent"].as_i64().unwrap_or(0)))
                        })
                        .collect::<Result<_, String>>()?;
                }
                "hosts" => build::list(patch, key)
                    .iter()
                    .try_for_each(|p| set_host(&mut st, p))?,
                "vms" => build::list(patch, key)
                    .iter()
                    .try_for_each(|p| set_vm(&mut st, p))?,
                "datastores" => build::list(patch, key)
                    .iter()
                    .try_for_each(|p| set_store(&mut st, p))?,
                other => return Err(format!("the vcenter patch knows no {other:?}")),
            }
        }
        self.0.cond.notify_all();
        Ok(())
    }
}

fn set_vm(st: &mut State, p: &Value) -> Result<(), String> {
    let found: Vec<String> = st
        .vms
        .values()
        .filter(|v| p["moid"] == v.moid.as_str() || p["name"] == v.name.as_str())
        .map(|v| v.moid.clone())
        .collect();
    let [id] = found.as_slice() else {
        return Err(format!("{} virtual machines match {p}", found.len()));
    };
    for (k, v) in p.as_object().into_iter().flatten() {
        let vm = st.vms.get_mut(id).ok_or("gone")?;
        let text = || {
            v.as_str()
                .map(String::from)
                .ok_or_else(|| format!("{k} is no text"))
        };
        match k.as_str() {
            "moid" | "name" => {}
            "power" => {
                let state = vms::power(&text()?).ok_or("power is one of on, off, suspended")?;
                power::set_power(st, id, state);
            }
            "tools" => vm.tools = text()?,
            "annotation" => vm.annotation = text()?,
            "ignores_shutdown" => vm.ignores_shutdown = v == &json!(true),
            "shutdown_ms" => vm.shutdown_ms = v.as_u64().ok_or("shutdown_ms is no number")?,
            "tools_iso" => vm.tools_iso = v == &json!(true),
            "question" => vm.question = vms::question(v),
            "connection" => vm.connection = text()?,
            "disabled_methods" => {
                vm.disabled = v
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(Value::as_str)
                    .map(String::from)
                    .collect()
            }
            "props" => vm.overrides = v.as_object().cloned().unwrap_or_default(),
            other => return Err(format!("a virtual machine's patch knows no {other:?}")),
        }
    }
    render::refresh_vm(st, id);
    Ok(())
}

/// A host that does not answer takes its machines and their tasks with it.
fn set_host(st: &mut State, p: &Value) -> Result<(), String> {
    let id = st
        .objs
        .iter()
        .find(|(i, o)| {
            o.ty == "HostSystem"
                && (p["moid"] == i.as_str() || o.props.get("name") == p.get("name"))
        })
        .map(|(i, _)| i.clone())
        .ok_or_else(|| format!("no host matches {p}"))?;
    for (k, v) in p.as_object().into_iter().flatten() {
        match k.as_str() {
            "moid" | "name" => {}
            "connection" => {
                let of_vms = match v.as_str() {
                    Some("connected") => "connected",
                    Some("notResponding" | "disconnected") => "disconnected",
                    _ => {
                        return Err(
                            "connection is one of connected, disconnected, notResponding".into(),
                        );
                    }
                };
                if let Some(o) = st.objs.get_mut(&id) {
                    render::set_path(&mut o.props, "runtime.connectionState", v);
                }
                let there: Vec<String> = st
                    .vms
                    .values()
                    .filter(|vm| vm.host == id)
                    .map(|vm| vm.moid.clone())
                    .collect();
                for m in there {
                    if let Some(vm) = st.vms.get_mut(&m) {
                        vm.connection = of_vms.into();
                    }
                    render::refresh_vm(st, &m);
                }
            }
            other => return Err(format!("a host's patch knows no {other:?}")),
        }
    }
    Ok(())
}

fn set_store(st: &mut State, p: &Value) -> Result<(), String> {
    let id = st
        .stores
        .iter()
        .find(|(i, s)| p["moid"] == i.as_str() || p["name"] == s.name.as_str())
        .map(|(i, _)| i.clone())
        .ok_or_else(|| format!("no datastore matches {p}"))?;
    for (k, v) in p.as_object().into_iter().flatten() {
        let s = st.stores.get_mut(&id).ok_or("gone")?;
        let path = match k.as_str() {
            "moid" | "name" => continue,
            "accessible" => {
                s.accessible = v == &json!(true);
                "summary.accessible"
            }
            "maintenance" => {
                s.maintenance = v.as_str().unwrap_or("normal").into();
                "summary.maintenanceMode"
            }
            "used_gib" => {
                s.used = v.as_u64().unwrap_or(0) * 1024 * 1024 * 1024;
                continue;
            }
            other => return Err(format!("a datastore's patch knows no {other:?}")),
        };
        if let Some(o) = st.objs.get_mut(&id) {
            render::set_path(&mut o.props, path, v);
        }
    }
    render::relink(st);
    Ok(())
}

/// Drops sessions that were idle for too long.
fn expire(st: &mut State) {
    let idle = Duration::from_millis(st.cfg.session_idle_ms);
    let now = Instant::now();
    let gone: Vec<String> = st
        .sessions
        .iter()
        .filter(|(_, s)| now.duration_since(s.last) > idle)
        .map(|(c, _)| c.clone())
        .collect();
    for c in gone {
        drop_session(st, &c);
    }
}

/// Ends a session with all that it owns.
fn drop_session(st: &mut State, cookie: &str) -> Option<Session> {
    let s = st.sessions.remove(cookie)?;
    for o in &s.owned {
        st.objs.remove(o);
    }
    Some(s)
}
