//! `flexor completions`.

use clap_complete::Shell;

use crate::{cli, exit::Exit, output};

pub fn run(shell: Shell) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut cli::command(), "flexor", &mut script);
    output::text(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Success)
}
