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
    "Rscript",
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
/// The most characters of a name.
const LONGEST: usize = 120;

/// Returns the name of the program that this command runs: its first word, and for an interpreter the
/// first argument that is no option too, such as in `python3 model.py`.
pub fn program_of(argv: &[Template]) -> String {
    let mut words = argv.iter().map(Template::as_str);
    let first = words.next().unwrap_or_default();
    let file = first.rsplit(['/', '\\']).next().unwrap_or(first);
    let file = file.strip_suffix(".exe").unwrap_or(file);
    let name = file.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    if !INTERPRETERS.contains(&name) {
        return first.to_owned();
    }

    let option = |word: &&str| word.starts_with('-') || name == "cmd" && word.starts_with('/');
    let script = words.find(|word| !option(word)).unwrap_or_default();
    let whole = format!("{first} {script}");
    let plain: Vec<&str> = whole.split_whitespace().collect();
    plain.join(" ").chars().take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_a_program_of_its_own() {
        let name = |line: &str| {
            let words = line.split(' ').map(|word| word.replace('_', " "));
            program_of(
                &words
                    .map(|word| Template::literal(&word))
                    .collect::<Vec<_>>(),
            )
        };
        assert_eq!(name("./sim 42 --fast"), "./sim");
        assert_eq!(name("python3.11 -u model.py 7"), "python3.11 model.py");
        assert_eq!(
            name("/bin/sh -c sleep_5;\n\t./next 3"),
            "/bin/sh sleep 5; ./next"
        );
        assert_ne!(name("sh -c sleep_5"), name("sh -c sleep_30"));
        assert_eq!(name("bash"), "bash");
        assert_eq!(
            name("C:\\Windows\\cmd.exe /c run.bat"),
            "C:\\Windows\\cmd.exe run.bat"
        );
        assert_eq!(
            name(&format!("sh -c {}", "x".repeat(900))).chars().count(),
            LONGEST
        );
    }
}
