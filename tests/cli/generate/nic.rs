//! Cases of pve_nic.

use super::worlds::{self, MODELS};
use super::{Case, Gen};
use serde_json::json;

pub fn case(g: &mut Gen) -> Case {
    let world = worlds::cluster(g);
    let vmid = g.weighted(&[(30, 100u32), (30, 101), (30, 102), (2, 110), (2, 199)]);
    let name = match vmid {
        100 => "web",
        101 => "db",
        _ => "app",
    };
    let mut a = json!({"interface": g.weighted(&[(40, "net0"), (30, "net1"), (20, "net2"), (6, "net31"), (2, "net32"), (2, "eth0")])});
    if g.chance(85) {
        a["vmid"] = g.int(vmid.into());
    } else {
        a["name"] = json!(name);
    }
    let absent = g.chance(15);
    if absent {
        a["state"] = json!("absent");
    } else {
        if g.chance(75) {
            a["bridge"] = json!(g.weighted(&[
                (30, "vmbr0"),
                (25, "vmbr1"),
                (15, "v10"),
                (8, "v20"),
                (8, "vs"),
                (4, "vmbr9"),
                (2, "no such")
            ]));
        }
        if g.chance(35) {
            a["firewall"] = g.bool();
        }
        if g.chance(35) {
            a["link_down"] = g.bool();
        }
        if g.chance(25) {
            a["mac"] = json!(g.weighted(&[
                (20, "BC:24:11:AA:BB:01"),
                (20, "bc:24:11:aa:bb:02"),
                (10, "BC:24:11:00:00:00"),
                (10, "BC:24:11:01:01:01"),
                (3, "01:00:5E:00:00:01"),
                (3, "nonsense")
            ]));
        }
        if g.chance(45) {
            a["model"] = json!(g.pick(&MODELS));
        }
        if g.chance(20) {
            a["mtu"] = g
                .weighted(&[(4, 1400i64), (3, 1), (2, 9000), (1, 70000)])
                .into();
        }
        if g.chance(20) {
            let n = g.weighted(&[(4, 2i64), (2, 4), (2, 0), (1, 65)]);
            a["queues"] = g.int(n);
        }
        if g.chance(25) {
            a["rate"] = g
                .weighted(&[
                    (3, json_str("12.5")),
                    (3, json_str("10")),
                    (2, json_str("0.5")),
                    (1, json_str("-1")),
                ])
                .into();
        }
        if g.chance(35) {
            let n = g.weighted(&[(5, 5i64), (5, 7), (3, 4094), (1, 5000), (1, 0)]);
            a["tag"] = g.int(n);
        }
        if g.chance(20) {
            let t: &[&str] = [
                &["10-20"][..],
                &["5", "7"],
                &["20", "10-12"],
                &["1-4094"],
                &["99999"],
            ][g.below(5)];
            a["trunks"] = g.list(t);
        }
        if g.chance(20) {
            let what = g.pick(&[
                "tag",
                "rate",
                "trunks",
                "queues",
                "mtu",
                "firewall",
                "link_down",
                "bridge",
            ]);
            a["unset"] = g.list(&[what]);
        }
    }
    if g.chance(5) {
        a["guard_uuid"] = json!("0c8ad2a8-5b3c-4b51-8a5a-0d7e1b7e0001");
    }
    a["timeout"] = g.int(1);
    let mut c = Case::new("pve_nic", world, a);
    c.before = worlds::unrest(g, &c.world, vmid);
    c.login = worlds::login(g);
    c
}

fn json_str(s: &str) -> &str {
    s
}
