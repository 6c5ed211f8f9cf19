//! Formats the sights of sensors for people. Output for scripts is made elsewhere.

use crate::owner::sight::{Reading, Sight};

/// Describes a sight in a few words.
pub fn words(sight: &Sight) -> String {
    match sight {
        Sight::Seen(reading) => seen(reading),
        Sight::Absent(how) => format!("not present: {how}"),
        Sight::Unknown(why) => format!("not known: {why}"),
    }
}

fn seen(reading: &Reading) -> String {
    match reading {
        Reading::Idle(span) => format!("no input for {span}"),
        Reading::Load(processors) => format!("other programs keep {processors:.2} processors busy"),
        Reading::Memory {
            available,
            pressure,
        } => {
            format!(
                "{:.0} % of the memory is free, programs wait for memory {:.0} % of the time",
                available * 100.0,
                pressure * 100.0
            )
        }
        Reading::Battery(None) => "on mains".to_owned(),
        Reading::Battery(Some(charge)) => format!("on battery, {:.0} % left", charge * 100.0),
        Reading::Program(None) => "no program that is to have the host for itself runs".to_owned(),
        Reading::Program(Some(name)) => format!("{name} runs"),
        Reading::Paused(None) => "not paused".to_owned(),
        Reading::Paused(Some(switch)) => format!("paused by {switch}"),
    }
}
