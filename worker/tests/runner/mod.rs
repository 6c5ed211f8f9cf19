//! Runs the tests of a program that has its own `main`, in the words that cargo and nextest use. Such a program must do
//! something before any test and any thread, which the ordinary harness does not let it.

/// Lists the tests, or runs those that the arguments name.
pub(crate) fn run<T>(args: &[String], tests: &[(&str, T)], each: impl Fn(&T)) {
    let asked = |flag: &str| args.iter().any(|a| a == flag);
    // No test is ignored; nextest asks for those apart.
    if asked("--ignored") {
        return;
    }
    let value = |at: usize| at > 0 && args[at - 1] == "--format";
    let filters: Vec<&String> =
        args.iter().enumerate().filter(|(at, a)| !a.starts_with('-') && !value(*at)).map(|(_, a)| a).collect();
    let wanted = |name: &str, filter: &str| if asked("--exact") { name == filter } else { name.contains(filter) };
    for (name, test) in tests.iter().filter(|(name, _)| filters.is_empty() || filters.iter().any(|f| wanted(name, f))) {
        if asked("--list") {
            println!("{name}: test");
            continue;
        }
        println!("test {name} ...");
        each(test);
    }
}
