//! A gateway that lies, against a real master: one that was broken into speaks for the workers that are
//! connected to it, and gets no certificate for them.

use common::content::BlobHash;
use common::wire::enrol::EnrolReply;
use common::wire::gateway::{FromGateway, GatewaySession, ToGateway};
use common::wire::stream::{GetReply, RenewalProof};
use link::identity::read_certificate;
use link::renewal::now_s;
use link::{Validity, proof};
use rcgen::{CertificateParams, KeyPair};

use super::*;

/// A scripted gateway, welcome.
struct Gateway {
    connection: Connection,
    control: Channel,
}

impl Gateway {
    async fn of(master: &Master) -> Self {
        Self::with(&master.enrol(Role::Gateway, "gw").await).await
    }

    /// The gateway of this identity.
    async fn with(identity: &Identity) -> Self {
        let connection = link::connect(identity, Purpose::Gateway).await.unwrap();
        let mut control = connection.open_bare().await.unwrap();
        let versions = Versions::ours();
        let greeting = FromGateway::Control { versions };
        control.tx.send(&greeting).await.unwrap();
        let welcome = within(control.rx.expect::<ToGateway>()).await.unwrap();
        assert!(matches!(welcome, ToGateway::Welcome { .. }), "{welcome:?}");
        Self {
            connection,
            control,
        }
    }

    /// A stream of a worker's session that begins with this.
    async fn pass(&self, shown: GatewaySession, open: &Open) -> Channel {
        let mut channel = self.connection.open_bare().await.unwrap();
        channel.tx.send(&FromGateway::Pass(shown)).await.unwrap();
        channel.tx.send(open).await.unwrap();
        channel
    }

    /// A control stream of a worker's session, welcome.
    async fn control(&self, shown: GatewaySession) -> Channel {
        let mut control = self.pass(shown, &Open::Control).await;
        control.tx.send(&hello(Vec::new())).await.unwrap();
        let welcome = within(control.rx.expect::<ToWorker>()).await.unwrap();
        assert!(matches!(welcome, ToWorker::Welcome { .. }), "{welcome:?}");
        control
    }

    /// Returns the reason for which the master ends this session.
    async fn ends(&mut self, number: u64) -> String {
        let closed = within(self.control.rx.expect::<ToGateway>()).await.unwrap();
        match closed {
            ToGateway::Close { session, why, .. } if session == number => why,
            other => panic!("{other:?}"),
        }
    }
}

/// A gateway's word for a worker that has shown this certificate, where that ends then.
fn shown(number: u64, pc: &Identity, until_s: i64) -> GatewaySession {
    let (name, key) = read_certificate(&pc.certificate).unwrap();
    GatewaySession {
        number,
        peer: name.id,
        key,
        until_s,
        from: "127.0.0.1".parse().unwrap(),
    }
}

/// The same, where its certificate ends as it says.
fn session(number: u64, pc: &Identity) -> GatewaySession {
    let until_s = Validity::of(&pc.certificate).unwrap().until_s;
    shown(number, pc, until_s)
}

fn request() -> Vec<u8> {
    let key = KeyPair::generate().unwrap();
    let csr = CertificateParams::default().serialize_request(&key);
    csr.unwrap().der().to_vec()
}

