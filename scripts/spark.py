#!/usr/bin/env python3
"""Tests streamsvm.spark on a cluster of Spark with two executor processes: scores batches, and
a stream from Kafka to Kafka and to files, whose model changes and one of whose executors is
killed; and fits.

    scripts/spark.py [--master URL] [--only STAGE] STREAMSVM
    scripts/spark.py --figures ROWS STREAMSVM

The second form measures, on so many rows, what scoring and fitting cost, and what they cost one
process without Spark. STREAMSVM is the program. The first run makes a Python environment and fetches Spark's connector
for Kafka with Maven. Exit code 75: these cannot be had, and nothing has been tested.

Cache: $STREAMSVM_CACHE, else ${XDG_CACHE_HOME:-~/.cache}/streamsvm. Needs Java 17 and Maven.
"""
import argparse, atexit, collections, glob, json, os, pathlib, random, shutil, signal, subprocess, sys, tempfile, threading, time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SPARK = "4.2.0"
PACKAGES = [f"pyspark=={SPARK}", "pandas==2.3.3", "pyarrow==26.0.1", "numpy==2.4.6", "msgpack==1.2.4", "xxhash==4.1.0", "confluent-kafka==2.16.1"]
PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"
cache = os.environ.get("STREAMSVM_CACHE") or os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "streamsvm")
home = pathlib.Path(cache) / "spark"
python = home / "bin" / "python"


def skip(why):
    print(f"spark: skipped: {why}")
    sys.exit(75)


