"""The page about a trained model: its payload, and its behaviour in a browser."""

import base64
import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers.browser import open_page, wait_until
from scipy import sparse

from apgcn import Graph
from apgcn.data.synthetic import synthetic_graph
from apgcn.errors import InvalidInput
from apgcn.inference.bundle import ModelBundle
from apgcn.inference.fit import fit
from apgcn.inference.halting_benchmark import penalty_curve
from apgcn.inference.splits import stratified_split
from apgcn.models.ap_variants import APAPPNPConfig
from apgcn.models.apgcn import APGCNConfig
from apgcn.models.appnp import APPNPConfig
from apgcn.report.explain.html import render_explanation, write_explanation
from apgcn.report.explain.layout import node_positions
from apgcn.report.explain.payload import build_payload
from apgcn.training.config import TrainingConfig

NASTY = "</script><script>alert(1)</script>"


def decode_array(encoded):
    return np.frombuffer(base64.b64decode(encoded["data"]), dtype=encoded["dtype"])


def train_bundle(graph, *, model=APGCNConfig(), epochs=30):
    split = stratified_split(graph.labels, test_size=0.2)
    return ModelBundle(fit(graph, split, model, TrainingConfig(max_epochs=epochs)), graph)


@pytest.fixture(scope="module")
def bundle(cora):
    names = [f"paper {number}" for number in range(cora.num_nodes)]
    names[7] = NASTY
    labels = np.where(np.arange(cora.num_nodes) % 3 == 0, cora.labels, -1)
    classes = (NASTY, *cora.class_names[1:])
    graph = Graph(
        cora.adjacency, features=cora.features, labels=labels, name=NASTY, class_names=classes, node_names=names
    )
    return train_bundle(graph, model=APGCNConfig(penalty=0.05), epochs=200)  # until nodes differ in their steps


@pytest.fixture(scope="module")
def payload(bundle):
    return build_payload(bundle)


def test_arrays_and_tables_are_those_of_the_model(bundle, payload):
    predictions = bundle.model.predict(bundle.graph)
    np.testing.assert_allclose(decode_array(payload["steps"]), predictions.steps)
    np.testing.assert_array_equal(decode_array(payload["prediction"]), predictions.classes)
    np.testing.assert_allclose(
        decode_array(payload["probabilities"]).reshape(predictions.probabilities.shape), predictions.probabilities
    )
    by_class = {row["name"]: row for row in payload["tables"][0]["rows"]}
    for number, name in enumerate(bundle.graph.class_names):
        nodes = predictions.classes == number
        if nodes.any():
            assert by_class[name]["nodes"] == nodes.sum()
            assert by_class[name]["steps"] == pytest.approx(predictions.steps[nodes].mean())
    for table in payload["tables"]:
        assert sum(row["nodes"] for row in table["rows"]) == bundle.graph.num_nodes
    test = bundle.model.split.test
    assert np.sum(payload["confusion"]["counts"]) == len(test)
    correct = np.trace(payload["confusion"]["counts"])
    assert correct == (predictions.classes[test] == bundle.graph.labels[test]).sum()


def test_propagation_of_the_page_gives_the_probabilities_of_the_model(bundle, payload):
    """r_k = e_i A^k and z_i^k = r_k z^0, with which the page shows the steps of a node, give the model's own logits."""
    nodes, classes = bundle.graph.num_nodes, bundle.graph.num_classes
    matrix = sparse.csr_matrix(
        (decode_array(payload["weights"]), decode_array(payload["indices"]), decode_array(payload["indptr"])),
        shape=(nodes, nodes),
    )
    z = [decode_array(payload["z0"]).reshape(nodes, classes).astype(np.float64)]
    for _ in range(payload["max_steps"]):
        z.append(matrix @ z[-1])
    weight, bias = (bundle.model.weights[f"propagation.halting_unit.{name}"].numpy()[0] for name in ("weight", "bias"))
    h = 1 / (1 + np.exp(-(np.stack(z[1:]) @ weight[:, 0] + bias[0, 0])))
    steps = 1 + (h[:-1].cumsum(axis=0) < 0.99).sum(axis=0)
    assert (steps == decode_array(payload["steps"])).mean() > 0.999
    last = int(steps[11])
    output = np.zeros(classes)
    p = 0.0
    for k in range(1, last + 1):
        p = 1 - p if k == last else p + h[k - 1, 11]
        output += (p * z[k][11] + (1 - p) * z[k - 1][11]) / last
    probabilities = torch.as_tensor(output / payload["temperature"]).softmax(-1).numpy()
    np.testing.assert_allclose(
        probabilities, decode_array(payload["probabilities"]).reshape(nodes, classes)[11], atol=1e-4
    )


