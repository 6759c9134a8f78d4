//! Planner tests of `pve_zone` and `pve_vnet`; numbers are those of docs/bugs.md (p.., c..) and docs/peers-proxmox.md (s..).
mod common;

use common::{Site, failure, make, try_make};
use plan::{Arg, Await, Fact, Facts, Report, Tolerance};
use proptest::prelude::*;
use pve::keys::PveKey;
use serde_json::{Value, json};

fn site() -> Site {
    let mut s = Site::new();
    s.put(
        PveKey::Version,
        json!({"release": "9.2", "version": "9.2.11", "major": 9, "minor": 2}),
    );
    s.put(
        PveKey::SdnZones,
        json!({"entries": [
            {"zone": "z1", "type": "vlan", "bridge": "vmbr0", "mtu": 1450, "nodes": "pve2,pve1"},
            {"zone": "zs", "type": "simple"},
        ],}),
    );
    s.put(
        PveKey::SdnVnets,
        json!({"entries": [
            {"vnet": "v100", "type": "vnet", "zone": "z1", "tag": 100, "alias": "Office"},
            {"vnet": "v200", "type": "vnet", "zone": "z1", "tag": 200},
        ],}),
    );
    s.put(PveKey::SdnPending, nothing_pending());
    for kind in ["zones", "vnets"] {
        s.put(PveKey::SdnDigest(kind.into()), json!("d1gest"));
    }
    for z in ["z1", "zs", "z9", "znew"] {
        s.put(
            PveKey::SdnReady(z.into()),
            json!({"ready": true, "zones": {z: {"pve1": "available", "pve2": "available"}}}),
        );
        s.fact(PveKey::SdnZone(z.into()), Fact::Absent);
    }
    for v in ["v300", "v301", "v400", "vx", "gone"] {
        s.fact(PveKey::SdnVnet(v.into()), Fact::Absent);
        s.put(PveKey::SdnSubnets(v.into()), json!([]));
    }
    for v in ["v100", "v200"] {
        s.put(PveKey::SdnSubnets(v.into()), json!([]));
    }
    s
}

fn nothing_pending() -> Value {
    json!({"zones": [], "vnets": [], "controllers": [], "subnets": [], "fabrics": []})
}

fn requests(r: &Report) -> Vec<String> {
    assert!(!r.is_failed(), "{:#?}", r.keys);
    r.keys["plan"]
        .as_array()
        .expect("a plan")
        .iter()
        .map(|s| format!("{} {}", s["request"].as_str().unwrap_or(""), s["params"]))
        .collect()
}

/// The facts of a site, as a planner is given them.
fn facts(s: &Site) -> Facts {
    let mut f = Facts::new();
    for (k, v) in &s.facts {
        f.put(k.clone(), v.clone());
    }
    f
}

#[test]
fn p65_s02_an_unchanged_zone_is_left_alone() {
    let mut s = site();
    let r = s.check(
        "pve_zone",
        json!({"zone": "z1", "type": "vlan", "bridge": "vmbr0", "nodes": "pve1, pve2", "mtu": "1450"}),
    );
    assert_eq!(r.keys["changed"], json!(false), "{:#?}", r.keys);
    assert_eq!(requests(&r), Vec::<String>::new());
    assert_eq!(s.read, [PveKey::SdnZones.key()], "one list tells");
}

