"""Damage to files, drawn by a generator: of bytes, of cells, lines and JSON, and of Parquet, HDF5 and npz by their structure."""

import gzip
import io
import json
import pathlib
import tarfile
import zipfile
from collections.abc import Callable

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet

TOKENS = (
    *(
        "",
        " ",
        "NaN",
        "nan",
        "NA",
        "null",
        "None",
        "inf",
        "-inf",
        "Infinity",
        "1e400",
        "-1e39",
        "1e-400",
        "1_000",
        "0x1A",
        "1,5",
    ),
    *(
        "1 ",
        " 1",
        "1\t",
        "1\0",
        "\0",
        "+1",
        "-0",
        ".5",
        "5.",
        "1e",
        "--1",
        "2",
        "-1",
        "1e9",
        "9007199254740993",
        "4294967296",
    ),
    *(
        "１",
        "٣",
        "½",
        "true",
        "True",
        '"',
        '"1"',
        '1"',
        '""',
        "'",
        "é",
        "\ufeff",
        "\u2028",
        "9" * 5000,
        "x" * 70000,
        "1;1",
        "%",
    ),
    *(
        "[" * 5000,
        "{" * 5000,
        "(" * 400,
        "\\",
        "\\N",
        "#",
        "=",
        "@",
        "a.b",
        "../x",
        "/",
        "include 'x.gin'",
        "1=2",
        "[[a]]",
    ),
)
VALUES = (
    None,
    True,
    False,
    0,
    -1,
    2**53 + 1,
    10**400,
    1.5,
    float("nan"),
    float("inf"),
    "",
    "a",
    "NaN",
    "1",
    [],
    {},
    [1],
    [[]],
)
VALUES += ({"a": 1}, [None], ["a", "a"], "x" * 5000, -0.0, "2020", [1e999], {"name": "a"})

Random = np.random.Generator


def one(random: Random, items):
    """Draw one of the items."""
    return items[int(random.integers(len(items)))]


def of_bytes(data: bytes, random: Random) -> bytes:
    """Flip, overwrite, remove, repeat, insert or exchange bytes, one to three times, or cut the end."""
    for _ in range(int(random.integers(1, 4))):
        start = int(random.integers(len(data) + 1))
        end = min(len(data), start + int(2 ** random.uniform(0, 9)))
        part = data[start:end]
        how = int(random.integers(9))
        if how <= 2 and start < len(data):
            flipped = data[start] ^ (1 << int(random.integers(8)))
            data = data[:start] + bytes([flipped]) + data[start + 1 :]
        elif how == 3:
            data = data[:start] + random.bytes(len(part)) + data[end:]
        elif how == 4:
            data = data[:start] + data[end:]
        elif how == 5:
            data = data[:end] + part + data[end:]
        elif how == 6:
            data = (
                data[:start] + one(random, (b"\0", b"\xff", b"\n", b"\r", one(random, TOKENS).encode())) + data[start:]
            )
        elif how == 7:
            data = data[:start] + one(random, (b"\0", b"\xff")) * len(part) + data[end:]
        else:
            data = data[:start]
    return data


def of_text(data: bytes, random: Random, separators: bytes = b",") -> bytes:
    """Replace cells by tokens, repeat, remove, exchange or empty lines, or write the text in another encoding."""
    for _ in range(int(random.integers(1, 3))):
        lines = data.split(b"\n")
        row, other = int(random.integers(len(lines))), int(random.integers(len(lines)))
        how = int(random.integers(12))
        if how <= 5:
            separator = bytes([one(random, separators)])
            cells = lines[row].split(separator)
            cells[int(random.integers(len(cells)))] = one(random, TOKENS).encode()
            lines[row] = separator.join(cells)
        elif how == 6:
            lines.insert(other, lines[row])
        elif how == 7:
            del lines[row]
        elif how == 8:
            lines[row], lines[other] = lines[other], lines[row]
        elif how == 9:
            separator = bytes([one(random, separators)])
            lines[row] = one(
                random, (b"", lines[row] + separator, lines[row].rpartition(separator)[0], b" " + lines[row])
            )
        elif how == 10:
            lines = one(random, (b"\r\n", b"\r", b"\n\n", b"\x0b", b"\0\n")).join(lines).split(b"\n")
        else:
            text = b"\n".join(lines).decode("utf-8", errors="replace")
            encoding = one(random, ("utf-16", "latin-1", "utf-8-sig", "utf-32", "cp500"))
            return text.encode(encoding, errors="replace")
        data = b"\n".join(lines)
    return data


