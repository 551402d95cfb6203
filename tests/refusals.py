"""What a refusal must name: the value, its place and what is allowed, whatever the wording."""

import contextlib
from collections.abc import Iterator

import pytest

from ncl_tf.errors import InputError


@contextlib.contextmanager
def refused(*parts: object) -> Iterator[None]:
    """Expect an InputError whose message contains each of the parts."""
    with pytest.raises(InputError) as caught:
        yield
    message = str(caught.value)
    assert [part for part in parts if str(part) not in message] == [], message
