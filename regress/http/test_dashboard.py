"""The dashboard: its values are those of the documents, grants choose its rows, and a browser shows it."""

import collections
import datetime
import functools
import html.parser
import json
import re

import pytest

import fleet
from browser import Browser
from client import sql_text

READER = "kube_reports_reader"
SEVERITIES = ("critical", "high", "medium", "low")
FAILING = ("warn", "fail", "error")
WIDTHS = (320, 390, 768, 1280)

Row = collections.namedtuple("Row", "cluster namespace source policy severity status counted")


def rows_at(documents, days_ago):
    """Returns the results as they were days_ago days ago, without code of kube-reports."""
    rows = []
    for uid, document in documents:
        namespace = document["metadata"].get("namespace", "")
        if document["kind"] == "ComplianceCheckResult" and days_ago <= fleet.CHECKED:
            status = {"FAIL": "fail", "PASS": "pass", "MANUAL": "skip", "INCONSISTENT": "error"}[document["status"]]
            rows.append(Row(fleet.CLUSTERS[uid], namespace, "Compliance Operator", "cis-node", document["severity"],
                            status, document["status"] not in ("MANUAL", "INCONSISTENT")))
        elif "results" in document:
            # The last step before or on that day.
            step = min(days for days in fleet.DAYS if days >= days_ago)
            rows += [Row(fleet.CLUSTERS[uid], namespace, result["source"], result["policy"], result["severity"],
                         result["result"], True)
                     for result in fleet.as_of(document, step)["results"]]
    return rows


def failing(rows):
    return [row for row in rows if row.status in FAILING]


def parts(rows):
    counts = collections.Counter(row.severity if row.severity in SEVERITIES else "other" for row in failing(rows))
    return [counts[severity] for severity in (*SEVERITIES, "other")]


def score(rows):
    passed, failed = sum(row.status == "pass" for row in rows), len(failing(rows))
    return round(passed / (passed + failed), 6) if passed + failed else None


