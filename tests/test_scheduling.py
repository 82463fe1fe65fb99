"""The files of docs/scheduling: as their own tools read them where those are installed, and in any case for what they say."""

from __future__ import annotations

import ast
import configparser
import re
import shutil
import subprocess
from pathlib import Path

import yaml

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "scheduling"


def run(*command: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)


def test_systemd_units_name_the_exit_codes(tmp_path: Path) -> None:
    service, timer = (configparser.ConfigParser(interpolation=None) for _ in range(2))
    service.optionxform = timer.optionxform = str  # type: ignore[assignment,method-assign]
    service.read(FOLDER / "tokenmill.service")
    timer.read(FOLDER / "tokenmill.timer")
    assert service["Service"]["SuccessExitStatus"] == "4" and service["Service"]["RestartPreventExitStatus"] == "2 3"
    assert timer["Timer"]["Persistent"] == "true"
    if shutil.which("systemd-analyze"):
        for name in ("tokenmill.service", "tokenmill.timer"):
            shutil.copy(FOLDER / name, tmp_path)
        said = run("systemd-analyze", "verify", tmp_path / "tokenmill.service", tmp_path / "tokenmill.timer")
        assert not [line for line in said.stderr.splitlines() if "tokenmill" in line], said.stderr
        when = run("systemd-analyze", "calendar", timer["Timer"]["OnCalendar"])
        assert when.returncode == 0 and "03:00:00" in when.stdout


def test_crontab_lines_are_five_fields_and_a_command() -> None:
    lines = (FOLDER / "crontab").read_text().splitlines()
    jobs = [line for line in lines if line[0] in "0123456789*"]
    assert len(jobs) == 2 and all(
        re.fullmatch(r"(?:[\d*]+ ){5}cd /srv/corpus && tokenmill (?:build|verify) .*", job) for job in jobs
    )
    assert all("%" not in job for job in jobs), "cron takes a percent sign for the end of the line"
    if shutil.which("crontab"):
        said = run("crontab", "-n", FOLDER / "crontab")
        assert said.returncode == 0, said.stderr


def test_cron_command_takes_a_held_folder_for_no_failure() -> None:
    tail = "|| [ $? -eq 4 ]"
    assert tail in (FOLDER / "crontab").read_text()
    assert [run("sh", "-c", f"(exit {code}) {tail}").returncode for code in (0, 3, 4)] == [0, 1, 0]


def test_kubernetes_job_fails_at_once_where_trying_again_does_not_help() -> None:
    job = yaml.safe_load((FOLDER / "cronjob.yaml").read_text())
    assert (job["apiVersion"], job["kind"], job["spec"]["concurrencyPolicy"]) == ("batch/v1", "CronJob", "Forbid")
    template = job["spec"]["jobTemplate"]["spec"]
    (rule,) = template["podFailurePolicy"]["rules"]
    pod = template["template"]["spec"]
    assert pod["restartPolicy"] == "Never", "a podFailurePolicy asks for it"
    assert rule["onExitCodes"] == {"containerName": pod["containers"][0]["name"], "operator": "In", "values": [2, 3]}
    assert {mount["name"] for mount in pod["containers"][0]["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}


def test_airflow_dag_is_python_and_builds_before_it_verifies() -> None:
    source = (FOLDER / "airflow_dag.py").read_text()
    tree = ast.parse(source)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "BashOperator"]
    tasks = [keyword.value.value for call in calls for keyword in call.keywords if keyword.arg == "task_id"]  # type: ignore[attr-defined]
    assert tasks == ["build", "verify"] and "build >> verify" in source
