//! Properties of property strings under random input.

use proptest::prelude::*;
use pve::{PropString, schema};

/// A value that the key takes, made from its schema.
fn value(s: &'static schema::Schema, name: &str) -> BoxedStrategy<String> {
    if !s.choices.is_empty() {
        return proptest::sample::select(s.choices.clone()).boxed();
    }
    let lo = s.minimum.unwrap_or(1.0).max(0.0) as u64;
    match (s.kind, s.format.as_deref(), name) {
        (schema::Kind::Boolean, ..) => {
            proptest::sample::select(vec!["1", "0", "yes", "off", "True"])
                .prop_map(str::to_string)
                .boxed()
        }
        (schema::Kind::Integer | schema::Kind::Number, ..) => {
            (lo..s.maximum.map_or(lo + 900, |m| m as u64))
                .prop_map(|n| n.to_string())
                .boxed()
        }
        (_, Some("disk-size"), _) => (1u64..4000, 0usize..4)
            .prop_map(|(n, u)| format!("{n}{}", ["K", "M", "G", "T"][u]))
            .boxed(),
        (_, Some("mac-addr"), _) => "[0-9a-fA-F][02468ace](:[0-9a-fA-F]{2}){5}".boxed(),
        (_, _, "trunks") => "[1-9][0-9]{0,2}(;[1-9][0-9]{0,2}){0,3}".boxed(),
        _ => "[a-z][a-z0-9:./_-]{1,12}[a-z0-9]".boxed(),
    }
}

