//! What AWX needs: the execution environment's file, and the playbook that sets AWX up, run with the real modules of awx.awx.

use crate::demo::Stage;
use crate::env;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The newest release of the package `ansible` that has awx.awx in it.
const WITH_AWX: &str = "ansible==10.7.0";

/// `ansible-builder create` makes the build context of execution-environment.yml; building the image needs a container runtime.
pub fn builder(root: &Path) -> Result<String, String> {
    let python = env::python(11, 14).ok_or("no Python from 3.11 to 3.14")?;
    let venv = env::venv(root, ".venv-builder", &python, &["ansible-builder>=3.1"])?;
    let context = root.join(".lab/ee");
    let _ = std::fs::remove_dir_all(&context);
    let file = root.join("execution-environment.yml");
    env::output(
        root,
        venv.join("bin/ansible-builder"),
        &[
            "create",
            "--file",
            &file.display().to_string(),
            "--context",
            &context.display().to_string(),
            "--output-filename",
            "Containerfile",
        ],
    )?;
    let made = std::fs::read_to_string(context.join("Containerfile")).map_err(|e| e.to_string())?;
    let galaxy = std::fs::read_to_string(context.join("_build/requirements.yml"))
        .map_err(|e| format!("requirements.yml: {e}"))?;
    if !galaxy.contains("trueplan.virt") || !made.contains("ansible-core") {
        return Err(format!(
            "the build context lacks something:\n{galaxy}\n{made}"
        ));
    }
    Ok(format!("{} lines of Containerfile", made.lines().count()))
}

/// awx.awx out of the package `ansible`: the collection itself is on no package index.
fn collection(root: &Path, python: &Path) -> Result<PathBuf, String> {
    let folder = root.join(".lab/awx");
    if folder
        .join("ansible_collections/awx/awx/MANIFEST.json")
        .exists()
    {
        return Ok(folder);
    }
    std::fs::create_dir_all(&folder).map_err(|e| e.to_string())?;
    let at = folder.display().to_string();
    env::output(
        root,
        python,
        &[
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--dest",
            &at,
            WITH_AWX,
        ],
    )?;
    let code = "import glob, sys, zipfile\nf = glob.glob(sys.argv[1] + '/ansible-*.whl')[0]\nz = zipfile.ZipFile(f)\nz.extractall(sys.argv[1], [n for n in z.namelist() if n.startswith('ansible_collections/awx/')])\n";
    env::output(root, python, &["-c", code, &at])?;
    Ok(folder)
}

/// The stub of AWX's API; ended when dropped.
struct Stub(Child, String);

