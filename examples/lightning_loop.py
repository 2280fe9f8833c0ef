"""Gradient ascent in a Lightning loop, the same on any number of processes: python examples/lightning_loop.py 2"""

import sys

import lightning
import torch
import torch.distributed.nn  # DDP loads it, too, and loaded once processes have met it would keep their group for ever
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset

from naysayer import complement, networks
from naysayer.objectives import GradientAscent

BATCH = 128  # of all processes together


class Model(lightning.LightningModule):
    """An MLP that learns what digits are from what they are not."""

    def __init__(self):
        super().__init__()
        self.network = networks.mlp(64, 10, hidden=(64,))

    def setup(self, stage):  # the processes have met by now
        self.objective = GradientAscent(10, group=True if self.trainer.world_size > 1 else None)

    def training_step(self, batch, number):
        x, y_bar = batch
        return self.objective(self.network(x), y_bar)

    def configure_optimizers(self):
        return torch.optim.Adam(self.network.parameters(), lr=0.003)


def main():
    n_processes = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    X, y = load_digits(return_X_y=True)
    X, y = torch.tensor(X[:1792] / 16, dtype=torch.float32), torch.tensor(y[:1792])  # 14 batches
    y_bar = torch.tensor(complement(y.numpy(), 10, random_state=0))
    torch.manual_seed(0)
    model = Model()
    trainer = lightning.Trainer(
        accelerator="auto" if torch.cuda.device_count() >= n_processes else "cpu",
        devices=n_processes,
        strategy="ddp" if n_processes > 1 else "auto",
        use_distributed_sampler=False,  # which would shuffle, and one process does not
        max_epochs=4,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    rows = range(trainer.global_rank, len(X), n_processes)  # those of this process
    trainer.fit(model, DataLoader(TensorDataset(X[rows], y_bar[rows]), batch_size=BATCH // n_processes))
    if trainer.is_global_zero:
        with torch.no_grad():
            logits = model.network.cpu()(X)
        right = (logits.argmax(dim=1) == y).float().mean()
        print(f"{n_processes} processes: {100 * right:.1f} % right; mean logit {logits.mean():.4f}")
    if n_processes > 1:
        trainer.strategy.barrier()  # so that none is gone while another still talks to it
        trainer.strategy.model = None  # DDP holds the group as well
        torch.distributed.destroy_process_group()  # and its threads, which must not run when Python ends


if __name__ == "__main__":
    main()
