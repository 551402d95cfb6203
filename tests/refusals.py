"""What a refusal must name: the value, its place and what is allowed, whatever the wording."""

import contextlib
from collections.abc import Iterator

import pytest

from ncl_tf.errors import InputError


@contextlib.contextmanager
def refused(*parts: object) -> Iterator[pytest.ExceptionInfo]:
    """Expect an InputError whose message contains each of the parts; " & " separates several in one text."""
    with pytest.raises(InputError) as caught:
        yield caught
    message = str(caught.value)
    wanted = [text for part in parts for text in str(part).split(" & ")]
    assert [text for text in wanted if text not in message] == [], message
