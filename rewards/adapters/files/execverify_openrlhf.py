"""For OpenRLHF's `--reward.remote_url`: see `rewards.adapters.openrlhf`."""

from rewards.adapters.openrlhf import reward_func

__all__ = ["reward_func"]
