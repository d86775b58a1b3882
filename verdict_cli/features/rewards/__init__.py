"""A judge as a reward function of reinforcement learning: `verdict_cli.rl`."""
