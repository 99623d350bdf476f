#!/usr/bin/env bash
# The simulated human of the published runs: a 70B model behind vLLM's OpenAI-compatible server on 8 GPUs.
# Usage: configs/sweet_rl/serve_human_70b.sh MODEL [further arguments of the server]
# Then:  scripts/simulate_interactions.py --hostname THIS_HOST --port 8000 --env_model auto ...
# --trust-remote-code, as published, lets the model's folder bring code that the server runs: name only models you trust.
set -euo pipefail
model=${1:?name a model folder or hub name, for example meta-llama/Llama-3.1-70B-Instruct}
exec python -m vllm.entrypoints.openai.api_server --model "$model" --port 8000 \
  --max-model-len 16384 --tensor-parallel-size 8 --gpu-memory-utilization 0.85 --max-num-seqs 16 \
  --enforce-eager --trust-remote-code "${@:2}"
