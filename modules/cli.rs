//! The command line for people, and the one argument that Ansible gives.

use clap::{Parser, Subcommand};
use plan::{ErrorKind, Report};
use planners::Def;
use protocol::{Invocation, emit, print_json, print_text, read_invocation};
use serde_json::{Map, Value, json};
use std::process::ExitCode;

/// Runs one module.
pub type Runner = dyn Fn(&Def, &Invocation) -> (Report, Vec<String>);

#[derive(Parser)]
#[command(
    name = "trueplan",
    version,
    about = "Ansible modules that create, migrate and remove virtual machines; their check mode tells the truth",
    after_help = "Modules run as `trueplan MODULE ARGS.json` (or `-` for standard input); `trueplan spec` lists them.",
    disable_help_subcommand = true
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Print the argument table of a module as JSON, or the names of all modules
    Spec {
        /// Short name, such as pve_nic
        module: Option<String>,
    },
    /// Parse a Proxmox VE configuration value, such as `net0 virtio,bridge=vmbr0`, and print it as the server would
    Prop {
        /// Option of a guest, such as net0, scsi1, boot
        key: String,
        /// Its value
        value: String,
    },
    /// Print the inventory that plugins/inventory/vms.py asks for; its options are JSON on standard input
    #[command(hide = true)]
    Inventory,
    /// Run a module: MODULE ARGS.json|- [--check] [--diff]
    #[command(external_subcommand)]
    Module(Vec<String>),
}

/// Understands the arguments and runs what they ask for.
pub fn main(argv: &[String], run: &Runner) -> ExitCode {
    // Ansible's call: one argument, the file. Kept apart from clap, whose messages are not JSON.
    if let [argv0, file] = argv
        && std::path::Path::new(file).is_file()
        && planners::find(file).is_none()
    {
        return module(argv0, None, file, &[], run);
    }
    let cli = match Cli::try_parse_from(argv) {
        Ok(c) => c,
        Err(e) => {
            let code = e.exit_code();
            if e.use_stderr() {
                eprint!("{e}");
            } else {
                print_text(e.to_string().trim_end());
            }
            return ExitCode::from(u8::try_from(code).unwrap_or(2));
        }
    };
    match cli.command {
        Command::Spec { module: None } => {
            let names: Vec<&str> = planners::registry().iter().map(|d| d.spec.name).collect();
            print_json(&json!(names), true);
            ExitCode::SUCCESS
        }
        Command::Spec { module: Some(name) } => match planners::find(&name) {
            Some(d) => {
                print_json(&spec::spec_json(d.spec), true);
                ExitCode::SUCCESS
            }
            None => no_such(&name),
        },
        Command::Prop { key, value } => match pve::prop_command(&key, &value) {
            Ok(v) => {
                print_json(&v, false);
                ExitCode::SUCCESS
            }
            Err(e) => {
                print_json(&json!({"error": e}), false);
                ExitCode::FAILURE
            }
        },
        Command::Inventory => crate::connect::inventory(),
        Command::Module(words) => match words.split_first() {
            Some((name, rest)) if planners::find(name).is_some() => {
                let files: Vec<&String> = rest.iter().filter(|w| !w.starts_with("--")).collect();
                let flags: Vec<&str> = rest
                    .iter()
                    .filter(|w| w.starts_with("--"))
                    .map(String::as_str)
                    .collect();
                match (
                    files.as_slice(),
                    flags.iter().find(|f| **f != "--check" && **f != "--diff"),
                ) {
                    ([file], None) => module(&argv[0], Some(name), file, &flags, run),
                    (_, Some(f)) => usage(&format!(
                        "{f}: no such flag; a module takes --check and --diff"
                    )),
                    _ => usage(&format!(
                        "give one file of arguments, or - for standard input: trueplan {name} ARGS.json"
                    )),
                }
            }
            Some((name, _)) => no_such(name),
            None => usage("name a module"),
        },
    }
}

fn module(argv0: &str, named: Option<&str>, file: &str, flags: &[&str], run: &Runner) -> ExitCode {
    let is_module = |name: &str| planners::find(name).is_some();
    let mut call = match read_invocation(argv0, named, file, &is_module) {
        Ok(c) => c,
        Err(e) => {
            return emit(
                Report::failed(ErrorKind::InvalidArgs, &e.to_string()),
                &[],
                named.is_some(),
            );
        }
    };
    call.check_mode |= flags.contains(&"--check");
    call.diff |= flags.contains(&"--diff");
    let Some(def) = planners::find(&call.module) else {
        return no_such(&call.module);
    };
    let (report, secrets) = run(def, &call);
    emit(report, &secrets, call.pretty)
}

/// Secrets of arguments that did not parse: whatever text stands under a secret option's name or alias.
pub fn string_secrets(def: &Def, args: &Map<String, Value>) -> Vec<String> {
    let secret = |name: &str| def.spec.option(name).is_none_or(|o| o.holds_secret());
    args.iter()
        .filter(|(k, _)| secret(k))
        .filter_map(|(_, v)| v.as_str().map(str::to_owned))
        .collect()
}

fn no_such(name: &str) -> ExitCode {
    let names = planners::registry().iter().map(|d| d.spec.name);
    let hint = spec::nearest(name, names).map(|n| format!("; did you mean {n}?"));
    usage(&format!(
        "{name}: no such module{}",
        hint.unwrap_or_else(|| "; `trueplan spec` lists them".into())
    ))
}

fn usage(msg: &str) -> ExitCode {
    eprintln!("trueplan: {msg}");
    ExitCode::from(2)
}
