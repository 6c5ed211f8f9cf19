//! Trees: directories that are sent to each host once, that its tasks share, and that none of them
//! can write to.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use tests::Grid;

/// A directory with a program, a link, an empty directory, and more small files than a list of inputs
/// may have.
fn environment(grid: &Grid) -> String {
    let dir = grid.dir().join("env");
    grid.file("env/bin/say", "#!/bin/sh\ncat env/again\n");
    let may_run = fs::Permissions::from_mode(0o755);
    fs::set_permissions(dir.join("bin/say"), may_run).expect("a file of ours");
    grid.file("env/lib/text", "from the tree\n");
    symlink("lib/text", dir.join("again")).expect("a link can be made");
    fs::create_dir(dir.join("none")).expect("a directory can be made");
    for n in 0..2_500 {
        grid.file(&format!("env/lib/m{}/f{n}", n % 10), n.to_string());
    }
    dir.to_str().expect("UTF-8").to_owned()
}

/// The trees that a worker has unpacked.
fn trees(grid: &Grid, worker: &str) -> Vec<PathBuf> {
    let found = walkdir::WalkDir::new(grid.state(worker))
        .into_iter()
        .flatten();
    let dirs = found.filter(|entry| {
        entry
            .path()
            .parent()
            .is_some_and(|dir| dir.ends_with("trees"))
    });
    dirs.map(walkdir::DirEntry::into_path).collect()
}

fn printed(grid: &Grid, job: &str) -> String {
    grid.text(["job", "cat", job, "stdout"])
}

#[test]
fn tasks_of_a_host_share_a_tree_and_none_can_write_to_it() {
    for level in ["process", "landlock", "namespace"] {
        let mut grid = Grid::start();
        let config = format!("confinement = \"{level}\"\n");
        grid.worker("h1").slots(2).config(&config).start();
        let env = environment(&grid);
        let tree = format!("{env}:env");

        let say = "env/bin/say && test -d env/none && cat env/lib/m7/f2407";
        let words = [
            "--array",
            "1-4",
            "--input-tree",
            &tree,
            "--wait",
            "--",
            "sh",
            "-c",
            say,
        ];
        let job = grid.submit(words);
        assert_eq!(
            printed(&grid, &job),
            "from the tree\n2407".repeat(4),
            "at {level}"
        );
        let unpacked = trees(&grid, "h1");
        assert_eq!(unpacked.len(), 1, "at {level}: {unpacked:?}");

        // Whatever of this works (root at `process` may do anything) works only here.
        let damage = "for n in 'touch env/new' 'rm env/lib/text' 'chmod 777 env env/lib' \
                      'ln env/lib/text mine' 'mv env/lib/text mine' 'sh -c \"echo x > env/lib/text\"'; \
                      do $n 2>> said && echo done: $n; done; cat said >&2; true";
        let job = grid.submit(["--input-tree", &tree, "--wait", "--", "sh", "-c", damage]);
        if level != "process" {
            assert_eq!(printed(&grid, &job), "", "at {level}");
            assert_eq!(trees(&grid, "h1"), unpacked, "at {level}");
        }
        let words = ["--input-tree", &tree, "--output-file", "**", "--wait", "--"];
        let last = ["sh", "-c", "env/bin/say | tee out && ! test -e env/new"];
        let job = grid.submit(words.into_iter().chain(last));
        assert_eq!(printed(&grid, &job), "from the tree\n", "at {level}");

        let into = grid.fetch(&job, "results");
        let left = fs::read_dir(&into)
            .expect("fetched")
            .flatten()
            .map(|entry| entry.file_name());
        assert_eq!(
            left.collect::<Vec<_>>(),
            ["out"],
            "at {level}: no tree is a result"
        );
    }
}

#[test]
fn a_tree_is_sent_once_in_a_few_pieces_and_survives_the_worker() {
    let mut grid = Grid::start();
    grid.worker("h1").slots(1).start();
    let env = environment(&grid);
    let words = ["--input-tree", &env, "--wait", "--", "env/bin/say"];
    grid.submit(words);
    let cached = |grid: &Grid| {
        let all = walkdir::WalkDir::new(grid.state("h1"))
            .into_iter()
            .flatten();
        let files = all.filter(|entry| entry.file_type().is_file());
        files
            .filter(|entry| entry.path().ancestors().any(|dir| dir.ends_with("cache")))
            .count()
    };
    assert!(
        (2..=4).contains(&cached(&grid)),
        "a list and a few parts: {}",
        cached(&grid)
    );

    let before = trees(&grid, "h1");
    // One that was killed while it unpacked.
    let half = before[0].with_file_name("part.77");
    fs::create_dir(&half).expect("a directory can be made");
    grid.kill_worker("h1");
    grid.worker("h1").slots(1).start();
    let job = grid.submit(words);
    assert_eq!(printed(&grid, &job), "from the tree\n");
    assert_eq!(
        trees(&grid, "h1"),
        before,
        "neither sent nor unpacked again, and no half"
    );

    // Damage on the disk is noticed, and mended from what the cache has.
    let text = before[0].join("lib/text");
    fs::remove_file(&text).expect("root may");
    fs::write(&text, "damaged tree\n").expect("root may");
    let job = grid.submit(words);
    assert_eq!(printed(&grid, &job), "from the tree\n");
    assert_ne!(trees(&grid, "h1"), before);
}

#[test]
fn a_job_of_archives_is_a_job_of_trees_and_job_files_can_say_it() {
    let grid = Grid::with_worker();
    let env = environment(&grid);
    let archive = grid.dir().join("data.tar.gz");
    let mut tar = std::process::Command::new("tar");
    tar.arg("-czf")
        .arg(&archive)
        .args(["--sort=name", "-C", &env, "."]);
    assert!(tar.status().expect("tar runs").success());

    let both = format!(
        "input-tree = [{env:?}, \"{}:other\"]\ncommand = [\"cmp\", \"env/lib/m3/f3\", \"other/lib/m3/f3\"]\n",
        archive.display()
    );
    let file = grid.file("job.toml", both);
    let file = file.to_str().expect("UTF-8");
    grid.deskgrid(["submit", "--job-file", file, "--wait"])
        .expect_code(0);
    assert_eq!(trees(&grid, "h1").len(), 1, "they are the same tree");
}

#[test]
fn a_tree_that_leads_out_or_cannot_be_had_is_refused_with_a_reason() {
    let grid = Grid::with_worker();
    let env = environment(&grid);
    symlink("/etc/passwd", Path::new(&env).join("out")).expect("a link can be made");
    for dry in [&["--dry-run"][..], &[]] {
        let words = ["submit", "--input-tree", &env]
            .into_iter()
            .chain(dry.iter().copied());
        let refused = grid.deskgrid(words.chain(["--", "true"])).expect_code(2);
        let said = refused.stderr;
        assert!(
            said.contains("`out` leads to `/etc/passwd`") && said.contains("cp -rL"),
            "{said}"
        );
    }

    fs::remove_file(Path::new(&env).join("out")).expect("a link of ours");
    let words = [
        "--input-tree",
        &env,
        "--input-tree",
        &format!("{env}:env/lib"),
        "--",
        "true",
    ];
    let refused = grid
        .deskgrid(["submit"].into_iter().chain(words))
        .expect_code(2);
    assert!(
        refused.stderr.contains("would lie in the input `env`"),
        "{}",
        refused.stderr
    );
}
