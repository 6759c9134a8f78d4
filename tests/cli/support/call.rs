//! One process of the built binary, called as Ansible calls a binary module.

use super::lab::{Lab, short};
use super::worlds;
use assert_cmd::prelude::*;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A call that has not been made yet.
#[derive(Clone)]
pub struct Call<'a> {
    lab: Option<&'a Lab>,
    module: String,
    args: Value,
    check: bool,
    diff: bool,
    ledger: Option<PathBuf>,
    no_room: bool,
    env: Vec<(String, String)>,
    secrets: Vec<String>,
}

/// What came of it.
pub struct Done {
    /// The result that Ansible would see.
    pub value: Value,
    /// Standard output and standard error, as they were.
    pub stdout: String,
    pub stderr: String,
    /// Exit code; `None` if it was killed.
    pub code: Option<i32>,
    /// The requests that the lab saw meanwhile.
    pub requests: Vec<Value>,
    /// How long it took.
    pub took: Duration,
    what: String,
}

impl std::ops::Deref for Done {
    type Target = Value;
    fn deref(&self) -> &Value {
        &self.value
    }
}

impl<'a> Call<'a> {
    pub(super) fn new(lab: Option<&'a Lab>, module: &str, args: Value) -> Call<'a> {
        Call {
            lab,
            module: module.to_owned(),
            args,
            check: false,
            diff: true,
            ledger: None,
            no_room: false,
            env: vec![],
            secrets: [worlds::PASSWORD, worlds::TOKEN_SECRET, worlds::VC_PASSWORD]
                .map(str::to_owned)
                .to_vec(),
        }
    }

    /// Without a lab: arguments that must fail before any connection.
    pub fn nowhere(module: &str, args: Value) -> Call<'static> {
        Call::new(None, module, args)
    }

    pub fn check(mut self, on: bool) -> Self {
        self.check = on;
        self
    }

    /// On where nothing is said.
    pub fn diff(mut self, on: bool) -> Self {
        self.diff = on;
        self
    }

    /// The folder that the action plugin would hand over.
    pub fn ledger(mut self, folder: &Path) -> Self {
        self.ledger = Some(folder.to_owned());
        self
    }

    /// Whatever file it writes: there is no room. (The shell's limit of file sizes; its signal is ignored, so that writing fails.)
    pub fn without_room(mut self) -> Self {
        self.no_room = true;
        self
    }

    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    pub fn arg(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.args[name] = value.into();
        self
    }

    /// A further text that must not appear in any output.
    pub fn secret(mut self, text: &str) -> Self {
        self.secrets.push(text.into());
        self
    }

    fn command(&self, folder: &Path) -> Command {
        let mut args = self.args.clone();
        for (k, v) in [
            (
                "_ansible_module_name",
                json!(format!("trueplan.virt.{}", self.module)),
            ),
            ("_ansible_check_mode", json!(self.check)),
            ("_ansible_diff", json!(self.diff)),
            ("_ansible_no_log", json!(false)),
            ("_ansible_verbosity", json!(0)),
            ("_ansible_version", json!("2.17.0")),
        ] {
            args[k] = v;
        }
        if let Some(l) = &self.ledger {
            args["_trueplan_ledger"] = json!(l);
        }
        let file = folder.join("args");
        std::fs::write(&file, args.to_string()).expect("the arguments file");
        // A binary that is broken on purpose must be found out by the same tests.
        let binary = std::env::var_os("TRUEPLAN_TEST_BINARY");
        let binary = binary.unwrap_or_else(|| env!("CARGO_BIN_EXE_trueplan").into());
        let mut c = if self.no_room {
            let mut c = Command::new("/bin/sh");
            c.args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$0\" \"$@\""])
                .arg(binary);
            c
        } else {
            Command::new(binary)
        };
        c.arg(&file)
            .env_clear()
            .env("HOME", folder)
            .env("LANG", "C.UTF-8")
            .envs(self.env.iter().map(|(k, v)| (k, v)))
            .stdin(Stdio::null());
        c
    }

    /// Runs it to its end.
    pub fn run(&self) -> Done {
        let folder = tempfile::tempdir().expect("a folder");
        let seen = self.lab.map_or(0, Lab::log_end);
        let started = Instant::now();
        let out = self
            .command(folder.path())
            .unwrap_or_ran()
            .expect("the binary runs");
        let done = Done {
            value: serde_json::from_slice(&out.stdout).unwrap_or(Value::Null),
            stdout: String::from_utf8_lossy(&out.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&out.stderr).into_owned(),
            code: out.status.code(),
            requests: self.lab.map_or_else(Vec::new, |l| l.log_since(seen)),
            took: started.elapsed(),
            what: format!(
                "{}{} {}",
                self.module,
                if self.check { " --check" } else { "" },
                self.args
            ),
        };
        if !done.value.is_object() {
            done.fail("the output is not one JSON object");
        }
        for s in &self.secrets {
            if done.stdout.contains(s.as_str()) || done.stderr.contains(s.as_str()) {
                done.fail(&format!("the output contains the secret {s}"));
            }
        }
        if done.is_failed() != (done.code != Some(0)) {
            done.fail("exit code and `failed` disagree");
        }
        done
    }

    /// Starts it; the caller kills it or waits for it. The folder must live as long.
    pub fn spawn(&self) -> (Child, tempfile::TempDir) {
        let folder = tempfile::tempdir().expect("a folder");
        let child = self
            .command(folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        (child, folder)
    }

    /// What to call it in a message.
    pub fn title(&self) -> String {
        format!("{} {}", self.module, self.args)
    }
}

