//! `labsim serve`: a Proxmox VE cluster and a vCenter on loopback.
use clap::{Parser, Subcommand};
use labsim::{server, world};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use tokio::io::AsyncReadExt;
use tokio::signal::unix::{SignalKind, signal};

/// A simulated Proxmox VE cluster and a vCenter that share one NFS export.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serves a world until SIGTERM or SIGINT.
    Serve {
        /// The world file (JSON).
        #[arg(long)]
        world: PathBuf,
        /// Address of the Proxmox VE side, loopback only; port 0 takes any.
        #[arg(long, default_value = "127.0.0.1:0")]
        pve: SocketAddr,
        /// Address of the vCenter side.
        #[arg(long, default_value = "127.0.0.1:0")]
        vcenter: SocketAddr,
        /// The state folder; its subfolders `storage` and `export` are EMPTIED.
        #[arg(long)]
        state: PathBuf,
        /// The request log, JSON lines, appended.
        #[arg(long)]
        log: PathBuf,
        /// Over the world's own seed.
        #[arg(long)]
        seed: Option<u64>,
        /// End when standard input closes (for tests).
        #[arg(long)]
        exit_with_stdin: bool,
    },
}

async fn run(cli: Cli) -> Result<(), String> {
    let Command::Serve {
        world,
        pve,
        vcenter,
        state,
        log,
        seed,
        exit_with_stdin,
    } = cli.command;
    std::fs::create_dir_all(&state).map_err(|e| format!("{}: {e}", state.display()))?;
    let dir = state
        .canonicalize()
        .map_err(|e| format!("{}: {e}", state.display()))?;
    let world = world::read(&world)?;
    let mut term = signal(SignalKind::terminate()).map_err(|e| e.to_string())?;
    let mut int = signal(SignalKind::interrupt()).map_err(|e| e.to_string())?;
    let running = server::start(server::Options {
        world,
        pve,
        vcenter,
        dir,
        log,
        seed,
    })
    .await?;
    println!(
        "labsim: pve https://{} vcenter https://{}",
        text(&running.lab["pve"]),
        text(&running.lab["vcenter"])
    );
    let stdin_closed = async {
        if !exit_with_stdin {
            return std::future::pending().await;
        }
        let (mut stdin, mut buf) = (tokio::io::stdin(), [0u8; 256]);
        while stdin.read(&mut buf).await.is_ok_and(|n| n > 0) {}
    };
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
        () = stdin_closed => {}
    }
    Ok(())
}

fn text(v: &serde_json::Value) -> &str {
    v.as_str().unwrap_or("?")
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(512)
        .build()
    {
        Ok(r) => r,
        Err(e) => {
            eprintln!("labsim: {e}");
            return ExitCode::FAILURE;
        }
    };
    let end = runtime.block_on(run(cli));
    // Do not wait for requests or tasks that still sleep.
    runtime.shutdown_background();
    match end {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("labsim: {e}");
            ExitCode::FAILURE
        }
    }
}
