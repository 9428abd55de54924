"""``nodepool-ocb rollout``: strategies are checked and planned; rollouts are started, watched and directed."""
