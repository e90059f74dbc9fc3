//! The signals that a launcher passes on.

use super::given::Wrong;
use crate::{finding::quoted, suggest::instead};

/// A signal that the launcher passes on to its processes before it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ForwardedSignal {
    /// `SIGTERM`: end, please.
    Term,
    /// `SIGINT`: the user interrupts.
    Int,
    /// `SIGHUP`: the terminal is gone.
    Hup,
    /// `SIGQUIT`: the user quits.
    Quit,
    /// `SIGUSR1`: what SLURM sends before the time is up.
    Usr1,
    /// `SIGUSR2`: likewise.
    Usr2,
    /// `SIGALRM`: a timer ran out.
    Alrm,
    /// `SIGXCPU`: the limit of CPU time is reached.
    Xcpu,
}

impl ForwardedSignal {
    /// Every signal.
    pub const ALL: [Self; 8] =
        [Self::Term, Self::Int, Self::Hup, Self::Quit, Self::Usr1, Self::Usr2, Self::Alrm, Self::Xcpu];

    /// Its name, as the system has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Term => "SIGTERM",
            Self::Int => "SIGINT",
            Self::Hup => "SIGHUP",
            Self::Quit => "SIGQUIT",
            Self::Usr1 => "SIGUSR1",
            Self::Usr2 => "SIGUSR2",
            Self::Alrm => "SIGALRM",
            Self::Xcpu => "SIGXCPU",
        }
    }

    /// A list such as `SIGTERM,SIGUSR1`, each signal once.
    pub(super) fn read_list(text: &str) -> Result<Vec<Self>, Wrong> {
        let mut signals = Vec::new();
        for name in text.split(',').map(str::trim) {
            let signal = Self::ALL.into_iter().find(|signal| signal.as_str() == name).ok_or_else(|| {
                let message = match name {
                    "SIGKILL" | "SIGSTOP" => format!("no program can handle {name}"),
                    _ => format!("{} is no signal that can be passed on", quoted(name)),
                };
                Wrong::new(message, instead(name, Self::ALL.map(Self::as_str)))
            })?;
            if !signals.contains(&signal) {
                signals.push(signal);
            }
        }
        Ok(signals)
    }
}
