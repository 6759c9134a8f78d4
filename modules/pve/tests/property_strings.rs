//! Judges parser and printer against the recording of the real ones (tests/fixtures/pve/property-strings.json).
#![allow(clippy::disallowed_methods, clippy::print_stdout)]

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What cannot agree, with its reason; an entry that agrees after all must leave this list.
const EXCEPTIONS: &[(&str, &str, &str)] = &[(
    "cpu",
    "custom-foo",
    "whether a custom CPU type exists only the server's file cpu-models.conf knows",
)];
const FAMILIES: &[&str] = &[
    "net", "scsi", "sata", "ide", "virtio", "efidisk", "tpmstate", "agent", "boot",
];

fn entries() -> Vec<Value> {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/fixtures/pve/property-strings.json");
    let json: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    json["entries"].as_array().unwrap().clone()
}

/// None: agrees; else why not.
fn judge(entry: &Value) -> Option<String> {
    let (key, input) = (
        entry["key"].as_str().unwrap(),
        entry["input"].as_str().unwrap(),
    );
    let rejected = entry["create_schema"]["ok"] != true
        || !entry["parse_error"].is_null()
        || entry["parse_returns_undef"] == true;
    match (pve::prop_command(key, input), rejected) {
        (Err(_), true) => None,
        (Ok(_), true) => Some("the server refuses it".into()),
        (Err(e), false) => Some(format!("the server takes it, we say: {e}")),
        (Ok(ours), false) => ["parsed", "printed"].into_iter().find_map(|field| {
            let theirs = entry.get(field)?;
            (ours[field] != *theirs)
                .then(|| format!("{field}: server {theirs}, we {}", ours[field]))
        }),
    }
}

#[test]
fn parser_and_printer_agree_with_the_recording() {
    let mut per_family: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    let (mut agree, mut total, mut unexpected) = (0, 0, Vec::new());
    for entry in entries() {
        let (key, input) = (
            entry["key"].as_str().unwrap(),
            entry["input"].as_str().unwrap(),
        );
        let family = key
            .trim_end_matches(|c: char| c.is_ascii_digit())
            .to_string();
        let count = per_family.entry(family).or_default();
        let listed = EXCEPTIONS.iter().find(|(k, i, _)| *k == key && *i == input);
        count.1 += 1;
        total += 1;
        match (judge(&entry), listed) {
            (None, None) => {
                count.0 += 1;
                agree += 1;
            }
            (None, Some(_)) => {
                unexpected.push(format!("{key} {input:?}: agrees, remove the exception"))
            }
            (Some(_), Some((_, _, reason))) => println!("exception: {key} {input:?}: {reason}"),
            (Some(why), None) => unexpected.push(format!("{key} {input:?}: {why}")),
        }
    }
    println!("property-strings: {agree} of {total} agree");
    for family in FAMILIES {
        let (agree, total) = per_family[*family];
        println!("property-strings {family}: {agree} of {total} agree");
        assert!(agree * 100 >= total * 90, "{family}: {agree} of {total}");
    }
    assert!(
        unexpected.is_empty(),
        "{} differ:\n{}",
        unexpected.len(),
        unexpected.join("\n")
    );
    assert!(agree * 100 >= total * 98);
}

/// What the running API stored after a request means the same as what was asked, for options that it stores as given.
#[test]
fn what_the_server_stored_means_what_was_asked() {
    let mut compared = 0;
    for entry in entries() {
        let (key, input) = (
            entry["key"].as_str().unwrap(),
            entry["input"].as_str().unwrap(),
        );
        let Some(stored) = entry["api"]["stored"].as_str() else {
            continue;
        };
        let Ok(wish) = pve::PropString::parse_checked(key, input) else {
            continue;
        };
        // Drives get their volume, network cards their address, boot its devices from the server.
        if stored.contains("<AUTO")
            || wish.key().is_bus_drive()
            || stored == " "
            || key.starts_with("efi")
            || key.starts_with("tpm")
        {
            continue;
        }
        let stored = pve::PropString::parse(key, stored).unwrap();
        assert!(
            wish.same_as(&stored),
            "{key}: {input} became {stored}: {:?}",
            wish.diff(&stored)
        );
        compared += 1;
    }
    assert!(compared > 120, "{compared}");
}

#[test]
fn errors_name_option_value_and_way_out() {
    for (key, value, parts) in [
        (
            "net0",
            "virtio,tag=4095",
            &["net0", "tag=4095", "from 1 to 4094"][..],
        ),
        ("net32", "virtio", &["net32", "net0 to net31"]),
        ("scsi0", "local:1,disc=on", &["scsi0", "disc=on", "discard"]),
        ("net0", "virtio,bridge=", &["net0", "bridge=", "value"]),
        (
            "scsi0",
            "local:1,mbps_max=5",
            &["scsi0", "mbps_max=5", "give mbps too"],
        ),
        ("onboot", "yes", &["onboot", "yes", "1 or 0"]),
        (
            "net0",
            "virtio=BC:24:11:00:00:01,model=e1000",
            &["net0", "model", "twice"],
        ),
    ] {
        let e = pve::prop_command(key, value).unwrap_err();
        for part in parts {
            assert!(e.contains(part), "{e:?} does not say {part:?}");
        }
    }
}
