"""What MLflow loads model.onnx with: it takes a table, a column for each field of
an event or for each feature, and gives one."""

import json

import numpy
import onnxruntime
import pandas


class Model:
    def __init__(self, path):
        self.session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        self.labels = json.loads(self.session.get_modelmeta().custom_metadata_map.get("labels", "[]"))

    def predict(self, data, params=None):
        inputs = self.session.get_inputs()
        if len(inputs) == 1 and inputs[0].name == "x" and not isinstance(data, dict):
            feed = {"x": numpy.asarray(data, numpy.float64)}
        else:
            n = len(next(iter(data.values()))) if isinstance(data, dict) else len(data)
            feed = {i.name: column(i, data.get(i.name), n) for i in inputs}
        table = {}
        for output, values in zip(self.session.get_outputs(), self.session.run(None, feed)):
            if values.ndim == 1:
                table[output.name] = values
            else:
                table.update((f"{output.name} {label}", values[:, k]) for k, label in enumerate(self.labels))
        return pandas.DataFrame(table)


def column(i, values, n):
    """The n values of an input. What is missing is NaN or ""."""
    if i.type == "tensor(int64)":
        return numpy.asarray(values, numpy.int64)
    if i.type == "tensor(string)":
        values = [None] * n if values is None else numpy.asarray(values, object).reshape(-1)
        return numpy.array([["" if pandas.isna(v) else str(v)] for v in values], object)
    width = i.shape[1]
    if values is None:
        return numpy.full((n, width), numpy.nan)
    if width == 1:
        return numpy.asarray(pandas.to_numeric(pandas.Series(numpy.asarray(values).reshape(-1))), numpy.float64).reshape(-1, 1)
    if isinstance(width, int):
        none = [numpy.nan] * width
        values = [none if v is None else v for v in values]
    return numpy.array(list(values), numpy.float64)


def _load_pyfunc(path):
    return Model(path)