#[test]
fn a_new_vnet_is_locked_written_applied_and_waited_for() {
    let mut s = site();
    let args = json!({"vnet": "v300", "zone": "z1", "tag": 300, "alias": "Buero"});
    let m = make("pve_vnet", args.clone());
    let plan = m.plan(&facts(&s)).expect("a plan");
    assert!(
        matches!(&plan.steps[2].wait, Await::Until { key, equals, .. } if *key == PveKey::SdnReady("z1".into()).key() && *equals == json!(true))
    );
    assert!(plan.steps[2].commits, "what is applied is not undone");
    assert!(matches!(
        &plan.steps[1].request.params.last(),
        Some((n, Arg::Answer { step: 0, .. })) if n == "lock-token"
    ));
    let undo = plan.steps[0].undo.clone().expect("an undo");
    assert_eq!(
        (undo.verb.as_str(), undo.path.as_str()),
        ("POST", "/cluster/sdn/rollback")
    );
    assert!(plan.steps[1].undo.is_none(), "the rollback does it");
    let r = s.converges("pve_vnet", args);
    assert_eq!(
        requests(&r),
        [
            "POST /cluster/sdn/lock {}",
            r#"POST /cluster/sdn/vnets {"vnet":"v300","alias":"Buero","tag":300,"zone":"z1","lock-token":"<lock token>"}"#,
            r#"PUT /cluster/sdn {"lock-token":"<lock token>","release-lock":1}"#,
        ]
    );
    assert_eq!(r.keys["msg"], "Created new vnet - v300");
    assert_eq!(
        r.keys["diff"]["after"]["v300"],
        json!({"alias": "Buero", "tag": 300, "zone": "z1", "pending": false})
    );
    assert_eq!(r.keys["diff"]["before"]["v300"], Value::Null);
}

#[test]
fn a_later_nic_of_the_same_check_run_finds_the_vnet() {
    let mut s = site();
    s.guest(103, json!({"name": "web"}));
    let nic = json!({"vmid": 103, "interface": "net0", "bridge": "v300"});
    failure(&s.clone().check("pve_nic", nic.clone()), "refused");
    s.check(
        "pve_vnet",
        json!({"vnet": "v300", "zone": "z1", "tag": 300}),
    );
    let r = s.check("pve_nic", nic.clone());
    assert!(!r.is_failed(), "{:#?}", r.keys);
    s.check("pve_vnet", json!({"vnet": "v300", "state": "absent"}));
    failure(
        &s.check(
            "pve_nic",
            json!({"vmid": 103, "interface": "net1", "bridge": "v300"}),
        ),
        "refused",
    );
    // Stored but not applied: no bridge yet.
    s.check(
        "pve_vnet",
        json!({"vnet": "v301", "zone": "z1", "tag": 301, "apply": false}),
    );
    failure(
        &s.check(
            "pve_nic",
            json!({"vmid": 103, "interface": "net1", "bridge": "v301"}),
        ),
        "refused",
    );
}

#[test]
fn c19_s05_options_that_are_not_named_stay() {
    let mut s = site();
    let r = s.check(
        "pve_vnet",
        json!({"vnet": "v100", "zone": "z1", "tag": 100}),
    );
    assert_eq!(r.keys["changed"], json!(false));
    let r = s.converges(
        "pve_vnet",
        json!({"vnet": "v100", "zone": "z1", "vlanaware": true}),
    );
    assert_eq!(
        requests(&r)[1],
        r#"PUT /cluster/sdn/vnets/v100 {"vlanaware":1,"digest":"<digest as read>","lock-token":"<lock token>"}"#
    );
    let r = s.converges(
        "pve_vnet",
        json!({"vnet": "v100", "zone": "z1", "unset": ["alias", "vlanaware"]}),
    );
    assert_eq!(
        requests(&r)[1],
        r#"PUT /cluster/sdn/vnets/v100 {"delete":"alias,vlanaware","digest":"<digest as read>","lock-token":"<lock token>"}"#
    );
    // The peer's spelling.
    let r = site().check(
        "pve_vnet",
        json!({"vnet": "v100", "zone": "z1", "delete": "alias"}),
    );
    assert_eq!(r.keys["changed"], json!(true));
}

#[test]
fn p67_what_a_crashed_run_left_is_applied_and_zero_is_never_sent() {
    let mut s = site();
    s.edit(PveKey::SdnZones, |v| {
        v["entries"].as_array_mut().expect("a list").push(
            json!({"zone": "znew", "type": "simple", "state": "new", "pending": {"ipam": "pve"}}),
        );
    });
    s.edit(PveKey::SdnPending, |v| v["zones"] = json!(["znew"]));
    let r = s.converges(
        "pve_zone",
        json!({"zone": "znew", "type": "simple", "ipam": "pve"}),
    );
    assert_eq!(
        requests(&r),
        [
            r#"POST /cluster/sdn/lock {"allow-pending":1}"#,
            r#"PUT /cluster/sdn {"lock-token":"<lock token>","release-lock":1}"#,
        ]
    );
    // The same zone pending with another value is somebody's change.
    let mut s = site();
    s.edit(PveKey::SdnZones, |v| {
        v["entries"][1]["pending"] = json!({"ipam": "pve"});
        v["entries"][1]["state"] = json!("changed");
    });
    s.edit(PveKey::SdnPending, |v| v["zones"] = json!(["zs"]));
    let r = s.check(
        "pve_zone",
        json!({"zone": "zs", "type": "simple", "mtu": 1400}),
    );
    assert!(failure(&r, "refused").contains("zone zs"));
}

