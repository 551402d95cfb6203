"""The version of ncl_tf."""

VERSION = "0.2.0"
