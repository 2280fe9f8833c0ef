"""Gradient ascent in an Accelerate loop: torchrun --standalone --nproc-per-node 2 examples/accelerate_loop.py"""

import torch
import torch.distributed.nn  # DDP loads it, too, and loaded once processes have met it would keep their group for ever
from accelerate import Accelerator
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset

from naysayer import complement, networks
from naysayer.objectives import GradientAscent

BATCH = 128  # of all processes together


def main():
    accelerator = Accelerator(cpu=not torch.cuda.is_available())
    n_processes = accelerator.num_processes
    X, y = load_digits(return_X_y=True)
    X, y = torch.tensor(X[:1792] / 16, dtype=torch.float32), torch.tensor(y[:1792])  # 14 batches
    y_bar = torch.tensor(complement(y.numpy(), 10, random_state=0))
    torch.manual_seed(0)
    network = networks.mlp(64, 10, hidden=(64,))
    optimizer = torch.optim.Adam(network.parameters(), lr=0.003)
    loader = DataLoader(TensorDataset(X, y_bar), batch_size=BATCH // n_processes)
    network, optimizer, loader = accelerator.prepare(network, optimizer, loader)
    objective = GradientAscent(10, group=True if n_processes > 1 else None).to(accelerator.device)
    for _ in range(4):
        for x, labels in loader:
            optimizer.zero_grad()
            accelerator.backward(objective(network(x), labels))
            optimizer.step()
    if accelerator.is_main_process:
        with torch.no_grad():
            logits = accelerator.unwrap_model(network).cpu()(X)
        right = (logits.argmax(dim=1) == y).float().mean()
        print(f"{n_processes} processes: {100 * right:.1f} % right; mean logit {logits.mean():.4f}")
    network, optimizer, loader = accelerator.free_memory(network, optimizer, loader)  # DDP holds the group as well
    accelerator.wait_for_everyone()  # so that none is gone while another still talks to it
    accelerator.end_training()  # ends the group, and now its threads, which must not run when Python ends


if __name__ == "__main__":
    main()
