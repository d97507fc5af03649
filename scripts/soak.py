#!/usr/bin/env python3
"""Kills trainer, subscriber and broker again and again and shows that nothing is lost.

The soak goes round by round. A round has one learner (all take their turn), a
stream of generated examples with bad records among them, which a producer
writes to a topic of a few partitions, a trainer with checkpoints, dead letters,
recording and model topic, a subscriber that follows the model (subscribe and
predict in turn), and a witness: a subscriber that nobody kills. Trainer,
subscriber and broker are ended at moments drawn from the seed, mostly by
SIGKILL, some by SIGTERM, some are stopped with SIGSTOP for a while; each is
started again as a supervisor would. Then the stream ends, the trainer learns
the rest, and these must hold:

  - the topic holds what was produced, the recording each record of it once, in
    the order of its partition, with --merge ordered in that of time and partition;
  - the state hash is that of a replay of the recording; learner and model,
    to the byte, are those of a replay of the good records alone;
  - each record has one fate, each bad one exactly one dead letter, with its
    value, stage and reason, and no good record has one;
  - subscriber, predictor and witness have never gone back, never seen two
    models of one version, and end with the newest;
  - the trainer has never ended by itself: it is not fenced by its predecessor;
  - the directory of checkpoints holds nothing that does not belong there;
  - memory and file descriptors of a life do not depend on how many were before it.

Every --rivals-th round has two trainers on one model name instead: with
directories of their own; with the second told to replace the model; or with one
directory, where the first is stopped, is taken for dead, and wakes up. Exactly
one must go on, and the model be its.

    scripts/soak.py [--kills 1000] [--seconds S] [--seed 1] [--round-kills 20] [--learners scs,online]
        [--rivals 6] [--embedded] [--json FILE]

ends after so many SIGKILLs or so many seconds, whichever is first, or when it is
interrupted, with its round; prints a line for each round, a summary, and with
--json writes it to a file. The first violation ends it with exit code 1, and
leaves the directory with all logs and the broker's data. The broker is Apache
Kafka (scripts/kafka.sh), with --embedded "streamsvm broker", which is not
killed: it forgets producers. Needs Go, Java 17, Maven, and kcat (Debian).
"""
import argparse, collections, heapq, json, os, random, re, shutil, signal, statistics, subprocess, sys, tempfile, time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# What is wrong, a value (N is a number, so that no two are equal), stage and
# reason, for a stream of two features.
WAYS = [
    ("another format", '+1 1:0.5 2:N', "decode", "syntax"),
    ("cut off", '{"id":"N","x":[0.5,1.2', "decode", "syntax"),
    ("more behind the object", '{"id":"N","x":[1,2],"y":1}}', "decode", "syntax"),
    ("a number as text", '{"id":"N","x":["0.5",1],"y":1}', "decode", "syntax"),
    ("no object but a list", '[N,1]', "decode", "syntax"),
    ("features that are text", '{"id":"N","x":"1,2","y":1}', "decode", "syntax"),
    ("NaN", '{"id":"N","x":[NaN,1],"y":1}', "feature", "not_finite"),
    ("infinity", '{"id":"N","x":[1,-Infinity],"y":1}', "feature", "not_finite"),
    ("more than a float32 holds", '{"id":"N","x":[1e60,1],"y":1}', "feature", "not_finite"),
    ("one feature too many", '{"id":"N","x":[1,2,3],"y":1}', "feature", "dimension"),
    ("one feature too few", '{"id":"N","x":[1],"y":1}', "feature", "dimension"),
    ("index 0", '{"id":"N","x":{"0":1},"y":1}', "decode", "index"),
    ("a feature twice", '{"id":"N","x":{"1":1,"01":2},"y":1}', "decode", "duplicate"),
    ("index above the limit", '{"id":"N","x":{"16777217":1},"y":1}', "feature", "limit"),
    ("unknown label", '{"id":"N","x":[1,2],"y":7}', "label", "label"),
    ("a label as text", '{"id":"N","x":[1,2],"y":"1"}', "decode", "syntax"),
    ("no features", '{"id":"N","y":1}', "decode", "missing"),
]
H = "__streamsvm.errors."
# Exit codes of a trainer that has been replaced, of one that finds the model of another, and of one that has to wait.
FENCED, REFUSED, BUSY = 79, 78, 75
PART = 400  # records a producer writes at a time
BELONGS = re.compile(r"EPOCH|LOCK|checkpoint-\d{10}-\d{12}\.ssc")
RETAIN = 3
MOST_FDS = 40
SPARE_RSS = 80 << 10  # KiB that a life may have more than an undisturbed replay: mostly 30 to 50 MiB, once 69
GIVE_UP = 180  # seconds in which whatever is waited for must happen


class Violation(Exception):
    pass


def must(ok, text, *args):
    if not ok:
        raise Violation(text % args if args else text)


