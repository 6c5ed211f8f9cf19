//! A command line and an environment as Windows takes them: one text each, which the program splits by itself.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::windows::ffi::OsStrExt;
use std::path::Path;

/// Characters that an argument of a batch file cannot have: `cmd` reads them whatever stands around them.
const READ_BY_CMD: [char; 4] = ['"', '%', '\r', '\n'];

/// Returns the program that `CreateProcessW` is to start, and its command line, both with a zero at the end. A batch file
/// is started by `cmd`.
///
/// # Errors
/// `InvalidInput` if an argument cannot be passed on.
pub(super) fn command_line(
    program: &Path,
    arguments: &[String],
) -> io::Result<(Vec<u16>, Vec<u16>)> {
    if !is_batch(program) {
        let mut line = vec![u16::from(b'"')];
        line.extend(program.as_os_str().encode_wide());
        line.push(u16::from(b'"'));
        for argument in arguments {
            let quoted = format!(" {}", quoted(argument));
            line.extend(quoted.encode_utf16());
        }
        return Ok((ended(program.as_os_str().encode_wide())?, ended(line)?));
    }

    // What stands between the outermost quotes is a line of its own to `cmd`, in which each word is quoted.
    let mut line: Vec<u16> = "cmd.exe /e:on /v:off /d /s /c \"\""
        .encode_utf16()
        .collect();
    line.extend(program.as_os_str().encode_wide());
    line.push(u16::from(b'"'));

    let path = program.to_string_lossy();
    if let Some(word) = std::iter::once(&*path)
        .chain(arguments.iter().map(String::as_str))
        .find(|word| word.contains(READ_BY_CMD))
    {
        let why = format!(
            "a batch file cannot be started with `{word}`: neither its path nor an argument has quotes, percent signs or line breaks"
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }

    for argument in arguments {
        // A backslash before the last quote would be read as one with it by a program that is given the word on.
        let backslashes = argument.len() - argument.trim_end_matches('\\').len();
        let doubled = "\\".repeat(backslashes);
        line.extend(format!(" \"{argument}{doubled}\"").encode_utf16());
    }
    line.push(u16::from(b'"'));

    let system = std::env::var_os("SystemRoot").unwrap_or_else(|| r"C:\Windows".into());
    let cmd = Path::new(&system).join(r"System32\cmd.exe");
    Ok((ended(cmd.as_os_str().encode_wide())?, ended(line)?))
}

/// Whether the system would start `cmd` for this file. It does not count blanks and dots at a name's end.
fn is_batch(program: &Path) -> bool {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let name = name.trim_end_matches([' ', '.']).to_ascii_lowercase();
    [".bat", ".cmd"].iter().any(|ending| name.ends_with(ending))
}

/// Returns an argument as Microsoft's C library splits it off again: in quotes where it is empty or has a blank, with a backslash
/// before each quote, and twice as many backslashes before a quote as it has there.
fn quoted(argument: &str) -> String {
    let in_quotes = argument.is_empty() || argument.contains([' ', '\t']);
    let mut text = String::with_capacity(argument.len() + 2);
    let mut backslashes = 0;
    if in_quotes {
        text.push('"');
    }

    for letter in argument.chars() {
        if letter == '"' {
            text.extend(std::iter::repeat_n('\\', backslashes + 1));
        }
        backslashes = if letter == '\\' { backslashes + 1 } else { 0 };
        text.push(letter);
    }

    if in_quotes {
        text.extend(std::iter::repeat_n('\\', backslashes));
        text.push('"');
    }
    text
}

/// Returns an environment as one text: sorted by name, of which a later value replaces an earlier one whatever the case of
/// its letters.
///
/// # Errors
/// `InvalidInput` if a name or value cannot be passed on.
pub(super) fn environment(variables: &[(String, OsString)]) -> io::Result<Vec<u16>> {
    let mut sorted: BTreeMap<String, (&str, &OsStr)> = BTreeMap::new();
    for (name, value) in variables {
        if name.is_empty() || name.chars().skip(1).any(|letter| letter == '=') {
            let why = format!("`{name}` cannot be the name of a variable");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        sorted.insert(name.to_uppercase(), (name, value));
    }

    let mut block = Vec::new();
    for (name, value) in sorted.into_values() {
        let mut entry: Vec<u16> = name.encode_utf16().chain([u16::from(b'=')]).collect();
        entry.extend(value.encode_wide());
        block.extend(ended(entry)?);
    }
    // An empty one has two zeroes, too.
    if block.is_empty() {
        block.push(0);
    }
    block.push(0);
    Ok(block)
}

/// Returns a text with the zero that ends it for the system.
///
/// # Errors
/// `InvalidInput` if it has one already.
pub(super) fn ended(text: impl IntoIterator<Item = u16>) -> io::Result<Vec<u16>> {
    let mut text: Vec<u16> = text.into_iter().collect();
    if text.contains(&0) {
        let why = "a zero byte cannot be passed on";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    text.push(0);
    Ok(text)
}

#[cfg(test)]
mod tests {
    #![allow(unsafe_code)] // To ask the system how it splits a line.

    use proptest::prelude::*;
    use windows_sys::Win32::Foundation::LocalFree;
    use windows_sys::Win32::UI::Shell::CommandLineToArgvW;

    use super::*;

    /// Splits a line as the system does.
    fn split(line: &[u16]) -> Vec<String> {
        assert_eq!(line.last(), Some(&0));
        let mut count = 0;
        // SAFETY: a text with its zero; what comes back is read as far as the system says, and given back.
        unsafe {
            let words = CommandLineToArgvW(line.as_ptr(), &raw mut count);
            assert!(!words.is_null());
            let word = |at: usize| {
                let start = *words.add(at);
                let length = (0..).take_while(|n| *start.add(*n) != 0).count();
                String::from_utf16(std::slice::from_raw_parts(start, length)).unwrap()
            };
            let split = (0..usize::try_from(count).unwrap()).map(word).collect();
            LocalFree(words.cast());
            split
        }
    }

    proptest! {
        #[test]
        fn arguments_reach_a_program_as_they_are(arguments in prop::collection::vec("[a-c \t\"\\\\%&^é😀]{0,8}", 0..5)) {
            let program = Path::new(r"C:\some where\program.exe");
            let (_, line) = command_line(program, &arguments).unwrap();
            let mut words = split(&line);
            prop_assert_eq!(words.remove(0), program.to_str().unwrap());
            prop_assert_eq!(words, arguments);
        }
    }

    #[test]
    fn a_batch_file_is_given_no_argument_that_cmd_would_read() {
        let batch = Path::new(r"C:\some where\tool.BAT");
        let line = |argument: &str| command_line(batch, &[r"a b\".to_owned(), argument.to_owned()]);
        let (cmd, words) = line("&c").unwrap();
        let text = |wide: &[u16]| String::from_utf16(&wide[..wide.len() - 1]).unwrap();
        assert!(text(&cmd).to_lowercase().ends_with(r"\system32\cmd.exe"));
        assert_eq!(
            text(&words),
            r#"cmd.exe /e:on /v:off /d /s /c ""C:\some where\tool.BAT" "a b\\" "&c"""#
        );
        for refused in ["100%", "a\"b", "a\nb", "a\0b"] {
            let why = line(refused).unwrap_err();
            assert_eq!(why.kind(), io::ErrorKind::InvalidInput, "{refused:?}");
        }
        for path in [r"C:\100%\tool.bat", r"C:\100%\tool.cmd. "] {
            assert!(command_line(Path::new(path), &[]).is_err(), "{path}");
        }
    }

    #[test]
    fn of_a_variable_in_two_cases_the_later_value_counts() {
        let given = [
            ("Path", "1"),
            ("b", "2"),
            ("PATH", "3"),
            ("A", "4"),
            ("é", "5"),
        ];
        let given = given.map(|(name, value)| (name.to_owned(), value.into()));
        let block = String::from_utf16(&environment(&given).unwrap()).unwrap();
        assert_eq!(block, "A=4\0b=2\0PATH=3\0é=5\0\0");
        assert_eq!(environment(&[]).unwrap(), [0, 0]);
        for bad in ["", "a=b"] {
            assert!(environment(&[(bad.to_owned(), "1".into())]).is_err());
        }
    }
}
