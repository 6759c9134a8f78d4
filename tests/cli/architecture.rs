//! What may depend on what (ARCHITECTURE.md), asked of cargo and not of a list.

use std::path::Path;
use std::process::Command;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const PURE: &[&str] = &["spec", "plan", "pve", "vsphere", "planners"];

/// Names of all crates that `package` is built with.
fn tree(package: &str) -> Vec<String> {
    let out = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--offline",
            "--locked",
            "--prefix",
            "none",
            "-e",
            "normal",
            "-p",
            package,
        ])
        .current_dir(ROOT)
        .output()
        .expect("cargo tree");
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    let text = String::from_utf8(out.stdout).expect("text");
    let names: Vec<String> = text
        .lines()
        .filter_map(|l| l.split_whitespace().next().map(str::to_owned))
        .collect();
    assert_eq!(names.first().map(String::as_str), Some(package));
    names
}

#[test]
fn what_decides_cannot_reach_the_world() {
    for package in PURE {
        let all = tree(package);
        for world in [
            "reqwest",
            "tokio",
            "hyper",
            "mio",
            "rustls",
            "socket2",
            "tls",
            "pve-api",
            "vsphere-api",
            "export",
            "protocol",
            "labsim",
        ] {
            assert!(
                !all.iter().any(|n| n == world),
                "{package} depends on {world}"
            );
        }
    }
    // The same question finds it where it is.
    assert!(tree("pve-api").iter().any(|n| n == "reqwest"));
}

#[test]
fn the_lab_shares_no_code_with_what_it_judges() {
    let ours = [
        "spec",
        "protocol",
        "plan",
        "pve",
        "vsphere",
        "planners",
        "tls",
        "pve-api",
        "vsphere-api",
        "export",
        "xtask",
        "trueplan",
    ];
    let all = tree("labsim");
    for o in ours {
        assert!(!all.iter().any(|n| n == o), "labsim depends on {o}");
    }
}

#[test]
fn dependencies_point_one_way() {
    for (package, never) in [
        ("spec", &["plan", "pve", "vsphere"][..]),
        ("plan", &["spec", "pve", "vsphere"]),
        ("pve", &["vsphere", "planners", "spec"]),
        ("vsphere", &["pve", "planners", "spec"]),
        (
            "pve-api",
            &["planners", "spec", "protocol", "vsphere", "vsphere-api"],
        ),
        (
            "vsphere-api",
            &["planners", "spec", "protocol", "pve", "pve-api"],
        ),
        ("tls", &["plan", "spec", "pve", "vsphere"]),
        (
            "protocol",
            &["planners", "pve", "vsphere", "pve-api", "vsphere-api"],
        ),
    ] {
        let all = tree(package);
        for n in never {
            assert!(!all.iter().any(|a| a == n), "{package} depends on {n}");
        }
    }
}

#[test]
fn pure_crates_forbid_files_clocks_and_networks() {
    for package in PURE {
        let file = Path::new(ROOT)
            .join("modules")
            .join(package)
            .join("clippy.toml");
        let text =
            std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        for word in [
            "disallowed-methods",
            "std::fs",
            "std::env::var",
            "std::time",
            "std::net",
            "std::thread",
        ] {
            assert!(
                text.contains(word),
                "{}: {word} is not forbidden",
                file.display()
            );
        }
    }
}

/// What a shipped binary is made of stays a short list (DESIGN.md section 4).
#[test]
fn no_openssl_and_no_python() {
    let all = tree("trueplan");
    for n in [
        "openssl",
        "openssl-sys",
        "native-tls",
        "pyo3",
        "anyhow",
        "labsim",
    ] {
        assert!(
            !all.iter().any(|a| a == n),
            "the shipped binary contains {n}"
        );
    }
}

/// A user finds the kind of a failure, and any concern, by its name.
#[test]
fn each_kind_of_failure_is_explained() {
    let text =
        std::fs::read_to_string(Path::new(ROOT).join("docs/troubleshooting.md")).expect("a file");
    let explained: Vec<&str> = text.lines().filter_map(|l| l.strip_prefix("## ")).collect();
    let kinds: Vec<&str> = plan::ErrorKind::ALL.iter().map(|k| k.as_str()).collect();
    assert_eq!(explained[..kinds.len()], kinds[..]);
    for k in kinds {
        assert!(
            text.contains(&format!("[`{k}`](#{k})")),
            "{k} is not in the table"
        );
    }
}

/// The tables name what there is: markup that names no option, a kind of failure that the pages of the modules do not have.
#[test]
fn the_tables_of_the_modules_are_sound() {
    for d in planners::registry() {
        assert_eq!(spec::lint(d.spec), Vec::<String>::new(), "{}", d.spec.name);
        let signs_in = d.spec.all().any(|o| o.secret);
        assert_eq!(signs_in, !d.spec.privileges.is_empty(), "{}", d.spec.name);
    }
    let ours: Vec<&str> = spec::shared::ERROR_KINDS.iter().map(|k| k.0).collect();
    let kinds: Vec<&str> = plan::ErrorKind::ALL.iter().map(|k| k.as_str()).collect();
    assert_eq!(ours, kinds);
}

/// Links between the files of the repository.
#[test]
fn links_of_the_documentation_lead_somewhere() {
    let root = Path::new(ROOT);
    let mut files: Vec<std::path::PathBuf> = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"]
        .iter()
        .map(|f| root.join(f))
        .collect();
    for folder in ["docs", "docs/modules", "roles"] {
        for e in std::fs::read_dir(root.join(folder)).expect("a folder") {
            let path = e.expect("an entry").path();
            let role = path.join("README.md");
            if path.extension().is_some_and(|e| e == "md") {
                files.push(path);
            } else if role.is_file() {
                files.push(role);
            }
        }
    }
    let (mut seen, mut dead) = (0, vec![]);
    for file in files {
        let text = std::fs::read_to_string(&file).expect("text");
        for link in text.split("](").skip(1) {
            let link = link.split(')').next().unwrap_or_default();
            if link.contains("://") || link.contains(' ') {
                continue;
            }
            seen += 1;
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let to = match path {
                "" => file.clone(),
                p => file.parent().expect("a folder").join(p),
            };
            let headings = || std::fs::read_to_string(&to).unwrap_or_default();
            if !to.exists() || !anchor.is_empty() && !has_heading(&headings(), anchor) {
                dead.push(format!("{}: {link}", file.display()));
            }
        }
    }
    assert!(seen > 50, "{seen} links");
    assert_eq!(dead, Vec::<String>::new());
}

/// As GitHub makes an anchor of a heading.
fn has_heading(text: &str, anchor: &str) -> bool {
    text.lines().any(|l| {
        let title = l.trim_start_matches('#').trim().to_lowercase();
        let slug: String = title
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect();
        l.starts_with('#') && slug == anchor
    })
}
