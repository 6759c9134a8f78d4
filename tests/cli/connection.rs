//! Every way to sign in and to trust a server, through the built binary; each failure names the way out. More of each in
//! modules/pve-api/tests/connection.rs.

use crate::support::{Lab, worlds};
use serde_json::{Value, json};

fn by(lab: &Lab, more: Value) -> Value {
    let mut args = json!({"api_host": lab.pve(), "vmid": 100});
    for (k, v) in more.as_object().expect("an object") {
        args[k] = v.clone();
    }
    args
}

fn token(lab: &Lab) -> Value {
    by(
        lab,
        json!({"api_token_id": "root@pam!full", "api_token_secret": worlds::TOKEN_SECRET}),
    )
}

#[test]
fn every_way_in() {
    let lab = Lab::one_guest();
    let ca = json!(lab.ca());
    let fingerprint = lab.fingerprint("pve").to_owned();
    let password = json!({"api_user": "root@pam", "api_password": worlds::PASSWORD, "ca_path": ca});
    let mut with_ca = token(&lab);
    with_ca["ca_path"] = ca;
    let mut pinned = token(&lab);
    pinned["api_fingerprint"] = json!(fingerprint);
    let mut pinned_only = pinned.clone();
    pinned_only["validate_certs"] = json!(false);
    for args in [with_ca, pinned, pinned_only, by(&lab, password)] {
        let d = lab.bare("pve_vm_info", args).run().ok();
        assert_eq!(d["proxmox_vms"].as_array().map(Vec::len), Some(1));
    }
}

/// The authorities are read in three steps: those of `ca_path`, the system's file, the system's directory. Each vouches by itself, and
/// for no more than all of them together.
#[test]
fn the_systems_authorities_vouch_wherever_they_lie() {
    let (lab, other) = (Lab::one_guest(), Lab::one_guest());
    let folder = tempfile::tempdir().expect("a folder");
    let (good, bad) = (folder.path().join("good"), folder.path().join("bad"));
    for (to, from) in [(&good, &lab), (&bad, &other)] {
        std::fs::create_dir(to).expect("a folder");
        // The name by which OpenSSL's tools link a certificate.
        std::fs::copy(from.ca(), to.join("0a1b2c3d.0")).expect("copied");
    }
    let in_folder = |p: &std::path::Path| p.join("0a1b2c3d.0").display().to_string();
    let folder_of = |p: &std::path::Path| p.display().to_string();
    let (file, dir) = ("SSL_CERT_FILE", "SSL_CERT_DIR");
    for (ca_path, env, trusted) in [
        (None, vec![(file, in_folder(&good))], true),
        (None, vec![(dir, folder_of(&good))], true),
        (
            None,
            vec![(file, in_folder(&bad)), (dir, folder_of(&good))],
            true,
        ),
        (Some(&other), vec![(file, in_folder(&good))], true),
        (Some(&other), vec![(dir, folder_of(&good))], true),
        (Some(&lab), vec![(file, in_folder(&bad))], true),
        (
            None,
            vec![(file, in_folder(&bad)), (dir, folder_of(&bad))],
            false,
        ),
        (Some(&other), vec![(dir, folder_of(&bad))], false),
    ] {
        let mut args = token(&lab);
        if let Some(l) = ca_path {
            args["ca_path"] = json!(l.ca());
        }
        let mut call = lab.bare("pve_vm_info", args);
        for (name, value) in &env {
            call = call.env(name, value);
        }
        let done = call.run();
        if trusted {
            done.ok();
        } else {
            let d = done.failed("unreachable");
            // The authorities of two labs have one name.
            assert!(d.msg().contains("but another key"), "{}", d.msg());
        }
    }
}

