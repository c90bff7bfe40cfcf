"""Numbers as people read them, and round steps for axes."""

from __future__ import annotations

import math


def short(number: float) -> str:
    """12345678 as 12.3M: four characters of meaning, whatever the size."""
    for factor, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        # 999 999 must not become 1000k: rounding decides which unit is due.
        if abs(number) >= factor * 0.9995:
            return f"{number / factor:.3g}{unit}"
    return f"{number:.3g}"


def quantity(number: float, unit: str) -> str:
    """412e12 of FLOP/s as 412 TFLOP/s."""
    text = short(number)
    return f"{text[:-1]} {text[-1]}{unit}" if text[-1].isalpha() else f"{text} {unit}"


def percent(share: float) -> str:
    """0.314 as 31.4 %."""
    return f"{share * 100:.1f} %"


def clock(seconds: float) -> str:
    """3725 as 1:02:05, and days in front where there are any."""
    if not math.isfinite(seconds):
        return "?"
    days, rest = divmod(max(0, int(seconds)), 86400)
    hours, rest = divmod(rest, 3600)
    minutes, second = divmod(rest, 60)
    text = f"{hours}:{minutes:02d}:{second:02d}" if hours or days else f"{minutes}:{second:02d}"
    return f"{days}d {text}" if days else text


def ticks(low: float, high: float, about: int) -> list[float]:
    """Round numbers from below `low` to above `high`, some `about` steps apart."""
    span = high - low
    if not math.isfinite(span) or span <= 0:
        span = abs(low) * 0.1 or 1.0
        high = low + span
    rough = span / max(about, 1)
    size = 10.0 ** math.floor(math.log10(rough))
    step = size * next(factor for factor in (1.0, 2.0, 2.5, 5.0, 10.0) if factor * size >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [index * step for index in range(first, last + 1)]
