//! Cases of pve_acl and pve_pool_member.

use super::{Case, Gen, worlds};
use serde_json::{Value, json};

const USERS: [&str; 4] = ["anna@pve", "deploy@pve", "root@pam", "gone@pve"];

/// The usual cluster, with a user more, pools and entries.
fn world(g: &mut Gen) -> Value {
    let mut w = worlds::cluster(g);
    let pve = &mut w["pve"];
    let users = pve["users"].as_array_mut().expect("users");
    users.push(json!({"userid": "anna@pve", "groups": "staff"}));
    let (mut first, mut second, mut inner) = (vec![], vec![], vec![]);
    for vmid in [json!(100), json!(101), json!(102)] {
        match g.below(5) {
            0 => first.push(vmid),
            1 => second.push(vmid),
            2 => inner.push(vmid),
            _ => {}
        }
    }
    for s in ["local", "nfs"] {
        if g.chance(30) {
            first.push(json!(s));
        }
        if g.chance(20) {
            second.push(json!(s));
        }
    }
    pve["pools"] = json!([{"poolid": "testpool", "members": first}, {"poolid": "other", "members": second},
        {"poolid": "other/inner", "members": inner}]);
    let list = pve["acl"].as_array_mut().expect("acl");
    for _ in 0..g.below(6) {
        let (kind, ugid) = who(g);
        if ugid != "gone@pve" && !ugid.ends_with("!no") && ugid != "nogroup" {
            let (path, role) = (path(g), g.pick(&["PVEVMUser", "PVEAuditor", "PVEVMAdmin"]));
            let below = u8::from(g.chance(70));
            let twice = |e: &Value| e["path"] == path && e["ugid"] == ugid && e["roleid"] == role;
            if path.starts_with('/') && !path.ends_with('/') && !list.iter().any(twice) {
                list.push(json!({"path": path, "type": kind, "ugid": ugid, "roleid": role, "propagate": below}));
            }
        }
    }
    w
}

fn who(g: &mut Gen) -> (&'static str, &'static str) {
    g.weighted(&[
        (40, ("user", USERS[0])),
        (20, ("user", USERS[1])),
        (5, ("user", USERS[2])),
        (4, ("user", USERS[3])),
        (12, ("group", "staff")),
        (2, ("group", "nogroup")),
        (12, ("token", "deploy@pve!ci")),
        (2, ("token", "deploy@pve!no")),
        (1, ("user", "anna")),
        (1, ("group", "anna@pve")),
    ])
}

fn path(g: &mut Gen) -> &'static str {
    g.weighted(&[
        (30, "/vms/100"),
        (20, "/vms/101"),
        (8, "/vms/4711"),
        (10, "/vms"),
        (10, "/pool/testpool"),
        (6, "/storage/local"),
        (6, "/sdn/zones/zv"),
        (4, "/"),
        (4, "/vms/100/"),
        (1, "/vms/99"),
        (1, "vms/100"),
        (1, "/nonsense"),
    ])
}

pub fn acl(g: &mut Gen) -> Case {
    let w = world(g);
    let mut a = json!({"path": path(g)});
    let absent = g.chance(35);
    if absent {
        a["state"] = json!("absent");
    }
    let (kind, ugid) = who(g);
    if !absent || g.chance(60) {
        a["type"] = json!(kind);
        a["ugid"] = json!(ugid);
    }
    if !absent || g.chance(50) {
        a["roleid"] = json!(g.weighted(&[
            (40, "PVEVMUser"),
            (25, "PVEAuditor"),
            (15, "PVEVMAdmin"),
            (3, "NoAccess"),
            (3, "NoSuchRole"),
            (1, "no role"),
        ]));
    }
    if g.chance(35) {
        a["propagate"] = g.bool();
    }
    let mut c = Case::new("pve_acl", w, a);
    if g.chance(10) {
        c.before.push((
            "pve_acl",
            json!({"path": "/vms/100", "type": "user", "ugid": "anna@pve", "roleid": "PVEVMUser", "propagate": false}),
        ));
    }
    c.login = worlds::login(g);
    c
}

