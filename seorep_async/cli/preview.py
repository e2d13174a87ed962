"""What a pull would do: for a person to read, or as JSON."""

from __future__ import annotations

import json

from seorep_async.cli.screen import printable
from seorep_async.cli.wording import counted, moment
from seorep_async.export.job import ExportJob
from seorep_async.export.preview import PullPreview


def preview_in_words(found: PullPreview, job: ExportJob, source: str) -> str:
    """Return lines for a person."""
    days = f"{job.start_date} to {job.end_date}"
    lines = [
        f"Would pull {', '.join(feed.value for feed in job.feeds)}, {days}, from {printable(source)}",
        f"  Campaigns  {found.campaigns:,}",
        f"  Requests   about {found.requests:,}{_judged(found)}",
    ]
    lines += [f"  File       {printable(str(file))}" for file in found.files]
    if (staged := found.staged) is not None:
        state = "ended with failures" if staged.ended else "was cut off"
        then = (
            f"it would go on with {'it' if staged.reports == 1 else 'them'}" if found.resumes else "it would begin anew"
        )
        reports = counted(staged.reports, "report", "reports")
        lines.append(f"  Kept       {reports} of a pull that {state}, begun {moment(staged.begun)}; {then}")
    return "\n".join(lines)


def _judged(found: PullPreview) -> str:
    by = f", judged by campaign {found.judged_by}" if found.judged_by is not None else ", at one page a report"
    *several, last = ["", *map(str, found.unanswered)]
    named = f"campaigns {', '.join(several[1:])} and {last}" if several[1:] else f"campaign {last}"
    return f"{by}; {named} did not answer" if last else by


def preview_as_json(found: PullPreview, job: ExportJob) -> str:
    """Return one JSON object, for a program to read."""
    staged = found.staged
    facts = {
        "dry_run": True,
        "feeds": [feed.value for feed in job.feeds],
        "start_date": job.start_date.isoformat(),
        "end_date": job.end_date.isoformat(),
        "files": [str(file) for file in found.files],
        "campaigns": found.campaigns,
        "requests": found.requests,
        "judged_by": found.judged_by,
        "unanswered": list(found.unanswered),
        "staged": None
        if staged is None
        else {"begun": staged.begun, "reports": staged.reports, "ended": staged.ended, "resumes": found.resumes},
    }
    return json.dumps(facts, ensure_ascii=False, indent=2)
