"""Rounds in one process, with many clients, dropout models, and federations for simulations only."""

from ccesa.simulate.enrolment import Enrolment, enrol, federate, make_charter
from ccesa.simulate.models import AggregatedModels, NoisyVectors, aggregate, agree_helpers, usual_helpers, usual_plan
from ccesa.simulate.simulation import Dropout, Exactly, Independent, SimulatedRound, StepProbabilities, simulate

__all__ = [
    "AggregatedModels",
    "Dropout",
    "Enrolment",
    "Exactly",
    "Independent",
    "NoisyVectors",
    "SimulatedRound",
    "StepProbabilities",
    "aggregate",
    "agree_helpers",
    "enrol",
    "federate",
    "make_charter",
    "simulate",
    "usual_helpers",
    "usual_plan",
]
