//! Answers to requests about disclosed jobs and about accounts.

use std::collections::BTreeMap;

use common::selector::Selector;
use common::view::{AccountView, ShareView, SpreadView};
use common::wire::RefusalCode;
use common::wire::client::Reply;
use common::{IdSet, JobId};
use scheduler::billing::{Account, Distribution};

use super::answers::{Answered, Asker, NoAnswer, chosen, refuse};
use crate::core::RequestOutcome;
use crate::core::ask::JobAsk;

/// The most ranges of tasks that a message lists one by one.
const SHOWN_RANGES: usize = 8;

/// The most selected jobs for which settled ones are passed to the core, too, when a user drops
/// their unrequested tasks.
const MOST_SETTLED: u64 = 32;

impl Asker {
    /// Requests disclosed tasks: their user waits for them from now on.
    pub(super) async fn request(&self, job: JobId, tasks: Selector) -> Answered<Reply> {
        self.pick_one(job).await?;
        let spec = self.spec(job).await?;
        let tasks = chosen(job, &tasks, &spec)?;
        let requested: Result<RequestOutcome, _> =
            self.core(JobAsk::Request(job, tasks.clone())).await?;
        let RequestOutcome { new, cancelled } = requested.map_err(NoAnswer::Refused)?;
        if !tasks.is_empty() && cancelled.len() == tasks.len() {
            return Err(all_cancelled(job, &cancelled));
        }
        Ok(Reply::Changed(vec![(job, new)]))
    }

    /// Drops the unrequested tasks of disclosed jobs.
    pub(super) async fn drop_unrequested(&self, jobs: &Selector) -> Answered<Reply> {
        let picked = self.pick(jobs).await?;
        let open = self.open_of(&picked).await?;
        let mut changed = Vec::new();

        for job in picked.iter().map(JobId) {
            // A settled job has nothing to drop; the core still hears of a few of them, since their
            // user needs no more of their results.
            let count = match open.contains(job.0) || picked.len() <= MOST_SETTLED {
                true => self.core(JobAsk::DropUnrequested(job)).await?,
                false => 0,
            };
            changed.push((job, count));
        }

        Ok(Reply::Changed(changed))
    }

    /// The time spent on the client's tasks or, for an admin, on those of `user` or of everybody.
    pub(super) async fn accounts(
        &self,
        user: Option<String>,
        jobs: bool,
    ) -> Answered<Vec<AccountView>> {
        let user = self.account_of(user);
        let mut shares: BTreeMap<String, ShareView> = self.core(JobAsk::UserShares).await?;
        if let Some(user) = &user {
            shares.retain(|name, _| name == user);
        }
        let accounts = self
            .read(move |reader| reader.accounts(user.as_deref(), jobs))
            .await?;

        let mut views = Vec::new();
        for (user, job, (account, kept_bytes)) in accounts {
            let share = job.is_none().then(|| shares.remove(&user)).flatten();
            views.push(view(user, job, &account, kept_bytes, share));
        }
        // Those whose first tasks run have spent nothing yet.
        let account = Account::default();
        views.extend(
            shares
                .into_iter()
                .map(|(user, share)| view(user, None, &account, 0, Some(share))),
        );

        Ok(views)
    }
}

/// The refusal if all tasks to be requested are cancelled.
fn all_cancelled(job: JobId, tasks: &IdSet) -> NoAnswer {
    let are = if tasks.len() == 1 {
        "task is"
    } else {
        "tasks are"
    };

    let (what, which) = match tasks.ranges().count() {
        0..=SHOWN_RANGES => (format!("{tasks}"), tasks.to_string()),
        _ => (format!("{} of them", tasks.len()), "LIST".to_owned()),
    };
    let hint = format!(
        "deskgrid job retry {job} --tasks {which}, which takes them up again; then they can be requested"
    );

    refuse(
        RefusalCode::Conflict,
        format!("nothing of job {job} is requested: the {are} cancelled ({what})"),
        hint,
    )
}

fn view(
    user: String,
    job: Option<JobId>,
    account: &Account,
    kept_bytes: u64,
    share: Option<ShareView>,
) -> AccountView {
    AccountView {
        user,
        job,
        tasks: account.tasks,
        requested: account.requested,
        finished: account.finished,
        used_s: account.used_s,
        billed_s: account.billed_s,
        free_s: account.free_s(),
        kept_bytes,
        scaled_if_all_billed: account.scaled_if_all_billed(),
        scaled_by_waited_for: account.scaled_by_waited_for(),
        response_s: spread(&account.response),
        slowdown: spread(&account.slowdown),
        share,
    }
}

fn spread(values: &Distribution) -> Option<SpreadView> {
    Some(SpreadView {
        mean: values.mean()?,
        p50: values.quantile(0.5)?,
        p90: values.quantile(0.9)?,
        p99: values.quantile(0.99)?,
    })
}
