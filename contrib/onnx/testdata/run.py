"""Runs models 0.onnx, 1.onnx, … of the working directory on inputs 0.json, … and
prints what each gives, a line of JSON for each model."""
import json, sys
import numpy, onnx, onnxruntime

types = {"double": numpy.float64, "int64": numpy.int64, "string": object}
for n in range(int(sys.argv[1])):
    onnx.checker.check_model(onnx.load(f"{n}.onnx"), full_check=True)
    session = onnxruntime.InferenceSession(f"{n}.onnx", providers=["CPUExecutionProvider"])
    with open(f"{n}.json") as f:
        given = json.load(f)
    feed = {v["name"]: numpy.array(v["data"], types[v["type"]]).reshape(v["shape"]) for v in given}
    names = [o.name for o in session.get_outputs()]
    answer = {k: [None if isinstance(x, float) and x != x else x for x in v.reshape(-1).tolist()] for k, v in zip(names, session.run(None, feed))}
    print(json.dumps(answer))
