//! The ledger through ansible-playbook: create, day two and remove in one check run, however Ansible cuts it up; and two at once. (A ledger that is damaged, unreadable or full: tests/cli/chain.rs.)

use super::labs::{Site, Yard};
use super::scenario::{Scenario, Side, cluster};
use super::{Line, compare};
use crate::demo::Stage;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Hosts of the playbook, each for one guest.
const HOSTS: &[&str] = &["a", "b", "c", "d", "e", "f"];

/// A guest is made, changed and, but for two hosts, removed: three plays, each on what the one before planned.
const TASKS: &[&str] = &[
    r#"
- name: Make the guest
  trueplan.virt.pve_vm_shell: {vmid: "{{ vmid }}", name: "guest-{{ inventory_hostname }}", node: pve1, memory: 512, scsihw: virtio-scsi-single}
- name: Its NICs
  trueplan.virt.pve_nic: {vmid: "{{ vmid }}", interface: "net{{ item }}", bridge: "vmbr{{ item }}", tag: "{{ 10 + item }}"}
  loop: [0, 1]
- name: Its disks
  trueplan.virt.pve_disk_import: {vmid: "{{ vmid }}", disk: "scsi{{ item }}", storage: data, size: '1', format: qcow2}
  loop: [0, 1]
"#,
    r#"
- name: Change it
  block:
    - name: More memory
      trueplan.virt.pve_vm_shell: {vmid: "{{ vmid }}", memory: 1024, tags_add: [changed]}
      register: grown
    - name: A bridge that is nowhere
      trueplan.virt.pve_nic: {vmid: "{{ vmid }}", interface: net0, bridge: vmbr9}
  rescue:
    - name: Another VLAN instead
      trueplan.virt.pve_nic: {vmid: "{{ vmid }}", interface: net0, bridge: vmbr0, tag: 99}
  always:
    - name: Grow the disk
      trueplan.virt.pve_disk_import: {vmid: "{{ vmid }}", disk: scsi0, size: 2G, state: resized}
- name: Only what has grown is started
  trueplan.virt.pve_vm_shell: {vmid: "{{ vmid }}", state: started}
  when: grown.changed
"#,
    r#"
- name: Stop it
  trueplan.virt.pve_vm_shell: {vmid: "{{ vmid }}", state: stopped, force: true, timeout: 1}
- name: Remove a disk
  trueplan.virt.pve_disk_import: {vmid: "{{ vmid }}", disk: scsi1, state: absent}
- name: Remove it
  trueplan.virt.pve_vm_shell: {vmid: "{{ vmid }}", state: absent}
  when: inventory_hostname not in ['a', 'b']
"#,
];

struct Case<'a> {
    root: &'a Path,
    stage: &'a Stage,
    site: &'a Site,
    folder: PathBuf,
    world: Value,
}

