"""The page that shows who listened how far: what it holds, and what a browser makes of it."""

import base64
import json
import re

import numpy as np
import pytest
import torch
from helpers.browser import looked_at
from scipy import sparse

from apgcn import Graph
from apgcn.data.synthetic import synthetic_graph
from apgcn.errors import InvalidInput
from apgcn.inference.bundle import SavedModel
from apgcn.inference.fit import fit
from apgcn.inference.halting_benchmark import curve
from apgcn.inference.splits import stratified_split
from apgcn.models.ap_appnp import APAPPNPConfig
from apgcn.models.apgcn import APGCNConfig
from apgcn.models.appnp import APPNPConfig
from apgcn.report.explain.html import page, write_page
from apgcn.report.explain.layout import positions
from apgcn.report.explain.payload import content
from apgcn.training.config import TrainingConfig

NASTY = "</script><script>alert(1)</script>"


def unpacked(packed):
    return np.frombuffer(base64.b64decode(packed["bytes"]), dtype=packed["kind"])


def trained(graph, *, model=APGCNConfig(), epochs=30):
    split = stratified_split(graph.labels, test=0.2)
    return SavedModel(fit(graph, split, model, TrainingConfig(max_epochs=epochs)), graph)


@pytest.fixture(scope="module")
def saved(cora):
    names = [f"paper {number}" for number in range(cora.num_nodes)]
    names[7] = NASTY
    labels = np.where(np.arange(cora.num_nodes) % 3 == 0, cora.labels, -1)
    classes = (NASTY, *cora.class_names[1:])
    graph = Graph(
        cora.adjacency, features=cora.features, labels=labels, name=NASTY, class_names=classes, node_names=names
    )
    return trained(graph, model=APGCNConfig(penalty=0.05), epochs=200)  # until nodes differ in their steps


@pytest.fixture(scope="module")
def shown(saved):
    return content(saved)


def test_the_numbers_are_those_of_the_model(saved, shown):
    said = saved.fitted.predict(saved.graph)
    np.testing.assert_allclose(unpacked(shown["steps"]), said.steps)
    np.testing.assert_array_equal(unpacked(shown["prediction"]), said.classes)
    np.testing.assert_allclose(unpacked(shown["probabilities"]).reshape(said.probabilities.shape), said.probabilities)
    by_class = {row["name"]: row for row in shown["tables"][0]["rows"]}
    for number, name in enumerate(saved.graph.class_names):
        chosen = said.classes == number
        if chosen.any():
            assert by_class[name]["nodes"] == chosen.sum()
            assert by_class[name]["steps"] == pytest.approx(said.steps[chosen].mean())
    for table in shown["tables"]:
        assert sum(row["nodes"] for row in table["rows"]) == saved.graph.num_nodes
    test = saved.fitted.split.test
    assert np.sum(shown["confusion"]["counts"]) == len(test)
    right = np.trace(shown["confusion"]["counts"])
    assert right == (said.classes[test] == saved.graph.labels[test]).sum()


def test_what_the_page_computes_is_what_the_model_computed(saved, shown):
    """r_k = e_i A^k and z_i^k = r_k z^0, with which the page tells what a node heard, give the model's own logits."""
    nodes, classes = saved.graph.num_nodes, saved.graph.num_classes
    matrix = sparse.csr_matrix(
        (unpacked(shown["weights"]), unpacked(shown["columns"]), unpacked(shown["pointers"])), shape=(nodes, nodes)
    )
    z = [unpacked(shown["seeds"]).reshape(nodes, classes).astype(np.float64)]
    for _ in range(shown["max_steps"]):
        z.append(matrix @ z[-1])
    unit, bias = (saved.fitted.weights[f"propagation.halting_unit.{name}"].numpy()[0] for name in ("weight", "bias"))
    h = 1 / (1 + np.exp(-(np.stack(z[1:]) @ unit[:, 0] + bias[0, 0])))
    steps = 1 + (h[:-1].cumsum(axis=0) < 0.99).sum(axis=0)
    assert (steps == unpacked(shown["steps"])).mean() > 0.999
    last = int(steps[11])
    output = np.zeros(classes)
    filled = 0.0
    for k in range(1, last + 1):
        filled = 1 - filled if k == last else filled + h[k - 1, 11]
        output += (filled * z[k][11] + (1 - filled) * z[k - 1][11]) / last
    chances = torch.as_tensor(output / shown["temperature"]).softmax(-1).numpy()
    np.testing.assert_allclose(chances, unpacked(shown["probabilities"]).reshape(nodes, classes)[11], atol=1e-4)


