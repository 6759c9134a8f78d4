//! Reaching the server, trusting it, signing in and out, retrying.
mod common;

use common::*;
use plan::{ErrorKind, Request, Step, World};
use serde_json::{Value, json};
use vsphere::keys::VcKey;
use vsphere_api::{Connection, Live, Secret};

#[test]
fn an_unknown_certificate_names_the_three_ways_out_and_each_works() {
    let lab = Lab::start(estate(json!({})));
    let unknown = Connection {
        ca_path: None,
        ..lab.connection()
    };
    let f = read(&mut Live::new(unknown.clone()), VcKey::About).unwrap_err();
    assert_eq!(f.kind, ErrorKind::Unreachable);
    for part in [
        "CERTIFICATE_VERIFY_FAILED",
        "ca_path",
        &lab.fingerprint(),
        "thumbprint",
        "validate_certs: false",
    ] {
        assert!(f.msg.contains(part), "{part}: {}", f.msg);
    }
    assert!(
        lab.methods().is_empty(),
        "nothing may be sent to an untrusted server"
    );
    for c in [
        lab.connection(),
        Connection {
            thumbprint: Some(lab.fingerprint().to_lowercase().replace(':', "")),
            ..unknown.clone()
        },
        Connection {
            validate_certs: false,
            ..unknown.clone()
        },
    ] {
        known(&mut Live::new(c), VcKey::About);
    }
    for validate_certs in [true, false] {
        let c = Connection {
            thumbprint: Some("00".repeat(32)),
            validate_certs,
            ..unknown.clone()
        };
        let f = read(&mut Live::new(c), VcKey::About).unwrap_err();
        assert!(f.msg.contains("thumbprint pins"), "{}", f.msg);
    }
    let f = read(
        &mut Live::new(Connection {
            thumbprint: Some("abc".into()),
            ..unknown
        }),
        VcKey::About,
    )
    .unwrap_err();
    assert_eq!(f.kind, ErrorKind::InvalidArgs);
}

#[test]
fn a_wrong_password_has_the_peers_words() {
    let lab = Lab::start(estate(json!({})));
    let c = Connection {
        password: Secret::new("wrong-password"),
        ..lab.connection()
    };
    let expected = format!(
        "Unable to log on to the vCenter or ESXi API at {} as {USER}: Login failure",
        c.host_port()
    );
    let f = read(&mut Live::new(c), VcKey::About).unwrap_err();
    assert_eq!((f.kind, f.msg), (ErrorKind::Auth, expected));
    assert_eq!(lab.dump()["sessions"], 0);
}

#[test]
fn one_sign_in_and_always_a_sign_out() {
    let lab = Lab::start(estate(json!({})));
    let mut live = lab.live();
    known(&mut live, VcKey::VmNames);
    known(&mut live, by_name("web01", Some("DC1")));
    read(&mut live, by_name("app01", None)).unwrap_err();
    drop(live);
    let m = lab.methods();
    assert_eq!(
        m.iter().filter(|m| m.starts_with("Login")).count(),
        1,
        "{m:?}"
    );
    assert_eq!(m.last().map(String::as_str), Some("Logout"));
    let d = lab.dump();
    assert_eq!(
        (&d["sessions"], &d["session_objects"], &d["open_retrievals"]),
        (&json!(0), &json!(0), &json!(0))
    );
}

#[test]
fn an_expired_session_is_opened_again_once() {
    let lab = Lab::start(estate(json!({})));
    let mut live = lab.live();
    known(&mut live, VcKey::VmState("vm-101".into()));
    lab.set(json!({"expire_sessions": true}));
    assert_eq!(
        known(&mut live, VcKey::VmState("vm-101".into()))["power"],
        "poweredOn"
    );
    lab.set(json!({"expire_sessions": true}));
    // A view needs a session of its own.
    assert_eq!(
        known(&mut live, VcKey::Datacenters)
            .as_array()
            .unwrap()
            .len(),
        2
    );
    lab.set(json!({"expire_sessions": true}));
    // A write too: the fault says that nothing was done.
    live.send(
        &Step::new(
            Request::new("PowerOffVM_Task", "VirtualMachine:vm-101"),
            "off",
        ),
        &[],
    )
    .unwrap();
    drop(live);
    assert_eq!(
        lab.methods()
            .iter()
            .filter(|m| m.starts_with("Login"))
            .count(),
        4
    );
    assert_eq!(lab.dump()["sessions"], 0);
}

#[test]
fn reads_are_tried_again_writes_are_not() {
    let lab = Lab::start(estate(json!({})));
    let mut live = lab.live();
    known(&mut live, VcKey::About);
    lab.fault(json!({"side": "vcenter", "method": "RetrievePropertiesEx", "nth": 1, "do": {"status": 503, "body": "busy"}}));
    known(&mut live, VcKey::VmNames);
    lab.fault(json!({"side": "vcenter", "method": "RetrievePropertiesEx", "nth": 1, "do": "drop"}));
    known(&mut live, VcKey::VmState("vm-101".into()));
    lab.fault(
        json!({"side": "vcenter", "method": "PowerOffVM_Task", "every": 1, "do": "drop_after"}),
    );
    let f = live
        .send(
            &Step::new(
                Request::new("PowerOffVM_Task", "VirtualMachine:vm-102"),
                "off",
            ),
            &[],
        )
        .unwrap_err();
    assert!(f.lost_answer, "{f:?}");
    assert_eq!(lab.count("writes"), 1, "{:?}", lab.methods());
}