class Words(html.parser.HTMLParser):
    """Reads the elements and texts of a page; fails on attributes that run scripts, set styles or load files."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.texts = collections.Counter(), []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.elements[tag] += 1
        assert not any(name.startswith("on") or name in ("style", "src", "href", "srcset", "action")
                       for name, _ in attrs), (tag, attrs)

    def handle_data(self, data):
        self.texts.append(data)


class World:
    def __init__(self, database, documents):
        self.database, self.documents = database, documents
        # The last day of the history; midnight may pass during the tests.
        self.last_day = datetime.date.fromisoformat(database.psql("SELECT max(day) FROM kube_reports.score_change"))

    def rows_on(self, day):
        """Returns the results at the end of a day."""
        return rows_at(self.documents, max((self.last_day - datetime.date.fromisoformat(day)).days, 0))

    def dashboard(self, arguments="", user=READER, database="kube_reports"):
        return json.loads(self.database.psql(f"SELECT kube_reports.dashboard({arguments})", user=user,
                                             database=database))

    @functools.cache
    def page(self, arguments="", user=READER, database="kube_reports"):
        """Returns the page; it is cached: after a write a test calls this with other arguments."""
        return self.database.psql(f"SELECT kube_reports.dashboard_html({arguments})", user=user, database=database)

    def another(self, name):
        """Makes another database on the same server; returns its name."""
        self.database.psql(f"CREATE DATABASE {name} OWNER kube_reports_owner", user="postgres", database="postgres")
        self.database.psql(f"CREATE EXTENSION kube_reports; SELECT kube_reports.grant_reader('{READER}')",
                           database=name)
        return name


@pytest.fixture(scope="module")
def world(fleet_store):
    return World(*fleet_store)


@pytest.fixture(scope="module")
def browser():
    started = Browser()
    yield started
    started.end()


@pytest.fixture
def show(browser, tmp_path):
    """Opens a page from a file; checks that the browser requests nothing else and logs nothing."""
    def shown(page, width=1280, scheme="light", medium="screen"):
        file = tmp_path / "dashboard.html"
        file.write_text(page, encoding="utf-8")
        browser.look(width, scheme, medium)
        browser.log("browser"), browser.requests()
        browser.open(file.as_uri())
        assert browser.requests() == [file.as_uri()]
        assert browser.log("browser") == []
        return browser
    return shown


# ---- its values ----

def test_now(world):
    """Counts, and the first rows of lists, are those of the documents"""
    told, rows = world.dashboard(), rows_at(world.documents, 0)
    counted = [row for row in rows if row.counted]
    last = told["trend"][-1]
    assert {status: last[status] for status
            in ("pass", *FAILING)} == {status: sum(row.status == status for row in counted)
                                       for status in ("pass", *FAILING)}
    assert (last["score"], last["parts"], last["excluded"]) == (score(counted), parts(counted),
        len(rows) - len(counted)) and last["excluded"]
    policies, namespaces, clusters = (collections.defaultdict(list) for _ in range(3))
    for row in counted:
        policies[row.source, row.policy].append(row)
        namespaces[row.cluster, row.namespace].append(row)
        clusters[row.cluster].append(row)
    vulnerabilities = {key: group for key, group in policies.items() if key[1].startswith("CVE-")}
    others = {key: group for key, group in policies.items() if key not in vulnerabilities}
    assert told["policies"] == len(others) and told["failing_policies"] == sum(bool(failing(group))
        for group in others.values())
    assert told["namespaces"] == len(namespaces) and told["failing_namespaces"] == sum(bool(failing(group))
        for group in namespaces.values())
    assert told["vulnerabilities"] == sum(bool(failing(group)) for group in vulnerabilities.values())
    assert told["clusters"] == len(clusters) + 1 and told["sources"] == 3
    assert [(row["source"], row["policy"], row["failing"], row["pass"], row["parts"], row["places"])
            for row in told["top_policies"]] == [
        (*key, len(failing(group)), sum(row.status == "pass" for row in group), parts(group),
         len({row[:2] for row in failing(group)}))
        for key, group in sorted(others.items(),
                                 key=lambda item: (-len(failing(item[1])), item[0][1], item[0][0]))[:10]]
    assert sorted((row["cluster_name"], row["namespace"], row["failing"], row["score"], row["parts"])
                  for row in told["top_namespaces"]) == sorted(
        (*key, len(failing(group)), score(group), parts(group))
        for key, group in sorted(namespaces.items(), key=lambda item: (-len(failing(item[1])), item[0][1], next(
            uid for uid, name in fleet.CLUSTERS.items() if name == item[0][0])))[:10])
    assert [(row["cluster_name"], row["failing"], row["score"], row["parts"], row["scores"][-1])
            for row in told["top_clusters"]] == [
        (cluster, len(failing(group)), score(group), parts(group), score(group))
        for cluster, group in sorted(clusters.items(), key=lambda item: -len(failing(item[1])))]
    assert {(row["policy"], row["failing"]) for row in told["top_vulnerabilities"]} == {(key[1], len(failing(group)))
        for key, group in vulnerabilities.items()}
    assert [row["score"] or 0 for row in told["top_vulnerabilities"]] == [10, 9.8, 7.8, 7.5, 7.5, 7.5, 7.5, 3.3, 0]
    assert [row["policy"] for row in told["top_vulnerabilities"]][:2] == ["CVE-2021-44228", "CVE-2022-42889"]
    first = told["top_vulnerabilities"][0]
    assert (first["score"], first["severity"], first["package"], first["installed_version"],
            first["fixed_version"]) == (
        10, "critical", "org.apache.logging.log4j:log4j-core", "2.14.1", "2.15.0")


def test_trend(world):
    """Each day's counts are those of the documents of that day, for all clusters and for each"""
    told = world.dashboard()
    assert len(told["trend"]) == 30
    for place, day in enumerate(told["trend"]):
        counted = [row for row in world.rows_on(day["day"]) if row.counted]
        assert (day["failing"], day["parts"], day["score"]) == (len(failing(counted)), parts(counted),
            score(counted)), day["day"]
        for cluster in told["top_clusters"]:
            assert cluster["scores"][place] == score([row for row in counted if row.cluster == cluster["cluster_name"]])
    assert len({day["failing"] for day in told["trend"]}) > 5, "a flat line proves nothing"


def test_ages(world):
    """The ages of open failures are those of the documents"""
    told = world.dashboard()
    ages = [0] * 5
    new = 0
    for uid, document in world.documents:
        if document["kind"] == "ComplianceCheckResult":
            days = [fleet.CHECKED] if document["status"] == "FAIL" else []
        else:
            days = [min(day for day in fleet.DAYS if day >= result["became"]) for result in document.get("results", [])
                    if result["result"] in FAILING]
        for day in days:
            ages[sum(day >= limit for limit in (1, 7, 30, 90))] += 1
            new += day < 30
    assert [sum(part) for part in told["ages"]] == ages
    assert told["new"] == new
    assert told["oldest"][0]["since"] <= told["oldest"][-1]["since"] and len(told["oldest"]) == 6


