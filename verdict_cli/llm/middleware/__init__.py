"""Middleware around a provider, one concern a file. `chain.build_chain` puts it together; outermost first:

`budget.count_recalled_cost`       what an interrupted run paid counts against the budget of the resumed one
`journal_replay.replay_journal`    calls in the journal are not made again; new ones are appended
`circuit_breaker.circuit_breaker`  a model whose endpoint accepts no connection, or rejects every request, stops the run
`cache.cached`                     equal requests share a reply
`prefix_leader.PrefixLeaders`      the first of the calls that begin alike is answered before the others are made
`require_logprobs`                 a model without log-probabilities stops the run at its first call
`rate_limit.rate_limited`          concurrency, pace, and waits for a provider's rate limit
`budget.check_budget`              no call once the budget is spent or the run is stopping
`tracing.Spans.calls`              a span for each call that is made
`providers.Providers.ask`          the model

Retries of failed calls are outside of it, in `run/attempts.py`, because a reply is found to be unreadable only after it has returned.
"""
