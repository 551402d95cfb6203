"""Events of the benchmark's items: read in blocks from the large tables, attributed to stays and cleaned."""

import collections
import functools
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute

from ncl_tf.data.sources.mimic3_raw.cleaning import clean_value
from ncl_tf.data.sources.mimic3_raw.resources import Item
from ncl_tf.data.sources.mimic3_raw.stays import UnitStay
from ncl_tf.data.sources.mimic3_raw.tables import DATE_LENGTH, RawTable, check_lines, map_blocks, parse_block
from ncl_tf.errors import InputError

# Why rows are dropped, in the order of the rules.
REASONS = (
    *("of other patients", "without an admission", "of an admission without such a stay", "of another stay"),
    *("without a value", "without a time"),
)
NONE = -1  # stands for an empty id


class StayEvents(NamedTuple):
    """Events of all stays, [events] each.

    Attributes:
      stay: index of the stay.
      time: seconds since 1970.
      value: index of what was measured, in a `ValueTable`.
    """

    stay: np.ndarray
    time: np.ndarray
    value: np.ndarray


class ValueTable:
    """All different values: of each its variable, its cleaned number or text, and how a cell of a series spells it."""

    def __init__(self, items: dict[int, Item]) -> None:
        self.variables = sorted({item.variable for item in items.values()})
        self.variable: list[int] = []
        self.cells: list[str] = []
        self._items = items
        self._values: list[float | str] = []
        self._index: dict[tuple[str, str], int] = {}
        self.index = functools.cache(self._find)

    def _find(self, item: int, text: str, unit: str) -> int:
        """Return the index of the value of a measurement, -1 if it has none."""
        variable, label = self._items[item]
        value = clean_value(variable, text, unit, label)
        if value is None:
            return NONE
        key = variable, value if isinstance(value, str) else repr(value)
        if key not in self._index:
            self._index[key] = len(self.cells)
            self.variable.append(self.variables.index(variable))
            self.cells.append(_quoted(key[1]))
            self._values.append(value)
        return self._index[key]

    def order(self) -> np.ndarray:
        """Rank the values of each variable, numbers as numbers and texts as texts: [values], larger is later."""
        ranks = np.empty(len(self._values), np.int32)
        keys = [(variable, value) for variable, value in zip(self.variable, self._values, strict=True)]
        ranks[sorted(range(len(keys)), key=keys.__getitem__)] = np.arange(len(keys))
        return ranks


def _quoted(text: str) -> str:
    """Quote a cell of a .csv file if it needs that."""
    return '"' + text.replace('"', '""') + '"' if set(text) & set(',"\r\n') else text


class Selected(NamedTuple):
    """What a block of a table holds for the stays, and how many of its rows were dropped for which reason."""

    rows: pa.Table
    stay: np.ndarray
    time: np.ndarray
    dropped: collections.Counter


def read_events(
    tables: list[RawTable], items: dict[int, Item], stays: list[UnitStay]
) -> tuple[StayEvents, ValueTable, collections.Counter]:
    """Read the events of the stays, in no order, their values, and the numbers of rows read, dropped by reason and kept."""
    values, funnel = ValueTable(items), collections.Counter()
    parts = [StayEvents(np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.int32))]
    for selected in map_blocks(
        tables, functools.partial(_select, _StayFinder(stays), pa.array(sorted(items), pa.int32()))
    ):
        funnel += selected.dropped
        value = _values_of(selected.rows, values)
        clean = value != NONE
        for variable, count in _tally(selected.rows["ITEMID"].to_numpy()[~clean], items).items():
            funnel[f"unusable {variable}"] += count
        funnel["kept"] += int(clean.sum())
        parts.append(StayEvents(selected.stay[clean], selected.time[clean], value[clean]))
    columns = zip(*parts, strict=True)
    del parts
    return StayEvents(*map(np.concatenate, columns)), values, funnel