@pytest.mark.parametrize("filter_, matches", [
    ({"cluster": "prod-us"}, lambda row: row.cluster == "prod-us"),
    ({"namespace": ["shop", ""]}, lambda row: row.namespace in ("shop", "")),
    ({"source": "Trivy Vulnerability", "cluster": list(fleet.CLUSTERS)[2]},
     lambda row: (row.source, row.cluster) == ("Trivy Vulnerability", "staging")),
    ({"namespace": "nowhere"}, lambda row: False)], ids=["cluster", "namespaces", "source and uid", "nothing"])
def test_filter(world, filter_, matches):
    told = world.dashboard(f"'{json.dumps(filter_)}'")
    rows = [row for row in rows_at(world.documents, 0) if row.counted and matches(row)]
    assert (told["trend"][-1]["failing"] or 0, told["trend"][-1]["score"]) == (len(failing(rows)), score(rows))
    assert sum(row["failing"] for row in told["top_namespaces"]) == len(failing(rows))
    assert sum(map(sum, told["ages"])) == len(failing(rows))
    assert {row["policy"] for row in told["top_vulnerabilities"]} == {row.policy for row in failing(rows)
        if row.policy.startswith("CVE-")}


def test_period(world):
    """A period in the past ends with the counts of its last day; a long period has at most 92 points"""
    today = world.dashboard()["today"]
    told = world.dashboard(f"'{{}}', '{today}'::date - 20, '{today}'::date - 10")
    assert len(told["trend"]) == 11
    for day in told["trend"]:
        assert day["failing"] == len(failing([row for row in world.rows_on(day["day"]) if row.counted]))
    told = world.dashboard(f"'{{}}', '0001-01-01', '{today}'")
    assert 46 <= len(told["trend"]) <= 92 and told["trend"][0]["failing"] is None and told["trend"][-1]["failing"]
    assert told["trend"][-1]["day"] == today
    # A period ends today at the latest.
    assert world.dashboard(f"'{{}}', '{today}', 'infinity'")["to_day"] == today


def test_restricted_reader(world):
    """The page has nothing that the caller may not see"""
    world.database.psql("CREATE ROLE team LOGIN", user="postgres")
    world.database.psql(f"SELECT kube_reports.grant_namespace('team', '{list(fleet.CLUSTERS)[0]}', 'shop')")
    told, page = world.dashboard(user="team"), world.page(user="team")
    rows = [row for row in rows_at(world.documents, 0) if row.counted
            and (row.cluster, row.namespace) == ("prod-eu", "shop")]
    assert (told["trend"][-1]["failing"], told["trend"][-1]["score"],
            told["clusters"]) == (len(failing(rows)), score(rows), 1)
    assert [row["namespace"] for row in told["top_namespaces"]] == ["shop"]
    for other in ("prod-us", "staging", "kube-system", "monitoring"):
        assert other in world.page() and other not in page + json.dumps(told), other


def test_read_only(world):
    """The page can be made in a read-only transaction, so also on a standby (see test_analytics.py)"""
    assert world.database.psql("BEGIN READ ONLY; SELECT length(kube_reports.dashboard_html()) > 10000; COMMIT",
                               user=READER) == "t"


# ---- in a browser ----

MISFITS = """
const misfits = [];
for (const element of document.querySelectorAll('body *')) {
    const box = element.getBoundingClientRect();
    if (element.closest('svg') && element.tagName !== 'svg')
        continue;
    if (box.right > innerWidth + 0.5 || box.left < -0.5)
        misfits.push(['wide', element.className, element.textContent.slice(0, 60), box.left, box.right]);
    if (element.tagName === 'svg' && (box.width < 20 || box.height < 6))
        misfits.push(['small', element.outerHTML.slice(0, 80), box.width, box.height]);
}
if (document.documentElement.scrollWidth > innerWidth)
    misfits.push(['page', document.documentElement.scrollWidth]);
return misfits;
"""

