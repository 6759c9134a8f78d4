//! A server that means harm: the binary must say what is wrong, within bounded memory and time.

use crate::support::Call;
use rustls::{ServerConnection, StreamOwned};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

type Tls = StreamOwned<ServerConnection, TcpStream>;
/// Writes the answer to one request, head and all; an error ends the connection.
type Answer = fn(&mut Tls) -> std::io::Result<()>;

const HEAD: &str = r#"<?xml version="1.0" encoding="UTF-8"?><soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/" xmlns:xsd="http://www.w3.org/2001/XMLSchema" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><soapenv:Body>"#;
const TAIL: &str = "</soapenv:Body></soapenv:Envelope>";
const CONTENT: &str = r#"<RetrieveServiceContentResponse xmlns="urn:vim25"><returnval><rootFolder type="Folder">group-d1</rootFolder><propertyCollector type="PropertyCollector">propertyCollector</propertyCollector><viewManager type="ViewManager">ViewManager</viewManager><about><name>x</name><fullName>x</fullName><vendor>x</vendor><version>8.0.3</version><build>1</build><osType>linux</osType><productLineId>vpx</productLineId><apiType>VirtualCenter</apiType><apiVersion>8.0.3.0</apiVersion></about><sessionManager type="SessionManager">SessionManager</sessionManager></returnval></RetrieveServiceContentResponse>"#;
const LOGIN: &str = r#"<LoginResponse xmlns="urn:vim25"><returnval><key>k</key><userName>u</userName></returnval></LoginResponse>"#;

/// Where a `RetrievePropertiesEx` answer is before its objects.
const OPEN: &str = r#"<RetrievePropertiesExResponse xmlns="urn:vim25"><returnval>"#;
const CLOSE: &str = "</returnval></RetrievePropertiesExResponse>";

fn whole(s: &mut Tls, body: &str) -> std::io::Result<()> {
    let text = format!("{HEAD}{body}{TAIL}");
    write!(
        s,
        "HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nSet-Cookie: vmware_soap_session=\"abc\"; Path=/; HttpOnly\r\nContent-Length: {}\r\n\r\n{text}",
        text.len()
    )?;
    s.flush()
}

fn chunk(s: &mut Tls, bytes: &[u8]) -> std::io::Result<()> {
    write!(s, "{:x}\r\n", bytes.len())?;
    s.write_all(bytes)?;
    s.write_all(b"\r\n")
}

fn start_chunks(s: &mut Tls, begin: &str) -> std::io::Result<()> {
    s.write_all(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nTransfer-Encoding: chunked\r\n\r\n",
    )?;
    chunk(s, format!("{HEAD}{OPEN}{begin}").as_bytes())
}

/// The same piece until the client has had enough.
fn endless(s: &mut Tls, begin: &str, piece: &str) -> std::io::Result<()> {
    start_chunks(s, begin)?;
    let piece = piece.repeat(1 + 60_000 / piece.len());
    loop {
        chunk(s, piece.as_bytes())?;
    }
}

fn sized(s: &mut Tls, begin: &str, total: usize, end: &str) -> std::io::Result<()> {
    let (begin, end) = (
        format!("{HEAD}{OPEN}{begin}"),
        format!("{end}{CLOSE}{TAIL}"),
    );
    write!(
        s,
        "HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nContent-Length: {}\r\n\r\n{begin}",
        begin.len() + total + end.len()
    )?;
    let piece = vec![b'a'; 1 << 16];
    for _ in 0..total / piece.len() {
        s.write_all(&piece)?;
    }
    s.write_all(&vec![b'a'; total % piece.len()])?;
    s.write_all(end.as_bytes())?;
    s.flush()
}

const VM: &str = r#"<objects><obj type="VirtualMachine">vm-1</obj><propSet><name>name</name><val xsi:type="xsd:string">"#;

/// What, in place of which method's answer, the answer, and what the message must say (one of these).
type Case = (&'static str, &'static str, Answer, &'static [&'static str]);

