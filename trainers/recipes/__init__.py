"""Configurations of other programs, as data: accelerate's (FSDP, DeepSpeed), verl's."""
