"""The section on claims of the text: a verdict on each, and the numbers behind it."""

from experiments.claims.forty import T_FACES
from experiments.page.claims_table import claims, costs, forty_at, least, limit, part, recalls, sized
from experiments.page.held import Results, Said, Section
from experiments.page.markdown import power, word


def _neighbours(found: Results) -> list[float]:
    mine = part(found, "forty")
    return [(mine["n"] - 1) * mine["p"], mine["t"]]


def _most(found: Results) -> list[object]:
    mine = part(found, "arbitrary")
    worst = mine["worst"]
    return [mine["scanned"], mine["rises"], worst["bound"], worst["n"], worst["q_total"]]


def _above(found: Results) -> list[float]:
    case = part(found, "arbitrary")["t_above_the_mean"]
    return [case["n"], case["t"], case["p"], case["q_total"], case["printed"], case["exact_one_client"]]


def _unreliable(found: Results, n: int) -> list[str]:
    rows = sized(part(found, "rates")["unreliable"], n)
    row = next(row for row in rows if row["q_total"] == 0.0)
    return [power(10, round(row[key])) for key in ("log10_exact", "log10_claimed")]


def _lemmas(found: Results) -> list[object]:
    rows = sized(part(found, "rates")["lemmas"], 1000)
    calm, rough = rows
    return [calm["largest_b"], calm["at_m"], calm["falls_from"], rough["first_half_rate"]]


def _gaps(found: Results, name: str) -> list[int]:
    return [sum(row[name] for row in part(found, "proof")["rows"])]


def _milliseconds(found: Results) -> list[float]:
    mine = part(found, "curves")
    return [
        *(mine["microseconds"][name]["agreement"]["median"] for name in ("X25519", "P-256")),
        mine["nist_more_ms_a_neighbour"],
    ]


def _key_bytes(found: Results) -> list[float]:
    own, short, whole = part(found, "curves")["bytes_per_client"].values()
    return [short / own - 1, whole / own - 1]


def _server(found: Results) -> list[float]:
    return [row[key] for row in part(found, "running")["rows"] if row["q_total"] for key in ("server", "p")]


def _off(found: Results, *steps: str) -> float:
    """Return how far the ratio of a step is from p, at most."""
    return max(abs(row[step] / row["p"] - 1) for row in part(found, "running")["rows"] for step in steps)


def _rounds(found: Results) -> list[object]:
    case = forty_at(found, 0.1)
    runs = case["rounds"]
    return [runs["majority"]["sums"]["count"], runs["majority"]["sums"]["of"], case["majority_lost"]]