# WCAG 2, 1.4.3: the luminances of text and background differ by 4.5 to 1.
FAINT = """
const linear = value => value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4;
const luminance = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
const numbers = colour => colour.match(/[0-9.]+/g).map(Number);
const faint = [];
for (const element of document.querySelectorAll('body *')) {
    if (![...element.childNodes].some(node => node.nodeType === 3 && node.data.trim())
            || ['STYLE', 'title', 'desc'].includes(element.tagName))
        continue;
    let behind = element;
    while (behind && !(numbers(getComputedStyle(behind).backgroundColor)[3] ?? 1))
        behind = behind.parentElement;
    const style = getComputedStyle(element), box = element.getBoundingClientRect();
    const ground = getComputedStyle(behind).backgroundColor;
    const values = [numbers(element.closest('svg') ? style.fill : style.color), numbers(ground)]
        .map(luminance).sort((a, b) => b - a);
    if ((values[0] + 0.05) / (values[1] + 0.05) < 4.5)
        faint.push([element.className.baseVal ?? element.className, element.textContent.slice(0, 40), style.color,
            ground]);
    if (style.display !== 'none' && element.offsetParent !== null
            && (box.width < 2 || box.height < 8 || parseFloat(style.fontSize) < 12))
        faint.push(['unseen', element.textContent.slice(0, 40), box.width, box.height, style.fontSize]);
}
return faint;
"""


@pytest.mark.parametrize("scheme, background", [("light", "rgb(244, 246, 249)"), ("dark", "rgb(13, 18, 25)")])
def test_browser(world, show, scheme, background):
    """The browser fetches and logs nothing; nothing overflows, charts have a size, and texts can be read"""
    browser = show(world.page(), WIDTHS[0], scheme)
    assert browser.run("return getComputedStyle(document.body).backgroundColor") == background
    assert browser.run("return document.querySelectorAll('svg').length") >= 30
    for width in WIDTHS:
        browser.look(width, scheme)
        assert browser.run("return innerWidth") == width
        assert browser.run(MISFITS) == [], width
        assert browser.run(FAINT) == [], width
    assert browser.run("return performance.getEntriesByType('resource').length") == 0
    assert browser.requests() == [] and browser.log("browser") == []


