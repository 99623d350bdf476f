#!/usr/bin/env bash
# SWEET-RL on Backend Programming, Frontend Design or a game, from offline dialogues to a measured policy, by stages.
#
#   scripts/sweet_backend.sh configs/sweet/embedded.sh     the embedded agent: a CPU, minutes
#   scripts/sweet_backend.sh configs/sweet/llama8b.sh      the published setting: 8 GPUs
#   scripts/sweet_backend.sh configs/sweet/llama8b_frontend.sh    Frontend Design: 8 GPUs, a human with eyes
#   METHOD=rft OUTPUT_PATH=rft scripts/sweet_backend.sh CONFIG   rejection fine-tuning in its place, from the same dialogues
#   scripts/sweet_backend.sh configs/sweet/twenty_questions.sh    another world: a CPU, minutes
#
# A configuration sets what is below; a variable of the environment wins over it: OUTPUT_PATH=run2 scripts/...
# What is done is skipped, what was interrupted goes on: run the same command again. A stage whose command is
# another one than before is refused, as its output belongs to the old one (docs/training.md).
set -euo pipefail

config=${1:?name a configuration, for example configs/sweet/embedded.sh}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# What a configuration may set. Flags of a stage are an array, to be added to what the chain itself needs.
SIMULATE_FLAGS=() EVALUATE_FLAGS=() TRAIN_FLAGS=() CRITIC_FLAGS=() SAMPLE_FLAGS=() RANK_FLAGS=() PAIR_FLAGS=()
POLICY_FLAGS=() RFT_FLAGS=() LAUNCHER=() PREFERENCE_FLAGS=()
# shellcheck source=/dev/null
source "$config"

: "${MODEL:?the model to begin from: a folder or a hub name}"
: "${OUTPUT_PATH:?the folder for all files}"
: "${TEST_TASKS:?tasks to measure on}"
: "${OFFLINE:=}"         # trajectories to learn from; empty: simulate them on TRAIN_TASKS
: "${TRAIN_TASKS:=}"
: "${NUM_TRAIN_TASKS:=1000}" "${NUM_TEST_TASKS:=1000}" "${NUM_TEST_REPEATS:=1}"
: "${K:=3}"              # repeats of each task in the offline data
: "${DATA_FRACTION:=0.1}" "${NUM_PAIRS:=4}"
: "${COMPAT:=fixed}"     # published: its defects too, to compare numbers
: "${PYTHON:=python}"
: "${EVALUATE:=evaluate_code}"  # evaluate_html for web pages, evaluate_games for worlds that reward turns
: "${METHOD:=sweet}"     # rft: rejection fine-tuning
: "${PREFLIGHT:=yes}"    # only: look whether all is there that is needed, and stop; no: begin at once
: "${EMBEDDED:=}"        # make MODEL first: an embedded agent for this world
[[ ${#LAUNCHER[@]} -gt 0 ]] || LAUNCHER=("$PYTHON")
[[ -n $OFFLINE || -n $TRAIN_TASKS ]] || { echo "error: set OFFLINE (trajectories) or TRAIN_TASKS." >&2; exit 2; }

# The published names of the files.
TRAJECTORIES_PATH=$OUTPUT_PATH/offline.jsonl
GROUND_TRUTH_PREFERENCES_PATH=$OUTPUT_PATH/ground_truth_preferences.jsonl
REWARD_PATH=$OUTPUT_PATH/reward_model
SAMPLED_PATH=$OUTPUT_PATH/sampled.jsonl
RANKED_PATH=$OUTPUT_PATH/ranked.jsonl
RANDOM_PAIRS_PATH=$OUTPUT_PATH/random_pairs.jsonl
SAVE_PATH=$OUTPUT_PATH/policy
EVALUATION_PATH=$OUTPUT_PATH/test.jsonl

case $COMPAT in
  fixed)
    PAIR_FORM=() COMPAT_FLAGS=() GRADING=()
    POLICY_FORM=(--prompt_key prompt) CRITIC_FORM=()
    ;;
  published)
    PAIR_FORM=(--no_prompt) COMPAT_FLAGS=(--compat published) GRADING=(--grading published)
    POLICY_FORM=() CRITIC_FORM=(--response_template '<|start_header_id|>assistant<|end_header_id|>')
    ;;
  *)
    echo "error: COMPAT must be fixed or published, got '$COMPAT'." >&2
    exit 2
    ;;
esac

[[ $EVALUATE == evaluate_code ]] || GRADING=() # the others grade in one way
if [[ $METHOD != sweet && $METHOD != rft ]]; then
  echo "error: METHOD must be sweet or rft, got '$METHOD'." >&2
  exit 2
