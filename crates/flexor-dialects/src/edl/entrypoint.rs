//! The command of a trainer, from the command line in `entrypoint`.
//!
//! The original ran every entrypoint by `sh -c`. A shell between the kubelet and the program keeps signals from the
//! program, and an image without a shell could not run it, so a line that needs no shell becomes a list of words.

/// Letters that mean something to a shell outside of quotes.
const SHELL_LETTERS: &str = "$`;&|<>()*?[]{}!~#\n";
/// First words that are no programs.
const SHELL_WORDS: [&str; 24] = [
    ".", ":", "alias", "break", "case", "cd", "command", "eval", "exec", "exit", "export", "for", "if", "read",
    "readonly", "set", "shift", "source", "trap", "ulimit", "umask", "unset", "until", "while",
];

/// The command of the container: the words of the line, or a shell with the line. Empty if the line is.
pub(super) fn command(line: &str) -> Vec<String> {
    let line = line.trim();
    let words = words(line).unwrap_or_else(|| ["sh", "-c", line].map(str::to_owned).to_vec());
    // A kubelet expands `$(NAME)` in commands and reads `$$` as one dollar.
    words.into_iter().map(|word| word.replace('$', "$$")).collect()
}

/// The words of a line as a shell would read them; none if it needs a shell.
fn words(line: &str) -> Option<Vec<String>> {
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            ' ' | '\t' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match letters.next()? {
                        '\'' => break,
                        quoted => word.push(quoted),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match letters.next()? {
                        '"' => break,
                        '$' | '`' => return None,
                        '\\' => match letters.next()? {
                            escaped @ ('"' | '\\' | '$' | '`') => word.push(escaped),
                            other => word.extend(['\\', other]),
                        },
                        quoted => word.push(quoted),
                    }
                }
            }
            '\\' => word.get_or_insert_default().push(letters.next().filter(|escaped| *escaped != '\n')?),
            _ if SHELL_LETTERS.contains(letter) => return None,
            // A variable that is set for the program, as in `DEBUG=1 python train.py`.
            '=' if words.is_empty() => return None,
            plain => word.get_or_insert_default().push(plain),
        }
    }
    words.extend(word);
    let is_of_shell = words.first().is_some_and(|first| SHELL_WORDS.contains(&first.as_str()));
    (!is_of_shell).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_line_becomes_words() {
        assert_eq!(command("python ./train.py train"), ["python", "./train.py", "train"]);
        assert_eq!(
            command("  flexor worker\t--model=mlp:hidden=64x32 --data=/data/mnist "),
            ["flexor", "worker", "--model=mlp:hidden=64x32", "--data=/data/mnist"]
        );
        assert_eq!(command(""), [""; 0]);
    }

    #[test]
    fn quotes_join_words_and_disappear() {
        assert_eq!(command("python -c 'print(1); x = \"$HOME\"'"), ["python", "-c", "print(1); x = \"$$HOME\""]);
        assert_eq!(command(r#"echo "a \"b\" \n" c\ d '' e"f"g"#), ["echo", r#"a "b" \n"#, "c d", "", "efg"]);
    }

    #[test]
    fn a_line_that_needs_a_shell_gets_one() {
        let lines = [
            "cd demo && python train.py",
            "python train.py > log",
            "python train.py --rank=`hostname`",
            "python \"$SCRIPT\"",
            "python train.py; echo done",
            "DEBUG=1 python train.py",
            "cat data/*.csv",
            "exec python train.py",
            "python 'train.py",
            "first\nsecond",
            "~/train",
        ];
        for line in lines {
            let expected = line.replace('$', "$$");
            assert_eq!(command(line), ["sh", "-c", &expected], "{line}");
        }
    }

    #[test]
    fn a_kubelet_leaves_dollars_of_the_shell_alone() {
        let known = |name: &str| (name == "hostname").then_some("of the kubelet");
        let command = command("echo $(hostname) $$ $HOME");
        assert_eq!(flexor_model::expansion::expand(&command[2], known).unwrap(), "echo $(hostname) $$ $HOME");
    }
}
