//! Cases of pve_nic.

use super::worlds::{self, MODELS};
use super::{Case, Gen};
use serde_json::json;

pub fn case(g: &mut Gen) -> Case {
    let mut world = worlds::cluster(g);
    worlds::mostly_without_system(g, &mut world);
    let vmid = g.weighted(&[(30, 100u32), (30, 101), (30, 102), (1, 110), (1, 199)]);
    let name = match vmid {
        100 => "web",
        101 => "db",
        _ => "app",
    };
    let mut a = json!({"interface": g.weighted(&[(40, "net0"), (30, "net1"), (22, "net2"), (6, "net31"), (1, "net32"), (1, "eth0")])});
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
                (1, "01:00:5E:00:00:01"),
                (1, "nonsense")
            ]));
        }
        if g.chance(45) {
            a["model"] = json!(if g.chance(40) {
                "virtio"
            } else {
                g.pick(&MODELS)
            });
        }
        if g.chance(20) {
            a["mtu"] = g
                .weighted(&[(12, 1400i64), (9, 1), (6, 9000), (1, 70000)])
                .into();
        }
        if g.chance(20) {
            let n = g.weighted(&[(12, 2i64), (6, 4), (6, 0), (1, 65)]);
            a["queues"] = g.int(n);
        }
        if g.chance(25) {
            a["rate"] = g
                .weighted(&[(9, "12.5"), (9, "10"), (6, "0.5"), (1, "-1")])
                .into();
        }
        if g.chance(35) {
            let n = g.weighted(&[(15, 5i64), (15, 7), (9, 4094), (1, 5000), (1, 0)]);
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
            if a[what].is_null() || g.chance(10) {
                a["unset"] = g.list(&[what]);
            }
        }
    }
    if g.chance(3) {
        a["guard_uuid"] = json!("0c8ad2a8-5b3c-4b51-8a5a-0d7e1b7e0001");
    }
    a["timeout"] = g.int(1);
    let mut c = Case::new("pve_nic", world, a);
    c.before = worlds::unrest(g, &c.world, vmid);
    c.login = worlds::login(g);
    c
}