#[test]
fn every_way_to_be_kept_out_names_the_way_in() {
    let (lab, other) = (Lab::one_guest(), Lab::one_guest());
    // Nobody vouches for it.
    let d = lab
        .bare("pve_vm_info", token(&lab))
        .run()
        .failed("unreachable");
    for way in ["api_fingerprint", "ca_path", "validate_certs"] {
        assert!(d.msg().contains(way), "{way}: {}", d.msg());
    }
    // Another authority does.
    let mut args = token(&lab);
    args["ca_path"] = json!(other.ca());
    let d = lab.bare("pve_vm_info", args).run().failed("unreachable");
    assert!(
        d.msg().contains("ca_path") && d.msg().contains("api_fingerprint"),
        "{}",
        d.msg()
    );
    // Another certificate was meant; not even without checks is anything sent.
    for validate in [true, false] {
        let mut args = token(&lab);
        args["api_fingerprint"] = json!(other.fingerprint("pve"));
        args["validate_certs"] = json!(validate);
        let d = lab.bare("pve_vm_info", args).run().failed("unreachable");
        assert!(d.msg().contains(lab.fingerprint("pve")), "{}", d.msg());
    }
    let mut args = token(&lab);
    args["ca_path"] = json!("/nowhere/ca.pem");
    let d = lab.bare("pve_vm_info", args).run();
    assert!(
        d.is_failed() && d.msg().contains("/nowhere/ca.pem"),
        "{}",
        d.msg()
    );
    assert!(
        lab.log().is_empty(),
        "nothing may be sent to an untrusted server"
    );
    // Wrong secrets.
    let mut args = token(&lab);
    args["ca_path"] = json!(lab.ca());
    args["api_token_secret"] = json!("00000000-0000-4000-8000-000000000000");
    let d = lab.bare("pve_vm_info", args).run().failed("auth");
    assert!(d.msg().contains("root@pam!full"), "{}", d.msg());
    let args = by(
        &lab,
        json!({"api_user": "root@pam", "api_password": "not-the-password", "ca_path": lab.ca()}),
    );
    lab.bare("pve_vm_info", args).run().failed("auth");
}

/// The challenge of an account with two factors is answered once; a one-time password cannot be replayed.
#[test]
fn a_ticket_with_a_one_time_password() {
    let mut w = worlds::one_guest();
    w["pve"]["users"][0]["otp"] = json!(["271828"]);
    let lab = Lab::start(w);
    let args = by(
        &lab,
        json!({"api_user": "root@pam", "api_password": worlds::PASSWORD, "ca_path": lab.ca(), "interface": "net0", "tag": 5}),
    );
    // Without it, and with a wrong one.
    let d = lab.bare("pve_nic", args.clone()).run().failed("auth");
    assert!(
        d.msg().contains("api_otp") && d.msg().contains("token"),
        "{}",
        d.msg()
    );
    let call = lab.bare("pve_nic", args).secret("271828").secret("314159");
    let d = call.clone().arg("api_otp", "314159").run().failed("auth");
    assert!(d.msg().contains("one-time password"), "{}", d.msg());
    assert_eq!(lab.writes(), 0);
    // One code serves a whole run, its writes too.
    let call = call.arg("api_otp", "271828");
    let d = call.clone().run().ok();
    assert!(d.changed());
    assert_eq!(d.of_kind("auth").len(), 2, "{:?}", d.of_kind("auth"));
    // It is used up.
    let d = call.run().failed("auth");
    assert!(d.msg().contains("api_otp"), "{}", d.msg());
}

/// The ticket ends in the middle of a task that is waited for; it was renewed before.
#[test]
fn a_ticket_that_expires_in_a_long_wait() {
    let mut w = worlds::small();
    w["pve"]["ticket_lifetime_s"] = json!(3);
    w["pve"]["timing"] = json!({"task_ms": 10, "kinds": {"qmcreate": 12_000}});
    let lab = Lab::start(w);
    let mut args = lab.user("root@pam");
    for (k, v) in [
        ("vmid", json!(140)),
        ("name", json!("x")),
        ("node", json!("pve1")),
        ("scsi", json!({"scsi0": "data:1"})),
    ] {
        args[k] = v;
    }
    let d = lab.bare("pve_vm_shell", args.clone()).run().ok();
    assert!(d.changed());
    assert!(d.took.as_secs() > 5, "it was no long wait: {:?}", d.took);
    let tickets = d.of_kind("auth").len();
    assert!(tickets > 1, "the ticket was never renewed");
    assert!(!lab.bare("pve_vm_shell", args).run().ok().changed());
}
