// One node: its problems, NICs, bonds, pools, Services and events.

import { make } from "./dom.js";
import { drawEvents } from "./history.js";
import { drawLoudest } from "./loudest.js";
import { drawNICs } from "./nic.js";
import { drawParts, drawPools, drawProblems, drawServices, vfOf } from "./overview.js";
import { linkTo } from "./place.js";
import { drawSection, drawTable } from "./table.js";
import { describeOwner, describeAge, describeTime } from "./words.js";

// drawNode draws a node. overview is that of a host whose only node it is, or of its cluster.
export function drawNode(node, { overview, flows, place, events }) {
  const { cluster, hasRates } = overview;
  const isLoudest = place.view === "loudest" && hasRates;
  return [
    cluster && make("p", { class: "trail", "data-key": "trail" }, make("a", { href: linkTo({}) }, `← Cluster ${overview.name}`)),
    make("div", { class: "title", "data-key": "title" },
      make("h1", null, `${cluster ? "Node" : "Host"} ${node.node}`),
      make("p", { class: "soft" }, make("span", { class: node.ready ? "up" : "down" }, node.ready ? "● Ready" : "▲ Not ready"), ` · culvertd ${node.version}`,
        cluster && ` · reported ${describeAge(node.time)} ago`, node.trial && ` · host.yaml is on trial until ${describeTime(node.trial.until)}`),
      hasRates && drawViews(place, isLoudest)),
    drawProblems(node.problems, 0, (p) => vfOf(p) && linkTo({ ...place, vf: vfOf(p) })),
    isLoudest ? drawLoudest(node, flows, place) : drawNICs(node, flows, place, hasRates),
    drawBonds(node.vfs ?? [], place),
    make("div", { class: "columns", "data-key": "parts" }, cluster ? drawPools(node.pools) : drawParts(overview), drawServices(node.services)),
    drawSection("Events", drawEvents(events)),
  ];
}

function drawViews(place, isLoudest) {
  const view = (name, text, isShown) => make("a", { class: "button", href: linkTo({ ...place, view: name }), "aria-current": isShown && "page" }, text);
  return make("nav", { class: "tools", "aria-label": "Views of the node" }, view("", "NICs", !isLoudest), view("loudest", "Loudest first", isLoudest));
}

// drawBonds lists the bonds of pods, with the VFs that are members.
function drawBonds(vfs, place) {
  const bonds = new Map();
  for (const vf of vfs.filter((v) => v.bond)) {
    const key = `${vf.owner?.uid} ${vf.owner?.interface}`;
    bonds.set(key, [...(bonds.get(key) ?? []), vf]);
  }
  return drawSection("Bonds", drawTable("Bonds of VFs", [
    ["Owner", ([vf]) => make("span", { class: "long" }, describeOwner(vf.owner))], ["Interface", ([vf]) => vf.owner?.interface], ["Mode", ([vf]) => vf.bond.mode],
    ["VFs", (members) => [members.map((vf) => [make("a", { href: linkTo({ ...place, vf: vf.name }), "data-vf": vf.name }, vf.name), vf.noCarrier && " ▲ no link", " "]),
      members.length < members[0].bond.links && make("span", { class: "warn" }, `▲ ${members.length} of ${members[0].bond.links}`)]],
  ], [...bonds.values()]));
}
