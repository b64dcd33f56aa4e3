"""Rounds in one process: many clients, dropout models, federations that exist only here."""

from ccesa.simulate.dropout import Burst, Dropout, Exactly, Independent, StepProbabilities
from ccesa.simulate.enrolment import Federation, chartered, enrol, federate
from ccesa.simulate.models import aggregate, usual_plan
from ccesa.simulate.noisy import NoisyVectors
from ccesa.simulate.result import AggregatedModels
from ccesa.simulate.simulation import Report, simulate

__all__ = [
    "AggregatedModels",
    "Burst",
    "Dropout",
    "Exactly",
    "Federation",
    "Independent",
    "NoisyVectors",
    "Report",
    "StepProbabilities",
    "aggregate",
    "chartered",
    "enrol",
    "federate",
    "simulate",
    "usual_plan",
]
