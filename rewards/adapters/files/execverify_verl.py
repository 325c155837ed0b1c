"""For verl up to 0.6.1, whose `custom_reward_function.path` is a file: see `rewards.adapters.verl`."""

from rewards.adapters.verl import compute_score, compute_score_batch, prime_score

__all__ = ["compute_score", "compute_score_batch", "prime_score"]