def test_distances_are_counted_from_training_nodes(bundle, payload):
    rows = {row["name"]: row["nodes"] for row in payload["tables"][2]["rows"]}
    assert rows["0"] == len(bundle.model.split.train)
    train = bundle.model.split.train
    is_neighbour = np.asarray(bundle.graph.adjacency[train].sum(axis=0)).ravel() > 0
    assert rows["1"] == np.setdiff1d(np.flatnonzero(is_neighbour), train).size


def test_neighbours_are_drawn_near_each_other(cora):
    positions = node_positions(cora.adjacency)
    assert positions.min() >= 0
    assert positions.max() <= 1
    coo = cora.adjacency.tocoo()
    edge_lengths = np.linalg.norm(positions[coo.row] - positions[coo.col], axis=1)
    random = np.random.default_rng(0)
    random_lengths = np.linalg.norm(positions - positions[random.permutation(len(positions))], axis=1)
    assert np.median(edge_lengths) < 0.25 * np.median(random_lengths)
    np.testing.assert_array_equal(positions, node_positions(cora.adjacency))


def test_small_components_are_drawn_below_the_largest():
    adjacency = sparse.block_diag([np.ones((5, 5)) - np.eye(5), np.zeros((3, 3)), [[0, 1], [1, 0]]], format="csr")
    positions = node_positions(adjacency)
    assert len(np.unique(positions, axis=0)) == 10
    assert positions[:5, 1].max() < positions[5:, 1].min()


def test_part_around_a_node_has_its_nearest_nodes_and_their_exact_states(bundle):
    part = build_payload(bundle, node="paper 3", max_nodes=50)
    assert len(part["ids"]) == 50
    assert "paper 3" in part["ids"]
    full = build_payload(bundle)
    in_degrees = dict(zip(full["ids"], decode_array(full["in_degrees"]), strict=True))
    assert decode_array(part["in_degrees"]).tolist() == [in_degrees[name] for name in part["ids"]]
    assert set(decode_array(full["exact_steps"])) == {255}
    exact_steps = decode_array(part["exact_steps"])
    assert exact_steps.min() == 0  # of a node with an in-neighbour that is not drawn
    center = part["ids"].index("paper 3")
    assert exact_steps[center] >= 1
    in_part = states_by_step(part, center, exact_steps.max())
    in_whole = states_by_step(full, full["ids"].index("paper 3"), exact_steps.max())
    for k in range(exact_steps[center] + 1):
        np.testing.assert_allclose(in_part[k], in_whole[k], atol=1e-5)
    with pytest.raises(InvalidInput, match="a page draws at most 100 nodes, but the graph has 2,485; name a node"):
        build_payload(bundle, max_nodes=100)


def states_by_step(payload, node, last):
    """z_i^k of a node for k = 0 to `last`, from the arrays of the page."""
    count = len(payload["ids"])
    arrays = (decode_array(payload[name]) for name in ("weights", "indices", "indptr"))
    matrix = sparse.csr_matrix(tuple(arrays), shape=(count, count))
    z = [decode_array(payload["z0"]).reshape(count, -1)]
    for _ in range(last):
        z.append(matrix @ z[-1])
    return [states[node] for states in z]


def test_models_without_halting_or_with_another_operator_have_no_page(cora):
    for model in (APPNPConfig(), APAPPNPConfig()):
        with pytest.raises(InvalidInput, match=f"the model must be AP-GCN, .* but it is {model.title}"):
            build_payload(train_bundle(cora, model=model, epochs=1))


def test_no_text_becomes_markup(payload):
    text = render_explanation(payload)
    assert NASTY not in text
    assert json.loads(re.search(r'id="data">(.*?)</script>', text, re.S)[1])["ids"][7] == NASTY
    assert not re.search(r"(src|href)=\"?https?:", text)


# --- in a browser ---


@pytest.fixture
def opened(browser, payload, tmp_path):
    """A function that opens the page of a payload; console messages and requests fail the test."""
    path = tmp_path / "steps.html"
    messages: list[str] = []

    def open_payload(content=payload, **options):
        write_explanation(path, content)
        size = {"viewport": {"width": 1400, "height": 1000}, **options}
        return open_page(browser, path, messages, ready="document.getElementById('graph').width > 100", **size)

    yield open_payload
    assert messages == []
    for context in browser.contexts:
        context.close()