const CASES: &[Case] = &[
    (
        "an endless chunked text",
        "RetrievePropertiesEx",
        |s| endless(s, VM, "a"),
        &["larger than"],
    ),
    (
        "endless elements",
        "RetrievePropertiesEx",
        |s| {
            endless(
                s,
                "<objects><obj type=\"VirtualMachine\">vm-1</obj>",
                "<propSet><name>n</name></propSet>",
            )
        },
        &["more than 200000 elements"],
    ),
    (
        "endless elements that nobody knows",
        "RetrievePropertiesEx",
        |s| endless(s, "", "<junk><a/></junk>"),
        &["more than 200000 elements"],
    ),
    (
        "an endless comment",
        "RetrievePropertiesEx",
        |s| endless(s, "<!-- ", "a"),
        &["larger than"],
    ),
    (
        "endless blanks",
        "RetrievePropertiesEx",
        |s| endless(s, "", "   "),
        &["larger than"],
    ),
    (
        "a text of 100 MB",
        "RetrievePropertiesEx",
        |s| sized(s, VM, 100 << 20, "</val></propSet></objects>"),
        &["larger than"],
    ),
    (
        "an attribute of 100 MB",
        "RetrievePropertiesEx",
        |s| sized(s, "<objects x=\"", 100 << 20, "\"/>"),
        &["larger than"],
    ),
    (
        "an element name of 100 MB",
        "RetrievePropertiesEx",
        |s| sized(s, "<", 100 << 20, "/>"),
        &["larger than"],
    ),
    (
        "a fault of 100 MB",
        "Login",
        |s| {
            let begin =
                format!("{HEAD}<soapenv:Fault><faultcode>ServerFaultCode</faultcode><faultstring>");
            s.write_all(b"HTTP/1.1 500 Internal Server Error\r\nContent-Type: text/xml\r\nTransfer-Encoding: chunked\r\n\r\n")?;
            chunk(s, begin.as_bytes())?;
            for _ in 0..1600 {
                chunk(s, &[b'a'; 1 << 16])?;
            }
            chunk(s, b"</faultstring></soapenv:Fault>")
        },
        &["larger than"],
    ),
    (
        "a fault of 1 MB",
        "Login",
        |s| {
            let text = format!(
                "{HEAD}<soapenv:Fault><faultcode>ServerFaultCode</faultcode><faultstring>{}</faultstring></soapenv:Fault>{TAIL}",
                "no ".repeat(350_000)
            );
            write!(
                s,
                "HTTP/1.1 500 Internal Server Error\r\nContent-Length: {}\r\n\r\n{text}",
                text.len()
            )?;
            s.flush()
        },
        &["Unable to log on"],
    ),
    (
        "an endless body in sign-in",
        "RetrieveServiceContent",
        |s| endless(s, "<about><name>", "a"),
        &["larger than"],
    ),
    (
        "an endless error page",
        "RetrieveServiceContent",
        |s| {
            s.write_all(b"HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n")?;
            loop {
                chunk(s, &[b'a'; 60_000])?;
            }
        },
        &["HTTP 404"],
    ),
    (
        "an endless head",
        "RetrieveServiceContent",
        |s| {
            s.write_all(b"HTTP/1.1 200 OK\r\n")?;
            loop {
                s.write_all(
                    b"X-A: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n",
                )?;
            }
        },
        &["unable to connect", "connection"],
    ),
    (
        "deep nesting",
        "RetrievePropertiesEx",
        |s| whole(s, &format!("{OPEN}{VM}{}", "<a>".repeat(1_000_000))),
        &["nest deeper"],
    ),
    (
        "deep snapshots",
        "RetrievePropertiesEx",
        |s| {
            let tree = r#"<childSnapshotList><name>a</name>"#.repeat(100_000);
            whole(
                s,
                &format!(
                    r#"{OPEN}<objects><obj type="VirtualMachine">vm-1</obj><propSet><name>snapshot</name><val xsi:type="VirtualMachineSnapshotInfo"><rootSnapshotList>{tree}"#
                ),
            )
        },
        &["nest deeper"],
    ),
    (
        "a billion laughs",
        "RetrieveServiceContent",
        |s| {
            let text = r#"<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;">]><Envelope>&c;</Envelope>"#;
            write!(
                s,
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}",
                text.len()
            )?;
            s.flush()
        },
        &["document type"],
    ),
    (
        "an external entity",
        "RetrieveServiceContent",
        |s| {
            let text = r#"<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a SYSTEM "file:///etc/passwd">]><Envelope>&a;</Envelope>"#;
            write!(
                s,
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}",
                text.len()
            )?;
            s.flush()
        },
        &["document type"],
    ),
    (
        "an entity of its own",
        "RetrievePropertiesEx",
        |s| {
            whole(
                s,
                &format!("{OPEN}{VM}&evil;</val></propSet></objects>{CLOSE}"),
            )
        },
        &["entity"],
    ),
    (
        "an impossible character",
        "RetrievePropertiesEx",
        |s| {
            whole(
                s,
                &format!("{OPEN}{VM}&#x110000;</val></propSet></objects>{CLOSE}"),
            )
        },
        &["SOAP promises"],
    ),
    (
        "text instead of a number",
        "RetrievePropertiesEx",
        |s| {
            whole(
                s,
                &format!(
                    r#"{OPEN}<objects><obj type="VirtualMachine">vm-1</obj><propSet><name>config.hardware</name><val xsi:type="VirtualHardware"><numCPU>{}</numCPU></val></propSet></objects>{CLOSE}"#,
                    "many".repeat(100_000)
                ),
            )
        },
        &["is no int"],
    ),
    (
        "a number beyond all",
        "RetrievePropertiesEx",
        |s| {
            whole(
                s,
                &format!(
                    r#"{OPEN}<objects><obj type="VirtualMachine">vm-1</obj><propSet><name>config.hardware</name><val xsi:type="VirtualHardware"><memoryMB>99999999999999999999999</memoryMB></val></propSet></objects>{CLOSE}"#
                ),
            )
        },
        &["is no int"],
    ),
    (
        "a boolean that is none",
        "RetrievePropertiesEx",
        |s| {
            whole(
                s,
                &format!(
                    r#"{OPEN}<objects><obj type="VirtualMachine">vm-1</obj><propSet><name>config.template</name><val xsi:type="xsd:boolean">maybe</val></propSet></objects>{CLOSE}"#
                ),
            )
        },
        &["is no bool"],
    ),
    (
        "no XML",
        "RetrievePropertiesEx",
        |s| whole(s, "\u{0}\u{1}<<<>>>&&&"),
        &["SOAP promises"],
    ),
    (
        "it ends in the middle",
        "RetrievePropertiesEx",
        |s| {
            s.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")?;
            s.write_all(format!("{HEAD}{OPEN}{VM}").as_bytes())?;
            s.flush()?;
            Err(std::io::ErrorKind::ConnectionAborted.into())
        },
        &["broke off", "lost"],
    ),
    (
        "empty pages for ever",
        "RetrievePropertiesEx",
        |s| whole(s, &format!("{OPEN}<token>0</token>{CLOSE}")),
        &["nothing new"],
    ),
    (
        "the same page for ever",
        "RetrievePropertiesEx",
        |s| {
            whole(
                s,
                &format!("{OPEN}<token>0</token>{VM}web</val></propSet></objects>{CLOSE}"),
            )
        },
        &["nothing new"],
    ),
    (
        "objects without end",
        "RetrievePropertiesEx",
        |s| {
            start_chunks(s, "")?;
            for i in 0.. {
                let many: String = (0..200)
                    .map(|n| {
                        format!(
                            "<objects><obj type=\"Folder\">f-{}</obj></objects>",
                            i * 200 + n
                        )
                    })
                    .collect();
                chunk(s, many.as_bytes())?;
            }
            Ok(())
        },
        &["more than 100000 objects"],
    ),
    (
        "a redirection to somebody else",
        "RetrieveServiceContent",
        |s| {
            s.write_all(b"HTTP/1.1 302 Found\r\nLocation: https://127.0.0.1:1/sdk\r\nContent-Length: 0\r\n\r\n")?;
            s.flush()
        },
        &["HTTP 302"],
    ),
    (
        "one byte now and then",
        "RetrieveServiceContent",
        |s| {
            start_chunks(s, "")?;
            s.flush()?;
            loop {
                chunk(s, b" ")?;
                s.flush()?;
                std::thread::sleep(Duration::from_millis(100));
            }
        },
        &["timed out"],
    ),
    (
        "silence",
        "RetrieveServiceContent",
        |_| {
            std::thread::sleep(Duration::from_secs(30));
            Ok(())
        },
        &["within the time"],
    ),
];

