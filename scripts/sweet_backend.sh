#!/usr/bin/env bash
# The chain of SWEET-RL under its published name and variables: `sweet-rl run` with a file of configs/sweet (docs/pipelines.md).
#
#   scripts/sweet_backend.sh configs/sweet/embedded.sh              the same as: sweet-rl run configs/sweet/embedded.yaml
#   OUTPUT_PATH=run2 K=5 scripts/sweet_backend.sh configs/sweet/embedded.sh --dry_run
#
# A configuration of your own is a shell file of the variables below. Flags that it names are added to those of the
# YAML file that it begins with (PIPELINE; that of the configuration which it sources).
set -euo pipefail

config=${1:?name a configuration, for example configs/sweet/embedded.sh}
shift
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
SIMULATE_FLAGS=() EVALUATE_FLAGS=() TRAIN_FLAGS=() CRITIC_FLAGS=() SAMPLE_FLAGS=() RANK_FLAGS=() PAIR_FLAGS=()
POLICY_FLAGS=() RFT_FLAGS=() PREFERENCE_FLAGS=()
# shellcheck source=/dev/null
source "$config"
files=${PIPELINE:-$root/configs/sweet/sweet.yaml} settings=()

over() { files+=,$root/configs/sweet/over/$1.yaml; }
set_() { settings+=(--set "$1=$2"); }
given() { if [[ -n ${!2+x} ]]; then set_ "$1" "${!2}"; fi; } # SETTING VARIABLE: if the variable is there
flags() {                                                  # STAGE WORDS...: add to a stage's command line
  local words=
  (($# < 2)) || { printf -v words '%q ' "${@:2}" && set_ "stages.$1.args" "$words"; }
}

if [[ -n ${OFFLINE:-} ]]; then over offline; elif [[ -n ${OFFLINE+x} ]]; then over simulated; fi
if [[ -n ${EMBEDDED:-} ]]; then over made_agent; fi
case ${METHOD:-sweet} in
  sweet) ;;
  rft) over rft ;;
  *) echo "error: METHOD must be sweet or rft, got '$METHOD'." >&2 && exit 2 ;;
esac
case ${COMPAT:-fixed} in
  fixed) ;;
  published)
    over published
    # a world with a user's eyes has published rules of its own
    [[ $files != *frontend* && ${EVALUATE:-} != evaluate_html ]] || set_ defaults.simulate_interactions.compat published
    ;;
  *) echo "error: COMPAT must be fixed or published, got '$COMPAT'." >&2 && exit 2 ;;
esac

given folder OUTPUT_PATH
if [[ -n ${EMBEDDED:-} ]]; then
  set_ values.world "$EMBEDDED" && given stages.agent.with.output_dir MODEL
else
  given values.model MODEL
fi
if [[ -n ${OFFLINE:-} ]]; then set_ values.offline "$OFFLINE"; fi
given values.train_tasks TRAIN_TASKS
given values.num_train_tasks NUM_TRAIN_TASKS
given values.test_tasks TEST_TASKS
given values.num_test_tasks NUM_TEST_TASKS
given values.test_repeats NUM_TEST_REPEATS
given values.repeats K
given values.evaluate EVALUATE
given values.data DATA_PATH
given values.gpus GPUS
given values.human_host HUMAN_HOST
given values.human_port HUMAN_PORT
given values.agent AGENT
if [[ ${AGENT:-} == transformers ]]; then
  for stage in simulate_interactions sample_best_of_n; do set_ "defaults.$stage.tensor_parallel_size" null; done
fi
if [[ -n ${VLLM_PYTHON:-} ]]; then set_ values.vllm_python "$VLLM_PYTHON"; fi
if [[ -n ${FLASH+x} && -z $FLASH ]]; then set_ values.flash_attn false; fi
if [[ -n ${CLIP+x} ]]; then set_ values.clip "${CLIP:-null}"; fi
if declare -p LAUNCHER &>/dev/null; then
  printf -v launcher '%q ' "${LAUNCHER[@]}"
  for stage in train_dpo train_sft; do set_ "launchers.$stage" "${LAUNCHER:+$launcher}"; done
fi

[[ -n ${OFFLINE:-} ]] || flags dialogues "${SIMULATE_FLAGS[@]}"
flags grades "${EVALUATE_FLAGS[@]}" "${PREFERENCE_FLAGS[@]}"
if [[ ${METHOD:-sweet} == sweet ]]; then
  flags critic "${TRAIN_FLAGS[@]}" "${CRITIC_FLAGS[@]}"
  flags candidates "${SAMPLE_FLAGS[@]}"
  flags ranks "${RANK_FLAGS[@]}"
  flags pairs "${PAIR_FLAGS[@]}"
  flags policy "${TRAIN_FLAGS[@]}" "${POLICY_FLAGS[@]}"
  given stages.candidates.with.data_fraction DATA_FRACTION
  given stages.pairs.with.num_pairs NUM_PAIRS
else
  flags policy "${TRAIN_FLAGS[@]}" "${RFT_FLAGS[@]}"
fi
flags test "${SIMULATE_FLAGS[@]}"
flags report "${EVALUATE_FLAGS[@]}"
if [[ -n ${EMBEDDED:-} ]]; then flags start "${SIMULATE_FLAGS[@]}"; fi

exec "${PYTHON:-python}" -m sweet_rl run "$files" --preflight "${PREFLIGHT:-yes}" "${settings[@]}" "$@"
