"""The version of ncl_tf."""

VERSION = "0.1.0"