/// Values of another type than was declared: whatever is made of them, it is a result or a clear error, and no crash.
const STRANGE: &[&str] = &[
    r#"<propSet><name>name</name><val xsi:type="xsd:int">5</val></propSet>"#,
    r#"<propSet><name>config.hardware</name><val xsi:type="xsd:string">none</val></propSet>"#,
    r#"<propSet><name>config.hardware</name><val xsi:type="VirtualHardware"><device xsi:type="xsd:string">x</device><device xsi:type="VirtualDisk"><key>1</key><backing xsi:type="xsd:int">4</backing></device></val></propSet>"#,
    r#"<propSet><name>recentTask</name><val xsi:type="ArrayOfInt"><int>1</int></val></propSet>"#,
    r#"<propSet><name>parent</name><val xsi:type="xsd:boolean">true</val></propSet>"#,
    r#"<propSet><name>config.uuid</name><val xsi:type="xsd:string">not-a-uuid-at-all-ü</val></propSet>"#,
    r#"<propSet><name>config.hardware</name><val xsi:type="VirtualHardware"><numCPU>-2147483648</numCPU><numCoresPerSocket>-1</numCoresPerSocket><memoryMB>-1</memoryMB></val></propSet>"#,
    r#"<propSet><name>layoutEx</name><val xsi:type="ArrayOfString"><string>[</string></val></propSet><propSet><name>config.files</name><val xsi:type="VirtualMachineFileInfo"><vmPathName>]]][[[</vmPathName></val></propSet>"#,
    r#"<propSet><name>name.name.name</name><val xsi:type="xsd:string">a</val></propSet><propSet><name>name</name><val xsi:type="xsd:string">b</val></propSet>"#,
    r#"<propSet><val/></propSet><missingSet><path/></missingSet>"#,
    r#"<propSet><name>snapshot</name><val xsi:nil="true"/></propSet><propSet><name>runtime.host</name><val type="Datastore" xsi:type="ManagedObjectReference"></val></propSet>"#,
];

