//! Writes the six tables of the Failure Trace Archive.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::super::moment::absolute;
use super::super::{Note, Segment, Trace, TraceError, TracedHost};
use super::NULL;

const PLATFORM: &str = "# platform_id\tplatform_name\tplatform_location\tplatform_type\tnotes\n";
const NODE: &str = "# node_id\tplatform_id\tnode_name\tnode_ip\tnode_location\ttimezone\tproc_model\tos_name\t\
    cores_per_proc\tnum_procs\tmem_size\tdisk_size\tup_bw\tdown_bw\tmetric_id\tnotes\n";
const COMPONENT: &str = "# component_id\tnode_id\tplatform_id\tcreator_id\tnode_name\tcomponent_type\ttrace_start\t\
    trace_end\tresolution\n";
const CREATOR: &str =
    "# creator_id\tcomponent_id\tnode_id\tplatform_id\tcreator\tcite\tcopyright\n";
const EVENTS: &str = "# event_id\tcomponent_id\tnode_id\tplatform_id\tnode_name\tevent_type\tevent_start_time\t\
    event_stop_time\tevent_end_reason\n";
const STATES: &str = "# event_id\tcomponent_id\tnode_id\tplatform_id\ti_val\tf_val\ts_val\n";

impl Trace {
    /// Writes FTA tables into `dir`, which is created if missing. In `event_state`, `f_val` is the
    /// part of the processor, `i_val` whether the owner used the host, and `s_val` the reason; a
    /// reason that is a number is written as the `event_end_reason`. `proc_model` is the clock
    /// rate. Nothing of the trace is lost.
    ///
    /// # Errors
    /// If a host's name cannot be written in the format, or a file cannot be written.
    pub fn write_fta(&self, dir: &Path) -> Result<(), TraceError> {
        if let Some(host) = self.hosts.iter().find(|host| !stands(&host.name)) {
            return Err(TraceError::NotAWord(host.name.clone()));
        }

        fs::create_dir_all(dir).map_err(TraceError::io(dir))?;
        for (name, text) in self.tables() {
            let file = dir.join(name);
            fs::write(&file, text).map_err(TraceError::io(&file))?;
        }

        Ok(())
    }

    fn tables(&self) -> [(&'static str, String); 6] {
        let platform = format!("{PLATFORM}1\tdeskgrid\tNULL\tDesktop Grid\tNULL\n");
        let mut nodes = NODE.to_owned();
        let mut components = COMPONENT.to_owned();
        let mut creators = CREATOR.to_owned();
        let mut events = EVENTS.to_owned();
        let mut states = STATES.to_owned();

        for (n, host) in self.hosts.iter().enumerate() {
            let id = n + 1;
            let name = &host.name;
            let _ = write!(
                nodes,
                "{id}\t1\t{name}\t{NULL}\t{NULL}\tUTC\t{} MHz",
                host.clock_mhz
            );

            nodes += &format!("\t{NULL}").repeat(9);
            nodes.push('\n');

            let at =
                |s: Option<f64>| s.map_or_else(|| NULL.to_owned(), |s| absolute(self.origin_s, s));

            let start = at(host.segments.first().map(|segment| segment.start_s));
            let end = at(host.segments.last().map(|segment| segment.end_s));
            let _ = writeln!(
                components,
                "0\t{id}\t1\t1\t{name}\tCPU availability\t{start}\t{end}\t{NULL}"
            );
            let _ = writeln!(creators, "1\t0\t{id}\t1\tdeskgrid\t{NULL}\t{NULL}");
            self.add_events((id, host), &mut events, &mut states);
        }

        [
            ("platform.tab", platform),
            ("node.tab", nodes),
            ("component.tab", components),
            ("creator.tab", creators),
            ("event_trace.tab", events),
            ("event_state.tab", states),
        ]
    }

    fn add_events(
        &self,
        (id, host): (usize, &TracedHost),
        events: &mut String,
        states: &mut String,
    ) {
        let name = &host.name;
        for (n, (segment, note)) in host.noted().enumerate() {
            let at = |s: f64| absolute(self.origin_s, s);
            let start = at(segment.start_s);
            let end = at(segment.end_s);
            let kind = u8::from(segment.up);
            let reason = note
                .reason
                .as_deref()
                .filter(|reason| is_code(reason))
                .unwrap_or(NULL);
            let _ = writeln!(
                events,
                "{n}\t0\t{id}\t1\t{name}\t{kind}\t{start}\t{end}\t{reason}"
            );

            if has_state(&segment, &note) {
                let owner = note
                    .owner_active
                    .map_or_else(|| NULL.to_owned(), |active| u8::from(active).to_string());
                let word = note
                    .reason
                    .as_deref()
                    .filter(|reason| !is_code(reason) && stands(reason));
                let _ = writeln!(
                    states,
                    "{n}\t0\t{id}\t1\t{owner}\t{}\t{}",
                    segment.cpu,
                    word.unwrap_or(NULL)
                );
            }
        }
    }
}

/// Whether a segment needs a line in `event_state`: more is known of it than the event itself says.
fn has_state(segment: &Segment, note: &Note) -> bool {
    let whole = if segment.up { 1.0 } else { 0.0 };
    let code = note.reason.as_deref().is_none_or(is_code);
    segment.cpu.to_bits() != f64::to_bits(whole) || note.owner_active.is_some() || !code
}

/// Whether a reason is one of a site's numbers.
fn is_code(reason: &str) -> bool {
    !reason.is_empty() && reason.len() < 10 && reason.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a text is read back as it was written.
fn stands(text: &str) -> bool {
    !text.is_empty()
        && text.trim() == text
        && !text.eq_ignore_ascii_case(NULL)
        && !text.contains(|c: char| c.is_control())
}