def sh(*cmd, timeout=GIVE_UP):
    try:
        p = subprocess.run(cmd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        raise Violation("%s: not done after %d s" % (" ".join(cmd), timeout))
    must(p.returncode == 0, "%s: exit code %d\n%s%s", " ".join(cmd), p.returncode, p.stdout[-2000:], p.stderr[-4000:])
    return p.stdout


class Process:
    """One after another life of a program, and what it used."""

    def __init__(self, name, role, argv, log):
        self.name, self.role, self.argv, self.log = name, role, argv, log
        self.p = None
        self.lives = []  # of dictionaries: seconds, rss (peak, KiB), fds (most), end, useful: a checkpoint was written, a version read
        self.outs = []  # standard output of each life

    def start(self, *more):
        out = "%s-%d.out" % (self.log, len(self.lives))
        self.outs.append(out)
        with open(self.log + ".log", "ab") as err, open(out, "wb") as o:
            err.write(b"--- %s life %d\n" % (time.strftime("%T").encode(), len(self.lives)))
            err.flush()
            self.p = subprocess.Popen(self.argv() + list(more), stdin=subprocess.PIPE, stdout=o, stderr=err, bufsize=0)
        os.set_blocking(self.p.stdin.fileno(), False)
        self.began, self.stopped = time.monotonic(), False
        self.lives.append({"rss": 0, "fds": 0, "end": "", "seconds": 0, "useful": False})

    def sample(self):
        life = self.lives[-1]
        try:
            with open("/proc/%d/status" % self.p.pid) as f:
                rss = re.search(r"VmHWM:\s+(\d+)", f.read())
            life["rss"] = max(life["rss"], int(rss.group(1)) if rss else 0)
            life["fds"] = max(life["fds"], len(os.listdir("/proc/%d/fd" % self.p.pid)))
        except OSError:
            pass  # it has just ended

    def running(self):
        return self.p is not None and self.p.poll() is None

    def signal(self, s):
        self.sample()
        self.stopped, self.age = s == signal.SIGSTOP, time.monotonic() - self.began
        self.p.send_signal(s)

    def ended(self, how):
        """Notes the end of a life; returns the exit code."""
        code = self.p.wait()
        self.p.stdin.close()
        self.p = None
        self.lives[-1].update(end=how, seconds=round(time.monotonic() - self.began, 3), useful=os.path.getsize(self.outs[-1]) > 0)
        return code

    def kill(self):
        self.signal(signal.SIGKILL)
        self.ended("SIGKILL")

    def terminated(self):
        """Waits for the end after a SIGTERM."""
        try:
            self.p.wait(GIVE_UP)
        except subprocess.TimeoutExpired:
            raise Violation("%s: still there %d s after SIGTERM\n%s" % (self.name, GIVE_UP, self.last_words()))
        code = self.ended("SIGTERM")
        # One that has hardly begun knows nothing of signals yet.
        fine = (0, 75) if self.role == "predict" else (0,)  # what it predicts has not come to its end
        must(code in fine or code == -signal.SIGTERM and self.age < 3, "%s: exit code %d after SIGTERM\n%s", self.name, code, self.last_words())

    def feed(self, text):
        try:
            self.p.stdin.write(text)
        except (BlockingIOError, BrokenPipeError):
            pass

    def last_words(self):
        with open(self.log + ".log", errors="replace") as f:
            return f.read()[-3000:]


class Victim:
    """A process that is ended at drawn moments and started again."""

    def __init__(self, soak, process, rnd, shortest, longest, deadly=True, last=(), again=()):
        self.soak, self.process, self.rnd, self.span, self.deadly = soak, process, rnd, (shortest, longest), deadly
        self.last, self.gone = last, None  # exit codes after which it may stay away, and the one with which it does
        self.again = again  # exit codes after which it is started again
        self.due, self.next = 0, "start"
        self.counts = collections.Counter()

    def plan(self, now):
        draw = self.rnd.random()
        self.next = "kill" if draw < .72 else "term" if draw < .84 else "stop"
        if not self.deadly:
            self.next = "stop"
        self.due = now + self.rnd.uniform(*self.span) * self.soak.stretch

    def tick(self, now):
        """Does what is due; reports True at the end of a life."""
        p = self.process
        if p.p is not None and p.p.poll() is not None:
            if self.next == "terminated":
                p.terminated()
                self.next, self.due = "start", now + self.rnd.uniform(0, .2)
                return True
            code = p.ended("by itself")
            if code in self.last:
                self.gone, self.due, self.next = code, float("inf"), "nothing"
                return True
            if code in self.again:
                self.next, self.due = "start", now + .3
                return True
            raise Violation("%s: ended by itself with exit code %d\n%s" % (p.name, code, p.last_words()))
        if now < self.due:
            return False
        match self.next:
            case "start":
                p.start()
                self.plan(now)
            case "kill":
                p.kill()
                self.counts["SIGKILL"] += 1
                self.next, self.due = "start", now + self.rnd.uniform(0, .2)
                return True
            case "term":
                p.signal(signal.SIGTERM)
                self.counts["SIGTERM"] += 1
                self.next, self.due = "terminated", now + GIVE_UP
            case "terminated":
                raise Violation("%s: still there %d s after SIGTERM\n%s" % (p.name, GIVE_UP, p.last_words()))
            case "stop":
                p.signal(signal.SIGSTOP)
                self.counts["SIGSTOP"] += 1
                self.next, self.due = "continue", now + self.rnd.uniform(.1, 2)
            case "continue":
                if self.deadly and self.rnd.random() < .5:
                    self.next, self.due = "kill", now  # without ever waking up
                else:
                    p.signal(signal.SIGCONT)
                    self.plan(now)
        return False

    def spare(self):
        """No more ends: what is stopped goes on, what is not there is started."""
        self.due = float("inf")
        if self.next == "terminated":
            self.process.terminated()
        if self.process.running():
            self.process.signal(signal.SIGCONT)
        else:
            self.process.start()
        self.next = "nothing"


class Broker:
    """Apache Kafka, or the embedded broker."""

    def __init__(self, exe, directory, embedded):
        self.dir, self.embedded = directory, embedded
        self.kafka = os.path.join(ROOT, "scripts", "kafka.sh")
        self.counts, self.restarts = collections.Counter(), []
        self.state, self.due = "up", 0
        if embedded:
            self.p = subprocess.Popen([exe, "broker", "-q", "--addr", "127.0.0.1:0", "--data-dir", directory], stdout=subprocess.PIPE, text=True)
            self.addr = self.p.stdout.readline().split()[-1]
        else:
            self.addr = sh(self.kafka, "start", directory).strip()

    def signal(self, s):
        with open(os.path.join(self.dir, "pid")) as f:
            os.kill(int(f.read()), s)

    def plan(self, now, rnd):
        self.next = rnd.choices(("kill", "stop", "pause"), (6, 1, 3))[0]
        # On a busy machine a restart takes longer; the others need time in which it is there.
        self.due = now + max(rnd.uniform(4, 20), self.restarts[-1] if self.restarts else 0)

    def tick(self, now, rnd):
        if self.embedded or now < self.due:
            return
        match self.state:
            case "up":
                self.counts[{"kill": "SIGKILL", "stop": "SIGTERM", "pause": "SIGSTOP"}[self.next]] += 1
                if self.next == "pause":
                    self.signal(signal.SIGSTOP)
                    self.state, self.due = "paused", now + rnd.uniform(.2, 3)
                else:
                    self.p = subprocess.Popen([self.kafka, self.next, self.dir])
                    self.state = "ending"
            case "paused":
                self.signal(signal.SIGCONT)
                self.state = "up"
                self.plan(now, rnd)
            case "ending" if self.p.poll() is not None:
                self.state, self.due = "down", now + rnd.uniform(0, 1)
            case "down":
                self.began = now
                self.p = subprocess.Popen([self.kafka, "start", self.dir], stdout=subprocess.DEVNULL)
                self.state = "starting"
            case "starting" if self.p.poll() is not None:
                must(self.p.returncode == 0, "the broker does not come back")
                self.restarts.append(now - self.began)
                self.state = "up"
                self.plan(now, rnd)

    def end(self, *, keep):
        """Ends it, and removes its data unless they are to be looked at."""
        if self.embedded:
            self.p.kill()
            self.p.wait()
        else:
            subprocess.run([self.kafka, "kill", self.dir])
        if not keep:
            shutil.rmtree(self.dir)


class Round:
    letters_kept, recorded, kind = True, True, "one trainer"

    def __init__(self, soak, number, learner):
        self.soak, self.number, self.learner = soak, number, learner
        self.exe, self.broker = soak.exe, soak.broker
        self.dir = os.path.join(soak.tmp, "round-%d" % number)
        os.mkdir(self.dir)
        rnd = self.rnd("plan")
        self.began = time.monotonic()
        self.examples, self.models, self.name = "examples-%d" % number, "models-%d" % number, "m"
        self.partitions = rnd.randint(1, 4)
        self.merge = rnd.choice(("ordered", "arrival"))
        self.every = rnd.choice((100, 250, 700))
        self.rate = rnd.choice((300, 600, 1200))
        self.spared = rnd.random() < .15  # the trainer is stopped at times, and has one long life
        self.learn = ["--learner", learner, "--task", "classify", "--seed", str(rnd.randint(1, 9)), "--warmup", str(rnd.choice((200, 500))),
                      "--tune", rnd.choice(("off", "off", "auto")), "--scale", rnd.choice(("none", "standard", "auto"))]
        for name, value in soak.small[learner].items():
            self.learn += ["--set", "%s=%s" % (name, value)]
        self.publish = ["--max-record-bytes", str(rnd.choice((4096, 921600)))]
        # Among many examples without a label for learners that make use of them.
        self.unlabelled = .7 if learner in soak.semi else 0
        self.good, self.bad, self.produced = {}, {}, []  # value -> number; value -> way
        self.producer, self.behind, self.versions, self.victims = None, 0, 0, []
        self.killed_before = self.broker.counts["SIGKILL"]
        self.seq = 0  # of the newest checkpoint after a life of the trainer

    def rnd(self, what):
        return random.Random("%d %d %s" % (self.soak.args.seed, self.number, what))

    def path(self, *name):
        return os.path.join(self.dir, *name)

    def train(self, directory, *more):
        return [self.exe, "train", "-q", "--brokers", self.broker.addr, "--topics", self.examples, "--codec", "json", "--merge", self.merge,
                "--lateness", "1h", "--topic-wait", "-1s", "--tolerance", "data", "--model-topic", self.models, "--model-name", self.name,
                "--checkpoint", self.path(directory), "--checkpoint-every", str(self.every),
                "--checkpoint-interval", "1s", "--checkpoint-retain", str(RETAIN), "--listen", ""] + [
                    "--record", self.path(directory + ".ssr")] * self.recorded + self.publish + self.learn + list(more)

    def subscribe(self, *more):
        return [self.exe, "model", "follow", "--brokers", self.broker.addr, "--model-topic", self.models, "--model-name", self.name,
                "--topic-wait", "-1s", "--json"] + list(more)

    # The stream.

    def produce(self):
        """Keeps a producer at work."""
        if self.producer is not None:
            code = self.producer.poll()
            if code is None:
                return
            must(code == 0, "produce: exit code %d, see produce.log", code)
        rnd, n = self.rnd("part %d" % (len(self.produced) // PART)), len(self.produced)
        path = self.path("part.jsonl")
        with open(path, "w") as f:
            for i in range(n, n + PART):
                value = self.source.readline().rstrip("\n")
                if i >= 50 and rnd.random() < .02:
                    way = len(self.bad) % len(WAYS)
                    value = WAYS[way][1].replace('"N"', '"%d"' % i) if "NaN" in WAYS[way][1] else WAYS[way][1].replace("N", str(i))
                    self.bad[value] = way
                else:
                    if rnd.random() < self.unlabelled:
                        value = re.sub(',"y":[^}]*', "", value)
                    value = '{"id":"g%d",%s' % (i, value[1:])
                    self.good[value] = i
                self.produced.append(value)
                f.write(value + "\n")
        with open(self.path("produce.log"), "ab") as log:
            self.producer = subprocess.Popen([self.exe, "copy", path, "--brokers", self.broker.addr, "--topic", self.examples, "--partitions", str(self.partitions),
                                              "--partition-by", "rr", "--rate", str(self.rate)], stdout=log, stderr=log)

    def end_of_stream(self):
        if self.producer is not None:
            try:
                code = self.producer.wait(GIVE_UP)
            except subprocess.TimeoutExpired:
                raise Violation("produce: not done after %d s, see produce.log" % GIVE_UP)
            must(code == 0, "produce: exit code %d, see produce.log", code)

    # The round.

    def run(self):
        with open(self.path("source.jsonl"), "w") as f:
            subprocess.run([self.exe, "generate", "checkerboard", "--count", "60000", "--codec", "json", "--seed", str(self.number + 1)], stdout=f, check=True)
        self.source = open(self.path("source.jsonl"))
        self.procs, self.next_sample, self.broker_rnd = [], 0, self.rnd("broker")
        self.broker.plan(self.began, self.broker_rnd)
        self.witness = self.process("witness", "witness", lambda: self.subscribe())
        try:
            self.story()
        finally:
            for p in self.procs:
                if p.running():
                    p.kill()
            if self.producer is not None and self.producer.poll() is None:
                self.producer.kill()
                self.producer.wait()
            self.source.close()

    def process(self, name, role, argv):
        p = Process("%s of round %d" % (name, self.number), role, argv, self.path(name))
        self.procs.append(p)
        return p

    def tick(self):
        """Lets time go on for everybody who is not a victim."""
        time.sleep(.01)
        now = time.monotonic()
        must(now - self.began < 10 * GIVE_UP, "the round takes longer than %d s", 10 * GIVE_UP)
        self.broker.tick(now, self.broker_rnd)
        if now >= self.next_sample:
            self.next_sample = now + .1
            for p in self.procs:
                if p.running():
                    p.sample()
                    if p.role == "train" and "first" not in p.lives[-1] and self.sequence() > self.seq:
                        p.lives[-1]["first"] = now - p.began
                    if p.role == "predict" and not p.stopped:
                        p.feed(b'{"x":[0.3,0.6]}\n')
            must(self.witness.running(), "the witness has ended\n%s", self.witness.last_words())
        return now

    def story(self):
        trainer = self.process("trainer", "train", lambda: self.train("state", "--dlq"))
        kind = iter(lambda: ("subscribe", "predict")[len(follower.lives) % 2], None)
        follower = self.process("subscriber", "subscribe", None)

        def follow():
            follower.role = next(kind)
            if follower.role == "subscribe":
                return self.subscribe("--save", self.path("saved"))
            return [self.exe, "predict", "--brokers", self.broker.addr, "--model-topic", self.models, "--model-name", self.name, "--topic-wait", "-1s"]

        follower.argv = follow
        self.victims = [Victim(self.soak, trainer, self.rnd("trainer"), .1, 2, not self.spared), Victim(self.soak, follower, self.rnd("subscriber"), .1, 3)]
        self.witness.start()
        while self.kills() < self.soak.args.round_kills and not self.soak.over(self.kills()):
            now = self.tick()
            self.produce()
            for v in self.victims:
                if v.tick(now) and v.process is trainer:
                    self.account(v)
        self.settle_broker()
        self.end_of_stream()
        self.finish(self.victims[0])
        self.victims[1].spare()
        while follower.role != "subscribe":
            follower.kill()
            follower.start()
        self.check("state", follower)

    def kills(self):
        return sum(v.counts["SIGKILL"] for v in self.victims) + self.broker.counts["SIGKILL"] - self.killed_before

    def finish(self, victim):
        """Learns the rest of the stream, in at most three lives."""
        trainer, rnd = victim.process, self.rnd("end")
        victim.spare()
        trainer.signal(signal.SIGTERM)
        trainer.terminated()
        for last in [False] * rnd.randint(0, 2) + [True]:
            trainer.start("--until-end")
            self.wait(lambda: not trainer.running(), "the trainer has not come to the end", GIVE_UP if last else rnd.uniform(.1, 1))
            if trainer.running():
                trainer.kill()
                victim.counts["SIGKILL"] += 1
                continue
            code = trainer.ended("end")
            trainer.lives[-1]["useful"] = True
            must(code == 0, "%s: exit code %d at the end\n%s", trainer.name, code, trainer.last_words())

    def wait(self, cond, what, seconds=GIVE_UP):
        end = time.monotonic() + seconds
        while not cond():
            if self.tick() > end:
                must(seconds < GIVE_UP, "%s after %d s", what, seconds)
                return

    def settle_broker(self):
        """Has the broker up, and lets it be."""
        while self.broker.state != "up":
            self.tick()
        self.broker.due = float("inf")

    def account(self, v):
        """After the end of a life of the trainer: has it got anywhere? If not, the next ones are longer: the machine is busy."""
        seq = self.sequence()
        if seq > self.seq:
            self.seq, v.process.lives[-1]["useful"] = seq, True
            self.soak.stretch = max(1, self.soak.stretch / 1.3)
        elif self.broker.state == "up":
            self.soak.stretch = min(10, self.soak.stretch * 1.3)
        if self.broker.state == "up" and self.broker.due - time.monotonic() > 2 and v.rnd.random() < .3 and seq:
            letters = self.letters(5)
            if letters is not None:
                self.behind += max(0, len(letters) - int(self.newest("state")["meta"].get("dead", "0")))

    def sequence(self):
        """The number of the newest checkpoint, 0 without one."""
        files = os.listdir(self.path("state")) if os.path.isdir(self.path("state")) else []
        return max((int(f[-16:-4]) for f in files if f.endswith(".ssc")), default=0)

    # What must hold at the end.

    def newest(self, directory):
        return json.loads(sh(self.exe, "model", "inspect", "--json", self.path(directory)))[0]

    def read(self, topic, timeout=GIVE_UP):
        """All records of a topic: partition, offset, timestamp, value."""
        out = sh("kcat", "-C", "-b", self.broker.addr, "-t", topic, "-o", "beginning", "-e", "-q", "-f", "%p %o %T %s\n", timeout=timeout)
        recs = []
        for line in out.splitlines():
            p, o, t, value = line.split(" ", 3)
            recs.append((int(p), int(o), int(t), value))
        return recs

    def letters(self, timeout=GIVE_UP):
        """The dead letters, or None while they cannot be read."""
        try:
            p = subprocess.run(["kcat", "-C", "-b", self.broker.addr, "-t", self.examples + ".dlq", "-o", "beginning", "-e", "-q", "-J"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=timeout)
        except subprocess.TimeoutExpired:
            return None
        if p.returncode:
            return None
        out = []
        for line in p.stdout.splitlines():
            r = json.loads(line)
            h = r.get("headers") or []
            r["headers"] = dict(zip(h[::2], h[1::2])) if isinstance(h, list) else h
            out.append(r)
        return out

    def replay(self, name, *files):
        """The newest checkpoint, the model and the peak of memory (KiB) of an undisturbed run over files."""
        out = sh(self.exe, "replay", "-q", "--json", "-", *files, "--codec", "json", "--tolerance", "data", "--checkpoint", self.path(name), "--model", self.path(name + ".ssm"), *self.learn)
        with open(self.path(name + ".ssm"), "rb") as f:
            return self.newest(name), f.read(), json.loads(out)["peak_rss_bytes"] >> 10

    def check(self, directory, follower=None):
        records = self.read(self.examples)
        values = [v for *_, v in records]
        must(sorted(values) == sorted(self.produced), "the topic holds %d records, %d were produced", len(values), len(self.produced))
        if not self.recorded:
            sh(self.exe, "copy", self.path(directory + ".ssr"), "--brokers", self.broker.addr, "--topics", self.examples, "--merge", self.merge, "--lateness", "1h", "--until-end", "-q")
        order = self.check_recording(directory, records)
        state = self.newest(directory)
        meta = state["meta"]
        ref, model, self.undisturbed = self.replay("replayed", self.path(directory + ".ssr"))
        must(state["state_hash"] == ref["state_hash"], "state hash %s, a replay of the recording %s", state["state_hash"], ref["state_hash"])
        good = self.path("good.jsonl")
        with open(good, "w") as f:
            f.writelines(v + "\n" for v in order if v in self.good)
        alone, model2, _ = self.replay("alone", good)
        learner = [{s["name"]: s["hash"] for s in x["sections"]}["learner"] for x in (state, alone)]
        must(learner[0] == learner[1], "learner %s, that of the good records alone %s", *learner)
        must(model == model2, "the model of the good records alone differs")
        fates = {k: int(meta.get(k, 0)) for k in ("consumed", "learned", "sampled_out", "dead", "pending")}
        must(fates["consumed"] == len(records) and fates["dead"] == len(self.bad) and fates["pending"] == 0
             and fates["learned"] + fates["sampled_out"] == len(self.good), "fates %s of %d good and %d bad records", fates, len(self.good), len(self.bad))
        if self.letters_kept:
            self.check_letters(records)
        self.check_models(state, model, follower)
        self.check_files(directory)
        self.check_resources()

    def check_recording(self, directory, records):
        """Compares the recording with the topic, and returns the values in the order of consumption."""
        copy = "copy-%d-%s" % (self.number, directory)
        sh(self.exe, "copy", self.path(directory + ".ssr"), "--brokers", self.broker.addr, "--topic", copy, "--partitions", "1", "--partition-by", "rr", "-q")
        order = [v for *_, v in self.read(copy)]
        at = {v: (p, o) for p, o, _, v in records}
        must(sorted(order) == sorted(at), "the recording holds %d records, the topic %d", len(order), len(records))
        last = {}
        for v in order:
            p, o = at[v]
            must(o > last.get(p, -1), "partition %d: offset %d was consumed after %d", p, o, last.get(p, -1))
            last[p] = o
        if self.merge == "ordered":
            parts = collections.defaultdict(list)
            for r in sorted(records):
                parts[r[0]].append(r)
            merged = [v for *_, v in heapq.merge(*parts.values(), key=lambda r: (r[2], r[0]))]
            must(order == merged, "the order of consumption is not that of the timestamps")
        return order

    def check_letters(self, records):
        wrong = {(self.examples, str(p), str(o)): v for p, o, _, v in records if v in self.bad}
        seen = collections.Counter()
        letters = self.letters() if self.bad else []
        must(letters is not None, "the dead letters cannot be read")
        for r in letters:
            h = r["headers"]
            origin = (h.get(H + "topic"), h.get(H + "partition"), h.get(H + "offset"))
            seen[origin] += 1
            must(origin in wrong, "a letter about %s, with which nothing is wrong", origin)
            what, _, stage, reason = WAYS[self.bad[wrong[origin]]]
            must(r["payload"] == wrong[origin] and h.get(H + "stage") == stage and h.get(H + "reason") == reason, "%s: letter %s %s", what, h, r["payload"])
        missing, twice = [o for o in wrong if not seen[o]], [o for o in seen if seen[o] > 1]
        must(not missing and not twice, "%d bad records: %d without a letter %s, %d with more than one %s", len(wrong), len(missing), missing[:3], len(twice), twice[:3])
        if wrong:
            listed = sh(self.exe, "dlq", "list", self.examples + ".dlq", "--brokers", self.broker.addr).splitlines()[-1]
            must(listed.startswith("%d dead letters" % len(wrong)), "dlq list: %s", listed)

    def updates(self, p):
        """What each life of a follower has printed, whole lines only."""
        for path in p.outs:
            with open(path) as f:
                yield [json.loads(line) for line in f if line.endswith("\n")]

    def check_models(self, state, model, follower):
        newest = state["model_version"]

        def current(p):
            lines = list(self.updates(p))[-1]
            return bool(lines) and lines[-1]["version"] == newest

        followers = [p for p in (self.witness, follower) if p]
        hashes = {}
        for p in followers:
            self.wait(lambda: current(p) or not p.running(), "%s: version %d has not come" % (p.name, newest))
            must(p.running(), "%s has ended\n%s", p.name, p.last_words())
            epoch, version = 0, 0
            for n, life in enumerate(self.updates(p)):
                for u in life:
                    e, v = u.get("epoch", epoch), u["version"]  # predictions do not tell the epoch
                    must(v >= version and e >= epoch, "%s: version %d of epoch %d came after version %d of epoch %d, in life %d", p.name, v, e, version, epoch, n)
                    epoch, version = e, v
                    if "hash" in u:
                        must(hashes.setdefault(v, u["hash"]) == u["hash"], "%s: version %d has two models", p.name, v)
        self.versions = len(hashes)
        sh(*self.subscribe("--until", "1", "--save", self.path("once")))
        for saved in ["once"] + ["saved"] * bool(follower):
            with open(self.path(saved, self.name + ".ssm"), "rb") as f:
                must(f.read() == model, "the model that has come to %s is not that of the replay", self.path(saved))

    def check_files(self, directory):
        names = os.listdir(self.path(directory))
        odd = [n for n in names if not BELONGS.fullmatch(n)]
        must(not odd, "left over in the directory of checkpoints: %s", odd)
        n = sum(n.endswith(".ssc") for n in names)
        must(n <= RETAIN, "%d checkpoints are kept", n)

    def check_resources(self):
        for p in self.procs:
            for n, life in enumerate(p.lives):
                must(life["fds"] <= MOST_FDS, "%s: %d file descriptors in life %d", p.name, life["fds"], n)
                must(life["rss"] <= 1.5 * self.undisturbed + SPARE_RSS, "%s: %d MiB in life %d, an undisturbed run takes %d",
                     p.name, life["rss"] >> 10, n, self.undisturbed >> 10)


class Rivals(Round):
    """Two trainers on one model name: exactly one goes on."""

    letters_kept = False

    def story(self):
        rnd = self.rnd("rivals")
        self.kind = rnd.choice(("two directories", "replacing", "one directory"))
        names, again = ("a", "b"), ()
        if self.kind == "one directory":
            # Of a recording there is one writer: the second trainer has to wait for the end of the first.
            self.recorded = rnd.random() < .5
            names, again = ("a", "a"), (BUSY,) * self.recorded
            if not self.recorded:
                self.merge, self.kind = "ordered", "one directory, no recording"
        trainers = [self.process("trainer-%d" % i, "train", lambda n=n, i=i: self.train(n, *["--replace-model"] * (i == 1 and self.kind == "replacing")))
                    for i, n in enumerate(names)]
        first, second = (Victim(self.soak, t, self.rnd(t.name), .2, 2, last=(FENCED, REFUSED), again=again) for t in trainers)
        self.victims = both = [first, second]
        self.witness.start()
        now = self.tick()
        if self.kind == "two directories":
            first.due, second.due = now + rnd.uniform(0, .5), now + rnd.uniform(0, .5)
        else:
            first.deadly = False
            self.until((first,), lambda: self.seen() > 0, "no model has come")
            first.deadly = True
            if names[0] == names[1]:
                first.spare()
                trainers[0].signal(signal.SIGSTOP)
                had = self.seen()
                second.due, second.deadly = 0, False
                self.until((second,), lambda: len(trainers[1].lives) > 2 if self.recorded else self.seen() > had, "the second trainer has not come")
                trainers[0].signal(signal.SIGCONT)
        self.until(both, lambda: first.gone or second.gone, "both trainers go on")
        second.deadly = True
        end = time.monotonic() + rnd.uniform(4, 10)
        self.until(both, lambda: time.monotonic() > end, "")
        must(not (first.gone and second.gone), "both trainers are gone, with exit codes %s and %s", first.gone, second.gone)
        must(second.gone is None or names[0] != names[1], "the second trainer is gone, with exit code %s", second.gone)
        self.kind += ": %s with %s" % (("first", first.gone) if first.gone else ("second", second.gone))
        self.settle_broker()
        self.end_of_stream()
        left = second if first.gone else first
        self.finish(left)
        self.check(names[(first, second).index(left)])

    def seen(self):
        """The newest version that the witness has seen."""
        lines = next(self.updates(self.witness))
        return lines[-1]["version"] if lines else 0

    def until(self, victims, cond, what):
        end = time.monotonic() + GIVE_UP
        while not cond():
            now = self.tick()
            must(now < end, "%s after %d s", what, GIVE_UP)
            self.produce()
            for v in victims:
                v.tick(now)


class Soak:
    def __init__(self, args, tmp):
        self.args, self.tmp = args, tmp
        self.exe = os.path.join(tmp, "streamsvm")
        subprocess.run(["go", "build", "-o", self.exe, "./cmd/streamsvm"], cwd=ROOT, check=True)
        self.learners = [learner["name"] for learner in json.loads(sh(self.exe, "learners", "--json"))]
        # Random features and cross-validation on a scale at which a life gets somewhere.
        self.small, self.semi = {}, set()
        for name in self.learners:
            text = sh(self.exe, "learners", name)
            options = set(re.findall(r"^  (\w+)  ", text, re.M))
            self.small[name] = {"features": 256, "labels": 200} if {"features", "labels"} <= options else {}
            if "rho" in options:
                self.semi.add(name)
        if args.learners:
            self.learners = args.learners.split(",")
        random.Random(args.seed).shuffle(self.learners)
        self.broker, self.began = None, time.monotonic()
        self.rounds, self.brokers = [], []
        self.kills, self.stretch = 0, 1  # times that lives last as long as drawn, on a busy machine

    def over(self, more=0):
        return self.kills + more >= self.args.kills or time.monotonic() - self.began > self.args.seconds

    def run(self):
        n = 0
        while not self.over():
            # A broker of its own for some rounds, or their topics make its restarts slow.
            if n % 16 == 0:
                self.renew()
            kind = Rivals if self.args.rivals and n % self.args.rivals == self.args.rivals - 1 else Round
            r = kind(self, n, self.learners[n % len(self.learners)])
            try:
                r.run()
            except BaseException as e:
                print("\n%s in round %d (%s, %s, merge %s), seed %d; logs: %s; again: %s" % (
                    type(e).__name__, n, r.learner, r.kind, r.merge, self.args.seed, r.dir, " ".join(sys.argv)), flush=True)
                raise
            self.kills += r.kills()
            self.rounds.append(r)
            self.report(r)
            shutil.rmtree(r.dir)
            n += 1

    def report(self, r):
        trainers = [life for p in r.procs if p.role == "train" for life in p.lives]
        print("%3d %-10s %-30s %-8s %2d kills %2d lives, %2d with a checkpoint, %5d records %3d bad %3d versions, at most %3d MiB (undisturbed %3d) %2d fds, %3.0f s" % (
            r.number, r.learner, r.kind, r.merge, r.kills(), len(trainers), sum(l["useful"] for l in trainers), len(r.produced), len(r.bad), r.versions, max(l["rss"] for l in trainers) >> 10,
            r.undisturbed >> 10, max(l["fds"] for l in trainers), time.monotonic() - r.began), flush=True)

    def summary(self):
        ends, lives = collections.Counter(), collections.defaultdict(list)
        for r in self.rounds:
            for v in r.victims:
                for s, n in v.counts.items():
                    ends["trainer" if v.process.role == "train" else "subscriber", s] += n
            for p in r.procs:
                who = "witness" if p is r.witness else "trainer" if p.role == "train" else "subscriber"
                lives[who] += [dict(life, learner=r.learner) for life in p.lives]
        for b in self.brokers:
            for s, n in b.counts.items():
                ends["broker", s] += n
        single = [r for r in self.rounds if r.letters_kept]
        learners = {}
        for name in self.learners:
            mine = [r for r in self.rounds if r.learner == name]
            learners[name] = {"rounds": len(mine), "kills": sum(r.kills() for r in mine), "records": sum(len(r.produced) for r in mine)}
        restarts = [t for b in self.brokers for t in b.restarts]
        return {
            "command": " ".join(sys.argv), "seed": self.args.seed, "broker": "embedded" if self.args.embedded else "Apache Kafka",
            "seconds": round(time.monotonic() - self.began), "rounds": len(self.rounds), "kills": sum(n for (_, s), n in ends.items() if s == "SIGKILL"),
            "ends": {who: {s: n for (w, s), n in sorted(ends.items()) if w == who} for who in ("trainer", "subscriber", "broker")},
            "kinds": dict(collections.Counter(r.kind for r in self.rounds)),
            "records": sum(len(r.produced) for r in self.rounds), "dead_letters": sum(len(r.bad) for r in single),
            "letters_behind_a_checkpoint_at_a_kill": sum(r.behind for r in single), "versions": sum(r.versions for r in self.rounds),
            "trainer_lives_with_a_checkpoint": "%d of %d" % (sum(l["useful"] for r in single for l in r.procs[1].lives), sum(len(r.procs[1].lives) for r in single)),
            "seconds_to_first_checkpoint_of_a_life": spread([l["first"] for r in single for l in r.procs[1].lives if "first" in l]),
            "broker_restart_seconds": spread(restarts),
            "lives": {who: use(l) for who, l in lives.items()},
            "learners": learners,
        }

    def renew(self):
        if self.broker is not None:
            self.broker.end(keep=False)
        self.broker = Broker(self.exe, os.path.join(self.tmp, "broker-%d" % len(self.brokers)), self.args.embedded)
        self.brokers.append(self.broker)


def spread(values):
    return [round(f(values), 1) for f in (min, statistics.median, max)] if values else []


def use(lives):
    """Memory and file descriptors of those lives that got anywhere, and how they changed in the course of the soak."""
    useful = [l for l in lives if l["useful"] and l["rss"]]
    if len(useful) < 3:
        return {"lives": len(lives)}
    rss, fds = [l["rss"] / 1024 for l in useful], [l["fds"] for l in useful]
    usual = {name: statistics.mean(m for m, l in zip(rss, useful) if l["learner"] == name) for name in {l["learner"] for l in useful}}

    def change(values):  # from the first to the last on the line of least squares
        return statistics.linear_regression(range(len(values)), values).slope * (len(values) - 1)

    return {"lives": len(lives), "rss_mib": spread(rss), "fds": spread(fds),
            "rss_change_percent": round(100 * change([m / usual[l["learner"]] for m, l in zip(rss, useful)]), 1), "fds_change": round(change(fds), 2)}


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--kills", type=int, default=1000)
    ap.add_argument("--seconds", type=float, default=float("inf"))
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--round-kills", type=int, default=20)
    ap.add_argument("--learners", default="")
    ap.add_argument("--rivals", type=int, default=6)
    ap.add_argument("--embedded", action="store_true")
    ap.add_argument("--json", default="")
    args = ap.parse_args()
    if not shutil.which("kcat"):
        sys.exit("kcat is missing (Debian: apt-get install kcat)")
    soak = Soak(args, tempfile.mkdtemp(prefix="soak"))

    def interrupted(*_):
        if args.seconds == 0:
            sys.exit("interrupted")
        args.seconds = 0

    for s in (signal.SIGTERM, signal.SIGINT):
        signal.signal(s, interrupted)
    done = False
    try:
        soak.run()
        done = True
    except Violation as e:
        sys.exit(str(e))
    finally:
        if soak.broker is not None:
            soak.broker.end(keep=not done)
    shutil.rmtree(soak.tmp)
    result = soak.summary()
    text = json.dumps(result, indent=1)
    print(text)
    if args.json:
        with open(args.json, "w") as f:
            f.write(text + "\n")
    print("%d kills in %d rounds, nothing lost, nothing twice" % (result["kills"], result["rounds"]))


if __name__ == "__main__":
    main()
