#!/usr/bin/env python3
"""Queries streamsvm predict with tritonclient[http], kserve, and a client that
openapi-python-client generates from /openapi.json, which openapi-spec-validator
checks.

    scripts/serving.py ./streamsvm

    python3 -m venv ~/.cache/streamsvm/serving
    ~/.cache/streamsvm/serving/bin/pip install 'tritonclient[http]' openapi-spec-validator openapi-python-client kserve

kserve is optional. Without the others nothing is tested, and the script says so. It
trains the models first, in a few seconds, and compares answers with those of predict
on standard input, to the bit.
"""

import asyncio, compileall, importlib, json, os, random, socket, subprocess, sys, tempfile, time, urllib.error, urllib.request

VENV = os.path.expanduser("~/.cache/streamsvm/serving/bin/python")
try:
    import numpy as np
    import tritonclient.http as triton
    from openapi_spec_validator import validate
    from tritonclient.utils import InferenceServerException
    import openapi_python_client  # noqa: F401
except ImportError as e:
    if os.path.exists(VENV) and sys.executable != VENV:
        os.execv(VENV, [VENV, *sys.argv])
    print(f"serving: skipped: {e}")
    sys.exit()

program = os.path.abspath(sys.argv[1])
checks = 0


def check(ok, what):
    global checks
    checks += 1
    if not ok:
        sys.exit(f"FAIL: {what}")


def run(*args, stdin=None):
    return subprocess.run([program, *args], input=stdin, check=True, text=True, capture_output=True).stdout


class Server:
    def __init__(self, model):
        self.model = os.path.basename(model).removesuffix(".ssm")
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.addr = "127.0.0.1:%d" % s.getsockname()[1]
        self.process = subprocess.Popen([program, "predict", "--model", model, "--listen", self.addr, "-q"])
        for _ in range(200):
            try:
                self.get("/readyz")
                return
            except OSError:
                time.sleep(0.05)
        sys.exit("predict does not start")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def get(self, path):
        with urllib.request.urlopen(f"http://{self.addr}{path}") as r:
            return r.read()

    def post(self, path, value, **headers):
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        q = urllib.request.Request(f"http://{self.addr}{path}", data, {"Content-Type": "application/json", **headers})
        try:
            with urllib.request.urlopen(q) as r:
                return r.status, r.read()
        except urllib.error.HTTPError as e:
            return e.code, e.read()


def tensor(name, values, datatype):
    t = triton.InferInput(name, list(values.shape), datatype)
    t.set_data_from_numpy(values, binary_data=False)
    return t


def texts(values):
    return np.array(values, dtype=np.object_)


def outputs(binary):
    return [triton.InferRequestedOutput(n, binary_data=binary) for n in ("label", "decision", "probability")]


def same(r, want, what):
    """Compares an answer with what predict prints, a dictionary a row."""
    label = [v.decode() if isinstance(v, bytes) else v for v in r.as_numpy("label")]
    check(label == [json.dumps(w["label"]).strip('"') for w in want], f"{what}: labels {label[:3]}")
    for name in ("decision", "probability"):
        got = r.as_numpy(name).tolist()
        check(got == [w[name] for w in want], f"{what}: {name} {got[:3]}")


