//! Facts: what is known, what is surely absent, what could not be seen.
mod common;

use common::{Lab, known, read, world};
use plan::{Fact, World};
use pve::keys::PveKey;
use pve_api::{Connection, Live};
use serde_json::{Value, json};

const MISSING: &str = "Configuration file 'nodes/pve1/qemu-server/100.conf' does not exist\n";

fn hinted(lab: &Lab) -> Live {
    Live::new(Connection {
        node_hint: Some("pve1".into()),
        ..lab.connection()
    })
}

fn taken(lab: &Lab) {
    lab.refuse(
        "GET",
        "/cluster/nextid",
        400,
        "Parameter verification failed.\n",
        json!({"vmid": "VM 100 already exists\n"}),
    );
}

fn pending() -> Value {
    json!([
        {"key": "net0", "value": "virtio=BC:24:11:00:00:01,bridge=vmbr0"},
        {"key": "cores", "value": 1, "pending": 2},
        {"key": "serial0", "value": "socket", "delete": 1},
        {"key": "digest", "value": "f00d"},
    ])
}

#[test]
fn with_a_hint_one_call_is_the_whole_guest() {
    let lab = Lab::start(world());
    lab.answer("GET", "/nodes/pve1/qemu/100/pending", pending());
    let g = known(&mut hinted(&lab), PveKey::Guest(100));
    assert_eq!(g["node"], "pve1");
    assert_eq!(g["digest"], "f00d");
    assert_eq!(
        g["config"],
        json!({"cores": 2, "net0": "virtio=BC:24:11:00:00:01,bridge=vmbr0"})
    );
    assert_eq!(g["pending"], json!({"cores": 2, "serial0": null}));
    assert_eq!(g["current"]["cores"], 1);
    assert_eq!(lab.requests(), ["GET /nodes/pve1/qemu/100/pending"]);
}

#[test]
fn a_guest_that_lives_elsewhere_is_found_by_the_list() {
    let lab = Lab::start(world());
    lab.refuse(
        "GET",
        "/nodes/pve1/qemu/100/pending",
        500,
        MISSING,
        json!(null),
    );
    lab.answer(
        "GET",
        "/cluster/resources",
        json!([{"vmid": 100, "node": "pve2", "type": "qemu", "name": "a"}]),
    );
    lab.answer("GET", "/nodes/pve2/qemu/100/pending", pending());
    let mut live = hinted(&lab);
    assert_eq!(known(&mut live, PveKey::Guest(100))["node"], "pve2");
    assert_eq!(lab.requests().len(), 3);
    // Looked at again, it is asked for where it was seen.
    live.forget(&[PveKey::Guest(100).key()]);
    known(&mut live, PveKey::Guest(100));
    assert_eq!(lab.requests().len(), 4);
    // The list was read: nobody reads it again.
    assert_eq!(known(&mut live, PveKey::Guest(100))["node"], "pve2");
}

#[test]
fn a_wrong_or_dead_hint_does_not_hide_a_guest() {
    for (status, text) in [
        (500, "no such cluster node 'pve1'\n"),
        (595, "No route to host\n"),
    ] {
        let lab = Lab::start(world());
        lab.refuse(
            "GET",
            "/nodes/pve1/qemu/100/pending",
            status,
            text,
            json!(null),
        );
        lab.answer(
            "GET",
            "/cluster/resources",
            json!([{"vmid": 100, "node": "pve2", "type": "qemu"}]),
        );
        lab.answer("GET", "/nodes/pve2/qemu/100/pending", pending());
        assert_eq!(known(&mut hinted(&lab), PveKey::Guest(100))["node"], "pve2");
    }
    // It does live there: then the trouble is a failure, not an absence.
    let lab = Lab::start(world());
    lab.refuse(
        "GET",
        "/nodes/pve1/qemu/100/pending",
        595,
        "No route to host\n",
        json!(null),
    );
    lab.answer(
        "GET",
        "/cluster/resources",
        json!([{"vmid": 100, "node": "pve1", "type": "qemu"}]),
    );
    assert!(read(&mut hinted(&lab), PveKey::Guest(100)).is_err());
}

#[test]
fn absent_only_when_no_list_has_it_and_its_id_is_free() {
    let lab = Lab::start(world());
    lab.answer("GET", "/cluster/resources", json!([]));
    lab.answer("GET", "/cluster/nextid", json!("100"));
    let mut live = lab.live();
    assert_eq!(read(&mut live, PveKey::Guest(100)).unwrap(), Fact::Absent);
    assert_eq!(known(&mut live, PveKey::IdFree(100)), true);
    assert_eq!(known(&mut live, PveKey::NextId), 100);
    for key in [PveKey::GuestStatus(100), PveKey::Snapshots(100)] {
        assert_eq!(read(&mut live, key).unwrap(), Fact::Absent);
    }
}