/// `assert_cmd`'s own way to run a command without judging its exit code.
trait Ran {
    fn unwrap_or_ran(&mut self) -> std::io::Result<std::process::Output>;
}

impl Ran for Command {
    fn unwrap_or_ran(&mut self) -> std::io::Result<std::process::Output> {
        Ok(self.assert().get_output().clone())
    }
}

impl Done {
    /// Only a result, such as that of another run.
    pub fn of(value: Value) -> Done {
        Done {
            value,
            stdout: String::new(),
            stderr: String::new(),
            code: None,
            requests: vec![],
            took: Duration::ZERO,
            what: "a result of another run".into(),
        }
    }

    pub fn is_failed(&self) -> bool {
        self.value["failed"] == true
    }

    pub fn changed(&self) -> bool {
        self.value["changed"] == true
    }

    pub fn msg(&self) -> &str {
        self.value["msg"].as_str().unwrap_or("")
    }

    /// The plan's text: equal in both worlds to the byte.
    pub fn plan(&self) -> String {
        self.value["plan"].to_string()
    }

    pub fn warnings(&self) -> Vec<String> {
        self.value["warnings"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|w| w.as_str().map(str::to_owned))
            .collect()
    }

    /// Requests of that kind (`auth`, `read`, `write`).
    pub fn of_kind(&self, kind: &str) -> Vec<String> {
        self.requests
            .iter()
            .filter(|e| e["kind"] == kind)
            .map(short)
            .collect()
    }

    /// It must have succeeded.
    #[track_caller]
    pub fn ok(self) -> Done {
        if self.is_failed() {
            self.fail("it failed");
        }
        self
    }

    /// It must have failed with that kind.
    #[track_caller]
    pub fn failed(self, kind: &str) -> Done {
        if !self.is_failed() || self.value["error_kind"] != kind {
            self.fail(&format!("it should have failed with {kind}"));
        }
        self
    }

    /// Its message must contain that.
    #[track_caller]
    pub fn says(self, text: &str) -> Done {
        if !self.msg().contains(text) {
            self.fail(&format!("its message should contain `{text}`"));
        }
        self
    }

    /// Fails the test with all that is known about this run.
    #[track_caller]
    pub fn fail(&self, why: &str) -> ! {
        let requests: Vec<String> = self.requests.iter().map(short).collect();
        panic!(
            "{why}\n-- task: {}\n-- exit code: {:?} after {:?}\n-- stdout: {}\n-- stderr: {}\n-- requests:\n   {}",
            self.what,
            self.code,
            self.took,
            serde_json::to_string_pretty(&self.value).unwrap_or_default(),
            self.stderr,
            requests.join("\n   ")
        );
    }
}