def events(dir):
    r = random.Random(1)

    def event():
        return {
            "amount": round(r.lognormvariate(3, 1), 2),
            "country": r.choice(["DE", "FR", "BR", "Čad"]),
            "vip": r.random() < 0.3,
            "items": r.randrange(1, 6),
        }

    with open(f"{dir}/tx.jsonl", "w") as f:
        for i in range(2000):
            e = event()
            f.write(json.dumps({**e, "fraud": (e["amount"] > 40) != (e["country"] == "BR")}) + "\n")
    model = f"{dir}/tx.ssm"
    run("replay", f"{dir}/tx.jsonl", "--label", "fraud", "--model", model, "-q")
    rows = [event() for _ in range(50)]
    want = [json.loads(l) for l in run("predict", "--model", model, stdin="".join(json.dumps(e) + "\n" for e in rows)).splitlines()]
    with Server(model) as s:
        c = triton.InferenceServerClient(s.addr)
        check(c.is_server_live() and c.is_server_ready() and c.is_model_ready("tx"), "health")
        check(not c.is_model_ready("other") and not c.is_model_ready("tx", "3"), "health of what is not there")
        check(c.get_server_metadata()["extensions"] == [], "server metadata")
        meta = c.get_model_metadata("tx")
        check(
            {t["name"]: t["datatype"] for t in meta["inputs"]} == {"amount": "FP64", "country": "BYTES", "vip": "BOOL", "items": "FP64"},
            f"model metadata: {meta}",
        )
        ins = [
            tensor("amount", np.array([e["amount"] for e in rows]), "FP64"),
            tensor("country", texts([e["country"].encode() for e in rows]).reshape(-1, 1), "BYTES"),
            tensor("vip", np.array([e["vip"] for e in rows]), "BOOL"),
            tensor("items", np.array([e["items"] for e in rows]), "INT64"),
        ]
        for out in (None, outputs(True), outputs(False)):  # the client may ask for binary outputs, it gets JSON
            same(c.infer("tx", ins, outputs=out, request_id="7"), want, "events")
        # A row that cannot be used does not keep the others from being scored.
        r = c.infer("tx", [tensor("amount", texts(["12.5", "much"]), "BYTES")])
        check(r.as_numpy("label")[1] is None and r.as_numpy("decision")[1] is None or np.isnan(r.as_numpy("decision")[1]), "an error in a row")
        check(np.isfinite(r.as_numpy("decision")[0]) and "amount" in str(r.as_numpy("error")[1]), "a good row beside it")
        binary = triton.InferInput("amount", [2], "FP64")
        binary.set_data_from_numpy(np.array([1.0, 2.0]))
        for what, ins, kw in (
            ("unloaded version", ins, {"model_version": "9"}),
            ("unknown input", [tensor("amoumt", np.zeros(2), "FP64")], {}),
            ("unequal rows", [tensor("amount", np.zeros(2), "FP64"), tensor("vip", np.zeros(3, bool), "BOOL")], {}),
            ("unknown output", ins, {"outputs": [triton.InferRequestedOutput("logit")]}),
            ("compressed", ins, {"request_compression_algorithm": "gzip"}),
            ("binary", [binary], {}),
        ):
            try:
                c.infer("tx", ins, **kw)
                check(False, f"{what} is not refused")
            except InferenceServerException as e:
                check(e.status() == {"unloaded version": "404", "compressed": "415", "binary": "415"}.get(what, "400"), f"{what}: {e}")
                print(f"  {what}: {e}")
        lines(s, rows, want)
        asyncio.run(kserve(s, rows, want))
        generated(s, dir, rows, want)


def lines(s, rows, want):
    body = "".join(json.dumps(e) + "\n" for e in rows).encode()
    code, body = s.post("/predict", body, **{"Content-Type": "application/x-ndjson"})
    check(code == 200 and [json.loads(l) for l in body.splitlines()] == want, "JSON lines")


async def kserve(s, rows, want):
    try:
        from kserve import InferenceRESTClient, InferInput, InferRequest, RESTConfig
    except ImportError as e:
        print(f"  kserve is not installed: {e}")
        return
    c = InferenceRESTClient(config=RESTConfig(protocol="v2"))
    url = f"http://{s.addr}"
    check(await c.is_server_ready(url) and await c.is_server_live(url) and await c.is_model_ready(url, "tx"), "kserve: health")
    ins = []
    for name, datatype, values in (
        ("amount", "FP64", np.array([e["amount"] for e in rows])),
        ("country", "BYTES", texts([e["country"] for e in rows])),
        ("vip", "BOOL", np.array([e["vip"] for e in rows])),
        ("items", "INT64", np.array([e["items"] for e in rows])),
    ):
        i = InferInput(name, [len(rows)], datatype)
        i.set_data_from_numpy(values, binary_data=False)
        ins.append(i)
    r = await c.infer(url, InferRequest(model_name="tx", infer_inputs=ins), model_name="tx")
    got = {o.name: o.as_numpy().tolist() for o in r.outputs}
    check(got["decision"] == [w["decision"] for w in want] and got["probability"] == [w["probability"] for w in want], "kserve")
    check(r.model_name == "tx", "kserve: name")
    await c.close()
    print("  kserve agrees")


