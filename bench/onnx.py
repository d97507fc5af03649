#!/usr/bin/env python3
"""Exported models in ONNX Runtime beside streamsvm's own predictions, one processor
each: size, time to load, rows a second.

    scripts/onnx.sh                              # once; prints the interpreter
    ~/.cache/streamsvm/onnx/bin/python bench/onnx.py

Rows are 28 normal numbers; the label is the sign of a smooth function of them.
"""
import json, os, subprocess, tempfile, time
import numpy, onnxruntime

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
D, TRAIN, ROWS = 28, 4000, 1000
LEARNERS = [("pegasos", ["--set", "kernel=rbf"]), ("pegasos", ["--set", "kernel=laplacian"]), ("online", []), ("dsg", []), ("adaptive", [])]


def rate(n, f):
    best, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < 1:
        one = time.perf_counter()
        f()
        best = max(best, n / (time.perf_counter() - one))
    return best


def main():
    draw = numpy.random.default_rng(1)
    with tempfile.TemporaryDirectory() as tmp:
        program, train = os.path.join(tmp, "streamsvm"), os.path.join(tmp, "train.jsonl")
        subprocess.run(["go", "build", "-o", program, "./cmd/streamsvm"], cwd=ROOT, check=True)
        x = draw.normal(size=(TRAIN, D)).astype(numpy.float32)
        y = numpy.sign(numpy.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2] + 0.3 * x[:, 3:].sum(1))
        with open(train, "w") as f:
            for row, label in zip(x, y):
                f.write(json.dumps({"x": [float(v) for v in row], "y": int(label)}) + "\n")
        rows = draw.normal(size=(ROWS, D)).astype(numpy.float32)
        rows.tofile(os.path.join(tmp, "rows"))
        models = []
        for i, (learner, options) in enumerate(LEARNERS):
            model = os.path.join(tmp, f"{i}.ssm")
            subprocess.run([program, "replay", train, "--learner", learner, "--model", model, *options], check=True, capture_output=True)
            subprocess.run([program, "model", "export", model, "--format", "onnx", "--out", model + ".onnx"], check=True)
            models.append(model)
        own = subprocess.run(["go", "run", "-C", os.path.join(ROOT, "bench"), "./onnx", os.path.join(tmp, "rows"), *models], check=True, capture_output=True, text=True)
        print("| learner | .ssm, KB | .onnx, KB | load, ms: streamsvm | ONNX Runtime | rows/s, blocks of 1,000: streamsvm | ONNX Runtime | one at a time: streamsvm | ONNX Runtime |")
        print("| --- | --: | --: | --: | --: | --: | --: | --: | --: |")
        rows = rows.astype(numpy.float64)
        for model, line, (learner, options) in zip(models, own.stdout.splitlines(), LEARNERS):
            o = onnxruntime.SessionOptions()
            o.intra_op_num_threads = 1
            begin = time.perf_counter()
            s = onnxruntime.InferenceSession(model + ".onnx", o, providers=["CPUExecutionProvider"])
            load = 1000 * (time.perf_counter() - begin)
            blocks = rate(ROWS, lambda: s.run(["decision"], {"x": rows}))
            single = rate(100, lambda: [s.run(["decision"], {"x": rows[i:i + 1]}) for i in range(100)])
            size = [os.path.getsize(p) / 1000 for p in (model, model + ".onnx")]
            a, b, c = map(float, line.split())
            print(f"| {' '.join([learner] + options[1:])} | {size[0]:.0f} | {size[1]:.0f} | {a:.1f} | {load:.1f} | {b:,.0f} | {blocks:,.0f} | {c:,.0f} | {single:,.0f} |")


main()