#[test]
fn a_guest_out_of_sight_is_unreadable() {
    let lab = Lab::start(world());
    lab.answer("GET", "/cluster/resources", json!([]));
    taken(&lab);
    // This token is privilege-separated and has no ACL of its own: the lab says so itself.
    let mut live = Live::new(Connection {
        token_id: Some("deploy@pve!ci".into()),
        ..lab.connection()
    });
    match read(&mut live, PveKey::Guest(100)).unwrap() {
        Fact::Unreadable(why) => assert!(
            why.contains("exists") && why.contains("VM.Audit") && why.contains("deploy@pve!ci"),
            "{why}"
        ),
        other => panic!("{other:?}"),
    }
    assert_eq!(known(&mut live, PveKey::IdFree(100)), false);
}

#[test]
fn a_guest_that_is_not_listed_yet_is_found_on_its_node() {
    let lab = Lab::start(world());
    lab.answer("GET", "/cluster/resources", json!([]));
    taken(&lab);
    lab.answer("GET", "/nodes", json!([{"node": "pve2", "status": "online"}, {"node": "pve1", "status": "online"}, {"node": "pve3", "status": "offline"}]));
    lab.refuse(
        "GET",
        "/nodes/pve1/qemu/100/pending",
        500,
        MISSING,
        json!(null),
    );
    lab.answer("GET", "/nodes/pve2/qemu/100/pending", pending());
    assert_eq!(known(&mut lab.live(), PveKey::Guest(100))["node"], "pve2");
}

#[test]
fn a_container_is_only_named() {
    let lab = Lab::start(world());
    lab.refuse(
        "GET",
        "/nodes/pve1/qemu/100/pending",
        500,
        MISSING,
        json!(null),
    );
    lab.answer(
        "GET",
        "/cluster/resources",
        json!([{"vmid": 100, "node": "pve1", "type": "lxc", "name": "ct"}]),
    );
    assert_eq!(
        known(&mut hinted(&lab), PveKey::Guest(100)),
        json!({"vmid": 100, "node": "pve1", "type": "lxc", "name": "ct"})
    );
}

#[test]
fn an_error_is_never_an_absence() {
    let lab = Lab::start(world());
    lab.answer("GET", "/cluster/resources", json!([]));
    lab.refuse(
        "GET",
        "/cluster/nextid",
        500,
        "cluster not ready - no quorum?\n",
        json!(null),
    );
    let f = read(&mut lab.live(), PveKey::Guest(100)).unwrap_err();
    assert_eq!(
        f.msg,
        "unable to read guest 100: cluster not ready - no quorum?"
    );
}

#[test]
fn lists_come_sorted_and_are_read_once_for_all_who_need_them() {
    let lab = Lab::start(world());
    lab.answer("GET", "/cluster/resources", json!([
        {"vmid": 200, "node": "pve2", "type": "lxc", "status": "running", "name": "b", "template": 0},
        {"vmid": 100, "node": "pve1", "type": "qemu", "status": "stopped", "name": "a", "template": 1, "tags": "x;y", "pool": "testpool", "mem": 5},
    ]));
    lab.answer("GET", "/nodes/pve1/qemu/100/pending", pending());
    let mut live = lab.live();
    assert_eq!(
        known(&mut live, PveKey::Guests),
        json!([
            {"vmid": 100, "node": "pve1", "type": "qemu", "name": "a", "status": "stopped", "tags": "x;y", "pool": "testpool", "template": true, "mem": 5},
            {"vmid": 200, "node": "pve2", "type": "lxc", "name": "b", "status": "running", "template": false},
        ])
    );
    known(&mut live, PveKey::Guest(100));
    assert_eq!(lab.requests().len(), 2);
}

#[test]
fn bridges_storages_version() {
    let lab = Lab::start(world());
    lab.answer("GET", "/nodes/pve1/network", json!([{"iface": "vmbr1", "type": "bridge"}, {"iface": "va1", "type": "vnet"}, {"iface": "vmbr0", "type": "bridge"}]));
    lab.answer("GET", "/nodes/pve1/storage", json!([{"storage": "local", "type": "dir", "content": "iso,images", "enabled": 1, "active": 1, "shared": 0, "avail": 5, "total": 9, "used": 4}]));
    lab.answer(
        "GET",
        "/version",
        json!({"version": "9.2.11", "release": "9.2", "repoid": "x"}),
    );
    let mut live = lab.live();
    assert_eq!(
        known(&mut live, PveKey::Bridges("pve1".into())),
        json!(["va1", "vmbr0", "vmbr1"])
    );
    assert_eq!(
        known(&mut live, PveKey::Storages("pve1".into())),
        json!([{"storage": "local", "type": "dir", "avail": 5, "total": 9, "used": 4, "content": ["images", "iso"], "enabled": true, "active": true, "shared": false}])
    );
    assert_eq!(
        known(&mut live, PveKey::Version),
        json!({"release": "9.2", "version": "9.2.11", "major": 9, "minor": 2})
    );
}