def test_distances_are_counted_from_training_nodes(saved, shown):
    rows = {row["name"]: row["nodes"] for row in shown["tables"][2]["rows"]}
    assert rows["0"] == len(saved.fitted.split.train)
    train = saved.fitted.split.train
    heard = np.asarray(saved.graph.adjacency[train].sum(axis=0)).ravel() > 0
    assert rows["1"] == np.setdiff1d(np.flatnonzero(heard), train).size


def test_neighbours_are_drawn_near_each_other(cora):
    places = positions(cora.adjacency)
    assert places.min() >= 0
    assert places.max() <= 1
    coo = cora.adjacency.tocoo()
    between = np.linalg.norm(places[coo.row] - places[coo.col], axis=1)
    random = np.random.default_rng(0)
    by_chance = np.linalg.norm(places - places[random.permutation(len(places))], axis=1)
    assert np.median(between) < 0.25 * np.median(by_chance)
    np.testing.assert_array_equal(places, positions(cora.adjacency))


def test_lonely_nodes_are_drawn_below():
    adjacency = sparse.block_diag([np.ones((5, 5)) - np.eye(5), np.zeros((3, 3)), [[0, 1], [1, 0]]], format="csr")
    places = positions(adjacency)
    assert len(np.unique(places, axis=0)) == 10
    assert places[:5, 1].max() < places[5:, 1].min()


def test_the_part_around_a_node(saved):
    few = content(saved, node="paper 3", most=50)
    assert len(few["ids"]) == 50
    assert "paper 3" in few["ids"]
    whole = content(saved)
    degrees = dict(zip(whole["ids"], unpacked(whole["neighbours"]), strict=True))
    assert unpacked(few["neighbours"]).tolist() == [degrees[name] for name in few["ids"]]
    assert set(unpacked(whole["complete"])) == {255}
    steps = unpacked(few["complete"])
    assert steps.min() == 0  # of who hears somebody that is not drawn
    assert steps[few["ids"].index("paper 3")] >= 1
    told = [heard_until(one, few["ids"].index("paper 3"), steps.max()) for one in (few,)]
    told += [heard_until(whole, whole["ids"].index("paper 3"), steps.max())]
    for k in range(steps[few["ids"].index("paper 3")] + 1):
        np.testing.assert_allclose(told[0][k], told[1][k], atol=1e-5)
    with pytest.raises(InvalidInput, match="a page draws at most 100 nodes, but the graph has 2,485; name a node"):
        content(saved, most=100)


def heard_until(shown, node, last):
    """What a node says after each step, as the page computes it."""
    count = len(shown["ids"])
    parts = (unpacked(shown[name]) for name in ("weights", "columns", "pointers"))
    matrix = sparse.csr_matrix(tuple(parts), shape=(count, count))
    z = [unpacked(shown["seeds"]).reshape(count, -1)]
    for _ in range(last):
        z.append(matrix @ z[-1])
    return [states[node] for states in z]


def test_models_whose_nodes_do_not_halt_have_no_page(cora):
    """Nor have those whose steps are others than the page's."""
    for model in (APPNPConfig(), APAPPNPConfig()):
        with pytest.raises(InvalidInput, match=f"a page can be made of AP-GCN, .* but the model is {model.title}"):
            content(trained(cora, model=model, epochs=1))


