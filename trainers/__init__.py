"""Training with the rows and the rewards, by TRL's means: SFT warm-up, stage I, stage II, evaluation.

    synth train sft      --config paper-sft    --set data.path=chains.jsonl
    synth train whitebox --config paper-stage1 --set data.path=curriculum --set model.path=runs/sft
    synth train codegen  --config paper-stage2 --set data.path=PRIME-RL/Eurus-2-RL-Data \
                         --set model.path=runs/stage1
    synth evaluate runs/stage1 curriculum

- `trainers.config`: what a run is made of, from presets, TOML files and `--set`.
- `trainers.data`: rows and public layouts -> the columns that TRL reads.
- `trainers.sft`, `trainers.grpo`: the stages. `trainers.evaluate`: held-out figures.

Importing this package loads neither torch nor trl; the functions that train do.
"""
