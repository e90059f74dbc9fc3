//! Finds links and headings in Markdown.
//!
//! Code, fenced or inline, holds neither. Links are the inline and the reference form and the HTML attributes `href`
//! and `src`; headings are those written with `#`.

/// Every link target of a page, with its line.
pub(super) fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        let line = without_inline_code(line);
        let inline = line.match_indices("](").map(|(at, mark)| balanced(&line[at + mark.len()..]));
        let attributes = ["href=\"", "src=\""].iter().flat_map(|attribute| {
            let starts = line.match_indices(attribute).map(|(at, _)| at + attribute.len());
            starts.map(|start| line[start..].split('"').next().unwrap_or_default()).collect::<Vec<_>>()
        });
        let targets = inline.chain(attributes).chain(definition(&line));
        // The part after a space is the link's title.
        let targets = targets.map(|target| target.split_whitespace().next().unwrap_or_default());
        let targets = targets.map(|target| target.trim_start_matches('<').trim_end_matches('>'));
        found.extend(targets.map(|target| (number, target.to_owned())));
    }
    found
}

/// The anchors of a page's headings as GitHub makes them, and those given by `id="…"`.
pub(super) fn anchors(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for (_, line) in prose(text) {
        let given = line.split("id=\"").skip(1).filter_map(|rest| rest.split('"').next());
        found.extend(given.map(str::to_owned));
        let level = line.chars().take_while(|character| *character == '#').count();
        let Some(title) = line[level..].strip_prefix(' ').filter(|_| (1..=6).contains(&level)) else {
            continue;
        };
        let base = slug(title.trim().trim_end_matches('#').trim_end());
        let taken = |candidate: &String| found.contains(candidate);
        let numbered = (1..).map(|number| format!("{base}-{number}"));
        let anchor = std::iter::once(base.clone()).chain(numbered).find(|candidate| !taken(candidate));
        found.extend(anchor);
    }
    found
}

/// The lines outside fenced code, numbered from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fence: Option<&str> = None;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let start = line.trim_start();
        match fence {
            Some(mark) => {
                if start.starts_with(mark) {
                    fence = None;
                }
                None
            }
            None => {
                fence = ["```", "~~~"].into_iter().find(|mark| start.starts_with(mark));
                fence.is_none().then_some((index + 1, line))
            }
        }
    })
}

fn without_inline_code(line: &str) -> String {
    let closed = line.matches('`').count() / 2 * 2;
    let mut ticks = 0;
    let kept = line.chars().map(|character| {
        if character == '`' && ticks < closed {
            ticks += 1;
        }
        if ticks % 2 == 1 { ' ' } else { character }
    });
    kept.collect()
}

/// The target up to the parenthesis that closes it.
fn balanced(rest: &str) -> &str {
    let mut depth = 0;
    let end = rest.find(|character| {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        depth < 0
    });
    &rest[..end.unwrap_or(rest.len())]
}

/// The target of `[name]: target`.
fn definition(line: &str) -> Option<&str> {
    let (name, target) = line.strip_prefix('[')?.split_once("]:")?;
    (!name.contains(']') && !name.starts_with('^')).then_some(target.trim_start())
}

fn slug(title: &str) -> String {
    let mut words = String::new();
    let mut rest = title;
    // A link in a heading counts with its text only.
    while let Some((before, after)) = rest.split_once("](") {
        words.push_str(before);
        rest = &after[balanced(after).len()..];
    }
    words.push_str(rest);
    let kept = words.to_lowercase();
    let kept = kept.chars().filter(|character| character.is_alphanumeric() || " -_".contains(*character));
    kept.map(|character| if character == ' ' { '-' } else { character }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_link_is_found() {
        let text = "[a](b.md \"title\") and ![p](q(1).svg)\n[ref]: <c.md#x>\n<img src=\"d.png\">\n`[no](e.md)`\n";
        let found: Vec<_> = links(text);
        let expected = [(1, "b.md"), (1, "q(1).svg"), (2, "c.md#x"), (3, "d.png")];
        assert_eq!(found, expected.map(|(line, target)| (line, target.to_owned())));
    }

    #[test]
    fn code_holds_neither_links_nor_headings() {
        let text = "~~~sh\n# not a heading\n[x](y)\n~~~\n# Heading\n";
        assert_eq!(links(text), []);
        assert_eq!(anchors(text), ["heading"]);
    }

    #[test]
    fn anchors_are_those_of_github() {
        let text = "# The `flexor` CLI: what's new?\n## Use\n## Use\n## [Linked](x.md) title_x\n#nospace\n";
        assert_eq!(anchors(text), ["the-flexor-cli-whats-new", "use", "use-1", "linked-title_x"]);
    }
}