def test_no_text_becomes_markup(shown):
    text = page(shown)
    assert NASTY not in text
    assert json.loads(re.search(r'id="data">(.*?)</script>', text, re.S)[1])["ids"][7] == NASTY
    assert not re.search(r"(src|href)=\"?https?:", text)


# --- in a browser ---


@pytest.fixture
def opened(browser, shown, tmp_path):
    path = tmp_path / "steps.html"
    said: list[str] = []

    def open_page(what=shown, **options):
        write_page(path, what)
        size = {"viewport": {"width": 1400, "height": 1000}, **options}
        return looked_at(browser, path, said, ready="document.getElementById('graph').width > 100", **size)

    yield open_page
    assert said == []
    for context in browser.contexts:
        context.close()


def colours(view):
    """How many pixels of each strong colour are on the canvas."""
    return view.evaluate(
        """() => {
            const shown = document.getElementById("graph"), copy = document.createElement("canvas"), seen = {};
            [copy.width, copy.height] = [shown.width, shown.height];
            const pen = copy.getContext("2d", { willReadFrequently: true });
            pen.drawImage(shown, 0, 0);
            const d = pen.getImageData(0, 0, copy.width, copy.height).data;
            for (let i = 0; i < d.length; i += 4)
                if (d[i + 3] > 250) { const k = [d[i], d[i + 1], d[i + 2]]; seen[k] = (seen[k] || 0) + 1; }
            return Object.entries(seen).filter(([, n]) => n > 200).map(([k]) => k);
        }"""
    )


def test_search_click_and_colours(opened, shown):
    view = opened()
    assert view.inner_text("#title") == f"{NASTY}: who listened how far"
    by_steps = set(colours(view))
    assert len(by_steps) >= 3
    view.select_option("#colour", "prediction")
    view.wait_for_timeout(100)
    by_class = set(colours(view))
    assert by_class
    assert by_class != by_steps
    assert NASTY in view.inner_text("#legend")
    view.fill("#search", "paper 11")
    told = view.inner_text("#node")
    assert told.startswith("paper 11")
    steps = int(unpacked(shown["steps"])[11])
    assert view.locator("#node table").nth(2).locator("tr").count() == steps + 2  # its head, and step 0
    view.locator("#node .link").first.click()
    assert view.get_attribute("#node", "data-node") != "paper 11"
    view.fill("#search", "no such paper")
    assert view.inner_text("#told") == "no such node"
    view.click("#whole")
    box = view.locator("#graph").bounding_box()
    before = view.get_attribute("#node", "data-node")
    view.mouse.wheel(0, -300)
    for x in range(20, 80, 4):  # somewhere there is a node
        view.mouse.click(box["x"] + box["width"] * x / 100, box["y"] + box["height"] / 2)
        if view.get_attribute("#node", "data-node") != before:
            break
    assert view.get_attribute("#node", "data-node") != before


def test_a_certain_prediction_is_a_larger_circle_and_what_was_held_out_is_judged(opened, shown):
    view = opened()
    radii = view.evaluate(
        """() => {
            const drawn = [], arc = pen.arc;
            pen.arc = function (x, y, r, from, to) { drawn.push(r); return arc.call(pen, x, y, r, from, to); };
            paint();
            pen.arc = arc;
            return drawn;
        }"""
    )
    confidence = unpacked(shown["probabilities"]).reshape(len(shown["ids"]), -1).max(axis=1)
    round_ones = np.sort(confidence[unpacked(shown["set"]) != 1])
    np.testing.assert_allclose(np.sort(radii) / np.max(radii), (0.5 + round_ones) / (0.5 + round_ones.max()), rtol=1e-4)
    counts = shown["confusion"]["counts"]
    told = view.locator("#confusion tr").nth(2).locator("td").all_inner_texts()
    assert [int(text or 0) for text in told[1:]] == counts[1]
    drawn = view.evaluate(
        """() => {
            const box = by("reliability"), d = box.getContext("2d").getImageData(0, 0, box.width, box.height).data;
            return d.filter((value, i) => i % 4 === 3 && value > 0).length;
        }"""
    )
    assert drawn > 500


