"""Rewards for reinforcement learning: trainers' batches as rows, and rewards of rollouts that are compared."""