SECTION = Section(
    title="Claims of the text",
    tables=[claims, recalls, costs],
    said=[
        Said("has only {:.1f} neighbours in the mean where the rule asks for t = {} holders", _neighbours),
        Said(
            "({:.1f} of 40 clients not informative; {:.1f} at q_total = 0.1)",
            lambda found: [forty_at(found, q)["not_informative"] for q in (0.0, 0.1)],
        ),
        Said(
            "with the t = {} of its other figure on the same faces {:.0f}",
            lambda found: [T_FACES, forty_at(found, 0.0)["not_informative_t_faces"]],
        ),
        Said(
            "{} of {} rounds gave a sum, with or without dropouts (at most {:.1%} do, with a confidence of 95 %)",
            lambda found: [
                word(max(forty_at(found, q)["rounds"]["paper"]["sums"]["count"] for q in (0.0, 0.1))),
                forty_at(found, 0.0)["rounds"]["paper"]["sums"]["of"],
                max(forty_at(found, q)["rounds"]["paper"]["sums"]["high"] for q in (0.0, 0.1)),
            ],
        ),
        Said("{} of {} rounds gave their sum at q_total = 0.1 (exactly, {:.4f} are lost at most)", _rounds),
        Said("falls apart with {}", lambda found: [power(10, round(forty_at(found, 0.1)["log10_not_private"], 1))]),
        Said(
            "from n = {} on without dropouts and from {:,} at q_total = 0.1",
            lambda found: [part(found, "resources")["p_star"][place]["at_most_0.3"] for place in (0, -1)],
        ),
        Said("0.01 at most: {:.4f} (q_total = 0.1)", lambda found: [least(found)["smallest"]]),
        Said("p = {:.3f} with t_i a majority", lambda found: [least(found)["planned"]]),
        Said(
            "Among all {:,} pairs of n from 100 to 1,000 and the four q_total the bound rises above its value at"
            " p* in {:,}, by up to {:.2f} times (n = {}, q_total = {})",
            _most,
        ),
        Said("at most {:.2f} of the plotted bound", lambda found: [part(found, "arbitrary")["most_exact"]]),
        Said("at most {:.2f} times the plotted", lambda found: [part(found, "arbitrary")["most_corrected"]]),
        Said("n = {}, t = {}, p = {}, q_total = {} it says {:.2f}, and each client fails with {:.4f}", _above),
        Said(
            "At n = 10,000 a round is lost with {} (q_total = 0) where the claim has {}",
            lambda found: _unreliable(found, 10_000),
        ),
        Said("b_m is up to {:.1f} at n = 1,000 (m = {}), falls only from m = {} on", lambda found: _lemmas(found)[:3]),
        Said("e^(−{:.2f} n) for q_total = 0.1", lambda found: _lemmas(found)[3:]),
        Said(
            "{:.2f} at q_total = 0 and {:.2f} at 0.1",
            lambda found: [limit(found, q, "not_private") for q in (0.0, 0.1)],
        ),
        Said("{:,} of the cases are of this kind", lambda found: _gaps(found, "no edge leads out")),
        Said("it is false in {:,} cases", lambda found: _gaps(found, "members alone do not suffice")),
        Said(
            "With the model of the faces ({:,} elements) it is {:.2%} of all bytes",
            lambda found: [part(found, "figure_1")["real"][-1][key] for key in ("length", "ratio")],
        ),
        Said(
            "steps 1 and 2 within {:.0%}, and of step 3 within {:.0%}",
            lambda found: [_off(found, "step 1", "step 2"), _off(found, "step 3")],
        ),
        Said("the server's ratio is {:.2f} (p = {:.2f}), {:.2f} ({:.2f}) and {:.2f} ({:.2f})", _server),
        Said("{:.0f} and {:.0f} µs of processor time, {:.2f} ms more for each neighbour", _milliseconds),
        Said("{:.1%} or {:.0%} more for SA at n = 1,000", _key_bytes),
    ],
    fixed=[
        '"Only 40 % of those of SA" (figure 2).** p = 0.4',
        "of 40 clients not",
        "with a confidence of 95 %",
        '"20 ∼ 30 %" (abstract).** It rests on n = 1,000 and p = 0.25',
        "p*². p* is at most three tenths",
        "for q_total = 0 / 0.1, by",
        "the last two columns",
        "It is 1/p*, a third of that",
        "p* is 3/(1 − 2 q_total) times",
        "Remark 1 says",
        "lost with 0.01 at most",
        "with p = 0.25 itself",
        "bound of Theorem 5 at p*",
        "whenever (n − 1) p has grown by two",
        "n from 100 to 1,000 and the four q_total",
        "instead of t − 1, and",
        "Theorem 6 has no t",
        "(Theorem 5).** Only for t − 1 below",
        "at 0.1. Its two lemmas",
        "the first half of the sum",
        "**Theorem 4** (p > ln(l)/l, l = ⌈n(1 − q)³ − √(n log n)⌉) needs the factor 1 + ε",
        "for the rounds of 40 clients, which",
        "of two curves, which",
        "5,000 members and 5,000 others",
        "exactly one half",
        "**Theorem 2** is true, and its proof has two gaps",
        '"Half of the bandwidth" (figure 1).** Two neighbours instead of four halve',
        "a client's steps 1 and 2 within",
        "of step 3 within",
        "appendix C's m·d² would give p²",
        '"NIST SP800-56"',
        "P-256 is the likely one",
        "of P-256 is a byte longer, or twice as long",
        "that figures 1 and 2 look",
    ],
)