fn any_prop() -> impl Strategy<Value = PropString> {
    let keys = vec![
        "net0",
        "scsi3",
        "virtio1",
        "sata2",
        "ide1",
        "efidisk0",
        "tpmstate0",
        "agent",
        "vga",
        "cpu",
        "usb0",
        "hostpci1",
        "smbios1",
        "ipconfig2",
        "numa1",
        "watchdog",
        "rng0",
        "machine",
        "virtiofs0",
        "audio0",
        "boot",
    ];
    proptest::sample::select(keys).prop_flat_map(|key| {
        let names = key
            .parse::<pve::ConfigKey>()
            .unwrap()
            .schema()
            .keys
            .as_ref()
            .unwrap();
        let known: Vec<_> = names
            .iter()
            .filter(|(_, s)| s.alias.is_none())
            .filter(|(n, _)| !n.starts_with("bps"))
            .map(|(n, s)| (Just(n.clone()), proptest::option::of(value(s, n))))
            .collect();
        let extra =
            proptest::collection::btree_map("zz[a-z]{1,4}", "[a-zA-Z0-9=/: ]{0,8}[a-z]", 0..3);
        (known, extra).prop_map(move |(known, extra)| {
            let mut p = PropString::empty(key).unwrap();
            for (name, value) in known
                .into_iter()
                .filter_map(|(n, v)| Some((n, v?)))
                .chain(extra)
            {
                p.set(&name, &value).unwrap();
            }
            p
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn what_is_printed_reads_back(p in any_prop()) {
        let text = p.print();
        let q = PropString::parse(p.key().as_str(), &text).unwrap();
        prop_assert_eq!(&p, &q, "{}", text);
        prop_assert_eq!(q.print(), text);
    }

    #[test]
    fn unknown_keys_survive_a_merge(p in any_prop(), q in any_prop()) {
        let named = if p.key() == q.key() { q } else { p.unset(&["zz"]) };
        let merged = p.merge(&named);
        for (name, value) in p.extra() {
            prop_assert!(named.extra().contains_key(name) || merged.get(name) == Some(value));
        }
        // Merging converges: what was named is there, and a second time nothing changes.
        for (name, value) in named.iter() {
            prop_assert!(pve::meaning::same_value(p.key(), name, merged.get(name), Some(value)));
        }
        prop_assert_eq!(merged.merge(&named), merged);
    }

    #[test]
    fn order_does_not_matter(p in any_prop(), seed in 0usize..1000) {
        let text = p.print();
        let mut parts: Vec<&str> = text.split(',').filter(|s| !s.is_empty()).collect();
        let len = parts.len().max(1);
        parts.rotate_left(seed % len);
        if seed % 2 == 0 { parts.reverse(); }
        prop_assert!(pve::same_meaning(p.key().as_str(), &text, &parts.join(",")), "{} / {:?}", text, parts);
    }

    #[test]
    fn case_of_an_address_and_notation_of_a_model_do_not_matter(mac in "[0-9a-f][02468ace](:[0-9a-f]{2}){5}", tag in 1u32..4095) {
        let a = format!("virtio={mac},tag={tag},firewall=0");
        let b = format!("tag=0{tag},macaddr={},model=virtio", mac.to_uppercase());
        prop_assert!(pve::same_meaning("net0", &a, &b));
        let other = format!("model=e1000,macaddr={mac},tag={tag}");
        prop_assert!(!pve::same_meaning("net0", &a, &other));
    }

    #[test]
    fn our_own_names_are_always_valid(name in "\\PC{0,90}") {
        let dns = pve::naming::dns_name(&name);
        prop_assert!(pve::check::is_dns_name(&dns), "{:?} became {:?}", name, dns);
        prop_assert!(dns.split('.').all(|l| l.len() <= 63) && dns.len() <= 253);
        prop_assert_eq!(pve::naming::dns_name(&dns), dns);
        prop_assert!(pve::sdn::is_alias(&pve::sdn::clean_alias(&name)));
        prop_assert_eq!(pve::ids::percent_decode(&pve::ids::percent_encode(&name)), name);
    }

    #[test]
    fn addresses_of_one_cluster_never_collide(a in 100u32..524_000, b in 100u32..524_000, m in 0u32..32, n in 0u32..32) {
        let nodes = ["pve1", "pve2"];
        let same = pve::naming::mac_for(a, m, &nodes) == pve::naming::mac_for(b, n, &nodes);
        prop_assert_eq!(same, (a, m) == (b, n));
    }

    #[test]
    fn a_swapped_uuid_swaps_back(uuid in "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}") {
        let swapped = pve::smbios::swap_uuid(&uuid).unwrap();
        prop_assert_eq!(pve::smbios::swap_uuid(&swapped).unwrap(), uuid);
    }

    #[test]
    fn sizes_survive_printing(bytes in 0u64..(1 << 50)) {
        prop_assert_eq!(pve::size::parse_size(&pve::size::format_size(bytes)), Some(bytes));
    }
}

#[test]
fn a_difference_is_a_difference() {
    for (key, a, b, same) in [
        (
            "scsi0",
            "local:1/a.raw,size=1G",
            "volume=local:1/a.raw,size=1024M,backup=1,media=disk",
            true,
        ),
        (
            "scsi0",
            "local:1/a.raw,size=1G",
            "local:1/a.raw,size=2G",
            false,
        ),
        ("scsi0", "local:1/a.raw,discard=on", "local:1/a.raw", false),
        ("scsi0", "local:1/a.raw,backup=0", "local:1/a.raw", false),
        (
            "net0",
            "virtio,trunks=10;20-30",
            "virtio,trunks=20-25;26-30;10",
            true,
        ),
        ("net0", "virtio,trunks=10", "virtio,trunks=10-11", false),
        ("net0", "virtio,link_down=1", "virtio", false),
        (
            "agent",
            "enabled=1",
            "yes,type=virtio,fstrim_cloned_disks=0",
            true,
        ),
        ("agent", "1", "0", false),
        ("boot", "order=scsi0;net0", "order=net0;scsi0", false),
        ("boot", "order=scsi0;net0", "order=scsi0 net0", true),
        (
            "cpu",
            "host,flags=+aes;-pcid",
            "cputype=host,flags=-pcid;+aes,hidden=0",
            true,
        ),
        ("cpu", "host", "kvm64", false),
        ("ipconfig0", "ip=dhcp", "gw=192.0.2.1", false),
        (
            "ipconfig0",
            "ip6=2001:DB8::5/64",
            "ip6=2001:db8:0::5/64",
            true,
        ),
        ("machine", "pc-q35-9.0+pve1", "q35", true),
        ("machine", "pc-q35-8.1", "pc-q35-9.0", false),
        ("machine", "q35", "pc-q35-9.0", false),
        ("machine", "q35,viommu=intel", "pc-q35-9.0", false),
        ("usb0", "host=0x1234:0x5678", "1234:5678,usb3=no", true),
        (
            "efidisk0",
            "l1:vm-1-disk-0,efitype=4m,pre-enrolled-keys=1",
            "l1:vm-1-disk-0,efitype=4m",
            false,
        ),
        (
            "numa0",
            "cpus=0-1,memory=512",
            "cpus=0;1,memory=512.0",
            true,
        ),
    ] {
        assert_eq!(pve::same_meaning(key, a, b), same, "{key}: {a} / {b}");
    }
}
