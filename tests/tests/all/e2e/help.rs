//! The help of every command of both programs, as it looks on a terminal of 80, 100 or 120 columns.

use std::process::Command;

use tests::program;

/// Returns the help of a command at a width, as a pipe or a terminal of that width gets it.
fn help(name: &str, words: &[String], width: usize) -> String {
    let output = Command::new(program(name))
        .args(words)
        .arg("--help")
        .env("COLUMNS", width.to_string())
        .output()
        .expect("the program is built");
    assert!(output.status.success(), "{name} {words:?} --help");
    String::from_utf8(output.stdout).expect("help is text")
}

/// The commands that a help lists.
fn commands(help: &str) -> Vec<String> {
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    listed
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

/// Returns where the text of a line begins that the next line, with this indent, goes on with.
fn goes_on(line: &str, indent: usize) -> bool {
    let starts = line.len() - line.trim_start().len();
    let beside = indent >= 8
        && line
            .get(..indent)
            .is_some_and(|before| before.ends_with("  "));
    let entry = line.trim_start().starts_with("- ");
    !line.trim().is_empty() && (starts == indent || beside || entry && starts + 2 == indent)
}

/// Looks for lines beyond the width, and for lines that end in mid-sentence although the first word
/// of the next would have had room.
fn judge(text: &str, width: usize) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let long = lines.iter().filter(|line| line.chars().count() > width);
    let mut wrong: Vec<String> = long.map(|line| format!("too long: {line}")).collect();
    for pair in lines.windows(2) {
        let [line, next] = pair else { continue };
        let word = next.split_whitespace().next().unwrap_or_default();
        let indent = next.len() - next.trim_start().len();
        let entry = word.starts_with('-') || word.is_empty();
        let prose = (indent == 0 || indent >= 8) && !entry && goes_on(line, indent);
        let ends = line.ends_with(['.', ':', ';', '?', ')', ']']);
        let fits = line.chars().count() + 1 + word.chars().count() <= width;
        if prose && fits && !ends {
            wrong.push(format!("broken: {line} / {next}"));
        }
    }
    wrong
}

/// The lines of examples, which nothing may wrap.
fn examples(text: &str) -> Vec<&str> {
    let from = |line: &&str| !line.starts_with("Example") && !line.starts_with("Start here");
    let below = text.lines().skip_while(from).skip(1);
    below.take_while(|line| line.starts_with("  ")).collect()
}

#[test]
fn the_help_of_every_command_fits_any_terminal_and_breaks_no_sentence() {
    for name in ["deskgrid", "deskgrid-lab"] {
        let mut open = vec![Vec::new()];
        let mut wrong = Vec::new();
        let mut seen = 0;
        while let Some(words) = open.pop() {
            let narrow = help(name, &words, 80);
            let wide = help(name, &words, 120);
            if examples(&narrow) != examples(&wide) {
                wrong.push(format!("{words:?}: an example is wrapped at 80 columns"));
            }
            for (text, width) in [(&narrow, 80), (&help(name, &words, 100), 100), (&wide, 120)] {
                let found = judge(text, width);
                wrong.extend(
                    found
                        .iter()
                        .map(|what| format!("{words:?}, {width}: {what}")),
                );
            }

            if narrow.lines().any(|line| line.trim() == "Possible values:") {
                wrong.push(format!(
                    "{words:?}: another layout than other commands have"
                ));
            }

            seen += 1;
            let below = commands(&narrow).into_iter();
            open.extend(below.map(|command| [words.clone(), vec![command]].concat()));
        }
        assert!(wrong.is_empty(), "{name}:\n{}", wrong.join("\n"));
        assert!(seen > 5, "{name} has only {seen} commands");
    }
}

#[test]
fn a_long_line_and_a_broken_sentence_are_found() {
    assert_eq!(judge("0123456789 0", 11), ["too long: 0123456789 0"]);
    assert_eq!(judge("It holds the\nkey of it", 80).len(), 1);
    assert_eq!(judge("  -x <N>  It holds\n          the key", 80).len(), 1);
    assert!(judge("It holds it.\nThe key", 80).is_empty());
}
