//! Every option of the peers is taken, but for the differences that docs/peer-differences.md lists with their reasons.

use serde_json::Value;
use std::collections::BTreeSet;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Modules, option and difference of one line of the table.
struct Row {
    modules: Vec<String>,
    option: String,
    difference: String,
}

fn rows() -> Vec<Row> {
    let text =
        std::fs::read_to_string(format!("{ROOT}/docs/peer-differences.md")).expect("the document");
    let rows: Vec<Row> = text
        .lines()
        .filter(|l| l.starts_with("| ") && l.contains('`'))
        .map(|l| {
            let cells: Vec<&str> = l.trim_matches('|').split(" | ").map(str::trim).collect();
            assert_eq!(cells.len(), 4, "{l}");
            assert!(cells[3].len() > 10, "a reason: {l}");
            Row {
                modules: cells[0]
                    .replace("all ", "")
                    .split(',')
                    .map(|m| m.trim().trim_matches('`').to_owned())
                    .collect(),
                option: cells[1].trim_matches('`').to_owned(),
                difference: cells[2].to_owned(),
            }
        })
        .collect();
    assert!(rows.len() > 3, "the table cannot be read");
    rows
}

impl Row {
    fn covers(&self, module: &str, gap: &str) -> bool {
        let of = |m: &String| {
            m.strip_suffix('*')
                .map_or(m == module, |p| module.starts_with(p))
        };
        // `VERSION OPTION: what` or `VERSION RULE options: what`.
        let rest = gap.split_once(' ').map_or(gap, |(_, r)| r);
        self.modules.iter().any(of)
            && rest.starts_with(&self.option)
            && rest.ends_with(&self.difference)
    }
}

#[test]
fn every_option_of_the_peers_is_taken() {
    let (rows, mut used, mut missing, mut judged) = (rows(), BTreeSet::new(), vec![], 0);
    for d in planners::registry() {
        let Some(peer) = d.spec.replaces else {
            continue;
        };
        let name = peer.rsplit('.').next().expect("a name");
        let Ok(text) = std::fs::read_to_string(format!("{ROOT}/tests/fixtures/peers/{name}.json"))
        else {
            println!(
                "peers: {peer} is not recorded (see /docs, vSphere peers); {} is not compared",
                d.spec.name
            );
            continue;
        };
        judged += 1;
        let gaps = spec::peer_gaps(d.spec, &serde_json::from_str(&text).expect("JSON"));
        let mut meant = 0;
        for gap in &gaps {
            let by: Vec<usize> = (0..rows.len())
                .filter(|i| rows[*i].covers(d.spec.name, gap))
                .collect();
            if by.is_empty() {
                missing.push(format!("{}: {gap}", d.spec.name));
            } else {
                meant += 1;
            }
            used.extend(by);
        }
        println!(
            "peers: {} for {peer}: {} differences, {meant} of them meant",
            d.spec.name,
            gaps.len()
        );
    }
    assert!(judged >= 6, "only {judged} modules were compared");
    assert!(
        missing.is_empty(),
        "not taken as the peer does, and not in docs/peer-differences.md:\n{}",
        missing.join("\n")
    );
    for (i, r) in rows.iter().enumerate() {
        assert!(
            used.contains(&i),
            "docs/peer-differences.md: `{}` of {:?} no longer differs",
            r.option,
            r.modules
        );
    }
}

#[test]
fn every_table_is_sound_and_the_binary_prints_it() {
    let run = |args: &[&str]| -> Value {
        let out = std::process::Command::new(env!("CARGO_BIN_EXE_trueplan"))
            .args(args)
            .output()
            .expect("it runs");
        assert!(
            out.status.success(),
            "{args:?}: {}",
            String::from_utf8_lossy(&out.stderr)
        );
        serde_json::from_slice(&out.stdout).expect("JSON")
    };
    let names = run(&["spec"]);
    assert_eq!(
        names.as_array().map(Vec::len),
        Some(planners::registry().len())
    );
    for name in names
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
    {
        let d = planners::find(name).expect("a module");
        assert_eq!(spec::lint(d.spec), Vec::<String>::new(), "{name}");
        assert_eq!(run(&["spec", name]), spec::spec_json(d.spec), "{name}");
        // What every writing module has.
        let writes = d.spec.option("expect_plan").is_some();
        assert_eq!(
            writes,
            ![
                "pve_vm_info",
                "vsphere_vm_info",
                "vsphere_portgroups",
                "pve_user_info"
            ]
            .contains(&name),
            "{name}: expect_plan"
        );
    }
}
