"""The credit recorder: what each turn of a dialogue was worth, measured by playing on, beside what methods believe.

`measured` plays on from before and after each turn; `compare` holds the scores of methods against that. Rows are keyed by
`task_id`, `sample_index`, `turn_index` and `turn_digest` (`sweet_rl.preferences.credit`).
"""
