//! Secrets stand in no output and no journal, whatever happens. Every run of these tests is searched for the lab's passwords and tokens
//! (support/call.rs); here are the runs in which they would be most at home.

use crate::support::{Call, Lab, PASSWORD, TOKEN_SECRET, worlds};
use serde_json::{Value, json};

fn nic() -> Value {
    json!({"vmid": 100, "interface": "net1", "bridge": "vmbr0"})
}

/// A failing run for every kind of failure that a server or a wrong task can cause, by token and by password.
#[test]
fn no_failure_shows_a_secret() {
    let lab = Lab::one_guest();
    // A server that repeats what was sent to it.
    let faults = |sent: &str| {
        [
            (
                json!({"status": 401, "reason": "authentication failure", "body": format!("you sent {sent}")}),
                "auth",
            ),
            (
                json!({"status": 403, "reason": "Permission check failed (/vms/100, VM.Config.Network)"}),
                "permission",
            ),
            (
                json!({"status": 500, "reason": format!("oops {sent}"), "body": {"data": null, "message": format!("died at {sent}\n")}}),
                "api",
            ),
            (
                json!({"status": 200, "body": format!("<html>{sent}</html>")}),
                "",
            ),
            (
                json!({"status": 400, "reason": "Parameter verification failed.", "body": {"data": null, "message": "Parameter verification failed.\n", "errors": {"net1": format!("wrong: {sent}")}}}),
                "api",
            ),
            (json!("drop"), "unreachable"),
        ]
    };
    for (who, sign_in, sent) in [
        ("token", lab.token(), TOKEN_SECRET),
        ("password", lab.user("root@pam"), PASSWORD),
    ] {
        for (act, kind) in &faults(sent) {
            for nth in [1, 2, 4, 6] {
                lab.no_faults();
                // A read is tried three times.
                for n in nth..nth + 3 {
                    lab.fault(json!({"side": "pve", "nth": n, "do": act}));
                }
                let mut call = lab.call("pve_nic", nic());
                if who == "password" {
                    let mut args = nic();
                    for (k, v) in sign_in.as_object().unwrap() {
                        args[k] = v.clone();
                    }
                    call = lab.bare("pve_nic", args);
                }
                // The search is in `run`.
                let d = call.check(true).run();
                if nth == 1 && !kind.is_empty() && who == "token" {
                    d.failed(kind);
                }
            }
        }
    }
}

#[test]
fn wrong_arguments_are_not_repeated_with_their_secrets() {
    let base = json!({"api_host": "127.0.0.1:1", "api_user": "root@pam", "api_password": PASSWORD, "vmid": 100, "interface": "net1"});
    for (key, value) in [
        ("interface", json!("memory")),
        ("vmid", json!("many")),
        ("api_pasword", json!(PASSWORD)),
        ("api_token_secret", json!(TOKEN_SECRET)),
        ("api_port", json!(PASSWORD)),
        ("validate_certs", json!(PASSWORD)),
    ] {
        let d = Call::nowhere("pve_nic", base.clone()).arg(key, value).run();
        assert!(d.is_failed(), "{key}");
    }
    // A password that is a dictionary by mistake.
    let d = Call::nowhere("pve_nic", base)
        .arg("api_password", json!({"value": PASSWORD}))
        .run();
    assert!(d.is_failed());
}

#[test]
fn a_file_that_is_no_json_is_not_repeated() {
    let f = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(f.path(), format!("{{\"api_password\": \"{PASSWORD}\" oops")).unwrap();
    for args in [vec![], vec!["pve_nic"]] {
        let out = std::process::Command::new(env!("CARGO_BIN_EXE_trueplan"))
            .args(args)
            .arg(f.path())
            .output()
            .unwrap();
        let text = format!(
            "{}{}",
            String::from_utf8_lossy(&out.stdout),
            String::from_utf8_lossy(&out.stderr)
        );
        assert!(!text.contains(PASSWORD), "{text}");
        assert!(!out.status.success());
        let v: Value = serde_json::from_slice(&out.stdout).expect("a JSON result");
        assert_eq!(v["failed"], true, "{v}");
    }
}

#[test]
fn certificates_that_are_not_trusted_name_the_ways_out() {
    let lab = Lab::one_guest();
    let with = |changes: Value| {
        let mut a = lab.token();
        for (k, v) in nic()
            .as_object()
            .unwrap()
            .iter()
            .chain(changes.as_object().unwrap())
        {
            a[k] = v.clone();
        }
        lab.bare("pve_nic", a).check(true).run()
    };
    let d = with(json!({"ca_path": null})).failed("unreachable");
    for way in ["api_fingerprint", "ca_path", "validate_certs"] {
        assert!(d.msg().contains(way), "{}", d.msg());
    }
    assert!(d.msg().contains(lab.fingerprint("pve")), "{}", d.msg());
    with(json!({"ca_path": null, "api_fingerprint": lab.fingerprint("pve")})).ok();
    // A pin counts also where nothing else is checked.
    with(json!({"ca_path": null, "validate_certs": false, "api_fingerprint": lab.fingerprint("vcenter")})).failed("unreachable");
    with(json!({"ca_path": null, "validate_certs": false})).ok();
    with(json!({"api_host": "127.0.0.1:1"})).failed("unreachable");
    assert_eq!(lab.writes(), 0);
}

