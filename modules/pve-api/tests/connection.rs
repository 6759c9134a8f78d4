//! Reaching the server, trusting it, signing in, retrying.
mod common;

use common::{Lab, PASSWORD, TOKEN_SECRET, known, read, world};
use plan::{Arg, ErrorKind, Fact, Request, Step, World};
use pve::keys::PveKey;
use pve_api::{Connection, Live, Secret};
use serde_json::json;
use std::time::{Duration, Instant};

fn perms() -> PveKey {
    PveKey::Perms("/vms".into())
}

/// A write that the lab carries out for real.
fn acl() -> Step {
    let request = Request::new("PUT", "/access/acl")
        .param("path", "/vms/100")
        .param("roles", "PVEVMAdmin")
        .param("users", "nobody@pve")
        .param("propagate", false);
    Step::new(request, "give it")
}

#[test]
fn an_unknown_certificate_names_the_three_ways_out() {
    let lab = Lab::start(world());
    let unknown = Connection {
        ca_path: None,
        ..lab.connection()
    };
    let f = read(&mut Live::new(unknown.clone()), perms()).unwrap_err();
    assert_eq!(f.kind, ErrorKind::Unreachable);
    for part in [
        "self-signed",
        &format!("api_fingerprint: {}", lab.fingerprint()),
        "ca_path",
        "validate_certs: false",
    ] {
        assert!(f.msg.contains(part), "{part}: {}", f.msg);
    }
    assert!(
        lab.log().is_empty(),
        "nothing may be sent to an untrusted server"
    );

    let lower = lab.fingerprint().to_lowercase().replace(':', "");
    let ways = [
        lab.connection(),
        Connection {
            fingerprint: Some(lab.fingerprint()),
            ..unknown.clone()
        },
        Connection {
            fingerprint: Some(lower),
            validate_certs: false,
            ..unknown.clone()
        },
        Connection {
            validate_certs: false,
            ..unknown.clone()
        },
    ];
    for c in ways {
        c.check().unwrap();
        known(&mut Live::new(c), perms());
    }

    for validate_certs in [true, false] {
        let c = Connection {
            fingerprint: Some("00".repeat(32)),
            validate_certs,
            ..lab.connection()
        };
        let f = read(&mut Live::new(c), perms()).unwrap_err();
        assert_eq!(f.kind, ErrorKind::Unreachable);
        assert!(
            f.msg.contains("pins") && f.msg.contains(&lab.fingerprint()),
            "{}",
            f.msg
        );
    }
}

/// A server whose certificate is its own authority, as `openssl req -x509` makes it; answers every request with the same text.
fn self_signed(names: &[&str]) -> (u16, std::path::PathBuf, tempfile::TempDir) {
    use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
    use std::io::{Read as _, Write as _};
    let mut params =
        rcgen::CertificateParams::new(names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>())
            .unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = rcgen::KeyPair::generate().unwrap();
    let cert = params.self_signed(&key).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let pem = dir.path().join("server.pem");
    std::fs::write(&pem, cert.pem()).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = rustls::ServerConfig::builder_with_provider(std::sync::Arc::new(
        rustls::crypto::ring::default_provider(),
    ))
    .with_safe_default_protocol_versions()
    .unwrap()
    .with_no_client_auth()
    .with_single_cert(vec![cert.der().clone()], key)
    .unwrap();
    let config = std::sync::Arc::new(config);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let connection = rustls::ServerConnection::new(config.clone()).unwrap();
            let mut tls = rustls::StreamOwned::new(connection, stream.unwrap());
            let mut buffer = [0; 4096];
            if tls.read(&mut buffer).is_ok_and(|n| n > 0) {
                let body = r#"{"data":{"/vms":{}}}"#;
                let _ = write!(
                    tls,
                    "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                    body.len()
                );
                tls.conn.send_close_notify();
                let _ = tls.flush();
            }
        }
    });
    (port, pem, dir)
}