impl Stub {
    fn start(root: &Path, python: &Path) -> Result<Stub, String> {
        let mut child = Command::new(python)
            .arg(root.join("tests/ansible/awx_stub.py"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("awx_stub.py: {e}"))?;
        let mut line = String::new();
        let out = child.stdout.take().ok_or("no output")?;
        BufReader::new(out)
            .read_line(&mut line)
            .map_err(|e| e.to_string())?;
        Ok(Stub(child, format!("http://127.0.0.1:{}", line.trim())))
    }

    fn dump(&self) -> Result<Value, String> {
        let text = reqwest::blocking::get(format!("{}/dump", self.1))
            .and_then(|r| r.text())
            .map_err(|e| e.to_string())?;
        serde_json::from_str(&text).map_err(|e| e.to_string())
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The playbook in check mode on an empty AWX, for real, again, and once more in check mode.
pub fn setup(root: &Path, stage: &Stage) -> Result<String, String> {
    let python = stage.venv.join("bin/python");
    let awx = collection(root, &python)?;
    let stub = Stub::start(root, &python)?;
    let paths = std::env::join_paths([&stage.collections, &awx]).map_err(|e| e.to_string())?;
    let play = |check: bool| -> Result<String, String> {
        let mut c = Command::new(stage.venv.join("bin/ansible-playbook"));
        c.current_dir(root)
            .stdin(Stdio::null())
            .env("ANSIBLE_COLLECTIONS_PATH", &paths)
            .env("ANSIBLE_NOCOLOR", "true")
            .env("ANSIBLE_LOCALHOST_WARNING", "false")
            .env("CONTROLLER_HOST", &stub.1)
            .env("CONTROLLER_OAUTH_TOKEN", "stub")
            .env("CONTROLLER_VERIFY_SSL", "false")
            .env("VMWARE_HOST", "vcenter.example.org")
            .env("VMWARE_USER", "migrate@vsphere.local")
            .env("VMWARE_PASSWORD", "stub-Vsphere-1")
            .env("PROXMOX_HOST", "pve1.example.org")
            .env("PROXMOX_TOKEN_ID", "migrate@pve!ansible")
            .env("PROXMOX_TOKEN_SECRET", "stub-Pve-1")
            .args(["trueplan.virt.awx_setup", "-e"])
            .arg("awx_project_url=https://git.example.org/m.git awx_ee_image=registry.example.org/ee awx_slices=2");
        if check {
            c.arg("--check");
        }
        let o = c.output().map_err(|e| e.to_string())?;
        let text = String::from_utf8_lossy(&o.stdout).into_owned();
        match o.status.success() && !text.contains("stub-Pve-1") && !text.contains("stub-Vsphere-1")
        {
            true => Ok(text),
            false => Err(text),
        }
    };
    let count = |d: &Value| d["writes"].as_array().map_or(0, Vec::len);
    let foreseen = play(true)?;
    let untouched = count(&stub.dump()?);
    let real = play(false)?;
    let first = stub.dump()?;
    let again = play(false)?;
    let late = play(true)?;
    let second = stub.dump()?;
    if untouched > 0 || !again.contains("changed=0") || !late.contains("changed=0") {
        return Err(format!(
            "{untouched} writes in check mode; the second run, and its check run:\n{again}\n{late}"
        ));
    }
    // All that was made was announced: by its own task, or in the list of what hangs on what is not there yet.
    for (kind, what, of_itself) in [
        ("credentials", "credential", 1),
        ("projects", "project", 0),
        ("inventory_sources", "inventory source", 0),
        ("job_templates", "job template", 0),
    ] {
        let made = first["store"][kind].as_array().into_iter().flatten();
        let missed: Vec<&str> = made
            .filter_map(|m| m["name"].as_str())
            // The stub's own.
            .filter(|n| *n != "git" && !foreseen.contains(&format!("\"{what} {n}\"")))
            .collect();
        if missed.len() != of_itself {
            return Err(format!(
                "made, but not foreseen: {what} {missed:?}\n{foreseen}\n{real}"
            ));
        }
    }
    if count(&first) == 0 || count(&first) != count(&second) {
        return Err(format!(
            "{} writes, {} after the second run\n{again}",
            count(&first),
            count(&second)
        ));
    }
    let templates = first["store"]["job_templates"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let tags: BTreeSet<&str> = templates
        .iter()
        .filter_map(|t| t["job_tags"].as_str())
        .collect();
    let playbook =
        std::fs::read_to_string(root.join("playbooks/migrate.yml")).map_err(|e| e.to_string())?;
    let stages: BTreeSet<&str> = playbook
        .lines()
        .filter_map(|l| l.strip_prefix("  tags: ["))
        .filter_map(|l| l.split([',', ']']).next())
        .collect();
    if tags != stages {
        return Err(format!(
            "job templates for {tags:?}, but the stages are {stages:?}"
        ));
    }
    // Braces must reach AWX as they are.
    let types = first["store"]["credential_types"].to_string();
    if !types.contains("{% if ca %}{{ tower.filename.ca }}{% endif %}") {
        return Err(format!("the injectors are {types}"));
    }
    let asked = templates
        .iter()
        .all(|t| t["ask_job_type_on_launch"] == true && t["job_slice_count"] == 2);
    let survey = templates
        .iter()
        .any(|t| t["survey"].to_string().contains("cutover_not_after"));
    if !asked || !survey {
        return Err(format!("the job templates are {templates:?}"));
    }
    Ok(format!(
        "{} job templates, {} writes, none in check mode and in the second run",
        templates.len(),
        count(&first)
    ))
}