#[test]
fn s03_what_others_left_pending_is_refused_and_named() {
    let pending = |s: &mut Site| {
        s.edit(PveKey::SdnPending, |v| {
            v["subnets"] = json!(["z1-198.51.100.0-24"])
        });
    };
    let mut s = site();
    pending(&mut s);
    let args =
        |allow: Value| json!({"vnet": "v300", "zone": "z1", "tag": 300, "allow_pending": allow});
    let msg = failure(&s.check("pve_vnet", args(json!(null))), "refused");
    assert!(
        msg.contains("subnet z1-198.51.100.0-24")
            && msg.contains("allow_pending: [z1-198.51.100.0-24]"),
        "{msg}"
    );
    // Unchanged is unchanged, whatever others do.
    let r = s.check("pve_vnet", json!({"vnet": "v100", "zone": "z1"}));
    assert_eq!(r.keys["changed"], json!(false));
    for allow in [json!(true), json!(["z1-198.51.100.0-24"])] {
        let mut s = site();
        pending(&mut s);
        let m = make("pve_vnet", args(allow.clone()));
        let plan = m.plan(&facts(&s)).expect("a plan");
        // Then the rollback would take others' changes along.
        assert_eq!(
            plan.steps[0].undo.as_ref().map(|u| u.verb.as_str()),
            Some("DELETE")
        );
        assert_eq!(
            plan.steps[1].undo.as_ref().map(|u| u.path.as_str()),
            Some("/cluster/sdn/vnets/v300")
        );
        let r = s.converges("pve_vnet", args(allow));
        assert!(requests(&r)[0].contains("allow-pending"));
    }
}

#[test]
fn many_vnets_have_one_lock_and_one_apply_and_apply_false_leaves_it() {
    let mut s = site();
    let vnets = json!([
        {"vnet": "v300", "tag": 300}, {"vnet": "v100", "alias": "Lab"}, {"vnet": "v200", "state": "absent"},
        {"vnet": "v400", "zone": "zs"},
    ]);
    let r = s
        .clone()
        .converges("pve_vnet", json!({"zone": "z1", "vnets": vnets}));
    let sent = requests(&r);
    assert_eq!(sent.len(), 6, "{sent:#?}");
    assert!(sent[1].starts_with("PUT /cluster/sdn/vnets/v100"));
    assert!(sent[2].starts_with("DELETE /cluster/sdn/vnets/v200"));
    assert_eq!(
        r.keys["msg"],
        "Created new vnet - v300; Updated vnet - v100; Deleted vnet v200; Created new vnet - v400"
    );
    // Left to a later task.
    let r = s.check(
        "pve_vnet",
        json!({"zone": "z1", "vnets": vnets, "apply": false}),
    );
    let sent = requests(&r);
    assert!(sent[5].starts_with("DELETE /cluster/sdn/lock"), "{sent:#?}");
    assert_eq!(r.keys["pending"], json!(["v300", "v100", "v200", "v400"]));
    let again = s.check(
        "pve_vnet",
        json!({"zone": "z1", "vnets": vnets, "apply": false}),
    );
    assert_eq!(again.keys["changed"], json!(false), "{:#?}", again.keys);
    let other = json!({"vnet": "v301", "zone": "z1", "tag": 301, "allow_pending": true});
    let r = s.check("pve_vnet", other);
    assert!(requests(&r)[2].starts_with("PUT /cluster/sdn "));
    let done = s.check("pve_vnet", json!({"zone": "z1", "vnets": vnets}));
    assert_eq!(
        done.keys["changed"],
        json!(false),
        "all was applied along: {:#?}",
        done.keys
    );
}

