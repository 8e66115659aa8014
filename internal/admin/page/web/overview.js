// The whole host or cluster: sums, problems, nodes, pools, networks, segments, policies and events.

import { make } from "./dom.js";
import { drawEvents, drawProblem } from "./history.js";
import { drawNodes } from "./nodes.js";
import { describeCounts, drawCounts } from "./phase.js";
import { linkTo } from "./place.js";
import { drawFacts, drawMore, drawSection, drawTable } from "./table.js";
import { describeCount, describeNumber } from "./words.js";

// drawOverview draws a cluster.
export function drawOverview(overview, place, events) {
  return [
    make("h1", null, `Cluster ${overview.name}`),
    drawSums(overview),
    drawProblems(overview.problems, overview.moreProblems),
    drawNodes(overview.nodes, place),
    make("div", { class: "columns", "data-key": "parts" }, drawParts(overview)),
    drawSection("Events", drawEvents(events)),
  ];
}

// drawParts draws what several nodes share.
export function drawParts(overview) {
  return [drawPools(overview.pools), drawNetworks(overview.networks), drawSegments(overview.segments, overview.cluster), drawPolicies(overview.policies)];
}

function sumUp(nodes) {
  const vfs = { total: 0, used: 0, free: 0, quarantined: 0, making: 0, unmanaged: 0 };
  let down = 0, notReady = 0;
  for (const node of nodes) {
    for (const state of Object.keys(vfs)) vfs[state] += node.vfs[state];
    down += node.linkDown;
    if (!node.ready) notReady++;
  }
  return { vfs, down, notReady };
}

function drawSums(overview) {
  const { vfs, down, notReady } = sumUp(overview.nodes);
  const problems = overview.problems.length + (overview.moreProblems ?? 0);
  const tile = (key, number, text, ...more) => make("div", { class: "tile", "data-key": key }, make("b", null, describeNumber(number)), make("span", null, text), more);
  const toList = (only, text) => make("a", { class: "warn", href: linkTo({ only }) }, text);
  return make("div", { class: "tiles", "data-key": "sums" },
    tile("nodes", overview.nodes.length, "nodes", notReady ? toList("not-ready", `▲ ${notReady} not ready`) : make("span", { class: "soft" }, "all ready")),
    make("div", { class: "tile large", "data-key": "vfs" }, make("b", null, describeNumber(vfs.total)), make("span", null, "VFs"), drawCounts(vfs), make("span", { class: "soft" }, describeCounts(vfs))),
    tile("problems", problems, "problems", problems > 0 && toList("problems", "▲ nodes with problems")),
    tile("links", down, "PFs without a link"));
}

const shownProblems = 3;

// drawProblems draws problems, the first ones at once.
export function drawProblems(problems, more = 0, linkOf = (p) => p.node && linkTo({ node: p.node, vf: vfOf(p) })) {
  if (!problems?.length) return null;
  const rest = problems.slice(shownProblems);
  const list = (some) => make("ul", { class: "problems" }, some.map((p) => drawProblem(p, linkOf(p))));
  return drawSection("Problems", list(problems.slice(0, shownProblems)),
    rest.length > 0 && drawMore("more-problems", `${describeNumber(rest.length + more)} more`, () => [list(rest),
      more > 0 && make("p", { class: "soft" }, `${describeNumber(more)} are not listed here; each node has its own list.`)]));
}

// vfOf returns the VF that a problem is about; "" if it is about none.
export const vfOf = (problem) => problem.object.match(/^VF (\S+#\d+)$/)?.[1] ?? "";

export function drawPools(pools) {
  return drawSection("Pools", drawTable("Pools", [
    ["Pool", (p) => make("span", { class: "long" }, p.name)],
    ["VFs", (p) => drawCounts(p.vfs), "meters"],
    ["Used", (p) => `${describeNumber(p.vfs.used)} of ${describeNumber(p.vfs.total)}`, "number"],
    ["Free", (p) => (p.vfs.free ? describeNumber(p.vfs.free) : make("b", { class: "warn" }, "▲ full")), "number"],
  ], pools, (p) => p.name));
}

const beyondCount = 2 ** 62; // a pool of IPv6 has more addresses than a number says

function drawNetworks(networks) {
  const addresses = (n) => !n.addresses ? "–" : n.addresses > beyondCount ? `${describeNumber(n.granted)} granted` : `${describeNumber(n.granted)} of ${describeNumber(n.addresses)}`;
  return drawSection("Networks", drawTable("Networks", [
    ["Network", (n) => make("span", { class: "long" }, n.name)],
    ["VFs", (n) => describeNumber(n.vfs), "number"],
    ["Addresses granted", (n) => make("span", { class: n.addresses && n.granted >= n.addresses ? "warn" : undefined }, addresses(n)), "number"],
    ["Nodes", (n) => describeNumber((n.nodes?.length ?? 0) + (n.moreNodes ?? 0)), "number"],
    ["Owners", (n) => make("span", { class: "long soft", title: n.owners?.join(", ") }, describeNumber((n.owners?.length ?? 0) + (n.moreOwners ?? 0))), "number"],
  ], networks, (n) => n.name));
}

function drawSegments(segments, isCluster) {
  if (!segments?.length) return null;
  return drawSection("Segments", segments.map((s) => drawMore(`segment ${s.name}`,
    [make("b", null, s.name), make("span", { class: "soft" }, ` ${describeCount(s.pfs.length + (s.more ?? 0), "PF")}`),
      s.pfs.some((p) => !p.carrier) && make("span", { class: "warn" }, ` ▲ ${s.pfs.filter((p) => !p.carrier).length} without a link`)],
    () => [make("ul", { class: "members" }, s.pfs.map((p) => make("li", null, make("a", { href: linkTo({ node: isCluster && p.node }) }, isCluster ? `${p.node} ${p.pf}` : p.pf), !p.carrier && make("span", { class: "warn" }, " ▲ no link")))),
    s.more > 0 && make("p", { class: "soft" }, `and ${describeNumber(s.more)} more`)])));
}

function drawPolicies(policies) {
  return drawSection("Policies", drawTable("NodePolicies", [
    ["NodePolicy", (p) => make("span", { class: "long" }, p.name)], ["Priority", (p) => p.priority, "number"],
    ["Applied", (p) => make("span", { class: p.applied < p.nodes ? "warn" : undefined }, `${p.applied < p.nodes ? "▲ " : ""}${p.applied} of ${describeCount(p.nodes, "node")}`), "number"],
  ], policies, (p) => p.name));
}

// drawServices draws how a node balances connections to Services.
export function drawServices(services) {
  if (!services) return null;
  return drawSection("Services", drawFacts([
    ["Mechanism", services.mechanism], ["Why", services.why], ["Services", services.services], ["Backends", services.backends], ["Pods", services.pods],
    ["No room", services.noRoom?.length ? make("span", { class: "warn" }, `▲ ${services.noRoom.join(", ")}`) : null], ["Other eBPF programs", services.before?.join(", ")],
  ]));
}
