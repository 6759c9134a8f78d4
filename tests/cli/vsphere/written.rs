//! What is written about concerns and defects is so: every id has its line, every defect its test.

use std::collections::BTreeMap;

fn read(path: &str) -> String {
    let full = format!("{}/{path}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&full).unwrap_or_else(|e| panic!("{full}: {e}"))
}

/// Cells of the table rows whose first cell is in backticks or bare.
fn table(text: &str) -> Vec<Vec<String>> {
    text.lines()
        .filter(|l| l.starts_with("| ") && !l.starts_with("| id ") && !l.starts_with("| number "))
        .map(|l| {
            l.trim_matches('|')
                .split(" | ")
                .map(|c| c.trim().trim_matches('`').to_owned())
                .collect()
        })
        .collect()
}

/// The first text in quotes after each occurrence of `mark`.
fn quoted_after<'a>(text: &'a str, mark: &str) -> Vec<&'a str> {
    text.split(mark)
        .skip(1)
        .filter_map(|t| t.trim_start().strip_prefix('"'))
        .filter_map(|t| t.split('"').next())
        .collect()
}

#[test]
fn every_concern_is_documented_with_its_severity() {
    let source = read("modules/vsphere/src/concerns.rs");
    let source = source.split("#[cfg(test)]").next().expect("code");
    let mut code: BTreeMap<String, &str> = BTreeMap::new();
    for severity in ["blocker", "warning"] {
        for id in quoted_after(source, &format!("c.{severity}(")) {
            code.insert(id.to_owned(), severity);
        }
    }
    for id in [
        "opaque", "standard", "uplink", "nsx", "trunk", "pvlan", "untagged",
    ] {
        code.insert(format!("network_{id}"), "blocker");
    }
    code.insert("name_changed".into(), "warning");
    let text = read("docs/concerns.md");
    let rows = table(&text);
    let documented: BTreeMap<String, &str> =
        rows.iter().map(|r| (r[0].clone(), r[1].as_str())).collect();
    assert_eq!(documented, code);
    assert!(code.len() > 55, "{}", code.len());
    // A blocker refuses somewhere, with what to do.
    for r in &rows {
        assert_eq!(r[1] == "blocker", r[2] != "-", "{r:?}");
        assert!(r[3].len() > 5, "{r:?}");
    }
    // What the roles say that they refuse.
    for (stage, file, list) in [
        ("build", "build", "migrate_build_concerns: ["),
        ("relocate", "relocate", "migrate_relocate_concerns: ["),
    ] {
        let vars = read(&format!("roles/migrate_{file}/vars/main.yml"));
        let ids = vars
            .split(list)
            .nth(1)
            .and_then(|t| t.split(']').next())
            .expect(list);
        for id in ids.split(',').map(str::trim) {
            let row = rows
                .iter()
                .find(|r| r[0] == id)
                .unwrap_or_else(|| panic!("{stage}: {id}"));
            assert!(row[2].contains(stage), "{stage}: {row:?}");
        }
    }
}

#[test]
fn every_defect_of_the_peers_has_its_test() {
    let text = read("docs/bugs-tested-vsphere.md");
    let rows = table(&text);
    let numbers: Vec<&str> = rows.iter().map(|r| r[0].as_str()).collect();
    for (chapter, last) in [(1, 7), (2, 16), (3, 10), (4, 9)] {
        for n in 1..=last {
            let id = format!("V{chapter}.{n}");
            assert!(numbers.contains(&id.as_str()), "{id} has no line");
        }
    }
    let mut tests = 0;
    for r in &rows {
        for place in r[1].split(", ").filter(|p| p.contains("::")) {
            let (file, test) = place
                .trim_matches('`')
                .split_once("::")
                .expect("file::test");
            let source = read(file);
            assert!(
                source.contains(&format!("fn {test}(")) || source.contains(&format!("def {test}(")),
                "{}: {file} has no {test}",
                r[0]
            );
            tests += 1;
        }
    }
    println!("defects: {} numbers, {tests} tests named", rows.len());
}