def generated(s, dir, rows, want):
    """Validates /openapi.json, generates a client, and predicts with it."""
    doc = s.get("/openapi.json")
    validate(json.loads(doc))
    name = f"client_{s.model}"
    with open(f"{dir}/openapi.json", "wb") as f:
        f.write(doc)
    p = subprocess.run([os.path.join(os.path.dirname(sys.executable), "openapi-python-client"), "generate", "--path", f.name, "--output-path", f"{dir}/{name}", "--meta", "none"], capture_output=True, text=True)
    check(p.returncode == 0 and "Unable to process" not in p.stdout, f"openapi-python-client: {p.stdout}{p.stderr}")
    check(compileall.compile_dir(f"{dir}/{name}", quiet=1), "the generated client compiles")
    client = importlib.import_module(name)
    predict, models = importlib.import_module(name + ".api.default.predict"), importlib.import_module(name + ".models")
    c = client.Client(base_url=f"http://{s.addr}")
    answer = predict.sync(client=c, body=[models.Example.from_dict(r) for r in rows])
    got = [{k: v for k, v in p.to_dict().items() if k in w} for p, w in zip(answer.predictions, want)]
    check(len(got) == len(want) and got == want, f"generated client: {got[:2]}, want {want[:2]}")
    answer = predict.sync(client=c, body=models.Example.from_dict({**rows[0], "foo": 1}))
    check(answer.predictions[0].unknown == ["foo"], f"generated client: {answer}")
    answer = predict.sync_detailed(client=c, body=models.Example.from_dict({**rows[0], "foo": 1}), strict=True)
    check(answer.status_code == 400 and "unknown fields: foo" in answer.parsed.error, f"generated client: {answer}")
    print(f"  a generated client agrees: {s.model}")


def vectors(dir):
    r = random.Random(2)
    rows = [[r.gauss(0, 1), r.gauss(0, 1)] for _ in range(2000)]
    names = {"number": lambda x: [f'{{"x":{x},"y":{x[0] + x[1]}}}'], "": lambda x: [f'{{"x":{x},"y":{1 if x[0] * x[1] > 0 else -1}}}'], "classes": lambda x: [f'{{"x":{x},"y":{int(x[0] > 0) + 2 * int(x[1] > 0)}}}']}
    for kind, write in names.items():
        model = f"{dir}/v{kind}.ssm"
        with open(f"{dir}/v.jsonl", "w") as f:
            f.writelines(l + "\n" for x in rows for l in write(x))
        run("replay", f"{dir}/v.jsonl", "--model", model, "-q", *["--task", "regress"] * (kind == "number"))
        some = np.array(rows[:40])
        want = [json.loads(l) for l in run("predict", "--model", model, stdin="".join(json.dumps({"x": x}) + "\n" for x in some.tolist())).splitlines()]
        with Server(model) as s:
            generated(s, dir, [{"x": x} for x in some.tolist()], want)
            if kind == "number":
                continue
            if kind:
                for w in want:
                    w["decision"], w["probability"] = list(w["scores"].values()), list(w["probabilities"].values())
            c = triton.InferenceServerClient(s.addr)
            check(c.get_model_metadata(s.model)["inputs"][0]["shape"] == [-1, 2], "the shape of x")
            same(c.infer(s.model, [tensor("x", some, "FP64")], outputs=outputs(False)), want, f"vectors {kind}")
            r32 = c.infer(s.model, [tensor("x", some.astype(np.float32), "FP32")])
            check(np.abs(r32.as_numpy("decision") - np.array([w["decision"] for w in want])).max() < 1e-5, "FP32")


with tempfile.TemporaryDirectory() as dir:
    sys.path.insert(0, dir)
    print("events")
    events(dir)
    print("vectors")
    vectors(dir)
print(f"{checks} checks passed")
