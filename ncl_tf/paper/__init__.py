"""The paper's tables: its figures as data, ours beside them, and the jobs that make ours."""