#[test]
fn another_network_only_when_told() {
    let mut s = site();
    let r = s.check(
        "pve_vnet",
        json!({"vnet": "v100", "zone": "z1", "tag": 101}),
    );
    let msg = failure(&r, "refused");
    assert!(
        msg.contains("tag 100") && msg.contains("move: true"),
        "{msg}"
    );
    let r = s.converges(
        "pve_vnet",
        json!({"vnet": "v100", "zone": "z1", "tag": 101, "move": true}),
    );
    assert_eq!(r.keys["plan"][1]["disruptive"], json!(true));
    let r = s.check(
        "pve_vnet",
        json!({"vnet": "v300", "zone": "z1", "tag": 200}),
    );
    assert!(failure(&r, "refused").contains("v200"));
    // The peer's update: false fails.
    let r = s.check(
        "pve_vnet",
        json!({"vnet": "v200", "zone": "z1", "alias": "x", "update": false}),
    );
    failure(&r, "refused");
}

#[test]
fn what_the_server_would_refuse_is_refused() {
    for (args, kind, word) in [
        (
            json!({"vnet": "v300", "zone": "zs", "tag": 5}),
            "refused",
            "no tags",
        ),
        (
            json!({"vnet": "v300", "zone": "z1"}),
            "refused",
            "needs a tag",
        ),
        (
            json!({"vnet": "v300", "zone": "z1", "tag": 5000}),
            "refused",
            "4094",
        ),
        (
            json!({"vnet": "v300", "zone": "z9", "tag": 5}),
            "not_found",
            "z9",
        ),
    ] {
        let msg = failure(&site().check("pve_vnet", args), kind);
        assert!(msg.contains(word), "{msg}");
    }
    let msg = failure(
        &site().check("pve_vnet", json!({"vnet": "v300"})),
        "refused",
    );
    assert!(msg.contains("zone"), "{msg}");
    let r = site().check("pve_vnet", json!({"vnet": "v100", "alias": "Office"}));
    assert_eq!(r.keys["changed"], json!(false));
    for (args, word) in [
        (json!({"zone": "znew", "type": "vlan"}), "bridge"),
        (
            json!({"zone": "znew", "type": "vlan", "bridge": "vmbr77"}),
            "vmbr77",
        ),
        (json!({"zone": "znew", "type": "vxlan"}), "peers or fabric"),
        (json!({"zone": "z1", "type": "simple"}), "type"),
        (json!({"zone": "z1", "state": "absent"}), "v100, v200"),
    ] {
        let mut s = site();
        s.put(
            PveKey::Perms("/sdn/zones/localnetwork/vmbr77".into()),
            json!({"SDN.Audit": 1}),
        );
        let msg = failure(&s.check("pve_zone", args), "refused");
        assert!(msg.contains(word), "{msg}");
    }
    let mut s = site();
    s.put(
        PveKey::SdnSubnets("v100".into()),
        json!([{"subnet": "z1-198.51.100.0-24"}]),
    );
    assert!(
        failure(
            &s.check("pve_vnet", json!({"vnet": "v100", "state": "absent"})),
            "refused"
        )
        .contains("subnets")
    );
    for (module, args, path) in [
        (
            "pve_zone",
            json!({"zone": "zonetoolong", "type": "simple"}),
            "zone",
        ),
        (
            "pve_zone",
            json!({"zone": "z1", "type": "simple", "peers": "192.0.2.1"}),
            "peers",
        ),
        ("pve_vnet", json!({"vnet": "v-1", "zone": "z1"}), "vnet"),
        (
            "pve_vnet",
            json!({"zone": "z1", "vnets": [{"vnet": "v300"}, {"vnet": "v300"}]}),
            "vnets[1].vnet",
        ),
        (
            "pve_vnet",
            json!({"vnet": "v300", "zone": "z1", "delete": "zone"}),
            "delete",
        ),
    ] {
        let e = try_make(module, args).err().expect("refused");
        assert_eq!(e[0].path, path);
    }
}

