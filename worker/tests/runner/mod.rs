//! Runs the tests of a program that has its own `main`, in the words that cargo and nextest use.
//! Such a program must do something before any test and any thread, which the ordinary harness does
//! not let it.

/// Options whose value is the next word.
const WITH_VALUE: [&str; 4] = ["--format", "--color", "--test-threads", "--skip"];

/// Lists the tests, or runs those that the arguments name.
pub(crate) fn run<T>(args: &[String], tests: &[(&str, T)], each: impl Fn(&T)) {
    let has = |option: &str| args.iter().any(|a| a == option);
    if has("--ignored") {
        return; // None of them is.
    }

    let value = |at: usize| at > 0 && WITH_VALUE.contains(&args[at - 1].as_str());
    let words = args
        .iter()
        .enumerate()
        .filter(|(at, a)| !a.starts_with('-') && !value(*at))
        .map(|(_, a)| a);
    let filters: Vec<&String> = words.collect();
    let named = |name: &str, f: &str| {
        if has("--exact") {
            name == f
        } else {
            name.contains(f)
        }
    };
    for (name, test) in tests
        .iter()
        .filter(|(name, _)| filters.is_empty() || filters.iter().any(|f| named(name, f)))
    {
        if has("--list") {
            println!("{name}: test");
            continue;
        }
        println!("test {name} ...");
        each(test);
    }
}
