"""The figures of steps on machines: ours beside pyinfra and Ansible, on the same sshd processes, in the same run."""
