//! Against the lab's own routes: nothing scripted.
mod common;

use common::{Lab, known, read, world};
use plan::{Arg, Await, ErrorKind, Fact, Request, Step, Tolerance, World};
use pve::keys::PveKey;
use pve_api::{Connection, Live};
use serde_json::{Value, json};

fn cluster() -> Lab {
    let mut w = world();
    let pve = &mut w["pve"];
    pve["nodes"] =
        json!([{"node": "pve1", "status": "online"}, {"node": "pve2", "status": "online"}]);
    pve["network"] = json!([
        {"iface": "vmbr0", "type": "bridge", "active": 1},
        {"iface": "ens18", "type": "eth", "active": 1},
        {"iface": "vmbr1", "type": "bridge", "active": 1},
    ]);
    pve["storage"] = json!([
        {"storage": "local", "type": "dir", "path": "/var/lib/vz", "content": "images,iso,import"},
        {"storage": "away", "type": "dir", "path": "/srv/away", "content": "images", "nodes": "pve2"},
    ]);
    Lab::start(w)
}

fn blind(lab: &Lab) -> Live {
    // A privilege-separated token without an ACL of its own.
    Live::new(Connection {
        token_id: Some("deploy@pve!ci".into()),
        ..lab.connection()
    })
}

#[test]
fn cluster_facts() {
    let lab = cluster();
    let mut live = lab.live();
    let nodes = known(&mut live, PveKey::Nodes);
    let of = |k: &str| -> Vec<&Value> {
        nodes
            .as_array()
            .into_iter()
            .flatten()
            .map(|n| &n[k])
            .collect()
    };
    assert_eq!(of("node"), [&json!("pve1"), &json!("pve2")]);
    assert_eq!(of("status"), [&json!("online"), &json!("online")]);
    assert!(of("maxmem").iter().all(|m| m.as_u64() > Some(0)));
    assert_eq!(
        known(&mut live, PveKey::Bridges("pve1".into())),
        json!(["vmbr0", "vmbr1"])
    );
    assert_eq!(known(&mut live, PveKey::Version)["major"], 9);
    assert_eq!(known(&mut live, PveKey::Guests), json!([]));
    assert_eq!(known(&mut live, PveKey::NextId), 100);
    assert_eq!(known(&mut live, PveKey::IdFree(100)), true);
    assert_eq!(
        known(&mut live, PveKey::Pools),
        json!([{"poolid": "testpool"}])
    );
    assert_eq!(known(&mut live, PveKey::HaResources), json!([]));
    assert!(known(&mut live, PveKey::ClusterOptions).is_object());
    assert_eq!(
        known(&mut live, PveKey::SdnStatus),
        json!({"pve1": [], "pve2": []})
    );
    let storages = known(&mut live, PveKey::Storages("pve1".into()));
    let names: Vec<&str> = storages
        .as_array()
        .unwrap()
        .iter()
        .map(|s| s["storage"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["local"]);
    assert_eq!(storages[0]["content"], json!(["images", "import", "iso"]));
    assert_eq!(
        known(&mut live, PveKey::StorageConfig("away".into()))["nodes"],
        "pve2"
    );
    assert_eq!(
        read(&mut live, PveKey::StorageConfig("no".into())).unwrap(),
        Fact::Absent
    );
    assert_eq!(
        known(
            &mut live,
            PveKey::Volumes {
                node: "pve1".into(),
                storage: "local".into(),
                content: "iso".into(),
                vmid: None
            }
        ),
        json!([])
    );
    assert_eq!(read(&mut live, PveKey::Guest(100)).unwrap(), Fact::Absent);
    assert!(matches!(
        read(&mut blind(&lab), PveKey::StorageConfig("local".into())).unwrap(),
        Fact::Unreadable(_)
    ));
}

fn lock() -> Request {
    Request::new("POST", "/cluster/sdn/lock")
}

fn with_token(r: Request) -> Request {
    r.arg(
        "lock-token",
        Arg::Answer {
            step: 0,
            symbol: "<lock token>".into(),
        },
    )
}

#[test]
fn a_zone_and_a_vnet_are_made_under_a_lock_applied_and_seen() {
    let lab = cluster();
    let mut live = lab.live();
    assert_eq!(
        read(&mut live, PveKey::SdnZone("za".into())).unwrap(),
        Fact::Absent
    );
    let steps = [
        Step::new(lock(), "lock"),
        Step::new(
            with_token(
                Request::new("POST", "/cluster/sdn/zones")
                    .param("zone", "za")
                    .param("type", "simple"),
            ),
            "zone",
        ),
        Step::new(
            with_token(
                Request::new("POST", "/cluster/sdn/vnets")
                    .param("vnet", "va1")
                    .param("zone", "za")
                    .param("alias", "a b=c"),
            ),
            "vnet",
        ),
        Step::new(
            with_token(Request::new("PUT", "/cluster/sdn").param("release-lock", true)),
            "apply",
        )
        .wait(Await::Task { timeout_s: 30 }),
    ];
    let mut answers: Vec<Value> = vec![];
    for s in &steps {
        answers.push(live.send(s, &answers).unwrap().answer);
    }
    live.forget(&[PveKey::SdnZone("za".into()).key(), PveKey::SdnZones.key()]);
    assert_eq!(
        known(&mut live, PveKey::SdnZone("za".into()))["type"],
        "simple"
    );
    assert_eq!(
        known(&mut live, PveKey::SdnVnet("va1".into()))["alias"],
        // A value with `=` arrives whole.
        "a b=c"
    );
    let digest = known(&mut live, PveKey::SdnDigest("vnets".into()));
    assert_eq!(digest.as_str().unwrap().len(), 40);
    assert_eq!(known(&mut live, PveKey::SdnPending)["vnets"], json!([]));
    assert_eq!(
        known(&mut live, PveKey::SdnStatus)["pve2"],
        json!([{"zone": "za", "status": "available"}])
    );
    assert!(
        known(&mut live, PveKey::Bridges("pve2".into()))
            .as_array()
            .unwrap()
            .contains(&json!("va1"))
    );
    // The lock is free again.
    live.send(&Step::new(lock(), "lock"), &[]).unwrap();
    assert!(matches!(
        read(&mut blind(&lab), PveKey::SdnVnet("va1".into())).unwrap(),
        Fact::Unreadable(_)
    ));
}

#[test]
fn somebody_elses_lock_can_be_planned_for() {
    let lab = cluster();
    lab.live().send(&Step::new(lock(), "lock"), &[]).unwrap();
    let step = Step::new(lock(), "lock").tolerate(Tolerance::Replan("invalid lock token provided"));
    let f = lab.live().send(&step, &[]).unwrap_err();
    assert!(f.replan);
    assert_eq!(
        f.msg,
        "unable to take the SDN lock: could not acquire lock for SDN config: invalid lock token provided!"
    );
    let f = blind(&lab)
        .send(&Step::new(lock(), "lock"), &[])
        .unwrap_err();
    assert_eq!(f.kind, ErrorKind::Permission);
    assert!(
        f.msg
            .contains("SDN.Allocate is missing on /sdn for token deploy@pve!ci"),
        "{}",
        f.msg
    );
}

/// Forwards to the lab and counts the connections.
fn counting(to: String) -> (String, std::sync::Arc<std::sync::atomic::AtomicUsize>) {
    use std::net::{TcpListener, TcpStream};
    let count = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let counted = count.clone();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            counted.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            let (client, server) = (client.unwrap(), TcpStream::connect(&to).unwrap());
            for (mut from, mut into) in [
                (client.try_clone().unwrap(), server.try_clone().unwrap()),
                (server, client),
            ] {
                std::thread::spawn(move || std::io::copy(&mut from, &mut into));
            }
        }
    });
    (address, count)
}

#[test]
fn one_connection_serves_a_whole_run() {
    let lab = cluster();
    let (host, count) = counting(lab.address());
    let mut live = Live::new(Connection {
        host,
        ..lab.user("root@pam")
    });
    for key in [PveKey::Guests, PveKey::Nodes, PveKey::Guest(100)] {
        read(&mut live, key).unwrap();
    }
    let apply = Request::new("PUT", "/cluster/sdn");
    live.send(
        &Step::new(apply, "apply").wait(Await::Task { timeout_s: 30 }),
        &[],
    )
    .unwrap();
    // A refusal does not end the connection either.
    live.send(
        &Step::new(
            Request::new("POST", "/pools").param("poolid", "testpool"),
            "again",
        ),
        &[],
    )
    .unwrap_err();
    read(&mut live, PveKey::Version).unwrap();
    assert!(lab.requests().len() >= 8, "{:?}", lab.requests());
    assert_eq!(count.load(std::sync::atomic::Ordering::SeqCst), 1);
}