/// A SOAP fault as a server sends it.
fn fault(ty: &str) -> String {
    format!(
        r#"<soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><soapenv:Body><soapenv:Fault><faultcode>ServerFaultCode</faultcode><faultstring>no</faultstring><detail><x xmlns="urn:vim25" xsi:type="{ty}"></x></detail></soapenv:Fault></soapenv:Body></soapenv:Envelope>"#
    )
}

/// Whatever happens between two pages, every machine is there, and once.
#[test]
fn a_report_survives_what_happens_between_its_pages() {
    for (what, logins) in [
        (json!({"status": 500, "body": fault("NotAuthenticated")}), 2),
        (
            json!({"status": 500, "body": fault("ManagedObjectNotFound")}),
            1,
        ),
        (json!({"status": 503, "body": "busy"}), 1),
        (json!("drop"), 1),
        (json!("drop_after"), 1),
    ] {
        let lab = Lab::start(many(250, 1));
        lab.fault(json!({"side": "vcenter", "method": "ContinueRetrievePropertiesEx", "nth": 2, "do": what}));
        let mut live = lab.live();
        let names = known(&mut live, VcKey::VmNames);
        let unique: std::collections::BTreeSet<&str> = names
            .as_array()
            .unwrap()
            .iter()
            .map(|n| n["moid"].as_str().unwrap())
            .collect();
        assert_eq!(
            (names.as_array().unwrap().len(), unique.len()),
            (250, 250),
            "{what}"
        );
        drop(live);
        let m = lab.methods();
        assert_eq!(
            m.iter().filter(|m| m.starts_with("Login")).count(),
            logins,
            "{what}: {m:?}"
        );
        assert!(
            m.iter()
                .filter(|m| m.starts_with("RetrievePropertiesEx"))
                .count()
                >= 2,
            "{what}: {m:?}"
        );
    }
    // An object that keeps vanishing ends it.
    let lab = Lab::start(many(3, 1));
    lab.fault(json!({"side": "vcenter", "method": "RetrievePropertiesEx", "every": 1, "do": {"status": 500, "body": fault("ManagedObjectNotFound")}}));
    let f = read(&mut lab.live(), VcKey::VmNames).unwrap_err();
    assert_eq!(f.kind, ErrorKind::NotFound);
}

/// The smallest HTTP proxy there is: CONNECT, then bytes both ways.
fn proxy() -> (u16, std::sync::Arc<std::sync::atomic::AtomicUsize>) {
    use std::io::{BufRead, BufReader, Write};
    use std::net::{TcpListener, TcpStream};
    use std::sync::atomic::Ordering::SeqCst;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let used = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = used.clone();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.unwrap();
            let mut lines = BufReader::new(client.try_clone().unwrap()).lines();
            let first = lines.next().unwrap().unwrap();
            while !lines.next().unwrap().unwrap().is_empty() {}
            let target = first.split(' ').nth(1).unwrap().to_owned();
            count.fetch_add(1, SeqCst);
            let mut server = TcpStream::connect(target).unwrap();
            client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
            let (mut a, mut b) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut a, &mut b));
            std::thread::spawn(move || std::io::copy(&mut server, &mut client));
        }
    });
    (port, used)
}

#[test]
fn a_named_proxy_is_used() {
    let lab = Lab::start(estate(json!({})));
    let (port, used) = proxy();
    let c = Connection {
        proxy_host: Some("127.0.0.1".into()),
        proxy_port: Some(port),
        ..lab.connection()
    };
    known(&mut Live::new(c), VcKey::About);
    assert_eq!(
        used.load(std::sync::atomic::Ordering::SeqCst),
        1,
        "one connection for the whole run"
    );
}

#[test]
fn a_server_that_is_no_vcenter_is_named() {
    let lab = Lab::start(estate(json!({})));
    lab.fault(json!({"side": "vcenter", "every": 1, "do": {"status": 200, "body": "<html><body>hello</body></html>"}}));
    let f = read(&mut lab.live(), VcKey::About).unwrap_err();
    assert!(f.msg.contains("is there a vCenter"), "{}", f.msg);
    let lab = Lab::start(estate(json!({})));
    lab.fault(json!({"side": "vcenter", "every": 1, "do": {"status": 404, "body": "not here"}}));
    let f = read(&mut lab.live(), VcKey::About).unwrap_err();
    assert!(f.msg.contains("HTTP 404: not here"), "{}", f.msg);
}

#[test]
fn the_journal_has_every_request_and_no_secret() {
    let lab = Lab::start(estate(json!({})));
    let path = lab.dir.path().join("journal");
    let mut live = Live::new(Connection {
        journal: Some(path.clone()),
        ..lab.connection()
    });
    known(&mut live, VcKey::VmState("vm-101".into()));
    let secret = Request::new("ReconfigVM_Task", "VirtualMachine:vm-101").arg(
        "spec",
        plan::Arg::Shown {
            value: json!({"annotation": "hidden-note-text"}),
            symbol: "<note>".into(),
        },
    );
    live.send(
        &Step::new(secret, "note").wait(plan::Await::Task { timeout_s: 20 }),
        &[],
    )
    .unwrap();
    drop(live);
    let text = std::fs::read_to_string(path).unwrap();
    assert!(
        !text.contains(PASSWORD) && !text.contains("hidden-note-text"),
        "{text}"
    );
    let lines: Vec<Value> = text
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    let methods: Vec<&str> = lines
        .iter()
        .map(|l| l["method"].as_str().unwrap())
        .collect();
    assert_eq!(methods[..2], ["RetrieveServiceContent", "Login"]);
    assert_eq!(methods.len(), lab.methods().len());
    assert!(
        lines.iter().any(|l| l["params"]["spec"] == "<note>"),
        "{text}"
    );
    assert_eq!(lines[1]["params"]["password"], "********");
}
