#!/usr/bin/env python3
"""Looks at the pages of streamsvm with Chromium.

    scripts/browser.py shots [OUT]   takes the pictures of the README, by default into docs/
    scripts/browser.py pages [OUT]   opens the pages of train, for two and ten classes and for a number, and of
                                     predict, as on a desktop and on a phone, in light and dark; OUT gets pictures
    scripts/browser.py test          clicks through the pages of train and predict, and opens reports

They run a broker, train and predict, and for reports replay and demo. pages and
test fail on errors of scripts, on what axe finds about accessibility, and if an
answer is below the fold. They need Go, Chromium (or its path in CHROMIUM) and two
Python packages:

    python3 -m venv ~/.cache/streamsvm/browser
    ~/.cache/streamsvm/browser/bin/pip install playwright axe-playwright-python

Without these pages and test are skipped, and say so.
"""
import argparse, contextlib, json, os, pathlib, random, re, shutil, signal, socket, subprocess, sys, tempfile, time, urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VENV = os.path.expanduser("~/.cache/streamsvm/browser/bin/python")
PHONE, DESK = {"width": 390, "height": 844}, {"width": 1100, "height": 900}
TOKEN = "0123456789abcdef"
EVIL = '<img src=x onerror="document.title=1">'  # as the name of a field and a category


def chromium():
    return os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def events(n, change):
    """Payments, some of them frauds; after the change, of another kind."""
    r = random.Random(1)
    for i in range(n):
        late = i >= change
        amount = round(r.lognormvariate(3.8 if late else 3.2, 0.9), 2)
        hour = int(r.gauss(14, 5)) % 24
        country = r.choices(["DE", "FR", "US", "BR", "NG", "ES"] + ["VN", "KE"] * late, [30, 20, 20, 10, 5, 15] + [10, 8] * late)[0]
        age = max(0, int(r.expovariate(1 / 400)))
        risk = 0.9 * (amount > 60) + 1.6 * (country in (("US", "VN") if late else ("BR", "NG"))) + 1.2 * (hour < 6) + 0.8 * (age < 60) + r.gauss(0, 0.45)
        event = {"user_id": "u%d" % r.randrange(10**6), "amount": amount, "country": country, "device": r.choices(["phone", "desktop", "tablet"], [60, 30, 10])[0],
                 "hour": hour, "account_age": age, EVIL: r.choice(["yes", EVIL]), "is_fraud": risk > 1.4}
        if r.random() < (0.12 if late else 0.02):
            del event["account_age"]
        yield event


def free():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return "127.0.0.1:%d" % s.getsockname()[1]


def listens(address):
    host, port = address.split(":")
    with socket.socket() as s:
        return s.connect_ex((host, int(port))) == 0


def metric(listen, name):
    try:
        text = urllib.request.urlopen("http://%s/metrics" % listen, timeout=5).read().decode()
    except OSError:
        return 0
    return sum(float(v) for v in re.findall(r"^%s(?:\{[^}]*\})? (\S+)$" % name, text, re.M))