def prepare():
    """Makes the environment, once."""
    for command, package in (("java", "openjdk-17-jre-headless"), ("mvn", "maven")):
        if not shutil.which(command):
            skip(f"{command} is missing (Debian: apt-get install {package})")
    if subprocess.run([ROOT / "scripts" / "kafka.sh", "fetch"]).returncode:
        skip("Apache Kafka cannot be had")
    done, want = home / "complete", " ".join(PACKAGES)
    if done.exists() and done.read_text() == want:
        return
    shutil.rmtree(home, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", home], check=True)
    if subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *PACKAGES]).returncode:
        skip("the packages cannot be had")
    # Spark has the other artifacts that the connector needs.
    (home / "pom.xml").write_text(f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
        <modelVersion>4.0.0</modelVersion><groupId>streamsvm</groupId><artifactId>spark</artifactId><version>1</version><packaging>pom</packaging>
        <dependencies><dependency><groupId>org.apache.spark</groupId><artifactId>spark-sql-kafka-0-10_2.13</artifactId><version>{SPARK}</version></dependency></dependencies>
        </project>""")
    if subprocess.run(["mvn", "-q", "-B", "-f", home / "pom.xml", f"{PLUGIN}:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={home}/jars"]).returncode:
        skip("the connector for Kafka cannot be had")
    for jar in (home / "jars").iterdir():
        if not jar.name.startswith(("spark-", "kafka-clients", "commons-pool2")):
            jar.unlink()
    done.write_text(want)


def check(ok, what):
    if not ok:
        sys.exit(f"FAIL: {what}")


def program(*args, stdin=None, fails=False):
    done = subprocess.run([os.environ["STREAMSVM_BIN"], *args], input=stdin, capture_output=True)
    if done.returncode and not fails:
        sys.exit(f"streamsvm {' '.join(map(str, args))}: {done.stderr.decode()}")
    return done.stdout


def event(r, n):
    """A payment. One in a hundred is bad."""
    amount, country = r.lognormvariate(3, 1), r.choice(["BR", "DE", "FR", "US"])
    night = (hour := r.randrange(24)) < 6
    e = {"id": n, "amount": round(amount, 2), "card": {"country": country, "age": r.randrange(4000)}, "hour": hour,
         "note": r.choice(["rent", "gift for you", "win money now", "thanks"]), "fraud": amount > (15 if night else 60) or r.random() < 0.05}  # fmt: skip
    if r.random() < 0.1:
        del e["hour"]
    if r.random() < 0.1:
        e["note"] = None
    if r.random() < 0.01:
        e["amount"] = "much"
    return e


class Broker:
    """Apache Kafka. The broker of streamsvm does not answer the request by which Spark finds partitions."""

    def __init__(self, directory):
        script = ROOT / "scripts" / "kafka.sh"
        atexit.register(lambda: subprocess.run([script, "clean", directory]))
        env = {**os.environ, "KAFKA_HEAP": "256m"}
        self.address = subprocess.run([script, "start", directory], check=True, stdout=subprocess.PIPE, text=True, env=env).stdout.strip()

    def topics(self, **partitions):
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": self.address})
        for f in admin.create_topics([NewTopic(t, n, 1) for t, n in partitions.items()]).values():
            f.result(30)

    def read(self, topic):
        """All records of a topic."""
        from confluent_kafka import Consumer, KafkaError

        c = Consumer({"bootstrap.servers": self.address, "group.id": "test", "auto.offset.reset": "earliest", "enable.auto.commit": False, "enable.partition.eof": True, "enable.metrics.push": False})
        open_ = set()
        c.subscribe([topic], on_assign=lambda _, parts: open_.update(p.partition for p in parts))
        out, ended = [], set()
        while not open_ or ended < open_:
            m = c.poll(1)
            if m is not None and m.error() and m.error().code() == KafkaError._PARTITION_EOF:
                ended.add(m.partition())
            elif m is not None and not m.error():
                out.append(m.value())
        c.close()
        return out


def session(master, directory, short):
    from pyspark.sql import SparkSession

    log = directory / "log4j2.properties"
    log.write_text("rootLogger.level=off\n")
    b = SparkSession.builder.master(master).appName("streamsvm").config("spark.jars", ",".join(glob.glob(f"{home}/jars/*.jar")))
    for k, v in {
        "spark.driver.memory": "800m", "spark.executor.memory": "800m", "spark.executor.cores": 1, "spark.ui.enabled": "false",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={log} -XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        "spark.executor.extraJavaOptions": f"-Dlog4j2.configurationFile={log} -XX:+UseSerialGC" + " -XX:TieredStopAtLevel=1" * short,
        "spark.sql.shuffle.partitions": 2, "spark.ui.showConsoleProgress": "false", "spark.sql.warehouse.dir": directory / "warehouse",
        "spark.local.dir": directory, "spark.worker.cleanup.enabled": "true", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
    }.items():  # fmt: skip
        b = b.config(k, str(v))
    spark = b.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def executors(spark):
    """Process ids of the executors of this application on this machine."""
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            args = pathlib.Path(path).read_bytes().split(b"\0")
        except OSError:
            continue  # it has ended
        if any(b"CoarseGrainedExecutorBackend" in a for a in args) and spark.sparkContext.applicationId.encode() in args:
            found.append(int(path.split("/")[2]))
    return sorted(found)


def expected(model, lines):
    """What the command predict answers, line by line: label, probability and score; None for an error."""
    out = program("predict", "--model", model, "-q", stdin=b"\n".join(lines) + b"\n", fails=True)
    answers = [json.loads(line) for line in out.splitlines()]
    check(len(answers) == len(lines), "predict answers each line")
    return [None if "error" in a else (json.dumps(a["label"]), a["probability"], a["decision"]) for a in answers]


def batch(spark, directory, models, lines):
    from streamsvm.spark import score

    want = {json.loads(line)["id"]: w for line, w in zip(lines, expected(models[0], lines))}
    path = directory / "events.jsonl"
    path.write_bytes(b"\n".join(lines))
    text = spark.read.text(str(path)).repartition(5)
    # Columns as Spark reads them. The amount of bad rows, and only theirs, is not a number.
    columns = spark.read.json(str(path)).repartition(3).drop("fraud")
    for name, rows in (
        ("records", score(text.selectExpr("value", "get_json_object(value, '$.id') AS id"), models[0], records="value")),
        ("columns", score(columns, models[0])),
    ):
        got = {int(r["id"]): r for r in rows.collect()}
        check(len(got) == len(want), f"{name}: {len(got)} rows of {len(want)}")
        for i, w in want.items():
            r = got[i]
            check((r["error"] is not None) == (w is None), f"{name}: row {i}: error {r['error']!r}, the command: {w}")
            if w is not None:
                check((r["label"], r["probability"], r["score"]) == w, f"{name}: row {i}: {r}, the command: {w}")
    bad = sum(w is None for w in want.values())
    check(bad > 20, "there are bad rows")
    print(f"batch: {len(want):,} rows as records and as columns, bit-equal to the command; {bad} bad ones have an error")


def stream(spark, directory, models, lines, broker):
    from confluent_kafka import Producer
    from pyspark.sql import functions as F

    from streamsvm.spark import Topic, score

    broker.topics(payments=2, scored=2, models=1)
    promote = lambda v: program("model", "promote", "--brokers", broker.address, "--model-topic", "models", "--model-name", "payments", "--alias", "champion", "--model", models[v - 1], "--version", str(v))
    promote(1)
    producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 50, "enable.metrics.push": False, "queue.buffering.max.messages": 1 << 20})

    def produce(part):
        for i, line in part:
            producer.produce("payments", line, str(i))
        producer.flush()

    numbered, half = list(enumerate(lines)), len(lines) // 2
    produce(numbered[:half])
    source = (
        spark.readStream.format("kafka").option("kafka.bootstrap.servers", broker.address).option("subscribe", "payments")
        .option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", len(lines) // 8).load()
    )  # fmt: skip
    scored = score(source.select("value", "partition", "offset", F.get_json_object(F.col("value").cast("string"), "$.id").cast("int").alias("id")), Topic(broker.address, "models", "payments", "champion"), records="value")
    answer = scored.select("partition", "offset", "id", "label", "probability", "score", "version", "error")

    def start():
        to_kafka = answer.select(F.to_json(F.struct("*")).alias("value")).writeStream.format("kafka").option("kafka.bootstrap.servers", broker.address)
        to_files = answer.writeStream.format("parquet").option("path", str(directory / "scored"))
        return (
            to_kafka.option("topic", "scored").option("checkpointLocation", str(directory / "to-kafka")).start(),
            to_files.option("checkpointLocation", str(directory / "to-files")).start(),
        )

    def done(queries, batches):
        until = time.time() + 300
        while not all(q.lastProgress and q.lastProgress["batchId"] >= batches - 1 for q in queries):
            for q in queries:
                check(q.isActive, f"the query has ended: {q.exception()}")
            check(time.time() < until, "the queries do not get on")
            time.sleep(0.05)

    queries = start()
    done(queries, 1)
    promote(2)
    done(queries, 3)
    produce(numbered[half:])
    time.sleep(0.2)
    before = executors(spark)
    check(len(before) == 2, f"two executors: {before}")
    os.kill(before[0], signal.SIGKILL)
    done(queries, 5)
    for q in queries:
        q.stop()
    queries = start()  # from the checkpoint
    for q in queries:
        q.processAllAvailable()
    check(before[0] not in executors(spark), "the executor is dead")
    for q in queries:
        q.stop()
    want = [expected(m, lines) for m in models]
    versions = {}
    for name, rows in (("Kafka", [json.loads(v) for v in broker.read("scored")]), ("files", [r.asDict() for r in spark.read.parquet(str(directory / "scored")).collect()])):
        count = collections.Counter(r["id"] for r in rows)
        check(set(count) == set(range(len(lines))), f"{name}: {len(lines) - len(count)} records have not been scored")
        for r in rows:
            w = want[r["version"] - 1][r["id"]]
            check((r.get("error") is None) == (w is not None), f"{name}: {r}, the command: {w}")
            check(w is None or (r["label"], r["probability"], r["score"]) == w, f"{name}: {r}, the command: {w}")
        versions[name] = collections.Counter(r["version"] for r in rows)
        check(set(versions[name]) == {1, 2}, f"{name}: versions {versions[name]}")
        twice = len(rows) - len(count)
        check(name == "Kafka" or not twice, f"{name}: {twice} are there twice")
        print(f"stream to {name}: {len(lines):,} records, {twice:,} more rows, one executor killed and the query restarted; versions {dict(versions[name])}; bit-equal to the command")


def fit(spark, directory, events):
    from pyspark.ml import Pipeline, PipelineModel
    from pyspark.ml.evaluation import BinaryClassificationEvaluator, MulticlassClassificationEvaluator
    from pyspark.sql import functions as F

    from streamsvm.spark import Classifier, ClassifierModel

    path = directory / "labelled.jsonl"
    path.write_text("\n".join(map(json.dumps, events)))
    train = spark.read.json(str(path)).drop("id").selectExpr("*", "CAST(fraud AS double) AS label").drop("fraud")
    train = train.withColumn("amount", F.expr("CAST(IF(amount = 'much', 'Infinity', amount) AS double)"))
    svm = Classifier(options={"features": 64}, sampleSize=2000)
    model = svm.fit(train.orderBy("card.age").coalesce(1))
    whole = Pipeline(stages=[svm]).fit(train.repartition(7))
    check(whole.stages[0].data == model.data, "the model depends on the partitions")
    bad = sum(e["amount"] == "much" for e in events)
    check(f"{len(events) - bad} examples summed" in model.summary and f"{bad} unusable" in model.summary, model.summary)

    # The same by commands: every version of a model has the same features.
    records, sketch = directory / "records.jsonl", directory / "sketch"
    records.write_text("\n".join(r[0] for r in train.selectExpr("to_json(struct(*))").collect()))
    by_hand = program("sum", "--model", write(directory / "fitted.ssm", model.data), "--tolerance", "data", "--codec", "json", "-q", records)
    check(program("sum", "--solve", write(sketch, by_hand), "-q") == model.data, "the commands give another model")

    hinge = Classifier(options={"features": 32, "loss": "hinge"}, sampleSize=1000).fit(train.repartition(2))
    check("converged" in hinge.summary, hinge.summary)

    model.write().overwrite().save(str(directory / "model"))
    again = ClassifierModel.load(str(directory / "model"))
    check(again.data == model.data and again.getInputCols() == model.getInputCols(), "a saved model is another one")
    svm.write().overwrite().save(str(directory / "svm"))
    check(Classifier.load(str(directory / "svm")).getOrDefault("options") == {"features": 64}, "a saved estimator is another one")
    whole.write().overwrite().save(str(directory / "pipeline"))
    out = PipelineModel.load(str(directory / "pipeline")).transform(train)
    check(out.filter("error IS NOT NULL").count() == bad, "bad rows have an error")
    good = out.filter("error IS NULL")
    accuracy = MulticlassClassificationEvaluator(metricName="accuracy").evaluate(good)
    auc = BinaryClassificationEvaluator().evaluate(good)
    check(accuracy > 0.85 and auc > 0.85, f"accuracy {accuracy}, AUC {auc}")
    print(f"fit: {len(events):,} rows in 1 and 7 partitions, and the commands: the same model to the bit; accuracy {accuracy:.4f}, AUC {auc:.4f}")


class Processor:
    """Processor time of this process and its descendants, in seconds."""

    def __init__(self):
        self.used, self.stop = {}, threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.stop.wait(0.25):
            self.look()

    def look(self):
        stats = {}
        for path in glob.glob("/proc/[0-9]*/stat"):
            try:
                fields = pathlib.Path(path).read_text().rpartition(") ")[2].split()
            except OSError:
                continue  # it has ended
            stats[int(path.split("/")[2])] = int(fields[1]), fields[19], int(fields[11]) + int(fields[12])
        for who, (parent, start, ticks) in stats.items():
            pid = who
            while parent in stats and pid != os.getpid():
                pid, parent = parent, stats[parent][0]
            if pid == os.getpid() or parent == os.getpid():
                self.used[start, who] = ticks
        return sum(list(self.used.values())) / os.sysconf("SC_CLK_TCK")


def figures(spark, directory, rows, processor):
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyspark.sql import functions as F

    from streamsvm.spark import Classifier, score

    def generate(path, n, seed):
        r = np.random.default_rng(seed)
        x = r.normal(size=(n, 8))
        country, hour = r.integers(0, 5, n), r.integers(0, 24, n)
        f = np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2] + 0.5 * x[:, 3] + np.where(hour < 6, 0.7, -0.2) + (country == 2) + r.normal(size=n) * 0.5
        columns = {f"x{j}": pa.array(x[:, j].round(4), mask=r.random(n) < 0.05 if j == 7 else None) for j in range(8)}
        columns |= {"country": pa.array(["BR", "DE", "FR", "IT", "US"]).take(pa.array(country)), "hour": pa.array(hour), "label": pa.array((f > 0.5).astype(int))}
        pq.write_table(pa.table(columns), path)

    (directory / "train").mkdir()
    part = min(rows, 1_000_000)
    for i in range(rows // part):
        generate(directory / "train" / f"{i}.parquet", part, i)
    generate(directory / "test.parquet", 100_000, 10**6)
    train, test = spark.read.parquet(str(directory / "train")), spark.read.parquet(str(directory / "test.parquet"))
    for df, name in ((train, "json"), (test, "test-json")):
        df.select(F.to_json(F.struct("*"), {"ignoreNullFields": "true"}).cast("binary").alias("value")).write.parquet(str(directory / name))
        spark.read.parquet(str(directory / name)).selectExpr("CAST(value AS string)").coalesce(1).write.text(str(directory / (name + "l")))
    lines, test_lines = (glob.glob(str(directory / n / "*.txt"))[0] for n in ("jsonl", "test-jsonl"))
    size = os.path.getsize(lines)
    print(f"{rows:,} rows, {size / rows:.0f} bytes each as JSON; {os.cpu_count()} processors, load {os.getloadavg()[0]:.0f}; spark {spark.version}", flush=True)
    model = directory / "figures.ssm"
    program("replay", lines, "--limit", "20000", "--codec", "json", "--label", "label", "--learner", "online", "--model", model, "-q")

    def measure(name, f):
        wall, used = time.time(), processor.look()
        out = f()
        wall, used = time.time() - wall, processor.look() - used
        print(f"{name}: {wall:.1f} s, {used:.1f} s of processor time, {1e6 * used / rows:.2f} µs a row", flush=True)
        return out

    def scored(df, **how):
        row = score(df, str(model), prefix="svm_", **how).agg(F.count("svm_label"), F.avg("svm_probability"), F.count("svm_error")).first()
        check(row[0] == rows and row[2] == 0, f"{row}")

    records = spark.read.parquet(str(directory / "json"))
    for _ in range(2):
        measure("read the columns, without scoring", lambda: train.agg(*[F.count(c) for c in train.columns]).first())
        measure("score columns", lambda: scored(train.drop("label")))
        measure("score records", lambda: scored(records, records="value"))
        measure("one process: predict", lambda: subprocess.run([os.environ["STREAMSVM_BIN"], "predict", "--model", model, "--codec", "json", "-q", "--output", "decision", lines], check=True, stdout=subprocess.DEVNULL))
    options, fitted = {"features": 256, "c": 100}, directory / "fitted.ssm"
    model = measure("fit, 256 features", lambda: Classifier(options=options).fit(train))
    good = model.transform(test)
    print(f"  accuracy {good.filter('prediction = label').count() / good.count():.4f}; {model.summary}")
    write(fitted, model.data)
    sums = measure("one process: sum", lambda: program("sum", "--model", fitted, "--codec", "json", "-q", lines))
    check(program("sum", "--solve", write(directory / "sums", sums), "-q") == model.data, "one process gives another model")
    out = measure("one process: replay", lambda: program("replay", lines, "--codec", "json", "--label", "label", "--learner", "lssvm", *[f"--set={k}={v}" for k, v in options.items()], "--test", test_lines))
    print("  " + next(x for x in out.decode().splitlines() if x.startswith("test")))


def write(path, data):
    path.write_bytes(data)
    return path


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--master", default="local-cluster[2,1,1024]")
    ap.add_argument("--events", type=int, default=16000)
    ap.add_argument("--only", choices=["batch", "stream", "fit"])
    ap.add_argument("--figures", type=int, metavar="ROWS")
    ap.add_argument("program")
    args = ap.parse_args()
    if pathlib.Path(sys.prefix) != home:
        prepare()
        env = {"PYSPARK_PYTHON": str(python), "STREAMSVM_BIN": os.path.abspath(args.program), "PYTHONPATH": str(ROOT / "python" / "src"), "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONDONTWRITEBYTECODE": "1"}
        os.execve(python, [str(python), *sys.argv], {**os.environ, **env})
    started, processor = time.time(), Processor()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as d:
        directory = pathlib.Path(d)
        r = random.Random(1)
        events = [event(r, i) for i in range(args.events)]
        models = [str(directory / f"{v}.ssm") for v in (1, 2)]
        for v, m in enumerate(models):
            good = [{k: x for k, x in e.items() if k != "id"} for e in events[: 1000 * (v + 1)] if e["amount"] != "much"]
            first = directory / "first.jsonl"
            first.write_text("\n".join(map(json.dumps, good)))
            program("replay", first, "--label", "fraud", "--learner", "online", "--model", m, "-q")
        lines = [json.dumps({k: v for k, v in e.items() if k != "fraud"}).encode() for e in events]
        spark = session(args.master, directory, not args.figures)
        try:
            if args.figures:
                figures(spark, directory, args.figures, processor)
                return
            if args.only in (None, "batch"):
                batch(spark, directory, models, lines[:6000])
            if args.only in (None, "stream"):
                stream(spark, directory, models, lines, Broker(directory / "kafka"))
            if args.only in (None, "fit"):
                fit(spark, directory, events[:6000])
        finally:
            spark.stop()
    print(f"spark: {time.time() - started:.0f} s, {processor.look():.0f} s of processor time")


main()
