"""The name by which verifiers finds our worlds: it imports modules that have no dot in their names."""

from sweet_rl.integrations.verifiers import TalkHarness, WorldEnv, WorldTaskset

__all__ = ["TalkHarness", "WorldEnv", "WorldTaskset"]
