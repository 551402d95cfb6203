"""Configurations as text, for comparing them without gin or TensorFlow."""

import re


def bindings(config: str) -> dict[str, str]:
    """`gin.config_str()` as name -> value, for telling two configurations apart."""
    joined = re.sub(r"\\\n\s*", "", config)
    return dict(re.findall(r"^([\w./@]+) = (.*(?:\n[ \t]+.*)*)", joined, re.MULTILINE))