fn member(g: &mut Gen) -> Value {
    match g.weighted(&[(70, 0), (25, 1), (2, 2), (2, 3)]) {
        0 => {
            let v = g.weighted(&[
                (25, "100"),
                (20, "101"),
                (15, "102"),
                (10, "web"),
                (10, "db"),
                (8, "110"),
                (3, "4711"),
                (3, "nosuch"),
                (1, "7"),
            ]);
            match v.parse::<i64>() {
                Ok(n) => json!({"vm": g.int(n)}),
                Err(_) => json!({"vm": v}),
            }
        }
        1 => {
            json!({"storage": g.weighted(&[(10, "local"), (10, "nfs"), (5, "data"), (1, "tape")])})
        }
        2 => json!({}),
        _ => json!({"vm": "100", "storage": "nfs"}),
    }
}

pub fn pool(g: &mut Gen) -> Case {
    let w = world(g);
    let pool = g.weighted(&[
        (60, "testpool"),
        (25, "other"),
        (10, "other/inner"),
        (3, "nopool"),
        (1, "no pool"),
    ]);
    let mut a = json!({"poolid": pool});
    if g.chance(35) {
        let m = member(g);
        match m["storage"].as_str() {
            Some(s) => {
                a["member"] = json!(s);
                a["type"] = json!("storage");
            }
            None => a["member"] = m["vm"].clone(),
        }
    } else {
        let many = g.below(4);
        let list: Vec<Value> = (0..many).map(|_| member(g)).collect();
        a["members"] = if g.chance(80) {
            json!(list)
        } else {
            json!(json!(list).to_string())
        };
        if g.chance(35) {
            a["exclusive"] = g.bool();
        }
    }
    if g.chance(30) {
        a["state"] = json!("absent");
    }
    if g.chance(40) {
        a["allow_move"] = g.bool();
    }
    let mut c = Case::new("pve_pool_member", w, a);
    c.login = worlds::login(g);
    c
}

/// Cases of pve_ha_resource: guests under HA and not, running and not, with what a resource may have.
pub fn ha(g: &mut Gen) -> Case {
    let mut w = worlds::cluster(g);
    let states = ["started", "stopped", "disabled", "ignored", "enabled"];
    let mut managed = json!({});
    for vmid in [100, 101, 102] {
        if g.chance(45) {
            let mut r = json!({"state": g.pick(&states)});
            if g.chance(40) {
                r["max_restart"] = json!(g.below(4));
            }
            if g.chance(30) {
                r["max_relocate"] = json!(g.below(4));
            }
            if g.chance(30) {
                r["failback"] = json!(g.below(2));
            }
            if g.chance(30) {
                r["comment"] = json!(g.pick(&["web", "two words", "web\n"]));
            }
            managed[format!("vm:{vmid}")] = r;
        }
    }
    w["pve"]["ha"] = managed;
    let mut a = json!({"vmid": g.weighted(&[(30, 100), (30, 101), (30, 102), (4, 110), (4, 4711), (1, 7)])});
    if g.chance(35) {
        a["state"] = json!("absent");
    }
    if g.chance(60) {
        a["ha_state"] = json!(g.pick(&states[..4]));
    }
    if g.chance(40) {
        let n = i64::try_from(g.below(4)).expect("small");
        a["max_restart"] = g.int(n);
    }
    if g.chance(30) {
        a["max_relocate"] = json!(g.below(4));
    }
    if g.chance(25) {
        a["failback"] = g.bool();
    }
    if g.chance(30) {
        a["comment"] = json!(g.pick(&["web", "two words", "mail"]));
    }
    let mut c = Case::new("pve_ha_resource", w, a);
    c.login = worlds::login(g);
    c
}