#[test]
fn a_certificate_that_is_its_own_authority_is_trusted_when_ca_path_names_it() {
    for (name, good) in [("127.0.0.1", true), ("pve1.example", false)] {
        let (port, pem, _dir) = self_signed(&[name]);
        let c = Connection {
            host: format!("127.0.0.1:{port}"),
            token_id: Some("root@pam!full".into()),
            token_secret: Some(Secret::new(TOKEN_SECRET)),
            ..Connection::default()
        };
        let f = read(&mut Live::new(c.clone()), perms()).unwrap_err();
        assert!(f.msg.contains("self-signed"), "{}", f.msg);
        let c = Connection {
            ca_path: Some(pem),
            ..c
        };
        let result = read(&mut Live::new(c), perms());
        match result {
            Ok(_) => assert!(good),
            Err(f) => assert!(
                !good && f.msg.contains("not issued for this host"),
                "{}",
                f.msg
            ),
        }
    }
}

#[test]
fn a_certificate_for_another_name_is_not_trusted() {
    let lab = Lab::start(world());
    // The certificate is for localhost and 127.0.0.1; the IPv4-mapped address reaches the same server under another name.
    let address = lab.address();
    let port = address.rsplit(':').next().unwrap();
    let c = Connection {
        host: format!("[::ffff:127.0.0.1]:{port}"),
        ..lab.connection()
    };
    let f = read(&mut Live::new(c), perms()).unwrap_err();
    assert_eq!(f.kind, ErrorKind::Unreachable);
    assert!(f.msg.contains("not issued for this host"), "{}", f.msg);
}

#[test]
fn a_token_needs_no_sign_in_and_nothing_is_read_twice() {
    let lab = Lab::start(world());
    let mut live = lab.live();
    let first = known(&mut live, perms());
    assert!(first.get("VM.Allocate").is_some());
    assert_eq!(known(&mut live, perms()), first);
    assert_eq!(
        known(&mut live, PveKey::WhoAmI),
        json!({"user": "root@pam", "token": "full", "root_login": false})
    );
    assert_eq!((lab.count("auths"), lab.count("reads")), (0, 1));
    live.forget(&[perms().key()]);
    known(&mut live, perms());
    assert_eq!(lab.count("reads"), 2);
}

#[test]
fn a_short_token_id_goes_with_the_user() {
    let lab = Lab::start(world());
    let c = Connection {
        user: Some("root@pam".into()),
        token_id: Some("full".into()),
        password: Some(Secret::new("not this one")),
        ..lab.connection()
    };
    known(&mut Live::new(c), perms());
    assert_eq!(lab.log()[0]["user"], "root@pam!full");
}

#[test]
fn wrong_credentials_are_auth() {
    let lab = Lab::start(world());
    let c = Connection {
        token_secret: Some(Secret::new("99999999-2222-3333-4444-555555555555")),
        ..lab.connection()
    };
    let f = read(&mut Live::new(c), perms()).unwrap_err();
    assert_eq!(f.kind, ErrorKind::Auth);
    assert!(f.msg.contains("root@pam!full"), "{}", f.msg);
    assert!(!f.msg.contains("99999999"), "{}", f.msg);

    let c = Connection {
        password: Some(Secret::new("wrong password")),
        ..lab.user("deploy@pve")
    };
    let f = read(&mut Live::new(c), perms()).unwrap_err();
    assert_eq!(f.kind, ErrorKind::Auth);
    assert!(
        f.msg.contains("sign in") && f.msg.contains("authentication failure"),
        "{}",
        f.msg
    );
    assert!(!f.msg.contains("wrong password"));
}

#[test]
fn the_reason_phrase_is_the_text_of_a_401() {
    let lab = Lab::start(world());
    lab.fault(json!({"do": {"status": 401, "reason": "token value expired"}}));
    let f = read(&mut lab.live(), perms()).unwrap_err();
    assert_eq!(f.kind, ErrorKind::Auth);
    assert!(f.msg.contains("token value expired"), "{}", f.msg);
}

#[test]
fn a_ticket_is_asked_once_and_writes_carry_the_csrf_token() {
    let lab = Lab::start(world());
    let mut live = Live::new(lab.user("root@pam"));
    known(&mut live, perms());
    assert_eq!(known(&mut live, PveKey::WhoAmI)["root_login"], true);
    live.send(&acl(), &[]).unwrap();
    assert_eq!(
        (lab.count("auths"), lab.count("reads"), lab.count("writes")),
        (1, 1, 1)
    );
    let acls = lab.world()["access"]["acl"].as_array().unwrap().len();
    assert_eq!(acls, 2);
}

