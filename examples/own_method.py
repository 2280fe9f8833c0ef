import torch

from naysayer.objectives import Objective


class Squared(Objective):
    """The probability of the class that an example is not, squared."""

    def example_losses(self, logits, y_bar):
        p = torch.softmax(logits, dim=-1)
        return p.gather(-1, y_bar.unsqueeze(-1)).squeeze(-1) ** 2
