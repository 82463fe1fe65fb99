"""An Airflow DAG (2.4 or later): build every night, then verify. Put this file into your DAGs folder."""

from __future__ import annotations

from datetime import timedelta

import pendulum
from airflow import DAG
from airflow.operators.bash import BashOperator

with DAG(
    dag_id="tokenmill",
    schedule="0 3 * * *",
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 3, "retry_delay": timedelta(minutes=5)},
) as dag:
    # A retried build resumes. A build that finds the folder held by another one (exit code 4) is retried later.
    build = BashOperator(
        task_id="build",
        bash_command="cd /srv/corpus && tokenmill build build.yaml --log-format json",
    )
    verify = BashOperator(task_id="verify", bash_command="cd /srv/corpus && tokenmill verify out")
    build >> verify
