"""Acting on machines over SSH: connections, and the runner on the machine.

The only folder that imports paramiko.
"""