fi
if [[ $METHOD == rft && ${#RFT_FLAGS[@]} -eq 0 ]]; then
  echo "error: METHOD=rft needs RFT_FLAGS in $config: which dialogues are imitated, for how long." >&2
  exit 2
fi

marks=$OUTPUT_PATH/.done
mkdir -p "$marks"
number=0 stages=12

# stage OUTPUT COMMAND...: run the command unless a mark says that it has made OUTPUT, a file or a model's folder.
# A mark holds the command; beside it a file remembers, from the command's beginning on, what it makes.
stage() {
  local output=$1 check=$1 mark line later
  shift
  number=$((number + 1))
  mark=$marks/$number
  [[ $output == *.json* ]] || check=$output/config.json
  printf -v line '%q ' "$@"
  line=${line#*/scripts/}    # neither launcher nor place decides what is made,
  line=${line// --overwrite/} # nor whether something is replaced: the marks say what may be
  if [[ -f $mark && -e $check ]]; then
    if [[ $(<"$mark") != "$line" ]]; then
      printf 'error: %s was made by another command:\n  %s\nnow it would be:\n  %s\n' "$output" "$(<"$mark")" "$line"
      printf 'Remove it to make it and all that follows again, or set another OUTPUT_PATH.\n'
      exit 1
    fi >&2
    printf '[%d] done: %s\n' "$number" "$output"
    return
  fi
  preflight
  rm -f "$mark"
  for ((later = number + 1; later <= stages; later++)); do
    if [[ -f $marks/$later.begun ]]; then # made from what is now made anew
      printf '[%d] out of date, removed: %s\n' "$later" "$(<"$marks/$later.begun")"
      rm -rf "$(<"$marks/$later.begun")" "$(<"$marks/$later.begun").checkpoints"
      rm -f "$marks/$later" "$marks/$later.begun"
    fi
  done
  printf '%s\n' "$output" >"$mark.begun"
  printf '[%d] $ ' "$number"
  printf '%q ' "$@"
  printf '\n'
  "$@"
  printf '%s\n' "$line" >"$mark.part"
  mv "$mark.part" "$mark"
}

# preflight: before the first stage that is run, look whether the rest of the chain has what it needs; seconds.
# PREFLIGHT=no leaves it out, PREFLIGHT=only does nothing else.
preflight() {
  [[ $PREFLIGHT != no ]] || return 0
  local made=() there=() policy=("${POLICY_FORM[@]}" "${POLICY_FLAGS[@]}" "${COMPAT_FLAGS[@]}")
  local critic=("${TRAIN_FLAGS[@]}" --mean_log_prob "${CRITIC_FORM[@]}" "${CRITIC_FLAGS[@]}" "${COMPAT_FLAGS[@]}")
  if [[ $METHOD == rft ]]; then policy=("${RFT_FLAGS[@]}") critic=("${TRAIN_FLAGS[@]}" "${RFT_FLAGS[@]}"); fi
  [[ -z $EMBEDDED && $MODEL != embedded ]] || made=(--model_is_made)
  [[ ! -f $GROUND_TRUTH_PREFERENCES_PATH ]] || there=(--dialogues_are_there)
  "$PYTHON" "$root/scripts/preflight.py" --model "$MODEL" --output_path "$OUTPUT_PATH" --test_tasks "$TEST_TASKS" \
    --num_test_tasks "$NUM_TEST_TASKS" --num_test_repeats "$NUM_TEST_REPEATS" --offline="$OFFLINE" \
    --train_tasks="$TRAIN_TASKS" --num_train_tasks "$NUM_TRAIN_TASKS" --k "$K" --data_fraction "$DATA_FRACTION" \
    --evaluate "$EVALUATE" --method "$METHOD" --launcher="$(quoted "${LAUNCHER[@]}")" "${made[@]}" "${there[@]}" \
    --simulate_flags="$(quoted "${SIMULATE_FLAGS[@]}")" --critic_flags="$(quoted "${critic[@]}")" \
    --policy_flags="$(quoted "${TRAIN_FLAGS[@]}" "${policy[@]}")" \
    --evaluate_flags="$(quoted "${GRADING[@]}" "${EVALUATE_FLAGS[@]}" "${PREFERENCE_FLAGS[@]}")"
  [[ $PREFLIGHT != only ]] || exit 0
  PREFLIGHT=no
}

# quoted WORD...: the words as one text that a shell would take apart again
quoted() {
  local text=
  (($# == 0)) || printf -v text '%q ' "$@"
  printf '%s' "$text"
}

simulate() { # MODEL TASKS OUTPUT NUMBER REPEATS
  stage "$3" "$PYTHON" "$root/scripts/simulate_interactions.py" --agent_model "$1" --input_path "$2" \
    --output_path "$3" --num_tasks "$4" --best_of_n "$5" --to_continue "${SIMULATE_FLAGS[@]}"
}

measure() { # MODEL OUTPUT
  simulate "$1" "$TEST_TASKS" "$2" "$NUM_TEST_TASKS" "$NUM_TEST_REPEATS"
  stage "${2%.jsonl}.report.json" "$PYTHON" "$root/scripts/$EVALUATE.py" "$2" --k "$NUM_TEST_REPEATS" \
    "${GRADING[@]}" "${EVALUATE_FLAGS[@]}"
}

train() { # DATA OUTPUT FLAGS...
  local data=$1 output=$2
  shift 2
  stage "$output" "${LAUNCHER[@]}" "$root/scripts/train_dpo.py" --pretrain "$MODEL" \
    --dataset "$data" --save_path "$output" --ckpt_path "$output.checkpoints" --load_checkpoint --overwrite \
    "${TRAIN_FLAGS[@]}" "$@" "${COMPAT_FLAGS[@]}"
}

# Before all, where it is asked for: a model that can play a little, and what it can do
if [[ -n $EMBEDDED ]]; then
  stage "$MODEL" "$PYTHON" "$root/scripts/make_embedded_agent.py" "$MODEL" --world "$EMBEDDED" --overwrite --quiet
  measure "$MODEL" "$OUTPUT_PATH/start.jsonl"
fi

# 1 to 2: dialogues, graded, with pairs of whole ones that know the hidden solution
if [[ -n $OFFLINE ]]; then
  stage "$TRAJECTORIES_PATH" cp "$OFFLINE" "$TRAJECTORIES_PATH"
else
  simulate "$MODEL" "$TRAIN_TASKS" "$TRAJECTORIES_PATH" "$NUM_TRAIN_TASKS" "$K"
fi
stage "$GROUND_TRUTH_PREFERENCES_PATH" "$PYTHON" "$root/scripts/$EVALUATE.py" "$TRAJECTORIES_PATH" --k "$K" \
  --ground_truth_preference_path "$GROUND_TRUTH_PREFERENCES_PATH" --overwrite "${GRADING[@]}" "${EVALUATE_FLAGS[@]}" \
  "${PREFERENCE_FLAGS[@]}"

if [[ $METHOD == rft ]]; then
  # 3 to 5 of the rival: imitate what succeeded, and see what that can do
  stage "$SAVE_PATH" "${LAUNCHER[@]}" "$root/scripts/train_sft.py" --pretrain "$MODEL" --dataset "$TRAJECTORIES_PATH" \
    --save_path "$SAVE_PATH" --ckpt_path "$SAVE_PATH.checkpoints" --load_checkpoint --overwrite \
    "${TRAIN_FLAGS[@]}" "${RFT_FLAGS[@]}"
  measure "$SAVE_PATH" "$EVALUATION_PATH"
  exit
fi

# 3: the critic, which is told the hidden solution
train "$GROUND_TRUTH_PREFERENCES_PATH" "$REWARD_PATH" --mean_log_prob "${CRITIC_FORM[@]}" "${CRITIC_FLAGS[@]}"

# 4 to 6: other turns for the same dialogues, the critic's opinion of them, pairs of them
stage "$SAMPLED_PATH" "$PYTHON" "$root/scripts/sample_best_of_n.py" "$TRAJECTORIES_PATH" "$SAMPLED_PATH" "$MODEL" \
  --data_fraction "$DATA_FRACTION" --to_continue "${SAMPLE_FLAGS[@]}" "${COMPAT_FLAGS[@]}"
stage "$RANKED_PATH" "$PYTHON" "$root/scripts/rank_best_of_n.py" "$SAMPLED_PATH" "$RANKED_PATH" "$REWARD_PATH" \
  --to_continue "${RANK_FLAGS[@]}" "${COMPAT_FLAGS[@]}"
stage "$RANDOM_PAIRS_PATH" "$PYTHON" "$root/scripts/generate_random_pairs_from_ranks.py" "$RANKED_PATH" \
  "$RANDOM_PAIRS_PATH" --overwrite "${PAIR_FORM[@]}" --num_pairs "$NUM_PAIRS" "${PAIR_FLAGS[@]}" "${COMPAT_FLAGS[@]}"

# 7: the policy, which is not
train "$RANDOM_PAIRS_PATH" "$SAVE_PATH" "${POLICY_FORM[@]}" "${POLICY_FLAGS[@]}"

# 8 to 9: what it can do
measure "$SAVE_PATH" "$EVALUATION_PATH"
