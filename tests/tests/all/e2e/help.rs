//! The help of both programs on narrow and wide terminals.

use std::process::Command;

use tests::{Started, program};

/// The widths of terminals, in columns.
const WIDTHS: [usize; 3] = [80, 100, 120];

fn help(name: &str, command: &[String], width: usize) -> String {
    let mut asked = Command::new(program(name));
    asked.args(command).arg("--help");
    asked.env("COLUMNS", width.to_string());
    Started::new(&mut asked).finish().expect_code(0).stdout
}

/// Returns a command and all below it, as words.
fn all_below(name: &str, command: &[String]) -> Vec<Vec<String>> {
    let text = help(name, command, 100);
    let listed = text.lines().skip_while(|line| *line != "Commands:").skip(1);
    let subcommands = listed
        .take_while(|line| line.starts_with("  "))
        .filter(|line| !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|word| *word != "help");

    let below =
        subcommands.flat_map(|word| all_below(name, &[command, &[word.to_owned()]].concat()));
    std::iter::once(command.to_vec()).chain(below).collect()
}

/// Returns the first line that is too wide, or that ends in mid-sentence though the next word would
/// have had room.
fn broken(text: &str, width: usize) -> Option<&str> {
    let prose = |line: &&str| !line.is_empty() && !line.starts_with(' ');
    let ends = |line: &str| line.ends_with(['.', ':', ';', '?', ')']);
    let lines: Vec<&str> = text.lines().collect();
    let early = lines.windows(2).find(|pair| {
        let word = pair[1].split(' ').next().unwrap_or_default();
        let room = pair[0].chars().count() + 1 + word.chars().count() < width;
        pair.iter().all(prose) && room && !ends(pair[0])
    });
    let wide = lines.iter().find(|line| line.chars().count() > width);
    wide.copied().or(early.map(|pair| pair[0]))
}

#[test]
fn help_fills_each_width_and_breaks_no_sentence_early() {
    for name in ["deskgrid", "deskgrid-lab"] {
        let commands = all_below(name, &[]);
        assert!(commands.len() > 5, "{name}: {commands:?}");
        for command in commands {
            for width in WIDTHS {
                let text = help(name, &command, width);
                let found = broken(&text, width);
                assert_eq!(found, None, "{name} {command:?} at {width} columns");
            }
        }
    }
}
