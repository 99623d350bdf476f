# The same chain with the embedded agent and the scripted human on the mini benchmark: a CPU, minutes.

: "${MODEL:=embedded}"
: "${OUTPUT_PATH:=outputs/sweet_embedded}"
: "${TRAIN_TASKS:=mini:train}" "${TEST_TASKS:=mini:test}"
: "${NUM_TRAIN_TASKS:=600}" "${NUM_TEST_TASKS:=500}"
: "${K:=4}" "${DATA_FRACTION:=0.1}" "${NUM_PAIRS:=4}"

SIMULATE_FLAGS=(--agent transformers --agent_prompt_path llm_agent_mini_prompt --env_model scripted --max_steps 6 --max_tokens 48 --batch_size 256 --max_batch 256 --quiet)
EVALUATE_FLAGS=(--quiet)
SAMPLE_FLAGS=(--best_of_n 16 --max_tokens 48 --max_batch 256 --quiet)
RANK_FLAGS=(--quiet)
PAIR_FLAGS=(--compat published)  # keeps pairs of twins: see sweet_rl/studies/sweet/recipe.py
TRAIN_FLAGS=(--train_batch_size 32 --micro_train_batch_size 32 --eval_fraction 0 --quiet)
CRITIC_FLAGS=(--learning_rate 3e-4 --max_epochs 2)
POLICY_FLAGS=(--learning_rate 2e-4 --beta 0.3 --nll_loss_coef 0.3)
RFT_FLAGS=(--min_reward 1 --best_of_task --learning_rate 1e-3 --max_epochs 8)
