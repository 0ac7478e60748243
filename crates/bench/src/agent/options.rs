//! The options of `bench agent`, and the secret that it shares with coordinators.

use std::path::{Path, PathBuf};

use clap::Args;

/// The environment variable that may hold the secret.
pub(crate) const SECRET_VARIABLE: &str = "BASALT_BENCH_SECRET";
/// A longer secret is a mistake: some other file was named.
const SECRET_BYTES_MAX: usize = 4096;

/// Make a part of the load, as a coordinator says
#[derive(Clone, Debug, Args)]
pub struct AgentOptions {
    /// Where coordinators find this agent; port 0 takes any that is free
    #[arg(long, default_value = "127.0.0.1:7990", value_name = "HOST:PORT")]
    pub listen: String,
    /// The file with the secret that coordinators must know; without it, what BASALT_BENCH_SECRET says
    #[arg(long, value_name = "FILE")]
    pub secret_file: Option<PathBuf>,
    /// Work for everybody who reaches this address, without a secret
    #[arg(long, conflicts_with = "secret_file")]
    pub open_to_all: bool,
    /// End when standard input does: for the process that starts it
    #[arg(long, hide = true)]
    pub with_parent: bool,
}

/// The secret of a file, or else of the environment; empty when there is none.
pub(crate) fn read_secret(file: Option<&Path>) -> Result<Vec<u8>, String> {
    let text = match file {
        Some(file) => {
            let name_it = |problem: String| format!("--secret-file {}: {problem}", file.display());
            let text = std::fs::read(file).map_err(|error| name_it(error.to_string()))?;
            if text.trim_ascii().is_empty() {
                return Err(name_it("it is empty".to_owned()));
            }
            text
        }
        None => std::env::var_os(SECRET_VARIABLE).map(|text| text.into_encoded_bytes()).unwrap_or_default(),
    };
    if text.len() > SECRET_BYTES_MAX {
        return Err(format!("a secret of {} bytes; {SECRET_BYTES_MAX} at most", text.len()));
    }
    Ok(text.trim_ascii().to_vec())
}
