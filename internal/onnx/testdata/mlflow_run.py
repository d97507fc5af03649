"""Loads a directory by MLflow, and predicts a table: the JSON of a list of rows."""
import sys, logging
import mlflow, pandas

logging.disable(logging.WARNING)
model = mlflow.pyfunc.load_model(sys.argv[1])
table = pandas.read_json(sys.stdin, dtype=False)
for column in model.metadata.get_input_schema() if not model.metadata.get_input_schema().is_tensor_spec() else ():
    if column.name not in table:
        continue
    if str(column.type) == "DataType.double":
        table[column.name] = table[column.name].astype(float)
    else: # a missing list is None
        table[column.name] = table[column.name].astype(object).where(table[column.name].notna(), None)
if "--array" in sys.argv:
    table = table.to_numpy(float)
print(model.predict(table).to_json(orient="records", double_precision=15))
assert mlflow.onnx.load_model(sys.argv[1]).graph.output[0].name in ("label", "value")