def colours(view):
    """The colours of more than 200 opaque pixels of the canvas."""
    return view.evaluate(
        """() => {
            const canvas = document.getElementById("graph"), copy = document.createElement("canvas"), seen = {};
            [copy.width, copy.height] = [canvas.width, canvas.height];
            const context = copy.getContext("2d", { willReadFrequently: true });
            context.drawImage(canvas, 0, 0);
            const d = context.getImageData(0, 0, copy.width, copy.height).data;
            for (let i = 0; i < d.length; i += 4)
                if (d[i + 3] > 250) { const k = [d[i], d[i + 1], d[i + 2]]; seen[k] = (seen[k] || 0) + 1; }
            return Object.entries(seen).filter(([, n]) => n > 200).map(([k]) => k);
        }"""
    )


def test_search_click_and_colouring_work(opened, payload):
    view = opened()
    assert view.inner_text("#title") == f"{NASTY}: propagation steps per node"
    by_steps = set(colours(view))
    assert len(by_steps) >= 3
    view.select_option("#colour", "prediction")
    view.wait_for_timeout(100)
    by_class = set(colours(view))
    assert by_class
    assert by_class != by_steps
    assert NASTY in view.inner_text("#legend")
    view.fill("#search", "paper 11")
    assert view.inner_text("#node").startswith("paper 11")
    steps = int(decode_array(payload["steps"])[11])
    assert view.locator("#node table").nth(2).locator("tr").count() == steps + 2  # the header, and step 0
    view.locator("#node .link").first.click()
    assert view.get_attribute("#node", "data-node") != "paper 11"
    view.fill("#search", "no such paper")
    assert view.inner_text("#status") == "no such node"
    view.click("#reset")
    box = view.locator("#graph").bounding_box()
    before = view.get_attribute("#node", "data-node")
    view.mouse.wheel(0, -300)
    for x in range(20, 80, 4):  # somewhere there is a node
        view.mouse.click(box["x"] + box["width"] * x / 100, box["y"] + box["height"] / 2)
        if view.get_attribute("#node", "data-node") != before:
            break
    assert view.get_attribute("#node", "data-node") != before


def test_circles_grow_with_confidence_and_held_out_nodes_are_evaluated(opened, payload):
    view = opened()
    radii = view.evaluate(
        """() => {
            const radii = [], arc = context.arc;
            context.arc = function (x, y, r, from, to) { radii.push(r); return arc.call(context, x, y, r, from, to); };
            draw();
            context.arc = arc;
            return radii;
        }"""
    )
    confidence = decode_array(payload["probabilities"]).reshape(len(payload["ids"]), -1).max(axis=1)
    circles = np.sort(confidence[decode_array(payload["set"]) != 1])
    np.testing.assert_allclose(np.sort(radii) / np.max(radii), (0.5 + circles) / (0.5 + circles.max()), rtol=1e-4)
    counts = payload["confusion"]["counts"]
    cells = view.locator("#confusion tr").nth(2).locator("td").all_inner_texts()
    assert [int(text or 0) for text in cells[1:]] == counts[1]
    opaque_pixels = view.evaluate(
        """() => {
            const box = byId("reliability"), d = box.getContext("2d").getImageData(0, 0, box.width, box.height).data;
            return d.filter((value, i) => i % 4 === 3 && value > 0).length;
        }"""
    )
    assert opaque_pixels > 500


def test_step_zero_of_a_node_is_its_initial_prediction(opened, bundle, payload):
    view = opened()
    view.fill("#search", "paper 11")
    row = view.locator("#node table").nth(2).locator("tr").nth(1).locator("td").all_inner_texts()
    z0 = decode_array(payload["z0"]).reshape(bundle.graph.num_nodes, -1)[11] / payload["temperature"]
    probabilities = torch.as_tensor(z0.copy()).softmax(-1)
    best = int(probabilities.argmax())
    assert row == ["0", f"{payload['classes'][best]} {100 * probabilities[best]:.1f}\u00a0%", "itself only"]


