"""Reward functions for reinforcement learning, in the trainers' own words.

    from trl import GRPOTrainer
    from verdict_cli.rl import trl_reward

    trainer = GRPOTrainer(model=…, reward_funcs=trl_reward("judge.yaml"), train_dataset=…)

A row of the judge has the trainer's columns, and `prompt`, `response` and `label`. A judge of pairs, the best of k or a ranking
compares the rollouts of one prompt. A completion whose judgement fails has no reward: None for TRL, NaN for verl, never a pass.
"""

from verdict_cli.features.rewards.trainer_rewards import trl_reward, trl_rewards, verl_reward

__all__ = ["trl_reward", "trl_rewards", "verl_reward"]
