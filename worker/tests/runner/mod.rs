//! Runs the tests of a program that has its own `main`, in the words that cargo and nextest use. Such a program must do
//! something before any test and any thread, which the ordinary harness does not let it.

/// Lists the tests, or runs those that the arguments name.
pub(crate) fn run<T>(args: &[String], tests: &[(&str, T)], each: impl Fn(&T)) {
    let list = args.iter().any(|a| a == "--list");
    let filters: Vec<&String> = args.iter().filter(|a| !a.starts_with('-')).collect();
    for (name, test) in tests.iter().filter(|(name, _)| filters.is_empty() || filters.iter().any(|f| name.contains(*f)))
    {
        if list {
            println!("{name}: test");
            continue;
        }
        println!("test {name} ...");
        each(test);
    }
}