#[test]
fn an_old_ticket_is_renewed_with_itself() {
    let lab = Lab::start(world());
    let c = Connection {
        renew_after: Duration::ZERO,
        ..lab.user("root@pam")
    };
    let mut live = Live::new(c);
    known(&mut live, PveKey::WhoAmI);
    // From here on the password that we have would be refused.
    let change = Request::new("PUT", "/access/password")
        .param("userid", "root@pam")
        .arg("password", Arg::Secret("another password".into()));
    Live::new(lab.user("root@pam"))
        .send(&Step::new(change, "change it"), &[])
        .unwrap();
    known(&mut live, perms());
    assert_eq!(
        lab.requests()
            .iter()
            .filter(|r| r.contains("ticket"))
            .count(),
        3
    );
    let f = read(&mut Live::new(lab.user("root@pam")), perms()).unwrap_err();
    assert_eq!(f.kind, ErrorKind::Auth);
}

#[test]
fn an_expired_ticket_is_replaced_in_the_middle_of_a_run() {
    let mut w = world();
    w["pve"]["ticket_lifetime_s"] = json!(1);
    let lab = Lab::start(w);
    let mut live = Live::new(lab.user("root@pam"));
    known(&mut live, perms());
    std::thread::sleep(Duration::from_millis(2200));
    // The 401 says that nothing was done: the write is sent again, once.
    live.send(&acl(), &[]).unwrap();
    let acls = lab.world()["access"]["acl"].as_array().unwrap().len();
    assert_eq!(acls, 2);
}

#[test]
fn a_second_factor_is_answered_with_the_one_time_password() {
    let lab = Lab::start(world());
    let challenge = json!({"ticket": "PVE:!tfa!challenge", "NeedTFA": 1, "username": "root@pam", "CSRFPreventionToken": "x"});
    lab.answer_nth(1, "POST", "/access/ticket", challenge.clone());
    let f = read(&mut Live::new(lab.user("root@pam")), perms()).unwrap_err();
    assert_eq!(f.kind, ErrorKind::Auth);
    assert!(f.msg.contains("api_otp"), "{}", f.msg);

    let lab = Lab::start(world());
    lab.answer_nth(1, "POST", "/access/ticket", challenge);
    lab.answer_nth(
        2,
        "POST",
        "/access/ticket",
        json!({"ticket": "PVE:root@pam:1::x", "username": "root@pam", "CSRFPreventionToken": "x"}),
    );
    lab.answer("GET", "/access/permissions", json!({"/vms": {}}));
    let c = Connection {
        otp: Some(Secret::new("123456")),
        ..lab.user("root@pam")
    };
    known(&mut Live::new(c), perms());
    let second = &lab.log()[1];
    assert!(second["params"].get("tfa-challenge").is_some(), "{second}");
}

#[test]
fn reads_are_tried_three_times() {
    let lab = Lab::start(world());
    lab.fault(json!([
        {"path": "permissions", "nth": 1, "do": "drop"},
        {"path": "permissions", "nth": 2, "do": {"status": 595, "reason": "No route to host"}},
    ]));
    known(&mut lab.live(), perms());
    assert_eq!(lab.requests().len(), 3);

    lab.no_faults();
    lab.fault(json!({"path": "permissions", "do": {"status": 595, "reason": "No route to host"}}));
    let f = read(&mut lab.live(), perms()).unwrap_err();
    assert_eq!(f.kind, ErrorKind::Unreachable);
    assert!(
        f.msg.contains("No route to host") && f.msg.contains("595"),
        "{}",
        f.msg
    );
    assert!(!f.lost_answer);
    assert_eq!(lab.requests().len(), 6);
}

#[test]
fn a_refusal_is_no_reason_to_try_again() {
    let lab = Lab::start(world());
    lab.fault(json!({"path": "permissions", "do": {"status": 500, "reason": "broken", "body": {"data": null, "message": "broken at /usr/share/perl5/PVE/X.pm line 3.\n"}}}));
    let f = read(&mut lab.live(), perms()).unwrap_err();
    assert_eq!(f.kind, ErrorKind::Api);
    assert_eq!(f.msg, "unable to read the privileges on /vms: broken");
    assert_eq!(lab.requests().len(), 1);
}

