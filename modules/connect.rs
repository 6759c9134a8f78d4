//! From coerced arguments to a world.

use crate::Connected;
use plan::{ErrorKind, Fact, Failure, Key, Ledger};
use planners::Side;
use planners::vsphere_common::INVENTORY;
use serde_json::{Map, Value, json};
use spec::Args;
use std::path::PathBuf;
use std::process::ExitCode;

/// Opens the world of that side; nothing is sent before the first fact is asked for.
///
/// # Errors
/// When the connection's options do not fit together.
pub fn open(side: Side, args: &Args) -> Result<Connected, Failure> {
    match side {
        Side::Pve => open_pve(args),
        Side::Vsphere => open_vsphere(args),
        Side::Export => Ok(Connected {
            world: Box::new(export::Live),
            endpoint: format!("export:{}", args.str("export").unwrap_or_default()),
            overlay: as_read,
        }),
    }
}

/// Files have no lists that others' plans would change.
fn as_read(_key: &Key, fact: Fact, _ledger: &dyn Ledger) -> Fact {
    fact
}

/// TRUEPLAN_JOURNAL: where each request that is sent is written down.
fn journal() -> Option<PathBuf> {
    std::env::var_os("TRUEPLAN_JOURNAL")
        .filter(|v| !v.is_empty())
        .map(PathBuf::from)
}

fn open_pve(args: &Args) -> Result<Connected, Failure> {
    let text = |name: &str| args.str(name).map(str::to_owned);
    let secret = |name: &str| args.secret(name).map(|s| pve_api::Secret::new(s.expose()));
    let c = pve_api::Connection {
        host: text("api_host").unwrap_or_default(),
        port: args.int("api_port").and_then(|p| u16::try_from(p).ok()),
        user: text("api_user"),
        password: secret("api_password"),
        token_id: text("api_token_id"),
        token_secret: secret("api_token_secret"),
        otp: secret("api_otp"),
        validate_certs: args.flag("validate_certs"),
        ca_path: text("ca_path").map(PathBuf::from),
        fingerprint: text("api_fingerprint"),
        timeout_s: seconds(args, "api_timeout", 30),
        node_hint: text("node"),
        journal: journal(),
        ..pve_api::Connection::default()
    };
    c.check()?;
    let endpoint = c
        .endpoint()
        .map_err(|e| Failure::new(ErrorKind::InvalidArgs, e))?;
    Ok(Connected {
        world: Box::new(pve_api::Live::new(c)),
        endpoint,
        overlay: pve::overlay::overlay,
    })
}

fn seconds(args: &Args, name: &str, default: u64) -> u64 {
    args.int(name)
        .and_then(|n| u64::try_from(n).ok())
        .unwrap_or(default)
}

fn vsphere_connection(args: &Args) -> vsphere_api::Connection {
    let text = |name: &str| args.str(name).map(str::to_owned);
    let port = |name: &str| args.int(name).and_then(|p| u16::try_from(p).ok());
    vsphere_api::Connection {
        host: text("hostname").unwrap_or_default(),
        port: port("port").unwrap_or(443),
        username: text("username").unwrap_or_default(),
        password: vsphere_api::Secret::new(
            args.secret("password")
                .map(|s| s.expose().to_owned())
                .unwrap_or_default(),
        ),
        validate_certs: args.flag("validate_certs"),
        ca_path: text("ca_path"),
        thumbprint: text("thumbprint"),
        proxy_host: text("proxy_host"),
        proxy_port: port("proxy_port"),
        api_timeout_s: seconds(args, "api_timeout", 30),
        journal: journal(),
    }
}

fn open_vsphere(args: &Args) -> Result<Connected, Failure> {
    let c = vsphere_connection(args);
    Ok(Connected {
        endpoint: c.host_port(),
        world: Box::new(vsphere_api::Live::new(c)),
        overlay: vsphere::overlay,
    })
}

/// The inventory's options on standard input, its hosts on standard output; a failure is JSON on standard error.
pub fn inventory() -> ExitCode {
    let fail = |f: &Failure, secrets: &[String]| {
        let msg = spec::mask_text(&f.msg, secrets);
        eprintln!("{}", json!({"msg": msg, "error_kind": f.kind.as_str()}));
        ExitCode::FAILURE
    };
    let invalid = |msg: String| Failure::new(ErrorKind::InvalidArgs, msg);
    let given: Map<String, Value> = match serde_json::from_reader(std::io::stdin().lock()) {
        Ok(m) => m,
        Err(e) => {
            return fail(
                &invalid(format!("the options are no JSON object: {e}")),
                &[],
            );
        }
    };
    let env = |name: &str| std::env::var(name).ok();
    let args = match spec::parse(&INVENTORY, &given, &env) {
        Ok(a) => a,
        Err(errors) => {
            let all: Vec<String> = errors.iter().map(ToString::to_string).collect();
            return fail(&invalid(all.join("; ")), &[]);
        }
    };
    let options = vsphere_api::Options::from_json(&Value::Object(args.values().clone()));
    let done = vsphere_api::inventory(vsphere_connection(&args), &options, &mut protocol::stream());
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(f) => fail(&f, &spec::secrets(&args)),
    }
}