def test_paper(world, show):
    """On paper the page is light, whatever the scheme, and no row of a list is split between pages"""
    browser = show(world.page(), 794, "dark", "print")
    assert browser.run("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.run(FAINT) == [] and browser.run(MISFITS) == []
    assert browser.run("return [...document.querySelectorAll('li')].every(e => getComputedStyle(e).breakInside === "
                       "'avoid' || !e.closest('.rows'))")


def test_said_aloud(world, show):
    """Every chart has a name for screen readers, trends a description; ids are unique"""
    browser = show(world.page())
    tree = browser.protocol("Accessibility.getFullAXTree")["nodes"]
    images = [node for node in tree if node.get("role", {}).get("value") in ("image", "img") and not node["ignored"]]
    assert len(images) == browser.run("return document.querySelectorAll('svg').length")
    assert all(node["name"]["value"] for node in images)
    trends = [node for node in images
              if node["name"]["value"] in ("Score by day", "Failing results by day and severity")
              and "description" in node]
    assert len(trends) >= 2 and all(re.match(r"From .* on .* to .* on ", node["description"]["value"])
                                    for node in trends[:2])
    assert browser.run("const ids = [...document.querySelectorAll('[id]')].map(e => e.id); return ids.length === new "
                       "Set(ids).size")


def test_charts_show_the_numbers(world, show):
    """The last point of the line has the height of the score, and the lengths of bars are in proportion to counts"""
    browser, told = show(world.page()), world.dashboard()
    axis = browser.run("return [...document.querySelector('.plot .y').children].map(e => parseFloat(e.textContent) / "
                       "100)")
    box, line = browser.run("const svg = document.querySelector('.trend'), path = svg.querySelector('.line.score');"
                            "const end = path.getPointAtLength(path.getTotalLength()); return "
                            "[svg.viewBox.baseVal.height, [end.x, end.y]]")
    assert line[0] == 1000 and abs(axis[0] - line[1] / box * (axis[0] - axis[-1]) - told["trend"][-1]["score"]) < 0.001
    bars = browser.run("const section = [...document.querySelectorAll('section')].find(e => "
                       "e.querySelector('h2')?.textContent === 'Failing policies');"
                       "return [...section.querySelectorAll('.bar')].map(b => "
                       "[...b.querySelectorAll('rect')].reduce((sum, r) => sum + r.getBoundingClientRect().width, 0)"
                       " / b.getBoundingClientRect().width)")
    most = told["top_policies"][0]["failing"]
    assert [round(bar, 2) for bar in bars] == [round(row["failing"] / most, 2) for row in told["top_policies"]]
    assert (browser.run("return document.querySelector('.ring text').textContent")
            == f"{100 * told['trend'][-1]['score']:.1f}%")


# ---- stores that are empty, tiny, hostile or large ----

def test_empty_and_tiny(world, show):
    """The page of a store without results says so; the page of one result has no gaps"""
    database = world.another("tiny")
    page = world.page(database=database)
    assert "No results are stored" in page and f"grant_reader('<bdi>{READER}</bdi>')" in page and "Kyverno" in page
    assert "without a filter" in world.page("'{\"namespace\": \"nowhere\"}'", database=database)
    assert show(page).run(MISFITS) == []
    uid = list(fleet.CLUSTERS)[0]

    def store(name, status):
        world.database.psql(f"""SELECT kube_reports.create_report('{uid}', {sql_text({
            "apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport",
            "metadata": {"name": name, "namespace": "one"},
            "results": [{"policy": "only", "result": status, "source": "s"}]})}) IS NULL""", database=database)
        world.database.derive(database)
    world.database.psql(f"SELECT kube_reports.register_cluster('{uid}', 'one')", database=database)
    for name, status, shown, said, arguments in (("a", "skip", "–", "Nothing counts towards a score.", "'{}'::jsonb"),
                                                 ("b", "pass", "100%", "Every policy passes.", "'{ }'"),
                                                 ("c", "fail", "50.0%", "only",
                                                  "'{}', (now() AT TIME ZONE 'UTC')::date")):
        store(name, status)
        browser = show(world.page(arguments, database=database), 390)
        assert browser.run(MISFITS) == [] and browser.run(FAINT) == []
        assert browser.run("return document.querySelector('.ring text').textContent") == shown
        assert said in browser.run("return document.body.innerText")
        assert "NaN" not in browser.run("return document.body.innerHTML")


HOSTILE = ["<script>window.pwned = 1</script>", "\"><img src=x onerror=window.pwned=1>",
           "' onmouseover='window.pwned=1", "</title></style><svg onload=window.pwned=1>",
           "&lt;b&gt;&#60;i&#62;", "]]><!-- -->", "\u202egnitirw\u202c", "\u2066a\u2069\u200b\u200f\u061c",
           "a\tb\nc\rd\u0007\u009b\u007f", "\ufeff\ufffe\U000e0041\U000e007f", "%s %1$s \\1 \\x",
           "W" * 500, "\u0300" * 200, "ﷺ" * 300, "x" * 50 + " " + "\u5b57" * 300]


def test_hostile(world, show):
    """Texts of documents are texts on the page, never elements; control characters are not on the page"""
    database = world.another("hostile")
    uid = list(fleet.CLUSTERS)[0]
    world.database.psql(f"SELECT kube_reports.register_cluster('{uid}', {sql_text(HOSTILE[0])}); SELECT "
                        f"kube_reports.register_cluster('{list(fleet.CLUSTERS)[1]}', {sql_text(HOSTILE[3])})",
                        database=database)
    for number, text in enumerate(HOSTILE):
        document = json.loads(json.dumps({
            "apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport",
            "metadata": {"name": f"a{number}", "namespace": "one"},
            "scope": {"apiVersion": "v1", "kind": text[:60], "name": text[:250]},
            "results": [{"policy": text, "rule": text, "source": text, "category": text, "result": "fail",
                         "severity": "high", "message": text},
                        {"policy": "CVE-" + text, "source": "Trivy Vulnerability", "result": "fail",
                         "severity": "critical", "properties": {
                             "score": "9.9", "resource": text, "installedVersion": text, "fixedVersion": text}}]}))
        world.database.psql(f"SELECT kube_reports.create_report('{uid}', {sql_text(document)}) IS NULL",
                            database=database)
    world.database.derive(database)
    # A namespace that the API would not accept.
    for table in ("rollup", "rollup_policy", "rollup_delta"):
        world.database.psql(f"UPDATE kube_reports_internal.{table} SET namespace = '<script>pwned</script>'",
                            database=database)
    for arguments in ("", f"'{json.dumps({'cluster': [HOSTILE[0], HOSTILE[3]]})}'".replace("' onmouse", "'' onmouse")):
        page = world.page(arguments, database=database)
        words = Words(page)
        assert set(words.elements) <= set("html head meta title style body header main footer section h1 h2 h3 p ul ol "
                                          "li span small b i bdi div svg path rect circle desc text"
                                          " table thead tbody tr th td".split())
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufffe"
                             "\U000e0000-\U000e007f]", page)
        assert len(page.encode()) < 150000
        browser = show(page, 390)
        assert browser.run("return [window.pwned ?? null, document.scripts.length, document.images.length]") == [None,
            0, 0]
        for width in (390, 1280):
            browser.look(width)
            assert browser.run(MISFITS) == [], width
        text = "".join(words.texts)
        assert HOSTILE[0] in text
    assert "<script>pwned</script>" in text


