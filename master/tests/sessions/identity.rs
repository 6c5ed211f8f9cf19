//! Tokens, certificates and users against a real master: who is let in, what is refused in which
//! words, and that the audit log has it.

use common::identity::{AuditView, IdentityState, IdentityView};
use common::wire::enrol::{Enrol, EnrolReply, WantedRole};
use link::JoiningKey;
use link::renewal::{self, renew};
use master::operations::{self, BreakOff};

use super::*;

pub(super) async fn audit(master: &Master) -> Vec<AuditView> {
    let asked = Request::Audit { most: 1_000 };
    let replies = within(master.admin().await.ask(&asked)).await.unwrap();
    let entries = replies.into_iter().flat_map(|reply| match reply {
        Reply::Audit(some) => some,
        other => panic!("{other:?}"),
    });
    entries.collect()
}

/// Waits until the audit log has an entry whose words are these.
pub(super) async fn audited(
    master: &Master,
    who: &str,
    what: &str,
    allowed: bool,
    why: &str,
) -> AuditView {
    within(async {
        loop {
            let fits = |e: &AuditView| {
                e.who == who && e.what == what && e.allowed == allowed && e.why.contains(why)
            };
            if let Some(found) = audit(master).await.into_iter().find(fits) {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
}

async fn identities(master: &Master, request: Request) -> Vec<IdentityView> {
    let replies = within(master.admin().await.ask(&request)).await;
    match replies.unwrap().remove(0) {
        Reply::Identities(views) => views,
        other => panic!("{other:?}"),
    }
}

async fn revoke(master: &Master, name: &str) -> IdentityView {
    identities(master, Request::Revoke { name: name.into() })
        .await
        .remove(0)
}

/// Why a connection with this identity is not kept.
async fn turned_away(identity: &Identity, purpose: Purpose) -> LinkError {
    match link::connect(identity, purpose).await {
        Ok(connection) => within(connection.closed()).await,
        Err(error) => error,
    }
}

fn says(error: &LinkError, words: &str) {
    assert!(
        matches!(error, LinkError::NotAccepted(_)) && error.to_string().contains(words),
        "{error:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_host_is_disconnected_and_its_tasks_run_elsewhere() {
    let mut master = Master::start().await;
    let pc = master.enrol(Role::Worker, "pc").await;
    let mut worker = master.worker(&pc, Vec::new()).await;
    let (job, _) = submit(&master.admin().await, 1, &noops(1)).await.unwrap();
    let first = worker.assignments(1).await.remove(0).attempt;
    let mut other = master.host("other").await;

    assert_eq!(revoke(&master, "pc").await.state, IdentityState::Revoked);
    says(&within(worker.connection.closed()).await, "revoked");

    let second = other.assignments(1).await.remove(0).attempt;
    assert_eq!((second.task, second.number), (first.task, 2));
    says(&turned_away(&pc, Purpose::Worker).await, "revoked");

    let view = task(&master.admin().await, job).await;
    assert!(
        view.attempts[0]
            .reason
            .as_ref()
            .is_some_and(|why| why.contains("its host was revoked")),
        "{view:?}"
    );

    audited(&master, "admin", "revoke", true, "").await;
    audited(&master, "pc", "connect", false, "revoked").await;

    // Also after a restart.
    master.restart().await;
    says(
        &turned_away(&towards(&master, &pc), Purpose::Worker).await,
        "revoked",
    );

    let why = "its identity was revoked".to_owned();
    assert_eq!(state_of(&master, "pc").await, (HostState::Lost, why));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_user_is_put_out_of_every_connection_and_its_name_is_not_given_again() {
    let master = Master::start().await;
    let ann = master.enrol(Role::Client, "ann").await;
    let one = Client::connect(&ann).await.unwrap();
    let two = Client::connect(&ann).await.unwrap();

    submit(&one, 1, &noops(1)).await.unwrap();
    let names = vec!["ann".to_owned()];
    let views = identities(&master, Request::Identities { names }).await;
    assert_eq!(views[0].connections, 2);

    assert_eq!(revoke(&master, "ann").await.state, IdentityState::Revoked);
    for client in [one, two] {
        says(&within(client.connection().closed()).await, "revoked");
    }

    says(&Client::connect(&ann).await.err().unwrap(), "revoked");
    assert_eq!(
        master.enrol(Role::Client, "ann").await.link.name,
        "ann-2",
        "who could see the jobs of the first"
    );

    let admin = master.admin().await;
    for (name, why) in [
        ("zoe", RefusalCode::NotFound),
        ("admin", RefusalCode::Conflict),
    ] {
        let name = name.to_owned();
        let refused = refusal(&admin, &Request::Revoke { name }).await;
        assert_eq!(code(&refused), why, "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_is_renewed_with_a_new_key_and_the_old_one_works_until_the_new_one_is_used() {
    let master = Master::start().await;
    let pc = master.enrol(Role::Worker, "pc").await;
    let worker = master.worker(&pc, Vec::new()).await;
    let lost = renew(&worker.connection, &pc).await.unwrap();
    assert_ne!(lost.key, pc.key);

    // The answer was lost: the old one still works, and renews again.
    let worker = master.worker(&pc, Vec::new()).await;
    let renewed = renew(&worker.connection, &pc).await.unwrap();
    assert_eq!(renewed.link, pc.link);
    master.worker(&renewed, Vec::new()).await;

    for old in [&pc, &lost] {
        let error = turned_away(old, Purpose::Worker).await;
        assert!(matches!(error, LinkError::NotAccepted(_)), "{error:?}");
    }

    // Two copies of one identity: the one that did not renew is noticed, and cannot push out the
    // one that did.
    let mut worker = master.worker(&renewed, Vec::new()).await;
    for _ in 0..6 {
        says(
            &turned_away(&pc, Purpose::Worker).await,
            "renewed elsewhere",
        );
    }

    worker.tell(heartbeat(Vec::new())).await;

    assert!(matches!(worker.next().await, ToWorker::Beat { .. }));
    audited(&master, "pc", "connect", false, "renewed elsewhere").await;
    audited(&master, "pc", "renew", true, "").await;

    let clients = master.enrol(Role::Client, "ann").await;
    let connection = link::connect(&clients, Purpose::Client).await.unwrap();
    Client::connect(&renew(&connection, &clients).await.unwrap())
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn renewals_of_one_identity_are_bounded() {
    let master = Master::start().await;
    let ann = master.enrol(Role::Client, "ann").await;
    let connection = link::connect(&ann, Purpose::Client).await.unwrap();
    for _ in 0..10 {
        renew(&connection, &ann).await.unwrap();
    }
    assert_eq!(
        code(&renew(&connection, &ann).await.err().unwrap()),
        RefusalCode::Unavailable
    );
    audited(&master, "ann", "renew", false, "too often").await;
}

/// Waits until the certificate has expired.
pub(super) async fn expired(identity: &Identity) {
    let until_s = link::Validity::of(&identity.certificate).unwrap().until_s;
    eventually(async || renewal::now_s() > until_s).await;
}

fn short_lives(config: &mut Config) {
    config.certificate_life = ConfigDuration(Duration::from_secs(2));
}

fn short_lives_and_no_grace(config: &mut Config) {
    short_lives(config);
    config.renewal_grace = ConfigDuration(Duration::ZERO);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_certificate_is_refused_and_its_open_connections_end_unless_it_was_renewed() {
    let lives = |config: &mut Config| {
        config.certificate_life = ConfigDuration(Duration::from_secs(8));
    };
    let master = Master::with(lives).await;
    let ann = master.enrol(Role::Client, "ann").await;
    let of_ann = Client::connect(&ann).await.unwrap();
    let bob = master.enrol(Role::Client, "bob").await;
    let of_bob = Client::connect(&bob).await.unwrap();
    expired(&ann).await;
    renew(of_bob.connection(), &bob).await.ok();
    says(&within(of_ann.connection().closed()).await, "expired");
    says(&Client::connect(&ann).await.err().unwrap(), "expired");
    audited(&master, "ann", "connect", false, "has expired").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_identity_that_is_kept_fresh_outlives_its_certificate_and_so_do_its_connections() {
    let lives = |config: &mut Config| {
        config.certificate_life = ConfigDuration(Duration::from_secs(12));
    };
    let master = Master::with(lives).await;
    let ann = master.enrol(Role::Client, "ann").await;
    let of_ann = Client::connect(&ann).await.unwrap();
    let home = tempfile::tempdir().unwrap();
    ann.save(home.path()).unwrap();

    let dir = home.path().to_owned();
    let known = ann.certificate.clone();
    let keeps =
        tokio::spawn(async move { renewal::keep_fresh(&dir, Purpose::Client, &known).await });
    expired(&ann).await;
    submit(&of_ann, 1, &noops(1)).await.unwrap();
    let renewed = Identity::load(home.path()).unwrap();
    Client::connect(&renewed).await.unwrap();
    assert!(!keeps.is_finished());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_worker_that_the_table_knows_renews_its_certificate_and_a_user_does_not() {
    let mut master = Master::with(short_lives_and_no_grace).await;
    let pc = master.enrol(Role::Worker, "pc").await;
    let gone = master.enrol(Role::Worker, "gone").await;
    let ann = master.enrol(Role::Client, "ann").await;
    for identity in [&pc, &gone, &ann] {
        expired(identity).await;
    }

    master.settings = |config| config.renewal_grace = ConfigDuration(Duration::ZERO);
    master.restart().await;
    revoke(&master, "gone").await;

    for (identity, purpose, why) in [
        (&gone, Purpose::Worker, "revoked"),
        (&ann, Purpose::Client, "by the master's clock"),
    ] {
        let home = tempfile::tempdir().unwrap();
        towards(&master, identity).save(home.path()).unwrap();
        let error = within(renewal::fresh(home.path(), purpose, None))
            .await
            .err()
            .unwrap();
        says(&error, why);
    }

    let home = tempfile::tempdir().unwrap();
    towards(&master, &pc).save(home.path()).unwrap();

    let fresh = within(renewal::fresh(home.path(), Purpose::Worker, None))
        .await
        .unwrap();
    master.worker(&fresh, Vec::new()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_expired_while_the_master_was_away_is_renewed_and_nothing_else() {
    let mut master = Master::with(short_lives).await;
    let pc = master.enrol(Role::Worker, "pc").await;
    let home = tempfile::tempdir().unwrap();
    pc.save(home.path()).unwrap();
    master.stop().await;
    expired(&pc).await;
    master.settings = |_| ();
    master.again().await;

    let pc = towards(&master, &pc);
    pc.save(home.path()).unwrap();

    let connection = link::connect(&pc, Purpose::Worker).await.unwrap();
    if let Ok(mut control) = connection.open(&Open::Control).await {
        // The master may be quicker.
        let _ = control.tx.send(&hello(Vec::new())).await;
    }

    says(&within(connection.closed()).await, "only a renewal");
    let fresh = within(renewal::fresh(home.path(), Purpose::Worker, None))
        .await
        .unwrap();
    master.worker(&fresh, Vec::new()).await;
    assert_eq!(Identity::load(home.path()).unwrap().key, fresh.key);

    // Without the grace it is not.
    master.restart_with(short_lives_and_no_grace).await;
    let late = master.enrol(Role::Client, "late").await;
    master.stop().await;
    expired(&late).await;
    master.again().await;

    let late = towards(&master, &late);
    tokio::time::sleep(Duration::from_millis(5)).await;

    let error = Client::connect(&late).await.err().unwrap();
    assert!(
        matches!(&error, LinkError::NotAccepted(why) if why.contains("expired")),
        "{error:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn who_renewed_after_a_backup_is_let_in_by_the_master_that_is_restored_from_it() {
    if database::is_used() {
        return; // A backup of a database is restored into a file.
    }
    let mut master = Master::start().await;
    let pc = master.enrol(Role::Worker, "pc").await;
    let ann = master.enrol(Role::Client, "ann").await;
    let backups = tempfile::tempdir().unwrap();
    let from = master.dir.path().to_owned();
    let to = backups.path().join("copy");
    let backup = move || operations::backup(&from, &to, &Config::default(), &BreakOff::default());
    tokio::task::spawn_blocking(backup).await.unwrap().unwrap();

    // The copy knows nothing of what follows. The new certificates end earlier than those that it knows.
    let late = master.enrol(Role::Worker, "late").await;
    let lives = |config: &mut Config| {
        config.certificate_life = ConfigDuration(Duration::from_secs(7 * 86_400));
    };
    master.restart_with(lives).await;
    let worker = master.worker(&pc, Vec::new()).await;
    let new_pc = renew(&worker.connection, &towards(&master, &pc))
        .await
        .unwrap();
    let ann = towards(&master, &ann);
    let client = Client::connect(&ann).await.unwrap();
    let new_ann = renew(client.connection(), &ann).await.unwrap();
    master.stop().await;

    let elsewhere = tempfile::tempdir().unwrap();
    let from = backups.path().join("copy");
    let to = elsewhere.path().to_owned();
    let restore = move || operations::restore(&from, &to, &BreakOff::default());
    tokio::task::spawn_blocking(restore).await.unwrap().unwrap();
    master.dir = elsewhere;
    master.again().await;

    master.worker(&new_pc, Vec::new()).await;
    Client::connect(&towards(&master, &new_ann)).await.unwrap();
    for who in ["pc", "ann"] {
        audited(&master, who, "renew", true, "after the copy").await;
    }
    for (identity, why) in [(&pc, "renewed elsewhere"), (&late, "not known here")] {
        let identity = towards(&master, identity);
        says(&turned_away(&identity, Purpose::Worker).await, why);
    }
}

/// A token for hosts, each of which an admin has to approve.
async fn approval_token(master: &Master, uses: u32) -> JoinToken {
    let request = Request::TokenCreate {
        role: Role::Worker,
        ttl: Span::from_secs(60),
        uses,
        name: String::new(),
        approval: true,
        speaks_for: None,
    };
    match master.admin().await.ask(&request).await.unwrap().remove(0) {
        Reply::Token(token, ..) => token,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_joiner_with_an_approval_token_waits_for_an_admin() {
    let master = Master::start().await;
    let token = approval_token(&master, 2).await;
    let pc = link::enrol(&master.address(), &token, "pc").await.unwrap();
    let waits = turned_away(&pc, Purpose::Worker).await;
    assert!(
        waits.passing() && waits.to_string().contains("waits for an admin"),
        "{waits:?}"
    );

    let all = identities(&master, Request::Identities { names: Vec::new() }).await;
    let states: Vec<_> = all
        .iter()
        .map(|view| (view.name.as_str(), view.role, view.state))
        .collect();
    assert_eq!(
        states,
        [
            ("admin", Role::Admin, IdentityState::Active),
            ("pc", Role::Worker, IdentityState::Waiting)
        ]
    );

    let approved = identities(&master, Request::Approve { name: "pc".into() })
        .await
        .remove(0);
    assert_eq!(approved.state, IdentityState::Active);
    master.worker(&pc, Vec::new()).await;
    audited(&master, "admin", "approve", true, "").await;

    let later = link::enrol(&master.address(), &token, "later")
        .await
        .unwrap();
    revoke(&master, "later").await;
    says(&turned_away(&later, Purpose::Worker).await, "revoked");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_identity_is_not_approved_any_more() {
    let master = Master::start().await;
    let token = approval_token(&master, 1).await;
    let pc = link::enrol(&master.address(), &token, "pc").await.unwrap();
    revoke(&master, "pc").await;

    let approve = Request::Approve { name: "pc".into() };
    let refused = master.admin().await.ask(&approve).await.err().unwrap();
    assert_eq!(code(&refused), RefusalCode::Conflict, "{refused}");
    assert!(refused.to_string().contains("was revoked"), "{refused}");
    audited(&master, "admin", "approve", false, "revoked").await;

    says(&turned_away(&pc, Purpose::Worker).await, "revoked");
    let names = vec!["pc".to_owned()];
    let views = identities(&master, Request::Identities { names }).await;
    assert_eq!(views[0].state, IdentityState::Revoked);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_not_used_up_by_a_join_whose_answer_was_lost() {
    let master = Master::start().await;
    let token = master.token(Role::Worker, 1).await;
    let dir = tempfile::tempdir().unwrap();
    let join = async || {
        let key = JoiningKey::kept_in(dir.path())?;
        link::enrol_as(&master.address(), &token, &key, "pc", WantedRole::Worker).await
    };

    // The process that asked first ends before it has saved anything.
    let unsaved = join().await.unwrap();
    let joined = join().await.unwrap();
    assert_eq!(joined.link.name, "pc");
    let [unsaved, joined_key] = [&unsaved, &joined].map(|of| of.key.secret_pkcs8_der().to_vec());
    assert_eq!(unsaved, joined_key);

    // Once the identity is there, another join is for another key, and needs another use.
    joined.save(dir.path()).unwrap();
    assert_eq!(
        code(&join().await.err().unwrap()),
        RefusalCode::NotAuthorised
    );
}

/// The state of a host, with its reason.
async fn state_of(master: &Master, name: &str) -> (HostState, String) {
    let views = host_views(&master.admin().await, vec![name.to_owned()]).await;
    let reason = views[0].reason.clone();
    (views[0].state, reason.unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_waits_for_approval_is_listed_with_the_command_that_lets_it_in() {
    let mut master = Master::start().await;
    let token = approval_token(&master, 1).await;
    let pc = link::enrol(&master.address(), &token, "pc").await.unwrap();

    let command = "deskgrid identity approve pc";
    assert!(state_of(&master, "pc").await.1.contains(command));
    master.restart().await;
    assert!(state_of(&master, "pc").await.1.contains(command));

    identities(&master, Request::Approve { name: "pc".into() }).await;
    assert!(!state_of(&master, "pc").await.1.contains(command));
    let _worker = master.worker(&towards(&master, &pc), Vec::new()).await;
    assert_eq!(
        state_of(&master, "pc").await,
        (HostState::Ready, String::new())
    );

    revoke(&master, "pc").await;
    assert!(state_of(&master, "pc").await.1.contains("revoked"));
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_tokens_from_one_address_are_counted_and_then_not_even_looked_at() {
    let master = Master::start().await;
    let token = master.token(Role::Worker, 1).await;
    let mut codes = Vec::new();

    for guess in 0..8 {
        let guessed = JoinToken {
            secret: [guess; 16],
            ..token.clone()
        };
        codes.push(code(&refused_join(&master, &guessed).await));
    }

    assert_eq!(codes[..5], [RefusalCode::NotAuthorised; 5]);
    assert_eq!(codes[5..], [RefusalCode::Unavailable; 3]);

    // Nor is the right one, for a while.
    assert!(refused_join(&master, &token).await.passing());

    audited(&master, "127.0.0.1", "enrol", false, "no such join token").await;
    audited(&master, "127.0.0.1", "enrol", false, "too many wrong").await;
}

/// A joiner that asks with one key as often as it is told to, and hears the answer or not.
async fn redeem(master: &Master, token: &JoinToken, csr: &[u8], hears: bool) -> Option<EnrolReply> {
    let nobody = Identity {
        ..master.enrol(Role::Client, "someone").await
    };
    let connection = link::connect(&nobody, Purpose::Enrol).await.unwrap();
    let mut channel = connection.open_bare().await.unwrap();
    let csr = csr.to_vec();
    let name = "pc".to_owned();
    let request = Enrol {
        versions: Versions::ours(),
        token: token.id,
        secret: token.secret,
        csr,
        name,
        wanted: WantedRole::Any,
    };
    channel.tx.send(&request).await.unwrap();

    channel.tx.finish();
    if !hears {
        // Gone once the master has the question.
        channel.tx.delivered().await;
        return None;
    }

    Some(within(channel.rx.expect()).await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_joiner_whose_answer_was_lost_repeats_it_with_the_same_key_only() {
    let mut master = Master::start().await;
    let token = master.token(Role::Worker, 1).await;
    let key = rcgen::KeyPair::generate().unwrap();
    let csr = |key| {
        rcgen::CertificateParams::default()
            .serialize_request(key)
            .unwrap()
            .der()
            .to_vec()
    };
    assert!(redeem(&master, &token, &csr(&key), false).await.is_none());
    audited(&master, "pc", "enrol", true, "").await;

    master.restart().await;

    let again = redeem(&master, &token, &csr(&key), true).await.unwrap();
    assert!(
        matches!(&again, EnrolReply::Enrolled { name, .. } if name == "pc"),
        "{again:?}"
    );

    let other = rcgen::KeyPair::generate().unwrap();
    let refused = redeem(&master, &token, &csr(&other), true).await.unwrap();
    assert!(
        matches!(&refused, EnrolReply::Refused(r) if r.message.contains("used up")),
        "{refused:?}"
    );

    let hosts = host_views(&master.admin().await, Vec::new()).await;
    assert_eq!(hosts.len(), 1, "{hosts:?}");
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::too_many_lines, reason = "one story")]
async fn another_users_job_is_not_there_unless_it_is_shared_and_is_then_only_to_look_at() {
    let master = Master::start().await;
    let ann = master.user("ann").await;
    let bob = master.user("bob").await;
    let (job, _) = submit(&ann, 1, &noops(1)).await.unwrap();
    let mut worker = master.host("pc").await;
    let attempt = worker.assignments(1).await.remove(0).attempt;

    let result = link::content::hash_bytes(&[7; 9_000]);
    link::content::put_bytes(&worker.connection, &[7; 9_000], result)
        .await
        .unwrap();
    worker.stdout = Content::Blob(result);

    let look = |job| {
        let states = Vec::new();
        [
            Request::Jobs {
                jobs: one(job),
                states: Vec::new(),
            },
            Request::Tasks {
                job,
                tasks: Selector::All,
                states,
            },
            Request::Outputs {
                job,
                tasks: Selector::All,
            },
            Request::Explain { job },
            Request::Watch {
                jobs: one(job),
                quiet: true,
                timeout: Some(Span::from_millis(1)),
            },
        ]
    };

    let touch = |job| {
        [
            Request::Cancel {
                jobs: one(job),
                tasks: None,
            },
            Request::Retry {
                job,
                tasks: Selector::All,
                only_failed: false,
            },
            Request::Forget { jobs: one(job) },
            Request::Share {
                jobs: one(job),
                user: "bob".into(),
                on: true,
            },
        ]
    };
    for request in look(job).into_iter().chain(touch(job)) {
        let refused = refusal(&bob, &request).await;
        assert_eq!(code(&refused), RefusalCode::NotFound, "{request:?}");
    }

    audited(&master, "bob", "job", false, "another user's").await;
    // Nor in lists, of jobs or of what hosts hold; `all` and `last` are bob's own; the request id
    // tells nothing.
    for jobs in [Selector::All, Selector::Ids(IdSet::new())] {
        let listed = job_views(&bob, jobs, Vec::new()).await;
        assert!(listed.is_empty(), "{listed:?}");
    }

    let cancelled = cancel(&bob, Selector::All).await;
    assert!(cancelled.is_empty(), "{cancelled:?}");

    for (client, held) in [(&bob, vec![]), (&ann, vec![attempt])] {
        let hosts = host_views(client, Vec::new()).await;
        assert_eq!(hosts[0].attempts, held);
    }
    for spec in [noops(1), noops(2)] {
        let clash = submit(&bob, 1, &spec).await.err().unwrap();
        assert!(
            code(&clash) == RefusalCode::Conflict
                && !clash.to_string().contains(&format!("job {job}")),
            "{clash}"
        );
    }

    worker.finish(attempt).await;

    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("stolen");
    assert_eq!(
        code(&bob.fetch(result, &target).await.err().unwrap()),
        RefusalCode::NotFound
    );
    audited(&master, "bob", "read", false, "").await;

    assert_eq!(share(&ann, one(job), "bob", true).await, [(job, 1)]);
    for request in look(job) {
        bob.ask(&request).await.unwrap();
    }

    // Each refusal is one entry, with the words that bob reads.
    let entries = async |what: &str, why: &str| -> u32 {
        let all = audit(&master).await.into_iter();
        let of_bob = all.filter(|entry| entry.who == "bob" && entry.what == what);
        let found = of_bob.filter(|entry| entry.why.contains(why));
        found.map(|entry| entry.count).sum()
    };
    let before = entries("job", "").await;
    for request in touch(job) {
        let refused = refusal(&bob, &request).await;
        assert_eq!(code(&refused), RefusalCode::NotAuthorised, "{request:?}");
    }
    let told = entries("request", "shared with you to look at").await;
    assert_eq!(told as usize, touch(job).len());
    assert_eq!(entries("job", "").await, before);

    bob.fetch(result, &target).await.unwrap();
    share(&ann, one(job), "bob", false).await;
    for request in look(job) {
        let refused = refusal(&bob, &request).await;
        assert_eq!(code(&refused), RefusalCode::NotFound, "{request:?}");
    }

    let stranger = Request::Share {
        jobs: one(job),
        user: "pc".into(),
        on: true,
    };
    let refused = refusal(&ann, &stranger).await;
    assert_eq!(code(&refused), RefusalCode::NotFound, "a host is no user");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_of_a_worker_that_comes_back_after_another_took_its_place_is_sent_away() {
    let master = Master::start().await;
    let pc = master.enrol(Role::Worker, "pc").await;
    let run = |n| ToMaster::Instance(uuid::Uuid::from_u128(n));

    // A heartbeat is answered once what came before it was looked at.
    let settle = async |worker: &mut Worker| {
        worker.tell(heartbeat(Vec::new())).await;
        worker.next().await
    };

    for n in [1, 1, 2, 3] {
        let mut worker = master.worker(&pc, Vec::new()).await;
        worker.tell(run(n)).await;
        assert!(
            matches!(settle(&mut worker).await, ToWorker::Beat { .. }),
            "run {n}: a restart is no copy"
        );
    }

    for _ in 0..3 {
        let mut copy = master.worker(&pc, Vec::new()).await;
        copy.tell(run(2)).await;

        let answer = settle(&mut copy).await;
        assert!(
            matches!(&answer, ToWorker::Refused(r) if r.message.contains("another worker")),
            "{answer:?}"
        );
    }

    let mut kept = master.worker(&pc, Vec::new()).await;
    kept.tell(run(3)).await;
    assert!(
        matches!(settle(&mut kept).await, ToWorker::Beat { .. }),
        "one of the two goes on"
    );
    audited(&master, "pc", "clone", false, "another worker").await;
    let entries = audit(&master).await;
    let clones = entries.iter().filter(|entry| entry.what == "clone");
    assert_eq!(clones.count(), 1, "it does not fill the log");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ca_gives_way_to_another_while_both_are_trusted_and_then_the_old_one_is_nothing() {
    if database::is_used() {
        return; // This works on files alone.
    }
    let mut master = Master::start().await;
    let old = master.enrol(Role::Worker, "pc").await;
    let old_token = master.token(Role::Worker, 1).await;
    let home = tempfile::tempdir().unwrap();

    master.stop().await;
    master::rotate_ca(master.dir.path(), Duration::from_secs(3_600)).unwrap();

    let twice = master::rotate_ca(master.dir.path(), Duration::from_secs(3_600))
        .err()
        .unwrap();
    assert!(twice.to_string().contains("trusted until"), "{twice}");
    master.again().await;

    // The admin of this machine has the new one at once; the others by renewal; who joins, the one
    // of the token.
    let admin = Identity::load(&master.dir.path().join("client")).unwrap();
    assert_ne!(admin.ca, old.ca);

    let worker = master.worker(&old, Vec::new()).await;
    let renewed = renew(&worker.connection, &towards(&master, &old))
        .await
        .unwrap();
    assert_eq!(renewed.ca, admin.ca);
    master.worker(&renewed, Vec::new()).await;

    let by_old_token = link::enrol(&master.address(), &old_token, "late")
        .await
        .unwrap();
    assert_eq!(by_old_token.ca, old.ca);
    master.worker(&by_old_token, Vec::new()).await;

    let by_new_token = master.enrol(Role::Worker, "new").await;
    assert_eq!(by_new_token.ca, admin.ca);
    master.worker(&by_new_token, Vec::new()).await;

    let forgotten = by_old_token;
    forgotten.save(home.path()).unwrap();

    // The overlap is over.
    master.stop().await;
    let generations = master.dir.path().join("master/ca.toml");
    let text = std::fs::read_to_string(&generations).unwrap();
    let until = text
        .lines()
        .find(|line| line.starts_with("until_s"))
        .unwrap();
    std::fs::write(&generations, text.replace(until, "until_s = 1")).unwrap();
    master.again().await;

    assert!(
        !master.dir.path().join("master/ca.key.der").exists(),
        "nobody signs with it any more"
    );
    master.worker(&renewed, Vec::new()).await;

    let error = turned_away(&towards(&master, &forgotten), Purpose::Worker).await;
    assert!(matches!(error, LinkError::WrongMaster { .. }), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_master_that_runs_on_drops_the_old_ca_when_the_overlap_is_over() {
    if database::is_used() {
        return; // This works on files alone.
    }
    let mut master = Master::start().await;
    let old = master.enrol(Role::Worker, "pc").await;
    master.stop().await;
    master::rotate_ca(master.dir.path(), Duration::from_secs(10)).unwrap();
    master.again().await;
    let certificate = master.dir.path().join("master/ca.der");
    assert!(
        certificate.exists(),
        "the start took longer than the overlap"
    );

    // Its files go last.
    eventually(async || !certificate.exists()).await;
    let error = turned_away(&towards(&master, &old), Purpose::Worker).await;
    assert!(matches!(error, LinkError::WrongMaster { .. }), "{error:?}");

    let new = master.enrol(Role::Worker, "new").await;
    master.worker(&new, Vec::new()).await;
    master.restart().await;
    master.worker(&new, Vec::new()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_local_admin_with_an_expired_certificate_is_let_in_after_a_restart() {
    let mut master = Master::start().await;
    let client = master.dir.path().join("client");
    std::fs::remove_dir_all(&client).unwrap();
    master.restart_with(short_lives).await;

    let before = Identity::load(&client).unwrap();
    expired(&before).await;
    master.restart_with(|_| ()).await;
    assert_eq!(
        (master.admin().await.user(), before.link.name.as_str()),
        ("admin-2", "admin-2")
    );
    assert_ne!(Identity::load(&client).unwrap().key, before.key);
    let names = vec![before.link.name.clone()];
    let views = identities(&master, Request::Identities { names }).await;
    assert_eq!(views.len(), 1);
}
