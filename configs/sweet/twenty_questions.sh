PIPELINE=$(dirname "${BASH_SOURCE[0]}")/twenty_questions.yaml # for scripts/sweet_backend.sh; new: sweet-rl run configs/sweet/twenty_questions.yaml