/// What the server does with one connection.
type SharedAnswer = Arc<dyn Fn(&mut Tls) -> std::io::Result<()> + Send + Sync>;

/// Serves until the process ends; `answer` stands in for the answer to `method` (and to the further pages).
fn serve(config: Arc<rustls::ServerConfig>, method: &'static str, answer: SharedAnswer) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let (config, answer) = (config.clone(), answer.clone());
            std::thread::spawn(move || {
                let mut s = StreamOwned::new(ServerConnection::new(config).expect("TLS"), client);
                while let Ok(request) = one_request(&mut s) {
                    let is = |m: &str| request.contains(&format!("<{m} "));
                    let done = if is(method)
                        || (method == "RetrievePropertiesEx" && is("ContinueRetrievePropertiesEx"))
                    {
                        answer(&mut s)
                    } else if is("RetrieveServiceContent") {
                        whole(&mut s, CONTENT)
                    } else if is("Login") {
                        whole(&mut s, LOGIN)
                    } else {
                        whole(
                            &mut s,
                            "<LogoutResponse xmlns=\"urn:vim25\"></LogoutResponse>",
                        )
                    };
                    if done.is_err() {
                        return;
                    }
                }
            });
        }
    });
    port
}

fn one_request(s: &mut Tls) -> std::io::Result<String> {
    let (mut all, mut buf) = (vec![], [0; 4096]);
    loop {
        let n = s.read(&mut buf)?;
        if n == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        all.extend_from_slice(&buf[..n]);
        let text = String::from_utf8_lossy(&all);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|l| {
                    l.to_ascii_lowercase()
                        .strip_prefix("content-length:")
                        .map(|v| v.trim().to_owned())
                })
                .and_then(|v| v.parse::<usize>().ok())
                .unwrap_or(0);
            if body.len() >= length {
                return Ok(body.to_owned());
            }
        }
    }
}