class Processes:
    """What has been started, and is stopped at the end."""

    def __init__(self, d):
        self.d, self.started = d, []
        self.program = os.path.join(d, "streamsvm")
        subprocess.run(["go", "build", "-o", self.program, "./cmd/streamsvm"], cwd=ROOT, check=True)

    def start(self, *args):
        with open(os.path.join(self.d, "log-%d" % len(self.started)), "wb") as log:
            self.started.append(subprocess.Popen([self.program, *args], stdout=log, stderr=log, cwd=self.d, env={**os.environ, "STREAMSVM_ADMIN_TOKEN": TOKEN}))

    def until(self, what, done, seconds=120):
        end = time.time() + seconds
        while not done():
            if time.time() > end:
                for i, p in enumerate(self.started):
                    with open(os.path.join(self.d, "log-%d" % i), errors="replace") as log:
                        print(*p.args[1:], "\n", log.read()[-1000:])
                sys.exit("browser: %s did not happen in %d s" % (what, seconds))
            time.sleep(0.3)

    def stop(self):
        for p in reversed(self.started):
            if p.poll() is None:
                p.send_signal(signal.SIGTERM)
                p.wait()

    def run(self, *args):
        subprocess.run([self.program, *args], check=True, cwd=self.d, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class Service(Processes):
    """A broker with a producer, train and predict."""

    def __init__(self, d, evil, count, rate):
        super().__init__(d)
        self.file, first, rest = (os.path.join(d, name) for name in ("payments.json", "first.json", "rest.json"))
        with open(self.file, "w") as f, open(first, "w") as f1, open(rest, "w") as f2:
            for i, e in enumerate(events(count, count // 2)):
                if not evil:
                    del e[EVIL]
                for to in (f, f2 if i >= 1000 else f1):
                    to.write(json.dumps(e) + "\n")
        broker, self.train, self.predict = free(), free(), free()
        common = ["--brokers", broker]
        self.start("broker", "--data-dir", "b", "--addr", broker)
        self.until("a broker", lambda: listens(broker))
        self.run("copy", first, "--topic", "payments", "--partitions", "1", *common)
        self.start("train", "--topics", "payments", "--label", "is_fraud", "--model-topic", "models", "--model-name", "payments", "--checkpoint", "state",
                   "--checkpoint-interval", "3s", "--listen", self.train, *common)
        self.start("predict", "--model-topic", "models", "--topics", "payments", "--predictions-topic", "predictions", "--listen", self.predict, *common)
        self.start("copy", rest, "--topic", "payments", "--rate", str(rate), *common)

    def replay(self, out, *more):
        self.run("replay", self.file, "--label", "is_fraud", "--report", out, *more)
        return "file://" + os.path.join(self.d, out, "index.html")

    def demo(self):
        self.run("demo", "--report", "demo")
        return "file://" + os.path.join(self.d, "demo", "index.html")


@contextlib.contextmanager
def running(evil, count, rate):
    from playwright.sync_api import sync_playwright
    with tempfile.TemporaryDirectory() as d, sync_playwright() as p:
        service = Service(d, evil, count, rate)
        try:
            browser = p.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
            yield service, browser
            browser.close()
        finally:
            service.stop()


def opened(browser, url, size=DESK, theme="light", scale=1.5, **more):
    """A page whose mistakes are noted down."""
    page = browser.new_context(viewport=size, color_scheme=theme, device_scale_factor=scale, **more).new_page()
    page.wrong = []
    page.on("pageerror", lambda e: page.wrong.append(str(e)))
    page.on("console", lambda m: m.type == "error" and page.wrong.append(m.text))
    page.on("request", lambda r: r.url.startswith("/".join(url.split("/")[:3])) or page.wrong.append("fetches " + r.url))
    page.goto(url)
    page.wait_for_timeout(400)
    return page


def shots(out):
    with running(False, 60_000, 900) as (service, browser):
        service.until("a fall of accuracy", lambda: metric(service.train, "streamsvm_records_total") > 45_000, 600)
        train = "http://%s/" % service.train

        def shot(url, name, size, theme, height):
            page = opened(browser, url, {"width": size["width"], "height": height}, theme)
            page.screenshot(path=os.path.join(out, name))
            if page.wrong:
                sys.exit("browser: %s: %s" % (name, page.wrong))
            page.context.close()
            print(name)

        shot(train, "status.png", DESK, "light", 1500)
        shot(train, "status-phone.png", PHONE, "dark", 1500)
        shot(service.replay("report"), "report.png", DESK, "dark", 1500)
        shot(service.demo(), "demo.png", DESK, "light", 620)


def check(page, where, width=DESK["width"]):
    """What holds of every page."""
    bad = list(page.wrong)
    wide = page.evaluate("document.documentElement.scrollWidth")
    if wide > width:
        bad.append("it is %d pixels wide on a screen of %d" % (wide, width))
    for what, script in {
        "no language": "!document.documentElement.lang", "not one h1": "document.querySelectorAll('h1').length !== 1",
        "not one main": "document.querySelectorAll('main').length !== 1", "a table without a caption": "[...document.querySelectorAll('table:not(.u-legend)')].some(t => !t.caption)",
        "a control without a name": "[...document.querySelectorAll('select, button, input')].some(c => !c.labels?.length && !c.textContent.trim())",
        "text of others became markup": "document.querySelector('img') !== null || document.title === '1'",
        "a chart that is not drawn": "[...document.querySelectorAll('figure.chart')].some(f => !f.querySelector('canvas'))",
        "an id that is there twice": "new Set([...document.querySelectorAll('[id]')].map(e => e.id)).size !== document.querySelectorAll('[id]').length",
    }.items():
        if page.evaluate(script):
            bad.append(what)
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    page.evaluate(AXE)
    for v in page.evaluate("axe.run()")["violations"]:
        bad += ["%s (%s): %s" % (v["id"], v["impact"], n["html"][:200]) for n in v["nodes"][:3]]
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = false)")
    if bad:
        sys.exit("browser: %s: %s" % (where, "; ".join(bad)))


def want(ok, what):
    if not ok:
        sys.exit("browser: not so: " + what)
    print("ok:", what)


def stream(kind, n):
    """Events of two classes, of ten, or with a number to predict, and the name of their label."""
    if kind == "two":
        yield from ({k: v for k, v in e.items() if k != EVIL} for e in events(n, n // 2))
        return
    r = random.Random(2)
    names = ["boot", "coat", "dress", "hat", "jacket", "sandal", "scarf", "shirt", "sweater", "trousers"]
    for _ in range(n):
        k = r.randrange(10)
        e = {"length": round(r.gauss(3 * k, 2), 2), "weight": round(r.gauss(k % 4, 0.7), 2), "material": r.choice(["cotton", "leather", "linen", "wool"]), "sleeves": k in (1, 4, 7, 8)}
        yield {**e, "price": round(5 + 2 * e["length"] + 9 * (e["material"] == "leather") + r.gauss(0, 3), 2)} if kind == "number" else {**e, "kind": names[k]}


LABELS = {"two": "is_fraud", "ten": "kind", "number": "price"}


def pages(out):
    """Opens the pages of train for each kind of label, and of predict, as people see them."""
    from playwright.sync_api import sync_playwright
    with tempfile.TemporaryDirectory() as d, sync_playwright() as p:
        s, broker = Processes(d), free()
        try:
            s.start("broker", "--data-dir", "b", "--addr", broker)
            s.until("a broker", lambda: listens(broker))
            urls = {}
            for kind, label in LABELS.items():
                with open(os.path.join(d, kind + ".json"), "w") as f:
                    f.writelines(json.dumps(e) + "\n" for e in stream(kind, 3000))
                    f.write('{"%s":\n' % label)  # a record that is refused
                s.run("copy", kind + ".json", "--topic", kind, "--partitions", "1", "--brokers", broker)
                urls[kind] = free()
                s.start("train", "--topics", kind, "--label", label, "--model-topic", "models", "--model-name", kind, "--checkpoint", "state-" + kind,
                        "--publish-every", "500", "--tolerance", "data", "--listen", urls[kind], "--brokers", broker, *["--task", "regress"] * (kind == "number"))
            for kind in LABELS:
                s.until("the model of " + kind, lambda kind=kind: metric(urls[kind], "streamsvm_records_total") > 3000 and metric(urls[kind], "streamsvm_models_published_total") > 0)
                # A fast learner may have learned all before there was a version. These come after it.
                s.run("copy", kind + ".json", "--topic", kind, "--brokers", broker)
                s.until("more records of " + kind, lambda kind=kind: metric(urls[kind], "streamsvm_records_total") > 6000)
            urls["predict"] = free()
            s.start("predict", "--model-topic", "models", "--model-name", "two", "--topics", "two", "--predictions-topic", "scored", "--listen", urls["predict"], "--brokers", broker)
            s.until("predictions", lambda: metric(urls["predict"], "streamsvm_predictions_total") >= 3000)
            browser = p.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
            for kind, url in urls.items():
                for name, size, more in (("desk", DESK, {}), ("phone", PHONE, {"is_mobile": True, "has_touch": True})):
                    page = opened(browser, "http://%s/" % url, size, "light", **more)
                    for theme in ("light", "dark"):
                        page.emulate_media(color_scheme=theme)
                        where = "%s, %s, %s" % (kind, name, theme)
                        check(page, where, size["width"])
                        answers(page, where, kind)
                        if out:
                            page.screenshot(path=os.path.join(out, "%s-%s-%s.png" % (kind, name, theme)), full_page=True)
                    page.context.close()
                print("ok:", kind)
            browser.close()
        finally:
            s.stop()


def answers(page, where, kind):
    """The answers are above the fold, and the trainer's accuracy stands beside that as published."""
    questions = page.locator("nav a span").all_inner_texts()
    wanted = ["Are its predictions right?" if kind == "predict" else "Is it learning?", "Is it drifting?"]
    wanted += ["What does it confuse?"] * (kind != "number") + ["What does it refuse?", "What is published?"]
    if questions != wanted:
        sys.exit("browser: %s: the questions are %s" % (where, questions))
    if page.evaluate("[...document.querySelectorAll('nav a')].some(a => a.getBoundingClientRect().bottom > innerHeight)"):
        sys.exit("browser: %s: an answer is below the fold" % where)
    if kind != "predict" and "as published" not in page.locator("nav a").first.inner_text():
        sys.exit("browser: %s: nothing about what is published beside the trainer's own" % where)


def test():
    with running(True, 30_000, 600) as (service, browser):
        train, predict = "http://%s/" % service.train, "http://%s/" % service.predict
        service.until("three versions", lambda: metric(service.train, "streamsvm_models_published_total") >= 3)
        page = opened(browser, train)
        check(page, "train")
        want(page.locator("#drift th", has_text=EVIL).count() > 0, "the name of a field is shown as it is, and is not run")

        # It renews itself in place.
        page.evaluate("window.kept = document.querySelector('canvas')")
        page.locator("summary").first.click()
        page.locator("nav a").nth(1).focus()
        before = page.locator("#lead").inner_text()
        page.wait_for_function("t => document.querySelector('#lead').innerText !== t", arg=before, timeout=20_000)
        want(page.evaluate("window.kept === document.querySelector('canvas')"), "the page renews itself without a reload, and charts stay")
        want(page.evaluate("document.querySelector('details').open && document.activeElement.hash === '#drift'"), "what is open and the focus stay")

        # The five answers, above the fold.
        want(page.locator("nav a").count() == 5, "five questions are answered")
        want(page.evaluate("[...document.querySelectorAll('nav a')].every(a => a.getBoundingClientRect().bottom < innerHeight)"), "above the fold")

        # Promotion.
        def promoted(token, verb, want_text):
            page.locator("input[name=token]").fill(token)
            page.locator("button[value=%s]" % verb).click()
            page.locator("form[data-admin] output", has_text=want_text).wait_for(timeout=10_000)
        promoted("0123456789abcdeX", "promote", "missing or wrong")
        want(len(page.wrong) == 1 and "401" in page.wrong.pop(), "a wrong token is refused")
        page.locator("input[name=reason]").fill(EVIL)
        promoted(TOKEN, "promote", "before for nothing")
        published = metric(service.train, "streamsvm_models_published_total")
        service.until("another version", lambda: metric(service.train, "streamsvm_models_published_total") > published)
        promoted(TOKEN, "promote", "before for version")
        page.locator("#published caption", has_text="Aliases").wait_for(timeout=20_000)
        want(page.locator("#published td", has_text=EVIL).count() == 1, "versions are promoted, and the page shows what the alias stands for")
        promoted(TOKEN, "rollback", "again; before for version")
        want(True, "and rolled back")

        # Light and dark.
        ground = lambda: page.evaluate("getComputedStyle(document.body).backgroundColor")  # noqa: E731
        light = ground()
        page.locator("#theme").click()
        dark = ground()
        page.reload()
        want(light != dark and ground() == dark, "the theme changes, and is remembered")
        page.locator("#theme").click()
        want(ground() == light, "and back")

        # The keyboard.
        page.locator("h1").click()
        reached = []
        for _ in range(14):
            page.keyboard.press("Tab")
            reached.append(page.evaluate("document.activeElement.id || document.activeElement.getAttribute('href') || document.activeElement.className || document.activeElement.tagName"))
        want({"theme", "#learning", "plot"} <= set(reached), "Tab goes from the theme over the links to the charts")
        plot = page.locator(".plot").first
        plot.focus()
        for key in ("End", "ArrowLeft", "ArrowLeft"):
            page.keyboard.press(key)
        want("%" in plot.locator("[aria-live]").inner_text(), "arrow keys read a chart")
        entry = plot.locator(".u-legend th[role=button]").first
        entry.focus()
        page.keyboard.press("Enter")
        page.wait_for_timeout(100)
        want(entry.get_attribute("aria-pressed") == "false", "Enter switches a line off")
        check(page, "train, afterwards")
        page.context.close()

        for where, url in (("train", train), ("predict", predict)):
            page = opened(browser, url, PHONE, "dark", is_mobile=True, has_touch=True)
            check(page, where + " on a phone", PHONE["width"])
            want(page.evaluate("[...document.querySelectorAll('nav a')].every(a => a.getBoundingClientRect().bottom < innerHeight)"), where + " on a phone: the answers are above the fold")
            page.context.close()
            size = len(urllib.request.urlopen(url).read())
            want(size < 400_000, "the page of %s is not large: %d bytes" % (where, size))
        page = opened(browser, predict)
        check(page, "predict")
        want("payments" in page.locator("h1").inner_text() and page.locator("figure").count() >= 1, "predict shows how good its predictions are")
        page.context.close()

        context = browser.new_context(java_script_enabled=False)
        page = context.new_page()
        page.goto(train)
        page.locator("summary").first.click()
        want(page.locator("table.numbers td").first.is_visible(), "without JavaScript there are the numbers")
        context.close()

        # Reports, from a file.
        small = ("--limit", "5000")
        for where, url in (("report of replay", service.replay("report", *small)), ("report of a linear model", service.replay("linear", "--learner", "online", *small)), ("report of demo", service.demo())):
            for size in (DESK, PHONE):
                page = opened(browser, url, size)
                check(page, where, size["width"])
                page.locator("#theme").click()
                page.context.close()
            print("ok:", where)

        page = opened(browser, train)
        service.started[1].send_signal(signal.SIGTERM)
        service.started[1].wait()
        page.locator("#lost:not([hidden])").wait_for(timeout=20_000)
        want("no answer since" in page.locator("#lost").inner_text(), "the page says when the service is gone")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = ap.add_subparsers(dest="what", required=True)
    sub.add_parser("shots").add_argument("out", nargs="?", default=os.path.join(ROOT, "docs"))
    sub.add_parser("pages").add_argument("out", nargs="?")
    sub.add_parser("test")
    args = ap.parse_args()
    why = None if chromium() else "chromium is missing"
    try:
        import playwright  # noqa: F401
    except ImportError:
        if os.path.exists(VENV) and sys.executable != VENV:
            os.execv(VENV, [VENV, *sys.argv])
        why = "the Python package playwright is missing"
    if args.what != "shots":
        global AXE
        try:
            import axe_playwright_python
            AXE = pathlib.Path(axe_playwright_python.__file__).with_name("axe.min.js").read_text()
        except ImportError:
            why = why or "the Python package axe-playwright-python is missing"
    if why and args.what != "shots":
        print("browser: skipped:", why)
        return
    if why:
        sys.exit("browser: " + why)
    if args.what != "test" and args.out:
        os.makedirs(args.out, exist_ok=True)
    start = time.time()
    {"shots": lambda: shots(args.out), "pages": lambda: pages(args.out), "test": test}[args.what]()
    print("%d s" % (time.time() - start))


if __name__ == "__main__":
    main()
