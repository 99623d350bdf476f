"""Who answers: each implements `sweet_rl.contracts.User`, one object for many episodes."""