def test_what_it_heard_first_is_what_it_knew_itself(opened, saved, shown):
    view = opened()
    view.fill("#search", "paper 11")
    row = view.locator("#node table").nth(2).locator("tr").nth(1).locator("td").all_inner_texts()
    seeds = unpacked(shown["seeds"]).reshape(saved.graph.num_nodes, -1)[11] / shown["temperature"]
    chances = torch.as_tensor(seeds.copy()).softmax(-1)
    assert row == ["0", f"{shown['classes'][int(chances.argmax())]} {100 * chances.max():.1f}\u00a0%", "itself alone"]


@pytest.mark.parametrize("freeze", [False, True])
def test_what_the_page_says_a_node_heard_is_what_the_model_says(opened, freeze):
    """Step by step, until it halts; frozen neighbours go on saying what they said last."""
    graph = synthetic_graph(300, edges=600, features=16, classes=4)
    model = trained(graph, model=APGCNConfig(penalty=0.05, freeze_halted=freeze), epochs=200)
    view = opened(content(model))
    network, tensors = model.fitted.built(graph)
    with torch.no_grad():
        seeds = network.predict(tensors.features, None)
        propagate = network.propagation._frozen if freeze else network.propagation._unfrozen
        states, _, steps = propagate(seeds, tensors.adjacency, None)
    assert len(steps.unique()) > 2
    said = (states[:, 0] / model.fitted.temperature).softmax(-1).numpy()
    for node in (3, 50, 211, int(steps[0].argmax())):
        told = view.evaluate("(i) => heard(i).map(({ says }) => Array.from(says))", node)
        assert len(told) == steps[0, node] + 1
        np.testing.assert_allclose(told, said[: len(told), node], atol=1e-4)


def test_accuracy_against_work_is_shown_where_prices_were_tried(opened):
    graph = synthetic_graph(300, edges=600, features=16, classes=4)
    model = trained(graph, epochs=60)
    told = []
    points = curve(model, [0.0, 0.2], tell=told.append)
    assert told == points
    assert points[0].messages > points[1].messages > 0
    assert points[0].steps > points[1].steps
    view = opened(content(model, curve=points))
    assert re.match(r"Computed [\d,]+ of 3,000 node-steps .*; listening took .* ms, all", view.inner_text("#work"))
    rows = view.locator("#points tr").all_inner_texts()
    assert [row.split()[0] for row in rows] == ["penalty", "0", "0.2"]
    assert not opened(content(model)).is_visible("#curve")
    with pytest.raises(InvalidInput, match="penalty must be >= 0"):
        curve(model, [-1])


def test_twenty_thousand_nodes_do_not_freeze_it(opened):
    graph = synthetic_graph(20_000, edges=60_000, features=8, classes=10)
    view = opened(content(trained(graph, epochs=2)))
    taken = view.evaluate("() => { const start = performance.now(); paint(); return performance.now() - start; }")
    assert taken < 1500, f"a drawing takes {taken:.0f} ms"
    choosing = "chosen = -1; choose(77, true); paint();"
    searching = 'by("search").value = "77"; by("search").dispatchEvent(new Event("input"));'
    for action in (choosing, searching):
        taken = view.evaluate(f"() => {{ const start = performance.now(); {action} return performance.now() - start }}")
        assert taken < 1500, f"choosing a node takes {taken:.0f} ms"
    assert view.inner_text("#node").startswith("77")


def test_a_small_screen_shows_all_of_it(opened):
    view = opened(viewport={"width": 400, "height": 800})
    assert view.evaluate("document.documentElement.scrollWidth") <= 400
