//! A lab without sockets, and clients that sign in to it.
#![allow(dead_code)]
use labsim::http::{Req, Site};
use labsim::pve::Pve;
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The recorded starting world with made-up passwords and token secrets (the real ones were not recorded).
pub fn starting_world() -> Value {
    let mut world: Value =
        serde_json::from_str(include_str!("../../../fixtures/pve/starting-world.json")).unwrap();
    for user in world["users"].as_array_mut().unwrap() {
        user["password"] = json!("a-password-of-the-tests");
    }
    for tokens in world["tokens"].as_object_mut().unwrap().values_mut() {
        for token in tokens.as_array_mut().unwrap() {
            token["secret"] = json!("a-secret-of-the-tests");
        }
    }
    world["task_ms"] = json!(10);
    world
}

/// A lab in a folder of its own, removed when it is dropped.
pub struct TestLab {
    /// The site.
    pub pve: Arc<Pve>,
    /// Its state folder.
    pub dir: PathBuf,
}

impl Drop for TestLab {
    fn drop(&mut self) {
        self.pve.lab.tasks.abandon();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Builds a lab from the pve part of a world.
pub fn lab(world: &Value) -> TestLab {
    static N: AtomicU32 = AtomicU32::new(0);
    let n = N.fetch_add(1, Ordering::SeqCst);
    // Memory where there is some: hundreds of labs come and go, and deleting from a disk takes its time.
    let shm = PathBuf::from("/dev/shm");
    let base = if shm.is_dir() {
        shm
    } else {
        std::env::temp_dir()
    };
    let dir = base.join(format!("labsim-test-{}-{n}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    TestLab {
        pve: Arc::new(Pve::new(world, &dir, 1).unwrap()),
        dir,
    }
}

/// Somebody who is signed in.
pub struct Client {
    pve: Arc<Pve>,
    headers: Vec<(String, String)>,
}

/// What came back.
pub struct Answer {
    pub status: u16,
    pub reason: Option<String>,
    pub body: Value,
}

/// Signs in as the recordings name people: `root` (ticket), or a token by its name in words.
pub fn signed(lab: &TestLab, who: &str) -> Client {
    let token = match who.split(' ').next().unwrap() {
        "viewer" | "viewer@pve!ro" => Some("viewer@pve!ro"),
        "nobody" | "nobody@pve!none" => Some("nobody@pve!none"),
        "deploy" | "deploy@pve!ci" => Some("deploy@pve!ci"),
        "root@pam!full" => Some("root@pam!full"),
        "root@pam!sep" => Some("root@pam!sep"),
        _ => None,
    };
    if let Some(id) = token {
        return with_token(lab, id);
    }
    let mut client = anonymous(lab);
    let form: Map<String, Value> =
        json!({"username": "root@pam", "password": "a-password-of-the-tests"})
            .as_object()
            .unwrap()
            .clone();
    let answer = client.call("POST", "/access/ticket", &form);
    let text = |k: &str| answer.body["data"][k].as_str().unwrap().to_string();
    client.headers.push((
        "cookie".into(),
        format!("PVEAuthCookie={}", encode(&text("ticket"))),
    ));
    client
        .headers
        .push(("csrfpreventiontoken".into(), text("CSRFPreventionToken")));
    client
}

/// Somebody who is not signed in.
pub fn anonymous(lab: &TestLab) -> Client {
    Client {
        pve: lab.pve.clone(),
        headers: Vec::new(),
    }
}

/// The holder of a token of the tests' world.
pub fn with_token(lab: &TestLab, id: &str) -> Client {
    let mut client = anonymous(lab);
    let value = format!("PVEAPIToken={id}=a-secret-of-the-tests");
    client.headers.push(("authorization".into(), value));
    client
}

fn encode(text: &str) -> String {
    text.bytes()
        .map(|b| {
            if b.is_ascii_alphanumeric() || b"-_.~".contains(&b) {
                (b as char).to_string()
            } else {
                format!("%{b:02X}")
            }
        })
        .collect()
}

impl Client {
    /// One request: GET and DELETE carry parameters in the query, the rest as a form. Null values are left out.
    pub fn call(&self, method: &str, path: &str, params: &Map<String, Value>) -> Answer {
        let form = params
            .iter()
            .filter(|(_, v)| !v.is_null())
            .map(|(k, v)| {
                let text = match v {
                    Value::String(s) => s.clone(),
                    Value::Bool(b) => u8::from(*b).to_string(),
                    other => other.to_string(),
                };
                format!("{}={}", encode(k), encode(&text))
            })
            .collect::<Vec<_>>()
            .join("&");
        let in_query = matches!(method, "GET" | "DELETE");
        let mut req = Req {
            method: method.into(),
            path: format!("/api2/json{path}"),
            headers: self.headers.clone(),
            ..Req::default()
        };
        if in_query {
            req.query = form;
        } else {
            req.headers.push((
                "content-type".into(),
                "application/x-www-form-urlencoded".into(),
            ));
            req.body = form.into_bytes();
        }
        self.send(&req)
    }

    /// A request of any shape, with this client's headers added.
    pub fn send_with(&self, mut req: Req) -> Answer {
        req.headers.extend(self.headers.clone());
        self.send(&req)
    }

    fn send(&self, req: &Req) -> Answer {
        let resp = self.pve.handle(req);
        let body = serde_json::from_slice(&resp.body).unwrap_or(Value::Null);
        Answer {
            status: resp.status,
            reason: resp.reason,
            body,
        }
    }

    /// Follows a task to its end: exit status and log.
    pub fn wait(&self, upid: &str) -> (String, Vec<String>) {
        let node = upid.split(':').nth(1).unwrap();
        let base = format!("/nodes/{node}/tasks/{}", encode(upid));
        for _ in 0..3000 {
            let status = self.call("GET", &format!("{base}/status"), &Map::new());
            if status.body["data"]["status"] == "stopped" {
                let mut all = Map::new();
                all.insert("limit".into(), json!(0));
                let log = self.call("GET", &format!("{base}/log"), &all);
                let lines = log.body["data"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|l| l["t"].as_str().unwrap().to_string())
                    .collect();
                return (
                    status.body["data"]["exitstatus"]
                        .as_str()
                        .unwrap()
                        .to_string(),
                    lines,
                );
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("{upid} does not end");
    }
}