@pytest.mark.parametrize(("freeze", "min_steps"), [(False, 1), (True, 1), (False, 0)])
def test_steps_on_the_page_are_the_states_of_the_model(opened, freeze, min_steps):
    """Step by step, until the node halts; neighbours that halted before it are frozen or not."""
    graph = synthetic_graph(300, edges=600, features=16, classes=4)
    bundle = train_bundle(graph, model=APGCNConfig(penalty=0.05, freeze_halted=freeze, min_steps=min_steps), epochs=200)
    view = opened(build_payload(bundle))
    model, device_graph = bundle.model.build(graph)
    with torch.no_grad():
        z0 = model.predict(device_graph.features, None)
        propagate = model.propagation._frozen if freeze else model.propagation._unfrozen
        states, _, steps = propagate(z0, device_graph.adjacency, None)
    assert len(steps.unique()) > 2
    expected = (states[:, 0] / bundle.model.temperature).softmax(-1).numpy()
    for node in (3, 50, 211, int(steps[0].argmax())):
        trace = view.evaluate("(i) => propagationTrace(i).map(({ probabilities }) => Array.from(probabilities))", node)
        assert len(trace) == steps[0, node] + 1
        np.testing.assert_allclose(trace, expected[: len(trace), node], atol=1e-4)
    assert view.locator("#legend span").first.inner_text() == f"K = {min_steps}"


def test_accuracy_against_cost_is_shown_if_other_penalties_were_trained(opened):
    graph = synthetic_graph(300, edges=600, features=16, classes=4)
    bundle = train_bundle(graph, epochs=60)
    reported = []
    points = penalty_curve(bundle, [0.0, 0.2], callback=reported.append)
    assert reported == points
    assert points[0].messages > points[1].messages > 0
    assert len(bundle.model.split.test) > 0
    repeated = fit(
        graph, bundle.model.split, replace(bundle.model.config, penalty=0.2), bundle.model.training,
        seed=bundle.model.split.seed,
    )  # fmt: skip
    assert points[1].accuracy == repeated.metrics["stopping"]["accuracy"] != repeated.metrics["test"]["accuracy"]
    assert points[0].steps > points[1].steps
    view = opened(build_payload(bundle, curve=points))
    cost = r"Computed [\d,]+ of 3,000 node-steps .*; the prediction took [\d.]+ ms\."
    assert re.match(cost, view.inner_text("#cost"))
    rows = view.locator("#points tr").all_inner_texts()
    assert [row.split()[0] for row in rows] == ["penalty", "0", "0.2"]
    assert not opened(build_payload(bundle)).is_visible("#curve")
    with pytest.raises(InvalidInput, match="penalty must be >= 0"):
        penalty_curve(bundle, [-1])


def test_page_of_twenty_thousand_nodes_stays_responsive(opened):
    graph = synthetic_graph(20_000, edges=60_000, features=8, classes=10)
    view = opened(build_payload(train_bundle(graph, epochs=2)))
    elapsed = view.evaluate("() => { const start = performance.now(); draw(); return performance.now() - start; }")
    assert elapsed < 1500, f"drawing takes {elapsed:.0f} ms"
    select = "selected = -1; selectNode(77, true); draw();"
    search = 'byId("search").value = "77"; byId("search").dispatchEvent(new Event("input"));'
    for action in (select, search):
        elapsed = view.evaluate(
            f"() => {{ const start = performance.now(); {action} return performance.now() - start }}"
        )
        assert elapsed < 1500, f"selecting a node takes {elapsed:.0f} ms"
    assert view.inner_text("#node").startswith("77")


@pytest.mark.parametrize("width", [400, 1400])
def test_id_of_10000_characters_fits_the_page(opened, width):
    graph = synthetic_graph(60, edges=150, features=5, classes=3)
    names = ("long " + "x" * 10_000, *map(str, range(1, graph.num_nodes)))
    view = opened(
        build_payload(train_bundle(replace(graph, node_names=names), epochs=2)),
        viewport={"width": width, "height": 800},
    )
    for node in (names[0], names[graph.adjacency[0].indices[0]]):
        view.fill("#search", node)
        view.press("#search", "Enter")
        wait_until(view, "document.getElementById('node').innerText.length > 100")
        size = view.evaluate("[document.documentElement.scrollWidth, document.documentElement.scrollHeight]")
        assert size[0] <= width, node[:9]
        assert size[1] < 6000, node[:9]


def test_page_fits_a_small_screen(opened):
    view = opened(viewport={"width": 400, "height": 800})
    assert view.evaluate("document.documentElement.scrollWidth") <= 400