#[test]
fn the_journal_has_every_request_and_no_secret() {
    let lab = Lab::start(worlds::small());
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal");
    let run = |module: &str, args: Value, user: bool| {
        let mut all = if user {
            lab.user("root@pam")
        } else {
            lab.token()
        };
        for (k, v) in args.as_object().unwrap() {
            all[k] = v.clone();
        }
        lab.bare(module, all)
            .env("TRUEPLAN_JOURNAL", journal.to_str().unwrap())
            .run()
            .ok()
    };
    const CI: &str = "cloud-init-password-7";
    run(
        "pve_zone",
        json!({"zone": "zvlan", "type": "vlan", "bridge": "vmbr0"}),
        true,
    );
    run(
        "pve_vnet",
        json!({"zone": "zvlan", "vnet": "v100", "tag": 100}),
        false,
    );
    let d = run(
        "pve_vm_shell",
        json!({"vmid": 100, "node": "pve1", "name": "web", "cipassword": CI, "ide": {"ide2": "local:cloudinit"}}),
        true,
    );
    assert!(!d.stdout.contains(CI), "{}", d.stdout);
    let text = std::fs::read_to_string(&journal).unwrap();
    let lines: Vec<Value> = text
        .lines()
        .map(|l| serde_json::from_str(l).expect("JSON lines"))
        .collect();
    assert!(lines.iter().all(Value::is_object));
    let writes = lab.log().iter().filter(|e| e["kind"] == "write").count();
    let sent = text
        .lines()
        .filter(|l| ["POST", "PUT", "DELETE"].iter().any(|m| l.contains(m)))
        .count();
    assert!(
        sent >= writes && writes > 4,
        "{sent} in the journal, {writes} at the server\n{text}"
    );
    for secret in [PASSWORD, TOKEN_SECRET, CI, "PVE:root@pam:"] {
        assert!(!text.contains(secret), "the journal has {secret}:\n{text}");
    }
}

/// C18: the token of the SDN lock.
#[test]
fn c18_the_lock_token_is_not_shown() {
    let lab = Lab::start(worlds::small());
    const LOCK: &str = "0a1b2c3d-lock-token-of-the-lab";
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal");
    lab.fault(json!({"side": "pve", "method": "POST", "path": "/cluster/sdn/lock$", "do": {"status": 200, "body": {"data": LOCK}}}));
    let d = lab
        .call(
            "pve_zone",
            json!({"zone": "zvlan", "type": "vlan", "bridge": "vmbr0", "timeout": 3}),
        )
        .secret(LOCK)
        .env("TRUEPLAN_JOURNAL", journal.to_str().unwrap())
        .run();
    // The lab knows no such token: the write that carries it is refused, and the refusal is told.
    assert!(
        d.requests
            .iter()
            .any(|r| r["method"] == "POST" && r["path"].as_str().unwrap().ends_with("/sdn/zones")),
        "{:?}",
        d.requests
    );
    assert!(!std::fs::read_to_string(&journal).unwrap().contains(LOCK));
}

/// The same for vCenter: SOAP faults that repeat what was sent, wrong passwords, wrong certificates, the journal.
#[test]
fn no_failure_of_a_vcenter_shows_a_secret() {
    let lab = Lab::demo();
    let power = || {
        lab.call(
            "vsphere_powerstate",
            json!({"moid": "vm-101", "state": "powered-off"}),
        )
    };
    let fault = |text: &str| {
        format!(
            "<?xml version=\"1.0\"?><soapenv:Envelope xmlns:soapenv=\"http://schemas.xmlsoap.org/soap/envelope/\"><soapenv:Body><soapenv:Fault><faultcode>ServerFaultCode</faultcode><faultstring>{text}</faultstring></soapenv:Fault></soapenv:Body></soapenv:Envelope>"
        )
    };
    for act in [
        json!({"status": 500, "body": fault(&format!("no: {}", crate::support::VC_PASSWORD))}),
        json!({"status": 200, "body": format!("<html>{}</html>", crate::support::VC_PASSWORD)}),
        json!({"status": 401, "reason": crate::support::VC_PASSWORD}),
        json!("drop"),
    ] {
        for nth in 1..=4 {
            lab.no_faults();
            for n in nth..nth + 3 {
                lab.fault(json!({"side": "vcenter", "nth": n, "do": act}));
            }
            // The search is in `run`.
            power().check(true).run();
        }
    }
    lab.no_faults();
    power()
        .arg("password", "not-the-password")
        .secret("not-the-password")
        .run()
        .failed("auth");
    power()
        .arg("ca_path", Value::Null)
        .run()
        .failed("unreachable");
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal");
    power()
        .env("TRUEPLAN_JOURNAL", journal.to_str().unwrap())
        .run()
        .ok();
    let text = std::fs::read_to_string(&journal).unwrap();
    assert!(text.contains("PowerOffVM_Task"), "{text}");
    assert!(!text.contains(crate::support::VC_PASSWORD), "{text}");
    // A run that fails signs out too, where the server listens.
    let sessions = || lab.world()["vcenter"]["sessions"].clone();
    let before = sessions();
    // Requests 1 and 2 are before the sign-in is done, 5 is the sign-out itself.
    for nth in [3, 4] {
        lab.no_faults();
        lab.fault(
            json!({"side": "vcenter", "nth": nth, "do": {"status": 500, "body": fault("no")}}),
        );
        power().run();
    }
    assert_eq!(sessions(), before);
}
