from decimal import ROUND_CEILING, Decimal, localcontext

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from annotations.quantity import MAXIMUM, NANOS, divide_up, parse_quantity

DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}

numbers = st.from_regex(r"([0-9]{1,20}(\.[0-9]{0,15})?|\.[0-9]{1,15})", fullmatch=True)
suffixes = st.sampled_from([*DECIMAL, *BINARY]) | st.builds(
    "{}{}".format, st.sampled_from("eE"), st.integers(-25, 25)
)


def expected_nanos(number: str, suffix: str) -> int:
    """Independent of the code under test: decimal arithmetic instead of shifted integers."""
    with localcontext() as context:
        context.prec = 120
        if suffix in BINARY:
            factor = Decimal(1024) ** BINARY[suffix]
        else:
            power = DECIMAL[suffix] if suffix in DECIMAL else int(suffix[1:])
            factor = Decimal(10) ** power
        nanos = (Decimal(number) * factor * 10**9).to_integral_value(ROUND_CEILING)
        return min(int(nanos), MAXIMUM)


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("0", 0),
        ("1", NANOS),
        ("+1", NANOS),
        ("-1", -NANOS),
        ("1.", NANOS),
        (".5", NANOS // 2),
        ("100m", NANOS // 10),
        ("1u", 1000),
        ("1n", 1),
        ("1k", 10**3 * NANOS),
        ("1M", 10**6 * NANOS),
        ("1E", 10**18 * NANOS),
        ("1E3", 10**3 * NANOS),
        ("1e3", 10**3 * NANOS),
        ("1e+3", 10**3 * NANOS),
        ("12e-1", 1_200_000_000),
        ("1Ki", 2**10 * NANOS),
        ("1Mi", 2**20 * NANOS),
        ("1.5Gi", 3 * 2**29 * NANOS),
        ("1Ti", 2**40 * NANOS),
        ("1Pi", 2**50 * NANOS),
        ("1Ei", 2**60 * NANOS),
        ("128974848000m", 128974848 * NANOS),
    ],
)
def test_each_form_is_read_exactly(text, nanos):
    assert parse_quantity(text) == nanos


@pytest.mark.parametrize("text", ["0.1n", "0.0000000001", "1e-300", "1e-99999999999"])
def test_amounts_below_a_billionth_are_rounded_up_to_it(text):
    assert parse_quantity(text) == 1
    assert parse_quantity("-" + text) == -1


@pytest.mark.parametrize("text", ["10E", "8Ei", "1e19", "1e300", "1e99999999999", "9" * 200])
def test_amounts_beyond_63_bits_are_capped(text):
    assert parse_quantity(text) == MAXIMUM
    assert parse_quantity("-" + text) == -MAXIMUM


@pytest.mark.parametrize(
    "text",
    [
        # Kubernetes' own list of refused quantities (apimachinery, quantity_test.go)
        *(
            "1.1.M",
            "1+1.0M",
            "0.1mi",
            "0.1am",
            "aoeu",
            ".5i",
            "1i",
            "-3.01i",
            "-3.01e-",
            " 1",
            "1 ",
        ),
        *(
            "",
            ".",
            "+",
            "-",
            "m",
            "Ki",
            "e3",
            "1e",
            "1e3k",
            "1Ee3",
            "1K",
            "1g",
            "1ki",
            "1KI",
            "1mm",
        ),
        *("1_000", "1,5", "0x10", "1e1.5", "--1", "+-1", "1\n", "\u0661", "inf", "nan", "1" * 257),
    ],
)
def test_junk_is_refused(text):
    with pytest.raises(ValueError, match="is not a Kubernetes quantity"):
        parse_quantity(text)


@given(numbers, suffixes)
@example("0.1", "Ki")
@example("99999999999999999999", "Ei")
def test_every_quantity_equals_its_decimal_computation(number, suffix):
    assert parse_quantity(number + suffix) == expected_nanos(number, suffix)
    assert parse_quantity("-" + number + suffix) == -expected_nanos(number, suffix)


@given(st.text(max_size=12))
def test_any_text_is_read_or_refused(text):
    try:
        amount = parse_quantity(text)
    except ValueError:
        return
    assert -MAXIMUM <= amount <= MAXIMUM


@given(st.integers(-(10**30), 10**30), st.integers(1, 10**12))
def test_dividing_rounds_up(amount, unit):
    quotient = divide_up(amount, unit)
    assert (quotient - 1) * unit < amount <= quotient * unit
