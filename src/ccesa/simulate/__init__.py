"""Rounds in one process: dropout models, many clients, the eavesdropper."""

from ccesa.simulate.dropout import Burst, Dropout, Exactly, Independent, StepProbabilities
from ccesa.simulate.eavesdropper import Eavesdropper
from ccesa.simulate.enrolment import Federation, chartered, enrol, federate
from ccesa.simulate.first_try import FirstTry, aggregate, usual_plan
from ccesa.simulate.simulation import Report, simulate

__all__ = [
    "Burst",
    "Dropout",
    "Eavesdropper",
    "Exactly",
    "Federation",
    "FirstTry",
    "Independent",
    "Report",
    "StepProbabilities",
    "aggregate",
    "chartered",
    "enrol",
    "federate",
    "simulate",
    "usual_plan",
]
