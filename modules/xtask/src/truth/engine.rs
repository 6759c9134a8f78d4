//! Runs scenarios three times (check, real, again), all of them in one ansible-playbook, each as a host with its own lab.

use super::Line;
use super::figures::{self, Figures};
use super::labs::{Site, Yard};
use super::scenario::{COLLEAGUE, Event, Scenario, Side, When};
use crate::demo::Stage;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// So many hosts at a time: most of what the modules do is waiting.
const FORKS: &str = "6";

/// One side with one seed: what each scenario came to, in their order.
pub struct Round<'a> {
    /// The repository.
    pub root: &'a Path,
    /// Ansible and our collection.
    pub stage: &'a Stage,
    /// Where the labs run.
    pub yard: &'a Yard,
    /// Of the labs.
    pub seed: u64,
    /// Whose modules.
    pub side: Side,
}

impl Round<'_> {
    /// Runs them.
    pub fn run(&self, scenarios: &[Scenario]) -> Result<Vec<Figures>, String> {
        let name = if self.side == Side::Ours {
            "ours"
        } else {
            "peers"
        };
        let folder = self.root.join(".lab/truth").join(name);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let sites: Vec<Site> = scenarios
            .iter()
            .map(|s| {
                self.yard
                    .lab(&s.world, &folder.join(s.slug()), self.seed)
                    .map_err(|e| format!("{}: {e}", s.name))
            })
            .collect::<Result<_, _>>()?;
        self.write(&folder, scenarios, &sites)?;

        happen(self.root, When::Start, scenarios, &sites)?;
        let marks: Vec<usize> = sites.iter().map(Site::mark).collect();
        let files: Vec<_> = sites.iter().map(Site::files).collect();
        let check = self.play(&folder, "check", &["--check"], false)?;
        let silent: Vec<Vec<String>> = scenarios
            .iter()
            .zip(&sites)
            .enumerate()
            .map(|(i, (s, site))| {
                let mut w = site.writes_from(marks[i], COLLEAGUE);
                if s.before.is_empty() && site.files() != files[i] {
                    w.push("files of the export or of a storage have changed".into());
                }
                w
            })
            .collect();
        // What somebody else started before the check run would have gone on: begin again, since nothing else has changed.
        for (s, site) in scenarios.iter().zip(&sites) {
            if !s.before.is_empty() {
                site.reset(&s.world)
                    .map_err(|e| format!("{}: {e}", s.name))?;
            }
        }
        happen(self.root, When::Meanwhile, scenarios, &sites)?;
        let starts: Vec<Value> = sites.iter().map(Site::dump).collect();
        let real = self.play(&folder, "real", &[], true)?;
        happen(self.root, When::Later, scenarios, &sites)?;
        let again = self.play(&folder, "again", &[], false)?;

        scenarios
            .iter()
            .enumerate()
            .map(|(i, s)| {
                let host = s.slug();
                let of = |lines: &[Line]| -> Vec<Line> {
                    lines.iter().filter(|l| l.host == host).cloned().collect()
                };
                let mut f = Figures::default();
                figures::truth(&mut f, s, &of(&check.lines), &of(&real.lines));
                figures::silence(&mut f, &silent[i]);
                figures::rest(&mut f, &of(&real.lines), &of(&again.lines));
                let none = vec![];
                let steps = real.steps.get(&host).unwrap_or(&none);
                figures::honesty(&mut f, &starts[i], steps);
                Ok(f)
            })
            .collect()
    }

    fn write(&self, folder: &Path, scenarios: &[Scenario], sites: &[Site]) -> Result<(), String> {
        let put = |name: &str, text: String| {
            let file = folder.join(name);
            std::fs::write(&file, text)
                .map(|()| file.clone())
                .map_err(|e| format!("{}: {e}", file.display()))
        };
        let binary = self.root.join("target/debug/trueplan");
        let mut hosts = Map::new();
        for (s, site) in scenarios.iter().zip(sites) {
            let tasks = put(
                &format!("{}.yml", s.slug()),
                s.playbook(self.side, site, folder)?,
            )?;
            hosts.insert(s.slug(), s.vars(self.side, site, &tasks, &binary));
        }
        put(
            "inventory.yml",
            json!({"all": {"hosts": hosts}}).to_string(),
        )?;
        let groups: &[(&str, &str)] = match self.side {
            Side::Ours => &[
                ("group/trueplan.virt.pve", "pve"),
                ("group/trueplan.virt.vsphere", "vsphere"),
            ],
            Side::Peers => &[
                ("group/community.proxmox.proxmox", "pve"),
                ("group/community.vmware.vmware", "vsphere"),
                ("group/vmware.vmware.vmware", "vsphere"),
            ],
        };
        let defaults: Map<String, Value> = groups
            .iter()
            .map(|(g, v)| ((*g).to_owned(), json!(format!("{{{{ {v} }}}}"))))
            .collect();
        let play = json!([{
            "name": "Truth", "hosts": "all", "gather_facts": false, "strategy": "ansible.builtin.free", "module_defaults": defaults,
            "tasks": [{"name": "The scenario", "ansible.builtin.include_tasks": "{{ truth_tasks }}"}],
        }]);
        put("play.yml", play.to_string()).map(|_| ())
    }

    fn play(
        &self,
        folder: &Path,
        run: &str,
        args: &[&str],
        worlds: bool,
    ) -> Result<Played, String> {
        let log = folder.join(format!("{run}.jsonl"));
        let mut c = Command::new(self.stage.venv.join("bin/ansible-playbook"));
        c.current_dir(folder)
            .stdin(Stdio::null())
            .args(["-i", "inventory.yml", "--diff"])
            .args(args)
            .arg("play.yml")
            .env("ANSIBLE_COLLECTIONS_PATH", &self.stage.collections)
            .env(
                "ANSIBLE_CALLBACK_PLUGINS",
                self.root.join("tests/lab/callback_plugins"),
            )
            .env("ANSIBLE_CALLBACKS_ENABLED", "truth_log")
            .env("ANSIBLE_NOCOLOR", "true")
            .env("ANSIBLE_DEPRECATION_WARNINGS", "false")
            .env("ANSIBLE_PIPELINING", "true")
            .env("ANSIBLE_FORKS", FORKS)
            .env("TRUEPLAN_TRUTH_LOG", &log);
        if worlds {
            c.env("TRUEPLAN_TRUTH_WORLD", "1");
        }
        let o = c.output().map_err(|e| format!("ansible-playbook: {e}"))?;
        let out = String::from_utf8_lossy(&o.stdout);
        let _ = std::fs::write(folder.join(format!("{run}.out")), &o.stdout);
        let _ = std::fs::write(folder.join(format!("{run}.err")), &o.stderr);
        if !out.contains("PLAY RECAP") {
            return Err(format!(
                "ansible-playbook ended without a recap:\n{out}\n{}",
                String::from_utf8_lossy(&o.stderr)
            ));
        }
        Ok(Played {
            lines: super::read(&log, &PathBuf::from("/nowhere"))?,
            steps: if worlds {
                figures::steps(&log)?
            } else {
                BTreeMap::new()
            },
        })
    }
}

struct Played {
    lines: Vec<Line>,
    steps: BTreeMap<String, Vec<figures::Step>>,
}

fn happen(root: &Path, when: When, scenarios: &[Scenario], sites: &[Site]) -> Result<(), String> {
    for (s, site) in scenarios.iter().zip(sites) {
        for (_, e) in s.events.iter().filter(|(w, _)| *w == when) {
            match e {
                Event::Set(patch) => site.set(patch),
                Event::Fault(rule) => site.fault(rule),
                Event::Mended => {
                    site.clear_faults();
                    Ok(())
                }
                Event::Call(module, args) => call(root, site, module, args),
            }
            .map_err(|e| format!("{}: {e}", s.name))?;
        }
    }
    Ok(())
}

/// Runs our binary in earnest, as somebody else.
fn call(root: &Path, site: &Site, module: &str, args: &Value) -> Result<(), String> {
    let file = site.dir().join("call.json");
    std::fs::write(&file, Scenario::call(site, module, args).to_string())
        .map_err(|e| format!("{}: {e}", file.display()))?;
    crate::env::output(root, root.join("target/debug/trueplan"), &[&file]).map(|_| ())
}
