//! What a client asks of disclosed jobs, and about accounts. What is not here: what the core and
//! the store make of it.

use common::selector::Selector;
use common::view::{AccountView, SpreadView};
use common::wire::RefusalCode;
use common::wire::client::Reply;
use common::{IdSet, JobId};
use scheduler::billing::{Account, Distribution};

use super::answers::{Asker, NoAnswer, chosen, refuse};
use crate::core::RequestOutcome;
use crate::core::ask::JobAsk;

/// Tasks are named one by one up to so many ranges.
const SHOWN_RANGES: usize = 8;

/// So many jobs that are over are looked at because somebody drops what was not requested of them.
const MOST_SETTLED: u64 = 32;

impl Asker {
    /// Somebody waits for these tasks from now on.
    pub(super) async fn request(&self, job: JobId, tasks: Selector) -> Result<Reply, NoAnswer> {
        self.pick_one(job).await?;
        let tasks = chosen(job, &tasks, &self.spec(job).await?)?;
        let RequestOutcome { new, cancelled } =
            self.core(JobAsk::Request(job, tasks.clone())).await?;
        if !tasks.is_empty() && cancelled.len() == tasks.len() {
            return Err(all_cancelled(job, &cancelled));
        }
        Ok(Reply::Changed(vec![(job, new)]))
    }

    /// Drops what was not requested.
    pub(super) async fn drop_unrequested(&self, jobs: &Selector) -> Result<Reply, NoAnswer> {
        let picked = self.pick(jobs).await?;
        let open = self.open_of(&picked).await?;
        let mut changed = Vec::new();

        for job in picked.iter().map(JobId) {
            // Where everything is settled there is nothing to drop; that its user says so is heard
            // of a few jobs at a time.
            let count = match open.contains(job.0) || picked.len() <= MOST_SETTLED {
                true => self.core(JobAsk::DropUnrequested(job)).await?,
                false => 0,
            };
            changed.push((job, count));
        }

        Ok(Reply::Changed(changed))
    }

    /// What was spent on the client's tasks, or as an admin on somebody's or everybody's.
    pub(super) async fn accounts(
        &self,
        user: Option<String>,
        jobs: bool,
    ) -> Result<Vec<AccountView>, NoAnswer> {
        let user = self.account_of(user);
        let accounts = self
            .read(move |reader| reader.accounts(user.as_deref(), jobs))
            .await?;
        Ok(accounts
            .into_iter()
            .map(|(user, job, spent)| view(user, job, &spent))
            .collect())
    }
}

/// Why nothing could be requested.
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

fn view(user: String, job: Option<JobId>, (account, kept_bytes): &(Account, u64)) -> AccountView {
    AccountView {
        user,
        job,
        tasks: account.tasks,
        requested: account.requested,
        finished: account.finished,
        used_s: account.used_s,
        billed_s: account.billed_s,
        free_s: account.free_s(),
        kept_bytes: *kept_bytes,
        scaled_if_all_billed: account.scaled_if_all_billed(),
        scaled_by_waited_for: account.scaled_by_waited_for(),
        response_s: spread(&account.response),
        slowdown: spread(&account.slowdown),
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
