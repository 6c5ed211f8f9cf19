//! Runs the tests of a program that has its own `main`, in the words that cargo and nextest use. Such a program must do
//! something before any test and any thread, which the ordinary harness does not let it.

/// Flags that have a value of their own.
const WITH_VALUE: [&str; 4] = ["--format", "--color", "--test-threads", "--skip"];

/// Lists the tests, or runs those that the arguments name. None is marked as to be ignored.
pub(crate) fn run<T>(args: &[String], tests: &[(&str, T)], each: impl Fn(&T)) {
    let has = |flag: &str| args.iter().any(|a| a == flag);
    let value = |at: usize| at > 0 && WITH_VALUE.contains(&&*args[at - 1]);
    let filters: Vec<&String> =
        args.iter().enumerate().filter(|(at, a)| !a.starts_with('-') && !value(*at)).map(|(_, a)| a).collect();
    let meant = |name: &str, filter: &str| if has("--exact") { name == filter } else { name.contains(filter) };
    let named = |name: &str| filters.is_empty() || filters.iter().any(|filter| meant(name, filter));
    for (name, test) in tests.iter().filter(|(name, _)| named(name) && !has("--ignored")) {
        if has("--list") {
            println!("{name}: test");
            continue;
        }
        println!("test {name} ...");
        each(test);
    }
}
