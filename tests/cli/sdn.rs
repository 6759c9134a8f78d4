//! pve_zone and pve_vnet from the outside.

use crate::support::{Lab, refused, triple, triple_with, worlds};
use serde_json::json;

fn lab() -> Lab {
    Lab::start(worlds::small())
}

fn zone(lab: &Lab) {
    triple(
        lab,
        "pve_zone",
        json!({"zone": "zvlan", "type": "vlan", "bridge": "vmbr0"}),
    )
    .changed();
}

#[test]
fn a_zone_is_made_changed_and_removed() {
    let lab = lab();
    zone(&lab);
    triple(
        &lab,
        "pve_zone",
        json!({"zone": "zvlan", "type": "vlan", "bridge": "vmbr0", "mtu": 1400}),
    )
    .changed();
    triple(
        &lab,
        "pve_zone",
        json!({"zone": "zvlan", "state": "absent"}),
    )
    .changed();
    assert_eq!(lab.world()["pve"]["sdn"]["running"]["zones"], json!({}));
}

#[test]
fn vnets_are_made_changed_and_removed_with_one_lock_and_one_apply() {
    let lab = lab();
    zone(&lab);
    let seen = lab.log().len();
    let t = triple(
        &lab,
        "pve_vnet",
        json!({"zone": "zvlan", "vnets": [{"vnet": "v100", "tag": 100, "alias": "Office"}, {"vnet": "v200", "tag": 200}]}),
    ).changed();
    let log = lab.log();
    let of = |method: &str, end: &str| {
        log.iter()
            .skip(seen)
            .filter(|e| e["method"] == method && e["path"].as_str().unwrap().ends_with(end))
            .count()
    };
    assert_eq!(of("POST", "/cluster/sdn/lock"), 1);
    assert_eq!(of("PUT", "/cluster/sdn"), 1);
    // C18: the token that came back with the lock stands in no output.
    for out in [&t.check, &t.apply, &t.again] {
        let shown = out.stdout.matches("\"lock-token\":").count();
        assert_eq!(
            shown,
            out.stdout
                .matches("\"lock-token\":\"<lock token>\"")
                .count()
        );
    }
    triple(
        &lab,
        "pve_vnet",
        json!({"vnet": "v200", "zone": "zvlan", "alias": "Guests (new)"}),
    )
    .changed();
    triple(&lab, "pve_vnet", json!({"vnet": "v100", "state": "absent"})).changed();
}

#[test]
fn refusals_are_the_same_in_check_mode_and_in_earnest() {
    let lab = lab();
    zone(&lab);
    triple(
        &lab,
        "pve_vnet",
        json!({"vnet": "v100", "zone": "zvlan", "tag": 100}),
    )
    .changed();
    let m = refused(
        &lab,
        "pve_vnet",
        json!({"vnet": "v101", "zone": "nope", "tag": 101}),
        "not_found",
    );
    assert!(m.contains("nope"), "{m}");
    let m = refused(
        &lab,
        "pve_vnet",
        json!({"vnet": "v100", "zone": "zvlan", "tag": 101}),
        "refused",
    );
    assert!(m.contains("move"), "{m}");
    let m = refused(
        &lab,
        "pve_vnet",
        json!({"vnet": "v102", "zone": "zvlan", "tag": 100}),
        "refused",
    );
    assert!(m.contains("v100"), "{m}");
    let m = refused(
        &lab,
        "pve_zone",
        json!({"zone": "zvlan", "state": "absent"}),
        "refused",
    );
    assert!(m.contains("v100"), "{m}");
    let m = refused(
        &lab,
        "pve_zone",
        json!({"zone": "z2", "type": "vlan", "bridge": "vmbr9"}),
        "refused",
    );
    assert!(m.contains("vmbr9"), "{m}");
}

#[test]
fn what_others_left_pending_is_not_applied_along() {
    let lab = Lab::start(worlds::small_with(json!({"sdn": {
        "zones": [{"zone": "zvlan", "type": "vlan", "bridge": "vmbr0"}],
        "vnets": [], "pending": {"zones": [], "vnets": [{"vnet": "theirs", "zone": "zvlan", "tag": 7}]},
    }})));
    let wanted = json!({"vnet": "ours", "zone": "zvlan", "tag": 8});
    let m = refused(&lab, "pve_vnet", wanted.clone(), "refused");
    assert!(m.contains("theirs") && m.contains("allow_pending"), "{m}");
    let call = lab
        .call("pve_vnet", wanted)
        .arg("allow_pending", json!(["theirs"]));
    assert!(triple_with(&lab, &call).apply.changed());
}

#[test]
fn c19_an_alias_that_is_not_named_stays() {
    let lab = lab();
    zone(&lab);
    triple(
        &lab,
        "pve_vnet",
        json!({"vnet": "v100", "zone": "zvlan", "tag": 100, "alias": "Office"}),
    )
    .changed();
    let d = lab
        .call(
            "pve_vnet",
            json!({"vnet": "v100", "zone": "zvlan", "tag": 100}),
        )
        .run()
        .ok();
    assert!(!d.changed());
}

#[test]
fn p65_an_unchanged_zone_takes_no_lock_and_applies_nothing() {
    let lab = lab();
    zone(&lab);
    let d = lab
        .call(
            "pve_zone",
            json!({"zone": "zvlan", "type": "vlan", "bridge": "vmbr0"}),
        )
        .run()
        .ok();
    assert_eq!(d.of_kind("write"), Vec::<String>::new());
}

#[test]
fn p66_peers_of_a_vxlan_zone_are_a_set() {
    let lab = lab();
    triple(
        &lab,
        "pve_zone",
        json!({"zone": "zx", "type": "vxlan", "peers": "10.0.0.1,10.0.0.2"}),
    )
    .changed();
    let d = lab
        .call(
            "pve_zone",
            json!({"zone": "zx", "type": "vxlan", "peers": "10.0.0.2, 10.0.0.1"}),
        )
        .run()
        .ok();
    assert!(!d.changed());
}

#[test]
fn p67_our_own_pending_zone_is_applied_and_no_mtu_is_sent_for_none() {
    let lab = Lab::start(worlds::small_with(json!({"sdn": {
        "zones": [], "vnets": [], "pending": {"zones": [{"zone": "z1", "type": "vlan", "bridge": "vmbr0"}], "vnets": []},
    }})));
    let t = triple(
        &lab,
        "pve_zone",
        json!({"zone": "z1", "type": "vlan", "bridge": "vmbr0"}),
    )
    .changed();
    assert!(
        t.apply
            .requests
            .iter()
            .all(|r| r["params"].get("mtu").is_none()),
        "{:?}",
        t.apply.requests
    );
    // An option goes when it is named in unset.
    triple(
        &lab,
        "pve_zone",
        json!({"zone": "z1", "type": "vlan", "mtu": 1400}),
    )
    .changed();
    triple(
        &lab,
        "pve_zone",
        json!({"zone": "z1", "type": "vlan", "unset": ["mtu"]}),
    )
    .changed();
}
