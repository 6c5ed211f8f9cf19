//! Values of the messages between a gateway and the master, every field different from its default.

use common::Incarnation;
use common::content::BlobHash;
use common::wire::gateway::{FromGateway, GatewaySession, NeedsReply, ToGateway};
use common::wire::stream::{Open, RenewalProof};
use common::wire::{Refusal, RefusalCode, Versions};
use uuid::Uuid;

use super::values;

values::variants!(FROM_GATEWAY, from_gateway_name: FromGateway { Control, Pass, Needs, Enrol, Renew });
values::variants!(TO_GATEWAY, to_gateway_name: ToGateway { Welcome, Refused, Close });
values::variants!(NEEDS_REPLIES, needs_reply_name: NeedsReply { Yes, No });

fn refusal() -> Refusal {
    Refusal::new(RefusalCode::NotFound, "it is not here", "ask elsewhere")
}

pub(super) fn from_gateway() -> Vec<FromGateway> {
    let session = GatewaySession {
        number: 1 << 40,
        peer: Uuid::from_u128(0xabcd << 64),
        key: [7; 32],
        until_s: 1 << 31,
        from: [10, 0, 0, 7].into(),
    };
    let versions = Versions {
        min: 1,
        max: 2,
        program: "0.9".to_owned(),
    };
    vec![
        FromGateway::Control { versions },
        FromGateway::Pass(session),
        FromGateway::Needs(session, BlobHash([9; 32])),
        FromGateway::Enrol {
            from: [1_u16; 8].into(),
            wanted: Some("ca-12.deskgrid.internal".to_owned()),
        },
        FromGateway::Renew { csr: vec![1, 2, 3] },
    ]
}

pub(super) fn to_gateway() -> Vec<ToGateway> {
    vec![
        ToGateway::Welcome {
            name: "gw1".to_owned(),
            incarnation: Incarnation(70_000),
        },
        ToGateway::Refused(refusal()),
        ToGateway::Close {
            session: 1 << 40,
            code: 1,
            why: "this identity was revoked".to_owned(),
        },
    ]
}

pub(super) fn needs_replies() -> Vec<NeedsReply> {
    vec![NeedsReply::Yes(1 << 40), NeedsReply::No(refusal())]
}

/// A renewal by way of a gateway.
pub(super) fn renewal() -> Open {
    Open::RenewProved {
        csr: vec![0x30, 0x82],
        proof: RenewalProof {
            certificate: vec![0x30, 0x81],
            signature: vec![0x30, 0x45],
        },
    }
}
