//! Values of the messages about inputs that hosts pass on, every field different from its default.

use common::Span;
use common::content::{BlobHash, BlobRef};
use common::wire::peer::{PeerFailure, PeerGet, PeerReport, PeerSource, PeerTicket, SharingOffer};
use common::wire::stream::{GetReply, Open};
use common::wire::worker::{ToMaster, ToWorker};

pub(super) fn wish_for(hash: BlobHash) -> Open {
    Open::Get {
        hash,
        offset: 70_000,
        peers: true,
        failed: vec![PeerReport {
            ticket: 1 << 41,
            failure: PeerFailure::Damaged,
        }],
    }
}

fn source() -> PeerSource {
    PeerSource {
        addresses: vec![([10, 0, 0, 7], 40_000).into(), ([1_u16; 8], 40_001).into()],
        key: [7; 32],
        ticket: 1 << 42,
    }
}

pub(super) fn replies_to_get() -> Vec<GetReply> {
    vec![
        GetReply::Found(70_000),
        GetReply::Refused(super::values::refusal()),
        GetReply::Waits("another host gets it".into()),
        GetReply::At(source()),
    ]
}

pub(super) fn shares(hash: BlobHash) -> ToMaster {
    ToMaster::Shares(Some(SharingOffer {
        port: 40_002,
        address: [10, 0, 0, 8].into(),
        holds: vec![hash],
    }))
}

pub(super) fn fetched(hash: BlobHash) -> ToMaster {
    ToMaster::Fetched {
        hash,
        ticket: Some(1 << 43),
        bytes: 9_000_000,
    }
}

pub(super) fn serve(blob: BlobRef) -> ToWorker {
    ToWorker::Serve(PeerTicket {
        number: 1 << 44,
        blob,
        fetcher: [8; 32],
        life: Span(11_000_000),
    })
}

pub(super) fn get() -> PeerGet {
    PeerGet {
        ticket: 1 << 46,
        offset: 70_001,
    }
}
