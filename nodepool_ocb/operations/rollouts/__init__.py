"""The operations on rollouts, and on the strategies that they carry out."""