impl Case<'_> {
    fn write(&self, first: u64) -> Result<(), String> {
        std::fs::create_dir_all(&self.folder).map_err(|e| e.to_string())?;
        let put = |name: &str, text: String| {
            std::fs::write(self.folder.join(name), text).map_err(|e| format!("{name}: {e}"))
        };
        let plain = Scenario::new("ledger", "ledger", self.world.clone());
        let mut hosts = Map::new();
        for (i, h) in HOSTS.iter().enumerate() {
            let mut vars = plain.vars(Side::Ours, self.site, &self.folder, &self.folder);
            vars["vmid"] = json!(first + i as u64);
            hosts.insert((*h).to_owned(), vars);
        }
        put(
            &format!("inventory{first}.yml"),
            json!({"all": {"hosts": hosts}}).to_string(),
        )?;
        for serial in [0, 2] {
            let mut plays = String::new();
            for (i, t) in TASKS.iter().enumerate() {
                plays += &format!(
                    "- name: Play {i}\n  hosts: all\n  gather_facts: false\n{}  module_defaults:\n    group/trueplan.virt.pve: \"{{{{ pve }}}}\"\n  tasks:\n",
                    if serial > 0 {
                        format!("  serial: {serial}\n")
                    } else {
                        String::new()
                    }
                );
                for l in t.lines().filter(|l| !l.is_empty()) {
                    plays += &format!("    {l}\n");
                }
            }
            put(&format!("serial{serial}.yml"), plays)?;
        }
        Ok(())
    }

    fn start(&self, log: &str, play: &str, first: u64, args: &[&str]) -> Result<Child, String> {
        let _ = std::fs::remove_file(self.folder.join(log));
        let out = std::fs::File::create(self.folder.join(format!("{log}.out")))
            .map_err(|e| e.to_string())?;
        let mut c = Command::new(self.stage.venv.join("bin/ansible-playbook"));
        c.current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(Stdio::null())
            .args(["-i", &format!("inventory{first}.yml"), "--diff", play])
            .args(args)
            .env("ANSIBLE_COLLECTIONS_PATH", &self.stage.collections)
            .env(
                "ANSIBLE_CALLBACK_PLUGINS",
                self.root.join("tests/lab/callback_plugins"),
            )
            .env("ANSIBLE_CALLBACKS_ENABLED", "truth_log")
            .env("ANSIBLE_NOCOLOR", "true")
            .env("TRUEPLAN_TRUTH_LOG", self.folder.join(log));
        c.spawn().map_err(|e| format!("ansible-playbook: {e}"))
    }

    fn lines(&self, log: &str, mut child: Child) -> Result<Vec<Line>, String> {
        child.wait().map_err(|e| e.to_string())?;
        super::read(&self.folder.join(log), Path::new("/nowhere"))
    }

    /// Check and real of one way to run it.
    fn hold(&self, name: &str, play: &str, args: &[&str]) -> Result<String, String> {
        self.site.reset(&self.world)?;
        let mark = self.site.mark();
        let run = |log: &str, more: &[&str]| {
            let child = self.start(log, play, 200, &[args, more].concat())?;
            self.lines(log, child)
        };
        let check = run("check.jsonl", &["--check"])?;
        let writes = self.site.writes_from(mark, "");
        let real = run("real.jsonl", &[])?;
        let t = compare(&check, &real);
        let said = format!(
            "{name}: {} of {}, {} writes in check",
            t.equal,
            t.all,
            writes.len()
        );
        if t.all > 0
            && t.equal == t.all
            && writes.is_empty()
            && real.iter().any(|l| l.status == "changed")
        {
            Ok(said)
        } else {
            Err(format!("{said}\n  {}", t.lies.join("\n  ")))
        }
    }

    /// Two check runs at the same time plan the same ids with other names: neither may see the other's plans.
    fn two_at_once(&self) -> Result<String, String> {
        self.site.reset(&self.world)?;
        let one = self.start(
            "one.jsonl",
            "serial0.yml",
            200,
            &["--check", "--forks", "3"],
        )?;
        let two = self.start(
            "two.jsonl",
            "serial0.yml",
            203,
            &["--check", "--forks", "3"],
        )?;
        let (one, two) = (self.lines("one.jsonl", one)?, self.lines("two.jsonl", two)?);
        let mut sum = (0, 0);
        for (first, check) in [(200, one), (203, two)] {
            // The real runs come one after the other, each from the start.
            self.site.reset(&self.world)?;
            let child = self.start("real.jsonl", "serial0.yml", first, &["--forks", "3"])?;
            let t = compare(&check, &self.lines("real.jsonl", child)?);
            if t.equal != t.all || t.all == 0 {
                return Err(format!("two check runs at once: {}", t.lies.join("\n  ")));
            }
            sum = (sum.0 + t.equal, sum.1 + t.all);
        }
        Ok(format!("two check runs at once: {} of {}", sum.0, sum.1))
    }
}

/// All of it; prints one line each.
pub fn run(root: &Path, stage: &Stage, yard: &Yard) -> Result<(), String> {
    let folder = root.join(".lab/ledger");
    let world = cluster(json!([]), json!({}));
    let site = yard.lab(&world, &folder.join("lab"), 1)?;
    let case = Case {
        root,
        stage,
        site: &site,
        folder,
        world,
    };
    case.write(200)?;
    case.write(203)?;
    let ways: &[(&str, &str, &[&str])] = &[
        ("forks 1", "serial0.yml", &["--forks", "1"]),
        ("forks 10", "serial0.yml", &["--forks", "10"]),
        ("serial 2", "serial2.yml", &["--forks", "10"]),
        ("--limit", "serial0.yml", &["--limit", "b,d"]),
    ];
    for (name, play, args) in ways {
        println!("ledger: {}", case.hold(name, play, args)?);
    }
    println!("ledger: {}", case.two_at_once()?);
    Ok(())
}