def test_policy_of_the_page(world, show):
    """The Content-Security-Policy allows the style of the page by its hash, and no script, picture or other style"""
    browser = show(world.page())
    assert browser.run("return getComputedStyle(document.querySelector('section')).borderRadius") == "14px"
    browser.run("""
        const add = (tag, properties) => document.body.append(Object.assign(document.createElement(tag), properties));
        add('script', {textContent: 'window.pwned = 1'});
        add('style', {textContent: 'body { display: none }'});
        add('img', {src: 'data:image/gif;base64,R0lGODlhAQABAAAAACw='});""")
    assert browser.run("return [window.pwned ?? null, getComputedStyle(document.body).display]") == [None, "block"]
    assert len([entry for entry in browser.log("browser") if "Content Security Policy" in entry["message"]]) >= 3


def test_scores_of_any_size(world, show):
    """Scores of vulnerabilities may be larger than those of CVSS"""
    database, uid = world.another("scores"), list(fleet.CLUSTERS)[0]
    scores = {"CVE-1": "100", "CVE-2": "9", "CVE-3": "0.04", "CVE-4": "999999999"}
    document = {
        "apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport", "metadata": {"name": "a", "namespace": "one"},
        "results": [{"policy": policy, "source": "Trivy Vulnerability", "result": "fail", "severity": "critical",
                     "properties": {"score": score}} for policy, score in scores.items()]}
    world.database.psql(f"SELECT kube_reports.register_cluster('{uid}', 'one');"
                        f"SELECT kube_reports.create_report('{uid}', {sql_text(document)})", database=database)
    world.database.derive(database)
    browser = show(world.page(database=database), 390)
    assert browser.run(MISFITS) == []
    assert browser.run("return Array.from(document.querySelectorAll('.badge.critical'), b => b.textContent)") == [
        "999999999.0", "100.0", "9.0", "0.0"]


def test_size_is_bounded(world):
    """The page shows the first ten policies, namespaces, clusters and vulnerabilities, and the number of others"""
    database = world.another("many")
    world.database.psql("""
        SELECT count(kube_reports.register_cluster(md5(n::text)::uuid, 'cluster-' || n)) FROM generate_series(1, 14) n;
        INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, metadata, body)
            SELECT c.id, t.id, 'ns-' || n, 'r-' || n,
                jsonb_build_object('name', 'r-' || n, 'namespace', 'ns-' || n)::kube_reports.report,
                jsonb_build_object('results', (SELECT jsonb_agg(jsonb_build_object('source', 's' || p % 7,
                        'policy', CASE WHEN p % 2 = 0 THEN 'CVE-' ELSE 'policy-' END || p, 'result', 'fail'))
                    FROM generate_series(1, 60) p))::kube_reports.report
            FROM generate_series(1, 14) n JOIN kube_reports.cluster c ON c.name = 'cluster-' || n,
                kube_reports.resource_type t
            WHERE t.kind = 'PolicyReport'""", database=database)
    world.database.derive(database)
    told = world.dashboard(database=database)
    assert [len(told["top_" + kind])
            for kind in ("policies", "namespaces", "clusters",
                         "vulnerabilities")] == [10] * 4 and len(told["cluster_names"]) == 3
    page = world.page(database=database)
    assert "and 4 more" in page and "and 20 more" in page and "14 clusters" in page
    assert len(page.encode()) < 100000