#[test]
fn p66_vxlan_peers_are_enough_and_a_set() {
    let mut s = site();
    s.converges(
        "pve_zone",
        json!({"zone": "znew", "type": "vxlan", "peers": "192.0.2.2,192.0.2.1"}),
    );
    let r = s.check(
        "pve_zone",
        json!({"zone": "znew", "type": "vxlan", "peers": "192.0.2.1 192.0.2.2"}),
    );
    assert_eq!(r.keys["changed"], json!(false), "{:#?}", r.keys);
}

#[test]
fn c18_no_plan_shows_a_lock_token_and_a_held_lock_is_waited_for() {
    let s = site();
    let m = make(
        "pve_vnet",
        json!({"vnet": "v300", "zone": "z1", "tag": 300, "timeout": 7, "lock_token": "abc", "break_lock": true}),
    );
    let plan = m.plan(&facts(&s)).expect("a plan");
    assert_eq!(plan.steps[0].request.path, "/cluster/sdn/lock");
    assert!(plan.steps[0].disruptive);
    assert!(
        plan.steps[1]
            .tolerance
            .iter()
            .any(|t| matches!(t, Tolerance::Busy { timeout_s: 7, .. }))
    );
    assert!(matches!(
        &plan.steps[2].request.params.last(),
        Some((_, Arg::Answer { step: 1, .. }))
    ));
    let shown = serde_json::to_string(&plan.steps.iter().map(plan::Step::show).collect::<Vec<_>>())
        .expect("json");
    assert!(!shown.contains("abc"));
}

#[test]
fn proxmox_8_has_no_lock() {
    let mut s = site();
    s.put(
        PveKey::Version,
        json!({"release": "8.4", "version": "8.4.1", "major": 8, "minor": 4}),
    );
    let r = s.clone().converges(
        "pve_vnet",
        json!({"vnet": "v300", "zone": "z1", "tag": 300}),
    );
    assert_eq!(
        requests(&r),
        [
            r#"POST /cluster/sdn/vnets {"vnet":"v300","tag":300,"zone":"z1"}"#,
            "PUT /cluster/sdn {}",
        ]
    );
    let m = make(
        "pve_vnet",
        json!({"vnet": "v100", "zone": "z1", "alias": "x"}),
    );
    let plan = m.plan(&facts(&s)).expect("a plan");
    let undo = plan.steps[0].undo.clone().expect("an undo");
    assert_eq!(
        undo.params[0],
        ("alias".to_owned(), Arg::Lit(json!("Office")))
    );
}

