"""The section on what could not be tested."""

from experiments.page.held import Said, Section

SECTION = Section(
    title="What could not be tested",
    said=[Said("only n up to {:,}", lambda found: [max(row["n"] for row in found["costs"]["rows"])])],
)