def places(value, found=()) -> list[tuple]:
    """List the paths of all values within a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found, *(place for key, item in items for place in places(item, (*found, key)))]


def of_json(data: bytes, random: Random) -> bytes:
    """Replace, remove, rename or nest a value."""
    value = json.loads(data)
    for _ in range(int(random.integers(1, 3))):
        place = one(random, places(value))
        if not place:
            return one(
                random, (b"{}", b"[]", b"null", b"", b"[" * 100000, b'{"a":' * 50000, json.dumps([value]).encode())
            )
        parent = value
        for key in place[:-1]:
            parent = parent[key]
        how = int(random.integers(4))
        if how <= 1:
            parent[place[-1]] = one(random, VALUES)
        elif how == 2:
            del parent[place[-1]]
        elif isinstance(parent, dict):
            parent[one(random, ("a", "", str(place[-1]).upper()))] = parent.pop(place[-1])
    return json.dumps(value).encode()


def of_json_lines(data: bytes, random: Random) -> bytes:
    """Damage one line of JSON lines."""
    lines = data.splitlines(keepends=True)
    row = int(random.integers(len(lines)))
    lines[row] = one(random, (of_json, of_text))(lines[row], random) + b"\n"
    return b"".join(lines)


def _columns(column: pa.ChunkedArray, random: Random) -> pa.Array:
    """Give a column another type, or damage a cell."""
    values = column.to_pylist()
    row = int(random.integers(len(values)))
    numbers = [value if isinstance(value, int | float) else index for index, value in enumerate(values)]
    whole = [int(number) if number == number else None for number in numbers]
    made = (
        lambda: pa.array([None] * len(values)),
        lambda: pa.array([str(value) for value in values]),
        lambda: pa.array([str(value) for value in values]).dictionary_encode(),
        lambda: pa.array([str(value) for value in values], pa.large_string()),
        lambda: pa.array([str(value).encode() for value in values]),
        lambda: pa.array(whole, pa.duration(one(random, ("s", "ms", "us", "ns")))),
        lambda: pa.array(whole, pa.timestamp("us", one(random, (None, "UTC")))),
        lambda: pa.array(whole, pa.time64("us")),
        lambda: pa.array(whole, pa.date32()),
        lambda: pa.array(whole, pa.decimal128(12, 3)),
        lambda: pa.array([value == 1 for value in values]),
        lambda: pa.array([[value] for value in values]),
        lambda: pa.array([{"a": value} for value in values]),
        lambda: pa.array(np.array(numbers, float).astype(np.float16)),
        lambda: pa.array([*values[:row], None, *values[row + 1 :]]),
        lambda: pa.array([*values[:row], values[row - 1], *values[row + 1 :]]),
        lambda: pa.array(
            [*numbers[:row], one(random, (float("nan"), float("inf"), 1e300, -1.0, 0.5)), *numbers[row + 1 :]],
            pa.float64(),
        ),
        lambda: pa.array([*whole[:row], one(random, (2**53 + 1, -1, 2, 2**62)), *whole[row + 1 :]], pa.int64()),
    )
    return one(random, made)()


def of_parquet(data: bytes, random: Random) -> bytes:
    """Change a column's type, values, name or rows, and write the table again."""
    table = pa.parquet.read_table(io.BytesIO(data))
    position = int(random.integers(table.num_columns))
    name, how = table.column_names[position], int(random.integers(8))
    try:
        if how <= 4:
            table = table.set_column(position, name, _columns(table[name], random))
        elif how == 5:
            table = table.remove_column(position)
        elif how == 6:
            names = [*table.column_names[:position], one(random, TOKENS[:-12]), *table.column_names[position + 1 :]]
            table = table.rename_columns([*names[:-1], one(random, names)])
        else:
            rows = random.permutation(table.num_rows)[: int(random.integers(table.num_rows + 1))]
            table = table.take(one(random, (np.sort(rows), np.append(np.arange(table.num_rows), rows[:1]), rows)))
    except (pa.ArrowException, OverflowError, ValueError, TypeError):  # no such value in such a type
        return of_bytes(data, random)
    buffer = io.BytesIO()
    pa.parquet.write_table(table, buffer, compression=one(random, ("snappy", "none", "zstd")))
    return buffer.getvalue()


def of_hdf5(data: bytes, random: Random) -> bytes:
    """Change, remove or replace an attribute or a dataset."""
    buffer = io.BytesIO(data)
    with h5py.File(buffer, "r+") as file:
        names: list[str] = []
        file.visit(names.append)
        found = file[one(random, ["/", *names])]
        how = int(random.integers(6))
        attribute = one(random, list(found.attrs)) if len(found.attrs) else None
        if attribute and how <= 3:
            value = found.attrs[attribute]
            if isinstance(value, str) and value[:1] == "{" and how <= 1:
                found.attrs[attribute] = of_json(value.encode(), random).decode()[:60000]
            else:
                choices = (
                    0,
                    -1,
                    7,
                    1.5,
                    np.nan,
                    "",
                    "nan",
                    "a",
                    np.array(["a", "b"], "S1"),
                    np.zeros((2, 3)),
                    h5py.Empty("f"),
                    b"\xff",
                )
                found.attrs[attribute] = one(random, (*choices, value[:-1] if isinstance(value, np.ndarray) else 3))
        elif attribute and how == 4:
            del found.attrs[attribute]
        elif isinstance(found, h5py.Dataset):
            _damage_dataset(file, found, random)
        elif found.name != "/":
            file.move(found.name, one(random, ("/other", "/data/other", "/x/y")))
    return buffer.getvalue()