#[test]
fn aliases_are_made_acceptable_and_a_missing_privilege_is_named() {
    let mut s = site();
    let r = s.converges(
        "pve_vnet",
        json!({"vnet": "v300", "zone": "z1", "tag": 300, "alias": "100% <x>"}),
    );
    assert!(requests(&r)[1].contains(r#""alias":"100_ _x_""#));
    assert!(
        r.keys["warnings"][0]
            .as_str()
            .is_some_and(|w| w.contains("alias"))
    );
    let mut s = site();
    s.put(
        PveKey::WhoAmI,
        json!({"user": "a@pve", "token": "t", "root_login": false}),
    );
    s.put(PveKey::Perms("/sdn".into()), json!({"SDN.Audit": 1}));
    for p in ["/sdn/zones/z1", "/sdn/zones/z1/v100"] {
        s.put(PveKey::Perms(p.into()), json!({"SDN.Allocate": 1}));
    }
    let msg = failure(
        &s.check(
            "pve_vnet",
            json!({"vnet": "v100", "zone": "z1", "alias": "x"}),
        ),
        "permission",
    );
    assert!(msg.contains("SDN.Allocate on /sdn;"), "{msg}");
    // What no list shows is not created where it might be hidden.
    let mut s = site();
    s.fact(
        PveKey::SdnVnet("vx".into()),
        Fact::Unreadable("not listed".into()),
    );
    failure(
        &s.check("pve_vnet", json!({"vnet": "vx", "zone": "zs"})),
        "permission",
    );
}

#[test]
fn removal_comes_with_the_apply_and_of_nothing_is_unchanged() {
    let mut s = site();
    let r = s.converges("pve_vnet", json!({"vnet": "v200", "state": "absent"}));
    assert_eq!(
        r.keys["plan"][1]["request"],
        "DELETE /cluster/sdn/vnets/v200"
    );
    assert_eq!(r.keys["msg"], "Deleted vnet v200");
    let r = s.check("pve_vnet", json!({"vnet": "gone", "state": "absent"}));
    assert_eq!(
        (r.keys["changed"].clone(), r.keys["msg"].clone()),
        (json!(false), json!("vnet gone is absent."))
    );
    s.check("pve_vnet", json!({"vnet": "v100", "state": "absent"}));
    let r = s.converges("pve_zone", json!({"zone": "z1", "state": "absent"}));
    assert_eq!(r.keys["msg"], "Successfully deleted zone z1");
    // The zone's removal was planned, so a vnet in it is refused.
    failure(
        &s.check("pve_vnet", json!({"vnet": "v300", "zone": "z1", "tag": 9})),
        "not_found",
    );
}

#[test]
fn every_option_of_the_peers_is_taken() {
    for (name, peer) in [
        (
            "pve_zone",
            include_str!("../../../tests/fixtures/peers/proxmox_zone.json"),
        ),
        (
            "pve_vnet",
            include_str!("../../../tests/fixtures/peers/proxmox_vnet.json"),
        ),
    ] {
        let spec = planners::find(name).expect("registered").spec;
        assert_eq!(spec::lint(spec), Vec::<String>::new());
        let peer: Value = serde_json::from_str(peer).expect("json");
        let gaps: Vec<String> = spec::peer_gaps(spec, &peer)
            .into_iter()
            // Deviations of all pve_* modules: validate_certs and api_timeout (MODULES.md); signing in follows the rules of 2.0.0.
            .filter(|g| {
                !g.contains("api_timeout: default")
                    && !g.contains("validate_certs: default")
                    && !g.starts_with("1.6.0 required_one_of api_password")
                    && !g.starts_with("1.6.0 required_together api_token_id")
            })
            .collect();
        assert_eq!(gaps, Vec::<String>::new());
    }
}

proptest! {
    #[test]
    fn any_wish_converges_and_touches_only_what_it_names(
        tag in prop::option::of(1i64..4000), alias in prop::option::of("[a-z ]{1,8}"), aware in prop::option::of(any::<bool>()),
        unset in prop::sample::subsequence(vec!["alias", "vlanaware", "isolate_ports"], 0..3), existing in any::<bool>(),
    ) {
        let mut s = site();
        let id = if existing { "v100" } else { "v300" };
        let mut args = json!({"vnet": id, "zone": "z1", "move": true});
        if let Some(t) = tag { args["tag"] = json!(t); }
        if let Some(a) = &alias { args["alias"] = json!(a); }
        if let Some(a) = aware { args["vlanaware"] = json!(a); }
        let given = args.clone();
        let named = |n: &str| given.get(n).is_some();
        let unset: Vec<&str> = unset.into_iter().filter(|u| !named(u)).collect();
        args["unset"] = json!(unset);
        let first = s.check("pve_vnet", args.clone());
        if !first.is_failed() {
            for step in first.keys["plan"].as_array().expect("a plan") {
                for k in step["params"].as_object().expect("parameters").keys() {
                    let mine = ["vnet", "zone", "delete", "digest", "lock-token", "release-lock"].contains(&k.as_str());
                    prop_assert!(mine || named(&k.replace('-', "_")), "{k}");
                }
            }
            let again = s.check("pve_vnet", args);
            prop_assert_eq!(&again.keys["changed"], &json!(false));
            prop_assert!(first.keys.get("warnings").is_none());
        }
    }
}

/// Found by the generated triples.
#[test]
fn a_zone_takes_only_the_options_and_addresses_of_its_type() {
    for (option, value) in [
        ("bridge_disable_mac_learning", "true"),
        ("peers", "nonsense"),
    ] {
        let mut args = json!({"zone": "zx", "type": "vxlan", "peers": "192.0.2.1"});
        args[option] = json!(value);
        let e = try_make("pve_zone", args).err().expect("an error");
        assert_eq!(e[0].path, option);
    }
}
