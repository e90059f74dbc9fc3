//! The prefix of a worker's lines on the console.

use super::super::worker::WorkerSpec;

/// The template of `--log-line-prefix-template`: `${role_name}`, `${rank}`, `${local_rank}` and `${hostname}`, also
/// without braces; `$$` is a dollar sign, and other text stays as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinePrefix {
    template: String,
}

impl Default for LinePrefix {
    fn default() -> Self {
        Self::new("[${role_name}${local_rank}]:")
    }
}

impl LinePrefix {
    pub fn new(template: impl Into<String>) -> Self {
        Self { template: template.into() }
    }

    /// The prefix of one worker.
    pub(super) fn of(&self, worker: &WorkerSpec) -> String {
        let mut prefix = String::new();
        let mut rest = self.template.as_str();
        while let Some((before, after)) = rest.split_once('$') {
            prefix.push_str(before);
            let (name, next) = placeholder(after);
            match value(name, worker) {
                Some(value) => {
                    prefix.push_str(&value);
                    rest = next;
                }
                None => {
                    prefix.push('$');
                    rest = after.strip_prefix('$').unwrap_or(after);
                }
            }
        }
        prefix.push_str(rest);
        prefix
    }
}

/// The name after a dollar sign, and the text that follows it.
fn placeholder(after: &str) -> (&str, &str) {
    if let Some(braced) = after.strip_prefix('{') {
        return braced.split_once('}').unwrap_or(("", after));
    }
    let end = after.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').unwrap_or(after.len());
    after.split_at(end)
}

fn value(name: &str, worker: &WorkerSpec) -> Option<String> {
    match name {
        "role_name" => Some(worker.role.clone()),
        // The prefix stays while the process runs, although its rank may change.
        "rank" => Some(worker.rank.map_or_else(|| "-".to_owned(), |rank| rank.to_string())),
        "local_rank" => Some(worker.local_rank.to_string()),
        "hostname" => nix::unistd::gethostname().ok().map(|name| name.to_string_lossy().into_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::worker::{GlobalRank, LocalRank};
    use super::*;
    use crate::processes::EnvironmentChanges;

    fn prefix(template: &str) -> String {
        LinePrefix::new(template).of(&worker())
    }

    fn worker() -> WorkerSpec {
        WorkerSpec {
            local_rank: LocalRank(1),
            rank: Some(GlobalRank(5)),
            role: "trainer".to_owned(),
            program: "true".into(),
            args: Vec::new(),
            environment: EnvironmentChanges::default(),
        }
    }

    #[test]
    fn the_default_is_role_and_local_rank() {
        assert_eq!(LinePrefix::default().of(&worker()), "[trainer1]:");
    }

    #[test]
    fn placeholders_are_filled_with_and_without_braces() {
        assert_eq!(prefix("${rank}/$local_rank of $role_name> "), "5/1 of trainer> ");
        assert_eq!(prefix(""), "");
        let host = nix::unistd::gethostname().unwrap().into_string().unwrap();
        assert_eq!(prefix("${hostname}: "), format!("{host}: "));
    }

    #[test]
    fn other_text_stays_as_it_is() {
        for template in ["$", "a$", "${", "${rank", "$ranks", "${no}", "$ x"] {
            assert_eq!(prefix(template), template);
        }
        assert_eq!(prefix("$$rank $$"), "$rank $");
    }
}
