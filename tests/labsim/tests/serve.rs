//! The program itself: real HTTPS, reason phrases, keep-alive, log, faults, control.
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

struct Lab {
    child: Child,
    dir: PathBuf,
    lab: Value,
}

impl Drop for Lab {
    fn drop(&mut self) {
        // Closing its standard input ends it.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn start(name: &str, world: &Value) -> Lab {
    let dir = std::env::temp_dir().join(format!("labsim-serve-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let file = dir.join("world.json");
    std::fs::write(&file, world.to_string()).unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_labsim"))
        .args(["serve", "--exit-with-stdin", "--world"])
        .arg(&file)
        .arg("--state")
        .arg(&dir)
        .arg("--log")
        .arg(dir.join("requests.log"))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    let mut lab = Lab {
        child,
        dir,
        lab: Value::Null,
    };
    while lab.lab.is_null() {
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "labsim does not come up"
        );
        std::thread::sleep(Duration::from_millis(20));
        if let Ok(text) = std::fs::read_to_string(lab.dir.join("lab.json")) {
            lab.lab = serde_json::from_str(&text).unwrap();
        }
    }
    lab
}

type Stream = StreamOwned<ClientConnection, TcpStream>;

struct Answer {
    status: u16,
    reason: String,
    body: Value,
}

/// One connection; it stays open between requests.
struct Conn(Stream);

impl Conn {
    fn open(lab: &Lab, side: &str) -> Conn {
        let mut roots = RootCertStore::empty();
        let ca = CertificateDer::from_pem_file(Path::new(lab.lab["ca"].as_str().unwrap())).unwrap();
        roots.add(ca).unwrap();
        let config =
            ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_root_certificates(roots)
                .with_no_client_auth();
        let tcp = TcpStream::connect(lab.lab[side].as_str().unwrap()).unwrap();
        let tls =
            ClientConnection::new(Arc::new(config), ServerName::try_from("localhost").unwrap())
                .unwrap();
        Conn(StreamOwned::new(tls, tcp))
    }

    /// `None` if the connection was closed instead of an answer.
    fn ask(&mut self, method: &str, path: &str, headers: &str, body: &str) -> Option<Answer> {
        let text = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\n{headers}Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.0.write_all(text.as_bytes()).ok()?;
        let mut got = Vec::new();
        let head = loop {
            let mut byte = [0u8; 1];
            match self.0.read(&mut byte) {
                Ok(1) => got.push(byte[0]),
                _ => return None,
            }
            if got.ends_with(b"\r\n\r\n") {
                break String::from_utf8(got).unwrap();
            }
        };
        let mut first = head.lines().next().unwrap().splitn(3, ' ').skip(1);
        let status = first.next().unwrap().parse().unwrap();
        let reason = first.next().unwrap_or("").to_string();
        let length = head
            .to_lowercase()
            .split("content-length: ")
            .nth(1)
            .unwrap()
            .lines()
            .next()
            .unwrap()
            .parse()
            .unwrap();
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).unwrap();
        Some(Answer {
            status,
            reason,
            body: serde_json::from_slice(&body).unwrap_or(Value::Null),
        })
    }
}

fn world() -> Value {
    json!({
        "seed": 3,
        "pve": {
            "nodes": [{"node": "pve1"}, {"node": "pve2", "status": "offline"}],
            "storage": [
                {"storage": "local", "type": "dir", "path": "/var/lib/vz", "content": "images,iso,import"},
                {"storage": "nfs", "type": "nfs", "export": true, "content": "images"},
                {"storage": "thin", "type": "lvmthin", "vgname": "pve", "thinpool": "data", "content": "images"}
            ],
            "users": [{"userid": "root@pam", "password": "correct-horse-battery"}],
            "tokens": {"root@pam": [{"tokenid": "ci", "privsep": 0, "secret": "11111111-2222"}]},
            "task_ms": 30
        },
        "vcenter": {},
        "faults": [{"side": "pve", "method": "GET", "path": "/version$", "nth": 3, "do": {"status": 503, "reason": "made up"}}]
    })
}

const TOKEN: &str = "Authorization: PVEAPIToken=root@pam!ci=11111111-2222\r\n";
const FORM: &str = "Content-Type: application/x-www-form-urlencoded\r\n";

#[test]
fn https_log_faults_and_control() {
    let lab = start("all", &world());
    let mut conn = Conn::open(&lab, "pve");
    let a = conn.ask("GET", "/api2/json/version", "", "").unwrap();
    assert_eq!(
        (a.status, a.reason.as_str(), &a.body),
        (401, "No ticket", &Value::Null)
    );
    let login = "username=root%40pam&password=correct-horse-battery";
    let a = conn
        .ask("POST", "/api2/json/access/ticket", FORM, login)
        .unwrap();
    assert_eq!(a.status, 200);
    let ticket = a.body["data"]["ticket"].as_str().unwrap().to_string();
    let cookie = format!(
        "Cookie: PVEAuthCookie={}\r\n",
        ticket.replace('+', "%2B").replace('=', "%3D")
    );
    assert_eq!(
        conn.ask("GET", "/api2/json/version", &cookie, "")
            .unwrap()
            .body["data"]["version"],
        "9.2.11"
    );
    // A write with the ticket needs the CSRF token; with an API token it does not.
    let zone = "zone=za&type=simple";
    let a = conn
        .ask(
            "POST",
            "/api2/json/cluster/sdn/zones",
            &format!("{cookie}{FORM}"),
            zone,
        )
        .unwrap();
    assert_eq!(a.status, 401);
    let a = conn
        .ask(
            "POST",
            "/api2/json/cluster/sdn/zones",
            &format!("{TOKEN}{FORM}"),
            zone,
        )
        .unwrap();
    assert_eq!(a.status, 200);
    // The rule of the world strikes the third GET /version.
    let a = conn.ask("GET", "/api2/json/version", TOKEN, "").unwrap();
    assert_eq!((a.status, a.reason.as_str()), (503, "made up"));
    // An offline node, an unknown path, a route that is not there, a body on DELETE.
    assert_eq!(
        conn.ask("GET", "/api2/json/nodes/pve2/status", TOKEN, "")
            .unwrap()
            .status,
        595
    );
    assert_eq!(
        conn.ask("GET", "/api2/json/nodes/pve1/bogus", TOKEN, "")
            .unwrap()
            .status,
        501
    );
    let a = conn
        .ask("GET", "/api2/json/nodes/pve1/replication", TOKEN, "")
        .unwrap();
    assert_eq!(
        (a.status, a.reason.as_str()),
        (
            501,
            "labsim: not implemented: GET /nodes/{node}/replication"
        )
    );
    let a = conn
        .ask(
            "DELETE",
            "/api2/json/cluster/sdn/lock",
            &format!("{TOKEN}{FORM}"),
            "force=1",
        )
        .unwrap();
    assert_eq!(
        (a.status, a.reason.as_str()),
        (501, "Unexpected content for method 'DELETE'")
    );
    // A value with a raw `=` is cut.
    let raw = "vnet=va&zone=za&alias=a=b";
    assert_eq!(
        conn.ask(
            "POST",
            "/api2/json/cluster/sdn/vnets",
            &format!("{TOKEN}{FORM}"),
            raw
        )
        .unwrap()
        .status,
        200
    );
    let a = conn
        .ask("GET", "/api2/json/cluster/sdn/vnets/va", TOKEN, "")
        .unwrap();
    assert_eq!(a.body["data"]["alias"], "a");

    // drop: not executed; drop_after: executed, answer lost.
    let rules = json!([
        {"side": "pve", "method": "POST", "path": "/sdn/zones$", "nth": 1, "do": "drop"},
        {"side": "pve", "method": "POST", "path": "/sdn/zones$", "nth": 2, "do": "drop_after"}
    ]);
    let mut control = Conn::open(&lab, "pve");
    assert_eq!(
        control
            .ask("POST", "/labsim/faults", "", &rules.to_string())
            .unwrap()
            .status,
        200
    );
    assert!(
        conn.ask(
            "POST",
            "/api2/json/cluster/sdn/zones",
            &format!("{TOKEN}{FORM}"),
            "zone=zb&type=simple"
        )
        .is_none()
    );
    let mut conn = Conn::open(&lab, "pve");
    assert!(
        conn.ask(
            "POST",
            "/api2/json/cluster/sdn/zones",
            &format!("{TOKEN}{FORM}"),
            "zone=zc&type=simple"
        )
        .is_none()
    );
    let world_now = control.ask("GET", "/labsim/world", "", "").unwrap().body;
    let zones = world_now["pve"]["sdn"]["pending"]["zones"]
        .as_object()
        .unwrap();
    assert_eq!(zones.keys().collect::<Vec<_>>(), ["za", "zc"]);

    // The log counts, masks, and knows who asked.
    let counts = control.ask("GET", "/labsim/counts", "", "").unwrap().body;
    assert_eq!(counts["pve"]["auths"], 1);
    let log = std::fs::read_to_string(lab.dir.join("requests.log")).unwrap();
    assert!(
        !log.contains("correct-horse-battery") && !log.contains("11111111-2222"),
        "a secret is in the log"
    );
    let lines: Vec<Value> = log
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    let writes = lines.iter().filter(|l| l["kind"] == "write").count();
    assert_eq!(json!(writes), counts["pve"]["writes"]);
    assert!(
        lines
            .iter()
            .any(|l| l["note"] == "fault: drop" && l["status"] == 0)
    );
    assert!(
        lines
            .iter()
            .any(|l| l["user"] == "root@pam!ci" && l["path"] == "/api2/json/cluster/sdn/vnets")
    );

    // Set and reset.
    let set =
        json!({"pve": [{"node": "pve2", "online": true}, {"storage": "local", "disabled": true}]});
    assert_eq!(
        control
            .ask("POST", "/labsim/set", "", &set.to_string())
            .unwrap()
            .status,
        200
    );
    let mut conn = Conn::open(&lab, "pve");
    assert_eq!(
        conn.ask("GET", "/api2/json/nodes/pve2/status", TOKEN, "")
            .unwrap()
            .status,
        200
    );
    let a = conn
        .ask(
            "GET",
            "/api2/json/nodes/pve1/storage/local/content",
            TOKEN,
            "",
        )
        .unwrap();
    assert_eq!(a.reason, "storage 'local' is disabled");
    assert_eq!(
        control
            .ask("POST", "/labsim/set", "", "{\"pve\": {\"bogus\": 1}}")
            .unwrap()
            .status,
        400
    );
    std::fs::write(lab.dir.join("export/left"), "over").unwrap();
    assert_eq!(
        control.ask("POST", "/labsim/reset", "", "").unwrap().status,
        200
    );
    assert!(!lab.dir.join("export/left").exists());
    let world_now = control.ask("GET", "/labsim/world", "", "").unwrap().body;
    assert_eq!(world_now["pve"]["sdn"]["pending"]["zones"], json!({}));
    assert_eq!(
        control.ask("GET", "/labsim/counts", "", "").unwrap().body["pve"]["writes"],
        0
    );
    assert_eq!(
        conn.ask("GET", "/api2/json/nodes/pve2/status", TOKEN, "")
            .unwrap()
            .status,
        595
    );
}

#[test]
fn volumes_are_made_listed_and_deleted_as_tasks() {
    let lab = start("volumes", &world());
    let mut conn = Conn::open(&lab, "pve");
    let form = format!("{TOKEN}{FORM}");
    for (storage, file, volid, real) in [
        (
            "local",
            "vm-100-disk-0.qcow2",
            "local:100/vm-100-disk-0.qcow2",
            "storage/local/images/100/vm-100-disk-0.qcow2",
        ),
        (
            "nfs",
            "vm-100-disk-0.raw",
            "nfs:100/vm-100-disk-0.raw",
            "export/images/100/vm-100-disk-0.raw",
        ),
        (
            "thin",
            "vm-100-disk-0",
            "thin:vm-100-disk-0",
            "storage/thin/vm-100-disk-0",
        ),
    ] {
        let base = format!("/api2/json/nodes/pve1/storage/{storage}/content");
        let body = format!("vmid=100&filename={file}&size=8M");
        let a = conn.ask("POST", &base, &form, &body).unwrap();
        assert_eq!(
            (a.status, &a.body["data"]),
            (200, &json!(volid)),
            "{storage}"
        );
        assert!(lab.dir.join(real).exists(), "{real}");
        assert_eq!(
            conn.ask("POST", &base, &form, &body).unwrap().status,
            500,
            "twice"
        );
        let list = conn
            .ask("GET", &format!("{base}?content=images&vmid=100"), TOKEN, "")
            .unwrap()
            .body;
        assert_eq!(
            (&list["data"][0]["volid"], &list["data"][0]["size"]),
            (&json!(volid), &json!(8 << 20))
        );
        let one = format!("{base}/{}", volid.replace(':', "%3A").replace('/', "%2F"));
        assert_eq!(
            conn.ask("GET", &one, TOKEN, "").unwrap().body["data"]["size"],
            8 << 20
        );
        let upid = conn.ask("DELETE", &one, TOKEN, "").unwrap().body["data"]
            .as_str()
            .unwrap()
            .to_string();
        let status = format!(
            "/api2/json/nodes/pve1/tasks/{}/status",
            upid.replace('!', "%21")
        );
        let begun = Instant::now();
        loop {
            let t = conn.ask("GET", &status, TOKEN, "").unwrap().body;
            assert_eq!(
                (&t["data"]["user"], &t["data"]["tokenid"]),
                (&json!("root@pam"), &json!("ci"))
            );
            if t["data"]["status"] == "stopped" {
                assert_eq!(t["data"]["exitstatus"], "OK");
                break;
            }
            assert!(begun.elapsed() < Duration::from_secs(10));
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(!lab.dir.join(real).exists(), "{real} is still there");
    }
}

#[test]
fn only_loopback() {
    let dir = std::env::temp_dir().join(format!("labsim-loop-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("w.json"), world().to_string()).unwrap();
    let out = Command::new(env!("CARGO_BIN_EXE_labsim"))
        .args(["serve", "--pve", "0.0.0.0:0", "--world"])
        .arg(dir.join("w.json"))
        .arg("--state")
        .arg(&dir)
        .arg("--log")
        .arg(dir.join("log"))
        .output()
        .unwrap();
    assert!(!out.status.success());
    assert!(String::from_utf8_lossy(&out.stderr).contains("not a loopback address"));
    std::fs::remove_dir_all(&dir).unwrap();
}
