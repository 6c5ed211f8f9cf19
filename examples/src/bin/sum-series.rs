//! Sums a series in steps and keeps its state, so that a PC that goes away costs little: started
//! again, it goes on where it was. Where nobody keeps states (`DESKGRID_CHECKPOINT_DIR` is not set)
//! it sums from the beginning.
//!
//! `sum-series STEPS PAUSE_MS` adds 1/n² for n up to STEPS (the limit is π²/6) with a pause after
//! each step, and prints the steps from which it went on, and the sum.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs, io, thread};

/// How far the sum is.
#[derive(Debug, Clone, Default, PartialEq)]
struct SumState {
    step: u64,
    sum: f64,
    /// The steps from which it went on after an interruption.
    resumed: Vec<u64>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = env::args().skip(1);
    let steps: u64 = args
        .next()
        .ok_or("usage: sum-series STEPS PAUSE_MS")?
        .parse()?;
    let pause = Duration::from_millis(
        args.next()
            .ok_or("usage: sum-series STEPS PAUSE_MS")?
            .parse()?,
    );
    let file = env::var_os("DESKGRID_CHECKPOINT_DIR").map(|dir| PathBuf::from(dir).join("state"));
    let mut state = match &file {
        Some(file) => load(file)?,
        None => SumState::default(),
    };
    if state.step > 0 {
        state.resumed.push(state.step);
    }

    while state.step < steps {
        state.step += 1;
        state.sum += (state.step as f64).powi(-2);
        if let Some(file) = &file {
            save(file, &state)?;
        }
        thread::sleep(pause);
    }

    println!("went on from steps {:?}", state.resumed);
    println!("sum {:.12}", state.sum);
    Ok(())
}

/// The state that an earlier attempt left; the beginning where there is none.
fn load(file: &Path) -> io::Result<SumState> {
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(SumState::default()),
        Err(error) => return Err(error),
    };
    let read = || {
        let numbers = text
            .split_whitespace()
            .map(|number| number.parse().ok())
            .collect::<Option<Vec<u64>>>()?;
        let [step, bits, resumed @ ..] = &numbers[..] else {
            return None;
        };
        Some(SumState {
            step: *step,
            sum: f64::from_bits(*bits),
            resumed: resumed.to_vec(),
        })
    };
    read().ok_or_else(|| io::Error::other(format!("{} is no state: {text:?}", file.display())))
}

/// Written aside, then renamed: whoever looks finds the state before or the state after, and no
/// half of one. The sum is written as its bits, so that nothing is lost to rounding.
fn save(file: &Path, state: &SumState) -> io::Result<()> {
    let aside = file.with_extension("new");
    let resumed: String = state
        .resumed
        .iter()
        .map(|step| format!(" {step}"))
        .collect();
    fs::write(
        &aside,
        format!("{} {}{resumed}\n", state.step, state.sum.to_bits()),
    )?;
    fs::rename(&aside, file)
}
