//! Sensors of the owner's use of a Mac: input, processors, memory, power, programs. A locked screen and somebody
//! who is logged on without touching anything do not count: the time without input alone does.

use std::iter::successors;

use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System};

use super::glance::Glance;
use super::{Sensor, SensorUse, SensorsConfig, load, registry, when};
use crate::os::sense;
use crate::owner::sight::{Reading, Sight, Topic};

/// Returns every sensor that the owner did not switch off. `evdev` is the switch for input.
pub(super) fn all(config: &SensorsConfig) -> Vec<Box<dyn Sensor>> {
    let auto = |switch: SensorUse| switch == SensorUse::Auto;
    let listed = !config.programs.is_empty();
    let sensors = [
        when(auto(config.evdev), || {
            let look = || registry::input(sense::idle());
            Glance::new("input", Topic::Input, config.input_every, look)
        }),
        when(auto(config.memory), || {
            let look = memory(System::new().ok());
            Glance::new("memory", Topic::Memory, config.memory_every, look)
        }),
        when(auto(config.power), || {
            let look = || registry::power(sense::power());
            Glance::new("power", Topic::Power, config.power_every, look)
        }),
        when(listed, || {
            let look = programs(System::new().ok(), config.programs.clone());
            Glance::new("programs", Topic::Programs, config.programs_every, look)
        }),
        when(auto(config.load), || load::sensor(config)),
    ];

    sensors.into_iter().flatten().collect()
}

/// How hard programs wait for memory is not told here.
fn memory(mut system: Option<System>) -> impl FnMut() -> Sight + Send {
    move || {
        let system = system.as_mut().map(|system| {
            system.refresh_memory();
            (system.available_memory(), system.total_memory())
        });

        match system {
            Some((available, total)) if total > 0 => Sight::Seen(Reading::Memory {
                available: (available as f64 / total as f64).clamp(0.0, 1.0),
                pressure: 0.0,
            }),
            _ => Sight::Unknown("macOS does not tell how much memory is available".to_owned()),
        }
    }
}

fn programs(mut system: Option<System>, wanted: Vec<String>) -> impl FnMut() -> Sight + Send {
    move || {
        let Some(system) = &mut system else {
            return Sight::Unknown("macOS does not tell which programs run".to_owned());
        };
        let names = ProcessRefreshKind::nothing();
        system.refresh_processes_specifics(ProcessesToUpdate::All, true, names);

        // What is below this worker is a task's.
        let all = system.processes();
        let own = Pid::from_u32(std::process::id());
        let up = |pid: &Pid| all.get(pid)?.parent();
        let is_ours = |pid: Pid| {
            successors(Some(pid), up)
                .take(all.len())
                .any(|pid| pid == own)
        };
        let others = all.iter().filter(|(pid, _)| !is_ours(**pid));
        registry::program(&wanted, others.filter_map(|(_, one)| one.name().to_str()))
    }
}
