//! Rust source reduced to what the compiler acts on, so that a search does not match comments or messages.
//!
//! [`code_only`] blanks comments and literals, [`without_tests`] blanks `#[cfg(test)]` items as well; both keep every
//! line where it was. [`imports`] spells out grouped `use` items. This is a scanner for `tidy`, not a parser: it
//! assumes source that compiles.

use std::iter::repeat_n;

/// `text` with comments, strings and character literals replaced by spaces; lines and columns stay.
pub(crate) fn code_only(text: &str) -> String {
    let mut scanner = Scanner { rest: text.chars().collect(), at: 0, out: String::with_capacity(text.len()) };
    scanner.run();
    scanner.out
}

/// `code` (from [`code_only`]) with every item under `#[cfg(test)]` blanked too.
pub(crate) fn without_tests(code: &str) -> String {
    const MARK: &str = "#[cfg(test)]";
    let mut out = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(start) = rest.find(MARK) {
        let (before, item) = rest.split_at(start);
        let (test, after) = item.split_at(item_length(item));
        out.push_str(before);
        out.extend(test.chars().map(blank));
        rest = after;
    }
    out.push_str(rest);
    out
}

/// Every path that `use` items of `code` bring in, groups spelled out, each with the line its item starts on.
pub(crate) fn imports(code: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (start, _) in code.match_indices("use ") {
        let begins_a_word = !code[..start].ends_with(|before: char| before.is_alphanumeric() || before == '_');
        let Some(length) = code[start..].find(';').filter(|_| begins_a_word) else {
            continue;
        };
        let line = code[..start].matches('\n').count() + 1;
        let mut item: String =
            code[start + "use ".len()..start + length].split_whitespace().collect::<Vec<_>>().join(" ");
        item = item.replace(" as ", "\u{1}").replace(' ', "");
        expand("", &item, &mut |path| found.push((line, path)));
    }
    found
}

/// How far the item that begins with an attribute reaches: to the brace that closes it, or to its semicolon.
fn item_length(item: &str) -> usize {
    let mut depth = 0;
    for (at, character) in item.char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth <= 1 => return at + 1,
            '}' => depth -= 1,
            ';' if depth == 0 => return at + 1,
            _ => {}
        }
    }
    item.len()
}