#[test]
fn a_volume_is_asked_by_its_encoded_name_and_may_be_absent() {
    let lab = Lab::start(world());
    lab.answer(
        "GET",
        "/nodes/pve1/storage/nfs/content/nfs%3A100%2Fdisk0.vmdk",
        json!({"path": "/x", "size": 65536, "used": 1, "format": "vmdk"}),
    );
    lab.refuse(
        "GET",
        "/nodes/pve1/storage/nfs/content/nfs%3A100%2Fno.vmdk",
        500,
        "volume_size_info on 'nfs:100/no.vmdk' failed - no format\n",
        json!(null),
    );
    let mut live = lab.live();
    let volume = |v: &str| PveKey::Volume {
        node: "pve1".into(),
        volid: v.into(),
    };
    assert_eq!(
        known(&mut live, volume("nfs:100/disk0.vmdk"))["size"],
        65536
    );
    assert_eq!(
        read(&mut live, volume("nfs:100/no.vmdk")).unwrap(),
        Fact::Absent
    );
}

#[test]
fn sdn_lists_have_the_plain_digest_and_pending_is_told_by_kind() {
    let lab = Lab::start(world());
    lab.answer_nth(1, "GET", "/cluster/sdn/vnets", json!([
        {"vnet": "va2", "type": "vnet", "state": "new", "pending": {"zone": "za", "tag": 5}, "digest": null},
        {"vnet": "va1", "type": "vnet", "zone": "za", "tag": 4, "alias": "x", "state": "changed", "pending": {"tag": 6, "alias": "deleted"}, "digest": null},
        {"vnet": "va0", "type": "vnet", "zone": "za", "state": "deleted", "pending": {}},
    ]));
    lab.answer(
        "GET",
        "/cluster/sdn/vnets",
        json!([{"vnet": "va1", "zone": "za", "digest": "abc"}]),
    );
    lab.answer("GET", "/cluster/sdn/zones", json!([]));
    lab.answer("GET", "/cluster/sdn/controllers", json!([]));
    lab.fault(json!({"path": "fabrics", "do": {"status": 501, "reason": "Method 'GET /cluster/sdn/fabrics/fabric' not implemented"}}));
    lab.answer("GET", "/cluster/sdn/vnets/[^/]+/subnets", json!([]));
    let mut live = lab.live();
    let v = known(&mut live, PveKey::SdnVnets);
    assert_eq!(
        known(&mut live, PveKey::SdnDigest("vnets".into())),
        json!("abc")
    );
    assert_eq!(v["entries"][2]["pending"]["tag"], 5);
    assert_eq!(
        known(&mut live, PveKey::SdnVnet("va1".into())),
        json!({"vnet": "va1", "type": "vnet", "zone": "za", "tag": 6})
    );
    assert_eq!(
        known(&mut live, PveKey::SdnVnet("va2".into()))["zone"],
        "za"
    );
    assert_eq!(
        read(&mut live, PveKey::SdnVnet("va0".into())).unwrap(),
        Fact::Absent
    );
    assert_eq!(
        known(&mut live, PveKey::SdnPending),
        json!({"zones": [], "vnets": ["va0", "va1", "va2"], "controllers": [], "fabrics": [], "subnets": []})
    );
    assert_eq!(known(&mut live, PveKey::SdnZones), json!({"entries": []}));
    // A list shows only what one may see.
    let mut blind = Live::new(Connection {
        token_id: Some("deploy@pve!ci".into()),
        ..lab.connection()
    });
    assert!(matches!(
        read(&mut blind, PveKey::SdnZone("zz".into())).unwrap(),
        Fact::Unreadable(_)
    ));
}

/// What was fetched ahead is used once, for the read it was fetched for; a read after `forget` asks the server.
#[test]
fn what_is_fetched_ahead_is_asked_once_and_never_outlives_forget() {
    let guests: Vec<Value> = (100..112)
        .map(|v| json!({"vmid": v, "node": "pve1", "config": {"name": format!("g{v}")}}))
        .collect();
    let mut w = world();
    w["pve"]["guests"] = json!(guests);
    let lab = Lab::start(w);
    let mut live = lab.live();
    let keys: Vec<_> = (100..112)
        .flat_map(|v| [PveKey::Guest(v).key(), PveKey::GuestStatus(v).key()])
        .collect();
    // Nobody signed in yet, and nobody knows where they are.
    live.expect(&keys);
    assert_eq!(lab.requests().len(), 0);
    known(&mut live, PveKey::Guests);
    // Few are not worth it.
    live.expect(&keys[..6]);
    assert_eq!(lab.requests().len(), 1);
    live.expect(&keys);
    assert_eq!(lab.requests().len(), 1 + keys.len());
    for v in 100..112 {
        assert_eq!(known(&mut live, PveKey::Guest(v))["node"], "pve1");
        assert_eq!(
            known(&mut live, PveKey::GuestStatus(v))["status"],
            "stopped"
        );
    }
    assert_eq!(lab.requests().len(), 1 + keys.len());
    // Known already: nothing to fetch.
    live.expect(&keys);
    assert_eq!(lab.requests().len(), 1 + keys.len());

    let mut later = lab.live();
    known(&mut later, PveKey::Guests);
    later.expect(&keys);
    let before = lab.requests().len();
    later.forget(&[PveKey::GuestStatus(100).key()]);
    known(&mut later, PveKey::GuestStatus(100));
    let now = lab.requests();
    assert!(
        now[before..].contains(&"GET /nodes/pve1/qemu/100/status/current".to_owned()),
        "{:?}",
        &now[before..]
    );
}
