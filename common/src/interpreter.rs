//! The program that a command runs, as run times are learned of it: for an interpreter the script or
//! the text that it runs, since two scripts have no more in common than two programs.

use crate::template::Template;

/// The names of interpreters, without the version at their end.
const INTERPRETERS: [&str; 20] = [
    "sh",
    "bash",
    "dash",
    "ksh",
    "zsh",
    "fish",
    "python",
    "pypy",
    "perl",
    "ruby",
    "rscript",
    "node",
    "java",
    "julia",
    "lua",
    "php",
    "octave",
    "wine",
    "cmd",
    "powershell",
];
/// The directory of the Python library's own files below a task's: its jobs are named after the function
/// that they call.
const OWN: &str = ".deskgrid/";
/// The most characters of a name. Of a longer one the start and the end are kept.
const LONGEST: usize = 120;

/// Returns the name of the program that this command of a job runs: its first word, and for an
/// interpreter the script too, such as in `python3 model.py`, or the text that it is given.
pub fn program_of(argv: &[Template], job: &str) -> String {
    let mut words = argv.iter().map(Template::as_str);
    let first = words.next().unwrap_or_default();
    let file = first
        .rsplit(['/', '\\'])
        .next()
        .unwrap_or(first)
        .to_lowercase();
    let file = file.strip_suffix(".exe").unwrap_or(&file);
    let name = file.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    if !INTERPRETERS.contains(&name) {
        return first.to_owned();
    }

    let script = script(words, name);
    let script = if script.starts_with(OWN) { job } else { script };
    let plain = script.split_whitespace();
    let whole = [first]
        .into_iter()
        .chain(plain)
        .collect::<Vec<_>>()
        .join(" ");
    let length = whole.chars().count();
    if length <= LONGEST {
        return whole;
    }
    let start: String = whole.chars().take(LONGEST / 2 - 3).collect();
    let end: String = whole.chars().skip(length - LONGEST / 2).collect();
    start + "..." + &end
}

/// Returns the options of an interpreter that have a value of their own behind them.
fn valued(name: &str) -> &'static [&'static str] {
    match name {
        "python" | "pypy" => &["-X", "-W"],
        "java" => &["-cp", "-classpath", "--class-path", "-p", "--module-path"],
        "perl" | "ruby" => &["-I", "-r"],
        "node" => &["-r", "--require"],
        "julia" => &["-p"],
        "powershell" => &["-ExecutionPolicy"],
        "sh" | "bash" | "dash" | "ksh" | "zsh" | "fish" => &["-o", "+o", "-O"],
        _ => &[],
    }
}

/// Returns the first word that is neither an option of the interpreter of this name nor the value of one.
fn script<'a>(mut words: impl Iterator<Item = &'a str>, name: &str) -> &'a str {
    while let Some(word) = words.next() {
        let slashed = name == "cmd" && word.starts_with('/');
        if !slashed && !word.starts_with(['-', '+']) {
            return word;
        }

        // A shell's options may stand together, `-euo pipefail`.
        let cluster = name.ends_with("sh") && !word.starts_with("--") && word.ends_with('o');
        if valued(name).contains(&word) || cluster {
            words.next();
        }
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_a_program_of_its_own() {
        let name = |line: &str| {
            let words = line.split(' ').map(|word| word.replace('_', " "));
            let words: Vec<_> = words.map(|word| Template::literal(&word)).collect();
            program_of(&words, "fold_step")
        };
        assert_eq!(name("./sim 42 --fast"), "./sim");
        assert_eq!(name("python3.11 -u model.py 7"), "python3.11 model.py");
        assert_eq!(name("python3 -I -W ignore a.py"), "python3 a.py");
        let text = "/bin/sh -c sleep_5;\n\t./next 3";
        assert_eq!(name(text), "/bin/sh sleep 5; ./next");
        assert_ne!(name("sh -c sleep_5"), name("sh -c sleep_30"));
        assert_eq!(name("bash -euo pipefail -c ./a"), "bash ./a");
        assert_eq!(name("java -cp lib.jar Main"), "java Main");
        assert_eq!(name("Rscript --vanilla fit.R"), "Rscript fit.R");
        assert_eq!(name("bash"), "bash");
        let called = "python3.12 -I -X utf8 .deskgrid/run.pyc";
        assert_eq!(name(called), "python3.12 fold_step");
        assert_eq!(name("C:\\CMD.EXE /c run.bat"), "C:\\CMD.EXE run.bat");
    }

    #[test]
    fn long_texts_that_begin_alike_are_told_apart() {
        let name = |text: String| program_of(&["sh", "-c", &text].map(Template::literal), "a job");
        let common = "x".repeat(900);
        let one = name(common.clone() + "a");
        assert_eq!(one.chars().count(), LONGEST);
        assert_ne!(one, name(common + "b"));
    }
}