/// Calls `found` with every path of one `use` tree such as `std::{fs,io::{self,Read}}`.
fn expand(prefix: &str, tree: &str, found: &mut dyn FnMut(String)) {
    match tree.split_once('{') {
        None => {
            let path = tree.split('\u{1}').next().unwrap_or(tree);
            let whole = format!("{prefix}{path}");
            found(whole.strip_suffix("::self").unwrap_or(&whole).to_owned());
        }
        Some((head, group)) => {
            let prefix = format!("{prefix}{head}");
            let group = group.strip_suffix('}').unwrap_or(group);
            let mut depth = 0_usize;
            let branches = group.split(|character| {
                match character {
                    '{' => depth += 1,
                    '}' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                character == ',' && depth == 0
            });
            branches.filter(|branch| !branch.is_empty()).for_each(|branch| expand(&prefix, branch, found));
        }
    }
}

fn blank(character: char) -> char {
    if character == '\n' { '\n' } else { ' ' }
}

struct Scanner {
    rest: Vec<char>,
    at: usize,
    out: String,
}

impl Scanner {
    fn run(&mut self) {
        while let Some(character) = self.peek(0) {
            match (character, self.peek(1)) {
                ('/', Some('/')) => self.hide_while(|scanner| scanner.peek(0) != Some('\n')),
                ('/', Some('*')) => self.hide_block_comment(),
                ('"', _) => self.hide_string(0),
                ('r', Some('"' | '#')) if !self.inside_word() => self.hide_raw_string(),
                ('\'', _) => self.hide_character(),
                _ => self.keep(),
            }
        }
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.rest.get(self.at + ahead).copied()
    }

    fn keep(&mut self) {
        self.out.extend(self.peek(0));
        self.at += 1;
    }

    fn hide(&mut self, count: usize) {
        for _ in 0..count {
            self.out.extend(self.peek(0).map(blank));
            self.at += 1;
        }
    }

    fn hide_while(&mut self, more: impl Fn(&Scanner) -> bool) {
        while self.peek(0).is_some() && more(self) {
            self.hide(1);
        }
    }

    /// Whether the character before this one belongs to an identifier; `br"…"` and `cr"…"` are no identifiers.
    fn inside_word(&self) -> bool {
        let word: Vec<char> =
            self.rest[..self.at].iter().rev().take_while(|c| c.is_alphanumeric() || **c == '_').copied().collect();
        !matches!(word.as_slice(), [] | ['b' | 'c'])
    }

    fn hide_block_comment(&mut self) {
        let mut depth = 0;
        while self.peek(0).is_some() {
            match (self.peek(0), self.peek(1)) {
                (Some('/'), Some('*')) => depth += 1,
                (Some('*'), Some('/')) => depth -= 1,
                _ => {
                    self.hide(1);
                    continue;
                }
            }
            self.hide(2);
            if depth == 0 {
                return;
            }
        }
    }

    /// From the opening quote to the closing one; `hashes` of them close a raw string, which knows no escapes.
    fn hide_string(&mut self, hashes: usize) {
        let closing: Vec<char> = std::iter::once('"').chain(repeat_n('#', hashes)).collect();
        let raw = hashes > 0;
        self.hide(1);
        while self.peek(0).is_some() {
            if self.peek(0) == Some('\\') && !raw {
                self.hide(2);
            } else if self.rest[self.at..].starts_with(&closing) {
                return self.hide(closing.len());
            } else {
                self.hide(1);
            }
        }
    }

    fn hide_raw_string(&mut self) {
        let hashes = self.rest[self.at + 1..].iter().take_while(|character| **character == '#').count();
        if self.peek(1 + hashes) != Some('"') {
            return self.keep(); // a raw identifier such as r#type
        }
        self.hide(1 + hashes);
        if hashes > 0 {
            self.hide_string(hashes);
        } else {
            self.hide(1);
            self.hide_while(|scanner| scanner.peek(0) != Some('"'));
            self.hide(1);
        }
    }

    /// A character literal; a lifetime or a label stays.
    fn hide_character(&mut self) {
        match (self.peek(1), self.peek(2)) {
            (Some('\\'), _) => {
                self.hide(3);
                self.hide_while(|scanner| scanner.peek(0) != Some('\''));
                self.hide(1);
            }
            (Some(_), Some('\'')) => self.hide(3),
            _ => self.keep(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blank_and_columns_stay() {
        let text = "let a = \"todo!()\"; // todo!()\n/* std::fs /* nested */ */ let b = 'x';\n";
        let code = code_only(text);
        assert_eq!(code.chars().count(), text.chars().count());
        assert_eq!(code.split_whitespace().collect::<Vec<_>>(), ["let", "a", "=", ";", "let", "b", "=", ";"]);
    }

    #[test]
    fn raw_strings_end_where_rust_ends_them() {
        assert_eq!(code_only(r###"a(r#"quote " inside"#, b)"###).replace(' ', ""), "a(,b)");
        assert_eq!(code_only(r#"a(br"back\", b)"#).replace(' ', ""), "a(b,b)");
        assert_eq!(code_only("r#type + for\"x\"").replace(' ', ""), "r#type+for");
    }

    #[test]
    fn lifetimes_are_code_and_characters_are_not() {
        assert_eq!(code_only("fn f<'a>(x: &'a str) { g('\"', '\\'', '\\u{41}', 'y') }").replace(' ', ""), {
            "fnf<'a>(x:&'astr){g(,,,)}"
        });
    }

    #[test]
    fn test_items_are_blanked_and_the_following_code_is_kept() {
        let code = "fn a() {}\n#[cfg(test)]\nmod tests { fn b() { {} } }\nfn c() {}\n#[cfg(test)]\nuse x;\nfn d() {}\n";
        let kept = without_tests(code);
        assert_eq!(kept.split_whitespace().collect::<Vec<_>>().join(" "), "fn a() {} fn c() {} fn d() {}");
        assert_eq!(kept.lines().count(), code.lines().count());
    }

    #[test]
    fn grouped_imports_are_spelled_out() {
        let code = "use a::B;\npub(crate) use std::{fs, io::{self, Read as R},\n    env};\nlet reuse = 1;";
        let expected = [(1, "a::B"), (2, "std::fs"), (2, "std::io"), (2, "std::io::Read"), (2, "std::env")];
        assert_eq!(imports(code), expected.map(|(line, path)| (line, path.to_owned())));
    }
}
