# SWEET-RL on Twenty Questions with ten words: a tiny agent that has read games of a scripted asker learns from its own
# games, with a critic that knows the hidden word. A CPU, minutes.

: "${OUTPUT_PATH:=outputs/sweet_twenty_questions}"
: "${MODEL:=$OUTPUT_PATH/agent}" "${EMBEDDED:=twenty_questions}"
: "${TRAIN_TASKS:=twenty-questions:ten}" "${TEST_TASKS:=twenty-questions:ten}"
: "${NUM_TRAIN_TASKS:=10}" "${NUM_TEST_TASKS:=10}" "${NUM_TEST_REPEATS:=30}"
: "${K:=40}" "${DATA_FRACTION:=0.3}" "${NUM_PAIRS:=4}"
: "${EVALUATE:=evaluate_games}"

SIMULATE_FLAGS=(--agent transformers --task_type twenty_questions --max_tokens 4 --batch_size 256 --max_batch 256 --quiet)
PREFERENCE_FLAGS=(--margin 5)
SAMPLE_FLAGS=(--best_of_n 16 --max_tokens 4 --max_batch 256 --quiet)
RANK_FLAGS=(--quiet)
PAIR_FLAGS=(--compat published)
TRAIN_FLAGS=(--train_batch_size 32 --micro_train_batch_size 32 --eval_fraction 0 --quiet)
CRITIC_FLAGS=(--learning_rate 3e-4 --max_epochs 1)
POLICY_FLAGS=(--learning_rate 2e-4 --beta 0.3 --nll_loss_coef 0.3)