class _StayFinder:
    """Finds the stay of an event by its admission; an admission has one stay."""

    def __init__(self, stays: list[UnitStay]) -> None:
        self.order = np.argsort([stay.admission for stay in stays], kind="stable")
        ids = np.array([(stay.subject, stay.admission, stay.stay) for stay in stays], np.int64).reshape(-1, 3)
        self.subjects = np.unique(ids[:, 0])
        self.subject, self.admission, self.stay = ids[self.order].T

    def find(self, rows: pa.Table) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return the stay of each row, [rows], and whether it is to be dropped, for each of the first four reasons."""
        subject, admission = _ids(rows, "SUBJECT_ID"), _ids(rows, "HADM_ID")
        stay = _ids(rows, "ICUSTAY_ID") if "ICUSTAY_ID" in rows.column_names else np.full(len(rows), NONE)
        place = np.minimum(np.searchsorted(self.admission, admission), len(self.admission) - 1)
        foreign = (self.admission[place] != admission) | (self.subject[place] != subject)
        other = (stay != NONE) & (stay != self.stay[place])
        return self.order[place], [~np.isin(subject, self.subjects), admission == NONE, foreign, other]


def _ids(rows: pa.Table, column: str) -> np.ndarray:
    return rows[column].fill_null(NONE).to_numpy()


def _select(finder: _StayFinder, items: pa.Array, table: RawTable, first: int, block: bytes) -> Selected:
    """Parse a block and keep the rows of the items and stays that have a value and a time."""
    rows = parse_block(table, first, block)
    dropped = collections.Counter({"rows": len(rows)})
    rows = rows.filter(pa.compute.is_in(rows["ITEMID"], items))
    dropped["of other items"] = dropped["rows"] - len(rows)
    stay, faults = finder.find(rows)
    faults += [pa.compute.is_null(rows[column]).to_numpy() for column in ("VALUE", "CHARTTIME")]
    reason = np.select(faults, range(len(REASONS)), len(REASONS))
    dropped.update({REASONS[i]: int(n) for i, n in enumerate(np.bincount(reason, minlength=len(REASONS))[:-1]) if n})
    kept = reason == len(REASONS)
    rows = rows.filter(pa.array(kept))
    lengths = pa.compute.binary_length(rows["CHARTTIME"])
    if pa.compute.any(pa.compute.not_equal(lengths, DATE_LENGTH)).as_py():  # Arrow reads dates without a time, too
        check_lines(table, first, block)
    try:
        time = rows["CHARTTIME"].cast(pa.timestamp("s")).cast(pa.int64()).to_numpy()
    except pa.ArrowInvalid as error:
        check_lines(table, first, block)
        raise InputError(f"{table.path}, line {first} and following: {error}") from error
    return Selected(rows.select(["ITEMID", "VALUE", "VALUEUOM"]), stay[kept].astype(np.int32), time, dropped)


def _values_of(rows: pa.Table, values: ValueTable) -> np.ndarray:
    """Return the index of each row's value; equal measurements are cleaned once."""
    codes, entries = [], []
    for column in (rows["ITEMID"], rows["VALUE"], rows["VALUEUOM"].fill_null("")):
        encoded = column.combine_chunks().dictionary_encode()
        codes.append(encoded.indices.to_numpy().astype(np.int64))
        entries.append(encoded.dictionary.to_pylist())
    sizes = [max(len(entry), 1) for entry in entries]
    distinct, place = np.unique(np.ravel_multi_index(codes, sizes), return_inverse=True)
    triples = zip(*np.unravel_index(distinct, sizes), strict=True)
    found = [values.index(*(entry[code] for entry, code in zip(entries, triple, strict=True))) for triple in triples]
    return np.array(found, np.int32)[place]


def _tally(items_of_rows: np.ndarray, items: dict[int, Item]) -> collections.Counter:
    """Count rows by variable."""
    numbers, counts = np.unique(items_of_rows, return_counts=True)
    tally: collections.Counter = collections.Counter()
    for number, count in zip(numbers, counts, strict=True):
        tally[items[int(number)].variable] += int(count)
    return tally
