//! A lab in this process, and requests to it as a client would send them.
#![allow(dead_code)]
use labsim::http::{Req, Site};
use labsim::pve::Pve;
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Passwords and secrets that the recordings left out; the lab gets them with the world.
pub const ROOT_PASSWORD: &str = "oracle-root-pw";
const SECRET: &str = "00000000-0000-4000-8000-000000000001";

/// An answer, read.
pub struct Answer {
    pub status: u16,
    pub reason: String,
    pub data: Value,
    pub message: String,
    pub errors: Map<String, Value>,
}

/// A lab with its folder.
pub struct Rig {
    pub pve: Pve,
    pub dir: PathBuf,
    ticket: String,
    csrf: String,
}

impl Drop for Rig {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn encode(text: &str) -> String {
    text.bytes()
        .map(|b| match b {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                (b as char).to_string()
            }
            other => format!("%{other:02X}"),
        })
        .collect()
}

fn form(params: &Value) -> String {
    let plain = |v: &Value| v.as_str().map_or_else(|| v.to_string(), str::to_string);
    let mut pairs = Vec::new();
    for (key, value) in params.as_object().into_iter().flatten() {
        match value {
            Value::Array(items) => pairs.extend(items.iter().map(|v| (key.clone(), plain(v)))),
            other => pairs.push((key.clone(), plain(other))),
        }
    }
    pairs
        .iter()
        .map(|(k, v)| format!("{}={}", encode(k), encode(v)))
        .collect::<Vec<_>>()
        .join("&")
}

