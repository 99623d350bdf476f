# The published setting (docs/training.md): Llama-3.1-8B-Instruct on 8 GPUs, a 70B model as the human.
# Serve the human first: configs/sweet_rl/serve_human_70b.sh MODEL
# DATA_PATH holds the published data: the offline dialogues and backend_tasks/test.jsonl.

: "${MODEL:=meta-llama/Llama-3.1-8B-Instruct}"
: "${DATA_PATH:=data}"
: "${OUTPUT_PATH:=outputs/sweet_llama8b}"
: "${OFFLINE=$DATA_PATH/colbench_code_offline_15k_llama8b.jsonl}" # OFFLINE= simulates on TRAIN_TASKS instead
: "${TRAIN_TASKS:=$DATA_PATH/backend_tasks/train.jsonl}"
: "${TEST_TASKS:=$DATA_PATH/backend_tasks/test.jsonl}"
: "${NUM_TRAIN_TASKS:=5000}" "${NUM_TEST_TASKS:=1000}"
: "${K:=3}" "${DATA_FRACTION:=0.1}" "${NUM_PAIRS:=4}"
: "${GPUS:=8}"
: "${HUMAN_HOST:=127.0.0.1}" "${HUMAN_PORT:=8000}"
: "${AGENT:=vllm}"            # what runs the agent; transformers needs no vLLM
: "${VLLM_PYTHON=}"           # interpreter of the environment that vLLM is installed in
: "${FLASH=--flash_attn}"     # FLASH= where the package flash-attn is missing

LAUNCHER=(deepspeed --num_gpus "$GPUS")
AGENT_FLAGS=(--agent "$AGENT")
if [[ $AGENT == vllm ]]; then AGENT_FLAGS+=(--tensor_parallel_size "$GPUS"); fi
if [[ -n $VLLM_PYTHON ]]; then AGENT_FLAGS+=(--vllm_python "$VLLM_PYTHON"); fi
SIMULATE_FLAGS=(--hostname "$HUMAN_HOST" --port "$HUMAN_PORT" --temperature 1.0 --max_steps 10 --batch_size 1000 "${AGENT_FLAGS[@]}")
SAMPLE_FLAGS=(--best_of_n 16 --temperature 1.0 --max_tokens 1024 "${AGENT_FLAGS[@]}")
RANK_FLAGS=(--dtype bfloat16)

TRAIN_FLAGS=(--learning_rate 2e-7 --train_batch_size 8 --micro_train_batch_size 1 --bf16 --zero_stage 3 --gradient_checkpointing)
if [[ -n $FLASH ]]; then TRAIN_FLAGS+=("$FLASH"); fi
TRAIN_FLAGS+=(--group_by_history False) # as published: an update's 8 pairs are of 8 turns, not of 2
CRITIC_FLAGS=(--beta 0.1 --max_epochs 4 --max_len 8192)
POLICY_FLAGS=(--beta 0.1 --max_epochs 1 --max_len 16384 --nll_loss_coef 0.01)
RFT_FLAGS=(--min_reward 1 --best_of_task --max_epochs 1 --max_len 16384 --train_batch_size 32) # METHOD=rft: the rival