def _damage_dataset(file: h5py.File, found: h5py.Dataset, random: Random) -> None:
    name, value, how = found.name, found[()], int(random.integers(7))
    if how <= 1 and value.size and value.dtype.kind == "f":
        value.flat[int(random.integers(value.size))] = one(random, (np.nan, np.inf, -np.inf, 2, -1, 1e9, 0, 1, 3e38))
    elif how == 2 and value.size and value.dtype.kind == "i":
        value.flat[int(random.integers(value.size))] = one(random, (0, -1, 1, 2**30))
    elif how == 3:
        value = one(random, (value[:-1], value[1:], value[:0], np.concatenate([value, value[-1:]])))
    elif how == 4:
        kinds = ("f8", "f2", "i4", "i8", "u1", "S3", "c8") if value.dtype.kind != "S" else ("S1",)
        with np.errstate(all="ignore"):
            value = value.astype(one(random, kinds))
    elif how == 5:
        value = one(random, (value[..., None], value.reshape(-1), np.array(3.0), value[::-1]))
    del file[name]
    if how == 6:
        file.create_dataset(
            name, one(random, ((10**10, 8), (5, 5), value.shape)), "f4", chunks=one(random, (None, True))
        )
    else:
        file[name] = value


def of_npz(data: bytes, random: Random) -> bytes:
    """Change an array's type, shape or name."""
    with np.load(io.BytesIO(data)) as archive:
        arrays = dict(archive)
    name = one(random, list(arrays))
    value, how = arrays.pop(name), int(random.integers(5))
    if how == 0:
        arrays[name.upper()] = value
    elif how == 1:
        arrays[name] = value.astype(one(random, ("f8", "i4", "S4", "c8", "?", object)))
    elif how == 2:
        arrays[name] = one(random, (value[None], value[:0], np.asfortranarray(value), np.array(1.0)))
    elif how == 3 and value.size:
        value.flat[0] = one(random, (np.nan, np.inf))
        arrays[name] = value
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def packed(files: dict[str, bytes], form: str, random: Random) -> bytes:
    """Pack files in a zip or tar, with something that archives can have and should not."""
    members, how = list(files.items()), int(random.integers(6))
    if how == 0:
        members.append(one(random, members))
    elif how == 1:
        members.append(
            (one(random, ("../p000009.psv", "/p000009.psv", "a\\..\\..\\p000009.psv", "p000009.psv/")), b"x")
        )
    elif how == 2:
        members = [(name, random.bytes(20)) if random.random() < 0.2 else (name, data) for name, data in members]
    buffer = io.BytesIO()
    if form == "zip":
        with zipfile.ZipFile(buffer, "w", one(random, (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
            for name, data in members:
                archive.writestr(name, data)
        return buffer.getvalue()
    with tarfile.open(
        fileobj=buffer, mode="w", format=one(random, (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT))
    ) as archive:
        for name, data in members:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            if how == 3 and random.random() < 0.2:
                member.type, member.linkname, member.size = (
                    one(random, (tarfile.SYMTYPE, tarfile.LNKTYPE)),
                    members[0][0],
                    0,
                )
            archive.addfile(member, io.BytesIO(data))
    return gzip.compress(buffer.getvalue(), 1) if form == "tar.gz" else buffer.getvalue()


Mutation = Callable[[bytes, Random], bytes]


def of_schema(data: bytes, random: Random) -> bytes:
    """Damage a text of keys and values."""
    return of_text(data, random, b"=,")


def of_psv(data: bytes, random: Random) -> bytes:
    """Damage cells that | separates."""
    return of_text(data, random, b"|")


def of_listfile(data: bytes, random: Random) -> bytes:
    """Damage cells that commas and semicolons separate."""
    return of_text(data, random, b",;")


BY_SUFFIX: dict[str, Mutation] = {
    **{
        ".psv": of_psv,
        ".csv": of_listfile,
        ".toml": of_schema,
        ".gin": of_schema,
        ".json": of_json,
        ".jsonl": of_json_lines,
    },
    **{".parquet": of_parquet, ".h5": of_hdf5, ".npz": of_npz},
}


def damage(path: pathlib.Path, random: Random, share_of_bytes: float) -> None:
    """Damage a file, either its bytes or by its structure."""
    data, by_structure = path.read_bytes(), BY_SUFFIX.get(path.suffix, of_bytes)
    path.write_bytes((of_bytes if random.random() < share_of_bytes else by_structure)(data, random))