/// The result, the most memory that the process had (KiB), and how long it took.
fn run(port: u16, ca: &std::path::Path) -> (Value, u64, Duration) {
    let call = Call::nowhere(
        "vsphere_vm_info",
        json!({"hostname": "127.0.0.1", "port": port, "username": "u", "password": "a-password-of-mine", "ca_path": ca, "api_timeout": 4, "moid": "vm-1", "concerns": false}),
    );
    let started = Instant::now();
    let (mut child, _folder) = call.spawn();
    let mut out = child.stdout.take().expect("stdout");
    let reader = std::thread::spawn(move || {
        let mut v = vec![];
        out.read_to_end(&mut v).map(|_| v)
    });
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    while child.try_wait().expect("a child").is_none() {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let now = text
            .lines()
            .find_map(|l| l.strip_prefix("VmHWM:"))
            .and_then(|v| v.trim().trim_end_matches(" kB").parse().ok())
            .unwrap_or(0);
        peak = peak.max(now);
        if started.elapsed() > Duration::from_secs(120) {
            let _ = child.kill();
        }
        std::thread::sleep(Duration::from_millis(3));
    }
    let out = reader.join().expect("a reader").expect("an output");
    (
        serde_json::from_slice(&out).unwrap_or(Value::Null),
        peak,
        started.elapsed(),
    )
}

fn authority() -> (
    tempfile::TempDir,
    std::path::PathBuf,
    Arc<rustls::ServerConfig>,
) {
    let folder = tempfile::tempdir().expect("a folder");
    let ca = folder.path().join("ca.pem");
    let leaf = labsim::tls::make(&ca, &["hostile"])
        .expect("certificates")
        .remove(0);
    (folder, ca, leaf.config)
}

#[test]
fn a_hostile_server_gets_a_clear_error_and_little_memory() {
    let (_folder, ca, config) = authority();
    let mut most = 0;
    for (what, method, answer, says) in CASES {
        let answer = *answer;
        let port = serve(config.clone(), method, Arc::new(answer));
        let (v, peak, took) = run(port, &ca);
        println!(
            "hostile: {what}: {} KiB, {:.1} s: {}",
            peak,
            took.as_secs_f64(),
            v["msg"]
                .as_str()
                .unwrap_or("")
                .chars()
                .take(160)
                .collect::<String>()
        );
        let msg = v["msg"].as_str().unwrap_or("");
        assert!(
            v["failed"] == true
                && matches!(
                    v["error_kind"].as_str(),
                    Some("api" | "unreachable" | "auth")
                ),
            "{what}: {v}"
        );
        assert!(says.iter().any(|s| msg.contains(s)), "{what}: {msg}");
        assert!(msg.len() < 2000, "{what}: a message of {} bytes", msg.len());
        assert!(peak < 200 * 1024, "{what}: {peak} KiB");
        assert!(took < Duration::from_secs(90), "{what}: {took:?}");
        most = most.max(peak);
    }
    println!("hostile: {} cases, at most {most} KiB", CASES.len());
}

#[test]
fn values_of_a_wrong_type_crash_nothing() {
    let (_folder, ca, config) = authority();
    for strange in STRANGE {
        let body = format!(
            r#"{OPEN}<objects><obj type="VirtualMachine">vm-1</obj>{strange}</objects>{CLOSE}"#
        );
        let port = serve(
            config.clone(),
            "RetrievePropertiesEx",
            Arc::new(move |s: &mut Tls| whole(s, &body)),
        );
        let (v, peak, _) = run(port, &ca);
        assert!(
            v.is_object() && v["error_kind"] != "internal",
            "{strange}: {v}"
        );
        assert!(
            v["failed"] == true || v["vm"]["moid"] == "vm-1",
            "{strange}: {v}"
        );
        assert!(peak < 200 * 1024, "{strange}: {peak} KiB");
    }
}