#[test]
fn a_lost_answer_is_not_sent_again() {
    let lab = Lab::start(world());
    for (how, entries) in [("drop", 1), ("drop_after", 2)] {
        lab.no_faults();
        lab.fault(json!({"method": "PUT", "do": how}));
        let before = lab.requests().len();
        let f = lab.live().send(&acl(), &[]).unwrap_err();
        assert!(f.lost_answer, "{how}: {}", f.msg);
        assert_eq!(f.kind, ErrorKind::Unreachable);
        assert_eq!(lab.requests().len() - before, 1, "{how}");
        let acls = lab.world()["access"]["acl"].as_array().unwrap().len();
        assert_eq!(acls, entries, "{how}");
    }
    // Also on a connection that was used before.
    let mut live = lab.live();
    lab.no_faults();
    known(&mut live, perms());
    lab.fault(json!({"method": "PUT", "do": "drop_after"}));
    let before = lab.requests().len();
    assert!(live.send(&acl(), &[]).unwrap_err().lost_answer);
    assert_eq!(lab.requests().len() - before, 1);
}

#[test]
fn a_proxy_error_after_sending_is_a_lost_answer_before_it_is_not() {
    let lab = Lab::start(world());
    for (status, lost) in [(595, false), (596, true), (599, true)] {
        lab.no_faults();
        lab.fault(json!({"method": "PUT", "do": {"status": status, "reason": "Broken pipe"}}));
        let f = lab.live().send(&acl(), &[]).unwrap_err();
        assert_eq!(
            (f.kind, f.lost_answer),
            (ErrorKind::Unreachable, lost),
            "{status}"
        );
    }
}

#[test]
fn nobody_there_is_unreachable_and_nothing_is_lost() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let c = Connection {
        host: "127.0.0.1".into(),
        port: Some(port),
        token_id: Some("root@pam!full".into()),
        token_secret: Some(Secret::new(TOKEN_SECRET)),
        ..Connection::default()
    };
    let mut live = Live::new(c);
    let f = live.send(&acl(), &[]).unwrap_err();
    assert_eq!((f.kind, f.lost_answer), (ErrorKind::Unreachable, false));
    assert!(
        f.msg.contains("refused") && f.msg.contains(&port.to_string()),
        "{}",
        f.msg
    );
    assert_eq!(
        read(&mut live, perms()).unwrap_err().kind,
        ErrorKind::Unreachable
    );
}

#[test]
fn a_slow_answer_is_not_waited_for_without_end() {
    let lab = Lab::start(world());
    let c = Connection {
        timeout_s: 1,
        ..lab.connection()
    };
    lab.fault(json!({"path": "permissions", "do": {"delay_ms": 4000}}));
    let begun = Instant::now();
    let f = read(&mut Live::new(c.clone()), perms()).unwrap_err();
    assert_eq!(f.kind, ErrorKind::Unreachable);
    assert!(f.msg.contains("api_timeout"), "{}", f.msg);
    assert!(begun.elapsed() < Duration::from_secs(6));

    lab.no_faults();
    lab.fault(json!({"method": "PUT", "do": {"delay_ms": 7000}}));
    let f = Live::new(c).send(&acl(), &[]).unwrap_err();
    assert!(f.lost_answer, "{}", f.msg);
}

#[test]
fn what_is_no_proxmox_is_said_to_be_none() {
    let lab = Lab::start(world());
    lab.fault(json!({"do": {"status": 200, "body": "<html>welcome</html>"}}));
    let f = read(&mut lab.live(), perms()).unwrap_err();
    assert_eq!(f.kind, ErrorKind::Api);
    assert!(f.msg.contains("api_host"), "{}", f.msg);
}

#[test]
fn every_parameter_of_a_400_is_named() {
    let lab = Lab::start(world());
    let bad = Request::new("PUT", "/access/acl").param("path", "/vms");
    let f = lab.live().send(&Step::new(bad, "try"), &[]).unwrap_err();
    assert_eq!(f.kind, ErrorKind::Api);
    assert!(
        f.msg
            .starts_with("unable to change the ACL of /vms: Parameter verification failed ("),
        "{}",
        f.msg
    );
    assert!(f.msg.contains("roles: "), "{}", f.msg);
}

