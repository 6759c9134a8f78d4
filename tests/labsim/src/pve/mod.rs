//! The Proxmox VE side: shared state, the shape of a call, and the way from a request to a route.
pub mod access;
mod access_routes;
pub mod cluster;
pub mod content;
pub mod formats;
pub mod guest;
pub mod nodes;
pub mod propstr;
mod roles;
pub mod schema;
pub mod sdn;
pub mod sdn_apply;
mod sdn_objects;
pub mod storage;
pub mod tasks;

use crate::http::{Req, Resp, Site};
use crate::world::Rng;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

pub use access::Auth;
pub use tasks::TaskCtx;

/// What the API answers when it does not answer 200.
#[derive(Clone, Debug, PartialEq)]
pub struct PveError {
    /// HTTP status.
    pub status: u16,
    /// The whole message; its first line becomes the reason phrase.
    pub message: String,
    /// For 400: parameter name to text, verbatim (format errors end with a newline, others do not).
    pub errors: BTreeMap<String, String>,
}

impl PveError {
    /// An error of that status and message.
    pub fn new(status: u16, message: impl Into<String>) -> PveError {
        PveError {
            status,
            message: message.into(),
            errors: BTreeMap::new(),
        }
    }

    /// 500, what a Perl `die` becomes.
    pub fn die(message: impl Into<String>) -> PveError {
        PveError::new(500, message)
    }

    /// 400 `Parameter verification failed.` for one parameter.
    pub fn param(name: &str, why: impl Into<String>) -> PveError {
        PveError::params([(name.to_string(), why.into())].into())
    }

    /// 400 `Parameter verification failed.` for several parameters.
    pub fn params(errors: BTreeMap<String, String>) -> PveError {
        PveError {
            status: 400,
            message: "Parameter verification failed.".into(),
            errors,
        }
    }

    /// 403 `Permission check failed (WHAT)`, or without the bracket if `what` is empty.
    pub fn denied(what: &str) -> PveError {
        let message = if what.is_empty() {
            "Permission check failed".into()
        } else {
            format!("Permission check failed ({what})")
        };
        PveError::new(403, message)
    }

    /// The text a Perl exception has when it is put into another one: `400 Parameter verification failed.\nname: why`.
    pub fn nested(&self) -> String {
        let mut text = if self.status == 500 {
            self.message.clone()
        } else {
            format!("{} {}", self.status, self.message)
        };
        for (k, v) in &self.errors {
            text.push_str(&format!("\n{k}: {v}"));
        }
        text
    }

    /// Wraps it as the SDN code does: 500 `PREFIX: nested text`.
    pub fn wrap(self, prefix: &str) -> PveError {
        PveError::die(format!("{prefix}: {}", self.nested()))
    }
}

/// One request, authenticated, with validated parameters.
#[derive(Clone, Debug)]
pub struct Call {
    /// Upper-case method.
    pub method: String,
    /// The schema's path, such as `/nodes/{node}/qemu`.
    pub template: String,
    /// Path, query and body parameters together, in order of arrival (path first). After validation integers and booleans are JSON
    /// numbers (booleans 0 or 1), everything else is a string.
    pub params: Map<String, Value>,
    /// Who asks.
    pub auth: Auth,
}

impl Call {
    /// A parameter as text; `None` if it was not sent.
    pub fn text(&self, name: &str) -> Option<String> {
        match self.params.get(name)? {
            Value::String(s) => Some(s.clone()),
            Value::Null => None,
            other => Some(other.to_string()),
        }
    }

    /// A required or path parameter as text; empty if it is missing (validation has refused that before).
    pub fn arg(&self, name: &str) -> String {
        self.text(name).unwrap_or_default()
    }

    /// An integer parameter.
    pub fn int(&self, name: &str) -> Option<i64> {
        match self.params.get(name)? {
            Value::Number(n) => n.as_i64(),
            Value::String(s) => s.parse().ok(),
            _ => None,
        }
    }

    /// A boolean parameter; false if it was not sent.
    pub fn flag(&self, name: &str) -> bool {
        self.int(name) == Some(1)
    }

    /// The vmid of the path or body; 0 if there is none.
    pub fn vmid(&self) -> u32 {
        self.int("vmid")
            .and_then(|n| u32::try_from(n).ok())
            .unwrap_or(0)
    }
}

/// What serves a route. It may block (it runs on its own thread) but must not hold `Lab::st` while it does.
pub type Handler = fn(&Arc<Lab>, &Call) -> Result<Value, PveError>;

/// Method and path template to handler.
#[derive(Default)]
pub struct Router {
    routes: BTreeMap<(String, String), Handler>,
}

impl Router {
    /// Adds a route, such as `r.add("GET", "/nodes/{node}/qemu", list)`. The template must be in the recorded schema.
    pub fn add(&mut self, method: &str, template: &str, handler: Handler) {
        assert!(
            schema::method(template, method).is_some(),
            "labsim: {method} {template} is not in the recorded schema"
        );
        self.routes
            .insert((method.into(), template.into()), handler);
    }

    /// The handler of a route.
    pub fn get(&self, method: &str, template: &str) -> Option<Handler> {
        self.routes
            .get(&(method.to_string(), template.to_string()))
            .copied()
    }
}

/// The cluster's changeable state.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// Guests by id.
    pub guests: BTreeMap<u32, guest::Guest>,
    /// Nodes in the order of the world file.
    pub nodes: Vec<nodes::Node>,
    /// Storages by name.
    pub storages: BTreeMap<String, storage::Storage>,
    /// Users, roles, tokens, ACLs, pools.
    pub access: access::Access,
    /// Software-defined network: pending and running.
    pub sdn: sdn::Sdn,
    /// `GET /cluster/options`.
    pub options: Map<String, Value>,
    /// HA resources: sid to its properties.
    pub ha: BTreeMap<String, Map<String, Value>>,
    /// Replication jobs as `/cluster/replication` lists them.
    pub replication: Vec<Value>,
    /// Durations and rates.
    pub timing: Timing,
}

