"""Scores the rows of Parquet files with Ray Data, and writes them with predictions.

    pip install 'ray[data]>=2' 'streamsvm[sklearn]'
    python ray_score.py payments.ssm payments/ scored/

Each actor has one child process of streamsvm. For a model in a topic that changes while the job
runs, let the actor have a streamsvm.Follower instead.
"""
import sys

import ray
import streamsvm


class Scorer:
    def __init__(self, model: bytes) -> None:
        self.model = streamsvm.Classifier.load(model)

    def __call__(self, batch):
        # A row that cannot be scored is a RowError with its number, which ends the job.
        prediction, probability = self.model.predict(batch), self.model.predict_proba(batch)[:, 1]
        batch["prediction"], batch["probability"] = prediction, probability
        return batch


if __name__ == "__main__":
    model, rows, out = sys.argv[1:]
    with open(model, "rb") as f:
        arguments = [f.read()]
    data = ray.data.read_parquet(rows)
    data.map_batches(Scorer, fn_constructor_args=arguments, batch_format="pandas", batch_size=10_000, concurrency=(1, 2)).write_parquet(out)