#[test]
fn a_missing_privilege_is_named_with_path_and_token() {
    let lab = Lab::start(world());
    let c = Connection {
        token_id: Some("deploy@pve!ci".into()),
        ..lab.connection()
    };
    // The user may, its privilege-separated token may not.
    let step = Step::new(
        Request::new("POST", "/pools").param("poolid", "p"),
        "make it",
    );
    lab.refuse(
        "POST",
        "/pools",
        403,
        "Permission check failed (/pool/p, Pool.Allocate)\n",
        json!(null),
    );
    let f = Live::new(c).send(&step, &[]).unwrap_err();
    assert_eq!(f.kind, ErrorKind::Permission);
    assert!(
        f.msg.starts_with("unable to create pool p: privilege Pool.Allocate is missing on /pool/p for token deploy@pve!ci"),
        "{}",
        f.msg
    );
    assert!(f.msg.contains("privilege-separated"));
}

#[test]
fn the_journal_has_every_request_and_no_secret() {
    let lab = Lab::start(world());
    let file = lab.dir.path().join("journal");
    let c = Connection {
        journal: Some(file.clone()),
        ..lab.user("root@pam")
    };
    let mut live = Live::new(c);
    known(&mut live, perms());
    let lock = "01a22ce2-2184-7dce-b4b1-8c3f6cc00000";
    lab.answer("POST", "/cluster/sdn/lock", json!(lock));
    let sent = live
        .send(
            &Step::new(Request::new("POST", "/cluster/sdn/lock"), "lock"),
            &[],
        )
        .unwrap();
    assert_eq!(sent.answer, lock);
    // The server's text would repeat the token.
    lab.refuse(
        "POST",
        "/cluster/sdn/zones",
        500,
        &format!("create sdn zone object failed: bad {lock} at /usr/share/perl5/PVE/Network/SDN.pm line 291.\n"),
        json!(null),
    );
    let zone = Request::new("POST", "/cluster/sdn/zones")
        .param("zone", "za")
        .arg(
            "lock-token",
            Arg::Answer {
                step: 0,
                symbol: "<lock token>".into(),
            },
        );
    let f = live
        .send(&Step::new(zone, "make it"), &[sent.answer])
        .unwrap_err();
    assert_eq!(
        f.msg,
        "unable to create zone za: create sdn zone object failed: bad ********"
    );
    let user = Request::new("PUT", "/access/password")
        .param("userid", "nobody@pve")
        .arg("password", Arg::Secret("a brand new secret".into()));
    live.send(&Step::new(user, "set it"), &[]).unwrap();

    let text = std::fs::read_to_string(&file).unwrap();
    for secret in [PASSWORD, lock, "a brand new secret", "PVE:root@pam"] {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
    let lines: Vec<serde_json::Value> = text
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    let named: Vec<String> = lines
        .iter()
        .map(|l| {
            format!(
                "{} {}",
                l["method"].as_str().unwrap(),
                l["path"].as_str().unwrap()
            )
        })
        .collect();
    assert_eq!(
        named,
        [
            "POST /access/ticket",
            "GET /access/permissions?path=%2Fvms",
            "POST /cluster/sdn/lock",
            "POST /cluster/sdn/zones",
            "PUT /access/password"
        ]
    );
    assert_eq!(lines[3]["status"], 500);
    assert_eq!(lines[4]["params"]["userid"], "nobody@pve");
}

#[test]
fn a_fact_that_may_not_be_read_is_unreadable_not_absent() {
    let lab = Lab::start(world());
    lab.refuse(
        "GET",
        "/cluster/ha/resources",
        403,
        "Permission check failed (/, Sys.Audit)\n",
        json!(null),
    );
    match read(&mut lab.live(), PveKey::HaResources).unwrap() {
        Fact::Unreadable(why) => assert!(
            why.contains("Sys.Audit is missing on / for token root@pam!full"),
            "{why}"
        ),
        other => panic!("{other:?}"),
    }
}