/// Durations and rates, from the pve part of the world.
#[derive(Clone, Debug)]
pub struct Timing {
    /// A typical task, milliseconds.
    pub task_ms: u64,
    /// Milliseconds by task type (`qmcreate`, `srvreload`, ...), over `task_ms`.
    pub kinds: BTreeMap<String, u64>,
    /// Imports and moves, bytes per second; 0 = as fast as the machine.
    pub copy_bytes_per_s: u64,
    /// A new guest is listed by `/cluster/resources` that much later, milliseconds.
    pub listing_lag_ms: u64,
}

impl Default for Timing {
    fn default() -> Timing {
        Timing {
            task_ms: 20,
            kinds: BTreeMap::new(),
            copy_bytes_per_s: 0,
            listing_lag_ms: 0,
        }
    }
}

/// The cluster. Lock order: `st` before `tasks`; neither while sleeping or copying.
pub struct Lab {
    state: Mutex<State>,
    /// Tasks, running and done.
    pub tasks: tasks::Tasks,
    /// `DIR`: holds `storage/` and `export/`.
    pub dir: PathBuf,
    /// The seed.
    pub seed: u64,
    rng: Mutex<Rng>,
    router: Router,
    started: Instant,
    /// Ticket secrets, so that tickets of another run do not pass.
    pub tickets: access::Tickets,
}

impl Lab {
    /// A cluster from the pve part of a world.
    /// Errors: what in the world is wrong.
    pub fn new(world: &Value, dir: &Path, seed: u64) -> Result<Arc<Lab>, String> {
        let mut router = Router::default();
        access_routes::register(&mut router);
        nodes::register(&mut router);
        cluster::register(&mut router);
        tasks::register(&mut router);
        storage::register(&mut router);
        sdn::register(&mut router);
        guest::register(&mut router);
        let lab = Arc::new(Lab {
            state: Mutex::new(State::default()),
            tasks: tasks::Tasks::default(),
            dir: dir.to_path_buf(),
            seed,
            rng: Mutex::new(Rng::new(seed)),
            router,
            started: Instant::now(),
            tickets: access::Tickets::new(seed),
        });
        lab.load(world)?;
        Ok(lab)
    }

    /// The state, locked. Do not sleep, copy or call `st` again while you hold it.
    pub fn st(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Random bits of this seed (MAC addresses, uuids, list order, durations).
    pub fn rng(&self) -> MutexGuard<'_, Rng> {
        self.rng.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Milliseconds since the lab started.
    pub fn now_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    /// How long a task of that type takes this time, milliseconds, varied by seed.
    pub fn task_ms(&self, kind: &str) -> u64 {
        let base = {
            let st = self.st();
            st.timing
                .kinds
                .get(kind)
                .copied()
                .unwrap_or(st.timing.task_ms)
        };
        (base as f64 * self.rng().factor()) as u64
    }

    fn load(self: &Arc<Self>, world: &Value) -> Result<(), String> {
        let mut st = State::default();
        let timing = &world["timing"];
        let number = |k: &str| timing[k].as_u64().or_else(|| world[k].as_u64());
        if let Some(n) = number("task_ms") {
            st.timing.task_ms = n;
        }
        if let Some(n) = number("copy_bytes_per_s") {
            st.timing.copy_bytes_per_s = n;
        }
        if let Some(n) = number("listing_lag_ms") {
            st.timing.listing_lag_ms = n;
        }
        if let Some(kinds) = timing["kinds"].as_object() {
            st.timing.kinds = kinds
                .iter()
                .filter_map(|(k, v)| Some((k.clone(), v.as_u64()?)))
                .collect();
        }
        nodes::load(&mut st, world)?;
        access::load(&mut st, world)?;
        cluster::load(&mut st, world)?;
        storage::load(&mut st, world, &self.dir)?;
        sdn::load(&mut st, world)?;
        guest::load(&mut st, world)?;
        *self.st() = st;
        Ok(())
    }
}

/// The Proxmox VE side as a site.
pub struct Pve {
    /// The cluster.
    pub lab: Arc<Lab>,
}

impl Pve {
    /// Builds it from the pve part of a world. Errors: what in the world is wrong.
    pub fn new(world: &Value, dir: &Path, seed: u64) -> Result<Pve, String> {
        Ok(Pve {
            lab: Lab::new(world, dir, seed)?,
        })
    }
}

impl Site for Pve {
    fn handle(&self, req: &Req) -> Resp {
        schema::handle(&self.lab, &self.lab.router, req)
    }

    fn dump(&self) -> Value {
        let tasks = self.lab.tasks.dump();
        let st = self.lab.st();
        serde_json::json!({
            "guests": st.guests.values().map(guest::dump).collect::<Vec<_>>(),
            "nodes": st.nodes.iter().map(nodes::dump).collect::<Vec<_>>(),
            "storages": storage::dump(&st),
            "sdn": sdn::dump(&st),
            "access": access::dump(&st),
            "ha": st.ha,
            "replication": st.replication,
            "tasks": tasks,
        })
    }

    fn reset(&self, world: &Value) -> Result<(), String> {
        self.lab.tasks.abandon();
        *self.lab.rng() = Rng::new(self.lab.seed);
        self.lab.load(world)
    }

    fn set(&self, patch: &Value) -> Result<(), String> {
        if patch.get("guest").is_some() {
            return guest::set(&self.lab, patch);
        }
        cluster::set(&self.lab, patch)
    }
}