impl Rig {
    /// A lab from a world, whose users and tokens get secrets.
    pub fn new(name: &str, mut world: Value) -> Rig {
        for user in world["users"].as_array_mut().into_iter().flatten() {
            let password = if user["userid"] == "root@pam" {
                ROOT_PASSWORD
            } else {
                "viewerpw1"
            };
            user["password"] = json!(password);
        }
        for (_, tokens) in world["tokens"].as_object_mut().into_iter().flatten() {
            tokens
                .as_array_mut()
                .into_iter()
                .flatten()
                .for_each(|t| t["secret"] = json!(SECRET));
        }
        let dir = std::env::temp_dir().join(format!("labsim-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(dir.join("root/root")).expect("a folder for the lab");
        let pve = Pve::new(&world, &dir, 1).unwrap_or_else(|e| panic!("world: {e}"));
        let mut rig = Rig {
            pve,
            dir,
            ticket: String::new(),
            csrf: String::new(),
        };
        let params = json!({"username": "root@pam", "password": ROOT_PASSWORD});
        let answer = rig.send("no credentials", "POST", "/access/ticket", &params, false);
        assert_eq!(answer.status, 200, "root@pam signs in: {}", answer.message);
        rig.ticket = answer.data["ticket"].as_str().unwrap_or("").to_string();
        rig.csrf = answer.data["CSRFPreventionToken"]
            .as_str()
            .unwrap_or("")
            .to_string();
        rig
    }

    /// The root@pam ticket.
    pub fn ticket(&self) -> &str {
        &self.ticket
    }

    /// Sends one request as the signer that a recording names.
    pub fn send(
        &self,
        signer: &str,
        method: &str,
        path: &str,
        params: &Value,
        as_json: bool,
    ) -> Answer {
        let mut headers: Vec<(String, String)> = Vec::new();
        let mut cookie = |ticket: &str| {
            headers.push(("cookie".into(), format!("PVEAuthCookie={}", encode(ticket))))
        };
        match signer {
            "no credentials" => {}
            s if s.starts_with("root@pam ticket") => cookie(&self.ticket),
            s if s.starts_with("root ticket without") => cookie(&self.ticket),
            s if s.starts_with("forged ticket") => cookie("PVE:root@pam:6B0D7E5C::AAAA"),
            s if s.starts_with("token with wrong") => {
                headers.push((
                    "authorization".into(),
                    "PVEAPIToken=deploy@pve!ci=00000000-0000-4000-8000-00000000dead".into(),
                ));
            }
            s if s.starts_with("unknown token") => {
                headers.push((
                    "authorization".into(),
                    format!("PVEAPIToken=deploy@pve!nope={SECRET}"),
                ));
            }
            s if s.starts_with("malformed") => {
                headers.push(("authorization".into(), "PVEAPIToken=nonsense".into()))
            }
            s => {
                let id = s.split(' ').next().unwrap_or("");
                headers.push(("authorization".into(), format!("PVEAPIToken={id}={SECRET}")));
            }
        }
        if signer.starts_with("root@pam ticket") && method != "GET" {
            headers.push(("csrfpreventiontoken".into(), self.csrf.clone()));
        }
        let mut req = Req {
            method: method.to_string(),
            path: format!("/api2/json{path}"),
            headers,
            ..Req::default()
        };
        let empty = params.as_object().is_none_or(Map::is_empty);
        if as_json {
            req.headers
                .push(("content-type".into(), "application/json".into()));
            req.body = params.to_string().into_bytes();
        } else if matches!(method, "POST" | "PUT" | "PATCH") && !empty {
            req.headers.push((
                "content-type".into(),
                "application/x-www-form-urlencoded".into(),
            ));
            req.body = form(params).into_bytes();
        } else if !empty {
            req.query = form(params);
        }
        let resp = self.pve.handle(&req);
        let body: Value = serde_json::from_slice(&resp.body).unwrap_or_default();
        Answer {
            status: resp.status,
            reason: resp.reason.unwrap_or_default(),
            data: body["data"].clone(),
            message: body["message"].as_str().unwrap_or("").to_string(),
            errors: body["errors"].as_object().cloned().unwrap_or_default(),
        }
    }

    /// Sends one request as root@pam.
    pub fn root(&self, method: &str, path: &str, params: Value) -> Answer {
        self.send("root@pam ticket", method, path, &params, false)
    }

    /// Waits for a task and returns its exit status and its log.
    pub fn follow(&self, upid: &str) -> (String, Vec<String>) {
        let node = upid.split(':').nth(1).unwrap_or("");
        let path = format!("/nodes/{node}/tasks/{}", encode(upid));
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            let status = self.root("GET", &format!("{path}/status"), json!({}));
            if status.data["status"] == "stopped" {
                let log = self
                    .root("GET", &format!("{path}/log"), json!({"limit": 500}))
                    .data;
                let lines = log
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(|l| l["t"].as_str())
                    .map(str::to_string)
                    .collect();
                return (
                    status.data["exitstatus"].as_str().unwrap_or("").to_string(),
                    lines,
                );
            }
            assert!(
                Instant::now() < end,
                "task {upid} does not end: {} {}",
                status.status,
                status.message
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Sends as root@pam and follows the task, if there is one; panics unless all went well.
    pub fn done(&self, method: &str, path: &str, params: Value) -> Value {
        let shown = params.to_string();
        let answer = self.root(method, path, params);
        assert_eq!(
            answer.status, 200,
            "{method} {path} {shown}: {} {:?}",
            answer.message, answer.errors
        );
        if let Some(upid) = answer.data.as_str().filter(|d| d.starts_with("UPID:")) {
            let (exit, log) = self.follow(upid);
            assert!(
                exit == "OK",
                "{method} {path} {shown}: {exit}\n{}",
                log.join("\n")
            );
        }
        answer.data
    }

    /// A guest's configuration; `null` if there is no such guest.
    pub fn config(&self, vmid: u64, current: bool) -> Value {
        let params = if current {
            json!({"current": 1})
        } else {
            json!({})
        };
        for node in ["pve1", "pve2"] {
            let answer = self.root(
                "GET",
                &format!("/nodes/{node}/qemu/{vmid}/config"),
                params.clone(),
            );
            if answer.status == 200 {
                return answer.data;
            }
        }
        Value::Null
    }
}

/// Replaces what differs from run to run: MACs of the server's own range, uuids, times, digests.
pub fn masked(text: &str) -> String {
    use std::sync::LazyLock;
    static RANDOM: LazyLock<regex::Regex> = LazyLock::new(|| {
        regex::Regex::new(
            r"(?i)BC:24:11(:[0-9a-f]{2}){3}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|ctime=\d+|\b[0-9a-f]{40}\b|\b17960\d{5}\b",
        )
        .expect("a constant")
    });
    RANDOM.replace_all(text, "<RANDOM>").into_owned()
}
