# The published setting for Frontend Design (docs/training.md): Llama-3.1-8B-Instruct on 8 GPUs, a vision model as the
# human. Serve the human first, on a machine of its own: configs/sweet_rl/serve_human_72b_vl.sh MODEL
# DATA_PATH holds frontend_tasks/train.jsonl and test.jsonl (docs/websight.md); there are no published dialogues.
#
# Where no number is published for Frontend Design, it is Backend's: sampling, pairs, max_len, all of the policy. The
# critic is the 8B model, which reads the hidden page's source; ranking shows critics no pictures.

: "${MODEL:=meta-llama/Llama-3.1-8B-Instruct}"
: "${DATA_PATH:=data}"
: "${OUTPUT_PATH:=outputs/sweet_llama8b_frontend}"
: "${OFFLINE:=}"              # dialogues to learn from; empty: simulate them on TRAIN_TASKS
: "${TRAIN_TASKS:=$DATA_PATH/frontend_tasks/train.jsonl}"
: "${TEST_TASKS:=$DATA_PATH/frontend_tasks/test.jsonl}"
: "${NUM_TRAIN_TASKS:=1000}" "${NUM_TEST_TASKS:=500}" # 100 for a quick look
: "${K:=6}" "${DATA_FRACTION:=0.1}" "${NUM_PAIRS:=4}"
: "${EVALUATE:=evaluate_html}"
: "${GPUS:=8}"
: "${HUMAN_HOST:=127.0.0.1}" "${HUMAN_PORT:=8000}"
: "${AGENT:=vllm}"            # what runs the agent; transformers needs no vLLM
: "${VLLM_PYTHON=}"           # interpreter of the environment that vLLM is installed in
: "${FLASH=--flash_attn}"     # FLASH= where the package flash-attn is missing
: "${CLIP=openai/clip-vit-base-patch32}" # CLIP= rewards without a model (docs/frontend.md); choose PREFERENCE_FLAGS then

LAUNCHER=(deepspeed --num_gpus "$GPUS")
AGENT_FLAGS=(--agent "$AGENT")
if [[ $AGENT == vllm ]]; then AGENT_FLAGS+=(--tensor_parallel_size "$GPUS"); fi
if [[ -n $VLLM_PYTHON ]]; then AGENT_FLAGS+=(--vllm_python "$VLLM_PYTHON"); fi
SIMULATE_FLAGS=(--task_type html --hostname "$HUMAN_HOST" --port "$HUMAN_PORT" --temperature 1.0 --max_steps 10 --batch_size 100 "${AGENT_FLAGS[@]}")
if [[ ${COMPAT:-fixed} == published ]]; then SIMULATE_FLAGS+=(--compat published); fi
EVALUATE_FLAGS=()
if [[ -n $CLIP ]]; then EVALUATE_FLAGS+=(--clip_model "$CLIP"); fi
PREFERENCE_FLAGS=(--margin 0.1) # of CLIP's cosines
SAMPLE_FLAGS=(--best_of_n 16 --temperature 1.0 --max_tokens 1024 "${AGENT_FLAGS[@]}")
RANK_FLAGS=(--dtype bfloat16)

TRAIN_FLAGS=(--learning_rate 2e-7 --train_batch_size 8 --micro_train_batch_size 1 --bf16 --zero_stage 3 --gradient_checkpointing)
if [[ -n $FLASH ]]; then TRAIN_FLAGS+=("$FLASH"); fi
TRAIN_FLAGS+=(--group_by_history False) # as published: an update's 8 pairs are of 8 turns, not of 2
CRITIC_FLAGS=(--beta 0.1 --max_epochs 8 --max_len 8192)
POLICY_FLAGS=(--beta 0.1 --max_epochs 1 --max_len 16384 --nll_loss_coef 0.01)
RFT_FLAGS=(--best_of_task --max_epochs 1 --max_len 16384 --train_batch_size 32)
