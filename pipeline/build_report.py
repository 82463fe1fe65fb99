"""The report at the end of `tokenmill build`: made anew when the tokenizer, the corpus or the section `report` is another one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tokenmill.pipeline import summary
from tokenmill.pipeline.build_steps import Build, hash_output
from tokenmill.pipeline.planning import Plan
from tokenmill.pipeline.report_command import ReportPlan, carry_out, check_report_output, plan_report, write_report
from tokenmill.pipeline.state import OUTPUTS

#: What is written, by the name of its format.
REPORTS = {"html": "report.html", "json": "report.json"}


def check_build_report(build: Build, *, overwrite: bool) -> None:
    """Refuse to replace files that no build has written."""
    if build.config.report.enabled:
        for name in REPORTS.values():
            check_report_output(build.output.join(name), overwrite=overwrite)


def plan_build_report(build: Build, plan: Plan) -> ReportPlan | None:
    """What the section `report` asks for, None where it is not enabled; refused before any work."""
    section, corpus = build.config.report, plan.corpus
    if not section.enabled:
        return None
    limit = min((number for number in (section.limit, corpus.limit) if number is not None), default=None)
    read = corpus.read if section.by is None else replace(corpus.read, id_column=None)
    made = plan if limit == corpus.limit and section.by is None else None
    wanted = replace(corpus, limit=limit, read=read)
    return plan_report(wanted, build.run, by_column=section.by, by_file=section.by_file, plan=made)


def write_build_report(build: Build, planned: ReportPlan | None) -> str:
    """Write the report in each format; returns its lines of the summary, none where the last build has written it already."""
    if planned is None or (not build.overwrite and build.state.reported == _describe_sources(build)):
        return ""
    paths = {output_format: build.output.join(name) for output_format, name in REPORTS.items()}
    report = carry_out(planned, [build.join(1)], build.run, output=paths["html"])
    for output_format, path in paths.items():
        write_report(report, output_format, path)
    build.state.reported = _describe_sources(build)
    return summary.describe_report(report, paths["html"])


def _describe_sources(build: Build) -> dict[str, Any]:
    """What the report was made from, and what it is."""
    names = (*OUTPUTS[:2], *REPORTS.values())
    return {
        "options": build.config.report.model_dump(mode="json"),
        "files": {name: hash_output(build.output, name) for name in names},
    }
