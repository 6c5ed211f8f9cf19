//! The bytes of one value of each message, so that no change of the wire goes unnoticed. After a
//! change that is meant (and a raised `WIRE_VERSION`): `DESKGRID_BLESS=1 cargo test -p tests
//! golden`.

mod gateways;
mod masters;
mod peers;
mod site;
mod updates;
mod values;
mod work;

use std::fmt::Write;

use common::token::hex;
use common::wire::frame::PREFIX;
use common::wire::{decode, encode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{root, text};

const FILE: &str = "tests/golden/wire.txt";

/// Adds a line for each message, and makes sure that each reads back.
fn lines<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(
    out: &mut String,
    family: &str,
    messages: Vec<T>,
    name: fn(&T) -> &'static str,
) {
    for message in messages {
        let frame = encode(&message).expect("short enough");
        assert_eq!(decode::<T>(&frame[PREFIX..]).expect("reads back"), message);
        writeln!(out, "{family}.{} {}", name(&message), hex(&frame))
            .expect("a string takes everything");
    }
}

fn all_lines() -> String {
    let mut out = String::new();
    lines(&mut out, "enrol", vec![values::enrol()], |_| "Enrol");
    lines(
        &mut out,
        "enrol_reply",
        masters::enrol_replies(),
        values::enrol_reply_name,
    );

    lines(&mut out, "open", values::opens(), values::open_name);
    lines(
        &mut out,
        "get_reply",
        peers::replies_to_get(),
        values::name_of_get_reply,
    );

    lines(
        &mut out,
        "put_reply",
        values::put_replies(),
        values::put_reply_name,
    );

    lines(&mut out, "tail", vec![values::tail_part()], |_| "TailPart");

    lines(
        &mut out,
        "to_master",
        values::to_master(),
        values::to_master_name,
    );

    lines(
        &mut out,
        "to_worker",
        values::to_worker(),
        values::to_worker_name,
    );

    lines(
        &mut out,
        "request",
        values::requests(),
        values::request_name,
    );

    let replies = [values::replies(), vec![site::reply(), updates::reply()]].concat();
    lines(&mut out, "reply", replies, values::reply_name);
    lines(&mut out, "peer", vec![peers::get()], |_| "PeerGet");
    lines(
        &mut out,
        "from_gateway",
        gateways::from_gateway(),
        gateways::from_gateway_name,
    );
    lines(
        &mut out,
        "to_gateway",
        gateways::to_gateway(),
        gateways::to_gateway_name,
    );
    lines(
        &mut out,
        "needs_reply",
        gateways::needs_replies(),
        gateways::needs_reply_name,
    );
    out
}

#[test]
fn golden_bytes_of_every_message_are_unchanged() {
    let now = all_lines();
    if std::env::var_os("DESKGRID_BLESS").is_some() {
        std::fs::write(root().join(FILE), &now).expect("the golden file can be written");
    }

    let golden = text(FILE);
    for (ours, theirs) in now.lines().zip(golden.lines()) {
        assert_eq!(
            ours, theirs,
            "the wire has changed: raise WIRE_VERSION and bless, or undo it"
        );
    }

    assert_eq!(
        now.lines().count(),
        golden.lines().count(),
        "messages and golden lines"
    );
}

/// Names are derived by an exhaustive match; this says that the values name each of them, with no
/// second one missing.
#[test]
fn golden_values_cover_every_variant() {
    let names = all_lines();
    let count = |family: &str| {
        let of_family = names
            .lines()
            .filter_map(|l| l.split(' ').next())
            .filter(|n| n.starts_with(family));
        of_family.collect::<std::collections::BTreeSet<_>>().len()
    };

    for (family, variants) in [
        ("enrol_reply.", values::ENROL_REPLIES),
        ("open.", values::OPENS),
        ("get_reply.", values::GET_REPLIES),
        ("put_reply.", values::PUT_REPLIES),
        ("to_master.", values::TO_MASTER),
        ("to_worker.", values::TO_WORKER),
        ("request.", values::REQUESTS),
        ("reply.", values::REPLIES),
        ("from_gateway.", gateways::FROM_GATEWAY),
        ("to_gateway.", gateways::TO_GATEWAY),
        ("needs_reply.", gateways::NEEDS_REPLIES),
    ] {
        assert_eq!(
            count(family),
            variants,
            "{family}: a variant has no golden value"
        );
    }
}
