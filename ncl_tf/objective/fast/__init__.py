"""The exact fast form of the objective, tested equal to the readable one."""
