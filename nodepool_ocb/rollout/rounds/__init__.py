"""One round of a rollout's step: what came back, what begins, what is sent, what is tried again."""
