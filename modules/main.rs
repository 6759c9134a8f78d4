//! Chooses the module and the world, and runs it; no logic of its own.

use plan::{Dry, ErrorKind, Ledger, MemoryLedger, Report, RunOptions, World};
use planners::Def;
use protocol::{FileLedger, Invocation};
use serde_json::{Value, json};
use spec::Args;
use std::process::ExitCode;
use std::time::Instant;

mod cli;
mod connect;
mod touched;

fn main() -> ExitCode {
    protocol::install_panic_hook();
    let argv: Vec<String> = std::env::args_os()
        .map(|a| a.to_string_lossy().into_owned())
        .collect();
    cli::main(&argv, &run_module)
}

/// Runs one module and gives its result with the secrets that must not appear in it.
fn run_module(def: &Def, call: &Invocation) -> (Report, Vec<String>) {
    let env = |name: &str| std::env::var(name).ok();
    let mut given = call.args.clone();
    if !call.check_mode && def.spec.option("source_pending").is_some() {
        // "An earlier task of this run makes it" is a promise of check mode; in earnest that task has run.
        given.remove("source_pending");
    }
    let args = match spec::parse(def.spec, &given, &env) {
        Ok(args) => args,
        Err(errors) => return (invalid(def, &errors), cli::string_secrets(def, &call.args)),
    };
    let secrets = spec::secrets(&args);
    let module = match (def.make)(&args) {
        Ok(m) => m,
        Err(errors) => return (invalid(def, &errors), secrets),
    };
    let mut connection = match connect::open(def.side, &args) {
        Ok(c) => c,
        Err(f) => return (Report::failed(f.kind, &f.msg), secrets),
    };
    let options = run_options(&args, call);
    let live = connection.world.as_mut();
    let mut ledger = open_ledger(call, &connection.endpoint);
    let module = module.as_ref();
    let mut report = if call.check_mode || args.flag("plan_only") {
        ledger.hold(&module.holds());
        // plan_only leaves no trace: later tasks of a check run must not believe that it was done.
        let mut scratch;
        let book: &mut dyn Ledger = if args.flag("plan_only") {
            scratch = touched::Scratch::over(ledger.as_mut());
            &mut scratch
        } else {
            ledger.as_mut()
        };
        let mut dry = Dry::new(live, book, connection.overlay);
        plan::run(&mut dry, module, &options)
    } else {
        let mut real = touched::Touched::new(live, ledger.as_mut());
        let started = Instant::now();
        let mut report = plan::run(&mut real, module, &options);
        // Planners have no clock; the one that returns a duration leaves the place for it.
        if report.keys.contains_key("duration_s") {
            report.set(
                "duration_s",
                (started.elapsed().as_secs_f64() * 10.0).round() / 10.0,
            );
        }
        report
    };
    if args.flag("plan_only") && !report.is_failed() {
        let would = report.keys.get("changed").cloned().unwrap_or_default();
        report.set("would_change", would);
        report.set("changed", false);
    }
    warn(&mut report, args.warnings().iter().cloned());
    warn(&mut report, ledger.warnings().into_iter());
    (report, secrets)
}

/// The ledger of this run, or one that only this process sees.
fn open_ledger(call: &Invocation, endpoint: &str) -> Box<dyn Ledger> {
    match &call.ledger {
        Some(folder) => Box::new(FileLedger::open(folder, endpoint)),
        None => Box::new(MemoryLedger::default()),
    }
}

fn run_options(args: &Args, call: &Invocation) -> RunOptions {
    let deny = std::env::var("TRUEPLAN_DENY").unwrap_or_default();
    let denies = |word: &str| deny.split(',').any(|w| w.trim() == word);
    RunOptions {
        expect_plan: args.str("expect_plan").map(str::to_owned),
        deny_destructive: denies("destructive"),
        deny_disruptive: denies("disruptive"),
        diff: call.diff,
    }
}

/// All argument errors at once, each with its path.
fn invalid(def: &Def, errors: &[spec::ArgError]) -> Report {
    let all: Vec<String> = errors.iter().map(ToString::to_string).collect();
    let mut r = Report::failed(
        ErrorKind::InvalidArgs,
        &format!("unable to run {}: {}", def.spec.name, all.join("; ")),
    );
    let list: Vec<Value> = errors
        .iter()
        .map(|e| json!({"option": e.path, "value": e.value, "msg": e.msg}))
        .collect();
    r.set("errors", list);
    r
}

fn warn(report: &mut Report, more: impl Iterator<Item = String>) {
    let mut all = match report.keys.remove("warnings") {
        Some(Value::Array(a)) => a,
        _ => vec![],
    };
    all.extend(more.map(Value::String));
    if !all.is_empty() {
        report.set("warnings", all);
    }
}

/// A world with what belongs to it.
struct Connected {
    world: Box<dyn World>,
    endpoint: String,
    overlay: plan::Overlay,
}
