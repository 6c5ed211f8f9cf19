"""A search with Optuna that drops bad candidates early, by disclosed work.

Each candidate is scored on several folds. All folds of all candidates of a round are disclosed to the grid at once, so
that no PC is idle; requested is a fold only if its candidate is still worth it. What nobody requests is cancelled in the
end, and only what was requested counts as work that somebody waited for.

    pip install deskgrid optuna
    python optuna_early_dropping.py
"""

import statistics

import optuna

from deskgrid import Grid

ROUNDS, CANDIDATES, FOLDS = 3, 6, 4


def score(x: float, y: float, fold: int) -> float:
    """Stands for the training of a model without one fold of the data, and for its error there."""
    noise = ((fold * 7919) % 13 - 6) / 50
    return (x - 1) ** 2 + (y + 2) ** 2 + noise


def search(grid: Grid, study: optuna.Study) -> tuple[int, int]:
    """Searches for some rounds; returns how many scores were requested and how many disclosed."""
    requested = disclosed = 0
    for _ in range(ROUNDS):
        trials = [study.ask() for _ in range(CANDIDATES)]
        points = [(t.suggest_float("x", -5, 5), t.suggest_float("y", -5, 5)) for t in trials]
        # Fold by fold: that is the order in which the grid takes up what nobody has requested yet.
        calls = [(x, y, fold) for fold in range(FOLDS) for x, y in points]
        job = grid.speculate(score, *zip(*calls), labels=["search"])
        disclosed += len(calls)
        scores: dict[int, list[float]] = {at: [] for at in range(CANDIDATES)}
        for fold in range(FOLDS):
            wanted = {at: fold * CANDIDATES + at for at in scores}
            job.request(list(wanted.values()))
            requested += len(wanted)
            for at, number in wanted.items():
                scores[at].append(job.futures[number].result())
                trials[at].report(statistics.mean(scores[at]), fold)
            for at in [at for at in scores if trials[at].should_prune()]:
                del scores[at]
                study.tell(trials[at], state=optuna.trial.TrialState.PRUNED)
        for at, found in scores.items():
            study.tell(trials[at], statistics.mean(found))
        job.cancel()
    return requested, disclosed


if __name__ == "__main__":
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        sampler=optuna.samplers.TPESampler(seed=1),
        pruner=optuna.pruners.MedianPruner(n_startup_trials=4, n_warmup_steps=0),
    )
    with Grid() as g:
        requested, disclosed = search(g, study)
    pruned = study.get_trials(states=[optuna.trial.TrialState.PRUNED])
    print(f"best {study.best_value:.3f} at {study.best_params}")
    print(f"requested {requested} of {disclosed} scores; dropped {len(pruned)} of {len(study.trials)} candidates")