/// Something that a worker asks for and does not get, since none of its attempts needs it.
fn asks() -> Open {
    super::content::get(BlobHash([7; 32]))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_gets_no_certificate_for_a_worker_whose_key_it_does_not_hold() {
    let master = Master::start().await;
    let gateway = Gateway::of(&master).await;
    let pc = master.enrol(Role::Worker, "pc").await;
    let other = master.enrol(Role::Worker, "other").await;

    let proved = |csr: &[u8], proof: RenewalProof| Open::RenewProved {
        csr: csr.to_vec(),
        proof,
    };
    let (csr, another) = (request(), request());
    let good = proof::prove(&pc, &csr).unwrap();
    let of_other = proof::prove(&other, &csr).unwrap();
    let mut mixed = of_other.clone();
    mixed.certificate.clone_from(&good.certificate);
    let mut broken = good.clone();
    broken.signature[9] ^= 1;
    let lies = [
        ("nothing", Open::Renew { csr: csr.clone() }),
        ("another key", proved(&csr, of_other)),
        ("another key's signature", proved(&csr, mixed)),
        ("a proof of another request", proved(&another, good.clone())),
        ("a changed signature", proved(&csr, broken)),
    ];
    for (what, open) in &lies {
        let mut channel = gateway.pass(session(1, &pc), open).await;
        let reply = within(channel.rx.expect::<EnrolReply>()).await.unwrap();
        assert!(
            matches!(&reply, EnrolReply::Refused(refusal) if refusal.message.contains("signed by the key")),
            "{what}: {reply:?}"
        );
    }
    super::identity::audited(&master, "pc", "renew", false, "signed by the key").await;

    let mut channel = gateway.pass(session(2, &pc), &proved(&csr, good)).await;
    let reply = within(channel.rx.expect::<EnrolReply>()).await.unwrap();
    assert!(matches!(reply, EnrolReply::Enrolled { .. }), "{reply:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_goes_on_when_its_certificate_has_expired_and_a_newer_one_has_not() {
    let master = Master::start().await;
    let gateway = Gateway::of(&master).await;
    let pc = master.enrol(Role::Worker, "pc").await;
    // The table knows of a certificate that is good for a month.
    let until_s = now_s() + 8;
    let shown = shown(1, &pc, until_s);
    let _control = gateway.control(shown).await;
    eventually(async || now_s() > until_s).await;

    let mut asked = gateway.pass(shown, &asks()).await;
    let reply = within(asked.rx.expect::<GetReply>()).await.unwrap();
    assert!(matches!(reply, GetReply::Refused(_)), "{reply:?}");
}

/// Returns the reason that the list of hosts gives for a host's state.
async fn reason(client: &Client, name: &str) -> Option<String> {
    let views = host_views(client, vec![name.to_owned()]).await;
    views[0].reason.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_the_master_ends_is_over_for_the_core_at_once() {
    let mut master = Master::start().await;
    let mut gw = master.enrol(Role::Gateway, "gw").await;
    // Long enough for a session to begin; the gateway's own certificate is good for a month.
    let short = |config: &mut Config| {
        config.certificate_life = ConfigDuration(Duration::from_secs(8));
    };
    master.restart_with(short).await;
    gw.link.master = master.address();

    let mut gateway = Gateway::with(&gw).await;
    let pc = master.enrol(Role::Worker, "pc").await;
    let _control = gateway.control(session(1, &pc)).await;
    let admin = master.admin().await;
    assert_eq!(reason(&admin, "pc").await, None);

    assert!(gateway.ends(1).await.contains("has expired"));
    let away = Some("not connected at the moment".to_owned());
    eventually(async || reason(&admin, "pc").await == away).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_begins_with_an_expired_certificate_may_renew_it_and_nothing_else() {
    let master = Master::start().await;
    let mut gateway = Gateway::of(&master).await;
    let pc = master.enrol(Role::Worker, "pc").await;
    let expired = |number| shown(number, &pc, now_s() - 10);
    let _asked = gateway.pass(expired(1), &asks()).await;
    assert!(gateway.ends(1).await.contains("only a renewal"));

    let csr = request();
    let proof = proof::prove(&pc, &csr).unwrap();
    let open = Open::RenewProved { csr, proof };
    let mut channel = gateway.pass(expired(2), &open).await;
    let reply = within(channel.rx.expect::<EnrolReply>()).await.unwrap();
    assert!(matches!(reply, EnrolReply::Enrolled { .. }), "{reply:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_whose_certificate_has_expired_by_the_masters_clock_is_told_so() {
    let short = |config: &mut Config| {
        config.certificate_life = ConfigDuration(Duration::from_secs(2));
    };
    let master = Master::with(short).await;
    let identity = master.enrol(Role::Gateway, "gw").await;
    super::identity::expired(&identity).await;

    let connection = link::connect(&identity, Purpose::Gateway).await.unwrap();
    let mut control = connection.open_bare().await.unwrap();
    let versions = Versions::ours();
    let greeting = FromGateway::Control { versions };
    // The master may be quicker.
    let _ = control.tx.send(&greeting).await;
    let why = within(connection.closed()).await;
    assert!(
        matches!(&why, LinkError::NotAccepted(why) if why == link::error::ONLY_A_RENEWAL),
        "{why:?}"
    );
}
