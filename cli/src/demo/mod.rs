//! Runs `deskgrid demo`, the five-minute tour: a real master, real workers and one real bag of
//! tasks in a temporary directory. One host's owner comes back on the way. At the end there is a
//! picture, and nothing else is left.

mod grid;
mod mandelbrot;
mod owner;
mod picture;
mod report;
pub(crate) mod tile;

use std::path::PathBuf;

use common::selector::Selector;
use common::text::plural;
use common::view::JobView;
use common::wire::client::{Reply, Request};
use tokio::sync::watch;

use crate::args::OutputMode;
use crate::args::serve::DemoArgs;
use crate::args::submit::JobArgs;
use crate::commands::{hung_up, interrupted, new_request};
use crate::failure::{Exit, Failure};
use crate::output::{OutputForm, note};
use crate::parallel;
use crate::progress::Progress;
use crate::session::Session;
use crate::submit::{
    plan,
    send::{SendMode, send},
};
use crate::watch::{Ended, Watch};
use grid::DemoGrid;
pub(crate) use mandelbrot::{Size, Tile};
use picture::Canvas;
use report::DemoReport;

/// The file that the program writes.
const TILE: &str = "tile.png";

/// Gives the tour. No process is left running, also after a failure.
pub(crate) async fn run(out: &OutputForm, args: &DemoArgs) -> Result<Exit, Failure> {
    let demo = Demo {
        args,
        talk: out.mode() == OutputMode::Cli,
    };
    let canvas = Canvas::new(size(args), args.tasks, &args.out)?;
    let mut grid = DemoGrid::new()?;
    let result = tokio::select! {
        // What ends the demo ends it in its own words, not in those of a part of it.
        biased;
        () = interrupted() => Err(cut_short()),
        result = demo.tour(&mut grid, canvas) => result,
        () = hung_up() => Err(cut_short()),
    };

    grid.stop().await;
    let report = result?;
    out.show(
        &report.json(),
        || report.text(out.color()),
        || vec![args.out.display().to_string()],
    )?;

    Ok(Exit::Well)
}

struct Demo<'a> {
    args: &'a DemoArgs,
    talk: bool,
}

impl Demo<'_> {
    async fn tour(&self, grid: &mut DemoGrid, canvas: Canvas) -> Result<DemoReport, Failure> {
        let hosts = self.args.hosts;
        let tasks = self.args.tasks;
        self.say(&format!(
            "starting a master and {} on this machine, in {}",
            plural(u64::from(hosts), "worker"),
            grid.root().display()
        ));

        let session = grid.start_master().await?;
        grid.start_workers(&session, hosts).await?;
        self.say(&format!(
            "submitting a bag of {tasks} tasks, each of which renders one tile of a picture"
        ));

        let job = self.submit(grid, &session, &canvas).await?;
        let (ended, disturbed) = self.follow(grid, &session, job).await?;
        let [job] = &ended.jobs[..] else {
            return Err(Failure::error("internal", "the job is gone", ""));
        };
        let tasks = session.tasks(job.job, Selector::All, Vec::new()).await?;
        if ended.exit() != Exit::Well {
            return Err(report::unfinished(job, &tasks));
        }

        let hosts = session.hosts(&Request::Hosts { names: Vec::new() }).await?;
        let tiles = self.bring(grid, &session, job).await?;
        canvas.assemble(&tiles)?;

        let job = job.clone();
        let picture = self.args.out.clone();
        Ok(DemoReport {
            picture,
            size: size(self.args),
            job,
            tasks,
            hosts,
            disturbed,
        })
    }

    async fn submit(
        &self,
        grid: &DemoGrid,
        session: &Session,
        canvas: &Canvas,
    ) -> Result<common::JobId, Failure> {
        let list = grid.root().join("tiles.txt");
        let lines: String = canvas
            .tiles()
            .iter()
            .map(|tile| format!("{tile}\n"))
            .collect();
        std::fs::write(&list, lines)
            .map_err(|e| Failure::io("cannot write the list of tiles", &e))?;

        let program = grid.program()?.display().to_string();
        let job = JobArgs {
            name: Some("mandelbrot".to_owned()),
            each_line: Some(list),
            output_file: vec![TILE.to_owned()],
            retries: Some(2),
            command: vec![
                program,
                "demo-tile".to_owned(),
                size(self.args).to_string(),
                "%{ITEM}".to_owned(),
                TILE.to_owned(),
            ],
            ..JobArgs::default()
        };
        let sending = SendMode::Job { shown: false };
        match send(session.client(), &plan(&job)?, new_request(), sending).await? {
            Reply::Submitted { job: Some(job), .. } => Ok(job),
            other => Err(link::client::unexpected(Some(&other)).into()),
        }
    }

    /// Waits for the job, shows progress, and lets an owner come back on the way.
    async fn follow(
        &self,
        grid: &mut DemoGrid,
        session: &Session,
        job: common::JobId,
    ) -> Result<(Ended, Option<String>), Failure> {
        let mut progress = self.talk.then(Progress::new);
        let (tx, rx) = watch::channel(None::<JobView>);
        let state = grid.client_state();
        let only = Selector::Ids(common::IdSet::from_range(job.0, job.0));
        let waiting = Watch::new(&state, only, None, false).run(session.clone(), |jobs| {
            if let Some(progress) = &mut progress {
                progress.show(jobs);
            }
            tx.send_replace(jobs.values().next().cloned());
        });

        let mut visited = None;
        let visiting = owner::visit(
            session,
            grid.root().to_owned(),
            self.args.hosts,
            rx,
            &mut visited,
        );
        let ended = tokio::select! {
            ended = waiting => ended,
            ((), error) = async { tokio::join!(visiting, grid.watch()) } => Err(error),
        };

        drop(tx);
        if let Some(progress) = &progress {
            progress.end();
        }

        ended.map(|ended| (ended, visited))
    }

    /// Fetches every tile; returns the files in the order of the tasks.
    async fn bring(
        &self,
        grid: &DemoGrid,
        session: &Session,
        job: &JobView,
    ) -> Result<Vec<PathBuf>, Failure> {
        let dir = grid.root().join("tiles");
        std::fs::create_dir(&dir).map_err(|e| Failure::io("cannot make a directory", &e))?;

        let files = session
            .outputs(job.job, Selector::All)
            .await?
            .into_iter()
            .flat_map(|output| {
                let index = output.attempt.task.index;
                output
                    .files
                    .into_iter()
                    .filter(|file| file.path.as_str() == TILE)
                    .map(move |file| (index, file.blob))
            });

        let one = |(index, blob)| {
            let client = session.client().clone();
            let path = dir.join(format!("{index}.png"));
            async move {
                client.fetch(blob, &path).await?;
                Ok((index, path))
            }
        };
        let mut tiles = parallel::each(files, one).await?;
        tiles.sort();

        Ok(tiles.into_iter().map(|(_, path)| path).collect())
    }

    fn say(&self, text: &str) {
        if self.talk {
            note(text);
        }
    }
}

fn cut_short() -> Failure {
    Failure::error("interrupted", "the demo was interrupted", "")
}

fn size(args: &DemoArgs) -> Size {
    Size {
        width: args.width_px,
        height: args.height_px,
    }
}
