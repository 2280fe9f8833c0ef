"""How much of an experiment is run: all of it, fewer epochs or trials, or all of it in small."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from naysayer.common.checks import near
from naysayer.experiments.jobs import Job

SMALL = ("mnist", "fashion", "kuzushiji")
TITLES = {"mnist": "MNIST", "fashion": "Fashion-MNIST", "kuzushiji": "Kuzushiji-MNIST", "cifar10": "CIFAR-10"}
NETWORKS = {"linear": "linear", "mlp": "MLP", "resnet": "ResNet-34", "densenet": "DenseNet"}
QUICK_ROWS, QUICK_TEST_ROWS = 3000, 1000
QUICK_IMAGES, QUICK_TEST_IMAGES = 256, 128


@dataclass(frozen=True)
class Scale:
    """What of the paper's epochs, trials and data sets is asked for; None leaves the paper's."""

    epochs: int | None = None
    trials: int | None = None
    datasets: tuple[str, ...] = (*SMALL, "cifar10")
    quick: bool = False

    @property
    def note(self) -> str:
        """What is not as in the paper; empty if nothing is cut."""
        if self.quick:
            return f"In small: at most {QUICK_ROWS} rows, few epochs, thin networks; not comparable with the paper."
        cuts = {"epochs": self.epochs, "trials": self.trials}
        said = [f"{value} {name}" for name, value in cuts.items() if value is not None]
        return f"Cut to {' and '.join(said)}." if said else ""

    def n_trials(self, of_the_paper: int = 4) -> range:
        return range(self.trials or (2 if self.quick else of_the_paper))

    def chosen(self, datasets: Iterable[str]) -> list[str]:
        """Those of an experiment's data sets that are asked for."""
        return [name for name in datasets if name in self.datasets]

    def job(self, job: Job) -> Job:
        """The job with as many epochs and rows as are asked for."""
        job = replace(job, paper_epochs=job.epochs, epochs=self.epochs or job.epochs)
        if not self.quick:
            return job
        if job.dataset == "cifar10":
            job = replace(job, n_train=QUICK_IMAGES, n_test=QUICK_TEST_IMAGES, thin=True, epochs=self.epochs or 2)
        else:
            rows, epochs = min(QUICK_ROWS, job.n_train or QUICK_ROWS), self.epochs or max(2, job.epochs // 25)
            job = replace(job, n_train=rows, n_test=QUICK_TEST_ROWS, epochs=epochs)
        return replace(job, paper_epochs=job.epochs)


def check_datasets(names: Sequence[str] | None) -> tuple[str, ...]:
    """The data sets asked for, or all of them."""
    for name in names or ():
        if name not in TITLES:
            raise ValueError(f"a data set must be one of {', '.join(TITLES)}; got {near(name, TITLES)}")
    return tuple(names or TITLES)
